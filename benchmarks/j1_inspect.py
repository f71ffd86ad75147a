"""J1, logs of Inspect: samples read into complete trajectories, beside Inspect's own reader.

A log of 500 samples is made by a real `eval()` with scripted replies and real tools, and read as
Inspect packs it (zstd), deflated, and as one JSON file. Both readers resolve attachments and build
all of every sample. Ratios are of CPU time in one process, which others on the machine move less.
`python -m benchmarks.j1_inspect` runs this part of J1 alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.generate import DATA
from benchmarks.peers import Absent, Peer, clean_environment, peer
from benchmarks.rounds import ROOT, Row, Samples, Worker, table, workers

SAMPLES = 500
ROUNDS = 3
TIMES_FASTER = 5.0
FORMS = {"zstd": "zstd.eval", "deflate": "deflate.eval", "json": "plain.json"}

Answers = dict[str, list[dict[str, Any]]]


def logs(found: Peer, samples: int = SAMPLES, data: Path = DATA) -> dict[str, Path]:
    """Return the log in each form, made on first use.

    Raises:
        RuntimeError: Inspect failed, with the last line that it said.
    """
    folder = data / f"inspect-{found.version}-{samples}"
    files = {form: folder / name for form, name in FORMS.items()}
    if not all(path.is_file() for path in files.values()):
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(found.python), "-m", "benchmarks.workers.inspect_make"]
        ran = subprocess.run(
            [*command, str(folder), str(samples)],
            cwd=ROOT,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            said = (ran.stderr or ran.stdout).strip().splitlines() or ["nothing"]
            raise RuntimeError(f"no log was made; Inspect said: {said[-1]}")
    return files


def in_turn(rounds: int = ROUNDS, samples: int = SAMPLES) -> tuple[Answers, Absent | None]:
    """Run all rounds in turn; return what each answered, and Inspect where it is missing."""
    found = peer("inspect-ai")
    if isinstance(found, Absent):
        return {}, found
    made = {}
    for form, path in logs(found, samples).items():
        made[f"ours {form}"] = Worker(Path(sys.executable), "ours", [path])
        made[f"inspect {form}"] = Worker(found.python, "inspect_reading", [path])
    answers: Answers = {name: [] for name in made}
    with workers(made):
        for number in range(rounds + 1):
            for name, worker in made.items():
                answer = worker.round("read")
                if number:  # the first round warms up
                    answers[name].append(answer)
    return answers, None


def rows(answers: Answers) -> list[Row]:
    """Turn the rounds into comparisons with the limit; none where Inspect is missing."""
    return [
        _beside(form, answers[f"ours {form}"], answers[f"inspect {form}"])
        for form in FORMS
        if f"ours {form}" in answers
    ]


def _beside(form: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Row:
    if {answer["runs"] for answer in ours} != {answer["runs"] for answer in theirs}:
        raise RuntimeError(f"{form}: ours read {ours[0]['runs']} runs, Inspect {theirs[0]['runs']}")
    mine, others = (Samples(tuple(a["runs"] / a["cpu"] for a in found)) for found in (ours, theirs))
    return Row(
        work=f"Inspect log, {form}",
        ours=f"{mine.median:,.0f} runs/s",
        peer=f"{others.median:,.0f} runs/s",
        reached=mine.median / others.median,
        limit=TIMES_FASTER,
        at_least=True,
        spread=f"{mine.spread:.0%}, peer {others.spread:.0%}",
    )


def main() -> int:
    """Print the table; return 1 when a limit is missed."""
    answers, absent = in_turn()
    found = rows(answers)
    print(table(found))
    if absent is not None:
        print(f"not compared: {absent.name} cannot be installed here: {absent.reason}")
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
