"""A judge is adopted only where labels show it as good, however often one looked at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope.api.rubrics import adopt_judge, lock_rubrics
from stepscope.calibrate.adopt import Adoption, choose_labels, compare_judges, decide_adoption
from stepscope.calibrate.ratings import Item
from stepscope.errors import UsageError
from stepscope.judges.lock import read_lock
from stepscope.model import Answer, Verdict
from stepscope.model.labels import Label
from stepscope.settings import Settings
from stepscope.stats.sequential import betting_evidence, betting_limits, labels_to_adopt
from stepscope.store import Store
from stepscope.values import Estimate, Unmeasured
from tests.calibrate.made import AXIS, said, store

GOOD, BAD = "correct", "incorrect"
A, B = "openai/a", "anthropic/b"


def verdict(label: str) -> Verdict:
    return Verdict(f"judge.{AXIS}", label=label)


def compare(
    old: list[str | None],
    new: list[str | None],
    *,
    tuned: tuple[str, ...] = (),
    a_task: int = 1,
    seconds: tuple[float, ...] = (),
) -> Adoption:
    """Compare two sides on runs that people found good; None is an item that was not asked."""

    def side(labels: list[str | None]) -> dict[Item, Answer]:
        return {(f"r{n}", None): verdict(x) for n, x in enumerate(labels) if x is not None}

    ids = [f"r{n}" for n in range(len(old))]
    return compare_judges(
        {(id_, None): GOOD for id_ in ids},
        (side(old), side(new)),
        names=("axes.termination", "old", "new"),
        tasks={id_: n // a_task for n, id_ in enumerate(ids)},
        tuned=tuned,
        seconds=seconds,
    )


def mixed(n: int, wrong: int) -> list[str | None]:
    return [BAD if at % (n // wrong) == 0 else GOOD for at in range(n)] if wrong else [GOOD] * n


def test_a_judge_that_is_right_as_often_is_adopted_once_labels_suffice() -> None:
    assert compare([GOOD] * 400, [GOOD] * 400).decision.outcome == "pass"
    assert compare([GOOD] * 20, [GOOD] * 20).decision.outcome == "undecided"


def test_a_judge_that_is_worse_by_more_than_the_margin_is_refused() -> None:
    found = compare([GOOD] * 200, mixed(200, 50))
    assert found.decision.outcome == "fail"
    assert isinstance(found.difference, Estimate)
    assert found.difference.value == pytest.approx(-0.25)
    assert found.discordance == pytest.approx(0.25)


def test_a_small_loss_is_within_the_margin() -> None:
    assert compare([GOOD] * 2000, mixed(2000, 20)).decision.outcome == "pass"


def test_labels_of_one_task_are_one_unit() -> None:
    alone = compare([GOOD] * 200, mixed(200, 50)).difference
    together = compare([GOOD] * 200, mixed(200, 50), a_task=20).difference
    assert isinstance(alone, Estimate)
    assert isinstance(together, Estimate)
    assert (together.n, together.n_tasks) == (200, 10)
    assert (together.low or 0.0) < (alone.low or 0.0) < 0


def test_labels_that_tuned_either_side_are_left_out() -> None:
    found = compare([GOOD] * 400, [GOOD] * 400, tuned=("r0", "r1"))
    assert found.left_out == {"tuned_on": 2}
    assert isinstance(found.difference, Estimate)
    assert found.difference.n == 398


def test_an_item_that_one_side_was_not_asked_about_is_left_out_and_a_refusal_is_not_right() -> None:
    found = compare([GOOD, GOOD], [GOOD, None])
    assert found.left_out == {"not_judged_by_both": 1}
    one: dict[Item, Answer] = {("r0", None): verdict(GOOD)}
    refused: dict[Item, Answer] = {("r0", None): Unmeasured("refused", "no")}
    asked = compare_judges(
        {("r0", None): GOOD}, (one, refused), names=("x", "old", "new"), tasks={"r0": 0}
    )
    assert isinstance(asked.new_right, Estimate)
    assert asked.new_right.value == 0.0
    assert asked.decision.reason == "no interval: one task"


def test_without_labels_nothing_is_decided() -> None:
    found = compare([], [])
    assert found.decision.outcome == "undecided"
    assert isinstance(found.difference, Unmeasured)
    assert found.needed[:2] == (0.15, 371)


def test_the_power_comes_first_and_labels_have_their_price() -> None:
    told = str(compare([GOOD] * 19, [GOOD] * 19, seconds=(10.0, 20.0, 90.0))).splitlines()
    assert told[0] == (
        "To adopt a judge that is as good takes 371 labels at 15 % discordance if they are counted "
        "once,"
    )
    assert told[1].startswith("about 7") or told[1].startswith("about 8")
    more = compare([GOOD] * 19, [GOOD] * 19, seconds=(10.0, 20.0, 90.0))
    assert more.more is not None
    assert more.minutes == pytest.approx(more.more * 20 / 60)
    assert compare([GOOD] * 19, [GOOD] * 19).minutes is None


def test_past_the_plan_nobody_knows_how_many_labels_decide() -> None:
    # 900 labels, 50 of which the new side alone has wrong: 5.6 points, a plan of about 330.
    found = compare([GOOD] * 900, mixed(900, 50))
    assert (found.decision.outcome, found.more, found.minutes) == ("undecided", None, None)
    assert found.needed[2] is not None
    assert found.needed[2] < 900
    assert str(found).endswith("how many labels would decide is not known")


def test_judges_that_hardly_differ_need_hundreds_of_labels_and_no_thousands() -> None:
    # Where nothing differs the largest stake alone grows by log(1 + .6 * .05 / .95) a label.
    _, watched = labels_to_adopt(0.005, 0.05, rng=np.random.default_rng(0))
    assert watched is not None
    assert 110 < watched < 200


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(-0.049, 0.1, "pass"), (-0.05, 0.1, "undecided"), (-0.2, -0.051, "fail"),
     (-0.2, -0.05, "undecided")],
)  # fmt: skip
def test_the_decision_is_on_limits(low: float, high: float, outcome: str) -> None:
    one = Estimate(value=(low + high) / 2, low=low, high=high, method="betting", n=9, n_tasks=9)
    assert decide_adoption(one, 0.05).outcome == outcome


def test_evidence_is_what_bets_make() -> None:
    # Stakes .15, .3, .6 of what cannot ruin: (1.15 + 1.3 + 1.6)/3, then their squares, then a loss.
    found = np.exp(betting_evidence([1.0, 1.0, -1.0], 0.0))
    assert found.tolist() == pytest.approx([1.35, 1.8575, 1.110375])
    # A difference that is the threshold itself moves nothing.
    assert betting_evidence([-0.05] * 9, -0.05).tolist() == pytest.approx([0.0] * 9, abs=1e-12)


def test_limits_are_those_at_which_the_evidence_is_twenty() -> None:
    differences = np.array([0.0] * 90 + [1.0, -1.0] * 5)
    low, high = betting_limits(differences)
    assert float(betting_evidence(differences, low)[-1]) == pytest.approx(np.log(20), abs=1e-3)
    assert high == pytest.approx(-low)
    assert betting_limits([]) == (-1.0, 1.0)


def test_looking_after_every_label_adopts_a_worse_judge_in_at_most_five_percent() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.random((1_000, 1_500))
    # Discordance .15, truly worse by the margin.
    differences = (drawn < 0.05) - 1.0 * (drawn > 0.9)
    ever = (betting_evidence(differences, -0.05) >= np.log(20)).any(axis=1)
    assert float(ever.mean()) <= 0.05 + 2.33 * (0.05 * 0.95 / 1_000) ** 0.5
    better = (drawn < 0.075) - 1.0 * (drawn > 0.925)
    assert float((betting_evidence(better, -0.05) >= np.log(20)).any(axis=1).mean()) > 0.9


@pytest.mark.parametrize(("discordance", "once"), [(0.15, 371), (0.05, 124), (0.3, 742)])
def test_the_number_of_labels_is_the_specifications(discordance: float, once: int) -> None:
    # 2,473 x the discordant share, rounded up.
    assert labels_to_adopt(discordance, 0.05, rng=np.random.default_rng(0))[0] == once


def label(annotator: str, run: int, given: str | None, **more: Any) -> Label:
    return Label(
        trajectory=f"r{run}", measure=f"judge.{AXIS}", annotator=annotator, label=given, **more
    )


def test_people_who_differ_or_cannot_decide_give_no_label_and_tuning_queues_none() -> None:
    given = [
        label("kim", 0, GOOD, seconds=9.0), label("lee", 0, GOOD), label("kim", 1, GOOD),
        label("lee", 1, BAD), label("kim", 2, "uncertain"), label("kim", 3, None, decided=False),
        label("kim", 4, GOOD, queue="disagreement"), label("kim", 5, GOOD, queue="norming"),
        label("kim", 6, BAD, queue="uniform", probability=0.1),
        label("kim", 7, BAD, queue="active", probability=0.1),
    ]  # fmt: skip
    truth, left, seconds = choose_labels(given)
    assert truth == {("r0", None): GOOD, ("r6", None): BAD}
    assert left == {"split_or_uncertain": 2, "cannot_be_decided": 1, "queue_active": 1,
                    "queue_disagreement": 1, "queue_norming": 1}  # fmt: skip
    assert seconds == [9.0]


def labelled(runs: int, judges: tuple[str, ...] = (A, B), version: str = "2") -> Store:
    made = store(runs)
    made.append_labels([label("kim", n, GOOD) for n in range(runs)])
    made.append(
        [said(one, n, verdict(GOOD), version=version) for one in judges for n in range(runs)]
    )
    return made


def adopt(made: Store, folder: Path, old: str = A, new: str = B) -> Adoption:
    return adopt_judge(made, AXIS, judges=(old, new), folder=folder)


def test_a_rubric_that_is_not_in_the_lock_is_refused(tmp_path: Path) -> None:
    with labelled(5) as made, pytest.raises(UsageError, match="which labels tuned it is not known"):
        adopt(made, tmp_path)


def test_an_adopted_judge_enters_the_lock(tmp_path: Path) -> None:
    with labelled(300, judges=(A, f"{B}@2026")) as made:
        lock_rubrics(None, Settings(), [AXIS], folder=tmp_path)
        found = adopt(made, tmp_path, new=f"{B}@2026")
        assert found.decision.outcome == "pass"
        entry = read_lock(tmp_path).get(AXIS)
        assert entry is not None
        assert entry.judges == {B: ("2026",)}


def test_runs_that_the_lock_names_as_development_are_no_test(tmp_path: Path) -> None:
    with labelled(300) as made:
        lock_rubrics(made, Settings(), [AXIS], folder=tmp_path)
        found = adopt(made, tmp_path)
    assert found.left_out == {"tuned_on": 300}
    assert found.decision.outcome == "undecided"


def test_answers_to_fixed_runs_that_were_asked_about_again_are_no_side(tmp_path: Path) -> None:
    lock_rubrics(None, Settings(), [AXIS], folder=tmp_path)
    with labelled(3) as made:
        again = [said(f"{B}@2027", n, verdict(BAD), version="2", repeat=1000) for n in range(3)]
        made.append(again)
        found = adopt(made, tmp_path)
    assert isinstance(found.new_right, Estimate)
    assert (found.new, found.new_right.value) == (f"{B}, version 2", 1.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [(A, A, "both sides are openai/a, version 2"), (A, "qwen/c", "did not answer"),
     ("openai/d", A, "2 snapshots of openai/d .* name one: openai/d@1, openai/d@2")],
)  # fmt: skip
def test_sides_that_are_not_two_judges_are_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    lock_rubrics(None, Settings(), [AXIS], folder=tmp_path)
    with (
        labelled(3, judges=(A, B, "openai/d@1", "openai/d@2")) as made,
        pytest.raises(UsageError, match=said),
    ):
        adopt(made, tmp_path, old, new)
