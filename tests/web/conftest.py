"""A scored store of the bundled runs, and real servers of it on loopback, each with a client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser

from stepscope.settings import Settings
from stepscope.web.app import make_web_app
from stepscope.web.serve import make_server, open_socket, socket_url
from tests.scored import made as made
from tests.scored import store as store
from tests.web import looking
from tests.web.validator import check

TOKEN = "the token of this test"

# A name that the browser of the tests finds at this machine, as after DNS rebinding.
REBOUND = "rebound.example"

Client = Callable[[Path], httpx2.Client]


@contextmanager
def serving(store: Path) -> Iterator[str]:
    """Serve a store on loopback as `stepscope view` does; give the origin."""
    listening = open_socket("127.0.0.1", 0)
    app = make_web_app(store, token=TOKEN, port=listening.getsockname()[1], settings=Settings())
    running = make_server(app)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield socket_url(listening)
    finally:
        running.should_exit = True
        thread.join()
        listening.close()


def client(origin: str) -> httpx2.Client:
    """Return a client of a server; every answer that it gets is validated."""
    return httpx2.Client(base_url=origin, event_hooks={"response": [check]}, timeout=60)


def opened(made: httpx2.Client) -> httpx2.Client:
    """Return a client after it has opened the printed address."""
    assert made.get("/", params={"token": TOKEN}).status_code == 303
    return made


@pytest.fixture
def stranger() -> Iterator[Client]:
    """Makes clients of a server of their own, without its cookie."""
    with ExitStack() as until_done:

        def made(store: Path) -> httpx2.Client:
            origin = until_done.enter_context(serving(store))
            return until_done.enter_context(client(origin))

        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium, headless, driven by Playwright.

    Not for the whole session: while it runs, no test of another module could run a loop.
    """
    if not looking.chromium_path():
        pytest.skip("chromium is not on the PATH")
    with looking.chromium(f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1") as found:
        yield found


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> looking.Made:
    """The store of the documentation's pictures: two agents, scored and gated."""
    return looking.make(tmp_path_factory.mktemp("shown"))


@pytest.fixture(scope="session")
def origin(made: Path) -> Iterator[str]:
    """A server of the scored store that no test opens anew."""
    with serving(made) as found:
        yield found


@pytest.fixture(scope="session")
def inside(origin: str) -> Iterator[httpx2.Client]:
    """A client of that server which has opened the printed address."""
    with client(origin) as made:
        yield opened(made)


@pytest.fixture
def outside(origin: str) -> Iterator[httpx2.Client]:
    """A client of that server without its cookie."""
    with client(origin) as made:
        yield made
