"""J3: a million runs classified: the article's V3 in columns beside its loop, and the default.

1,000,000 runs of ten steps, a fifth of each shape, noise .05. The loop is V3 as one writes it
first, without any check of its input, over lists made beforehand; it gets a tenth of the runs, and
its rate is compared. The default also says whether its answers are the same bytes twice. Everything
runs in this process, in turn; the default may use every core. Where others use the machine, the CPU
seconds beside the spread mean more than the wall's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.rounds import Row, Samples, table
from stepscope.lab.curves import add_noise, draw_curves
from stepscope.shape.articles import CLIFF, CLIMB, GAP, SLIDE, SLOPE_V3, v3_many
from stepscope.shape.classifier import classify_many
from stepscope.shape.types import SHAPES
from stepscope.stats.sample import Floats

RUNS = 1_000_000
LOOPED = RUNS // 10
STEPS = 10
SIGMA = 0.05
ROUNDS = 3
LEAST_RATIO = 5.0
MOST_SECONDS = 5.0


def plain_v3(s: Sequence[float]) -> str:
    """V3 without checks, with the sums and lists of a first draft."""
    n, third = len(s), len(s) // 3
    early, mid = sum(s[:third]) / third, sum(s[third : 2 * third]) / third
    late = sum(s[2 * third :]) / (n - 2 * third)
    dips = [i for i in range(1, n - 1) if s[i] < s[i - 1] - CLIFF]
    if dips and s[-1] > s[dips[0]] + CLIMB:
        return "recovery"
    if early - mid > GAP and early - late > GAP:
        return "early_collapse"
    if (s[-1] - s[2 * third]) / max(n - 2 * third - 1, 1) < SLOPE_V3:
        return "late_drift"
    return "steady_degradation" if s[0] - s[-1] > SLIDE else "healthy"


def runs() -> Floats:
    """Return the runs, the shapes in turn."""
    rng = np.random.default_rng(0)
    each = RUNS // len(SHAPES)
    made = [draw_curves("smooth", shape, STEPS, each, rng).curves for shape in SHAPES]
    return add_noise(np.stack(made, axis=1).reshape(-1, STEPS), SIGMA, rng)


def same_bytes(scores: Floats) -> bool:
    """Whether the default answers the same bytes twice."""
    first, again = (classify_many(scores, sigma=SIGMA) for _ in range(2))
    return all(
        np.asarray(getattr(first, name)).tobytes() == np.asarray(getattr(again, name)).tobytes()
        for name in ("posterior", "label", "break_step", "gof_p", "mean")
    )


def in_turn(timed: dict[str, Callable[[], object]]) -> dict[str, Samples]:
    """Run everybody in turn; seconds of each round, the first being warm-up."""
    seconds: dict[str, list[float]] = {}
    for number in range(ROUNDS + 1):
        for name, work in timed.items():
            start = time.perf_counter()
            work()
            if number:
                seconds.setdefault(name, []).append(time.perf_counter() - start)
    return {name: Samples(tuple(values)) for name, values in seconds.items()}


def rows(found: dict[str, Samples], cpu: float) -> list[Row]:
    """Compare rates of V3, and the default with its limit."""
    loop, columns = LOOPED / found["loop"].median, RUNS / found["columns"].median
    return [
        Row(
            work=f"V3 of {STEPS} steps, runs a second",
            ours=f"{columns / 1e6:.1f} M",
            peer=f"loop {loop / 1e6:.2f} M",
            reached=columns / loop,
            limit=LEAST_RATIO,
            at_least=True,
            spread=f"{found['columns'].spread:.0%}, loop {found['loop'].spread:.0%}",
        ),
        Row(
            work=f"default, {RUNS:,} runs of {STEPS} steps",
            ours=f"{found['default'].median:.2f} s",
            peer="-",
            reached=found["default"].median,
            limit=MOST_SECONDS,
            at_least=False,
            unit="s",
            spread=f"{found['default'].spread:.0%}, CPU {cpu:.1f} s",
        ),
    ]


def main() -> int:
    """Print the table; return 1 when a limit is missed or the answers differ."""
    scores = runs()
    lists = scores[:LOOPED].tolist()
    answers = [SHAPES[code] for code in v3_many(scores[:LOOPED])]
    wrong = sum(plain_v3(run) != said for run, said in zip(lists, answers, strict=True))
    found = in_turn(
        {
            "loop": lambda: [plain_v3(run) for run in lists],
            "columns": lambda: v3_many(scores),
            "default": lambda: classify_many(scores, sigma=SIGMA),
        }
    )
    start = time.process_time()
    same = same_bytes(scores)
    compared = rows(found, (time.process_time() - start) / 2)
    print(table(compared))
    print(f"V3's answers by loop and in columns: {wrong:,} of {LOOPED:,} differ")
    print(f"the default's answers, repeated: {'the same bytes' if same else 'OTHER BYTES'}")
    return 0 if same and not wrong and all(row.met for row in compared) else 1


if __name__ == "__main__":
    sys.exit(main())
