"""The third round: the pages of `view`, served by a real server to a client that writes bytes.

One door for all requests, no error that is not ours, headers on every answer, nothing written; a
store that is purged, replaced, cut or gone under an open page is told and never served from memory
(docs/howto/view.md, docs/design/web.md, docs/explanation/threat-model.md).
"""

# fmt: off
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bars.attack import _gates as gates
from bars.attack import _outputs as outputs
from bars.attack import _stores as stores
from bars.attack._cases import SECRET, Case, Place, Severity, one_line
from bars.attack._client import Answer, Server, raw, served
from bars.attack._third import ended, forked, strict

Do = Callable[[Place], str]
Row = tuple[str, str, Severity, Do]
WORD = stores.WORD
FORBIDDEN = (400, 401, 403, 404, 405, 411, 413, 414, 421, 431, 501, 505)


def sound(answer: Answer, codes: tuple[int, ...] = (200,), *, secrets: bool = True) -> str:
    """Return what is wrong with an answer: its code, its headers, its text."""
    if answer.status not in codes:
        return f"status {answer.status}: {answer.text[:200]!r}"
    heads = dict(answer.heads)
    for name in ("content-security-policy", "x-content-type-options", "referrer-policy",
                 "cross-origin-resource-policy"):  # fmt: skip
        if name not in heads:
            return f"status {answer.status} without {name}"
    if any(name.startswith("access-control") for name in heads):
        return "a header of CORS"
    if "Traceback" in answer.text or "Internal Server Error" in answer.text:
        return f"a traceback, or an error that is not ours: {answer.text[-200:]!r}"
    if secrets and SECRET[:20] in answer.text:
        at = answer.text.index(SECRET[:20])
        return f"a secret is shown: {answer.text[at - 60 : at + 10]!r}"
    return inert_page(answer)


def inert_page(answer: Answer) -> str:
    """Return what in a page would run, lead out or cannot be seen."""
    kind = answer.head("content-type")
    if "html" in kind:
        page = outputs._Page()
        page.feed(answer.text)
        if page.wrong:
            return str(page.wrong[:3])
        seen = outputs.hidden("".join(page.texts).replace("\r", ""))
        return f"characters that cannot be seen: {seen}" if seen else ""
    if "json" in kind:
        strict(answer.text)
        seen = outputs.hidden(answer.text)
        return f"JSON with characters that cannot be seen: {seen}" if seen else ""
    return ""


def _on(do: Callable[[Server], str], *words: str) -> Do:
    """Return what serves the hostile runs and does something there."""

    def run(place: Place) -> str:
        with served(*words) as server:
            return do(server)

    return run


def _crawl(server: Server) -> str:
    """Every address that a page names, and every one that the documentation names."""
    seen: set[str] = set()
    todo = ["/", "/api/runs.csv", "/api/runs.json", "/api/figures.csv", "/api/report.json",
                  "/compare", "/profile", "/gates", "/nowhere"]  # fmt: skip
    while todo and len(seen) < 60:
        path = todo.pop(0)
        if path in seen or path == "/api/events":
            continue
        seen.add(path)
        answer = server.ask(path)
        codes = (404,) if path == "/nowhere" else (200, 400, 404)
        if path.startswith("/static"):
            codes = (200,)
        elif wrong := sound(answer, codes):
            return f"{path[:80]}: {wrong}"
        if answer.status not in codes:
            return f"{path[:80]}: {answer.status}"
        if "html" in answer.head("content-type"):
            found = re.findall(r'(?:href|src|data-[\w-]+)="(/[^"#]*)', answer.text)
            fresh = [f.replace("&amp;", "&") for f in found if f.startswith(("/run", "/api", "/comp"))]
            todo += fresh[:25] if path == "/" else fresh[:6]
    return "" if len(seen) > 12 else f"only {len(seen)} pages"


def _each(paths: list[str], codes: tuple[int, ...], *, secrets: bool = True, **heads: str) -> Callable[[Server], str]:
    """Return what asks for each path: sound, of these codes, and the server lives on."""

    def do(server: Server) -> str:
        for path in paths:
            answer = server.ask(path, heads=heads)
            if answer.status == 0 and 0 in codes:
                continue
            if wrong := sound(answer, codes, secrets=secrets):
                return f"{path[:90]!r}: {wrong}"
            if any(name == "x-evil" for name, _ in answer.heads):
                return f"{path[:90]!r} makes a header"
        return sound(server.ask("/"))

    return do


LINES = quote(outputs.LINES)
QUERIES = {
    "conditions": [f"/?where={w}" for w in (
        "x", quote("agent = 'a' or 1=1 --"), LINES, "(" * 3000, "%00", "%ff%fe", quote("task like '%" * 200),
        quote("task = '") + "%27" * 900, "&where=1&where=2", quote("id in ("), "%F0%9F", "a" * 6000)],
    "groups": [f"/?by={w}" for w in (
        "x", "tag.", "tag.k", LINES, "id", "%00", "name&by=agent", quote("tag.'"), "__class__", "text")],
    "dates": [f"/?since={w}" for w in (
        "7d", "-7d", "9" * 40 + "d", "0000-00-00", "9999-12-31", LINES, "%00", "\u0663d".encode().hex(),
        "1e9d", "last", "NaN")],
    "orders and filters": [f"/?{k}={w}" for k in ("sort", "desc", "filter", "q", "page", "from", "step")
                           for w in ("-1", "9" * 30, "__class__", LINES[:600], "%00")],
    "windows of a run": [f"/run/run0b0?{k}={w}" for k in ("step", "from", "to")
                         for w in ("-1", "9" * 30, "1.5", "abc", "%00", "%D9%A3", "1&step=2", "1e9")],
    "steps as they are stored": [f"/run/run0b0/raw?step={w}" for w in (
        "-1", "9" * 30, "1.5", "abc", "", "%00", "%D9%A3", "99", "nan")] + ["/run/run0b0/raw"],
    "names of runs": [f"/run/{w}" for w in (
        "g" * 64, "A" * 32, "0", "", "run", "run0b0/", "run0b0/x", "run0b0;x", "run0b0.json", "a" * 4000,
        "__proto__", "..", "-1")],
    "two runs": [f"/compare?{w}" for w in (
        "a=run0b0&b=run0b0", "a=run0b0", "a=&b=", "a=x&b=y", f"a={LINES[:500]}&b=run0a0",
        "a=run0b0&b=run0a0&a=x", "a%5B%5D=run0b0", "a=a&b=b&by=agent", "a=../../x&b=%2e%2e")],
    "blobs": [f"/api/blob/{w}" for w in (
        "0" * 64, "Z" * 64, "", "..", "0" * 63, "0" * 4000, "s.db", "A" * 64)],
    "a header within a query": ["/?where=%0d%0ax-evil:1", "/?by=a%0d%0ax-evil:%201%0d%0a%0d%0a<html>",
                                "/?token=%0d%0ax-evil:1", "/nowhere?%0aX-Evil:1"],
    "a way to elsewhere": ["/?token=x&next=//e.vil", "/?next=http://e.vil", "/?url=//e.vil&return=//e.vil"],
}  # fmt: skip
PATHS = ["/%2e%2e/s.db", "/..", "/../s.db", "/static/../s.db", "/static/..%2fs.db", "/static//app.css",
         "//", "//e.vil/", "/\\e.vil", "/static/app.css%00", "/%252e%252e/s.db", "/static/", "/s.db",
         "/.env", "/static/app.css/x", "/api", "/api/", "/run/%72un0b0", "/;/", "/%E2%80%AE", "/a" * 4000,
         "/api/runs.csv/..", "/stepscope.toml", "/static/vendor/", "/static/."]  # fmt: skip


def _request_lines(server: Server) -> str:
    """First lines that are no path: never a page, never an error that is not ours."""
    for line in (b"GET http://e.vil/ HTTP/1.1", b"GET * HTTP/1.1", b"GET  / HTTP/1.1", b"GET /\tx HTTP/1.1",
                 b"GET /", b"get / HTTP/1.1", b"\x16\x03\x01\x02\x00\x01\x00", b"\x00" * 64,
                 b"GET /\xff\xfe HTTP/1.1", b"PRI * HTTP/2.0", b"GET / HTTP/1.1\x00", b"CONNECT e.vil:443 HTTP/1.1",
                 b"GET ?where=x HTTP/1.1", b"GET e.vil HTTP/1.1"):  # fmt: skip
        answer = raw(server.port, line + f"\r\nHost: {server.host}\r\nCookie: {server.cookie}\r\n"
                     "Connection: close\r\n\r\n".encode())  # fmt: skip
        if answer.status not in (0, *FORBIDDEN) or "Traceback" in answer.text:
            return f"{line!r}: status {answer.status} {answer.text[:100]!r}"
        if b"run0b0" in answer.body:
            return f"{line!r}: a page"
    return sound(server.ask("/"))


def _methods(server: Server) -> str:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "X" * 300, "GETS"):
        for path in ("/", "/api/runs.json", "/run/run0b0", "/nowhere"):
            answer = server.ask(path, method)
            if answer.status not in FORBIDDEN:
                return f"{method} {path}: {answer.status}"
            if answer.status != 400 and (wrong := sound(answer, FORBIDDEN)):
                return f"{method} {path}: {wrong}"
    return sound(server.ask("/"))


def _bodies(server: Server) -> str:
    """A body with a GET is refused, however it says its length; two lengths are no way in."""
    heads: list[dict[str, str]] = [
        {"Content-Length": "5"}, {"Transfer-Encoding": "chunked"}, {"Content-Length": "-1"},
        {"Content-Length": "9" * 40}, {"Content-Length": "5, 6"}, {"Content-Length": "+5"},
        {"Content-Length": "5", "Transfer-Encoding": "chunked"}, {"Transfer-Encoding": "xchunked"},
    ]  # fmt: skip
    inner = f"GET /api/runs.json HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode()
    for one in heads:
        for body in (b"12345", b"5\r\n12345\r\n0\r\n\r\n", b"0\r\n\r\n" + inner):
            answer = server.ask("/", heads=one, body=body)
            if answer.status not in (0, *FORBIDDEN):
                return f"{one}: {answer.status}"
    return sound(server.ask("/"))


def _hosts(server: Server) -> str:
    port = server.port
    for host in (f"e.vil:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.1:{port}", f"2130706433:{port}",
                 f"127.0.0.1.:{port}", f"a@127.0.0.1:{port}", f"127.0.0.1:{port}@e.vil", f"127.0.0.1:0{port}",
                 f"127.0.0.1:{port}, e.vil", f"[::ffff:127.0.0.1]:{port}", f"127.0.0.1 :{port}",
                 f"127.0.0.1:{port}/", f"0.0.0.0:{port}", "", f"127.0.0.1.e.vil:{port}"):  # fmt: skip
        answer = server.ask("/", heads={"Host": host})
        if answer.status not in FORBIDDEN or "run0b0" in answer.text:
            return f"{host!r}: {answer.status}"
    twice = raw(port, f"GET / HTTP/1.1\r\nHost: {server.host}\r\nHost: e.vil\r\nCookie: {server.cookie}\r\n"
                "Connection: close\r\n\r\n".encode())  # fmt: skip
    return f"two hosts: {twice.status}" if twice.status not in FORBIDDEN else sound(server.ask("/"))


def _origins(server: Server) -> str:
    port = server.port
    heads: list[dict[str, str]] = [
        *({"Origin": value} for value in (
            "null", "http://e.vil", f"http://127.0.0.1:{port + 1}", f"https://127.0.0.1:{port}",
            f"http://127.0.0.1:{port}.e.vil", f"http://127.0.0.1:{port} http://e.vil", "*", "x")),
        *({"Sec-Fetch-Site": value} for value in ("cross-site", "same-site", "x", "Cross-Site", "none, x")),
        {"Origin": f"http://127.0.0.1:{port}", "Sec-Fetch-Site": "cross-site"},
    ]  # fmt: skip
    for one in heads:
        for path in ("/", "/api/runs.json", "/static/app.js"):
            answer = server.ask(path, heads=one)
            if answer.status not in FORBIDDEN or "run0b0" in answer.text:
                return f"{one} {path}: {answer.status}"
    return sound(server.ask("/", heads={"Origin": f"http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}))


def _cookies(server: Server) -> str:
    name, _, value = server.cookie.partition("=")
    for cookie in ("", f"{name}=", f"{name}={value[:-1]}", f"{name}={value}x", f"{name}={value.swapcase()}",
                   f"{name}-={value}", f"x={value}", f"{name}={quote(value[:1])}%{value[1:]}", "=" * 3000,
                   f"{name.upper()}={value}", f"{name}=\u0660", f"{name}={'a' * 7000}"):  # fmt: skip
        answer = server.ask("/", heads={"Cookie": cookie})
        if answer.status not in FORBIDDEN or "run0b0" in answer.text:
            return f"{cookie[:60]!r}: {answer.status}"
        if value in answer.text or server.token in answer.text:
            return "the way in is told"
    again = server.ask(f"/?token={server.token}", heads={"Cookie": ""})
    return f"a token twice: {again.status}" if again.status not in FORBIDDEN else sound(server.ask("/"))


def _race_for_token(place: Place) -> str:
    """Twenty at once bring the token: one of them gets in."""
    server = Server()
    time.sleep(0.3)
    found: list[str] = []

    def come() -> None:
        with suppress(OSError):
            found.append(server.ask(f"/?token={server.token}").head("set-cookie"))

    threads = [threading.Thread(target=come) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(9)
    server.stop(signal.SIGKILL)
    count = sum(bool(one) for one in found)
    return "" if count == 1 else f"{count} got in"


def _head(server: Server) -> str:
    for path in ("/", "/run/run0b0", "/api/runs.csv", "/nowhere"):
        got, head = server.ask(path), server.ask(path, "HEAD")
        if head.body or got.status != head.status:
            return f"{path}: {got.status}, {head.status}, {len(head.body)} bytes"
        if wrong := sound(head, (200, 404)):
            return f"{path}: {wrong}"
    return ""


def _floods(server: Server) -> str:
    """Heads without end, and connections that say nothing, do not keep others out."""
    answers = [
        server.ask("/", heads={"X-Long": "a" * 200_000}),
        server.ask("/", heads={f"X-{n}": "a" for n in range(3000)}),
        server.ask("/?where=" + "a" * 200_000),
    ]
    for answer in answers:
        if answer.status not in (0, *FORBIDDEN):
            return f"a flood: {answer.status}"
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(150)]
    for one in idle[::2]:
        one.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
    wrong = sound(server.ask("/"))
    for one in idle:
        one.close()
    return wrong


def _at_once(server: Server) -> str:
    """Sixty requests at once, some of which go away before they are answered."""
    found: list[int] = []

    def ask(number: int) -> None:
        if number % 4 == 0:
            with socket.create_connection(("127.0.0.1", server.port)) as made:
                made.sendall(f"GET / HTTP/1.1\r\nHost: {server.host}\r\nCookie: {server.cookie}\r\n\r\n".encode())
            return
        found.append(server.ask(("/", "/profile", "/api/report.json")[number % 3]).status)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    return "" if found.count(200) == 45 else f"{len(found)} answers: {sorted(set(found))}"


def _nothing_written(server: Server) -> str:
    def held() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in Path().rglob("*")
                if path.is_file() and not path.name.endswith(("-wal", "-shm"))}  # fmt: skip

    before = held()
    wrong = _crawl(server)
    after = held()
    changed = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
    return wrong or (f"written: {changed}" if changed else "")


def _csv(server: Server) -> str:
    import csv
    import io

    for path in ("/api/runs.csv", "/api/figures.csv", "/api/runs.csv?by=tag.k"):
        answer = server.ask(path)
        if wrong := sound(answer):
            return f"{path}: {wrong}"
        for row in csv.reader(io.StringIO(answer.text)):
            for cell in row:
                if re.match("[=+@|%\t\r\uff1d]|-\\D", cell.lstrip()):
                    return f"{path}: a cell begins a formula: {cell[:50]!r}"
                if seen := outputs.hidden(cell.replace("\n", "")):
                    return f"{path}: characters that cannot be seen: {seen}"
    return ""


# ---- a store that changes under an open page


def _page_of(change: Callable[[Place, Server], str], store: str = "b.db") -> Do:
    """Return what serves 48 runs of one word, opens pages, and does something to the store."""

    def do(place: Place) -> str:
        place.write("p.jsonl", gates.runs(WORD))
        place.must("import", "p.jsonl", "--store", store)
        place.must("score", "--store", store)
        with served("--store", store) as server:
            (run,) = re.findall(r"/run/(\w+)", server.ask("/").text)[:1]
            page = server.ask(f"/run/{run}")
            if page.status != 200 or WORD not in page.text:
                return f"the case is wrong: {page.status}"
            server.ask("/api/report.json")
            server.run = run  # type: ignore[attr-defined]
            return change(place, server)

    return do


ALL = ("/", "/run/{run}", "/run/{run}/raw?step=0", "/api/run/{run}", "/api/runs.json", "/api/runs.csv",
       "/api/report.json", "/profile", "/compare?a={run}&b={run}")  # fmt: skip


def _without_word(server: Any) -> str:
    for path in ALL:
        answer = server.ask(path.format(run=server.run))
        if answer.status not in (200, 400, 404, 410):
            return f"{path}: {answer.status} {answer.text[:150]!r}"
        if WORD in answer.text:
            return f"{path} still has what was erased"
    return ""


def _erased(place: Place, server: Any) -> str:
    pid = forked("purge", "--where", "task != null", "--yes", "--store", "b.db")
    code = ended(pid)
    return f"purge: code {code}" if code else _without_word(server)


def _replaced(place: Place, server: Any) -> str:
    place.write("q.jsonl", gates.runs("other"))
    place.must("import", "q.jsonl", "--store", "n.db")
    for name in ("b.db-wal", "b.db-shm"):
        Path(name).unlink(missing_ok=True)
    with closing(sqlite3.connect("n.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    Path("n.db").replace("b.db")
    wrong = _without_word(server)
    found = strict(server.ask("/api/runs.json").text)
    return wrong or ("" if found else "the new store has no runs")


def _typed(server: Any) -> str:
    """Every page is an error of ours, in time."""
    for path in ("/", f"/run/{server.run}", "/api/report.json", "/gates"):
        answer = server.ask(path)
        if answer.status in (-1, 0, 500):
            return f"{path}: {answer.status} {answer.text[:200]!r}"
        if wrong := sound(answer, (200, 400, 404, 409, 410, 502, 503)):
            return f"{path}: {wrong}"
        if answer.status == 200 and WORD in answer.text and path.startswith("/run"):
            return f"{path} is served from memory"
    return ""


def _becomes(make: Callable[[Path], object], *, back: bool = True) -> Callable[[Place, Any], str]:
    """Return what puts something else into the store's place, then the store back."""

    def change(place: Place, server: Any) -> str:
        path = Path("b.db")
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(path, "kept.db")
        for name in ("b.db", "b.db-wal", "b.db-shm"):
            Path(name).unlink(missing_ok=True)
        make(path)
        if wrong := _typed(server):
            return wrong
        if not back:
            return ""
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for name in ("b.db-wal", "b.db-shm"):
            Path(name).unlink(missing_ok=True)
        shutil.copy("kept.db", path)
        return sound(server.ask(f"/run/{server.run}"))

    return change


def _cut_in_place(place: Place, server: Any) -> str:
    path = stores.checkpointed("b.db")
    os.truncate(path, path.stat().st_size // 3)
    return _typed(server)


def _noise_in_place(place: Place, server: Any) -> str:
    path = stores.checkpointed("b.db")
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    return _typed(server)


def _newer(place: Place, server: Any) -> str:
    stores.sql("b.db", "PRAGMA user_version = 9999")
    return _typed(server)


def _triggered(place: Place, server: Any) -> str:
    stores.sql("b.db", "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END")
    return _typed(server)


def _locked(place: Place, server: Any) -> str:
    """A writer that holds the file keeps no page waiting: WAL."""
    with closing(sqlite3.connect("b.db")) as db:
        db.execute("BEGIN IMMEDIATE")
        wrong = sound(server.ask("/")) or sound(server.ask(f"/run/{server.run}"))
        db.rollback()
    return wrong


def _grows(place: Place, server: Any) -> str:
    before = len(strict(server.ask("/api/runs.json").text))
    place.write("q.jsonl", gates.runs("other"))
    pid = forked("import", "q.jsonl", "--store", "b.db")
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if wrong := sound(server.ask("/")):
            return f"while it is imported: {wrong}"
    text = server.ask("/api/runs.csv").text
    return "" if text.count("\n") > 90 else f"{before} runs, then {text.count(chr(10))} lines"


def _moved_folder(place: Place) -> str:
    """The folder that the server was started in is moved away."""
    place.write("p.jsonl", gates.runs(WORD))
    Path("in").mkdir()
    place.must("import", "p.jsonl", "--store", "in/b.db")
    with served("--store", "in/b.db") as server:
        server.ask("/")
        Path("in").rename("out")
        server.run = "0"  # type: ignore[attr-defined]
        return _typed(server)


# ---- starting and ending


def _starts(words: list[str], codes: tuple[int, ...], **environment: str) -> Do:
    """Return what starts a server that must refuse to start, in time, in one line."""

    def do(place: Place) -> str:
        os.environ.update(environment)
        pid = os.fork()
        if pid == 0:
            done = place.run("view", "--no-open", *words)
            wrong = one_line(done, codes)
            Path("wrong").write_text(wrong or "fine", encoding="utf-8")
            os._exit(0)
        code = ended(pid, 9)
        if code == 98:
            os.kill(pid, signal.SIGKILL)
            return "it serves, or hangs"
        told = Path("wrong").read_text("utf-8") if Path("wrong").exists() else f"died: {code}"
        return "" if told == "fine" else told

    return do


def _taken(place: Place) -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as held:
        port = str(held.getsockname()[1])
        return _starts(["--port", port], (2, 5))(place)


def _stops(kind: int, codes: tuple[int, ...]) -> Do:
    """Return what ends a server to which connections are open, one of them for events."""

    def do(place: Place) -> str:
        server = Server()
        server.open()
        held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
        held[0].sendall(f"GET /api/events HTTP/1.1\r\nHost: {server.host}\r\nCookie: {server.cookie}\r\n\r\n".encode())
        held[1].sendall(b"GET / HT")
        time.sleep(0.3)
        code = server.stop(kind)
        told = server.errors()
        if "Traceback" in told:
            return told[-300:]
        return "" if code in codes else f"code {code}"

    return do


def _two_servers(place: Place) -> str:
    with served() as one, served() as two:
        if one.port == two.port:
            return "two servers of one port"
        _, _, value = one.cookie.partition("=")
        own = two.cookie.partition("=")[0]
        for cookie in (one.cookie, f"{own}={value}"):
            answer = two.ask("/", heads={"Cookie": cookie})
            if answer.status not in FORBIDDEN:
                return f"the cookie of another server: {answer.status}"
        both = two.ask("/", heads={"Cookie": f"{one.cookie}; {two.cookie}"})
        return sound(both)


def _quiet(place: Place) -> str:
    """What the server prints names neither cookie nor token after it has begun."""
    server = Server()
    server.open()
    for path in ("/", f"/?token={server.token}", "/nowhere", f"/?where={LINES}"):
        server.ask(path)
    server.ask("/", heads={"Host": "e.vil"})
    server.stop(signal.SIGTERM)
    told = server.errors()
    value = server.cookie.partition("=")[2]
    return "the way in is printed" if value in told or server.token in told else outputs.inert(told)


def _gates_file(content: str | bytes, codes: tuple[int, ...] = (2,)) -> Do:
    """Return what shows what an odd file says of gates: refused at the start, or typed on its page."""

    def do(place: Place) -> str:
        place.write("g.json", content)
        try:
            with served("--gates", "g.json") as server:
                return sound(server.ask("/gates"), (200, 400, 404))
        except RuntimeError as e:
            return "" if "error: " in str(e) and "Traceback" not in str(e) else str(e)[:300]

    return do


def _gates_gone(place: Place) -> str:
    place.run("gate", "--json", "--out", "g.json")
    with served("--gates", "g.json") as server:
        wrong = sound(server.ask("/gates"))
        Path("g.json").unlink()
        wrong = wrong or sound(server.ask("/gates"), (200, 400, 404))
        os.mkfifo("g.json")
        return wrong or sound(server.ask("/gates"), (200, 400, 404))


def _hostile_gates(place: Place) -> str:
    place.run("gate", "--json", "--out", "g.json")
    held = Path("g.json").read_text("utf-8")
    place.write("g.json", held.replace('"fail"', '"pass"').replace('"n_runs": ', '"n_runs": 9999999'))
    return _gates_file(Path("g.json").read_text("utf-8"))(place)


def _blob(place: Place) -> str:
    """A picture that is a page, in a trace: a download of no type that runs."""
    page = b64encode(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>").decode()
    rows = [{"role": "user", "content": [
        {"type": "text", "text": "look"},
        *({"type": "image_url", "image_url": {"url": f"data:{kind};base64,{page}"}}
          for kind in ("image/svg+xml", "text/html", "image/png\r\nx-evil: 1", "x" * 900))]},
        {"role": "assistant", "content": "seen"}]  # fmt: skip
    place.write("b.jsonl", json.dumps({"task_id": "t", "messages": rows}))
    place.must("import", "b.jsonl", "--store", "b.db")
    with served("--store", "b.db") as server:
        (run,) = re.findall(r"/run/(\w+)", server.ask("/").text)[:1]
        page_text = server.ask(f"/run/{run}").text + server.ask(f"/api/run/{run}").text
        found = set(re.findall(r"\b[0-9a-f]{64}\b", page_text))
        seen = 0
        for name in found:
            answer = server.ask(f"/api/blob/{name}")
            if answer.status == 404:
                continue
            seen += 1
            kind, way = answer.head("content-type"), answer.head("content-disposition")
            if "attachment" not in way or re.search("html|svg|xml|script", kind):
                return f"{kind!r}, {way!r}"
            if any(k == "x-evil" for k, _ in answer.heads):
                return "a header of the trace"
        return "" if seen else "no blob was found: the case is wrong"


def _empty(place: Place) -> str:
    place.write("e.jsonl", '{"task_id": "t", "messages": [{"role": "user", "content": ""}]}')
    place.must("import", "e.jsonl", "--store", "e.db")
    place.must("purge", "--where", "task = 't'", "--yes", "--store", "e.db")
    with served("--store", "e.db", "--where", "task = 'nobody'") as server:
        return _crawl_few(server)


def _crawl_few(server: Server) -> str:
    for path in ("/", "/profile", "/gates", "/compare", "/api/runs.json", "/api/runs.csv",
                 "/api/figures.csv", "/api/report.json"):  # fmt: skip
        if wrong := sound(server.ask(path), (200, 400, 404)):
            return f"{path}: {wrong}"
    return ""


def rows() -> list[Row]:
    """Return the cases of this area."""
    short = {"STEPSCOPE_VIEW_TOKEN": "short"}
    gone = "404 or figures alone; no erased word"
    typed = "an error of ours in time, the server lives, and serves the store again"
    refused = "400 to 431, headers of ours, no page; the server lives"
    return [
        ("every page of hostile runs", "200; inert: no script, no secret, nothing unseen", "high", _on(_crawl)),
        *((f"queries: {name}", "200 or 4xx of ours, inert, no header made", "high",
           # An order or a filter that the reader typed is shown to that reader as it was.
           _on(_each(paths, (200, 303, 307, *FORBIDDEN), secrets="filters" not in name))) for name, paths in QUERIES.items()),
        ("paths that lead out or are spelt", refused, "high", _on(_each(PATHS, (0, *FORBIDDEN)))),
        ("first lines that are no path", refused, "high", _on(_request_lines)),
        ("methods that are not reading", refused, "high", _on(_methods)),
        ("bodies where none may be, two requests in one", refused, "high", _on(_bodies)),
        ("hosts that are not this server", refused, "high", _on(_hosts)),
        ("origins and sites that are not this page", refused, "high", _on(_origins)),
        ("cookies that are not the one of this start", refused, "high", _on(_cookies)),
        ("twenty who bring the token at once", "one gets in", "high", _race_for_token),
        ("HEAD", "the status of GET, no body, the headers", "medium", _on(_head)),
        ("floods of heads, idle connections", "cut off, others are served", "high", _on(_floods)),
        ("sixty requests at once", "45 answers of 200", "high", _on(_at_once)),
        ("a look at every page", "no file changes", "high", _on(_nothing_written)),
        ("CSV of hostile runs", "no formula, no secret, nothing unseen", "high", _on(_csv)),
        ("runs erased under an open page", gone, "high", _page_of(_erased)),
        ("a store replaced by another", "the new one, nothing of the old", "high", _page_of(_replaced)),
        ("a store that is gone for a while", typed, "high", _page_of(_becomes(lambda path: None))),
        ("a pipe in the store's place", typed, "high", _page_of(_becomes(os.mkfifo))),
        ("a folder in the store's place", typed, "high", _page_of(_becomes(lambda path: path.mkdir()))),
        ("an empty file in the store's place", typed, "high", _page_of(_becomes(lambda path: path.touch()))),
        ("a device in the store's place", typed, "high",
         _page_of(_becomes(lambda path: path.symlink_to("/dev/zero")))),
        ("a link to itself in the store's place", typed, "high",
         _page_of(_becomes(lambda path: path.symlink_to("b.db")))),
        ("noise in the store's place", typed, "high",
         _page_of(_becomes(lambda path: path.write_bytes(os.urandom(50_000))))),
        ("a store that is cut while it is read", "an error of ours, in time", "high", _page_of(_cut_in_place)),
        ("a store that is overwritten with noise", "an error of ours, in time", "high", _page_of(_noise_in_place)),
        ("a store that becomes newer", "an error of ours, in time", "high", _page_of(_newer)),
        ("a store that gets a trigger", "an error of ours, in time", "high", _page_of(_triggered)),
        ("a store that a writer holds", "200 at once", "high", _page_of(_locked)),
        ("a store that is imported into", "200 meanwhile, the new runs after", "high", _page_of(_grows)),
        ("a folder that is moved away", "an error of ours, in time", "high", _moved_folder),
        *((f"view {' '.join(words)}{' with a short token' if more else ''}"[:80], "2 or 5, one line, at once", "high",
           _starts(words, (2, 5), **more))
          for words, more in (
              (["--host", "0.0.0.0"], {}), (["--host", "0.0.0.0"], short), (["--host", "e.vil\n::error::x"], {}),
              (["--host", ""], {}), (["--host", "127.0.0.1 "], {}), (["--where", "agnt = 1"], {}),
              (["--by", "nothing"], {}), (["--since", "soon"], {}), (["--gates", "no.json"], {}),
              (["--gates", "/dev/zero"], {}), (["--store", "no.db"], {}), (["--port", "0"], {}),
              (["--port", "99999"], {}))),
        ("a port that is taken", "2 or 5, one line", "medium", _taken),
        ("Ctrl-C with connections open", "0, within 10 s", "high", _stops(signal.SIGINT, (0,))),
        ("SIGTERM with connections open", "0 or 130, within 10 s", "high", _stops(signal.SIGTERM, (0, 130))),
        ("a terminal that hangs up, connections open", "0 or 130", "high", _stops(signal.SIGHUP, (0, 130))),
        ("two servers at once", "two ports, and no cookie of the other", "high", _two_servers),
        ("what a server prints", "neither cookie nor token once it has begun; inert", "high", _quiet),
        *((f"gates of a file: {name}", "refused in one line, or a page", "high", _gates_file(content))
          for name, content in (
              ("nothing", ""), ("no JSON", "{"), ("a list", "[]"), ("5,000 brackets", "[" * 5000),
              ("hostile words", json.dumps({"report": {"workflows": [{"workflow": outputs.LINES}]}})),
              ("another schema", '{"report": {"schema": 99, "workflows": []}}'), ("noise", os.urandom(3000)))),
        ("gates of a file that goes, then a pipe", "a page, in time", "high", _gates_gone),
        ("gates of a file with numbers of another", "refused in one line, or a page", "high", _hostile_gates),
        ("pictures that are pages", "downloads of no type that runs, no header of theirs", "high", _blob),
        ("a store of nothing but an erased run, no run chosen", "pages", "high", _empty),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("view", name, expected, severity, do, round=3) for name, expected, severity, do in rows()]


def prepare(place: Place) -> None:
    """Make a store of hostile runs, its settings and its baseline."""
    outputs.prepare(place)
