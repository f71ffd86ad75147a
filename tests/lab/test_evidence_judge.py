"""The bar of the evidence judge at small size: planted faults in real runs are found and cited."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bars.judges.evidence_judge import declared_tools, judge, read
from bars.planted.faults import FAULT_KINDS, plant_faults
from tests.factories import did, run

KINDS = ("undeclared_tool", "fabricated_identifier", "wrong_format", "forbidden_tool")


@pytest.mark.shared_data
def test_planted_faults_are_found_where_they_are_and_passing_runs_are_left_alone(
    shared: Path,
) -> None:
    sets = {name: runs[:40] for name, runs in read(shared).items()}
    asker = judge(sets)
    passing = [run for runs in sets.values() for run in runs if run.outcome.status == "pass"]
    for fault in plant_faults(passing, KINDS, 40, np.random.default_rng(1)):
        asked, label = asker.ask(fault), fault.labels[0]
        axis = FAULT_KINDS[str(label.category)][0]
        assert asked.labels[axis] == "incorrect", fault.name
        assert label.step in asked.cites[axis]
    alarms = [made.name for made in passing if "incorrect" in asker.ask(made).labels.values()]
    assert len(alarms) <= 0.05 * len(passing), alarms


def test_a_declared_schema_is_as_narrow_as_the_calls_seen() -> None:
    (tool,) = declared_tools([run(*did("get", id="A1", page=2), *did("get", id="A2"))])
    assert tool.schema == {
        "type": "object",
        "properties": {"id": {"type": ["string"]}, "page": {"type": ["number"]}},
        "required": ["id"],
        "additionalProperties": False,
    }
