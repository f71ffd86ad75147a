"""One run of an agent on one task, and the pairing of its calls with their results."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from stepscope.model.case import Case
from stepscope.model.step import Instant, Json, Span, Step, ToolCall, ToolDef, ToolResult, Usage


class Outcome(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Whether the run worked, and who says so."""

    status: Literal["pass", "fail", "unknown"] = "unknown"
    source: Literal["reward", "check", "label", "none"] = "none"
    reward: float | None = None
    reason: str = ""


class Label(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a person said about a run or one step of it."""

    kind: Literal["decisive_step", "failure", "root_cause", "outcome", "note"]
    step: int | None = None
    agent: str | None = None
    category: str | None = None
    reason: str = ""
    annotator: str = "unknown"
    extra: dict[str, Json] | None = None


class StepScore(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A score that somebody gave to a step of a run, as a file says it.

    Attributes:
        step: index of the step.
        value: 0 to 1; None where the step was looked at and not scored.
        judge: who gave it; "" where the file does not say.
        repeat: which scoring of this step by this judge, from 0.
        latency_s: seconds that the step took, where the file says it.
        cost_usd: what the step cost, where the file says it.
        reason: why, and what else the file says of the score.
    """

    step: int
    value: float | None
    judge: str = ""
    repeat: int = 0
    latency_s: float | None = None
    cost_usd: float | None = None
    reason: str = ""


class Warn(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Something odd that was kept as it is: a code for counting, a reason, the step."""

    code: str
    reason: str
    step: int | None = None


class Source(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Where a run was read: the format and its version, the file, the byte offset of the record.

    `run_id` is the recorder's own id of the run; `ordinal` counts records of equal content.
    """

    format: str
    format_version: str | None = None
    uri: str = ""
    offset: int | None = None
    run_id: str | None = None
    ordinal: int = 0


# The source format of a run of which nothing but step scores is known.
SCORES = "step_scores"

_canonical = msgspec.json.Encoder(order="deterministic").encode
# The step and the result of a call that nothing answered.
_NO_ANSWER: tuple[int | None, ToolResult | None] = (None, None)


class Exchange(NamedTuple):
    """One call with its result; `position` counts calls from 0, `key` is name and arguments."""

    position: int
    step: int
    call: ToolCall
    result_step: int | None
    result: ToolResult | None
    key: str

    @property
    def failed(self) -> bool:
        """The result is an error, by whatever belief the result carries."""
        return self.result is not None and self.result.status == "error"


class Trajectory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """One run of an agent on one task.

    `name` is the source's own name for the run ("airline/11/2"); `trial` tells repeated runs of one
    task apart. `case` is what a benchmark file says the run should have done. `cost_usd` is what
    the trace reports; `cost_computed_usd` what a price table gives. A run of which only `scores`
    are known has steps without content and the source format `SCORES`.
    """

    id: str
    name: str
    steps: tuple[Step, ...]
    source: Source
    workflow: str = ""
    task: str | None = None
    trial: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    tools: tuple[ToolDef, ...] | None = None
    spans: tuple[Span, ...] = ()
    outcome: Outcome = Outcome()
    termination: str | None = None
    labels: tuple[Label, ...] = ()
    scores: tuple[StepScore, ...] = ()
    case: Case | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cost_computed_usd: float | None = None
    start: Instant | None = None
    end: Instant | None = None
    parent: str | None = None
    children: tuple[str, ...] = ()
    warnings: tuple[Warn, ...] = ()
    extra: dict[str, Json] | None = None

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Every tool call in order, each with its result where one came.

        A result belongs to the call of the same id; where ids repeat, to the latest such call
        still open; without any id, results are taken in order. Replayed steps are copies of what
        the agent did earlier and make no exchange.
        """
        return tuple(_pair(self.steps))


def call_key(call: ToolCall) -> str:
    """Tool name and canonical arguments: equal for two calls that ask the same thing.

    >>> a = ToolCall("cat", {"x": 1, "y": 2})
    >>> call_key(a) == call_key(ToolCall("cat", {"y": 2, "x": 1}))
    True
    """
    if call.parse_error is not None:
        return f"{call.name}\0{call.raw}"
    return f"{call.name}\0{_canonical(call.arguments).decode()}"


def _pair(steps: tuple[Step, ...]) -> list[Exchange]:
    made: list[tuple[int, ToolCall]] = []
    answers: dict[int, tuple[int | None, ToolResult | None]] = {}
    open_ids: dict[str, list[int]] = {}
    nameless: list[int] = []
    for step in steps:
        calls, results = step.calls, step.results
        if not (calls or results) or step.replayed:
            continue
        for call in calls:
            if call.id is None:
                nameless.append(len(made))
            else:
                open_ids.setdefault(call.id, []).append(len(made))
            made.append((step.index, call))
        for result in results:
            waiting = nameless if result.call_id is None else open_ids.get(result.call_id)
            if waiting:
                at = waiting.pop(0 if result.call_id is None else -1)
                answers[at] = (step.index, result)
    exchanges: list[Exchange] = []
    for at, (step_at, call) in enumerate(made):
        answered_at, answer = answers.get(at, _NO_ANSWER)
        exchanges.append(Exchange(at, step_at, call, answered_at, answer, call_key(call)))
    return exchanges
