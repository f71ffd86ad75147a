"""The third round: gates.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Mechanisms that the first two did not have: things that change while they are read, numbers
that look alike, files that forget, pages of a forge as they are really rendered.
"""

# fmt: off
from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import tarfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bars.attack import _gates as gates
from bars.attack import _outputs as outputs
from bars.attack._cases import Area, Case, Place, Severity, coded

Do = Callable[[Place], str]
Row = tuple[str, str, Severity, Do]


def strict(said: str) -> Any:
    """Return what a text of JSON says, which knows neither NaN nor Infinity."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    return json.loads(said, parse_constant=refuse)


def forked(*words: str) -> int:
    """Start a command in a fork of this process, silently, and return its number."""
    pid = os.fork()
    if pid == 0:
        from stepscope.cli.main import main

        code = 99
        with suppress(BaseException):
            code = main(list(words))
        os._exit(code)
    return pid


def ended(pid: int, seconds: float = 10.0) -> int:
    """Return the code of a command that was forked: 98 where it did not end in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return 98


# ---- gates

NEVER = "3 or 4, never 0: what is missing or set aside counts at its worst"


def _tar() -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as packed:
        entry = tarfile.TarInfo("b.jsonl")
        entry.size = len(gates.JOINED)
        packed.addfile(entry, io.BytesIO(gates.JOINED.encode()))
    return raw.getvalue()


def _locked() -> bytes:
    """A zip whose member says that it is encrypted."""
    raw = bytearray(gates.zipped({"b.jsonl": gates.FAILING}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(mark) + at] |= 1
    return bytes(raw)


def _retold(change: Callable[[dict[str, Any]], object]) -> list[str]:
    """Return the failing runs, each changed."""
    found = []
    for raw in gates.FAILING:
        record = json.loads(raw)
        made = change(record)
        found.append(json.dumps(made if isinstance(made, dict) else record))
    return found


def _deep(levels: int) -> Any:
    found: Any = 0
    for _ in range(levels):
        found = [found]
    return found


HIDDEN: dict[str, dict[str, gates.Content]] = {
    "in gzip": {"b.jsonl.gz": gzip.compress(gates.JOINED.encode())},
    "in a tar": {"b.tar": _tar()},
    "in a locked member of a zip": {"b.zip": _locked()},
    "in base64": {"b.jsonl": b64encode(gates.JOINED.encode())},
    "each under a key of its own": {"b.jsonl": _retold(lambda run: {"data": run})},
    "with keys in capital letters": {
        "b.jsonl": _retold(lambda run: {k.upper(): v for k, v in run.items()})
    },
    "with the reward in another place": {
        "b.jsonl": _retold(lambda run: run.update(info={"reward": run.pop("reward")}))
    },
    "rewards of 1e400": {
        "b.jsonl": [r.replace('"reward": 0.0', '"reward": 1e400') for r in gates.FAILING]
    },
    # Within a millionth it is 1, as where such rewards come from.
    "rewards of nearly 1": {"b.jsonl": gates.altered(reward=0.9999)},
    "rewards that are a word": {"b.jsonl": gates.altered(reward="pass")},
    "rewards that are true within a list": {"b.jsonl": gates.altered(reward=[True])},
    "cases with NUL at their end": {
        "b.jsonl": _retold(lambda run: run.update(task_id=run["task_id"] + "\0"))
    },
    "cases with half a character": {
        "b.jsonl": _retold(lambda run: run.update(task_id=run["task_id"] + "\ud800"))
    },
    "cases in full width": {
        "b.jsonl": _retold(lambda run: run.update(task_id="\uff43" + run["task_id"][1:]))
    },
    "trials of 10^30": {"b.jsonl": _retold(lambda run: run.update(trial=10**30 + run["trial"]))},
    "trials below 0": {"b.jsonl": _retold(lambda run: run.update(trial=-run["trial"]))},
    "trials that are lists": {"b.jsonl": _retold(lambda run: run.update(trial=[run["trial"]]))},
    "two hundred containers deep": {"b.jsonl": gates.altered(extra=_deep(200))},
    "a record of 17 MiB": {
        "b.jsonl": [gates.line(0, 2, passed=False, text="x" * 17 * 2**20), *gates.FAILING[1:9]]
    },
    "behind a bracket that was never closed": {
        "b.jsonl": "\n".join(['{"task_id": "c0", "messages": [', *gates.FAILING])
    },
    "after a million brackets": {"b.jsonl": ["[" * 1_000_000, *gates.FAILING[:3]]},
}  # fmt: skip


def _numbers(now: Callable[[int], object]) -> Do:
    """Return what makes a baseline of cases that are whole numbers, and retells the failing."""

    def do(place: Place) -> str:
        def made(text: str, *, fail: bool) -> list[str]:
            rows = []
            for case in gates.CASES:
                for trial in gates.TRIALS:
                    bad = fail and trial > 1
                    run = json.loads(gates.line(case, trial, passed=not bad, text=text))
                    run["task_id"] = now(case) if bad else case
                    rows.append(json.dumps(run))
            return rows

        place.write("n/stepscope.toml", gates.policy())
        place.write("n.jsonl", made("old", fail=False))
        place.must("import", "n.jsonl", "--store", "n.db")
        place.must("score", "--store", "n.db")
        place.must("baseline", "update", "--yes", "--store", "n.db", "--config", "n")
        place.write("t/a.jsonl", made("new", fail=True))
        words = ("gate", "--runs", "t", "--config", "n", "--undecided", "pass")
        return coded(place.run(*words), (3, 4))

    return do


def _grows(place: Place) -> str:
    """Failing runs are written while the gate reads; the passing half alone is there at first."""
    path = place.write("t/a.jsonl", [*gates.PASSING, ""])

    def write() -> None:
        with path.open("a", encoding="utf-8") as file:
            for row in gates.FAILING:
                file.write(row[:40])
                file.flush()
                time.sleep(0.01)
                file.write(row[40:] + "\n")
                file.flush()

    threading.Thread(target=write, daemon=True).start()
    return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (3, 4))


def _many_files(place: Place) -> str:
    place.write("t/z.jsonl", [*gates.PASSING, *gates.FAILING])
    for number in range(8000):
        Path(f"t/{number}.jsonl").touch()
    return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (3, 4))


def _circle(place: Place) -> str:
    place.write("t/x/y/a.jsonl", [*gates.PASSING, *gates.FAILING])
    for name in ("t/x/y/up", "t/x/round"):
        Path(name).symlink_to(place.folder / "t", target_is_directory=True)
    return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (3,))


def _from_stdin(place: Place) -> str:
    raw = "\n".join([*gates.PASSING, *gates.FAILING]).encode()
    return coded(place.spawn("gate", "--runs", "-", "--undecided", "pass", stdin=raw), (2, 3))


def _looks_at_once(place: Place) -> str:
    place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
    started = [forked("gate", "--runs", "t", "--commit", "abc") for _ in range(4)]
    codes = [ended(pid) for pid in started]
    logs = [strict(path.read_text("utf-8")) for path in Path().rglob("looks.json")]
    return f"codes {codes}" if set(codes) != {3} else "" if logs else "no log of looks"


def _until_green(place: Place) -> str:
    """The first look fails; a rerun of the same commit passes all: 24 of 96 are bad."""
    place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
    place.write("u/a.jsonl", gates.runs("again"))
    words = ("--commit", "abc", "--undecided", "pass")
    wrong = coded(place.run("gate", "--runs", "t", *words), (3,))
    return wrong or coded(place.run("gate", "--runs", "u", *words), (3, 4))


def _log_becomes(change: Callable[[str], str]) -> Do:
    """Return what lets a look fail, damages the log, and looks at passing runs."""

    def do(place: Place) -> str:
        place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
        place.write("u/a.jsonl", gates.runs("again"))
        words = ("--commit", "abc", "--undecided", "pass")
        place.run("gate", "--runs", "t", *words)
        (path,) = Path().rglob("looks.json")
        path.write_text(change(path.read_text("utf-8")), encoding="utf-8")
        return coded(place.run("gate", "--runs", "u", *words), (2, 3, 4, 5))

    return do


def _baseline_as(change: Callable[[str], gates.Content], codes: tuple[int, ...]) -> Do:
    def do(place: Place) -> str:
        place.write("base.json", change(Path("base.json").read_text("utf-8")))
        place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), codes)

    return do


def _one_case_more(text: str) -> str:
    held = json.loads(text)
    held["cases"]["c99"] = held["cases"]["c1"]
    held["n_runs"] = 52
    return json.dumps(held)


def _nobody_runs(place: Place) -> str:
    place.write("base.json", _one_case_more(Path("base.json").read_text("utf-8")))
    place.write("t/a.jsonl", gates.runs())
    done = place.run("gate", "--runs", "t", "--undecided", "pass")
    return coded(done, (0, 3), says="4 missing trials") if done.code != 4 else ""


def _named_baseline(name: str) -> Do:
    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy(more=f"baseline = {outputs.toml(name)}"))
        place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (2, 4, 5))

    return do


def _words(words: str, codes: tuple[int, ...], text: str = "", says: str = "") -> Do:
    """Return what gates failing runs in `t`, passing ones in `full`, by these words."""

    def do(place: Place) -> str:
        if text:
            place.write("stepscope.toml", text)
        place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
        place.write("full/a.jsonl", gates.runs())
        return coded(place.run("gate", *shlex.split(words)), codes, says=says)

    return do


def _linked_out(place: Place) -> str:
    """Files that a gate writes into a folder are not led out of it by links that stand there."""
    place.write("precious", "mine")
    place.write("t/a.jsonl", gates.runs())
    Path("w/comments").mkdir(parents=True)
    for name in ("gate.json", "gate.xml", "comments/001.md"):
        Path("w", name).symlink_to(place.folder / "precious")
    place.run("gate", "--runs", "t", "--write", "w")
    return "" if Path("precious").read_text("utf-8") == "mine" else "a file outside was written"


def _no_answer(place: Place) -> str:
    place.write("t/a.jsonl", gates.runs())
    place.must("import", "t")
    place.must("score", "--measure", "termination")
    return coded(place.run("gate", "--undecided", "pass"), (0,))


def _out_of_time(place: Place) -> str:
    place.write("t/a.jsonl", gates.runs())
    done = place.run("gate", "--runs", "t", "--max-minutes", "0", "--junit")
    suite = ElementTree.fromstring(done.out).find("testsuite")
    counts = [int(suite.get(k, "0")) for k in ("failures", "errors")] if suite is not None else []
    return coded(done, (4,)) or ("" if any(counts) else "JUnit has no error")


def _purged_of_age(place: Place) -> str:
    place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
    place.must("import", "t")
    place.must("score")
    place.run("purge", "--older-than", "0d", "--yes")
    return coded(place.run("gate", "--undecided", "pass"), (3, 4))


def _outcomes(rows: list[str], head: bytes = b"run,outcome,who\n") -> Do:
    """Return what imports failing runs and a file that would have them pass."""

    def do(place: Place) -> str:
        place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
        place.must("import", "t")
        told = [row.format(run=f"w/c{c}/{n}") for c in gates.CASES for n in (2, 3) for row in rows]
        place.write("o.csv", head + "\n".join(told).encode())
        place.run("import", "--outcomes", "o.csv")
        place.must("score")
        return coded(place.run("gate", "--undecided", "pass"), (3, 4))

    return do


def _gate_rows() -> list[Row]:
    twice = gates.policy() + gates.policy().replace("workflow.w", "workflow.v")
    nested = "(" * 3000 + "task = 'c1'" + ")" * 3000
    chain = " or ".join(["task = 'c1'"] * 4000)
    return [
        *((f"failing runs {name}", NEVER, "high",
           gates._hidden({"a.jsonl": gates.PASSING, **files})) for name, files in HIDDEN.items()),
        ("failing cases 1.0 where the baseline has 1", NEVER, "high", _numbers(float)),
        ("failing cases '1' where the baseline has 1", NEVER, "high", _numbers(str)),
        ("failing cases '01' where the baseline has 1", NEVER, "high",
         _numbers(lambda n: f"0{n}")),
        ("failing cases true where the baseline has 1", NEVER, "high", _numbers(bool)),
        ("a file that grows while it is read", NEVER, "high", _grows),
        ("failing runs among 8,000 empty files", "3 or 4 within 10 s", "high", _many_files),
        ("links in a circle", "3, at once", "high", _circle),
        ("failing runs from standard input", "2 or 3", "high", _from_stdin),
        ("four gates of one commit at once", "3 each; a log that can be read", "high",
         _looks_at_once),
        ("a rerun of a failed commit that passes", "3 or 4: looks are pooled", "high",
         _until_green),
        ("a log of looks that is cut", "2 to 5, never 0: the failed look is not forgotten", "high",
         _log_becomes(lambda text: text[: len(text) // 2])),
        ("a log of looks of another shape", "2 to 5, never 0", "high",
         _log_becomes(lambda text: '{"abc": [1, "x", null]}')),
        ("a log of looks that is a list", "2 to 5, never 0", "high", _log_becomes(lambda _: "[]")),
        ("a baseline with a key twice", "4: refused in our own files", "high",
         _baseline_as(lambda text: text.replace("{", '{"schema": 1, ', 1), (4,))),
        ("a baseline with lines of Windows", "3 or 4", "high",
         _baseline_as(lambda text: text.replace("\n", "\r\n"), (3, 4))),
        ("a baseline with a mark of UTF-8", "3 or 4", "high",
         _baseline_as(lambda text: "\ufeff" + text, (3, 4))),
        ("a baseline with a conflict of a merge", "4", "high",
         _baseline_as(lambda text: "<<<<<<< HEAD\n" + text + "\n=======\n" + text + "\n>>>>>>> b",
                      (4,))),
        ("a case of the baseline that nobody runs", "0 or 3, and says 4 missing trials; or 4",
         "medium", _nobody_runs),
        *((f"a baseline named {name!r}", "2, 4 or 5, at once", "high", _named_baseline(name))
          for name in ("/dev/stdin", "base.json\0", "", ".", "http://127.0.0.1/base.json", "../" * 50 + "etc/passwd", "x" * 5000)),
        ("a condition in 3,000 brackets", "2, or the answer", "high",
         _words(f'--runs t --where "{nested}"', (2, 3, 4))),
        ("a condition of 4,000 parts", "2, or the answer", "high",
         _words(f'--runs t --where "{chain}"', (2, 3, 4))),
        ("a seed of 10^30", "2, 3 or 4", "high", _words(f"--runs t --seed 1{'0' * 30}", (2, 3, 4))),
        ("an undecided that fails, without a baseline", "4: not measured stays 4", "high",
         _words("--runs full --undecided fail --baseline none.json", (4,))),
        ("an empty commit", "2 or 3", "high", _words("--runs t --commit ''", (2, 3))),
        ("two workflows of one baseline", "4: it is of another workflow, and nobody ran the other",
         "high", _words("--runs full --undecided pass", (4,), twice)),
        *((f"trials = {value} declared", "2", "medium",
           _words("--runs full", (2,), gates.policy(more=f"trials = {value}\nbaseline = 'base.json'")))
          for value in ("0", "4.0", "'4'", "-4", "[4]")),
        ("links in the folder that is written", "what they lead to stays", "medium", _linked_out),
        ("runs that have no answer of the measure", "0: a gate scores what is not current", "high", _no_answer),
        ("no time, as JUnit", "4, and an error or failure in it", "high", _out_of_time),
        ("failing runs that were erased by age", NEVER, "high", _purged_of_age),
        ("outcomes of a word with a blank", NEVER, "high", _outcomes(["{run}, pass ,nobody?"])),
        ("outcomes in another script", NEVER, "high", _outcomes(["{run},p\u0430ss,check"])),
        ("outcomes in UTF-16", NEVER, "high",
         _outcomes(["{run},pass,check"], "run,outcome,who\n".encode("utf-16"))),
        ("outcomes under a head twice", NEVER, "high",
         _outcomes(["{run},fail,pass,check"], b"run,outcome,outcome,who\n")),
        ("outcomes of a reward that is no number", NEVER, "high",
         _outcomes(["{run},nan,reward", "{run},inf,reward"])),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    tables: dict[Area, list[Row]] = {"gates": _gate_rows()}
    return [
        Case(area, name, expected, severity, do, round=3)
        for area, rows in tables.items()
        for name, expected, severity, do in rows
    ]
