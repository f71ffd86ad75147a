"""The ids of runs that users may have stored: a change here loses their labels and verdicts."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from stepscope.formats.reading import read_files
from stepscope.model import Trajectory

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# File -> runs, and the first 32 digits of sha256 over their ids, one a line.
EXAMPLE_IDS = {
    "airline/runs.json": (20, "4a7cfd0fdb6a1b649e1d56355f04976d"),
    "atif/openhands_hello-world.trajectory.json": (1, "9ac9f42f41a99c855c158cb9d175fac3"),
    "claude_code/sample_session.jsonl": (1, "d3b9a44babe135f4d4435e97f5a28b2a"),
}
SHARED_IDS = {
    "taubench/airline/runs.json": (200, "b8fc3ce752e0861b8fa16d528eae0b7a"),
    "agentrx-retail/runs.json": (100, "0687dd462183b4c72acf513682310196"),
    "whowhen/algorithm-generated": (59, "0adb73cd11390d11b6d5890fc10adc58"),
    "whowhen/hand-crafted": (31, "aea18f477c3f3f8d1c16d91fdda18216"),
    "formats/anthropic/reasoning-tool-use-non-streaming.json": (
        1,
        "df73680e98ca7815551cec23042a36e7",
    ),
    "formats/atif/openhands_hello-world.trajectory.json": (1, "9ac9f42f41a99c855c158cb9d175fac3"),
    "formats/claude_code/sample_session.jsonl": (1, "d3b9a44babe135f4d4435e97f5a28b2a"),
    "formats/otel_otlp/trace.json": (1, "278413c2550af403b854e0a1ddd6912f"),
    "formats/swe_agent/6e44b9__sweagenttestrepo-1c2844.traj": (
        1,
        "3d1d017badc4b137498bb2a69ca4d969",
    ),
}


def ids(path: Path) -> tuple[int, str]:
    runs = [
        found.id
        for reading in read_files([str(path)])
        for found in reading
        if isinstance(found, Trajectory)
    ]
    return len(runs), sha256("\n".join(runs).encode()).hexdigest()[:32]


@pytest.mark.parametrize("name", EXAMPLE_IDS)
def test_the_ids_of_the_bundled_runs_stay_as_they_are(name: str) -> None:
    assert ids(EXAMPLES / name) == EXAMPLE_IDS[name]


@pytest.mark.shared_data
def test_the_ids_of_the_real_runs_stay_as_they_are(shared: Path) -> None:
    assert {name: ids(shared / name) for name in SHARED_IDS} == SHARED_IDS
