"""What `doctor` looks at: each thing is ok, worth a warning, or failing, with what to do.

Only this machine is looked at. Of keys nothing but the name of the variable is read out.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import webbrowser
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from stepscope.errors import StepscopeError
from stepscope.formats.reading import read_files
from stepscope.measures.completeness import gaps_of
from stepscope.model import SCORES, Trajectory
from stepscope.model.records import INPUTS, OF_CALLS, Input
from stepscope.report.types import InputCount
from stepscope.report.words import describe_input
from stepscope.settings import Settings, find_keys, find_settings, load_settings

# Below this, an import of a few thousand runs fills the disk.
LOW_SPACE = 1 << 30
# Below this, nothing useful can be stored.
NO_SPACE = 16 << 20


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at: its state, what was found, what to do about it."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""
    exit_code: int = 0


# What makes a recorder record each of `INPUTS`, "" where no place is known. Sources: semantic
# conventions of OpenTelemetry (0.66b2) and its util-genai 0.2b0; OpenInference 0.1.72, `config.py`;
# `telemetry-settings.ts` of ai 6.0; the guides on masking of Langfuse and LangSmith, on tracing of
# the OpenAI Agents SDK; and what our readers read.
_CAPTURE = " (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY, where supported)"
_MASK = " (left as it is by the client's mask function)"
_IN, _OUT = (f" (OPENINFERENCE_HIDE_{way} unset)" for way in ("INPUTS", "OUTPUTS"))
_HIDE_IN, _HIDE_OUT = (f" (LANGSMITH_HIDE_{way} unset)" for way in ("INPUTS", "OUTPUTS"))
_VERCEL_IN, _VERCEL_OUT = (f" (telemetry: record{way} not false)" for way in ("Inputs", "Outputs"))
_SENSITIVE = "RunConfig(trace_include_sensitive_data=True)"
# In spans, by how attributes begin.
_DIALECTS = {
    "langfuse.": (
        *(f"{said}langfuse.observation.input{_MASK}" for said in ("", "a system message in ")),
        "langfuse.observation.tool_definitions",
        *(f"langfuse.observation.{way}put of tools{_MASK}" for way in ("in", "out")),
    ),
    "langsmith.": (
        *(f"{said}the inputs of runs{_HIDE_IN}" for said in ("", "a system message in ")),
        "`tools` in invocation_params of model runs",
        *(f"the inputs of tool runs{_HIDE_IN}", f"the outputs of tool runs{_HIDE_OUT}"),
    ),
    "mlflow.": ("", "", "mlflow.chat.tools", "mlflow.spanInputs", "mlflow.spanOutputs"),
    "ai.": (
        *(f"ai.prompt{_VERCEL_IN}", "", f"ai.prompt.tools{_VERCEL_IN}"),
        *(f"ai.toolCall.args{_VERCEL_IN}", f"ai.toolCall.result{_VERCEL_OUT}"),
    ),
    "openinference.": (
        *(f"{said}llm.input_messages{_IN}" for said in ("", "a system message in ")),
        "llm.tools (OPENINFERENCE_HIDE_LLM_TOOLS and OPENINFERENCE_HIDE_INPUTS unset)",
        *(f"input.value of tool spans{_IN}", f"output.value of tool spans{_OUT}"),
    ),
    "gen_ai.": (
        *(f"gen_ai.input.messages{_CAPTURE}", f"gen_ai.system_instructions{_CAPTURE}"),
        "gen_ai.tool.definitions",
        *(f"gen_ai.tool.call.{what} of execute_tool spans" for what in ("arguments", "result")),
    ),
}
_FORMATS = {
    "anthropic_messages": ("", "`system` of the request", "`tools` of the request", "", ""),
    "atif": ("", "a step whose source is system", "agent.tool_definitions", "", ""),
    "inspect_ai": ("", "a system message", "`tools` of model events", "", ""),
    "openai_agents": (_SENSITIVE, "", "", _SENSITIVE, _SENSITIVE),
    "openai_messages": ("", "a system message", "`tools` of the request", "", ""),
    "openai_responses": ("", "`instructions` of the request", "`tools` of the request", "", ""),
    "openhands": ("", "", "`tools` of the first system event", "", ""),
}


def how_to_record(run: Trajectory, name: Input) -> str:
    """Say what would record an input that a run lacks, in the words of the format it came in."""
    keys, format = {key for span in run.spans for key in span.attributes}, run.source.format
    spoken = [d for begin, d in _DIALECTS.items() if any(key.startswith(begin) for key in keys)]
    told = [*spoken, _FORMATS.get(format, ("",) * len(INPUTS))][0][list(INPUTS).index(name)]
    if told:
        return f"recorded by {told}"
    if name in ("tools", "policy"):
        return f'no place for it is known in {format}; supply it: [workflow.NAME] {name} = "FILE"'
    return f"{format} has a place for it, which the recorder left empty or hid"


class FileInput(InputCount, frozen=True, kw_only=True):
    """Whether one input of the verdicts is in the runs of a file, and what would record it."""

    file: str
    format: str
    advice: str  # "" where nothing is lacking

    def __str__(self) -> str:
        said = f"{self.file}: recorded {describe_input(self)}"
        return said + (f"; {self.advice}" if self.lost else "")


def check_files(paths: Sequence[str]) -> Iterator[FileInput]:
    """Yield, for each file, what its runs have of what verdicts need; nothing is stored.

    Raises:
        TraceError: a file given by name cannot be read, or is no trace of one known format.
        UsageError: a glob that matches nothing, a folder without files.
    """
    for reading in read_files(paths, limits=load_settings().limits):
        asked: Counter[Input] = Counter()
        lost: dict[Input, Counter[str]] = {name: Counter() for name in INPUTS}
        advice: dict[Input, str] = {}
        for run in reading:
            if isinstance(run, Trajectory) and run.source.format != SCORES:
                asked.update(n for n in INPUTS if n not in OF_CALLS or run.agent_exchanges)
                for gap in gaps_of(run):
                    lost[gap.input][gap.state] += 1
                    advice.setdefault(gap.input, how_to_record(run, gap.input))
        of_file = partial(FileInput, file=reading.uri, format=reading.account.format or "")
        for name, n in asked.items():
            yield of_file(input=name, runs=n, lost=dict(lost[name]), advice=advice.get(name, ""))


def run_checks(store: Path | None) -> list[Check]:
    """Return every check, in a fixed order; `store` is the one of the settings when None."""
    settings, of_settings = _settings()
    path = Path(settings.store) if store is None else store
    python = Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    machine = [_store(path), _disk(path), _parquet(), _keys(), _sandbox(), _browser()]
    return [python, _platform(), of_settings, *machine]


def _platform() -> Check:
    system = platform.system()
    found = f"{system} {platform.machine()}"
    if system == "Linux":
        return Check("platform", "ok", f"{found}: what CI tests")
    if system == "Darwin":
        return Check("platform", "ok", f"{found}: untested by CI")
    advice = "on Windows run stepscope inside WSL"
    return Check("platform", "warn", f"{found}: not supported", advice)


def _settings() -> tuple[Settings, Check]:
    try:
        settings = load_settings()
    except StepscopeError as e:
        return Settings(), Check("settings", "fail", str(e), exit_code=e.exit_code)
    if (found := find_settings()) is not None:
        return settings, Check("settings", "ok", found)
    return settings, Check("settings", "ok", "the defaults", "stepscope init writes stepscope.toml")


def _store(path: Path) -> Check:
    from stepscope.ledger.ledger import Ledger, ledger_path
    from stepscope.runtime.database import damage_error
    from stepscope.store import Store

    if str(path) == ":memory:":
        return Check("store", "ok", "kept in memory only")
    if not path.exists():
        parent = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
        if not os.access(parent, os.W_OK):
            found = f"{path}: {parent} cannot be written"
            return Check("store", "fail", found, "choose another place with --store PATH", 2)
        return Check("store", "ok", f"{path}: none yet", "stepscope import PATHS makes it")
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
        return Check("store", "fail", str(e), exit_code=e.exit_code)
    if not os.access(path, os.W_OK):
        advice = "reports work, imports do not; make it writable"
        return Check("store", "warn", f"{found}, read-only", advice)
    return Check("store", "ok", found)


def _disk(path: Path) -> Check:
    folder = next(p for p in path.absolute().parents if p.exists())
    free = shutil.disk_usage(folder).free
    found = f"{free / (1 << 30):,.1f} GiB free at {folder}"
    if free < NO_SPACE:
        return Check("disk", "fail", found, "free some space", exit_code=5)
    if free < LOW_SPACE:
        return Check("disk", "warn", found, "a large import may fill it")
    return Check("disk", "ok", found)


def _parquet() -> Check:
    if find_spec("pyarrow") is not None:
        return Check("parquet", "ok", "pyarrow is installed")
    advice = "for Parquet: pip install 'stepscope[parquet]'"
    return Check("parquet", "warn", "pyarrow is not installed", advice)


def _keys() -> Check:
    try:
        keys = find_keys()
    except StepscopeError as e:
        return Check("keys", "fail", str(e), exit_code=e.exit_code)
    if not keys:
        return Check("keys", "ok", "no key variable is set", "the rules need no key")
    found = ", ".join(f"{name} ({place})" for name, place in keys.items())
    return Check("keys", "ok", f"set: {found}")


def _sandbox() -> Check:
    from stepscope.sandbox.check import check_sandbox
    from stepscope.sandbox.run import find_bubblewrap

    try:
        check_sandbox()
    except StepscopeError as e:
        return Check("sandbox", "warn", str(e), "only judges that run commands need it")
    return Check("sandbox", "ok", f"{find_bubblewrap()} passes every test of the sandbox")


def _browser() -> Check:
    try:
        found = getattr(webbrowser.get(), "name", "found")
    except webbrowser.Error:
        advice = "reports in text, Markdown and JSON need none"
        return Check("browser", "warn", "no browser found", advice)
    return Check("browser", "ok", str(found))
