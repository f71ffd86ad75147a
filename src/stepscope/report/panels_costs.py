"""What judges took: calls, tokens, tokens read from the provider's cache, money paid and saved.

Every answer that is kept counts, the older ones and the repeats, too: they were paid for. A price
that is not known is not 0: it is counted beside. What the cache saved is reckoned at the price that
was paid, from what the same tokens cost by the table, cached or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.judges.models.prices import Prices
from stepscope.model import Record
from stepscope.report.panels_types import Cost
from stepscope.store.judged import Judged, name_and_snapshot


def costs(judged: Sequence[Judged], prices: Prices) -> tuple[Cost, ...]:
    """Return what each judge took, by name; `prices` is the table that savings are told from."""
    by_judge: dict[str, list[Record]] = {}
    for one in judged:
        for _, record in one.all:
            if record.usage is not None or record.cost_usd is not None:
                by_judge.setdefault(one.asked.judge, []).append(record)
    return tuple(_cost(judge, by_judge[judge], prices) for judge in sorted(by_judge))


def _cost(judge: str, records: Sequence[Record], prices: Prices) -> Cost:
    usages = [record.usage for record in records if record.usage is not None]
    paid = [record.cost_usd for record in records if record.cost_usd is not None]
    saved = [found for record in records if (found := _saved(record, prices)) is not None]
    return Cost(
        judge=judge,
        calls=len(records),
        input_tokens=_total([usage.input_total for usage in usages]),
        cached_tokens=_total([usage.cache_read for usage in usages]),
        output_tokens=_total([usage.output_total for usage in usages]),
        usd=sum(paid) if paid else None,
        unpriced=len(records) - len(paid),
        usd_saved=sum(saved) if saved else None,
    )


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _saved(record: Record, prices: Prices) -> float | None:
    if record.usage is None or not record.usage.cache_read:
        return None
    judge, snapshot = name_and_snapshot(record)
    listed = prices.cost(judge, record.usage, model=snapshot)
    saved = prices.saved(judge, record.usage, model=snapshot)
    if not listed or saved is None or record.cost_usd is None:
        return None
    # A batch, or a price of the user's own, is so much of the listed one.
    return max(saved, 0.0) * record.cost_usd / listed
