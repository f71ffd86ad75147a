"""What a provider says in its own protocol, for each situation that a check makes.

The two protocols of the official SDKs are here; a plugin that speaks another gives a function of
the same form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Situation = Literal["answer", "refusal", "length", "filter"]
# The body of a reply; None where a protocol cannot say such a thing.
Wire = Callable[[Situation, str], bytes | None]

# Tokens that every reply reports.
INPUT_TOKENS, OUTPUT_TOKENS = 100, 20
SNAPSHOT = "checked-2026-01-01"


def openai(situation: Situation, text: str) -> bytes:
    """Return a chat completion that says `text`."""
    reasons = {"length": "length", "filter": "content_filter"}
    message = {"role": "assistant", "content": text, "refusal": None}
    if situation == "refusal":
        message |= {"content": None, "refusal": text}
    return msgspec.json.encode(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": SNAPSHOT,
            "choices": [
                {"index": 0, "message": message, "finish_reason": reasons.get(situation, "stop")}
            ],
            "usage": {
                "prompt_tokens": INPUT_TOKENS,
                "completion_tokens": OUTPUT_TOKENS,
                "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            },
        }
    )


def anthropic(situation: Situation, text: str) -> bytes | None:
    """Return a message that says `text`; a filter of its own is not in this protocol."""
    reasons = {"answer": "end_turn", "refusal": "refusal", "length": "max_tokens"}
    if situation not in reasons:
        return None
    return msgspec.json.encode(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": SNAPSHOT,
            "content": [{"type": "text", "text": text}],
            "stop_reason": reasons[situation],
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
        }
    )


WIRES: dict[str, Wire] = {"anthropic": anthropic, "openai": openai}
