"""What `doctor` looks at: each thing is ok, worth a warning, or failing, with what to do.

Only this machine is looked at. Of keys nothing but the name of the variable is read out.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from stepscope.errors import StepscopeError
from stepscope.settings import Settings, find_keys, find_settings, load_settings

# Below this, an import of a few thousand runs fills the disk.
LOW_SPACE = 1 << 30
# Below this, nothing useful can be stored.
NO_SPACE = 16 << 20


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at: its state, what was found, what to do about it."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""
    exit_code: int = 0


def run_checks(store: Path | None) -> list[Check]:
    """Return every check, in a fixed order; `store` is the one of the settings when None."""
    settings, of_settings = _settings()
    path = Path(settings.store) if store is None else store
    found = f"{platform.python_version()} at {sys.executable}"
    return [
        Check(name="python", state="ok", found=found),
        _platform(),
        of_settings,
        _store(path),
        _disk(path),
        _parquet(),
        _keys(),
        _sandbox(),
        _browser(),
    ]


def _platform() -> Check:
    system = platform.system()
    found = f"{system} {platform.machine()}"
    if system == "Linux":
        return Check(name="platform", state="ok", found=f"{found}: what CI tests")
    if system == "Darwin":
        return Check(name="platform", state="ok", found=f"{found}: untested by CI")
    advice = "on Windows run stepscope inside WSL"
    return Check(name="platform", state="warn", found=f"{found}: not supported", advice=advice)


def _settings() -> tuple[Settings, Check]:
    try:
        settings = load_settings()
    except StepscopeError as e:
        wrong = Check(name="settings", state="fail", found=str(e), exit_code=e.exit_code)
        return Settings(), wrong
    if (found := find_settings()) is not None:
        return settings, Check(name="settings", state="ok", found=found)
    advice = "stepscope init writes stepscope.toml"
    return settings, Check(name="settings", state="ok", found="the defaults", advice=advice)


def _store(path: Path) -> Check:
    from stepscope.ledger.ledger import Ledger, ledger_path
    from stepscope.runtime.database import damage_error
    from stepscope.store import Store

    if str(path) == ":memory:":
        return Check(name="store", state="ok", found="kept in memory only")
    if not path.exists():
        parent = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
        if not os.access(parent, os.W_OK):
            found = f"{path}: {parent} cannot be written"
            advice = "choose another place with --store PATH"
            return Check(name="store", state="fail", found=found, advice=advice, exit_code=2)
        advice = "stepscope import PATHS makes it"
        return Check(name="store", state="ok", found=f"{path}: none yet", advice=advice)
    try:
        with Store.open(path) as opened:
            # To open it is to check its version, its log mode and that commits are durable.
            if (damage := next(opened.damage(), None)) is not None:
                raise damage_error(str(path), damage)
            found = f"{path}: {len(opened.runs()):,} runs, whole, durable"
        ledger = ledger_path(str(path))
        if Path(ledger).exists():
            with Ledger(ledger) as replies:
                if (damage := next(replies.damage(), None)) is not None:
                    raise damage_error(ledger, damage)
    except StepscopeError as e:
        return Check(name="store", state="fail", found=str(e), exit_code=e.exit_code)
    if not os.access(path, os.W_OK):
        advice = "reports work, imports do not; make it writable"
        return Check(name="store", state="warn", found=f"{found}, read-only", advice=advice)
    return Check(name="store", state="ok", found=found)


def _disk(path: Path) -> Check:
    folder = next(p for p in path.absolute().parents if p.exists())
    free = shutil.disk_usage(folder).free
    found = f"{free / (1 << 30):,.1f} GiB free at {folder}"
    if free < NO_SPACE:
        return Check(name="disk", state="fail", found=found, advice="free some space", exit_code=5)
    if free < LOW_SPACE:
        return Check(name="disk", state="warn", found=found, advice="a large import may fill it")
    return Check(name="disk", state="ok", found=found)


def _parquet() -> Check:
    if find_spec("pyarrow") is not None:
        return Check(name="parquet", state="ok", found="pyarrow is installed")
    advice = "for Parquet: pip install 'stepscope[parquet]'"
    return Check(name="parquet", state="warn", found="pyarrow is not installed", advice=advice)


def _keys() -> Check:
    try:
        keys = find_keys()
    except StepscopeError as e:
        return Check(name="keys", state="fail", found=str(e), exit_code=e.exit_code)
    if not keys:
        advice = "none is needed for what is here"
        return Check(name="keys", state="ok", found="no key variable is set", advice=advice)
    found = ", ".join(f"{name} ({place})" for name, place in keys.items())
    return Check(name="keys", state="ok", found=f"set: {found}")


def _sandbox() -> Check:
    from stepscope.sandbox.check import check_sandbox
    from stepscope.sandbox.run import find_bubblewrap

    try:
        check_sandbox()
    except StepscopeError as e:
        advice = "only judges that run commands need it"
        return Check(name="sandbox", state="warn", found=str(e), advice=advice)
    return Check(name="sandbox", state="ok", found=f"{find_bubblewrap()} holds what it promises")


def _browser() -> Check:
    try:
        found = getattr(webbrowser.get(), "name", "found")
    except webbrowser.Error:
        advice = "reports in text, Markdown and JSON need none"
        return Check(name="browser", state="warn", found="no browser found", advice=advice)
    return Check(name="browser", state="ok", found=str(found))
