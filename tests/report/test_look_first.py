from __future__ import annotations

import json
import shlex

import msgspec

from stepscope.model import Outcome, Record, TraceLabel, Trajectory, Verdict
from stepscope.report.build import build_report
from stepscope.report.render.text import render as text_of
from stepscope.report.rows import read_table
from stepscope.report.suspects import (
    choose_runs,
    compare_with_trials,
    list_passing_trials,
    list_suspects,
)
from stepscope.report.views.overview import make_report_document
from stepscope.report.views.show import show_run_json
from stepscope.score import score_runs
from stepscope.store import Store
from tests.factories import FAILED, PASSED
from tests.report.literal import call, result, said, trajectory
from tests.report.made_panels import ONE, TWO, axes, labelled, repaired, runs, store_of
from tests.report.made_panels import said as said_by
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
    assert (
        report.not_claimed[0]
        == "how often a suspect step is the one that went wrong (no labels here)"
    )
    assert commands == {
        "a": "stepscope show one",
        "b": "stepscope show 'two words'",
        "c": "stepscope show cccccccccccc",
        "d": "stepscope show dddddddddddd",
        "e": "stepscope show eeeeeeeeeeee",
    }


def test_names_to_look_at_can_be_pasted() -> None:
    long = "a name that is long enough to be cut"
    names = {"a": "it's one", "b": "$(x)", "c": "shop/1", "d": "twin", "e": "twin", "f": long}
    with Store.open(":memory:") as store:
        for key, name in names.items():  # each with a fault of its own: those alike are one line
            steps = (said(0, "user", "go"), call(1, f"pay_{key}"), result(2, "no", error=True))
            made = trajectory(*steps, passed=False)
            store.put([msgspec.structs.replace(made, id=key * 32, name=name, task=key)])
        score_runs(store)
        text = text_of(make_report_document(build_report(store)))
        listed = text.partition("Look first")[2].splitlines()
        shown = [line[2:].partition("   ")[0] for line in listed if line[2:3].strip()]
        typed = [shlex.split(one)[0] for one in shown if not one.startswith("failed because")][:6]
        assert sorted(map(store.find, typed)) == [key * 32 for key in "abcdef"]
    assert {"'$(x)'", "shop/1", "d" * 12} <= set(shown)
    assert long[:9] not in "".join(shown)  # a quotation that is cut could not be pasted


def test_peoples_labels_are_no_finding_and_are_named_in_what_is_not_claimed() -> None:
    label = TraceLabel(kind="decisive_step", step=1, reason="wrong seat")
    run = msgspec.structs.replace(
        trajectory(said(0, "user", "hello"), said(1, "agent", "no"), passed=True), labels=(label,)
    )
    with Store.open(":memory:") as store:
        store.put([run])
        score_runs(store)
        report = build_report(store, look_first=None)
    assert report.look_first[0].suspects == ()
    assert report.not_claimed[0] == (
        "how often a suspect step is the one that went wrong "
        "(people's labels are not compared here)"
    )


def test_outcomes_that_sources_contradict_are_not_claimed() -> None:
    held = runs(3)
    answer = Verdict("outcome.contradicted", 1.0, reason="a check says fail, a person pass")
    for contradicted, expected in (([], []), (held[:2], ["the true outcome of 2 runs"])):
        with store_of(held, [said_by("rules", one, answer) for one in contradicted]) as store:
            found = [one.partition(" (")[0] for one in build_report(store).not_claimed]
        assert [one for one in found if one.startswith("the true outcome")] == expected


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
        failed = store.trajectory("b" * 32)
        elsewhere = msgspec.structs.replace(failed, workflow="other")
        assert compare_with_trials(store, elsewhere, trials) == ()
        assert compare_with_trials(store, failed, list_passing_trials(store, [None, "2"])) == ()
        assert trials(failed.workflow, "it's 1") is trials(failed.workflow, "it's 1")
    assert (looked.suspects[0].step, looked.suspects[0].kind) == (5, "new_write")
    assert "the passing trial of this task does not make this write" in looked.suspects[0].evidence
    assert [s.first for s in looked.suspects] == [s["first"] for s in shown["suspects"]]
    assert [s.share for s in looked.suspects] == [s["share"] for s in shown["suspects"]]
    assert alone == ()


def judged_names(*records: list[Record], outcome: Outcome = PASSED, n: int = 4) -> list[str]:
    """Names of the runs to look at first, of passing runs that no rule faults."""
    return [
        one.name for one in build_report(store_of(runs(n, outcome=outcome), *records)).look_first
    ]


def test_what_judges_fault_is_looked_at_and_cascades_come_first() -> None:
    held = runs(4, outcome=PASSED)
    mended = [r for r in labelled(ONE, held[1], "PEPPPP") if r.answer.step != 3]
    mended.append(repaired(ONE, held[1], error=1, by=3))
    assert judged_names() == []
    assert judged_names(axes(ONE, held, "..x.")) == ["shop/2/gpt-4o"]
    cascade = labelled(ONE, held[3], "PEPPPP")
    assert judged_names(axes(ONE, held, "..x."), mended, cascade) == [
        "shop/3/gpt-4o", "shop/1/gpt-4o", "shop/2/gpt-4o",
    ]  # fmt: skip


def test_a_cascade_of_a_passing_run_comes_before_a_failed_run() -> None:
    passing, failed = runs(1, outcome=PASSED), runs(1, ("other",), FAILED)
    other = [msgspec.structs.replace(run, id=f"{'ab' * 16}") for run in failed]
    for labels, first in (("PEPPPP", "shop/0/gpt-4o"), ("PPPPPP", "shop/0/other")):
        with store_of([*passing, *other], labelled(ONE, passing[0], labels)) as store:
            score_runs(store, workers=1)
            assert build_report(store).look_first[0].name == first


def suspected(outcome: Outcome, *records: list[Record]) -> list[tuple[int, str, str]]:
    (of,) = runs(1, outcome=outcome)
    look = list_suspects(of, None, [record for some in records for record in some])
    return [(one.first, one.kind, one.evidence) for one in look.suspects]


def test_suspects_of_a_run_that_did_not_fail_are_what_judges_cite() -> None:
    (of,) = runs(1)
    fault = axes(ONE, [of], "x")
    cascade = labelled(TWO, of, "PEPPPE")
    for outcome, last in ((PASSED, []), (Outcome(), [5])):
        found = suspected(outcome, fault, cascade)
        # The last step is an error with nothing behind it: a pass excuses it.
        assert [step for step, _, _ in found] == [1, 3, *last]
        assert found[0] == (
            1, "judge", f"an error that no later step addresses, says {TWO}: why",
        )  # fmt: skip
        assert found[1] == (3, "judge", f"tool selection at fault, says {ONE}: incorrect it is")
    mended = [r for r in labelled(TWO, of, "PEPPPP") if r.answer.step != 3]
    assert suspected(PASSED, mended, [repaired(TWO, of, error=1, by=3)]) == []


def test_a_cascade_stands_before_what_is_proved() -> None:
    (of,) = runs(1)
    broken = [said_by("rules", of, Verdict("policy", label="no refunds", step=3, cites=(3,)))]
    found = suspected(PASSED, broken, labelled(ONE, of, "PPPPPE"), labelled(TWO, of, "PPPPEP"))
    assert [step for step, _, _ in found][:2] == [4, 3]
