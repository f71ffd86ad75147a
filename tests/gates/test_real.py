"""Gates on the bundled runs, from settings to exit code, with a planted regression."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from bars.gates import gate_errors, gate_speed, judged_counts
from stepscope import settings
from stepscope.errors import ConfigError
from stepscope.formats.reading import read_files
from stepscope.gates import baseline
from stepscope.gates.decide import decide_gates
from stepscope.gates.sample import read_samples
from stepscope.gates.settings import MEASURES, MODES, NAMES
from stepscope.gates.types import GateReport, exit_code
from stepscope.model import Facts, Outcome, Precondition, Record, Trajectory, Verdict
from stepscope.model.records import INPUTS
from stepscope.score import score_runs
from stepscope.store import Store
from stepscope.store.store import Current
from stepscope.store.where import parse_where

BUNDLED = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"
POLICY = """
[workflow.airline]
baseline = "baselines/airline.json"

[workflow.airline.gates]
outcome = { max_drop = 0.05 }
no_redundant_calls = { max_per_run = 1, severity = "soft" }
axes.sequencing = { max_rate = 0.10 }
"""
# Answers that no gate reads: parts of one that can be gated, or a ranked list.
NOT_GATED = {
    *("recovery.recovered", "subgoals.reached", "subgoals.total", "step_labels"),
    *("localise", "localise.nobody"),
    *("completeness", *(f"completeness.{name}" for name in INPUTS)),
}


def bundled() -> list[Trajectory]:
    return [
        run
        for reading in read_files([str(BUNDLED)])
        for run in reading
        if isinstance(run, Trajectory)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stepscope.toml").write_text(POLICY, encoding="utf-8")
    return tmp_path


def gated(folder: Path, runs: list[Trajectory], *, update: bool = False) -> GateReport:
    held = settings.load_settings(folder)
    with Store.open(":memory:") as store:
        store.put(runs)
        score_runs(store, declared=held.declared, workers=1)
        (policy,) = held.policies
        if update:
            assert policy.baseline is not None
            baseline.write_baseline(baseline.make_baseline(store, policy), policy.baseline)
        return decide_gates(store, held.policies, baselines=baseline.load_baselines(held.policies))


def failing(run: Trajectory) -> Trajectory:
    worse = Outcome(status="fail", source="reward", reward=0.0)
    return msgspec.structs.replace(run, id=run.id[::-1], outcome=worse)


def test_a_planted_regression_fails_and_an_update_takes_it_over(folder: Path) -> None:
    # Every task of the first sixteen passes; then every one fails.
    runs = [
        msgspec.structs.replace(run, outcome=Outcome(status="pass", source="reward", reward=1.0))
        for run in bundled()
    ]
    missing = gated(folder, runs)
    assert (missing.gates[0].cause, exit_code(missing)) == ("baseline_missing", 4)
    assert gated(folder, runs, update=True).gates[0].outcome == "pass"
    worse = gated(folder, [failing(run) for run in runs])
    (case, *_) = worse.gates[0].failing
    assert (worse.gates[0].outcome, exit_code(worse)) == ("fail", 3)
    assert case.evidence.startswith("4 of 4 runs are bad (in the baseline, 0 of 4 runs); reward")
    after = gated(folder, [failing(run) for run in runs], update=True).gates[0]
    assert after.outcome != "fail"


def test_the_baseline_lies_where_the_settings_say(folder: Path) -> None:
    gated(folder, bundled(), update=True)
    assert (folder / "baselines" / "airline.json").is_file()


def test_rules_declared_since_make_another_question(folder: Path) -> None:
    rule = '\n[[policy]]\nname = "no {}"\nforbid = "{}"\n'
    gate = "policy = { max_drop = 0.05 }\n"
    path = folder / "stepscope.toml"
    path.write_text(POLICY + gate + rule.format("booking", "book_reservation"), encoding="utf-8")
    assert gated(folder, bundled(), update=True).gates[-1].outcome == "pass"
    other = rule.format("cancelling", "cancel_reservation")
    path.write_text(POLICY + gate + other, encoding="utf-8")
    found = gated(folder, bundled()).gates[-1]
    assert found.cause == "baseline_other_version"
    assert "stepscope score --measure policy" in found.reason


@pytest.mark.parametrize(("support", "asked"), [(None, True), (9, False)])
def test_declared_preconditions_are_part_of_the_question_and_mined_ones_are_not(
    support: int | None, asked: bool
) -> None:
    name = "axes.sequencing"
    rule = Precondition(tool="cancel", after="look_up", support=support)
    with Store.open(":memory:") as store:
        first, *_ = bundled()
        store.put([first])
        store.append(
            [Record(trajectory=first.id, answer=Verdict(name, label="correct"), version="1")]
        )
        store.put_facts([Facts(workflow=first.workflow, preconditions=(rule,))], [])
        found = read_samples(store, [first.workflow], [name], None)[first.workflow]
    assert bool(found.asked[name].declared) is asked


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[workflow.w]\nbase = 'x'", "[workflow.w]: unknown key 'base'; did you mean 'baseline'?"),
        ("[workflow.w]\nbaseline = 3", "Expected `str | null`, got `int` - at `$.workflow[...]"),
        ("[workflow.w.gates]\nno_erors = {max_per_run = 0}", "did you mean 'no_errors'?"),
        ("[workflow.w.gates]\noutcome = {max_drop = 0.1}", "add baseline ="),
        ("[workflow]\nw = 1", "Expected `object`, got `int`"),
    ],
)
def test_a_wrong_workflow_is_refused_when_settings_load(
    text: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "stepscope.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        settings.load_settings(tmp_path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_every_answer_of_a_measure_can_be_gated_by_its_name() -> None:
    with Store.open(":memory:") as store:
        store.put(bundled())
        score_runs(store, workers=1)
        answers = {name for name in store.measures() if not name.startswith("human.")}
    assert answers - NOT_GATED - set(MEASURES) == set()
    assert {q.measure for q in NAMES.values()} <= {MODES, *(q.measure for q in MEASURES.values())}


def test_identical_agents_raise_few_alarms_at_small_size() -> None:
    first = gate_errors.alarms((20, 1), 60, seed=3)
    assert sum(at > 0 for at in first) <= 6
    assert set(first) <= {0, 1, 2, 3}


def test_a_count_on_a_judge_allows_its_false_alarms_and_sees_what_is_planted() -> None:
    shares = [share for share, _ in judged_counts.measure(100).values()]
    # The bar asks for .95 and .85 of 4,000; two and a half errors below of 100.
    assert shares[0] >= 0.90
    assert shares[1] >= 0.76
    assert shares[2:] == [1.0, 1.0]


def test_the_power_of_a_gate_rises_with_the_drop_and_the_trials() -> None:
    small, large, more = (
        gate_errors.seen(drop, (20, trials), 0.05, 60, seed=1)
        for drop, trials in ((0.05, 1), (0.20, 1), (0.20, 4))
    )
    assert small < large < more


def test_eight_workflows_are_gated_from_files(tmp_path: Path) -> None:
    gate_speed.prepare(BUNDLED, tmp_path, cases=2)
    report = gate_speed.gate(tmp_path)
    assert [w.n_runs for w in report.workflows] == [2] * 8
    assert len(report.gates) == 56
    assert np.isfinite([g.p for g in report.gates if g.p is not None]).all()
    shutil.rmtree(tmp_path / "runs")


class CountingStore(Store):
    """A store that counts how often it is asked who answered."""

    asked = 0

    def answered(self, asked: Current) -> set[int]:
        self.asked += 1
        return super().answered(asked)


def test_erased_runs_cost_no_more_after_many_imports() -> None:
    first, *rest = bundled()[:4]
    with CountingStore.open(":memory:") as store:
        # The facts of each import are others: how many runs there are is one of them.
        for run in (first, *rest):
            store.put([run])
            score_runs(store, measures=["policy"], workers=1)
        store.purge(parse_where(f"id = '{first.id}'"))
        assert len(list(store.all_facts("airline"))) == 4
        store.asked = 0
        (cells,) = read_samples(store, ["airline"], ["policy"], None)["airline"].cells.values()
        assert (store.asked, len(cells)) == (0, 4)
