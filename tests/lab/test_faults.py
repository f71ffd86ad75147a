"""A planted fault is one fault, at the step that it names, the same again for the same seed."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from bars.planted.faults import AXES, FAULT_KINDS, plant_fault, plant_faults
from stepscope.errors import UsageError
from stepscope.model import Step, ToolDef, Trajectory
from tests.factories import PASSED, agent, did, run, user

ORDER = '{"order_id": "#W2378156", "refund_amount": 95.08, "item_price": 1619.34}'
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}
GOOD = run(
    user("Hello, I want to cancel order #W2378156"),
    *did("get_order", ORDER, order_id="#W2378156"),
    agent("It costs $1,619.34. Shall I cancel it?"),
    user("Yes, please."),
    *did("cancel_order", ORDER, order_id="#W2378156"),
    agent("Order #W2378156 has been cancelled. You get a refund of $95.08."),
    user("Thanks, bye!"),
    tools=(ToolDef("get_order", schema=SCHEMA), ToolDef("cancel_order", schema=SCHEMA)),
    outcome=PASSED,
)


def planted(kind: str, seed: int = 0, made: Trajectory = GOOD) -> Trajectory:
    found = plant_fault(made, kind, np.random.default_rng(seed))
    assert found is not None
    return found


def shown(made: Trajectory) -> int:
    step = made.labels[0].step
    assert step is not None
    return step


def text(step: Step) -> str:
    return step.text + "".join(result.text for result in step.results)


@pytest.mark.parametrize("kind", sorted(FAULT_KINDS))
def test_every_kind_gives_a_run_of_its_own_that_names_its_step(kind: str) -> None:
    for seed in range(5):
        made = planted(kind, seed)
        assert [step.index for step in made.steps] == list(range(len(made.steps)))
        assert 0 <= shown(made) < len(made.steps)
        assert made.id != GOOD.id
        assert made.name == f"shop/1/0+{kind}"
        assert made.outcome.status == "unknown"
        assert [(label.category, label.annotator) for label in made.labels] == [(kind, "planted")]


@pytest.mark.parametrize("kind", sorted(FAULT_KINDS))
def test_the_same_seed_plants_the_same_fault(kind: str) -> None:
    again = [msgspec.json.encode(planted(kind, 3)) for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize("kind", sorted(FAULT_KINDS))
def test_a_run_where_a_kind_cannot_occur_stays_unplanted(kind: str) -> None:
    assert plant_fault(run(user("hi"), agent("hello")), kind, np.random.default_rng(0)) is None


def test_a_fabricated_identifier_occurs_nowhere_else() -> None:
    found = planted("fabricated_identifier")
    (call,) = found.steps[shown(found)].calls
    new = call.arguments["order_id"]
    assert new.startswith("#W")
    assert len(new) == len("#W2378156")
    assert not any(new in text(step) for step in found.steps)


def test_a_planted_policy_forbids_the_planted_tool_only() -> None:
    found = planted("forbidden_tool")
    (call,) = found.steps[shown(found)].calls
    assert found.case is not None
    assert [rule.forbid for rule in found.case.policy] == [call.name]


def test_a_misread_number_leaves_everything_else_as_it_was() -> None:
    found = planted("misread_number")
    changed = [
        before.index
        for before, after in zip(GOOD.steps, found.steps, strict=True)
        if before != after
    ]
    assert changed == [shown(found)]
    assert shown(found) in (3, 7)


def test_a_labelled_quantity_is_told_as_another_amount_of_the_run() -> None:
    found = planted("misread_labelled_quantity", seed=1)
    said = found.steps[shown(found)].text
    assert "$1,619.34" in said
    assert "refund" in said or "price" in said or "costs" in said


def test_the_claim_stays_when_the_write_has_failed() -> None:
    found = planted("error_then_success")
    assert shown(found) == 7
    assert found.steps[6].results[0].status == "error"
    assert found.steps[7].text == GOOD.steps[7].text


def test_removed_steps_move_the_step_that_is_named() -> None:
    found = planted("write_without_confirmation")
    assert shown(found) == 3
    assert [call.name for call in found.steps[3].calls] == ["cancel_order"]
    skipped = planted("skipped_precondition")
    assert [x.call.name for x in skipped.exchanges] == ["cancel_order"]
    assert shown(skipped) == 3


def test_endings_end_where_they_say() -> None:
    late = planted("calls_after_closing")
    assert late.steps[shown(late)].calls
    assert late.steps[shown(late) - 1].actor == "user"
    failed = planted("ended_on_error")
    assert failed.exchanges[-1].failed
    assert shown(failed) == len(failed.steps) - 1
    assert planted("ended_on_limit").termination is not None
    promised = planted("announced_never_made")
    assert [x.call.name for x in promised.exchanges] == ["get_order"]
    assert "cancel the order" in promised.steps[-1].text


def test_many_faults_take_kinds_and_runs_in_turn() -> None:
    kinds = ["misread_number", "fabricated_identifier"]
    empty = run(user("hi"))
    found = list(plant_faults([empty, GOOD], kinds, 5, np.random.default_rng(0)))
    assert [one.labels[0].category for one in found] == [*kinds, *kinds, "misread_number"]
    assert list(plant_faults([empty], kinds, 5, np.random.default_rng(0))) == []


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no planted fault 'boredom'; there are: announced"):
        plant_fault(GOOD, "boredom", np.random.default_rng(0))


def test_every_axis_has_a_fault() -> None:
    assert {axis for axis, _ in FAULT_KINDS.values()} == set(AXES)
