"""Kills a run of batches at its commits, and right after its batch was made; resumes.

`python -m tests.judges.batch_crashes BASE PROTOCOL STRIDE` kills at every so-manieth commit and
prints a JSON line for every kill: what the run that came after it found. A process of its own,
since it forks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar, get_args

from stepscope.judges.judgement import Judgement
from stepscope.ledger.ledger import Ledger, LedgerWork
from stepscope.models.batches import Batch
from stepscope.models.http import SdkModel
from stepscope.models.opening import open_model
from stepscope.models.provider_batches import AnthropicBatches, OpenAIBatches
from tests.faults.providers import Provider
from tests.judges.asked import judgement
from tests.judges.batched import JUDGE, Protocol, batched, table

T = TypeVar("T")
RUNS = 3


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Killing(Ledger):
    """A ledger whose process dies after so many commits."""

    def __init__(self, path: str, last: int) -> None:
        super().__init__(path)
        self._left = last

    def batch(self, works: Sequence[LedgerWork[T]]) -> Future[list[T]]:
        done = super().batch(works)
        self._left -= 1
        if self._left == 0:
            done.result()
            die()
        return done


class KillingOpenAI(OpenAIBatches):
    """The process dies when the batch is made, before anybody knows its name."""

    async def submit(self, batch: Batch, lines: Sequence[bytes]) -> str:
        await super().submit(batch, lines)
        die()
        return ""


class KillingAnthropic(AnthropicBatches):
    """The process dies when the batch is made, before anybody knows its name."""

    async def submit(self, batch: Batch, lines: Sequence[bytes]) -> str:
        await super().submit(batch, lines)
        die()
        return ""


def planned(name: str) -> Iterator[Judgement]:
    """Judgements that no other round has."""
    for at in range(RUNS):
        yield judgement(f"{name}-r{at}", more_asks=1)


def killed(name: str, path: str, provider: Provider, protocol: Protocol, last: int) -> bool:
    """Run in a process that dies after `last` commits, or (0) once its batch was made."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    batch = None
    if last == 0:
        model = open_model(JUDGE, table(provider, protocol), keys={})
        assert isinstance(model, SdkModel)
        batch = KillingOpenAI(model) if protocol == "openai" else KillingAnthropic(model)
    with Killing(path, last) as ledger:
        batched(lambda: planned(name), ledger, provider, protocol, batch=batch)
    os._exit(0)


def resumed(name: str, path: str, provider: Provider, protocol: Protocol) -> None:
    """Go on in another process; print what it found."""
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    with Ledger(path) as ledger:
        ran = batched(lambda: planned(name), ledger, provider, protocol)
    keys = [ask.key for one in planned(name) for ask in one.asks]
    told = {
        "name": name,
        "judgements": ran.judgements,
        "unknown": len(ran.unknown),
        "failed": ran.failed,
        "keys": keys,
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    """Kill at one commit after the other until a run lives to its end."""
    base, protocol, stride = sys.argv[1:]
    assert protocol in get_args(Protocol)
    provider = Provider(base, None)
    with tempfile.TemporaryDirectory() as folder:
        last = 0
        alive = False
        while not alive:
            name = f"{protocol}-{last}"
            path = str(Path(folder) / f"{last}.db")
            alive = not killed(name, path, provider, protocol, last)  # type: ignore[arg-type]
            resumed(name, path, provider, protocol)  # type: ignore[arg-type]
            last += int(stride)


if __name__ == "__main__":
    main()
