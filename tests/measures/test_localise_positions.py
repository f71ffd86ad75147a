"""Positions are counted from labels on the agent's steps, by place and by speaker."""

from __future__ import annotations

import pytest

from stepscope.measures.facts import fit_facts
from stepscope.measures.localise import count_positions, step_prior
from stepscope.model import Label
from tests.factories import agent, run, user

STEPS = (user("a"), agent("b"), agent("c"), user("d"), agent("e"))


def labelled(*labels: Label) -> dict[str, int]:
    return count_positions([run(*STEPS, labels=labels)])


def test_a_label_counts_at_its_index_from_the_end_in_its_tenth_and_for_its_speaker() -> None:
    assert labelled(Label(kind="decisive_step", step=2)) == {
        "at.2": 1,
        "end.2": 1,
        "labels": 1,
        "steps./message": 3,
        "tenth.4": 1,
        "who./message": 1,
    }


@pytest.mark.parametrize(
    "label",
    [
        Label(kind="failure", step=0),  # a user's step
        Label(kind="failure"),  # no step
        Label(kind="root_cause", step=2),  # said again of a failure that is listed
        Label(kind="note", step=2),
    ],
)
def test_labels_that_name_no_step_of_the_agent_count_nowhere(label: Label) -> None:
    assert labelled(label) == {}


def test_the_same_step_named_twice_counts_once() -> None:
    twice = (Label(kind="failure", step=2), Label(kind="decisive_step", step=2))
    assert labelled(*twice)["labels"] == 1


def test_what_labels_name_often_becomes_likelier_by_place_and_by_speaker() -> None:
    run_ = run(*STEPS)
    prior = step_prior({"labels": 40, "at.1": 30, "steps./message": 120, "who./message": 40}, run_)
    assert prior(run_.steps[1]) > 2 * prior(run_.steps[2])
    spoken = step_prior({"labels": 40, "steps./message": 400, "who./message": 2}, run_)
    silent = step_prior({"labels": 40, "steps./message": 400, "who./message": 40}, run_)
    assert spoken(run_.steps[1]) < silent(run_.steps[1])


def test_facts_carry_positions_where_they_were_counted() -> None:
    assert fit_facts("shop", [], positions={"labels": 1}).positions == {"labels": 1}
    assert fit_facts("shop", []).positions == {}
