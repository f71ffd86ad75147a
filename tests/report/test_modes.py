"""Failure modes as a report shows them: in text, Markdown, JSON and on a page."""

from __future__ import annotations

import re

import msgspec
import pytest

from stepscope.findings.modes import NO_SIGNS, UNSEEN, FailureModes
from stepscope.model.signatures import signature_code
from stepscope.report.build import build_report
from stepscope.report.document import Links
from stepscope.report.render import markdown, pages, text
from stepscope.report.types import Report
from stepscope.report.views.overview import make_report_document
from stepscope.report.views.profile import (
    draw_begins,
    lay_out_modes,
    letter_runs,
    tabulate_modes,
)
from stepscope.safety.text import render_json
from stepscope.values import Unmeasured
from tests.report.rows import LiteralRows, rows

BOOK = "book fails: total is *, but paid *"
MISSING = "expected call missing: pay"


def made(signatures: dict[int, tuple[str, ...]], tasks: int = 6) -> Report:
    """Four trials a task, two of which failed; signatures by the place of a trial."""
    held = [signatures.get(trial, ()) for _ in range(tasks) for trial in range(4)]
    passed = [float(trial < 2) for _ in range(tasks) for trial in range(4)]
    return build_report(
        rows(
            LiteralRows(
                tasks=[str(task) for task in range(tasks) for _ in range(4)],
                values={"outcome": passed, "step_labels": [0.0] * len(held)},
                signatures=held,
            )
        )
    )


def test_a_mode_is_one_sentence_with_its_counts_what_is_shown_and_its_runs() -> None:
    shown = text.render(make_report_document(made({2: (BOOK,)})), 100)
    part = shown[shown.index("Failure modes") :].splitlines()
    assert re.search(
        r"[0-9a-f]{6} \(linked to failure\) +6 of 6 +3.0 +6 +w/002 at step 3,", part[1]
    )
    said = " ".join(" ".join(part).split())
    assert (
        f"{BOOK}; p 0.016 after Holm; without this mode, the pass rate could rise by at most 25 "
        "points (95 % interval of this maximum: " in said
    )
    assert (
        "1 of 1 mode could be tested by comparison with other trials of the same tasks (expected: "
        "the number of failures if the mode made no difference). Linked to failure" in said
    )
    assert (
        "Holm's correction: 1 mode. Before this correction, 1 had a p-value of at most 0.05; by "
        "chance, about 0.0 would."
    ) in said
    assert (
        "Each failed run is counted once (12 in all): 6 under a mode that is probably linked "
        "to failure" in said
    )
    assert "6 under no mode (50 % of the failed runs, 95 % interval " in said
    code = signature_code(BOOK)
    assert f"stepscope report --where \"mode = '{code}'\"" in said


def test_what_the_outcome_is_judged_by_is_said_to_be_not_tested() -> None:
    shown = text.render([lay_out_modes(made({2: (MISSING,)}).modes)], 100)
    assert re.search(r"\(the failure itself\) +6 of 6 +- ", shown)
    said = " ".join(shown.split())
    assert "No mode could be tested: a test needs" in said
    counted = (
        "Each failed run is counted once (12 in all): 6 under a mode that is itself the failure"
    )
    assert counted in said


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    shown = text.render([lay_out_modes(made({2: (BOOK, MISSING)}).modes)], width)
    assert max(map(len, shown.splitlines())) <= width


def test_a_report_without_modes_says_nothing_of_them() -> None:
    none = made({})
    assert isinstance(none.modes, FailureModes)
    assert (none.modes.n_modes, lay_out_modes(none.modes)) == (0, [])
    assert lay_out_modes(NO_SIGNS) == []
    assert tabulate_modes(NO_SIGNS, Links()).rows == ()
    assert "Failure modes" not in text.render(make_report_document(none), 100)


def test_runs_that_rules_could_not_see_are_said() -> None:
    def said(found: FailureModes | Unmeasured) -> str:
        return " ".join(text.render([lay_out_modes(found)], 100).split())

    lost = "3 runs not counted, unmeasured (3 missing_input): results of tools were not recorded"
    for held in ((), (BOOK,)):
        found = made({2: held}).modes
        assert isinstance(found, FailureModes)
        blind = msgspec.structs.replace(found, unmeasured={"missing_input": 3})
        assert lost in said(blind)
        assert "not counted" not in said(found)
    assert said(UNSEEN).startswith("Failure modes: unmeasured (missing_input): results of tools")
    assert UNSEEN.reason in tabulate_modes(UNSEEN, Links()).notes[0]


def test_hostile_signatures_are_harmless_on_every_medium() -> None:
    hostile = "pay\x1b[31m fails: <script>x</script> @all `fixes #1` \u202e"
    report = made({2: (hostile,)})
    shown = text.render(make_report_document(report), 100)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    written = markdown.render(make_report_document(report))
    assert "<script>" not in written
    assert "@all" not in written
    page = str(pages.make_overview_page(report, (), links=Links()).body)
    part = page[page.index('id="modes"') :]
    assert "<script>x" not in part
    assert "&lt;script&gt;x" in part


def test_a_page_links_the_examples_that_it_holds() -> None:
    report = made({2: (BOOK,)})
    assert isinstance(report.modes, FailureModes)
    first = report.modes.modes[0].examples[0]
    table = tabulate_modes(report.modes, Links(runs=[first.id]))
    hrefs = [cell.href for cell in table.rows[0].cells if cell.href]
    assert hrefs == [f"#r-{first.id[:16]}-s3"]
    assert len(table.columns) == len(table.rows[0].cells)


def test_the_json_of_a_report_holds_every_count() -> None:
    held = msgspec.json.decode(render_json(made({2: (BOOK,), 3: (MISSING,)})))["modes"]
    assert held["type"] == "failure_modes"
    assert [mode["verdict"] for mode in held["modes"]] == ["marks_failure", "judged_by"]
    assert held["modes"][0]["signatures"] == [BOOK]
    assert (held["n_tested"], held["n_shown"], held["n_judged_by"]) == (1, 1, 6)


def test_bars_are_never_empty_where_a_run_begins() -> None:
    assert draw_begins((1, 1000, 0, 0, 0)) == "▁█···"
    assert draw_begins(()) == ""


def test_failed_runs_have_the_letter_of_the_mode_that_they_are_counted_under() -> None:
    found = made({2: (BOOK,), 3: (MISSING,)}).modes
    assert isinstance(found, FailureModes)
    table = tabulate_modes(found, Links())
    of_mode = {mode.name: mode.assigned for mode in found.modes}
    assert (len(of_mode[BOOK]), len(of_mode[MISSING])) == (6, 6)
    rows = {row.match: (row.cells[1].text, dict(row.facets)) for row in table.rows}
    letters = letter_runs(found)
    for name in (BOOK, MISSING):
        (letter,) = {letters[run] for run in of_mode[name]}
        assert rows[name] == (letter, {"mode": letter})
    assert sorted(set(letters.values())) == ["A", "B"]


def test_a_mode_that_no_failed_run_is_counted_under_has_no_letter() -> None:
    found = made({0: (BOOK,)}).modes
    (row,) = tabulate_modes(found, Links()).rows
    assert (row.cells[1].text, dict(row.facets), letter_runs(found)) == ("", {}, {})
    assert letter_runs(NO_SIGNS) == {}
