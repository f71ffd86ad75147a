"""Who may send, where the receiver may listen, and what it answers."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Any

import pytest
from starlette.types import Message

from stepscope.errors import UsageError
from stepscope.receive.server import (
    BodyMemory,
    BodyReader,
    IncomingBody,
    ReceiverRefusal,
    answer_kept,
    answer_refused,
    find_refusal,
    parse_address,
)
from stepscope.safety.offline import accepted_hosts

SECRET = "s" * 32
HOST = (b"host", b"127.0.0.1:4318")
RIGHT = (b"authorization", b"Bearer " + SECRET.encode())


@pytest.mark.parametrize(
    ("text", "token", "expected"),
    [
        (None, None, ("127.0.0.1", 4318)),
        ("127.0.0.1:9", None, ("127.0.0.1", 9)),
        ("127.0.0.1", None, ("127.0.0.1", 4318)),
        ("localhost:9", None, ("127.0.0.1", 9)),
        ("localhost", None, ("127.0.0.1", 4318)),
        (":9", None, ("127.0.0.1", 9)),
        ("9", None, ("127.0.0.1", 9)),
        ("[::1]:9", None, ("::1", 9)),
        ("::1", None, ("::1", 4318)),
        ("10.0.0.5:9", SECRET, ("10.0.0.5", 9)),
        ("0.0.0.0:9", SECRET, ("0.0.0.0", 9)),
    ],
)
def test_an_address_is_loopback_unless_there_is_a_secret(
    text: str | None, token: str | None, expected: tuple[str, int]
) -> None:
    assert parse_address(text, token) == expected


@pytest.mark.parametrize(
    ("text", "token", "said"),
    [
        ("0.0.0.0:4318", None, "not loopback"),
        ("10.0.0.5", None, "STEPSCOPE_LISTEN_TOKEN"),
        ("10.0.0.5", "s" * 31, "31 characters; expected 32"),
        (None, "short", "5 characters"),
        ("example.org:80", None, "expected HOST:PORT"),
        ("runs.json", None, "expected HOST:PORT"),
        ("127.0.0.1:http", None, "no port"),
        ("127.0.0.1:65536", None, "no port"),
        ("127.0.0.1:", None, "no port"),
        ("-", None, "expected HOST:PORT"),
    ],
)
def test_any_other_address_is_refused_with_what_to_do(
    text: str | None, token: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        parse_address(text, token)


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        (None, [HOST], None),
        (None, [(b"host", b"LOCALHOST:4318")], None),
        (None, [], 403),
        (None, [HOST, HOST], 403),
        (None, [(b"host", b"127.0.0.1:4319")], 403),
        (None, [HOST, (b"origin", b"http://127.0.0.1:4318")], 403),
        (SECRET, [HOST, RIGHT], None),
        (SECRET, [(b"host", b"collector.internal"), RIGHT], None),
        (SECRET, [RIGHT, (b"origin", b"http://a")], 403),
        (SECRET, [HOST], 401),
        (SECRET, [HOST, RIGHT, RIGHT], 401),
        (SECRET, [(b"authorization", b"Bearer " + b"s" * 31)], 401),
        (SECRET, [(b"authorization", SECRET.encode())], 401),
        (SECRET, [(b"authorization", "Bearer ü".encode("latin-1"))], 401),
    ],
)
def test_a_request_needs_this_machines_host_or_the_secret(
    token: str | None, headers: list[tuple[bytes, bytes]], status: int | None
) -> None:
    found = find_refusal(headers, accepted_hosts("127.0.0.1", 4318), token)
    assert (None if found is None else found.status) == status


def test_answers_say_in_either_encoding_what_was_refused() -> None:
    messages: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    response = messages.ExportTraceServiceResponse
    said = response.FromString(
        answer_kept("application/x-protobuf", refused=300, reason="why").body
    )
    assert (said.partial_success.rejected_spans, said.partial_success.error_message) == (300, "why")
    assert not response.FromString(
        answer_kept("application/x-protobuf", refused=0, reason="").body
    ).HasField("partial_success")
    assert answer_kept("application/json", refused=0, reason="").body == b"{}"
    assert json.loads(bytes(answer_kept("application/json", refused=2, reason="why").body)) == {
        "partialSuccess": {"rejectedSpans": "2", "errorMessage": "why"}
    }


def test_a_refusal_says_when_to_try_again_and_ends_the_connection() -> None:
    answer = answer_refused(ReceiverRefusal(503, "full", 7), "application/json")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert answer.headers["connection"] == "close"
    assert json.loads(bytes(answer.body)) == {"code": 14, "message": "full"}
    binary = answer_refused(ReceiverRefusal(400, "no"), "application/x-protobuf")
    assert bytes(binary.body) == b"\x08\x03\x12\x02no"
    assert "retry-after" not in binary.headers


def coming(*parts: bytes) -> IncomingBody:
    messages: list[Message] = [
        {"type": "http.request", "body": part, "more_body": at < len(parts) - 1}
        for at, part in enumerate(parts)
    ]

    async def receive() -> Message:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    return IncomingBody(receive)


def test_bodies_share_their_room_and_give_it_back() -> None:
    async def scene() -> None:
        room = BodyMemory(10)
        first, second = (BodyReader(room, gzip=False) for _ in range(2))
        assert await first.read(coming(b"12345", b"6"), 1) == b"123456"
        found = await second.read(coming(b"1234", b"5"), 1)
        assert isinstance(found, ReceiverRefusal)
        assert (found.status, found.retry_seconds) == (503, 1)
        first.close()
        second.close()
        assert await BodyReader(room, gzip=False).read(coming(b"1" * 10), 1) == b"1" * 10

    asyncio.run(scene())


def test_a_body_is_as_long_as_allowed_and_no_longer() -> None:
    async def scene() -> None:
        near = BodyReader(BodyMemory(), gzip=False, most=6)
        assert await near.read(coming(b"12345", b"6"), 1) == b"123456"
        found = await BodyReader(BodyMemory(), gzip=False, most=5).read(coming(b"12345", b"6"), 1)
        assert isinstance(found, ReceiverRefusal)
        assert found.status == 413

    asyncio.run(scene())


def test_a_sender_that_goes_away_leaves_nothing() -> None:
    async def scene() -> None:
        gone = coming(b"1", b"2")
        gone_at = gone.pieces()
        await anext(gone_at)
        reading = BodyReader(BodyMemory(), gzip=False)
        assert await reading.read(gone, 1) == b"2"
        found = await reading.read(coming(), 1)
        assert isinstance(found, ReceiverRefusal)
        assert "went away" in found.said

    asyncio.run(scene())
