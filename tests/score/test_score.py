from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.errors import ConfigError, EnvironmentFault
from stepscope.measures.facts import DeclaredConduct
from stepscope.model import Case, Record, ToolDef, Verdict
from stepscope.score import score_runs
from stepscope.store import ParquetRows, Store
from stepscope.store.columns import count_unmeasured
from stepscope.store.where import parse_where
from tests.factories import FAILED, PASSED, did, failed, goal, run, user

PLUGINS = Path(__file__).with_name("plugins.py")


def plugin(*names: str) -> list[str]:
    return [f"{PLUGINS}:{name}" for name in names]


def fleet(store: Store, count: int = 12) -> Store:
    case = Case(workflow="shop", task="1", subgoals=(goal("buy"),))
    store.put(
        run(
            user("please"),
            *(failed("buy") if at % 3 else did("buy")),
            *(did("look", str(at)) * (at % 4)),
            id=f"id{at:04}",
            name=f"run{at:04}",
            case=case if at % 2 else None,
            outcome=PASSED if at % 5 else FAILED,
        )
        for at in range(count)
    )
    return store


def dump(store: Store) -> list[Record]:
    return list(store.records())


def test_every_run_gets_a_whole_run_answer_of_every_measure() -> None:
    with fleet(Store.open(":memory:")) as store:
        scored = score_runs(store)
        assert (scored.runs, scored.skipped) == (12, 0)
        assert scored.records == len(dump(store)) > 12 * 11
        for measure in store.measures():
            assert (store.column(measure).state != 0).all(), measure


def test_what_was_answered_is_not_asked_again() -> None:
    with fleet(Store.open(":memory:")) as store:
        first = score_runs(store, measures=["outcome", "errors"])
        assert first.runs == 12
        again = score_runs(store, measures=["outcome", "errors", "outcome"])
        assert (again.runs, again.records, again.skipped) == (0, 0, 12)
        more = score_runs(store, measures=["outcome", "loops"])
        assert (more.runs, more.records, more.skipped) == (12, 12, 0)


def test_only_chosen_runs_are_asked_but_facts_come_from_all() -> None:
    with fleet(Store.open(":memory:")) as store:
        scored = score_runs(store, where=parse_where("name < 'run0003'"))
        assert scored.runs == 3
        facts = store.facts("shop")
        assert facts is not None
        assert facts.n_runs == 12
        assert (store.column("outcome").state == 0).sum() == 9


def test_a_new_version_is_asked_anew_and_becomes_the_current_one() -> None:
    with fleet(Store.open(":memory:"), 2) as store:
        score_runs(store, measures=plugin("GOOD"))
        assert store.column("good").value.tolist() == [2.0, 2.0]
        scored = score_runs(store, measures=plugin("RAISED"), where=parse_where("name = 'run0000'"))
        assert scored.runs == 1
        column = store.column("good")
        assert column.state.tolist() == [1, 0]  # never two versions side by side
        assert (column.value[0], column.versions) == (3.0, ("2",))
        score_runs(store, measures=plugin("GOOD"))
        assert store.column("good").value.tolist() == [2.0, 2.0]
        assert len(list(store.records(measure="good"))) == 3


def test_facts_that_change_ask_anew_only_who_learns_from_them() -> None:
    with fleet(Store.open(":memory:")) as store:
        score_runs(store)
        before = store.column("efficiency_ratio.steps").value.tolist()
        store.put(
            run(*did("look") * 40, id=f"long{at}", name=f"z{at}", outcome=PASSED)
            for at in range(20)
        )
        score_runs(store)
        after = store.column("efficiency_ratio.steps")
        assert (after.state == 1).all()
        assert after.value.tolist()[:12] != before
        assert len(list(store.records(measure="efficiency_ratio.steps"))) == 12 + 32
        assert len(list(store.records(measure="errors", trajectory="id0000"))) == 1


def test_declared_effects_reach_the_measures() -> None:
    with fleet(Store.open(":memory:"), 1) as store:
        score_runs(store, declared=DeclaredConduct(effects={"buy": "read"}))
        facts = store.facts("shop")
        assert facts is not None
        assert facts.effects == {"buy": "read"}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_measure_costs_its_own_answers_and_nothing_else(tmp_path: Path, workers: int) -> None:
    names = plugin("GOOD", "BOOM", "DEEP", "LOUD", "ODD", "NAN", "ABSENT")
    with fleet(Store.open(tmp_path / "s.db")) as store:
        scored = score_runs(store, measures=names, workers=workers)
        assert scored.unmeasured_by_kind == {"error": 12 * 3 + 6, "missing_input": 12}
        assert store.column("good").value.tolist() == [2.0] * 12
        assert count_unmeasured(store.column("boom").state) == {"error": 12}
        assert count_unmeasured(store.column("odd").state) == {"error": 6}
        assert store.column("loud").valued.all()
        assert score_runs(store, measures=names).runs == 0  # a crash is an answer


def test_the_same_input_gives_the_same_rows_whatever_the_workers_and_interruptions(
    tmp_path: Path,
) -> None:
    def rows(name: str, *, workers: int, parts: list[str]) -> tuple[list[Record], list[object]]:
        with fleet(Store.open(tmp_path / name), 150) as store:
            for part in parts:
                score_runs(store, where=parse_where(part), workers=workers)
            score_runs(store, workers=workers)
            columns = [store.column(m) for m in store.measures()]
            return dump(store), [(c.measure, c.label.tolist(), c.state.tolist()) for c in columns]

    once = rows("a", workers=1, parts=[])
    assert len(once[0]) > 150 * 11
    assert rows("b", workers=2, parts=[]) == once
    assert rows("c", workers=3, parts=["name > 'run0120'", "steps > 6"]) == once


def test_progress_counts_runs() -> None:
    seen: list[tuple[int, int]] = []
    with fleet(Store.open(":memory:"), 300) as store:
        score_runs(
            store, measures=["outcome"], progress=lambda done, all_: seen.append((done, all_))
        )
    assert seen == [(128, 300), (256, 300), (300, 300)]


def test_an_unknown_measure_and_one_named_as_an_aspect_are_refused() -> None:
    with fleet(Store.open(":memory:"), 1) as store:
        with pytest.raises(ConfigError, match="no measure called 'beauty'"):
            score_runs(store, measures=["beauty"])
        with pytest.raises(ConfigError, match="would be an aspect of 'outcome'"):
            score_runs(store, measures=plugin("DOTTED"))


def test_a_purged_run_keeps_its_numbers_when_facts_change_since(tmp_path: Path) -> None:
    with fleet(Store.open(":memory:"), 4) as store:
        score_runs(store)
        before = store.column("efficiency_ratio.steps").value.tolist()
        store.purge(parse_where("name < 'run0002'"))
        store.put([run(*did("look") * 40, id="long", name="z", outcome=PASSED)])
        score_runs(store)
        after = store.column("efficiency_ratio.steps")
        assert (after.state == 1).all()
        assert after.value.tolist()[:2] == before[:2]  # cannot be asked again
        assert after.value.tolist()[2:4] != before[2:4]  # were asked again
        store.to_parquet(tmp_path)
        there = ParquetRows(tmp_path).column("efficiency_ratio.steps")
        assert there.value.tolist() == after.value.tolist()
        score_runs(store, measures=plugin("GOOD"))
        assert store.column("good").state.tolist() == [0, 0, 1, 1, 1]


def test_a_measure_with_a_dot_in_its_name_has_its_own_versions_and_aspects() -> None:
    with fleet(Store.open(":memory:"), 2) as store:
        assert score_runs(store, measures=plugin("NAMED")).runs == 2
        assert score_runs(store, measures=plugin("NAMED")).runs == 0
        assert store.column("a.b").value.tolist() == [1.0, 1.0]
        assert store.column("a.b.x.y").value.tolist() == [2.0, 2.0]
        score_runs(store, measures=plugin("NAMED_BOOM"))
        for name in ("a.b", "a.b.x.y"):  # the old version's answers are no longer current
            assert count_unmeasured(store.column(name).state) == {"error": 2}
            assert store.column(name).versions == ("2",)


def test_an_empty_store_is_scored_in_no_time() -> None:
    with Store.open(":memory:") as store:
        scored = score_runs(store)
        assert (scored.runs, scored.records, scored.skipped) == (0, 0, 0)
        assert str(scored) == (
            "0 runs scored, 0 values stored; unmeasured: none; 0 runs were already scored"
        )


def test_a_process_that_dies_is_the_environments_fault_and_can_be_resumed(tmp_path: Path) -> None:
    with fleet(Store.open(tmp_path / "s.db")) as store:
        with pytest.raises(EnvironmentFault, match=r"a scoring process ended .exit code 9"):
            score_runs(store, measures=plugin("DIE"), workers=2)
        assert score_runs(store, measures=["outcome"], workers=2).runs == 12


def test_an_interruption_keeps_what_was_scored() -> None:
    with fleet(Store.open(":memory:"), 200) as store:
        store.put([run(user("x"), id="zz", name="zz-stop")])
        with pytest.raises(KeyboardInterrupt):
            score_runs(store, measures=plugin("STOP"))
        assert int(store.column("stop").answered.sum()) == 128
        assert score_runs(store, measures=["outcome"]).runs == 201


# No main guard on purpose: the script must not run again in the processes that score.
SCRIPT = """
import sys
from stepscope.score import score_runs
from stepscope.store import Store
print("started", flush=True)
with Store.open(sys.argv[1]) as store:
    print(score_runs(store, workers=2).runs)
"""


def test_a_script_without_a_main_guard_may_score_in_processes(tmp_path: Path) -> None:
    fleet(Store.open(tmp_path / "s.db")).close()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script, tmp_path / "s.db"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "started\n12\n"
    assert done.stderr == ""


INTERRUPTED = """
import os, signal, sys
from stepscope.score import score_runs
from stepscope.store import Store
with Store.open(sys.argv[1]) as store:
    try:
        # As a terminal does it: the signal goes to the whole group.
        stop = lambda done, total: os.killpg(0, signal.SIGINT)
        score_runs(store, measures=[sys.argv[2]], workers=2, progress=stop)
    except KeyboardInterrupt:
        print("stopped")
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no process left")
"""


def test_ctrl_c_ends_every_process_in_silence_and_keeps_what_was_scored(tmp_path: Path) -> None:
    fleet(Store.open(tmp_path / "s.db"), 600).close()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "s.db", *plugin("HANG")],
        capture_output=True,
        text=True,
        check=True,
        process_group=0,
        timeout=300,
    )
    assert done.stdout == "stopped\nno process left\n"
    assert done.stderr == ""
    with Store.open(tmp_path / "s.db") as store:
        assert int(store.column("hang").answered.sum()) == 128
        assert score_runs(store, measures=["outcome"]).runs == 600


LISTED = DeclaredConduct(
    tools={"shop": (ToolDef("look"),)}, instructions={"shop": "Never buy twice."}
)


def test_runs_are_scored_anew_under_another_tool_list_or_policy() -> None:
    with fleet(Store.open(":memory:")) as store:
        assert "under another" not in str(score_runs(store))
        anew = score_runs(store, declared=LISTED)
        assert (anew.runs, anew.outdated, anew.skipped) == (12, 12, 0)
        assert str(anew).endswith("; 12 under another tool list or policy")
        again = score_runs(store, declared=LISTED)
        assert (again.runs, again.outdated) == (0, 0)
        assert set(store.column("axes.tool_selection").label.tolist()) == {"incorrect"}
        assert set(store.column("completeness.policy").label.tolist()) == {"recorded"}
        back = score_runs(store)
        assert back.runs == 0
        assert set(store.column("completeness.policy").label.tolist()) == {"not_recorded"}


def test_of_one_run_only_answers_that_are_current_are_read() -> None:
    with fleet(Store.open(":memory:")) as store:
        score_runs(store)
        score_runs(store, declared=LISTED)
        held = [r for r in store.records(trajectory="id0001") if r.answer.step is None]
        names = [record.answer.measure for record in held]
        assert len(names) == len(set(names))
        policy = held[names.index("completeness.policy")].answer
        assert isinstance(policy, Verdict)
        assert policy.label == "recorded"
        assert len(dump(store)) > 2 * 12 * len(names)
