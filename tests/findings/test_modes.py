"""Failure modes: what is one mode, what is shown of it, and what chance brings as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from stepscope.findings.modes import UNSEEN, FailureMode, FailureModes, ModeVerdict, find_modes
from stepscope.store.columns import ANSWERED, Rows, Runs, cell_state
from stepscope.values import Estimate, Unmeasured
from tests.report.rows import LiteralRows, rows, texts

BOOK, PAY, SEND = "book fails: full", "pay fails: too little", "send fails: no such customer"
MISSING = "expected call missing: pay"
BLIND = cell_state("missing_input")

# A run as literals: its task, whether it passed (None: nobody knows), its signatures.
Line = tuple[str, bool | None, Sequence[str]]


def fleet(lines: Sequence[Line], versions: Sequence[str | None] = ()) -> tuple[Rows, Runs]:
    outcomes = [None if passed is None else float(passed) for _, passed, _ in lines]
    literal = LiteralRows(
        tasks=[task for task, _, _ in lines],
        values={"outcome": outcomes, "step_labels": [0.0] * len(lines)},
        signatures=[held for _, _, held in lines],
    )
    agents = texts(versions or [None] * len(lines))
    return rows(literal), replace(literal.runs(), agent_version=agents)


def modes(lines: Sequence[Line], versions: Sequence[str | None] = ()) -> FailureModes:
    held, runs = fleet(lines, versions)
    found = find_modes(held, runs, np.unique(runs.task, return_inverse=True)[1])
    assert isinstance(found, FailureModes)
    return found


def named(found: FailureModes, name: str) -> FailureMode:
    (mode,) = [mode for mode in found.modes if mode.name == name]
    return mode


def task(name: str, *trials: tuple[bool | None, Sequence[str]]) -> list[Line]:
    return [(name, passed, held) for passed, held in trials]


def mixed(name: str, *held: str) -> list[Line]:
    """Two trials that passed, and one of two that failed has these signatures."""
    return task(name, (True, ()), (True, ()), (False, ()), (False, held))


def test_a_signature_of_three_runs_of_two_tasks_is_a_mode() -> None:
    lines = [*mixed("a", BOOK), *mixed("b", BOOK), *mixed("c", BOOK, PAY), *mixed("d", PAY)]
    lines += task("e", *[(False, (SEND,))] * 3)
    found = modes(lines)
    assert [mode.name for mode in found.modes] == [BOOK]
    # Two runs are too few, and three of one task are one task's matter.
    assert (found.n_signatures, found.n_lone) == (3, 2)


def test_runs_that_rules_could_not_see_are_counted_apart() -> None:
    lines = [line for name in "abcdef" for line in mixed(name, BOOK)]
    literal, runs = fleet(lines)
    tasks = np.unique(runs.task, return_inverse=True)[1]
    assert isinstance(literal, LiteralRows)
    # Of the runs with the mode three are erased: they are no runs without it.
    states = [BLIND if at in (3, 7, 11) else ANSWERED for at in range(len(lines))]
    held = [() if state == BLIND else of for state, (*_, of) in zip(states, lines, strict=True)]
    found = find_modes(replace(literal, states=states, signatures=held), runs, tasks)
    assert isinstance(found, FailureModes)
    mode = named(found, BOOK)
    assert (mode.runs, mode.failed, mode.p) == (3, 3, 1 / 8)
    assert (found.n_failed, found.unmeasured) == (9, {"missing_input": 3})
    assert isinstance(mode.worth, Estimate)
    assert (mode.worth.n, mode.worth.unmeasured) == (21, {"missing_input": 3})
    assert find_modes(replace(literal, states=[BLIND] * len(lines)), runs, tasks) == UNSEEN


def test_p_is_that_of_the_outcomes_of_each_task_handed_out_anew() -> None:
    found = modes([line for name in "abcdef" for line in mixed(name, BOOK)])
    mode = named(found, BOOK)
    # Each of six runs failed where two of four trials did.
    assert (mode.failed, mode.expected, mode.p) == (6, 3.0, 1 / 64)
    assert mode.p_adjusted == 1 / 64
    assert mode.verdict == "marks_failure"
    # With p as small in one of one mode tested: chance brings 1/64 of a mode.
    assert mode.by_chance == 1 / 64
    assert (found.n_tested, found.n_shown, found.n_small) == (1, 1, 1)


def test_fewer_failures_than_expected_mark_none() -> None:
    lines = [
        line
        for name in "abcdef"
        for line in task(name, (True, (BOOK,)), (True, ()), (False, ()), (False, ()))
    ]
    mode = named(modes(lines), BOOK)
    assert (mode.p, mode.verdict) == (1.0, "harmless")


def test_a_mode_that_only_marks_hard_tasks_is_said_to() -> None:
    hard = [
        line
        for name in "abcd"
        for line in task(
            name, (False, (BOOK,)), (False, (BOOK,)), (False, (BOOK,)), (False, ()), (True, ())
        )
    ]
    easy = [line for name in "efghijkl" for line in task(name, *[(True, ())] * 4)]
    mode = named(modes([*hard, *easy]), BOOK)
    assert (mode.failed, mode.runs) == (12, 12)
    assert mode.p == pytest.approx(0.4**4)
    shared = [
        line
        for name in "abcd"
        for line in task(name, (False, (BOOK,)), (False, (BOOK,)), (False, ()), (False, ()))
    ]
    one = task("x", (False, (BOOK,)), (False, ()), (False, ()), (True, ()))
    mode = named(modes([*shared, *one, *easy]), BOOK)
    assert mode.p == 0.75
    assert mode.verdict == "hard_tasks"


def test_where_no_task_tells_nothing_is_tested() -> None:
    lines = [line for name in "abcdef" for line in task(name, (False, (BOOK,)))]
    found = modes(lines)
    mode = named(found, BOOK)
    assert (mode.p, mode.p_adjusted, mode.by_chance) == (None, None, None)
    assert mode.verdict == "not_tested"
    assert found.n_tested == 0


def test_what_the_outcome_is_judged_by_is_counted_and_never_tested() -> None:
    found = modes([line for name in "abcdef" for line in mixed(name, MISSING)])
    mode = named(found, MISSING)
    assert (mode.failed, mode.p, mode.verdict) == (6, None, "judged_by")
    assert (found.n_tested, found.n_judged_by) == (0, 6)


def test_runs_without_an_outcome_have_a_mode_and_no_part_in_its_test() -> None:
    lines = [line for name in "abcdef" for line in mixed(name, BOOK)]
    unknown = [line for name in "abcdef" for line in task(name, (None, (BOOK,)), (None, ()))]
    mode = named(modes([*lines, *unknown]), BOOK)
    assert (mode.runs, mode.failed, mode.p) == (12, 6, 1 / 64)


def test_signatures_that_stand_in_the_same_runs_are_one_mode() -> None:
    lines = [line for name in "abcde" for line in mixed(name, BOOK, PAY)]
    lines += mixed("f", BOOK)
    found = modes(lines)
    assert [mode.signatures for mode in found.modes] == [(BOOK, PAY)]
    assert found.modes[0].runs == 6


@pytest.mark.parametrize(("alone", "one_mode"), [(1, True), (2, False)])
def test_a_signature_that_often_stands_alone_is_a_mode_of_its_own(
    alone: int, one_mode: bool
) -> None:
    # In four of five runs, or of six, each stands with the other.
    lines = [line for name in "abcd" for line in mixed(name, BOOK, PAY)]
    lines += [
        line for text in (BOOK, PAY) for at in range(alone) for line in mixed(f"{text}{at}", text)
    ]
    assert (len(modes(lines).modes) == 1) == one_mode


def test_a_part_of_a_common_signature_is_a_mode_of_its_own() -> None:
    # What follows from an error in few of its runs says more than the error.
    lines = [line for name in "abc" for line in mixed(name, BOOK, PAY)]
    lines += [line for name in "defghijk" for line in mixed(name, BOOK)]
    assert sorted(mode.name for mode in modes(lines).modes) == [BOOK, PAY]


def test_what_the_outcome_is_judged_by_is_never_one_mode_with_what_is_tested() -> None:
    found = modes([line for name in "abcdef" for line in mixed(name, BOOK, MISSING)])
    assert [(mode.name, mode.verdict) for mode in found.modes] == [
        (BOOK, "marks_failure"), (MISSING, "judged_by"),
    ]  # fmt: skip
    # A run is counted once, under what was tested.
    assert [len(mode.assigned) for mode in found.modes] == [6, 0]


def test_a_failed_run_is_counted_under_the_mode_that_chance_explains_least() -> None:
    lines = [line for name in "abcdef" for line in mixed(name, BOOK)]
    lines += [line for name in "ghi" for line in mixed(name, PAY)]
    lines += mixed("j", BOOK, PAY)
    found = modes(lines)
    assert len(named(found, BOOK).assigned) == 7
    assert len(named(found, PAY).assigned) == 3
    assert isinstance(found.unassigned, Estimate)
    # Of twenty failed runs ten are in neither.
    assert (found.n_failed, found.unassigned.value, found.unassigned.n) == (20, 0.5, 20)
    assert found.unassigned.low is not None


def test_modes_that_could_never_be_shown_weigh_on_no_other() -> None:
    lines = [line for name in "abcdef" for line in mixed(name, BOOK)]
    # Four runs in tasks of their own: their smallest p is 1/16.
    lines += [line for name in "ghij" for line in mixed(name, PAY)]
    found = modes(lines)
    assert named(found, BOOK).p_adjusted == 1 / 64
    assert (named(found, PAY).p, named(found, PAY).p_adjusted) == (1 / 16, 1.0)
    assert named(found, PAY).verdict == "unclear"
    # With five runs its smallest p is 1/32: enough alone, too much beside another.
    lines += mixed("k", PAY)
    assert named(modes(lines), BOOK).p_adjusted == 1 / 64
    # Near miss: six runs could be shown, and so two modes are adjusted.
    lines += mixed("l", PAY)
    assert named(modes(lines), BOOK).p_adjusted == 2 / 64


def test_worth_is_the_share_of_runs_that_failed_with_it() -> None:
    mode = named(modes([line for name in "abcdef" for line in mixed(name, BOOK)]), BOOK)
    assert isinstance(mode.worth, Estimate)
    assert (mode.worth.value, mode.worth.n, mode.worth.n_tasks) == (0.25, 24, 6)
    assert mode.worth.low is not None
    assert mode.worth.high is not None
    assert mode.worth.low < 0.25 < mode.worth.high


def test_examples_are_failed_runs_of_several_tasks() -> None:
    lines = [*task("a", (True, (BOOK,)), (False, (BOOK,)), (False, (BOOK,)))]
    lines += task("b", (True, (BOOK,)), (False, (BOOK,)))
    mode = named(modes(lines), BOOK)
    _, runs = fleet(lines)
    assert [one.name for one in mode.examples] == [runs.name[at] for at in (1, 4, 2)]
    assert [one.step for one in mode.examples] == [3, 3, 3]


def test_begins_counts_runs_by_the_fifth_of_the_run() -> None:
    mode = named(modes([line for name in "abc" for line in mixed(name, BOOK)]), BOOK)
    steps = int(fleet(mixed("a"))[1].steps[0])
    assert sum(mode.begins) == 3
    assert mode.begins[3 * 5 // steps] == 3


def test_versions_of_the_agent_have_their_share_each() -> None:
    lines = [line for name in "abc" for line in mixed(name, BOOK)]
    versions = ["9"] * 4 + ["10"] * 8
    mode = named(modes(lines, versions), BOOK)
    assert list(mode.versions) == ["9", "10"]
    ten = mode.versions["10"]
    assert isinstance(ten, Estimate)
    assert (ten.value, ten.n) == (0.25, 8)
    # One task says nothing of tasks like it.
    nine = mode.versions["9"]
    assert isinstance(nine, Estimate)
    assert (nine.value, nine.no_interval) == (0.25, "no interval: one task")
    assert named(modes(lines, ["9"] * 12), BOOK).versions == {}


def test_no_signature_is_no_mode_and_no_answer_is_unmeasured() -> None:
    found = modes([*mixed("a"), *mixed("b")])
    assert (found.modes, found.n_modes) == ((), 0)
    assert isinstance(found.unassigned, Estimate)
    assert found.unassigned.value == 1.0
    literal = LiteralRows(tasks=["a", "b"])
    none = find_modes(rows(literal), literal.runs(), np.array([0, 1]))
    assert isinstance(none, Unmeasured)


def test_chance_brings_as_many_modes_as_have_a_p_as_small_that_can_be() -> None:
    # Of half of the trials of each task that failed one has it: 6 tasks, then 4.
    found = modes([line for at in range(10) for line in mixed(str(at), BOOK if at < 6 else PAY)])
    book, pay = named(found, BOOK), named(found, PAY)
    assert (book.p, pay.p) == (1 / 64, 1 / 16)
    # The second has no p of 1/64; the first has none of 1/16, the next above 1/64 is 7/64.
    assert (book.by_chance, pay.by_chance) == (1 / 64, 1 / 64 + 1 / 16)
    assert (found.n_small, found.small_by_chance) == (1, 1 / 64)


def test_texts_that_no_run_has_are_no_signatures() -> None:
    held, runs = fleet([*mixed("a", BOOK), *mixed("b", BOOK), *mixed("c", BOOK)])
    more = replace(held.signs(runs), texts=(*held.signs(runs).texts, PAY))
    object.__setattr__(held, "signs", lambda runs, known: more)
    found = find_modes(held, runs, np.unique(runs.task, return_inverse=True)[1])
    assert isinstance(found, FailureModes)
    assert (found.n_signatures, found.n_lone, found.n_modes) == (1, 0, 1)


def test_no_failed_run_leaves_the_share_unmeasured() -> None:
    found = modes([line for name in "abc" for line in task(name, (True, (BOOK,)))])
    assert isinstance(found.unassigned, Unmeasured)
    assert named(found, BOOK).verdict == "not_tested"


ORDER: list[ModeVerdict] = ["marks_failure", "judged_by", "harmless"]


def test_what_marks_failure_is_first_and_the_harmless_last() -> None:
    lines = [line for name in "abcdef" for line in mixed(name, BOOK, MISSING)]
    lines += [
        line
        for name in "ghij"
        for line in task(name, (True, (PAY,)), (True, ()), (False, ()), (False, ()))
    ]
    assert [mode.verdict for mode in modes(lines).modes] == ORDER
