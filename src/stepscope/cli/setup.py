"""`stepscope init`, `demo` and `doctor`: the first commands, without key and network."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from stepscope import api, safety
from stepscope.cli import judge as judging
from stepscope.cli import options, terminal
from stepscope.cli.judge import Budget, Judges
from stepscope.errors import ConfigError, EnvironmentFault, UsageError
from stepscope.safety.text import visible, visible_line

if TYPE_CHECKING:
    from stepscope.api.gating import GateDraft


def find_bundled(*names: str) -> Path:
    """Return the path of a bundled file or folder, as `bundled("airline", "runs.json")`."""
    package = Path(str(resources.files("stepscope")))
    for root in (package / "examples", package.parents[1] / "examples"):
        path = root.joinpath(*names)
        if path.exists():
            return path
    raise EnvironmentFault(
        f"the bundled {'/'.join(names)} is missing beside {package}; install stepscope again"
    )


# The bundled runs, and the agent where the trace does not name it.
DEMO_RUNS = (
    (("airline", "runs.json"), "gpt-4o"),
    (("atif", "openhands_hello-world.trajectory.json"), None),
    (("claude_code", "sample_session.jsonl"), None),
)
# The others are one run each: too few for a figure, enough to be shown.
DEMO_FILTER = "workflow = 'airline'"
DEMO_STORE = Path(".stepscope") / "demo.db"


def demo(
    *,
    judge: Judges = None,
    budget: Budget = None,
    copy_examples: bool = Option(
        False, "--copy-examples", help="Copy the manual's example files to ./examples."
    ),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Score the bundled real runs; this needs no key and no network.

    With --judge, models also judge the five axes of these runs (the rows of the failure profile);
    this needs their keys and costs money. With --copy-examples, the command copies the example
    files and scores nothing.

    Example: stepscope demo
    """
    from stepscope.report.words import describe_suspect, shorten
    from stepscope.settings import Settings, load_settings

    if copy_examples:
        return _copy_examples(as_json=as_json)
    # The defaults, and how judges are reached: all else shows the same everywhere.
    settings = Settings(judges=load_settings().judges, offline=offline)
    place = _demo_store() if store is None else store
    code, problem = 0, None
    with api.open(place, settings=settings) as notebook:
        files = []
        for path, agent in DEMO_RUNS:
            with terminal.show_progress("reading runs") as step:
                added = notebook.add(find_bundled(*path), agent=agent, progress=step)
            files += [(account, "/".join(path)) for account in added.files]
        with terminal.show_progress("scoring runs") as step:
            scored = notebook.score(progress=step)
        if judge:
            try:
                done = judging.judge_within_budget(
                    notebook, judge, ["axes"], where=DEMO_FILTER, budget_usd=budget
                )
                terminal.print_note(str(done))
                judging.acknowledge_calls(notebook, [done])
                code = judging.exit_code_of_judging([done])
            except ConfigError as e:
                problem = ConfigError(f"no model was asked: {e}")
        view = notebook.report(where=DEMO_FILTER)
        if as_json:
            terminal.print_text(view.json())
            return _end(code, problem)
        for account, name in files:
            terminal.print_text(account.line().replace(account.uri, f"examples/{name}", 1))
        option = f"--store {shlex.quote(str(place))}"
        located = view.located(option)
        terminal.print_text(f"{scored}\n\n{located.text(terminal.terminal_width())}")
        page = located.html(place.with_suffix(".html"))
        others = notebook.report(where=f"not {DEMO_FILTER}").value.look_first
    for run in others:
        where, said = describe_suspect(run)
        terminal.print_text(f"\nNot counted above, but worth a look: {run.name}, step {where}:")
        terminal.print_text(f"  {shorten(said, terminal.terminal_width() - 2, ends=True)}")
    terminal.print_text(
        f"\nOpen {page} in a browser, or view the same pages with:\n"
        f'  stepscope view {option} --where "{DEMO_FILTER}"\n'
        "\nThese are real runs; in nearly all of them gpt-4o works on airline tasks of tau-bench.\n"
        "Read some of them, then your own runs:\n"
        f"  stepscope show airline/11/2 {option}\n"
        f"  stepscope show airline/9/2 --step 45 {option}\n"
        f"  stepscope show claude_code/test-session-id {option}\n"
        f"  stepscope compare 0 1 --by trial {option}\n"
        "  stepscope report YOUR_TRACES/"
    )
    if shutil.which("stepscope") is None:
        terminal.print_text(
            "\nYour shell does not find the command stepscope yet. To make it available here:\n"
            f"  . {shlex.quote(os.path.relpath(Path(sys.executable).with_name('activate')))}"
        )

    return _end(code, problem)


def _copy_examples(*, as_json: bool) -> int:
    place = Path("examples")
    if place.exists():
        raise UsageError(f"{place} already exists; move it away, or work in another folder")
    shutil.copytree(find_bundled("airline").parent, place)
    terminal.print_result({"path": str(place)} if as_json else f"wrote {place}/", as_json=as_json)
    return 0


def _end(code: int, problem: ConfigError | None) -> int:
    """Return the exit code, or say at the very end what stood in the way of the models."""
    if problem is not None:
        raise problem
    return code


def _demo_store() -> Path:
    try:
        DEMO_STORE.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=DEMO_STORE.parent):
            return DEMO_STORE
    except OSError:
        return Path(tempfile.mkdtemp(prefix="stepscope-")) / DEMO_STORE.name


def doctor(
    files: list[str] | None = Argument(
        None, metavar="[FILE]", help="Trace files: list only what these lack."
    ),
    *,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Check the installation, or list what trace files lack.

    The command looks at Python, settings, store, disk, extras, keys (only their names), sandbox and
    browser.

    Example: stepscope doctor runs.json
    """
    from stepscope.cli import checks

    if files:
        inputs = list(checks.check_files(files))
        if as_json:
            terminal.print_json(inputs)
        else:
            terminal.print_guarded("\n".join(map(str, inputs)) or "no runs in it")
        return 0
    found = checks.run_checks(store)
    if as_json:
        terminal.print_json(found)
    else:
        for check in found:
            advice = f"; {check.advice}" if check.advice else ""
            line = f"{check.state:<5} {check.name:<10} {check.found}{advice}"
            terminal.print_text(safety.scrub_message(line))
    return max((check.exit_code for check in found if check.state == "fail"), default=0)


FILE = Path("stepscope.toml")

_TOOLS = re.compile(r"^\[tools\]\n(?:#.*\n)*", re.MULTILINE)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# Half a character: TOML has no way to write it.
_HALF = re.compile("[\ud800-\udfff]")


def init(
    *,
    yes: bool = Option(
        False, "--yes", help="Do not ask: use the effects that the tools' names suggest."
    ),
    force: bool = Option(False, "--force", help="Overwrite stepscope.toml."),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Write stepscope.toml with your tools and with gates.

    The command asks which tools have side effects. It scores the runs of the store and makes them
    the baseline of the gates. With each gate, the file states the drop that this gate would detect.
    A gate for which there are too few runs is written as a comment.

    Example: stepscope init --store .stepscope/demo.db
    """
    from stepscope.safety.limits import open_output
    from stepscope.settings import find_settings

    if (held := find_settings()) not in (None, FILE.name):
        raise UsageError(f"{held} holds settings, and a second file is refused: change it there")
    if FILE.exists() and not force:
        raise UsageError(f"{FILE} already exists; --force overwrites it")
    effects: dict[str, str] = {}
    if _has_store(store):
        with options.open_existing(store) as notebook:
            effects.update(notebook.tools())
    asking = sys.stdin.isatty() and not yes and not as_json
    text = find_bundled("stepscope.toml").read_text(encoding="utf-8")
    if lines := _tool_lines(effects, asking=asking):
        tools = "\n".join(["[tools]", *lines]) + "\n"
        text = _TOOLS.sub(lambda _: tools, text, count=1)
    if store is not None:
        line = f"store = {_toml_string(str(store))}"
        text = re.sub(r'(?m)^store = "[^"]*"', lambda _: line, text)
    with open_output(FILE, own=FILE.name) as file:
        file.write(text.encode())
    drafts = _draft_gates(store)
    if drafts:
        with open_output(FILE, own=FILE.name) as file:
            file.write("\n".join([text.rstrip("\n"), *map(_gate_section, drafts)]).encode())
    if as_json:
        gates = {one.workflow: {"gates": one.gates, "left_out": one.left_out} for one in drafts}
        terminal.print_json({"path": str(FILE), "tools": effects, "gates": gates})
    else:
        _say(effects, asked=asking)
        for one in drafts:
            named = ", ".join(gate.name for gate in one.gates)
            said = f"  gates   {one.workflow}: {named}; baseline {one.path}"
            none = f"  no gate can decide yet for {one.workflow}; {FILE} says why"
            terminal.print_text(visible_line(said if named else none))
        if drafts:
            terminal.print_hint("stepscope gate --runs NEW_TRACES/", None)


def _tool_lines(effects: dict[str, str], *, asking: bool) -> list[str]:
    """Return the lines of `[tools]`; what was answered is put into `effects`."""
    lines = []
    for tool, effect in effects.items():
        if (shown := safety.scrub_message(tool)) != tool:
            lines.append(f"# {toml_key(shown)}: a secret is in its name, which is not written here")
        elif asking and effect != "read":
            asked = f"Does {visible_line(tool)} change the world?"
            writes = typer.confirm(asked, default=effect == "write", err=True)
            effects[tool] = "write" if writes else "read"
            lines.append(f'{toml_key(tool)} = "{effects[tool]}"')
        elif effect == "write":
            lines.append(f'{toml_key(tool)} = "write"  # inferred from its name')
        elif effect == "unknown":
            doubt = 'unclear from its name: "read" or "write"?'
            lines.append(f'# {toml_key(tool)} = "write"  # {doubt}')
    return lines


def _draft_gates(store: Path | None) -> list[GateDraft]:
    """Score what is not scored, and return gates for these runs, their baselines written."""
    from stepscope.api.gating import draft_gates
    from stepscope.gates.baseline import write_baseline

    if not _has_store(store):
        return []
    with options.open_existing(store) as notebook:
        with terminal.show_progress("scoring runs") as step:
            notebook.score(progress=step)
        drafts = draft_gates(notebook, Path())
    for one in drafts:
        if one.gates and not Path(one.path).exists():
            write_baseline(one.baseline, one.path)
    return drafts


def _gate_section(one: GateDraft) -> str:
    """Return the table of a workflow's gates, what each would catch beside it."""
    from stepscope.api.gating import DRAFT
    from stepscope.values import format_count

    key, of_version = toml_key(one.workflow), f" of {one.version}" if one.version else ""
    runs = format_count(len(one.baseline.runs), "run")
    tasks = format_count(len({run.case for run in one.baseline.runs}), "task")
    # What no gate can use is written down all the same, behind a mark.
    mark = "" if one.gates else "# "
    lines = [
        "",
        f"# What later runs are compared with: {runs} of {tasks}{of_version}.",
        f"{mark}[workflow.{key}]",
        f"{mark}baseline = {_toml_string(one.path)}",
        "",
        f"{mark}[workflow.{key}.gates]",
    ]
    for gate in one.gates:
        lines += [f"# {gate.reason.rpartition('; ')[2]}", f"{gate.name} = {DRAFT[gate.name]}"]
    for gate in one.left_out:
        if gate.cause == "no_verdicts":  # its measure has nothing to look at in these traces
            continue
        lines.append(f"# {gate.name} = {DRAFT[gate.name]}  # not yet: {gate.reason}")
    hidden = (visible_line(safety.scrub_message(line)) for line in lines)
    return "\n".join(hidden) + "\n"


def _has_store(store: Path | None) -> bool:
    from stepscope.settings import load_settings

    return store is not None or Path(load_settings().store).exists()


def _say(effects: dict[str, str], *, asked: bool) -> None:
    terminal.print_text(f"wrote {FILE}")
    source = "" if asked else "  (inferred from names)"
    for effect in ("write", "read", "unknown"):
        named = [safety.scrub_message(tool) for tool in effects if effects[tool] == effect]
        tools = ", ".join(map(visible_line, named))
        if tools:
            terminal.print_text(f"  {effect:<8}{tools}{source}")
    if not effects:
        none = "no runs in the store yet: run stepscope init --force after an import"
        terminal.print_text(f"  {none}")


def toml_key(tool: str) -> str:
    """Return a tool's name as a TOML key; tool names come from traces and may be anything."""
    return tool if _BARE_KEY.fullmatch(tool) else _toml_string(tool)


def _toml_string(text: str) -> str:
    whole = _HALF.sub("\ufffd", json.dumps(text, ensure_ascii=False))
    seen = (c if c.isprintable() and visible(c) == c else f"\\U{ord(c):08X}" for c in whole)
    return "".join(seen)
