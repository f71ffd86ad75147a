"""OpenAI Responses items as steps, and steps joined into the turns that they were said in.

One item is one step; calls and outputs pair on `call_id`. Reasoning, then what is said, then the
calls made at once are one turn of the agent: a run recorded as Responses items has the steps that
the same run has as chat messages, and parallel calls stay in one step. Tools that the provider
defines (search, code, computer, shell, patches) hold their own result or are answered by an item of
their own; what their status, exit code or timeout says is explicit. Items of unknown types become
steps of kind `other` with the whole item in `extra`: the API grows item types faster than readers.
Format: OpenAI Python SDK 3.54.0, `types/responses/response_input_item_param.py`,
`types/responses/response_output_item.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.chat.messages import MessageOptions, chat_step, content_parts
from stepscope.formats.fields import (
    UNKNOWN_STATUS,
    ToolStatus,
    data_part,
    entries_at,
    parse_call,
    parts_text,
    rest,
    text_at,
    url_part,
)
from stepscope.model import Actor, Json, Part, Step, ToolCall, ToolResult


def join_turns(steps: Iterable[Step]) -> list[Step]:
    """Return steps of one item each, joined where they are one turn; their indexes are kept."""
    made: list[Step] = []
    for step in steps:
        if made and _continues_turn(made[-1], step):
            made[-1] = join_turn(made[-1], step)
        else:
            made.append(step)
    return made


def number_steps(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return steps with the indexes that they have in their run."""
    return tuple([msgspec.structs.replace(step, index=at) for at, step in enumerate(steps)])


def _continues_turn(turn: Step, step: Step) -> bool:
    if not (_is_turn(turn) and _is_turn(step)) or turn.agent != step.agent:
        return False
    # A result, or the tokens of an answer, stand at its end.
    if turn.results or turn.usage is not None:
        return False
    if step.calls:
        return True
    thinks = turn.parts and all(part.kind in {"reasoning", "data"} for part in turn.parts)
    return bool(thinks) and not turn.calls and (turn.id is None or step.id is None)


def _is_turn(step: Step) -> bool:
    return step.actor == "agent" and step.kind in {"message", "call"} and step.error is None


def join_turn(turn: Step, step: Step) -> Step:
    """Return a turn with what was said next in the same breath."""
    return msgspec.structs.replace(
        turn,
        kind="call" if turn.calls or step.calls else "message",
        parts=(*turn.parts, *step.parts),
        calls=(*turn.calls, *step.calls),
        results=step.results,
        model=turn.model if turn.model is not None else step.model,
        usage=step.usage if step.usage is not None else turn.usage,
        id=turn.id if turn.id is not None else step.id,
        extra={**(turn.extra or {}), **(step.extra or {})} or None,
    )


# Under which key an item holds what it gave back itself.
_RESULT_KEY = {
    "web_search_call": "action",
    "file_search_call": "results",
    "code_interpreter_call": "outputs",
    "image_generation_call": "result",
}
# Under which key an item holds all of its arguments.
_ARGUMENTS_KEY = {
    **dict.fromkeys(
        ("web_search_call", "computer_call", "local_shell_call", "shell_call"), "action"
    ),
    "apply_patch_call": "operation",
    "tool_search_call": "arguments",
}
# What is beside the arguments of a call, and no argument.
_NON_ARGUMENTS = frozenset(
    "id status caller created_by environment pending_safety_checks fingerprint execution "
    "container_id error".split()
)
PROVIDER_CALL_TYPES = _ARGUMENTS_KEY.keys() | _RESULT_KEY.keys() | {"program"}
PROVIDER_OUTPUT_TYPES = frozenset(
    "computer_call_output local_shell_call_output shell_call_output apply_patch_call_output "
    "tool_search_output program_output".split()
)
_ANSWER_KEYS = frozenset({"type", "call_id", "output", "result", "tools"})
_OFFER_TYPES = frozenset({"mcp_list_tools", "additional_tools"})
_FAILED = frozenset({"failed", "incomplete"})
_END_STATUSES = _FAILED | {"completed"}


def provider_call(item: dict[str, Json]) -> tuple[ToolCall, tuple[ToolResult, ...]]:
    """Return the call of such an item, and its result where the item holds it."""
    kind = str(item["type"])
    call_id = text_at(item, "call_id") or text_at(item, "id")
    name = kind.removesuffix("_call")
    known = _NON_ARGUMENTS | {"type", "call_id", _RESULT_KEY.get(kind, "type")}
    asked = item.get(_ARGUMENTS_KEY[kind]) if kind in _ARGUMENTS_KEY else None
    if isinstance(asked, dict) and kind in _ARGUMENTS_KEY:
        arguments = {key: value for key, value in asked.items() if key != "sources"}
        beside = rest(item, frozenset({"type", "call_id", _ARGUMENTS_KEY[kind]}))
    else:
        arguments = rest(item, known) or {}
        held = sorted(_NON_ARGUMENTS & item.keys())
        beside = {key: item[key] for key in held if item[key] is not None}
    if call_id is not None and beside and beside.get("id") == call_id:
        beside = rest(beside, frozenset({"id"}))
    call = ToolCall(name, arguments, call_id, kind="builtin", extra=beside or None)
    status = text_at(item, "status")
    if kind not in _RESULT_KEY or (status not in _END_STATUSES and item.get("result") is None):
        return call, ()
    parts, structured = _own_result(item, kind)
    judged = _failed_status(item) or ToolStatus("ok", "explicit", None)
    return call, (ToolResult(call_id, name, parts, structured, *judged),)


def _failed_status(item: dict[str, Json]) -> ToolStatus | None:
    """Return why an item of a provider failed, None where it did not."""
    failure, status = item.get("error"), text_at(item, "status")
    if isinstance(failure, dict):
        return ToolStatus("error", "explicit", (text_at(failure, "message") or "error")[:200])
    return ToolStatus("error", "explicit", f"status {status}") if status in _FAILED else None


def _own_result(item: dict[str, Json], kind: str) -> tuple[tuple[Part, ...], Json]:
    """Return what a tool gave back as parts, and as data where parts do not say all."""
    held = item.get(_RESULT_KEY[kind])
    if kind == "web_search_call":
        sources = held.get("sources") if isinstance(held, dict) else None
        return (), None if sources is None else {"sources": sources}
    if kind == "image_generation_call":
        if not isinstance(held, str):
            return (), held
        return (data_part("image", f"image/{text_at(item, 'output_format') or 'png'}", held),), None
    listed = held if isinstance(held, list) else [] if held is None else [held]
    return tuple([_result_part(entry) for entry in listed]), None


def _result_part(entry: Json) -> Part:
    match entry:
        case {"type": "logs", "logs": str(text)}:
            return Part("text", text)
        case {"type": "image", "url": str(url)}:
            return url_part("image", url)
        case {"text": str(text)}:
            return Part("text", text, extra=rest(entry, frozenset({"text"})))
    return Part("data", extra=entry if isinstance(entry, dict) else {"value": entry})


def provider_result(item: dict[str, Json], reading: MessageOptions) -> ToolResult:
    """Return the result that an item of its own brings."""
    kind = str(item["type"])
    call_id = text_at(item, "call_id")
    known = _ANSWER_KEYS
    if call_id is None and kind == "local_shell_call_output":
        # The only output without a `call_id`: its `id` is the call's.
        call_id, known = text_at(item, "id"), _ANSWER_KEYS | {"id"}
    held = item.get("result" if kind == "program_output" else "output", item.get("tools"))
    if kind == "shell_call_output" and isinstance(held, list):
        # The first command that failed or timed out is the call's error.
        texts: list[str] = []
        beliefs: list[ToolStatus] = []
        for entry in held:
            about = entry if isinstance(entry, dict) else {}
            texts.append("".join([text_at(about, key) or "" for key in ("stdout", "stderr")]))
            match about.get("outcome"):
                case {"type": "timeout"}:
                    beliefs.append(ToolStatus("error", "explicit", "timeout"))
                case {"type": "exit", "exit_code": int(code)}:
                    failure = ToolStatus("error", "explicit", f"exit code {code}")
                    beliefs.append(failure if code else ToolStatus("ok", "explicit", None))
        errors = [belief for belief in beliefs if belief.status == "error"]
        judged = (errors or beliefs or [UNKNOWN_STATUS])[0]
        parts, structured = tuple([Part("text", text) for text in texts]), held
    else:
        parts, structured = (), None
        match held:
            case None | "":
                pass
            case str():
                parts = (Part("text", held),)
            case {"type": "computer_screenshot", "image_url": str(url)}:
                parts = (
                    url_part("image", url, extra=rest(held, frozenset({"type", "image_url"}))),
                )
            case _:
                structured = held
        status = text_at(item, "status")
        judged = reading.judge(parts_text(parts))
        if kind in {"apply_patch_call_output", "program_output"} and status in _END_STATUSES:
            judged = _failed_status(item) or ToolStatus("ok", "explicit", None)
    return ToolResult(call_id, None, parts, structured, *judged, extra=rest(item, known))


def offered_tools(item: Json) -> list[Json]:
    """Return the tools that an item offers to the agent: a server's list, or some added later."""
    if not isinstance(item, dict) or text_at(item, "type") not in _OFFER_TYPES:
        return []
    return [tool for tool in entries_at(item, "tools") if isinstance(tool, dict)]


_CALL_KEYS = frozenset({"type", "call_id", "name", "arguments", "input"})
_OUTPUT_KEYS = frozenset({"type", "call_id", "output"})
_REASONING_KEYS = frozenset({"type", "summary", "content"})
_MCP_KEYS = frozenset({"type", "id", "name", "arguments", "output", "error"})
CALL_TYPES = frozenset({"function_call", "custom_tool_call"})
OUTPUT_TYPES = frozenset({"function_call_output", "custom_tool_call_output"})
# Items that neither say, call nor answer anything, and whose they are.
_OTHER_ACTORS: dict[str, Actor] = {
    "mcp_list_tools": "environment",
    "mcp_approval_request": "agent",
    "mcp_approval_response": "user",
    **dict.fromkeys(("additional_tools", "configuration_update"), "system"),
    **dict.fromkeys(("compaction_trigger", "item_reference"), "system"),
}
_SINGLE_TYPES = ("reasoning", "mcp_call", "compaction")
ITEM_TYPES = CALL_TYPES.union(
    OUTPUT_TYPES, PROVIDER_CALL_TYPES, PROVIDER_OUTPUT_TYPES, _OTHER_ACTORS, _SINGLE_TYPES
)

# Parts of messages that only this API knows.
_PART_TYPES = frozenset({"input_text", "output_text", "input_image", "input_file"})


def is_response_item(record: Json) -> bool:
    """Say whether a record is one that only this API knows: by its type, or its parts' types."""
    if not isinstance(record, dict):
        return False
    kind, content = record.get("type"), record.get("content")
    if isinstance(kind, str) and kind in ITEM_TYPES:
        return True
    if kind not in (None, "message") or "role" not in record or not isinstance(content, list):
        return False
    return any(isinstance(part, dict) and text_at(part, "type") in _PART_TYPES for part in content)


def item_step(item: Json, index: int, reading: MessageOptions) -> Step:
    """Return one item as the step at `index`."""
    if not isinstance(item, dict):
        raise TraceError(f"item {index} is {str(item)[:60]!r}; expected an object")
    kind = item.get("type")
    if kind is not None and not isinstance(kind, str):
        raise TraceError(f"item {index} needs text under `type`; found {str(kind)[:60]!r}")
    if kind in {None, "message"}:
        plain = {key: value for key, value in item.items() if key not in {"type", "id"}}
        return msgspec.structs.replace(chat_step(plain, index, reading), id=text_at(item, "id"))
    if kind in OUTPUT_TYPES or kind in PROVIDER_OUTPUT_TYPES:
        if kind in PROVIDER_OUTPUT_TYPES:
            result = provider_result(item, reading)
        else:
            call_id, output = _call_id(item, index), item.get("output")
            structured = output if isinstance(output, dict) else None
            parts = () if structured is not None else content_parts(output, index)
            judged, extra = reading.judge(parts_text(parts)), rest(item, _OUTPUT_KEYS)
            result = ToolResult(call_id, None, parts, structured, *judged, extra=extra)
        return Step(index=index, actor="environment", kind="result", results=(result,))
    if kind == "reasoning":
        return Step(index=index, actor="agent", parts=_reasoning_parts(item))
    if kind == "compaction":
        return Step(index=index, actor="agent", kind="compaction", extra=item)
    if kind in CALL_TYPES or kind in PROVIDER_CALL_TYPES or kind == "mcp_call":
        call, results = _item_call(item, index, reading)
        return Step(index=index, actor="agent", kind="call", calls=(call,), results=results)
    return Step(index=index, actor=_OTHER_ACTORS.get(str(kind), "agent"), kind="other", extra=item)


def _reasoning_parts(item: dict[str, Json]) -> tuple[Part, ...]:
    """Return what was thought, the summary first; the first part has what is said of the item."""
    parts: list[Part] = []
    about = rest(item, _REASONING_KEYS) or {}
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


def _mcp_status(item: dict[str, Json]) -> ToolStatus | None:
    """Return whether the call worked, None where nothing came back yet."""
    failure, status = item.get("error"), text_at(item, "status")
    if isinstance(failure, dict):
        told = failure.get("message", failure.get("content"))
        # The server reached its tool, and the tool failed; otherwise the tool was not reached.
        reached = failure.get("type") == "mcp_tool_execution_error"
        whole = msgspec.json.encode(failure, order="deterministic").decode()
        said = told if isinstance(told, str) else whole
        return ToolStatus("error", "explicit" if reached else "protocol", said[:200])
    if failure:
        return ToolStatus("error", "protocol", str(failure)[:200])
    if status in _FAILED:
        return ToolStatus("error", "explicit", f"status {status}")
    return None if item.get("output") is None else ToolStatus("ok", "protocol", None)


def _item_call(
    item: dict[str, Json], index: int, reading: MessageOptions
) -> tuple[ToolCall, tuple[ToolResult, ...]]:
    """Return the call that an item makes, and its result where the item holds it."""
    kind = item["type"]
    if kind in PROVIDER_CALL_TYPES:
        return provider_call(item)
    results: tuple[ToolResult, ...] = ()
    if kind in CALL_TYPES:
        name, own = _expect_text(item.get("name"), "name", index), _call_id(item, index)
        given, extra = item.get("arguments"), rest(item, _CALL_KEYS)
        if kind == "custom_tool_call":
            call = ToolCall(name, item.get("input"), own, extra=extra)
        else:
            call = parse_call(name, given, own, limits=reading.limits, extra=extra)
    else:
        name, own = _expect_text(item.get("name"), "name", index), text_at(item, "id")
        given, extra = item.get("arguments"), rest(item, _MCP_KEYS)
        call = parse_call(name, given, own, limits=reading.limits, extra=extra)
        call = msgspec.structs.replace(call, kind="mcp")
        if (came := _mcp_status(item)) is not None:
            failure = item.get("error")
            structured = failure if isinstance(failure, dict) else None
            parts = content_parts(item.get("output"), index)
            results = (ToolResult(call.id, call.name, parts, structured, *came),)
    return call, results


def _call_id(item: dict[str, Json], index: int) -> str | None:
    own = item.get("call_id")
    return None if own is None else _expect_text(own, "call_id", index)


def _expect_text(value: Json, key: str, index: int) -> str:
    if isinstance(value, str):
        return value
    raise TraceError(f"item {index} needs text under `{key}`; found {str(value)[:60]!r}")
