"""Slow, broken and hostile senders: each gets its answer or is cut off, and the next one is served.

One receiver stands through all of them; after every case it must still take an ordinary span.
"""

from __future__ import annotations

import gzip
import select
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stepscope.safety.limits import MIB
from stepscope.store import Store
from tests.receive.sending import (
    IMPATIENT,
    JSON_TYPE,
    PATIENCE,
    PATIENT,
    Receiver,
    export,
    receiver,
    span,
)

GOOD = export(span("1", "1"))
# 100 MiB in a tenth of one.
BOMB = gzip.compress(b" " * MIB, 1) * 100


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiver(tmp_path_factory.mktemp("hostile"), code=PATIENT) as found:
        yield found


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiver(tmp_path_factory.mktemp("hasty"), code=IMPATIENT) as found:
        yield found


@pytest.fixture
def impatient(hasty: Receiver) -> Iterator[Receiver]:
    yield hasty
    # On a busy machine an ordinary span may come too slowly for it, too: not ten times.
    assert any(status(ask(hasty, head(hasty) + GOOD)) == 200 for _ in range(10))
    assert hasty.process.poll() is None


@pytest.fixture
def target(standing: Receiver) -> Iterator[Receiver]:
    yield standing
    assert standing.send(GOOD).status == 200
    assert standing.process.poll() is None


def head(target: Receiver, *lines: str, length: int | str | None = len(GOOD)) -> bytes:
    """The head of a request; a header that is given again takes the place of the usual one."""
    given = {line.partition(":")[0].lower() for line in lines}
    usual = [f"Host: {urlsplit(target.url).netloc}", f"Content-Type: {JSON_TYPE}"]
    usual += [] if length is None else [f"Content-Length: {length}"]
    kept = [line for line in usual if line.partition(":")[0].lower() not in given]
    return "\r\n".join(["POST /v1/traces HTTP/1.1", *kept, *lines, "", ""]).encode()


def ask(target: Receiver, *parts: bytes, pause: float = 0.0, close: bool = False) -> bytes:
    """What comes back for raw bytes until the connection ends; "" where it is just cut."""
    place = urlsplit(target.url)
    with socket.create_connection((place.hostname or "", place.port or 0), PATIENCE) as wire:
        with suppress(OSError):
            for part in parts:
                wire.sendall(part)
                time.sleep(pause)
            if close:
                wire.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionError):
            while piece := wire.recv(65536):
                answer += piece
                if complete(answer):
                    break
        return answer


def complete(answer: bytes) -> bool:
    top, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    lengths = [line for line in top.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(lengths) and len(body) >= int(lengths[0].partition(b":")[2])


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def gzipped(target: Receiver, body: bytes) -> bytes:
    return head(target, "Content-Encoding: gzip", length=len(body)) + body


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], 200),
        (["Content-Encoding: identity"], 200),
        (["Content-Type: application/json; charset=utf-8"], 200),
        (["Host: evil.example"], 403),
        (["Host: evil.example:4318"], 403),
        (["Host: 127.0.0.1.evil.example"], 403),
        (["Host: 127.0.0.1"], 403),
        (["Origin: http://evil.example"], 403),
        (["Origin: null"], 403),
        (["Origin: http://127.0.0.1:4318"], 403),
        (["Sec-Fetch-Site: cross-site"], 403),
        (["Sec-Fetch-Site: none"], 403),
        (["Sec-Fetch-Mode: no-cors"], 403),
        (["Content-Type: text/plain"], 415),
        (["Content-Type: application/x-www-form-urlencoded"], 415),
        (["Content-Type: multipart/form-data"], 415),
        (["Content-Type: application/json", "content-type: application/json"], 415),
        (["Content-Encoding: zstd"], 415),
        (["Content-Encoding: deflate"], 415),
        (["Content-Encoding: br"], 415),
        (["Content-Encoding: gzip, gzip"], 415),
        (["X-Large: " + "a" * 17_000], 431),
        ([f"X-{at}: a" for at in range(3_000)], 431),
        (["Content-Length: -1"], 400),
        (["Content-Length: 1", "Content-Length: 2"], 400),
        (["Content-Length: one"], 400),
        (["Transfer-Encoding: gzip"], 400),
        (["Bad Header"], 400),
        (["Host: a", "Host: b"], 400),
    ],
)
def test_a_head_is_judged_before_its_body(
    target: Receiver, lines: list[str], expected: int
) -> None:
    assert status(ask(target, head(target, *lines) + GOOD)) == expected


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v1/traces", 405),
        ("PUT", "/v1/traces", 405),
        ("OPTIONS", "/v1/traces", 405),
        ("POST", "/v1/logs", 404),
        ("POST", "/v1/metrics", 404),
        ("POST", "/", 404),
        ("POST", "/v1/traces/../../etc/passwd", 404),
        ("POST", "/v1%2ftraces/", 404),
        ("GET", "/", 404),
    ],
)
def test_there_is_one_address_and_it_takes_post(
    target: Receiver, method: str, path: str, expected: int
) -> None:
    raw = head(target, length=0).replace(b"POST /v1/traces", f"{method} {path}".encode())
    answer = ask(target, raw)
    assert status(answer) == expected
    assert b"access-control" not in answer.lower()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (gzip.compress(GOOD), 200),
        (gzip.compress(GOOD[:40]) + gzip.compress(GOOD[40:]), 200),
        (gzip.compress(b" " * (19 * MIB) + GOOD, 1), 200),
        (BOMB, 413),
        (gzip.compress(gzip.compress(GOOD)), 400),
        (GOOD, 400),
        (b"", 400),
        (gzip.compress(GOOD)[:-3], 400),
        (gzip.compress(GOOD)[:-8] + b"\0" * 8, 400),
        (gzip.compress(GOOD) + b"trailing", 400),
        (zlib.compress(GOOD), 400),
        (b"\x1f\x8b\x08\xff" + b"\xff" * 30, 400),
    ],
)
def test_gzip_is_read_within_limits_or_refused(
    target: Receiver, body: bytes, expected: int
) -> None:
    assert status(ask(target, gzipped(target, body))) == expected


@pytest.mark.parametrize(
    ("body", "expected", "said"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"[]", 400, "Expected `object`"),
        (b'{"resourceLogs": []}', 400, "resourceSpans"),
        (b"[" * 100_000, 413, "containers inside each other"),
        (b'{"resourceSpans": ' + b"[" * 100_000, 413, "containers inside each other"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [' + b"[" * 1_000, 413, "containers"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 413, "containers inside each other"),
        (b"\xff\xfe", 400, "UTF-8"),
        (b'{"resourceSpans": [' + b"{}," * 100_000 + b"{}]}", 200, ""),
        (b'{"resourceSpans": [' + b"{}," * 500_000 + b"{}]}", 413, "500,000 values"),
        (b" " * (20 * MIB + 1), 413, "20 MiB"),
    ],
)
def test_json_that_is_no_request_is_refused_with_the_reason(
    target: Receiver, body: bytes, expected: int, said: str
) -> None:
    answer = target.send(body)
    assert answer.status == expected
    assert said in answer.json.get("message", "")


def test_a_connection_that_says_nothing_is_cut(impatient: Receiver) -> None:
    assert ask(impatient) == b""


@pytest.mark.parametrize("pause", [0.1])
def test_a_head_that_comes_a_byte_at_a_time_is_cut(impatient: Receiver, pause: float) -> None:
    drip = [bytes([byte]) for byte in head(impatient)[:30]]
    assert ask(impatient, *drip, pause=pause) == b""


def test_a_body_that_is_longer_than_what_comes_is_cut_with_408(impatient: Receiver) -> None:
    assert status(ask(impatient, head(impatient, f"Content-Length: {2**62}") + GOOD)) == 408


def test_a_body_that_comes_a_byte_at_a_time_is_cut_with_408(impatient: Receiver) -> None:
    drip = [bytes([byte]) for byte in GOOD[:20]]
    assert status(ask(impatient, head(impatient), *drip, pause=0.1)) == 408


@pytest.mark.parametrize(
    "parts",
    [
        [b"POST /v1/tra"],
        [b"\r\n\r\n\r\n"],
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],  # TLS
        [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
        [b"GET / HTTP/9.9\r\n\r\n"],
        [b"\0" * 1_000],
    ],
)
def test_what_is_no_http_is_cut_or_refused(target: Receiver, parts: list[bytes]) -> None:
    assert status(ask(target, *parts, close=True)) in {0, 400, 403, 404}


def test_half_a_body_keeps_nothing(target: Receiver) -> None:
    half = export(span("abc", "1"))
    assert ask(target, head(target, length=len(half)) + half[:-40], close=True)[:12] in {
        b"",
        b"HTTP/1.1 400",
        b"HTTP/1.1 408",
    }
    whole = target.send(half)
    assert whole.json == {}


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"%x\r\n%s\r\n" % (len(GOOD), GOOD), b"0\r\n\r\n"], 200),
        ([b"zz\r\n"], 400),
        ([b"5\r\nabc"], 408),
        ([b"ffffffffffffffff\r\n" + b"a" * 1_000], 408),
    ],
)
def test_chunks_are_read_to_their_end_or_refused(
    impatient: Receiver, chunks: list[bytes], expected: int
) -> None:
    raw = head(impatient, "Transfer-Encoding: chunked", length=None)
    # A body of a broken chunk may be answered by the server before or after the application.
    assert status(ask(impatient, raw, *chunks)) in {expected, 400}


def test_more_connections_than_there_is_room_for_are_told_to_come_again(
    target: Receiver,
) -> None:
    place = urlsplit(target.url)
    held = [
        socket.create_connection((place.hostname or "", place.port or 0), PATIENCE)
        for _ in range(9)
    ]
    try:
        (told, *_), _, _ = select.select(held, [], [], PATIENCE)
        answer = told.recv(1000)
        assert b" 503 " in answer
        assert b"Retry-After" in answer
    finally:
        for wire in held:
            wire.close()
    while target.send(GOOD).status == 503:
        pass  # until it has seen that they are closed


def test_a_second_request_may_come_before_the_first_is_answered(target: Receiver) -> None:
    one = head(target) + GOOD
    place = urlsplit(target.url)
    with socket.create_connection((place.hostname or "", place.port or 0), PATIENCE) as wire:
        wire.sendall(one + one)
        answer = b""
        while answer.count(b"HTTP/1.1 200") < 2:
            piece = wire.recv(65536)
            assert piece
            answer += piece


def test_spans_that_are_none_are_counted_and_the_others_kept(target: Receiver) -> None:
    answer = target.send(export(span("2", "1"), {"name": "no ids"}, span("0", "2")))
    assert answer.status == 200
    assert answer.headers["content-type"] == JSON_TYPE
    said = answer.json["partialSuccess"]
    assert said["rejectedSpans"] == "2"
    assert "spanId" in said["errorMessage"] or "traceId" in said["errorMessage"]


WORDS = "<script>alert(1)</script>\x1b[2J\u202e{{7*7}} ' OR 1=1 --"


def test_hostile_words_in_spans_are_stored_as_words(tmp_path: Path) -> None:
    keys = ("__proto__", "constructor", "gen_ai.operation.name")
    about = [{"key": key, "value": {"stringValue": WORDS}} for key in keys]
    with receiver(tmp_path, code=PATIENT) as target:
        body = export(span("3", "1", name=WORDS), span("3", "2", "1", attributes=about))
        assert target.send(body).status == 200
        code, last = target.stop()
        assert (code, last["event"], last["traces"]) == (0, "stopped", 0)
    with Store.open(target.store) as store:
        (run,) = store.trajectories()
        one, two = run.spans
        assert (one.name, list(two.attributes), two.attributes["__proto__"]) == (
            WORDS,
            list(keys),
            WORDS,
        )
        assert list(store.quarantined()) == []
