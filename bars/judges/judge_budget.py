"""Four processes with one budget: together they never spend more, killed or not.

`python -m bars.judges.judge_budget [ROUNDS]`, 12 unless given. Four processes judge the same runs
at a slow scripted provider under one named budget that holds a part of the work; in every other
round one of them is killed now and then and started again. The oracle is the provider's append-only
file: every request that it received counts with what it really cost.

Code 0: what was really paid, and what the ledger says is spent, never exceed the budget; the four
spend most of it; a budget of zero sends nothing; an unknown price sends nothing; 3: not so.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import stepscope.models.http  # noqa: F401 (loaded once, before processes are made)
from bars.judges import _judging as judging
from stepscope.errors import ConfigError
from stepscope.ledger.budget import NANO, Budget
from stepscope.ledger.ledger import Ledger, ledger_path
from tests.faults.providers import Provider, started
from tests.faults.script import Fault, Script

ROUNDS = 12
PROCESSES = 4
RUNS = 16
SLOW = Script(always=Fault(delay=0.15))
# The work costs some 8 USD: budgets of a part of it.
LIMITS_USD = (0.0, 1.5, 3.0, 5.0)
# What a call costs at worst here: a budget that holds it no more is used up.
WORST_USD = 1.0


class Outcome(NamedTuple):
    """What one round came to.

    Attributes:
        limit_usd: the budget.
        asked: requests that the provider received.
        paid_usd: what they cost at most: known prices, and the worst of those without a reply.
        spent_usd: what the ledger says is spent or reserved.
        kills: how many processes were killed.
        codes: of those that ended by themselves.
    """

    limit_usd: float
    asked: int
    paid_usd: float
    spent_usd: float
    kills: int
    codes: tuple[int | None, ...]


def played(
    folder: Path,
    provider: Provider,
    reference: judging.Reference,
    rng: random.Random,
    *,
    limit_usd: float,
    kills: int,
) -> Outcome:
    """Let the processes work on one store until they end."""
    path = folder / "work.db"
    shutil.copy(reference.store, path)
    began = len(provider.entries())
    budget = Budget("shared", limit_usd)
    working = [_process(path, provider, budget) for _ in range(PROCESSES)]
    for _ in range(kills):
        time.sleep(rng.uniform(0.1, 0.8))
        at = rng.randrange(PROCESSES)
        if judging.ended(working[at], within=0.0) is None:
            os.kill(working[at], signal.SIGKILL)
            os.waitpid(working[at], 0)
        working[at] = _process(path, provider, budget)
    codes = tuple(judging.ended(one, within=300.0) for one in working)
    asked = judging.received(provider, reference.keys, after=began).total()
    found = _outcome(path, limit_usd, asked, kills, codes)
    for file in folder.glob("work.db*"):
        file.unlink()
    return found


def _process(path: Path, provider: Provider, budget: Budget) -> int:
    return judging.forked(lambda: _work(path, provider.openai, budget))


def _work(path: Path, base: str, budget: Budget) -> int:
    found = judging.work(path, base, budget=budget).ran
    return 0 if set(found.failed) <= {"budget"} else 3


def _outcome(
    path: Path, limit_usd: float, asked: int, kills: int, codes: tuple[int | None, ...]
) -> Outcome:
    with Ledger(ledger_path(str(path))) as ledger:
        spent, reserved = ledger.money("shared")
        unknown = ledger.unknown()
        costs = [cost for cost in ledger.costs() if cost is not None]
    # The provider was asked once for every reply, and at most once for every unknown outcome.
    without_reply = asked - len(costs)
    worst = sorted((one.usd for one in unknown), reverse=True)[:without_reply]
    return Outcome(
        limit_usd,
        asked,
        sum(costs) / NANO + sum(worst),
        spent + reserved,
        kills,
        codes,
    )


def unpriced(folder: Path, provider: Provider, reference: judging.Reference) -> int:
    """Return how many requests leave when nobody knows the price."""
    path = folder / "unpriced.db"
    shutil.copy(reference.store, path)
    began = len(provider.entries())
    child = judging.forked(lambda: _without_price(path, provider.openai))
    if judging.ended(child, within=60.0) != 0:
        raise RuntimeError("a judge without a price was not refused")
    return judging.received(provider, reference.keys, after=began).total()


def _without_price(path: Path, base: str) -> int:
    try:
        judging.work(path, base, price=None)
    except ConfigError:
        return 0
    return 3


def broken(found: Outcome, whole_usd: float) -> str:
    """Return the promise that a round broke, "" where none."""
    if any(code != 0 for code in found.codes):
        return f"processes ended with {found.codes}"
    if max(found.paid_usd, found.spent_usd) > found.limit_usd:
        return "more was spent than the budget holds"
    if not found.limit_usd and found.asked:
        return "a budget of zero sent something"
    if found.spent_usd < min(found.limit_usd - WORST_USD, whole_usd):
        return "a call was refused that the budget would have held"
    return ""


def measured(rounds: int, *, runs: int = RUNS, seed: int = 0) -> list[tuple[Outcome, str]]:
    """Play rounds with the budgets in turn; return what each came to, and what it broke."""
    rng = random.Random(seed)
    done: list[tuple[Outcome, str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = judging.reference(folder, runs)
        with started(folder, SLOW, sync=False) as provider:
            rich = played(folder, provider, reference, rng, limit_usd=1_000.0, kills=0)
            for at in range(rounds):
                found = played(
                    folder,
                    provider,
                    reference,
                    rng,
                    limit_usd=LIMITS_USD[at % len(LIMITS_USD)],
                    kills=4 * (at // len(LIMITS_USD) % 2),
                )
                done.append((found, broken(found, rich.spent_usd)))
                judging.progress(f"{at + 1} of {rounds} rounds")
            if unpriced(folder, provider, reference):
                done.append((rich, "an unknown price sent something"))
            done.append((rich, broken(rich, rich.spent_usd)))
    return done


def main(given: list[str]) -> int:
    """Print the rounds; return 3 when one broke a promise."""
    done = measured(int(given[0]) if given else ROUNDS)
    print(f"{PROCESSES} processes, {RUNS * judging.AXES} judgements, seed 0")
    print(f"{'budget':>10} {'kills':>6} {'asked':>6} {'paid':>10} {'spent':>10}")
    for found, why in done:
        print(
            f"{found.limit_usd:>10.2f} {found.kills:>6} {found.asked:>6} {found.paid_usd:>10.4f} "
            f"{found.spent_usd:>10.4f}  {why}"
        )
    missed = sum(bool(why) for _, why in done)
    print(f"rounds that broke a promise: {missed}")
    return 3 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
