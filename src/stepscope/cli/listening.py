"""`stepscope import --listen`: runs come in as they happen, until the user ends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api.reading import Filling
    from stepscope.cli.import_options import OfListening


def receive(
    places: Sequence[str],
    asked: OfListening,
    *,
    store: Path | None,
    filling: Filling,
    as_json: bool,
) -> int:
    """Receive until Ctrl-C, a line for each run; with `as_json` an object a line.

    Raises:
        UsageError: more than one address, or one that is none.
    """
    import msgspec

    from stepscope.receive import policy
    from stepscope.receive.closings import Waits
    from stepscope.receive.events import Event
    from stepscope.receive.listening import Plan, listen
    from stepscope.safety.redact import scrubbed
    from stepscope.safety.text import visible_line
    from stepscope.settings import load

    if len(places) > 1:
        raise UsageError(f"--listen takes one HOST:PORT, got {len(places)}: {' '.join(places)}")
    settings = load()
    token = os.environ.get(policy.TOKEN_VARIABLE) or None
    place = policy.address(places[0] if places else None, token)

    def tell(event: Event) -> None:
        # Lines are read while they come, also through a pipe.
        said = msgspec.json.encode(event).decode() if as_json else visible_line(event.line())
        sys.stdout.write(scrubbed(said) + "\n")
        sys.stdout.flush()

    waits = Waits(
        settings.listen.quiet_seconds if asked.quiet is None else asked.quiet,
        settings.listen.idle_seconds if asked.idle is None else asked.idle,
    )
    path = settings.store if store is None else str(store)
    plan = Plan(place=place, token=token, waits=waits, filling=filling, keep_all=asked.keep_all)
    listen(path, settings, plan, tell)
    return 0
