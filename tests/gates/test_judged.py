"""Gates that read judges: which answers count, what a judge's false alarms allow, and tiers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from scipy.stats import betabinom

from stepscope.errors import ConfigError
from stepscope.gates.judged import FalseAlarms, count_false_alarms, read_gate_samples
from stepscope.gates.looks import Looks
from stepscope.gates.settings import (
    GateDefaults,
    WorkflowPolicy,
    WorkflowTable,
    read_policies,
)
from stepscope.gates.types import GateDecision, GateReport
from stepscope.model import Label
from stepscope.model.labels import Queue
from tests.gates.rows import One, gates, report, rows, run

TIER = ("rules", "step_labels")
DETOURS = {"max_per_run": 0, "source": "step_labels"}


def labelled(
    n: int, flagged: int = 0, people: str = "", tag: str = "n", **said: float
) -> list[One]:
    """Return n runs of up to fifty cases, in the first of which the judge sees a detour."""
    person: dict[str, float | str] = {"people.judge.step_labels": people} if people else {}
    return [
        One(
            f"c{k % 50}",
            {"judge.step_labels": "PDP" if k < flagged else "PPP", **person, **said},
            tag=tag,
        )
        for k in range(n)
    ]


def trialled() -> WorkflowPolicy:
    """Return the policy of one gate, each case run once."""
    return msgspec.structs.replace(gates(no_detours=DETOURS), trials=1)


def reported(before: list[One], now: list[One], tier: tuple[str, ...] = TIER) -> GateReport:
    """Gate runs that lie in one store with those of the baseline."""
    asked = trialled()
    return report(rows(*before, *now), asked, rows(*before) if before else None, tier=tier)


def detours(before: list[One], now: list[One]) -> GateDecision:
    return reported(before, now).gates[0]


@pytest.mark.parametrize(
    ("seen", "n", "flagged", "good"),
    [(0, 50, 0, 100), (1, 50, 0, 100), (3, 50, 5, 100), (50, 50, 100, 100), (9, 400, 2, 137)],
)
def test_false_alarms_follow_the_predictive_of_a_rate(
    seen: int, n: int, flagged: int, good: int
) -> None:
    oracle = betabinom.sf(seen - 1, n, flagged + 0.5, good - flagged + 0.5)
    assert FalseAlarms(flagged, good, "").tail(seen, n) == pytest.approx(oracle, abs=1e-9)


@pytest.mark.parametrize(
    ("flagged", "seen", "outcome", "most"),
    # the .95 quantiles of the predictive, by scipy.stats.betabinom.ppf
    [(0, 1, "pass", 1), (0, 2, "fail", 1), (5, 6, "pass", 6), (5, 7, "fail", 6)],
)
@pytest.mark.parametrize(
    ("people", "said", "known"),
    [
        ("PPP", {}, "people's labels"),
        ("", {"outcome": 1.0}, "the baseline's passing runs"),
    ],
)
def test_as_many_runs_may_be_called_bad_as_false_alarms_explain(
    flagged: int,
    seen: int,
    outcome: str,
    most: int,
    people: str,
    said: dict[str, float],
    known: str,
) -> None:
    found = detours(labelled(100, flagged, people, "b", **said), labelled(50, seen))
    assert found.outcome == outcome
    assert (
        f"{seen} of 50 runs in breach, {most} may be false alarms ({flagged} of 100 runs known to "
        f"be good are called bad: {known})"
    ) in found.reason


@pytest.mark.parametrize("people", ["PPP", ""])
def test_below_a_hundred_good_runs_the_baseline_is_compared_with_and_the_line_says_so(
    people: str,
) -> None:
    before = labelled(99, 5, people, "b", outcome=1.0)
    found = detours(before, labelled(99, 20))
    assert found.outcome == "fail"
    assert found.reason.startswith("compared with the baseline: drop of 15 points on 50 cases")
    assert "99 runs known to be good" in found.reason
    assert "false alarms are known from 100 such runs on" in found.reason
    assert detours(before, labelled(99, 9)).outcome == "pass"


def test_passing_runs_under_test_are_not_taken_for_good_ones() -> None:
    now = labelled(150, 30, outcome=1.0)
    found = detours(labelled(50, 0, "", "b", outcome=1.0), now)
    assert found.outcome == "fail"
    assert "50 runs known to be good (the baseline's passing runs)" in found.reason


@pytest.mark.parametrize(
    ("people", "good"),
    [("PPP", 100), ("PDP", 0), ("PPP/PDP", 0), ("PPP/PPP", 100), ("P?P", 0), ("PRE", 100)],
)
def test_a_run_is_good_where_everybody_who_labelled_it_says_so(people: str, good: int) -> None:
    found = detours(labelled(100, 5, people, "b"), labelled(100, 5))
    assert f"{good} runs known to be good" in found.reason or f"5 of {good} runs" in found.reason


def test_without_good_runs_or_a_baseline_nothing_is_decided() -> None:
    asked = gates(no_detours=DETOURS)
    found = report(rows(*labelled(50, 9)), asked, tier=TIER).gates[0]
    assert (found.outcome, found.cause) == ("undecided", "judge_not_calibrated")
    assert "0 runs known to be good (people's labels)" in found.reason
    assert "no baseline is named" in found.reason


def test_a_baseline_before_the_judge_calibrates_nothing() -> None:
    before = [run(f"c{k}", tag="b", outcome=1.0) for k in range(120)]
    found = detours(before, labelled(50, 9))
    assert found.cause == "judge_not_calibrated"
    assert "stepscope judge --rubric step_labels" in found.reason


def test_good_runs_of_another_judge_or_workflow_say_nothing_of_this_one() -> None:
    other = [
        One(
            one.case,
            {**one.said, "judge.step_labels": f"/{one.said['judge.step_labels']}"},
            tag="b",
        )
        for one in labelled(100, 0, outcome=1.0)
    ]
    found = report(rows(*labelled(50, 9)), trialled(), rows(*other), tier=TIER).gates[0]
    assert "0 runs known to be good" in found.reason
    assert "baseline_other_version" not in (found.cause or "")
    assert found.cause == "judge_not_calibrated"
    elsewhere = [One(one.case, one.said, "other", one.tag) for one in labelled(100, 0, "PPP", "b")]
    found = report(rows(*elsewhere, *labelled(50, 9)), trialled(), tier=TIER).gates[0]
    assert "0 runs known to be good (people's labels)" in found.reason


def test_a_step_without_a_label_hides_no_detour_and_proves_none() -> None:
    before = labelled(100, 0, "PPP", "b")
    lost = [run("c0", judge__step_labels="P?P"), *labelled(50)[1:]]
    found = detours(before, lost)
    assert (found.outcome, found.cause) == ("undecided", "not_measured")
    seen = [run(f"c{k}", judge__step_labels="D?P") for k in range(9)] + labelled(50)[9:]
    assert detours(before, seen).outcome == "fail"


def test_the_failing_cases_say_what_the_judge_said_and_where() -> None:
    found = detours(labelled(100, 0, "PPP", "b"), labelled(50, 9))
    assert (found.failing[0].steps, found.failing[0].evidence) == ((1,), "D 1")
    policy = gates(axes__sequencing={"max_rate": 0.1, "source": "axes"})
    ones = [run(f"c{k}", judge__axes__sequencing="incorrect") for k in range(9)]
    (gate,) = report(rows(*ones), policy, tier=("axes",)).gates
    assert (gate.failing[0].steps, gate.failing[0].evidence) == ((1, 2), "says incorrect")


@pytest.mark.parametrize(
    ("name", "written", "bad", "good"),
    [
        ("axes.sequencing", {"max_rate": 0.3, "source": "axes"}, "incorrect", "correct"),
        ("axes.sequencing", {"max_rate": 0.3, "source": "lab/judge"}, "incorrect", "correct"),
        ("quality.plan", {"max_rate": 0.3, "source": "quality.plan"}, "incorrect", "correct"),
        ("tone", {"max_rate": 0.3, "source": "lab/judge", "label": "rude"}, "rude", "kind"),
    ],
)
def test_rates_of_what_judges_answer_are_gated(
    name: str, written: dict[str, object], bad: str, good: str
) -> None:
    asked = gates(**{name: written})
    for share, outcome in ((40, "fail"), (10, "pass")):
        ones = [
            run(f"c{k}", signatures=(), **{f"judge.{name}": bad if k < share else good})
            for k in range(80)
        ]
        ones.append(run("idle", signatures=(), **{f"judge.{name}": "not_applicable"}))
        (found,) = report(rows(*ones), asked, tier=(str(written["source"]),)).gates
        assert (found.outcome, found.reason.split(" runs")[0][-2:]) == (outcome, "80")


def test_of_several_judges_a_gate_names_one() -> None:
    ones = [run(f"c{k}", judge__axes__sequencing="correct/incorrect") for k in range(60)]
    both = gates(axes__sequencing={"max_rate": 0.3, "source": "axes"})
    with pytest.raises(ConfigError, match=r"2 judges answered axes.sequencing \(lab/judge, lab/"):
        report(rows(*ones), both, tier=("axes",))
    for judge, outcome in (("lab/judge", "pass"), ("lab/judge1", "fail"), ("lab/no", "undecided")):
        one = gates(axes__sequencing={"max_rate": 0.3, "source": judge})
        assert report(rows(*ones), one, tier=(judge,)).gates[0].outcome == outcome


def test_a_gate_whose_judge_is_not_in_the_tier_is_listed_and_not_run() -> None:
    found = reported(labelled(100, 0, "PPP", "b"), labelled(50, 9), ("rules",))
    assert (found.gates[0].outcome, found.gates[0].cause) == ("not_run", "source_not_in_tier")
    assert found.tier == ("rules",)


def test_a_judge_without_records_is_undecided_with_the_command() -> None:
    found = detours([], [run(f"c{k}", outcome=1.0) for k in range(9)])
    assert (found.outcome, found.cause) == ("undecided", "no_verdicts")
    assert found.reason.endswith("stepscope judge --rubric step_labels")


def test_a_look_without_judges_and_one_with_them_are_pooled() -> None:
    asked, log = trialled(), Looks()
    before = labelled(100, 0, "PPP", "b")

    def look(tag: str, tier: tuple[str, ...], flagged: int) -> GateReport:
        held = rows(*before, *labelled(50, flagged, tag=tag))
        return report(held, asked, rows(*before), tier=tier, looks=log, commit="c")

    assert look("one", ("rules",), 0).gates[0].outcome == "not_run"
    found = look("two", TIER, 9)
    assert (found.look, found.gates[0].outcome, found.gates[0].n_runs) == (2, "fail", 100)
    # What the first look did not ask is no loss; what the second one said stays.
    assert "9 of 50 runs in breach" in found.gates[0].reason
    assert "9 of 100 runs" in look("three", TIER, 0).gates[0].reason


def test_another_judge_than_the_baselines_is_another_question() -> None:
    before = [run(f"c{k}", tag="b", judge__axes__sequencing="/correct") for k in range(50)]
    now = [run(f"c{k}", judge__axes__sequencing="correct") for k in range(50)]
    asked = gates(axes__sequencing={"max_drop": 0.1, "source": "axes"})
    (found,) = report(rows(*now), asked, rows(*before), tier=("axes",)).gates
    assert found.cause == "baseline_other_version"
    assert "judge lab/judge1" in found.reason
    assert "stepscope judge --rubric axes.sequencing --again" in found.reason


def tiers(default: dict[str, object], own: dict[str, object]) -> tuple[str, ...]:
    table = {"baseline": "b.json", "gates": {"no_detours": DETOURS}, **own}
    tables = {"w": msgspec.convert(table, WorkflowTable)}
    return read_policies(tables, msgspec.convert(default, GateDefaults), where="s")[0].tier


def test_a_workflows_tier_outranks_that_of_all_gates() -> None:
    assert tiers({}, {}) == ("rules",)
    assert tiers({"tier": TIER}, {}) == TIER
    assert tiers({"tier": TIER}, {"tier": ["rules"]}) == ("rules",)


@pytest.mark.parametrize(
    ("default", "own", "said"),
    [
        ({}, {"tier": ["step_label"]}, r"\[workflow.w\]: tier: no gate has .*'step_labels'\?"),
        ({"tier": ["rules", "axes"]}, {}, r"\[gate\]: tier: no gate has the source 'axes'"),
        ({}, {"tier": []}, "it names no source; known: rules, step_labels"),
    ],
)
def test_a_tier_that_names_nobody_is_an_error(
    default: dict[str, object], own: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        tiers(default, own)


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("outcome", "step_labels", "no judge answers 'outcome'; leave source out"),
        ("no_detours", "rules", 'name a source that can: source = "step_labels", or a judge'),
        ("quality.plan", "rules", "'rules' cannot decide 'quality.plan'"),
        ("no_detours", "axes", "'axes' does not answer 'no_detours'; source = \"step_labels\""),
    ],
)
def test_a_source_that_cannot_know_is_an_error(name: str, source: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        gates(**{name: {"max_rate": 0.1, "source": source}})


@pytest.mark.parametrize(
    ("queue", "probability", "good", "flagged"),
    [
        ("look_first", None, 108, 0),
        ("active", 0.9, 108, 0),
        # Whoever writes labels of flagged runs into a file could make a gate as loose as wished.
        ("file", None, 108, 0),
        ("file", 0.5, 120, 12),
        ("uniform", 0.5, 120, 12),
    ],
)
def test_runs_that_people_were_not_evenly_asked_about_tell_no_false_alarms(
    queue: Queue, probability: float | None, good: int, flagged: int
) -> None:
    held = rows(*labelled(120, flagged=12, people="PPP"))
    policy = trialled()
    gate = policy.gates[0]
    now = read_gate_samples(held, [policy.workflow], gate.reads, None)[policy.workflow]
    assert count_false_alarms(gate, policy.workflow, now, None, held).good == 120
    ids = held.runs().id.tolist()

    def said(where: object = None, *, measure: str | None = None) -> Iterator[Label]:
        return (
            Label(
                trajectory=id_, measure=str(measure), annotator="ann", label="PROGRESS", step=0,
                queue=queue if at < 12 else "uniform", probability=probability if at < 12 else 0.5,
            )
            for at, id_ in enumerate(ids)
        )  # fmt: skip

    object.__setattr__(held, "labels", said)  # a store has labels
    found = count_false_alarms(gate, policy.workflow, now, None, held)
    assert (found.good, found.flagged) == (good, flagged)
