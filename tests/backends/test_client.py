from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from itertools import repeat

import pytest

from stepscope.backends.client import BackendAccess, Client, Rejected, RequestLimits, TooLarge
from stepscope.errors import ConfigError, EnvironmentFault
from stepscope.safety.limits import Limits
from tests.backends.scripted import Answer, Asked, Script, served

KEY = "sk-very-secret-key"


def opened(base: str, waits: list[float], **patience: float) -> Client:
    access = BackendAccess(
        base=base,
        host_variable="THE_HOST",
        key_variable="THE_KEY",
        headers={"x-api-key": KEY},
        secrets=(KEY,),
    )
    whole = RequestLimits(**patience)  # type: ignore[arg-type]
    return Client(access, Limits(), patience=whole, sleep=waits.append)


def in_turn(*answers: Answer) -> Script:
    left: Iterator[Answer] = iter(answers)
    return lambda asked: next(left)


OK = Answer({"ok": True})


@pytest.mark.parametrize(
    ("answers", "waited"),
    [
        ((OK,), []),
        ((Answer(status=429, headers={"retry-after": "7"}), OK), [7.0]),
        ((Answer(status=503), Answer(status=502), Answer(status=504), OK), [1.0, 2.0, 4.0]),
        ((Answer(status=429, headers={"retry-after": "soon"}), OK), [1.0]),
    ],
)
def test_a_server_that_puts_off_is_asked_again_when_it_says(
    answers: tuple[Answer, ...], waited: list[float]
) -> None:
    waits: list[float] = []
    with served(in_turn(*answers)) as server, opened(server.base, waits) as client:
        assert client.get("/a").value == {"ok": True}
        assert waits == waited
        assert len(server.ledger) == len(answers)
        assert {asked.headers["x-api-key"] for asked in server.ledger} == {KEY}


def test_a_server_that_asks_for_an_hour_is_left_for_later() -> None:
    waits: list[float] = []
    script = in_turn(Answer(status=429, headers={"retry-after": "3600"}))
    with served(script) as server, opened(server.base, waits) as client:
        with pytest.raises(EnvironmentFault, match=r"asks to wait 3,600 s; run the same command"):
            client.get("/a")
    assert waits == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_and_the_key_stays(status: int) -> None:
    with served(lambda asked: OK) as thief:
        away = {"location": f"{thief.base}/steal"}
        script = in_turn(Answer(status=status, headers=away))
        with served(script) as server, opened(server.base, []) as client:
            with pytest.raises(Rejected, match=r"not followed; set THE_HOST"):
                client.get("/a")
        assert thief.ledger == []


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    [
        (Answer(f"bad key {KEY}".encode(), 401), ConfigError, r"bad key \*\*\*; check THE_KEY"),
        (Answer(b"\x1b[2J" + b"x" * 10**6, 500), Rejected, r"500: .*xxx"),
        (Answer(b"", 404), Rejected, "404: no reason given"),
        (Answer(b"<html>sign in</html>"), Rejected, "answers no JSON .* is THE_HOST its address"),
    ],
)
def test_an_error_is_one_short_line_without_the_key(
    answer: Answer, kind: type[Exception], expected: str
) -> None:
    with served(in_turn(answer)) as server, opened(server.base, []) as client:
        with pytest.raises(kind, match=expected) as raised:
            client.get("/a")
    said = str(raised.value)
    assert KEY not in said
    assert "\x1b" not in said
    assert "\n" not in said
    assert len(said) < 400


def test_a_key_is_in_no_repr() -> None:
    with opened("http://127.0.0.1:9", []) as client:
        assert KEY not in repr(client.access)


@pytest.mark.parametrize("packed", [False, True])
def test_a_reply_is_read_to_the_cap_and_no_further(packed: bool) -> None:
    def script(asked: Asked) -> Answer:
        body = b'"' + b"a" * int(asked.query["n"][0]) + b'"'
        if packed:
            return Answer(gzip.compress(body), headers={"content-encoding": "gzip"})
        return Answer(body)

    with served(script) as server, opened(server.base, [], reply_bytes=10_000) as client:
        assert len(client.get("/a", {"n": 9_998}).value) == 9_998
        with pytest.raises(TooLarge, match=r"GET /a"):
            client.get("/a", {"n": 10_000})


def test_a_reply_without_end_is_left_at_the_cap() -> None:
    with served(lambda asked: Answer(repeat(b"x" * 1000))) as server:
        with opened(server.base, [], reply_bytes=10_000) as client:
            with pytest.raises(TooLarge):
                client.get("/a")


def test_a_sender_of_single_bytes_is_given_up() -> None:
    def slow() -> Iterator[bytes]:
        while True:
            yield b"x"
            time.sleep(0.01)

    with served(lambda asked: Answer(slow())) as server:
        with opened(server.base, [], whole=0.2) as client:
            with pytest.raises(EnvironmentFault, match=r"the reply took over 0\.2 s"):
                client.get("/a")


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with opened(f"http://127.0.0.1:{port}", [], read=0.05, tries_broken=2) as client:
            with pytest.raises(EnvironmentFault, match=r"cannot be reached .*THE_HOST right"):
                client.get("/a")


def test_no_server_is_said_after_few_tries() -> None:
    waits: list[float] = []
    with opened("http://127.0.0.1:9", waits) as client:
        with pytest.raises(EnvironmentFault, match=r"127\.0\.0\.1:9 cannot be reached"):
            client.get("/a")
    assert waits == [1.0, 2.0]


def test_an_odd_number_in_a_reply_is_repaired_and_told() -> None:
    with served(in_turn(Answer(b'{"score": NaN}'))) as server, opened(server.base, []) as client:
        told = client.get("/a")
    assert told.value == {"score": "NaN"}
    assert [repair.code for repair in told.repairs] == ["non_finite"]
