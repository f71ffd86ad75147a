"""Responses items of tools that the provider defines: search, code, computer, shell, patches.

Some hold their own result (web and file search, code interpreter, image generation); the others
are answered by an item of their own. What a status, an exit code or a timeout says is explicit.
Refuses nothing: what is missing is absent.
Format: OpenAI Python SDK 3.54.0, `types/responses/response_output_item.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from stepscope.formats.beliefs import UNKNOWN, Judged
from stepscope.formats.building import rest, text_at
from stepscope.formats.media import data_part, url_part
from stepscope.model import Json, Part, ToolCall, ToolResult

# Under which key an item holds what it gave back itself.
_GIVEN = {
    "web_search_call": "action",
    "file_search_call": "results",
    "code_interpreter_call": "outputs",
    "image_generation_call": "result",
}
# Under which key an item holds all of its arguments.
_ASKED = {
    "web_search_call": "action",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "tool_search_call": "arguments",
}
# What is beside the arguments of a call, and no argument.
_BESIDE = frozenset(
    "id status caller created_by environment pending_safety_checks fingerprint execution "
    "container_id error".split()
)
CALLED = _ASKED.keys() | _GIVEN.keys() | {"program"}
ANSWERS = frozenset(
    "computer_call_output local_shell_call_output shell_call_output apply_patch_call_output "
    "tool_search_output program_output".split()
)
_ANSWER = frozenset({"type", "call_id", "output", "result", "tools"})
_OFFERS = frozenset({"mcp_list_tools", "additional_tools"})
_ENDED = frozenset({"completed", "failed", "incomplete"})


def provider_call(item: dict[str, Json]) -> tuple[ToolCall, tuple[ToolResult, ...]]:
    """Return the call of such an item, and its result where the item holds it."""
    kind = str(item["type"])
    call_id = text_at(item, "call_id") or text_at(item, "id")
    name = kind.removesuffix("_call")
    known = _BESIDE | {"type", "call_id"} | ({_GIVEN[kind]} if kind in _GIVEN else set())
    asked = item.get(_ASKED[kind]) if kind in _ASKED else None
    if isinstance(asked, dict) and kind in _ASKED:
        arguments = {key: value for key, value in asked.items() if key != "sources"}
        beside = rest(item, frozenset({"type", "call_id", _ASKED[kind]}))
    else:
        arguments = rest(item, known) or {}
        beside = {key: item[key] for key in sorted(_BESIDE & item.keys()) if item[key] is not None}
    if call_id is not None and beside and beside.get("id") == call_id:
        beside = rest(beside, frozenset({"id"}))
    call = ToolCall(name, arguments, call_id, kind="builtin", extra=beside or None)
    status = text_at(item, "status")
    if kind not in _GIVEN or (status not in _ENDED and item.get("result") is None):
        return call, ()
    parts, structured = _given(item, kind)
    return call, (ToolResult(call_id, name, parts, structured, *_ended(item)),)


def _ended(item: dict[str, Json]) -> Judged:
    """Return whether a tool that the provider ran came to a good end, as it says itself."""
    failure, status = item.get("error"), text_at(item, "status")
    if isinstance(failure, dict):
        return Judged("error", "explicit", (text_at(failure, "message") or "error")[:200])
    if status in {"failed", "incomplete"}:
        return Judged("error", "explicit", f"status {status}")
    return Judged("ok", "explicit", None)


def _given(item: dict[str, Json], kind: str) -> tuple[tuple[Part, ...], Json]:
    """Return what a tool gave back as parts, and as data where parts do not say all."""
    held = item.get(_GIVEN[kind])
    if kind == "web_search_call":
        sources = held.get("sources") if isinstance(held, dict) else None
        return (), None if sources is None else {"sources": sources}
    if kind == "image_generation_call":
        if not isinstance(held, str):
            return (), held
        media_type = f"image/{text_at(item, 'output_format') or 'png'}"
        return (data_part("image", media_type, held),), None
    listed = held if isinstance(held, list) else [] if held is None else [held]
    return tuple([_piece(entry) for entry in listed]), None


def _piece(entry: Json) -> Part:
    match entry:
        case {"type": "logs", "logs": str(text)}:
            return Part("text", text)
        case {"type": "image", "url": str(url)}:
            return url_part("image", url)
        case {"text": str(text)}:
            return Part("text", text, extra=rest(entry, frozenset({"text"})))
    return Part("data", extra=entry if isinstance(entry, dict) else {"value": entry})


def provider_answer(item: dict[str, Json], judge: Callable[[str], Judged]) -> ToolResult:
    """Return the result that an item of its own brings; `judge` says what a bare text tells."""
    kind = str(item["type"])
    call_id = text_at(item, "call_id")
    known = _ANSWER
    if call_id is None and kind == "local_shell_call_output":
        # The only output without a `call_id`: its `id` is the call's.
        call_id, known = text_at(item, "id"), _ANSWER | {"id"}
    held = item.get("result" if kind == "program_output" else "output", item.get("tools"))
    if kind == "shell_call_output" and isinstance(held, list):
        parts, structured, judged = _shell(held)
    else:
        parts, structured = _held(held)
        status = text_at(item, "status")
        judged = judge("\n".join([part.text for part in parts if part.text is not None]))
        if kind in {"apply_patch_call_output", "program_output"} and status in _ENDED:
            judged = _ended(item)
    return ToolResult(call_id, None, parts, structured, *judged, extra=rest(item, known))


def _held(held: Json) -> tuple[tuple[Part, ...], Json]:
    match held:
        case None | "":
            return (), None
        case str():
            return (Part("text", held),), None
        case {"type": "computer_screenshot", "image_url": str(url)}:
            about = rest(held, frozenset({"type", "image_url"}))
            return (url_part("image", url, extra=about),), None
    return (), held


def _shell(listed: list[Json]) -> tuple[tuple[Part, ...], Json, Judged]:
    """Return what each command printed; the first that failed or timed out is the call's error."""
    parts: list[Part] = []
    beliefs: list[Judged] = []
    for entry in listed:
        about = entry if isinstance(entry, dict) else {}
        said = "".join([text_at(about, key) or "" for key in ("stdout", "stderr")])
        parts.append(Part("text", said))
        match about.get("outcome"):
            case {"type": "timeout"}:
                beliefs.append(Judged("error", "explicit", "timeout"))
            case {"type": "exit", "exit_code": int(code)}:
                failure = Judged("error", "explicit", f"exit code {code}")
                beliefs.append(failure if code else Judged("ok", "explicit", None))
    errors = [belief for belief in beliefs if belief.status == "error"]
    judged = (errors or beliefs or [UNKNOWN])[0]
    return tuple(parts), listed, judged


def offered(item: Json) -> list[Json]:
    """Return the tools that an item offers to the agent: a server's list, or some added later."""
    if not isinstance(item, dict) or text_at(item, "type") not in _OFFERS:
        return []
    listed = item.get("tools")
    return [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
