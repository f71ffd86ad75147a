"""The eighth round: stores.

Expectations as in the first round: by the documentation, written and committed before anything was
run. New commands beside writers and on damaged files, names that databases read otherwise, what is
erased of failure modes and measures of one's own, stores that are no stores, settings that change
between two imports, Python's own ways in.
"""

# fmt: off
from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bars.attack import _gates as gates
from bars.attack import _stores as stores
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._eighth import script, typed
from bars.attack._eighth_outputs import asked, rows_of
from bars.attack._fifth_stores import ids
from bars.attack._fourth import Do, Row
from bars.attack._seventh import OK, TAKEN, told
from bars.attack._seventh_stores import SAID, _ended_by_kills, _killed, together
from bars.attack._third import ended, forked, strict
from bars.attack._third_world import n_runs

N = ("--store", "n.db")
WORD = "zanzibarquokka"


# ---- damaged stores, and what is no store

NEW = ("list", "list --json --by task", "diff w/c1/0 w/c1/1", "report t", "init --yes --force", "case promote w/c1/0", "import --set-aside", "mcp", "judge --again --dry-run", "export --salvage o.db")


def _damaged(words: str, change: Callable[[], None]) -> Do:
    """Return what runs a command on a store that is damaged: an error of a line that says what to do, never a report."""

    def do(place: Place) -> str:
        change()
        codes = (0, 2, 5) if "salvage" in words else (2, 5)
        return typed(place, words, codes)

    return do


def _no_store(words: str, name: str) -> Do:
    """Return what names something else as the store: 2, one line, and it stays as it was."""

    def do(place: Place) -> str:
        place.write("x.json", json.dumps({"a": 1}))
        Path("folder").mkdir()
        place.must("import", "t", *N)
        place.must("score", *N)
        before = Path(name).read_bytes() if Path(name).is_file() else None
        done = place.run(*shlex.split(words), "--store", name)
        if wrong := one_line(done, (2, 5)):
            return wrong
        if not Path("folder").is_dir() or Path("nowhere.db").exists():
            return "a store was made"
        return "" if before is None or Path(name).read_bytes() == before else "the file was changed"

    return do


def _noise_within() -> None:
    path = stores.checkpointed()
    raw = bytearray(path.read_bytes())
    for at in range(3, len(raw) // 4096 - 1, 3):
        raw[at * 4096 + 100 : at * 4096 + 160] = os.urandom(60)
    path.write_bytes(raw)


# ---- names


def _unnamed(name: str, *more: str) -> Do:
    """Return what names a run by signs that databases and shells read otherwise: no run is meant, nothing is made of it."""

    def do(place: Place) -> str:
        for words in ("show {}", "diff {} w/c1/0", "diff w/c1/0 {}", "case promote {}", "judge {} --judge openai/gpt-5 --dry-run", "judge --show-prompt {} --judge openai/gpt-5", *more):
            done = place.run(*[name if word == "{}" else word for word in words.split()])
            if wrong := one_line(done, (2,)):
                return f"{words}: {wrong}"
        return "files of a case were made" if Path("cases").exists() else ""

    return do


def _exact(place: Place) -> str:
    """A name that is the beginning of other names means its own run, and one that is the beginning of an id, too."""
    rows = [told(1, 0, task_id="a"), told(2, 0, task_id="a/0"), told(3, 0, task_id="aa")]
    place.write("n.jsonl", rows)
    place.must("import", "n.jsonl", *N)
    (first, *_) = ids(place, "n.db")
    place.write("o.jsonl", [json.dumps({"workflow": first[:6], "task": "x", "trial": 1, "messages": SAID}), json.dumps({"workflow": "z", "task": first[:8], "messages": SAID})])
    place.must("import", "o.jsonl", *N)
    place.must("score", *N)
    for name in ("w/a/0", "w/a/0/0", "w/aa/0", first[:6] + "/x/1", f"z/{first[:8]}"):
        done = place.run("show", name, *N)
        if done.code or not done.out.lstrip("'\"").startswith((name, "'" + name)):
            return f"{name!r}: code {done.code}, {done.said[:120]!r}"
    done = place.run("show", first[:6], *N)
    return one_line(done, (2,)) if done.code else "" if first[:6] in done.out else "another run is shown"


# ---- what is erased

ERASED = "purge --yes --where \"workflow = 'w'\" --store n.db"


def _erased(*before: str, rows: Iterable[str], files: Mapping[str, str] | None = None, after: Iterable[str] = (), codes: tuple[int, ...] = (0, 2, 4), word: str = WORD) -> Do:
    """Return what erases runs: no file of the store has the word, and no command says it."""

    def do(place: Place) -> str:
        place.write("n.jsonl", rows)
        for name, text in (files or {}).items():
            place.write(name, text)
        for words in ("import n.jsonl", *before):
            place.must(*shlex.split(words), *N)
        place.must(*shlex.split(ERASED))
        for path in Path().glob("n.db*"):
            if word.encode() in path.read_bytes():
                return f"{path} has the word"
        for words in ("report", "report --json", "list --json", "import --set-aside", *after):
            done = place.run(*shlex.split(words), *N)
            if word in done.said:
                return f"{words} says it: {done.said[max(0, done.said.index(word) - 60):][:120]!r}"
            if wrong := coded(done, codes):
                return f"{words}: {wrong}"
        return ""

    return do


def _figures_stay(place: Place) -> str:
    """What a report says before an erasure it says after it: outcomes, steps, calls; lists too."""
    place.write("n.jsonl", [told(c, n, TAKEN if n == 3 else OK, passed=n != 3) for c in gates.CASES for n in gates.TRIALS])
    for words in ("import n.jsonl", "score"):
        place.must(*words.split(), *N)
    wanted = ("outcome.pass", "steps.median", "redundant_calls.per_run")
    before = [place.run("report", "--get", name, *N).out for name in wanted]
    listed = rows_of(place, "--columns", "run,outcome,steps", store="n.db")
    place.must(*shlex.split("purge --yes --where \"task = 'c1'\""), *N)
    after = [place.run("report", "--get", name, *N).out for name in wanted]
    if before != after:
        return f"{before} became {after}"
    then = rows_of(place, "--columns", "run,outcome,steps", store="n.db")
    if len(then) != 48 or sorted(str(row) for row in then) != sorted(str(row) for row in listed):
        return "the list has changed"
    place.must("score", *N)
    again = [place.run("report", "--get", name, *N).out for name in wanted]
    return "" if again == before else f"after the next score {again}"


def _erased_between(place: Place) -> str:
    """Runs that are erased before they are scored are unmeasured, and counted: no figure of theirs is a zero."""
    place.must("import", "t", *N)
    place.must(*shlex.split("purge --yes --where \"task in ('c1', 'c2', 'c3')\""), *N)
    place.run("score", *N)
    made = strict(place.must("report", "--get", "redundant_calls.per_run", "--json", *N).out)
    lost = sum((made.get("unmeasured") or {}).values())
    return "" if made["n"] == 36 and lost == 12 else f"n {made['n']}, unmeasured {made.get('unmeasured')}"


# ---- killed, and at once


def _as_if_never(words: str, seconds: Iterable[float] = (0.05, 0.15, 0.3, 0.6)) -> Do:
    """Return what kills a command at several times, and runs it whole: it says what it says in a store of its own."""

    def do(place: Place) -> str:
        place.must(*shlex.split(words), "--store", "o.db")
        whole = place.must("report", "--json", "--store", "o.db").out
        if wrong := _ended_by_kills(place, words, seconds):
            return wrong
        return "" if place.must("report", "--json", *N).out == whole else "another report than without the kills"

    return do


def _inits_at_once(place: Place) -> str:
    """Three `init` at once: settings that load, a baseline that is whole, gates at work."""
    Path("stepscope.toml").unlink()
    place.must("import", "t", *N)
    place.must("score", *N)
    codes = [ended(pid, 18) for pid in [forked("init", "--yes", *N) for _ in range(3)]]
    if set(codes) - {0, 2} or 0 not in codes:
        return f"codes {codes}"
    place.write("f/a.jsonl", [*gates.PASSING, *gates.FAILING])
    return typed(place, "gate --runs f", (3,))


def _init_killed(place: Place) -> str:
    """A killed `init` leaves no half of settings: either none, or some that load; then it goes on."""
    Path("stepscope.toml").unlink()
    place.must("import", "t", *N)
    for wait in (0.1, 0.2, 0.4, 0.7, 1.0):
        pid = forked("init", "--yes", "--force", *N)
        time.sleep(wait)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        ended(pid)
        if Path("stepscope.toml").exists() and (wrong := coded(place.run("list", *N), (0,))):
            return f"after {wait} s: {wrong}"
    return typed(place, "init --yes --force --store n.db", (0,))


def _mcp_while(*commands: str) -> Do:
    """Return what asks the server for coding agents while others write: answers, and nobody waits for it."""

    def do(place: Place) -> str:
        place.must("import", "t", *N)
        place.must("score", *N)
        place.write("u/b.jsonl", gates.runs("more"))
        with asked(*N) as agent:
            pids = {words: forked(*shlex.split(words), *N) for words in commands}
            for _ in range(6):
                for tool in ("report", "list_runs", "failure_modes"):
                    text, error = agent.call(tool)
                    if error:
                        return f"{tool}: {text[-200:]!r}"
            codes = {words: ended(pid, 15) for words, pid in pids.items()}
        return f"codes {codes}" if set(codes.values()) - {0, 4} else ""

    return do


def _mcp_loses(change: Callable[[Place], object]) -> Do:
    """Return what takes the store from under the server: an error or an answer, the server goes on, nothing is made."""

    def do(place: Place) -> str:
        place.must("import", "t", *N)
        place.must("score", *N)
        with asked(*N) as agent:
            agent.call("report")
            change(place)
            before = {str(path) for path in Path().glob("n.db*")}
            for tool in ("report", "list_runs", "report"):
                text, _ = agent.call(tool)
                if not text:
                    return f"{tool}: no word"
            made = {str(path) for path in Path().glob("n.db*")} - before
        return f"made {made}" if {path for path in made if not path.endswith(("-wal", "-shm"))} else ""

    return do


def _moved(place: Place) -> None:
    for path in Path().glob("n.db*"):
        path.rename(f"gone-{path.name}")


def _spoilt(place: Place) -> None:
    stores.checkpointed("n.db")
    raw = bytearray(Path("n.db").read_bytes())
    raw[4096:] = os.urandom(len(raw) - 4096)
    Path("n.db").write_bytes(bytes(raw))


def _locked(words: str, codes: tuple[int, ...], seconds: float = 1.0) -> Do:
    """Return what runs a command while somebody holds the store for a while: it waits, or says so."""

    def do(place: Place) -> str:
        place.must("import", "t", *N)
        place.must("score", *N)
        with closing(sqlite3.connect("n.db", check_same_thread=False, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            timer = threading.Timer(seconds, lambda: db.execute("COMMIT"))
            timer.start()
            done = place.spawn(*shlex.split(words), *N)
            timer.join()
        return one_line(done, codes) if done.code in (2, 5) else coded(done, codes)

    return do


# ---- Python


def _refuses(*calls: Callable[[Any], object]) -> Do:
    """Return what calls Python's own ways in, oddly: an answer, or one of our errors of a line."""

    def do(place: Place) -> str:
        import stepscope as ss
        from stepscope.errors import StepscopeError

        place.must("import", "t", *N)
        place.must("score", *N)
        with ss.open("n.db") as store:
            for number, call in enumerate(calls):
                try:
                    call(store)
                except StepscopeError as e:
                    if not str(e) or "\n" in str(e):
                        return f"call {number}: {str(e)[:200]!r}"
        return ""

    return do


def _threads(place: Place) -> str:
    """Eight threads that open a store of their own and add, score, list and report: 48 runs."""
    code = (
        "import threading, stepscope as ss\nfound = []\n"
        "def work(n):\n"
        "    try:\n"
        "        with ss.open('n.db') as store:\n"
        "            store.add('t'); store.score(); store.list_runs(); found.append(store.report()['outcome.pass'].n)\n"
        "    except BaseException as e:\n"
        "        found.append(repr(e))\n"
        "all = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
        "[t.start() for t in all]; [t.join() for t in all]\n"
        "print(found)\nassert found == [48] * 4\n")
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=18)
    return "" if made.returncode == 0 else f"{made.stdout.decode()[-300:]} {made.stderr.decode()[-300:]}"


def _memory_stores(place: Place) -> str:
    """Two stores in memory are two stores; a report of files in one leaves no file."""
    import stepscope as ss

    before = sorted(str(path) for path in Path().rglob("*"))
    with ss.open(":memory:") as one, ss.open(":memory:") as other:
        first = one.report(["t"])
        other.add([{"messages": SAID, "task": "a", "outcome": "pass"}])
        other.score()
        second = other.report()
        counts = [getattr(one["outcome.pass"], "n", None) for one in (first, second)]
        if counts != [48, 1]:
            return f"{counts} runs"
    after = sorted(str(path) for path in Path().rglob("*"))
    return "" if before == after else f"made {set(after) - set(before)}"


# ---- imports that say more, or less


def _agents_later(place: Place) -> str:
    """Agent and version may be said at the second import: 48 runs have both; a third one without them takes nothing back."""
    for words in ("import t", "score", "import t --agent v --agent-version 2", "import t"):
        place.must(*words.split(), *N)
    rows = rows_of(place, "--where", "agent = 'v' and agent_version = '2'", store="n.db")
    return "" if len(rows) == 48 and n_runs(place, "n.db") == 48 else f"{len(rows)} of {n_runs(place, 'n.db')} runs"


def _task_splits(place: Place) -> str:
    """One file imported under two tasks: what is known is not told otherwise, and no run is lost."""
    place.write("a.json", json.dumps(SAID))
    for words in ("import a.json --task 1 --trial 0", "import a.json --task 2 --trial 0"):
        done = place.run(*words.split(), *N)
        if done.code not in (0, 2):
            return f"code {done.code}"
    place.must("score", *N)
    names = sorted(row["handle"] for row in rows_of(place, store="n.db"))
    return "" if any("/1/" in name for name in names) else f"{names}"


def _aside_later(place: Place) -> str:
    """The list of what was set aside: as long after the same import again, of a path alone, of a path nobody read."""
    place.write("b.jsonl", [gates.line(1, 0), '{"messages": 7, "task": "x"}', '{"messages": ['])
    place.must("import", "b.jsonl", *N)
    first = place.must("import", "--set-aside", "--json", *N).out
    place.must("import", "b.jsonl", *N)
    if place.must("import", "--set-aside", "--json", *N).out != first:
        return "the same import twice makes another list"
    alone = place.must("import", "--set-aside", "b.jsonl", *N).out
    if alone.count("b.jsonl") < 2:
        return f"the list of the path alone: {alone[-200:]!r}"
    done = place.run("import", "--set-aside", "t/a.jsonl", *N)
    if "b.jsonl" in done.out:
        return "another file's records"
    return coded(done, (0, 2))


def _cases_twice(*commands: str, has: str, lacks: str = "") -> Do:
    """Return what gives cases by settings and by hand: the run has this one's words."""

    def do(place: Place) -> str:
        case = 'version = 2\n[[task]]\nworkflow = "w"\ntask = "c1"\nmust_tell = ["{}"]\n'
        place.write("mine.toml", case.format("minezanzibar"))
        place.write("theirs.toml", case.format("theirsquokka"))
        place.write("stepscope.toml", '[workflow.w]\ncases = "mine.toml"\n')
        for words in commands:
            done = place.run(*shlex.split(words), *N)
            if done.code:
                return one_line(done, (2,))
        held = json.dumps([json.loads(line) for line in place.must("export", "-", *N).out.splitlines()])
        if has not in held:
            return f"{has!r} is not held"
        return f"{lacks!r} is held" if lacks and lacks in held else ""

    return do


def _salvaged(place: Place) -> str:
    """What is salvaged of a store with cases and promoted runs is read by every new command."""
    case = 'version = 2\n[[task]]\nworkflow = "w"\ntask = "c1"\nmust_tell = ["x"]\n'
    place.write("c.toml", case)
    for words in ("import t --cases c.toml --tag k=v", "score"):
        place.must(*words.split(), *N)
    place.must("export", "o.db", "--salvage", *N)
    for words in ("list --json", "diff w/c1/0 w/c1/1", "report t", "case promote w/c1/0 --out k", "import --set-aside", "report --json", "gate --undecided pass", "doctor"):
        if wrong := typed(place, f"{words} --store o.db", (0, 2, 4) if words.startswith(("gate", "case")) else (0,)):
            return f"{words}: {wrong}"
    return "" if len(rows_of(place, "--where", "tag.k = 'v'", store="o.db")) == 48 else "tags are lost"


def _store_rows() -> list[Row]:
    never = "2 or 5, a line that says what to do, never a report (docs/explanation/threat-model.md)"
    no_store = "2, one line; it stays, and none is made (docs/reference/exit-codes.md)"
    none = "2: an unknown name is an error (docs/howto/runs.md)"
    gone = "no file of the store has the word, no command says it (docs/howto/purge.md)"
    whole = "each ends well, the store is whole (docs/explanation/threat-model.md)"
    same = "the same report as without the kills (docs/explanation/threat-model.md)"
    ours = "an answer, or one of our errors of a line (docs/howto/notebook.md)"
    waits = "it waits, or says so in a line (docs/reference/exit-codes.md)"
    serves = "answers; the server only reads (docs/howto/coding-agents.md)"
    fails = [told(c, n, [*OK, ("book", f"Error: {WORD} is taken")] if n == 3 else OK, passed=n != 3, text=WORD) for c in range(4) for n in range(4)]
    plugin = "from stepscope.model import Scale, Verdict\nclass Own:\n    name = 'own'\n    version = '1'\n    scale = Scale(low=0, high=9)\n    learns = ()\n    def __call__(self, run, case, facts):\n        return [Verdict('own', 1.0, label=run.steps[0].text[:14], explanation=run.steps[0].text)]\nMEASURE = Own()\n"
    return [
        *((f"a store cut to half, then {words}", never, "high", _damaged(words, stores._cut(0.5))) for words in NEW),
        *((f"a store of noise in its pages, then {words}", never, "high", _damaged(words, _noise_within)) for words in ("list", "diff w/c1/0 w/c1/1", "case promote w/c1/0", "init --yes --force", "report t")),
        ("a store with a trigger, then list", never, "high", _damaged("list", stores._sql("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END"))),
        ("a store with a trigger, then mcp", never, "high", _damaged("mcp", stores._sql("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END"))),
        ("a store of a version to come, then list", never, "high", _damaged("list", stores._sql("PRAGMA user_version = 999"))),
        ("a store of a version to come, then mcp", never, "high", _damaged("mcp", stores._sql("PRAGMA user_version = 999"))),
        *((f"{words.split()[0]} of {name}", no_store, "high", _no_store(words, name)) for words in ("list", "diff w/c1/0 w/c1/1", "mcp", "case promote w/c1/0") for name in ("nowhere.db", "x.json", "base.json", "folder")),
        # names
        *((f"a run called {name[:12]!r}", none, "high", _unnamed(name)) for name in ("%", "w/c1/_", "w/c%/0", "w/c?/0", "w/c1/[0]", "w/*", "W/C1/0", "", " ", "' OR 1=1 --", "w/c1/0%", "\\", "x" * 100_000, "w\u2215c1/0")),
        ("names that are beginnings of names and ids", "its own run, or 2: say more (docs/howto/runs.md)", "medium", _exact),
        # erased
        ("erased: what failed, after failure modes were reported", gone, "high", _erased("score", "report --json", rows=fails, after=("list --columns run,axes", "report --markdown", "gate"), codes=(0, 2, 3, 4))),
        *((f"runs erased where {where}", "0, and what was set aside of another file stays: a condition on calls and texts knows nothing of it (a sibling; docs/reference/where.md)", "high", script(("import n.jsonl u.jsonl --store n.db", (0,)), ("score --store n.db", (0,)), (f'purge --yes --where "{where}" --store n.db', (0,)), _one_aside,
           files={"n.jsonl": fails, "u.jsonl": [gates.line(1, 7), json.dumps({"messages": 7, "task": "u"})]})) for where in ("tool = 'book' and error", "text ~ 'zanzibar' and not text ~ 'new'", "axis.argument_validity = 'incorrect' and error", "mode != 'x' and error", "not error and text ~ 'zanzibar'")),
        ("erased: what a measure of one's own said", gone, "medium", _erased("score --measure own.py:MEASURE", rows=fails, files={"own.py": plugin}, after=("report --get own", "list --columns run,own"))),
        ("erased: what was set aside beside it", gone, "high", _erased("score", rows=[*fails, json.dumps({"messages": WORD, "task": "x"})])),
        ("erased: what a person said of it", gone, "medium", _erased("score", "import --verdicts v.csv --rubric axes.termination --rater ann --human", rows=fails, files={"v.csv": f"run,label,reason\nw/c1/0,correct,{WORD} because\n"})),
        ("erased: why an outcome was told", gone, "medium", _erased("import --outcomes o.csv", "score", rows=fails, files={"o.csv": f"run,outcome,who,reason\nw/c1/0,fail,check,{WORD} because\n"})),
        ("erased: the figures of a report and a list", "the numbers stay (docs/howto/purge.md)", "high", _figures_stay),
        ("erased between import and score", "unmeasured, and counted (docs/explanation/absence.md)", "high", _erased_between),
        ("erased: what an agent can ask for", gone, "high", script(lambda p: p.write("n.jsonl", fails), ("import n.jsonl --store n.db", (0,)), ("score --store n.db", (0,)), (ERASED, (0,)), lambda p: _asks_erased(p))),
        # at once, killed
        ("three reports of files at once", whole, "high", together("report t", "report t --json", "report u", files={"u/b.jsonl": "\n".join(gates.runs("more"))}, check=lambda p: "" if n_runs(p, "n.db") == 96 else f"{n_runs(p, 'n.db')} runs")),
        ("lists and differences beside writers", whole, "high", together("list --json", "diff w/c1/0 w/c1/1", "score", "import u", "purge --yes --where \"task = 'c3'\"", files={"u/b.jsonl": "\n".join(gates.runs("more"))}, check=lambda p: "" if n_runs(p, "n.db") == 96 else f"{n_runs(p, 'n.db')} runs", codes=(0, 2, 4))),
        ("promotions beside scores and cases", whole, "high", together("case promote w/c1/9 --out k1 --step 3", "score", "import --cases c.toml", "import u", "case promote w/c2/9 --out k2 --step 3", files={"t/z.jsonl": "\n".join(told(c, 9, TAKEN, passed=False) for c in (1, 2)), "u/b.jsonl": "\n".join(gates.runs("more")), "c.toml": 'version = 2\n[[task]]\nworkflow = "w"\ntask = "c1"\nmust_tell = ["x"]\n'}, check=lambda p: "" if len(list(Path("k1").iterdir())) == 3 else "files of a case are missing")),
        ("a report of files that is killed", same, "high", _as_if_never("report t")),
        ("a report of files that is killed by agents", same, "high", _killed("report t --json", {}, lambda p: "" if n_runs(p, "n.db") == 48 else "runs are lost")),
        ("three inits at once", "settings that load, gates at work (docs/tutorial/gate.md)", "high", _inits_at_once),
        ("an init that is killed", "settings that load, or none (stepscope init --help)", "high", _init_killed),
        ("coding agents beside writers", serves, "high", _mcp_while("import u", "score", "report u")),
        ("coding agents beside an erasure", serves, "high", _mcp_while("purge --yes --where \"task = 'c1'\"", "score")),
        ("coding agents whose store is moved away", "an error or an answer; nothing is made", "high", _mcp_loses(_moved)),
        ("coding agents whose store is spoilt", "an error or an answer; no bug", "high", _mcp_loses(_spoilt)),
        *((f"a store that somebody holds, then {words.split()[0]}", waits, "medium", _locked(words, (0, 2, 5))) for words in ("list", "diff w/c1/0 w/c1/1", "report t", "case promote w/c1/0 --out k", "score")),
        # Python
        ("lists asked oddly in Python", ours, "high", _refuses(lambda s: s.list_runs(limit=-1), lambda s: s.list_runs(columns=["nobody"]), lambda s: s.list_runs(sort=""), lambda s: s.list_runs(sort="-"), lambda s: s.list_runs(by="nobody"), lambda s: s.list_runs(where="x ="), lambda s: s.list_runs(since="nope"))),
        ("runs named oddly in Python", ours, "high", _refuses(lambda s: s.diff("", ""), lambda s: s.diff("w/c1/0", "%"), lambda s: s.show("\0"), lambda s: s.promote_case("nobody"), lambda s: s.promote_case("w/c1/0", step=-1), lambda s: s.promote_case("w/c1/0", step=10**9), lambda s: s.show_json("w/c"))),
        ("reports asked oddly in Python", ours, "high", _refuses(lambda s: s.report(["nowhere"]), lambda s: s.report([]), lambda s: s.report("t", where="agent ="), lambda s: s.report(by="nobody"), lambda s: s.report(since="2026-13-45"), lambda s: s.report(["t"], by="tag.x"))),
        ("cases and verdicts given oddly in Python", ours, "high", _refuses(lambda s: s.add_cases("nowhere"), lambda s: s.add_cases("t"), lambda s: s.add_cases(""), lambda s: s.add_verdicts("nowhere"), lambda s: s.add_verdicts("t/a.jsonl"), lambda s: s.purge(where="x ="), lambda s: s.purge(older_than="never"), lambda s: s.purge())),
        ("judges asked oddly in Python", ours, "high", _refuses(lambda s: s.judge("nobody", judges="openai/gpt-5"), lambda s: s.judge("axes", judges=[]), lambda s: s.judge("axes", judges="nobody"), lambda s: s.judge("axes", judges="openai/gpt-5", budget_usd=-1), lambda s: s.judge("axes", judges="openai/gpt-5", budget_usd=float("nan")), lambda s: s.rejudge("axes"), lambda s: s.agreement("nobody"))),
        ("eight threads with stores of their own", whole, "high", _threads),
        ("two stores in memory", "two stores, and no file (docs/howto/notebook.md)", "medium", _memory_stores),
        # imports
        ("an agent and a version, said later", "48 runs have both: import the same file again with them (docs/howto/import.md)", "medium", _agents_later),
        ("one file under two tasks", "what a trace or you have said stays, or it is another run (docs/explanation/identity.md)", "medium", _task_splits),
        ("the list of what was set aside, later", "the same list (docs/howto/import.md)", "medium", _aside_later),
        ("cases of settings, and another file by hand", "typed; the settings' at every import, score and gate (docs/howto/cases.md)", "medium", _cases_twice("import t", "import --cases theirs.toml", "score", has="minezanzibar", lacks="theirsquokka")),
        ("cases of settings, at an import without any", "the settings' (docs/howto/cases.md)", "medium", _cases_twice("import t", has="minezanzibar")),
        ("cases by hand with their runs, beside those of settings", "typed; the settings' at the score (docs/howto/cases.md)", "medium", _cases_twice("import t --cases theirs.toml", "score", has="minezanzibar")),
        ("a salvaged store, and what is new", "every command reads it (CHANGELOG.md)", "high", _salvaged),
    ]  # fmt: skip


def _one_aside(place: Place) -> str:
    made = strict(place.must("import", "--set-aside", "--json", *N).out)
    return "" if len(made) == 1 else f"{len(made)} records are listed, not 1"


def _asks_erased(place: Place) -> str:
    with asked(*N) as agent:
        for tool, arguments in (("report", {}), ("list_runs", {}), ("failure_modes", {}), ("search", {"text": WORD[:8]}), ("suspects", {"run": "w/c1/0"}), ("get_run", {"run": "w/c1/0"}), ("compare_runs", {"a": "w/c1/0", "b": "w/c1/3"})):
            text, _ = agent.call(tool, **arguments)
            if WORD in text:
                return f"{tool} says it: {text[max(0, text.index(WORD) - 60):][:120]!r}"
    return ""


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("stores", name, expected, severity, do, round=8) for name, expected, severity, do in _store_rows()]
