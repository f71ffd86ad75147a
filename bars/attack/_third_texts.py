"""The third round: outputs, and the texts that a gate leaves for a forge, as they are rendered.

Expectations as in the first round: by the documentation, written before anything was run.
"""

# fmt: off
from __future__ import annotations

import json
import os
import pty
import re
import shlex
import sys
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

from bars.attack import _gates as gates
from bars.attack import _outputs as outputs
from bars.attack import _replies as replies
from bars.attack._cases import Area, Case, Done, Place, coded
from bars.attack._third import Do, Row, strict

# Streams that a fork no longer uses: they would close what they stood for.
OLD: list[object] = []


# ---- texts for a forge: the comment, the job summary, JUnit, as they are rendered

FORGE: dict[str, str] = {
    "pipes": "a | b \\| c || |---|---|",
    "backticks": "` `` ``` ```` ~~~ `x",
    "ends of code": "</code></td></tr></table><b>x</b><code> &lt;/code&gt;",
    "addresses of mail": "write to root@evil.example now",
    "hashes of commits": "see a94a8fe5ccb19ba61c4c0873d391e987982fbbd3 or octo/cat@a94a8fe",
    "links in brackets": "[click](javascript:alert(1)) [x][y] ![](http://e.vil/p.png) [y]: /z",
    "a fence": "x\n```mermaid\ngraph TD; A-->B\n```\ny",
    "a suggestion": "```suggestion\nrm -rf\n```",
    "headings": "x\n# PASS\n\nPASS\n====\n\n---\n***\n",
    "a marker of ours": "<!-- stepscope:gate:w --> --> <!-- stepscope:gate:v",
    "a fold": "<details open><summary>PASS</summary>",
    "entities": "&#64;octocat &commat;octocat &#x23;7 &amp;#64;octocat &num;8",
    "backslashes": "\\@octocat \\#7 \\[x\\](y) \\\\@octocat\\",
    "addresses alone": "<https://e.vil> <a@b.cc> ftp://e.vil www.e.vil http&#58;//e.vil",
    "notes and boxes": "[^1] \n\n[^1]: x\n- [x] done\n1. one",
    "a row": "x |\n| PASS | outcome | hard |\n|---|---|---|\n",
    "orders of a forge": "x\n/merge\n/approve\n/close",
    "escapes of commands": "%0A::error::x%0D%0A::stop-commands::y %25",
    "half characters": "a \ud800 \udfff b",
    "signs that XML forbids": "a \x00\x01\ufffe\uffff\U0001fffe b",
    "an entity of XML": "]]>&x;<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>",
    "dollar signs": "$\\require{x}$ $$\\href{javascript:x}{y}$$ $`a`$",
    "a word of 5,000 signs": "W" * 5000,
}
TAGS = set("p table thead tbody tr th td h1 h2 h3 h4 strong em code pre br ul ol li hr details "
           "summary".split())  # fmt: skip
REFERS = re.compile(
    r"@[A-Za-z]|(?<![\w&])#\d|\w#\d|://|\bwww\.|\bgh-\d|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"
    r"|PASS(?!ED)\n?=|\[\^",
    re.IGNORECASE,
)


class _Rendered(HTMLParser):
    """What a comment is when a forge has rendered it: tags, and text outside of code."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.heads = 0
        self.outside = ""
        self.remarks: list[str] = []
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.heads += tag in ("h1", "h2", "h3", "h4", "hr")
        self._code += tag in ("code", "pre")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre")

    def handle_data(self, data: str) -> None:
        self.outside += "" if self._code > 0 else data

    def handle_comment(self, data: str) -> None:
        self.remarks.append(data)


def rendered(text: str, plain: str) -> str:
    """Return what a forge would make of Markdown that it does not make of a plain one."""
    from markdown_it import MarkdownIt

    pages = []
    for source in (text, plain):
        page = _Rendered()
        page.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(source))
        pages.append(page)
    made, usual = pages
    if more := made.tags - TAGS:
        return f"tags {sorted(more)}"
    if made.heads != usual.heads or len(made.remarks) != len(usual.remarks):
        return f"{made.heads} heads for {usual.heads}, {len(made.remarks)} remarks"
    if found := REFERS.search(made.outside):
        return f"outside of code: {made.outside[max(0, found.start() - 30) :][:80]!r}"
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if line.startswith("|---") or line.startswith("|:--"):
            wide = len(re.findall(r"(?<!\\)\|", line))
            for row in lines[at - 1 :]:
                if not row.startswith("|"):
                    break
                if len(re.findall(r"(?<!\\)\|", row)) != wide:
                    return f"a row of another width: {row[:90]!r}"
    if found_order := re.search(r"^\s*/[a-z]", text, re.MULTILINE):
        return f"an order stands at the beginning of a line: {found_order[0]!r}"
    return outputs.hidden(text)


TEXT_GATES = "outcome = { min_rate = 1.0 }\nno_errors = { max_per_run = 0 }\nloops = { max_per_run = 0 }"


def _told(place: Place, folder: str, word: str) -> Done:
    """Gate failing runs whose every name and text is a word; `folder` has what is written."""
    call = {"id": "c", "type": "function", "function": {"name": f"f {word}", "arguments": "{}"}}
    said = [{"role": "user", "content": word}]
    for _ in range(3):
        said += [{"role": "assistant", "content": word, "tool_calls": [call]},  # type: ignore[dict-item]
                 {"role": "tool", "tool_call_id": "c", "content": f"Error: {word}"}]  # fmt: skip
    rows = [json.dumps({"task_id": f"{n} {word}", "trial": f"0 {word}", "workflow": "w",
                        "reward": 0.0, "run_id": f"{n} {word}", "agent": word, "messages": said})
            for n in range(3)]  # fmt: skip
    place.write(f"{folder}/stepscope.toml", gates.policy(TEXT_GATES, ""))
    place.write(f"{folder}/t.jsonl", rows)
    os.environ["GITHUB_STEP_SUMMARY"] = str(place.write(f"{folder}/summary.md", "kept\n\n"))
    return place.run("gate", "--config", folder, "--runs", f"{folder}/t.jsonl", "--write",
                     f"{folder}/w")  # fmt: skip


def _text(word: str) -> Do:
    def do(place: Place) -> str:
        place.folder.joinpath("x").mkdir()
        _told(place, "p", "plain")
        done = _told(place, "x", word)
        if wrong := coded(done, (3,)):
            return wrong
        (usual,) = Path("p/w/comments").iterdir()
        found = list(Path("x/w/comments").iterdir())
        if len(found) != 1:
            return f"{len(found)} comments"
        text = found[0].read_text("utf-8")
        if wrong := rendered(text, usual.read_text("utf-8")):
            return f"the comment: {wrong}"
        summary = Path("x/summary.md").read_text("utf-8")
        if not summary.startswith("kept\n"):
            return "the summary of others is gone"
        if wrong := rendered(summary, Path("p/summary.md").read_text("utf-8")):
            return f"the summary: {wrong}"
        strict(Path("x/w/gate.json").read_text("utf-8"))
        return _counted(Path("x/w/gate.xml"), Path("p/w/gate.xml")) or outputs.inert(done.out)

    return do


def _counted(path: Path, usual: Path) -> str:
    """Return what is wrong with JUnit: counts that are not its elements, or other elements."""
    shapes = []
    for one in (path, usual):
        root = ElementTree.fromstring(one.read_bytes())
        # What reading remarks on is a suite of its own.
        for suite in root.findall("testsuite"):
            if suite.find("testcase[@classname='reading']") is not None:
                root.remove(suite)
        shapes.append([node.tag for node in root.iter()])
        for suite in root.iter("testsuite"):
            for key, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"),
                             ("skipped", "skipped")):  # fmt: skip
                if int(suite.get(key, "0")) != len(list(suite.iter(tag))):
                    return f"JUnit: {key} {suite.get(key)}, {len(list(suite.iter(tag)))} {tag}"
    return "" if shapes[0] == shapes[1] else "JUnit has other elements"


def _summary_pipe(place: Place) -> str:
    place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
    place.write("stepscope.toml", gates.policy("outcome = { min_rate = 1.0 }", ""))
    os.mkfifo("pipe")
    os.environ["GITHUB_STEP_SUMMARY"] = str(place.folder / "pipe")
    return coded(place.run("gate", "--runs", "t"), (2, 3, 5))


def _summary_large(place: Place) -> str:
    """A forge takes a summary of 1 MiB; one that is longer is not shown."""
    snow = "\u2603" * 300
    names = [f"case {snow} {n}" for n in range(1500)]
    said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    place.write("g/t.jsonl", (json.dumps({"task_id": name, "workflow": f"w{at % 9}", "reward": 0.0,
                                          "messages": said}) for at, name in enumerate(names)))
    place.write("g/stepscope.toml", "".join(
        gates.policy("outcome = { min_rate = 1.0 }", "").replace("workflow.w", f"workflow.w{n}")
        for n in range(9)))  # fmt: skip
    path = place.write("s.md", "")
    os.environ["GITHUB_STEP_SUMMARY"] = str(path)
    done = place.run("gate", "--config", "g", "--runs", "g/t.jsonl", "--write", "w")
    most = max(len(one.read_text("utf-8")) for one in Path("w/comments").iterdir())
    if most > 65_536:
        return f"a comment of {most} characters"
    size = path.stat().st_size
    return coded(done, (3,)) or ("" if 0 < size <= 2**20 else f"a summary of {size} bytes")


def _old_comments(place: Place) -> str:
    """What an earlier gate of more workflows left in the folder is no comment of this one."""
    two = gates.policy("outcome = { min_rate = 1.0 }", "")
    place.write("stepscope.toml", two + two.replace("workflow.w", "workflow.v"))
    place.write("t/a.jsonl", [*gates.PASSING, *(r.replace('"w"', '"v"') for r in gates.FAILING)])
    place.run("gate", "--runs", "t", "--write", "w")
    before = len(list(Path("w/comments").iterdir()))
    place.write("stepscope.toml", two)
    place.run("gate", "--runs", "t", "--write", "w")
    after = len(list(Path("w/comments").iterdir()))
    return "" if (before, after) == (2, 1) else f"{before} comments, then {after}"


def _nearly_one_name(place: Place) -> str:
    """Workflows whose names differ in what a file system or a marker may not hold."""
    names = ["a/b", "a\\b", "a:b", "A/B", "a--b", "a\u200bb"]
    text = "".join(gates.policy("outcome = { min_rate = 1.0 }", "")
                   .replace("workflow.w", f"workflow.{outputs.toml(name)}") for name in names)
    rows = [json.dumps({**json.loads(gates.line(0, 0, passed=False, text=name)), "workflow": name})
            for name in names]  # fmt: skip
    place.write("g/stepscope.toml", text)
    place.write("g/t.jsonl", rows)
    place.run("gate", "--config", "g", "--runs", "g/t.jsonl", "--write", "w")
    heads = {path.read_text("utf-8").split("\n", 1)[0] for path in Path("w/comments").iterdir()}
    return "" if len(heads) == 6 else f"{len(heads)} markers for six workflows"


def _same_decision(place: Place) -> str:
    """Comment, JSON, JUnit, summary and code say one thing, soft failures beside."""
    soft = "outcome = { min_rate = 1.0, severity = 'soft' }\nsteps.p95 = { max_per_run = 60 }"
    place.write("stepscope.toml", gates.policy(soft, ""))
    place.write("t/a.jsonl", [*gates.runs()[:-1], gates.line(11, 3, passed=False)])
    hard = place.run("gate", "--runs", "t", "--write", "w", "--undecided", "pass")
    also = place.run("gate", "--runs", "t", "--write", "v", "--fail-on", "soft", "--undecided", "pass")
    codes = [strict(Path(name, "gate.json").read_text("utf-8"))["exit_code"] for name in "wv"]
    if codes != [hard.code, also.code] or also.code == 0:
        return f"codes {[hard.code, also.code]}, JSON {codes}"
    failures = [len(list(ElementTree.parse(f"{name}/gate.xml").iter("failure"))) for name in "wv"]
    return "" if (failures[1] > 0) == (also.code == 3) else f"failures in JUnit {failures}"


def _summary_moved(place: Place) -> str:
    """A summary in a folder that is not there is told; the decision stays."""
    place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
    os.environ["GITHUB_STEP_SUMMARY"] = str(place.folder / "no/where.md")
    return coded(place.run("gate", "--runs", "t"), (2, 3, 5))


def _all_words(*words: str) -> Do:
    """Return what prints Markdown over runs whose names are all of the words of a forge."""

    def do(place: Place) -> str:
        word = " ".join(FORGE[key] for key in FORGE if "5,000" not in key and "XML" not in key
                        and "half" not in key)  # fmt: skip
        for name, text in (("x", word), ("p", "plain")):
            _told(place, name, text)
            rows = Path(name, "t.jsonl").read_text("utf-8")
            more = rows.replace('"agent": ', '"agent": "b", "old": ').replace('d": "', 'd": "b')
            place.write(f"{name}/b.jsonl", more.replace("0.0", "1.0"))
            place.must("import", f"{name}/t.jsonl", "--store", f"{name}.db", "--tag", "k=a")
            place.must("import", f"{name}/b.jsonl", "--store", f"{name}.db", "--tag", "k=b")
            place.must("score", "--store", f"{name}.db")
        shown = [place.run(*words, "--markdown", "--store", f"{name}.db") for name in "xp"]
        if shown[1].code not in (0, 4):
            return f"the case is wrong: {shown[1].code} {shown[1].err[-200:]}"
        return coded(shown[0], (shown[1].code,)) or rendered(shown[0].out, shown[1].out)

    return do


def _text_rows() -> list[Row]:
    inert = ("3; comment, job summary and JUnit have the shape that plain words give: no tag, link, "
             "mention, heading or row more, no line that orders; counts are those of the elements")  # fmt: skip
    return [
        *((f"{name} in every name and text", inert, "high", _text(word))
          for name, word in FORGE.items()),
        ("a job summary that is a pipe", "2, 3 or 5, at once", "high", _summary_pipe),
        ("1,500 failing cases of nine workflows", "comments that a forge takes (65,536 characters), "
         "a summary of 1 MiB at most", "medium", _summary_large),
        ("comments that an earlier gate left", "one comment a workflow of this gate", "medium",
         _old_comments),
        ("six workflows of nearly one name", "six markers", "medium", _nearly_one_name),
        ("soft failures in comment, JSON and JUnit", "they and the code say one thing", "high",
         _same_decision),
        ("a job summary in a folder that is not there", "2, 3 or 5", "medium", _summary_moved),
        ("every word at once in a report", inert, "high", _all_words("report")),
        ("every word at once in a comparison", inert, "high", _all_words("compare", "a", "b", "--by", "tag.k")),
        ("every word at once in a report by task", inert, "high", _all_words("report", "--by", "task")),
    ]  # fmt: skip


# ---- outputs

FORGED = "x\nPWNED   pass   20 runs of 5 cases\r\nPWNED 0 quarantined\x0bPWNED\x85PWNED\u2028PWNED"


def _no_forged_line(*words: str) -> Do:
    """Return what holds a command's lines against names that hold lines of its own form."""

    def do(place: Place) -> str:
        _told(place, "f", FORGED)
        place.must("import", "f/t.jsonl", "--store", "f.db", "--tag", f"k={FORGED}")
        place.must("score", "--store", "f.db")
        done = place.run(*words)
        lines = re.split("[\n\r\x0b\x0c\x85\u2028\u2029]", done.said)
        bad = [line for line in lines if line.lstrip().startswith("PWNED")]
        return f"a line that we did not write: {bad[0]!r}" if bad else "" if done.said else "nothing"

    return do


def _scored(rows: list[str], *words: str, aside: int | None = None) -> Do:
    """Return what reads odd scores: typed, in strict JSON, offered = read + set aside."""

    def do(place: Place) -> str:
        place.write("s.csv", ["run,step,score,judge,latency,cost", *rows])
        done = place.run("import", "s.csv", "--store", "s.db", "--json")
        if wrong := coded(done, (0, 2)):
            return wrong
        for form in (("--json",), ()):
            shown = place.run(*words, *form)
            if wrong := coded(shown, (0, 2, 4), lacks=r"\b(nan|inf)\b" if not form else ""):
                return f"{words}: {wrong}"
            if form and shown.out.strip():
                strict(shown.out)
        told = place.run("import", "s.csv", "--store", "s2.db").said
        if aside is not None and f"{aside} quarantined" not in told:
            return f"not {aside} quarantined: {told[-200:]!r}"
        return ""

    return do


def _piped(shell: str, *words: str) -> Do:
    """Return what runs a command whose streams are odd."""
    return lambda place: coded(place.spawn(*words, shell=shell), (0, 2, 5, 130, 141, -13))


def _on_terminal(*words: str) -> Do:
    """Return what runs a command on a terminal: only colours of ours reach it."""

    def do(place: Place) -> str:
        place.write("x", "")
        pid, held = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm-256color", FORCE_COLOR="1", COLUMNS="100")
            OLD.append((sys.stdout, sys.stderr))
            sys.stdout, sys.stderr = (os.fdopen(n, "w", encoding="utf-8") for n in (1, 2))
            from stepscope.cli.main import main

            os._exit(main(list(words)))
        raw = b""
        with suppress(OSError):
            while part := os.read(held, 65536):
                raw += part
        os.waitpid(pid, 0)
        # Of ours are colours, and the line of progress that is drawn again and taken away.
        said = re.sub(r"\x1b\[[0-9;]*[mKA]|\x1b\[\?25[lh]|\r(?!\n)", "", raw.decode("utf-8", "replace")).replace("\r\n", "\n")
        if len(said) < 20:
            return "it says nothing"
        return outputs.inert(said)

    return do


MORE_KEYS: dict[str, dict[str, str]] = {
    "models": {
        "openrouter": "sk-or-v1-" + "0a1b2c3d4e5f6978" * 4,
        "groq": "gsk_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYaB3dE5fG7hJ9kL1mN2pQ",
        "xai": "xai-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYaB3dE5fG" * 2,
        "replicate": "r8_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYaB3dE",
        "perplexity": "pplx-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYaB3dE5fG7hJ9kL1m",
    },
    "clouds": {
        "aws": "AKIA" + "Q3EGRZ7WXK2MNPT4",
        "databricks": "dapi" + "0a1b2c3d4e5f6978" * 2,
        "digitalocean": "dop_v1_" + "0a1b2c3d4e5f6978" * 4,
        "azure": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey="
        + "aB3dE5fG7hJ9kL1m" * 5 + "aB3dE5==",
    },
    "code": {
        "gitlab": "glpat-" + "aB3dE5fG7hJ9kL1mN2pQ",
        "npm": "npm_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzZ12",
        "pypi": "pypi-AgEIcHlwaS5vcmc" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 3,
        "docker": "dckr_pat_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8",
    },
    "messages": {
        "telegram": "110201543:AA" + "HdqTcvCH1vGWJxfSeofSAs0K5PALDsaw9",
        "sendgrid": "SG." + "aB3dE5fG7hJ9kL1mN2pQ4r" + "." + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzZ1aB3dE5fG",
        "stripe": "rk_live_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6",
        "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzZ1aB3dE5fG",
        "basic": "Authorization: Basic " + b64encode(b"admin:xk9d-q36Zt-long").decode(),
    },
    "watchers": {
        "langsmith": "lsv2_pt_" + "0a1b2c3d4e5f6978" * 2 + "_0a1b2c3d4e",
        "langfuse": "sk-lf-0a1b2c3d-4e5f-6978-0a1b-2c3d4e5f6978",
        "grafana": "glsa_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" + "_0a1b2c3d",
    },
}  # fmt: skip


def _keys(kinds: Mapping[str, str]) -> Do:
    """Return what puts keys where the schemas of tools, tags, names and errors are."""

    def do(place: Place) -> str:
        rows = []
        for kind, key in kinds.items():
            call = {"id": "c", "type": "function", "function": {
                "name": f"use {key}", "arguments": json.dumps({key: "x", "deep": [{"x": [key]}]})}}  # fmt: skip
            rows.append(json.dumps({
                "task_id": f"{kind} {key}", "reward": 0.0, "run_id": key, "agent": f"a {key}",
                "tools": [{"type": "function", "function": {"name": "f", "description": key}}],
                "messages": [{"role": "system", "content": f"use <{key}>."},
                             {"role": "user", "content": f"[{key}]({key})"},
                             {"role": "assistant", "content": None, "tool_calls": [call]},
                             {"role": "tool", "tool_call_id": "c", "content": f"Error: '{key}' x"}],
            }))  # fmt: skip
        place.write("k.jsonl", rows)
        said = {"import": place.run("import", "k.jsonl", "--store", "k.db", "--json").said}
        place.must("score", "--store", "k.db")
        for form in ("", "--json", "--markdown", "--look-first 9", "--html k.html --embed all"):
            said[f"report {form}"] = place.run("report", "--store", "k.db", *form.split()).said
        said["HTML"] = Path("k.html").read_text("utf-8")
        said["doctor"] = place.run("doctor", "k.jsonl").said
        for run in strict(place.must("export", "-", "--store", "k.db").out.split("\n")[1])["id"], :
            said["show"] = place.run("show", run, "--store", "k.db").said
        for where, text in said.items():
            for kind, key in kinds.items():
                core = key[-20:-4]
                if core in text:
                    return f"{where} shows {kind}: {outputs.hidden(core)}{core!r}"
        return ""

    return do


def _own_form(place: Place) -> str:
    """A secret of a form of the user's own is hidden wherever a known one is."""
    place.write("stepscope.toml", "[[redaction.secret]]\nkind = 'acme'\nbegins = '.*(acme'\n"
                "characters = 'A-Z0-9'\nleast = 8\n")  # fmt: skip
    key = ".*(acmeQ3EGRZ7WXK2M"
    place.write("k.jsonl", json.dumps({"task_id": key, "reward": 0.0, "messages": [
        {"role": "user", "content": f"x{key}y {key}"}, {"role": "assistant", "content": key}]}))  # fmt: skip
    said = place.run("import", "k.jsonl", "--store", "k.db").said
    place.must("score", "--store", "k.db")
    for words in ("report", "report --json", "report --markdown", "doctor k.jsonl"):
        said += place.run(*words.split(), *(() if "doctor" in words else ("--store", "k.db"))).said
    place.must("report", "--store", "k.db", "--html", "k.html", "--embed", "all")
    said += Path("k.html").read_text("utf-8")
    return "a form of the user's own is shown" if "Q3EGRZ7WXK2M" in said else ""


def _over(words: str, target: str) -> Do:
    """Return what would write an output over the store or what it reads: refused, nothing lost."""

    def do(place: Place) -> str:
        before = Path(target).read_bytes()
        done = place.run(*words.split())
        if Path(target).read_bytes() != before:
            return f"{target} is overwritten, code {done.code}"
        return coded(done, (2,))

    return do


def _same_bytes(*words: str) -> Do:
    """Return what runs a command under two orders of hashes: the same bytes."""

    def do(place: Place) -> str:
        said = [place.spawn(*words, environment={"PYTHONHASHSEED": seed}).out for seed in ("1", "77")]
        return "" if said[0] == said[1] and said[0] else "not the same bytes"

    return do


def _script_data(place: Place) -> str:
    """Texts that begin a remark and a script do not let the data of a page swallow the rest."""
    word = "<!--<script>x</script >\u2028<!-- <SCRIPT src=//e.vil></ScRiPt\t> <plaintext> <svg/onload=x>"
    _told(place, "f", word)
    place.must("import", "f/t.jsonl", "--store", "f.db")
    place.must("score", "--store", "f.db")
    place.must("report", "--store", "f.db", "--html", "f.html", "--embed", "all")
    text = Path("f.html").read_text("utf-8")
    bad = re.search(r"<!--\s*<script|<plaintext|<svg/onload|src=//e\.vil>", text, re.IGNORECASE)
    scripts = len(re.findall(r"<script\b", text, re.IGNORECASE))
    ends = len(re.findall(r"</script\b", text, re.IGNORECASE))
    if bad:
        return f"raw in the page: {bad[0]!r}"
    return "" if scripts == ends else f"{scripts} scripts, {ends} ends"


def _backend(body: bytes, status: str = "200 OK", more: str = "", *, send: bool = False) -> Do:
    """Return what pulls from, or sends to, a backend that answers oddly."""

    def do(place: Place) -> str:
        other = replies.plain(b"{}")
        wire = replies.plain(body, status, more.format(base=other.base))
        os.environ.update(PHOENIX_COLLECTOR_ENDPOINT=wire.base, PHOENIX_API_KEY="quokka-word-17")
        words = ("export", "--to", "phoenix:p") if send else ("import", "phoenix:p")
        done = place.run(*words, "--store", "s.db")
        if other.asked:
            return "a redirect was followed"
        if "quokka-word-17" in done.said:
            return "the key of the backend is shown"
        return coded(done, (0, 2, 4, 5)) or outputs.inert(done.out) or outputs.inert(done.err)

    return do


def _exactly(words: str, codes: tuple[int, ...], says: str = "") -> Do:
    return lambda place: coded(place.run(*shlex.split(words)), codes, says=says)


def _output_rows() -> list[Row]:
    inert = "inert: nothing unseen, no command, no reference, no secret"
    error = json.dumps({"detail": outputs.LINES}).encode()
    odd = ["r,0,1e-320,j,1,1", "r,1,\u0660.\u0665,j,1,1", "r,2,0x1,j,1,1", "r,3,1_0,j,1,1",
           "r,4,NaN,j,1,1", "r,5,1.0000001,j,1,1", "r,6,-0.0001,j,1,1", "r,7,0.5.5,j,1,1"]  # fmt: skip
    gone = "exec > >(true); sleep 0.2;"
    return [
        *((f"lines of our own form in names: {words}", "no line of them begins a line", "high",
           _no_forged_line(*words.split()))
          for words in ("report --store f.db", "import f/t.jsonl --store g.db", "doctor f/t.jsonl",
                        "gate --config f --runs f/t.jsonl", "report --store f.db --by tag.k",
                        "purge --store f.db --where outcome='fail' --yes", "show zz --store f.db",
                        "init --store f.db --yes --force")),
        ("costs and times at the end of what a float holds", "strict JSON, no inf or nan", "high",
         _scored([f"r{n},{s},0.5,j,1e308,1e308" for n in range(3) for s in range(6)],
                 "report", "--store", "s.db")),
        ("costs and times that are none", "strict JSON, no inf or nan", "high",
         _scored([f"r{n},{s},0.5,j,{t},{t}" for n, t in enumerate(("nan", "inf", "-1", "1e999"))
                  for s in range(5)], "report", "--store", "s.db")),
        ("the same in one run", "strict JSON, no inf or nan", "high",
         _scored([f"r,{s},0.5,j,{t},{t}" for s, t in enumerate(("1e308", "1e308", "1e308"))],
                 "show", "r", "--store", "s.db")),
        ("scores that are nearly numbers", "those that are none from 0 to 1 are set aside: 7",
         "medium", _scored(odd, "report", "--store", "s.db", aside=7)),
        ("steps of 10^18 and below 0", "at once, typed", "high",
         _scored(["r,0,0.5,j,1,1", "r,1000000000000000000,0.5,j,1,1", "r,-1,0.5,j,1,1",
                  f"r,1{'0' * 400},0.5,j,1,1", "r,1.0,0.5,j,1,1"], "shape", "s.csv")),
        ("a step of 10^9", "at once, typed", "high",
         _scored(["r,0,0.5,j,1,1", "r,999999999,0.5,j,1,1"], "shape", "s.csv")),
        *((f"{what}: {' '.join(words)}", "0, 2, 5 or the signal; no traceback", "high",
           _piped(shell, *words))
          for what, shell in (("a reader that has gone", gone), ("no standard output", "exec >&-;"),
                              ("no standard error", "exec 2>&-;"), ("no stream", "exec <&- >&- 2>&-;"))
          for words in (("report", "--store", "s.db"),)),
        ("a reader that has gone: an export", "0, 5 or the signal", "high",
         _piped(gone, "export", "-", "--store", "s.db")),
        ("a reader that has gone: help", "0, 5 or the signal", "high", _piped(gone, "gate", "--help")),
        *((f"on a terminal: {words}", f"{inert}; only colours", "high", _on_terminal(*words.split()))
          for words in ("report --store s.db", "show run0b0 --store s.db", "gate", "report --wher x",
                        "import s.db")),
        *((f"keys of {name} in schemas, names, keys of arguments and errors", "hidden everywhere",
           "high", _keys(kinds)) for name, kinds in MORE_KEYS.items()),
        ("a secret of the user's own form, made of signs of patterns", "hidden everywhere", "high",
         _own_form),
        ("a report over its own store", "2, the store stays", "medium",
         _over("report --store s.db -o s.db", "s.db")),
        ("a page over its own store", "2, the store stays", "medium",
         _over("report --store s.db --html s.db", "s.db")),
        ("a gate over its own settings", "2, they stay", "medium",
         _over("gate -o stepscope.toml", "stepscope.toml")),
        ("an export over its own store", "2, the store stays", "medium",
         _over("export s.db --force --store s.db", "s.db")),
        ("a report, twice", "the same bytes", "medium", _same_bytes("report", "--json", "--store", "s.db")),
        ("an export, twice", "the same bytes", "medium", _same_bytes("export", "-", "--store", "s.db")),
        ("a beginning of a script in the data of a page", "spelt; each script has its end", "high",
         _script_data),
        ("a backend that refuses in hostile words", inert, "high", _backend(error, "403 No\x1b[2J")),
        ("a backend that is a page", inert, "high", _backend(b"<html>" + outputs.LINES.encode())),
        ("a backend of 5,000 brackets", inert, "high", _backend(b"[" * 5000)),
        ("a backend that leads elsewhere", "not followed, the key stays", "high",
         _backend(b"", "307 There", "location: {base}/v1\r\n")),
        ("a backend that is sent to and leads elsewhere", "not followed, the key stays", "high",
         _backend(b"", "308 There", "location: {base}/v1\r\n", send=True)),
        ("a backend that takes and repeats the key", "not shown", "high",
         _backend(b'{"detail": "bad key quokka-word-17"}', "401 No", send=True)),
        *((f"a run called {name!r}", "2: no one run", "medium",
           _exactly(f"show {shlex.quote(name)} --store s.db", (2,)))
          for name in ("", "%", "*", "_", "run0b", "../s.db", "run0b0 ", "RUN0B0")),
        *((f"words: {words}", "2, or an answer at once", "high", _exactly(words, (0, 2, 4)))
          for words in ("report --store s.db --look-first 1000000000000000000",
                        "report --store s.db --by ''", "report --store s.db --by tag.",
                        "report --store s.db --by name", "report --store s.db --get ''",
                        "report --store s.db --html h.html --embed -1", "compare '' '' --store s.db",
                        "compare a a --store s.db", "show run0b0 --steps -5:99999999999999 --store s.db",
                        "show run0b0 --steps 9:2 --store s.db", "agree --queue 10000000000 --store s.db",
                        "agree --min nan --store s.db")),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    tables: dict[Area, list[Row]] = {"texts": _text_rows(), "outputs": _output_rows()}
    return [
        Case(area, name, expected, severity, do, round=3)
        for area, rows in tables.items()
        for name, expected, severity, do in rows
    ]
