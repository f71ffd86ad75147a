"""Hypothesis strategies for every noun within a run, all of their fields in play."""

from __future__ import annotations

from typing import TypeVar, get_args

from hypothesis import strategies as st

from stepscope import model
from stepscope.model import Trajectory

T = TypeVar("T")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
whole = st.integers(-(2**63), 2**64 - 1)
real = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | whole | real | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
extras = st.none() | st.dictionaries(texts, json_values, max_size=2)


def maybe(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | strategy


def some(strategy: st.SearchStrategy[T], most: int = 2) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


def words(literal: object) -> st.SearchStrategy[str]:
    return st.sampled_from(get_args(literal))


instants = st.builds(model.Instant, whole, texts)
usages = st.builds(
    model.Usage,
    input_total=maybe(whole),
    cache_read=maybe(whole),
    cache_write=maybe(whole),
    output_total=maybe(whole),
    reasoning=maybe(whole),
    source=st.sampled_from(["reported", "estimated"]),
)
parts = st.builds(
    model.Part,
    kind=words(model.PartKind),
    text=maybe(texts),
    media_type=maybe(texts),
    size=maybe(whole),
    sha256=maybe(texts),
    data=maybe(texts),
    uri=maybe(texts),
    extra=extras,
)
calls = st.builds(
    model.ToolCall,
    name=texts,
    arguments=json_values,
    id=maybe(texts),
    raw=maybe(texts),
    parse_error=maybe(texts),
    requestor=st.sampled_from(["agent", "user"]),
    kind=st.sampled_from(["function", "mcp", "server", "builtin"]),
    extra=extras,
)
results = st.builds(
    model.ToolResult,
    call_id=maybe(texts),
    name=maybe(texts),
    parts=some(parts),
    structured=json_values,
    status=words(model.ResultStatus),
    source=words(model.Belief),
    error=maybe(texts),
    truncated=st.booleans(),
    extra=extras,
)
steps = st.builds(
    model.Step,
    index=whole,
    actor=words(model.Actor),
    kind=words(model.StepKind),
    parts=some(parts),
    calls=some(calls),
    results=some(results),
    agent=maybe(texts),
    model=maybe(texts),
    usage=maybe(usages),
    cost_usd=maybe(real),
    start=maybe(instants),
    end=maybe(instants),
    first_token_seconds=maybe(real),
    finish_reason=maybe(texts),
    error=maybe(texts),
    span=maybe(texts),
    id=maybe(texts),
    replayed=st.booleans(),
    sidechain=st.booleans(),
    extra=extras,
)
spans = st.builds(
    model.Span,
    id=texts,
    parent=maybe(texts),
    name=texts,
    kind=texts,
    start_ns=maybe(whole),
    end_ns=maybe(whole),
    status=words(model.ResultStatus),
    attributes=st.dictionaries(texts, json_values, max_size=2),
    events=some(json_values),
    links=some(json_values),
)
tools = st.builds(
    model.ToolDef,
    name=texts,
    description=maybe(texts),
    schema=extras,
    agent=maybe(texts),
    extra=extras,
)
labels = st.builds(
    model.TraceLabel,
    kind=st.sampled_from(["decisive_step", "failure", "root_cause", "outcome", "note"]),
    step=maybe(whole),
    agent=maybe(texts),
    category=maybe(texts),
    reason=texts,
    annotator=texts,
    extra=extras,
)
scores = st.builds(
    model.StepScore,
    step=whole,
    value=maybe(real),
    judge=texts,
    repeat=whole,
    latency_s=maybe(real),
    cost_usd=maybe(real),
    reason=texts,
)
cases = st.builds(
    model.Case,
    workflow=texts,
    task=texts,
    request=maybe(texts),
    setup=extras,
    subgoals=some(
        st.builds(
            model.SubGoal,
            texts,
            texts,
            st.dictionaries(texts, json_values, max_size=2),
            some(texts),
        )
    ),
    order=st.sampled_from(["ordered", "unordered", "dag"]),
    outputs=some(texts),
    reference=maybe(
        some(st.builds(model.ReferenceCall, texts, st.dictionaries(texts, json_values, max_size=2)))
    ),
    policy=some(st.builds(model.PolicyRule, name=texts, forbid=maybe(texts)), 1),
    weights=maybe(some(real)),
    tags=st.dictionaries(texts, texts, max_size=2),
    difficulty=maybe(texts),
    extra=extras,
)
trajectories: st.SearchStrategy[Trajectory] = st.builds(
    Trajectory,
    id=texts,
    name=texts,
    steps=some(steps, 3),
    source=st.builds(
        model.Source,
        format=texts,
        format_version=maybe(texts),
        uri=texts,
        offset=maybe(whole),
        run_id=maybe(texts),
        ordinal=whole,
    ),
    workflow=texts,
    task=maybe(texts),
    trial=maybe(texts),
    agent=maybe(texts),
    agent_version=maybe(texts),
    tags=st.dictionaries(texts, texts, max_size=2),
    tools=maybe(some(tools)),
    spans=some(spans),
    outcome=st.builds(
        model.Outcome,
        status=st.sampled_from(["pass", "fail", "unknown"]),
        source=st.sampled_from(["reward", "check", "label", "none"]),
        reward=maybe(real),
        reason=texts,
    ),
    termination=maybe(texts),
    labels=some(labels),
    scores=some(scores),
    case=maybe(cases),
    usage=maybe(usages),
    cost_usd=maybe(real),
    cost_computed_usd=maybe(real),
    start=maybe(instants),
    end=maybe(instants),
    parent=maybe(texts),
    children=some(texts),
    warnings=some(st.builds(model.Warn, texts, texts, maybe(whole))),
    extra=extras,
)
