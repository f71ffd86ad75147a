"""Tokens and cost as Inspect counts them, with the meaning that they have everywhere else here.

Today `input_tokens` leaves the cache out, whoever the provider; older logs have what the provider
said, cache included for OpenAI. The recorded total tells which: where input and output alone make
it up, the cache is in there already.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `model/_model_output.py`, `ModelUsage`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stepscope.model import Usage


class ModelUsage(msgspec.Struct, gc=False):
    """What one reply, or one model in all of a sample, used; cost in USD."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_cache_write: int | None = None
    input_tokens_cache_read: int | None = None
    reasoning_tokens: int | None = None
    total_cost: float | None = None


def usage_of(used: ModelUsage) -> Usage:
    """Return tokens with the cache in their input, once.

    >>> usage_of(ModelUsage(3, 1, 44, input_tokens_cache_read=40)).input_total
    43
    >>> usage_of(ModelUsage(43, 1, 44, input_tokens_cache_read=40)).input_total
    43
    """
    fresh, out = used.input_tokens, used.output_tokens
    read, written = used.input_tokens_cache_read, used.input_tokens_cache_write
    included = fresh is not None and used.total_tokens == fresh + (out or 0)
    total = fresh if fresh is None or included else fresh + (read or 0) + (written or 0)
    return Usage(
        input_total=total,
        cache_read=read,
        cache_write=written,
        output_total=out,
        reasoning=used.reasoning_tokens,
    )


def total(used: Iterable[ModelUsage], *, less: Iterable[ModelUsage]) -> Usage | None:
    """Return the sum over models without what `less` used, None where nothing is known."""
    counts = [usage_of(one) for one in used]
    away = [usage_of(one) for one in less]
    if not counts:
        return None

    def summed(name: str) -> int | None:
        known: list[int] = [n for one in counts if (n := getattr(one, name)) is not None]
        taken: int = sum([getattr(one, name) or 0 for one in away])
        return max(0, sum(known) - taken) if known else None

    return Usage(
        input_total=summed("input_total"),
        cache_read=summed("cache_read"),
        cache_write=summed("cache_write"),
        output_total=summed("output_total"),
        reasoning=summed("reasoning"),
    )


def cost(used: Iterable[ModelUsage], *, less: Iterable[ModelUsage]) -> float | None:
    """Return the reported cost in USD of all models without what `less` cost, None if one lacks."""
    costs = [one.total_cost for one in used]
    known = [amount for amount in costs if amount is not None]
    if not known or len(known) < len(costs):
        return None
    return max(0.0, sum(known) - sum(one.total_cost or 0.0 for one in less))
