"""Gates on a judge's rate decide on the rate that people's labels make of it, and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest

from stepscope.gates.looks import Looks
from stepscope.gates.types import GateDecision, GateReport
from stepscope.model import Label
from stepscope.model.labels import Queue
from stepscope.report.render import data, markdown, text
from stepscope.report.views.gates import make_gate_document
from stepscope.store.columns import Rows
from stepscope.values import Estimate
from tests.gates.rows import One, gates, report, rows

AXIS = "axes.sequencing"
BAD, GOOD = "incorrect", "correct"


def judged(n: int, flagged: int, tag: str = "n", **more: str) -> list[One]:
    """Return n runs, the first of which a judge calls bad."""
    return [
        One(
            f"c{k}",
            {
                f"judge.{AXIS}": BAD if k < flagged else GOOD,
                **{k.replace("__", "."): v for k, v in more.items()},
            },
            tag=tag,
        )
        for k in range(n)
    ]


def with_labels(
    ones: Sequence[One],
    said: Callable[[int], bool | str | None],  # of a run's place: bad, a word, or no label
    *,
    probability: float | None = 0.5,
    queue: Queue = "uniform",
) -> Rows:
    """Return rows in which people labelled whole runs."""
    held = rows(*ones)
    ids = held.runs().id.tolist()

    def labels(where: object = None, *, measure: str | None = None) -> Iterator[Label]:
        for at, id_ in enumerate(ids):
            if (word := said(at)) is None or measure != f"judge.{AXIS}":
                continue
            label = word if isinstance(word, str) else BAD if word else GOOD
            yield Label(
                trajectory=id_, measure=measure, annotator="ann", label=label,
                queue=queue, probability=probability,
            )  # fmt: skip

    object.__setattr__(held, "labels", labels)  # as a store has them
    return held


def decide(held: Rows, before: Rows | None = None, **written: object) -> GateDecision:
    asked = gates(**{AXIS.replace(".", "__"): {"source": "axes", **written}})
    return report(held, asked, before, tier=("axes",)).gates[0]


def over_eager(at: int) -> bool | None:
    """People label 60 runs: of 30 that the judge calls bad 3 are, of 30 others none."""
    return at < 3 if at < 30 or 300 <= at < 330 else None


def test_from_fifty_labels_on_the_corrected_rate_decides_and_both_rates_are_given() -> None:
    ones = judged(1_000, 300)
    assert decide(rows(*ones), max_rate=0.2).outcome == "fail"
    found = decide(with_labels(ones, over_eager), max_rate=0.2)
    assert found.outcome == "pass"
    assert isinstance(found.estimate, Estimate)
    assert isinstance(found.uncorrected, Estimate)
    assert found.estimate.value == pytest.approx(0.3 * 3 / 30)
    assert found.uncorrected.value == pytest.approx(0.3)
    assert found.estimate.method == "corrected"
    assert found.reason.startswith("corrected by people's labels of 60 runs: 3.0 % of 1,000 runs")
    assert "; uncorrected it would fail: 30 % of 1,000 runs bad" in found.reason


def test_labels_turn_a_green_gate_red_where_the_judge_overlooks_failures() -> None:
    ones = judged(1_000, 50)

    def said(at: int) -> bool | None:
        return at < 30 or at % 2 == 0 if at < 30 or 500 <= at < 560 else None

    assert decide(rows(*ones), max_rate=0.2).outcome == "pass"
    found = decide(with_labels(ones, said), max_rate=0.2)
    assert (found.outcome, found.n_failing) == ("fail", 50)
    assert "uncorrected it would pass" in found.reason
    good = decide(with_labels(ones, said), min_rate=0.8)
    assert (good.outcome, good.estimate.value) == (  # type: ignore[union-attr]
        "fail", pytest.approx(1 - found.estimate.value),  # type: ignore[union-attr]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (lambda at: at < 3 if at < 25 or 300 <= at < 324 else None, "49 labels; a headline"),
        (lambda at: at < 3 if at < 4 or 300 <= at < 360 else None, "4 labels where the judge"),
        (lambda at: None, "no labels of whole runs"),
    ],
)  # fmt: skip
def test_below_a_headline_the_judge_decides_and_the_line_says_that_it_is_uncorrected(
    said: Callable[[int], bool | None], why: str
) -> None:
    ones = judged(1_000, 300)
    plain = decide(rows(*ones), max_rate=0.2)
    found = decide(with_labels(ones, said), max_rate=0.2)
    assert (found.outcome, found.estimate, found.uncorrected) == ("fail", plain.estimate, None)
    assert f"; the judge's own rate, uncorrected; {why}" in found.reason


@pytest.mark.parametrize(
    ("queue", "probability", "why"),
    [
        ("file", None, "60 labels left out, of unknown probability"),
        ("look_first", None, "60 labels left out, from the queue look_first"),
    ],
)
def test_labels_of_no_random_draw_are_refused_with_the_reason(
    queue: Queue, probability: float | None, why: str
) -> None:
    held = with_labels(judged(1_000, 300), over_eager, queue=queue, probability=probability)
    found = decide(held, max_rate=0.2)
    assert (found.outcome, found.uncorrected) == ("fail", None)
    assert f"uncorrected; 0 labels; a headline takes 50; {why}" in found.reason
    # A file that says how probable each label was is a draw.
    held = with_labels(judged(1_000, 300), over_eager, queue="file", probability=0.06)
    assert decide(held, max_rate=0.2).outcome == "pass"


def test_what_nobody_can_tell_is_undecided_with_the_labels_that_would() -> None:
    # Of 300 called bad a fifth are, and of 700 others none: 6 % against 5 %.
    held = with_labels(
        judged(1_000, 300), lambda at: at < 6 if at < 30 or 300 <= at < 330 else None
    )
    found = decide(held, max_rate=0.05)
    assert (found.outcome, found.cause) == ("undecided", "interval")
    assert found.reason.endswith("; labels of all these runs may not decide")
    near = decide(held, max_rate=0.15)
    assert (near.outcome, near.reason.rpartition("; ")[2][:15]) == ("undecided", "labels of about")


def test_runs_without_an_answer_count_at_their_worst_in_a_corrected_rate() -> None:
    lost = [One(f"l{k}", {f"judge.{AXIS}": "?refused"}) for k in range(250)]
    held = with_labels([*judged(1_000, 300), *lost], over_eager)
    found = decide(held, max_rate=0.2)
    assert (found.outcome, found.cause) == ("undecided", "not_measured")
    few = with_labels([*judged(1_000, 300), *lost[:50]], over_eager)
    assert decide(few, max_rate=0.2).outcome == "pass"


def test_a_word_of_people_that_is_not_the_bad_one_is_good_and_undecided_ones_are_left_out() -> None:
    def said(at: int) -> bool | str | None:
        asked = over_eager(at)
        return "near enough" if asked is False else asked

    held = with_labels(judged(1_000, 300), said)
    assert decide(held, max_rate=0.2).outcome == "pass"
    held = with_labels(judged(1_000, 300), lambda at: "uncertain" if at < 400 else None)
    assert "0 labels; a headline takes 50" in decide(held, max_rate=0.2).reason


def drops(
    now: int, before: int, said: Callable[[int], bool | None], **more: object
) -> GateDecision:
    """Gate a drop: so many of 400 runs called bad now, so many before; labels of both."""
    old, new = judged(400, before, "b"), judged(400, now, "n")
    held = with_labels([*old, *new], lambda at: said(at % 400))
    return decide(held, rows(*old), **{"max_drop": 0.05, **more})


def honest(at: int) -> bool | None:
    """Labels of 60 of the first runs, of 60 in the middle and of the last: the first 80 are bad."""
    return at < 80 if at % 4 == 0 else None


def test_a_drop_compares_corrected_with_corrected() -> None:
    # The judge calls 120 more runs bad, people none: all that is red is the judge's.
    found = drops(200, 80, honest, rule="proof")
    assert found.reason.startswith("corrected by people's labels of 100 and 100 runs: ")
    assert "uncorrected it would fail: drop of 30 points on 400 cases" in found.reason
    assert isinstance(found.estimate, Estimate)
    assert found.estimate.value == pytest.approx(0.0, abs=0.03)
    assert found.outcome == "undecided"


def test_a_comparison_that_the_judge_fails_is_green_only_where_corrected_limits_show_it() -> None:
    found = drops(200, 80, honest)
    assert (found.rule, found.outcome, found.cause) == ("regression", "undecided", "interval")
    more = drops(200, 80, lambda at: at < 80, max_drop=0.2)
    assert (more.outcome, more.uncorrected.value) == (  # type: ignore[union-attr]
        "pass", pytest.approx(0.3),
    )  # fmt: skip


@pytest.mark.parametrize(("margin", "outcome"), [(0.05, "fail"), (0.15, "pass")])
def test_a_corrected_drop_that_is_certain_but_within_the_margin_is_no_failure(
    margin: float, outcome: str
) -> None:
    old, new = judged(400, 80, "b"), judged(400, 80, "n")
    held = with_labels([*old, *new], lambda at: at % 400 < (80 if at < 400 else 128))
    asked = gates(axes__sequencing={"max_drop": margin, "source": "axes"})
    (found,) = report(held, asked, rows(*old), tier=("axes",), looks=Looks(), commit="c").gates
    assert found.p is not None
    assert found.p < 0.001
    assert isinstance(found.estimate, Estimate)
    assert found.estimate.value == pytest.approx(0.12)
    assert found.outcome == outcome


def test_a_drop_that_people_see_and_the_judge_does_not_fails() -> None:
    old, new = judged(400, 80, "b"), judged(400, 80, "n")
    held = with_labels(
        [*old, *new], lambda at: (at % 400 < 80 or at >= 400) if at % 4 == 0 else None
    )
    found = decide(held, rows(*old), max_drop=0.05)
    assert found.outcome == "fail"
    assert "uncorrected it would pass" in found.reason


def test_a_steady_judge_passes_and_says_which_drop_the_labels_could_have_shown() -> None:
    found = drops(80, 80, honest)
    assert found.outcome == "pass"
    assert found.detectable is not None
    assert 0.05 < found.detectable < 0.5
    assert "would be detected 80 % of the time" in found.reason


def test_a_baseline_without_labels_is_compared_as_the_judge_sees_it_and_the_line_says_why() -> None:
    old, new = judged(400, 80, "b"), judged(400, 80, "n")
    held = with_labels([*old, *new], lambda at: honest(at % 400) if at >= 400 else None)
    found = decide(held, rows(*old), max_drop=0.05)
    assert (found.outcome, found.uncorrected) == ("pass", None)
    assert "uncorrected; baseline: no labels of whole runs" in found.reason


def test_labels_of_steps_and_gates_of_rules_are_as_before() -> None:
    ones = [One(f"c{k}", {"judge.step_labels": "PPP"}) for k in range(60)]
    held = with_labels(ones, lambda at: False)
    asked = gates(no_detours={"max_per_run": 1, "max_rate": 0.2, "source": "step_labels"})
    (found,) = report(held, asked, tier=("step_labels",)).gates
    assert found.reason.endswith("the judge's own rate, uncorrected; no labels of whole runs")
    held = with_labels([One("c", {AXIS: GOOD}, tag=str(k)) for k in range(60)], lambda at: False)
    rules = report(held, gates(axes__sequencing={"max_rate": 0.2})).gates[0]
    assert "uncorrected" not in rules.reason


def look(n: int, looks: Looks | None, ones: Sequence[One]) -> GateDecision:
    """Gate with labels of n runs, a third of them called bad by the judge."""
    held = with_labels(ones, lambda at: at % 5 == 0 if at % 300 < n // 2 and at < 600 else None)
    asked = gates(axes__sequencing={"max_rate": 0.25, "source": "axes"})
    told = report(held, asked, tier=("axes",), looks=looks, commit="c" if looks else None)
    return told.gates[0]


def test_more_labels_are_another_look_and_the_same_ones_are_not() -> None:
    ones, log = judged(1_000, 300), Looks()
    first = look(100, log, ones)
    assert "look 2" not in first.reason
    assert look(100, log, ones) == first
    assert "look 2 at runs and labels" in look(120, log, ones).reason
    (entry,) = log.log.entries.values()
    assert (entry.looks, list(entry.labels.values())) == (1, [(120, 2)])
    again = msgspec.json.decode(msgspec.json.encode(log.log), type=type(log.log))
    assert "look 3 at runs" in look(140, Looks(again), ones).reason


def test_looks_that_nobody_counts_are_one_for_ten_labels() -> None:
    assert (
        "look 6 at runs and labels, one for 10 labels; --commit"
        in look(100, None, judged(1_000, 300)).reason
    )
    assert "look" not in look(50, None, judged(1_000, 300)).reason


def test_labels_take_no_alpha_from_gates_of_rules() -> None:
    log = Looks()
    ones = judged(400, 100, axes__termination=GOOD)
    written = {"max_rate": 0.2, "source": "axes"}
    asked = gates(axes__sequencing=written, axes__termination={"max_rate": 0.2})
    found: list[GateReport] = []
    for n in (100, 120):
        held = with_labels(ones, lambda at, n=n: False if at < n else None)  # type: ignore[misc]
        found.append(report(held, asked, tier=("rules", "axes"), looks=log, commit="c"))
    assert [one.look for one in found] == [1, 1]
    assert found[0].alpha_look == found[1].alpha_look


def test_the_mark_stands_in_text_json_junit_and_the_comment() -> None:
    asked = gates(axes__sequencing={"max_rate": 0.2, "source": "axes"})
    told = report(with_labels(judged(1_000, 300), over_eager), asked, tier=("axes",))
    printed = text.render(make_gate_document(told, code=0), 120)
    shown = (printed, data.render_gate_json(told, code=0), data.render_gate_junit(told))
    for one in shown:
        assert "corrected by people" in one
        assert "uncorrected it would fail" in one
    comment = markdown.render_gate_markdown(told, code=0)
    for one in (printed, shown[2], comment):
        assert "corrected from 30 %" in one
    (gate,) = told.gates
    assert isinstance(gate.uncorrected, Estimate)
    assert '"uncorrected"' in shown[1]
