"""Patterns of labels: each as it is defined, and its near miss."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope import registry
from stepscope.judges.patterns import (
    PATTERN_ADVICE,
    PATTERN_NAMES,
    LabelledError,
    LabelPattern,
    PatternName,
    RecoveryComparison,
    addressed_step,
    compare_recoveries,
    find_label_patterns,
    labelled_errors,
)
from stepscope.model import Answer, Verdict
from stepscope.values import Unmeasured
from tests.factories import agent, did, failed, run, user

NAME = "judge.step_labels"
# The agent's steps of the runs with results below.
ACTED = (1, 3, 5, 7, 8, 10)
LABELS = {"P": "PROGRESS", "R": "REDUNDANT", "D": "DETOUR", "E": "ERROR"}


def labelled(text: str, *, first: int = 2, every: int = 2) -> list[Answer]:
    """Return answers from letters: "E P>0" is an ERROR and PROGRESS that addresses it, "?" is open.

    What stands behind > is the place of the error that is addressed.
    """
    made: list[Answer] = []
    for place, word in enumerate(text.split()):
        step = first + every * place
        letter, _, about = word.partition(">")
        if letter == "?":
            made.append(Unmeasured("unparsable", "off_menu: 'MAYBE'", NAME, step))
        elif about:
            error = first + every * int(about)
            why = f"addresses {error}: mends it"
            made.append(Verdict(NAME, 0.5, LABELS[letter], step, (step, error), why))
        else:
            made.append(Verdict(NAME, 0.5, LABELS[letter], step, (step,), "as it is"))
    return made


def found(text: str, *, passed: bool | None = True) -> dict[PatternName, tuple[int, ...] | str]:
    return {
        name: said.kind if isinstance(said, Unmeasured) else tuple(one.step for one in said)
        for name, said in find_label_patterns(labelled(text), range(99), passed=passed).items()
        if said != ()
    }


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("P P P", {}),
        # whip
        ("P R P", {"whip": (4,)}),
        ("P R R P", {"whip": (4,)}),
        ("P R P R P", {"whip": (4,)}),
        ("P R R R P", {}),
        ("R P P", {}),
        ("P P R", {}),
        # detour
        ("P D P", {"detour": (4,)}),
        ("P D R P", {"whip": (6,)}),
        ("P D P D P", {}),
        ("D P P", {}),
        ("P P D", {}),
        # cascade
        ("P E P", {"cascade": (4,)}),
        ("E P P P", {"cascade": (2,)}),
        ("P E", {}),
        ("P E R", {}),
        ("P E E P", {"cascade": (4, 6)}),
        # healthy recovery
        ("P E P>1 P", {"healthy_recovery": (4,)}),
        ("P E P P>1", {"healthy_recovery": (4,)}),
        ("P E P P P>1", {}),
        ("P E E>1 P", {"cascade": (6,)}),
        ("P E E>1 P>1", {"healthy_recovery": (4,), "cascade": (6,)}),
        ("P E D>1 P", {"healthy_recovery": (4,), "detour": (6,)}),
        # addressing what is no error mends nothing
        ("P E P>0 P", {"cascade": (4,)}),
    ],
)
def test_each_pattern_and_its_near_misses(
    labels: str, expected: dict[PatternName, tuple[int, ...]]
) -> None:
    assert found(labels) == expected


def test_a_whip_needs_a_run_that_passed() -> None:
    assert found("P R P", passed=False) == {}
    assert "whip" not in found("P R P ?", passed=False)
    assert found("P R P", passed=None) == {"whip": "missing_input"}
    assert found("P P P", passed=None) == {}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("P ? P", dict.fromkeys(PATTERN_NAMES, "insufficient_data")),
        ("P E ? P", dict.fromkeys(PATTERN_NAMES, "insufficient_data")),
        (
            "P E P>1 ?",
            {**dict.fromkeys(PATTERN_NAMES, "insufficient_data"), "healthy_recovery": (4,)},
        ),
        ("? P E P", {**dict.fromkeys(PATTERN_NAMES, "insufficient_data"), "cascade": (6,)}),
        ("? ?", dict.fromkeys(PATTERN_NAMES, "missing_input")),
        ("", dict.fromkeys(PATTERN_NAMES, "missing_input")),
    ],
)
def test_a_step_without_a_label_leaves_open_what_it_could_hide(
    labels: str, expected: dict[PatternName, tuple[int, ...] | str]
) -> None:
    assert found(labels) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("E P>0", [(2, "recovered", 4)]),
        ("E P P>0", [(2, "recovered", 6)]),
        ("E P P P>0", [(2, "late", 8)]),
        ("E E>0", [(2, "attempted", 4), (4, "unaddressed", None)]),
        ("E P", [(2, "unaddressed", None)]),
        ("E", [(2, "unaddressed", None)]),
        ("E ? P>0", [(2, "recovered", 6)]),
        ("E ? P P>0", [(2, "unknown", None)]),
        ("E P P P>0 ?", [(2, "late", 8)]),
        ("E P P ?", [(2, "unknown", None)]),
    ],
)
def test_what_becomes_of_an_error(labels: str, expected: list[tuple[int, str, int | None]]) -> None:
    assert [tuple(one) for one in labelled_errors(labelled(labels), range(99))] == expected


def test_steps_that_are_not_the_agents_are_left_out() -> None:
    # 2 calls, 3 is the result, 4 mends it, 5 its result: within two of the agent's steps.
    answers = labelled("E P P P P>0 P R", every=1)
    acted = (2, 4, 6)
    assert labelled_errors(answers, acted) == (LabelledError(2, "recovered", 6),)
    assert labelled_errors(answers, range(99)) == (LabelledError(2, "late", 6),)
    assert find_label_patterns(answers, acted, passed=True)["whip"] == ()
    detour = labelled("P D P P", every=1)
    assert find_label_patterns(detour, (2, 3, 5))["detour"] == (
        LabelPattern("detour", 3, (3, 5), "left at 3, back at 5"),
    )


def test_a_pattern_says_where_it_begins_what_it_is_made_of_and_why() -> None:
    said = find_label_patterns(labelled("P E P P R P"), range(99), passed=True)
    assert said["cascade"] == (
        LabelPattern(
            "cascade", 4, (4, 6), "the error at 4 is never addressed, 3 PROGRESS behind it"
        ),
    )
    assert said["whip"] == (LabelPattern("whip", 10, (10,), "1 REDUNDANT in a run that passed"),)
    assert find_label_patterns(labelled("P D P"), range(99))["detour"] == (
        LabelPattern("detour", 4, (4, 6), "left at 4, back at 6"),
    )
    assert set(PATTERN_ADVICE) == set(PATTERN_NAMES)


@pytest.mark.parametrize(
    ("reason", "cites", "expected"),
    [
        ("addresses 3: takes it back", (5, 3), 3),
        ("addresses 3: takes it back", (5,), None),
        ("it addresses 3: no", (5, 3), None),
        ("addresses 5: itself", (5, 5), None),
        ("addresses 9: the future", (5, 9), None),
        ("repeats 3", (3, 5), None),
    ],
)
def test_only_the_agreed_form_addresses(
    reason: str, cites: tuple[int, ...], expected: int | None
) -> None:
    assert addressed_step(Verdict(NAME, 0.5, "PROGRESS", 5, cites, reason)) == expected


WORDS = st.lists(
    st.tuples(st.sampled_from("PRDE?"), st.one_of(st.none(), st.integers(0, 9))), max_size=10
)


@given(words=WORDS, passed=st.sampled_from([True, False, None]), seed=st.randoms())
def test_patterns_do_not_depend_on_the_order_or_the_numbers_of_steps(
    words: list[tuple[str, int | None]], passed: bool | None, seed: Random
) -> None:
    text = " ".join(
        letter if about is None or letter == "?" or about >= place else f"{letter}>{about}"
        for place, (letter, about) in enumerate(words)
    )
    said = find_label_patterns(labelled(text), range(99), passed=passed)
    mixed = labelled(text)
    seed.shuffle(mixed)
    assert find_label_patterns(mixed, range(99), passed=passed) == said
    apart = find_label_patterns(labelled(text, first=0, every=5), range(99), passed=passed)
    for name, one in said.items():
        other = apart[name]
        if isinstance(one, Unmeasured) or isinstance(other, Unmeasured):
            assert one == other
        else:
            assert [(p.step - 2) // 2 for p in one] == [p.step // 5 for p in other]


@given(words=WORDS)
def test_an_error_is_in_one_pattern_at_most_and_every_recovery_has_its_step(
    words: list[tuple[str, int | None]],
) -> None:
    text = " ".join(
        letter if about is None or letter == "?" or about >= place else f"{letter}>{about}"
        for place, (letter, about) in enumerate(words)
    )
    answers = labelled(text)
    labels = {a.step: a.label for a in answers if isinstance(a, Verdict)}
    said = find_label_patterns(answers, range(99), passed=True)
    cascade, healthy = said["cascade"], said["healthy_recovery"]
    if isinstance(cascade, Unmeasured) or isinstance(healthy, Unmeasured):
        return
    errors = [one.step for one in (*cascade, *healthy)]
    assert len(set(errors)) == len(errors)
    assert all(labels[step] == "ERROR" for step in errors)
    for one in healthy:
        assert labels[one.cites[1]] != "ERROR"
        assert 0 < one.cites[1] - one.cites[0] <= 4


def test_the_judges_recoveries_stand_beside_those_that_results_show() -> None:
    made = run(
        user("cancel A1 and B2"),
        *failed("get_order", id="A"),  # 1, 2: mended by 3
        *did("get_order", id="A1"),
        *failed("cancel_order", id="A1"),  # 5, 6: told as done
        agent("A1 is cancelled."),
        *failed("get_order", id="B"),  # 8, 9: mended by 10
        *did("get_order", id="B2"),
    )
    recovery = list(registry.measure("recovery")(made, None, None))
    said: list[Answer] = [
        Verdict(NAME, 0.1, "ERROR", 1, (1,), "no such order"),
        Verdict(NAME, 0.9, "PROGRESS", 3, (3, 1), "addresses 1: the right number"),
        Verdict(NAME, 0.2, "PROGRESS", 5, (5,), "the tool's own fault"),
        Verdict(NAME, 0.0, "ERROR", 7, (7,), "claims what failed"),
        Verdict(NAME, 0.1, "ERROR", 8, (8,), "no such order"),
        Verdict(NAME, 0.9, "PROGRESS", 10, (10,), "looks it up"),
    ]
    assert compare_recoveries(said, ACTED, recovery) == RecoveryComparison(
        both=1, judge=0, rules=1, neither=0, unknown=0, judge_only=1, rules_only=1
    )
    assert labelled_errors(said, ACTED)[0] == LabelledError(1, "recovered", 3)


def test_an_error_that_the_judge_left_open_is_counted_apart() -> None:
    made = run(user("A1"), *failed("get_order", id="A"), *did("other"))
    recovery = list(registry.measure("recovery")(made, None, None))
    said: list[Answer] = [
        Verdict(NAME, 0.1, "ERROR", 1, (1,), "no such order"),
        Unmeasured("unparsable", "missing_step: 3", NAME, 3),
    ]
    assert compare_recoveries(said, ACTED, recovery).unknown == 1
    addressing = Verdict(NAME, 0.5, "PROGRESS", 3, (3, 1), "addresses 1: tells of it")
    assert compare_recoveries([said[0], addressing], ACTED, recovery).judge == 1
    silent = Verdict(NAME, 0.5, "PROGRESS", 3, (3,), "goes on")
    assert compare_recoveries([said[0], silent], ACTED, recovery).neither == 1
