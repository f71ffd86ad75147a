"""Attacks on judges whose rules are known come to exactly what they must, over real failing runs.

`python -m bars.judges.redteam [RUNS]`. 60 failing runs of tau-bench's airline agent, every text of
every class, and judges that answer in this process: one that nothing moves, one for each class that
obeys that class alone, one that believes claims, one that echoes the run. Bars: a judge flips on
every text that it obeys, and on no other; flips of claims go away without the agent's words, all of
them; 0 flips where the run's own outcome is known count as passes; 0 verdicts of the echo. No live
model is asked and no figure for one is claimed. Code 0: it holds; 3: it does not; 4: the real runs
are absent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from stepscope.api.notebook import Notebook
from stepscope.lab.redteam import (
    ENDING_SWAP,
    NARRATION_SWAP,
    Attack,
    ClassFlips,
    JudgeUnderAttack,
    NarrationSwap,
    built_in_attacks,
    failing_runs,
)
from stepscope.model import Trajectory
from stepscope.settings import Settings
from stepscope.store import Store
from tests.lab.scripted_judges import Rule, Scripted, obeys, setting, sober, swayed

AIRLINE = Path(__file__).resolve().parents[3] / "shared" / "data" / "taubench" / "airline"
# With 60 runs none of which flips, the limit is just below 5 %.
RUNS = 60


def real_runs(n: int) -> list[Trajectory]:
    """Return failing runs of the airline agent."""
    with Notebook(Store.open(":memory:"), Settings()) as notebook:
        notebook.add(AIRLINE, agent="gpt-4o")
        return failing_runs(notebook.store.trajectories(), n)


def figures(
    name: str,
    rule: Rule,
    runs: Sequence[Trajectory],
    tried: Sequence[Attack],
    *,
    echo: bool = False,
) -> JudgeUnderAttack:
    """Return what the attacks came to with one judge, and print a line of it."""
    start = time.monotonic()
    with setting(Scripted(f"scripted/{name}", rule, echo=echo)) as made:
        (one,) = made(runs, tried).judges
    texts, flipped = sum(row.tried for row in one.flips), sum(row.flipped for row in one.flips)
    limits = [row.limit for row in one.flips if row.limit is not None and not row.flipped]
    least = f"{100 * max(limits):.2f} %" if limits else "-"
    checked = sum(row.outranked for row in one.flips)
    print(f"{name:<22}{texts:>7,}{flipped:>9,}{checked:>9,}{least:>20}"
          f"{time.monotonic() - start:>8.1f}", flush=True)  # fmt: skip
    return one


def obeyed(row: ClassFlips, class_: str) -> bool:
    """Tell whether a class flipped all of its texts where it is obeyed, and none elsewhere."""
    wanted = row.tried if row.class_ == class_ else 0
    return row.tried > 0 and row.flipped == row.outranked == wanted


def main() -> int:
    """Print the table; return 0 when everything holds."""
    if not AIRLINE.is_dir():
        print(f"not measured: {AIRLINE} is absent")
        return 4
    runs = real_runs(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
    every = built_in_attacks()
    print(f"{len(runs)} failing runs, {len(every)} texts; scripted judges only")
    print(f"{'judge':<22}{'texts':>7}{'flipped':>9}{'checked':>9}{'limit where none':>20}"
          f"{'s':>8}")  # fmt: skip
    still = figures("sober", sober, runs, every)
    holds = all(obeyed(row, "") and (row.limit or 1) <= 0.05 for row in still.flips)
    for class_ in dict.fromkeys(one.class_ for one in every if one.text):
        one = figures(class_, obeys(class_), runs, every)
        holds &= all(obeyed(row, class_) for row in one.flips)
    claims = figures("claims", swayed, runs, every)
    moved = claims.narration_swap
    holds &= isinstance(moved, NarrationSwap) and moved.flipped == moved.marked == len(runs)
    swaps = {ENDING_SWAP, NARRATION_SWAP}
    holds &= all(obeyed(row, row.class_ if row.class_ in swaps else "") for row in claims.flips)
    echoed = figures("echo", sober, runs, every, echo=True)
    holds &= not {"against", "for", "neutral"} & set(echoed.clean)
    print("holds" if holds and len(runs) >= RUNS else "MISSED")
    return 0 if holds and len(runs) >= RUNS else 3


if __name__ == "__main__":
    sys.exit(main())
