"""Panels: who found what alone, together, and in which runs nobody may be compared."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.model import Outcome, Record, Usage, Verdict
from stepscope.report.build import build_report
from stepscope.report.document import Links
from stepscope.report.render import markdown, text
from stepscope.report.render.html import make_report_charts, render_report_html
from stepscope.report.types import Panels, Report, VerdictFlag
from stepscope.report.views.overview import make_report_document
from stepscope.report.views.profile import draw_axes
from stepscope.report.words import name_panel, name_steps
from stepscope.safety.text import render_json
from stepscope.score import score_runs
from stepscope.store import Store
from stepscope.store.parquet import ParquetRows
from stepscope.values import Estimate, Unmeasured
from tests.factories import FAILED, PASSED
from tests.report.literal import HOSTILE
from tests.report.made_panels import (
    ONE,
    SELECTION,
    TERMINATION,
    TWO,
    axes,
    axis,
    behaved,
    labelled,
    only,
    panels_of,
    repaired,
    reported,
    runs,
    said,
    seat,
    store_of,
)

HELD = runs(10)


def share(found: object) -> tuple[float, int]:
    assert isinstance(found, Estimate), found
    return found.value, found.n


def flags(found: Panels, kind: str) -> list[VerdictFlag]:
    return [flag for flag in found.flags if flag.kind == kind]


def test_a_store_without_judges_has_no_panels_at_all() -> None:
    found = reported(store_of(HELD, axes("rules", HELD, "xx........")))
    assert found.panels is msgspec.UNSET
    assert "panels" not in render_json(found)
    assert found.provenance.judges == ("rules",)


def test_any_and_all_are_over_the_runs_that_every_judge_answered() -> None:
    found = panels_of(store_of(HELD, axes(ONE, HELD, "xxx..x...."), axes(TWO, HELD, "xx.x.?h-..")))
    (group,) = only(found).groups
    (vote,) = group.votes
    assert vote.judges == (ONE, TWO)
    assert share(vote.any) == (4 / 7, 7)
    assert share(vote.all) == (2 / 7, 7)
    assert vote.incomplete == 3
    assert isinstance(vote.any, Estimate)
    assert vote.any.unmeasured == {"incomplete": 3}
    assert (vote.any.worst_low, vote.any.worst_high) == (0.4, 0.7)
    assert share(seat(group, ONE).failing) == (0.4, 10)
    assert share(seat(group, TWO).failing) == (3 / 7, 7)
    assert seat(group, TWO).not_judged == 1


def test_a_run_that_no_judge_finds_the_aspect_in_is_not_incomplete() -> None:
    found = panels_of(store_of(HELD, axes(ONE, HELD, "xx......nn"), axes(TWO, HELD, "x.......n.")))
    (vote,) = only(found).groups[0].votes
    assert (share(vote.any), vote.incomplete) == ((0.25, 8), 1)
    assert isinstance(vote.any, Estimate)
    assert vote.any.unmeasured == {"incomplete": 1, "not_applicable": 1}


def test_what_gives_no_yes_or_no_is_counted_by_the_word_of_its_reason() -> None:
    found = panels_of(store_of(HELD, axes(TWO, HELD, "x.?nherr..")))
    one = seat(only(found).groups[0], TWO)
    assert one.lost == {
        "evidence_not_found": 1, "hallucinated_citation": 1, "not_applicable": 1, "refused": 2,
        "uncertain": 1,
    }  # fmt: skip
    assert share(one.failing) == (0.25, 4)
    assert isinstance(one.failing, Estimate)
    # What an axis does not apply to is in no worst case.
    assert (one.failing.worst_low, one.failing.worst_high) == (1 / 9, 6 / 9)


def test_a_judge_that_answered_nothing_is_unmeasured_not_zero() -> None:
    figure = seat(only(panels_of(store_of(HELD, axes(TWO, HELD, "hhhhrrrrrr")))).groups[0], TWO)
    assert isinstance(figure.failing, Unmeasured)
    assert figure.failing.reason == "no run with a yes or no: 4 hallucinated_citation, 6 refused"


def test_proofs_of_rules_count_in_any_and_the_rules_are_left_out_of_all() -> None:
    found = panels_of(
        store_of(HELD, axes(ONE, HELD, "xx........"), axes("rules", HELD, "x?????????"))
    )
    panel = only(found)
    assert [member.judge for member in panel.members] == [ONE, "rules"]
    (vote,) = panel.groups[0].votes
    assert (share(vote.any), share(vote.all)) == ((0.2, 10), (0.2, 10))
    assert share(seat(panel.groups[0], "rules").failing) == (0.1, 10)


def test_on_the_profile_the_rules_are_a_bound_and_no_dot_of_a_judge() -> None:
    report = reported(
        store_of(HELD, axes(ONE, HELD, "xx........"), axes("rules", HELD, "x?????????"))
    )
    _, (row,) = draw_axes(report.profiles, report.panels or None, Links())
    (cell,) = row[2]
    assert [(said, share) for said, share, _ in cell.said] == [("claude-sonnet-4-5, of 10", "20 %")]
    assert len(cell.judges) == 1
    assert cell.words == "\u2265 1 of 10"


def test_two_models_are_summed_up_without_the_rules_and_then_with_them() -> None:
    found = panels_of(
        store_of(
            HELD,
            axes(ONE, HELD, "xx........"),
            axes(TWO, HELD, "x........."),
            axes("rules", HELD, "??x???????"),
        )
    )
    models, everyone = only(found).groups[0].votes
    assert models.judges == (ONE, TWO)
    assert (share(models.any), share(models.all)) == ((0.2, 10), (0.1, 10))
    assert everyone.judges == (ONE, TWO, "rules")
    assert (share(everyone.any), share(everyone.all)) == ((0.3, 10), (0.1, 10))


@pytest.mark.parametrize(
    ("rubric", "expected", "lost"),
    [
        # A part of a run can be right though the run fails.
        (SELECTION, (0.2, 10), {}),
        ("quality.final_answer", (2 / 7, 7), {"outranked": 3}),
        ("own.success", (2 / 7, 7), {"outranked": 3}),
    ],
)
def test_praise_of_a_failed_run_is_no_vote_but_on_a_part_of_it(
    rubric: str, expected: tuple[float, int], lost: dict[str, int]
) -> None:
    found = panels_of(store_of(HELD, axes(ONE, HELD, "xxooo.....", rubric)))
    one = seat(only(found, rubric).groups[0], ONE)
    assert share(one.failing) == expected
    assert one.lost == lost


def test_a_judge_that_finds_no_fault_at_all_in_a_failed_run_is_flagged() -> None:
    found = panels_of(
        store_of(HELD, axes(ONE, HELD, "oooooooooo"), axes(ONE, HELD, "xxxxxxxxoo", TERMINATION))
    )
    (flag,) = flags(found, "outranked")
    assert (flag.judge, flag.n, flag.runs) == (ONE, 2, ("shop/8/gpt-4o", "shop/9/gpt-4o"))


def test_groups_are_before_the_same_panel_and_their_claims_pass_holm() -> None:
    held = runs(12, ("good agent", "poor agent"))
    found = panels_of(
        store_of(
            held,
            axes(ONE, held, "." * 12 + "x" * 11 + "."),
            axes(TWO, held, "." * 12 + "x" * 10 + ".."),
            axes(ONE, held, "x." * 12, TERMINATION),
            axes(TWO, held, ".x" * 12, TERMINATION),
        )
    )
    good, poor = only(found).groups
    assert (good.title, share(good.votes[0].any)) == ("shop · good agent", (0.0, 12))
    assert (poor.title, share(poor.votes[0].any)) == ("shop · poor agent", (11 / 12, 12))
    (claim,) = only(found).claims
    assert isinstance(claim.effect, Estimate)
    assert claim.effect.value == pytest.approx(11 / 12)
    assert claim.p is not None
    assert claim.p_adjusted == pytest.approx(2 * claim.p)
    assert claim.survives
    (same,) = only(found, TERMINATION).claims
    assert not same.survives
    assert flags(found, "unequal_panels") == []


def test_a_group_that_one_judge_did_not_see_has_no_sum_and_a_flag() -> None:
    held = runs(5, ("a", "b"))
    found = panels_of(store_of(held, axes(ONE, held, "x....x...."), axes(TWO, held, "x....-----")))
    first, second = only(found).groups
    assert share(first.votes[0].any) == (0.2, 5)
    assert isinstance(second.votes[0].any, Unmeasured)
    assert second.votes[0].incomplete == 5
    (flag,) = flags(found, "unequal_panels")
    assert flag.said == f"{SELECTION}: shop · b was not judged by {TWO}"


def test_a_group_that_nobody_was_asked_about_has_no_flag() -> None:
    held = runs(5, ("a", "b"))
    found = panels_of(store_of(held, axes(ONE, held, "x....-----"), axes(TWO, held, "x....-----")))
    assert flags(found, "unequal_panels") == []
    assert seat(only(found).groups[1], ONE).not_judged == 5


def test_drawn_runs_count_for_as_many_as_they_stand_for() -> None:
    held = runs(40)
    store = store_of(held, axes(ONE, held[:12], "xxx...xx...."))
    store.put_sample(SELECTION, [r.id for r in held[:8]], 1.0, [r.id for r in held[:8]])
    store.put_sample(SELECTION, [r.id for r in held[8:]], 0.1, [r.id for r in held[8:11]])
    found = panels_of(store)
    panel = only(found)
    one = seat(panel.groups[0], ONE)
    assert panel.drawn
    assert isinstance(one.failing, Estimate)
    assert one.failing.value == pytest.approx(5 / (8 + 3 * 10))
    assert (one.failing.n, one.failing.method) == (11, "hajek, wilson")
    (flag,) = flags(found, "not_drawn")
    assert (flag.n, flag.runs) == (1, ("shop/11/gpt-4o",))


def test_the_worst_case_of_a_sample_leaves_out_what_an_axis_does_not_apply_to() -> None:
    held = runs(40)
    store = store_of(held, axes(ONE, held[:8], "xx...rnn"))
    store.put_sample(SELECTION, [r.id for r in held], 0.2, [r.id for r in held[:8]])
    one = seat(only(panels_of(store)).groups[0], ONE)
    assert isinstance(one.failing, Estimate)
    assert one.failing.unmeasured == {"not_applicable": 2, "refused": 1}
    assert (one.failing.worst_low, one.failing.worst_high) == pytest.approx((2 / 6, 3 / 6))
    # Runs that were not drawn were not left out by the judge.
    assert one.not_judged == 0


def test_groups_of_an_uneven_sample_are_not_compared() -> None:
    held = runs(12, ("a", "b"))
    ids = [r.id for r in held]
    for chances, compared in (((0.5, 0.5), 1), ((0.5, 0.25), 0)):
        store = store_of(held, axes(ONE, held, "." * 12 + "x" * 11 + "."))
        store.put_sample(SELECTION, ids[:12], chances[0], ids[:12])
        store.put_sample(SELECTION, ids[12:], chances[1], ids[12:])
        assert len(only(panels_of(store)).claims) == compared


def test_runs_outside_of_a_sample_are_in_no_claim() -> None:
    held = runs(12, ("a", "b"))
    ids = [r.id for r in held]
    store = store_of(held, axes(ONE, held, "." * 12 + "......xxxxxx"))
    store.put_sample(SELECTION, ids, 0.5, [*ids[:6], *ids[12:18]])
    (claim,) = only(panels_of(store)).claims
    assert claim.p is None or not claim.survives
    assert isinstance(claim.effect, Unmeasured) or claim.effect.value == 0


def test_a_draw_for_a_set_holds_for_its_rubrics() -> None:
    held = runs(6)
    store = store_of(held, axes(ONE, held[:2], "x."))
    store.put_sample("axes", [r.id for r in held], 1 / 3, [r.id for r in held[:2]])
    assert only(panels_of(store)).drawn


def test_step_labels_speak_against_a_run_that_has_such_a_step() -> None:
    held = runs(4)
    records = [r for of, marks in zip(held, ("PPPEPP", "PRPPPP", "EPPPPP", "PPPPPE"), strict=True)
               for r in labelled(ONE, of, marks)]  # fmt: skip
    broken = said(
        TWO, held[0], Unmeasured("unparsable", "off_menu: 'Error'", "judge.step_labels", 3)
    )
    whole = said(TWO, held[0], Verdict("judge.step_labels", 5.0))
    found = panels_of(store_of(held, records, [whole, broken]))
    assert share(seat(only(found, "step_labels", "ERROR").groups[0], ONE).failing) == (0.5, 4)
    assert share(seat(only(found, "step_labels", "REDUNDANT").groups[0], ONE).failing) == (0.25, 4)
    # The third run's error is at a step of the user's. What could not be read leaves a no open.
    assert seat(only(found, "step_labels", "ERROR").groups[0], TWO).lost == {"off_menu": 1}


def test_patterns_of_steps_are_counted_by_judge_over_the_runs_with_labels() -> None:
    held = runs(8)
    mended = [r for r in labelled(ONE, held[0], "PEPPPP") if r.answer.step != 3]
    records = [
        *mended, repaired(ONE, held[0], error=1, by=3),
        *labelled(ONE, held[1], "PEPPPP"),
        *labelled(ONE, held[2], "PPPDPP"),
        *labelled(ONE, held[3], "PPP PP"),
        *(r for of in held[4:] for r in labelled(ONE, of, "PPPPPP")),
    ]  # fmt: skip
    found = panels_of(store_of(held, records))
    by_name = {one.name: one for one in found.patterns}
    assert share(by_name["healthy_recovery"].share) == (1 / 7, 7)
    assert by_name["healthy_recovery"].runs == ("shop/0/gpt-4o",)
    assert share(by_name["cascade"].share) == (1 / 7, 7)
    assert by_name["cascade"].runs == ("shop/1/gpt-4o",)
    assert by_name["detour"].runs == ("shop/2/gpt-4o",)
    # A step without a label can hide a pattern.
    assert isinstance(by_name["detour"].share, Estimate)
    assert by_name["detour"].share.unmeasured == {"insufficient_data": 1}
    assert by_name["whip"].n == 0
    shown = text.render(make_report_document(build_report(store_of(held, records))))
    said_of = "14 %, 2.6–51 of 7 (12–25)"
    assert f"  cascade           claude-sonnet-4-5  {said_of}  shop/1/gpt-4o" in shown
    assert "none in any labelled run: whip" in shown


def test_a_pattern_that_hangs_on_an_unknown_outcome_is_not_called_none() -> None:
    said_of = {}
    for outcome in (Outcome(), FAILED):
        held = runs(3, outcome=outcome)
        records = [r for of in held for r in labelled(ONE, of, "PPPRPP")]
        found = panels_of(store_of(held, records))
        whip = next(one for one in found.patterns if one.name == "whip")
        shown = text.render(make_report_document(build_report(store_of(held, records))))
        said_of[outcome.status] = (whip.n, whip.unknown, shown)
    assert said_of["unknown"][:2] == (0, 3)
    assert "unknown outcome in 3 runs with labels: whip" in said_of["unknown"][2]
    assert "none in any labelled run: detour, cascade, healthy recovery" in said_of["unknown"][2]
    assert said_of["fail"][:2] == (0, 0)
    assert "none in any labelled run: whip, detour" in said_of["fail"][2]


def test_whose_steps_they_are_rules_have_said_where_they_scored() -> None:
    held = runs(2)
    steps = [said("rules", of, Verdict("step_labels.steps", 2.0, cites=(1, 3))) for of in held]
    records = [r for of in held for r in labelled(ONE, of, "PPPPPE")]
    found = panels_of(store_of(held, records, steps))
    assert share(seat(only(found, "step_labels", "ERROR").groups[0], ONE).failing) == (0.0, 2)


def test_a_behaviour_has_a_place_where_it_begins_and_a_spread_over_the_run() -> None:
    """Steps 1, 3 and 5 are the agent's: what was said of others shows no behaviour of it."""
    held = runs(16)
    shown = ["x..x..", ".x.xx."] + ["...x.."] * 6 + ["......"] * 7 + ["..x..."]
    records = [r for of, marks in zip(held, shown, strict=True) for r in behaved(ONE, of, marks)]
    found = panels_of(store_of(held, records))
    (one,) = found.onsets
    assert share(one.runs) == (0.5, 16)
    assert isinstance(one.onset, Estimate)
    assert one.onset.value == 0.6
    spread = [None if isinstance(t, Unmeasured) else t.value for t in one.tenths]
    assert spread == [None, None, 0.0625, None, None, None, 0.5, None, None, 0.0]
    assert share(seat(only(found, "behaviour.sycophancy", "present").groups[0], ONE).failing) == (
        0.5, 16,
    )  # fmt: skip


def test_a_rubric_with_other_answers_is_counted_and_put_before_no_panel() -> None:
    parts = ["plan"] * 7 + ["argument"] * 2
    answers = [said(ONE, of, Verdict("judge.attribution", label=part, cites=(3,)))
               for of, part in zip(HELD, parts, strict=False)]  # fmt: skip
    lost = said(ONE, HELD[9], Unmeasured("refused", "refused: no", "judge.attribution"))
    found = panels_of(store_of(HELD, answers, [lost]))
    assert found.panels == ()
    (one,) = found.answers
    assert (one.rubric, one.counts, one.lost) == (
        "attribution", {"argument": 2, "plan": 7}, {"refused": 1},
    )  # fmt: skip


def test_a_rubric_that_nobody_could_answer_makes_no_panel_of_itself() -> None:
    lost = [
        said(ONE, of, Unmeasured("not_applicable", "it passed", "judge.attribution")) for of in HELD
    ]
    found = panels_of(store_of(HELD, lost))
    assert found.panels == ()
    assert [one.lost for one in found.answers] == [{"not_applicable": 10}]


def test_agreement_and_disputes_stand_beside_the_panel() -> None:
    store = store_of(HELD, axes(ONE, HELD, "xxx......."), axes(TWO, HELD, "xx..x....."))
    found = panels_of(store)
    (pair,) = found.agreement
    assert (pair.rubric, pair.judges, pair.families) == (
        SELECTION, (ONE, TWO), ("anthropic", "openai"),
    )  # fmt: skip
    assert share(pair.raw) == (0.8, 10)
    assert isinstance(pair.kappa, Estimate)
    # Both say incorrect of 3 in 10: chance agrees in .58, and (.8 - .58) / .42 is left.
    assert pair.kappa.value == pytest.approx(0.22 / 0.42)
    assert share(pair.cites)[0] == 1.0
    assert found.n_disputed == 2
    assert {one.name for one in found.queue} == {"shop/2/gpt-4o", "shop/4/gpt-4o"}
    assert found.queue[0].answers.keys() == {ONE, TWO}


def test_one_run_is_worked_through_with_the_steps_cited_in_common() -> None:
    records = [
        said(ONE, HELD[4], axis(ONE, "incorrect", 3, 5, sure=0.9)),
        said(TWO, HELD[4], axis(TWO, "incorrect", 3, sure=0.86)),
        said(ONE, HELD[4], axis(ONE, "correct", 5, rubric=TERMINATION)),
        said(TWO, HELD[4], axis(TWO, "incorrect", 5, rubric=TERMINATION)),
        *axes(ONE, HELD[:4], "...."),
        *axes(TWO, HELD[:4], "...."),
    ]
    trace = panels_of(store_of(HELD, records)).trace
    assert trace is not None
    assert (trace.name, trace.outcome) == ("shop/4/gpt-4o", "fail")
    first, second = trace.lines
    assert (first.rubric, first.common) == (SELECTION, (3,))
    assert [(a.judge, a.label, a.confidence) for a in first.answers] == [
        (ONE, "incorrect", 0.9), (TWO, "incorrect", 0.86),
    ]  # fmt: skip
    assert second.common == ()  # the same step for opposite answers is no common ground
    assert [(s.step, s.text) for s in trace.steps] == [(3, "cancel_order(#W2575533)")]


def test_the_run_worked_through_is_one_in_which_judges_find_a_fault_together() -> None:
    trace = panels_of(
        store_of(HELD, axes(ONE, HELD, "x...x....."), axes(TWO, HELD, ".x..x....."))
    ).trace
    assert trace is not None
    assert trace.name == "shop/4/gpt-4o"


def test_a_run_that_one_judge_saw_is_not_worked_through() -> None:
    assert panels_of(store_of(HELD, axes(ONE, HELD, "xx........"))).trace is None


# -- What weakens verdicts.


def test_a_judge_of_the_agents_family_is_flagged() -> None:
    held = runs(2, ("gpt-4o", "our agent"))
    found = panels_of(store_of(held, axes(ONE, held, "...."), axes(TWO, held, "....")))
    (flag,) = flags(found, "self_family")
    assert (flag.judge, flag.n) == (TWO, 2)
    assert flag.said == "judges runs of gpt-4o, a model of its own family (openai)"


def test_verdicts_that_turn_are_counted_by_what_turns_them() -> None:
    again = [said(ONE, of, axis(ONE, "correct", 3), repeat=1) for of in HELD[:2]]
    off = [
        said(ONE, of, axis(ONE, "correct", 3), version="1+narration-off", prompt="b")
        for of in HELD[:3]
    ]
    found = panels_of(store_of(HELD, axes(ONE, HELD, "x........."), again, off))
    (turned,) = flags(found, "flips")
    (dependent,) = flags(found, "narration_dependent")
    assert (turned.n, turned.runs) == (1, ("shop/0/gpt-4o",))
    assert (dependent.n, dependent.runs) == (1, ("shop/0/gpt-4o",))
    # The other mode makes no second judge.
    assert [m.judge for m in only(found).members] == [ONE]


def test_labels_of_steps_turn_by_the_step() -> None:
    again = [msgspec.structs.replace(r, repeat=1) for r in labelled(ONE, HELD[0], "PPPPPP")]
    found = panels_of(store_of(HELD, labelled(ONE, HELD[0], "PPEPPP"), again))
    assert [flag.n for flag in flags(found, "flips")] == [1]


@pytest.mark.parametrize(("version", "agreed"), [(None, (1.0, 10)), ("2", (0.0, 2))])
def test_agreement_is_of_the_version_that_the_panel_is_of(
    version: str | None, agreed: tuple[float, int]
) -> None:
    records = [
        msgspec.structs.replace(record, version=under)
        for judge, newer in ((ONE, "xx"), (TWO, ".."))
        for under, marks in (("1", "xx........"), ("2", newer))
        for record in axes(judge, HELD[: len(marks)], marks)
    ]
    found = build_report(store_of(HELD, records), rubric_version=version).panels
    assert isinstance(found, Panels)
    (pair,) = found.agreement
    assert share(pair.raw) == agreed
    assert found.n_disputed == (2 if version else 0)
    assert only(found, SELECTION, "incorrect").members[0].version == (version or "1")
    assert found.trace is not None
    assert {one.label for line in found.trace.lines for one in line.answers} == (
        {"incorrect", "correct"} if version else {"incorrect"}
    )


@pytest.mark.parametrize("version", [None, "1", "2"])
def test_runs_to_look_at_first_cite_what_the_panel_is_made_of(version: str | None) -> None:
    old = [said(ONE, of, axis(ONE, "incorrect", 1)) for of in HELD]
    new = said(ONE, HELD[0], axis(ONE, "incorrect", 3), version="2")
    store = store_of(HELD, old, [new])
    score_runs(store, workers=1)
    report = build_report(store, rubric_version=version, look_first=10)
    (look,) = [one for one in report.look_first if one.id == HELD[0].id]
    suspected = [one for one in look.suspects if "says anthropic" in one.evidence]
    assert [name_steps(one) for one in suspected] == ["3" if version == "2" else "1"]


def test_mixed_snapshots_and_older_answers_are_named() -> None:
    def under(judge: str, version: str, place: int) -> Record:
        return said(judge, HELD[place], axis(ONE, "correct", 3), version=version)

    found = panels_of(
        store_of(HELD, [under(ONE, "2", 0), under(f"{ONE}@s2", "2", 1), under(ONE, "1", 2)])
    )
    (mixed,) = flags(found, "snapshots_mixed")
    assert mixed.said == f"{SELECTION}: answered by as asked 1, s2 1"
    (older,) = flags(found, "older_answers")
    assert (older.n, older.said) == (
        1, f"{SELECTION}: answers of version 1 are not used",
    )  # fmt: skip


def test_a_judge_asked_without_narration_alone_sits_on_the_panel_and_says_so() -> None:
    off = [
        msgspec.structs.replace(r, version="1+narration-off") for r in axes(ONE, HELD, "xx........")
    ]
    found = panels_of(store_of(HELD, off))
    (member,) = only(found).members
    assert (member.mode, member.version) == ("narration-off", "1")
    assert share(seat(only(found).groups[0], ONE).failing) == (0.2, 10)
    assert flags(found, "narration_dependent") == []


def test_a_judge_with_a_prompt_a_run_keeps_every_answer_and_is_flagged() -> None:
    records = [
        msgspec.structs.replace(r, prompt=f"{at:016x}")
        for at, r in enumerate(axes(ONE, HELD, "xx........"))
    ]
    found = panels_of(store_of(HELD, records))
    assert share(seat(only(found).groups[0], ONE).failing) == (0.2, 10)
    assert only(found).members[0].n_prompts == 10
    (flag,) = flags(found, "prompts_mixed")
    assert flag.said == f"{SELECTION}: judged under 10 prompts of version 1"


@pytest.mark.parametrize(("broken", "flagged"), [(1, False), (2, True)])
def test_an_endpoint_that_often_breaks_the_form_is_flagged(broken: int, flagged: bool) -> None:
    bad = [said(ONE, of, Unmeasured("unparsable", "not_json: prose", f"judge.{SELECTION}"))
           for of in HELD[:broken]]  # fmt: skip
    found = panels_of(store_of(HELD, bad, axes(ONE, HELD[broken:], "." * (10 - broken))))
    assert bool(flags(found, "schema_ignored")) is flagged


def test_few_answers_do_not_make_an_endpoint_that_breaks_the_form() -> None:
    bad = [said(ONE, of, Unmeasured("unparsable", "not_json: prose", f"judge.{SELECTION}"))
           for of in HELD[:2]]  # fmt: skip
    found = panels_of(store_of(HELD, bad, axes(ONE, HELD[2:4], "..")))
    assert flags(found, "schema_ignored") == []


def test_a_missed_canary_sets_answers_aside_and_says_so() -> None:
    missed = [said(ONE, of, axis(ONE, "canary_missed: step 3", 3)) for of in HELD[:3]]
    found = panels_of(store_of(HELD, missed, axes(ONE, HELD[3:], "x......")))
    assert seat(only(found).groups[0], ONE).lost == {"canary_missed": 3}
    assert [(flag.judge, flag.n) for flag in flags(found, "canary_missed")] == [(ONE, 3)]


def test_every_answer_that_was_paid_for_counts_in_what_judges_took() -> None:
    usage = Usage(input_total=1_000_000, cache_read=400_000, output_total=20)
    old = said(ONE, HELD[0], axis(ONE, "correct", 3), version="0", usage=usage, cost_usd=0.02)
    new = said(ONE, HELD[0], axis(ONE, "correct", 3), usage=usage, cost_usd=0.01)
    free = said(ONE, HELD[1], axis(ONE, "correct", 3), usage=usage)
    (cost,) = panels_of(store_of(HELD, [old, new, free])).costs
    assert (cost.calls, cost.input_tokens, cost.cached_tokens, cost.output_tokens) == (
        3, 3_000_000, 1_200_000, 60,
    )  # fmt: skip
    assert cost.usd == pytest.approx(0.03)
    assert cost.unpriced == 1
    # What was paid for two of the three; the listed price of the snapshot says how it splits.
    assert cost.usd_saved is not None
    assert 0.005 < cost.usd_saved < 0.03


# -- What is shown.


def full() -> Store:
    held = runs(10)
    answers = [said(TWO, of, Verdict("judge.attribution", label="plan", cites=(3,)))
               for of in held]  # fmt: skip
    return store_of(
        held,
        axes(ONE, held, "xxx......."),
        axes(TWO, held, "xx..x..?hr"),
        axes("rules", held, "x?????????"),
        [r for of in held[:4] for r in labelled(TWO, of, "PPEPRP")],
        [r for of in held[:4] for r in behaved(TWO, of, "..x..x")],
        answers,
    )


PANEL = """\
At fault, by judge        any judge                 all judges                 claude-sonnet-4-5
  tool selection          57 %, 25–84 of 7 (40–70)  29 %, 8.2–64 of 7 (20–50)  30 %, 11–60 of 10
"""


def test_the_text_has_a_line_an_aspect_and_says_whose_verdicts_are_summed_up() -> None:
    shown = text.render(make_report_document(build_report(full())))
    assert PANEL in shown
    assert (
        "  any, all: over the runs that claude-sonnet-4-5 and gpt-5 answered; 3 run verdicts "
        "left out\n  no usable verdict from gpt-5: "
        "1 hallucinated_citation, 1 refused, 1 uncertain\n"
        "  in brackets: the share if all runs without a yes or no were at fault, or none\n"
    ) in shown


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_line_about_judges_is_longer_than_the_width(width: int) -> None:
    shown = text.render(make_report_document(build_report(full())), width)
    assert max(map(len, shown.splitlines())) <= width


def test_rubrics_stand_in_the_order_of_their_sets_and_have_names_of_their_own() -> None:
    found = panels_of(
        store_of(
            HELD,
            axes(ONE, HELD, "xx........", "quality.tool_selection"),
            axes(ONE, HELD, "xx........", TERMINATION),
            axes(ONE, HELD, "xx........"),
            axes(ONE, HELD, "xx........", "own.tone"),
        )
    )
    assert [name_panel(panel) for panel in found.panels] == [
        "tool selection", "termination", "quality: tool selection", "own: tone",
    ]  # fmt: skip


def test_a_notebook_draws_a_panel_for_each_group() -> None:
    held = runs(4, ("a", "b"))
    store = store_of(held, axes(ONE, held, "xx..x..?"), axes(TWO, held, "x...x..h"))
    drawn = make_report_charts(build_report(store))
    assert [name for name in drawn if name.startswith("panel")] == ["panel", "panel-1"]
    assert [row["group"] for row in drawn["panel"].rows] == ["claude-sonnet-4-5", "gpt-5"]
    assert "data:image/svg" in render_report_html(build_report(store))


def test_panels_are_the_same_from_an_exported_folder(tmp_path: Path) -> None:
    store = full()
    store.to_parquet(tmp_path)
    exported = build_report(ParquetRows(tmp_path)).panels
    assert isinstance(exported, Panels)
    # A run is opened in a store alone, and only there is known whose steps they are.
    inside = panels_of(store)
    assert exported.panels[0] == inside.panels[0]
    assert exported.agreement == inside.agreement
    assert exported.trace is None


def test_labels_of_a_hostile_judge_act_nowhere() -> None:
    answer = Verdict("judge.own.rubric", label=HOSTILE, cites=(3,), reason=HOSTILE)
    found = build_report(store_of(HELD, [said(ONE, HELD[0], answer)]))
    assert "\x1b" not in text.render(make_report_document(found))
    shown = markdown.render(make_report_document(found))
    for active in ("@alice", "Fixes #1", "```", "<img", "\x1b", "](", "http:"):
        assert active not in shown


def test_markdown_keeps_cells_in_their_columns() -> None:
    for block in markdown.render(make_report_document(build_report(full()))).split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1


def test_what_is_published_reads_back_as_it_was() -> None:
    made = build_report(full())
    assert msgspec.json.decode(render_json(made), type=Report) == made


def test_the_same_records_give_the_same_bytes() -> None:
    assert render_json(build_report(full())) == render_json(build_report(full()))


def test_a_passing_run_is_worked_through_as_passing() -> None:
    held = runs(2, outcome=PASSED)
    trace = panels_of(store_of(held, axes(ONE, held, "xx"), axes(TWO, held, "xx"))).trace
    assert trace is not None
    assert trace.outcome == "pass"
