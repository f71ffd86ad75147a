"""`stepscope init`: write `stepscope.toml` from the sample, asking about tools that may write."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from stepscope.cli.options import Json, Offline, StorePath
from stepscope.errors import UsageError

FILE = Path("stepscope.toml")

_TOOLS = re.compile(r"^\[tools\]\n(?:#.*\n)*", re.MULTILINE)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# What JSON leaves as it is inside a string and TOML refuses there.
_NOT_IN_TOML = re.compile("[\x7f\ud800-\udfff]")


def init(
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask: take what the tools' names suggest.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite stepscope.toml.")] = False,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Write stepscope.toml, asking which tools change the world.

    Example: stepscope init --store .stepscope/demo.db
    """
    from stepscope.cli import terminal
    from stepscope.cli.bundled import bundled

    if FILE.exists() and not force:
        raise UsageError(f"{FILE} is there already; --force overwrites it")
    effects = _effects(store)
    asking = sys.stdin.isatty() and not yes and not as_json
    lines = []
    for tool, effect in effects.items():
        if asking and effect != "read":
            effects[tool] = "write" if _ask(tool, guess=effect == "write") else "read"
            lines.append(f'{key(tool)} = "{effects[tool]}"')
        elif effect == "write":
            lines.append(f'{key(tool)} = "write"  # inferred from its name')
        elif effect == "unknown":
            lines.append(f'# {key(tool)} = "write"  # its name does not tell: "read" or "write"?')
    text = bundled("stepscope.toml").read_text(encoding="utf-8")
    if lines:
        tools = "\n".join(["[tools]", *lines]) + "\n"
        text = _TOOLS.sub(lambda _: tools, text, count=1)
    if store is not None:
        text = re.sub(r'(?m)^store = "[^"]*"', lambda _: f"store = {_quoted(str(store))}", text)
    FILE.write_text(text, encoding="utf-8")
    if as_json:
        terminal.out_json({"path": str(FILE), "tools": effects})
    else:
        _say(effects, asked=asking)


def _effects(store: Path | None) -> dict[str, str]:
    from stepscope.cli.stores import existing
    from stepscope.settings import load

    if store is None and not Path(load().store).exists():
        return {}
    with existing(store) as notebook:
        return dict(notebook.tools())


def _ask(tool: str, *, guess: bool) -> bool:
    from stepscope.safety.text import visible_line

    return typer.confirm(f"Does {visible_line(tool)} change the world?", default=guess, err=True)


def _say(effects: dict[str, str], *, asked: bool) -> None:
    from stepscope.cli import terminal
    from stepscope.safety.text import visible_line

    terminal.out(f"wrote {FILE}")
    source = "" if asked else "  (inferred from names)"
    for effect in ("write", "read", "unknown"):
        tools = ", ".join(visible_line(tool) for tool in effects if effects[tool] == effect)
        if tools:
            terminal.out(f"  {effect:<8}{tools}{source}")
    if not effects:
        terminal.out("  no runs in the store yet: run stepscope init --force after an import")


def key(tool: str) -> str:
    """Return a tool's name as a TOML key; tool names come from traces and may be anything."""
    return tool if _BARE_KEY.fullmatch(tool) else _quoted(tool)


def _quoted(text: str) -> str:
    return _NOT_IN_TOML.sub("\ufffd", json.dumps(text, ensure_ascii=False))
