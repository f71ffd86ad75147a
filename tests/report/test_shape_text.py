"""Curves and shapes as people read them: bars, words, tables; nothing wider than it may be."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.report.compare import compare_groups
from stepscope.report.render import markdown, text
from stepscope.report.types import Curve, Profile, Shapes
from stepscope.report.views.compare import make_comparison_document
from stepscope.report.views.overview import make_report_document, tabulate_shapes
from stepscope.report.views.show import draw_curve, draw_sparkline
from stepscope.shape.types import CredibleInterval
from stepscope.values import Estimate, Unmeasured
from tests.report.literal import HOSTILE, profile, render_run, report
from tests.report.rows import rows as of
from tests.report.test_curves import FALLS, HOLDS, NOISE, TASK, WEIGHTS, drawn, scores
from tests.report.test_fleet_shapes import fleet


def share(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, method="em, gibbs", n=40, n_tasks=40)


FLEET = Shapes(
    shares={
        "healthy": share(0.61, 0.5, 0.7),
        "early_collapse": share(0.2, 0.1, 0.3),
        "late_drift": share(0.1, 0.05, 0.2),
        "steady_degradation": share(0.05, 0, 0.1),
        "recovery": share(0.04, 0, 0.1),
    },
    labels={"healthy": 20, "early_collapse": 8},
    n_runs=40,
    unresolved=11,
    unmodelled=1,
    low_level=0,
    unmeasured={"missing_input": 160},
    source="imported step scores",
    sigma=".060, the upper limit over repeated scorings",
)


DRAWN = Curve(
    steps=tuple(range(10)),
    scores=FALLS,
    source="imported",
    sigma=0.06,
    sigma_source="repeats",
    shape="early_collapse",
    best="early_collapse",
    runner_up="recovery",
    posterior={"early_collapse": 0.987, "recovery": 0.012},
    mean=CredibleInterval(value=0.604, low=0.573, high=0.635),
    depth=CredibleInterval(value=0.42, low=0.35, high=0.49),
    break_probability=(0, 0, 0, 0.004, 0.95, 0.03, 0, 0, 0, 0),
    break_step=4,
    break_first=4,
    break_last=5,
    watch=(7,),
    weights=WEIGHTS["", "t"],
    weighted=0.571,
    gate_failed=(4,),
)


def test_a_curve_is_bars_with_the_break_below_and_what_it_rests_on() -> None:
    assert draw_curve(DRAWN, 100) == [
        "Curve      1.0  ▃▃▃▄▄▄▄▄▄▃▃▃",
        "                ████████████",
        "           0.5  ████████████▅▅▅▆▆▆▆▆▆▇▇▇▆▆▆▅▅▅",
        "                ██████████████████████████████",
        "         break              ███▁▁▁",
        "         steps  0           4                9",
        "Shape     early collapse 99 %; second: recovery 1.2 % · mean 0.60, 0.57–0.64 · drop "
        "0.42, 0.35–0.49",
        "          breaks at step 4 (90 % interval: step 4-5); probability that there is a break: "
        "98 %",
        "          gate failed at 4 (0.41, below 0.60), whatever the weighted mean 0.57 says",
        "          watch 7: latency or cost spikes and the score holds",
        "          imported step scores; noise 0.060, upper limit, measured from repeated scorings",
    ]


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("count", [1, 3, 10, 137, 1500])
def test_no_line_is_wider_than_it_may_be(count: int, width: int) -> None:
    values = [0.9 - 0.5 * (i > count // 2) for i in range(count)]
    made = drawn(scores(*values), noise=NOISE)
    assert max(map(len, draw_curve(made, width))) <= width


def test_a_missing_score_is_a_dot_and_a_zero_a_thin_bar() -> None:
    assert draw_sparkline([1.0, None, 0.0, 0.5]) == "█·▁▅"
    made = drawn(scores(0.0, None, 1.0))
    assert [line[16:] for line in draw_curve(made, 40)[:4]] == [
        "      ███", "      ███", "      ███", "▁▁▁···███",
    ]  # fmt: skip


def test_an_unresolved_curve_names_both_candidates_and_no_depth() -> None:
    made = drawn(scores(0.8, 0.8, 0.7, 0.75, 0.62, 0.7))
    said = " ".join(draw_curve(made, 100))
    assert "unresolved: " in said
    assert "drop" not in said


def test_a_curve_that_no_shape_fits_and_one_without_shape_say_so() -> None:
    assert "no shape fits these scores" in " ".join(
        draw_curve(drawn(scores(*[0.9, 0.4] * 5), noise=NOISE), 100)
    )
    assert "none: fewer than" in " ".join(draw_curve(drawn(scores(0.9, 0.4)), 100))


def test_a_judge_with_a_hostile_name_commands_no_terminal() -> None:
    made = drawn(scores(*HOLDS, judge=HOSTILE))
    assert not any("\x1b" in line for line in draw_curve(made, 100))


def test_a_run_of_which_only_scores_are_known_is_its_curve() -> None:
    made = drawn(scores(*FALLS), TASK, noise=NOISE)
    shown = render_run(TASK, None, [], curve=made)
    assert "Curve " in shown
    assert "Suspects        4  the scores fall from 0.86 to 0.44 at step 4" in shown
    assert "no text" not in shown


def test_chosen_steps_are_shown_without_the_curve() -> None:
    made = drawn(scores(*FALLS), TASK, noise=NOISE)
    shown = render_run(TASK, None, [], curve=made, chosen=range(3, 5))
    assert "Curve " not in shown
    assert "scores fall" in shown


def grouped(*titles: str) -> list[Profile]:
    return [msgspec.structs.replace(profile(title), shapes=FLEET) for title in titles]


def laid_out(profiles: list[Profile], width: int = 100) -> list[str]:
    table = tabulate_shapes(profiles)
    assert table is not None
    return text.lay_out_table(table, width)


def test_the_shapes_of_one_group() -> None:
    assert laid_out(grouped("airline")) == [
        "Shapes                share, 95 % interval",
        "  healthy             61 %, 50–70",
        "  early collapse      20 %, 10–30",
        "  late drift          10 %, 5.0–20",
        "  steady degradation  5.0 %, 0–10",
        "  recovery            4.0 %, 0–10",
        "  computed from       39 of 200 runs",
        "  unresolved          11 of 40 runs",
        "  no shape fits       1 of 40 runs",
        "  without a shape     160 missing_input",
        "  scores: imported step scores; noise: .060, the upper limit over repeated scorings",
    ]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_groups_stand_side_by_side_where_they_fit(width: int) -> None:
    lines = laid_out(grouped("airline", "retail", "bank", "shop"), width)
    assert max(map(len, lines)) <= width
    assert sum(line.count("61 %, 50–70") for line in lines) == 4


def test_without_shares_runs_are_counted_by_their_label_and_the_reason_is_said() -> None:
    alone = msgspec.structs.replace(
        FLEET, shares={}, no_shares=Unmeasured("insufficient_data", "one task")
    )
    lines = laid_out([msgspec.structs.replace(profile(), shapes=alone)])
    assert "  healthy             20 runs" in lines
    assert "  recovery            0 runs" in lines
    assert lines[-1] == "  no shares: one task; runs by their own label"


def test_the_report_has_the_shapes_in_text_and_markdown() -> None:
    made = msgspec.structs.replace(report(), profiles=tuple(grouped("airline")))
    assert "\nShapes                share, 95 % interval\n" in text.render(
        make_report_document(made)
    )
    said = markdown.render(make_report_document(made))
    assert "| early collapse | 20 %, 10–30 |" in said
    assert "scores&#58; imported step scores" in said


def test_a_comparison_has_the_shapes_of_both() -> None:
    agents = ["a"] * 12 + ["b"] * 12
    made = compare_groups(of(fleet(*[HOLDS] * 12, *[FALLS] * 12, agents=agents)), "a", "b")
    shown = text.render(make_comparison_document(made))
    (row,) = [line for line in shown.split("\n") if line.startswith("early collapse")]
    assert "  +100 points" in row or "  +99" in row
    assert "Shapes rest on imported step scores; noise: 0.040, 0.030–0.060" in " ".join(
        shown.split()
    )
    assert "| early collapse |" in markdown.render(make_comparison_document(made))


def test_a_curve_survives_json() -> None:
    made = drawn(scores(*FALLS), TASK, noise=NOISE, weights=WEIGHTS)
    assert msgspec.json.decode(msgspec.json.encode(made), type=Curve) == made
