"""Write the example files of step scores: simulated, by the generator `agent` of the laboratory.

    python -m docs.example_scores

No agent ran and no judge was asked: two versions of a simulated agent work on forty tasks, and a
judge with a known noise scores their steps. In the second version more runs drift late. The step at
which a run broke often takes longer. The same seed gives the same bytes.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stepscope.lab import add_noise, draw_curves
from stepscope.shape import SHAPES

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "scores"
SEED = 20
SIGMA = 0.06
TASKS = 40
# Shares of the five shapes, in the order of SHAPES, of each version.
SHARES = {"v1": (0.60, 0.10, 0.10, 0.10, 0.10), "v2": (0.25, 0.10, 0.50, 0.10, 0.05)}
SPIKE, SPIKE_SHARE = 2.5, 0.7


def scores() -> str:
    """Return the scores of both versions as CSV."""
    rng = np.random.default_rng(SEED)
    rows: list[tuple[object, ...]] = []
    for agent, shares in SHARES.items():
        for task in range(TASKS):
            n = int(rng.integers(7, 13))
            shape = SHAPES[int(rng.choice(len(SHAPES), p=shares))]
            planted = draw_curves("agent", shape, n, 1, rng)
            curve = add_noise(planted.curves, SIGMA, rng)[0]
            seconds = np.exp(rng.normal(0.5, 0.2, n))
            broke = int(planted.break_step[0])
            if broke >= 0 and rng.random() < SPIKE_SHARE:
                seconds[broke] *= SPIKE
            rows += [
                (f"{agent}/{task}", step, f"{score:.2f}", f"{took:.1f}", agent, task)
                for step, (score, took) in enumerate(zip(curve, seconds, strict=True))
            ]
    return _csv(("run", "step", "score", "latency", "agent", "task"), rows)


def repeated() -> str:
    """Return fifteen steps, spread over the range of scores, each scored three times."""
    rng = np.random.default_rng(SEED + 1)
    rows = []
    for step, true in enumerate(np.linspace(0.2, 0.9, 15).tolist()):
        for repeat in range(3):
            score = min(max(true + rng.normal(0, SIGMA), 0.0), 1.0)
            rows.append((f"repeated/{step // 5}", step % 5, f"{score:.2f}", repeat))
    return _csv(("run", "step", "score", "repeat"), rows)


FILES = {"scores.csv": scores, "repeated.csv": repeated}


def _csv(header: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def main() -> int:
    """Write every file."""
    for name, made in FILES.items():
        (FOLDER / name).write_text(made(), encoding="utf-8")
        print(f"wrote {FOLDER / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
