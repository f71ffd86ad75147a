"""The fifth round: outputs.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Secrets in the account of an import, in rows of others and in the variables of backends; pages
and their interface against the command line; numbers at the end of what a file holds.
"""

# fmt: off
from __future__ import annotations

import csv
import io
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bars.attack import _gates as gates
from bars.attack import _outputs as outputs
from bars.attack._cases import SECRET, SECRETS, Case, Place, coded, one_line
from bars.attack._client import served
from bars.attack._fifth_settings import BACKENDS
from bars.attack._fifth_stores import sample
from bars.attack._fourth import Do, Row
from bars.attack._fourth_outputs import clean, held
from bars.attack._third import ended, forked, strict

WORD = "quokka zanzibar seventeen"
FORM = '[[redaction.secret]]\nkind = "acme"\nbegins = "acme_live_"\ncharacters = "A-Za-z0-9"\nleast = 8\n'
ACME = "acme_live_Quokka77Zanzibar"


def _silent(*commands: str, files: dict[str, gates.Content], text: str = "", part: str = "", codes: tuple[int, ...] = (0, 2, 4),
            looks_at: tuple[str, ...] = (), spawned: dict[str, str] | None = None) -> Do:
    """Return what runs commands over files that hold a secret: typed, and no output has it."""

    def do(place: Place) -> str:
        for name, content in files.items():
            place.write(name, content)
        if text:
            place.write("stepscope.toml", text)
        for command in commands:
            words = shlex.split(command)
            done = place.spawn(*words, environment=spawned) if spawned else place.run(*words)
            if wrong := coded(done, codes):
                return f"{command}: {wrong}"
            if any(one in done.said for one in ((part,) if part else SECRETS)):
                return f"{command} shows it: {done.said[-300:]!r}"
        for pattern in looks_at:
            for path in Path().glob(pattern):
                if path.is_file() and any(one in path.read_text("utf-8", "replace") for one in ((part,) if part else SECRETS)):
                    return f"{path} has it"
        return ""

    return do


def _line(**more: Any) -> str:
    return gates.line(1, 1, text="x", **more)


def _message(**more: Any) -> str:
    said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", **more}]
    return _line(messages=said)


def _agents_hidden(place: Place) -> str:
    """A baseline whose agents are called as a secret: what is printed and the file hide it."""
    place.write("stepscope.toml", gates.policy())
    for number, agent in enumerate((SECRET, f"{SECRET}-2")):
        store = f"{number}.db"
        place.write(f"{number}.jsonl", gates.runs(f"text {number}"))
        place.must("import", f"{number}.jsonl", "--agent", agent, "--agent-version", f"v-{SECRET}", "--store", store)
        place.must("score", "--store", store)
        done = place.run("baseline", "update", "--yes", "--store", store)
        if wrong := coded(done, (0,)):
            return wrong
    return "the file has it" if SECRET[:24] in Path("base.json").read_text("utf-8") else ""


def _backend_hidden(name: str, address: str, **more: str) -> Do:
    """Return what names a backend by an address that holds a secret: the error hides it."""

    def do(place: Place) -> str:
        variable, keys = BACKENDS[name]
        os.environ.update({variable: address, **keys, **more})
        clean(place)
        for words in (("import", name), ("export", "--to", name, "--store", "c.db")):
            if wrong := coded(place.run(*words), (0, 2, 4, 5)):
                return wrong
        return ""

    return do


def _odd_file(make: Callable[[], object], words: str, codes: tuple[int, ...] = (0, 2, 4, 5)) -> Do:
    """Return what lets a command look at something that is no file of traces: typed, in time."""

    def do(place: Place) -> str:
        make()
        return held(place.run(*shlex.split(words)), codes)

    return do


def _many_empty() -> None:
    Path("many").mkdir()
    for number in range(3000):
        Path("many", f"{number}.json").write_bytes(b"")


def _numbers(change: Callable[[dict[str, Any]], object], *commands: str) -> Do:
    """Return what imports traces of LangSmith with numbers at their ends: strict JSON, no bug."""

    def do(place: Place) -> str:
        for number in range(6):
            made = json.loads(sample("langsmith.json").replace('"a1"', f'"a{number}"').replace("Paris", f"Paris {number}"))
            change(made[1])
            place.write(f"n/{number}.json", json.dumps(made))
        place.must("import", "n", "--store", "n.db")
        place.must("score", "--store", "n.db")
        for words in (*commands, "report --json --store n.db", "report --markdown --store n.db", "compare pass unknown --by outcome --json --store n.db",
                      "report --get tokens.median --json --store n.db", "report --get cost_usd.p95 --json --store n.db", "report --get seconds.p95 --json --store n.db",
                      "show a1 --json --store n.db", "export x.otlp --format otlp --store n.db", "report --html r.html --store n.db"):
            done = place.run(*words.split())
            if wrong := coded(done, (0, 2, 4)):
                return f"{words}: {wrong}"
            if "--json" in words and done.code in (0, 4) and done.out.strip():
                strict(done.out)
        for line in Path("x.otlp").read_text("utf-8").splitlines():
            strict(line)
        return ""

    return do


def _usage(**usage: Any) -> Callable[[dict[str, Any]], object]:
    def change(made: dict[str, Any]) -> None:
        made["outputs"]["usage_metadata"] |= usage

    return change


def _same_page(place: Place) -> str:
    """The same rows give the same bytes of a page, in another zone, tongue and seed of hashes."""
    place.write("stepscope.toml", "seed = 0\n")  # without a secret, whose digits are new in each process
    clean(place)
    place.must("report", "--html", "a.html", "--store", "c.db")
    odd = {"TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "77", "COLUMNS": "31"}
    done = place.spawn("report", "--html", "b.html", "--store", "c.db", environment=odd)
    return coded(done, (0,)) or ("" if Path("a.html").read_bytes() == Path("b.html").read_bytes() else "other bytes")


def _same_words(*commands: str) -> Do:
    """Return what prints the same bytes in another zone, tongue and seed of hashes."""

    def do(place: Place) -> str:
        clean(place, [gates.line(c, n, passed=n < 2, agent="ab"[n % 2]) for c in range(6) for n in gates.TRIALS])
        for words in commands:
            one = place.spawn(*words.split(), "--store", "c.db", environment={"PYTHONHASHSEED": "1"})
            two = place.spawn(*words.split(), "--store", "c.db", environment={"TZ": "Asia/Kolkata", "LC_ALL": "C", "PYTHONHASHSEED": "2"})
            if one.out != two.out or one.code != two.code:
                return f"{words}: other bytes, codes {one.code}, {two.code}"
        return ""

    return do


def _no_texts(place: Place) -> str:
    """`--embed 0` leaves names, figures and evidence: no words of a harmless run that passed."""
    said = [{"role": "user", "content": f"hello, {WORD}"}, {"role": "assistant", "content": f"I know {WORD}."}]
    clean(place, [gates.line(c, n, messages=[*said, {"role": "user", "content": f"{c} {n}"}]) for c in range(3) for n in range(2)])
    place.must("report", "--html", "r.html", "--embed", "0", "--store", "c.db")
    return "words of a run are in it" if WORD in Path("r.html").read_text("utf-8") else ""


def _compared(rows: list[str], *commands: str) -> Do:
    """Return what compares groups of few or odd runs: typed, inert, strict."""

    def do(place: Place) -> str:
        clean(place, rows)
        for words in commands:
            for form in ("", "--json", "--markdown"):
                done = place.run(*shlex.split(words), "--store", "c.db", *([form] if form else []))
                if wrong := held(done, (0, 2, 4), form=form):
                    return f"{words} {form}: {wrong}"
        return ""

    return do


def _agreed(rows: list[str], *commands: str, codes: tuple[int, ...] = (0, 2, 4)) -> Do:
    """Return what compares raters who are few, of one mind or oddly called."""

    def do(place: Place) -> str:
        clean(place)
        place.write("v.csv", ["run,label,judge", *rows])
        place.must("import", "--verdicts", "v.csv", "--rubric", "axes.termination", "--human", "--store", "c.db")
        for words in commands:
            done = place.run(*shlex.split(words), "--store", "c.db")
            if wrong := held(done, codes, form="--json" if "--json" in words else ""):
                return f"{words}: {wrong}"
            if "--csv" in words:
                cells = [cell for row in csv.reader(io.StringIO(done.out)) for cell in row]
                if bad := [cell for cell in cells if cell[:1] in "=+@" and cell]:
                    return f"a formula: {bad[:2]}"
        return ""

    return do


def _served_report(query: str, words: str) -> Do:
    """Return what asks a server for its report: it is that of the command line."""

    def do(place: Place) -> str:
        clean(place, [gates.line(c, n, passed=n < 2, agent="ab"[n % 2]) for c in range(6) for n in gates.TRIALS])
        told = place.must("report", "--json", "--store", "c.db", *shlex.split(words))
        with served("--store", "c.db") as server:
            answer = server.ask(f"/api/report.json{query}")
        if answer.status != 200:
            return f"{answer.status} {answer.text[:200]!r}"
        return "" if strict(answer.text) == strict(told.out) else "another report than that of the command line"

    return do


def _served_rows(place: Place) -> str:
    """CSV of runs has a row a run, and no cell that a spreadsheet would run."""
    rows = [gates.line(c, n, agent=("=cmd|x", "+1", "@SUM(1)")[n % 3]) for c in range(6) for n in gates.TRIALS]
    clean(place, rows)
    with served("--store", "c.db") as server:
        answer = server.ask("/api/runs.csv")
    found = list(csv.reader(io.StringIO(answer.text)))
    bad = [cell for row in found for cell in row if cell[:1] in "=+@" and cell]
    return f"{answer.status}, {len(found)} rows, {bad[:2]}" if answer.status != 200 or len(found) != 25 or bad else ""


def _served_erased(place: Place) -> str:
    """A run that was erased, by its page and its interface: an answer, and none of its words."""
    clean(place, [gates.line(c, 0, text=WORD) for c in range(3)])
    told = place.must("report", "--json", "--store", "c.db", "--look-first", "9").out
    place.must("purge", "--where", "name like '%'", "--yes", "--store", "c.db")
    names = ["w/c0/0", *[one["id"] for one in json.loads(told)["look_first"]]]
    with served("--store", "c.db") as server:
        for name in names:
            for path in (f"/run/{name}", f"/api/run/{name}", f"/run/{name}/raw?step=0"):
                answer = server.ask(path)
                if answer.status >= 500 or answer.status == 0 or WORD in answer.text:
                    return f"{path}: {answer.status} {answer.text[:200]!r}"
    done = place.run("show", "w/c0/0", "--store", "c.db")
    return one_line(done, (2,)) if done.code == 2 else coded(done, (0, 4), lacks=WORD)


def _raw_output(place: Place) -> str:
    """Parquet on standard output is Parquet, and comes back."""
    clean(place)
    with Path("x.parquet").open("wb") as file:
        import subprocess
        import sys

        command = [str(Path(sys.executable).with_name("stepscope")), "export", "-", "--format", "parquet", "--store", "c.db"]
        made = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=False, timeout=15)
    if made.returncode == 2:
        return "" if made.stderr.count(b"error: ") == 1 and not Path("x.parquet").stat().st_size else f"{made.stderr[-200:]!r}"
    done = place.run("import", "x.parquet", "--store", "n.db")
    return coded(done, (0,), says="48 new")


def _nothing_exported(place: Place) -> str:
    """An export of no run: typed in every format, and what was written is no error to read back."""
    clean(place)
    for form in ("ours", "parquet", "atif", "otlp"):
        done = place.run("export", f"none.{form}", "--format", form, "--where", "task = 'zzz'", "--store", "c.db")
        wrong = one_line(done, (2,)) if done.code == 2 else coded(done, (0, 4))
        if not wrong and done.code == 0 and Path(f"none.{form}").is_file():
            wrong = coded(place.run("import", f"none.{form}", "--store", "n.db"), (0, 2))
        if wrong:
            return f"{form}: {wrong}"
    return ""


def _summary_grows(place: Place) -> str:
    """A job summary that other steps wrote to stays, and ours stands behind it."""
    place.write("stepscope.toml", gates.policy("outcome = { min_rate = 1.0 }", ""))
    place.write("t/a.jsonl", [gates.line(c, n, passed=False) for c in range(4) for n in range(2)])
    place.write("summary.md", "of another step\n")
    os.environ["GITHUB_STEP_SUMMARY"] = str(place.folder / "summary.md")
    done = place.run("gate", "--runs", "t")
    text = Path("summary.md").read_text("utf-8")
    return coded(done, (3,)) or ("" if text.startswith("of another step\n") and len(text) > 30 else f"{text[:100]!r}")


def _hostile_labels(name: str, change: Callable[[Any], object]) -> Do:
    """Return what imports an example whose labels and scorers are hostile: every output is inert."""

    def do(place: Place) -> str:
        made = json.loads(sample(name))
        change(made)
        place.write("h.json", json.dumps(made))
        for words in ("import h.json --store h.db", "score --store h.db", "report --store h.db", "report --markdown --store h.db", "report --junit --store h.db",
                      "report --by step_agent --store h.db", "report --json --store h.db"):
            form = next((w for w in ("--json", "--markdown", "--junit") if w in words), "")
            if wrong := held(place.run(*words.split()), (0, 2), form=form):
                return f"{words}: {wrong}"
        told = place.run("report", "--json", "--look-first", "5", "--store", "h.db")
        for one in json.loads(told.out)["look_first"]:
            if wrong := held(place.run("show", one["id"], "--store", "h.db"), (0,)):
                return f"show: {wrong}"
        place.must("report", "--html", "r.html", "--embed", "all", "--store", "h.db")
        return "a secret in the page" if SECRET[:24] in Path("r.html").read_text("utf-8") else ""

    return do


def _inspected(made: Any) -> None:
    made["samples"][0]["scores"] = {f"s {outputs.HOSTILE}": {"value": "I", "answer": outputs.LINES, "explanation": outputs.LINES}}


def _blamed(made: Any) -> None:
    made |= {"mistake_agent": outputs.HOSTILE, "mistake_reason": outputs.LINES, "level": outputs.HOSTILE}
    made["history"][2]["role"] = outputs.HOSTILE


def _fed_back(made: Any) -> None:
    made[0]["feedback_stats"] = {outputs.HOSTILE: {"n": 1, "avg": 1.0, "sources": [outputs.HOSTILE], "comments": [outputs.LINES]}}
    made[1]["error"] = outputs.LINES


def _report_while_scored(place: Place) -> str:
    """Reports beside a score at work: each is strict, and the last is that of a quiet store."""
    place.write("c.jsonl", gates.runs("clean"))
    place.must("import", "c.jsonl", "--store", "c.db")
    pid = forked("score", "--store", "c.db", "--workers", "1")
    for _ in range(4):
        done = place.run("report", "--json", "--store", "c.db")
        if wrong := coded(done, (0, 2)):
            return wrong
        if done.code == 0:
            strict(done.out)
    return "" if ended(pid, 12) == 0 else "the score did not end well"


def _output_rows() -> list[Row]:
    hides = "typed; no output has the secret"
    typed = "typed, in time, no bug"
    strict_ = "strict JSON, no bug"
    same = "the same bytes"
    score = f"a,0,{SECRET}"
    raters = [f"w/c{c}/0,{('correct', 'incorrect')[c % 2]},{who}" for c in range(6) for who in ("=HYPERLINK(1)", "+1+1", "@x")]
    alone = [f"w/c{c}/0,correct,ann" for c in range(6)]
    alike = [f"w/c{c}/0,correct,{who}" for c in range(6) for who in ("ann", "bob")]
    plain = [gates.line(c, n, agent="ab"[n % 2]) for c in range(2) for n in range(2)]
    return [
        ("a secret as a key that nobody knows", hides, "high", _silent("import x.jsonl --store n.db", "doctor x.jsonl", "import x.jsonl --json --store m.db", files={"x.jsonl": _line(**{SECRET: 1})})),
        ("a secret as a key of a message", hides, "high", _silent("import x.jsonl --store n.db", "doctor x.jsonl", "doctor x.jsonl --json", files={"x.jsonl": _message(**{SECRET: {SECRET: 1}})})),
        ("a secret as the run of an outcome", hides, "high", _silent("import --outcomes o.csv", "import --outcomes o.csv --json", files={"o.csv": ["run,outcome,who", f"{SECRET},pass,ann", f"run0a0,{SECRET},ann"]})),
        ("a secret as the run and label of a verdict", hides, "high", _silent("import --verdicts v.csv --rubric axes.termination", files={"v.csv": ["run,label,judge", f"{SECRET},correct,ann", f"run0a0,{SECRET},ann"]})),
        ("a secret as a cell of scores", hides, "high", _silent("import s.csv --store n.db", "shape s.csv", "calibrate sigma s.csv --store n.db", files={"s.csv": ["run,step,score", score, f"a,{SECRET},0.5", "a,1,0.5"]})),
        ("a secret as a column and a label of the command line", hides, "high",
         _silent(f"import --verdicts v.csv --rubric axes.termination --map label={SECRET}", f"import --verdicts v.csv --rubric axes.termination --labels {SECRET}=correct",
                 f"import --verdicts v.csv --rubric axes.termination --labels correct={SECRET}", f"import --verdicts v.csv --rubric {SECRET}", files={"v.csv": ["run,label,judge", "run0a0,correct,ann"]})),
        ("a secret in errors that are told in full", hides, "high",
         _silent(f"report --store s.db --where \"agent = '{SECRET}' x\"", f"report --get {SECRET} --store s.db", f"show {SECRET} --store s.db", files={}, spawned={"STEPSCOPE_DEBUG": "1"})),
        ("a secret as the agents of a baseline", hides + ", nor the file", "high", _agents_hidden),
        ("a secret as two agents that are compared", hides, "high", _compared([gates.line(c, n, agent=f"{SECRET}-{n % 2}") for c in range(3) for n in range(4)], f"compare {SECRET}-0 {SECRET}-1")),
        ("a secret of the user's own form in accounts and errors", hides, "high",
         _silent("import x.jsonl --store n.db", "doctor x.jsonl", "score --store n.db", "report --store n.db", f"report --where \"agent = '{ACME}' x\" --store n.db", "report --html r.html --embed all --store n.db",
                 text=FORM, part="Zanzibar", looks_at=("r.html",), files={"x.jsonl": [_line(**{ACME: 1}, agent=ACME), '{"task_id": "' + ACME + '", "messages": [{"role": "' + ACME]})),
        ("a secret of the user's own form in a gate", hides, "high",
         _silent("gate --runs t", "gate --runs t --markdown", "gate --runs t --junit", "gate --runs t --write w", codes=(3,), part="Zanzibar", looks_at=("w/**/*",), text=FORM + gates.policy("outcome = { min_rate = 1.0 }", ""),
                 files={"t/a.jsonl": [gates.line(c, n, passed=False, agent=ACME).replace(f'"c{c}"', f'"{ACME}{c}"') for c in range(4) for n in range(2)]})),
        ("a secret in the address of Phoenix", hides, "high", _backend_hidden("phoenix:x", f"http://user:{SECRET}@127.0.0.1:1", PHOENIX_CLIENT_HEADERS=f"authorization=Bearer {SECRET}")),
        ("a secret in the address and keys of Langfuse", hides, "high", _backend_hidden("langfuse:", f"http://127.0.0.1:1/?key={SECRET}", LANGFUSE_SECRET_KEY=SECRET)),
        ("doctor of a pipe", typed, "high", _odd_file(lambda: os.mkfifo("p.json"), "doctor p.json")),
        ("doctor of what never ends", typed, "high", _odd_file(lambda: None, "doctor /dev/zero")),
        ("doctor of 3,000 empty files", typed, "high", _odd_file(_many_empty, "doctor many")),
        ("tokens at the end of 64 bits", strict_, "high", _numbers(_usage(input_tokens=2**63 - 1, output_tokens=2**63 - 1, total_tokens=2**63 - 1))),
        ("costs next to nothing", strict_, "high", _numbers(lambda made: made.update(total_cost=5e-324, prompt_cost=5e-324, completion_cost=5e-324))),
        ("times from the first year to the last", strict_, "high", _numbers(lambda made: made.update(start_time="0001-01-01T00:00:00Z", end_time="9999-12-31T23:59:59.999999Z"))),
        ("a page elsewhere", same, "medium", _same_page),
        ("comparison, agreement, Markdown and JUnit elsewhere", same, "medium", _same_words("compare a b", "report --markdown", "report --junit", "agree --json")),
        ("a page without runs", "no words of them", "high", _no_texts),
        ("a comparison of runs that all pass", f"{strict_}; inert", "medium", _compared(plain, "compare a b", "compare a nobody", "compare a b --where \"task = 'zz'\"", "compare 0 1 --by trial")),
        ("agreement of one rater", f"{strict_}; inert", "medium", _agreed(alone, "agree --json", "agree", "agree --queue 3 --json", "agree --modes --json", "agree --by agent --json")),
        ("agreement of raters of one mind", f"{strict_}; inert", "medium", _agreed(alike, "agree --json", "agree --min 2 --json", "agree --min -1 --json", "agree --by task --json")),
        ("raters called as formulas, in CSV", "no cell is a formula", "high", _agreed(raters, "agree --queue 5 --csv", "agree", "agree --json")),
        ("a report of the server", "as report --json", "medium", _served_report("?where=outcome%20%3D%20%27fail%27", "--where \"outcome = 'fail'\"")),
        ("runs of the server as CSV", "25 rows, no formula", "high", _served_rows),
        ("an erased run on the server and by show", "an answer without its words", "high", _served_erased),
        ("Parquet on standard output", "it comes back, or 2", "medium", _raw_output),
        ("exports of nothing", typed, "medium", _nothing_exported),
        ("a job summary that others wrote to", "theirs stays", "medium", _summary_grows),
        ("hostile scorers of Inspect", "inert everywhere", "high", _hostile_labels("inspect.json", _inspected)),
        ("hostile labels of Who&When", "inert everywhere", "high", _hostile_labels("whowhen.json", _blamed)),
        ("hostile feedback of LangSmith", "inert everywhere", "high", _hostile_labels("langsmith.json", _fed_back)),
        ("reports while runs are scored", strict_, "high", _report_while_scored),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("outputs", name, expected, severity, do, round=5) for name, expected, severity, do in _output_rows()]
