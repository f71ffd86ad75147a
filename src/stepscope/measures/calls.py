"""Calls of the agent: which are its own, which failed and with which error, and what they do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

import msgspec

from stepscope.measures.rule import cached_on_run, cached_with_facts
from stepscope.model import Effect, Exchange, Facts, Json, ToolCall, ToolResult, Trajectory
from stepscope.model.effects import infer_effect, words_of
from stepscope.values import Unmeasured

# Whom a run is handed to when the agent gives up.
PEOPLE = frozenset({"agent", "agents", "human", "humans", "operator", "supervisor", "support"})
ESCALATIONS = frozenset({"escalate", "escalation", "handoff"})
# First words of tools whose success ends a run: after them no answer of the agent is missing.
ENDS = frozenset("complete done end exit final finish stop submit terminate".split())


def no_calls(measure: str) -> Unmeasured:
    """Return the absence of a measure of calls where the agent made none."""
    return Unmeasured("not_applicable", "the agent made no tool calls", measure)


def agent_calls(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Return the calls that the agent made; where users have tools, theirs are left out."""
    return trajectory.agent_exchanges


@cached_on_run
def failed_calls(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Return the calls whose result is an error, whoever made them."""
    return tuple([exchange for exchange in trajectory.exchanges if exchange.failed])


def has_succeeded(exchange: Exchange) -> bool:
    """True if an answer came that is no error; without an answer nobody knows."""
    return exchange.result is not None and exchange.result.status != "error"


def named_arguments(call: ToolCall) -> dict[str, Json] | None:
    """Return a call's arguments by name, also those of JSON within a text; None if unreadable."""
    given = {} if call.arguments is None and call.parse_error is None else call.arguments
    with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        while isinstance(given, str):
            given = msgspec.json.decode(given)
    return given if isinstance(given, dict) else None


def effect_of(tool: str, facts: Facts | None) -> Effect:
    """Return what a tool does to the world: as declared, else as its name suggests."""
    if facts is not None and tool in facts.effects:
        return facts.effects[tool]
    return infer_effect(tool)


@cached_with_facts
def writes_of(trajectory: Trajectory, facts: Facts | None) -> tuple[int, ...]:
    """Return which of the agent's calls (by index among them) change the world."""
    made = agent_calls(trajectory)
    return tuple([at for at, x in enumerate(made) if effect_of(x.call.name, facts) == "write"])


@lru_cache(maxsize=4096)
def escalates_to_person(tool: str) -> bool:
    """True if a tool's name says that a person takes over."""
    words = words_of(tool)
    if not ESCALATIONS.isdisjoint(words) or words[:2] == ("hand", "off"):
        return True
    return words[:1] == ("transfer",) and not PEOPLE.isdisjoint(words)


@lru_cache(maxsize=4096)
def ends_run(tool: str) -> bool:
    """True if a tool's name says that the run is over once it is called."""
    return escalates_to_person(tool) or not ENDS.isdisjoint(words_of(tool)[:1])


# Lines that say how it went and not what went wrong: exit codes, and what wrappers put around them.
_STATUS_LINE = re.compile(
    r"(?i)\W*(?:the )?(?:(?:process|command) )?(?:(?:completed|exited|finished|failed) with )?"
    r"(?:(?:exit|return)[ _]?(?:code|status)|exit(?==)|code)\b[\s:=>]*-?\d+\b.{0,40}|</?output>|"
    r"Code output:|New Terminal Output:"
)
_RAISED = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)\b.{0,400}")
_TRACEBACK = "Traceback (most recent call last)"
# What differs between two tries of the same: durations, addresses, times of day.
_PASSING = re.compile(
    r"(?i)\b\d+(?:\.\d+)? ?(?:s|ms|sec|seconds?)\b|\b0x[0-9a-f]+\b|"
    r"\b\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?\b"
)
# So much of an error is compared: what differs only behind it is the same.
COMPARED_CHARACTERS = 4000


def error_message(result: ToolResult | None) -> str:
    """Return the line of an error that says what went wrong, behind its status lines.

    Of a traceback that is the last line, where Python puts the error itself. Where nothing but a
    status is told, the status.
    """
    text = "" if result is None else (result.error or result.text).strip()
    line = text.split("\n", 1)[0].strip()
    if _TRACEBACK in text:
        raised = [said.strip() for said in text.splitlines() if _RAISED.match(said.strip())]
        return raised[-1] if raised else line
    if "code" not in line.lower() and "output" not in line.lower() and "exit" not in line.lower():
        return line
    return next(_message_lines(text[:COMPARED_CHARACTERS]), line)


def _message_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        said = line.strip().removeprefix("Code output:").strip()
        if said and not _STATUS_LINE.fullmatch(said):
            yield said


def compared_error(exchange: Exchange) -> tuple[str, str]:
    """Return what two errors must have in common to be the same: the tool, and the message.

    An exit code is a status, not a message; durations and addresses differ between two tries.
    """
    result = exchange.result
    text = "" if result is None else (result.error or result.text)
    if _TRACEBACK in text:
        return exchange.call.name, error_message(result)
    lines = _message_lines(text[:COMPARED_CHARACTERS]) if "\n" in text else (text.strip(),)
    return exchange.call.name, _PASSING.sub("", "\n".join(lines))
