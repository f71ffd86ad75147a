"""Models that speak Anthropic's Messages, at its own address or another.

The rubric and the trace carry cache marks, and so does the last image where there is one; the
question after them does not. A `seed` is not sent: there is no such parameter. Source: anthropic
2.12, types/message.py and types/message_create_params.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepscope.errors import ConfigError
from stepscope.model import Endpoint, Json, Media, Model, Reply, Request, Stop, Structure, Usage
from stepscope.models.dialect import ChatMessage, ContentBlock, Dialect, chat_messages, token_count
from stepscope.models.retry import invalid_reply_error

if TYPE_CHECKING:
    from stepscope.models.http import SdkClient


_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "tool_use": "tool",
}
_CACHED = {"type": "ephemeral"}


class _Message(msgspec.Struct, frozen=True):
    content: list[ContentBlock]
    stop_reason: str | None = None
    model: str | None = None
    usage: Json = None


_message = msgspec.json.Decoder(_Message)


def open_anthropic(endpoint: Endpoint) -> Model:
    """Return the model at an endpoint that speaks Messages; `ConfigError` without the SDK."""
    try:
        import anthropic
    except ImportError as e:
        raise ConfigError(
            f"judge {endpoint.name!r} needs the anthropic SDK; pip install 'stepscope[anthropic]'"
        ) from e
    from stepscope.models.http import SdkModel, check_environment_headers, http_client

    check_environment_headers(endpoint, "ANTHROPIC_CUSTOM_HEADERS")

    def client() -> SdkClient:
        # Without a key of its own the SDK looks for one in the environment and on disk.
        return anthropic.AsyncAnthropic(
            api_key=endpoint.key or "none",
            webhook_key="",
            base_url=endpoint.base_url,
            max_retries=0,
            open_telemetry=False,
            http_client=http_client(endpoint, anthropic.DefaultAioHttpClient),
        )

    errors = (anthropic.APIStatusError, anthropic.APIConnectionError)
    return SdkModel(endpoint, MESSAGES, client, *errors)


def message_parameters(endpoint: Endpoint, request: Request, schema: Structure) -> dict[str, Json]:
    """Return what is sent: the first message as system, what is shared with cache marks."""
    system, *turns = chat_messages(request, schema)
    asked: dict[str, Json] = {
        **request.extra,
        "model": endpoint.model,
        "max_tokens": request.max_output_tokens,
        "system": _content(system),
        "messages": [{"role": one.role, "content": _content(one)} for one in turns],
    }
    if endpoint.own:
        asked["service_tier"] = "standard_only"  # the one whose price is known
    if request.temperature is not None:
        asked["temperature"] = request.temperature
    if schema == "json_schema":
        more = request.extra.get("output_config")
        form = {"type": "json_schema", "schema": request.schema}
        asked["output_config"] = {**(more if isinstance(more, dict) else {}), "format": form}
    elif schema == "forced_tool":
        asked["tools"] = [{"name": request.schema_name, "input_schema": request.schema}]
        asked["tool_choice"] = {"type": "tool", "name": request.schema_name}
    return asked


def read_message(endpoint: Endpoint, body: bytes, structure: Structure) -> Reply:
    """Return the answer in a message; `ModelError` where the body is none."""
    try:
        found = _message.decode(body)
        text = "".join([block.text or "" for block in found.content if block.type == "text"])
        stop = _STOPS.get(found.stop_reason or "", "other")
        if structure == "forced_tool":
            used = [bytes(block.input) for block in found.content if block.type == "tool_use"]
            text = used[0].decode() if used else text
            stop = "end" if stop == "tool" else stop
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise invalid_reply_error(endpoint, f"the reply is no message ({e})") from e
    usage, model = message_usage(found.usage), found.model or ""
    return Reply(text=text, stop=stop, structure=structure, usage=usage, model=model)


def message_usage(told: Json) -> Usage | None:
    """Return the tokens of a message, what was cached counted into the input; None if not said."""
    if not isinstance(told, dict):
        return None
    fresh, written = token_count(told.get("input_tokens")), token_count(told.get("output_tokens"))
    if fresh is None or written is None:
        return None
    hit = token_count(told.get("cache_read_input_tokens"))
    put = token_count(told.get("cache_creation_input_tokens"))
    total = fresh + (hit or 0) + (put or 0)
    return Usage(input_total=total, cache_read=hit, cache_write=put, output_total=written)


def _content(message: ChatMessage) -> list[dict[str, Json]]:
    blocks: list[dict[str, Json]] = [
        {"type": "text", "text": part} if isinstance(part, str) else _image(part)
        for part in message.parts
    ]
    # The trace is shared by more questions than the images that follow it.
    for at in {0, message.shared - 1} if message.shared else ():
        blocks[at]["cache_control"] = _CACHED
    return blocks


def _image(media: Media) -> dict[str, Json]:
    source = {"type": "base64", "media_type": media.content_type, "data": media.data}
    return {"type": "image", "source": source}


MESSAGES = Dialect(
    path="/v1/messages",
    request_id="request-id",
    structures=("json_schema", "forced_tool", "prompt_only"),
    parameters=message_parameters,
    read=read_message,
)
