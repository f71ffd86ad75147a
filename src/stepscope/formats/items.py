"""OpenAI Responses items as steps: one item is one step; calls and outputs pair on `call_id`.

Which items of a list were said in one breath is the business of `item_turns`. Items of types that
this module does not know become steps of kind `other` with the whole item kept in `extra`: the API
grows item types faster than readers do. An item's own id, its status and what else it says stay
in the `extra` of what it became.
Format: OpenAI Python SDK 3.54.0, `types/responses/response_input_item_param.py`.
"""

from __future__ import annotations

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.beliefs import Judged
from stepscope.formats.building import call_of, rest, text_at
from stepscope.formats.chat import Reading, parts_of, step_of
from stepscope.formats.provider_items import ANSWERS, CALLED, provider_answer, provider_call
from stepscope.model import Actor, Json, Part, Step, ToolCall, ToolResult

_CALL = frozenset({"type", "call_id", "name", "arguments", "input"})
_OUTPUT = frozenset({"type", "call_id", "output"})
_REASONING = frozenset({"type", "summary", "content"})
_MCP = frozenset({"type", "id", "name", "arguments", "output", "error"})
CALLS = frozenset({"function_call", "custom_tool_call"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
# Items that neither say, call nor answer anything, and whose they are.
_BESIDE: dict[str, Actor] = {
    "mcp_list_tools": "environment",
    "mcp_approval_request": "agent",
    "mcp_approval_response": "user",
    "additional_tools": "system",
    "configuration_update": "system",
    "compaction_trigger": "system",
    "item_reference": "system",
}
TYPES = (
    CALLS | OUTPUTS | CALLED | ANSWERS | _BESIDE.keys() | {"reasoning", "mcp_call", "compaction"}
)

# Parts of messages that only this API knows.
_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def is_item(record: Json) -> bool:
    """Say whether a record is one that only this API knows: by its type, or its parts' types."""
    if not isinstance(record, dict):
        return False
    kind, content = record.get("type"), record.get("content")
    if isinstance(kind, str) and kind in TYPES:
        return True
    if kind not in (None, "message") or "role" not in record or not isinstance(content, list):
        return False
    return any(isinstance(part, dict) and text_at(part, "type") in _PARTS for part in content)


def item_step(item: Json, index: int, reading: Reading) -> Step:
    """Return one item as the step at `index`.

    Raises:
        TraceError: no object, or a known item type that lacks what its type promises.
    """
    if not isinstance(item, dict):
        raise TraceError(f"item {index} is {str(item)[:60]!r}; expected an object")
    kind = item.get("type")
    if kind is not None and not isinstance(kind, str):
        raise TraceError(f"item {index} needs text under `type`; found {str(kind)[:60]!r}")
    if kind in {None, "message"}:
        return _message(item, index, reading)
    if kind in OUTPUTS or kind in ANSWERS:
        bare = kind in OUTPUTS
        result = _output(item, index, reading) if bare else provider_answer(item, reading.judge)
        return Step(index=index, actor="environment", kind="result", results=(result,))
    if kind == "reasoning":
        return Step(index=index, actor="agent", parts=_reasoning(item))
    if kind == "compaction":
        return Step(index=index, actor="agent", kind="compaction", extra=item)
    if kind in CALLS or kind in CALLED or kind == "mcp_call":
        return _calling(item, index, reading)
    return Step(index=index, actor=_BESIDE.get(str(kind), "agent"), kind="other", extra=item)


def _calling(item: dict[str, Json], index: int, reading: Reading) -> Step:
    results: tuple[ToolResult, ...] = ()
    if item["type"] in CALLS:
        call = _call(item, index, reading)
    elif item["type"] == "mcp_call":
        call, results = _mcp(item, index, reading)
    else:
        call, results = provider_call(item)
    return Step(index=index, actor="agent", kind="call", calls=(call,), results=results)


def _message(item: dict[str, Json], index: int, reading: Reading) -> Step:
    bare = {key: value for key, value in item.items() if key not in {"type", "id"}}
    step, own = step_of(bare, index, reading), item.get("id")
    return msgspec.structs.replace(step, id=own) if isinstance(own, str) else step


def _call(item: dict[str, Json], index: int, reading: Reading) -> ToolCall:
    name = _text(item.get("name"), "name", index)
    call_id = item.get("call_id")
    if call_id is not None:
        _text(call_id, "call_id", index)
    extra = rest(item, _CALL)
    if item["type"] == "custom_tool_call":
        return ToolCall(name, item.get("input"), call_id, extra=extra)
    return call_of(name, item.get("arguments"), call_id, limits=reading.limits, extra=extra)


def _output(item: dict[str, Json], index: int, reading: Reading) -> ToolResult:
    call_id = item.get("call_id")
    if call_id is not None:
        _text(call_id, "call_id", index)
    output = item.get("output")
    structured = output if isinstance(output, dict) else None
    parts = () if structured is not None else parts_of(output, index)
    text = "\n".join([part.text for part in parts if part.text is not None])
    return ToolResult(
        call_id, None, parts, structured, *reading.judge(text), extra=rest(item, _OUTPUT)
    )


def _reasoning(item: dict[str, Json]) -> tuple[Part, ...]:
    """Return what was thought, the summary first; what is said of the item is with its first part.

    An item without text, of which only the encrypted form is kept, is one part without text.
    """
    parts: list[Part] = []
    about = rest(item, _REASONING) or {}
    for key in ("summary", "content"):
        pieces = item.get(key)
        for piece in pieces if isinstance(pieces, list) else ():
            told = rest(piece, frozenset({"text"})) if isinstance(piece, dict) else None
            if isinstance(piece, dict) and isinstance(piece.get("text"), str):
                parts.append(Part("reasoning", piece["text"], extra=told))
            else:
                parts.append(Part("data", extra={key: piece}))
        if pieces is not None and not isinstance(pieces, list):
            about[key] = pieces
    if not parts:
        return (Part("reasoning", extra=about or None),)
    first = msgspec.structs.replace(parts[0], extra={**(parts[0].extra or {}), **about} or None)
    return (first, *parts[1:])


def _mcp(
    item: dict[str, Json], index: int, reading: Reading
) -> tuple[ToolCall, tuple[ToolResult, ...]]:
    """Return the call of an MCP server's tool, which holds its own output or error."""
    own = item.get("id")
    call = call_of(
        _text(item.get("name"), "name", index),
        item.get("arguments"),
        own if isinstance(own, str) else None,
        limits=reading.limits,
        extra=rest(item, _MCP),
    )
    call = msgspec.structs.replace(call, kind="mcp")
    judged = _mcp_belief(item)
    results: tuple[ToolResult, ...] = ()
    if judged is not None:
        failure = item.get("error")
        structured = failure if isinstance(failure, dict) else None
        parts = parts_of(item.get("output"), index)
        results = (ToolResult(call.id, call.name, parts, structured, *judged),)
    return call, results


def _mcp_belief(item: dict[str, Json]) -> Judged | None:
    """Return whether the call worked, None where nothing came back yet."""
    failure, status = item.get("error"), text_at(item, "status")
    if isinstance(failure, dict):
        told = failure.get("message", failure.get("content"))
        # The server reached its tool, and the tool failed; otherwise the tool was not reached.
        reached = failure.get("type") == "mcp_tool_execution_error"
        whole = msgspec.json.encode(failure, order="deterministic").decode()
        said = told if isinstance(told, str) else whole
        return Judged("error", "explicit" if reached else "protocol", said[:200])
    if failure:
        return Judged("error", "protocol", str(failure)[:200])
    if status in {"failed", "incomplete"}:
        return Judged("error", "explicit", f"status {status}")
    return None if item.get("output") is None else Judged("ok", "protocol", None)


def _text(value: Json, key: str, index: int) -> str:
    if isinstance(value, str):
        return value
    raise TraceError(f"item {index} needs text under `{key}`; found {str(value)[:60]!r}")
