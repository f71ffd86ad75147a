"""What judges took: calls, tokens, tokens read from the provider's cache, money paid and saved.

Every answer that is kept counts, the older ones and the repeats, too: they were paid for. A price
that is not known is not 0: it is counted beside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stepscope.model import Record, Usage
from stepscope.report.panels_types import Cost
from stepscope.store.judged import Judged

# USD that a judge's usage costs, None without a known price.
Price = Callable[[str, Usage], float | None]


def costs(judged: Sequence[Judged], price: Price) -> tuple[Cost, ...]:
    """Return what each judge took, by name; `price` says what its tokens cost."""
    by_judge: dict[str, list[Record]] = {}
    for one in judged:
        for _, record in one.all:
            if record.usage is not None or record.cost_usd is not None:
                by_judge.setdefault(one.asked.judge, []).append(record)
    return tuple(_cost(judge, by_judge[judge], price) for judge in sorted(by_judge))


def _cost(judge: str, records: Sequence[Record], price: Price) -> Cost:
    usages = [record.usage for record in records if record.usage is not None]
    paid = [record.cost_usd for record in records if record.cost_usd is not None]
    saved = [found for usage in usages if (found := _saved(judge, usage, price)) is not None]
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


def _saved(judge: str, usage: Usage, price: Price) -> float | None:
    """Return what the cache saved: the price of the same tokens, none of them cached, less it."""
    if not usage.cache_read:
        return None
    whole = price(judge, replace(usage, cache_read=0, cache_write=0))
    paid = price(judge, usage)
    return None if whole is None or paid is None else max(whole - paid, 0.0)
