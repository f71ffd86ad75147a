"""Agents within runs: a vector for each, and a row for each where one run is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from stepscope.errors import UsageError
from stepscope.measures.agents import measure_agents
from stepscope.model import Record, Step, Trajectory, Verdict
from stepscope.report.build import build_report
from stepscope.report.compare import compare_groups
from stepscope.report.render import text
from stepscope.report.views import show as run_views
from stepscope.report.views.overview import make_report_document
from stepscope.report.views.show import make_run_document, tabulate_agents
from stepscope.report.words import name_group
from stepscope.score import score_runs
from stepscope.store import Store
from stepscope.store.parquet import ParquetRows
from stepscope.store.store import Current
from stepscope.values import Estimate, Unmeasured
from tests.factories import FAILED, PASSED, agent, current_version, did, failed, run, user


def by(name: str, *steps: Step) -> tuple[Step, ...]:
    return tuple(
        msgspec.structs.replace(step, agent=name) if step.actor == "agent" else step
        for step in steps
    )


def made(number: int) -> Trajectory:
    again = did("get_page", "text", id=1) if number % 2 else ()
    return run(
        user("hi"),
        *by("plan", agent("go")),
        *by("web", *failed("get_page", id=1), *did("get_page", "text", id=1), *again),
        *by("plan", agent("done")),
        id=f"r{number}",
        name=f"shop/{number}",
        task=str(number),
        outcome=PASSED if number < 6 else FAILED,
    )


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        opened.put([made(number) for number in range(8)])
        opened.put([run(user("hi"), agent("ho"), id="bare", name="bare", outcome=PASSED)])
        score_runs(opened)
        yield opened


def test_every_agent_has_a_vector_of_its_own(store: Store) -> None:
    report = build_report(store, by="step_agent")
    assert report.whole.n_runs == 9
    plan, web = report.profiles
    assert [p.group for p in (plan, web)] == [{"step_agent": "plan"}, {"step_agent": "web"}]
    assert [(p.n_runs, p.n_steps, p.n_calls) for p in (plan, web)] == [(8, 16, 0), (8, 20, 20)]

    def value(key: str) -> float:
        figure = web.figures[key]
        assert isinstance(figure, Estimate)
        return figure.value

    assert value("redundant_calls.per_run") == 0.5
    assert value("errors.recovered") == 1.0
    assert value("steps.median") == 2.5
    assert value("outcome.pass") == 0.75
    assert web.notes["outcome.pass"] == "of the runs that it took part in"
    assert plan.figures["errors.recovered"] == Unmeasured("not_applicable", "no tool error")
    assert not [k for k in web.figures if k.startswith(("subgoals", "axes", "outcome.pass^"))]
    assert report.rank_flips == Unmeasured("not_applicable", "agents of one run share its outcome")
    assert "web   8 runs, 8 tasks, 20 steps, 20 calls" in text.render(make_report_document(report))


def test_a_fault_of_a_run_is_laid_to_no_single_agent(store: Store) -> None:
    fault = Verdict("axes.sequencing", label="incorrect", reason="of nobody in particular")
    version = current_version("axes.sequencing")
    store.append([Record(trajectory="r0", answer=fault, version=version, facts="x")])
    store.put_facts((), [Current("axes.sequencing", "shop", version, "x")])
    report = build_report(store, by="step_agent")
    assert [line.id for line in report.whole.faulty["axes.sequencing"]] == ["r0"]
    assert [one.faulty for one in report.profiles] == [{}, {}]


def test_one_agent_alone_is_still_a_group(store: Store) -> None:
    store.put([run(*by("solo", agent("x")), id="one", name="one", outcome=PASSED)])
    report = build_report(store, by="step_agent", where=None)
    assert [name_group(p) for p in report.profiles] == ["plan", "solo", "web"]


def test_runs_that_name_no_agents_and_rows_without_runs_are_refused(
    store: Store, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    store.to_parquet(tmp_path)
    with pytest.raises(UsageError, match="opens runs, and there are none here"):
        build_report(ParquetRows(tmp_path), by="step_agent")
    with pytest.raises(UsageError, match="is not a field"):
        compare_groups(store, "plan", "web", by="step_agent")
    with Store.open(":memory:") as bare:
        bare.put([run(user("hi"), agent("ho"))])
        with pytest.raises(UsageError, match="no step of these runs names its agent"):
            build_report(bare, by="step_agent")


def test_a_run_of_several_agents_is_shown_with_a_row_for_each(store: Store) -> None:
    shown = text.render(make_run_document(store, "shop/1"))
    assert shown.splitlines()[-3:] == [
        "Agents            steps  calls  repeats  errors  recovered",
        "  plan                2      0        0       0          -",
        "  web                 3      3        1       1          1",
    ]
    assert "Agents " not in text.render(make_run_document(store, "shop/1", around=2))
    assert "Agents " not in text.render(make_run_document(store, "bare"))
    document = msgspec.json.decode(run_views.show_run_json(store, "shop/1"))
    assert [one["agent"] for one in document["agents"]] == ["plan", "web"]
    bare = msgspec.json.decode(run_views.show_run_json(store, "bare"))
    assert bare["agents"]["kind"] == "missing_input"


def test_a_hostile_or_long_name_stays_in_its_column() -> None:
    steps = (*by("x\x1b[2J" + "y" * 300, agent("a")), *by("b", agent("c")))
    table = tabulate_agents(measure_agents(run(*steps), None, None))
    assert table is not None
    lines = text.lay_out_table(table, 60)
    assert all(len(line) <= 60 and line.isprintable() for line in lines)
    assert lines[1].endswith("1      0        0       0")
    assert tabulate_agents(measure_agents(run(*by("b", agent("c"))), None, None)) is None
