"""The fourth round: outputs.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Other time zones and tongues, every field and figure by its name, files of scores of other
programs, secrets that come in beside the trace.
"""

# fmt: off
from __future__ import annotations

import json
import os
import shlex
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bars.attack import _gates as gates
from bars.attack import _outputs as outputs
from bars.attack._cases import SECRET, SECRETS, Case, Done, Place, coded, one_line
from bars.attack._fourth import Do, Row
from bars.attack._third import strict

TYPED = "a code of its own and one line, in time; no bug"
FIGURES = ("outcome.pass", "outcome.pass^2", "subgoals.reached", "redundant_calls.per_run", "errors.recovered",
           "policy.violations", "steps.median", "steps.p95", "tokens.median", "cost_usd.median", "cost_usd.p95",
           "seconds.median", "seconds.p95", "axes.tool_selection", "axes.argument_validity", "axes.sequencing",
           "axes.result_interpretation", "axes.termination")  # fmt: skip
FIELDS = ("id", "name", "workflow", "task", "trial", "agent", "agent_version", "format", "outcome", "steps",
          "calls", "tag.k", "tag.'my key'", "step_agent")  # fmt: skip


def held(done: Done, codes: tuple[int, ...], says: str = "", form: str = "") -> str:
    """Return what is wrong with a command: its code, its one line, its JSON, what is not inert."""
    wrong = one_line(done, codes, says) if done.code in (2, 5) else coded(done, codes, says=says)
    if not wrong and form == "--json" and done.code in (0, 4) and done.out.strip():
        strict(done.out)
    return wrong or outputs.both(done, form)


def worded(words: str, codes: tuple[int, ...], says: str = "",
           files: Mapping[str, gates.Content] | None = None) -> Do:
    """Return what runs a command over these files: typed, inert, strict where it is JSON."""

    def do(place: Place) -> str:
        for name, content in (files or {}).items():
            place.write(name, content)
        form = next((w for w in ("--json", "--markdown", "--junit") if w in words), "")
        return held(place.run(*shlex.split(words)), codes, says, form)

    return do


def clean(place: Place, rows: list[str] | None = None, store: str = "c.db") -> None:
    """Make a scored store of harmless runs."""
    place.write("c.jsonl", rows or gates.runs("clean"))
    place.must("import", "c.jsonl", "--store", store)
    place.must("score", "--store", store)


def _figures(place: Place) -> str:
    """Every figure that the page names is one: 0 or 4, and strict JSON."""
    for figure in FIGURES:
        done = place.run("report", "--get", figure, "--json", "--store", "s.db")
        if done.code not in (0, 4):
            return f"{figure}: {coded(done, (0, 4))}"
        if done.out.strip():
            strict(done.out)
    return ""


def _by(field: str) -> Do:
    def do(place: Place) -> str:
        for form in ("", "--json", "--markdown", "--junit"):
            done = place.run("report", "--by", field, "--store", "s.db", *([form] if form else []))
            # A field that makes no groups is an error of one line.
            if wrong := held(done, (0, 2), form=form):
                return f"{form}: {wrong}"
        return ""

    return do


def _same_under(words: str, **environment: str) -> Do:
    """Return what prints the same bytes in another environment."""

    def do(place: Place) -> str:
        if "gate" in words:  # of names without a secret, whose digits are new in each process
            place.write("stepscope.toml", gates.policy())
            clean(place, store="g.db")
            place.must("baseline", "update", "--yes", "--store", "g.db")
        first = place.spawn(*words.split())
        again = place.spawn(*words.split(), environment=environment)
        if first.code != again.code:
            return f"codes {first.code}, {again.code}: {again.err[-200:]!r}"
        return "" if first.out == again.out and first.out else "other bytes"

    return do


def _order(place: Place) -> str:
    """The order in which files come in changes no byte of a report."""
    rows = gates.runs("a")
    place.write("a.jsonl", rows[:24])
    place.write("b.jsonl", rows[24:])
    said = []
    for store, names in (("x.db", "ab"), ("y.db", "ba")):
        for name in names:
            place.must("import", f"{name}.jsonl", "--store", store)
        place.must("score", "--store", store)
        said.append(place.must("report", "--json", "--store", store).out)
    return "" if said[0] == said[1] else "other bytes"


def _forms_agree(place: Place) -> str:
    """JSON, Markdown and JUnit of one report are of one code, and can be read."""
    clean(place)
    codes = {form: place.run("report", "--store", "c.db", *form.split()).code for form in ("", "--json", "--markdown", "--junit")}
    if set(codes.values()) != {0}:
        return f"codes {codes}"
    ElementTree.fromstring(place.run("report", "--store", "c.db", "--junit").out)
    return ""


def _parquet_report(place: Place) -> str:
    """A folder of verdicts gives the figures of the store that it is of."""
    clean(place)
    place.must("export", "v", "--verdicts", "only", "--format", "parquet", "--store", "c.db")
    for figure in ("outcome.pass", "steps.median"):
        said = [place.run("report", "--get", figure, "--json", "--store", store).out for store in ("c.db", "v")]
        if said[0] != said[1]:
            return f"{figure}: {said}"
    return ""


def _folder_spoilt(spoil: str, words: str, codes: tuple[int, ...]) -> Do:
    """Return what reads a folder of verdicts of which one file is spoilt."""

    def do(place: Place) -> str:
        clean(place)
        place.must("export", "v", "--verdicts", "only", "--format", "parquet", "--store", "c.db")
        for path in sorted(Path("v").rglob("*.parquet")):
            raw = path.read_bytes()
            if spoil == "gone":
                path.unlink()
            elif spoil:
                path.write_bytes({"cut": raw[:-20], "noise": raw[:4] + os.urandom(200) + raw[204:], "empty": b""}[spoil])
            if spoil != "all":
                break
        return held(place.run(*words.split()), codes)

    return do


def _help_is_true(place: Place) -> str:
    """The words by which the help of report says that a folder is written do write one."""
    clean(place)
    told = place.run("report", "--help").out
    if "--to parquet" not in " ".join(told.split()):
        return ""
    return coded(place.run("export", "v", "--verdicts", "only", "--to", "parquet", "--store", "c.db"), (0,))


SCORES = ["run,step,score", "a,0,0.9", "a,1,0.8", "a,2,0.4", "a,3,0.3"]
JOINED = "\n".join(SCORES)
FILES: dict[str, tuple[gates.Content, tuple[int, ...]]] = {
    "with a mark of UTF-8": ("\ufeff" + JOINED, (0,)),
    "with lines of Windows": (JOINED.replace("\n", "\r\n"), (0,)),
    "with semicolons": (JOINED.replace(",", ";"), (0, 2)),
    "with tabs": (JOINED.replace(",", "\t"), (0, 2)),
    "in UTF-16": (JOINED.encode("utf-16"), (0, 2)),
    "in Latin-1": (JOINED.replace("a,", "\u00e4,").encode("latin-1"), (0, 2, 4)),
    "with decimal commas": (["run,step,score", 'a,0,"0,9"', 'a,1,"0,8"'], (0, 2, 4)),
    "of a head alone": ("run,step,score\n", (0, 2, 4)),
    "of nothing": ("", (2, 4)),
    "of one row": (SCORES[:2], (0, 4)),
    "with a quotation that is never closed": ([*SCORES, 'a,4,"0.2', "b,0,0.1"], (0, 2, 4)),
    "with line breaks in names": (["run,step,score", '"a\nb",0,0.9', '"a\nb",1,0.2'], (0, 4)),
    "with heads in capitals": (JOINED.upper(), (0, 2)),
    "with a column twice": (["run,step,score,score", "a,0,0.9,0.1", "a,1,0.2,0.8"], (0, 2)),
    "with percent": (["run,step,score", "a,0,90 %", "a,1,80 %"], (0, 2, 4)),
    "as lines of JSON": ([json.dumps({"run": "a", "step": n, "score": s}) for n, s in enumerate((0.9, 0.4))], (0, 4)),
    "as lines of JSON with numbers that are texts": (
        [json.dumps({"run": "a", "step": str(n), "score": str(s)}) for n, s in enumerate((0.9, 0.4))], (0, 2, 4)),
    "of runs that are numbers": (["run,step,score", "1,0,0.9", "01,1,0.8", "1.0,2,0.3"], (0, 4)),
    "with a field of 200,000 signs": ([*SCORES, "x" * 200_000 + ",0,0.5"], (0, 2, 4)),
    "with steps in another script": (["run,step,score", "a,\u0660,0.9", "a,\u0661,0.5"], (0, 2, 4)),
}  # fmt: skip
# Words behind `shape s.csv`.
SHAPES = {
    "--sigma nan": (2,), "--sigma inf": (2,), "--sigma -0.1": (2,), "--sigma 1e308": (0, 2, 4),
    "--sigma 5e-324": (0, 2, 4), "--quantum nan": (2,), "--quantum -1": (2,), "--quantum 2": (0, 2, 4),
    "--weights 1,2": (0, 2), "--weights 1,2,3,9": (2,), "--weights nan,1,1,1": (2,), "--weights ''": (0, 2),
    "--weights nowhere.toml": (2,), "--runs 0": (0,), "--seed 99999999999999999999999": (0, 2),
}  # fmt: skip
ENVELOPE = "lab envelope --n 5 --sigma 0.05 --classifier v1 --generator smooth --trials 100 "
LAB = {
    "--n 0": (2,), "--n 1": (0, 2), "--n -3": (2,), "--n 5,,7": (0, 2), "--n five": (2,), "--sigma nan": (2,),
    "--sigma 0": (0, 2), "--sigma -1": (2,), "--sigma inf": (2,), "--classifier nobody": (2,), "--generator ''": (2,),
    "--noise loud": (2,), "--told nan": (2,), "--told -1": (2,), "--told 0": (0, 2), "--trials 99": (2,),
    "--plot x.gif": (2,), "--plot nowhere/x.png": (0, 2, 5), "--json": (0,),
}  # fmt: skip
SINCE = ("-7d", "7x", "2026-13-01", "2026-02-30", "tomorrow", "7d12h?", "''", "0x7d", "infd", "nan", "2026-01-31T99:00", "last")
STEPS = ("1:2:3", "a:b", "1", "::", "1:1e3", "0x1:2", "-1:", "''")


def _repeated(rows: list[str], words: str = "", codes: tuple[int, ...] = (0, 4)) -> Do:
    head = "run,step,repeat,score,judge"
    return worded(f"calibrate sigma r.csv --store n.db {words}", codes, files={"r.csv": [head, *rows]})


def _with_secret(*commands: str, rows: list[str] | None = None, settings: str = "",
                 files: Mapping[str, gates.Content] | None = None, looks_at: Iterable[str] = ()) -> Do:
    """Return what brings a secret in beside or in a trace: no output of any command has it."""

    def do(place: Place) -> str:
        for name, content in (files or {}).items():
            place.write(name, content)
        clean(place, rows)
        if settings:
            place.write("stepscope.toml", settings)
        for command in commands:
            done = place.run(*shlex.split(command))
            if done.code == 2 and "option" in done.err:
                return f"the case is wrong: {command}: {done.err[:200]}"
        for pattern in looks_at:
            for path in Path().glob(pattern):
                raw = path.read_text("utf-8", "replace") if path.is_file() else ""
                if any(one in raw for one in SECRETS):
                    return f"{path} has it"
        return ""

    return do


def _line(**more: Any) -> list[str]:
    return [gates.line(c, n, passed=n < 2, text="x", **more) for c in range(4) for n in gates.TRIALS]


def _wrapped(times: int) -> str:
    raw = f"key {SECRET} of the shop"
    for _ in range(times):
        raw = b64encode(raw.encode()).decode()
    return raw


LOOKS = ("report --store c.db", "report --store c.db --markdown", "report --store c.db --by tag.k", "show w/c0/2 --store c.db",
         "show w/c0/2 --store c.db --json", "report --store c.db --html h.html --embed all", "agree --store c.db", "agree --store c.db --queue 9",
         "agree --store c.db --queue 9 --csv", "agree --store c.db --json")  # fmt: skip
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"


def _forms_hidden(text: str, part: str) -> Do:
    """Return what has a text in the last words of a run: `part` of it is shown by nothing."""

    def do(place: Place) -> str:
        said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": text}]
        clean(place, [gates.line(0, 2, passed=False, messages=said)])
        for command in LOOKS[:7]:
            done = place.run(*command.split())
            if part in done.said:
                return f"{command} shows it"
        return "h.html has it" if part in Path("h.html").read_text("utf-8") else ""

    return do


def _secret_rows() -> list[Row]:
    no = "no output has the secret"
    told = ["run,outcome,who,reason", f"w/c0/2,fail,{SECRET},the key is {SECRET}", f"w/c1/2,pass,ann,{SECRET}"]
    rated = ["run,label,judge,reason", *(f"w/c{c}/{n},{label},{who},because {SECRET}" for c in range(4) for n in range(4)
             for who, label in ((f"ann {SECRET}", "correct"), ("bob", "incorrect" if n else "correct")))]  # fmt: skip
    scored = ["run,step,score,judge,reason,remark", *(f"w/c0/2,{s},0.{9 - s},{SECRET},{SECRET},{SECRET}" for s in range(2))]
    work = gates.policy().replace("workflow.w", f'workflow."{SECRET}"')
    kept = ("h.html",)
    hidden = gates.policy() + "[redaction]\nshown = false\n"
    nested = json.dumps({"env": json.dumps({"k": json.dumps({"OPENAI_API_KEY": SECRET})})})
    return [
        ("a secret as a tag of the command line", no, "high",
         _with_secret(f"import c.jsonl --tag k={SECRET} --store c.db", *LOOKS, looks_at=kept)),
        ("a secret as the agent of the command line", no, "high",
         _with_secret(f"import c.jsonl --agent {SECRET} --agent-version {SECRET} --store d.db", "score --store d.db", "report --store d.db",
                      "report --store d.db --by agent", "report --store d.db --by agent_version --markdown")),
        ("a secret as who says an outcome, and why", no, "high",
         _with_secret("import --outcomes o.csv --store c.db", "score --store c.db", *LOOKS, files={"o.csv": told}, looks_at=kept)),
        ("a secret as a rater and a reason", no, "high",
         _with_secret("import --verdicts v.csv --rubric axes.termination --human --store c.db", *LOOKS, files={"v.csv": rated}, looks_at=kept)),
        ("a secret as a judge of scores and a remark", no, "high",
         _with_secret("import s.csv --store c.db", "score --store c.db", *LOOKS, "shape s.csv", "shape s.csv --json", files={"s.csv": scored}, looks_at=kept)),
        ("a secret in a condition that makes no sense", no, "high",
         _with_secret(f"report --where \"agnt = '{SECRET}'\" --store c.db", f"report --by {SECRET} --store c.db", f"report --get {SECRET} --store c.db",
                      f"compare {SECRET} b{SECRET} --store c.db", f"show {SECRET} --store c.db", f"score --measure {SECRET} --store c.db")),
        ("a secret as a gate, and a workflow", no, "high",
         _with_secret("gate --store c.db", settings=gates.policy(f'"{SECRET}" = {{ max_rate = 0.1 }}'))),
        ("a secret as a workflow in files of a gate", no, "high",
         _with_secret("baseline update --yes --store c.db", "gate --runs c.jsonl --write w", "gate --runs c.jsonl --junit", "gate --runs c.jsonl --markdown",
                      settings=work, rows=_line(workflow=SECRET), looks_at=("w/*", "w/comments/*", "base.json", "looks.json"))),
        ("a secret as a case in a baseline", no, "high",
         _with_secret("baseline update --yes --store c.db", "gate --runs c.jsonl --write w --commit abc", settings=gates.policy(),
                      rows=[gates.line(c, n, task_id=f"{c} {SECRET}") for c in range(8) for n in gates.TRIALS],
                      looks_at=("w/*", "w/comments/*", "base.json", "looks.json"))),
        ("secrets that are shown, but not in gates", "hidden in gates, whatever [redaction] says", "high",
         _with_secret("gate --runs c.jsonl", "gate --runs c.jsonl --json", "gate --runs c.jsonl --junit", "gate --runs c.jsonl --markdown",
                      settings=hidden, rows=[gates.line(c, n, passed=False, task_id=f"{c} {SECRET}") for c in range(8) for n in gates.TRIALS])),
        ("a secret as a rule's name and pattern", no, "high",
         _with_secret("score --store c.db", "report --store c.db", "gate --store c.db",
                      settings=gates.policy() + f'[[policy]]\nname = "{SECRET}"\nforbid = "x"\nwhere = {{ a = "(?={SECRET})" }}\n')),
        ("a secret in the address of a judge", no, "high",
         _with_secret("judge --judge local/a --store c.db --dry-run", "judge --judge local/a --store c.db --offline",
                      settings=f'[judges.model."local/a"]\nfamily = "a"\nbase_url = "http://10.0.0.1/v1?key={SECRET}"\nprice = {{ input = 0, output = 0 }}\n')),
        ("a secret in a key that settings do not know", no, "high", _with_secret("report --store c.db", files={"x/stepscope.toml": f'"{SECRET}" = 1\n'},
                                                                                 settings=f'seed = "{SECRET}"\n')),
        ("a secret in a tool list and a policy file", no, "high",
         _with_secret("score --store c.db", *LOOKS, "doctor c.jsonl", looks_at=kept,
                      settings=gates.policy(more='tools = "tools.json"\npolicy = "p.md"\nbaseline = "base.json"'),
                      files={"tools.json": json.dumps([{"name": SECRET, "description": SECRET}]), "p.md": f"Use {SECRET}."})),
        ("a secret as the name of a rubric file", no, "high", _with_secret(f"judge --judge local/a --rubric {SECRET}.md --store c.db",
                                                                           f"agree --rubric {SECRET} --store c.db", f"lab redteam --judge local/a --corpus {SECRET}.toml")),
        ("a secret as a recorder's id", no, "high", _with_secret(*LOOKS, rows=_line(run_id=SECRET), looks_at=kept)),
        ("a secret in base64 within base64", no, "high", _forms_hidden(_wrapped(2), _wrapped(2)[8:40])),
        ("a secret in base64 in lines of 60", no, "high",
         _forms_hidden("\n".join(_wrapped(1)[at : at + 60] for at in range(0, 999, 60)).strip(), _wrapped(1)[4:30])),
        ("a secret three texts of JSON deep", no, "high", _forms_hidden(nested, SECRET[10:30])),
        ("a web token", no, "high", _forms_hidden(f"token {JWT} end", JWT[-30:])),
        ("a basic authorization", no, "high", _forms_hidden("Authorization: Basic dXNlcjpwYXNzd29yZDEyMw== end", "dXNlcjpwYXNzd29yZDEyMw")),
        ("a password in an address of a database", no, "high", _forms_hidden("amqps://svc:tr0ub4dor3@mq.example:5671/vh", "tr0ub4dor3")),
        ("a secret beside its name in YAML", no, "high", _forms_hidden("auth:\n  client_secret: 'q7Zp3Lk9Vb2X'\n", "q7Zp3Lk9Vb2X")),
        ("a secret as an option of a command line", no, "high", _forms_hidden("mysql --password=q7Zp3Lk9Vb2X -h db", "q7Zp3Lk9Vb2X")),
    ]  # fmt: skip


def _compared(words: str) -> Do:
    """Return what compares two groups of the hostile store, in every form."""

    def do(place: Place) -> str:
        for form in ("", "--json", "--markdown"):
            done = place.run("compare", *shlex.split(words), "--store", "s.db", *([form] if form else []))
            if wrong := held(done, (0, 2, 4), form=form):
                return f"{form}: {wrong}"
        return ""

    return do


def _output_rows() -> list[Row]:
    same = "the same bytes: no wall clock, no tongue of the machine"
    odd = ("1", "-1")
    return [
        ("every figure by its name", "0 or 4, strict JSON", "medium", _figures),
        *((f"a report by {field}", "0 or 2, inert in every form", "medium", _by(field)) for field in FIELDS),
        ("a report in another time zone", same, "medium", _same_under("report --json", TZ="Pacific/Kiritimati")),
        ("a report in Turkish", same, "medium", _same_under("report --json", LC_ALL="tr_TR.UTF-8", LANG="tr_TR.UTF-8")),
        ("a report under another seed of hashes", same, "medium", _same_under("report --json", PYTHONHASHSEED="4711")),
        ("a gate under another seed of hashes", same, "medium", _same_under("gate --json --runs c.jsonl", PYTHONHASHSEED="4711")),
        ("a report of two days ago in another zone", same, "medium", _same_under("report --json --since 2d", TZ="America/Adak")),
        ("a report without colours and with", same, "low", _same_under("report --json", FORCE_COLOR="1", COLUMNS="40")),
        ("files in another order", "the same bytes", "medium", _order),
        ("forms of one report", "0 each", "medium", _forms_agree),
        ("a folder of verdicts", "the figures of its store", "medium", _parquet_report),
        ("what the help of report says of folders", "it works as it is written", "low", _help_is_true),
        *((f"a folder of verdicts, one file {spoil}", "2, or what is left is told", "high", _folder_spoilt(spoil, "report --store v", (2,)))
          for spoil in ("cut", "noise", "empty", "gone")),
        *((f"a folder of verdicts as a store: {words}", "2, one line", "high", _folder_spoilt("", words, (2,)))
          for words in ("score --store v", "gate --store v", "purge --where task='c1' --yes --store v", "import c.jsonl --store v")),
        *((f"report --since {since}", "2, one line", "medium", worded(f"report --store s.db --since {since}", (2,))) for since in SINCE),
        *((f"show --steps {steps}", "2, one line", "low", worded(f"show run0b0 --store s.db --steps {steps}", (2,) if steps not in ("::", "-1:", "1", "''") else (0, 2)))
          for steps in STEPS),
        *((f"scores {name}", TYPED, "high", worded("shape s.csv", codes, files={"s.csv": content}))
          for name, (content, codes) in FILES.items()),
        *((f"shape {words}", f"{codes}; {TYPED}", "medium", worded(f"shape s.csv {words}", codes, files={"s.csv": SCORES}))
          for words, codes in SHAPES.items()),
        *((f"envelope {words}", f"{codes}; {TYPED}", "medium", worded(ENVELOPE + words, codes)) for words, codes in LAB.items()),
        ("noise of scores that are all one", "0 or 4", "medium", _repeated([f"a,{s},{n},0.5,j" for s in range(4) for n in range(3)])),
        ("noise of one scoring", "2 or 4: it cannot be told", "medium", _repeated(["a,0,0,0.5,j"], codes=(2, 4))),
        ("noise of repeats that are no numbers", "2 or 4", "medium", _repeated(["a,0,x,0.5,j", "a,0,y,0.6,j"], codes=(2, 4))),
        ("noise of a repeat twice", "2 or 4: the second is set aside", "medium", _repeated(["a,0,0,0.5,j", "a,0,0,0.9,j"], codes=(2, 4))),
        ("noise of two judges of which one is alone", "0 or 4", "medium",
         _repeated([*(f"a,{s},{n},0.{s + n},j" for s in range(4) for n in range(3)), "a,0,0,0.5,k"])),
        *((f"noise by steps of {q}", "2", "medium", _repeated([f"a,{s},{n},0.5,j" for s in range(4) for n in range(3)], f"--quantum {q}", (2,)))
          for q in ("nan", "-1")),
        *((f"a comparison by {words}", "0, 2 or 4; inert", "medium", _compared(words))
          for words in ("pass fail --by outcome", "10 11 --by steps", "ours test --by format", "run0a0 run0b0 --by id", "x y --by tag.'my key'")),
        ("a comparison by a field nobody knows", "2", "medium", worded("compare a b --by nothing --store s.db", (2,))),
        *((f"a queue of {n}", "0, 2 or 4", "low", worded(f"agree --queue {n} --csv --store s.db", (0, 2, 4))) for n in odd),
        ("a queue without its words, as CSV", "0, 2 or 4", "low", worded("agree --csv --store s.db", (0, 2, 4))),
        ("a report into a folder that is not there", "2 or 5", "medium", worded("report --store s.db -o nowhere/r.txt", (2, 5))),
        ("a page into a folder that is not there", "2 or 5", "medium", worded("report --store s.db --html nowhere/r.html", (2, 5))),
        ("a page and JSON at once", "0 or 2", "low", worded("report --store s.db --html h.html --json", (0, 2))),
        ("two forms of a report", "0 or 2", "low", worded("report --store s.db --markdown --junit", (0, 2))),
        ("charts into a file's place", "2 or 5", "medium", worded("report --store s.db --plots base.json", (2, 5))),
        *_secret_rows(),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("outputs", name, expected, severity, do, round=4) for name, expected, severity, do in _output_rows()]
