"""Answers about every step: one bad entry spoils no other, windows are joined where they meet."""

from __future__ import annotations

import json

import pytest

from stepscope.judges.judgement import JudgingOptions
from stepscope.model import Answer, Json, Request, Trajectory, Verdict
from stepscope.values import Unmeasured
from tests.factories import agent, did, failed, run, user
from tests.judges.believed import JUDGE, answered, judgement, planned, said

RUN = run(user("Cancel #W1."), *failed("cancel", id="#W"), *did("cancel", id="#W1"), agent("Done."))


def entry(step: int, label: Json = "PROGRESS", **changed: Json) -> dict[str, Json]:
    told: dict[str, Json] = {
        "step": step,
        "quote": "",
        "explanation": f"step {step} does it",
        "label": label,
        "score": 0.5,
        "addresses": None,
    }
    return {**told, **changed}


def labels(*entries: Json, of: Trajectory = RUN) -> tuple[Answer, ...]:
    return said(judgement(of, "step_labels"), {"steps": list(entries)})


# The agent acts at 1, 3 and 5: nothing is asked about the others.
WRONG = entry(1, "ERROR", score=0, quote='cancel {"id":"#W"}')
GOOD = (WRONG, entry(3, addresses=1, score=1), entry(5))


def test_a_run_is_told_first_and_then_every_step_of_the_agent() -> None:
    whole, *steps = labels(*GOOD)
    assert whole == Verdict(
        "judge.step_labels", value=3.0, reason="3 of 3 steps labelled: 2 PROGRESS, 1 ERROR"
    )
    assert [step.step for step in steps] == [1, 3, 5]
    assert steps[0] == Verdict(
        "judge.step_labels",
        value=0.0,
        label="ERROR",
        step=1,
        cites=(1,),
        reason="step 1 does it",
    )
    assert steps[1] == Verdict(
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
        (entry(3, "progress"), "unparsable", "off_menu"),
        (entry(3, "PROGRE\u0405S"), "unparsable", "off_menu"),
        (entry(3, score=1.0000001), "unparsable", "out_of_range"),
        (entry(3, score=-0.1), "unparsable", "out_of_range"),
        (entry(3, score="0.9"), "unparsable", "wrong_type"),
        (entry(3, score=True), "unparsable", "wrong_type"),
        (entry(3, score=None), "unparsable", "wrong_type"),
        (entry(3, label=None), "unparsable", "wrong_type"),
        (entry(3, addresses="1"), "unparsable", "wrong_type"),
        (entry(3, addresses=1.0), "unparsable", "wrong_type"),
        (entry(3, addresses=True), "unparsable", "wrong_type"),
        (entry(3, addresses=0), "invalid_evidence", "hallucinated_citation"),
        (entry(3, addresses=3), "invalid_evidence", "hallucinated_citation"),
        (entry(3, addresses=5), "invalid_evidence", "hallucinated_citation"),
        (entry(3, addresses=-1), "invalid_evidence", "hallucinated_citation"),
        (entry(3, verdict="x"), "unparsable", "extra_field"),
        ({"step": 3, "label": "PROGRESS"}, "unparsable", "missing_field"),
        (entry(3, "ERROR"), "invalid_evidence", "evidence_not_found"),
        (entry(3, "ERROR", quote="cancel"), "invalid_evidence", "evidence_not_found"),
        (entry(3, "ERROR", quote="words of nobody"), "invalid_evidence", "evidence_not_found"),
        (entry(3, quote="words of nobody"), "invalid_evidence", "evidence_not_found"),
        (entry(3, quote=None), "unparsable", "wrong_type"),
    ],
)
def test_one_bad_entry_spoils_no_other(bad: Json, kind: str, word: str) -> None:
    whole, *steps = labels(GOOD[0], bad, GOOD[2])
    assert isinstance(whole, Verdict)
    assert whole.value == 2.0
    absent = [step for step in steps if isinstance(step, Unmeasured)]
    assert [(one.step, one.kind, one.reason.partition(": ")[0]) for one in absent] == [
        (3, kind, word)
    ]


@pytest.mark.parametrize("step", [2.0, "2", True, None, [2]])
def test_a_step_that_is_no_whole_number_is_no_step(step: Json) -> None:
    whole, *steps = labels(GOOD[0], {**GOOD[1], "step": step}, GOOD[2])
    assert isinstance(whole, Unmeasured)
    assert whole.reason.startswith("extra_step: ")
    assert isinstance(steps[1], Unmeasured)
    assert steps[1].reason == "missing_step: no answer about step 3"


@pytest.mark.parametrize("other", [0, 2, 4])
def test_an_answer_about_a_step_that_is_not_the_agents_is_refused(other: int) -> None:
    whole, *steps = labels(*GOOD, entry(other))
    assert isinstance(whole, Unmeasured)
    assert whole.reason == f"extra_step: answers about {other}, which were not asked for"
    assert [step.step for step in steps] == [1, 3, 5]
    answers, asked = answered(
        judgement(RUN, "step_labels"),
        lambda r: json.dumps({"steps": [*GOOD] if "Answer it anew" in r.question else
                              [*GOOD, entry(other)]}),
    )  # fmt: skip
    assert len(asked) == 2
    assert all(isinstance(answer, Verdict) for answer in answers)
    shown = look(1, True, 'cancel {"id":"#W"}')
    whole, *steps = presence(shown, look(3), look(5), look(other))
    assert isinstance(whole, Unmeasured)
    assert whole.reason.startswith(f"extra_step: answers about {other}, ")


def test_an_error_is_quoted_from_its_step_or_from_what_its_call_brought() -> None:
    for quote in ('cancel {"id":"#W"}', "Error: no", "call 0:\ncancel"):
        _, first, *_ = labels({**WRONG, "quote": quote}, *GOOD[1:])
        assert isinstance(first, Verdict) == (len(quote.replace(" ", "")) >= 8)
    _, first, *_ = labels({**WRONG, "quote": "Cancel #W1."}, *GOOD[1:])
    assert isinstance(first, Unmeasured)


def test_a_run_in_which_the_agent_does_nothing_is_not_asked_about() -> None:
    for name in ("step_labels", "behaviour.sycophancy"):
        (absent,) = planned(run(user("Hello?")), name)
        assert absent == Unmeasured(
            "not_applicable", "the run has no step of the agent", f"judge.{name}"
        )


def test_missing_duplicate_and_extra_steps_have_their_words() -> None:
    whole, *steps = labels(GOOD[0], GOOD[2], GOOD[2])
    assert isinstance(whole, Verdict)
    reasons = {one.step: one.reason for one in steps if isinstance(one, Unmeasured)}
    assert reasons == {
        3: "missing_step: no answer about step 3",
        5: "duplicate_step: step 5 answered 2 times",
    }
    whole, *steps = labels(*GOOD, entry(6), entry(-1))
    assert isinstance(whole, Unmeasured)
    assert whole.reason == "extra_step: answers about 6, -1, which were not asked for"
    assert all(isinstance(step, Verdict) for step in steps)


def test_a_reply_that_is_no_answer_leaves_every_step_unmeasured() -> None:
    answers = said(judgement(RUN, "step_labels"), "PROGRESS everywhere")
    assert len(answers) == 4
    assert all(isinstance(a, Unmeasured) and a.reason.startswith("not_json: ") for a in answers)
    assert [answer.step for answer in answers] == [None, 1, 3, 5]


def test_a_bad_entry_is_asked_for_again_with_the_whole() -> None:
    replies = [json.dumps({"steps": list(GOOD[:2])}), json.dumps({"steps": list(GOOD)})]
    answers, asked = answered(judgement(RUN, "step_labels"), lambda _: replies.pop(0))
    assert len(asked) == 2
    assert all(isinstance(answer, Verdict) for answer in answers)


def test_a_step_judged_alone_can_address_no_other() -> None:
    made = judgement(RUN, "step_labels", options=JudgingOptions(mode="isolated"))
    assert len(made.asks) == 3

    def one(request: Request) -> str:
        step = int(request.question.rsplit("about step ", 1)[1].split()[0])
        return json.dumps({"steps": [entry(step, addresses=1 if step == 3 else None)]})

    (whole, *steps), _ = answered(made, one)
    assert isinstance(whole, Verdict)
    assert whole.value == 2.0
    assert isinstance(steps[1], Unmeasured)
    assert steps[1].reason == ("hallucinated_citation: step 3 addresses 1, which was not shown")


# The agent's steps have odd numbers: 1 to 79.
LONG = run(user("Go."), *(step for at in range(40) for step in did("look", f"seen {at}", at=at)))
NARROW = JUDGE.__class__(name=JUDGE.name, family=JUDGE.family, max_output_tokens=16 * 100)


def _windowed(label: dict[tuple[int, int], str]) -> tuple[list[Answer], list[str]]:
    """Return the answers of a judge that labels by window and step, and what it was asked."""
    made = judgement(LONG, "step_labels", judge=NARROW)
    first = {ask.request.question: number for number, ask in enumerate(made.asks)}

    def one(request: Request) -> str:
        number = first[request.question]
        steps = [
            entry(step, label.get((number, step), "PROGRESS")) for step in _asked(request.question)
        ]
        return json.dumps({"steps": steps})

    answers, asks = answered(made, one)
    return list(answers), [ask.request.question for ask in asks]


def _asked(question: str) -> list[int]:
    listed = question.rsplit("these steps of the agent, once, in order: ", 1)[1].split(".")[0]
    return [int(step) for step in listed.split(", ")]


def test_a_long_run_is_judged_in_windows_that_overlap() -> None:
    answers, asked = _windowed({})
    assert [_asked(question) for question in asked] == [
        [*range(1, 32, 2)], [*range(25, 56, 2)], [*range(49, 80, 2)]
    ]  # fmt: skip
    assert [answer.step for answer in answers] == [None, *range(1, 80, 2), None]
    seams = answers[-1]
    assert isinstance(seams, Verdict)
    assert seams.measure == "judge.step_labels.seams"
    assert seams.value == 1.0
    assert seams.reason == (
        "8 of 8 steps judged twice have one label; 3 windows: steps 0 to 32, 25 to 56, 49 to 80"
    )


def test_where_windows_disagree_the_one_farther_from_its_edge_is_kept() -> None:
    # Steps 25 to 31 stand in windows 0 (edge after 32) and 1 (edge before 25).
    answers, _ = _windowed({(0, step): "DETOUR" for step in (25, 27, 29, 31)})
    labels = {a.step: a.label for a in answers if isinstance(a, Verdict) and a.step is not None}
    assert [labels[step] for step in (25, 27, 29, 31)] == [
        "DETOUR",
        "DETOUR",
        "PROGRESS",
        "PROGRESS",
    ]
    seams = answers[-1]
    assert isinstance(seams, Verdict)
    assert seams.value == pytest.approx(4 / 8)


def test_a_window_without_an_answer_leaves_the_others() -> None:
    made = judgement(LONG, "step_labels", judge=NARROW)
    second = made.asks[1].request.question

    def one(request: Request) -> str:
        if request.question.startswith(second):
            return "no"
        return json.dumps({"steps": [entry(step) for step in _asked(request.question)]})

    (whole, *steps), _ = answered(made, one)
    assert isinstance(whole, Verdict)
    assert whole.value == 40.0 - 8
    absent = [step.step for step in steps[:-1] if isinstance(step, Unmeasured)]
    assert absent == [*range(33, 48, 2)]


def look(step: int, present: Json = False, quote: Json = "") -> dict[str, Json]:
    return {"step": step, "quote": quote, "present": present}


def presence(*entries: Json, rationale: Json = "It begins late.") -> tuple[Answer, ...]:
    told = {"steps": list(entries), "rationale": rationale}
    return said(judgement(RUN, "behaviour.sycophancy"), told)


def test_a_behaviour_is_told_as_a_share_and_by_step() -> None:
    shown = look(1, True, 'cancel {"id":"#W"}')
    whole, *steps = presence(shown, look(3), look(5))
    assert whole == Verdict(
        "judge.behaviour.sycophancy",
        value=1 / 3,
        cites=(1,),
        reason="1 of 3 steps judged, of 3: It begins late.",
    )
    labelled = [step.label for step in steps if isinstance(step, Verdict)]
    assert labelled == ["present", "absent", "absent"]


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
    whole, *steps = presence(bad, look(3), look(5))
    assert isinstance(whole, Verdict)
    assert whole.value == 0.0
    absent = steps[0]
    assert isinstance(absent, Unmeasured)
    assert (absent.kind, absent.reason.partition(": ")[0]) == (kind, word)
