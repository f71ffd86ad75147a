"""The lines of one Claude Code session, sorted into the main thread and its subagents', as runs."""

from __future__ import annotations

from typing import NamedTuple

from stepscope.formats.claude_graph import abandoned, graph_warnings
from stepscope.formats.claude_line import CONSTANT, Line
from stepscope.formats.claude_steps import replays, steps_of
from stepscope.formats.plain import Found
from stepscope.formats.times import bounds
from stepscope.formats.tokens import anthropic_usage, total
from stepscope.model import Json, Source, Step, Trajectory, Usage, Warn

NAME = "claude_code"
AGENT = "claude-code"
_BESIDE = frozenset({"summary", "file-history-snapshot", "permission-mode", "queue-operation"})


class Thread(NamedTuple):
    """The lines of the main conversation (`agent` None) or of one subagent."""

    agent: str | None
    lines: list[Line]
    lost: list[int]


class Session:
    """Collects the lines of one session in file order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lines: list[Line] = []
        self._lost: list[int] = []

    def add(self, line: Line) -> None:
        """Take the next line."""
        self._lines.append(line)

    @property
    def is_quiet(self) -> bool:
        """Whether its lines are all of the kinds that are written beside a conversation."""
        return all(line.type in _BESIDE for line in self._lines)

    def lose(self) -> None:
        """Note that a line here could not be read."""
        self._lost.append(len(self._lines))

    def prepend(self, other: Session) -> None:
        """Put the lines of another session before these."""
        shift = len(other._lines)
        self._lines = other._lines + self._lines
        self._lost = other._lost + [at + shift for at in self._lost]

    def threads(self) -> list[Thread]:
        """Return the main thread, then every subagent's in order of first line.

        Lines without an agent id belong to the subagent whose line they follow from.
        """
        lost = [sum(not line.side for line in self._lines[:at]) for at in self._lost]
        main = Thread(None, [], lost)
        others: dict[str, Thread] = {}
        of_line: dict[str, str] = {}
        for line in self._lines:
            if not line.side:
                main.lines.append(line)
                continue
            agent = (
                line.agentId
                or line.parent_tool_use_id
                or of_line.get(line.parent or "")
                or line.uuid
                or "side"
            )
            if line.uuid is not None:
                of_line[line.uuid] = agent
            others.setdefault(agent, Thread(agent, [], [])).lines.append(line)
        return [main, *others.values()]


def draft_of(session: Session, thread: Thread, at: Found) -> Trajectory:
    """Return one thread as a run without its id."""
    off_path = abandoned(thread.lines) - replays(thread.lines)
    told = steps_of(thread.lines, _constants(thread.lines), off_path, at.limits)
    start, end = bounds(told.steps)
    run_id = session.name or None
    if thread.agent is not None:
        run_id = f"{session.name}/{thread.agent}"
    result = _result_line(thread.lines)
    versions = [line.raw["version"] for line in thread.lines if _is_text(line, "version")]
    return Trajectory(
        id="",
        name="" if run_id is None else f"{NAME}/{run_id}",
        steps=told.steps,
        source=Source(
            format=NAME,
            format_version=versions[-1] if versions else None,
            uri=at.uri,
            offset=at.offset,
            run_id=run_id,
        ),
        workflow=NAME,
        agent=AGENT,
        agent_version=versions[-1] if versions else None,
        termination=result.get("subtype") if isinstance(result.get("subtype"), str) else None,
        usage=_usage(result, told.steps),
        cost_usd=_cost(result),
        start=start,
        end=end,
        parent=None if thread.agent is None else f"{NAME}:{session.name}",
        children=_subagents(session, thread),
        warnings=(
            *graph_warnings(thread.lines, told.step_of_line, off_path),
            *_lost(thread, told.step_of_line),
        ),
        extra=_extra(thread.lines, told.step_of_line),
    )


def _is_text(line: Line, key: str) -> bool:
    return isinstance(line.raw.get(key), str)


def _constants(lines: list[Line]) -> dict[str, Json]:
    """Return the first value of every key that hardly changes."""
    found: dict[str, Json] = {}
    for line in lines:
        # In the order of the line: that of a set is another one in every process.
        for key in [key for key in line.raw if key in CONSTANT]:
            found.setdefault(key, line.raw[key])
    return found


def _result_line(lines: list[Line]) -> dict[str, Json]:
    """Return the closing line that `--output-format stream-json` writes, empty without one."""
    return next((line.raw for line in reversed(lines) if line.type == "result"), {})


def _usage(result: dict[str, Json], steps: tuple[Step, ...]) -> Usage | None:
    return anthropic_usage(result.get("usage")) or total(steps)


def _cost(result: dict[str, Json]) -> float | None:
    cost = result.get("total_cost_usd")
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None


def _subagents(session: Session, thread: Thread) -> tuple[str, ...]:
    """Return links to the subagents that results of this thread name."""
    links: dict[str, None] = {}
    for line in thread.lines:
        told = line.toolUseResult
        if isinstance(told, dict) and isinstance(told.get("agentId"), str):
            links[f"{NAME}:{session.name}/{told['agentId']}"] = None
    return tuple(links)


def _lost(thread: Thread, step_of_line: list[int]) -> list[Warn]:
    reason = "a line that stood here could not be read"
    return [Warn("record_quarantined", reason, _at(step_of_line, lost)) for lost in thread.lost]


def _at(step_of_line: list[int], line: int) -> int:
    return step_of_line[line] if line < len(step_of_line) else (step_of_line or [0])[-1]


def _extra(lines: list[Line], step_of_line: list[int]) -> dict[str, Json] | None:
    """Return what the run's lines say once, and the lines that are no steps, where they stood."""
    extra = _constants(lines)
    raw = [
        {"at": step, "line": line.raw}
        for line, step in zip(lines, step_of_line, strict=True)
        if not line.speaks
    ]
    if raw:
        extra["lines"] = raw
    return extra or None
