"""Judgements by batches at a scripted provider, over the real SDKs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Literal

from stepscope.judges.run import JudgingStatistics, PlanSource, run_batched_judgements
from stepscope.ledger.budget import Budget
from stepscope.ledger.calls import CallClients
from stepscope.ledger.ledger import Ledger
from stepscope.model import Record
from stepscope.models.batches import BatchClient, open_batches
from stepscope.models.configured import JudgesTable, JudgeTable, PriceTable
from stepscope.models.opening import open_model
from stepscope.models.prices import Prices
from stepscope.models.retry import RetryPolicy
from tests.faults.providers import Provider

Protocol = Literal["openai", "anthropic"]
PROTOCOLS: tuple[Protocol, ...] = ("openai", "anthropic")
JUDGE = "local/tiny"
# A USD for a million tokens either way, half of it in a batch.
PRICE = PriceTable(input=1.0, output=1.0, batch=0.5)


def table(provider: Provider, protocol: Protocol, price: PriceTable | None = PRICE) -> JudgesTable:
    base = provider.openai if protocol == "openai" else provider.anthropic
    judge = JudgeTable(protocol=protocol, base_url=base, price=price, max_output_tokens=100)
    return JudgesTable(model={JUDGE: judge})


def batches_at(provider: Provider, protocol: Protocol) -> BatchClient:
    judges = table(provider, protocol)
    return open_batches(open_model(JUDGE, judges, keys={}), judges)


def batched(
    plan: PlanSource,
    ledger: Ledger,
    provider: Provider,
    protocol: Protocol,
    *,
    batch: BatchClient | None = None,
    budget: Budget = Budget(limit_usd=None),  # noqa: B008 (frozen)
    price: PriceTable | None = PRICE,
    keep: Callable[[Sequence[Record]], None] = lambda records: None,
    stop_when: Callable[[], bool] | None = None,
    settle_seconds: float = 0.05,
) -> JudgingStatistics:
    """Run to the end, or until what it is to be stopped at holds."""
    made = batches_at(provider, protocol) if batch is None else batch

    async def watch(stop: asyncio.Event) -> None:
        while stop_when is None or not stop_when():
            await asyncio.sleep(0.01)
        stop.set()

    async def main() -> JudgingStatistics:
        stop = asyncio.Event()
        watching = asyncio.create_task(watch(stop))
        try:
            return await run_batched_judgements(
                plan,
                CallClients(
                    models={},
                    retry=RetryPolicy(random.Random(0)),
                    batches={JUDGE: made},
                    ledger=ledger,
                    prices=Prices(table(provider, protocol, price)),
                    budget=budget,
                ),
                keep=keep,
                poll_seconds=0.01,
                settle_seconds=settle_seconds,
                stop=stop,
            )
        finally:
            watching.cancel()
            await made.close()

    return asyncio.run(main())
