from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html import unescape
from importlib import resources
from typing import Any

import msgspec
import pytest

from stepscope.report.render import data, markdown, text
from stepscope.report.types import (
    ComparisonReport,
    Difference,
    InputCount,
    LookFirst,
    Profile,
    Provenance,
    Report,
    SuspectSteps,
    TrialCounts,
)
from stepscope.report.views.compare import make_comparison_document
from stepscope.report.views.overview import make_report_document
from stepscope.report.words import (
    describe_figure,
    describe_profile,
    list_figures,
    mark_same_faults,
)
from stepscope.safety.text import render_json
from stepscope.values import Decision, Estimate, Flip, RankFlips, Unmeasured
from tests.report.literal import HOSTILE, profile, rate, report
from tests.report.schemas import make_report_schema

AIRLINE = """\
airline   200 runs, 50 tasks x 4 trials, 5,308 steps, 1,164 calls   judges: rules   seed 0

                         value  95 % interval             count  not measured
outcome: pass             42 %  32–52            84 of 200 runs  0
  pass^4                  20 %  10–32                   50 runs  0
    always 10, mixed 26, never 14
sub-goals reached         39 %  26–53            47 of 120 runs  80 runs not applicable (the
                                                                   reference solution changes
                                                                   nothing)
steps, median               24  22–28                  200 runs  0
  Not measured: runs that break the policy (no policy is declared); tokens, cost (not in the trace).

Was a pass earned?   all sub-goals reached  some missed
  runs that pass                        26            1
    right for the wrong reason? airline/9/2
  runs that fail                        11           82
    9 of the 11 wrote more

Look first       steps  suspect  evidence
  airline/9/2       62  45-61    same error 5 times
  b                  2  -        unexplained: the rules found nothing to point at
  c                  2  -        clean: the rules found nothing to point at

This report does not cover: suspect-step accuracy (no labels here).
Next: stepscope show airline/9/2
"""


def comparison() -> ComparisonReport:
    flat = Difference(
        first=rate(0.42, 0.32, 0.52),
        second=rate(0.4, 0.3, 0.5),
        effect=rate(-0.02, -0.08, 0.04),
        p=0.51,
        p_adjusted=1.0,
        paired=True,
        n_cases=50,
        detectable=0.12,
        cases_needed=730,
    )
    found = Difference(
        first=rate(0.1, 0.05, 0.2),
        second=rate(0.6, 0.5, 0.7),
        effect=rate(0.5, 0.4, 0.6),
        p=0.0001,
        p_adjusted=0.0002,
        survives=True,
        paired=True,
    )
    nothing = Unmeasured("missing_input", "not in the trace")
    absent = Difference(first=nothing, second=nothing, effect=nothing)
    return ComparisonReport(
        first=profile("gpt-4o"),
        second=profile("@bob"),
        differences={
            "outcome.pass": flat,
            "redundant_calls.per_run": found,
            "tokens.median": absent,
        },
        n_shared=50,
        n_only_first=2,
        n_only_second=0,
        worth_seeing=0.05,
        rank_flips=RankFlips(flips=(), figures=("redundant_calls.per_run",), n_pairs=1),
        provenance=Provenance(where=None, since=None, by="agent", seed=3, judges=(), measures={}),
    )


def test_text_is_the_products_example() -> None:
    assert text.render(make_report_document(report())) == AIRLINE


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_line_is_longer_than_the_width(width: int) -> None:
    long = report(hostile="x" * 300, evidence="y " * 300)
    for shown in (
        text.render(make_report_document(long), width),
        text.render(make_comparison_document(comparison()), width),
    ):
        assert max(map(len, shown.splitlines())) <= width


def test_hostile_text_reaches_no_terminal() -> None:
    shown = text.render(make_report_document(report(HOSTILE, HOSTILE)))
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_markdown_lets_no_trace_text_act() -> None:
    shown = markdown.render(make_report_document(report(HOSTILE, HOSTILE)))
    for active in ("@alice", "Fixes #1", "```", "<img", "\x1b", "](", "http:"):
        assert active not in shown
    assert "&#64;alice Fixes &#35;1" in shown


def test_markdown_cells_stay_in_their_columns() -> None:
    rows = [
        r
        for r in markdown.render(make_report_document(report(HOSTILE, HOSTILE))).splitlines()
        if r[:1] == "|"
    ]
    assert {row.count("|") for row in rows} == {6, 5, 4}


def test_evidence_other_than_an_error_is_cut_at_its_end() -> None:
    said = "first words, " + "x" * 100 + ", last words"
    error = report(evidence=said)
    assert "last words" in text.render(make_report_document(error))
    other = msgspec.structs.replace(
        error.look_first[0],
        suspects=(msgspec.structs.replace(error.look_first[0].suspects[0], kind="missed"),),
    )
    shown = text.render(make_report_document(msgspec.structs.replace(error, look_first=(other,))))
    assert "first words, " in shown
    assert "last words" not in shown


def test_junit_is_xml_whatever_a_trace_says() -> None:
    hostile = HOSTILE + "\x00\x08\ufffe\ud800]]><failure "
    root = ET.fromstring(data.render_report_junit(report(hostile, hostile)).encode("utf-8"))
    runs = next(s for s in root if s.get("name") == "runs")
    assert (runs.get("tests"), runs.get("failures"), runs.get("skipped")) == ("3", "1", "1")


def test_why_a_run_failed_is_a_line_of_its_own_on_every_medium() -> None:
    made = report()
    failed = msgspec.structs.replace(made.look_first[0], because="never told @user 12")
    made = msgspec.structs.replace(made, look_first=(failed, *made.look_first[1:]))
    assert "\n    failed because never told @user 12\n" in text.render(make_report_document(made))
    lines = markdown.render(make_report_document(made)).splitlines()
    at = lines.index("|  |  |  | failed because <code>never told &#64;user 12</code> |")
    assert "same error 5 times" in lines[at - 1]
    root = ET.fromstring(data.render_report_junit(made))
    (failure,) = root.iter("failure")
    assert (failure.text or "").splitlines()[:2] == [
        "failed because never told @user 12",
        "step 45-61: same error 5 times",
    ]
    assert failure.get("message") == "same error 5 times"


def test_junit_skips_what_was_not_measured() -> None:
    root = ET.fromstring(data.render_report_junit(report()))
    skipped = [c.get("name") for c in root.iter("testcase") if c.find("skipped") is not None]
    assert skipped == ["b", "policy.violations", "tokens.median", "cost_usd.median", "cost_usd.p95"]
    assert [c.get("name") for c in root.iter("testcase") if c.find("failure") is not None] == [
        "airline/9/2"
    ]


def test_json_reads_back_as_the_same_report() -> None:
    assert msgspec.json.decode(render_json(report()), type=Report) == report()
    back = msgspec.json.decode(render_json(comparison()), type=ComparisonReport)
    assert back == comparison()


def test_the_published_schema_is_current() -> None:
    published = resources.files("stepscope.report").joinpath("report.schema.json").read_bytes()
    assert published == make_report_schema()


def test_comparison_names_what_survives_and_what_could_be_seen() -> None:
    shown = text.render(make_comparison_document(comparison()))
    assert "-2.0 points  -8.0 to 4.0" in shown
    assert ("at 0.05 after Holm's correction over 2 figures: redundant calls per run.") in " ".join(
        shown.split()
    )
    assert (
        "To detect a difference of 5 points in 'outcome: pass' you need about 730 tasks; with "
        "these tasks, only a difference of 12 points or more would be detected."
    ) in " ".join(shown.split())
    assert "Outside every pair: 2 tasks of the first group only, 0 of the second." in shown


def test_comparison_in_markdown_mentions_nobody() -> None:
    assert "@bob" not in markdown.render(make_comparison_document(comparison()))


@pytest.mark.parametrize(
    ("runs", "low", "said"),
    [
        (200, 4, "50 tasks x 4 trials, "),
        (180, 3, "50 tasks x 3 to 4 trials, "),
        (204, 4, "50 tasks, "),  # four runs without an outcome are in no trial
        (190, 4, "50 tasks, "),
    ],
)
def test_tasks_times_trials_is_said_only_where_it_counts_the_runs(
    runs: int, low: int, said: str
) -> None:
    trials = TrialCounts(low=low, high=4, always=10, mixed=26, never=14)
    made = msgspec.structs.replace(profile(), n_runs=runs, trials=trials)
    assert said in describe_profile(made, report())[1]


def test_the_too_loose_warning_is_printed() -> None:
    loose = msgspec.structs.replace(
        profile(), too_loose=Decision("fail", "the trajectory scorer is too loose")
    )
    whole = msgspec.structs.replace(report(), profiles=(loose,))
    assert "Warning: the trajectory scorer is too loose" in text.render(make_report_document(whole))
    assert "Warning" not in text.render(make_report_document(report()))
    assert "too loose" in markdown.render(make_report_document(whole))


def flip(figure: str, path: Estimate | Unmeasured, second: str = "b") -> Flip:
    return Flip(
        first="a",
        second=second,
        figure=figure,
        outcome=rate(0.2, 0.1, 0.3),
        path=path,
        p=0.001,
        p_adjusted=0.012,
    )


def test_rank_flips_are_said_by_pair_and_with_intervals_on_every_medium() -> None:
    calls = rate(4.9, 4.0, 5.8)
    alike = Unmeasured("undefined", "all 50 cases differ by 1: no spread")
    found = RankFlips(
        flips=(flip("redundant_calls.per_run", calls), flip("judged.axes.termination", alike)),
        figures=("redundant_calls.per_run", "judged.axes.termination", "axes.sequencing"),
        n_pairs=1,
    )
    said = (
        "Rank flip: a is ahead of b by outcome (+20 points, 10–30) and behind by redundant calls "
        "per run (+490 points, 400–580), fault in termination, by judges (undefined: all 50 cases "
        "differ by 1: no spread); largest p 0.012 after Holm over 3 figures about the path"
    )
    two = msgspec.structs.replace(report(), profiles=(profile("a"), profile("b")))
    whole = make_report_document(msgspec.structs.replace(two, rank_flips=found))
    compared = msgspec.structs.replace(comparison(), rank_flips=found)
    for document in (whole, make_comparison_document(compared)):
        assert said in " ".join(text.render(document).split())
        quoted = said.replace("flip: ", "flip: <code>", 1)
        assert quoted in unescape(markdown.render(document))


def test_no_flip_shown_is_not_the_same_order() -> None:
    said = (
        "Rank flips: none is proved among 1 figure about the path; it is not known whether path "
        "and outcome put these groups in the same order."
    )
    two = msgspec.structs.replace(
        report(), profiles=(profile("a"), profile("b")), rank_flips=comparison().rank_flips
    )
    for document in (make_report_document(two), make_comparison_document(comparison())):
        assert said in " ".join(text.render(document).split())
        assert said in markdown.render(document)
        assert "alike" not in text.render(document)
    absent = msgspec.structs.replace(two, rank_flips=Unmeasured("insufficient_data", "no tasks"))
    assert "Rank flips: unmeasured, no tasks." in text.render(make_report_document(absent))
    assert "Rank flip" not in text.render(make_report_document(report()))  # one group


def test_a_text_tells_the_flips_of_some_pairs_and_how_many_more_there_are() -> None:
    flips = tuple(flip("axes.sequencing", rate(0.2, 0.1, 0.3), second=f"b{at}") for at in range(7))
    found = RankFlips(flips=flips, figures=("axes.sequencing",), n_pairs=28)
    two = msgspec.structs.replace(report(), profiles=(profile("a"), profile("b")), rank_flips=found)
    shown = text.render(make_report_document(two))
    assert shown.count("Rank flip: ") == 5
    assert "Rank flips of 2 more pairs: stepscope report --json" in shown
    assert "Holm over 1 figure about the path and 28 pairs of groups" in " ".join(shown.split())


def test_what_cannot_be_measured_is_one_line_with_its_reasons() -> None:
    whole = profile()
    whole.figures["tokens.median"] = whole.figures["cost_usd.median"] = Unmeasured(
        "missing_input", "not in the trace"
    )
    whole.figures["policy.violations"] = Unmeasured("missing_input", "no rules in settings")
    lines, absent = list_figures(whole)
    assert "tokens, cost (not in the trace)" in absent
    assert "runs that break the policy (no rules in settings)" in absent
    assert not {"tokens.median", "policy.violations"} & set(lines)
    assert not any(cell.text in ("-", "0 runs") for row in lines.values() for cell in row.cells)


def test_a_known_value_is_a_line_though_its_interval_is_not() -> None:
    whole = profile()
    whole.figures["steps.median"] = Estimate(
        value=7.0, low=None, high=None, method="none", n=3, n_tasks=3, unit="steps",
        diagnostics=("no interval: all equal",),
    )  # fmt: skip
    cells = list_figures(whole)[0]["steps.median"].cells
    assert [cell.text for cell in cells] == [
        *("steps, median", "7", "no interval: all equal", "3 runs", "0")
    ]


def test_groups_of_few_runs_are_one_table_of_counts() -> None:
    few = [msgspec.structs.replace(profile(name), n_runs=4) for name in ("c", "d")]
    known = msgspec.structs.replace(rate(0.25, 0.0, 0.7), n=4)
    few[0].figures["outcome.pass"] = known
    several = msgspec.structs.replace(report(), profiles=(profile("a"), profile("b"), *few))
    shown = text.render(make_report_document(several))
    assert "Groups of fewer than 5 runs" in shown
    assert re.search(r"^  c +4 +1 of 4 ", shown, re.MULTILINE)
    assert "\nc   " not in shown  # no section of its own
    five = msgspec.structs.replace(profile("c"), n_runs=5)
    many = msgspec.structs.replace(several, profiles=(profile("a"), five))
    assert "fewer than 5" not in text.render(make_report_document(many))


def test_worst_case_bounds_stand_beside_a_rate() -> None:
    lossy = Estimate(
        value=0.5, low=0.4, high=0.6, method="wilson", n=10, n_tasks=10,
        unmeasured={"refused": 10}, worst_low=0.25, worst_high=0.75,
    )  # fmt: skip
    whole = msgspec.structs.replace(lossy, unmeasured={}, worst_low=0.5, worst_high=0.5)
    assert describe_figure("outcome.pass", whole).cells[-1].text == "0"
    said = describe_figure("outcome.pass", lossy).cells[-1].text
    assert said == "10 runs refused; worst case 25–75 %"
    few = msgspec.structs.replace(whole, unmeasured={"insufficient_data": 3})
    said = describe_figure("outcome.pass^4", few).cells[-1].text
    assert said == "3 tasks insufficient data (too few trials)"


@pytest.mark.parametrize("refuse", [Report.scalar, Report.__float__])
def test_a_report_is_never_one_number(refuse: Callable[[Report], None]) -> None:
    with pytest.raises(Exception, match="a report is a table of figures"):
        refuse(report())


def test_markdown_breaks_a_table_of_many_groups_into_several() -> None:
    titles = [f"agent-{at}" for at in range(8)]
    many = msgspec.structs.replace(report(), profiles=tuple(map(axes_profile, titles)))
    lines = markdown.render(make_report_document(many)).splitlines()
    heads = [line for line in lines if line.startswith("| Failure profile")]
    assert [head.count("<code>") for head in heads] == [6, 2]


def axes_profile(title: str) -> Profile:
    made = profile(title)
    figures = {**made.figures, "axes.termination": rate(0.1, 0.05, 0.2)}
    return msgspec.structs.replace(made, figures=figures)


def test_a_workflow_says_in_how_many_runs_what_verdicts_need_was_recorded() -> None:
    inputs = (
        InputCount(input="task", runs=52, lost={}),
        InputCount(input="policy", runs=52, lost={}),
        InputCount(input="tools", runs=52, lost={"not_recorded": 52}),
        InputCount(input="results", runs=52, lost={"cut": 2, "not_recorded": 10}),
    )
    counted = msgspec.structs.replace(profile("gpt-4o"), inputs=inputs)
    shown = make_report_document(msgspec.structs.replace(report(), profiles=(counted,)))
    assert (
        "Recorded in all runs: task, policy text. Tool list: in none of 52 runs with calls "
        "(without it, unknown tools and wrong argument schemas are not detected). Results: in 40 "
        "of 52 runs with calls (2 cut) (without them, result interpretation and origins of "
        "arguments are not checked)"
    ) in " ".join(text.render(shown).split())
    assert "Recorded in" not in text.render(make_report_document(report()))


def look(id: str, evidence: str, share: float = 0.4, **fields: Any) -> LookFirst:
    suspect = SuspectSteps(first=3, last=3, kind=fields.pop("kind", "fault"), evidence=evidence,
                           share=share)  # fmt: skip
    given: dict[str, Any] = {"outcome": "fail", "steps": 9, "suspects": (suspect,)} | fields
    return LookFirst(id=id, name=f"shop/{id}", **given)


@pytest.mark.parametrize(
    ("second", "same"),
    [
        (look("b", "pay fails: total is 377, but paid 12"), "a"),  # only its values differ
        (look("b", "book fails: total is 375, but paid 299"), ""),
        (look("b", "pay fails: no such card"), ""),
        (look("b", "pay fails: total is 375, but paid 299", outcome="pass"), ""),
        (look("b", "", suspects=()), ""),
    ],
)
def test_runs_are_alike_where_their_first_fault_has_one_signature(
    second: LookFirst, same: str
) -> None:
    first = look("a", "pay fails: total is 375, but paid 299")
    assert [run.same_as for run in mark_same_faults([first, second])] == ["", same]


def test_where_no_fault_was_found_runs_are_alike_that_failed_for_the_same() -> None:
    def place(id: str, because: str) -> LookFirst:
        return look(id, "the last step", kind="place", because=because)

    found = mark_same_faults([place("a", "never pays 3"), place("b", "never pays 4"),
                              place("c", "never ships")])  # fmt: skip
    assert [run.same_as for run in found] == ["", "a", ""]


def test_runs_with_one_fault_are_one_line_that_names_them_with_their_chances() -> None:
    names = ["a", "b", "</script>", *"defghi"]
    runs = [look(name, "pay fails: no card", (at + 1) / 20) for at, name in enumerate(names)]
    found = (*mark_same_faults(runs), look("other", "book fails: full"))
    whole = msgspec.structs.replace(report(), look_first=found)
    shown = text.render(make_report_document(whole), 200)
    assert shown.count("pay fails: no card") == 1
    assert "the same fault in shop/b at step 3 (10 %), shop/</script> at step 3 (15 %)" in shown
    assert "and 2 more" in shown
    assert shown.count("book fails: full") == 1
    assert "</script>" not in markdown.render(make_report_document(whole))
    assert "step 3 (10 %): pay fails: no card" in data.render_report_junit(whole)
