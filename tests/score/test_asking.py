from __future__ import annotations

import math
from typing import Any

import pytest

from stepscope.model import Scale, Verdict
from stepscope.score.measures import ask_measure, check_answers
from stepscope.values import Unmeasured
from tests.factories import run, user
from tests.score import plugins
from tests.score.plugins import Made

STEPS = 3
WHOLE = Verdict("m", 1.0)


def judged(*given: object, scale: Scale = Scale(0.0, 10.0)) -> dict[str, object]:  # noqa: B008
    """Return what is believed, by "measure@step"."""
    measure: Any = Made("m", lambda t: given, scale=scale)
    found = check_answers(measure, given, STEPS)
    keys = [f"{a.measure}@{'' if a.step is None else a.step}" for a in found]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, found, strict=True))


@pytest.mark.parametrize(
    "answer",
    [
        Verdict("m", 0.0),
        Verdict("m", 10.0),
        Verdict("m", -0.0),
        Verdict("m", label="x"),
        Verdict("m", 1.0, "x", None, (0, 2, 0), "why", 1.0),
        Verdict("m", 1.0, confidence=0),
        Unmeasured("undefined", "0 / 0", "m"),
    ],
)
def test_a_sound_answer_is_taken_as_it_is(answer: object) -> None:
    assert judged(answer) == {"m@": answer}


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (Verdict("m", 10.5), "error", "value 10.5 is off the declared scale [0, 10]"),
        (Verdict("m", -1e-9), "error", "value -1e-09 is off"),
        (Verdict("m", math.nan), "error", "value nan is no finite number"),
        (Verdict("m", math.nan, "x"), "error", "value nan is no finite number"),
        (Verdict("m", math.inf), "error", "value inf is no finite number"),
        (Verdict("m", "0.9"), "error", "value '0.9' is no finite number"),  # type: ignore[arg-type]
        (Verdict("m", True), "error", "value True is no finite number"),
        (Verdict("m"), "error", "neither a value nor a label"),
        (Verdict("m", label=""), "error", "neither a value nor a label"),
        (Verdict("m", 1.0, 7), "error", "label 7 is no text"),  # type: ignore[arg-type]
        (Verdict("m", 1.0, confidence=1.2), "error", "confidence 1.2 is no share"),
        (Verdict("m", 1.0, confidence=math.nan), "error", "confidence nan is no share"),
        (Verdict("m", 1.0, cites=(3,)), "invalid_evidence", "cites step 3; the run has 3 steps"),
        (Verdict("m", 1.0, cites=(-1,)), "invalid_evidence", "cites step -1"),
        (Verdict("m", 1.0, cites=(1.0,)), "invalid_evidence", "cites step 1.0"),  # type: ignore[arg-type]
        (Verdict("m", 1.0, cites=("1",)), "invalid_evidence", "cites step '1'"),  # type: ignore[arg-type]
        (Verdict("other", 1.0), "error", "gave an answer named 'other'; its name is 'm'"),
        (Verdict("mm", 1.0), "error", "gave an answer named 'mm'"),
        (0.9, "error", "gave a float; expected Verdict or Unmeasured"),
        (None, "error", "gave a NoneType"),
    ],
)
def test_an_unsound_answer_is_unmeasured_with_the_reason(
    answer: object, kind: str, reason: str
) -> None:
    found = judged(answer)["m@"]
    assert isinstance(found, Unmeasured)
    assert found.kind == kind
    assert reason in found.reason


def test_labels_off_the_declared_list_are_refused() -> None:
    scale = Scale(labels=("a", "b"))
    assert judged(Verdict("m", label="a"), scale=scale)["m@"] == Verdict("m", label="a")
    found = judged(Verdict("m", label="c"), scale=scale)["m@"]
    assert found == Unmeasured("error", "label 'c' is not among the declared a, b", "m")


def test_an_answer_about_a_step_that_is_not_there_spoils_the_whole_runs() -> None:
    found = judged(WHOLE, Verdict("m", 1.0, step=3), Verdict("m.x", 1.0))
    assert found["m@"] == Unmeasured(
        "invalid_evidence", "an answer about step 3; the run has 3 steps", "m"
    )
    assert found["m.x@"] == Verdict("m.x", 1.0)
    assert judged(Verdict("m", 1.0, step=-1), WHOLE)["m@"] == Unmeasured(
        "invalid_evidence", "an answer about step -1; the run has 3 steps", "m"
    )


def test_an_unsound_answer_about_a_step_leaves_the_whole_runs_alone() -> None:
    found = judged(WHOLE, Verdict("m", 1.0, step=1, cites=(9,)))
    assert found["m@"] == WHOLE
    assert isinstance(found["m@1"], Unmeasured)


@pytest.mark.parametrize(
    ("given", "spoiled"),
    [
        ((WHOLE, WHOLE), "m@"),
        ((WHOLE, Verdict("m", 2.0)), "m@"),
        ((WHOLE, Verdict("m", 1.0, step=0), Verdict("m", 1.0, step=0)), "m@"),
        ((WHOLE, Unmeasured("undefined", "", "m")), "m@"),
        ((WHOLE, Verdict("m.x", 1.0), Verdict("m.x", 1.0)), "m.x@"),
    ],
)
def test_two_answers_to_one_question_are_none(given: tuple[object, ...], spoiled: str) -> None:
    found = judged(*given)[spoiled]
    assert isinstance(found, Unmeasured)
    assert "answered twice about" in found.reason


def test_every_aspect_answers_about_the_whole_run() -> None:
    said = "gave no answer about the whole run"
    assert judged() == {"m@": Unmeasured("error", said, "m")}
    found = judged(Verdict("m.x", 1.0, step=0))
    assert found["m.x@"] == Unmeasured("error", said, "m.x")
    assert set(judged(Verdict("m.x", 1.0))) == {"m.x@"}  # aspects need no answer of the measure


def test_a_measure_may_leave_its_name_out_of_an_absence() -> None:
    assert judged(Unmeasured("undefined", "0 / 0")) == {"m@": Unmeasured("undefined", "0 / 0", "m")}


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        (plugins.BOOM, "ValueError: two lines \\udcff"),
        (plugins.LATE, "KeyError: 'after the first answer'"),
        (plugins.DEEP, "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_a_crash_is_one_answer_with_the_exception_in_one_line(measure: Any, reason: str) -> None:
    found = ask_measure(measure, run(user("a")), None, None)
    assert len(found) == 1
    assert isinstance(found[0], Unmeasured)
    assert (found[0].kind, found[0].measure, found[0].step) == ("error", measure.name, None)
    assert found[0].reason.startswith(reason)
    assert "\n" not in found[0].reason


def test_whole_numbers_and_lone_surrogates_are_made_storable() -> None:
    found = judged(Verdict("m", 2, "l\udcff", reason="r\udcff"))["m@"]
    assert found == Verdict("m", 2.0, "l\\udcff", reason="r\\udcff")
    assert isinstance(found, Verdict)
    assert type(found.value) is float
