from __future__ import annotations

from pathlib import Path

from benchmarks import reading_files
from benchmarks.workers.ours_reading import shapes
from stepscope.formats.reading import read_files
from stepscope.model import Trajectory


def test_every_shape_holds_the_same_runs_and_reads_without_a_loss(tmp_path: Path) -> None:
    files = shapes(reading_files.files(6, 6, data=tmp_path))
    said: dict[str, list[list[str]]] = {}
    for shape, paths in files.items():
        said[shape] = []
        for reading in read_files(paths):
            for run in reading:
                assert isinstance(run, Trajectory), (shape, run)
                assert not [warning for warning in run.warnings if "span" in warning.code]
                texts = [step.text for step in run.steps if step.actor == "agent" and step.text]
                said[shape].append(texts)
    assert said["array"] == said["lines"] == said["messages"]
    assert said["array"] == said["otlp"] == said["mlflow"] == said["phoenix"]
    assert len(said["array"]) == 6
