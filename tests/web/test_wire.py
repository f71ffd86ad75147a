"""What no well-behaved client sends: bytes on a socket, to a real server on loopback."""

from __future__ import annotations

import socket

import httpx2
import pytest

COOKIE = "COOKIE"


def sent(inside: httpx2.Client, request: str) -> tuple[int, str]:
    """Send a request as it stands, with `HOST` and `COOKIE` filled in; return status and head."""
    url = inside.base_url
    cookie = "; ".join(f"{name}={value}" for name, value in inside.cookies.items())
    text = request.replace("HOST", f"{url.host}:{url.port}").replace(COOKIE, cookie)
    with socket.create_connection((url.host, url.port or 80), timeout=60) as connection:
        connection.sendall(text.encode("latin-1"))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head = answer.partition(b"\r\n\r\n")[0].decode("latin-1")
    return int(head.split()[1]), head.lower()


def request(target: str, *headers: str, method: str = "GET", body: str = "") -> str:
    lines = (f"{method} {target} HTTP/1.1", *headers, "Cookie: COOKIE", "Connection: close")
    return "\r\n".join(lines) + "\r\n\r\n" + body


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (request("/api/runs.json", "Host: HOST"), 200),
        (request("/api/runs.json"), 400),
        (request("/api/runs.json", "Host: HOST", "Host: evil.example"), 400),
        (request("/api/runs.json", "Host: evil.example"), 403),
        (request("/api/runs.json", "Host: HOST", "Host : evil.example"), 400),
        (request("http://evil.example/api/runs.json", "Host: HOST"), 400),
        (request("//evil.example/api/runs.json", "Host: HOST"), 400),
        (request("/static/../api/runs.json", "Host: HOST"), 400),
        (request("/static/..%2fapi/runs.json", "Host: HOST"), 400),
        (request("/static/%252e%252e/app.js", "Host: HOST"), 400),
        (request("/static/..\\app.js", "Host: HOST"), 400),
        (request("/api/runs.json%00", "Host: HOST"), 400),
        (request("/api/runs.json", "Host: HOST", "Content-Length: 3", body="abc"), 413),
        (request("/api/runs.json", "Host: HOST", "Transfer-Encoding: chunked", body="0"), 413),
        (request("/api/runs.json", "Host: HOST", "X: " + "y" * 20_000), 431),
        (request("/api/runs.json?where=" + "y" * 9_000, "Host: HOST"), 414),
        (request("*", "Host: HOST", method="OPTIONS"), 400),
        (request("evil.example:443", "Host: HOST", method="CONNECT"), 400),
        (request("/api/events", "Host: HOST", "Upgrade: websocket", "Content-Length: 2"), 413),
    ],
)
def test_what_is_malformed_or_too_long_is_refused(
    inside: httpx2.Client, text: str, status: int
) -> None:
    found, _ = sent(inside, text)
    assert found == status


@pytest.mark.parametrize(
    "headers",
    [
        ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
        ("Upgrade: h2c",),
    ],
)
def test_no_other_protocol_is_spoken(inside: httpx2.Client, headers: tuple[str, ...]) -> None:
    status, head = sent(inside, request("/api/runs.json", "Host: HOST", *headers))
    assert (status, "upgrade:" in head) == (200, False)


def test_nothing_says_who_serves(inside: httpx2.Client) -> None:
    _, head = sent(inside, request("/api/runs.json", "Host: HOST"))
    assert "server:" not in head
    assert "uvicorn" not in head
