"""The seventh round: stores.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Runs from memory, histories of several agents, contents of Gemini, gzip, cases in files at once
with other commands, what is said late of a run, maps of steps to labels.
"""

# fmt: off
from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bars.attack import _gates as gates
from bars.attack import _seventh as seventh
from bars.attack._cases import HANGS, Broken, Case, Place, coded, one_line
from bars.attack._fifth_stores import ids, sample
from bars.attack._fourth import Do, Row
from bars.attack._seventh import ASKS, CALLS, ENDS
from bars.attack._sixth_stores import _back
from bars.attack._third import ended, forked, strict
from bars.attack._third_world import n_runs

N = ("--store", "n.db")
SAID: list[dict[str, Any]] = [
    {"role": "user", "content": "Refund order 12."},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "refund_order", "arguments": '{"order_id": 12}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "refunded"},
    {"role": "assistant", "content": "It is refunded."},
]


# ---- runs from memory


class Word(str):
    """A text of a type of its own."""


def _itself() -> Any:
    made: list[Any] = [{"role": "user", "content": "x"}]
    made.append({"role": "assistant", "content": made})
    return made


def _deep() -> Any:
    made: Any = "x"
    for _ in range(5000):
        made = [made]
    return [{"role": "user", "content": made}]


def _lines() -> Iterator[dict[str, Any]]:
    for n in range(3):
        yield {"messages": SAID, "task": f"t{n}"}


def _changed(**more: Any) -> list[dict[str, Any]]:
    return [{**SAID[0], **more}, *SAID[1:]]


# What is given to `add`, and how many runs are then there; None where it may be refused.
MEMORY: dict[str, tuple[Callable[[], Any], int | None]] = {
    "messages": (lambda: SAID, 1),
    "messages in a tuple": (lambda: tuple(SAID), 1),
    "an object around messages": (lambda: {"messages": SAID, "task": "a", "outcome": "pass"}, 1),
    "two runs": (lambda: [{"messages": SAID, "task": "a"}, {"messages": SAID, "task": "b"}], 2),
    "two lists of messages": (lambda: [SAID, _changed(content="Refund order 13.")], 2),
    "a generator of three runs": (_lines, 3),
    "the bytes of a file": (lambda: json.dumps(SAID).encode(), 1),
    "lines of a file": (lambda: "\n".join(gates.runs()).encode(), 48),
    "texts of a type of their own": (lambda: _changed(content=Word("Refund order 12.")), 1),
    "contents of Gemini": (lambda: {"contents": CALLS}, 1),
    "a history of agents": (lambda: [{"role": "human", "content": "How many?"}, {"role": "Orchestrator (thought)", "content": "I ask."}, {"role": "FileSurfer", "content": "Seven."}], 1),
    "bytes that are packed": (lambda: gzip.compress(json.dumps(SAID).encode()), 1),
    "nothing at all": (lambda: [], None),
    "an empty object": (lambda: {}, None),
    "a list of numbers": (lambda: [7], None),
    "messages within themselves": (_itself, None),
    "5,000 lists deep": (_deep, None),
    "a number that is none": (lambda: _changed(extra=float("nan")), None),
    "a number of 400 digits": (lambda: _changed(extra=10**400), None),
    "a set": (lambda: _changed(extra={1, 2}), None),
    "bytes within a message": (lambda: _changed(content=b"\xff\xfe"), None),
    "half a character": (lambda: _changed(content="a\ud800b"), None),
    "keys that are numbers": (lambda: _changed(**{"content": {1: "a", None: "b"}}), None),
    "an object of one's own": (lambda: _changed(extra=object()), None),
    "a date": (lambda: _changed(extra=__import__("datetime").datetime(2026, 1, 1)), None),
    "a path that is not there": (lambda: "no-such-file.json", None),
    "messages among paths": (lambda: ["t/a.jsonl", {"messages": SAID}], None),
    "broken bytes": (lambda: b'{"messages": [', None),
    "a text of JSON": (lambda: json.dumps(SAID), None),
    "a numpy number": (lambda: _changed(extra=__import__("numpy").float64(1.5)), None),
}


def remembered(make: Callable[[], Any], runs: int | None, **how: Any) -> Do:
    """Return what adds something from memory: so many runs, or one of our errors; then scores and reports it."""

    def do(place: Place) -> str:
        import stepscope as ss
        from stepscope.errors import StepscopeError

        with ss.open("n.db") as store:
            try:
                store.add(make(), **how)
            except StepscopeError as e:
                return f"refused: {e}" if runs is not None else "" if str(e) and "\n" not in str(e) else f"an error of {len(str(e).splitlines())} lines"
            with suppress(StepscopeError):
                store.score()
                store.report()
            found = sum(1 for _ in store.store.trajectories()) if runs is not None else 0
        if runs is not None and found != runs:
            return f"{found} runs, not {runs}"
        return coded(place.run("report", "--json", *N), (0, 2))

    return do


def _as_from_a_file(place: Place) -> str:
    """A run from memory is the run of the file: the same id, and nothing new at the second telling."""
    import stepscope as ss

    place.write("a.json", json.dumps(SAID))
    place.must("import", "a.json", "--workflow", "support", "--task", "12", "--store", "f.db")
    with ss.open("n.db") as store:
        for _ in range(2):
            store.add(SAID, workflow="support", task="12")
    one, two = ids(place, "f.db"), ids(place, "n.db")
    return "" if one == two else f"{one} and {two}"


def _left_alone(place: Place) -> str:
    """What is given is not changed, and a later change of it changes no run."""
    import stepscope as ss

    made = json.loads(json.dumps(SAID))
    with ss.open("n.db") as store:
        store.add(made, task="1")
        if made != SAID:
            return "the messages are changed"
        made[0]["content"] = "something else"
        store.score()
    return "" if "something else" not in place.must("export", "-", *N).out else "a later change is in the store"


def _matched(place: Place) -> str:
    """`match` over odd messages and references: an answer, or one of our errors."""
    import stepscope as ss
    from stepscope.errors import StepscopeError

    good: list[tuple[Any, Any, bool]] = [(SAID, ["refund_order"], True), (SAID, ["refund"], False), (SAID, [("refund_order", {"order_id": 12})], True), (SAID, [("refund_order", {"order_id": 13})], False),
                                         (SAID, SAID, True), (json.dumps(SAID).encode(), ["refund_order"], True), (SAID, [], False)]
    for messages, reference, matched in good[:-1]:
        if ss.match(messages, reference).matched != matched:
            return f"{str(reference)[:60]}: not {matched}"
    odd: list[Any] = ["refund_order", [None], [7], [("a",)], [("a", 7)], [{"role": "x"}], [[]], {"a": 1}, _itself(), [("refund_order", {"order_id": float("nan")})], [("", {})], ["\ud800"], [SAID]]
    for one in odd:
        for messages, reference in ((SAID, one), (one, ["refund_order"])):
            with suppress(StepscopeError):
                ss.match(messages, reference)
    for how in ({"mode": "no"}, {"tolerance": -1.0}, {"tolerance": float("nan")}, {"arguments": "no"}, {"overrides": {"refund_order": "no"}}):
        with suppress(StepscopeError):
            ss.match(SAID, ["refund_order"], **how)
            if "tolerance" not in how or how["tolerance"] == -1.0:
                return f"{how} is taken"
    return ""


# ---- files of the newer formats


def reads(files: Mapping[str, str | bytes], runs: int | None, codes: tuple[int, ...] = (0,), says: str = "", words: str = "", steps: int | None = None) -> Do:
    """Return what imports files: a code, so many runs and steps, and every command after it is typed."""

    def do(place: Place) -> str:
        for name, text in files.items():
            place.write(f"f/{name}", text)
        done = place.run("import", "f" if len(files) > 1 else f"f/{next(iter(files))}", *shlex.split(words), *N)
        if wrong := one_line(done, codes) if done.code == 2 else coded(done, codes, says=says):
            return wrong
        if done.code == 2:
            return ""
        if runs == 0 and place.run("report", *N).code in (2, 4):
            return ""
        for command in ("score", "report --json", "report --html r.html --embed all"):
            if wrong := coded(place.run(*command.split(), *N), (0, 2) if runs is None else (0,)):
                return f"{command}: {wrong}"
        if runs is None:
            return ""
        found = strict(place.must("report", "--json", *N).out)["whole"]
        if found["n_runs"] != runs or steps not in (None, found["n_steps"]):
            return f"{found['n_runs']} runs of {found['n_steps']} steps, not {runs} of {steps}: {done.out[:200]!r}"
        return ""

    return do


def parts(*made: Any, role: str = "model") -> str:
    """Return a request of Gemini whose second content has these parts."""
    return json.dumps({"contents": [ASKS, {"role": role, "parts": list(made)}, ENDS]})


GEMINI: dict[str, tuple[str, int | None]] = {
    "parts that are null": (json.dumps({"contents": [ASKS, {"role": "model", "parts": None}, ENDS]}), None),
    "parts that are a text": (json.dumps({"contents": [ASKS, {"role": "model", "parts": "hello"}, ENDS]}), None),
    "a part that is a number": (parts(7), None),
    "a part of nothing": (parts({}), 1),
    "a part nobody knows beside a text": (parts({"text": "hi"}, {"futurePart": {"a": 1}}), 1),
    "a part nobody knows": (parts({"futurePart": {"a": 1}}), 1),
    "arguments that are a text": (parts({"functionCall": {"name": "f", "args": "{}"}}), None),
    "arguments that are null": (parts({"functionCall": {"name": "f", "args": None}}), 1),
    "a call without a name": (parts({"functionCall": {"args": {}}}), None),
    "a call whose name is a list": (parts({"functionCall": {"name": ["f"], "args": {}}}), None),
    "a response without its call": (parts({"functionResponse": {"name": "f", "response": {"result": "x"}}}, role="user"), 1),
    "a response that is a text": (parts({"functionResponse": {"name": "f", "response": "x"}}, role="user"), None),
    "two calls of one name and two responses": (json.dumps({"contents": [
        ASKS, {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"n": n}}} for n in (1, 2)]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"result": n}}} for n in (1, 2)]}, ENDS]}), 1),
    "a picture": (parts({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}, role="user"), 1),
    "a picture that is no base64": (parts({"inlineData": {"mimeType": "image/png", "data": "%%%"}}, role="user"), None),
    "code that was run": (parts({"executableCode": {"language": "PYTHON", "code": "1/0"}}, {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}}), 1),
    "a role nobody knows": (parts({"text": "x"}, role="ghost"), None),
    "a response without a candidate": (json.dumps({"candidates": [], "promptFeedback": {"blockReason": "SAFETY"}}), None),
    "a candidate without content": (json.dumps({"candidates": [{"finishReason": "SAFETY"}], "usageMetadata": {"totalTokenCount": 5}}), None),
    "tokens that are texts": (json.dumps({"candidates": [{"content": ENDS}], "usageMetadata": {"promptTokenCount": "many", "candidatesTokenCount": -5}}), 1),
    "a system instruction that is a text": (json.dumps({"systemInstruction": "Be brief.", "contents": [ASKS, ENDS]}), 1),
    "both spellings of a key": (parts({"functionCall": {"name": "f", "args": {}}, "function_call": {"name": "g", "args": {}}}), None),
    "hostile names and texts": (parts({"text": "\x1b[31m\u202e::error::x"}, {"functionCall": {"name": "f\u202e\n::error::", "args": {"\u202e": "\x00"}}}), 1),
}


def history(*said: Any, key: str = "") -> str:
    """Return a history of several agents, bare or under a key."""
    return json.dumps({key: list(said)} if key else list(said))


def _says(role: Any, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


TALK = (_says("human", "How many orders are late?"), _says("Orchestrator (thought)", "I need the list."), _says("Orchestrator (-> FileSurfer)", "Open it."), _says("FileSurfer", "Seven rows are late."))
HISTORIES: dict[str, tuple[str, int | None]] = {
    "bare": (history(*TALK), 1),
    "under history": (history(*TALK, key="history"), 1),
    "under chat_history": (history(*TALK, key="chat_history"), 1),
    "under messages": (history(*TALK, key="messages"), 1),
    "one message a line": ("\n".join(json.dumps(one) for one in TALK), 1),
    "of a group chat": (history(*(_says("user", f"m{n}", name=name) for n, name in enumerate(("user_proxy", "coder", "critic", "coder")))), 1),
    "of a name that is null": (history(_says("user", "a", name=None), _says("user", "b", name="coder"), _says("assistant", "c", name="critic")), None),
    "of a role that is null": (history(*TALK, _says(None, "x")), None),
    "of a role that is a list": (history(*TALK, _says(["a"], "x")), None),
    "of contents that are null": (history(*TALK, _says("FileSurfer", None)), None),
    "of contents that are parts": (history(*TALK, _says("FileSurfer", [{"type": "text", "text": "x"}])), None),
    "of contents that are numbers": (history(*TALK, _says("FileSurfer", 7)), None),
    "of brackets without an end": (history(*TALK, _says("Orchestrator (thought", "x"), _says("()", "y"), _says(") (", "z")), 1),
    "of roles of hostile signs": (history(*TALK, _says("\u202eagent\n::error::", "x"), _says("a" * 5000, "y"), _says("", "z")), None),
    "of 20,000 messages": (history(*TALK, *(_says(f"agent{n % 7}", f"m{n}") for n in range(20_000))), 1),
    "of users alone": (history(_says("human", "a"), _says("human", "b")), None),
}


def _cut(text: str, places: int = 12) -> Do:
    """Return what imports a file cut at many places: runs and a record set aside, or one line."""

    def do(place: Place) -> str:
        raw = text.encode()
        for n in range(1, places):
            place.write("x.json", raw[: len(raw) * n // places])
            done = place.run("import", "x.json", "--store", f"x{n}.db")
            if wrong := one_line(done, (2,)) if done.code else coded(done, (0,), says="set aside [1-9]|[1-9][0-9]* set aside"):
                return f"cut at {n} of {places}: {wrong}"
        return ""

    return do


def _comes_back(text: str) -> Do:
    """Return what sends a run through our own format, Parquet and ATIF: it comes back the same."""

    def do(place: Place) -> str:
        place.write("s/a.json", text)
        place.must("import", "s", "--store", "a.db")
        return next((wrong for form in ("ours", "parquet", "atif") if (wrong := _back(place, form, *(["source", "id"] if form == "atif" else [])))), "")

    return do


# ---- gzip

JOINED = "\n".join(gates.runs()).encode()


def _zip_of(name: str, raw: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(name, raw)
    return made.getvalue()


PACKED: dict[str, tuple[str, bytes, int | None, tuple[int, ...]]] = {
    "a file": ("a.jsonl.gz", gzip.compress(JOINED), 48, (0,)),
    "a file under a plain name": ("a.jsonl", gzip.compress(JOINED), 48, (0,)),
    "a plain file under its name": ("a.jsonl.gz", JOINED, 48, (0,)),
    "a file of two members": ("a.gz", gzip.compress(JOINED[: JOINED.index(b"\n") + 1]) + gzip.compress(JOINED[JOINED.index(b"\n") + 1 :]), 48, (0,)),
    "a member of a zip": ("a.zip", _zip_of("a.jsonl.gz", gzip.compress(JOINED)), None, (0, 2)),
    "a zip within": ("a.gz", gzip.compress(_zip_of("a.jsonl", JOINED)), None, (0, 2)),
    "a file within itself, twice": ("a.gz", gzip.compress(gzip.compress(JOINED)), None, (0, 2)),
    "nothing": ("a.gz", gzip.compress(b""), None, (2,)),
    "a head alone": ("a.gz", gzip.compress(JOINED)[:10], None, (2,)),
    "noise behind its head": ("a.gz", gzip.compress(JOINED)[:10] + os.urandom(500), None, (0, 2)),
    "300 MB of nothing": ("a.gz", gzip.compress(b"\0" * 300_000_000, 1), None, (0, 2)),
    "300 MB of blanks before a run": ("a.gz", gzip.compress(b" " * 300_000_000 + gates.line(1, 1).encode(), 1), None, (0, 2)),
}


def _packed_cut(place: Place) -> str:
    """A gzip file that is cut, or whose sum is wrong, is told: a record set aside, or one line."""
    whole = gzip.compress(JOINED)
    for name, raw in (("cut", whole[: len(whole) * 2 // 3]), ("sum", whole[:-8] + b"\0" * 8), ("tail", whole + b"garbage behind"), ("flip", whole[:60] + bytes([whole[60] ^ 255]) + whole[61:])):
        place.write(f"{name}.gz", raw)
        done = place.run("import", f"{name}.gz", "--store", f"{name}.db")
        if name == "tail" and done.code == 0 and n_runs(place, "tail.db") == 48:
            continue
        if wrong := one_line(done, (2,)) if done.code else coded(done, (0,), says="[1-9][0-9]* set aside|set aside [1-9]"):
            return f"{name}: {wrong}"
    return ""


# ---- said late, cases, labels


def steps_of(*commands: str, files: Mapping[str, Any], check: Callable[[Place], str], codes: tuple[int, ...] = (0,)) -> Do:
    """Return what writes files and runs commands, each of these codes, and then looks."""

    def do(place: Place) -> str:
        for name, text in files.items():
            place.write(name, text)
        for words in commands:
            done = place.run(*shlex.split(words))
            if wrong := one_line(done, codes) if done.code == 2 else coded(done, codes):
                return f"{words}: {wrong}"
        return check(place)

    return do


def _told(place: Place, store: str = "n.db") -> list[Any]:
    return [one for one in map(json.loads, place.must("export", "-", "--store", store).out.splitlines()) if "steps" in one]


def _one_named(name: str) -> Callable[[Place], str]:
    def check(place: Place) -> str:
        found = [(one.get("workflow"), one.get("task"), one.get("trial")) for one in _told(place)]
        done = place.run("show", name, *N)
        return coded(done, (0,)) if len(found) == 1 else f"{found}"

    return check


def _outcomes(**wanted: str) -> Callable[[Place], str]:
    def check(place: Place) -> str:
        found = {one["task"]: (one.get("outcome") or {}).get("status", "unknown") for one in _told(place)}
        return "" if found == wanted else f"{found}, not {wanted}"

    return check


def keyed(n: int, **more: Any) -> str:
    """Return a run of messages with these keys beside them."""
    return json.dumps({"task": f"k{n}", "messages": [{"role": "user", "content": f"m{n}"}, {"role": "assistant", "content": "done"}], **more})


CASE = 'version = 2\n[[task]]\nworkflow = "w"\ntask = "c1"\nexpected = ["get_order"]\nmust_tell = ["zanzibar"]\n'
OTHER = CASE.replace("zanzibar", "quokka")


def _expects(word: str, task: str = "c1") -> Callable[[Place], str]:
    """Return what looks whether the runs of a task have a case that says a word, and no others."""

    def check(place: Place) -> str:
        runs = _told(place)
        bad = [one["name"] for one in runs if (word in json.dumps(one.get("case") or {})) != (one["task"] == task)]
        return f"{len(bad)} runs with another case, as {bad[:3]}" if bad or not runs else ""

    return check


def together(*commands: str, files: Mapping[str, Any], check: Callable[[Place], str], codes: tuple[int, ...] = (0, 4)) -> Do:
    """Return what runs commands at once on a store of 48 runs: each ends well, the store is whole."""

    def do(place: Place) -> str:
        for name, text in files.items():
            place.write(name, text)
        place.must("import", "t", *N)
        started = [(words, forked(*shlex.split(words), *N)) for words in commands]
        found = {words: ended(pid, 18) for words, pid in started}
        if set(found.values()) - set(codes):
            return f"codes {found}"
        with closing(sqlite3.connect("n.db")) as db:
            if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                return "the file is damaged"
        place.must("score", *N)
        return check(place)

    return do


def _ended_by_kills(place: Place, words: str, seconds: Iterable[float]) -> str:
    """Kill a command at several times and run it whole; return what is wrong with that."""
    for wait in seconds:
        pid = forked(*shlex.split(words), *N)
        time.sleep(wait)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        ended(pid)
    return coded(place.run(*shlex.split(words), *N), (0,))


def _killed(words: str, files: Mapping[str, Any], check: Callable[[Place], str], seconds: Iterable[float] = (0.05, 0.15, 0.3, 0.5)) -> Do:
    """Return what kills a command at several times, runs it once more, and looks."""

    def do(place: Place) -> str:
        for name, text in files.items():
            place.write(name, text)
        place.must("import", "t", *N)
        return _ended_by_kills(place, words, seconds) or check(place)

    return do


def _scored_anew(place: Place) -> str:
    """A case that changes has its runs scored again, the same case nothing; other tasks stay."""
    place.write("c.toml", CASE)
    for words in ("import t", "import --cases c.toml", "score"):
        place.must(*words.split(), *N)
    place.must("import", "--cases", "c.toml", *N)
    if "0 runs scored" not in (said := place.must("score", *N).said):
        return f"the same case: {said[-200:]!r}"
    place.write("c.toml", OTHER)
    place.must("import", "--cases", "c.toml", *N)
    said = place.must("score", *N).said
    return "" if "4 runs scored" in said else f"another case of four runs: {said[-200:]!r}"


def _file_limit(words: str, kilobytes: int) -> Do:
    """Return what runs a command whose files may not grow: code 5 or 2, one line; then with room it goes on."""

    def do(place: Place) -> str:
        place.write("c.toml", CASE)
        place.must("import", "t", *N)
        done = place.spawn(*shlex.split(words), *N, shell=f"ulimit -f {kilobytes};")
        if wrong := one_line(done, (0, 2, 5)):
            return wrong
        return coded(place.run(*shlex.split(words), *N), (0, 2))

    return do


def maps(cells: Mapping[str, Any], taken: int, labels: str = "1=PROGRESS,-1=ERROR", field: str = "marks") -> Do:
    """Return what imports a map of steps to labels of a run: so many verdicts, the rest set aside and counted."""

    def do(place: Place) -> str:
        place.write("v.jsonl", json.dumps({"run": "w/c0/0", "marks": cells}))
        done = place.run("import", "--verdicts", "v.jsonl", "--map", f"label={field}", "--labels", labels, "--rubric", "step_labels", "--rater", "m")
        if done.code:
            return one_line(done, (2,)) if not taken else coded(done, (0,))
        if taken and f"{taken} new verdict" not in done.said:
            return f"not {taken} new verdicts: {done.said[-300:]!r}"
        if taken < len(cells) and "0 set aside" in done.said:
            return f"{len(cells)} cells, {taken} of them fine, and 0 set aside: {done.said[-300:]!r}"
        return coded(place.run("agree", "--json"), (0, 4))

    return do


def _broken_folder(place: Place) -> str:
    """A folder of cases of which one file is broken: an error that names it, and no run has another case."""
    place.must("import", "t", *N)
    place.write("cases/a.toml", CASE)
    place.write("cases/b.toml", CASE.replace("c1", "c2") + "colour = 7\n")
    done = place.run("import", "--cases", "cases", *N)
    if wrong := one_line(done, (2,), says=r"b\.toml"):
        return wrong
    has = [one["name"] for one in _told(place) if one.get("case")]
    return f"kept all the same: {has[:3]}" if has else ""


def _twins(place: Place) -> str:
    """Two files of a folder with a case of one task: an error that names the place."""
    place.must("import", "t", *N)
    place.write("cases/a.toml", CASE)
    place.write("cases/b.jsonl", json.dumps({"workflow": "w", "task": "c1", "expected": ["x"]}))
    return one_line(place.run("import", "--cases", "cases", *N), (2,))


def _led_out(place: Place) -> str:
    """A link in a folder of cases that leads out is told or refused; what stands there is no case."""
    place.must("import", "t", *N)
    place.write("elsewhere/secret.toml", OTHER)
    Path("cases").mkdir()
    Path("cases/a.toml").write_text(CASE.replace("c1", "c2"), "utf-8")
    Path("cases/b.toml").symlink_to("../elsewhere/secret.toml")
    done = place.run("import", "--cases", "cases", *N)
    if done.code == 2:
        return one_line(done, (2,))
    return "the link was followed, in silence" if "quokka" in json.dumps(_told(place)) and "b.toml" not in done.said else coded(done, (0,))


def _promoted_at_once(place: Place) -> str:
    """Three promotions of one run at once: one whole set of files, the others refused or the same."""
    place.write("x.jsonl", seventh.told(1, 0, seventh.TAKEN, passed=False))
    place.must("import", "x.jsonl", *N)
    place.must("score", *N)
    (run,) = ids(place, "n.db")
    pids = [forked("case", "promote", run, "--out", "cases", *N) for _ in range(3)]
    codes = [ended(pid) for pid in pids]
    if set(codes) - {0, 2} or 0 not in codes:
        return f"codes {codes}"
    left = [path.name for path in Path("cases").iterdir()]
    return coded(place.run("import", "--cases", "cases", *N), (0,)) or ("" if len(left) == 3 else f"files {left}")


def _promoted_where(place: Place, words: str, codes: tuple[int, ...]) -> str:
    place.write("x.jsonl", seventh.told(1, 0, seventh.TAKEN, passed=False))
    place.must("import", "x.jsonl", *N)
    place.must("score", *N)
    (run,) = ids(place, "n.db")
    if "purge" in words:
        place.must("purge", "--where", "workflow = 'w'", "--yes", *N)
        words = "--out cases"
    done = place.run("case", "promote", run, *words.split(), *N)
    return one_line(done, codes)


def _asleep(place: Place) -> str:
    """A view and a score that look at a store beside an import of cases: all end, the server says the new case."""
    place.write("c.toml", CASE)
    place.must("import", "t", *N)
    began = time.monotonic()
    made = subprocess.run([sys.executable, "-c", "import stepscope as ss\nwith ss.open('n.db') as a, ss.open('n.db') as b:\n a.score()\n b.report()\n a.add('u' if False else 't')\n b.score()"],
                          capture_output=True, check=False, timeout=19)
    if time.monotonic() - began > HANGS or b"bug in stepscope" in made.stderr:
        raise Broken(made.stderr.decode("utf-8", "replace")[-300:])
    return "" if made.returncode == 0 else f"code {made.returncode}: {made.stderr.decode('utf-8', 'replace')[-300:]}"


def _store_rows() -> list[Row]:
    typed = "so many runs, or one of our errors, of one line"
    told = "runs, a record set aside, or one line"
    same = "the run is whole, its case is that of the file"
    rows = json.dumps({"workflow": "w", "task": "c1", "expected": ["get_order"], "must_tell": ["zanzibar"]})
    late = {"a.json": json.dumps(SAID)}
    words = [keyed(0, outcome="pass"), keyed(1, outcome="fail"), keyed(2, outcome=True), keyed(3, outcome=False), keyed(4, outcome="success"), keyed(5, outcome="failed"), keyed(6, outcome={"status": "fail"}),
             keyed(7, success=False), keyed(8, success=True), keyed(9, reward=0.5), keyed(10, reward=1), keyed(11, outcome="fail", reward=1.0)]
    said = dict(zip((f"k{n}" for n in range(12)), ("pass", "fail", "pass", "fail", "pass", "fail", "fail", "fail", "pass", "fail", "pass", "fail"), strict=True))
    return [
        *((f"from memory: {name}", f"{runs} runs" if runs else typed, "medium" if runs else "high", remembered(make, runs)) for name, (make, runs) in MEMORY.items()),
        ("from memory, and from a file", "one run, the same id", "medium", _as_from_a_file),
        ("from memory, changed later", "neither is changed", "medium", _left_alone),
        ("from memory: strictly, half a character", typed, "high", remembered(lambda: _changed(content="a\ud800b"), None, strict=True)),
        ("from memory: a format nobody has", typed, "high", remembered(lambda: SAID, None, format_name="nobody")),
        ("calls that are matched, and odd ones", "an answer, or one of our errors", "high", _matched),
        *((f"Gemini: {name}", "one run" if runs else told, "medium" if runs else "high", reads({"a.json": text}, runs, (0,) if runs else (0, 2))) for name, (text, runs) in GEMINI.items()),
        *((f"a history {name}", "one run" if runs else told, "medium" if runs else "high", reads({"a.json": text}, runs, (0,) if runs else (0, 2))) for name, (text, runs) in HISTORIES.items()),
        ("Gemini: the example, cut", told, "high", _cut(sample("gemini.json"))),
        ("a history: the example, cut", told, "high", _cut(sample("history.json"))),
        ("Gemini through ours, Parquet and ATIF", "the same run", "medium", _comes_back(sample("gemini.json"))),
        ("a history through ours, Parquet and ATIF", "the same run", "medium", _comes_back(sample("history.json"))),
        *((f"packed by gzip: {name}", f"{runs} runs" if runs else told, "medium" if runs else "high", reads({file: raw}, runs, codes)) for name, (file, raw, runs, codes) in PACKED.items()),
        ("packed by gzip: cut, changed, with garbage", "told: set aside, or one line", "high", _packed_cut),
        ("a task that is said late", "one run, of that name", "medium",
         steps_of("import a.json --store n.db", "score --store n.db", "import a.json --workflow support --task 12 --trial 3 --store n.db", files=late, check=_one_named("support/12/3"))),
        ("a task that is said late, and another one then", "one run: what it says is not overridden, or it is told", "medium",
         steps_of("import a.json --task 12 --store n.db", "import a.json --task 13 --store n.db", files=late, check=lambda place: "" if n_runs(place, "n.db") in (1, 2) else "no run", codes=(0, 2))),
        ("outcomes of every spelling beside messages", "pass and fail as the page of imports says", "high", steps_of("import k.jsonl --store n.db", files={"k.jsonl": words}, check=_outcomes(**said))),
        ("cases that come alone", same, "medium", steps_of("import t --store n.db", "import --cases c.toml --store n.db", files={"c.toml": CASE}, check=_expects("zanzibar"))),
        ("cases as a line of JSON", same, "medium", steps_of("import t --store n.db", "import --cases c.jsonl --store n.db", files={"c.jsonl": rows}, check=_expects("zanzibar"))),
        ("cases, then their runs", same, "medium", steps_of("import t --cases c.toml --store n.db", "import t --store n.db", "score --store n.db", files={"c.toml": CASE}, check=_expects("zanzibar"))),
        ("cases, then other ones", "the later file's", "medium", steps_of("import t --cases c.toml --store n.db", "import --cases d.toml --store n.db", files={"c.toml": CASE, "d.toml": OTHER}, check=_expects("quokka"))),
        ("cases without a run", "0 or 2: they are named", "medium", steps_of("import t --store n.db", "import --cases c.toml --store n.db", files={"c.toml": CASE.replace("c1", "c99")}, codes=(0, 2), check=lambda place: "")),
        ("cases and no store", "0 or 2: typed, one line", "medium", steps_of("import --cases c.toml --store nowhere.db", files={"c.toml": CASE}, codes=(0, 2), check=lambda place: "")),
        ("cases that change, and the score", "four runs are scored again, then none", "medium", _scored_anew),
        ("a folder of cases of which one is broken", "2: it is named, and none is given", "medium", _broken_folder),
        ("a folder of cases of one task twice", "2", "high", _twins),
        ("a folder of cases with a link that leads out", "told, or refused", "medium", _led_out),
        ("cases, a score and an import at once", same, "high", together("import --cases c.toml", "score", "import t", files={"c.toml": CASE}, check=_expects("zanzibar"))),
        ("two files of cases at once", "one of the two, whole", "high", together("import --cases c.toml", "import --cases d.toml", "score", files={"c.toml": CASE, "d.toml": OTHER}, check=lambda place: "" if not _expects("zanzibar")(place) or not _expects("quokka")(place) else "neither")),
        ("cases while runs are erased", "the store is whole", "high", together("import --cases c.toml", "purge --where \"task = 'c1'\" --yes", "report --json", files={"c.toml": CASE}, check=lambda place: "")),
        ("cases that are killed", same, "high", _killed("import --cases c.toml", {"c.toml": CASE}, _expects("zanzibar"))),
        ("a score of cases that is killed", same, "high", _killed("score", {"c.toml": CASE, "stepscope.toml": '[workflow.w]\ncases = "c.toml"\n'}, _expects("zanzibar"))),
        *((f"cases on files of {size} kB", "0, 2 or 5; then it goes on", "high", _file_limit("import --cases c.toml", size)) for size in (1, 40, 200)),
        ("three promotions of a run at once", "one whole set of files", "high", _promoted_at_once),
        ("a promotion of an erased run", "2, or 0: one line", "high", lambda place: _promoted_where(place, "purge", (0, 2))),
        ("a promotion into a store", "2 or 5", "high", lambda place: _promoted_where(place, "--out n.db", (2, 5))),
        ("two openings of a store in one program", "both are served, in time", "high", _asleep),
        ("a map of steps to labels", "2 verdicts", "medium", maps({"1": 1}, 1)),
        ("a map of steps to labels, of odd steps", "one verdict; the rest set aside and counted", "high", maps({"1": 1, "99": 1, "10000000000000000000000": 1}, 1)),
        ("a map of what are no steps", "set aside and counted", "high", maps({"1": 1, "-1": 1, "x": 1, "1.5": -1, "": 1}, 0)),
        ("a map of steps to labels, of odd labels", "one verdict; the rest set aside and counted", "high", maps({"1": 1, "0": {"a": 1}}, 1)),
        ("a map of steps counted from 1", "one verdict at the step before", "medium", _from_one),
        ("a map of no step", "0 or 2: typed", "medium", maps({}, 0)),
    ]  # fmt: skip


def _from_one(place: Place) -> str:
    """With step=marks-1 a map counts from 1: its 2 is step 1."""
    place.write("v.jsonl", json.dumps({"run": "w/c0/0", "marks": {"2": 1}}))
    done = place.run("import", "--verdicts", "v.jsonl", "--map", "label=marks,step=marks-1", "--labels", "1=PROGRESS", "--rubric", "step_labels", "--rater", "m")
    if wrong := coded(done, (0,), says="1 new verdict"):
        return wrong
    from stepscope.store import Store

    with Store.open("stepscope.db") as store:
        found = [record.answer.step for record in store.records() if record.judge == "m" and record.answer.step is not None]
    return "" if found == [1] else f"steps {found}"


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("stores", name, expected, severity, do, round=7) for name, expected, severity, do in _store_rows()]
