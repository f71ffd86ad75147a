"""The application: which address gives what. Reads the store, asks `report`, renders; no more.

Every request has passed the door (`door.py`) before it comes here.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from stepscope.errors import EnvironmentFault, StepscopeError, UsageError
from stepscope.report.pages.page import Empty
from stepscope.safety.redact import scrubbed
from stepscope.settings import Settings
from stepscope.web import data, pages
from stepscope.web.door import Door
from stepscope.web.files import static_files
from stepscope.web.policy import Policy, hosts
from stepscope.web.reader import Reader


def new_token() -> str:
    """Return a secret that opens one start of the server: 256 random bits."""
    return secrets.token_urlsafe(32)


def make_app(
    store_path: str | Path,
    *,
    token: str,
    port: int,
    host: str = "127.0.0.1",
    allow_write: bool = False,
    settings: Settings | None = None,
    gates: Sequence[Path] = (),
) -> Door:
    """Return the application for one store, behind its door.

    Args:
        store_path: the store, which must be there.
        token: what opens the printed address, once.
        port: where the server listens: part of the only Host it answers to.
        host: the address it listens at.
        allow_write: whether routes that write may be asked.
        settings: of the store; the defaults when left out.
        gates: files that `stepscope gate --json` wrote, the latest last.
    """
    held = settings or Settings()
    reader = Reader(store_path, held.redaction)

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        # Beside the server, which answers already: a browser takes as long to open.
        warming = asyncio.get_running_loop().run_in_executor(None, pages.warm)
        yield
        await warming
        await reader.close()

    app = Starlette(
        routes=[*pages.ROUTES, *data.ROUTES],
        lifespan=living,
        exception_handlers={
            StepscopeError: _said,
            HTTPException: _http,
            Exception: _bug,
        },
    )
    app.state.reader = reader
    app.state.settings = held
    app.state.files = static_files()
    app.state.gates = tuple(gates)
    policy = Policy(
        hosts=hosts(host, port),
        cookie=f"stepscope-{port}",
        session=secrets.token_urlsafe(32),
        allow_write=allow_write,
    )
    return Door(app, policy, token)


async def _said(request: Request, error: Exception) -> Response:
    # The first page of a new store is no error: it says what to run.
    if request.url.path == "/" and not request.url.query and isinstance(error, UsageError):
        said = Empty(
            said=scrubbed(str(error)), commands=("stepscope import PATHS", "stepscope score")
        )
        return pages.message(request, 200, "Nothing to see yet", said)
    status = 503 if isinstance(error, EnvironmentFault) else 400
    return pages.message(request, status, "This cannot be shown", Empty(said=scrubbed(str(error))))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = Empty(said=error.detail if error.detail != "Not Found" else "no page is here")
    return pages.message(request, error.status_code, "This is not here", said)


async def _bug(request: Request, error: Exception) -> Response:
    # The command line writes it down, as for every bug; the browser is not told what it quotes.
    sys.excepthook(type(error), error, error.__traceback__)
    said = f"a bug in stepscope ({type(error).__name__}), not in your store; see the terminal"
    return PlainTextResponse(f"{said}\n", 500)
