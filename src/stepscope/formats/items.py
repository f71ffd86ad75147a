"""OpenAI Responses items as steps: one item is one step; calls and outputs pair on `call_id`.

Items of types that this module does not know become steps of kind `other` with the whole item kept
in `extra`: the API grows item types faster than readers do.
Format: OpenAI Python SDK 3.54.0, `types/responses/response_input_item_param.py`.
"""

from __future__ import annotations

from stepscope.errors import TraceError
from stepscope.formats.beliefs import Judged
from stepscope.formats.building import call_of, rest, text_at
from stepscope.formats.chat import Reading, parts_of, step_of
from stepscope.model import Json, Part, Step, ToolCall, ToolResult

_CALL = frozenset({"type", "call_id", "name", "arguments", "input", "id", "status"})
_OUTPUT = frozenset({"type", "call_id", "output", "id", "status"})
_REASONING = frozenset({"type", "id", "summary", "content", "status"})
_MESSAGE = frozenset({"type", "id", "status"})
_MCP = frozenset({"type", "id", "name", "arguments", "output", "error", "status"})
CALLS = frozenset({"function_call", "custom_tool_call"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
# Calls that the provider runs itself: the item is call and, where it says one, result.
_BUILTIN = frozenset(
    "web_search_call file_search_call code_interpreter_call computer_call image_generation_call "
    "local_shell_call shell_call apply_patch_call tool_search_call".split()
)
_BUILTIN_OUTPUT = frozenset(
    "computer_call_output local_shell_call_output shell_call_output apply_patch_call_output "
    "tool_search_output".split()
)
TYPES = CALLS | OUTPUTS | _BUILTIN | _BUILTIN_OUTPUT | {"reasoning", "mcp_call", "compaction"}


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
        bare = {key: value for key, value in item.items() if key not in _MESSAGE}
        return step_of(bare, index, reading)
    if kind in CALLS:
        return Step(index=index, actor="agent", kind="call", calls=(_call(item, index, reading),))
    if kind in OUTPUTS or kind in _BUILTIN_OUTPUT:
        return _output(item, index, reading)
    if kind == "reasoning":
        return _reasoning(item, index)
    if kind == "mcp_call":
        return _mcp(item, index, reading)
    if kind in _BUILTIN:
        return _builtin(item, index)
    compaction = kind == "compaction"
    return Step(
        index=index, actor="agent", kind="compaction" if compaction else "other", extra=item
    )


def _call(item: dict[str, Json], index: int, reading: Reading) -> ToolCall:
    name = _text(item.get("name"), "name", index)
    call_id = item.get("call_id")
    if call_id is not None:
        _text(call_id, "call_id", index)
    extra = rest(item, _CALL)
    if item["type"] == "custom_tool_call":
        return ToolCall(name, item.get("input"), call_id, extra=extra)
    return call_of(name, item.get("arguments"), call_id, limits=reading.limits, extra=extra)


def _output(item: dict[str, Json], index: int, reading: Reading) -> Step:
    call_id = item.get("call_id")
    if call_id is not None:
        _text(call_id, "call_id", index)
    output = item.get("output")
    structured = output if isinstance(output, dict) else None
    parts = () if structured is not None else parts_of(output, index)
    text = "\n".join([part.text for part in parts if part.text is not None])
    result = ToolResult(
        call_id, None, parts, structured, *reading.judge(text), extra=rest(item, _OUTPUT)
    )
    return Step(index=index, actor="environment", kind="result", results=(result,))


def _reasoning(item: dict[str, Json], index: int) -> Step:
    parts = []
    for key in ("summary", "content"):
        pieces = item.get(key)
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict) and isinstance(piece.get("text"), str):
                parts.append(Part("reasoning", piece["text"]))
    return Step(index=index, actor="agent", parts=tuple(parts), extra=rest(item, _REASONING))


def _mcp(item: dict[str, Json], index: int, reading: Reading) -> Step:
    call_id = item.get("id")
    call = call_of(
        _text(item.get("name"), "name", index),
        item.get("arguments"),
        call_id if isinstance(call_id, str) else None,
        limits=reading.limits,
        extra=rest(item, _MCP),
    )
    call = ToolCall(
        call.name, call.arguments, call.id, call.raw, call.parse_error, "agent", "mcp", call.extra
    )
    failure, output = item.get("error"), item.get("output")
    results: tuple[ToolResult, ...] = ()
    if failure is not None or output is not None:
        judged = (
            Judged("error", "protocol", str(failure)[:200])
            if failure
            else Judged("ok", "protocol", None)
        )
        results = (ToolResult(call.id, call.name, parts_of(output, index), None, *judged),)
    return Step(index=index, actor="agent", kind="call", calls=(call,), results=results)


def _builtin(item: dict[str, Json], index: int) -> Step:
    call_id = item.get("call_id") or item.get("id")
    name = str(item["type"]).removesuffix("_call")
    arguments = rest(item, frozenset({"type", "id", "call_id", "status"}))
    call = ToolCall(
        name, arguments or {}, call_id if isinstance(call_id, str) else None, kind="builtin"
    )
    status = text_at(item, "status")
    results: tuple[ToolResult, ...] = ()
    if status in {"completed", "failed", "incomplete"} and "output" not in item["type"]:
        judged = (
            Judged("ok", "explicit", None)
            if status == "completed"
            else Judged("error", "explicit", f"status {status}")
        )
        results = (ToolResult(call.id, name, (), None, *judged),)
    return Step(index=index, actor="agent", kind="call", calls=(call,), results=results)


def _text(value: Json, key: str, index: int) -> str:
    if isinstance(value, str):
        return value
    raise TraceError(f"item {index} needs text under `{key}`; found {str(value)[:60]!r}")
