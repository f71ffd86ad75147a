"""The fifth round: stores.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Every format of the import page in another spelling, with values of wrong types and cut off;
what an import may not touch; ages; names that two runs have; verdicts with odd cells.
"""

# fmt: off
from __future__ import annotations

import json
import math
import os
import random
import re
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bars.attack import _gates as gates
from bars.attack import _stores as stores
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._fourth import Do, Row
from bars.attack._fourth_stores import FORMS, words_left
from bars.attack._third import ended, forked, strict
from bars.attack._third_world import _Receiver, _span, _spans, n_runs

ROOT = Path(__file__).parents[2]
MESSAGES = ("openai.json", "anthropic.json", "responses.json", "langchain.json")
CODERS = ("openhands.json", "fix.traj", "mini.traj.json", "session.jsonl")
TESTS = ("inspect.json", "tau2.json", "whowhen.json", "refunds.evalset.json")
SPANS = ("otlp.json", "langsmith.json", "agents.json", "hello.json")
ODD: tuple[Any, ...] = (None, [], {}, -1, 1e308, 10**30, "", "x\ud800", True, math.nan, [[[]]], {"a": {"b": 1}},
                        "2026-13-45T99:99:99Z", "a\0b", 0.5, -math.inf, "\u202e\x1b[2J", 2**63)  # fmt: skip


def sample(name: str) -> str:
    """Return the example of a format: of the import page, or of the bundled files."""
    if name == "session.jsonl":
        return (ROOT / "examples/claude_code/sample_session.jsonl").read_text("utf-8")
    if name == "hello.json":
        return (ROOT / "examples/atif/openhands_hello-world.trajectory.json").read_text("utf-8")
    page = (ROOT / "docs/howto/import.md").read_text("utf-8")
    found = re.search(rf'(?ms)^```json title="{re.escape(name)}"\n(.*?)\n```\n', page)
    assert found, name
    return found[1]


def records(name: str) -> list[Any]:
    """Return the records of an example: one, or one a line."""
    text = sample(name)
    return [json.loads(line) for line in text.splitlines()] if name.endswith("l") else [json.loads(text)]


def spelt(value: Any) -> str:
    """Return JSON with every letter of a text as its escape, and the keys turned round."""
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(c):04x}" if c.isalpha() and ord(c) < 128 else json.dumps(c)[1:-1] for c in value) + '"'
    if isinstance(value, dict):
        return "{ " + " , ".join(f"{spelt(k)} : {spelt(v)}" for k, v in reversed(value.items())) + " }"
    if isinstance(value, list):
        return "[ " + " , ".join(map(spelt, value)) + " ]"
    return json.dumps(value)


def ids(place: Place, store: str) -> list[str]:
    """Return the ids of the runs of a store."""
    told = place.must("export", "-", "--store", store).out.splitlines()
    return sorted(one["id"] for one in map(json.loads, told) if "steps" in one)


def _respelt(name: str) -> Do:
    """Return what imports an example as it is and in another spelling: the same runs, the same ids."""

    def do(place: Place) -> str:
        place.write(name, sample(name))
        place.must("import", name, "--store", "a.db")
        line = "\r\n" if name.endswith("l") else ""
        place.write(f"odd/{name}", "\ufeff" + (line or "\r\n").join(map(spelt, records(name))) + "\r\n")
        done = place.run("import", f"odd/{name}", "--store", "b.db")
        if done.code:
            return f"code {done.code}: {done.said[-200:]!r}"
        one, two = ids(place, "a.db"), ids(place, "b.db")
        return "" if one == two else f"ids {one} became {two}: {done.out[:200]!r}"

    return do


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of a record, the deepest last."""
    if at:
        yield at
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(one, (*at, key))


def spoilt(name: str, draw: random.Random) -> str:
    """Return an example in which one value is of a wrong type."""
    made = records(name)
    at = draw.choice(list(_places(made))[1:])
    inner: Any = made
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = draw.choice(ODD)
    return "\n".join(json.dumps(one) for one in made)


def _wrong_types(names: Iterable[str], seed: int) -> Do:
    """Return what imports examples with wrong values: every command over them is typed."""

    def do(place: Place) -> str:
        draw = random.Random(seed)
        for name in names:
            for number in range(14):
                place.write(f"f/{number}/{name}", spoilt(name, draw).encode("utf-8", "surrogatepass"))
        commands = [("import f --store n.db", (0,)), ("doctor f", (0, 2, 4)), ("score --store n.db", (0,)),
                    ("report --json --store n.db", (0,)), ("report --html r.html --embed all --store n.db", (0,)),
                    *((f"export {FORMS[form]} --format {form} --store n.db", (0,)) for form in FORMS),
                    *((f"import {FORMS[form]} --store o.db", (0,)) for form in FORMS), ("score --store o.db", (0,))]
        for words, codes in commands:
            done = place.run(*words.split())
            if wrong := coded(done, codes):
                return f"{words}: {wrong}"
            if "--json" in words:
                strict(done.out)
        return ""

    return do


def _cut(names: Iterable[str]) -> Do:
    """Return what cuts examples at several places: read in part, set aside, or one line; strict keeps nothing."""

    def do(place: Place) -> str:
        for name in names:
            text = sample(name)
            for share in (0.35, 0.6, 0.9):
                place.write(name, text[: int(len(text) * share)])
                done = place.run("import", name, "--store", f"{share}.db")
                if wrong := one_line(done, (2,)) if done.code else coded(done, (0,), says="[1-9][0-9]* set aside"):
                    return f"{name} at {share}: {wrong}"
                done = place.run("import", name, "--strict", "--store", "strict.db")
                if wrong := one_line(done, (2,)):
                    return f"{name} at {share}, strict: {wrong}"
        if not Path("strict.db").exists():
            return ""
        found = place.run("report", "--store", "strict.db", "--json")
        return "" if found.code == 2 or strict(found.out)["whole"]["n_runs"] == 0 else "a strict import kept something"

    return do


# ---- imports


def _whole_folder(place: Place) -> str:
    """The working folder with store, settings and baseline in it is imported: its traces, and no more."""
    done = place.run("import", ".")
    return coded(done, (0,)) or ("" if n_runs(place, "stepscope.db") == 96 else f"{n_runs(place, 'stepscope.db')} runs, not 96")


def _file_called(name: str, typed: str) -> Do:
    """Return what imports a file of an odd name."""

    def do(place: Place) -> str:
        place.write(name, gates.runs("odd"))
        done = place.run("import", "--store", "n.db", "--offline", typed)
        return coded(done, (0,)) or ("" if n_runs(place, "n.db") == 48 else "not 48 runs")

    return do


def _limits_then_none(place: Place) -> str:
    """What limits of the settings set aside comes in when the limits are gone."""
    place.write("stepscope.toml", gates.policy() + "[limits]\nline_bytes = 120\n")
    first = place.run("import", "t", "--store", "n.db")
    place.write("stepscope.toml", gates.policy())
    place.must("import", "t", "--store", "n.db")
    wrong = coded(first, (0, 2), says="set aside" if first.code == 0 else "")
    return wrong or ("" if n_runs(place, "n.db") == 48 else f"{n_runs(place, 'n.db')} runs, not 48")


def _strict(content: gates.Content, more: str = "") -> Do:
    """Return what imports, by the strictest word, a record that must be changed to be kept."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy() + more)
        place.write("x.jsonl", content)
        done = place.run("import", "x.jsonl", "--strict", "--store", "n.db")
        if wrong := one_line(done, (2,)):
            return wrong
        found = place.run("report", "--store", "n.db", "--json")
        return "" if found.code == 2 or strict(found.out)["whole"]["n_runs"] == 0 else "something is kept"

    return do


def _untouched(words: str, name: str, content: str | None) -> Do:
    """Return what names a file of the user where a store is wanted: refused, and it stays."""

    def do(place: Place) -> str:
        if content is not None:
            place.write(name, content)
        before = Path(name).read_bytes()
        done = place.run(*shlex.split(words))
        if Path(name).read_bytes() != before:
            return f"code {done.code}, and {name} is another"
        return one_line(done, (2, 5))

    return do


def _journal_leads_out(place: Place) -> str:
    """A link in the place of a store's journal leads to a file of the user: it stays."""
    place.write("mine.txt", "mine")
    Path("n.db-wal").symlink_to(place.folder / "mine.txt")
    done = place.run("import", "t", "--store", "n.db")
    if Path("mine.txt").read_text("utf-8") != "mine":
        return f"code {done.code}, and the file of the user is another"
    return coded(done, (0, 2, 5))


def _old_run_stays(place: Place) -> str:
    """Ages are those of storing: a run of 2001 that came in today is not old."""
    made = json.loads(sample("langsmith.json"))
    for one in made:
        one |= {key: f"2001{one[key][4:]}" for key in ("start_time", "end_time")}
    place.write("o.json", json.dumps(made))
    place.must("import", "o.json", "--store", "n.db")
    place.must("purge", "--older-than", "30d", "--yes", "--store", "n.db")
    return coded(place.run("show", "a1", "--store", "n.db"), (0,), says="Paris")


def _received_then_erased(place: Place) -> str:
    """Words that a receiver took are erased with their run, from what stands beside the store, too."""
    server = _Receiver()
    status = server.send(_spans(_span(1, stores.WORD)))
    time.sleep(1.2)
    os.kill(server.pid, signal.SIGINT)
    ended(server.pid)
    found = [p for p in Path().glob("l.db*") if p.is_file() and stores.WORD.encode() in p.read_bytes()]
    if status != 200 or not found:
        return f"the case is wrong: {status}, {found}"
    done = place.run("purge", "--where", "name like '%'", "--yes", "--store", "l.db")
    left = [p.name for p in Path().glob("l.db*") if p.is_file() and stores.WORD.encode() in p.read_bytes()]
    return coded(done, (0,)) or (f"left in {left}" if left else "")


def _same_name(place: Place) -> str:
    """Two runs of one name: the name alone is an error that says how to tell them apart."""
    place.must("import", "t")
    done = place.run("show", "w/c1/0")
    return one_line(done, (2,))


def _nothing_in_it(place: Place) -> str:
    """A store that holds nothing but a record set aside: every command is typed."""
    place.write("x.jsonl", ['{"role": "user", "content": "hi"}', '{"role": "assist'])
    place.run("import", "x.jsonl", "--store", "n.db")
    place.run("purge", "--where", "name like '%'", "--yes", "--store", "n.db")
    for words in ("score", "report", "report --json", "report --html r.html", "agree", "compare a b", "export n.jsonl", "export n.parquet --format parquet",
                  "export n --format atif", "export v.jsonl --verdicts only", "baseline update --yes", "calibrate sigma", "calibrate localise",
                  "doctor", "gate", "purge --older-than 1d --yes", "report --get outcome.pass", "report --junit", "report --by task"):
        done = place.run(*words.split(), "--store", "n.db")
        if wrong := coded(done, (0, 2, 4)):
            return f"{words}: {wrong}"
    return ""


def _rated(head: str, rows: list[str], words: str = "--rubric axes.termination --human", *, name: str = "v.csv", fine: int | None = None,
           raw: Callable[[str], bytes] | None = None) -> Do:
    """Return what imports verdicts with odd cells: each row is taken or set aside, and agree is strict."""

    def do(place: Place) -> str:
        text = "\n".join([head, *rows] if head else rows) + "\n"
        place.write(name, raw(text) if raw else text)
        done = place.run("import", "--verdicts", name, *shlex.split(words))
        if done.code:
            return one_line(done, (2,)) if fine is None else coded(done, (0,))
        found = re.search(r"([\d,]+) rows; ([\d,]+) new verdicts, ([\d,]+) known; ([\d,]+) set aside", done.said)
        if not found:
            return f"no account of rows: {done.said[-200:]!r}"
        total, new, known, aside = (int(found[n].replace(",", "")) for n in range(1, 5))
        if total != len(rows) or total > new + known + aside:
            return f"{len(rows)} rows: {found[0]!r}"
        if fine is not None and new != fine:
            return f"{new} new verdicts, not {fine}: {done.said[-300:]!r}"
        again = place.run("agree", "--json")
        strict(again.out)
        return coded(again, (0, 4))

    return do


def _workers(place: Place) -> str:
    """The rows, accounts and quarantine are the same whatever the number of processes."""
    for number in range(30):
        rows = [gates.line(c, f"{number}-{n}", text=f"t{number}") for c in gates.CASES for n in range(3)]
        place.write(f"many/{number:02}.jsonl", rows if number % 7 else [*rows, '{"role": "assist'])
    said = [place.run("import", "many", "--store", f"{n}.db", "--workers", n) for n in ("1", "3")]
    exported = [place.must("export", "-", "--store", f"{n}.db").out for n in ("1", "3")]
    if said[0].out != said[1].out or said[0].code != said[1].code:
        return f"other accounts: {said[0].out[-200:]!r}, {said[1].out[-200:]!r}"
    return "" if exported[0] == exported[1] else "other runs"


def _report_comes_back(place: Place) -> str:
    """Runs that were exported and come back give the same bytes of a report."""
    place.must("export", "x.jsonl")
    place.must("import", "x.jsonl", "--store", "n.db")
    place.must("score", "--store", "n.db")
    one, two = (json.loads(place.must("report", "--json", "--store", s).out) for s in ("stepscope.db", "n.db"))
    other = [key for key in one if one[key] != two.get(key)]
    return f"other {other}" if other else ""


def _export_while_erased(place: Place) -> str:
    """An export beside a purge: whole lines, of as many runs as it says, for nobody else to read."""
    place.must("import", "t")
    others = [forked("purge", "--where", f"task = 'c{n}'", "--yes") for n in range(3)]
    for number in range(6):
        done = place.run("export", f"x{number}.jsonl")
        if wrong := coded(done, (0,)):
            return wrong
        for line in Path(f"x{number}.jsonl").read_text("utf-8").splitlines():
            json.loads(line)
        if Path(f"x{number}.jsonl").stat().st_mode & 0o77:
            return "readable by others"
    ends = [ended(pid, 12) for pid in others]
    return f"purge ended with {ends}" if set(ends) != {0} else ""


def _again_with(words: str) -> Do:
    """Return what imports a file again by other words: nothing is counted twice."""

    def do(place: Place) -> str:
        place.must("import", "t", "--agent", "a", "--store", "n.db")
        done = place.run("import", "t", *shlex.split(words), "--store", "n.db")
        return coded(done, (0,)) or ("" if n_runs(place, "n.db") == 48 else f"{n_runs(place, 'n.db')} runs, not 48")

    return do


def _store_rows() -> list[Row]:
    same = "the same runs under the same ids, or the case of a format is wrong"
    typed = "every command is typed; what is kept can be exported and comes back"
    told = "read in part with what is set aside, or one line; strict: 2, and nothing is kept"
    head = "run,label,judge"
    row = "w/c{},correct,ann,"
    three = [row.format(f"{n}/0") for n in range(5)]
    nan, half = gates.line(1, 1, text="x").replace('"reward": 1.0', '"reward": NaN'), gates.line(1, 1, text="x").replace("x: do", "\\ud800: do")
    stay = "2 or 5, and the file stays as it is"
    aside = "each row is taken or set aside, and counted; agree prints strict JSON"
    nested = [json.dumps({"run": f"w/c{n}/0", "said": {"of": {"it": "correct"}}, "judge": "ann"}) for n in range(4)]
    counted = [f"w/c{n}/0,{n},PROGRESS,ann" for n in range(4)]
    return [
        *((f"another spelling: {name}", same, "medium", _respelt(name)) for name in (*MESSAGES, *CODERS, *TESTS, *SPANS)),
        ("wrong types: messages", typed, "high", _wrong_types(MESSAGES, 5)),
        ("wrong types: coding agents", typed, "high", _wrong_types(CODERS, 6)),
        ("wrong types: benchmarks", typed, "high", _wrong_types(TESTS, 7)),
        ("wrong types: spans and runs", typed, "high", _wrong_types(SPANS, 8)),
        ("cut off: messages and coding agents", told, "high", _cut((*MESSAGES, *CODERS[:3]))),
        ("cut off: benchmarks, spans and runs", told, "high", _cut((*TESTS, *SPANS))),
        ("the folder in which all of it lies", "96 runs: the files of ours are no traces", "medium", _whole_folder),
        ("a file whose name is a pattern", "48 runs: the file is there", "medium", _file_called("a[1]*.jsonl", "a[1]*.jsonl")),
        ("a file whose name is that of a backend", "48 runs, no connection", "medium", _file_called("phoenix:x", "./phoenix:x")),
        ("limits, then none", "48 runs: nothing is lost for good", "high", _limits_then_none),
        ("a strict import of NaN", "2, and nothing is kept: it cannot be read as it is", "medium", _strict(nan)),
        ("a strict import of half a character", "2, and nothing is kept: it cannot be read as it is", "medium", _strict(half)),
        ("a strict import of a text that is cut", "2, and nothing is kept: it cannot be read as it is", "medium",
         _strict(gates.line(1, 1, text="x" * 400), "[limits]\ntext_bytes = 100\n")),
        ("a trace as the store of its import", stay, "high", _untouched("import base.jsonl --store t/a.jsonl", "t/a.jsonl", None)),
        ("a baseline as a store", stay, "high", _untouched("import base.jsonl --store base.json", "base.json", None)),
        ("a journal that leads to a file of the user", "0, 2 or 5, and the file stays", "high", _journal_leads_out),
        ("a run of 2001 that came in today, and an age", "it stays: ages are of storing", "high", _old_run_stays),
        ("words that were received, erased", "they are in no file beside the store", "high", _received_then_erased),
        ("two runs of one name", "2, one line", "medium", _same_name),
        ("a store of nothing", "0, 2 or 4 of every command", "high", _nothing_in_it),
        ("confidences that are none", aside, "high", _rated(head + ",confidence", [three[n] + c for n, c in enumerate(("nan", "2", "-1", "high", "1e400"))])),
        ("citations that are none", aside, "high", _rated(head + ",cites", [three[n] + c for n, c in enumerate(("1;0", '"[1]"', "99", "-1", "x"))])),
        ("repeats that are none", aside, "high", _rated(head + ",repeat", [three[n] + c for n, c in enumerate(("-1", "1.5", "x", "1" + "0" * 20, ""))])),
        ("steps that count from 1, and 0 among them", "steps -1 and 2 are set aside; each row is counted", "medium",
         _rated("run,n,label,judge", counted, "--rubric step_labels --human --map step=n-1")),
        ("labels deep in JSON", "4 verdicts", "medium", _rated("", nested, "--rubric axes.termination --human --map label=said.of.it", name="v.jsonl", fine=4)),
        ("verdicts with a mark and lines of Windows", "5 verdicts", "medium",
         _rated(head, [r.rstrip(",") for r in three], fine=5, raw=lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())),
        ("one process and three", "the same runs and accounts", "high", _workers),
        ("a report of what comes back", "the same, whatever the store", "medium", _report_comes_back),
        ("an export beside three purges", "whole lines, mode 0600", "high", _export_while_erased),
        ("the same file for another agent", "48 runs", "high", _again_with("--agent b")),
        ("words of a store that was never erased", "no word of another run is erased", "medium", lambda place: _others_stay(place)),
    ]  # fmt: skip


def _others_stay(place: Place) -> str:
    """What is erased is what was chosen: the words of other runs are shown as before."""
    place.must("import", "t")
    place.must("score")
    place.must("purge", "--where", "task = 'c1'", "--yes")
    gone, kept = (place.run("report", "--where", f"task = '{c}'", "--json") for c in ("c1", "c2"))
    if wrong := coded(gone, (0,)) or coded(kept, (0,)):
        return wrong
    return "" if words_left() else "the words of other runs are gone, too"


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("stores", name, expected, severity, do, round=5) for name, expected, severity, do in _store_rows()]
