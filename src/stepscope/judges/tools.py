"""What a judge may look up before it answers: tools that read and change nothing.

A tool is a function of a run, of what it is measured against, or of what the run left behind. What
a judge asks for is checked like everything that a model wrote: it has read the trace. What a tool
finds is text of others: without secrets, in the normal form, cut visibly at a bound. Tools that run
programs are `tools_files`, and off, with the reason, where there is no sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

import msgspec

from stepscope.judges.normal import folded, normal
from stepscope.judges.rendering import Block, Narration, copy_of, read_of
from stepscope.model import Case, Trajectory
from stepscope.safety.redact import Redactor

# Of what one look gives back; a step of a usual run is shorter.
RESULT_BYTES = 8_192
# Of what a judge may ask for in words: what is longer is pasted, not searched.
TEXT_CHARACTERS = 500
# Steps of one list, and hits of one search.
_LISTED = 200
_HITS = 20
# Characters of a step in a list, and on each side of a hit.
_GLIMPSE = 90


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge asks of a tool; each tool reads what it needs and ignores the rest.

    Attributes:
        action: the tool's name.
        step: index of a step.
        start: where to begin: a character of a step, a line of a file, a step of a list.
        text: what to search for, a query, or the name of a tool of the environment.
        path: of a file or folder, within the workspace.
        command: a program and its arguments, or the arguments of a tool as JSON.
    """

    action: str
    step: int | None = None
    start: int | None = None
    text: str = ""
    path: str = ""
    command: tuple[str, ...] = ()


class Refused(Exception):
    """A call that makes no sense; the message is told to the judge."""


class Tool(NamedTuple):
    """One tool: its name, how it is called (one line, told to the judge), and what it does."""

    name: str
    manual: str
    use: Callable[[Call], str]


class Look(NamedTuple):
    """What a call gave.

    Attributes:
        held: False where the call was refused; the text then says why.
        text: fit to be fenced: without secrets, in the normal form, at most the bound.
        left_out: characters beyond the bound.
    """

    held: bool
    text: str
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """The tools of one run.

    Attributes:
        tools: by name, in the order in which a judge is told of them.
        off: why tools that there could be are not here, by name.
        redactor: takes secrets out of what is found.
        state: hash of all that the tools can see beside the run: another state is another prompt.
        result_bytes: the bound of one look.
    """

    tools: Mapping[str, Tool]
    off: Mapping[str, str] = field(default_factory=dict)
    redactor: Redactor
    state: str = ""
    result_bytes: int = RESULT_BYTES
    _known: dict[Call, Look] = field(default_factory=dict, init=False, repr=False)

    def look(self, call: Call) -> Look:
        """Return what a call gives; the same call gives the same as long as this toolbox lives."""
        if call not in self._known:
            self._known[call] = self._look(call)
        return self._known[call]

    def _look(self, call: Call) -> Look:
        tool = self.tools.get(call.action)
        if tool is None:
            return Look(False, f"there is no such tool; there are: {', '.join(self.tools)}")
        try:
            found = tool.use(call)
        except Refused as e:
            return Look(False, normal(str(e)))
        text = read_of(found, self.redactor)
        raw = text.encode("utf-8", "replace")
        kept = raw[: self.result_bytes].decode("utf-8", "ignore")
        return Look(True, kept or "(nothing)", len(text) - len(kept))

    def with_more(self, tools: Iterable[Tool], *, off: Mapping[str, str], state: str) -> Toolbox:
        """Return a toolbox that has these tools, too."""
        return Toolbox(
            tools={**self.tools, **{tool.name: tool for tool in tools}},
            off={**self.off, **off},
            redactor=self.redactor,
            state=sha256(f"{self.state} {state}".encode()).hexdigest(),
            result_bytes=self.result_bytes,
        )


def run_tools(
    trajectory: Trajectory,
    case: Case | None = None,
    *,
    redactor: Redactor,
    narration: Narration = "on",
    check: str = "",
) -> Toolbox:
    """Return the tools that read a run and its case; nothing is run for them.

    Args:
        trajectory: the run.
        case: what it is measured against.
        redactor: takes secrets out of what a judge reads.
        narration: whether the agent's own words are read.
        check: what the state check of this run found, where there was one.
    """
    steps = copy_of(trajectory, redactor=redactor, narration=narration).steps
    reader = _Reader(steps)
    tools = [
        Tool("list_steps", "the steps from `start` on, a line each", reader.listed),
        Tool("read_step", "`step` in full, from character `start` on", reader.read),
        Tool("search_trace", "the steps that hold `text`, to the letter", reader.search),
    ]
    if case is not None:
        told = _case(case)
        tools.append(Tool("read_case", "the task and the rules it was under", lambda _: told))
    if check:
        tools.append(Tool("state_check", "what the check of the end state found", lambda _: check))
    seen = f"{narration} {case.hash if case else ''} {check}"
    return Toolbox(
        tools={tool.name: tool for tool in tools},
        redactor=redactor,
        state=sha256(seen.encode()).hexdigest(),
    )


class _Reader:
    """Reads the steps of a run as all judges read them."""

    def __init__(self, steps: tuple[Block, ...]) -> None:
        self.steps = steps
        self.texts = [
            "\n".join(f"{piece.label}: {piece.text}" for piece in step.pieces) for step in steps
        ]

    def listed(self, call: Call) -> str:
        first = 0 if call.start is None else self._index(call.start, "start")
        lines = [
            f"{step.words}: {' '.join(text[:_GLIMPSE].split())}"
            for step, text in zip(self.steps[first:], self.texts[first:], strict=True)
        ]
        more = len(lines) - _LISTED
        return "\n".join(lines[:_LISTED] + ([f"({more} more steps)"] if more > 0 else []))

    def read(self, call: Call) -> str:
        if call.step is None:
            raise Refused("read_step needs `step`")
        at = self._index(call.step, "step")
        start = call.start or 0
        text = self.texts[at]
        if not 0 <= start <= len(text):
            raise Refused(f"`start` is {start}; step {at} has {len(text)} characters")
        return f"{self.steps[at].words}\n{text[start:]}"

    def search(self, call: Call) -> str:
        wanted = searched(call)
        hits: list[str] = []
        found = 0
        for step, text in zip(self.steps, self.texts, strict=True):
            at = text.find(wanted)
            if at < 0 and folded(wanted) not in folded(text):
                continue
            found += 1
            if found <= _HITS:
                around = (
                    text[max(at - _GLIMPSE, 0) : at + len(wanted) + _GLIMPSE] if at >= 0 else ""
                )
                hits.append(f"{step.words}: {' '.join(around.split())}".rstrip(": "))
        more = [f"({found - _HITS} more steps)"] if found > _HITS else []
        return "\n".join(hits + more) or "no step holds that text"

    def _index(self, index: int, name: str) -> int:
        if not 0 <= index < len(self.steps):
            raise Refused(f"`{name}` is {index}; there are steps 0 to {len(self.steps) - 1}")
        return index


def searched(call: Call) -> str:
    """Return the text of a call.

    Raises:
        Refused: there is none, or too much.
    """
    if not call.text.strip():
        raise Refused(f"{call.action} needs `text`")
    if len(call.text) > TEXT_CHARACTERS:
        raise Refused(f"`text` has {len(call.text)} characters; at most {TEXT_CHARACTERS}")
    return call.text


def _case(case: Case) -> str:
    """Return what the agent was told and held to; not what it should have done."""
    rules = [msgspec.json.encode(rule).decode() for rule in case.policy]
    lines = [f"workflow: {case.workflow}", f"task: {case.task}"]
    lines += [f"request: {case.request}"] if case.request else []
    lines += [f"must be told: {text}" for text in case.outputs]
    lines += [f"goal: {goal.name}" for goal in case.subgoals]
    return "\n".join(lines + [f"rule: {rule}" for rule in rules])
