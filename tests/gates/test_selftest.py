"""The selftest: how often the gates of a policy are wrong, by runs drawn from their baseline."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from stepscope.errors import UsageError
from stepscope.gates.baseline import load_baseline, make_baseline
from stepscope.gates.selftest import GateErrors, GateSelftest, selftest_gates
from stepscope.report.render import text
from stepscope.report.views.gates import make_selftest_document
from stepscope.values import Estimate, Unmeasured
from tests.gates.rows import One, gates, rows, run, trials

FORTY = trials("b", [4] * 24 + [2] * 8 + [0] * 8)


def errors_of(
    ones: Sequence[One] = FORTY, replications: int = 60, drop: float = 0.1, **written: object
) -> GateSelftest:
    asked = gates(**(written or {"outcome": {"max_drop": 0.0}}))
    held = make_baseline(rows(*ones), asked)
    return selftest_gates(asked, held, drop=drop, replications=replications)


def only(found: GateSelftest) -> GateErrors:
    (gate,) = found.gates
    return gate


def share(figure: Estimate | Unmeasured) -> float:
    assert isinstance(figure, Estimate)
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low <= figure.value <= figure.high
    return figure.value


def test_an_unchanged_agent_is_rarely_called_worse_and_a_large_drop_is_found() -> None:
    found = errors_of(drop=0.4)
    assert share(only(found).false_alarms) <= 0.1
    assert share(only(found).missed) <= 0.05
    assert (found.n_runs, found.n_cases, found.drawn, found.invocations) == (160, 40, 160, 60)


def test_a_small_drop_is_missed_more_often_than_a_large_one() -> None:
    small, middle = (share(only(errors_of(drop=drop)).missed) for drop in (0.02, 0.15))
    assert small > middle + 0.3


def test_the_same_seed_draws_the_same() -> None:
    assert errors_of() == errors_of()
    asked = gates(outcome={"max_drop": 0.0})
    held = make_baseline(rows(*FORTY), asked)
    other = selftest_gates(asked, held, replications=60, seed=1)
    assert msgspec.structs.replace(other, seed=0) != errors_of()


def test_a_drop_that_a_passing_gate_prints_is_missed_in_about_a_fifth() -> None:
    # The gate prints .095 for these runs against themselves.
    assert 0.08 <= share(only(errors_of(drop=0.095, replications=150)).missed) <= 0.36


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"policy": {"max_rate": 0.2}}, {"policy": 0.0}),
        ({"policy": {"max_per_run": 0}}, {"policy": 0.0}),
        (
            {"step_efficiency": {"max_ratio_to_baseline_median": 1.2}},
            {"efficiency.steps": 20.0},
        ),
        ({"recovery": {"min_rate": 0.9}}, {"recovery.recovered": 2.0, "errors": 2.0}),
    ],
)
def test_every_kind_of_gate_sees_a_worsening_that_is_large(
    written: dict[str, object], said: dict[str, float]
) -> None:
    ones = [
        One(
            f"c{at % 30}", {k: v + (at % 3 if v == 20 else 0) for k, v in said.items()}, tag=str(at)
        )
        for at in range(90)
    ]
    found = only(errors_of(ones, 30, 0.6, **written))
    assert share(found.missed) == 0.0
    assert share(found.false_alarms) == 0.0


def test_with_a_worsening_of_one_gate_the_others_stay_as_they_are() -> None:
    ones = [run(f"c{at}", tag="b", outcome=1.0, policy=0.0) for at in range(60)]
    found = errors_of(ones, 30, 0.5, outcome={"max_drop": 0.0}, policy={"max_per_run": 0})
    assert [share(one.missed) for one in found.gates] == [0.0, 0.0]
    assert [share(one.false_alarms) for one in found.gates] == [0.0, 0.0]


def test_one_case_decides_nothing_and_says_so() -> None:
    found = errors_of(trials("b", [2]), 30)
    assert share(only(found).undecided) == 1.0
    assert share(only(found).undecided_worse) == 1.0
    assert found.notes == ("1 case: too few to say how other cases would do",)


def test_cases_that_were_run_once_are_told() -> None:
    # Twenty cases are enough to speak of others, and still each was run once.
    for n, told in ((19, 2), (20, 1)):
        notes = errors_of(trials("b", [1] * n, 1), 5).notes
        assert len(notes) == told
        assert notes[-1].startswith(f"{n} cases of {n} run once")
    assert errors_of(trials("b", [2] * 20, 2), 5).notes == ()


def test_a_gate_outside_of_the_tier_is_not_run() -> None:
    ones = [run(f"c{at}", tag="b", outcome=1.0, judge__step_labels="PPD") for at in range(60)]
    both = {
        "outcome": {"max_drop": 0.0},
        "no_detours": {"max_per_run": 0, "source": "step_labels"},
    }
    found = errors_of(ones, 10, 0.5, **both)
    assert [one.not_run for one in found.gates] == ["", "step_labels is not in the tier"]
    asked = msgspec.structs.replace(gates(**both), tier=("rules", "step_labels"))
    deep = selftest_gates(asked, make_baseline(rows(*ones), asked), replications=10)
    # Sixty labelled runs are too few to know the judge: it is compared with the baseline.
    assert share(deep.gates[1].false_alarms) == 0.0
    assert deep.gates[1].not_run == ""


def test_a_hard_gate_is_counted_once_and_a_soft_one_never() -> None:
    # Every run of the baseline is in breach, so that the count always fails.
    ones = [run(f"c{at}", tag="b", policy=1.0) for at in range(30)]
    for severity, alarms in (("hard", 1.0), ("soft", 0.0)):
        found = errors_of(ones, 10, policy={"max_per_run": 0, "severity": severity})
        assert (share(found.false_alarms), share(only(found).false_alarms)) == (alarms, 1.0)


@pytest.mark.parametrize(
    ("drop", "replications"), [(0.0, 10), (-0.1, 10), (1.01, 10), (float("nan"), 10), (0.1, 0)]
)
def test_numbers_that_make_no_sense_are_refused(drop: float, replications: int) -> None:
    with pytest.raises(UsageError, match=r"a selftest takes a drop in \(0, 1\]"):
        errors_of(replications=replications, drop=drop)


def test_without_a_baseline_there_is_nothing_to_draw_from() -> None:
    asked = gates(outcome={"max_drop": 0.0})
    with pytest.raises(UsageError, match="--selftest draws from the baseline: no baseline is nam"):
        selftest_gates(asked, load_baseline(None, "w"))


def test_it_stops_with_what_there_is() -> None:
    asked = gates(outcome={"max_drop": 0.0})
    held = make_baseline(rows(*FORTY), asked)
    left = iter([False, False, True])
    found = selftest_gates(asked, held, replications=9, enough=lambda: next(left))
    assert (found.invocations, found.notes) == (2, ("stopped after 2 of 9 invocations",))
    none = selftest_gates(asked, held, replications=9, enough=lambda: True)
    assert isinstance(none.false_alarms, Unmeasured)
    assert "hard -  " in text.render(make_selftest_document([none]))


def test_names_from_traces_are_harmless_where_they_are_printed() -> None:
    hostile = "\n::error::x \x1b[2J <!-- @team"
    ones = [run(f"{hostile}{at}", tag="b", outcome=1.0) for at in range(6)]
    asked = gates(outcome={"max_drop": 0.0})
    held = make_baseline(rows(*ones), asked)
    named = msgspec.structs.replace(asked, workflow=hostile, cases=(f"{hostile}1", f"{hostile}2"))
    found = selftest_gates(named, held, replications=5)
    assert (found.n_cases, found.drawn) == (6, 2)
    shown = text.render(make_selftest_document([found]))
    assert "\x1b" not in shown
    assert not any(line.startswith("::") for line in shown.split("\n"))


def test_new_modes_are_none_that_a_baseline_lacks() -> None:
    ones = [run(f"c{k}", outcome=1.0, signatures=("x",) if k % 3 else ()) for k in range(12)]
    gate = only(errors_of(ones, no_new_modes={}, drop=0.9))
    for figure in (gate.false_alarms, gate.missed, gate.undecided_worse):
        assert isinstance(figure, Unmeasured)
        assert figure.kind == "not_applicable"
    assert 0 <= share(gate.undecided) <= 1
