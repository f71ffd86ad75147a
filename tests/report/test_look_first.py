from __future__ import annotations

import json

import msgspec

from stepscope.model import Label, Trajectory
from stepscope.report.build import build_report
from stepscope.report.evidence import choose_runs
from stepscope.report.rows import read_table
from stepscope.report.suspects import compare_with_trials, list_passing_trials
from stepscope.report.views.show import show_run_json
from stepscope.score import score_runs
from stepscope.store import Store
from tests.report.literal import call, result, said, trajectory
from tests.report.rows import ABSENT, LiteralRows, rows


def chosen(count: int | None = 10, **values: list[float | None]) -> list[int]:
    n = len(next(iter(values.values())))
    named = {name.replace("__", "."): column for name, column in values.items()}
    literal = LiteralRows(
        [str(at) for at in range(n)], values=dict(named), absent=dict.fromkeys(named, ABSENT)
    )
    return [int(at) for at in choose_runs(read_table(rows(literal), None), count)]


def test_failing_runs_come_first_and_among_them_those_with_more_found() -> None:
    assert chosen(outcome=[1, 0, 0, 1], errors=[0, 0, 4, 4]) == [2, 1, 3]


def test_a_passing_run_without_findings_is_never_chosen() -> None:
    assert chosen(outcome=[1, 1, 1], errors=[0, 0, 0]) == []
    assert chosen(None, outcome=[1, 1, 1], errors=[0, 0, 0]) == [0, 1, 2]


def test_a_pass_excuses_errors_but_not_a_write_nobody_asked_for() -> None:
    order = chosen(outcome=[1, 1], errors=[6, 0], subgoals__other_writes=[0, 1])
    assert order == [1, 0]


def test_a_broken_rule_outweighs_many_errors() -> None:
    assert chosen(outcome=[0, 0], errors=[6, 0], policy=[0, 1]) == [1, 0]


def test_a_proved_fault_of_a_run_that_nobody_graded_is_read_too() -> None:
    literal = LiteralRows(
        ["1"] * 4,
        values={"outcome": [1.0, None, None, 0.0]},
        labels={"axes.termination": ["incorrect", "uncertain", "incorrect", "uncertain"]},
    )
    assert choose_runs(read_table(rows(literal), None), 10).tolist() == [2, 3]


def test_equal_runs_stay_in_the_order_of_the_rows() -> None:
    assert chosen(outcome=[0] * 40) == list(range(10))


def failing(name: str, id_: str) -> object:
    run = trajectory(
        said(0, "user", "hello"),
        call(1, "book", to="SEA"),
        result(2, "Error: full", error=True),
        said(3, "agent", "no"),
    )
    return msgspec.structs.replace(run, name=name, id=id_ * 32)


def test_the_command_names_the_run_or_its_id_where_names_repeat() -> None:
    with Store.open(":memory:") as store:
        named = [failing("one", "a"), failing("two words", "b"), failing("same", "c")]
        store.put([*named, failing("same", "d"), failing("bad\x1bname", "e")])  # type: ignore[list-item]
        score_runs(store)
        report = build_report(store)
        commands = {run.id[0]: run.command for run in report.look_first}
    assert report.not_claimed[0] == "suspect-step accuracy (no labels here)"
    assert commands == {
        "a": "stepscope show one",
        "b": "stepscope show 'two words'",
        "c": "stepscope show cccccccccccc",
        "d": "stepscope show dddddddddddd",
        "e": "stepscope show eeeeeeeeeeee",
    }


def test_peoples_labels_are_no_finding_and_are_named_in_what_is_not_claimed() -> None:
    label = Label(kind="decisive_step", step=1, reason="wrong seat")
    run = msgspec.structs.replace(
        trajectory(said(0, "user", "hello"), said(1, "agent", "no"), passed=True), labels=(label,)
    )
    with Store.open(":memory:") as store:
        store.put([run])
        score_runs(store)
        report = build_report(store, look_first=None)
    assert report.look_first[0].suspects == ()
    assert report.not_claimed[0] == (
        "suspect-step accuracy (people's labels are not compared here)"
    )


def test_a_write_that_no_passing_trial_makes_comes_first_everywhere() -> None:
    def trial(id_: str, code: str, *, passed: bool) -> Trajectory:
        steps = [said(0, "user", "my order it's A")]
        steps += [call(1, "get_order", id="A"), result(2, "ok"), said(3, "agent", "Shall I?")]
        steps += [said(4, "user", "yes"), call(5, "cancel_order", id=code), result(6, "ok")]
        made = trajectory(*steps, said(7, "agent", "Done."), passed=passed)
        return msgspec.structs.replace(made, id=id_ * 32, name=id_, task="it's 1")

    with Store.open(":memory:") as store:
        store.put([trial("a", "A", passed=True), trial("b", "B", passed=False)])
        score_runs(store)
        (looked,) = [run for run in build_report(store).look_first if run.name == "b"]
        shown = json.loads(show_run_json(store, "b"))
        trials = list_passing_trials(store, ["it's 1"])
        alone = compare_with_trials(store, store.trajectory("a" * 32), trials)
    assert (looked.suspects[0].step, looked.suspects[0].kind) == (5, "new_write")
    assert "the passing trial of this task does not make this write" in looked.suspects[0].evidence
    assert [s.first for s in looked.suspects] == [s["first"] for s in shown["suspects"]]
    assert [s.share for s in looked.suspects] == [s["share"] for s in shown["suspects"]]
    assert alone == ()
