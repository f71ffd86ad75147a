"""The bar on the real runs, and the same counting on the bundled ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bars.measures import counts

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "airline"


def test_the_bundled_runs_count_as_they_were_counted_by_hand() -> None:
    runs = [run for path in sorted(EXAMPLES.glob("*.json")) for run in counts.read(path)]
    figures = counts.tally(runs)
    assert (figures["runs"], figures["pass"]) == (20, 8)
    assert (figures["tool errors"], figures["runs with a tool error"]) == (20, 11)
    assert (figures["identical calls"], figures["runs with identical calls"]) == (8, 3)
    assert figures["failing runs without evidence"] == 0


@pytest.mark.shared_data
def test_the_figures_of_the_real_runs_hold(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert counts.main(str(shared)) == 0
    assert "DIFFERS" not in capsys.readouterr().out


def test_without_the_runs_the_bar_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert counts.main(str(tmp_path)) == 4
    assert capsys.readouterr().out.startswith("not measured: no taubench/airline/runs.json")
