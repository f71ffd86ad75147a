from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from stepscope.errors import StoreError
from stepscope.model import Case, Record, Trajectory, Usage, Verdict
from stepscope.store import Store
from stepscope.store.columns import cell_state, count_unmeasured, unmeasured_kind
from stepscope.store.store import Current
from stepscope.store.where import parse_where
from stepscope.values import UNMEASURED_KINDS, Unmeasured
from tests.factories import run, user
from tests.store.made import record


def stored(*records: Record, runs: int = 1) -> Store:
    store = Store.open(":memory:")
    store.put(run(user(str(at)), id=f"r{at + 1}", name=f"n{at + 1}") for at in range(runs))
    store.append(records)
    return store


def test_a_record_comes_back_with_all_its_provenance() -> None:
    full = [
        Record(
            trajectory="r1",
            answer=Verdict(
                "axes.tool_selection",
                value=0.1 + 0.2,
                label="nul\0label",
                step=0,
                cites=(0, 0),
                reason="because \0 \u202e",
                confidence=0.0,
            ),
            version="3",
            family="anthropic",
            case="abc",
            facts="def",
            judge="anthropic/x",
            rubric="r",
            prompt="p",
            repeat=2,
            usage=Usage(input_total=1),
            cost_usd=0.0,
            seconds=0.0,
        ),
        Record(
            trajectory="r1", answer=Unmeasured("budget", "spent", "axes.sequencing"), version="3"
        ),
        record(value=None, label="pass"),
        record(measure="zero", value=0.0),
    ]
    with stored(*full) as store:
        assert list(store.records()) == [full[1], full[0], full[2], full[3]]


def test_a_key_is_written_once_and_every_part_of_it_tells_records_apart() -> None:
    base = record()
    others = [
        record("r2"),
        record(measure="outcome.other"),
        record(version="2"),
        record(step=0),
        record(case="c"),
        record(facts="f"),
        record(judge="j"),
        record(prompt="p"),
        record(repeat=1),
    ]
    with stored(runs=2) as store:
        assert store.append([base, base]) == 1
        assert store.append([base, *others]) == 9
        assert store.append([record(value=0.5), *others]) == 0
        assert next(store.records(trajectory="r1", measure="outcome")) == base


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("label", [None, "pass"])
def test_a_value_that_is_not_finite_cannot_get_in(value: float, label: str | None) -> None:
    with stored() as store:
        with pytest.raises(StoreError, match="a row breaks a rule of the schema"):
            store.append([record(measure="sound"), record(value=value, label=label)])
        assert list(store.records()) == []  # nothing of the batch


@pytest.mark.parametrize("number", [math.nan, math.inf, -0.5])
@pytest.mark.parametrize("field", ["confidence", "cost_usd", "seconds"])
def test_a_number_beside_the_answer_is_finite_and_not_negative(field: str, number: float) -> None:
    answer = Verdict("outcome", 1.0, confidence=number if field == "confidence" else None)
    made = Record(
        trajectory="r1",
        answer=answer,
        version="1",
        cost_usd=number if field == "cost_usd" else None,
        seconds=number if field == "seconds" else None,
    )
    with stored() as store:
        with pytest.raises(StoreError, match=f"has {field} {number}"):
            store.append([made])
        assert list(store.records()) == []


def test_a_record_about_an_unknown_run_is_refused_whole() -> None:
    with stored() as store:
        with pytest.raises(StoreError, match="run 'nobody', which is not in the store"):
            store.append([record(), record("nobody")])
        assert store.measures() == ()
        assert store.append([record()]) == 1  # ids made in the rolled back batch are forgotten


def test_records_are_ordered_by_measure_run_and_step_not_by_time() -> None:
    made = [
        record(run_, measure=m, step=s)
        for m in ("b", "a")
        for run_ in ("r2", "r1")
        for s in (3, None, 1)
    ]
    with stored(*made, runs=2) as store:
        seen = [(r.answer.measure, r.trajectory, r.answer.step) for r in store.records()]
    assert seen == [(m, r, s) for m in "ab" for r in ("r1", "r2") for s in (None, 1, 3)]


def test_records_can_be_asked_for_by_run_measure_and_filter() -> None:
    with stored(record(), record("r2"), record("r2", measure="errors"), runs=2) as store:
        assert len(list(store.records(trajectory="r2"))) == 2
        assert len(list(store.records(measure="outcome"))) == 2
        assert len(list(store.records(parse_where("name = 'n2'"), measure="outcome"))) == 1
        assert store.measures() == ("errors", "outcome")


def test_records_of_several_runs_are_those_of_each_and_only_what_is_current() -> None:
    asked = [("m", "1"), ("m.x", "1"), ("m.x", "2"), ("mx", "2"), ("m.x.y", "2"), ("m.x.yz", "1")]
    held = [
        record(id, measure=name, version=version)
        for id in ("r1", "r2", "r3")
        for name, version in asked
    ]
    with stored(*held, runs=3) as store:
        store.put_facts((), [Current("m", "shop", "1", ""), Current("m.x.y", "shop", "2", "")])
        apart = [one for id in ("r1", "r3") for one in store.records(trajectory=id)]
        together = list(store.records(trajectory=["r3", "r1"]))
        assert sorted(apart, key=lambda r: r.answer.measure) == together
        assert {(r.answer.measure, r.version) for r in together} == {*asked[:2], *asked[3::2]}
        of_x = store.records(trajectory=["r1", "r2"], measure="m.x")
        assert [(r.trajectory, r.version) for r in of_x] == [("r1", "1"), ("r2", "1")]
        assert list(store.records(trajectory=[])) == []


def test_numbers_of_one_digit_and_of_more_come_back_as_they_went_in() -> None:
    for values in (
        [7.0, 0.0, 9.0],
        [10.0, 1.0, 2.0],
        [-1.0, 1.0, 3.0],
        [0.5, 1.0, 2.0],
        [None, 3.0],
    ):
        held = [
            record(f"r{at}", value=value, label=None if value is not None else "x")
            for at, value in enumerate(values, 1)
        ]
        with stored(*held, runs=len(values)) as store:
            assert store.column("outcome").numbers.tolist() == values


def test_a_column_tells_answered_unmeasured_and_unscored_apart() -> None:
    with stored(
        record("r1", value=0.0),
        record("r2", value=None, label="pass"),
        Record(trajectory="r3", answer=Unmeasured("undefined", "0 / 0", "outcome"), version="1"),
        record("r1", step=0, value=7.0),
        record("r4", repeat=1),
        runs=4,
    ) as store:
        column = store.column("outcome")
        nothing = store.column("never")
    assert column.state.tolist() == [1, 1, -4, 0]
    assert column.value[0] == 0.0
    assert np.isnan(column.value[1:]).all()
    assert column.label.tolist() == [None, "pass", None, None]
    assert column.answered.tolist() == [True, True, False, False]
    assert column.valued.tolist() == [True, False, False, False]
    assert count_unmeasured(column.state) == {"undefined": 1}
    assert column.versions == ("1",)
    assert nothing.state.tolist() == [0, 0, 0, 0]
    assert nothing.versions == ()


def test_an_aspect_takes_over_why_its_measure_failed_but_never_its_answer() -> None:
    with stored(
        record("r1", measure="m.a"),
        Record(trajectory="r2", answer=Unmeasured("error", "boom", "m"), version="1"),
        record("r3", measure="m"),
        runs=3,
    ) as store:
        assert store.column("m.a").state.tolist() == [1, cell_state("error"), 0]


def test_a_column_follows_the_order_of_the_runs_it_is_given() -> None:
    with stored(record("r1", value=1.0), record("r3", value=3.0), runs=3) as store:
        chosen = store.runs(parse_where("name in ('n3', 'n2')"))
        assert list(chosen.name) == ["n2", "n3"]
        column = store.column("outcome", chosen)
        assert column.state.tolist() == [0, 1]
        assert column.value[1] == 3.0
        nobody = store.runs(parse_where("name = 'x'"))
        assert len(store.column("outcome", nobody)) == 0


def test_only_answers_against_the_present_case_count() -> None:
    case = Case(workflow="shop", task="1", request="buy")
    with Store.open(":memory:") as store:
        store.put([run(user("a"), case=case)])
        store.append([record(value=0.0), record(value=1.0, case=case.hash), record(case="older")])
        assert store.column("outcome").value.tolist() == [1.0]
        store.put([run(user("a"), case=Case(workflow="shop", task="1", request="sell"))])
        assert store.column("outcome").value.tolist() == [0.0]


def test_only_the_version_and_facts_that_are_current_in_a_runs_workflow_count() -> None:
    def of(workflow: str, id: str) -> Trajectory:
        return msgspec.structs.replace(run(user(id), id=id, name=id), workflow=workflow)

    with Store.open(":memory:") as store:
        store.put([of("shop", "r1"), of("bank", "r2"), of("zoo", "r3")])
        store.put_facts(
            (), [Current("m", "shop", "1", "facts1"), Current("m", "bank", "2", "facts2")]
        )
        store.append(
            [
                record(id, measure=name, version=version, facts=f"facts{version}", value=value)
                for id in ("r1", "r2", "r3")
                for name in ("m", "m.x", "mx")
                for version, value in (("1", 1.0), ("2", 2.0))
            ]
        )
        for name in ("m", "m.x"):
            column = store.column(name)
            assert column.state.tolist() == [1, 1, 0]
            assert column.value.tolist()[:2] == [1.0, 2.0]
            assert column.versions == ("1", "2")
        # Of a measure that score never asked, the last version.
        assert store.column("mx").value.tolist() == [2.0, 2.0, 2.0]


def test_every_unmeasured_kind_has_a_state_of_its_own() -> None:
    assert [unmeasured_kind(cell_state(kind)) for kind in UNMEASURED_KINDS] == list(
        UNMEASURED_KINDS
    )
    assert cell_state("not_applicable") == -1
