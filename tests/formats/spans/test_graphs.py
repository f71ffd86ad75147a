from __future__ import annotations

import pytest

from bars.formats.span_graphs import CODES, outcome
from stepscope.formats.spans.span import RawSpan
from tests.formats.reading import codes
from tests.formats.spans.making import run_of, span, tool


def test_every_planted_fault_is_flagged_and_nothing_else_and_nothing_is_changed() -> None:
    found = outcome(600)
    assert found.tallies == {
        "orphan_span": (6, 6, 0),
        "span_cycle": (6, 6, 0),
        "duplicate_span_id": (6, 6, 0),
        "clock_skew": (12, 12, 0),
    }
    assert list(found.tallies) == list(CODES)
    assert found.unchanged


LOOK = tool("look", {}, "here")


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([span("a", LOOK), span("b", LOOK, parent="a", at=(0, 1))], []),
        ([span("a", LOOK), span("b", parent="a", at=(0.9, 1.5))], []),
        ([span("a", LOOK, parent="gone")], [("orphan_span", 0)]),
        (
            [
                span("z", LOOK),
                span("a", parent="gone", at=(2, 5)),
                span("b", LOOK, parent="a", at=(3, 4)),
            ],
            [("orphan_span", 2)],
        ),
        ([span("a", LOOK, parent="a")], [("span_cycle", 0)]),
        (
            [span("a", LOOK, parent="b"), span("b", parent="a"), span("c", parent="b")],
            [("span_cycle", 0), ("span_cycle", 0)],
        ),
        ([span("a", LOOK), span("b", parent="a", at=(-1, 0.5))], [("clock_skew", 0)]),
        ([span("a", LOOK), span("b", parent="a", at=(2, 3))], [("clock_skew", 0)]),
        ([span("a"), span("b", LOOK, parent="a", at=(2, 3))], [("clock_skew", 0)]),
        (
            [span("a", LOOK), span("b", parent="a", at=(0.5, 0.2))],
            [("span_negative_duration", 0)],
        ),
        (
            [span("a", LOOK), span("a", name="another", at=(0.2, 0.3))],
            [("duplicate_span_id", None)],
        ),
    ],
)
def test_a_fault_of_the_graph_is_told_at_the_step_of_its_span(
    spans: list[RawSpan], expected: list[tuple[str, int | None]]
) -> None:
    assert codes(run_of(*spans)) == expected


def test_a_span_sent_again_counts_once_in_its_last_form_and_stays_twice() -> None:
    early = span("a", tool("look", {}), at=(0, 0.5))
    late = span("a", tool("look", {}, "here"), at=(0, 1))
    run = run_of(early, late)
    assert [step.kind for step in run.steps] == ["call", "result"]
    assert run.steps[1].results[0].text == "here"
    assert [node.attributes for node in run.spans] == [early.attributes, late.attributes]
    assert codes(run) == [("duplicate_span_id", 0)]


def test_spans_without_times_stand_where_their_parent_does() -> None:
    bare = RawSpan(trace_id="t", span_id="b", parent_id="a", attributes=LOOK)
    run = run_of(span("z", tool("last", {}, "x"), at=(9, 10)), span("a", at=(1, 2)), bare)
    assert [call.name for step in run.steps for call in step.calls] == ["look", "last"]
    assert run.steps[0].start is None
