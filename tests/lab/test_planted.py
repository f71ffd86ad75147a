"""The generator of planted faults: pure, and always at a step of the agent."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from bars.planted._plant_places import good_part
from bars.planted._planted_kinds import KINDS, near_miss, plant
from bars.planted._planted_page import PAGE, refreshed_page
from stepscope.cli.setup import find_bundled
from stepscope.errors import UsageError
from stepscope.formats.reading import read_files
from stepscope.model import Trajectory


@pytest.fixture(scope="module")
def runs() -> list[Trajectory]:
    found = [one for r in read_files([str(find_bundled("airline", "runs.json"))]) for one in r]
    return [one for one in found if isinstance(one, Trajectory) and one.outcome.status == "pass"]


def test_what_is_planted_is_the_same_every_time_and_changes_the_agents_step(
    runs: list[Trajectory],
) -> None:
    planted_kinds = set()
    for kind in KINDS:
        for make in (plant, near_miss):
            for run in runs:
                planted = make(run, kind, 0, 3)
                if planted is None:
                    continue
                assert planted == make(run, kind, 0, 3)
                assert planted.trajectory.steps[planted.step].actor == "agent"
                assert planted.trajectory.steps != good_part(run).steps
                assert planted.trajectory.outcome.status == "unknown"
                planted_kinds.add((kind, planted.fault))
    assert len(planted_kinds) > len(KINDS)


def test_a_kind_that_does_not_exist_is_named(runs: list[Trajectory]) -> None:
    with pytest.raises(UsageError, match="no planted fault 'no such'; there are: claim_after"):
        plant(runs[0], "no such", 0, 0)


def test_the_page_prints_the_figures_of_the_file_and_no_others() -> None:
    proofs = json.loads(files("stepscope.measures").joinpath("proofs.json").read_text("utf-8"))
    page = PAGE.read_text("utf-8")
    assert refreshed_page(proofs) == page
    assert page.count("<!-- end -->") == 4
    assert {f"axes.{one['axis']}" for one in proofs["kinds"].values()} <= set(proofs["axes"])
