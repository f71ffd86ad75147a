"""Read histories of several agents: lists of messages whose speakers have any names.

A message is `{role, content}` with whatever roles the program has, as Magentic-One logs them (what
an agent does stands in brackets behind its name), or `{role, content, name}` of a group chat, where
the role only says who speaks to whom. One run is a file that is a list of them, one message a line,
or a record with the list under `messages`, `history` or `chat_history`; the keys around it mean
what they do around OpenAI's messages. A few names stand for the user, the system or what runs code;
all others are agents. Whether what code gave back is an error is guessed from its text.
Format: AutoGen 0.2, `GroupChat.messages`; Magentic-One.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat import messages as chat
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, convert_record, message_format
from stepscope.formats.opening import Opening
from stepscope.model import Actor, Json, Step, StepKind, Trajectory
from stepscope.safety.limits import Limits

NAME = "chat_history"
_LISTS = ("messages", "history", "chat_history")
# Keys of runs that hold a history and more than that.
_OTHERS = frozenset("trajectory traj info instance_id mistake_step mistake_agent".split())
_SUFFIX = re.compile(r"(.*?)\s*\((.*)\)\Z", re.DOTALL)
_KNOWN_SPEAKERS: dict[str, Actor] = {
    **dict.fromkeys(("user", "human", "user_proxy", "userproxy", "admin", "customer"), "user"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(
        ("tool", "function", "environment", "computer_terminal", "code_executor", "executor"),
        "environment",
    ),
}


def is_history_message(record: Json) -> bool:
    """Say whether a record is one message of such a history."""
    return isinstance(record, dict) and "content" in record and isinstance(record.get("role"), str)


def _likeness(opening: Opening) -> float:
    messages: Sequence[Json] | None = chat.opening_messages(opening, is_history_message)
    wrapped = opening.first_record
    if messages is None and isinstance(wrapped, dict) and not wrapped.keys() & _OTHERS:
        messages = next((x for key in _LISTS if isinstance(x := wrapped.get(key), list)), None)
    # The last message of a cut head may lack its content.
    whole = [one for one in messages or () if is_history_message(one)]
    if not whole or len(whole) < len(messages or ()) - 1:
        return 0.0
    roles = {one["role"] for one in whole}
    if not roles <= chat.ROLES | {"exit", "model"}:
        return 0.7
    names = {fields.text_at(one, "name") for one in whole if one["role"] == "user"}
    named = all(isinstance(one.get("name"), str) for one in whole)
    # A chat with the OpenAI API has one user at most whose every message bears a name.
    return 0.85 if named and len(names) > 1 and roles <= {"user", "assistant"} else 0.0


def history_step(value: Json, index: int, limits: Limits) -> Step:
    """Return one message as the step at `index`."""
    role = value.get("role") if isinstance(value, dict) else None
    if not isinstance(role, str):
        raise chat.shape_error(index, "an object with a `role`", value)
    name = fields.text_at(value, "name")
    parts = chat.content_parts(value.get("content"), index)
    known = {"role", "content", *(("name",) if name is not None else ())}
    extra = fields.rest(value, frozenset(known)) or {}
    match = _SUFFIX.match(role) if name is None else None
    agent, doing = (name or role, None) if match is None else (match[1], match[2])
    if name is not None or doing is not None:
        extra = {"role": role, **extra}
    actor: Actor = _KNOWN_SPEAKERS.get(agent.casefold(), "agent")
    kind: StepKind = "message"
    if actor == "agent" and doing is not None:
        kind = "handoff" if doing.startswith("->") else "plan" if doing == "thought" else "other"
    ran = actor == "environment"
    return Step(
        index=index,
        actor=actor,
        kind=kind,
        parts=parts,
        agent=agent if actor == "agent" or (ran and name is not None) else None,
        error=fields.infer_text_status(fields.parts_text(parts)).error if ran else None,
        extra=extra or None,
    )


def _is_part(record: Json) -> bool:
    return not isinstance(record, list) and not (
        isinstance(record, dict) and any(isinstance(record.get(key), list) for key in _LISTS)
    )


def _read_record(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record = found.value
    around = record if isinstance(record, dict) else {}
    key = next((key for key in _LISTS if isinstance(around.get(key), list)), "")
    if not (listed := around[key] if key else record):
        raise TraceError("a history without a single message")
    steps = tuple([history_step(one, at, found.limits) for at, one in enumerate(listed)])
    return (_finish(steps, found, ordinals, around, key),)


def _finish(
    steps: tuple[Step, ...],
    found: DecodedRecord,
    ordinals: Ordinals,
    around: dict[str, Json] | None = None,
    key: str = "",
) -> Trajectory:
    envelope, unexpected = convert_record(around or {}, chat.MessageEnvelope)
    extra = fields.rest(around or {}, chat.ENVELOPE_KEYS | {key})
    draft = envelope.draft(NAME, steps, found, run_id=envelope.source_id, extra=extra)
    return found.finish(draft, ordinals, unexpected)


FORMAT = message_format(
    NAME, _likeness, is_part=_is_part, step=history_step, whole=_read_record, run=_finish
)
