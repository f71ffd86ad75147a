"""The gate `no_new_modes`: what the baseline lacks fails it where chance does not bring it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.errors import ConfigError
from stepscope.gates.baseline import (
    diff_baselines,
    encode_baseline,
    load_baseline,
    make_baseline,
    write_baseline,
)
from stepscope.gates.types import GateDecision, answer_undecided
from stepscope.store.columns import Rows
from tests.gates.rows import One, decision, gates, report, rows, run

NEW = "pay fails: total is *, but paid *"
OLD = "asks again what it was told"
NONE = answer_undecided("baseline_missing", "there is none")


def side(tag: str, with_it: int, *, text: str = NEW, old: int = 0, of: int = 20) -> list[One]:
    """A run of each case; the first `with_it` have `text`, the last `old` have what is known."""
    return [
        run(
            f"c{case}",
            tag=f"{tag} {case}",
            step_labels=0.0,
            signatures=(
                *((text,) if case < with_it else ()),
                *((OLD,) if case >= of - old else ()),
            ),
        )
        for case in range(of)
    ]


def gate(now: list[One], before: list[One]) -> GateDecision:
    return decision(rows(*now), rows(*before), no_new_modes={})


@pytest.mark.parametrize(
    ("runs", "outcome", "p"),
    [
        # a run on each side of a case: each run with it is one coin, alpha of a first look .025
        (0, "pass", 1.0),
        (2, "pass", 1.0),  # in two runs it is no mode
        (5, "pass", 1 / 32),
        (6, "fail", 1 / 64),
        (10, "fail", 1 / 1024),
    ],
)
def test_a_mode_that_the_baseline_lacks_fails_when_its_p_is_within_alpha(
    runs: int, outcome: str, p: float
) -> None:
    found = gate(side("now", runs), side("before", 0))
    assert (found.outcome, found.p) == (outcome, p)


def test_a_mode_that_one_run_of_the_baseline_has_is_not_new() -> None:
    found = gate(side("now", 15), side("before", 1))
    assert (found.outcome, found.p) == ("pass", 1.0)
    assert found.reason.startswith("0 modes of 1 not in the baseline")


def test_a_mode_of_the_baseline_that_is_gone_is_no_failure() -> None:
    assert gate(side("now", 0), side("before", 15)).outcome == "pass"


def test_holm_counts_the_known_modes_too() -> None:
    # Which modes are new is known from the data alone: the one that is known weighs as well.
    found = gate(side("now", 6), side("before", 0, old=8))
    assert found.p == 2 / 64
    assert found.outcome == "pass"


def test_a_failure_names_the_mode_its_runs_and_its_cases() -> None:
    found = gate(side("now", 8), side("before", 0))
    assert found.reason == f"new: {NEW}: 8 runs of 20, none of 20 before, p 0.0039"
    assert found.n_failing == 8
    assert found.failing[0].evidence == f"new: {NEW}"
    assert found.failing[0].runs == ("w/c0/0",)


def test_a_pass_says_what_would_be_seen() -> None:
    found = gate(side("now", 5), side("before", 0))
    assert found.reason.endswith("by chance p 0.031; a new mode in 7 runs would be detected")


def test_too_few_cases_are_undecided() -> None:
    found = gate(side("now", 3, of=3), side("before", 0, of=3))
    assert (found.outcome, found.cause) == ("undecided", "too_few_cases")


def test_lost_runs_that_could_have_a_new_mode_are_undecided() -> None:
    now = side("now", 0)
    lost = [run(f"c{case}", tag=f"lost {case}") for case in range(10)]
    found = gate([*now[10:], *lost], side("before", 0))
    assert (found.outcome, found.cause) == ("undecided", "not_measured")
    assert "10 lost runs could have a new one" in found.reason
    # Two lost runs make no mode.
    assert gate([*now[2:], *lost[:2]], side("before", 0)).outcome == "pass"


def test_lost_runs_and_seen_ones_together_could_have_a_new_mode() -> None:
    # Three runs with it are no chance only where lost ones have it, too.
    lost = [
        run(f"c{case}", tag=f"now {case}", step_labels="?missing_input") for case in (9, 10, 11)
    ]
    now = side("now", 3)
    assert gate(now, side("before", 0)).outcome == "pass"
    now[9:12] = lost
    assert gate(now, side("before", 0)).cause == "not_measured"
    # Of a known mode no run is new.
    assert gate([*side("now", 0)[:9], *lost, *now[12:]], side("before", 3)).outcome == "pass"


def test_runs_that_rules_could_not_see_are_not_runs_without_modes() -> None:
    blind = [run(f"c{at}", tag=f"blind {at}", step_labels="?missing_input") for at in range(20)]
    found = gate(blind, side("before", 0))
    assert (found.outcome, found.cause) == ("undecided", "not_measured")
    assert found.reason.endswith("unmeasured of the baseline none, under test 20 missing_input")
    found = gate(side("now", 12), blind)
    assert (found.outcome, found.cause) == ("undecided", "not_measured")
    found = gate([*side("now", 0)[:10], *blind[10:]], side("before", 0))
    assert found.reason.endswith("10 lost runs could have a new one: 10 missing_input")
    made = make_baseline(rows(*blind), gates(no_new_modes={}))
    assert "  modes: 20 missing_input" in diff_baselines(NONE, made)


def test_a_run_that_has_nothing_to_see_is_no_loss() -> None:
    scores = [run(f"c{at}", tag=f"s {at}", step_labels="?not_applicable") for at in range(10)]
    assert gate([*scores, *side("now", 0)[10:]], side("before", 0)).outcome == "pass"


def beside(tag: str, old: int, new: int) -> list[One]:
    """A run of each case; the first `old` have what is known, and the first `new` what is new."""
    return [
        run(
            f"c{case}",
            tag=f"{tag} {case}",
            step_labels=0.0,
            signatures=(*((OLD,) if case < old else ()), *((NEW,) if case < new else ())),
        )
        for case in range(20)
    ]


@pytest.mark.parametrize("known", [3, 10])
def test_a_new_error_beside_a_known_one_is_tested_by_itself(known: int) -> None:
    found = gate(beside("now", 10, 10), beside("before", known, 0))
    assert found.reason.startswith(f"new: {NEW}: 10 runs of 20, none of 20 before")
    assert found.outcome == "fail"
    # One run of the baseline has it: it is known, beside whatever it stands.
    found = gate(beside("now", 10, 10), beside("before", known, 1))
    assert (found.outcome, found.p) == ("pass", 1.0)


def test_what_stands_in_the_same_runs_is_tested_once() -> None:
    found = gate(beside("now", 4, 4), beside("before", 0, 0))
    assert found.reason.startswith("1 mode of 1 not in the baseline")
    # Part of a new mode is tested, too, and is no second one.
    found = gate(beside("now", 5, 4), beside("before", 0, 0))
    assert found.reason.startswith("1 mode of 2 not in the baseline")


def test_cases_that_only_one_side_ran_say_nothing() -> None:
    others = [
        run(f"d{case}", tag=f"other {case}", step_labels=0.0, signatures=(NEW,))
        for case in range(30)
    ]
    assert gate([*side("now", 0), *others], side("before", 0)).outcome == "pass"
    found = gate(others, side("before", 0))
    assert (found.outcome, found.cause) == ("undecided", "no_shared_cases")


def test_what_the_outcome_is_judged_by_is_tested_against_a_baseline() -> None:
    found = gate(side("now", 9, text="expected call missing: pay"), side("before", 0))
    assert found.outcome == "fail"


def baseline_of(now: Rows, path: Path) -> bytes:
    made = make_baseline(now, gates(no_new_modes={}))
    write_baseline(made, path)
    assert load_baseline(path, "w") == made
    return encode_baseline(made)


def test_a_baseline_keeps_signatures_and_which_of_them_are_one_mode(tmp_path: Path) -> None:
    both = [
        run(f"c{case}", tag=str(case), step_labels=0.0, signatures=(NEW, OLD) if case < 4 else ())
        for case in range(6)
    ]
    raw = baseline_of(rows(*both), tmp_path / "b.json")
    assert (
        b'"merged": [["asks again what it was told", "pay fails: total is *, but paid *"]]' in raw
    )
    assert b'"modes": ["asks again what it was told\\npay fails: total is *, but paid *"]' in raw


def test_what_an_update_changes_is_counted_by_signature() -> None:
    asked = gates(no_new_modes={})
    before = make_baseline(rows(*side("b", 2, old=1)), asked)
    after = make_baseline(rows(*side("a", 3, old=1)), asked)
    said = diff_baselines(before, after)
    assert f"modes: 1 {OLD}, 17 none, 2 {NEW} -> 1 {OLD}, 16 none, 3 {NEW}" in said
    assert f"  case c2: 1 none -> 1 {NEW}" in said
    assert f"  modes: 1 {OLD}, 17 none, 2 {NEW}" in diff_baselines(NONE, before)


def test_a_signature_of_a_known_mode_is_known(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    both = [
        run(f"c{case}", tag=str(case), step_labels=0.0, signatures=(NEW, OLD) if case < 4 else ())
        for case in range(20)
    ]
    baseline_of(rows(*both), path)
    held = load_baseline(path, "w")
    asked = gates(no_new_modes={})
    # One mode is held against chance, though now one of its signatures stands alone.
    found = report(rows(*side("now", 12, text=NEW)), asked, held).gates[0]
    assert found.outcome == "pass"
    assert found.reason.startswith("0 modes of 1 not in the baseline")


def test_a_baseline_without_a_table_of_modes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    raw = baseline_of(rows(*side("b", 0)), path)
    assert b"merged" not in raw


def test_another_version_of_a_measure_is_another_question() -> None:
    before = make_baseline(rows(*side("before", 0)), gates(no_new_modes={}))
    now = rows(*side("now", 0), step_labels=("99",))
    found = report(now, gates(no_new_modes={}), before).gates[0]
    assert (found.outcome, found.cause) == ("undecided", "baseline_other_version")
    assert "stepscope score" in found.reason


@pytest.mark.parametrize("written", [{"max_rate": 0.1}, {"max_per_run": 1}, {"rule": "proof"}])
def test_the_gate_takes_no_threshold(written: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="no_new_modes takes no threshold"):
        gates(no_new_modes=written)


def test_hostile_signatures_are_made_visible_in_a_baseline() -> None:
    text = "pay\x1b[31m fails: \u202eno\x00"
    made = make_baseline(rows(*side("b", 3, text=text)), gates(no_new_modes={}))
    held = encode_baseline(made).decode()
    assert "\x1b" not in held
    assert "\\u0000" not in held
    assert "\u202e" not in held
