"""The sixth round: stores.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Round trips of every format's example, what a second telling of a run may change, backends
whose pages never end, verdicts in Parquet, receivers, files that are told twice or half in Latin-1.
"""

# fmt: off
from __future__ import annotations

import importlib
import io
import json
import os
import re
import signal
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bars.attack import _gates as gates
from bars.attack import _second as second
from bars.attack import _stores as stores
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._fifth_replies import png
from bars.attack._fifth_settings import BACKENDS
from bars.attack._fifth_stores import CODERS, MESSAGES, SPANS, TESTS, _rated, ids, sample
from bars.attack._fourth import Do, Row
from bars.attack._fourth_stores import FORMS, _gone
from bars.attack._third import ended, forked, strict
from bars.attack._third_replies import Serving
from bars.attack._third_world import RUBRIC, _Receiver, _span, _spans, n_runs

WORD = stores.WORD
ALL = (*MESSAGES, *CODERS, *TESTS, *SPANS)


# ---- round trips


def _told(place: Place, store: str, *without: str) -> list[str]:
    """Return the runs of a store as lines, but for some fields."""
    lines = map(json.loads, place.must("export", "-", "--store", store).out.strip("\n").split("\n"))
    return sorted(json.dumps({k: v for k, v in one.items() if k not in without and v != {}}, sort_keys=True) for one in lines if "steps" in one)


def _back(place: Place, form: str, *without: str) -> str:
    """Return what is other where the runs of a.db went out in a format and came back."""
    place.must("export", FORMS[form], "--format", form, "--store", "a.db")
    place.must("import", FORMS[form], "--store", f"{form}.db")
    if form == "otlp":
        one, two = ids(place, "a.db"), ids(place, "otlp.db")
        return "" if one == two else f"{form}: ids {sorted(set(one) ^ set(two))}"
    one, two = _told(place, "a.db", *without), _told(place, f"{form}.db", *without)
    if len(one) != len(two):
        return f"{form}: {len(one)} runs became {len(two)}"
    for first, then in zip(one, two, strict=True):
        if first != then:
            a, b = json.loads(first), json.loads(then)
            return f"{form}: {a.get('name')}: other {[k for k in sorted({*a, *b}) if a.get(k) != b.get(k)]}"
    return ""


def _samples_come_back(names: Iterable[str], forms: Iterable[str], *without: str) -> Do:
    """Return what sends examples through formats: each comes back the same."""

    def do(place: Place) -> str:
        for name in names:
            place.write(f"s/{name}", sample(name))
        place.must("import", "s", "--store", "a.db")
        return next((wrong for form in forms if (wrong := _back(place, form, *without))), "")

    return do


def _odd_run_comes_back(place: Place) -> str:
    """A run with all that a run can have comes back the same from each of our formats."""
    import msgspec

    from stepscope.model import Case as Task
    from stepscope.model import Part
    from stepscope.store import Store
    from tests.factories import FAILED, agent, did, failed, goal, run, user

    picture = msgspec.structs.replace(user("see"), parts=(Part("text", "see"), Part("image", "", media_type="image/png", data=b64encode(png()).decode())))
    made = run(
        user("caf\u00e9 e\u0301 \u202e \x1b[31m"), picture, *did("find \u2028", "ok", **{"a.b": [1, -0.0, 2**53 + 1, None, {"": ""}], "\u0131": 1e-320}),
        *failed("pay", "Error: \x85"), agent(""), outcome=FAILED, case=Task(workflow="shop", task="1", subgoals=(goal("pay", amount=0),), outputs=("\u2028",)),
        tags={"": "x", "k": "", "a=b": "c\nd"}, extra={"deep": {"er": [[], {}, [None]]}}, agent="", agent_version="0",
    )
    with Store.open("a.db") as store:
        store.put([made])
    return next((wrong for form in ("ours", "parquet", "atif") if (wrong := _back(place, form, *(["source", "id"] if form == "atif" else [])))), "")


# ---- told again


def _tagged_later(place: Place) -> str:
    """A tag that comes later updates the runs it belongs to, and makes no second ones."""
    place.must("import", "t", "--tag", "a=1", "--store", "n.db")
    place.must("import", "t", "--tag", "b=2", "--store", "n.db")
    lines = place.must("export", "-", "--where", "tag.b = '2'", "--store", "n.db").out.splitlines()
    found = sum("steps" in json.loads(line) for line in lines)
    return "" if found == 48 and n_runs(place, "n.db") == 48 else f"{found} runs have the later tag, of {n_runs(place, 'n.db')}"


def _told_without_outcome(place: Place) -> str:
    """A failed run that is told again without its reward stays failed."""
    rows = [gates.line(c, 0, passed=False) for c in range(6)]
    place.write("a.jsonl", rows)
    place.write("b.jsonl", [json.dumps({k: v for k, v in json.loads(row).items() if k != "reward"}) for row in rows])
    for name in ("a.jsonl", "b.jsonl"):
        place.must("import", name, "--store", "n.db")
        place.must("score", "--store", "n.db")
    found = [one["outcome"]["status"] for one in map(json.loads, place.must("export", "-", "--store", "n.db").out.splitlines()) if "steps" in one]
    return "" if found == ["fail"] * 6 else f"outcomes {found}"


# ---- backends without an end

ENDLESS: dict[str, Any] = {
    "runs": [{"id": "a1", "trace_id": "a1", "name": "x", "run_type": "chain", "start_time": "2026-11-22T04:00:00Z", "inputs": {}, "outputs": {}}],
    "cursors": {"next": "same", "prev": None}, "data": [{"id": "t1", "name": "x", "timestamp": "2026-11-22T04:00:00Z", "observations": [], "scores": []}],
    "next_cursor": "same", "meta": {"page": 1, "limit": 50, "totalItems": 10**9, "totalPages": 10**9, "cursor": "same", "next_cursor": "same"},
    "next_page_token": "same", "traces": [], "spans": [], "experiment": {"experiment_id": "1", "name": "x", "lifecycle_stage": "active"},
    "experiments": [{"experiment_id": "1", "name": "x", "lifecycle_stage": "active"}], "id": "p1", "name": "x",
}  # fmt: skip


class Endless(Serving):
    """A backend that says of every page that there is another one."""

    def __init__(self) -> None:
        """Serve so."""
        super().__init__(self._page)

    def _page(self, made: socket.socket) -> None:
        listed = b"/sessions" in self.requests[-1].split(b"\r\n", 1)[0]
        body: Any = [{"id": "11111111-1111-1111-1111-111111111111", "name": "x"}] if listed else ENDLESS
        made.sendall(second.raw(json.dumps(body).encode()))


def _never_ends(name: str) -> Do:
    """Return what pulls from a backend whose pages have no end: it ends all the same."""

    def do(place: Place) -> str:
        wire = Endless()
        variable, keys = BACKENDS[name]
        os.environ.update({variable: wire.base, **keys})
        os.environ.pop("LANGFUSE_BASE_URL", None)
        done = place.run("import", name, "--store", "n.db")
        return coded(done, (0, 2, 4, 5)) or (f"asked {wire.asked} times" if wire.asked > 2000 else "")

    return do


# ---- words to be erased


def _changed(name: str, change: Callable[[Any], object]) -> str:
    made = json.loads(sample(name))
    change(made)
    return json.dumps(made)


def _described(made: Any) -> None:
    made["tools"] = [{"name": "get_order", "description": WORD, "input_schema": {"type": "object", "description": WORD}}]


def _graded(made: Any) -> None:
    made["samples"][0] |= {"target": WORD, "metadata": {"note": WORD}, "scores": {"includes": {"value": "C", "answer": WORD, "explanation": WORD}}}


def _blamed(made: Any) -> None:
    made |= {"mistake_reason": WORD, "ground_truth": WORD, "question": WORD}


def _instructed(made: Any) -> None:
    made["tasks"][0]["user_scenario"]["instructions"] = WORD
    made["tasks"][0]["evaluation_criteria"]["communicate_info"] = [WORD]


# ---- verdicts in Parquet and other tables


def _parquet(kind: str) -> Callable[[str], bytes]:
    """Return what writes CSV as Parquet whose columns are of a kind."""

    def made(text: str) -> bytes:
        pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        head, *rows = [line.split(",") for line in text.strip().splitlines()]
        columns: dict[str, Any] = {}
        for at, name in enumerate(head):
            cells: list[Any] = [row[at] or None for row in rows]
            if name in ("step", "repeat"):
                columns[name] = pa.array([None if c is None else float(c) if kind == "floats" else int(c) for c in cells])
            elif name == "cites":
                columns[name] = pa.array([[int(n) for n in (c or "").split()] for c in cells])
            elif kind == "dictionaries":
                columns[name] = pa.array(cells).dictionary_encode()
            elif kind == "bytes":
                columns[name] = pa.array([(c or "").encode() + b"\xff" for c in cells], pa.binary())
            else:
                columns[name] = pa.array(cells, pa.large_string())
        raw = io.BytesIO()
        pq.write_table(pa.table(columns), raw)
        return raw.getvalue()[:-20] if kind == "cut" else raw.getvalue()

    return made


def _maps(place: Place) -> str:
    """Words for columns that make no sense are an error of one line, and nothing is kept."""
    place.write("v.csv", ["run,n,label,judge", "w/c1/0,1,PROGRESS,ann"])
    for word in ("step=n-2", "step=n+1", "step=n-x", "step=-1", "step=n-1-1", "label=label,label=judge", "label", "=n", "step=", "label=nobody", "colour=n"):
        done = place.run("import", "--verdicts", "v.csv", "--rubric", "step_labels", "--human", "--map", word)
        if wrong := one_line(done, (2,)):
            return f"{word}: {wrong}"
    for word in ("yes", "=correct", "yes=", "a=b=c"):
        done = place.run("import", "--verdicts", "v.csv", "--rubric", "step_labels", "--human", "--map", "step=n-1", "--labels", word)
        if done.code not in (0, 2):
            return f"{word}: {coded(done, (0, 2))}"
    return ""


def _own_rubric(place: Place) -> str:
    """Verdicts of people by a rubric of one's own: each row is taken, and they are compared by it."""
    place.write("own.md", RUBRIC)
    place.write("v.csv", ["run,step,label,judge", *(f"w/c{c}/0,{s},{'present' if c % 3 == k else 'absent'},{who}" for c in range(12) for s in (0, 1) for k, who in enumerate(("ann", "bob")))])
    done = place.run("import", "--verdicts", "v.csv", "--rubric", "own.md", "--human")
    if wrong := coded(done, (0,), says="48 new verdicts"):
        return wrong
    for words in ("agree --json", "agree --rubric own.md --json", "agree --rubric behaviour.mine --json", "report --json"):
        found = place.run(*words.split())
        if wrong := coded(found, (0, 2, 4)):
            return f"{words}: {wrong}"
        if found.code != 2:
            strict(found.out)
    return ""


# ---- scores


def _scores(rows: list[str], *, aside: bool, head: str = "run,step,score", twice: list[str] | None = None) -> Do:
    """Return what imports scores for runs of the store: what is not taken is counted, and shown runs are typed."""

    def do(place: Place) -> str:
        place.write("s.csv", [head, *rows])
        done = place.run("import", "s.csv")
        if twice is not None and done.code == 0:
            place.write("s2.csv", [head, *twice])
            done = place.run("import", "s2.csv")
        if wrong := one_line(done, (2,)) if done.code else coded(done, (0,), says="[1-9][0-9]* quarantined|set aside" if aside else ""):
            return wrong
        for words in ("score", "report --json", "show w/c1/0 --json"):
            if wrong := coded(place.run(*words.split()), (0, 2)):
                return f"{words}: {wrong}"
        return ""

    return do


def _interleaved(place: Place) -> str:
    """A file of 70,000 rows in which a run comes again later: those rows are quarantined and counted."""
    rows = [f"a{n},{s},0.5" for n in range(7000) for s in range(10)]
    place.write("s.csv", ["run,step,score", *rows, *(f"a3,{s},0.5" for s in range(10, 15))])
    done = place.run("import", "s.csv", "--store", "n.db")
    return coded(done, (0,), says=r"\b5 quarantined")


# ---- receivers


def _listened(send: Callable[[_Receiver], str], runs: int, *, steps: int | None = None, says: str = "") -> Do:
    """Return what sends spans to a receiver: so many runs, and so many steps in all."""

    def do(place: Place) -> str:
        server = _Receiver()
        wrong = send(server)
        time.sleep(1.2)
        os.kill(server.pid, signal.SIGINT)
        code = ended(server.pid)
        if wrong or code not in (0, 130):
            return wrong or f"code {code}"
        found = strict(place.must("report", "--json", "--store", "l.db").out)["whole"]
        if found["n_runs"] != runs or steps not in (None, found["n_steps"]):
            return f"{found['n_runs']} runs of {found['n_steps']} steps"
        if says and says not in place.must("export", "-", "--store", "l.db").out:
            return f"{says!r} is not said"
        return ""

    return do


def _thrice(server: _Receiver) -> str:
    codes = [server.send(_spans(_span(1))) for _ in range(3)]
    time.sleep(0.8)
    return "" if [*codes, server.send(_spans(_span(1)))] == [200] * 4 else f"{codes}"


def _late(server: _Receiver) -> str:
    server.send(_spans(_span(1, "first")))
    time.sleep(1.2)
    child = {**_span(1, "second"), "spanId": f"{9:016x}", "parentSpanId": f"{1:016x}", "startTimeUnixNano": "1764000000500000000"}
    return "" if server.send(_spans(child)) == 200 else "refused"


def _broken_beside(server: _Receiver) -> str:
    code = server.send(_spans(7, None, "x", [], _span(2)))
    return "" if code == 200 else f"{code}"


def _of_a_web_server(server: _Receiver) -> str:
    plain = {k: v for k, v in _span(5).items() if k != "attributes"}
    codes = [server.send(_spans({**plain, "name": "GET /"})), server.send(_spans(_span(1)))]
    return "" if codes == [200, 200] else f"{codes}"


def free_port() -> int:
    """Return a port of this machine that nobody has."""
    with closing(socket.create_server(("127.0.0.1", 0))) as made:
        return int(made.getsockname()[1])


def _two_receivers(place: Place) -> str:
    """Two receivers of one store at once: what each of them took is kept, or the second one is refused."""
    first = _Receiver()
    servers = [first]
    port = free_port()
    pid = forked("import", "--listen", f"127.0.0.1:{port}", "--quiet", "0.2", "--store", "l.db")
    end = time.monotonic() + 3
    while time.monotonic() < end and len(servers) == 1:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            other = _Receiver.__new__(_Receiver)
            other.pid, other.port = pid, port
            servers.append(other)
        time.sleep(0.05)
    sent = 0
    for number, server in enumerate(servers):
        with suppress(OSError):
            sent += server.send(_spans(_span(number + 1))) == 200
    time.sleep(1.2)
    codes = []
    for one in (first.pid, pid):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGINT)
        codes.append(ended(one))
    if set(codes) - {0, 2, 5, 130}:
        return f"codes {codes}"
    found = n_runs(place, "l.db")
    return "" if found == sent else f"{sent} spans were taken, {found} runs are kept; codes {codes}"


def _open_trace(place: Place) -> str:
    """A trace whose root has not ended waits for the next receiver, and is one run with what comes there."""
    child = {**_span(1, "child"), "spanId": f"{9:016x}", "parentSpanId": f"{1:016x}"}
    for span in (child, _span(1, "root")):
        server = _Receiver()
        code = server.send(_spans(span))
        time.sleep(1.0)
        os.kill(server.pid, signal.SIGINT)
        if code != 200 or ended(server.pid) not in (0, 130):
            return f"{code}"
    lines = [json.loads(line) for line in place.must("export", "-", "--store", "l.db").out.splitlines()]
    found = [len(one.get("spans", [])) for one in lines if "steps" in one]
    return "" if found == [2] else f"spans of runs: {found}"


def _odd_journal(make: Callable[[Path], object]) -> Do:
    """Return what begins to receive where the journal is something else: typed, at once."""

    def do(place: Place) -> str:
        make(Path("l.db.journal"))
        pid = forked("import", "--listen", f"127.0.0.1:{free_port()}", "--store", "l.db")
        time.sleep(1.5)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        code = ended(pid, 8)
        return "" if code in (0, 2, 5, 130) else f"code {code}"

    return do


# ---- files that are odd as a whole


def _read_or_told(names: Iterable[str], change: Callable[[str], bytes | str], *, least: int = 1, says: str = "") -> Do:
    """Return what imports examples in an odd file: as many runs as before, or what is missing is told."""

    def do(place: Place) -> str:
        for name in names:
            place.write(f"a/{name}", sample(name))
            place.must("import", f"a/{name}", "--store", f"a-{name}.db")
            place.write(f"b/{name}", change(sample(name)))
            done = place.run("import", f"b/{name}", "--store", f"b-{name}.db")
            if done.code or re.search("[1-9][0-9]* quarantined", done.said):
                if wrong := one_line(done, (2,)) if done.code else "":
                    return f"{name}: {wrong}"
                continue
            one, two = ids(place, f"a-{name}.db"), ids(place, f"b-{name}.db")
            if len(two) < least * len(one):
                return f"{name}: {len(one)} runs became {len(two)}, and nothing is told: {done.out[:200]!r}"
            if says and not re.search(says, done.said):
                return f"{name}: {says!r} is not said: {done.said[:200]!r}"
        return ""

    return do


def _latin(text: str) -> bytes:
    """Return a text with a letter in Latin-1 within its last word."""
    raw = text.encode()
    at = max(m.end() for m in re.finditer(rb"[a-z]{4}", raw))
    return raw[: at - 1] + b"\xe9" + raw[at:]


def _seconds(place: Place) -> str:
    """Times with zones, without one, and over a change of the clock: the same seconds, wherever one looks."""
    from bars.attack._fifth import _lasting

    pairs = {"30": ("2026-01-01T00:00:00+14:00", "2026-01-01T00:00:30+14:00"), "2": ("2026-03-29T01:59:59+01:00", "2026-03-29T03:00:01+02:00"),
             "60": ("2026-03-29T02:00:00", "2026-03-29T02:01:00"), "1": ("2026-12-31T23:59:59.500Z", "2027-01-01T00:00:00.500+00:00")}
    for wanted, (start, end) in pairs.items():
        place.write(f"{wanted}.json", _lasting(start, end))
        made = place.spawn("import", f"{wanted}.json", "--store", f"{wanted}.db", environment={"TZ": "Europe/Berlin"})
        if made.code:
            return f"{start}: {coded(made, (0,))}"
        place.must("score", "--store", f"{wanted}.db")
        done = place.run("export", "-", "--verdicts", "only", "--store", f"{wanted}.db")
        values = {one["answer"].get("value") for one in map(json.loads, done.out.splitlines()) if one.get("answer", {}).get("measure") == "efficiency.seconds"}
        if values != {float(wanted)}:
            return f"{start} to {end}: {values} seconds"
    return ""


def _odd_times(place: Place) -> str:
    """Times that no clock shows are kept as recorded or told: no bug."""
    from bars.attack._fifth import _lasting

    for number, time_ in enumerate(("2026-06-30T23:59:60Z", "2026-01-01T24:00:00Z", "10000-01-01T00:00:00Z", "2026-01-01T00:00:00+99:00", "2026-W01-1T00:00:00Z", "-0001-01-01T00:00:00Z",
                                    "2026-01-01T00:00:00.1234567890123Z", "2026-02-29T00:00:00Z", " 2026-01-01T00:00:00Z ", "1764000000")):
        place.write(f"o/{number}.json", _lasting(time_, "2026-01-01T01:00:00Z").replace("a1", f"a{number}x").replace("Clean", f"{number} clean"))
    for words in ("import o --store n.db", "score --store n.db", "report --json --store n.db", "report --json --since 9d --store n.db", "export o.otlp --format otlp --store n.db", "report --html r.html --store n.db"):
        if wrong := coded(place.run(*words.split()), (0,)):
            return f"{words}: {wrong}"
    return ""


def _links_within(place: Place) -> str:
    """Links that stay within a folder of traces, and other names of a file: each run once."""
    (place.folder / "t/more").mkdir()
    (place.folder / "t/b.jsonl").symlink_to("a.jsonl")
    (place.folder / "t/again").symlink_to("more", target_is_directory=True)
    os.link("t/a.jsonl", "t/more/c.jsonl")
    place.must("import", "t", "--store", "n.db")
    found = n_runs(place, "n.db")
    return "" if found == 48 else f"{found} runs, not 48"


def _three_updates(place: Place) -> str:
    """Three updates of one baseline at once: a whole file, and a gate that can read it."""
    place.must("import", "t")
    place.must("score")
    pids = [forked("baseline", "update", "--yes") for _ in range(3)]
    codes = [ended(pid) for pid in pids]
    strict(Path("base.json").read_text("utf-8"))
    done = place.run("gate", "--runs", "t")
    return f"codes {codes}" if set(codes) - {0, 2, 5} else coded(done, (0, 3, 4), lacks="baseline_")


def _store_rows() -> list[Row]:
    same = "the same runs, whole"
    none = "no file of the store has the word"
    told = "as many runs as before, or what is missing is told"
    aside = "each row is taken or set aside, and counted; agree prints strict JSON"
    ends = "it ends within 10 s, typed"
    five = [f"w/c{n}/0,correct,ann" for n in range(5)]
    stepped = [f"w/c{n}/0,{n % 2},PROGRESS,ann" for n in range(4)]
    steps, head = "--rubric step_labels --human", "run,label,judge"
    firsts, others = (*MESSAGES, *CODERS), (*TESTS, *SPANS)
    typed = "0, 2, 5 or 130 at once"
    gone = "name like '%'"
    return [
        ("examples of messages and coding agents through ours and Parquet", same, "medium", _samples_come_back(firsts, ("ours", "parquet"))),
        ("examples of benchmarks and spans through ours and Parquet", same, "medium", _samples_come_back(others, ("ours", "parquet"))),
        ("examples of messages and coding agents through ATIF", "the same runs, but for their source", "medium", _samples_come_back(firsts, ("atif",), "source")),
        ("examples of benchmarks and spans through ATIF", "the same runs, but for their source", "medium", _samples_come_back(others, ("atif",), "source")),
        ("examples of all formats through OTLP", "the same ids", "medium", _samples_come_back(ALL, ("otlp",))),
        ("a run with odd keys, numbers and a picture through ours, Parquet and ATIF", "the same run", "medium", _odd_run_comes_back),
        ("a tag at the second import", "48 runs have it", "medium", _tagged_later),
        ("failed runs told again without a reward", "they stay failed", "high", _told_without_outcome),
        *((f"pages of {name} without an end", ends, "high", _never_ends(name)) for name in BACKENDS),
        ("erased: what a tool of a trace says of itself", none, "medium", _gone("import w.json", "score", files={"w.json": _changed("anthropic.json", _described)}, where=gone)),
        ("erased: what a scorer of Inspect explained", none, "medium", _gone("import w.json", "score", files={"w.json": _changed("inspect.json", _graded)}, where=gone)),
        ("erased: why people blamed a step", none, "medium", _gone("import w.json", "score", files={"w.json": _changed("whowhen.json", _blamed)}, where=gone)),
        ("erased: what a picture and a file hold", none, "medium", _gone("import w.json", "score", files={"w.json": _with_file()}, where=gone)),
        ("verdicts in Parquet", "5 verdicts", "medium", _rated(head, five, name="v.parquet", fine=5, raw=_parquet("texts"))),
        ("verdicts in Parquet with steps as numbers", "4 verdicts", "medium", _rated("run,step,label,judge", stepped, steps, name="v.parquet", fine=4, raw=_parquet("texts"))),
        ("verdicts in Parquet with steps as fractions", aside, "high", _rated("run,step,label,judge", stepped, steps, name="v.parquet", raw=_parquet("floats"))),
        ("verdicts in Parquet of bytes that are no text", aside, "high", _rated(head, five, name="v.parquet", raw=_parquet("bytes"))),
        ("verdicts in Parquet with lists of citations", aside, "high", _rated("run,label,judge,cites", [f"{row},0 1" for row in five], name="v.parquet", raw=_parquet("texts"))),
        ("verdicts in Parquet that is cut", "2, one line", "high", _rated(head, five, name="v.parquet", raw=_parquet("cut"))),
        ("verdicts with words of columns that make no sense", "2, one line each", "medium", _maps),
        ("verdicts by a rubric of one's own", "48 verdicts, compared", "medium", _own_rubric),
        ("scores for a name that two runs have", "set aside and counted, or 2", "medium", _two_of_a_name),
        ("scores that contradict earlier ones", "set aside and counted", "medium", _scores(["w/c1/0,0,0.5"], aside=True, twice=["w/c1/0,0,0.6"])),
        ("scores at steps that a run does not have", "0 or 2: every command over it is typed", "high", _scores(["w/c1/0,7,0.5", "w/c1/0,0,0.9", "w/c1/0,1000000,0.1"], aside=False)),
        ("70,000 scores of which a run comes again", "5 quarantined, by the page of formats", "medium", _interleaved),
        ("a span that is received four times", "one run of one step", "high", _listened(_thrice, 1, steps=1)),
        ("a span that comes when its run is closed", "one run, which says late_spans", "high", _listened(_late, 1, says="late_spans")),
        ("broken spans beside a good one", "200 and one run", "high", _listened(_broken_beside, 1)),
        ("two receivers of one store", "what was taken is kept, or the second is refused", "high", _two_receivers),
        ("a trace that is open when the receiver is stopped", "one run of two spans", "high", _open_trace),
        ("a receiver's journal that is a pipe", typed, "high", _odd_journal(lambda path: os.mkfifo(path))),
        ("a letter in Latin-1, messages and coding agents", told, "high", _read_or_told(firsts, _latin, least=9)),
        ("a letter in Latin-1, benchmarks and spans", told, "high", _read_or_told(others, _latin, least=9)),
        ("examples of all formats in UTF-16", told, "high", _read_or_told(ALL, lambda text: text.encode("utf-16"))),
        ("examples twice in a file, messages and coding agents", "twice as many runs, as many of one session, or told", "high", _read_or_told(firsts, lambda text: f"{text}\n{text}\n")),
        ("examples twice in a file, benchmarks and spans", "twice as many runs, as many of one trace, or told", "high", _read_or_told(others, lambda text: f"{text}\n{text}\n")),
        ("examples with a key twice", "read, and told as duplicate_key", "medium", _read_or_told(ALL, lambda text: re.sub(r"\{", '{"zz": 1, "zz": 2, ', text, count=1), says="duplicate|came twice")),
        ("times over zones and changes of the clock", "30, 2, 60 and 1 seconds", "medium", _seconds),
        ("times that no clock shows", "typed", "high", _odd_times),
        ("links within a folder, and other names of a file", "48 runs", "medium", _links_within),
        ("three updates of a baseline at once", "a whole file", "high", _three_updates),
    ]  # fmt: skip


def _with_file() -> str:
    """Return messages with a picture and a file whose bytes have the word."""
    picture = f"data:image/png;base64,{b64encode(png() + WORD.encode()).decode()}"
    document = f"data:text/plain;base64,{b64encode(WORD.encode()).decode()}"
    parts = [{"type": "text", "text": f"see {WORD}"}, {"type": "image_url", "image_url": {"url": picture}}, {"type": "file", "file": {"filename": f"{WORD}.txt", "file_data": document}}]
    return json.dumps({"task_id": "f", "workflow": "w", "messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": "I see."}]})


def _two_of_a_name(place: Place) -> str:
    """Scores for a name that two runs have: nobody knows whose they are."""
    place.must("import", "t")
    place.write("s.csv", ["run,step,score", "w/c1/0,0,0.5"])
    done = place.run("import", "s.csv")
    return one_line(done, (2,)) if done.code else coded(done, (0,), says="[1-9][0-9]* quarantined|set aside")


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("stores", name, expected, severity, do, round=6) for name, expected, severity, do in _store_rows()]
