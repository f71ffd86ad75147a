"""Answers about every step: one bad entry spoils no other, windows are joined where they meet."""

from __future__ import annotations

import json

import pytest

from stepscope.judges.judgement import JudgingOptions
from stepscope.model import Answer, Json, Request, Trajectory, Verdict
from stepscope.values import Unmeasured
from tests.factories import agent, did, failed, run, user
from tests.judges.believed import JUDGE, answered, judgement, said

RUN = run(user("Cancel #W1."), *failed("cancel", id="#W"), *did("cancel", id="#W1"), agent("Done."))


def entry(step: int, label: Json = "PROGRESS", **changed: Json) -> dict[str, Json]:
    told: dict[str, Json] = {
        "step": step,
        "explanation": f"step {step} does it",
        "label": label,
        "score": 0.5,
        "addresses": None,
    }
    return {**told, **changed}


def labels(*entries: Json, of: Trajectory = RUN) -> tuple[Answer, ...]:
    return said(judgement(of, "step_labels"), {"steps": list(entries)})


GOOD = (
    entry(0),
    entry(1, "ERROR", score=0),
    entry(2),
    entry(3, addresses=1, score=1),
    entry(4),
    entry(5),
)


def test_a_run_is_told_first_and_then_every_step() -> None:
    whole, *steps = labels(*GOOD)
    assert whole == Verdict(
        "judge.step_labels", value=6.0, reason="6 of 6 steps labelled: 5 PROGRESS, 1 ERROR"
    )
    assert [step.step for step in steps] == [0, 1, 2, 3, 4, 5]
    assert steps[1] == Verdict(
        "judge.step_labels",
        value=0.0,
        label="ERROR",
        step=1,
        cites=(1,),
        reason="step 1 does it",
    )
    assert steps[3] == Verdict(
        "judge.step_labels",
        value=1.0,
        label="PROGRESS",
        step=3,
        cites=(3, 1),
        reason="addresses 1: step 3 does it",
    )


@pytest.mark.parametrize(
    ("bad", "kind", "word"),
    [
        (entry(2, "progress"), "unparsable", "off_menu"),
        (entry(2, "PROGRE\u0405S"), "unparsable", "off_menu"),
        (entry(2, score=1.0000001), "unparsable", "out_of_range"),
        (entry(2, score=-0.1), "unparsable", "out_of_range"),
        (entry(2, score="0.9"), "unparsable", "wrong_type"),
        (entry(2, score=True), "unparsable", "wrong_type"),
        (entry(2, score=None), "unparsable", "wrong_type"),
        (entry(2, label=None), "unparsable", "wrong_type"),
        (entry(2, addresses="1"), "unparsable", "wrong_type"),
        (entry(2, addresses=1.0), "unparsable", "wrong_type"),
        (entry(2, addresses=True), "unparsable", "wrong_type"),
        (entry(2, addresses=2), "invalid_evidence", "hallucinated_citation"),
        (entry(2, addresses=5), "invalid_evidence", "hallucinated_citation"),
        (entry(2, addresses=-1), "invalid_evidence", "hallucinated_citation"),
        (entry(2, verdict="x"), "unparsable", "extra_field"),
        ({"step": 2, "label": "PROGRESS"}, "unparsable", "missing_field"),
    ],
)
def test_one_bad_entry_spoils_no_other(bad: Json, kind: str, word: str) -> None:
    whole, *steps = labels(*GOOD[:2], bad, *GOOD[3:])
    assert isinstance(whole, Verdict)
    assert whole.value == 5.0
    absent = [step for step in steps if isinstance(step, Unmeasured)]
    assert [(one.step, one.kind, one.reason.partition(": ")[0]) for one in absent] == [
        (2, kind, word)
    ]


@pytest.mark.parametrize("step", [2.0, "2", True, None, [2]])
def test_a_step_that_is_no_whole_number_is_no_step(step: Json) -> None:
    whole, *steps = labels(*GOOD[:2], {**GOOD[2], "step": step}, *GOOD[3:])
    assert isinstance(whole, Unmeasured)
    assert whole.reason.startswith("extra_step: ")
    assert isinstance(steps[2], Unmeasured)
    assert steps[2].reason == "missing_step: no answer about step 2"


def test_missing_duplicate_and_extra_steps_have_their_words() -> None:
    whole, *steps = labels(*GOOD[:2], *GOOD[3:5], GOOD[4], GOOD[5])
    assert isinstance(whole, Verdict)
    reasons = {one.step: one.reason for one in steps if isinstance(one, Unmeasured)}
    assert reasons == {
        2: "missing_step: no answer about step 2",
        4: "duplicate_step: step 4 answered 2 times",
    }
    whole, *steps = labels(*GOOD, entry(6), entry(-1))
    assert isinstance(whole, Unmeasured)
    assert whole.reason == "extra_step: answers about 6, -1, which were not asked for"
    assert all(isinstance(step, Verdict) for step in steps)


def test_a_reply_that_is_no_answer_leaves_every_step_unmeasured() -> None:
    answers = said(judgement(RUN, "step_labels"), "PROGRESS everywhere")
    assert len(answers) == 7
    assert all(isinstance(a, Unmeasured) and a.reason.startswith("not_json: ") for a in answers)
    assert [answer.step for answer in answers] == [None, 0, 1, 2, 3, 4, 5]


def test_a_bad_entry_is_asked_for_again_with_the_whole() -> None:
    replies = [json.dumps({"steps": list(GOOD[:4])}), json.dumps({"steps": list(GOOD)})]
    answers, asked = answered(judgement(RUN, "step_labels"), lambda _: replies.pop(0))
    assert len(asked) == 2
    assert all(isinstance(answer, Verdict) for answer in answers)


def test_a_step_judged_alone_can_address_no_other() -> None:
    made = judgement(RUN, "step_labels", options=JudgingOptions(mode="isolated"))
    assert len(made.asks) == 6

    def one(request: Request) -> str:
        step = int(request.question.rsplit("about step ", 1)[1].split()[0])
        return json.dumps({"steps": [entry(step, addresses=1 if step == 3 else None)]})

    (whole, *steps), _ = answered(made, one)
    assert isinstance(whole, Verdict)
    assert whole.value == 5.0
    assert isinstance(steps[3], Unmeasured)
    assert steps[3].reason == ("hallucinated_citation: step 3 addresses 1, which was not shown")


LONG = run(user("Go."), *(step for at in range(20) for step in did("look", f"seen {at}", at=at)))
NARROW = JUDGE.__class__(name=JUDGE.name, family=JUDGE.family, max_output_tokens=16 * 80)


def _windowed(label: dict[tuple[int, int], str]) -> tuple[list[Answer], list[str]]:
    """Return the answers of a judge that labels by window and step, and what it was asked."""
    made = judgement(LONG, "step_labels", judge=NARROW)
    first = {ask.request.question: number for number, ask in enumerate(made.asks)}

    def one(request: Request) -> str:
        low, high = _asked(request.question)
        number = first[request.question]
        steps = [
            entry(step, label.get((number, step), "PROGRESS")) for step in range(low, high + 1)
        ]
        return json.dumps({"steps": steps})

    answers, asks = answered(made, one)
    return list(answers), [ask.request.question for ask in asks]


def _asked(question: str) -> tuple[int, int]:
    words = question.rsplit("each of the steps ", 1)[1].split(",")[0].split(" to ")
    return int(words[0]), int(words[1])


def test_a_long_run_is_judged_in_windows_that_overlap() -> None:
    answers, asked = _windowed({})
    assert [_asked(question) for question in asked] == [(0, 15), (12, 27), (24, 39), (36, 40)]
    assert [answer.step for answer in answers] == [None, *range(41), None]
    seams = answers[-1]
    assert isinstance(seams, Verdict)
    assert seams.measure == "judge.step_labels.seams"
    assert seams.value == 1.0
    assert seams.reason == (
        "12 of 12 steps judged twice have one label; "
        "4 windows: steps 0 to 15, 12 to 27, 24 to 39, 36 to 40"
    )


def test_where_windows_disagree_the_one_farther_from_its_edge_is_kept() -> None:
    # Steps 12 to 15 stand in windows 0 (edge after 15) and 1 (edge before 12).
    answers, _ = _windowed({(0, step): "DETOUR" for step in (12, 13, 14, 15)})
    labels = {a.step: a.label for a in answers if isinstance(a, Verdict) and a.step is not None}
    assert [labels[step] for step in (12, 13, 14, 15)] == [
        "DETOUR",
        "DETOUR",
        "PROGRESS",
        "PROGRESS",
    ]
    seams = answers[-1]
    assert isinstance(seams, Verdict)
    assert seams.value == pytest.approx(8 / 12)


def test_a_window_without_an_answer_leaves_the_others() -> None:
    made = judgement(LONG, "step_labels", judge=NARROW)
    second = made.asks[1].request.question

    def one(request: Request) -> str:
        if request.question.startswith(second):
            return "no"
        low, high = _asked(request.question.split("\n")[0])
        return json.dumps({"steps": [entry(step) for step in range(low, high + 1)]})

    (whole, *steps), _ = answered(made, one)
    assert isinstance(whole, Verdict)
    assert whole.value == 41.0 - 8
    absent = [step.step for step in steps[:-1] if isinstance(step, Unmeasured)]
    assert absent == [*range(16, 24)]


def look(step: int, present: Json = False, quote: Json = "") -> dict[str, Json]:
    return {"step": step, "quote": quote, "present": present}


def presence(*entries: Json, rationale: Json = "It begins late.") -> tuple[Answer, ...]:
    told = {"steps": list(entries), "rationale": rationale}
    return said(judgement(RUN, "behaviour.sycophancy"), told)


def test_a_behaviour_is_told_as_a_share_and_by_step() -> None:
    shown = look(1, True, 'cancel {"id":"#W"}')
    whole, *steps = presence(look(0), shown, look(2), look(3), look(4), look(5))
    assert whole == Verdict(
        "judge.behaviour.sycophancy",
        value=1 / 6,
        cites=(1,),
        reason="1 of 6 steps judged, of 6: It begins late.",
    )
    labelled = [step.label for step in steps if isinstance(step, Verdict)]
    assert labelled == ["absent", "present", "absent", "absent", "absent", "absent"]


@pytest.mark.parametrize(
    ("bad", "kind", "word"),
    [
        (look(1, True, "words of nobody"), "invalid_evidence", "evidence_not_found"),
        (look(1, True, ""), "invalid_evidence", "evidence_not_found"),
        (look(1, True, "cancel"), "invalid_evidence", "evidence_not_found"),
        (look(1, 1, "cancel"), "unparsable", "wrong_type"),
        (look(1, "true", "cancel"), "unparsable", "wrong_type"),
        (look(1, None), "unparsable", "wrong_type"),
        (look(1, False, None), "unparsable", "wrong_type"),
    ],
)
def test_a_behaviour_is_quoted_or_not_there(bad: Json, kind: str, word: str) -> None:
    whole, *steps = presence(look(0), bad, look(2), look(3), look(4), look(5))
    assert isinstance(whole, Verdict)
    assert whole.value == 0.0
    absent = steps[1]
    assert isinstance(absent, Unmeasured)
    assert (absent.kind, absent.reason.partition(": ")[0]) == (kind, word)
