"""Models that speak OpenAI's chat completions: its own, and every server with a `base_url`.

Refuses nothing that a model says: what it wrote, and why it stopped, is handed on.
Source: openai 3.54, types/chat; the servers of vLLM, llama.cpp, Ollama, OpenRouter and DeepSeek.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from stepscope.errors import ConfigError
from stepscope.model import Endpoint, Json, Media, Model, Reply, Request, Stop, Structure, Usage
from stepscope.models.dialect import ChatMessage, ContentBlock, Dialect, chat_messages, token_count
from stepscope.models.retry import invalid_reply_error, status_error

if TYPE_CHECKING:
    from stepscope.models.http import SdkClient


_STOPS: dict[str, Stop] = {
    "stop": "end",
    "eos": "end",
    "length": "length",
    "content_filter": "filter",
    "tool_calls": "tool",
    "function_call": "tool",
}


class _Call(msgspec.Struct, frozen=True):
    function: dict[str, msgspec.Raw] = {}


class _Message(msgspec.Struct, frozen=True):
    content: str | list[ContentBlock] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message = _Message()
    finish_reason: str | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: list[_Choice] = []
    model: str | None = None
    usage: Json = None
    error: Json = None


_completion = msgspec.json.Decoder(_Completion)


def open_openai(endpoint: Endpoint) -> Model:
    """Return the model at an endpoint of chat completions; `ConfigError` without the SDK."""
    try:
        import openai
    except ImportError as e:
        raise ConfigError(
            f"judge {endpoint.name!r} needs the openai SDK; pip install 'stepscope[openai]'"
        ) from e
    from stepscope.models.http import SdkModel, check_environment_headers, http_client

    check_environment_headers(endpoint, "OPENAI_CUSTOM_HEADERS")

    def client() -> SdkClient:
        # Whatever is left out here, the SDK looks for in the environment.
        made = openai.AsyncOpenAI(
            api_key=endpoint.key or "none",
            admin_api_key="",
            webhook_secret="",
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=http_client(endpoint, openai.DefaultAioHttpClient),
        )
        if not endpoint.own:
            made.organization = made.project = None
        return made

    errors = (openai.APIStatusError, openai.APIConnectionError)
    return SdkModel(endpoint, CHAT_COMPLETIONS, client, *errors)


def chat_parameters(endpoint: Endpoint, request: Request, structure: Structure) -> dict[str, Json]:
    """Return what is sent: every message as one turn, which all servers take."""
    schema = {"name": request.schema_name, "schema": request.schema}
    limit = "max_completion_tokens" if endpoint.own and _is_openai(endpoint) else "max_tokens"
    asked: dict[str, Json] = {
        **request.extra,
        "model": endpoint.model,
        "messages": [
            {"role": one.role, "content": _content(one)}
            for one in chat_messages(request, structure)
        ],
        limit: request.max_output_tokens,
    }
    if request.temperature is not None:
        asked["temperature"] = request.temperature
    if request.seed is not None:
        asked["seed"] = request.seed
    if endpoint.own and _is_openai(endpoint):
        # All questions about one trace go to the machine that has it cached.
        plain = chat_messages(request, "json_schema")
        firsts = [str(one.parts[0]) if one.shared else "" for one in plain]
        asked["prompt_cache_key"] = sha256("\0".join(firsts).encode()).hexdigest()[:32]
        asked["service_tier"] = "default"  # the one whose price is known, whatever the project says
    if structure == "json_schema":
        asked["response_format"] = {"type": structure, "json_schema": {**schema, "strict": True}}
    elif structure == "json_object_schema":
        asked["response_format"] = {"type": "json_object", "schema": request.schema}
    elif structure == "forced_tool":
        tool = {"name": request.schema_name, "parameters": request.schema}
        asked["tools"] = [{"type": "function", "function": tool}]
        asked["tool_choice"] = {"type": "function", "function": {"name": request.schema_name}}
    return asked


def read_completion(endpoint: Endpoint, body: bytes, structure: Structure) -> Reply:
    """Return the answer in a completion; `ModelError` where the body is none, under any status."""
    try:
        found = _completion.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise invalid_reply_error(endpoint, f"the reply is no chat completion ({e})") from e
    if found.error and not found.choices:
        code = found.error.get("code") if isinstance(found.error, dict) else None
        status = code if type(code) is int and 400 <= code < 600 else 502
        raise status_error(endpoint, status, {}, body)
    if not found.choices:
        raise invalid_reply_error(endpoint, "the reply holds no choice")
    try:
        choice = found.choices[0]
        stop: Stop = _STOPS.get(choice.finish_reason or "", "other")
        text, refusal = _answer_text(choice.message)
        if refusal:
            text, stop = refusal, "refusal"
        elif structure == "forced_tool":
            calls = choice.message.tool_calls
            if calls:
                # Some servers send arguments as an object.
                raw = bytes(calls[0].function.get("arguments", b'""'))
                text = msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()
            if stop == "tool":
                stop = "end"
        usage, model = completion_usage(found.usage), found.model or ""
        return Reply(text=text, stop=stop, structure=structure, usage=usage, model=model)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise invalid_reply_error(endpoint, f"the tool call is no text ({e})") from e


def completion_usage(told: Json) -> Usage | None:
    """Return the tokens of a completion; None where it says none that are numbers."""
    if not isinstance(told, dict):
        return None
    total, written = (token_count(told.get(f"{side}_tokens")) for side in ("prompt", "completion"))
    if total is None or written is None:
        return None
    of_input, of_output = told.get("prompt_tokens_details"), told.get("completion_tokens_details")
    of_input = of_input if isinstance(of_input, dict) else {}
    of_output = of_output if isinstance(of_output, dict) else {}
    # Where reasoning is left out of what was written, the total has it.
    written = max(written, (token_count(told.get("total_tokens")) or 0) - total)
    return Usage(
        input_total=total,
        cache_read=token_count(of_input.get("cached_tokens", told.get("prompt_cache_hit_tokens"))),
        cache_write=token_count(of_input.get("cache_write_tokens")),
        output_total=written,
        reasoning=token_count(of_output.get("reasoning_tokens")),
    )


def _content(message: ChatMessage) -> str | list[Json]:
    texts = [part for part in message.parts if isinstance(part, str)]
    if len(texts) == len(message.parts):
        return "\n\n".join(texts)
    return [
        {"type": "text", "text": part} if isinstance(part, str) else _image(part)
        for part in message.parts
    ]


def _image(media: Media) -> Json:
    # Of the finer detail that some models offer, nobody says beforehand what it costs.
    url = f"data:{media.content_type};base64,{media.data}"
    return {"type": "image_url", "image_url": {"url": url, "detail": "high"}}


def _is_openai(endpoint: Endpoint) -> bool:
    return endpoint.name.startswith("openai/")


def _answer_text(message: _Message) -> tuple[str, str]:
    if isinstance(message.content, list):
        said = [part.text for part in message.content if part.type == "text" and part.text]
        refusals = [part.refusal for part in message.content if part.refusal]
        return "".join(said), message.refusal or "".join(refusals)
    return message.content or "", message.refusal or ""


CHAT_COMPLETIONS = Dialect(
    path="/chat/completions",
    request_id="x-request-id",
    structures=("json_schema", "json_object_schema", "forced_tool", "prompt_only"),
    parameters=chat_parameters,
    read=read_completion,
)
