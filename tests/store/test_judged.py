from __future__ import annotations

import msgspec
import pytest

from stepscope.errors import UsageError
from stepscope.model import Record, Verdict
from stepscope.store import Store
from stepscope.store.judged import (
    JudgeAnswers,
    JudgedQuestion,
    choose_modes,
    current_records,
    judge_version_order,
    name_and_snapshot,
    read_judge_answers,
)
from stepscope.store.where import parse_where
from stepscope.values import Unmeasured
from tests.factories import run, user

ONE, TWO = "openai/gpt-5", "anthropic/claude"
AXIS = "judge.axes.termination"


def said(
    label: str, *, at: str = "r1", judge: str = ONE, version: str = "1", prompt: str = "a",
    repeat: int = 0, step: int | None = None, measure: str = AXIS, family: str = "openai",
) -> Record:  # fmt: skip
    return Record(
        trajectory=at,
        answer=Verdict(measure, label=label, step=step),
        version=version,
        family=family,
        judge=judge,
        rubric=measure.removeprefix("judge."),
        prompt=prompt,
        repeat=repeat,
    )


def held(*records: Record, runs: int = 1, where: str | None = None) -> tuple[JudgeAnswers, ...]:
    with Store.open(":memory:") as store:
        store.put([run(user("hi"), id=f"r{n}", name=f"n{n}") for n in range(1, runs + 1)])
        store.append(records)
        chosen = None if where is None else parse_where(where)
        return read_judge_answers(store, store.runs(chosen), chosen)


def labels(found: JudgeAnswers) -> dict[int, str | None]:
    return {
        at: answer.label
        for at, of_run in found.runs.items()
        if of_run.verdict is not None and isinstance(answer := of_run.verdict.answer, Verdict)
    }


def test_judges_are_apart_and_their_snapshots_are_one_judge() -> None:
    one, two = held(
        said("correct", judge=f"{ONE}@2026-08-07"),
        said("incorrect", at="r2"),
        said("correct", judge=TWO, family="anthropic"),
        runs=2,
    )
    assert (one.asked.judge, two.asked.judge) == (TWO, ONE)
    assert labels(two) == {0: "correct", 1: "incorrect"}
    assert two.snapshots == {"": 1, "2026-08-07": 1}


def test_the_latest_version_is_current_and_the_others_are_counted() -> None:
    (found,) = held(said("correct", version="9"), said("incorrect", version="10", prompt="b"))
    assert (found.version, found.prompts, labels(found)) == ("10", {"b": 1}, {0: "incorrect"})
    assert found.older == {"9": 1}
    assert len(found.all) == 2


def test_the_version_of_most_runs_is_current_or_the_one_that_is_asked_for() -> None:
    """One new answer does not set aside those that were paid for."""
    records = (said("correct"), said("correct", at="r2"), said("incorrect", version="2"))
    (found,) = held(*records, runs=2)
    assert (found.version, found.older, labels(found)) == (
        "1",
        {"2": 1},
        {0: "correct", 1: "correct"},
    )
    with Store.open(":memory:") as store:
        store.put([run(user("hi"), id=f"r{n}", name=f"n{n}") for n in (1, 2)])
        store.append(records)
        runs = store.runs()
        (found,) = read_judge_answers(store, runs, version="2")
        assert (found.older, labels(found)) == ({"1": 2}, {0: "incorrect"})
        with pytest.raises(UsageError, match="under rubric version '3'; there are 1, 2"):
            read_judge_answers(store, runs, version="3")


def test_what_was_not_asked_does_not_make_a_version_current() -> None:
    noted = [said("", at=f"r{n}", version="2") for n in (2, 3)]
    absent = Unmeasured("not_applicable", "the run is not known to have failed", AXIS)
    notes = [msgspec.structs.replace(one, answer=absent) for one in noted]
    (found,) = held(said("correct"), *notes, runs=3)
    assert (found.version, labels(found), found.older) == ("1", {0: "correct"}, {"2": 2})


def test_a_run_has_the_answer_of_its_last_prompt_and_prompts_are_counted() -> None:
    (found,) = held(
        said("correct", prompt="b"), said("incorrect", prompt="a"), said("correct", at="r2"), runs=2
    )
    assert labels(found) == {0: "correct", 1: "correct"}
    assert (found.prompts, found.older) == ({"a": 1, "b": 1}, {})


def test_of_two_snapshots_a_run_has_the_answer_of_the_later() -> None:
    (found,) = held(
        said("correct", judge=f"{ONE}@2026-08"), said("incorrect", judge=f"{ONE}@2026-02")
    )
    assert labels(found) == {0: "correct"}


def test_another_mode_is_another_question() -> None:
    plain, off = held(said("correct"), said("incorrect", version="1+narration-off"))
    assert (plain.asked.mode, off.asked.mode) == ("", "narration-off")
    assert (plain.version, off.version) == ("1", "1")
    assert (plain.main, off.main) == (True, False)
    assert (labels(plain), labels(off)) == ({0: "correct"}, {0: "incorrect"})


def test_a_judge_that_was_asked_in_another_mode_alone_says_that() -> None:
    (found,) = held(said("incorrect", version="1+narration-off"))
    assert found.main


def test_repeats_and_steps_stand_beside_the_verdict() -> None:
    (found,) = held(said("correct"), said("incorrect", repeat=1), said("ERROR", step=0))
    of_run = found.runs[0]
    assert labels(found) == {0: "correct"}
    assert sorted(of_run.whole) == [0, 1]
    assert list(of_run.steps[0]) == [0]


def test_rules_and_scores_of_files_are_no_judges() -> None:
    score = Record(trajectory="r1", answer=Verdict("scores", 0.5, step=0), version="1",
                   family="imported", judge="people")  # fmt: skip
    rule = Record(trajectory="r1", answer=Verdict("axes.termination", label="correct"), version="1")
    assert held(score, rule) == ()


def test_scores_of_a_judge_are_a_judges() -> None:
    score = Record(trajectory="r1", answer=Verdict("scores", 0.5, step=0), version="1",
                   family="openai", judge=ONE, rubric="no_look")  # fmt: skip
    (found,) = held(score)
    assert (found.asked.measure, found.rubric) == ("scores", "no_look")


def test_an_address_of_a_person_is_no_snapshot() -> None:
    (found,) = held(said("correct", judge="ann@example.org", family="imported"))
    assert (found.asked.judge, found.snapshots) == ("ann@example.org", {"": 1})


def test_runs_that_are_not_chosen_are_not_read() -> None:
    (found,) = held(said("correct"), said("incorrect", at="r2"), runs=2, where="name = 'n2'")
    assert labels(found) == {0: "incorrect"}


@pytest.mark.parametrize("reverse", [False, True])
def test_the_current_records_of_a_run_do_not_depend_on_their_order(reverse: bool) -> None:
    rule = Record(trajectory="r1", answer=Verdict("axes.termination", label="correct"), version="1")
    records = [said("correct"), said("incorrect", version="2"), rule]
    kept = current_records(reversed(records) if reverse else records)
    assert sorted((r.family, r.version) for r in kept) == [("openai", "2"), ("rules", "1")]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_later_snapshot_and_prompt_win_in_any_order(reverse: bool) -> None:
    records = [
        said("correct", judge=f"{ONE}@b"),
        said("incorrect", judge=f"{ONE}@a"),
        said("correct", prompt="b", measure="judge.axes.sequencing"),
        said("incorrect", prompt="a", measure="judge.axes.sequencing"),
    ]
    kept = current_records(reversed(records) if reverse else records)
    assert [one.answer.label for one in kept if isinstance(one.answer, Verdict)] == ["correct"] * 2


def test_a_snapshot_is_told_from_the_name_that_was_asked_for() -> None:
    assert name_and_snapshot(said("correct", judge="a/b@c")) == ("a/b", "c")
    assert name_and_snapshot(said("correct", judge="a/b")) == ("a/b", "")
    assert name_and_snapshot(said("correct", judge="ann@c", family="human")) == ("ann@c", "")


def test_of_the_modes_of_a_judge_the_usual_one_is_chosen_if_it_was_asked() -> None:
    off = JudgedQuestion("axes.termination", "a/b", "a", "narration-off")
    usual = off._replace(mode="")
    assert choose_modes([off]) == {off}
    assert choose_modes([off, usual]) == {usual}


def test_numbers_order_versions() -> None:
    assert max("9", "10", key=judge_version_order) == "10"
