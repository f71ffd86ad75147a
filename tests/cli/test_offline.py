from __future__ import annotations

import subprocess
import sys

import pytest

from stepscope.safety.offline import is_loopback

TRY = """
import socket, sys
from stepscope.safety.offline import refuse_network
from stepscope.errors import EnvironmentFault
refuse_network()
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), 1).close()
for attempt in (
    lambda: socket.create_connection(("192.0.2.1", 9), 1),
    lambda: socket.getaddrinfo("example.invalid", 443),
    lambda: socket.gethostbyname("example.invalid"),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9)),
):
    try:
        attempt()
    except EnvironmentFault as e:
        print(e)
"""


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True),
        (b"localhost", True), (None, True), ("::1%lo", True),
        ("128.0.0.1", False), ("10.0.0.1", False), ("0.0.0.0", False), ("localhost.a.org", False),
        ("127.0.0.1.a.org", False), ("", False), (2, False),
    ],
)  # fmt: skip
def test_only_this_machine_is_loopback(host: object, local: bool) -> None:
    assert is_loopback(host) is local


def test_offline_refuses_what_leaves_this_machine_and_lets_loopback_through() -> None:
    done = subprocess.run([sys.executable, "-c", TRY], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split("\n")[:4] == [
        "offline: refused to connect to '192.0.2.1'; leave out --offline",
        "offline: refused to connect to 'example.invalid'; leave out --offline",
        "offline: refused to connect to 'example.invalid'; leave out --offline",
        "offline: refused to connect to '192.0.2.1'; leave out --offline",
    ]
