"""Raters against raters: what enters a table, what is counted beside it, and the figures."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.calibrate.agreement import labelling_queue, measure_agreement, measure_agreement_by
from stepscope.calibrate.ratings import choose_raters, rated_rubrics, score_band
from stepscope.calibrate.types import Agreement, RubricAgreement
from stepscope.errors import UsageError
from stepscope.model import Record, Verdict
from stepscope.model.records import Figure
from stepscope.store import ParquetRows, Store
from stepscope.store.store import Current
from stepscope.store.where import parse_where
from stepscope.values import Estimate, Unmeasured
from tests.calibrate.made import AXIS, by_step, said, store, whole
from tests.factories import agent, run, system, user

C, I, U, N = "correct", "incorrect", "uncertain", "not_applicable"  # noqa: E741
# Twenty runs: both incorrect 2, one of them 1 and 1, both correct 16.
FIRST = [I, I, I, *[C] * 17]
SECOND = [I, I, *[C] * 17, I]


def asked(*records: list[Record], runs: int = 20, **more: str) -> RubricAgreement:
    with store(runs) as made:
        for batch in records:
            made.append(batch)
        return measure_agreement(made, **more)[more.get("rubric", AXIS)]  # type: ignore[arg-type]


def value(figure: Figure) -> float:
    assert isinstance(figure, Estimate), figure
    return figure.value


def rules(labels: list[str], *, version: str = "2", facts: str = "") -> list[Record]:
    return [
        Record(trajectory=f"r{n}", answer=Verdict(AXIS, label=label), version=version, facts=facts)
        for n, label in enumerate(labels)
    ]


def test_the_figures_of_two_judges_are_those_worked_out_by_hand() -> None:
    """p_o = .9, each rater's share of incorrect .15: p_e = .745 for kappa, .255 for AC1."""
    found = asked(whole("openai/a", FIRST), whole("anthropic/b", SECOND)).pair(
        "openai/a", "anthropic/b"
    )
    expected = {
        "raw": 0.9,
        "kappa": 0.155 / 0.255,
        "fleiss": 0.155 / 0.255,
        "alpha": 1 - 0.1 / (408 / 1560),
        "gwet": 0.645 / 0.745,
        "pabak": 0.8,
    }
    assert {name: value(found[name]) for name in expected} == pytest.approx(expected)
    assert (found.n, found.bias) == (20, 0.0)
    assert found.prevalence == pytest.approx(0.7)
    for name in expected:
        figure = found[name]
        assert isinstance(figure, Estimate)
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low < figure.value < figure.high < 1
        assert (figure.n, figure.n_tasks) == (20, 20)


def test_a_rater_who_uses_a_label_more_often_has_that_bias() -> None:
    found = asked(whole("openai/a", [I] * 8 + [C] * 12), whole("anthropic/b", [I] * 3 + [C] * 17))
    assert found.pairs[0].bias == pytest.approx(0.25)


def test_uncertain_and_not_applicable_of_a_judge_are_labels() -> None:
    found = asked(whole("openai/a", [C, I, U, N]), whole("anthropic/b", [C, I, U, C]), runs=4)
    assert found.labels == (C, I, N, U)
    assert value(found.raw) == 0.75
    assert found.raters[1].labels == {C: 1, I: 1, N: 1, U: 1}


def test_proofs_of_rules_have_precision_and_recall_beside_each_rater_and_no_kappa() -> None:
    found = asked(
        whole("openai/a", [C, I, I, I, C, C]),
        whole("anthropic/b", [I, C, C, C, C, C]),
        rules([I, I, U, U, U, I]),
        runs=6,
    )
    ruled = found.raters[-1]
    assert (ruled.name, ruled.labels, ruled.silent) == ("rules", {I: 3}, 3)
    assert [pair.raters for pair in found.pairs] == [("anthropic/b", "openai/a")]
    assert found.together.raters == ("anthropic/b", "openai/a")
    b, a = found.proofs
    assert (b.rater, value(b.precision)) == ("anthropic/b", 1 / 3)
    assert (a.rater, value(a.precision), value(a.recall)) == ("openai/a", 1 / 3, 1 / 3)
    assert isinstance(b.recall, Estimate)  # one run of a fault: nothing is known of the spread
    assert (b.recall.value, b.recall.no_interval) == (1.0, "no interval: one task")


def test_rules_beside_one_judge_give_no_agreement_and_still_precision() -> None:
    found = asked(whole("openai/a", [C, I, I, I]), rules([U, I, U, I]), runs=4)
    assert (found.pairs, found.families, found.decision.outcome) == ((), (), "undecided")
    (one,) = found.proofs
    assert (value(one.precision), value(one.recall)) == (1.0, 2 / 3)


def test_what_a_judge_could_not_answer_is_counted_and_bounds_the_raw_share() -> None:
    refused = said("openai/a", 3, Unmeasured("refused", "refused: no", f"judge.{AXIS}"))
    found = asked([*whole("openai/a", [C, C, I]), refused], whole("anthropic/b", [C] * 4), runs=4)
    assert found.raters[1].unmeasured == {"refused": 1}
    raw = found.pairs[0]["raw"]
    assert isinstance(raw, Estimate)
    assert (raw.n, raw.unmeasured) == (3, {"refused": 1})
    assert (raw.worst_low, raw.worst_high) == (0.5, 0.75)


def test_one_answer_throughout_is_undefined_and_said_in_a_sentence() -> None:
    found = asked(whole("openai/a", [C] * 20), whole("anthropic/b", [C] * 20))
    for figure in (found.kappa, found.alpha, found.ac1, found.pabak):
        assert isinstance(figure, Unmeasured)
        assert figure.kind == "undefined"
    raw = found.raw
    assert isinstance(raw, Estimate)
    assert raw.low is not None
    assert raw.low < 0.95
    assert found.pairs[0].sentence.startswith("every answer is 'correct': kappa is undefined")
    assert found.decision.outcome == "undecided"


def test_kappa_and_ac1_that_disagree_are_explained_by_prevalence() -> None:
    found = asked(whole("openai/a", [I, *[C] * 39]), whole("anthropic/b", [C, I, *[C] * 38]),
                  runs=40)  # fmt: skip
    assert value(found.kappa) == pytest.approx(-1 / 39)
    assert value(found.ac1) == pytest.approx((0.95 - 0.04875) / (1 - 0.04875))
    assert found.pairs[0].sentence == (
        "kappa -0.03 and AC1 0.95 disagree because 98% of the answers are 'correct': chance alone "
        "would agree on 95% of the runs, which leaves kappa little to go by; look at the other "
        "answers"
    )


def test_a_pair_that_agrees_by_either_count_needs_no_sentence() -> None:
    half = [I] * 10 + [C] * 10
    assert asked(whole("openai/a", half), whole("anthropic/b", half)).pairs[0].sentence == ""


def test_kappa_of_more_than_two_raters_is_not_applicable_and_fleiss_is_there() -> None:
    found = asked(*(whole(judge, FIRST) for judge in ("openai/a", "anthropic/b", "qwen/c")))
    assert isinstance(found.kappa, Unmeasured)
    assert found.kappa.kind == "not_applicable"
    assert value(found.fleiss) == 1.0
    assert [pair.raters for pair in found.pairs] == [
        ("anthropic/b", "openai/a"),
        ("anthropic/b", "qwen/c"),
        ("openai/a", "qwen/c"),
    ]
    assert found.families == ()


def test_families_are_compared_over_every_pair_of_their_judges() -> None:
    found = asked(
        whole("openai/a", FIRST), whole("openai/d", [C] * 20), whole("anthropic/b", SECOND)
    )
    (families,) = found.families
    assert (families.raters, families.of, families.n) == (("anthropic", "openai"), "families", 40)
    # 18 of 20 with one judge, 17 of 20 with the other; 20 runs, not 40, stand behind it.
    raw = families["raw"]
    assert isinstance(raw, Estimate)
    assert (raw.value, raw.n_tasks) == (0.875, 20)


def test_the_overlap_of_cited_steps_is_jaccards_and_leaves_out_who_never_cites() -> None:
    found = asked(
        whole("openai/a", [I, I, C], cites=[(1, 2), (3,), ()]),
        whole("anthropic/b", [I, I, C], cites=[(2,), (4,), ()]),
        whole("ann", [I, I, C], family="human"),
        runs=3,
    )
    assert value(found.pair("openai/a", "anthropic/b")["jaccard"]) == 0.25
    absent = found.pair("openai/a", "ann")["jaccard"]
    assert isinstance(absent, Unmeasured)
    assert absent.kind == "not_applicable"


def test_a_step_that_cites_itself_shares_nothing_by_that() -> None:
    """A step's verdict cites its step, whoever gives it; what else it cites can be shared."""
    alone = asked(by_step("openai/a", ["PP"]), by_step("anthropic/b", ["PP"]), rubric="step_labels")
    figure = alone.pairs[0]["jaccard"]
    assert isinstance(figure, Unmeasured)

    def repaired(judge: str, error: int) -> list[Record]:
        verdict = Verdict("judge.step_labels", label="PROGRESS", step=3, cites=(3, error))
        return [said(judge, n, verdict) for n in range(2)]

    found = asked(repaired("openai/a", 1), repaired("anthropic/b", 2), rubric="step_labels")
    assert value(found.pairs[0]["jaccard"]) == 0.0


def test_steps_are_items_and_runs_are_what_the_interval_is_over() -> None:
    rows = ["PPEPPP"] * 12
    other = ["PPEPPP"] * 6 + ["PPPRPP"] * 6
    found = asked(by_step("openai/a", rows), by_step("anthropic/b", other), rubric="step_labels")
    assert (found.unit, found.items, found.runs) == ("steps", 72, 12)
    kappa = found.kappa
    assert isinstance(kappa, Estimate)
    assert (kappa.n, kappa.n_tasks) == (72, 12)


def test_the_count_of_labelled_steps_is_no_rating_of_the_run() -> None:
    count = [said("openai/a", 0, Verdict("judge.step_labels", value=6.0))]
    with store(2) as made:
        made.append([*count, *by_step("openai/a", ["PPEPPP"])])
        assert [aspect.unit for aspect in measure_agreement(made).aspects] == ["steps"]


def test_scores_are_compared_in_bands_and_by_distance() -> None:
    def scores(judge: str, values: list[float]) -> list[Record]:
        return [said(judge, n, Verdict("scores", value=v, step=0)) for n, v in enumerate(values)]

    found = asked(
        scores("openai/a", [0.1, 0.4, 0.7, 0.95]),
        scores("anthropic/b", [0.2, 0.7, 0.7, 1.0]),
        runs=4,
        rubric="scores",
    )
    assert found.labels == ("0-.2", ".3-.5", ".6-.8", ".9-1")
    assert value(found.raw) == 0.75
    # Bands 0 1 2 3 against 0 2 2 3: one of four is off by one band; by chance a band and a quarter.
    assert value(found.together["kappa.linear"]) == pytest.approx(1 - 0.25 / 1.25)
    assert value(found.together["alpha.interval"]) > 0.8


def test_a_judge_is_one_rater_whatever_its_snapshot_and_several_are_told() -> None:
    found = asked(
        [*whole("openai/a@2026-01", FIRST)[:10], *whole("openai/a@2026-05", FIRST)[10:]],
        whole("anthropic/b", SECOND),
    )
    assert [rater.name for rater in found.raters] == ["anthropic/b", "openai/a"]
    assert found.raters[1].snapshots == ("2026-01", "2026-05")
    assert "openai/a answered as 2 snapshots, taken as one: 2026-01, 2026-05" in found.notes


def test_an_annotators_address_is_no_snapshot() -> None:
    found = asked(
        whole("ann@lab.org", FIRST, family="human"), whole("bob@lab.org", FIRST, family="human")
    )
    assert [rater.name for rater in found.raters] == ["ann@lab.org", "bob@lab.org"]


def test_a_judge_whose_verdicts_were_imported_too_is_two_raters() -> None:
    elsewhere = [
        msgspec.structs.replace(one, prompt="")
        for one in whole("openai/a", SECOND, family="imported")
    ]
    found = asked(whole("openai/a", FIRST), elsewhere)
    assert [rater.name for rater in found.raters] == ["openai/a (imported)", "openai/a (openai)"]
    assert value(found.raw) == 0.9


def test_of_versions_with_as_many_runs_the_later_counts_and_what_is_left_out_is_told() -> None:
    repeat = [msgspec.structs.replace(r, repeat=1) for r in whole("openai/a", [I] * 20)]
    found = asked(
        whole("openai/a", [I] * 20, version="9"),
        whole("openai/a", FIRST, version="10"),
        whole("openai/a", [I] * 20, version="10+narration-off"),
        [msgspec.structs.replace(one, version="10") for one in repeat],
        whole("anthropic/b", SECOND, version="10"),
    )
    judge = found.raters[1]
    assert (judge.version, judge.labels) == ("10", {C: 17, I: 3})
    assert judge.left_out == {"repeats": 20, "other versions": 20, "variants": 20}
    assert "left out of openai/a: 20 repeats, 20 other versions, 20 variants" in found.notes


def test_one_new_answer_sets_none_of_the_paid_ones_aside() -> None:
    given = (
        whole("openai/a", FIRST, version="1"),
        whole("openai/a", [U], version="2"),
        whole("anthropic/b", SECOND, version="1"),
        whole("ann", FIRST, version="7", family="human"),
    )
    found = asked(*given)
    judge = next(rater for rater in found.raters if rater.name == "openai/a")
    assert (judge.version, judge.labels) == ("1", {C: 17, I: 3})
    assert judge.left_out == {"other versions": 1}
    assert found.pair("anthropic/b", "openai/a").n == 20
    # By version: of judges what they answered under it, and people, who answer under none.
    newer = asked(*given, version="2")
    counts = {rater.name: sum(rater.labels.values()) for rater in newer.raters}
    assert counts == {"openai/a": 1, "ann": 20, "anthropic/b": 0}
    assert [(change.judge, change.n) for change in newer.changes] == [("openai/a", 1)]


def test_a_judge_asked_in_one_mode_alone_is_a_rater_in_that_mode() -> None:
    found = asked(
        whole("openai/a", FIRST, version="2+narration-off"),
        whole("anthropic/b", SECOND, version="2"),
    )
    assert found.raters[1].version == "2+narration-off"
    assert "judges read different versions of the rubric: 2, 2+narration-off" in found.notes


def test_of_one_run_the_last_prompt_counts_whole() -> None:
    def prompted(prompt: str, row: str) -> list[Record]:
        return [msgspec.structs.replace(one, prompt=prompt) for one in by_step("openai/a", [row])]

    found = asked(
        prompted("b", "EE"), prompted("a", "PPP"), by_step("anthropic/b", ["PPP"]),
        rubric="step_labels",
    )  # fmt: skip
    # Step 2 was answered under the other prompt alone: that is another answer of the judge.
    assert found.raters[1].labels == {"ERROR": 2}


def test_scores_of_one_rater_are_not_read_unless_asked_for() -> None:
    with store(2) as made:
        made.append([said("openai/a", 0, Verdict("scores", value=0.5, step=0))])
        assert measure_agreement(made).aspects == ()
        assert measure_agreement(made, rubric="scores")["scores"].items == 1
        made.append([said("qwen/c", 0, Verdict("scores", value=0.5, step=0))])
        assert measure_agreement(made)["scores"].items == 1


def test_judges_of_two_versions_of_a_rubric_are_told() -> None:
    found = asked(whole("openai/a", FIRST, version="1"), whole("anthropic/b", SECOND, version="2"))
    assert "judges read different versions of the rubric: 1, 2" in found.notes


def test_only_the_rules_current_answer_is_a_rating() -> None:
    with store(4) as made:
        made.append(whole("openai/a", [C] * 4))
        made.append(rules([I] * 4, version="1"))
        made.append(rules([C] * 4, version="2"))
        made.append(rules([I] * 4, version="3", facts="f"))
        made.put_facts([], [Current(AXIS, "shop", "2", "")])
        found = measure_agreement(made)[AXIS]
    assert found.raters[1].labels == {C: 4}


def test_rules_alone_are_no_panel() -> None:
    with store(4) as made:
        made.append(rules([C, I, C, I]))
        assert measure_agreement(made).aspects == ()


def test_one_rater_alone_agrees_with_nobody_and_is_not_an_error() -> None:
    found = asked(whole("openai/a", FIRST))
    assert isinstance(found.raw, Unmeasured)
    assert found.raw.reason == "one rater (openai/a): agreement needs two"
    assert found.decision.outcome == "undecided"


def test_a_set_chooses_its_rubrics_and_a_name_finds_its_end() -> None:
    with store(4) as made:
        for axis in ("axes.termination", "axes.sequencing", "quality.plan"):
            made.append(whole("openai/a", [C, I, C, I], axis=axis))
        made.append(by_step("openai/a", ["PPP"], axis="step_labels.isolated"))
        found = measure_agreement(made, rubric="axes")
        assert [one.name for one in found.aspects] == ["axes.sequencing", "axes.termination"]
        assert found["sequencing"].name == "axes.sequencing"
        with pytest.raises(UsageError, match=r"rated rubrics: axes\.sequencing, axes\.termination"):
            found["plan"]
        assert len(measure_agreement(made).aspects) == 3


def test_groups_are_by_field_or_tag_and_hold_their_own_runs() -> None:
    with store(20) as made:
        made.append(whole("openai/a", FIRST))
        made.append(whole("anthropic/b", SECOND))
        found = measure_agreement_by(made, "agent", where=parse_where("steps = 6"))
        assert [group.group for group in found] == [{"agent": "a"}, {"agent": "b"}]
        assert [value(group[AXIS].raw) for group in found] == [0.9, 0.9]
        assert [group[AXIS].items for group in found] == [10, 10]
        with pytest.raises(UsageError, match="--by 'colour' is not a field"):
            measure_agreement_by(made, "colour")


def test_runs_that_were_drawn_are_told() -> None:
    with store(20) as made:
        made.append(whole("openai/a", FIRST[:5]))
        made.append(whole("anthropic/b", SECOND[:5]))
        ids = [f"r{n}" for n in range(20)]
        made.put_sample(AXIS, ids, 0.25, ids[:5])
        notes = measure_agreement(made)[AXIS].notes
    assert "runs were drawn, alike, of 20: figures are of those that were rated" in notes


def test_free_text_is_no_menu() -> None:
    words = [f"word {n}" for n in range(41)]
    found = asked(whole("openai/a", words), whole("anthropic/b", words[::-1]), runs=41)
    assert isinstance(found.kappa, Unmeasured)
    assert found.kappa.reason.startswith("41 different labels; a rubric has at most 40")
    assert found.decision.outcome == "undecided"


@settings(max_examples=25)
@given(
    st.lists(st.tuples(*[st.sampled_from([C, I, U, "lost", None])] * 3), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_whatever_is_rated_every_figure_is_finite_or_unmeasured(
    rows: list[tuple[str | None, ...]], steps: int
) -> None:
    """Nobody rates, all alike, one item, one run: a figure, or why there is none."""
    with store(12, steps=4) as made:
        for at, judge in enumerate(("openai/a", "openai/d", "anthropic/b")):
            made.append(
                [
                    said(
                        judge,
                        n // steps,
                        Unmeasured("refused", "refused: no", f"judge.{AXIS}", n % steps)
                        if label == "lost"
                        else Verdict(f"judge.{AXIS}", label=label, step=n % steps, confidence=0.5),
                    )
                    for n, row in enumerate(rows)
                    if (label := row[at]) is not None
                ]
            )
        found = measure_agreement(made)
        assert len(labelling_queue(made)) <= len(rows)
    # An Estimate refuses what is not finite; JSON goes out and comes back as it was.
    again = msgspec.json.decode(msgspec.json.encode(found), type=Agreement)
    assert again == found
    for one in found.aspects:
        assert one.decision.outcome in ("pass", "fail", "undecided")
        assert sum(rater.rated for rater in one.raters) == sum(
            label not in (None, "lost") for row in rows for label in row
        )


def test_the_same_rows_give_the_same_bytes() -> None:
    def once() -> bytes:
        with store(20) as made:
            made.append(whole("openai/a", FIRST))
            made.append(whole("anthropic/b", SECOND))
            return msgspec.json.encode(measure_agreement(made, seed=3))

    assert once() == once()


def test_an_exported_folder_gives_what_its_store_gives(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with store(20) as made:
        made.append(whole("openai/a", FIRST))
        made.append(rules(SECOND))
        made.to_parquet(folder)
        here = measure_agreement(made)
    assert msgspec.json.encode(measure_agreement(ParquetRows(folder))) == msgspec.json.encode(here)


def test_an_empty_store_has_no_aspects() -> None:
    with Store.open(":memory:") as made:
        assert measure_agreement(made).aspects == ()


def test_opposed_on_every_agent_step_is_raw_0_whatever_was_said_of_users_and_tools() -> None:
    """Of five steps two are the agent's; with the other three raw would be 3/5."""
    steps = [system("s"), user("u"), agent("a"), user("v"), agent("b")]
    with Store.open(":memory:") as made:
        made.put(run(*steps, id=f"r{n}", name=f"shop/{n}/0", task=str(n)) for n in range(6))
        made.append(by_step("openai/a", ["PPEPP"] * 6))
        made.append(by_step("anthropic/b", ["PPPPE"] * 6))
        found = measure_agreement(made)["step_labels"]
        assert (value(found.raw), found.items, found.runs) == (0.0, 12, 6)
        assert found.raters[0].left_out == {"on steps of users, systems or tools": 18}
        assert "left out of openai/a: 18 on steps of users, systems or tools" in found.notes
        assert "about" not in found.decision.reason  # two labels, swapped: kappa is -1


def test_labels_of_users_steps_alone_are_told_and_rate_nothing() -> None:
    with Store.open(":memory:") as made:
        made.put([run(user("u"), agent("a"), id="r0", name="shop/0/0")])
        made.append([*by_step("openai/a", ["P"]), *by_step("anthropic/b", ["E"])])
        found = measure_agreement(made)["step_labels"]
    assert (found.items, found.decision.outcome) == (0, "undecided")
    assert "left out of anthropic/b: 1 on steps of users, systems or tools" in found.notes


def test_a_purged_run_that_was_scored_still_tells_the_agents_steps() -> None:
    where = Verdict("step_labels.steps", value=1.0, cites=(1,))
    with Store.open(":memory:") as made:
        made.put(run(user("u"), agent("a"), id=f"r{n}", name=f"shop/{n}/0") for n in range(2))
        made.append([Record(trajectory="r0", answer=where, version="4")])
        for judge, row in (("openai/a", "PP"), ("anthropic/b", "EP")):
            made.append(by_step(judge, [row] * 2))
        made.purge()
        found = measure_agreement(made)["step_labels"]
    # Nothing tells whose steps those of the other run are: they all count.
    assert found.raters[0].left_out == {"on steps of users, systems or tools": 1}
    assert found.items == 3
    assert value(found.raw) == pytest.approx(2 / 3)


def test_every_judge_is_decided_on_against_people_beside_the_pooled_decision() -> None:
    half = [C, I] * 30
    people = whole("ann", half, family="human"), whole("bob", half, family="human")
    apart = [*half[:30], *reversed(half[30:])]
    found = asked(whole("openai/a", half), whole("anthropic/b", apart), *people, runs=60)
    assert found.decided_on == "kappa of ann, bob"
    assert {name: one.outcome for name, one in found.judges.items()} == {
        "anthropic/b": "fail",
        "openai/a": "pass",
    }
    assert "2 judges at once" in found.judges["openai/a"].reason
    assert asked(whole("openai/a", half), whole("anthropic/b", apart), runs=60).judges == {}


def test_a_judge_beside_one_person_is_decided_on_the_kappa_of_their_row() -> None:
    found = asked(whole("openai/a", FIRST), whole("ann", SECOND, family="human"))
    kappa = found.pair("openai/a", "ann")["kappa"]
    assert isinstance(kappa, Estimate)
    limits = f"kappa {kappa.value:.2f}, {kappa.low:.2f} to {kappa.high:.2f}"
    assert found.judges["openai/a"].reason.startswith(limits)


def test_raters_are_chosen_by_name_end_family_or_beginning() -> None:
    with store(4) as made:
        for judge in ("openai/a", "openai/ab", "qwen/c"):
            family = judge.partition("/")[0]
            made.append(whole(judge, [C, I, C, I], family=family))
        made.append(whole("ann", [C, I, C, I], family="human"))

        def names(*words: str) -> list[str]:
            chosen = choose_raters(made, words, where=None, rubric=None)
            return [rater.name for rater in measure_agreement(made, raters=chosen)[AXIS].raters]

        assert names("openai/a", "human") == ["ann", "openai/a"]  # whole, not as a beginning
        assert names("ab", "ann") == ["ann", "openai/ab"]
        assert names("openai", "qw") == ["openai/a", "openai/ab", "qwen/c"]
        queue = labelling_queue(made, raters=choose_raters(made, ["qwen"], where=None, rubric=None))
        assert queue == ()
        for unknown in ("claude", ""):
            with pytest.raises(
                UsageError, match=r"no such rater; .*: ann, openai/a, .*: human, ope"
            ):
                names("ann", unknown)


def test_a_first_bad_step_one_off_is_within_one_and_a_run_without_any_is_not() -> None:
    """Exact: none and none. Within one: also steps 1 and 2. Not: 0 and 3; 5 and none at all."""
    found = asked(
        by_step("openai/a", ["PPPPPP", "PEPPPP", "EPPPPP", "PPPPPE"]),
        by_step("anthropic/b", ["PPPPPP", "PPEPPP", "PPPEPP", "PPPPPP"]),
        rubric="step_labels",
    ).pairs[0]
    figures = [found[name] for name in ("first_bad", "first_bad.within_one")]
    assert [value(figure) for figure in figures] == [0.25, 0.5]
    assert all(isinstance(figure, Estimate) and figure.n == 4 for figure in figures)


def test_pairs_of_one_run_are_one_cluster_of_the_first_bad_steps_of_families() -> None:
    rows = ["PEPPPP", "PPPPPP"] * 6
    found = asked(
        by_step("openai/a", rows), by_step("openai/d", rows), by_step("anthropic/b", rows),
        rubric="step_labels",
    )  # fmt: skip
    figure = found.families[0]["first_bad"]
    assert isinstance(figure, Estimate)
    assert (figure.value, figure.n, figure.n_tasks) == (1.0, 24, 12)


def test_a_run_that_ends_one_pair_and_begins_the_next_is_two_of_the_first_bad_steps() -> None:
    """One judge rated run 1 at its beginning, the other at its end."""
    found = asked(
        by_step("openai/a", ["PPPPPP", "PE"]),
        by_step("openai/d", ["......", "...EPP", "PPPPPP"]),
        by_step("anthropic/b", ["PPPPPP", "PEPEPP", "PPPPPP"]),
        rubric="step_labels",
    )
    figure = found.families[0]["first_bad"]
    assert isinstance(figure, Estimate)
    assert (figure.value, figure.n, figure.n_tasks) == (1.0, 4, 3)


def test_a_set_of_rubrics_is_meant_by_its_name_and_the_looks_are_none() -> None:
    measures = ["judge.axes.termination", "judge.axes.termination.looks"]
    assert rated_rubrics(measures, "axes") == ["axes.termination"]


def test_scores_are_rated_by_their_band() -> None:
    assert [score_band(score) for score in (0.2, 0.5, 1.0)] == ["0-.2", ".3-.5", ".9-1"]
