"""Judgements by batches at a scripted provider, over the real SDKs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from stepscope.judges.batching import Pace, Plan, run_batched
from stepscope.judges.budget import Budget
from stepscope.judges.ledger import Ledger
from stepscope.judges.models.batches import Batch, open_batches
from stepscope.judges.models.configured import JudgesTable, JudgeTable, PriceTable
from stepscope.judges.models.opening import open_model
from stepscope.judges.models.prices import Prices
from stepscope.judges.running_tally import Ran
from stepscope.model import Record
from tests.faults.providers import Provider

Protocol = Literal["openai", "anthropic"]
PROTOCOLS: tuple[Protocol, ...] = ("openai", "anthropic")
JUDGE = "local/tiny"
# A USD for a million tokens either way, half of it in a batch.
PRICE = PriceTable(input=1.0, output=1.0, batch=0.5)
FAST = Pace(poll_seconds=0.01, settle_seconds=0.05)


def table(provider: Provider, protocol: Protocol, price: PriceTable | None = PRICE) -> JudgesTable:
    base = provider.openai if protocol == "openai" else provider.anthropic
    judge = JudgeTable(protocol=protocol, base_url=base, price=price, max_output_tokens=100)
    return JudgesTable(model={JUDGE: judge})


def batches_at(provider: Provider, protocol: Protocol) -> Batch:
    return open_batches(open_model(JUDGE, table(provider, protocol), keys={}))


def batched(
    plan: Plan,
    ledger: Ledger,
    provider: Provider,
    protocol: Protocol,
    *,
    batch: Batch | None = None,
    budget: Budget = Budget(limit_usd=None),  # noqa: B008 (frozen)
    price: PriceTable | None = PRICE,
    keep: Callable[[Sequence[Record]], None] = lambda records: None,
    stop_when: Callable[[], bool] | None = None,
    pace: Pace = FAST,
) -> Ran:
    """Run to the end, or until what it is to be stopped at holds."""
    made = batches_at(provider, protocol) if batch is None else batch

    async def watch(stop: asyncio.Event) -> None:
        while stop_when is None or not stop_when():
            await asyncio.sleep(0.01)
        stop.set()

    async def main() -> Ran:
        stop = asyncio.Event()
        watching = asyncio.create_task(watch(stop))
        try:
            return await run_batched(
                plan,
                batches={JUDGE: made},
                ledger=ledger,
                prices=Prices(table(provider, protocol, price)),
                budget=budget,
                keep=keep,
                pace=pace,
                stop=stop,
            )
        finally:
            watching.cancel()
            await made.close()

    return asyncio.run(main())
