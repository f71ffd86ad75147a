"""What we read of Inspect logs beside what Inspect's own reader finds in them, sample by sample.

Every message of a sample's conversation must stand among our steps, in its order and with its
words, calls and errors; every reply and every tool's result of its events too; scores, tokens and
how it ended must be equal. The logs are the real ones kept beside the repository and one made by a
real `eval()`, packed in each way. Code 0: all equal; 3: something differs; 4: Inspect is absent.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bars.formats.formats_table import DATA
from benchmarks.j1_inspect import logs
from benchmarks.peers import Absent, Peer, clean_environment, peer
from benchmarks.rounds import ROOT
from stepscope.formats.reading import read_files
from stepscope.model import Step, Trajectory

FOLDERS = ("formats/inspect_ai", "formats/inspect_logs")
# Enough that an agent calls another one, a tool fails and a pool holds what was said.
MADE_SAMPLES = 6
_ROLES = {"system": "system", "user": "user", "agent": "assistant", "environment": "tool"}

Found = dict[str, Any]


def theirs(found: Peer, paths: Sequence[Path]) -> list[list[Found]]:
    """Return what Inspect reads of each log."""
    command = [str(found.python), "-m", "benchmarks.workers.inspect_content", *map(str, paths)]
    ran = subprocess.run(
        command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def differences(path: Path, expected: list[Found]) -> Iterator[str]:
    """Yield what of a log is not as Inspect reads it, a line each."""
    runs = {
        f"{item.task}/{item.trial}": item
        for reading in read_files([str(path)])
        for item in reading
        if isinstance(item, Trajectory)
    }
    if set(runs) != {sample["name"] for sample in expected}:
        yield f"samples {sorted(runs)}"
    for sample in expected:
        run = runs.get(sample["name"])
        for line in () if run is None else _of_sample(run, sample):
            yield f"{sample['name']}: {line}"


def _of_sample(run: Trajectory, sample: Found) -> Iterator[str]:
    ours = [[_said(step), *_retold(step)] for step in run.steps]
    at = 0
    for place, message in enumerate(sample["messages"]):
        wanted = _known(message)
        while at < len(ours) and wanted not in ours[at]:
            at += 1
        if at == len(ours):
            yield f"message {place} is not there, or not in its place"
            return
        at += 1
    replies = [_said(step) for step in run.steps if step.finish_reason]
    if replies != [_known(reply) for reply in sample["replies"]]:
        yield f"{len(replies)} replies are others than the {len(sample['replies'])} of the events"
    results = {
        (r.call_id, (r.extra or {}).get("error_type")) for step in run.steps for r in step.results
    }
    if not {tuple(result) for result in sample["results"]} <= results:
        yield "results of tools differ"
    yield from _figures(run, sample)


def _figures(run: Trajectory, sample: Found) -> Iterator[str]:
    scores = {label.annotator: _value(label.category, label.extra) for label in run.labels}
    if scores != sample["scores"]:
        yield f"scores {scores}"
    if sample["usage"]:
        used = run.usage
        told = [
            (u["total_tokens"] - u["output_tokens"], u["output_tokens"]) for u in sample["usage"]
        ]
        if used is None or (used.input_total, used.output_total) != tuple(
            map(sum, zip(*told, strict=True))
        ):
            yield f"tokens {used}"
        costs = [u["total_cost"] for u in sample["usage"] if u.get("total_cost") is not None]
        if costs and (run.cost_usd is None or abs(run.cost_usd - sum(costs)) > 1e-12):
            yield f"cost {run.cost_usd}"
    ended = "error" if sample["error"] else sample["limit"] and f"{sample['limit']}_limit"
    if ended and run.termination != ended:
        yield f"ended {run.termination!r}"


def _value(category: str | None, extra: Found | None) -> Any:
    return (extra or {}).get("value", category)


def _said(step: Step) -> Found:
    (result,) = step.results if len(step.results) == 1 and step.kind == "result" else (None,)
    error = None
    if result is not None and result.status == "error":
        kind = (result.extra or {}).get("error_type", "")
        error = [kind, (result.error or "").removeprefix(kind).removeprefix(": ")]
    return {
        "role": _ROLES[step.actor],
        "text": result.text if result is not None else step.text,
        "calls": [[call.id, call.name, call.arguments] for call in step.calls],
        "answers": None if result is None else result.call_id,
        "error": error,
    }


def _retold(step: Step) -> Iterator[Found]:
    """Yield the words of a message as they were told later, to others."""
    for told in (step.extra or {}).get("retold", ()):
        texts = [part["text"] for part in told["parts"] if part["kind"] == "text"]
        calls = [[c["id"], c["name"], c["arguments"]] for c in told.get("calls", ())]
        yield {**_said(step), "text": "\n".join(texts), "calls": calls}


def _known(message: Found) -> Found:
    return {key: message[key] for key in ("role", "text", "calls", "answers", "error")}


def cases(found: Peer, data: Path) -> list[Path]:
    """Return the logs that are compared."""
    real = [
        path
        for folder in FOLDERS
        for path in sorted((data / folder).glob("*"))
        if path.suffix == ".eval" or (path.suffix == ".json" and '"eval"' in _head(path))
    ]
    return [*real, *logs(found, MADE_SAMPLES).values()]


def _head(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(200)


def main() -> int:
    """Print a line a log; return 3 when one differs."""
    found = peer("inspect-ai")
    if isinstance(found, Absent):
        print(f"Inspect cannot be installed here: {found.reason}")
        return 4
    paths = cases(found, DATA)
    missed = 0
    for path, expected in zip(paths, theirs(found, paths), strict=True):
        wrong = list(differences(path, expected))
        missed += len(wrong)
        print(f"{path.name:<48} {len(expected)} samples  {'; '.join(wrong) or 'equal'}")
    return 3 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
