"""Every rule of `check_model` holds for the built-in models; a careless one breaks each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx2
import msgspec
import pytest

from stepscope.errors import ConfigError, ModelError, UsageError
from stepscope.model import Endpoint, Model, Opener, Reply, Request
from stepscope.models import openai
from stepscope.testing import check_model
from stepscope.testing.model_check import RULES, WIRES, ModelFault, ModelSubject, serve_replies
from stepscope.testing.model_check import openai as model_check_openai


@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_the_built_in_models_keep_what_models_promise(name: str) -> None:
    checked = check_model(name, name)
    assert checked == (name, len(RULES))
    assert str(checked) == f"{name}: {len(RULES)} rules hold"


class Around:
    """A good model, and something that spoils it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.inner = openai.open_openai(endpoint)

    @property
    def name(self) -> str:
        return self.endpoint.name

    async def complete(self, request: Request) -> Reply:
        return await self.inner.complete(request)

    async def close(self) -> None:
        close: Callable[..., object] = getattr(self.inner, "close")  # noqa: B009 - not in the protocol
        await close()  # type: ignore[misc]


class Renamed(Around):
    @property
    def name(self) -> str:
        return self.endpoint.model


class Tidied(Around):
    async def complete(self, request: Request) -> Reply:
        reply = await super().complete(request)
        return msgspec.structs.replace(reply, raw=b"", usage=None, text=reply.text.upper())


class Turned(Around):
    async def complete(self, request: Request) -> Reply:
        turned = msgspec.structs.replace(request, system=request.question, question=request.system)
        return await super().complete(turned)


class Stubborn(Around):
    async def complete(self, request: Request) -> Reply:
        try:
            return await super().complete(request)
        except ModelError:
            return await super().complete(request)


class Content(Around):
    async def complete(self, request: Request) -> Reply:
        return msgspec.structs.replace(await super().complete(request), stop="end")


class Believing(Around):
    async def complete(self, request: Request) -> Reply:
        reply = await super().complete(request)
        msgspec.json.decode(reply.text)
        return reply


class Untyped(Around):
    async def complete(self, request: Request) -> Reply:
        try:
            return await super().complete(request)
        except ModelError as e:
            raise RuntimeError(str(e)) from e


class Hopeless(Around):
    async def complete(self, request: Request) -> Reply:
        try:
            return await super().complete(request)
        except ModelError as e:
            raise ModelError(str(e), again=False, status=e.status) from e


class Telling(Around):
    def __repr__(self) -> str:
        return f"Telling({self.endpoint.key})"


class Patient(Around):
    async def complete(self, request: Request) -> Reply:
        try:
            return await super().complete(request)
        except asyncio.CancelledError:
            return Reply(text="", stop="other", structure="prompt_only")


class Single(Around):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.one = asyncio.Semaphore(1)

    async def complete(self, request: Request) -> Reply:
        async with self.one:
            return await super().complete(request)


class Homesick(Around):
    loop: asyncio.AbstractEventLoop | None = None

    async def complete(self, request: Request) -> Reply:
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("event loop is closed")
        return await super().complete(request)


class Naive(Around):
    """What one writes in five minutes: all of it read, redirects followed, bodies told."""

    async def complete(self, request: Request) -> Reply:
        asked = openai.chat_parameters(self.endpoint, request, "json_schema")
        headers = {"x-key": self.endpoint.key}
        async with httpx2.AsyncClient(follow_redirects=True, headers=headers) as client:
            got = await client.post(self.endpoint.base_url, json=asked)
        if got.status_code != 200:
            raise ModelError(got.text, again=True, status=got.status_code)
        read = openai.read_completion(self.endpoint, got.content, "json_schema")
        return Reply(
            text=read.text,
            stop=read.stop,
            structure="json_schema",
            raw=got.content,
            headers=dict(got.headers),
        )


class Packed(Naive):
    async def complete(self, request: Request) -> Reply:
        headers = {"accept-encoding": "gzip"}
        async with (
            httpx2.AsyncClient(headers=headers) as client,
            client.stream("POST", self.endpoint.base_url, json={}) as got,
        ):
            raw = b"".join([chunk async for chunk in got.aiter_raw()])
        return Reply(text=raw.decode(), stop="end", structure="json_schema")


@pytest.mark.parametrize(
    ("careless", "rule", "said"),
    [
        (Renamed, "is_called_as_it_was_opened", "name is 'model-1'"),
        (Tidied, "keeps_everything_that_came", "raw is not the body"),
        (Tidied, "keeps_everything_that_came", "usage is None"),
        (Tidied, "keeps_everything_that_came", "as the model wrote it"),
        (Turned, "asks_in_the_order_that_is_cached", "send all, in order"),
        (Stubborn, "asks_once", "2 requests for one question (status 500)"),
        (Content, "says_why_the_model_stopped", "stop is 'end'; expected 'refusal'"),
        (Believing, "hands_on_what_does_not_fit", "believing is not its business"),
        (Untyped, "says_whether_to_ask_again", "status 400 gives RuntimeError"),
        (Hopeless, "says_whether_to_ask_again", "status 429 gives again=False"),
        (Hopeless, "tells_what_is_no_reply", "a web page gives ModelError(again=False"),
        (Untyped, "tells_that_nobody_listens", "a server that is gone gives RuntimeError"),
        (Naive, "reads_up_to_a_cap", "bytes under status 200, packed give a reply"),
        (Naive, "follows_no_redirect", "with its key"),
        (Naive, "keeps_its_key", "an error repeats the key"),
        (Naive, "keeps_its_key", "the headers of a reply hold the key"),
        (Telling, "keeps_its_key", "the repr of the model"),
        (Packed, "unpacks", "packed by gzip gives UnicodeDecodeError"),
        (Patient, "can_be_given_up", "let CancelledError pass"),
        (Single, "asks_many_at_once", "1 were asked"),
        (Homesick, "works_on_another_loop", "a second event loop gives RuntimeError"),
    ],
)
def test_a_careless_model_breaks_the_rule(careless: Opener, rule: str, said: str) -> None:
    [check] = [one for one in RULES if one.__name__ == rule]
    with serve_replies() as server:
        lines = list(check(ModelSubject(careless, model_check_openai, server)))
    assert any(said in line for line in lines), lines


def test_each_rule_has_a_careless_model() -> None:
    [mark] = test_a_careless_model_breaks_the_rule.pytestmark  # type: ignore[attr-defined]
    assert {rule for _, rule, _ in mark.args[1]} == {rule.__name__ for rule in RULES}


def test_what_is_broken_is_told_in_lines_that_name_the_opener() -> None:
    def renamed(endpoint: Endpoint) -> Model:
        return Renamed(endpoint)

    with pytest.raises(ModelFault, match=r"^renamed: is_called_as_it_was_opened: name is") as told:
        check_model(renamed)
    assert len(str(told.value).splitlines()) == 1


def test_a_protocol_of_one_s_own_is_a_function() -> None:
    def wire(situation: str, text: str) -> bytes | None:
        return None if situation == "filter" else WIRES["openai"]("answer", text)

    with pytest.raises(ModelFault) as told:
        check_model("openai", wire)
    assert {line.split(": ")[1] for line in str(told.value).splitlines()} == {
        "says_why_the_model_stopped"
    }


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(UsageError, match="no protocol 'morse'; known: anthropic, openai"):
        check_model("openai", "morse")


def test_a_model_is_not_what_opens_one(tmp_path: Path) -> None:
    path = tmp_path / "own_model.py"
    path.write_text("class Model:\n    name = 'a/b'\nMODEL = Model()\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="name the function"):
        check_model(f"{path}:MODEL")
