"""The queue of disputes: who disputes, what comes first, and what it may be used for."""

from __future__ import annotations

import csv
import io

import pytest

from stepscope.calibrate.agreement import labelling_queue, queue_csv
from stepscope.calibrate.types import Dispute
from stepscope.model import Record, Verdict
from tests.calibrate.made import by_step, said, store, whole

C, I, U, N = "correct", "incorrect", "uncertain", "not_applicable"  # noqa: E741


def disputed(*records: list[Record], runs: int = 6) -> tuple[Dispute, ...]:
    with store(runs) as made:
        for batch in records:
            made.append(batch)
        return labelling_queue(made)


def names(found: tuple[Dispute, ...]) -> list[str]:
    return [one.name for one in found]


def test_judges_of_one_family_are_wrong_together_and_dispute_nothing() -> None:
    assert disputed(whole("openai/a", [C, I]), whole("openai/d", [I, C])) == ()
    found = disputed(whole("openai/a", [C, I]), whole("anthropic/b", [I, I]))
    assert names(found) == ["shop/0/0"]


@pytest.mark.parametrize("family", ["human", "imported"])
def test_two_people_and_two_imported_judges_may_dispute(family: str) -> None:
    found = disputed(whole("ann", [C, I], family=family), whole("bob", [I, I], family=family))
    assert names(found) == ["shop/0/0"]


def test_first_comes_what_both_sides_commit_to_then_who_is_sure_within_each_judge() -> None:
    # Run 1 is surer than run 3 for either judge, though the second sounds less sure throughout.
    found = disputed(
        whole("openai/a", [C, I, C, I, C], confidence=[0.97, 0.96, 0.99, 0.9, 0.95]),
        whole("anthropic/b", [U, C, C, C, N], confidence=[0.8, 0.7, 0.6, 0.5, 0.4]),
    )
    assert names(found) == ["shop/1/0", "shop/3/0", "shop/0/0", "shop/4/0"]


def test_the_more_pairs_of_families_disagree_the_earlier() -> None:
    found = disputed(
        whole("openai/a", [C, C]), whole("anthropic/b", [I, U]), whole("qwen/c", [C, I])
    )
    assert [(one.name, round(one.apart, 3)) for one in found] == [
        ("shop/1/0", 1.0),
        ("shop/0/0", 0.667),
    ]


def test_scores_in_other_bands_come_by_how_far_they_are_apart() -> None:
    def scores(judge: str, values: list[float]) -> list[Record]:
        return [said(judge, 0, Verdict("scores", value=v, step=n)) for n, v in enumerate(values)]

    found = disputed(scores("openai/a", [0.5, 0.1, 0.9]), scores("anthropic/b", [0.6, 0.9, 0.95]))
    assert [one.step for one in found] == [1, 0]


def test_rubrics_take_turns() -> None:
    found = disputed(
        whole("openai/a", [C, C, C]),
        whole("anthropic/b", [I, I, C]),
        by_step("openai/a", ["PPP"]),
        by_step("anthropic/b", ["EEE"]),
    )
    assert [one.aspect for one in found] == [
        "axes.termination",
        "step_labels",
        "axes.termination",
        "step_labels",
        "step_labels",
    ]


def test_a_queue_is_tuning_material_and_its_csv_says_so() -> None:
    found = disputed(
        whole("openai/a", [C], cites=[(2, 4)], confidence=[0.9]),
        whole("=cmd()", [I], family="human"),
    )
    rows = list(csv.DictReader(io.StringIO(queue_csv(found))))
    assert [row["use"] for row in rows] == ["tuning", "tuning"]
    assert rows[1] == {
        "aspect": "axes.termination", "run": "r0", "name": "shop/0/0", "step": "",
        "rater": "openai/a", "family": "openai", "label": C, "value": "", "confidence": "0.9",
        "cites": "2 4", "reason": "openai/a on 0", "use": "tuning",
    }  # fmt: skip
    # What a spreadsheet would run is text there.
    assert rows[0]["rater"] == "'=cmd()"
