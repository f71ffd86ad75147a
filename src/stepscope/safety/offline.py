"""`--offline`: refuse every connection that leaves this machine, whoever asks for it.

An audit hook of the interpreter sees each connection and name look-up before it happens, also those
of other packages. It cannot be taken back: the promise holds until the process ends. A subprocess
is not covered, and none of those that this program starts uses the network.
"""

from __future__ import annotations

import ipaddress
import socket
import sys

from stepscope.errors import EnvironmentFault

_CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_LOOKS_UP = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}


def refuse_network() -> None:
    """Make every connection and look-up that is not loopback an `EnvironmentFault` from here on."""
    sys.addaudithook(_refuse)


def is_loopback(host: object) -> bool:
    """Whether a host is this machine."""
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host is None or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def open_listener(host: str, port: int, backlog: int) -> socket.socket:
    """Return a socket that listens; raises OSError where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A port whose last connection is still closing is free for us.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(backlog)
    except OSError:
        listening.close()
        raise
    return listening


def accepted_hosts(host: str, port: int) -> frozenset[str]:
    """Return what a program may put into Host for a server at this address."""
    names = {f"[{host}]" if ":" in host else host}
    if is_loopback(host):
        names.add("localhost")
    with_port = {f"{name}:{port}" for name in names}
    return frozenset(with_port | names if port == 80 else with_port)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event in _CONNECTS:
        address = arguments[1]
        # A path or None is a socket within this machine, or one that is connected already.
        host = address[0] if isinstance(address, tuple) else None
    elif event in _LOOKS_UP:
        host = arguments[0]
    else:
        return
    if not is_loopback(host):
        raise EnvironmentFault(f"offline: refused to connect to {host!r}; leave out --offline")
