"""`stepscope doctor`: is everything here that is needed; never touches the network."""

from __future__ import annotations

from stepscope.cli.options import Json, Offline, StorePath


def doctor(*, store: StorePath = None, offline: Offline = False, as_json: Json = False) -> int:
    """Check what stepscope needs here; say what to do.

    Looks at Python, settings, store, disk, extras, keys (their names only), sandbox and browser.

    Example: stepscope doctor
    """
    from stepscope.cli import checks, terminal

    found = checks.run(store)
    if as_json:
        terminal.out_json(found)
    else:
        for check in found:
            advice = f"; {check.advice}" if check.advice else ""
            terminal.out(f"{check.state:<5} {check.name:<10} {check.found}{advice}")
    return max((check.exit_code for check in found if check.state == "fail"), default=0)
