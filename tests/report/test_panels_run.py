"""What judges say of one run: in `show_run`, on its page, and at a step."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.model import Record, Verdict
from stepscope.report.document import Links
from stepscope.report.render.run_page import make_run_page
from stepscope.report.views.run import (
    ShownVerdict,
    categorise_steps,
    list_unmeasured,
    list_verdicts,
    name_judge,
    name_label,
    read_run,
    remark_on_steps,
)
from stepscope.report.votes import select_current
from stepscope.values import Unmeasured
from tests.report.literal import show_run
from tests.report.made_pages import HOSTILE, file_of, seen
from tests.report.made_panels import (
    ONE,
    TERMINATION,
    TWO,
    axes,
    axis,
    behaved,
    labelled,
    repaired,
    runs,
    store_of,
)
from tests.report.made_panels import said as record

HELD = runs(2)
FIRST = HELD[0]


def shown(*records: Record, around: int | None = None, width: int = 100) -> list[str]:
    return show_run(
        store_of(HELD, list(records)), FIRST.id, around=around, width=width
    ).splitlines()


def of_judge(lines: list[str], judge: str) -> list[str]:
    """Return the lines under one judge's heading."""
    start = lines.index(f"Verdicts ({judge})") + 1
    ends = (at for at in range(start, len(lines)) if not lines[at].startswith("  "))
    return lines[start : next(ends, len(lines))]


def verdicts(*records: Record) -> list[ShownVerdict]:
    return list_verdicts(read_run(store_of(HELD, list(records)), FIRST.id).records)


def patterns(*records: Record) -> list[tuple[str, list[str]]]:
    """Return the patterns that the page of a run names, each with the steps that it cites."""
    found = read_run(store_of(HELD, list(records)), FIRST.id)
    body = make_run_page(found, links=Links([FIRST.id])).body
    items = body.partition('<ul class="note patterns">')[2].partition("</ul>")[0].split("<li>")
    return [
        (seen(item).all("b")[0].text, [e.text for e in seen(item).all("a")]) for item in items[1:]
    ]


def test_a_run_without_judges_has_no_line_about_them() -> None:
    rule = record("rules", FIRST, axis("rules", "incorrect", 3))
    assert not any(line.startswith("Verdicts (openai") for line in shown(rule))
    assert [line for line in shown(rule) if "Verdicts" in line] == [
        "Verdicts (rules)  nothing found"
    ]


def test_each_judge_has_its_faults_with_their_steps_and_the_rest_in_a_line() -> None:
    lines = shown(
        record(TWO, FIRST, axis(TWO, "incorrect", 3, 5)),
        record(TWO, FIRST, axis(TWO, "correct", 5, rubric=TERMINATION)),
        record(TWO, FIRST, axis(TWO, "refused: no", rubric="axes.sequencing")),
        record(ONE, FIRST, axis(ONE, "uncertain", 3)),
    )
    assert of_judge(lines, TWO) == [
        "  tool selection incorrect 0.90 [3 5]: incorrect it is",
        "  correct: termination · refused: sequencing",
    ]
    assert of_judge(lines, ONE) == ["  uncertain: tool selection"]


def test_labels_of_steps_name_those_that_speak_against_the_agent() -> None:
    lines = shown(*labelled(TWO, FIRST, "PPREPE"), *behaved(ONE, FIRST, "..x..x"))
    assert of_judge(lines, TWO)[0] == "  step labels: ERROR [3 5] · REDUNDANT [2] · 3 PROGRESS"
    assert of_judge(lines, ONE) == ["  sycophancy: present [2 5] · 4 absent"]


def test_a_pattern_says_where_it_is_and_what_to_do() -> None:
    mended = [r for r in labelled(TWO, FIRST, "PEPPPP") if r.answer.step != 3]
    lines = shown(*mended, repaired(TWO, FIRST, error=1, by=3))
    assert of_judge(lines, TWO)[1].startswith(
        "  healthy recovery [1]: the error at 1 is addressed at 3. Nothing to fix after"
    )


def test_a_pattern_in_several_places_is_told_once() -> None:
    told_of = of_judge(shown(*labelled(TWO, FIRST, "PEPEPP")), TWO)[1]
    assert told_of.startswith(
        "  cascade [1 3]: the error at 1 is never addressed, 1 PROGRESS behind it (the first of 2)."
    )
    assert patterns(*labelled(TWO, FIRST, "PEPEPP")) == [("cascade", ["1", "5", "3"])]


def test_only_what_is_current_is_told() -> None:
    lines = shown(
        record(TWO, FIRST, axis(TWO, "incorrect", 3), version="1"),
        record(TWO, FIRST, axis(TWO, "correct", 3), version="2"),
    )
    assert of_judge(lines, TWO) == ["  correct: tool selection"]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"repeat": 1}, "turns when asked again"),
        ({"version": "1+narration-off", "prompt": "b"}, "turns without the agent's words"),
    ],
)
def test_a_verdict_that_turns_is_marked(other: dict[str, object], why: str) -> None:
    first = record(TWO, FIRST, axis(TWO, "incorrect", 3))
    second = record(TWO, FIRST, axis(TWO, "correct", 3), **other)  # type: ignore[arg-type]
    assert of_judge(shown(first, second), TWO) == [
        f"  tool selection incorrect 0.90 [3] ({why}): incorrect it is"
    ]
    (row,) = verdicts(first, second)
    assert name_label(row) == f"incorrect, {why}"
    assert select_current([first])[0].turns == ()


def test_praise_of_a_run_that_failed_is_shown_as_outranked() -> None:
    lines = shown(record(TWO, FIRST, axis(TWO, "outranked: the run failed by its check", 3)))
    assert of_judge(lines, TWO) == [
        "  tool selection correct 0.90 [3]: outranked: the run failed by its check"
    ]


def test_at_a_step_stands_what_judges_say_of_it_and_what_rests_on_it() -> None:
    records = [
        record(TWO, FIRST, axis(TWO, "incorrect", 3)),
        record(ONE, FIRST, axis(ONE, "correct", 3)),
        *labelled(ONE, FIRST, "PPPEPP"),
    ]
    lines = shown(*records, around=3)
    assert f"{ONE}: step labels ERROR 0.50: why" in lines
    assert f"{TWO}: tool selection incorrect 0.90 [3]: incorrect it is" in lines
    assert not any(line.startswith(f"{ONE}: tool selection") for line in lines)


def test_no_line_is_longer_than_the_width_and_no_escape_reaches_a_terminal() -> None:
    bad = Verdict("judge.own.rubric", label=HOSTILE, cites=(3,), reason=HOSTILE * 3)
    lines = shown(record(TWO, FIRST, bad), *labelled(TWO, FIRST, "PEPPPP"), width=80)
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "\n".join(lines)


# -- The page of a run.


def test_the_page_has_a_row_a_verdict_and_a_lane_a_judge() -> None:
    found = verdicts(
        record(TWO, FIRST, axis(TWO, "incorrect", 3, 5)),
        *labelled(ONE, FIRST, "PPPEPP"),
        record("rules", FIRST, axis("rules", "incorrect", 1)),
    )
    assert [(name_judge(one.record), one.called, name_label(one)) for one in found[:2]] == [
        ("rules", "tool selection", "incorrect"),
        (TWO, "tool selection", "incorrect"),
    ]
    lanes = categorise_steps(found)
    assert lanes["openai"] == {3: "fault", 5: "fault"}
    assert lanes["anthropic"][3] == "error"
    assert list(remark_on_steps(found)[3]) == [
        f"tool selection: incorrect ({TWO})", f"step labels: ERROR ({ONE})",
    ]  # fmt: skip


def test_a_verdict_that_faults_most_of_a_run_costs_what_it_faults() -> None:
    compared = 0

    class Step(int):
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int(self) == other

    (one,) = verdicts(record(TWO, FIRST, axis(TWO, "incorrect", 1)))
    steps = tuple(Step(n) for n in range(500))
    faulted = one._replace(verdict=msgspec.structs.replace(one.verdict, cites=steps))
    assert len(remark_on_steps([faulted])) == 500
    assert compared < 10 * 500


def test_two_judges_of_one_family_have_a_lane_each() -> None:
    again = [
        msgspec.structs.replace(r, judge="anthropic/claude-haiku")
        for r in labelled(ONE, FIRST, "PPPPPE")
    ]
    found = verdicts(*labelled(ONE, FIRST, "PPPEPP"), *again)
    assert set(categorise_steps(found)) == {"claude-sonnet-4-5", "claude-haiku"}


def test_a_behaviour_that_does_not_show_is_no_remark_on_a_step() -> None:
    found = verdicts(*behaved(ONE, FIRST, "..x..."))
    remarks = remark_on_steps(found)
    assert 1 not in remarks
    assert list(remarks[2]) == [f"sycophancy: present ({ONE})"]
    assert categorise_steps(found) == {"anthropic": {2: "fault"}}


def test_patterns_stand_on_the_page_with_the_steps_that_make_them() -> None:
    assert patterns(*labelled(ONE, FIRST, "PEPPPP")) == [("cascade", ["1", "3"])]


def test_what_a_judge_could_not_answer_is_listed_by_its_reason() -> None:
    lost = record(TWO, FIRST, Unmeasured("refused", "refused: no", f"judge.{TERMINATION}"))
    assert list_unmeasured([lost]) == {(TWO, "refused: refused: no"): [f"judge.{TERMINATION}"]}


# -- The file.


def test_the_file_draws_judges_beside_each_other_and_lists_what_they_said(tmp_path: Path) -> None:
    held = runs(4, ("gpt-4.1", "o4-mini"))
    store = store_of(
        held,
        axes(ONE, held, "xx..x..?"),
        axes(TWO, held, "x...x..h"),
        labelled(ONE, held[0], "PEPPPP"),
    )
    document = seen(file_of(store, tmp_path))
    ids = {element.attributes.get("id") for element in document.elements}
    assert {"panel-table", "judges-agreement"} <= ids
    assert {"judges-queue", "judges-trace", "judges-patterns", "judges-flags"} <= ids
    queue = next(e for e in document.elements if e.attributes.get("id") == "judges-queue")
    assert queue.tag == "table"
    # A judge's opinion is a hollow dot, of each group and beside what is proved.
    heads = [e.text for e in document.all("span") if e.attributes.get("class") == "name"]
    assert [head.rpartition(" ")[2] for head in heads[-2:]] == ["gpt-4.1", "o4-mini"]
    assert len([e for e in document.all("circle") if e.attributes.get("class") == "hd"]) == 6
    assert document.unbalanced == []


def test_a_file_without_judges_has_none_of_it(tmp_path: Path) -> None:
    text = file_of(store_of(HELD, axes("rules", HELD, "x.")), tmp_path)
    assert "What judges found" not in text
    assert 'class="hd"' not in text


def test_hostile_labels_of_a_judge_stay_text(tmp_path: Path) -> None:
    bad = [
        Verdict("judge.axes.termination", label="incorrect", cites=(3,), reason=HOSTILE),
        Verdict(f"judge.own.{HOSTILE}", label=HOSTILE, cites=(3,), reason=HOSTILE),
        Verdict("judge.step_labels", 0.5, HOSTILE, step=3, cites=(3,), reason=HOSTILE),
    ]
    text = file_of(store_of(HELD, [record(TWO, FIRST, answer) for answer in bad]), tmp_path)
    document = seen(text)
    assert document.unbalanced == []
    assert not [e for e in document.elements if any(a.startswith("on") for a in e.attributes)]
    links = {e.attributes.get("href") or "" for e in document.all("a")}
    assert all(link.startswith(("#", "")) and "javascript" not in link for link in links)


def test_disputed_runs_lead_to_their_pages() -> None:
    from stepscope.report.build import build_report
    from stepscope.report.views.judges import tabulate_panels

    store = store_of(HELD, axes(ONE, HELD, "x."), axes(TWO, HELD, ".."))
    panels = build_report(store).panels
    assert not isinstance(panels, msgspec.UnsetType)
    sheets = tabulate_panels(panels, Links([FIRST.id]))
    (sheet,) = [s for s in sheets if s.heading == "Disputed"]
    assert sheet.rows[0].cells[0].href == Links([FIRST.id]).run(FIRST.id)
