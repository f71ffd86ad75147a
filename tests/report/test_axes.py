from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stepscope.report.build import build_report
from stepscope.report.compare import compare_groups
from stepscope.report.document import Links
from stepscope.report.render import markdown, text
from stepscope.report.views.compare import make_comparison_document
from stepscope.report.views.overview import make_report_document
from stepscope.report.views.profile import ALL_RUNS, KNOWN_FAULTS, LOWER_BOUND, draw_axes
from stepscope.values import Estimate, Unmeasured
from tests.report.rows import LiteralRows, rows

WRONG, OPEN = "incorrect", "uncertain"
SELECTION = "axes.tool_selection"


def judged(*labels: str | None, agents: list[str] | None = None) -> LiteralRows:
    n = len(labels)
    return LiteralRows(
        [str(at) for at in range(n)],
        agents=agents or ["a"] * n,
        values={"outcome": [1.0] * n},
        labels={SELECTION: labels},
    )


TEN = (WRONG, WRONG, OPEN, OPEN, OPEN, OPEN, OPEN, OPEN, None, None)


def test_an_axis_is_the_share_of_checked_runs_in_which_a_fault_was_proved() -> None:
    found = build_report(rows(judged(*TEN)))[SELECTION]
    assert isinstance(found, Estimate)
    assert (found.value, found.n) == (0.25, 8)
    assert dict(found.unmeasured) == {"not_applicable": 2}
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < 0.25 < found.high < 1


def test_an_axis_that_had_nothing_to_check_is_unmeasured_not_zero() -> None:
    found = build_report(rows(judged(None, None)))[SELECTION]
    assert isinstance(found, Unmeasured)
    assert (found.kind, found.reason) == ("not_applicable", "nothing to judge")


def test_answers_of_an_older_version_give_no_share_and_the_command_is_named() -> None:
    old = replace(judged(*TEN), versions={SELECTION: ("1",)})
    report = build_report(rows(old))
    found = report[SELECTION]
    assert isinstance(found, Unmeasured)
    assert found.reason == "answers of version 1; run `stepscope score`"
    assert report.next[0] == "stepscope score"
    assert report.whole.lucky == ()


def test_right_for_the_wrong_reason_are_passes_with_a_proof_and_nothing_else() -> None:
    literal = LiteralRows(
        [*"abcdefg"],
        values={
            "outcome": [1, 1, 1, 1, 0, None, 1],
            # Sub-goals missed in the letter, and other writes, are no proof of anything.
            "subgoals": [0.5, 1, 1, 0, 1, 1, 1],
            "subgoals.other_writes": [2, 0, 0, 0, 0, 0, 0],
            "policy": [0, 0, 1, 0, 0, 0, 0],
        },
        labels={
            SELECTION: [OPEN, WRONG, OPEN, OPEN, WRONG, WRONG, None],
            "axes.sequencing": [OPEN, OPEN, OPEN, OPEN, OPEN, OPEN, WRONG],
        },
    )
    lucky = build_report(rows(literal)).whole.lucky
    assert {(run.name, run.reason) for run in lucky} == {
        ("w/001", "every sub-goal reached, proved: tool selection"),
        ("w/002", "every sub-goal reached, 1 violations"),
        ("w/006", "every sub-goal reached, proved: sequencing"),
    }


def test_trials_of_a_task_widen_the_interval_of_an_axis() -> None:
    once, again = judged(*[WRONG, OPEN] * 4), judged(*[WRONG, OPEN] * 4)
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
        *("tool", "selection", "2", "of", "8", "runs", "7.1–59", "6"),
        *("2", "not", "applicable"),
    ]
    assert block[2:6] == [
        "    w/000, w/001",
        "  not scored: argument validity, sequencing, result interpretation, termination",
        f"  {LOWER_BOUND}",
        f"  {ALL_RUNS}",
    ]
    # How often its checks were right where the truth is known, of the scored axis alone.
    assert [line.split(":")[0] for line in block[7:]] == ["  tool selection"]
    assert block[6] == f"  {KNOWN_FAULTS}"
    assert "a false alarm in" in block[7]
    assert "inserted faults found" in block[7]


def test_a_row_names_up_to_three_runs_the_worst_first_and_counts_the_others() -> None:
    values: dict[str, Sequence[float | None]] = {
        "outcome": [1.0, 0, 1, 1, 1],
        "subgoals.other_writes": [0.0, 0, 0, 0, 2],
    }
    literal = replace(judged(*[WRONG] * 5), values=values)
    report = build_report(rows(literal))
    assert [run.name for run in report.whole.faulty[SELECTION]] == [
        *("w/001", "w/004", "w/000", "w/002", "w/003"),
    ]
    shown = text.render(make_report_document(report))
    assert "\n    w/001, w/004, w/000 and 2 more\n" in shown
    worst = report.whole.faulty[SELECTION][0].id
    _, rows_drawn = draw_axes(report.profiles, None, Links([worst]))
    (cell,) = rows_drawn[0][2]
    assert (cell.words, cell.limits) == ("\u2265 5 of 5", "57\u2013100")
    assert cell.href == Links([worst]).run(worst)


def test_of_several_groups_the_worst_run_of_each_is_named() -> None:
    literal = judged(*[WRONG, OPEN] * 6, agents=["x"] * 6 + ["y"] * 6)
    shown = text.render(make_report_document(build_report(rows(literal))))
    assert "\n    w/000, w/006\n" in shown


def test_a_report_without_any_axis_says_how_to_get_them() -> None:
    literal = LiteralRows(["1", "2"], values={"outcome": [1.0, 0.0]})
    assert "Failure profile: not scored; run `stepscope score`" in text.render(
        make_report_document(build_report(rows(literal)))
    )


@pytest.mark.parametrize("width", [80, 100, 140])
def test_groups_stand_side_by_side_as_far_as_the_width_allows(width: int) -> None:
    agents = [f"{name} " + "x" * 80 for name in "abcde" for _ in range(6)]
    literal = judged(*[WRONG, OPEN, WRONG, OPEN, None, None] * 5, agents=agents)
    shown = text.render(make_report_document(build_report(rows(literal))), width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("at least 2 of 4, ") == 5
    beside = [line for line in shown.splitlines() if "· a x" in line and "· b x" in line]
    assert len(beside) == (width > 80)


def test_markdown_holds_the_lower_bound_of_an_axis() -> None:
    shown = markdown.render(make_report_document(build_report(rows(judged(*TEN)))))
    row = next(line for line in shown.splitlines() if line.startswith("| tool selection"))
    assert "| 2 of 8 runs | " in row
    assert "| 6 | 2 not applicable" in row
    assert "lower bound" in shown
    assert "axis:" not in shown


def test_axes_are_compared_over_the_runs_that_both_judged() -> None:
    first, second = (
        [WRONG, OPEN, None, OPEN, OPEN, OPEN],
        [WRONG, WRONG, WRONG, OPEN, None, OPEN],
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
    assert found.effect.unmeasured == {"not_applicable": 2}
    shown = text.render(make_comparison_document(compared))
    assert "fault in tool selection" in shown
    assert "axis: sequencing" not in shown  # nobody scored it: no row, no place in Holm's family


def test_axes_without_anything_to_judge_are_one_line_below_the_title() -> None:
    shown = text.render(make_report_document(build_report(rows(judged(*[None] * 6)))))
    block = shown[shown.index("Failure profile") :].split("\n\n")[0].splitlines()
    assert block[0] == "Failure profile"
    assert any(line.startswith("  not checked: tool selection (") for line in block)
    assert not any(line.rstrip().endswith(" -") for line in block)
