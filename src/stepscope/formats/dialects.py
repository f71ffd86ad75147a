"""Whose chat messages these are: OpenAI's, Anthropic's, or such as either could have written.

Both APIs say `role` and `content`; what only one of them says decides. Refuses to guess between
other dialects: a list whose roles neither API knows is no message list at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from stepscope.formats.building import text_at
from stepscope.formats.chat import ROLES
from stepscope.model import Json

# A shell command as mini-swe-agent's models write one, and how an observation of its begins.
FENCE = re.compile(r"```(?:mswea_bash_command|bash)[^\S\n]*\n(.*?)\n```", re.DOTALL)
RETURNED = re.compile(r"\s*<returncode>\s*(-?\d{1,10})\s*</returncode>")
# Its own fence, which nobody else writes.
_OWN_FENCE = "```mswea_bash_command"

Dialect = Literal["openai", "anthropic", "anthropic-like", "either", "none"]

# Block types that only Anthropic's content lists hold.
_BLOCKS = frozenset(
    "tool_use tool_result thinking redacted_thinking server_tool_use document mcp_tool_use".split()
)
_OPENAI_ROLES = ROLES - {"user", "assistant"}
_OPENAI_KEYS = ("tool_calls", "function_call", "refusal", "tool_call_id")
_OPENAI_BLOCKS = frozenset({"image_url", "input_audio", "file", "input_text", "output_text"})


def is_message(record: Json) -> bool:
    """Say whether a record looks like one chat message of either API."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("role"), str)
        and record["role"] in ROLES
        and ("content" in record or "tool_calls" in record or "function_call" in record)
        and isinstance(record.get("content"), str | list | None)
    )


def dialect(messages: Iterable[Json]) -> Dialect:
    """Return whose messages these are.

    >>> dialect([{"role": "user", "content": "hi"}])
    'either'
    >>> dialect([{"role": "tool", "content": "done", "tool_call_id": "1"}])
    'openai'
    """
    seen: Dialect = "none"
    for message in messages:
        if not is_message(message):
            # The last message of a cut head may lack its content.
            if not (isinstance(message, dict) and text_at(message, "role") in ROLES):
                return "none"
            continue
        if message["role"] in _OPENAI_ROLES or any(key in message for key in _OPENAI_KEYS):
            return "openai"
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        types = {text_at(block, "type") for block in blocks if isinstance(block, dict)}
        if _BLOCKS.intersection(types):
            return "anthropic"
        if _OPENAI_BLOCKS.intersection(types):
            return "openai"
        if types and message["role"] == "assistant":
            seen = "anthropic-like"
        elif seen == "none":
            seen = "either"
    return seen


def runs_fences(messages: Iterable[Json]) -> bool:
    """Say whether fenced commands of the assistant were run, and answered as mini-swe-agent does.

    A chat in which code is only shown is none of these.
    """
    commanded = False
    for message in messages:
        role, text = None, None
        if isinstance(message, dict):
            role, text = message.get("role"), text_at(message, "content")
        if commanded and role == "user" and text is not None and RETURNED.match(text):
            return True
        commanded = role == "assistant" and text is not None and FENCE.search(text) is not None
        if commanded and text is not None and _OWN_FENCE in text:
            return True
    return False
