"""Read SWE-agent `.traj`: the moves of one run, and the conversation that they were made in.

A move (`trajectory`) gives two steps, what the agent said with its action, and the observation. Its
message in `history` adds the tool call; messages that are of no move are steps where they stand,
demonstrations replayed ones. An action without a tool call is a line for the shell. A submission is
no success: the outcome stays unknown. Tokens and cost are told of the run only, times not at all.
Refuses a figure of another type than a number.
Format: SWE-agent, `sweagent/types.py` and `sweagent/agent/models.py`, and its test files.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat.messages import MessageOptions, chat_step
from stepscope.formats.fields import ModelStats, SweAgentInfo
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, RecordFormat, read_each
from stepscope.formats.opening import Opening
from stepscope.formats.spans.attributes import decode_value
from stepscope.model import Json, Part, Step, ToolCall, ToolResult, Trajectory

NAME = "swe_agent"
# What an action is when it is no call of a tool by name.
SHELL = "bash"
SUBMIT = "submit"

_RUN_KEYS = frozenset({"trajectory", "history"})
_MOVE_KEYS = frozenset({"action", "observation", "response", "thought", "execution_time", "state"})
_HISTORY_KEYS = frozenset("agent message_type is_demo thought action tool_call_ids".split())
_OBSERVATION_KEYS = frozenset({"role", "content", "agent", "tool_call_ids"})


class _Move(msgspec.Struct, gc=False):
    action: str | None = None
    observation: str | None = None
    response: str | None = None
    thought: str | None = None


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[Any] | None = None
    agent: str | None = None
    action: str | None = None
    message_type: str | None = None
    is_demo: bool | None = None
    tool_call_ids: list[str] | None = None


def _likeness(opening: Opening) -> float:
    match opening.first("trajectory"):
        case {"trajectory": [{"action": _, "observation": _}, *_]} if opening.shape != "lines":
            return 0.95
        case {"trajectory": [], "history": _, "info": _} if opening.shape != "lines":
            return 0.9
    return 0.0


def _runs(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record = found.value
    if type(record) is not dict or type(record.get("trajectory")) is not list:
        raise TraceError(f"a SWE-agent run has a `trajectory` list; found {str(record)[:60]!r}")
    history = record.get("history")
    if history is not None and type(history) is not list:
        raise TraceError(f"`history` is {str(history)[:60]!r}; expected a list or null")
    info = record.get("info")
    typed = SweAgentInfo() if info is None else msgspec.convert(info, SweAgentInfo)
    # The settings of a run are an object, or the text of one.
    settings = decode_value(record.get("replay_config"), found.limits)
    task = fields.text_at(fields.object_at(settings, "problem_statement"), "id")
    model = fields.text_at(fields.object_at(fields.object_at(settings, "agent"), "model"), "name")
    stats = typed.model_stats or ModelStats()
    told = fields.rest(info or {}, frozenset({"exit_status", "swe_agent_version"}))
    more = fields.rest(record, _RUN_KEYS | {"info"})
    draft = Trajectory(
        id="",
        name=task or "",
        steps=_Conversation(record, found, model).steps(),
        source=found.source(NAME),
        workflow=NAME,
        task=task,
        agent="SWE-agent",
        agent_version=typed.swe_agent_version,
        termination=typed.exit_status,
        usage=stats.usage,
        cost_usd=stats.cost_usd,
        extra=fields.merge_extra(None if told is None else {"info": told}, more),
    )
    return (found.finish(draft, ordinals),)


class _Conversation:
    """Lays the moves along the history, so that each message and each move is told once."""

    def __init__(self, record: dict[str, Json], found: DecodedRecord, model: str | None) -> None:
        self.moves = record["trajectory"]
        self.history = record.get("history") or []
        self.typed = [msgspec.convert(message, _Message) for message in self.history]
        self.reading = MessageOptions(fields.infer_text_status, found.limits)
        self.model = model
        self.at = 0
        self.made: list[Step] = []

    def steps(self) -> tuple[Step, ...]:
        for place, entry in enumerate(self.moves):
            move = msgspec.convert(entry, _Move)
            asked = self._find_answer(self.at, move)
            if asked == len(self.history):
                # The messages before the first answer come before the first move.
                self._tell(self.at if place else self._find_answer(self.at, None))
                self._move(entry, move, None, None)
                continue
            self._tell(asked)
            self.at = asked + 1
            told = None
            if self.at < len(self.typed):
                after = self.typed[self.at]
                shown = after.role in {"user", "tool"} and not after.is_demo
                told = self.at if shown and after.message_type in {None, "observation"} else None
            self.at += told is not None
            self._move(entry, move, asked, told)
        self._tell(len(self.history))
        return tuple(self.made)

    def _find_answer(self, start: int, move: _Move | None) -> int:
        """Return where the agent next speaks, of a move if given; where it does not, the end."""
        for at in range(start, len(self.typed)):
            message = self.typed[at]
            if message.role != "assistant" or message.is_demo:
                continue
            if move is None or (message.action == move.action and move.action is not None):
                return at
            if message.action is None or move.action is None:
                if move.response and message.content == move.response:
                    return at
        return len(self.typed)

    def _tell(self, end: int) -> None:
        for at in range(self.at, end):
            message, typed = self.history[at], self.typed[at]
            plain = {key: value for key, value in message.items() if key not in _HISTORY_KEYS}
            if typed.tool_call_ids and typed.role == "tool":
                plain["tool_call_id"] = typed.tool_call_ids[0]
            step = chat_step(plain, len(self.made), self.reading)
            hidden = {k: message[k] for k in _HISTORY_KEYS - {"agent", "is_demo"} if message.get(k)}
            step = msgspec.structs.replace(
                step,
                agent=typed.agent,
                replayed=bool(typed.is_demo),
                extra=fields.merge_extra(step.extra, dict(sorted(hidden.items()))),
            )
            self.made.append(step)
        self.at = max(self.at, end)

    def _move(
        self, entry: dict[str, Json], move: _Move, asked: int | None, told: int | None
    ) -> None:
        message = {} if asked is None else self.history[asked]
        agent = None if asked is None else self.typed[asked].agent
        said = move.response or message.get("content")
        spoken = {"role": "assistant", "content": said, "tool_calls": message.get("tool_calls")}
        step = chat_step(spoken, len(self.made), self.reading)
        extra = fields.rest(entry, _MOVE_KEYS) or {}
        if entry.get("thought") and entry["thought"] != said:
            extra["thought"] = entry["thought"]
        for key, value in message.items():
            held = said if key == "content" else entry.get(key)
            if key not in {"role", "agent", "tool_calls"} and value is not None and value != held:
                extra[f"history.{key}" if key in entry or key in extra else key] = value
        calls = step.calls
        if calls and move.action:
            extra["action"] = move.action
        elif move.action and move.action.strip():
            # An action that is no call by name: SWE-agent's own end of a run, or the shell's.
            name = SUBMIT if move.action.split(maxsplit=1)[0] == SUBMIT else SHELL
            calls = (ToolCall(name, {"command": move.action}),)
        after = {k: entry[k] for k in ("execution_time", "state") if entry.get(k) is not None}
        answered = bool(calls or move.observation or told is not None)
        step = msgspec.structs.replace(
            step,
            kind="call" if calls else "message",
            calls=calls,
            agent=agent,
            model=self.model,
            extra=(extra if answered else {**extra, **after}) or None,
        )
        self.made.append(step)
        if answered:
            shown = {} if told is None else self.history[told]
            # Where the model was shown more than what came back, the whole stands beside it.
            text = move.observation or ""
            extra = {**after, **(fields.rest(shown, _OBSERVATION_KEYS) or {})}
            whole = shown.get("content")
            if whole and whole != text:
                extra["shown"] = whole
            parts = (Part("text", text),) if text else ()
            step = Step(index=len(self.made), actor="environment", parts=parts, extra=extra or None)
            if calls:
                first = calls[0]
                judged = fields.infer_text_status(text)
                result = ToolResult(first.id, first.name, parts, None, *judged)
                step = msgspec.structs.replace(step, kind="result", parts=(), results=(result,))
            self.made.append(step)


FORMAT = RecordFormat(NAME, _likeness, read_each(_runs))
