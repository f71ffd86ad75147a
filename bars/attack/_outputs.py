"""Outputs: hostile text in every field and every medium; nothing acts, hides, or shows a secret.

What comes from a trace, a file name or another person's file is made visible first: no control
character, no direction mark, nothing without ink, no line that commands a CI system; in Markdown no
mention, reference or link outside of code; in CSV no formula; in pages no script and no outside
address (docs/explanation/threat-model.md, docs/explanation/secrets.md).
"""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import msgspec

from bars.attack._cases import SECRET, Case, Done, Place, coded

# Kinds of signs that earlier tests do not have: 8-bit control, an address of a terminal, tags,
# fillers, joiners, annotations, separators of lines, variation selectors, a soft hyphen.
SIGNS = (
    "\x9b31m\x1b]8;;http://e.vil\x07\x08\x7f\r\x0b\x0c\x85\u2028\u2029\U000e0041\U000e007f"
    "\u3164\u115f\u180e\u2060\u2064\ufff9\ufffb\u00ad\u061c\u2066\u206f\u034f"
)
REFERS = (
    "@octo/cat fixes #7 acme/tool#8 https://e.vil ![i](http://e.vil/p) [l]: http://e.vil <!-- x"
)
MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)> ]]> &lt;b&gt; {{7*7}} ${x}"
HOSTILE = f"{SIGNS} {REFERS} {MARKUP} ##[set-env name=a]b ::add-mask::c {SECRET}"
LINES = f"{HOSTILE}\n::warning file=a::{HOSTILE}\r\n  ::set-output name=x::y\n\u2028::error::z"
FORMULA = ("=1+1", "+1", "-1+1", "@SUM(1)", "|cmd", "%0A", "\t=1", "\r=1", "\uff1d1", "\u202e=1")

COMMAND = re.compile(r"(?:^|[\r\n\x0b\x0c\x85\u2028\u2029])\s*::\w|##\w*\[")
REFERENCE = re.compile(r"@\w|\w#\d|(?<![\w&])#\d|\bgh-\d|://|\bwww\.|<!--|!\[|\]:", re.IGNORECASE)
CODE = re.compile(r"<code>[^<]*</code>|(`+)(?!`).*?(?<!`)\1(?!`)")
WITHOUT_INK = {"Cf", "Cc", "Cs", "Zl", "Zp"}
FILLERS = "\u3164\u115f\u034f\u180e"


def hidden(said: str) -> str:
    """Return what in a text cannot be seen or moves other text, by its name."""
    found = {
        f"U+{ord(sign):04X}"
        for sign in said
        if sign not in "\n\t" and (unicodedata.category(sign) in WITHOUT_INK or sign in FILLERS)
    }
    return " ".join(sorted(found))


def inert(said: str, form: str = "") -> str:
    """Return why a text is not inert in its medium."""
    if found := hidden(said):
        return f"characters that cannot be seen: {found}"
    if SECRET[:16] in said:
        return "a secret is shown"
    if form == "--json":
        json.loads(said)
        return ""
    if COMMAND.search(said):
        return f"a line commands: {COMMAND.search(said)!r}"
    if form == "--junit":
        for node in ElementTree.fromstring(said).iter():
            for text in (*node.attrib.values(), node.text or ""):
                if COMMAND.search(text) or hidden(text):
                    return f"JUnit holds {text[:80]!r}"
    if form == "--markdown":
        own = "<!-- stepscope:"
        kept = "\n".join(line for line in said.splitlines() if not line.startswith(own))
        shown = html.unescape(CODE.sub("", kept))
        if found_at := REFERENCE.search(shown):
            return f"Markdown refers: {shown[max(0, found_at.start() - 30) :][:80]!r}"
    return ""


def toml(text: str) -> str:
    """Return a text as TOML writes it: every sign that could be hidden as its escape."""
    plain = (
        c if c.isascii() and c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}"
        for c in text
    )
    return '"' + "".join(plain) + '"'


def both(done: Done, form: str = "") -> str:
    """Return why what a command printed is not inert."""
    if not done.out.strip():
        form = ""
    return inert(done.out, form) or inert(done.err)


def made_runs(fails: bool, tasks: int) -> list[Any]:
    """Runs of two agents, every text hostile."""
    from stepscope.model import Outcome, ToolCall
    from tests.factories import PASSED, agent, calls, did, failed, result, run, user

    told = Outcome("fail", "check", 0.0, f"because {LINES}") if fails else PASSED
    return [
        msgspec.structs.replace(
            run(
                user(LINES),
                *did(f"push {HOSTILE}", LINES, **{HOSTILE: LINES, "password": SECRET}),
                *failed(f"pull {HOSTILE}", f"Error: {LINES}"),
                *failed(f"pull {HOSTILE}", f"Error: {LINES}"),
                calls(ToolCall(f"lost {HOSTILE}", {"a": [{HOSTILE: HOSTILE}]}), text=LINES),
                result(LINES, "error"),
                agent(LINES),
            ),
            id=f"run{task}{who}{trial}",
            task=f"{task} {LINES}",
            trial=f"{trial} {HOSTILE}",
            workflow=HOSTILE,
            agent=f"{who} {LINES}",
            agent_version=HOSTILE,
            tags={"k": LINES, HOSTILE: HOSTILE},
            outcome=told if who == "b" else PASSED,
            name=f"{task}/{who}{trial} {LINES}",
        )
        for task in range(tasks)
        for who in "ab"
        for trial in range(2)
    ]


SETTINGS = """store = "s.db"
[workflow.NAME]
baseline = "base.json"
[workflow.NAME.gates]
outcome = { max_drop = 0.05 }
loops = { max_per_run = 0 }
"""


def prepare(place: Place) -> None:
    """Make a store of hostile runs, scored, and a baseline of others."""
    from stepscope.api.notebook import Notebook
    from stepscope.settings import Settings
    from stepscope.store import Store

    place.write("stepscope.toml", SETTINGS.replace("NAME", toml(HOSTILE)))
    for fails, tasks in ((False, 4), (True, 3)):
        Path("s.db").unlink(missing_ok=True)
        with Notebook(Store.open("s.db"), Settings()) as notebook:
            notebook.store.put(made_runs(fails, tasks))
            notebook.score(workers=1)
        if not fails:
            place.must("baseline", "update", "--yes")


def _said(*words: str, form: str = "") -> Callable[[Place], str]:
    """Return what runs one command and holds what it prints against its medium."""

    def do(place: Place) -> str:
        done = place.run(*words, *([form] if form else []))
        if form and done.code == 2 and "No such option" in done.err:
            return f"no such form: the case is wrong: {words} {form}"
        if len(done.said) < 10:
            return "it says nothing"
        return both(done, form)

    return do


PRINTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "show": (("show", "run0b0"), ("", "--json")),
    "one step": (("show", "run0b0", "--step", "4"), ("", "--json")),
    "some steps": (("show", "run0b0", "--steps", "0:9"), ("",)),
    "report": (("report",), ("", "--json", "--markdown", "--junit")),
    "report by a tag": (("report", "--by", "tag.k"), ("", "--json", "--markdown")),
    "report by version": (("report", "--by", "agent_version"), ("", "--markdown")),
    "report of many to look at": (("report", "--look-first", "40"), ("", "--markdown")),
    "gate": (("gate",), ("", "--json", "--markdown", "--junit")),
    "agree": (("agree",), ("", "--json")),
    "score again": (("score",), ("", "--json")),
    "doctor": (("doctor",), ("", "--json")),
    "purge": (("purge", "--where", "outcome = 'fail'", "--yes"), ("", "--json")),
    "a new baseline": (("baseline", "update", "--yes"), ("", "--json")),
    "judge without judges": (("judge", "--dry-run", "--judge", f"local/{HOSTILE}"), ("",)),
    "compare with nobody": (("compare", HOSTILE, "x"), ("", "--json", "--markdown")),
}  # fmt: skip

MISTAKES: dict[str, tuple[str, ...]] = {
    "a condition": ("report", "--where", f"agent = {LINES}"),
    "a field": ("report", "--by", LINES),
    "a figure": ("report", "--get", LINES),
    "an option": ("report", f"--{LINES}"),
    "a command": (LINES,),
    "a run": ("show", LINES),
    "a store": ("report", "--store", f"no/{LINES[:60]}"),
    "settings": ("gate", "--config", f"no/{LINES[:60]}"),
    "traces": ("gate", "--runs", f"no/{LINES[:60]}"),
    "a file": ("import", f"no{LINES[:60]}"),
    "a workflow": ("gate", "--workflow", LINES),
    "a format": ("import", "s.db", "--format", LINES),
    "a backend": ("import", f"phoenix:{LINES[:60]}"),
    "a rubric": ("judge", "--judge", "local/a", "--rubric", LINES),
    "a judge": ("judge", "--judge", LINES),
    "a measure": ("score", "--measure", LINES),
    "a date": ("report", "--since", LINES),
    "a tag": ("import", "s.db", "--tag", LINES),
    "scores": ("shape", f"no{LINES[:60]}"),
    "verdicts": ("import", "--verdicts", f"no{LINES[:60]}"),
}


class _Page(HTMLParser):
    """What in a page would run, load or lead elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.texts: list[str] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        for name, value in attrs:
            if name.startswith("on"):
                self.wrong.append(f"{tag} {name}")
            if name in ("src", "href", "action") and re.match(r"\s*(\w+:)?//", value or ""):
                self.wrong.append(f"{tag} {name}={value!r:.60}")
        if tag in ("img", "iframe", "object", "base", "form") and ("src", "x") in attrs:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self._within == "script" and "alert(1)" in data and "</script" in data.lower():
            self.wrong.append("a script that is closed amid it")
        if self._within not in ("script", "style"):
            self.texts.append(data)


def _page(place: Place) -> str:
    place.must("report", "--html", "r.html", "--embed", "all")
    text = Path("r.html").read_text("utf-8")
    page = _Page()
    page.feed(text)
    if page.wrong:
        return str(page.wrong[:3])
    if "<script>alert(1)" in text or "<img src=x" in text:
        return "markup of a trace stands in the page"
    if SECRET[:16] in text:
        return "a secret is shown"
    seen = hidden("".join(page.texts).replace("\r", ""))
    return f"characters that cannot be seen: {seen}" if seen else ""


def _page_texts_spelt(place: Place) -> str:
    """No script data of the page holds a raw character that would hide or move text."""
    place.must("report", "--html", "r.html", "--embed", "all")
    text = Path("r.html").read_text("utf-8")
    found = {sign for sign in text if sign in "\u202e\u200b\u2066\U000e0041\u2028\x9b"}
    return f"raw {sorted(map(hex, map(ord, found)))}" if found else ""


def _charts(place: Place) -> str:
    done = place.run("report", "--plots", "plots", "--by", "agent")
    if done.code not in (0, 2, 4, 5):
        return coded(done, (0,))
    for path in Path("plots").rglob("*.svg"):
        text = path.read_text("utf-8")
        ElementTree.fromstring(text)
        if "<script" in text or SECRET[:16] in text or hidden(text):
            return f"{path.name}: {hidden(text) or 'a script or a secret'}"
    return both(done)


def _gate_writes(place: Place) -> str:
    place.run("gate", "--write", "w")
    for path in Path("w").rglob("*"):
        if path.is_file():
            form = {".json": "--json", ".xml": "--junit"}.get(path.suffix, "--markdown")
            if wrong := inert(path.read_text("utf-8"), form):
                return f"{path.name[:40]}: {wrong}"
    return "" if any(Path("w").rglob("*.md")) else "no comment was written"


def _one_marker(place: Place) -> str:
    """A task called like the marker of a comment makes no second marker."""
    place.run("gate", "--write", "w")
    (text,) = (path.read_text("utf-8") for path in Path("w").rglob("*.md"))
    return "" if text.count("<!--") == 1 else f"{text.count('<!--')} comments of HTML"


def _workflow_named(name: str) -> Callable[[Place], str]:
    """Return what gates a workflow of this name and looks where its comment is written."""

    def do(place: Place) -> str:
        settings = f"[workflow.{toml(name)}.gates]\noutcome = {{ min_rate = 1.0 }}\n"
        place.write("in/stepscope.toml", settings)
        said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
        run = {"task_id": "a", "workflow": name, "reward": 0.0, "messages": said}
        place.write("in/t.jsonl", json.dumps(run))
        before = set(place.folder.parent.rglob("*"))
        done = place.run("gate", "--config", "in", "--runs", "in/t.jsonl", "--write", "in/w/x/y")
        more = set(place.folder.parent.rglob("*")) - before
        astray = [path for path in more if not path.is_relative_to(place.folder / "in")]
        return f"written outside: {astray}" if astray else coded(done, (2, 3, 4))

    return do


def _large_comment(place: Place) -> str:
    """A forge takes 65,536 characters; a comment that is longer is never posted."""
    from bars.attack import _gates as gates

    place.write("g/stepscope.toml", gates.policy("outcome = { min_rate = 1.0 }", ""))
    name = "n" * 400
    made = [gates.line(c, 0, passed=False, run_id=f"{name}{c}") for c in range(900)]
    place.write("g/t.jsonl", (r.replace('d": "c', f'd": "{name}') for r in made))
    place.run("gate", "--config", "g", "--runs", "g/t.jsonl", "--write", "w")
    sizes = [len(path.read_text("utf-8")) for path in Path("w").rglob("*.md")]
    return "" if max(sizes) <= 65_536 else f"{max(sizes)} characters"


def _file_named(name: bytes, *words: str, form: str = "") -> Callable[[Place], str]:
    """Return what lets commands read a file of this name, whose second record is broken."""

    def do(place: Place) -> str:
        from bars.attack import _gates as gates

        (place.folder / "d").mkdir()
        with Path(os.fsdecode(os.fsencode(place.folder) + b"/d/" + name)).open("wb") as file:
            file.write(gates.line(1, 1).encode() + b'\n{"task_id": "' + LINES.encode() + b"\n{]")
        return both(place.run(*words, *([form] if form else [])), form)

    return do


NAME = f"{SIGNS.replace('/', '')[:20]}##[add-mask]x @octocat #7 <b>\n::error::{SECRET[:60]}.jsonl"


def _zip_member(place: Place) -> str:
    import zipfile

    with zipfile.ZipFile("z.zip", "w") as packed:
        packed.writestr(f"a\n::error::{HOSTILE[:150]}.jsonl", '{"task_id": "x"}\n{]')
        packed.writestr(f"../{HOSTILE[:150]}.jsonl", "{]")
    return both(place.run("import", "z.zip"))


def _quarantine(place: Place) -> str:
    """The reason why a record is set aside quotes what was wrong in it."""
    rows = [
        json.dumps({"task_id": "a", "messages": [{"role": LINES, "content": 7}]}),
        json.dumps({"schema": LINES, "kind": HOSTILE, "steps": [{"actor": HOSTILE}]}),
        json.dumps({"task_id": "a", "messages": [{"role": "user", "content": {HOSTILE: LINES}}]}),
    ]
    place.write("q.jsonl", rows)
    return both(place.run("import", "q.jsonl", "--store", "new.db"))


def _quarantine_gated(place: Place) -> str:
    """Records that are unread are said in the comment of a gate."""
    _quarantine(place)
    place.write("stepscope.toml", SETTINGS.replace("NAME", toml(HOSTILE)))
    for form in ("", "--markdown", "--junit", "--json"):
        if wrong := both(place.run("gate", "--runs", "q.jsonl", *([form] if form else [])), form):
            return f"{form}: {wrong}"
    return ""


def _ratings(place: Place) -> Path:
    rows = ["run,step,label,judge,reason,axis"]
    out = io.StringIO()
    writer = csv.writer(out)
    for task in range(3):
        for who in range(4):
            label = "correct" if who % 2 else "incorrect"
            reason = FORMULA[(task + who) % len(FORMULA)] + LINES
            writer.writerow([f"run{task}b{who % 2}", "", label, f"{FORMULA[who]}{HOSTILE}", reason,
                             "termination"])  # fmt: skip
    return place.write("v.csv", rows[0] + "\n" + out.getvalue())


def _verdicts(*words: str, form: str = "") -> Callable[[Place], str]:
    def do(place: Place) -> str:
        _ratings(place)
        done = place.run("import", "--verdicts", "v.csv", "--rubric", "axes", "--human")
        if wrong := both(done):
            return f"import: {wrong}"
        return both(place.run(*words, *([form] if form else [])), form) if words else ""

    return do


def _formulas(place: Place) -> str:
    _ratings(place)
    place.run("import", "--verdicts", "v.csv", "--rubric", "axes", "--human")
    done = place.run("agree", "--queue", "20", "--csv")
    for row in csv.reader(io.StringIO(done.out)):
        for cell in row:
            if re.match("[=+@|%\t\r\uff1d\uff0b\uff20\uff0d]|-\\D", cell.lstrip()):
                return f"a cell begins a formula: {cell[:60]!r}"
    return inert(done.out)


def _outcomes(place: Place) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerows([["run", "outcome", "who", "reason"], ["run0b0", "fail", LINES, LINES],
                      [LINES, "pass", "check", ""], ["run0a0", LINES, "check", ""]])  # fmt: skip
    place.write("o.csv", out.getvalue())
    done = place.run("import", "--outcomes", "o.csv")
    return both(done) or both(place.run("report")) or both(place.run("show", "run0b0"))


def _scores(*words: str, form: str = "") -> Callable[[Place], str]:
    def do(place: Place) -> str:
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["run", "step", "score", "repeat", "judge", "task", "agent"])
        for run in range(3):
            for step in range(8):
                for repeat in range(2):
                    writer.writerow([f"{run} {LINES}", step, (step * 7 + repeat + run) % 10 / 10,
                                     repeat, LINES, LINES, LINES])  # fmt: skip
        place.write("scores.csv", out.getvalue())
        done = place.run(*words, *([form] if form else []))
        return both(done, form) if len(done.said) > 20 else "it says nothing"

    return do


def _toml_says(text: str) -> Callable[[Place], str]:
    """Return what reads hostile settings, as a pull request may bring them."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", text)
        done = place.run("report")
        return coded(done, (2,)) or both(done)

    return do


QUOTED = toml(LINES)
TOML = {
    "a key": f"{QUOTED} = 1\n",
    "a table": f"[{QUOTED}]\na = 1\n",
    "the name of a rule": f"[[policy]]\nname = {QUOTED}\n",
    "a pattern": f"[[policy]]\nname = 'a'\nforbid = 'x'\nwhere = {{ a = {toml('(' + LINES)} }}",
    "a gate": f"[workflow.w.gates]\n{QUOTED} = {{ max_rate = 0.1 }}\n",
    "an effect": f"[tools]\nx = {QUOTED}\n",
    "an address": f'[judges.model."local/a"]\nbase_url = {QUOTED}\n',
    "no TOML": f"a = {HOSTILE}\n",
}

# Secrets of many kinds, where a name or their own form gives them away, and as they are written.
KINDS = {
    "a key of Anthropic": "sk-ant-api03-" + "aB3dE5fG7hJ9kL1m" * 5 + "-AA",
    "a token of GitHub": "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzZ12",
    "a fine token of GitHub": "github_pat_11ABCDEFG0" + "aB3dE5fG7hJ9_" + "kL1mN2pQ4rS6tU8v" * 3,
    "a token of Slack": "xoxb-" + "123456789012-" * 2 + "aB3dE5fG7hJ9kL1mN2pQ4rS6",
    "a key of Google": "AIza" + "SyB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYz1"[:35],
    "a live key of Stripe": "sk_live_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6",
    "a token of Hugging Face": "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "a password in an address": "postgres://admin:xk9d-q36Zt@db.example/orders",
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq9Zk3Q\n" + "aB3d" * 16
    + "\n-----END RSA PRIVATE KEY-----",
}  # fmt: skip
WRITTEN: dict[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    "in JSON within JSON": lambda secret: json.dumps(json.dumps({"a": secret})),
    "in base64 within percent escapes": lambda s: quote(b64encode(s.encode()).decode(), safe=""),
    "by escapes of JSON": lambda secret: re.sub(r"[-_:@]", lambda m: f"\\u{ord(m[0]):04x}", secret),
}


def _secret(kind: str) -> Callable[[Place], str]:
    """Return what puts a secret, in every writing, into text, arguments and results of a run."""

    def do(place: Place) -> str:
        secret = KINDS[kind]
        core = re.sub(r".*:([^@]*)@.*", r"\1", secret) if "@" in secret else secret[-16:]
        core = "MIIEowIBAAKCAQEA7bq9Zk3Q" if "\n" in secret else core
        said: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        for at, write in enumerate(WRITTEN.values()):
            call = {"id": f"c{at}", "type": "function",
                    "function": {"name": "f", "arguments": json.dumps({"v": write(secret)})}}  # fmt: skip
            said += [
                {
                    "role": "assistant",
                    "content": f"I use {write(secret)} now",
                    "tool_calls": [call],
                },
                {
                    "role": "tool",
                    "tool_call_id": f"c{at}",
                    "content": f"Error: {write(secret)} bad",
                },
            ]
        place.write("k.jsonl", json.dumps({"task_id": "t", "reward": 0.0, "messages": said}))
        place.must("import", "k.jsonl", "--store", "k.db")
        place.must("score", "--store", "k.db")
        place.must("report", "--store", "k.db", "--html", "k.html", "--embed", "all")
        name = json.loads(place.must("report", "--store", "k.db", "--json").out)
        assert name
        texts = {"HTML": Path("k.html").read_text("utf-8")}
        for form in ("", "--json"):
            texts[f"report {form}"] = place.run("report", "--store", "k.db", *form.split()).said
        from stepscope.store import Store

        with Store.open("k.db") as store:
            (run,) = store.trajectories()
        for form in ("", "--json", "--steps 0:20"):
            texts[f"show {form}"] = place.run("show", run.id, "--store", "k.db", *form.split()).said
        parts = {how: (core if how == "as it is" else write(secret)[20:44])
                 for how, write in WRITTEN.items()}  # fmt: skip
        for where, text in texts.items():
            for how, part in parts.items():
                if part in text or part in html.unescape(text):
                    return f"{where} shows it {how}: {part!r}"
        return ""

    return do


def cases() -> list[Case]:
    """Return the cases of this area."""
    expected = "inert: nothing unseen, no command, no reference, no secret"
    found = [
        Case("outputs", f"{name}{' ' + form if form else ''}", expected, "high",
             _said(*words, form=form))
        for name, (words, forms) in PRINTED.items()
        for form in forms
    ]  # fmt: skip
    found += [
        Case("outputs", f"an error that quotes {name}", expected, "high", _said(*words))
        for name, words in MISTAKES.items()
    ]
    found += [
        Case("outputs", f"settings with hostile text as {name}", f"2, and {expected}", "high",
             _toml_says(text))
        for name, text in TOML.items()
    ]  # fmt: skip
    found += [
        Case("outputs", f"{kind}, four writings, in text, arguments and results",
             "hidden in report, show, JSON and pages", "high", _secret(kind))
        for kind in KINDS
    ]  # fmt: skip
    names = {"a path": "../../evil", "two dots": "..", "a long word": "x" * 300, "a line": "a\nb",
             "NUL": "a\0b", "an absolute path": "/tmp/evil", "nothing": ""}  # fmt: skip
    found += [
        Case("outputs", f"a comment of a workflow called {kind}", "inside of --write; 2, 3 or 4",
             "high", _workflow_named(name))
        for kind, name in names.items()
    ]  # fmt: skip
    raw = os.fsencode(NAME)[:250]
    for words in (("import", "d"), ("doctor", "d"), ("gate", "--runs", "d")):
        found.append(Case("outputs", f"{words[0]} of a file with a hostile name", expected, "high",
                          _file_named(raw, *words)))  # fmt: skip
    found.append(Case("outputs", "import of a file whose name is no UTF-8", expected, "high",
                      _file_named(b"\xff\xfe\x9b.jsonl", "import", "d", form="--json")))  # fmt: skip
    others: list[tuple[str, str, Callable[[Place], str]]] = [
        ("a page in one file", "no script, no outside address, no secret, nothing unseen", _page),
        ("the data of a page", "no raw direction mark, tag or separator", _page_texts_spelt),
        ("charts", "SVG that parses, without script and secret", _charts),
        ("files of a gate", expected, _gate_writes),
        ("a marker of a comment in a task's name", "one marker", _one_marker),
        ("900 failing cases with long names", "a comment of at most 65,536 characters",
         _large_comment),
        ("members of a zip with hostile names", expected, _zip_member),
        ("reasons why records are set aside", expected, _quarantine),
        ("a gate over records set aside", expected, _quarantine_gated),
        ("verdicts of others", expected, _verdicts("show", "run0b0")),
        ("verdicts of others in JSON", expected, _verdicts("show", "run0b0", form="--json")),
        ("verdicts of others, agreement", expected, _verdicts("agree")),
        ("verdicts of others, a queue", expected, _verdicts("agree", "--queue", "9")),
        ("a queue as CSV", "no cell begins a formula", _formulas),
        ("outcomes of others", expected, _outcomes),
        ("shapes of hostile runs", expected, _scores("shape", "scores.csv")),
        ("shapes of hostile runs in JSON", expected, _scores("shape", "scores.csv", form="--json")),
        ("noise of hostile judges", expected, _scores("calibrate", "sigma", "scores.csv")),
        ("hostile scores imported", expected, _scores("import", "scores.csv")),
    ]  # fmt: skip
    return found + [Case("outputs", name, text, "high", do) for name, text, do in others]
