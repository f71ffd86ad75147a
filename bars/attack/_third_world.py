"""The third round: stores and settings.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Two processes at once, what is moved or forgotten, limits of the machine, schemas that lead
out, judges that are programs, replies without an end.
"""

# fmt: off
from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import time
import tomllib
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bars.attack import _gates as gates
from bars.attack import _outputs as outputs
from bars.attack import _replies as replies
from bars.attack import _second as second
from bars.attack import _settings as settings
from bars.attack import _stores as stores
from bars.attack._cases import Area, Case, Place, Severity, coded, one_line
from bars.attack._third import ended, forked, strict

Do = Callable[[Place], str]
Row = tuple[str, str, Severity, Do]


# ---- stores


def n_runs(place: Place, store: str) -> int:
    """Return how many runs a report counts."""
    return int(strict(place.must("report", "--store", store, "--json").out)["whole"]["n_runs"])


def _together(*commands: str, store: str = "n.db", then: str = "report") -> Do:
    """Return what runs commands at once on a store of 48 runs: each ends well, the store is whole."""

    def do(place: Place) -> str:
        place.must("import", "t", "--store", store)
        place.write("u/b.jsonl", gates.runs("more"))
        started = {words: forked(*words.split(), "--store", store) for words in commands}
        codes = {words: ended(pid, 18) for words, pid in started.items()}
        # A baseline of runs that nobody has scored yet is refused.
        bad = {words: code for words, code in codes.items()
               if code not in ((0, 2) if "baseline" in words else (0, 4))}  # fmt: skip
        if bad:
            return f"codes {bad}"
        with closing(sqlite3.connect(store)) as db:
            if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                return "the file is damaged"
        return coded(place.run(*then.split(), "--store", store), (0, 4))

    return do


def _cwd_gone(*words: str) -> Do:
    def do(place: Place) -> str:
        Path("here").mkdir()
        done = place.spawn(*words, shell=f"cd {place.folder}/here; rmdir {place.folder}/here;")
        return one_line(done, (0, 2, 5))

    return do


def _moved_without_journal(place: Place) -> str:
    """A store is copied without its -wal while a writer has it open: fewer runs, or an error."""
    with closing(sqlite3.connect("stepscope.db")) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        place.must("import", "t")
        shutil.copy("stepscope.db", "moved.db")
    done = place.run("report", "--store", "moved.db", "--json")
    if done.code:
        return one_line(done, (2,))
    return "" if strict(done.out)["whole"]["n_runs"] in (48, 96) else "another number of runs"


def _journal_of_another(place: Place) -> str:
    """The journal of another store beside one that was put back from a copy."""
    stores.checkpointed()
    shutil.copy("stepscope.db", "kept.db")
    with closing(sqlite3.connect("stepscope.db")) as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM runs").fetchone()
        place.must("import", "t")
        shutil.copy("stepscope.db-wal", "wal")
    for rest in Path().glob("stepscope.db-*"):
        rest.unlink()
    shutil.copy("kept.db", "stepscope.db")
    shutil.copy("wal", "stepscope.db-wal")
    done = place.run("report", "--json")
    if done.code:
        return one_line(done, (2,))
    return "" if strict(done.out)["whole"]["n_runs"] in (48, 96) else "another number of runs"


def _round_trip(place: Place) -> str:
    """Runs that are exported, imported elsewhere and exported again are the same bytes."""
    place.must("export", "a.jsonl")
    place.must("import", "a.jsonl", "--store", "b.db")
    place.must("export", "b.jsonl", "--store", "b.db")
    lines = [sorted(Path(name).read_text("utf-8").splitlines()) for name in ("a.jsonl", "b.jsonl")]
    return "" if lines[0] == lines[1] else "other lines"


def _import_of(name: str, codes: tuple[int, ...], *, strict_: bool = False) -> Do:
    """Return what imports something that is no trace: refused, and no run is made."""

    def do(place: Place) -> str:
        done = place.run("import", name, "--store", "fresh.db", *(["--strict"] if strict_ else []))
        wrong = coded(done, codes)
        if wrong or not Path("fresh.db").exists():
            return wrong
        shown = place.run("report", "--store", "fresh.db", "--json")
        found = strict(shown.out)["whole"]["n_runs"] if shown.code == 0 else 0
        return f"{found} runs" if found else ""

    return do


def _strict_keeps_nothing(place: Place) -> str:
    place.write("s.jsonl", [*gates.PASSING, '{"task_id": "broken'])
    return _import_of("s.jsonl", (2,), strict_=True)(place)


def _purge(words: str, codes: tuple[int, ...], left: int) -> Do:
    """Return what erases by odd words: these codes, and so many of 48 runs can still be shown."""

    def do(place: Place) -> str:
        done = place.run("purge", *shlex.split(words), "--yes")
        if wrong := coded(done, codes):
            return wrong
        if done.code and (wrong := one_line(done, codes)):
            return wrong
        shown = sum(stores.coded_by(place.run("show", f"w/c{c}/0").code, (0,)) == "" for c in range(12))
        return "" if shown == left else f"{shown} of 12 can be shown"

    return do


def _shared_picture(place: Place) -> str:
    """A picture of two runs stays where one of them is erased, and goes with the other."""
    url = "data:image/png;base64," + b64encode(b"\x89PNG\r\n\x1a\n" + b"quokka" * 99).decode()
    rows = [json.dumps({"task_id": f"p{n}", "messages": [
        {"role": "user", "content": [{"type": "text", "text": f"{n}"},
                                     {"type": "image_url", "image_url": {"url": url}}]},
        {"role": "assistant", "content": "seen"}]}) for n in range(2)]  # fmt: skip
    place.write("p.jsonl", rows)
    place.must("import", "p.jsonl", "--store", "p.db")

    def held() -> bool:
        return any(b"quokka" * 9 in path.read_bytes() for path in Path().rglob("p.db*")
                   if path.is_file()) or any(b"quokka" * 9 in path.read_bytes()
                                             for path in Path().glob("p*/**/*") if path.is_file())  # fmt: skip

    if not held():
        return "the case is wrong: no picture is kept"
    place.must("purge", "--where", "task = 'p0'", "--yes", "--store", "p.db")
    if not held():
        return "the picture of the other run is gone"
    place.must("purge", "--where", "task = 'p1'", "--yes", "--store", "p.db")
    return "an erased picture is still there" if held() else ""


def _shelled(shell: str, *words: str, codes: tuple[int, ...] = (0, 2, 4, 5)) -> Do:
    """Return what runs a command where the machine gives little: typed, one line."""

    def do(place: Place) -> str:
        done = place.spawn(*words, shell=shell)
        return one_line(done, codes)

    return do


def _as_reader(*words: str, codes: tuple[int, ...]) -> Do:
    """Return what runs a command as somebody who may only read the folder."""

    def do(place: Place) -> str:
        stores.checkpointed()
        for path in (place.folder, *place.folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        place.folder.parent.chmod(0o755)
        shell = "exec setpriv --reuid=65534 --regid=65534 --clear-groups" if os.getuid() == 0 else ""
        command = f'{shell} "$@";' if shell else ""
        before = sorted(path.name for path in place.folder.iterdir())
        done = place.spawn(*words, shell=command)
        for path in (place.folder, *place.folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        if "Permission denied" in done.err and "bash:" in done.err:
            return "the case is wrong: the command cannot be run by others"
        left = [name for name in sorted(p.name for p in place.folder.iterdir()) if name not in before]
        # What doctor finds wrong is what it was asked for, not an error.
        wrong = coded(done, codes) if words == ("doctor",) else one_line(done, codes)
        return wrong or (f"left behind: {left}" if left else "")

    return do


def _on_proc(*words: str) -> Do:
    return lambda place: one_line(place.run(*words), (2, 5))


def _swapped(place: Place) -> str:
    """A store that is put in another's place while it is scored is never half of both."""
    place.must("import", "t", "--store", "n.db")
    stores.checkpointed("n.db")
    shutil.copy("n.db", "o.db")
    pid = forked("score", "--store", "n.db", "--workers", "1")
    time.sleep(0.15)
    Path("o.db").replace("n.db")
    code = ended(pid)
    if code not in (0, 2, 5):
        return f"score: code {code}"
    for name in ("n.db-wal", "n.db-shm"):
        Path(name).unlink(missing_ok=True)
    done = place.run("score", "--store", "n.db")
    return coded(done, (0,)) or ("" if n_runs(place, "n.db") == 48 else "not 48 runs")


def _hard_linked(place: Place) -> str:
    """One store under two names, written by both: SQLite's journals have two names, too."""
    stores.checkpointed()
    os.link("stepscope.db", "twin.db")
    place.run("import", "t")
    done = place.run("report", "--store", "twin.db", "--json")
    if done.code:
        return one_line(done, (2,))
    return "" if strict(done.out)["whole"]["n_runs"] in (48, 96) else "another number of runs"


def _dates(text: str) -> Do:
    """Return what imports runs of odd times, and chooses and erases by time."""

    def do(place: Place) -> str:
        span = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
                "name": "chat x", "kind": 3, "startTimeUnixNano": text, "endTimeUnixNano": "5",
                "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                               {"key": "gen_ai.output.messages", "value": {"stringValue": json.dumps(
                                   [{"role": "assistant", "parts": [{"type": "text", "content": "x"}]}])}}]}  # fmt: skip
        place.write("o.json", json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
        place.run("import", "o.json", "--store", "o.db")
        if not Path("o.db").exists():
            return ""
        for words in ("score", "report --since 7d", "report --json", "purge --older-than 1d --yes",
                      "export - --format otlp", "export x.jsonl"):  # fmt: skip
            done = place.run(*words.split(), "--store", "o.db")
            if wrong := coded(done, (0, 2, 4)):
                return f"{words}: {wrong}"
        return ""

    return do


class _Receiver:
    """An `import --listen` that is at work in a fork."""

    def __init__(self) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as held:
            self.port = int(held.getsockname()[1])
        self.pid = forked("import", "--listen", f"127.0.0.1:{self.port}", "--quiet", "0.2", "--store", "l.db")
        end = time.monotonic() + 9
        while time.monotonic() < end:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            time.sleep(0.05)
        raise RuntimeError("the receiver did not begin")

    def send(self, body: bytes, path: str = "/v1/traces", **heads: str) -> int:
        """Post, and return the status; 0 where it closed without one."""
        held = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json",
                "Content-Length": str(len(body)), "Connection": "close"}  # fmt: skip
        held |= {k.replace("_", "-"): v for k, v in heads.items()}
        said = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=9) as made:
            with suppress(OSError):
                lines = "".join(f"{k}: {v}\r\n" for k, v in held.items() if v)
                made.sendall(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
            with suppress(OSError):
                while part := made.recv(65536):
                    said += part
        words = said.split(b" ", 2)
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _span(number: int, text: str = "x") -> dict[str, Any]:
    message = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text}]}])
    return {"traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "chat x", "kind": 3,
            "startTimeUnixNano": "1764000000000000000", "endTimeUnixNano": "1764000001000000000",
            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                           {"key": "gen_ai.output.messages", "value": {"stringValue": message}}]}  # fmt: skip


def _spans(*spans: object) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


def _received(send: Callable[[_Receiver], str], runs: int) -> Do:
    """Return what sends hostile things and one good span: it is kept, and nothing else than `runs`."""

    def do(place: Place) -> str:
        server = _Receiver()
        wrong = send(server)
        good = server.send(_spans(_span(1)))
        time.sleep(1.2)
        os.kill(server.pid, signal.SIGINT)
        code = ended(server.pid)
        if wrong or good != 200 or code not in (0, 130):
            return wrong or f"a good span: {good}, code {code}"
        found = n_runs(place, "l.db")
        return "" if found == runs else f"{found} runs for {runs}"

    return do


def _refused(server: _Receiver, expected: tuple[int, ...], body: bytes, **heads: str) -> str:
    status = server.send(body, **heads)
    return "" if status in expected else f"status {status} for {heads or body[:40]!r}"


def _strangers(server: _Receiver) -> str:
    body = _spans(_span(7))
    no = (0, 400, 403, 404, 405, 411, 413, 415, 421)
    return next(filter(None, (
        _refused(server, no, body, Origin="http://e.vil"), _refused(server, no, body, Host="e.vil"),
        _refused(server, no, body, Sec_Fetch_Site="cross-site"),
        _refused(server, no, body, Origin=f"http://127.0.0.1:{server.port}"),
        _refused(server, no, body, Content_Type="text/plain"),
        _refused(server, no, body, Content_Length="-1"), _refused(server, no, body, path="/v1/logs"),
    )), "")  # fmt: skip


def _broken_bodies(server: _Receiver) -> str:
    no = (0, 400, 408, 413, 415)
    bomb = gzip.compress(b" " * 200_000_000)
    return next(filter(None, (
        _refused(server, no, b"{"), _refused(server, no, b"[" * 100_000), _refused(server, no, b"\xff\xfe"),
        _refused(server, no, bomb, Content_Encoding="gzip"), _refused(server, no, b"x", Content_Encoding="gzip"),
        _refused(server, no, b"{}", Content_Encoding="br, gzip"),
        _refused(server, no, os.urandom(900), Content_Type="application/x-protobuf"),
        _refused(server, (200, 400), _spans(7, None, "x", {"traceId": "zz"}, {"traceId": [1]})),
    )), "")  # fmt: skip


def _killed_receiver(place: Place) -> str:
    """What was acknowledged is a run of the next receiver after a kill."""
    server = _Receiver()
    status = server.send(_spans(_span(5)))
    os.kill(server.pid, signal.SIGKILL)
    ended(server.pid)
    if status != 200:
        return f"status {status}"
    return _received(lambda _: "", 2)(place)


def _where(expression: str, codes: tuple[int, ...], shown: int | None = None) -> Do:
    def do(place: Place) -> str:
        done = place.run("report", "--json", "--where", expression)
        wrong = coded(done, codes)
        if wrong or done.code or shown is None:
            return wrong
        found = strict(done.out)["whole"]["n_runs"]
        return "" if found == shown else f"{found} runs"

    return do


def _store_rows() -> list[Row]:
    well = "each ends with 0 (or 4), and the store is whole"
    files = "ulimit -n 24;"
    return [
        *((f"at once: {', '.join(words)}", well, "high", _together(*words)) for words in (
            ("score", "purge --where task='c1' --yes"), ("import u", "purge --older-than 30d --yes"),
            ("export x.jsonl", "import u", "report"), ("score", "score", "import u"),
            ("purge --where task='c1' --yes", "purge --where task='c1' --yes"),
            ("baseline update --yes", "score", "import u"), ("report --html r.html", "score"))),
        *((f"in a folder that is gone: {words}", "0, 2 or 5, one line", "high", _cwd_gone(*words.split()))
          for words in ("report", "import t", "gate", "view --no-open --port 1", "doctor", "init --yes")),
        ("a store that is copied without its journal", "a whole report, or 2", "high", _moved_without_journal),
        ("a store put back beside a newer journal", "a whole report, or 2", "high", _journal_of_another),
        ("export, import, export", "the same lines", "medium", _round_trip),
        ("a store imported as a trace", "0 or 2, no run", "medium", _import_of("stepscope.db", (0, 2))),
        ("a baseline imported as a trace", "0 or 2, no run", "medium", _import_of("base.json", (0, 2))),
        ("settings imported as a trace", "0 or 2, no run", "medium", _import_of("stepscope.toml", (0, 2))),
        ("a strict import with one broken record", "2, nothing kept", "high", _strict_keeps_nothing),
        *((f"purge {words}", f"{codes}, {left} of 12 stay", "high", _purge(words, codes, left))
          for words, codes, left in (
              ("--older-than -5d", (2,), 12), ("--older-than \u0663d", (2,), 12), ("--older-than 1e3d", (2,), 12),
              ("--older-than ''", (2,), 12), ("--older-than 99999999999999d", (0, 2), 12),
              ("--older-than 2026-02-30", (2,), 12), ("--where ''", (2,), 12), ("--where '   '", (2,), 12),
              ("--where \"task = 'c1'' or 1=1 --'\"", (0, 2), 12), ("--where \"task = 'c1' or 1 = 1\"", (2,), 12),
              ("--where \"task = 'c1'\" --older-than 30d", (0,), 12),
              ("--where \"not task = 'c1'\" --older-than 1d", (0,), 12))),
        ("a picture that two runs share", "stays until both are erased", "high", _shared_picture),
        *((f"few open files: {words}", "0, 4, or 2 or 5 in one line", "high", _shelled(files, *words.split()))
          for words in ("import t --store n.db", "score --workers 2", "report --html r.html", "gate --runs t")),
        ("a small stack: an import of deep JSON", "0, 2 or 5", "high",
         _shelled("ulimit -s 300; printf '%0.s[' {1..90000} > d.json;", "import", "d.json", "--store", "n.db")),
        ("no time of the processor", "a signal or a line, no traceback", "high",
         _shelled("trap '' XCPU;", "report")),
        *((f"a folder that may only be read: {words}", f"code {codes}, one line, nothing left", "high",
           _as_reader(*words.split(), codes=codes))
          for words, codes in (("report", (0, 2, 5)), ("score", (0, 2, 5)), ("import t", (2, 5)),
                               ("gate --runs t", (0, 2, 5)), ("export x.jsonl", (2, 5)), ("doctor", (0, 2, 5)),
                               ("baseline update --yes", (0, 2, 5)), ("report --html r.html", (2, 5)))),
        *((f"where nothing may be written: {words}", "2 or 5, one line", "high", _on_proc(*words.split()))
          for words in ("import t --store /proc/x.db", "export /proc/x.jsonl", "report --html /proc/x.html",
                        "gate --runs t --write /proc/x", "report -o /proc/self/x", "export /proc/x --format atif")),
        ("a store that is swapped while it is scored", "0, 2 or 5, then 48 runs", "high", _swapped),
        ("one store under two hard links", "a whole report, or 2", "high", _hard_linked),
        *((f"a run that began at {text[:30]}", "typed, no bug", "high", _dates(text))
          for text in ("0", "-5", "9" * 18, "9" * 40, "253402300800000000000", "x", "1e18", "NaN")),
        ("strangers before a receiver", "refused; the good span is the one run", "high", _received(_strangers, 1)),
        ("broken bodies before a receiver", "refused; the good span is the one run", "high",
         _received(_broken_bodies, 1)),
        ("a receiver that is killed", "what was acknowledged is a run", "high", _killed_receiver),
        *((f"runs where {words[:60]!r}", f"{codes}", "high", _where(words, codes, shown))
          for words, codes, shown in (
              ("task like '%" + "%_" * 300 + "z'", (0, 2, 4), None), ("task = 'c1\x00'", (0, 2, 4), None),
              ("task in (" + ",".join(f"'c{n}'" for n in range(190)) + ")", (0,), 48),
              ("not " * 3000 + "task = 'c1'", (0, 2), None), ("tag.'a''b' = 'x' or task = 'c1'", (0,), 4),
              ("steps > 99999999999999999999999", (0, 2, 4), None), ("steps = 2.0", (0, 2), None),
              ("task = c1", (2,), None), ("task = \u2018c1\u2019", (2,), None), ("task == 'c1' ;", (2,), None))),
    ]  # fmt: skip


# ---- settings


def _setting(text: str, codes: tuple[int, ...] = (2,), words: str = "score") -> Do:
    def do(place: Place) -> str:
        place.write("stepscope.toml", text)
        done = place.run(*words.split())
        return one_line(done, codes, says="stepscope.toml" if codes == (2,) else "")

    return do


def _project(text: str, codes: tuple[int, ...]) -> Do:
    def do(place: Place) -> str:
        place.write("pyproject.toml", text)
        return one_line(place.run("score"), codes)

    return do


def _of_parent(place: Place) -> str:
    """Settings of a folder above are not of this one."""
    place.write("stepscope.toml", "nonsense = 1")
    Path("in").mkdir()
    os.chdir("in")
    return coded(place.run("score", "--store", "../stepscope.db"), (0,))


def _schema(schema: object, *, in_trace: bool = False) -> Do:
    """Return what scores a run against a schema of its tool: in time, and nobody is asked."""

    def do(place: Place) -> str:
        wire = replies.plain(b"{}")
        text = json.dumps(schema).replace("http://SERVER", wire.base)
        tools = [{"name": "book", "input_schema": json.loads(text)}]
        run = json.loads(settings.call("book", amount="a" * 40, note={"a": {"a": {}}}, n=1e300))
        if in_trace:
            run["tools"] = [{"type": "function", "function": {"name": "book", "parameters": tools[0]["input_schema"]}}]
        else:
            place.write("tools.json", json.dumps(tools))
            place.write("stepscope.toml", '[workflow.w]\ntools = "tools.json"\n')
        place.write("x.jsonl", json.dumps({**run, "workflow": "w", "task_id": "x"}))
        if place.run("import", "x.jsonl", "--store", "x.db").code == 2:
            return ""
        done = place.run("score", "--store", "x.db", "--workers", "1")
        if wire.asked:
            return "an address of a schema was asked"
        return coded(done, (0, 2)) or coded(place.run("report", "--store", "x.db"), (0, 2, 4))

    return do


def _deep_any(levels: int) -> object:
    found: object = {"type": "string"}
    for _ in range(levels):
        found = {"anyOf": [found, found]}
    return found


SCHEMAS: dict[str, object] = {
    "that refers to an address": {"$ref": "http://SERVER/schema.json"},
    "whose id is an address": {"$id": "http://SERVER/a", "$ref": "b.json"},
    "that refers to a file": {"$ref": "file:///etc/passwd"},
    "that refers to itself": {"$ref": "#"},
    "that refers to itself by two": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                                     "$ref": "#/$defs/a"},
    "of a pattern that explodes": {"properties": {"amount": {"pattern": "^(a+)+$x"}}},
    "of 2^20 choices": _deep_any(20),
    "of a multiple of nothing": {"properties": {"n": {"multipleOf": 0}}},
    "of a multiple of 1e-300": {"properties": {"n": {"multipleOf": 1e-300}}},
    "of types that are none": {"type": ["string", 7, None], "required": "amount", "properties": []},
    "of lengths beyond all": {"properties": {"amount": {"minLength": 10**30, "maxLength": -1}}},
    "of an enumeration of 100,000": {"properties": {"amount": {"enum": list(range(100_000))}}},
    "that is true": True,
    "that is a text": "object",
    "of names that are patterns": {"patternProperties": {"(a+)+$": {"type": "string"}, "(": {}}},
    "of a dynamic anchor": {"$dynamicAnchor": "x", "properties": {"note": {"$dynamicRef": "#x"}}},
}  # fmt: skip


def _init(names: list[str]) -> Do:
    """Return what writes settings for tools of these names: TOML that reads back, and is taken."""

    def do(place: Place) -> str:
        rows = []
        for name in names:
            row = json.loads(settings.call("x"))
            row["messages"][1]["tool_calls"][0]["function"]["name"] = name
            rows.append(json.dumps({**row, "task_id": name}))
        place.write("i.jsonl", rows)
        place.must("import", "i.jsonl", "--store", "i.db")
        done = place.run("init", "--yes", "--store", "i.db")
        if wrong := coded(done, (0,)):
            return wrong
        written = tomllib.loads(Path("stepscope.toml").read_text("utf-8"))
        more = set(written) - {"store", "seed", "offline", "tools", "alternatives", "claims", "limits",
                               "listen", "redaction", "judges", "policy", "weights", "precondition"}  # fmt: skip
        if more:
            return f"other tables than ours: {sorted(more)}"
        return coded(place.run("score", "--store", "i.db"), (0,)) or outputs.inert(
            "".join(c for c in Path("stepscope.toml").read_text("utf-8") if c != "\t").split("[tools]")[-1]
            .replace("::", ""))  # fmt: skip

    return do


def _init_keeps(place: Place) -> str:
    place.write("stepscope.toml", "# mine\n")
    done = place.run("init", "--yes")
    kept = Path("stepscope.toml").read_text("utf-8") == "# mine\n"
    return coded(done, (2,)) if kept else "the settings of the user are overwritten"


def _rubric(change: Callable[[str], str | bytes]) -> Do:
    """Return what asks by a rubric file that is wrong: 2, one line, nobody is asked."""

    def do(place: Place) -> str:
        wire = replies.plain(second.RIGHT)
        place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
        place.write("r.md", change(RUBRIC))
        done = place.run("judge", "--judge", "local/a", "--rubric", "r.md")
        return one_line(done, (2,)) or (f"asked {wire.asked}" if wire.asked else "")

    return do


RUBRIC = """+++
name = "behaviour.mine"
kind = "presence"
version = "1"
question = "Where?"
answers = ["present", "absent"]
failing = ["present"]
in_scope = ["x"]

[out_of_scope]
"the end" = "axes.termination"

[[examples]]
answer = "present"
cites = [6]
trace = "6 agent: x"
why = "y"

[[examples]]
answer = "absent"
cites = [4]
trace = "4 agent: x"
why = "y"
+++

Look.
"""
RUBRICS: dict[str, Callable[[str], str | bytes]] = {
    "empty": lambda text: "",
    "without its end": lambda text: text.replace("+++\n\nLook.\n", ""),
    "of an answer without an example": lambda text: text.replace('"absent"]', '"absent", "perhaps"]'),
    "of answers that are one": lambda text: text.replace('["present", "absent"]', '["present", "present"]'),
    "of a failing answer that is none": lambda text: text.replace('failing = ["present"]', 'failing = ["x"]'),
    "of a kind nobody knows": lambda text: text.replace('"presence"', '"essence"'),
    "of a name that is a path": lambda text: text.replace("behaviour.mine", "../../mine\\n::error::"),
    "of a name of ours": lambda text: text.replace("behaviour.mine", "axes.termination"),
    "of a version that is a number": lambda text: text.replace('version = "1"', "version = 1"),
    "of a key nobody knows": lambda text: text.replace("kind =", "color = 'red'\nkind ="),
    "in UTF-16": lambda text: text.encode("utf-16"),
    "of a citation below 0": lambda text: text.replace("[6]", "[-6]"),
}


def _with_file(words: str, name: str, content: str | bytes, codes: tuple[int, ...] = (2,)) -> Do:
    def do(place: Place) -> str:
        wire = replies.plain(second.RIGHT)
        place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
        place.write(name, content)
        return one_line(place.run(*words.split()), codes) or (f"asked {wire.asked}" if wire.asked else "")

    return do


def _dotenv(raw: bytes) -> Do:
    """Return what puts a key into `.env`: doctor says whether it is set, never what it is."""

    def do(place: Place) -> str:
        place.write(".env", raw)
        said = ""
        for words in ("doctor", "doctor --json", "judge --judge openai/gpt-5 --dry-run"):
            done = place.run(*words.split())
            if wrong := coded(done, (0, 2, 5)):
                return f"{words}: {wrong}"
            said += done.said
        return "a key is shown" if "quokka" in said else ""

    return do


def _tiny_limits(place: Place) -> str:
    """With limits of one, what was offered is what was read and what was set aside."""
    place.write("stepscope.toml", "[limits]\ndepth = 4\nsteps = 1\ntext_bytes = 1\nline_bytes = 200\n")
    place.write("l.jsonl", [*gates.PASSING, "x" * 500, settings.call("book", a=1)])
    done = place.run("import", "l.jsonl", "--store", "l.db", "--json")
    if wrong := coded(done, (0, 2)):
        return wrong
    words = place.run("doctor", "l.jsonl").said + place.run("import", "l.jsonl", "--store", "l2.db").said
    aside = re.search(r"(\d+) quarantined", words)
    return "" if aside and int(aside[1]) + words.count(" new") >= 25 else f"not all are told: {words[-200:]!r}"


def _families(place: Place) -> str:
    """A pattern of families with forty stars is compared in time."""
    stars = "*a" * 40 + "*b"
    place.write("stepscope.toml", f'[judges.families]\n"{stars}" = "x"\n')
    return coded(place.run("judge", "--judge", "local/" + "a" * 3000, "--dry-run"), (2,))


def _settings_rows() -> list[Row]:
    rule = settings.RULE
    huge = "\n".join(f"[[redaction.secret]]\nkind = 'k{n}'\nbegins = 'aaa{n}'" for n in range(3000))
    line = "2, one line that names the file"
    goals = "judge --judge local/a --rubric no_look --goals g.toml"
    attack = "lab redteam --judge local/a --corpus c.toml"
    return [
        *((f"pyproject: {name}", f"{codes}", "medium", _project(text, codes)) for name, text, codes in (
            ("another's table alone", "[project]\nname = 'x'", (0,)), ("tool is a number", "tool = 5", (0, 2)),
            ("our table is a list", "[[tool.stepscope]]\nseed = 1", (2,)), ("our table is a number", "[tool]\nstepscope = 1", (2,)),
            ("our key is misspelt", "[tool.stepscope]\nsed = 1", (2,)), ("it is no TOML", "[tool.stepscope\n", (2,)),
            ("our table is within a name", "['tool.stepscope']\nsed = 1", (0,)))),
        ("settings of the folder above", "0: they are not read", "medium", _of_parent),
        *((f"a schema {name}", "0 or 2, in time, nobody asked", "high", _schema(schema))
          for name, schema in SCHEMAS.items()),
        *((f"a schema {name}, of a trace", "0, in time, nobody asked", "high", _schema(SCHEMAS[name], in_trace=True))
          for name in ("that refers to an address", "that refers to itself", "of a pattern that explodes",
                       "of 2^20 choices", "of a multiple of nothing")),
        *((f"init for tools called {name}", "TOML of ours, taken by score", "high", _init(names))
          for name, names in (
              ("as TOML is written", ['a"b', "a'b", "a]b", "a = 1", "#a", "[tools]", "a.b", "", " "]),
              ("over lines", ["a\nseed = 9", "a\r\n[limits]\ndepth = 1", 'a"\n[tools]\nb = "read', "\x00", "\x1b[2J"]),
              ("in other scripts", ["\u4e88\u7d04", "\u202eevil", "a\u200bb", "\ud83d\ude00", "e\u0301", "\u2028"]),
              ("at great length", ["x" * 9000, "get_" + "y" * 9000]))),
        ("init where settings are", "2, they stay", "high", _init_keeps),
        *((f"a rubric file {name}", "2, one line, nobody asked", "medium", _rubric(change))
          for name, change in RUBRICS.items()),
        *((f"goals: {name}", "2, one line, nobody asked", "medium", _with_file(goals, "g.toml", text))
          for name, text in (
              ("no TOML", "[["), ("a key nobody knows", "[[run]]\nname = 'a'\ncolor = 1"),
              ("a step below 0", "[[run]]\nname = 't'\n[[run.goals]]\ngoal = 'x'\nsteps = [-1]\nconfirmed = true"),
              ("confirmed by a word", "[[run]]\nname = 't'\n[[run.goals]]\ngoal = 'x'\nsteps = [1]\nconfirmed = 'yes'"),
              ("one step of two goals", "[[run]]\nname = 't'\n" + 2 * "[[run.goals]]\ngoal = 'x'\nsteps = [1]\nconfirmed = true\n"))),
        *((f"a corpus of attacks: {name}", "2, one line, nobody asked", "medium", _with_file(attack, "c.toml", text))
          for name, text in (
              ("no TOML", "[["), ("a place nobody knows", "[[attack]]\nclass = 'a'\nname = 'b'\nplace = 'sky'\ntext = 'x'"),
              ("no text", "[[attack]]\nclass = 'a'\nname = 'b'\nplace = 'result'"),
              ("a key nobody knows", "[[attack]]\nclass = 'a'\nname = 'b'\nplace = 'result'\ntext = 'x'\ncolor = 1"))),
        *((f".env {name}", "0, 2 or 5; the key is not shown", "high", _dotenv(raw)) for name, raw in (
            ("with export and quotes", b"export OPENAI_API_KEY='quokka-1'\n"), ("with lines of Windows", b"OPENAI_API_KEY=quokka-1\r\n"),
            ("with a mark", b"\xef\xbb\xbfOPENAI_API_KEY=quokka-1\n"), ("in UTF-16", "OPENAI_API_KEY=quokka-1".encode("utf-16")),
            ("of a key twice", b"OPENAI_API_KEY=quokka-1\nOPENAI_API_KEY=quokka-2\n"), ("without a sign", b"OPENAI_API_KEY quokka-1\n"),
            ("with a command", b"OPENAI_API_KEY=$(touch pwned)quokka\n"))),
        ("limits of nearly nothing", "what is offered is read or set aside, and told", "medium", _tiny_limits),
        ("families by a pattern of forty stars", "2, in time", "high", _families),
        *((f"settings: {name}", line, "medium", _setting(text)) for name, text in (
            ("a pattern that ends in a backslash", rule + "where = { amount = 'a\\' }"),
            ("a repeat of 10^9", rule + "where = { amount = 'a{1000000000}' }"), ("a seed of 10^3 as a fraction", "seed = 1e3"),
            ("claims that are a list", "claims = ['a']"), ("a precondition of a key nobody knows", "[[precondition]]\ntool = 'a'\nafter = 'b'\nwhen = 1"),
            ("weights of a fraction", "[weights.w]\n'*' = [1.5]"), ("a workflow that is a number", "[workflow]\nw = 1"),
            ("a policy file that is a folder", "[workflow.w]\npolicy = '.'"), ("a gate beside the workflow's table", "[gates]\noutcome = { min_rate = 1 }"),
            ("a price of nothing", settings.JUDGE + "family = 'x'\nprice = {}"), ("a price that is negative zero and a word", settings.JUDGE + "price = { input = 'a', output = -0.0 }"),
            ("preconditions in a circle", "[[precondition]]\ntool = 'book'\nafter = 'a'\n[[precondition]]\ntool = 'a'\nafter = 'book'\n"),
            ("a key that is a list", settings.JUDGE + "key = ['A']"))),
        *((f"settings: {name}", "0 in time", "high", _setting(text, (0,))) for name, text in (
            ("a protocol that no judge is asked by", settings.JUDGE + "protocol = 'smtp'"), ("alternatives of themselves", "[alternatives]\nbook = ['book']\na = ['b']\nb = ['a']\n"),
            ("3,000 forms of secrets", huge), ("a claim of 50,000 signs", f"[claims]\n'{'x' * 50_000}' = ['book']"),
            ("a claim of signs of patterns", "[claims]\n'(.*)+[' = ['book']\n'\u0130' = ['book']\n"),
            ("a pattern that fits nothing and everything", rule + "where = { amount = '' }"))),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    tables: dict[Area, list[Row]] = {"stores": _store_rows(), "settings": _settings_rows()}
    return [
        Case(area, name, expected, severity, do, round=3)
        for area, rows in tables.items()
        for name, expected, severity, do in rows
    ]
