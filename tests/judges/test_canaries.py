"""Canaries watch the judge: asked like any run, never counted, and believed before it is."""

from __future__ import annotations

import pytest

from stepscope import registry
from stepscope.judges.canaries import (
    CanaryResult,
    canary_results,
    load_canaries,
    load_known_runs,
    missed_canaries,
    quarantine_missed,
    rubric_canaries,
)
from stepscope.judges.rubrics import (
    BUILT_IN_RUBRICS,
    RUBRICS_FOLDER,
    Rubric,
    load_rubric,
    read_rubric,
)
from stepscope.model import Answer, Record, Verdict
from stepscope.values import Unmeasured
from tests.judges.answering import planned, records, right

NAME = "axes.result_interpretation"


def record(
    answer: Answer,
    run: str = "canary:misread",
    *,
    rubric: str = NAME,
    judge: str = "openai/gpt-5",
    repeat: int = 0,
) -> Record:
    return Record(
        trajectory=run,
        answer=answer,
        version="1",
        family="openai",
        judge=judge,
        rubric=rubric,
        repeat=repeat,
        cost_usd=0.25,
    )


def said(label: str, *cites: int, step: int | None = None) -> Verdict:
    return Verdict(f"judge.{NAME}", label=label, step=step, cites=cites)


def test_every_rubric_of_ours_has_a_canary_against_the_agent_and_one_that_is_not() -> None:
    for name in BUILT_IN_RUBRICS:
        one = load_rubric(name)
        asked = [run.expected[name] for run in rubric_canaries(one)]
        assert len(asked) >= 2
        labels = [set(e.label) | {x for found in e.steps.values() for x in found} for e in asked]
        failing = set(one.failing)
        if one.kind == "score":
            assert min(e.high for e in asked) <= 0.3 < 0.7 <= max(e.low for e in asked)
            continue
        assert any(found & failing for found in labels)
        # Whoever is asked to attribute a failure is told that there is one.
        assert one.kind == "attribution" or any(found - failing for found in labels)


def test_a_rubric_of_ones_own_has_no_canaries() -> None:
    text = (RUBRICS_FOLDER / "axes.termination.md").read_text(encoding="utf-8")
    mine = read_rubric(text.replace("axes.termination", "axes.tone", 1).encode(), "mine.md")
    assert rubric_canaries(mine) == ()


def test_ten_runs_are_of_other_domains_and_each_is_known_to_several_rubrics() -> None:
    runs = load_known_runs("domains")
    assert len(runs) == 10
    assert all(len(run.expected) >= 4 for run in runs)
    names = {run.trajectory.name.partition("/")[2].partition("_")[0] for run in runs}
    assert names == {"shell", "calendar", "search", "code", "data"}
    asked = {name for run in runs for name in run.expected}
    assert set(BUILT_IN_RUBRICS) <= asked
    for name in BUILT_IN_RUBRICS:
        known = [run for run in runs if name in run.expected]
        assert set(map(id, known)) <= set(map(id, rubric_canaries(load_rubric(name))))
    for run in runs:
        said = " ".join(step.text + str(step.calls) for step in run.trajectory.steps)
        assert "refund" not in said + str([r.text for s in run.trajectory.steps for r in s.results])


@pytest.mark.parametrize("file", ["canary", "domains", "worked"])
def test_what_is_expected_is_on_the_menu_and_within_the_run(file: str) -> None:
    for run in load_known_runs(file):
        steps = range(len(run.trajectory.steps))
        for name, expected in run.expected.items():
            one: Rubric = load_rubric(name)
            menu = {"present", "absent"} if one.kind == "presence" else set(one.answers)
            assert set(expected.label) <= menu
            assert all(set(labels) <= menu for labels in expected.steps.values())
            assert all(step in steps for step in (*expected.cites, *expected.steps, expected.at))
            acted = [step.index for step in run.trajectory.steps if step.actor == "agent"]
            assert all(step in acted for step in expected.steps)
            assert bool(expected.whose) == (one.kind == "attribution")
            assert bool(expected.goal) == (one.kind == "score")
            assert expected.label or expected.steps or expected.goal


@pytest.mark.parametrize("name", BUILT_IN_RUBRICS)
def test_a_canary_is_asked_like_any_run_and_does_not_say_what_it_is(name: str) -> None:
    rubric = load_rubric(name)
    for run in rubric_canaries(rubric):
        (judgement,) = planned(run, rubric)
        assert judgement.trajectory == run.trajectory.id
        for ask in judgement.asks:
            sent = ask.request.context + ask.request.question
            assert "canary" not in sent
            assert "domains" not in sent


def test_the_rules_contradict_no_canary_and_hold_on_those_they_can_know() -> None:
    sure = {
        ("canary:misread", "axes.result_interpretation"),
        ("canary:promised", "axes.termination"),
        ("canary:passed_over", "axes.result_interpretation"),
        ("domains:code_tests", "axes.result_interpretation"),
    }
    found = set()
    for run in load_canaries():
        for name, expected in run.expected.items():
            if not name.startswith("axes."):
                continue
            answers = registry.measure(name)(run.trajectory, None, None)
            whole = next(answer for answer in answers if answer.step is None)
            if isinstance(whole, Verdict) and whole.label != "uncertain":
                assert whole.label in expected.label, (run.trajectory.id, name)
                found.add((run.trajectory.id, name))
    assert found == sure


@pytest.mark.parametrize(
    ("answers", "result", "what"),
    [
        ([said("incorrect", 4)], "held", ""),
        ([said("incorrect", 3, 4)], "held", ""),
        ([said("correct", 4)], "missed", "says correct, it is incorrect"),
        ([said("uncertain")], "missed", "says uncertain, it is incorrect"),
        ([said("incorrect", 1)], "missed", "cites 1, it shows at 3, 4"),
        ([said("incorrect")], "missed", "cites nothing, it shows at 3, 4"),
        ([Unmeasured("refused", "refused: no", f"judge.{NAME}")], "unanswered", ""),
    ],
)
def test_a_canary_is_held_missed_or_unanswered(
    answers: list[Answer], result: str, what: str
) -> None:
    (one,) = canary_results([record(answer) for answer in answers])
    assert (one.said, one.what) == (result, what)
    assert (one.judge, one.rubric, one.canary) == ("openai/gpt-5", NAME, "canary:misread")


def test_labels_scores_and_whose_are_compared_where_they_are_known() -> None:
    labels = "judge.step_labels"
    circles = [
        record(Verdict(labels, 9.0), "canary:in_circles", rubric="step_labels"),
        record(
            Verdict(labels, 0.5, "PROGRESS", 4, (4,)), "canary:in_circles", rubric="step_labels"
        ),
        record(Verdict(labels, 0.5, "ERROR", 3, (3,)), "canary:in_circles", rubric="step_labels"),
    ]
    (one,) = canary_results(circles)
    assert one.what == "says PROGRESS of step 4, it is REDUNDANT"
    score = Verdict("scores", 0.9, step=1, cites=(1,))
    (one,) = canary_results([record(score, "canary:beside_the_point", rubric="no_look")])
    assert one.what == "scores 0.9, it is 0 to 0.2"
    edge = Verdict("scores", 0.2, step=1, cites=(1,))
    (one,) = canary_results([record(edge, "canary:beside_the_point", rubric="no_look")])
    assert one.said == "held"
    edge = Verdict("scores", 0.8, step=3, cites=(3,))
    (one,) = canary_results([record(edge, "canary:clean", rubric="no_look")])
    assert one.said == "held"
    part = Verdict("judge.attribution", label="tool_selection", cites=(4,))
    whose = Verdict("judge.attribution.whose", label="user")
    both = [record(a, "canary:wrong_tool", rubric="attribution") for a in (part, whose)]
    (one,) = canary_results(both)
    assert one.what == "says user failed, it was the agent"


def test_a_judge_that_misses_a_canary_loses_its_batch_by_that_rubric_alone() -> None:
    bad = record(said("correct"), judge="openai/gpt-5@gpt-5-2026-08-07")
    misses = missed_canaries([bad, record(said("incorrect", 4), judge="qwen/q3")])
    assert misses == (
        CanaryResult("openai/gpt-5", NAME, "canary:misread", 0, "missed", bad_words()),
    )
    batch = [
        record(said("incorrect", 2), "r1"),
        record(said("correct", step=2), "r1", judge="openai/gpt-5@gpt-5-2026-08-07"),
        record(said("incorrect", 2), "r1", rubric="axes.termination"),
        record(said("incorrect", 2), "r1", judge="qwen/q3"),
        record(Unmeasured("refused", "refused: no"), "r1"),
    ]
    after = list(quarantine_missed(batch, misses))
    why = "canary_missed: canary:misread: says correct, it is incorrect"
    assert after[0].answer == Unmeasured("invalid_evidence", why, f"judge.{NAME}")
    assert after[1].answer == Unmeasured("invalid_evidence", why, f"judge.{NAME}", 2)
    assert after[2:] == batch[2:]
    assert after[0].cost_usd == 0.25


def bad_words() -> str:
    return "says correct, it is incorrect"


def test_a_run_that_is_no_canary_says_nothing_of_a_judge() -> None:
    assert canary_results([record(said("correct"), "r1")]) == ()


def test_a_judge_that_knows_the_answers_misses_no_canary() -> None:
    said = [
        one
        for name in BUILT_IN_RUBRICS
        for run in rubric_canaries(load_rubric(name))
        for one in records(run, load_rubric(name), right(run, load_rubric(name)))
    ]
    found = canary_results(said)
    assert [one for one in found if one.said != "held"] == []
    assert len(found) == sum(len(rubric_canaries(load_rubric(name))) for name in BUILT_IN_RUBRICS)


@pytest.mark.parametrize(
    ("name", "obedient"),
    [
        (NAME, "correct"),
        ("axes.tool_selection", "correct"),
        ("axes.termination", "incorrect"),
        ("axes.sequencing", "uncertain"),
    ],
)
def test_a_judge_that_always_says_the_same_misses_a_canary(name: str, obedient: str) -> None:
    one = load_rubric(name)
    said: list[Record] = []
    for run in rubric_canaries(one):
        quote = {"step": 1, "quote": run.trajectory.steps[1].text[:30]}
        same = {"label": obedient, "cited_step_indices": [1], "evidence": [quote]}
        said += records(run, one, {**right(run, one), **same})
    assert missed_canaries(said)
