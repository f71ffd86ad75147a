from __future__ import annotations

import pytest

from stepscope.report.build import build_report
from stepscope.report.compare import compare_groups
from stepscope.report.render import markdown, text
from stepscope.report.views.compare import make_comparison_document
from stepscope.report.views.overview import make_report_document
from stepscope.values import Estimate, Unmeasured
from tests.report.rows import LiteralRows, rows

WRONG, RIGHT, OPEN = "incorrect", "correct", "uncertain"
SELECTION = "axes.tool_selection"


def judged(*labels: str | None, agents: list[str] | None = None) -> LiteralRows:
    n = len(labels)
    return LiteralRows(
        [str(at) for at in range(n)],
        agents=agents or ["a"] * n,
        values={"outcome": [1.0] * n},
        labels={SELECTION: labels},
    )


TEN = (WRONG, RIGHT, RIGHT, RIGHT, OPEN, OPEN, OPEN, OPEN, None, None)


def test_an_axis_is_the_share_of_judged_runs_with_what_it_left_open_counted_either_way() -> None:
    found = build_report(rows(judged(*TEN)))[SELECTION]
    assert isinstance(found, Estimate)
    assert (found.value, found.n) == (0.25, 4)
    assert dict(found.unmeasured) == {"not_applicable": 2, "uncertain": 4}
    assert (found.worst_low, found.worst_high) == (0.125, 0.625)
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < 0.25 < found.high < 1


@pytest.mark.parametrize(
    ("labels", "kind", "reason"),
    [
        ([OPEN, OPEN, None], "insufficient_data", "the rules can tell in none of 2 runs"),
        ([None, None], "not_applicable", "nothing to judge"),
    ],
)
def test_an_axis_that_judged_nothing_is_unmeasured_not_zero(
    labels: list[str | None], kind: str, reason: str
) -> None:
    found = build_report(rows(judged(*labels)))[SELECTION]
    assert isinstance(found, Unmeasured)
    assert (found.kind, found.reason) == (kind, reason)


def test_trials_of_a_task_widen_the_interval_of_an_axis() -> None:
    once, again = judged(*[WRONG, RIGHT] * 4), judged(*[WRONG, RIGHT] * 4)
    trials = LiteralRows(["0", "1"] * 4, agents=["a"] * 8, values=again.values, labels=again.labels)
    alone, clustered = (build_report(rows(r))[SELECTION] for r in (once, trials))
    assert isinstance(alone, Estimate)
    assert isinstance(clustered, Estimate)
    assert clustered.low is not None
    assert alone.low is not None
    assert clustered.low < alone.low


def test_an_axis_nobody_scored_is_named_and_given_no_row() -> None:
    shown = text.render(make_report_document(build_report(rows(judged(*TEN)))))
    block = shown[shown.index("Failure profile") :].split("\n\n")[0].splitlines()
    assert block[1].split() == [
        *("tool", "selection", ".250", "[.046,", ".699]", ".125-.625", "4"),
        *("4", "uncertain,", "2", "not_applicable"),
    ]
    assert block[2:] == [
        "  not scored: argument validity, sequencing, result interpretation, termination"
    ]


def test_a_report_without_any_axis_says_how_to_get_them() -> None:
    literal = LiteralRows(["1", "2"], values={"outcome": [1.0, 0.0]})
    assert "Failure profile: not scored; run `stepscope score`" in text.render(
        make_report_document(build_report(rows(literal)))
    )


@pytest.mark.parametrize("width", [80, 100, 140])
def test_groups_stand_side_by_side_as_far_as_the_width_allows(width: int) -> None:
    agents = [f"{name} " + "x" * 80 for name in "abcde" for _ in range(4)]
    literal = judged(*[WRONG, RIGHT, OPEN, None] * 5, agents=agents)
    shown = text.render(make_report_document(build_report(rows(literal))), width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count(" of 2, uncertain 1") == 5
    beside = [line for line in shown.splitlines() if "· a x" in line and "· b x" in line]
    assert len(beside) == (width > 80)


def test_markdown_holds_the_worst_case_of_an_axis() -> None:
    shown = markdown.render(make_report_document(build_report(rows(judged(*TEN)))))
    row = next(line for line in shown.splitlines() if line.startswith("| tool selection"))
    assert "| .125-.625 | 4 | 4 uncertain" in row
    assert "axis:" not in shown


def test_axes_are_compared_over_the_runs_that_both_judged() -> None:
    first, second = (
        [WRONG, RIGHT, OPEN, RIGHT, RIGHT, RIGHT],
        [WRONG, WRONG, WRONG, RIGHT, OPEN, RIGHT],
    )
    literal = LiteralRows(
        [*"123456"] * 2,
        agents=["x"] * 6 + ["y"] * 6,
        values={"outcome": [1.0, 0.0] * 6},
        labels={SELECTION: [*first, *second]},
    )
    compared = compare_groups(rows(literal), "x", "y")
    found = compared[SELECTION]
    assert (found.n_cases, found.paired) == (4, True)
    assert isinstance(found.effect, Estimate)
    assert found.effect.value == 0.25
    assert found.effect.unmeasured == {"uncertain": 2}
    shown = text.render(make_comparison_document(compared))
    assert "axis: tool selection" in shown
    assert "axis: sequencing" not in shown  # nobody scored it: no row, no place in Holm's family
