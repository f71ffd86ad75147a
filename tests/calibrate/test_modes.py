"""Isolated against contextual: how much, where, and on which steps they differ."""

from __future__ import annotations

import pytest

from bars.judges.halo import plant_halos
from stepscope.calibrate.modes import ModeComparison, compare_modes
from stepscope.model import Outcome, Record, Verdict
from stepscope.store import Store
from stepscope.values import Estimate, Unmeasured
from tests.calibrate.made import by_step, said, store
from tests.factories import agent, run, user

ISOLATED = "step_labels.isolated"


def asked(*records: list[Record], runs: int = 6) -> tuple[ModeComparison, ...]:
    with store(runs) as made:
        for batch in records:
            made.append(batch)
        return compare_modes(made)


def scored(judge: str, values: list[list[float]], *, family: str = "openai") -> list[Record]:
    return [
        said(judge, n, Verdict("scores", value=value, step=step), family=family)
        for n, row in enumerate(values)
        for step, value in enumerate(row)
    ]


def test_labels_of_one_judge_are_compared_step_by_step() -> None:
    (found,) = asked(
        by_step("openai/a", ["PPRPPE"] * 6),
        by_step("openai/a", ["PPPPPE"] * 6, axis=ISOLATED),
        by_step("anthropic/b", ["PPPPPP"] * 6),
    )
    assert (found.judge, found.of, found.n, found.runs) == ("openai/a", "labels", 36, 6)
    raw = found.figures["raw"]
    assert isinstance(raw, Estimate)
    assert raw.value == pytest.approx(5 / 6)
    # A repetition is seen in its run alone.
    assert found.table == {
        "ERROR": {"ERROR": 6},
        "PROGRESS": {"PROGRESS": 24},
        "REDUNDANT": {"PROGRESS": 6},
    }
    parts = {p.part: p.difference.value for p in found.where if isinstance(p.difference, Estimate)}
    assert parts == {
        "first third": 0.0, "middle third": 0.5, "last third": 0.0, "ERROR": 0.0, "PROGRESS": 0.0,
        "REDUNDANT": 1.0,
    }  # fmt: skip
    assert len(found.most) == 5
    gap = found.most[0]
    assert (gap.name, gap.step) == ("shop/0/0", 2)
    assert (gap.isolated.label, gap.contextual.label) == ("PROGRESS", "REDUNDANT")


def test_no_look_scores_are_compared_with_the_scores_in_context() -> None:
    """Contextual scores are all .5; isolated minus contextual is what is shown."""
    values = [[0.5, 0.5, 0.5, 0.5, 0.9, 0.7], [0.5, 0.5, 0.5, 0.5, 0.7, 0.1]]
    (found,) = asked(scored("openai/a", values), by_step("openai/a", ["PPPPPP"] * 2))
    assert (found.isolated, found.contextual, found.of) == (
        "scores",
        "judge.step_labels",
        "scores",
    )
    difference, distance = found.figures["difference"], found.figures["distance"]
    assert isinstance(difference, Estimate)
    assert isinstance(distance, Estimate)
    assert difference.value == pytest.approx(0.4 / 12)
    assert distance.value == pytest.approx(1.2 / 12)
    rank = found.figures["rank"]
    assert isinstance(rank, Unmeasured)
    assert rank.kind == "undefined"
    assert [(g.name, g.step, round(g.difference or 0, 2)) for g in found.most] == [
        ("shop/0/0", 4, 0.4),
        ("shop/1/0", 5, -0.4),
        ("shop/0/0", 5, 0.2),
        ("shop/1/0", 4, 0.2),
    ]


def test_steps_judged_in_one_mode_alone_are_not_compared() -> None:
    (found,) = asked(
        by_step("openai/a", ["PPP", "PPP"]), by_step("openai/a", ["PP.", ".PP"], axis=ISOLATED)
    )
    assert found.n == 4


def test_two_judges_are_no_two_modes() -> None:
    assert asked(by_step("openai/a", ["PP"]), by_step("qwen/c", ["PP"], axis=ISOLATED)) == ()
    assert asked(scored("qwen/c", [[0.1]], family="qwen"), by_step("openai/a", ["PP"])) == ()


def test_what_one_mode_could_not_answer_is_left_out() -> None:
    lost = said("openai/a", 0, Unmeasured("refused", "refused: no", f"judge.{ISOLATED}", 2))
    (found,) = asked(
        by_step("openai/a", ["PPP"]), [*by_step("openai/a", ["PP."], axis=ISOLATED), lost]
    )
    assert found.n == 2


def test_steps_of_users_and_tools_are_in_no_comparison_of_modes() -> None:
    """Of four steps two are the agent's, and on both the modes differ."""
    steps = [user("u"), agent("a"), user("v"), agent("b")]
    with Store.open(":memory:") as made:
        made.put(run(*steps, id=f"r{n}", name=f"shop/{n}/0", task=str(n)) for n in range(6))
        made.append(by_step("openai/a", ["PEPE"] * 6))
        made.append(by_step("openai/a", ["PPPP"] * 6, axis=ISOLATED))
        (found,) = compare_modes(made)
    raw = found.figures["raw"]
    assert isinstance(raw, Estimate)
    assert (raw.value, found.n, found.runs) == (0.0, 12, 6)


def viewed(values: list[list[float]], view: str) -> list[Record]:
    return [
        said("openai/a", n, Verdict(f"judge.step_labels{view}", value, "PROGRESS", step))
        for n, row in enumerate(values)
        for step, value in enumerate(row)
    ]


def test_the_halo_is_half_of_what_knowing_the_end_moves_passing_minus_failing_runs() -> None:
    """All is scored .1 higher in context; .05 more where the run passed, .03 less where not."""
    ends = [0.15, 0.07, 0.16, 0.06, 0.14, 0.08, 0.5]
    with Store.open(":memory:") as made:
        outcomes = [Outcome("pass"), Outcome("fail")] * 3 + [Outcome()]
        made.put(
            run(*[agent("x")] * 3, id=f"r{n}", name=f"shop/{n}/0", task=str(n), outcome=outcome)
            for n, outcome in enumerate(outcomes)
        )
        # At the last exchange both views see the end.
        made.append(viewed([[0.4, 0.4, 0.0]] * 7, ".prefix"))
        made.append(viewed([[0.4 + end, 0.4 + end, 0.9] for end in ends], ""))
        (found,) = compare_modes(made)
    assert (found.isolated, found.of, found.n) == ("judge.step_labels.prefix", "scores", 14)
    shift, halo = found.figures["shift"], found.figures["halo"]
    assert isinstance(shift, Estimate)
    assert isinstance(halo, Estimate)
    assert shift.value == pytest.approx(sum(ends) / 7)
    assert halo.value == pytest.approx((0.15 - 0.07) / 2)
    assert (halo.n, halo.unmeasured) == (6, {"unknown outcome": 1})
    assert halo.low is not None
    assert halo.low < halo.value
    # Every figure of the table has the sign of the shift.
    thirds = [one.difference for one in found.where if one.part == "first third"]
    assert [one.value for one in thirds if isinstance(one, Estimate)] == [shift.value]
    assert (found.most[0].name, found.most[0].difference) == ("shop/6/0", 0.5)


def test_without_outcomes_there_is_a_shift_and_no_halo() -> None:
    prefix, whole_run = [[0.4, 0.4, 0.4]] * 3, [[0.5, 0.5, 0.4], [0.6, 0.5, 0.4], [0.7, 0.4, 0.4]]
    (found,) = asked(viewed(prefix, ".prefix"), viewed(whole_run, ""), runs=3)
    assert isinstance(found.figures["shift"], Estimate)
    assert found.figures["halo"] == Unmeasured(
        "missing_input", "0 passing and 0 failing runs; a halo needs two of each"
    )


def test_planted_halos_are_covered_found_and_not_invented() -> None:
    assert plant_halos(0.05, 400).covered >= 0.92
    assert plant_halos(0.10, 100).called >= 0.95
    assert plant_halos(0.0, 400).called <= 0.08
