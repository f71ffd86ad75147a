"""`stepscope demo`: the bundled real runs, scored and reported; no key, no network."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.judge_options import Budget, Judges
from stepscope.cli.options import Json, Offline, StorePath
from stepscope.errors import ConfigError

if TYPE_CHECKING:
    from stepscope.api import Notebook
    from stepscope.settings import Settings

# The bundled runs, and the agent where the trace does not name it.
RUNS = (
    (("airline", "runs.json"), "gpt-4o"),
    (("atif", "openhands_hello-world.trajectory.json"), None),
    (("claude_code", "sample_session.jsonl"), None),
)
# The others are one run each: too few for a figure, enough to be shown.
SHOWN = "workflow = 'airline'"
PLACE = Path(".stepscope") / "demo.db"


def demo(
    *,
    judge: Judges = None,
    budget: Budget = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Score the real runs that come with it: no key, no network.

    With --judge models judge the five axes of these runs, too; that needs their keys, and spends.

    Example: stepscope demo
    """
    from stepscope import api
    from stepscope.cli import terminal
    from stepscope.cli.bundled import bundled

    place = _place() if store is None else store
    code, problem = 0, None
    with api.open(place, settings=_settings(offline=offline)) as notebook:
        files = []
        for path, agent in RUNS:
            with terminal.progress("reading runs") as step:
                added = notebook.add(bundled(*path), agent=agent, progress=step)
            files += [(account, "/".join(path)) for account in added.files]
        with terminal.progress("scoring runs") as step:
            scored = notebook.score(progress=step)
        if judge:
            try:
                code = _judged(notebook, judge, budget)
            except ConfigError as e:
                problem = ConfigError(f"no model was asked: {e}")
        view = notebook.report(where=SHOWN)
        if as_json:
            terminal.out(view.json())
            return _ended(code, problem)
        for account, name in files:
            terminal.out(account.line().replace(account.uri, f"examples/{name}", 1))
        option = f"--store {shlex.quote(str(place))}"
        located = view.located(option)
        terminal.out(f"{scored}\n\n{located.text(terminal.width())}")
        page = located.html(place.with_suffix(".html"))
    terminal.out(
        f"\nOpen {page} in a browser, or see the same with:\n"
        f'  stepscope view {option} --where "{SHOWN}"\n'
        "\nThese are real runs of gpt-4o on tau-bench airline tasks. Read some, then yours:\n"
        f"  stepscope show airline/11/2 {option}\n"
        f"  stepscope show airline/9/2 --step 45 {option}\n"
        f"  stepscope show claude_code/test-session-id {option}\n"
        f"  stepscope compare 0 1 --by trial {option}\n"
        "  stepscope import YOUR_RUNS/ && stepscope score && stepscope report"
    )
    if shutil.which("stepscope") is None:
        terminal.out(
            "\nThe command stepscope is not on your path yet; put it there for this shell:\n"
            f"  . {shlex.quote(os.path.relpath(Path(sys.executable).with_name('activate')))}"
        )

    return _ended(code, problem)


def _ended(code: int, problem: ConfigError | None) -> int:
    """Return the exit code, or say at the very end what stood in the way of the models."""
    if problem is not None:
        raise problem
    return code


def _settings(*, offline: bool) -> Settings:
    """Return the defaults, and how judges are reached: all else shows the same everywhere."""
    from stepscope.settings import Settings, load

    return Settings(judges=load().judges, offline=offline)


def _judged(notebook: Notebook, judges: list[str], budget: float | None) -> int:
    """Ask models about the bundled runs; return the exit code."""
    from stepscope.cli import terminal
    from stepscope.cli.judge import ask, code_of

    asked = {"where": SHOWN, "since": None, "budget_usd": budget, "budget": ""}
    done = ask(notebook, (judges, ["axes"]), asked)
    terminal.note(str(done))
    return code_of([done])


def _place() -> Path:
    try:
        PLACE.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=PLACE.parent):
            return PLACE
    except OSError:
        return Path(tempfile.mkdtemp(prefix="stepscope-")) / PLACE.name
