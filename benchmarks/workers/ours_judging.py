"""Times our whole path: ledger on disk, budget, retry loop, limits, validation, records.

Every round has a ledger of its own, since what is in a ledger is not asked again.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.judging_prompts import JUDGE, planned, repeated
from benchmarks.workers.judging import Given, counted, given
from benchmarks.workers.serve import serve
from stepscope.judges.judgement import Judgement
from stepscope.judges.run import run_judgements
from stepscope.ledger.budget import Budget
from stepscope.ledger.calls import CallClients
from stepscope.ledger.ledger import Ledger
from stepscope.model import Record
from stepscope.models.configured import JudgesTable, JudgeTable, PriceTable
from stepscope.models.opening import close_models, open_model
from stepscope.models.prices import Prices
from stepscope.models.retry import RetryPolicy

PRICE = PriceTable(input=2.5, output=10.0)


async def ask_all(told: Given, asked: list[Judgement], base: str) -> dict[str, int]:
    """Judge everything once, with an empty ledger."""
    judge = JudgeTable(base_url=f"{base}/v1", price=PRICE, structure="json_schema")
    table = JudgesTable(concurrency=told.in_flight, model={JUDGE.name: judge})
    model = open_model(JUDGE.name, table, keys={})
    kept: list[Record] = []

    def keep(records: Sequence[Record]) -> None:
        kept.extend(records)

    with tempfile.TemporaryDirectory() as folder:
        with Ledger(str(Path(folder) / "runs.db.judges.db")) as ledger:
            async with close_models([model]):
                ran = await run_judgements(
                    asked,
                    CallClients(
                        models={JUDGE.name: model},
                        retry=RetryPolicy(random.Random(0), most=told.in_flight),
                        ledger=ledger,
                        prices=Prices(table),
                        budget=Budget(limit_usd=10_000.0),
                        concurrency=told.in_flight,
                    ),
                    keep=keep,
                )
    if ran.failed or ran.judgements != len(asked):
        raise RuntimeError(f"not everything was judged: {ran.failed}, {ran.reasons}")
    return counted(answered=ran.bought)


if __name__ == "__main__":
    told = given()
    asked = repeated(planned(), told.calls)
    serve(
        {
            name: partial(lambda base: asyncio.run(ask_all(told, asked, base)), base)
            for name, base in told.servers.items()
        }
    )
