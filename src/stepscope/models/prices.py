"""What calls cost: from the user's own figures, else from a table that lies beside the code.

The table is the package genai-prices as installed; its updater, which would ask a server, is never
started. What nobody knows is None, never 0. An amount says its source: the settings, or the table
with its version.
"""

from __future__ import annotations

import math
from importlib.metadata import version
from importlib.util import find_spec

import msgspec

from stepscope.model import Request, Usage
from stepscope.models.configured import JudgesTable, PriceTable
from stepscope.models.opening import own_provider

_MILLION = 1_000_000
# Tokens around the texts that nobody sees: roles, separators, the instructions by which providers
# make a model call a tool or keep to a schema (some hundred each).
_FRAME_TOKENS = 4_096
# A schema is written out again by some providers, in a language of their own.
_SCHEMA_TIMES = 4
# What an image can cost at most, in tokens, by the table's name of the provider, rounded up. At
# Anthropic a patch of 28 pixels is a token and no side has more than 2,576: 92 x 92, 8,464. At
# OpenAI 10,000 patches, times its dearest factor, 2.46. Elsewhere as the dearest that is known:
# gpt-4o-mini, 2,833 and 5,667 for each of eight tiles, 48,169; tiles of 768 pixels at Google, 258
# each, are 31,218 for the largest image that is sent.
# Source: the providers' guides to vision, as of 2026.
_IMAGE_TOKENS = {"anthropic": 9_000, "openai": 25_000}
_DEAREST_IMAGE_TOKENS = 50_000
_DEAREST_MODEL = "gpt-4o-mini"


class Prices:
    """Prices of the judges of one command."""

    def __init__(self, table: JudgesTable) -> None:
        """Read nothing yet; the table of prices is loaded when the first one is asked for."""
        self._table = table

    def worst(self, judge: str, request: Request, *, batch: bool = False) -> float | None:
        """Return what a request can cost at most, USD; None where its price is unknown.

        Every token is at least one byte of what is sent, an image costs what the dearest does at
        its provider, and no answer is longer than its limit.
        """
        read = input_bound(request) + len(request.media) * self._image_bound(judge)
        plain = Usage(input_total=read, output_total=request.max_output_tokens)
        cached = msgspec.structs.replace(plain, cache_write=read)
        amounts = [self._usd(judge, "", usage, batch=batch) for usage in (plain, cached)]
        known = [amount for amount in amounts if amount is not None]
        return None if len(known) < len(amounts) else math.nextafter(max(known), math.inf)

    def cost(
        self, judge: str, usage: Usage | None, *, model: str = "", batch: bool = False
    ) -> float | None:
        """Return what a reply cost, USD; None where its tokens or their price are unknown.

        The snapshot `model` that answered counts where it has a price of its own.
        """
        if usage is None or usage.total is None:
            return None
        return self._usd(judge, model, usage, batch=batch)

    def saved(
        self, judge: str, usage: Usage | None, *, model: str = "", batch: bool = False
    ) -> float | None:
        """Return what the cache saved, USD; below 0 where filling it cost more than it brought."""
        if usage is None:
            return None
        bare = msgspec.structs.replace(usage, cache_read=None, cache_write=None)
        full = self.cost(judge, bare, model=model, batch=batch)
        paid = self.cost(judge, usage, model=model, batch=batch)
        return None if full is None or paid is None else full - paid

    def source(self, judge: str) -> str:
        """Return where the price of a judge is from; "" where it has none."""
        if self._own(judge) is not None:
            return "settings"
        known = self._usd(judge, "", Usage(input_total=0, output_total=0), batch=False)
        return "" if known is None else f"genai-prices {version('genai-prices')}"

    def advice(self, judge: str) -> str:
        """Return what to write where the price of a judge is unknown, as one line."""
        return (
            f"the price of judge {judge!r} is unknown; write it in USD for a million tokens, as "
            f'[judges.model."{judge}"] price = {{ input = 1.25, output = 10 }}'
        )

    def _image_bound(self, judge: str) -> int:
        provider = own_provider(judge, self._table) if "/" in judge else None
        if provider is None or _DEAREST_MODEL in judge:
            return _DEAREST_IMAGE_TOKENS
        return _IMAGE_TOKENS.get(judge.partition("/")[0], _DEAREST_IMAGE_TOKENS)

    def _own(self, judge: str) -> PriceTable | None:
        found = self._table.model.get(judge)
        return None if found is None else found.price

    def _usd(self, judge: str, model: str, usage: Usage, *, batch: bool) -> float | None:
        own = self._own(judge)
        if own is not None:
            total, written = usage.input_total or 0, usage.output_total or 0
            hit, put = usage.cache_read or 0, usage.cache_write or 0
            of_hit = own.input if own.cache_read is None else own.cache_read
            of_put = own.input if own.cache_write is None else own.cache_write
            fresh = max(0, total - hit - put)
            spent = fresh * own.input + hit * of_hit + put * of_put + written * own.output
            share = own.batch if batch and own.batch is not None else 1.0
            return (spent / _MILLION) * share
        provider = own_provider(judge, self._table) if "/" in judge else None
        if provider is None or find_spec("genai_prices") is None:
            return None
        share = provider.batch if batch else 1.0
        maker, _, asked = judge.partition("/")
        for name in (model, asked):
            found = _in_table(maker, name, usage) if name else None
            if found is not None:
                return found * share
        return None


def input_bound(request: Request) -> int:
    """Return a number of tokens that a request's texts cannot exceed: bytes, and what is around."""
    words = [one.words for one in request.media]
    texts = (request.system, request.context, request.question, *words)
    schema = len(msgspec.json.encode(request.schema)) + len(request.schema_name)
    extra = len(msgspec.json.encode(request.extra))
    read = sum([len(text.encode("utf-8", "replace")) for text in texts])
    return read + _SCHEMA_TIMES * schema + extra + _FRAME_TOKENS


def _in_table(provider: str, model: str, usage: Usage) -> float | None:
    import genai_prices

    told = {
        "input_tokens": usage.input_total,
        "cache_read_tokens": usage.cache_read or None,
        "cache_write_tokens": usage.cache_write or None,
        "output_tokens": usage.output_total,
    }
    try:
        found = genai_prices.calc_price(genai_prices.Usage(**told), model, provider_id=provider)
    except (LookupError, ValueError):  # no such model; or more cached than was read
        return None
    return float(found.total_price)
