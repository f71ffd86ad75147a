from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.errors import LimitError
from stepscope.formats.fields import parse_call, rest
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.model import (
    Instant,
    Json,
    Outcome,
    Part,
    Source,
    Step,
    ToolCall,
    ToolResult,
    TraceLabel,
    Trajectory,
)
from stepscope.safety.limits import Limits

LIMITS = Limits()


def draft(*steps: Step, **fields: Json) -> Trajectory:
    source = fields.pop("source", Source(format="t", uri="a.json"))
    return Trajectory(id="", name="", steps=steps, source=source, **fields)


def says(text: str, index: int = 0) -> Step:
    return Step(index=index, actor="agent", parts=(Part("text", text),))


def calls(index: int, *ids: str | None) -> Step:
    made = tuple(ToolCall("f", {}, call_id) for call_id in ids)
    return Step(index=index, actor="agent", kind="call", calls=made)


def answers(index: int, *ids: str | None) -> Step:
    came = tuple(ToolResult(call_id) for call_id in ids)
    return Step(index=index, actor="environment", kind="result", results=came)


def identity(run: Trajectory) -> str:
    return finish_run(run, Ordinals()).id


def test_the_id_is_pinned_so_that_stores_stay_valid() -> None:
    # sha256sum of [{"index":0,"actor":"agent","parts":[{"kind":"text","text":"hi"}]}]["ordinal",0]
    assert identity(draft(says("hi"))) == "ecb8aff803e04e81d86bf147fd657f91"


@pytest.mark.parametrize(
    "fields",
    [
        {"source": Source(format="t", uri="elsewhere/b.json", offset=77)},
        {"outcome": Outcome("pass", "label")},
        {"labels": (TraceLabel(kind="note", reason="odd"),)},
        {"tags": {"env": "prod"}},
        {"agent": "a", "agent_version": "2"},
        {"name_": None, "workflow": "airline"},
    ],
)
def test_what_comes_late_or_from_outside_never_changes_the_id(fields: dict[str, Json]) -> None:
    fields.pop("name_", None)
    assert identity(draft(says("hi"), **fields)) == identity(draft(says("hi")))


@pytest.mark.parametrize(
    "other",
    [
        draft(says("hi!")),
        draft(says("hi"), task="1", trial="0"),
        draft(says("hi"), source=Source(format="t", run_id="r1")),
    ],
)
def test_other_content_trial_or_run_id_is_another_id(other: Trajectory) -> None:
    assert identity(other) != identity(draft(says("hi")))


def test_trials_of_one_task_stay_apart_and_the_run_id_wins_over_the_trial() -> None:
    first = identity(draft(says("hi"), task="1", trial="0"))
    assert identity(draft(says("hi"), task="1", trial="1")) != first
    assert identity(draft(says("hi"), task="2", trial="0")) != first
    named = Source(format="t", run_id="r1")
    assert identity(draft(says("hi"), trial="0", source=named)) == identity(
        draft(says("hi"), trial="1", source=named)
    )


def test_equal_records_of_one_file_are_counted_apart_and_another_file_starts_anew() -> None:
    one, other = Ordinals(), Ordinals()
    first, second = finish_run(draft(says("hi")), one), finish_run(draft(says("hi")), one)
    between = finish_run(draft(says("no")), one)
    assert first.id != second.id
    assert (first.source.ordinal, second.source.ordinal, between.source.ordinal) == (0, 1, 0)
    assert finish_run(draft(says("hi")), other).id == first.id


@given(st.dictionaries(st.text(), st.integers() | st.text(), min_size=2), st.randoms())
def test_the_order_of_keys_never_changes_the_id(arguments: dict[str, Json], rng: Json) -> None:
    keys = list(arguments)
    rng.shuffle(keys)
    one = Step(index=0, actor="agent", calls=(ToolCall("f", arguments),))
    other = Step(index=0, actor="agent", calls=(ToolCall("f", {k: arguments[k] for k in keys}),))
    if all(isinstance(v, str) or -(2**63) <= v < 2**63 for v in arguments.values()):
        assert identity(draft(one)) == identity(draft(other))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((calls(0, "a"), answers(1, "a")), []),
        ((calls(0, "a", "b"), answers(1, "b"), answers(2, "a")), []),
        ((calls(0, None), answers(1, None)), []),
        ((calls(0, None), calls(1, None), answers(2, None)), [("call_without_result", 1)]),
        (
            (calls(0, "a"), calls(1, "a"), answers(2, "a")),
            [("duplicate_call_id", 1), ("call_without_result", 0)],
        ),
        ((calls(0, "a"),), [("call_without_result", 0)]),
        ((calls(0, None, None), answers(1, None)), [("call_without_result", 0)]),
        ((answers(0, "a"),), [("result_without_call", 0)]),
        ((calls(0, "a"), answers(1, "a"), answers(2, "a")), [("result_without_call", 2)]),
        (
            (calls(0, "a"), answers(1, "a"), calls(2, "a"), answers(3, "a")),
            [("duplicate_call_id", 2)],
        ),
        (
            (answers(0, None), calls(1, None)),
            [("result_without_call", 0), ("call_without_result", 1)],
        ),
    ],
)
def test_unpaired_calls_and_results_are_kept_and_flagged(
    steps: tuple[Step, ...], expected: list[tuple[str, int]]
) -> None:
    run = finish_run(draft(*steps), Ordinals())
    assert run.steps == steps
    assert [(w.code, w.step) for w in run.warnings] == expected


def timed(index: int, start: int, end: int | None = None, *, replayed: bool = False) -> Step:
    return Step(
        index=index,
        actor="agent",
        start=Instant(start, str(start)),
        end=None if end is None else Instant(end, str(end)),
        replayed=replayed,
    )


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((timed(0, 1, 2), timed(1, 2)), []),
        ((timed(0, 2, 2),), []),
        ((timed(0, 2, 1),), [("negative_duration", 0)]),
        ((timed(0, 5), timed(1, 3), timed(2, 4)), [("clock_backwards", 1), ("clock_backwards", 2)]),
        ((timed(0, 5), timed(1, 3, replayed=True)), []),
    ],
)
def test_broken_clocks_are_flagged_never_corrected(
    steps: tuple[Step, ...], expected: list[tuple[str, int]]
) -> None:
    run = finish_run(draft(*steps), Ordinals())
    assert run.steps == steps
    assert [(w.code, w.step) for w in run.warnings] == expected


def test_a_run_of_more_steps_than_the_limit_is_refused() -> None:
    limits = Limits(steps=2)
    assert len(finish_run(draft(says("a"), says("b", 1)), Ordinals(), limits=limits).steps) == 2
    with pytest.raises(LimitError, match=r"a run of 3 steps; the limit is 2"):
        finish_run(draft(*[says("a", i) for i in range(3)]), Ordinals(), limits=limits)


@pytest.mark.parametrize(
    ("text", "arguments", "error"),
    [
        ('{"a": 1}', {"a": 1}, False),
        ('{"a": {"b": [1, {"c": null}]}}', {"a": {"b": [1, {"c": None}]}}, False),
        ('{"time": "10:30"}', {"time": "10:30"}, False),
        ("[1, 2]", [1, 2], False),
        ("", {}, False),
        ('{"a": ', None, True),
        ("python code", None, True),
        ("[" * 200 + "]" * 200, None, True),
    ],
)
def test_arguments_as_text_are_decoded_or_kept_with_the_reason(
    text: str, arguments: Json, error: bool
) -> None:
    call = parse_call("f", text, "1", limits=LIMITS)
    assert (call.arguments, call.raw, call.parse_error is not None) == (arguments, text, error)


@pytest.mark.parametrize(
    ("text", "arguments", "repairs"),
    [
        ('{"n": NaN}', {"n": "NaN"}, 1),
        ('{"n": 12345678901234567890123}', {"n": "12345678901234567890123"}, 1),
        ('{"n": [12345678901234567890123]}', {"n": ["12345678901234567890123"]}, 1),
        ('{"a": 1, "a": 2}', {"a": 2}, 1),
        ('{"a": "x\\u0000y"}', {"a": "x\\u0000y"}, 1),
        ('{"n": 9223372036854775807}', {"n": 9223372036854775807}, 0),
    ],
)
def test_arguments_that_break_the_doors_rules_are_repaired_and_say_so(
    text: str, arguments: Json, repairs: int
) -> None:
    call = parse_call("f", text, "1", limits=LIMITS)
    assert call.arguments == arguments
    assert len((call.extra or {}).get("repaired", [])) == repairs


def test_arguments_that_are_no_text_are_kept_as_they_are() -> None:
    call = parse_call("f", {"a": 1}, None, limits=LIMITS)
    assert (call.arguments, call.raw) == ({"a": 1}, None)


def test_rest_is_what_a_record_says_beyond_the_known_keys() -> None:
    known = frozenset({"a"})
    assert rest({"a": 1, "b": 2, "c": None}, known) == {"b": 2}
    assert rest({"a": 1, "c": None}, known) is None
    assert rest({"a": 1, "c": 0, "d": ""}, known) == {"c": 0, "d": ""}
