"""Judges runs in a process that interrupts itself, once or twice, with calls in flight.

`python -m tests.score.interrupted STORE TIMES SIGNAL`. Prints what came of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from stepscope.ledger.ledger import Ledger
from stepscope.model import Reply, Request
from stepscope.score.judges import judge_runs
from stepscope.store import Store
from tests.judges.asked import Answering
from tests.score.test_judging import AXES, access, asking, runs, said

# Calls that are in flight when the first interruption comes, or before it.
CALLS = 4


class Interrupting(Answering):
    """Interrupts its own process when the last of the first calls is in flight; answers then."""

    silent = False
    signal = signal.SIGINT

    async def complete(self, request: Request) -> Reply:
        if len(self.asked) == CALLS - 1:
            os.kill(os.getpid(), self.signal)
        reply = await super().complete(request)
        await (asyncio.Event().wait() if self.silent else asyncio.sleep(0.1))
        return reply


def main(path: str, times: int, number: signal.Signals) -> None:
    def stopping() -> None:
        sys.stdout.write("stopping\n")
        if times > 1:
            os.kill(os.getpid(), number)

    with Store.open(path) as store, Ledger(path + ".judges.db") as ledger:
        store.put(runs(20))
        model = Interrupting(said)
        model.silent = times > 1
        model.signal = number
        going = access(ledger, model, concurrency=CALLS)
        try:
            found = judge_runs(asking(store, AXES), going, stopping=stopping)
        except KeyboardInterrupt:
            sys.stdout.write(f"aborted, {len(ledger.unknown())} of unknown outcome\n")
        else:
            kept = found.ran.bought == len(model.asked) == found.ran.records
            sys.stdout.write(f"stopped: {found.ran.stopped}, everything sent kept: {kept}\n")
            sys.stdout.write(str(found).splitlines()[-1] + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), signal.Signals[sys.argv[3]])
