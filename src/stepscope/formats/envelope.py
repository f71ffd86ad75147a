"""What users write around a list of messages: id, task, trial, agent, reward, tools, tags.

Message lists have no standard wrapping; these keys are read where they are there, and everything
else is kept. `messages` beside them is the run.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.formats.building import rest
from stepscope.model import Json, Outcome, ToolDef

# The tolerance of tau-bench, whose rewards are the ones users copy.
_PASSING = 1 - 1e-6


class Envelope(msgspec.Struct, gc=False):
    """The keys around `messages`, typed; a key of another type refuses the record."""

    id: str | int | None = None
    run_id: str | int | None = None
    task: str | int | None = None
    task_id: str | int | None = None
    trial: str | int | None = None
    workflow: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    model: str | None = None
    reward: float | None = None
    success: bool | None = None
    tags: dict[str, str] = {}
    tools: list[Any] | None = None
    functions: list[Any] | None = None

    @property
    def source_id(self) -> str | None:
        """The recorder's own id of the run."""
        found = self.run_id if self.run_id is not None else self.id
        return None if found is None else str(found)

    @property
    def task_name(self) -> str | None:
        """The task's id, else its name."""
        found = self.task_id if self.task_id is not None else self.task
        return None if found is None else str(found)

    @property
    def trial_name(self) -> str | None:
        """The trial, as text."""
        return None if self.trial is None else str(self.trial)

    @property
    def outcome(self) -> Outcome:
        """Pass or fail by `success`, else by `reward`."""
        if self.success is not None:
            return Outcome("pass" if self.success else "fail", "check", self.reward, "success flag")
        if self.reward is None:
            return Outcome()
        passed = self.reward >= _PASSING
        return Outcome(
            "pass" if passed else "fail", "reward", self.reward, f"reward {self.reward:g}"
        )


KEYS = frozenset(Envelope.__struct_fields__)


def tool_defs(listed: list[Json] | None) -> tuple[ToolDef, ...] | None:
    """Return the tools that a request offered, in OpenAI's, Anthropic's or a bare shape."""
    return None if listed is None else tuple([tool_def(tool) for tool in listed])


def tool_def(tool: Json) -> ToolDef:
    """Return one offered tool; what it says beyond name, description and schema is kept."""
    if not isinstance(tool, dict):
        return ToolDef(str(tool))
    inner = tool.get("function")
    about = inner if isinstance(inner, dict) else tool
    name, told, schema = about.get("name"), about.get("description"), None
    for key in ("parameters", "input_schema"):
        schema = about[key] if isinstance(about.get(key), dict) else schema
    known = frozenset({"name", "description", "parameters", "input_schema", "type"})
    extra = {**(rest(about, known) or {})}
    if about is not tool:
        extra.update(rest(tool, frozenset({"type", "function"})) or {})
    kind = tool.get("type")
    if kind is not None and kind != "function":
        extra["type"] = kind
    return ToolDef(
        name if isinstance(name, str) else str(kind or ""),
        told if isinstance(told, str) else None,
        schema,
        extra=extra or None,
    )
