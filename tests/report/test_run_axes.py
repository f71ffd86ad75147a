from __future__ import annotations

import pytest

from stepscope.model import Answer, Record, Trajectory, Verdict
from stepscope.report.views.run import gather_run
from stepscope.report.views.show import describe_step
from stepscope.values import Unmeasured
from tests.report.literal import HOSTILE, NO_CURVE, call, render_run, result, said, trajectory

SELECTION, VALIDITY, ORDER = "axes.tool_selection", "axes.argument_validity", "axes.sequencing"


def run() -> Trajectory:
    return trajectory(
        said(0, "user", "two seats"),
        call(1, "book", to="SEA"),
        result(2, "ok"),
        call(3, "book", to="SFO"),
        result(4, "Error: full", error=True),
        said(5, "agent", "Sorry."),
    )


def against(at: Trajectory, *answers: Answer) -> list[Record]:
    return [Record(trajectory=at.id, answer=answer, version="1") for answer in answers]


def wrong(axis: str, reason: str, *steps: int) -> list[Verdict]:
    whole = Verdict(axis, label="incorrect", cites=steps, reason=reason)
    return [
        whole,
        *(Verdict(axis, label="incorrect", step=at, cites=(at,), reason=reason) for at in steps),
    ]


def shown(*answers: Answer, width: int = 100) -> list[str]:
    at = run()
    return render_run(at, None, against(at, *answers), width=width).splitlines()


def axes(lines: list[str]) -> list[str]:
    start = next(at for at, line in enumerate(lines) if line.startswith("Axes"))
    return lines[start : next(at for at, line in enumerate(lines) if line.startswith("Verdicts"))]


def test_an_axis_at_fault_has_a_line_and_the_others_share_one() -> None:
    lines = shown(
        *wrong(SELECTION, "book was not offered", 1, 3),
        Verdict(VALIDITY, label="uncertain", reason="no schema"),
        Unmeasured("not_applicable", "no calls", ORDER),
        Verdict("axes.termination", label="uncertain", reason="it stopped well"),
    )
    first, *rest = axes(lines)
    assert first == "Axes      tool selection incorrect [1 3]: book was not offered"
    assert " ".join(" ".join(rest).split()) == (
        "checked, nothing proved: argument validity, termination · not applicable: sequencing · "
        "not scored: result interpretation"
    )


def test_steps_at_fault_are_marked_with_their_axes() -> None:
    lines = shown(*wrong(SELECTION, "not offered", 1), *wrong(VALIDITY, "said nowhere", 1, 3))
    one = next(line for line in lines if "book(SEA" in line)
    other = next(line for line in lines if "SFO" in line)
    assert one.startswith(" !")
    assert one.endswith("tool selection, argument validity")
    assert other.startswith(" !")
    assert other.endswith("argument validity")  # the call also failed: the mark is the same


def test_an_axis_that_names_no_step_marks_what_it_cites() -> None:
    whole = Verdict(ORDER, label="incorrect", cites=(5,), reason="too late")
    assert next(line for line in shown(whole) if "Sorry." in line).endswith("sequencing")


def test_an_uncertain_axis_marks_nothing() -> None:
    open_ = Verdict(ORDER, label="uncertain", cites=(5,), reason="may lack consent")
    assert not next(line for line in shown(open_) if "Sorry." in line).startswith(" !")


@pytest.mark.parametrize("width", [80, 100])
def test_what_axes_say_keeps_to_the_width_and_is_visible(width: int) -> None:
    lines = shown(*wrong(SELECTION, HOSTILE + " word" * 100, *range(6)), width=width)
    assert max(map(len, lines)) <= width
    assert "\x1b" not in "".join(lines)
    said = axes(lines)
    assert said[2].lstrip().startswith("not scored: ")
    assert said[1].endswith("…")


def test_a_run_without_axes_says_nothing_of_them() -> None:
    assert not [line for line in shown(Verdict("errors", value=1.0)) if line.startswith("Axes")]


def test_one_step_shows_what_the_axes_hold_against_it() -> None:
    at = run()
    records = against(at, *wrong(SELECTION, "book was not offered", 3))
    said = "Axes      tool selection incorrect at 3: book was not offered"
    data = gather_run(at, None, records, NO_CURVE)
    assert said in describe_step(data, 3, width=100)
    assert "Axes" not in "".join(describe_step(data, 1, width=100))
