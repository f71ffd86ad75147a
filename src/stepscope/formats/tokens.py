"""Token counts with one meaning: input includes cache, output includes reasoning.

OpenAI's and ATIF's input already includes the cache; Anthropic's excludes it, so both cache counts
are added. A count that is no whole number, or below zero, is absent.
Source: OpenAI SDK 3.54.0 `CompletionUsage`, `ResponseUsage`; Anthropic SDK 2.12.0 `Usage`.
"""

from __future__ import annotations

from collections.abc import Iterable

from stepscope.model import Json, Step, Usage

# What a usage of OpenAI's or LangChain's counts, in its own object and in those of its details.
_COUNTED = frozenset(
    "prompt_tokens input_tokens completion_tokens output_tokens total_tokens".split()
)
_DETAILED = frozenset(
    "cached_tokens cache_write_tokens reasoning_tokens "
    "cache_read cache_creation cache_write reasoning".split()
)
_DETAILS = frozenset(
    "prompt_tokens_details input_tokens_details completion_tokens_details output_tokens_details "
    "input_token_details output_token_details".split()
)


def openai_usage(usage: Json) -> Usage | None:
    """Return the usage of a Chat Completions or Responses body, None where it has none."""
    if not isinstance(usage, dict):
        return None
    inputs = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    outputs = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    return _told(
        Usage(
            input_total=_count(usage, "prompt_tokens", "input_tokens"),
            cache_read=_count(inputs, "cached_tokens"),
            cache_write=_count(inputs, "cache_write_tokens"),
            output_total=_count(usage, "completion_tokens", "output_tokens"),
            reasoning=_count(outputs, "reasoning_tokens"),
        )
    )


def uncounted(usage: Json) -> dict[str, Json] | None:
    """Return what a usage of OpenAI's or LangChain's says beyond its counts, None for nothing.

    >>> uncounted({"prompt_tokens": 3, "prompt_tokens_details": {"audio_tokens": 1}})
    {'prompt_tokens_details': {'audio_tokens': 1}}
    """
    if not isinstance(usage, dict):
        return None
    found: dict[str, Json] = {}
    for key, value in usage.items():
        if key in _DETAILS and isinstance(value, dict):
            value = {inner: n for inner, n in value.items() if inner not in _DETAILED} or None
        if key not in _COUNTED and value is not None:
            found[key] = value
    return found or None


def anthropic_usage(usage: Json) -> Usage | None:
    """Return the usage of an Anthropic message, cache added to its input; None without any.

    >>> anthropic_usage({"input_tokens": 3, "cache_read_input_tokens": 40}).input_total
    43
    """
    if not isinstance(usage, dict):
        return None
    fresh = _count(usage, "input_tokens")
    read = _count(usage, "cache_read_input_tokens")
    written = _count(usage, "cache_creation_input_tokens")
    return _told(
        Usage(
            input_total=None if fresh is None else fresh + (read or 0) + (written or 0),
            cache_read=read,
            cache_write=written,
            output_total=_count(usage, "output_tokens"),
            reasoning=_count(usage.get("output_tokens_details"), "thinking_tokens"),
        )
    )


def total(steps: Iterable[Step]) -> Usage | None:
    """Return the sum of the usages of steps; a field that no step has stays None."""
    usages = [step.usage for step in steps if step.usage is not None]
    return _told(
        Usage(
            input_total=_sum(usage.input_total for usage in usages),
            cache_read=_sum(usage.cache_read for usage in usages),
            cache_write=_sum(usage.cache_write for usage in usages),
            output_total=_sum(usage.output_total for usage in usages),
            reasoning=_sum(usage.reasoning for usage in usages),
        )
    )


def _told(usage: Usage) -> Usage | None:
    return None if usage == Usage() else usage


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _count(usage: Json, *keys: str) -> int | None:
    if not isinstance(usage, dict):
        return None
    for key in keys:
        count = usage.get(key)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    return None
