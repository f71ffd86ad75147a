"""Shares of judges corrected by people's labels: what counts, what is refused, what is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pytest
from msgspec import structs
from msgspec.structs import replace

from stepscope.labels.drawing import QueueDraw
from stepscope.model import Answer, Label, Record, Trajectory, Verdict
from stepscope.model.labels import Queue
from stepscope.report.compare import compare_groups
from stepscope.report.render import text
from stepscope.report.types import CorrectedShare, Panels, ScoreMean
from stepscope.report.views.compare import make_comparison_document
from stepscope.report.views.judges import tabulate_corrected, tabulate_scores
from stepscope.report.views.overview import make_report_document
from stepscope.store.samples import QueuedItem
from stepscope.values import Estimate, Unmeasured
from tests.report.made_panels import (
    ONE,
    SELECTION,
    axes,
    axis,
    only,
    reported,
    runs,
    said,
    seat,
    store_of,
)

HELD = runs(200)
# Of 200 runs the judge calls 60 incorrect.
MARKS = "x" * 60 + "." * 140
DAY = 86_400 * 10**9


def label(at: int, said: str = "correct", **more: object) -> Label:
    given: dict[str, object] = {"queue": "uniform", "probability": 0.3, "annotator": "ann", **more}
    return Label(trajectory=HELD[at].id, measure=f"judge.{SELECTION}", label=said, **given)  # type: ignore[arg-type]


# 20 labels where the judge finds a fault, of which 17 agree; 40 elsewhere, of which 2 are faults.
SIXTY = [
    *(label(at, "incorrect" if at < 57 else "correct") for at in range(40, 60)),
    *(label(at, "incorrect" if at < 62 else "correct") for at in range(60, 100)),
]


def panels(labels: Iterable[Label], records: list[Record] | None = None) -> Panels:
    store = store_of(HELD, axes(ONE, HELD, MARKS) if records is None else records)
    store.append_labels(labels)
    found = reported(store).panels
    assert isinstance(found, Panels)
    return found


def corrected(labels: Iterable[Label], records: list[Record] | None = None) -> CorrectedShare:
    found = seat(only(panels(labels, records)).groups[0], ONE).corrected
    assert found is not None
    return found


def rate(found: CorrectedShare) -> Estimate:
    assert isinstance(found.rate, Estimate)
    return found.rate


def test_enough_random_labels_make_the_corrected_share_the_headline() -> None:
    found = panels(SIXTY)
    one = seat(only(found).groups[0], ONE)
    assert one.corrected is not None
    # .3 * 17/20 + .7 * 2/40, where the judge says .3; Rogan-Gladen has (.3 + 38/41 - 1) / (...).
    assert rate(one.corrected).value == pytest.approx(0.29)
    assert isinstance(one.corrected.rogan_gladen, Estimate)
    assert one.corrected.rogan_gladen.value == pytest.approx(0.27609375, abs=1e-8)
    assert (one.corrected.n_labels, one.corrected.n_judged, one.corrected.weak) == (60, 200, "")
    (row,) = tabulate_corrected(found).rows
    assert row.cells[-1].text == "headline"


def test_fewer_labels_stand_beside_the_judges_share_and_are_weak() -> None:
    found = panels(SIXTY[:49])
    assert tabulate_corrected(found).notes == ("weak: 49 labels; a headline takes 50",)
    one = seat(only(found).groups[0], ONE)
    assert one.corrected is not None
    assert one.corrected.weak == "49 labels; a headline takes 50"
    assert isinstance(one.failing, Estimate)
    assert one.failing.value == pytest.approx(0.3)
    lopsided = corrected([*SIXTY[:4], *(label(at) for at in range(60, 120))])
    assert lopsided.weak == "4 labels where the judge says incorrect; a headline takes 5"


@pytest.mark.parametrize(
    ("queue", "probability", "why"),
    [
        ("file", None, "of unknown probability"),
        ("look_first", None, "from the queue look_first"),
        ("look_first", 0.3, "from the queue look_first"),
        ("disagreement", None, "from the queue disagreement"),
        ("unresolved", 1.0, "from the queue unresolved"),
        ("shape", None, "from the queue shape"),
    ],
)
def test_labels_that_were_not_drawn_are_for_no_rate(
    queue: Queue, probability: float | None, why: str
) -> None:
    found = corrected(
        [label(at, "incorrect", queue=queue, probability=probability) for at in range(60)]
    )
    assert isinstance(found.rate, Unmeasured)
    assert found.refused == {why: 60}
    assert found.n_labels == 0
    both = corrected([
        *SIXTY, *(label(at, queue=queue, probability=probability) for at in range(150, 160))
    ])  # fmt: skip
    assert rate(both) == rate(corrected(SIXTY))
    assert both.refused == {why: 10}


def test_a_file_that_tells_the_probability_is_a_random_draw() -> None:
    known = corrected(
        [label(at, one.label or "", queue="file") for at, one in enumerate(SIXTY, 40)]
    )
    assert rate(known).value == pytest.approx(0.29)
    assert known.refused == {}


def test_a_norming_round_is_no_label() -> None:
    given = [label(at, "incorrect", queue="norming", probability=None, round=1) for at in range(9)]
    one = seat(only(panels(given)).groups[0], ONE)
    assert one.corrected is None


def test_two_people_who_disagree_are_half_a_failure() -> None:
    other = [
        label(at, one.label if at > 42 else "correct", annotator="ben")  # type: ignore[arg-type]
        for at, one in enumerate(SIXTY, 40)
    ]
    found = corrected([*SIXTY, *other])
    # Of the first three, which one calls incorrect, each is half.
    assert rate(found).value == pytest.approx(0.3 * 15.5 / 20 + 0.7 * 0.05)
    assert rate(found).n == 60


def test_what_people_could_not_decide_is_in_the_bounds() -> None:
    open_ = [label(at, "uncertain", decided=False) for at in range(100, 110)]
    found = rate(corrected([*SIXTY, *open_]))
    assert found.value == pytest.approx(0.29)
    assert found.unmeasured == {"uncertain": 10}
    assert found.worst_high == pytest.approx((0.29 * 60 + 10) / 70)


def test_what_people_find_a_rubric_not_to_apply_to_is_in_no_rate() -> None:
    idle = [label(at, "not_applicable") for at in range(100, 130)]
    found = rate(corrected([*SIXTY, *idle]))
    assert found.value == pytest.approx(0.29)
    assert found.n == 60
    assert found.unmeasured == {"not_applicable": 30}
    assert found.worst_high == pytest.approx(0.29)


def test_labels_of_one_task_are_no_headline() -> None:
    held = [replace(of, task="one") for of in HELD]
    store = store_of(held, axes(ONE, held, MARKS))
    store.append_labels(SIXTY)
    panels_ = reported(store).panels
    assert isinstance(panels_, Panels)
    one = seat(only(panels_).groups[0], ONE).corrected
    assert one is not None
    assert (one.n_labels, one.weak) == (60, "no interval: one task")


def test_a_probability_that_is_next_to_nothing_breaks_no_report() -> None:
    tiny = [*SIXTY[1:], label(40, "incorrect", queue="file", probability=5e-324)]
    assert rate(corrected(tiny)).value == pytest.approx(0.29, abs=0.01)
    alone = [label(40, "incorrect", probability=5e-324), *SIXTY[1:]]
    assert 0 <= rate(corrected(alone)).value <= 1


def narrow(where: str, *, also: bool = False) -> CorrectedShare:
    """Return the share where the labels' queue was drawn among some runs, and one among all."""
    store = store_of(HELD, axes(ONE, HELD, MARKS))
    keys = dict(zip(store.runs().id.tolist(), store.runs().key.tolist(), strict=True))
    for condition in (where, "") if also else (where,):
        made = QueueDraw(
            measure=f"judge.{SELECTION}", unit="run", queue="uniform", policy="", size=60,
            population=100, where=condition,
        )  # fmt: skip
        items = [QueuedItem(keys[HELD[at].id], None, 0.6, shared=False) for at in range(40, 100)]
        store.put_queue(msgspec.json.encode(made), items)
    store.append_labels(SIXTY)
    found = reported(store).panels
    assert isinstance(found, Panels)
    one = seat(only(found).groups[0], ONE).corrected
    assert one is not None
    return one


def test_labels_that_were_drawn_among_some_runs_are_for_no_rate_of_all() -> None:
    found = narrow("task = '41' or outcome = 'pass'")
    assert found.refused == {"drawn among the runs task = '41' or outcome = 'pass' alone": 60}
    assert isinstance(found.rate, Unmeasured)
    assert narrow("since 30d").refused == {"drawn among the runs since 30d alone": 60}
    # A condition that all these runs meet leaves none out; nor does a draw among all.
    assert rate(narrow("outcome = 'fail'")).value == pytest.approx(0.29)
    assert rate(narrow("since 30d", also=True)).value == pytest.approx(0.29)


def test_labels_of_a_queue_weigh_by_their_draw() -> None:
    # Those which the judge passes were drawn a third as often.
    drawn = [label(at, one.label or "", probability=0.3 if at < 60 else 0.1)
             for at, one in enumerate(SIXTY, 40)]  # fmt: skip
    # Within each verdict the draw was even: the rate stays, its precision too.
    assert rate(corrected(drawn)).value == pytest.approx(0.29)


def test_labels_drawn_by_doubt_use_how_sure_the_judge_is() -> None:
    records = [
        record for of, mark in zip(HELD, MARKS, strict=True)
        for record in [said(ONE, of, sure(mark))]
    ]  # fmt: skip
    drawn = [label(at, one.label or "", queue="active") for at, one in enumerate(SIXTY, 40)]
    found = corrected(drawn, records)
    assert rate(found).method == "drawn, t"
    # The judge is .8 sure of each verdict: .38 on average; labels correct it by -5 of 60:
    # 17 of .2, 3 of -.8, 2 of .8 and 38 of -.2.
    assert rate(found).value == pytest.approx(0.38 - 5 / 60)


def sure(mark: str) -> Answer:
    return axis(ONE, "incorrect" if mark == "x" else "correct", 3, sure=0.8)


def test_old_labels_and_a_judge_that_changed_are_said() -> None:
    fresh = corrected(
        [label(at, one.label or "", given_at=DAY) for at, one in enumerate(SIXTY, 40)]
    )
    assert fresh.warnings == ()
    later = [
        said(ONE, of, record.answer, prompt="f" * 16 if at >= 150 else "0123456789abcdef")
        for at, (of, record) in enumerate(zip(HELD, axes(ONE, HELD, MARKS), strict=True))
    ]
    changed = corrected(SIXTY, later)
    (warning,) = changed.warnings
    assert warning == (
        "the judge has changed: 50 runs (25 %) were judged by a model or prompt that judged no "
        "labelled run"
    )


def test_the_report_prints_the_corrected_share_and_what_was_refused() -> None:
    store = store_of(HELD, axes(ONE, HELD, MARKS))
    store.append_labels([*SIXTY, label(150, "incorrect", queue="look_first", probability=None)])
    shown = text.render(make_report_document(reported(store)), 120)
    assert "Corrected by people's labels" in shown
    assert "60 of 200 runs" in shown
    assert "labels for no rate: 1 from the queue look_first" in shown
    assert ", corrected" in shown
    assert "headline" in shown


def test_two_groups_are_compared_by_their_corrected_shares() -> None:
    held = runs(100, ("a", "b"))
    # Of each 100 the judge calls 40 incorrect; people say so of 35 of 40 in `a`, of 15 in `b`.
    store = store_of(held, axes(ONE, held, ("x" * 40 + "." * 60) * 2))
    store.append_labels(
        Label(
            trajectory=held[place * 100 + at].id, measure=f"judge.{SELECTION}", annotator="ann",
            label="incorrect" if at < hits else "correct", queue="uniform", probability=0.8,
        )
        for place, hits in enumerate((35, 15))
        for at in range(80)
    )  # fmt: skip
    found = compare_groups(store, "a", "b").differences
    one = found[f"tool selection by {ONE}, corrected"]
    assert isinstance(one.first, Estimate)
    assert isinstance(one.second, Estimate)
    assert (one.first.value, one.second.value) == pytest.approx((0.35, 0.15))
    assert isinstance(one.effect, Estimate)
    assert one.effect.value == pytest.approx(-0.2)
    assert one.effect.high is not None
    assert one.effect.high < 0
    assert one.p is None
    shown = text.render(make_comparison_document(compare_groups(store, "a", "b")), 100)
    assert "-20 points" in shown


def test_a_group_with_few_labels_is_not_compared() -> None:
    held = runs(100, ("a", "b"))
    store = store_of(held, axes(ONE, held, ("x" * 40 + "." * 60) * 2))
    store.append_labels(
        Label(
            trajectory=held[at].id, measure=f"judge.{SELECTION}", annotator="ann",
            label="correct", queue="uniform", probability=0.8,
        )
        for at in [*range(80), *range(100, 120)]
    )  # fmt: skip
    one = compare_groups(store, "a", "b").differences[f"tool selection by {ONE}, corrected"]
    assert isinstance(one.effect, Unmeasured)
    assert one.effect.reason == "second: 20 labels; a headline takes 50"


SCORED = runs(40)


def scores(held: Sequence[Trajectory] = SCORED) -> list[Record]:
    """A judge that gives the two calls of each run .9 and .5: .7 on average."""
    return [
        said(ONE, of, Verdict("scores", value=value, step=step, cites=(step,)))
        for of in held
        for step, value in ((1, 0.9), (3, 0.5))
    ]


def scored(at: int, step: int, value: float | None, **more: object) -> Label:
    given: dict[str, object] = {"queue": "uniform", "probability": 0.75, "annotator": "ann", **more}
    return Label(
        trajectory=SCORED[at].id, measure="scores", step=step, value=value, **given,  # type: ignore[arg-type]
    )  # fmt: skip


# People give the first call .8 and the second .4 or .2 by turns: .1 to .3 less than the judge.
SIXTY_STEPS = [
    scored(at, step, 0.8 if step == 1 else 0.4 if at % 2 else 0.2)
    for at in range(30)
    for step in (1, 3)
]


def mean_score(labels: Iterable[Label]) -> tuple[ScoreMean, Panels]:
    store = store_of(SCORED, scores())
    store.append_labels(labels)
    found = reported(store).panels
    assert isinstance(found, Panels)
    (one,) = found.scores
    return one, found


def test_a_judges_mean_score_is_corrected_by_peoples_scores_of_steps() -> None:
    one, found = mean_score(SIXTY_STEPS)
    assert isinstance(one.mean, Estimate)
    assert one.mean.value == pytest.approx(0.7)
    assert (one.mean.n, one.mean.unit_of_n, one.mean.unit) == (80, "steps", "score")
    fixed = one.corrected
    assert fixed is not None
    # The labelled steps have the judge's mean, so the slope adds nothing: (.8 + .3) / 2.
    assert rate(fixed).value == pytest.approx(0.55)
    assert (fixed.n_labels, fixed.n_judged, fixed.weak) == (60, 80, "")
    assert isinstance(fixed.rogan_gladen, Unmeasured)
    (row,) = tabulate_scores(found).rows
    assert row.cells[-1].text.startswith("0.55, ")
    assert row.cells[-1].text.endswith("of 60, corrected")
    (row,) = tabulate_corrected(found).rows
    assert [cell.text for cell in row.cells][-3:] == ["60 of 80 steps", "-", "headline"]


def test_the_slope_of_peoples_scores_carries_to_steps_without_a_label() -> None:
    # Labels of first calls alone in ten runs more: the judge's own .9 there is .2 above its mean.
    more = [scored(at, 1, 0.8) for at in range(30, 40)]
    one, _ = mean_score([*SIXTY_STEPS, *more])
    assert one.corrected is not None
    # Mean of labels (40 * .8 + 30 * .3) / 70; slope (.8 - .3) / (.9 - .5); judge's mean .7 of all,
    # (40 * .9 + 30 * .5) / 70 of the labelled steps: .5857 + 1.25 * (.7 - .7286) = .55 once more.
    assert rate(one.corrected).value == pytest.approx(0.55)


def test_few_scores_of_people_stand_beside_the_judges_mean() -> None:
    one, found = mean_score(SIXTY_STEPS[:20])
    assert one.corrected is not None
    assert one.corrected.weak == "20 labels; a headline takes 50"
    (row,) = tabulate_scores(found).rows
    assert row.cells[-1].text.startswith("0.70")


def test_scores_of_steps_that_were_chosen_are_for_no_mean() -> None:
    chosen = [replace(one, queue="look_first", probability=None) for one in SIXTY_STEPS]
    one, _ = mean_score(chosen)
    assert one.corrected is not None
    assert isinstance(one.corrected.rate, Unmeasured)
    assert one.corrected.refused == {"from the queue look_first": 60}
    open_ = [scored(at, 3, None, decided=False) for at in range(30, 35)]
    one, _ = mean_score([*SIXTY_STEPS, *open_])
    assert one.corrected is not None
    assert rate(one.corrected).unmeasured == {"uncertain": 5}
    assert mean_score([])[0].corrected is None


def test_scores_of_a_file_are_corrected_where_people_scored_steps_too() -> None:
    given = [structs.replace(one, family="imported", judge="prm") for one in scores()]
    store = store_of(SCORED, given)
    assert reported(store).panels is msgspec.UNSET
    store.append_labels(SIXTY_STEPS)
    found = reported(store).panels
    assert isinstance(found, Panels)
    (one,) = found.scores
    assert one.judge == "prm"
    assert one.corrected is not None
    assert rate(one.corrected).value == pytest.approx(0.55)
    shown = text.render(make_report_document(reported(store)), 100)
    assert "step score  prm" in " ".join(shown.split("\n"))


def test_two_groups_are_compared_by_their_corrected_mean_scores() -> None:
    held = runs(40, ("a", "b"))
    store = store_of(held, scores(held))
    store.append_labels(
        Label(
            trajectory=held[place * 40 + at].id, measure="scores", annotator="ann", step=step,
            value=value - 0.3 * place, queue="uniform", probability=0.75,
        )
        for place in (0, 1)
        for at in range(30)
        for step, value in ((1, 0.8), (3, 0.7 if at % 2 else 0.5))
    )  # fmt: skip
    one = compare_groups(store, "a", "b").differences[f"step score by {ONE}, corrected"]
    assert isinstance(one.first, Estimate)
    assert isinstance(one.effect, Estimate)
    assert (one.first.value, one.effect.value) == pytest.approx((0.7, -0.3))
    assert one.effect.high is not None
    assert one.effect.high < 0


def test_an_adjudicated_answer_corrects_in_place_of_the_two_that_differ() -> None:
    # Ten of the sixty were answered otherwise by a second person: half of each counts.
    second = [label(at, "incorrect", annotator="bob") for at in range(90, 100)]
    assert rate(corrected([*SIXTY, *second])).value == pytest.approx(0.3 * 17 / 20 + 0.7 * 7 / 40)
    settled = [
        label(at, "correct", annotator="eve", queue="adjudication", repeat=1_000)
        for at in range(90, 100)
    ]
    found = corrected([*SIXTY, *second, *settled])
    assert rate(found).value == pytest.approx(0.29)
    assert (found.n_labels, found.refused) == (60, {})
    # Without the first answers it is of selected runs, and refused as such.
    alone = corrected([*SIXTY[:50], *settled])
    assert (alone.n_labels, alone.refused) == (50, {"from the queue adjudication": 10})


def test_an_adjudicated_answer_weighs_as_the_draw_of_the_first() -> None:
    drawn = [
        structs.replace(one, queue="active", probability=0.2 if at % 2 else 0.6)
        for at, one in enumerate(SIXTY)
    ]
    second = [structs.replace(one, annotator="bob", label="incorrect") for one in drawn[50:]]
    settled = [
        structs.replace(one, annotator="eve", label=first.label, queue="adjudication", repeat=1_000)
        for one, first in zip(second, drawn[50:], strict=True)
    ]
    assert corrected([*drawn, *second, *settled]).rate == corrected(drawn).rate
    assert corrected([*drawn, *second]).rate != corrected(drawn).rate


@pytest.mark.parametrize("place", [0, 1])
def test_a_group_without_labels_is_said_beside_the_one_with_them(place: int) -> None:
    held = runs(100, ("a", "b"))
    store = store_of(held, axes(ONE, held, ("x" * 40 + "." * 60) * 2))
    store.append_labels(
        Label(
            trajectory=held[100 * place + at].id, measure=f"judge.{SELECTION}", annotator="ann",
            label="correct", queue="uniform", probability=0.8,
        )
        for at in range(80)
    )  # fmt: skip
    one = compare_groups(store, "a", "b").differences[f"tool selection by {ONE}, corrected"]
    sides = (one.first, one.second)
    assert isinstance(sides[place], Estimate)
    assert isinstance(sides[1 - place], Unmeasured)
    assert isinstance(one.effect, Unmeasured)
    assert one.effect.reason == f"{('second', 'first')[place]}: no person's label"
