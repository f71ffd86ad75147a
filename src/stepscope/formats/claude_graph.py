"""The graph that `parentUuid` makes of a session: rewound branches, orphans, cycles.

The path from the last message back to the first is what the agent lived through. Lines off that
path were rewound by the user, except two kinds that hang beside it by design: the other lines of a
message on the path, and results of calls on it (parallel calls fan out).
"""

from __future__ import annotations

from stepscope.formats.building import text_at
from stepscope.formats.claude_line import Line
from stepscope.model import Warn


def abandoned(lines: list[Line]) -> set[int]:
    """Return the positions of lines that were rewound."""
    spoken = [at for at, line in enumerate(lines) if line.speaks]
    if not spoken or not any(line.parent for line in lines):
        return set()
    path = _path(lines, spoken[-1])
    messages = {lines[at].message_id for at in path} - {None}
    calls = {text_at(block, "id") for at in path for block in lines[at].blocks}
    calls |= {
        text_at(block, "id")
        for line in lines
        if line.message_id in messages
        for block in line.blocks
    }
    lived = set(path)
    for at in spoken:
        line = lines[at]
        answered = {text_at(block, "tool_use_id") for block in line.blocks} - {None}
        beside = line.message_id in messages or bool(answered and answered <= calls)
        if line.uuid is None or beside or line.is_compaction:
            lived.add(at)
    return {at for at in spoken if at not in lived and not _before_path(lines, at, path)}


def _before_path(lines: list[Line], at: int, path: list[int]) -> bool:
    """Whether a line is older than a path that starts with no parent to be found.

    A compaction or a cut file begins a new root; what came before it was lived through.
    """
    return at < path[-1]


def _path(lines: list[Line], last: int) -> list[int]:
    """Return the positions from the last line back to its root; a cycle ends where it closes."""
    at_uuid = _first_of_uuid(lines)
    path, seen = [last], {last}
    while True:
        at = at_uuid.get(lines[path[-1]].parent or "")
        if at is None or at in seen:
            return path
        path.append(at)
        seen.add(at)


def _first_of_uuid(lines: list[Line]) -> dict[str, int]:
    """Where every uuid stands first: a line logged again is not another line."""
    first: dict[str, int] = {}
    for at, line in enumerate(lines):
        if line.uuid is not None:
            first.setdefault(line.uuid, at)
    return first


def graph_warnings(lines: list[Line], step_of_line: list[int], off_path: set[int]) -> list[Warn]:
    """Return a warning for every rewound line, missing parent and cycle."""
    uuids = {line.uuid for line in lines if line.uuid is not None}
    warnings = []
    for at, line in enumerate(lines):
        step = step_of_line[at]
        if at in off_path:
            warnings.append(Warn("rewound", "the user went back before this step", step))
        if line.speaks and line.parent is not None and line.parent not in uuids:
            reason = f"its parent {line.parent!r} is not in the file"
            warnings.append(Warn("orphan_parent", reason, step))
    warnings += [
        Warn("parent_cycle", "its parents lead back to itself", step_of_line[at])
        for at in _closing(lines)
    ]
    return warnings


def _closing(lines: list[Line]) -> list[int]:
    """Return one line of every cycle, in linear time."""
    at_uuid = _first_of_uuid(lines)
    done: set[int] = set()
    closing = []
    for start in range(len(lines)):
        walked: set[int] = set()
        at: int | None = start
        while at is not None and at not in done and at not in walked:
            walked.add(at)
            at = at_uuid.get(lines[at].parent or "")
        if at is not None and at in walked:
            closing.append(at)
        done |= walked
    return closing
