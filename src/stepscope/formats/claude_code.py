"""Read Claude Code sessions: `~/.claude/projects/<slug>/<session>.jsonl`, and `stream-json` output.

The file is undocumented and changes often, so whatever is not understood is kept whole in
`extra.lines`. What this reader knows of its traps:
one API message is split over several lines with repeated usage, of which the last counts;
`parentUuid` makes a graph, and what hangs on no path to the last message was rewound (a warning,
and `abandoned` in the step); sidechains are subagents' runs and come out as children; lines logged
again after a compaction are marked `replayed`; no cost is in the file, only in `stream-json`.
A subagent in a file of its own refers to its parent, and the parent to it, as
`claude_code:<session>` and `claude_code:<session>/<agent>`.
Source: harbor 0.25.0, `agents/installed/claude_code.py`; sessions recorded by users.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals, finish, text_at
from stepscope.formats.claude_line import line_of
from stepscope.formats.claude_session import NAME, Session, draft_of
from stepscope.formats.opening import Opening
from stepscope.formats.plain import Found, PlainFormat, attempt, found, quarantine
from stepscope.model import Json, Quarantined, Stream, Trajectory
from stepscope.safety.door import Repair

__all__ = ["FORMAT", "NAME"]


def _likeness(opening: Opening) -> float:
    scores = [_line_likeness(record) for record in opening.records if isinstance(record, dict)]
    return max(scores, default=0.0)


def _line_likeness(record: dict[str, Json]) -> float:
    kind, message = text_at(record, "type"), record.get("message")
    session = isinstance(record.get("sessionId", record.get("session_id")), str)
    if kind in {"user", "assistant"} and isinstance(message, dict) and "role" in message:
        return 1.0 if session else 0.6
    known = {"system", "summary", "file-history-snapshot", "permission-mode", "queue-operation"}
    if kind in known and (session or "leafUuid" in record or "snapshot" in record):
        return 0.7
    return 0.0


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    """Read a file, which may hold the lines of several sessions; each is a run."""
    sessions: dict[str, Session] = {}
    first: dict[str, Found] = {}
    repairs: dict[str, list[Repair]] = {}
    latest: str | None = None
    lost = 0
    for record in found(stream):
        if isinstance(record, Quarantined):
            lost += 1
            _lose(sessions, latest)
            yield record
            continue
        try:
            line = line_of(record.value)
        except (TraceError, msgspec.ValidationError) as e:
            _lose(sessions, latest)
            yield quarantine(record, e)
            continue
        # Lines without a session of their own (summaries) belong to the one around them.
        latest = line.session or latest or ""
        if latest not in sessions:
            sessions[latest] = Session(latest)
            first[latest] = record
        sessions[latest].add(line)
        repairs.setdefault(latest, []).extend(record.repairs)
    yield from _finished(_named(sessions), first, repairs)


def _lose(sessions: dict[str, Session], latest: str | None) -> None:
    if latest is not None and latest in sessions:
        sessions[latest].lose()


def _named(sessions: dict[str, Session]) -> dict[str, Session]:
    """Give lines that stood before the first session's to that session."""
    early = sessions.get("")
    if early is None or len(sessions) == 1:
        return sessions
    following = next(session for name, session in sessions.items() if name)
    following.prepend(early)
    return {name: session for name, session in sessions.items() if name}


def _finished(
    sessions: dict[str, Session], first: dict[str, Found], repairs: dict[str, list[Repair]]
) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    for name, session in sessions.items():
        start = first[name]._replace(repairs=tuple(repairs.get(name, ())))
        yield from attempt(start, partial(_runs, session, ordinals))


def _runs(session: Session, ordinals: Ordinals, at: Found) -> tuple[Trajectory, ...]:
    """Return a session's run, then those of its subagents, linked both ways.

    Raises:
        TraceError: nothing in it is of Claude Code.
    """
    main, *others = session.threads()
    run = _finish(draft_of(session, main, at), at, ordinals)
    at = at._replace(repairs=()) if run is not None else at
    drafts = [draft_of(session, other, at) for other in others]
    if run is not None:
        drafts = [msgspec.structs.replace(draft, parent=run.id) for draft in drafts]
    finished = [_finish(draft, at, ordinals) for draft in drafts]
    children = [child for child in finished if child is not None]
    if run is None and not children and not session.is_quiet:
        raise TraceError("no line of it is a message, and some are no notes beside a session")
    if run is None:
        return tuple(children)
    here = {child.source.run_id for child in children}
    away = [link for link in run.children if link.partition(":")[2] not in here]
    run = msgspec.structs.replace(run, children=(*[child.id for child in children], *away))
    return (run, *children)


def _finish(draft: Trajectory, at: Found, ordinals: Ordinals) -> Trajectory | None:
    """Return the run, None where the session says nothing at all."""
    if not draft.steps:
        return None
    return finish(draft, ordinals, limits=at.limits, repairs=at.repairs)


FORMAT = PlainFormat(NAME, _likeness, _read)
