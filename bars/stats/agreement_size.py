"""`agree --by agent` on 21 raters and 178,689 verdicts of four groups: at most 15 s and 500 MB.

`python -m bars.stats.agreement_size`. The shape is that of AgentProcessBench's labels: 1,000 runs,
8,509 agent steps, 20 judges of five families who label every step (170,180 verdicts, with a
confidence and steps cited) and a person who does. Raters see a hidden label as often as they are
able. Timed is the command from a cold start, the better of two, its memory the most of both. Code
0: it holds; 3: it does not.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from stepscope.model import Record, Source, Step, Trajectory, Verdict
from stepscope.model.trajectory import Part
from stepscope.store import Store

SECONDS, MEGABYTES = 15.0, 500.0
RUNS, STEPS, JUDGES, GROUPS = 1_000, 8_509, 20, 4
FAMILIES = ("openai", "anthropic", "google", "qwen", "deepseek")
REPEATS = 2


def runs(sizes: list[int]) -> Iterator[Trajectory]:
    """Yield runs: a request, then so many steps of the agent."""
    for n, size in enumerate(sizes):
        texts = ["go", *(f"step {at}" for at in range(size))]
        yield Trajectory(
            id=f"r{n:04}",
            name=f"g{n % GROUPS}/{n}",
            steps=tuple(
                Step(index=at, actor="agent" if at else "user", parts=(Part("text", text),))
                for at, text in enumerate(texts)
            ),
            source=Source(format="bar"),
            task=str(n),
            agent=f"group{n % GROUPS}",
        )


def verdicts(rater: int, sizes: list[int], hidden: list[int], seed: int) -> Iterator[Record]:
    """Yield what one rater says of every agent step; the last rater is a person."""
    rng = np.random.default_rng([seed, rater])
    person = rater == JUDGES
    family = "human" if person else FAMILIES[rater % len(FAMILIES)]
    right = rng.random(len(hidden)) < (0.95 if person else 0.6 + 0.015 * rater)
    sure = rng.integers(10, 20, len(hidden)) / 20
    places = ((n, at) for n, size in enumerate(sizes) for at in range(1, size + 1))
    for place, (n, at) in enumerate(places):
        bad = bool(hidden[place]) == bool(right[place])
        yield Record(
            trajectory=f"r{n:04}",
            answer=Verdict(
                "judge.step_labels",
                label="ERROR" if bad else "PROGRESS",
                step=at,
                cites=(at, max(1, at - 1)),
                confidence=None if person else float(sure[place]),
                reason="as the result says",
            ),
            version="1",
            family=family,
            judge="ann" if person else f"{family}/model-{rater}",
            rubric="step_labels",
            prompt="p" * 16,
        )


def make_store(path: Path, seed: int = 0) -> int:
    """Fill a store; return how many verdicts it holds."""
    rng = np.random.default_rng(seed)
    sizes = (rng.multinomial(STEPS - RUNS, [1 / RUNS] * RUNS) + 1).tolist()
    hidden = (rng.random(STEPS) < 0.25).astype(int).tolist()
    with Store.open(path) as store:
        store.put(runs(sizes))
        return sum(
            store.append(list(verdicts(rater, sizes, hidden, seed))) for rater in range(JUDGES + 1)
        )


def main() -> int:
    """Print the figures; return 3 when the bar is missed."""
    command = [str(Path(sys.executable).with_name("stepscope")), "agree", "--by", "agent"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "raters.db"
        stored = make_store(path)
        took = []
        for _ in range(REPEATS):
            before = time.monotonic()
            said = subprocess.run([*command, "--store", str(path)], check=True, capture_output=True)
            took.append(time.monotonic() - before)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    megabytes = used.ru_maxrss / 1_000
    lines = len(said.stdout.splitlines())
    processor = (used.ru_utime + used.ru_stime) / REPEATS
    print(f"{stored:,} verdicts of {JUDGES + 1} raters, {GROUPS} groups: {lines:,} lines")
    print(f"{min(took):.1f} s (limit {SECONDS:g}), {processor:.1f} s of processors a call")
    print(f"{megabytes:.0f} MB (limit {MEGABYTES:g})")
    return 0 if min(took) <= SECONDS and megabytes <= MEGABYTES else 3


if __name__ == "__main__":
    sys.exit(main())
