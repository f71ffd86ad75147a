"""One run of an agent: its steps, tool calls and results, its task (`Case`), and what it cost.

`Trajectory` pairs calls with their results. `Case` is written before the run and says what it is
measured against; `Facts` are what measures learn from a fleet. Costs: calls are the agent's, each
once (a step that repeats an earlier context makes none); tokens are input including cache plus
output; what the trace says of the whole run wins over the sum of its steps, and a reported cost
over a computed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec

Actor = Literal["system", "user", "agent", "environment"]
StepKind = Literal[
    "message", "call", "result", "plan", "handoff", "retrieval", "guardrail", "compaction", "other"
]
PartKind = Literal["text", "reasoning", "refusal", "image", "audio", "file", "data"]
ResultStatus = Literal["ok", "error", "unknown"]
Belief = Literal["explicit", "protocol", "heuristic", "none"]
Effect = Literal["read", "write", "unknown"]

# Anything that JSON can say. `Any` here is the trace's own freedom, not ours.
Json = Any


class Instant(msgspec.Struct, frozen=True, gc=False):
    """A point in time: nanoseconds UTC since 1970, and the text that the trace had."""

    ns: int
    text: str


class Usage(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Tokens, one meaning everywhere.

    `input_total` includes cache reads and writes; `output_total` includes reasoning.
    """

    input_total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output_total: int | None = None
    reasoning: int | None = None
    source: Literal["reported", "estimated"] = "reported"

    @property
    def total(self) -> int | None:
        """Tokens read and written; None where one of them is not known."""
        if self.input_total is None or self.output_total is None:
            return None
        return self.input_total + self.output_total


class Part(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One piece of a step's content.

    Media carry type, size in bytes and sha256; `data` (base64) is moved to the blob folder when the
    run is stored. A `uri` found in a trace is never fetched.
    """

    kind: PartKind
    text: str | None = None
    media_type: str | None = None
    size: int | None = None
    sha256: str | None = None
    data: str | None = None
    uri: str | None = None
    extra: dict[str, Json] | None = None


class ToolCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool call as the agent (or the user) made it.

    `arguments` is the decoded value, or None with `parse_error` when `raw` could not be decoded:
    malformed arguments are data. `raw` is the text, where the format carries arguments as text.
    """

    name: str
    arguments: Json = None
    id: str | None = None
    raw: str | None = None
    parse_error: str | None = None
    requestor: Literal["agent", "user"] = "agent"
    kind: Literal["function", "mcp", "server", "builtin"] = "function"
    extra: dict[str, Json] | None = None


class ToolResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What came back from a tool: ok, error or unknown, and where that belief comes from."""

    call_id: str | None = None
    name: str | None = None
    parts: tuple[Part, ...] = ()
    structured: Json = None
    status: ResultStatus = "unknown"
    source: Belief = "none"
    error: str | None = None
    truncated: bool = False
    extra: dict[str, Json] | None = None

    @property
    def text(self) -> str:
        """The text of the result, its parts joined by line breaks."""
        parts = self.parts
        if len(parts) == 1:
            return parts[0].text or ""
        return "\n".join([p.text for p in parts if p.text is not None])


class Step(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One entry of a run in file order: what a citation points at."""

    index: int
    actor: Actor
    kind: StepKind = "message"
    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    agent: str | None = None
    model: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    start: Instant | None = None
    end: Instant | None = None
    first_token_seconds: float | None = None
    finish_reason: str | None = None
    error: str | None = None
    span: str | None = None
    id: str | None = None
    replayed: bool = False
    sidechain: bool = False
    extra: dict[str, Json] | None = None

    @property
    def text(self) -> str:
        """What the step says aloud: its text parts, without reasoning or tool results."""
        parts = self.parts
        if len(parts) == 1 and parts[0].kind == "text":
            return parts[0].text or ""
        return "\n".join([p.text for p in parts if p.kind == "text" and p.text is not None])


class Span(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A node of the recorded trace tree, kept as it came."""

    id: str
    parent: str | None = None
    name: str = ""
    kind: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    status: ResultStatus = "unknown"
    attributes: dict[str, Json] = msgspec.field(default_factory=dict)
    events: tuple[Json, ...] = ()
    links: tuple[Json, ...] = ()


class ToolDef(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool that the agent was offered; `schema` is the JSON schema of its arguments, if known."""

    name: str
    description: str | None = None
    schema: dict[str, Json] | None = None
    agent: str | None = None
    extra: dict[str, Json] | None = None


class SubGoal(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of the task, and what of a run serves it: a call, a message, or what is like a step.

    One with a tool is reached by a call of it, with at least these arguments, answered without
    error; rules measure no other. `after` names the sub-goals that must be reached first.
    """

    name: str
    tool: str = ""
    arguments: dict[str, Json] = msgspec.field(default_factory=dict)
    after: tuple[str, ...] = ()
    goal: str = ""  # one sentence that says when it is reached; all that `no_look` is told
    message: Literal["", "first", "last"] = ""  # which of the agent's messages behind `after`
    like: str = ""  # "RUN:STEP", the step of another run that stands where this one's does


class ReferenceCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call of a reference trajectory."""

    name: str
    arguments: dict[str, Json] = msgspec.field(default_factory=dict)
    any_arguments: bool = False  # whatever it is called with


class PolicyRule(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One rule of conduct, declared in TOML (`[[policy]]`)."""

    name: str  # what reports call it.
    # a tool (or `write` for every mutating tool) that may not be called ...
    forbid: str | None = None
    # ... or not with these arguments: name -> regular expression (RE2) over its text.
    where: dict[str, str] = msgspec.field(default_factory=dict)
    # ... or only so: conditions on arguments and on what calls before it gave back, `amount > 100`.
    when: str = ""  # the rule is about calls for which this holds
    unless: str = ""  # ... and not about those for which this does: `amount <= order.total`
    # for order rules: the `require` must have happened before a call of this tool.
    before: str | None = None
    # a tool that must have succeeded, or `confirm` for the user's consent.
    require: str | None = None
    max_calls: int | None = None  # for rate rules: at most this many calls of `forbid` in one run.


class Precondition(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A call of `tool` needs a success of `after` before it."""

    tool: str  # what may not come first
    after: str  # what must have succeeded before
    # the argument that both must have in common (`order_id`); None: any call of `after` does
    by: str | None = None
    # passing runs that `tool` succeeded in; None where the user declared the rule
    support: int | None = None
    # share of those in which `after` had succeeded before; None where declared
    kept: float | None = None


# In the `extra` of a case that a file gave: what the trace itself had recorded.
GIVEN = "recorded"


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What a run is measured against, written before the run.

    `outputs` are the named post-conditions: texts that the agent must tell the user.
    """

    workflow: str
    task: str
    request: str | None = None
    setup: dict[str, Json] | None = None
    subgoals: tuple[SubGoal, ...] = ()
    order: Literal["ordered", "unordered", "dag"] = "unordered"
    outputs: tuple[str, ...] = ()
    reference: tuple[ReferenceCall, ...] | None = None
    policy: tuple[PolicyRule, ...] = ()
    weights: tuple[float, ...] | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    difficulty: str | None = None
    tools: tuple[ToolDef, ...] = ()  # what the agent is offered, where the trace does not say it
    constraint: str = ""  # what a probe may tell the agent in so many words
    extra: dict[str, Json] | None = None

    @cached_property
    def hash(self) -> str:
        """Sixteen hex digits over the whole case: part of every record's key."""
        return digest(self)

    def given_to(self, recorded: Case | None) -> Case:
        """Return what a trace recorded of a case, with what this one, of a file, says instead.

        What was replaced stays in `extra`, so that another file can be given later.
        """
        base = recorded or Case(workflow=self.workflow, task=self.task)
        if (earlier := (base.extra or {}).get(GIVEN)) is not None:
            base = msgspec.convert(earlier, Case)
        said = {name: getattr(self, name) for name in msgspec.to_builtins(self)} | {
            "workflow": base.workflow,
            "task": base.task,
            "extra": {**(base.extra or {}), GIVEN: msgspec.to_builtins(base)},
        }
        return msgspec.structs.replace(base, **said)

    @cached_property
    def called(self) -> tuple[SubGoal, ...]:
        """The sub-goals that calls reach."""
        return tuple([goal for goal in self.subgoals if goal.tool])


class Facts(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What measures learn from a fleet, as a value; one hash a table."""

    workflow: str = ""  # the runs that the tables were fitted from belong to it
    n_runs: int = 0  # how many runs were looked at
    # figure ("steps", "calls", "tokens", "cost_usd", "seconds") -> median of passing runs, in the
    # figure's unit
    medians: dict[str, float] = msgspec.field(default_factory=dict)
    n_passing: int = 0  # passing runs behind `medians`
    # tool -> effect, as *declared* by the user; `effect()` infers the others from names
    effects: dict[str, Effect] = msgspec.field(default_factory=dict)
    # tool -> tools that serve the same purpose, as declared
    alternatives: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    policy: tuple[PolicyRule, ...] = ()  # rules of conduct, as declared
    # words that tell of an act that is done -> tools that make them true, as declared
    claims: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    # which tool needs which other before it: declared, or mined from passing runs
    preconditions: tuple[Precondition, ...] = ()
    # tool list and policy for runs whose traces have none, as declared
    tools: tuple[ToolDef, ...] = ()
    instructions: str = ""

    def hash_of(self, tables: Iterable[str]) -> str:
        """Sixteen hex digits over the named tables, "" for none: part of a record's key.

        A tool list and a policy of the settings are part of the run itself, for every measure.
        """
        given = {"tools": self.tools, "instructions": self.instructions}
        chosen = {name: getattr(self, name) for name in sorted(tables)}
        chosen.update((name, value) for name, value in given.items() if value)
        return digest(chosen) if chosen else ""


def digest(value: object) -> str:
    """Sixteen hex digits of sha256 over the canonical JSON of any model value."""
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]


class Outcome(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Whether the run worked, and who says so."""

    status: Literal["pass", "fail", "unknown"] = "unknown"
    source: Literal["reward", "check", "label", "none"] = "none"
    reward: float | None = None
    reason: str = ""


# Whose word on an outcome outranks whose.
OUTCOME_RANKS = {"check": 3, "reward": 2, "label": 1, "none": 0}
# In a label of kind "outcome": whose word it is, one of `OUTCOME_RANKS`.
GIVEN_AS = "given_as"


class TraceLabel(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a person said about a run or one step of it."""

    kind: Literal["decisive_step", "failure", "root_cause", "outcome", "note"]
    step: int | None = None
    agent: str | None = None
    category: str | None = None
    reason: str = ""
    annotator: str = "unknown"
    extra: dict[str, Json] | None = None


class StepScore(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A score that somebody gave to a step of a run, as a file says it."""

    step: int  # index of the step
    value: float | None  # 0 to 1; None where the step was looked at and not scored
    judge: str = ""  # who gave it; "" where the file does not say
    repeat: int = 0  # which scoring of this step by this judge, from 0
    latency_s: float | None = None  # seconds that the step took, where the file says it
    cost_usd: float | None = None  # what the step cost, where the file says it
    reason: str = ""  # why, and what else the file says of the score


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


def outcome_of_label(label: TraceLabel) -> Outcome | None:
    """Return the outcome that a label gives to its run; None where it gives none."""
    extra = label.extra or {}
    status, source = label.category, extra.get(GIVEN_AS)
    if label.kind != "outcome" or status not in ("pass", "fail") or source not in OUTCOME_RANKS:
        return None
    return Outcome(status, source, extra.get("reward"), label.reason)  # type: ignore[arg-type]


def outcome_rank(outcome: Outcome) -> int:
    """Return how much an outcome weighs: a check's more than a reward's, than a person's."""
    return 0 if outcome.status == "unknown" else OUTCOME_RANKS[outcome.source]


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

    @property
    def answer_step(self) -> int:
        """The step where the result is read; the call's own where it has none."""
        return self.step if self.result_step is None else self.result_step


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
    # the policy, where settings hold it; one that was recorded stands in steps of the system
    instructions: str | None = None
    spans: tuple[Span, ...] = ()
    outcome: Outcome = Outcome()
    termination: str | None = None
    labels: tuple[TraceLabel, ...] = ()
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

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Who else says whether the run worked, and says otherwise: "fail says ann (label)"."""
        found = []
        for label in self.labels:
            given = outcome_of_label(label)
            if given is not None and given.status != self.outcome.status:
                who = label.annotator
                by = f"the {who}" if who == given.source else f"{who} ({given.source})"
                found.append(f"{given.status} says {by}")
        return tuple(dict.fromkeys(found))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """What each step says aloud, in order."""
        return tuple([step.text if step.parts else "" for step in self.steps])

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Every tool call in order, each with its result where one came.

        A result belongs to the call of the same id; where ids repeat, to the latest such call
        still open; without any id, results are taken in order. Replayed steps are copies of what
        the agent did earlier and make no exchange.
        """
        made: list[tuple[int, ToolCall]] = []
        answers: dict[int, tuple[int | None, ToolResult | None]] = {}
        open_ids: dict[str, list[int]] = {}
        nameless: list[int] = []
        for step in self.steps:
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
                    told = with_exit_status(result) if result.status == "unknown" else result
                    answers[at] = (step.index, told)
        exchanges: list[Exchange] = []
        for at, (step_at, call) in enumerate(made):
            answered_at, answer = answers.get(at, _NO_ANSWER)
            exchanges.append(Exchange(at, step_at, call, answered_at, answer, call_key(call)))
        return tuple(exchanges)

    @cached_property
    def agent_exchanges(self) -> tuple[Exchange, ...]:
        """The calls of the agent, where users have tools as well."""
        if all([exchange.call.requestor == "agent" for exchange in self.exchanges]):
            return self.exchanges
        return tuple([x for x in self.exchanges if x.call.requestor == "agent"])


# How a shell's wrapper closes what a command printed: "[The command completed with exit code 1.]",
# "exit=0". A file that ends on `exit 1` or `return 1` says nothing of the kind.
_EXIT_STATUS = re.compile(
    r"(?:\A|\n)\W{0,3}(?:the )?(?:(?:process|command) )?"
    r"(?:(?:completed|exited|finished|failed) with )?"
    r"(?:(?:exit|return)[ _]?(?:code|status)\s*[:=]?|exit\s*=)\s*(-?\d{1,10})\b\W{0,8}\Z",
    re.IGNORECASE,
)
_EXIT_CHARACTERS = 80


def with_exit_status(result: ToolResult) -> ToolResult:
    """Return a result of unknown status with the one that its last line tells; else the same."""
    text = result.text
    tail = text[-_EXIT_CHARACTERS:]
    found = _EXIT_STATUS.search(tail) if "exit" in tail or "eturn" in tail else None
    if found is None:
        return result
    status: ResultStatus = "error" if int(found[1]) else "ok"
    error = text.strip() if status == "error" else None
    return msgspec.structs.replace(result, status=status, source="heuristic", error=error)


def call_key(call: ToolCall) -> str:
    """Tool name and canonical arguments: equal for two calls that ask the same thing."""
    if call.parse_error is not None:
        return f"{call.name}\0{call.raw}"
    return f"{call.name}\0{_canonical(call.arguments).decode()}"


class Figures(NamedTuple):
    """Steps, calls, tokens, USD and seconds of a run; None for what its trace lacks."""

    steps: int
    calls: int
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None


def figures(trajectory: Trajectory) -> Figures:
    """Return the figures of a run."""
    t, made = trajectory, [s.calls for s in trajectory.steps if s.calls and not s.replayed]
    calls = sum([call.requestor == "agent" for of_step in made for call in of_step])
    return Figures(len(t.steps), calls, _tokens(t), _cost_usd(t), _seconds(t))


def _tokens(t: Trajectory) -> int | None:
    if t.usage is not None:
        return t.usage.total
    used = [step.usage.total for step in t.steps if step.usage is not None]
    totals = [total for total in used if total is not None]
    return sum(totals) if totals else None


def _cost_usd(t: Trajectory) -> float | None:
    if t.cost_usd is not None:
        return t.cost_usd
    costs = [step.cost_usd for step in t.steps if step.cost_usd is not None]
    return sum(costs) if costs else t.cost_computed_usd


def _seconds(t: Trajectory) -> float | None:
    if t.start is not None and t.end is not None:
        first, last = t.start.ns, t.end.ns
    else:
        starts = [step.start.ns for step in t.steps if step.start is not None]
        ends = [step.end.ns for step in t.steps if step.end is not None]
        if not starts or len(starts) + len(ends) < 2:
            return None
        first, last = min(starts), max(starts + ends)
    return (last - first) / 1e9 if last >= first else None
