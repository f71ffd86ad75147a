"""What Inspect's own reader finds in logs, as JSON: messages, calls, scores, tokens.

`python -m benchmarks.workers.inspect_content LOG ...` prints one line a log: a list of its samples
in the order of the file, in plain words that hold no class of Inspect's.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from inspect_ai.log import read_eval_log  # type: ignore[import-not-found]


def content(path: str) -> list[dict[str, Any]]:
    """Return every sample of a log."""
    log = read_eval_log(path, resolve_attachments=True)
    return [
        {
            "name": f"{sample.id}/{sample.epoch}",
            "messages": [_message(message) for message in sample.messages],
            "replies": [
                _message(event.output.choices[0].message)
                for event in sample.events
                if event.event == "model" and event.output.choices
            ],
            "results": [
                [event.id, None if event.error is None else event.error.type]
                for event in sample.events
                if event.event == "tool"
            ],
            "scores": {name: score.value for name, score in (sample.scores or {}).items()},
            "usage": [usage.model_dump() for usage in sample.model_usage.values()],
            "error": sample.error is not None,
            "limit": sample.limit and sample.limit.type,
        }
        for sample in log.samples or ()
    ]


def _message(message: Any) -> dict[str, Any]:
    parts = message.content
    if isinstance(parts, str):
        texts = [parts] if parts else []
    else:
        texts = [part.text for part in parts if part.type == "text"]
    error = getattr(message, "error", None)
    return {
        "role": message.role,
        "text": "\n".join(texts),
        "calls": [
            [call.id, call.function, call.arguments]
            for call in getattr(message, "tool_calls", None) or ()
        ],
        "answers": getattr(message, "tool_call_id", None) if message.role == "tool" else None,
        "error": None if error is None else [error.type, error.message],
    }


if __name__ == "__main__":
    for log_path in sys.argv[1:]:
        print(json.dumps(content(log_path)))
