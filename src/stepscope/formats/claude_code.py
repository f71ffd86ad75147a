"""Read Claude Code sessions: `~/.claude/projects/<slug>/<session>.jsonl`, and `stream-json` output.

The file is undocumented and changes often, so whatever is not understood is kept whole in
`extra.lines`. What this reader knows of its traps:
one API message is split over several lines with repeated usage, of which the last counts;
`parentUuid` makes a graph: the path from the last message back to the first is what the agent lived
through, and what hangs off that path was rewound (a warning, and `abandoned` in the step), except
the other lines of a message on the path and results of calls on it; sidechains are subagents' runs
and come out as children; lines logged again after a compaction are marked `replayed`; no cost is in
the file, only in `stream-json`.
A subagent in a file of its own refers to its parent, and the parent to it, as
`claude_code:<session>` and `claude_code:<session>/<agent>`.
Source: harbor 0.25.0, `agents/installed/claude_code.py`; sessions recorded by users.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat.anthropic import blocks_actor, message_extra, parse_blocks
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, FileFormat, attempt, parse_records
from stepscope.formats.opening import Opening
from stepscope.model import Actor, Json, Quarantined, Step, Stream, Trajectory, Warn
from stepscope.safety.json import Repair
from stepscope.safety.limits import Limits

# Kinds of line that may become steps; every other is kept raw.
SPOKEN_TYPES = frozenset({"user", "assistant"})
# The same on nearly every line: said once for the run, and by a step only where it differs.
CONSTANT_KEYS = frozenset({"cwd", "gitBranch", "version", "userType", "slug", "entrypoint"})


class ClaudeLine(msgspec.Struct, gc=False):
    """A line's keys; `raw` is the whole line."""

    raw: dict[str, Any]
    type: str
    uuid: str | None = None
    parentUuid: str | None = None
    logicalParentUuid: str | None = None
    sessionId: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    isSidechain: bool | None = None
    agentId: str | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    parent_tool_use_id: str | None = None
    subtype: str | None = None
    message: dict[str, Any] | None = None
    toolUseResult: Any = None
    content: Any = None

    @property
    def session(self) -> str | None:
        """The session that the line says it is of."""
        return self.sessionId or self.session_id

    @property
    def parent(self) -> str | None:
        """The line before it in the conversation, across a compaction too."""
        return self.parentUuid or self.logicalParentUuid

    @property
    def side(self) -> bool:
        """The line is a subagent's."""
        return bool(self.isSidechain) or self.parent_tool_use_id is not None

    @property
    def is_compaction(self) -> bool:
        """The line stands where the conversation was compacted."""
        boundary = self.type == "system" and self.subtype == "compact_boundary"
        return boundary or bool(self.isCompactSummary)

    @property
    def speaks(self) -> bool:
        """The line becomes a step."""
        if self.is_compaction:
            return True
        return self.type in SPOKEN_TYPES and self.message is not None and not self.isMeta

    @property
    def message_id(self) -> str | None:
        """The id of the API message that the line is a part of."""
        own = (self.message or {}).get("id")
        return own if isinstance(own, str) else None

    @property
    def blocks(self) -> list[dict[str, Json]]:
        """The blocks of the line's message, none where its content is text."""
        listed = fields.entries_at(self.message, "content")
        return [block for block in listed if isinstance(block, dict)]

    def extra(self) -> dict[str, Json]:
        """What the line says that neither a step nor the run has a field for."""
        kept = {"parentUuid": self.parentUuid, "logicalParentUuid": self.logicalParentUuid}
        told = {key: value for key, value in kept.items() if value is not None}
        return told | (fields.rest(self.raw, _LINE_KEYS | CONSTANT_KEYS) or {})


_LINE_KEYS = frozenset(ClaudeLine.__struct_fields__) - {"raw"}


def parse_line(value: Json) -> ClaudeLine:
    """Return a decoded line."""
    line = fields.expect_object(value, "a session's line is an object")
    return msgspec.convert({**line, "raw": line}, ClaudeLine)


def _first_of_uuid(lines: list[ClaudeLine]) -> dict[str, int]:
    """Where every uuid stands first: a line logged again is not another line."""
    return {line.uuid: at for at, line in reversed([*enumerate(lines)]) if line.uuid is not None}


def find_abandoned(lines: list[ClaudeLine]) -> set[int]:
    """Return the positions of lines that were rewound."""
    spoken = [at for at, line in enumerate(lines) if line.speaks]
    if not spoken or not any(line.parent for line in lines):
        return set()
    # From the last line back to its root; a cycle ends where it closes.
    at_uuid, path = _first_of_uuid(lines), [spoken[-1]]
    lived = set(path)
    while (above := at_uuid.get(lines[path[-1]].parent or "")) is not None and above not in lived:
        path.append(above)
        lived.add(above)
    messages = {lines[at].message_id for at in path} - {None}
    lines_of_path = [lines[at] for at in path]
    lines_of_path += [line for line in lines if line.message_id in messages]
    calls = {fields.text_at(block, "id") for line in lines_of_path for block in line.blocks}
    for at in spoken:
        line = lines[at]
        answered = {fields.text_at(block, "tool_use_id") for block in line.blocks} - {None}
        beside = line.message_id in messages or bool(answered and answered <= calls)
        if line.uuid is None or beside or line.is_compaction:
            lived.add(at)
    # A compaction or a cut file begins a new root; what came before it was lived through.
    return {at for at in spoken if at not in lived and at >= path[-1]}


def graph_warnings(lines: list[ClaudeLine], steps: list[int], off_path: set[int]) -> list[Warn]:
    """Return a warning for every rewound line, missing parent and cycle."""
    at_uuid = _first_of_uuid(lines)
    warnings = []
    for at, line in enumerate(lines):
        step = steps[at]
        if at in off_path:
            warnings.append(Warn("rewound", "the user went back before this step", step))
        if line.speaks and line.parent is not None and line.parent not in at_uuid:
            reason = f"its parent {line.parent!r} is not in the file"
            warnings.append(Warn("orphan_parent", reason, step))
    # In linear time: no line is walked through twice.
    done: set[int] = set()
    for start in range(len(lines)):
        walked: set[int] = set()
        above: int | None = start
        while above is not None and above not in done and above not in walked:
            walked.add(above)
            above = at_uuid.get(lines[above].parent or "")
        if above is not None and above in walked:
            reason = "its parents lead back to itself"
            warnings.append(Warn("parent_cycle", reason, steps[above]))
        done |= walked
    return warnings


_ACTORS: dict[str, Actor] = {"system": "system", "assistant": "agent", "user": "user"}


def thread_steps(
    lines: list[ClaudeLine], constants: dict[str, Json], off_path: set[int], limits: Limits
) -> tuple[tuple[Step, ...], list[int]]:
    """Return the steps of a thread, and for each line the step it is in or stands before."""
    again = find_replays(lines)
    # Usage counts of the last line of every API message.
    last: dict[object, int] = {}
    for at, line in enumerate(lines):
        if at not in again and line.message is not None and line.message.get("usage") is not None:
            last[at if line.message_id is None else line.message_id] = at
    last_usage = set(last.values())
    steps: list[Step] = []
    step_of_line: list[int] = []
    open_message: str | None = None
    for at, line in enumerate(lines):
        if not line.speaks:
            step_of_line.append(len(steps))
            continue
        replayed = at in again
        step = _line_step(line, len(steps), constants, limits)
        usage = step.usage if at in last_usage else None
        extra = {**(step.extra or {}), "abandoned": True} if at in off_path else step.extra
        step = msgspec.structs.replace(step, usage=usage, replayed=replayed, extra=extra)
        if steps and open_message is not None and line.message_id == open_message and not replayed:
            steps[-1] = _merge_lines(steps[-1], step)
        else:
            steps.append(step)
        open_message = None if replayed else line.message_id
        step_of_line.append(len(steps) - 1)
    return tuple(steps), step_of_line


def find_replays(lines: list[ClaudeLine]) -> set[int]:
    """Return the positions of lines logged again; two equal texts without any id are two texts."""
    uuids: set[str] = set()
    contents: set[bytes] = set()
    found: set[int] = set()
    for at, line in enumerate(lines):
        if not line.speaks or line.message is None:
            continue
        if line.uuid is not None:
            if line.uuid in uuids:
                found.add(at)
            uuids.add(line.uuid)
        marked = any("id" in block or "tool_use_id" in block for block in line.blocks)
        if line.message_id is not None or marked:
            content = msgspec.json.encode((line.message_id, line.message.get("content")))
            if content in contents:
                found.add(at)
            contents.add(content)
    return found


def _line_step(line: ClaudeLine, index: int, constants: dict[str, Json], limits: Limits) -> Step:
    message = line.message or {}
    blocks = parse_blocks(message.get("content", line.content), index, limits)
    start = fields.parse_time(line.timestamp)
    extra = {**line.extra(), **(message_extra(message) or {})}
    extra |= {k: v for k, v in line.raw.items() if k in CONSTANT_KEYS and v != constants[k]}
    if line.message_id is not None:
        extra["message_id"] = line.message_id
    if line.timestamp is not None and start is None:
        extra["timestamp"] = line.timestamp
    results = blocks.results
    if line.toolUseResult is not None and len(results) == 1:
        # What the tool told Claude Code itself: stdout, stderr, patches.
        results = (msgspec.structs.replace(results[0], structured=line.toolUseResult),)
    elif line.toolUseResult is not None:
        extra["toolUseResult"] = line.toolUseResult
    return Step(
        index=index,
        actor=blocks_actor(_ACTORS.get(line.type, "user"), blocks),
        kind="compaction" if line.is_compaction else fields.step_kind(blocks.calls, results),
        parts=blocks.parts,
        calls=blocks.calls,
        results=results,
        model=fields.text_at(message, "model"),
        usage=fields.anthropic_usage(message.get("usage")),
        start=start,
        finish_reason=fields.text_at(message, "stop_reason"),
        id=line.uuid,
        sidechain=line.side,
        extra=extra or None,
    )


def _merge_lines(step: Step, more: Step) -> Step:
    calls = (*step.calls, *more.calls)
    extra = {**(more.extra or {}), **(step.extra or {})}
    extra["more_lines"] = [*extra.get("more_lines", []), more.id]
    return msgspec.structs.replace(
        step,
        parts=(*step.parts, *more.parts),
        calls=calls,
        results=(*step.results, *more.results),
        kind="call" if calls else step.kind,
        usage=more.usage or step.usage,
        end=more.end or more.start or step.end,
        finish_reason=more.finish_reason or step.finish_reason,
        extra=extra,
    )


NAME = "claude_code"
AGENT = "claude-code"
_NOTE_TYPES = frozenset({"summary", "file-history-snapshot", "permission-mode", "queue-operation"})


class ClaudeSession:
    """Collects the lines of one session in file order; `first` is the record of its first line."""

    def __init__(self, name: str, first: DecodedRecord) -> None:
        self.name = name
        self.first = first
        self.repairs: list[Repair] = []
        self._lines: list[ClaudeLine] = []
        self._lost: list[int] = []

    def add(self, line: ClaudeLine, record: DecodedRecord) -> None:
        """Take the next line."""
        self._lines.append(line)
        self.repairs += record.repairs

    def lose(self) -> None:
        """Note that a line here could not be read."""
        self._lost.append(len(self._lines))

    def prepend(self, other: ClaudeSession) -> None:
        """Put the lines of another session before these."""
        shift = len(other._lines)
        self._lines = other._lines + self._lines
        self.repairs = other.repairs + self.repairs
        self._lost = other._lost + [at + shift for at in self._lost]

    def gaps(self, agent: str | None) -> list[int]:
        """Return where lines of a thread could not be read: all count for the main one."""
        if agent is not None:
            return []
        return [sum(not line.side for line in self._lines[:at]) for at in self._lost]

    def threads(self) -> dict[str | None, list[ClaudeLine]]:
        """Return the lines of the main thread (None), then every subagent's by their first."""
        found: dict[str | None, list[ClaudeLine]] = {None: []}
        of_line: dict[str, str] = {}
        for line in self._lines:
            if not line.side:
                found[None].append(line)
                continue
            agent = line.agentId or line.parent_tool_use_id or of_line.get(line.parent or "")
            agent = agent or line.uuid or "side"
            if line.uuid is not None:
                of_line[line.uuid] = agent
            found.setdefault(agent, []).append(line)
        return found


def draft_thread(
    session: ClaudeSession, agent: str | None, lines: list[ClaudeLine], at: DecodedRecord
) -> Trajectory:
    """Return the lines of one thread as a run without its id."""
    off_path = find_abandoned(lines) - find_replays(lines)
    # The first value of every key that hardly changes.
    constants: dict[str, Json] = {}
    for line in lines:
        # In the order of the line: that of a set is another one in every process.
        for key in [key for key in line.raw if key in CONSTANT_KEYS]:
            constants.setdefault(key, line.raw[key])
    steps, step_of_line = thread_steps(lines, constants, off_path, at.limits)
    start, end = fields.time_bounds(steps)
    run_id = session.name or None if agent is None else f"{session.name}/{agent}"
    # The closing line that `--output-format stream-json` writes.
    result = next((line.raw for line in reversed(lines) if line.type == "result"), {})
    cost = result.get("total_cost_usd")
    versions = (fields.text_at(line.raw, "version") for line in reversed(lines))
    version = next((one for one in versions if one is not None), None)
    told = [line.toolUseResult for line in lines if isinstance(line.toolUseResult, dict)]
    agents = dict.fromkeys([fields.text_at(result, "agentId") for result in told])
    last = (step_of_line or [0])[-1]
    reason = "a line that stood here could not be read"
    lost = [step_of_line[gap] if gap < len(step_of_line) else last for gap in session.gaps(agent)]
    unspoken = [
        {"at": step, "line": line.raw}
        for line, step in zip(lines, step_of_line, strict=True)
        if not line.speaks
    ]
    return Trajectory(
        id="",
        name="" if run_id is None else f"{NAME}/{run_id}",
        steps=steps,
        source=at.source(NAME, run_id, version),
        workflow=NAME,
        agent=AGENT,
        agent_version=version,
        termination=fields.text_at(result, "subtype"),
        usage=fields.anthropic_usage(result.get("usage")) or fields.total_usage(steps),
        cost_usd=float(cost) if type(cost) is int or type(cost) is float else None,
        start=start,
        end=end,
        parent=None if agent is None else f"{NAME}:{session.name}",
        children=tuple([f"{NAME}:{session.name}/{own}" for own in agents if own is not None]),
        warnings=(
            *graph_warnings(lines, step_of_line, off_path),
            *[Warn("record_quarantined", reason, step) for step in lost],
        ),
        extra={**constants, **({"lines": unspoken} if unspoken else {})} or None,
    )


def _likeness(opening: Opening) -> float:
    likeness = 0.0
    for record in opening.records:
        if isinstance(record, dict):
            kind, message = fields.text_at(record, "type"), record.get("message")
            session = isinstance(record.get("sessionId", record.get("session_id")), str)
            if kind in SPOKEN_TYPES and isinstance(message, dict) and "role" in message:
                likeness = max(likeness, 1.0 if session else 0.6)
            elif session or "leafUuid" in record or "snapshot" in record:
                likeness = max(likeness, 0.7 if kind in _NOTE_TYPES or kind == "system" else 0.0)
    return likeness


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    """Read a file, which may hold the lines of several sessions; each is a run."""
    sessions: dict[str, ClaudeSession] = {}
    latest = ""
    for item in parse_records(stream, parse_line):
        if isinstance(item, Quarantined):
            if latest in sessions:
                sessions[latest].lose()
            yield item
            continue
        record, line = item
        # Lines without a session of their own (summaries) belong to the one around them.
        latest = line.session or latest
        sessions.setdefault(latest, ClaudeSession(latest, record)).add(line, record)
    early = sessions.get("")
    if early is not None and len(sessions) > 1:
        # Lines that stood before the first session's belong to it.
        del sessions[""]
        next(iter(sessions.values())).prepend(early)
    ordinals = Ordinals()
    for session in sessions.values():
        start = session.first._replace(repairs=tuple(session.repairs))
        yield from attempt(start, partial(_runs, session, ordinals))


def _runs(session: ClaudeSession, ordinals: Ordinals, at: DecodedRecord) -> tuple[Trajectory, ...]:
    """Return a session's run, then those of its subagents, linked both ways."""
    threads = session.threads()
    draft, *others = [draft_thread(session, agent, told, at) for agent, told in threads.items()]
    run = at.finish(draft, ordinals) if draft.steps else None
    drafts = [other for other in others if other.steps]
    if run is not None:
        at = at._replace(repairs=())
        drafts = [msgspec.structs.replace(draft, parent=run.id) for draft in drafts]
    children = [at.finish(d, ordinals) for d in drafts]
    quiet = all(line.type in _NOTE_TYPES for lines in threads.values() for line in lines)
    if run is None and not children and not quiet:
        raise TraceError("no line of it is a message, and some are no notes beside a session")
    if run is None:
        return tuple(children)
    here = {child.source.run_id for child in children}
    away = [link for link in run.children if link.partition(":")[2] not in here]
    run = msgspec.structs.replace(run, children=(*[child.id for child in children], *away))
    return (run, *children)


FORMAT = FileFormat(NAME, _likeness, _read)
