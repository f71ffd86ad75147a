"""`stepscope view`: the store in the browser, on this machine only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from stepscope.cli.options import By, Json, Offline, Since, StorePath, WhereText

# A secret of the user's own, without which nothing is served to other machines.
TOKEN_VARIABLE = "STEPSCOPE_VIEW_TOKEN"


def view(
    *,
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, help="Default: 7357, or a free one."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help=f"Not loopback only with a secret in {TOKEN_VARIABLE}.")
    ] = "127.0.0.1",
    gates: Annotated[
        list[Path] | None,
        typer.Option("--gates", metavar="FILE", help="What gate --json wrote; the latest last."),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
    where: WhereText = None,
    since: Since = None,
    by: By = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Show the store in the browser; nothing is written.

    The printed address opens once: the browser that opens it first keeps the way in.

    Example: stepscope view --store runs.db
    """
    from urllib.parse import urlencode

    from stepscope.cli import terminal
    from stepscope.cli.stores import existing
    from stepscope.report.gate_json import gate_documents
    from stepscope.settings import load
    from stepscope.web.app import make_app, new_token
    from stepscope.web.policy import check_address
    from stepscope.web.serve import address, listen, run

    own = os.environ.get(TOKEN_VARIABLE)
    host = check_address(host, own)
    chosen = {"where": where, "since": since, "by": by}
    settings = load()
    gate_documents(gates or ())
    with existing(store, settings) as notebook:
        path = notebook.store.path
    token = own or new_token()
    listening = listen(host, port)
    url = address(listening)
    app = make_app(
        path,
        token=token,
        host=host,
        port=listening.getsockname()[1],
        settings=settings,
        gates=gates or (),
    )
    query = {"token": token} | {key: value for key, value in chosen.items() if value}
    opened = f"{url}/?{urlencode(query)}"
    # The user's own secret is not printed.
    shown = opened if own is None else opened.replace(urlencode({"token": own}), "token=...")
    if as_json:
        terminal.out_json({"url": shown, "store": path})
    else:
        terminal.out(f"Showing {path} at\n  {shown}\nThe address opens once. Ctrl-C ends.")
    terminal.flush()
    if not no_open:
        _open(opened)
    try:
        run(app, listening)
    except KeyboardInterrupt:
        # How one ends it, and nothing was under way: no error, and no other code than 0.
        terminal.note("")
    return 0


def _open(url: str) -> None:
    """Open the browser beside the server, which answers as soon as it runs."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
