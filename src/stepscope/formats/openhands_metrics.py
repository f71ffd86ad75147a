"""What an OpenHands run used, as its metrics tell: tokens by response, and the sums.

Metrics are repeated as they grow; the last that are seen hold. Prompt tokens include what was read
from and written to the cache.
Format: All-Hands-AI/OpenHands 0.59, `openhands/llm/metrics.py`; the same in openhands-sdk 1.58.
"""

from __future__ import annotations

from stepscope.formats.building import text_at
from stepscope.formats.spans.attributes import count, number, usage
from stepscope.model import Json, Usage


class Spent:
    """Keeps the metrics of a run: `last` is the latest snapshot, None before any.

    Where `metrics` of the whole run are known beforehand, they hold.
    """

    def __init__(self, metrics: Json = None) -> None:
        self.last: dict[str, Json] | None = None
        self._by_response: dict[str, Usage] = {}
        self._read = 0
        self._final = False
        self._seen: dict[str, Json] = {}
        if isinstance(metrics, dict):
            self.snapshot(metrics)
            self._final = True

    def snapshot(self, metrics: dict[str, Json]) -> dict[str, Json]:
        """Take the metrics as far as they have come, and return what is new in them."""
        before, self._seen = self._seen, metrics
        self.last = self.last if self._final else metrics
        listed = metrics.get("token_usages")
        told = listed if isinstance(listed, list) else []
        for entry in told[min(self._read, len(told)) :]:
            own = text_at(entry, "response_id") if isinstance(entry, dict) else None
            tokens = _tokens(entry)
            if own is not None and tokens is not None:
                self._by_response[own] = tokens
        self._read = max(self._read, len(told))
        return {
            key: value[len(before[key]) :] if _grew(before.get(key), value) else value
            for key, value in metrics.items()
            if value is not None
        }

    def once(self, response_id: str) -> Usage | None:
        """Return the tokens of one response to who asks first for them."""
        return self._by_response.pop(response_id, None)

    @property
    def total(self) -> Usage | None:
        """The tokens of the whole run."""
        return None if self.last is None else _tokens(self.last.get("accumulated_token_usage"))

    @property
    def cost_usd(self) -> float | None:
        """What the run cost, as reported; nothing at all is how an unknown price is written."""
        return None if self.last is None else number(self.last, "accumulated_cost") or None


def _grew(before: Json, now: Json) -> bool:
    """Say whether a list is an earlier one and more."""
    if not isinstance(before, list) or not isinstance(now, list):
        return False
    return now[: len(before)] == before


def _tokens(entry: Json) -> Usage | None:
    if not isinstance(entry, dict):
        return None
    return usage(
        count(entry, "prompt_tokens"),
        count(entry, "completion_tokens"),
        read=count(entry, "cache_read_tokens"),
        written=count(entry, "cache_write_tokens"),
        reasoning=count(entry, "reasoning_tokens"),
    )
