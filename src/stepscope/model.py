"""The nouns: what a run is, what it is measured against, and what is said about it.

Every type is frozen. They are msgspec structs, not dataclasses, because all of them also leave and
re-enter as JSON (our JSONL, the store), where a struct decodes at C speed and refuses a wrong type
(docs/design/model.md). A field that the trace lacks is None, never 0. What has no field of its own
stays in `extra`, so nothing that was read is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol

import msgspec

from stepscope.safety.limits import Limits
from stepscope.values import Unmeasured

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
        return "\n".join(p.text for p in self.parts if p.text is not None)


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
        return "\n".join(p.text for p in self.parts if p.kind == "text" and p.text is not None)


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


class SubGoal(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A predicate on calls: this tool, with at least these arguments, answered without error.

    `after` names the sub-goals that must be reached first.
    """

    name: str
    tool: str
    arguments: dict[str, Json] = msgspec.field(default_factory=dict)
    after: tuple[str, ...] = ()


class ReferenceCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call of a reference trajectory."""

    name: str
    arguments: dict[str, Json] = msgspec.field(default_factory=dict)


class PolicyRule(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One rule of conduct, declared in TOML (`[[policy]]`).

    Attributes:
        name: what reports call it.
        forbid: a tool (or `write` for every mutating tool) that may not be called ...
        where: ... or not with these arguments: name -> regular expression over its text.
        before: for order rules: the `require` must have happened before a call of this tool.
        require: a tool that must have succeeded, or `confirm` for the user's consent.
        max_calls: for rate rules: at most this many calls of `forbid` in one run.
    """

    name: str
    forbid: str | None = None
    where: dict[str, str] = msgspec.field(default_factory=dict)
    before: str | None = None
    require: str | None = None
    max_calls: int | None = None


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
    extra: dict[str, Json] | None = None

    @cached_property
    def hash(self) -> str:
        """Sixteen hex digits over the whole case: part of every record's key."""
        return digest(self)


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
    the trace reports; `cost_computed_usd` what a price table gives.
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
        still open; without any id, results are taken in order.
        """
        return tuple(_pair(self.steps))


class Facts(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What measures learn from a fleet, as a value; one hash a table.

    Attributes:
        workflow: the runs that the tables were fitted from belong to it.
        n_runs: how many runs were looked at.
        medians: figure ("steps", "calls", "tokens", "cost_usd", "seconds") -> median of passing
            runs, in the figure's unit.
        n_passing: passing runs behind `medians`.
        effects: tool -> effect, as *declared* by the user; `effect()` infers the others from names.
        alternatives: tool -> tools that serve the same purpose, as declared.
    """

    workflow: str = ""
    n_runs: int = 0
    medians: dict[str, float] = msgspec.field(default_factory=dict)
    n_passing: int = 0
    effects: dict[str, Effect] = msgspec.field(default_factory=dict)
    alternatives: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    policy: tuple[PolicyRule, ...] = ()

    def hash_of(self, tables: Iterable[str]) -> str:
        """Sixteen hex digits over the named tables, "" for none: part of a record's key."""
        chosen = {name: getattr(self, name) for name in sorted(tables)}
        return digest(chosen) if chosen else ""


class Verdict(msgspec.Struct, frozen=True, gc=False, tag="verdict", omit_defaults=True):
    """One answer of one measure about one step, or (step None) about the whole run.

    `measure` is the measure's name, or that name, a dot and an aspect ("efficiency.steps").
    """

    measure: str
    value: float | None = None
    label: str | None = None
    step: int | None = None
    cites: tuple[int, ...] = ()
    reason: str = ""
    confidence: float | None = None


Answer = Verdict | Unmeasured


class Record(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """An answer with its provenance, as the store keeps it.

    Unique over trajectory, measure, version, case, facts, judge, prompt, repeat and step.
    """

    trajectory: str
    answer: Answer
    version: str
    family: str = "rules"
    case: str = ""
    facts: str = ""
    judge: str = ""
    rubric: str = ""
    prompt: str = ""
    repeat: int = 0
    usage: Usage | None = None
    cost_usd: float | None = None
    seconds: float | None = None


class Quarantined(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A record that could not be read: where it stands, why, and its bytes (all of them)."""

    reason: str
    offset: int
    raw: bytes
    uri: str = ""


class Stream(msgspec.Struct, frozen=True):
    """What a format reads from: an open binary file, what to call it in messages, the limits."""

    file: BinaryIO
    uri: str
    limits: Limits = Limits()


class Format(Protocol):
    """A trace format: `sniff` the first bytes, `read` runs; see `stepscope.formats`."""

    @property
    def name(self) -> str:
        """The name that `--format` takes."""

    def sniff(self, head: bytes) -> float:
        """Confidence, 0 to 1, that a file starting with `head` is of this format."""

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file; what cannot be read comes out as `Quarantined`."""


class Scale(msgspec.Struct, frozen=True):
    """The values that a measure may give: a closed range, or labels."""

    low: float = 0.0
    high: float = 1.0
    labels: tuple[str, ...] = ()


class Measure(Protocol):
    """Anything that reads a run and answers; pure.

    `learns` names the tables of `Facts` that it uses. For each of its aspects it gives exactly one
    answer about the whole run, and any number about steps.
    """

    @property
    def name(self) -> str:
        """The name that records carry."""

    @property
    def version(self) -> str:
        """Raised with every change that can change an answer."""

    @property
    def scale(self) -> Scale:
        """The values that its answers may take."""

    @property
    def learns(self) -> tuple[str, ...]:
        """The tables of `Facts` that it uses."""

    def __call__(
        self, trajectory: Trajectory, case: Case | None, facts: Facts | None
    ) -> Iterable[Answer]:
        """Answer about one run."""


def digest(value: object) -> str:
    """Sixteen hex digits of sha256 over the canonical JSON of any model value.

    >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    True
    """
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]


def call_key(call: ToolCall) -> str:
    """Tool name and canonical arguments: equal for two calls that ask the same thing.

    >>> a = ToolCall("cat", {"x": 1, "y": 2})
    >>> call_key(a) == call_key(ToolCall("cat", {"y": 2, "x": 1}))
    True
    """
    if call.parse_error is not None:
        return f"{call.name}\0{call.raw}"
    return f"{call.name}\0{msgspec.json.encode(call.arguments, order='deterministic').decode()}"


def _pair(steps: tuple[Step, ...]) -> list[Exchange]:
    exchanges: list[Exchange] = []
    open_ids: dict[str, list[int]] = {}
    nameless: list[int] = []
    for step in steps:
        for call in step.calls:
            if call.id is None:
                nameless.append(len(exchanges))
            else:
                open_ids.setdefault(call.id, []).append(len(exchanges))
            exchanges.append(Exchange(len(exchanges), step.index, call, None, None, call_key(call)))
        for result in step.results:
            waiting = nameless if result.call_id is None else open_ids.get(result.call_id)
            if waiting:
                at = waiting.pop(0 if result.call_id is None else -1)
                exchanges[at] = exchanges[at]._replace(result_step=step.index, result=result)
    return exchanges
