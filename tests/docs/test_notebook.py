"""The notebook example that the product was specified by, as far as it is built."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import stepscope as ss
from stepscope.values import Estimate, Unmeasured

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def test_the_notebook_of_the_specification_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    with ss.open("runs.db") as store:
        added = store.add("examples/airline", agent="gpt-4o")
        assert (added.runs, added.quarantined) == (20, 0)
        store.score()
        report = store.report(where="agent = 'gpt-4o'")
        assert "outcome: pass" in repr(report)
        assert "| outcome: pass" in report._repr_markdown_()
        rate = report["outcome.pass"]
        assert isinstance(rate, Estimate)
        assert (rate.value, rate.n, rate.n_tasks, rate.unmeasured) == (0.4, 20, 5, {})
        run = report.look_first[0]
        shown = run.show(around=run.suspects[0].step)
        assert f"Step {run.suspects[0].step} of {run.name}" in shown
        records = store.records().to_arrow()
        assert records.num_rows == len(list(store.records()))


def test_a_figure_is_an_estimate_or_says_why_not() -> None:
    with ss.open(":memory:") as store:
        store.add(EXAMPLES / "airline", agent="gpt-4o")
        store.score()
        cost = store.report()["cost_usd.median"]
    assert isinstance(cost, Unmeasured)
    assert cost.kind == "missing_input"
