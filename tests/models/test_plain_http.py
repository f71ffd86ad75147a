"""Where aiohttp is not installed the SDKs send over httpx2, to the same end."""

from __future__ import annotations

import asyncio

import anthropic
import httpx2
import openai
import pytest

from stepscope.model import Endpoint
from stepscope.models import anthropic as anthropic_models
from stepscope.models import openai as openai_models
from stepscope.models.http import SdkModel, capped_client
from tests.faults.providers import Provider, serving
from tests.faults.script import Fault, Script
from tests.models.scripted import REQUEST, Protocol, ask, fault_of, run

BOTH: tuple[Protocol, ...] = ("openai", "anthropic")


def model_at(provider: Provider, protocol: Protocol) -> SdkModel:
    """Return a model whose SDK sends over httpx2."""
    sending: httpx2.AsyncClient = capped_client(None, loopback=True)
    if protocol == "openai":
        place = Endpoint(name="local/tiny", base_url=provider.openai)
        chat = openai.AsyncOpenAI(
            api_key="none", base_url=place.base_url, max_retries=0, http_client=sending
        )
        errors = (openai.APIStatusError, openai.APIConnectionError)
        return SdkModel(place, openai_models.CHAT_COMPLETIONS, lambda: chat, *errors)
    place = Endpoint(name="local/tiny", base_url=provider.anthropic)
    messages = anthropic.AsyncAnthropic(
        api_key="none", base_url=place.base_url, max_retries=0, http_client=sending
    )
    refused, broken = anthropic.APIStatusError, anthropic.APIConnectionError
    return SdkModel(place, anthropic_models.MESSAGES, lambda: messages, refused, broken)


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize("fault", [Fault(), Fault(gzip=True)], ids=["plain", "packed"])
def test_an_answer_is_read(protocol: Protocol, fault: Fault) -> None:
    with serving(Script(always=fault)) as provider:
        reply = ask(model_at(provider, protocol))
    assert reply.stop == "end"
    assert reply.raw


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize(
    ("fault", "again", "status"),
    [
        (Fault(padding=5 * 1024 * 1024), False, 200),
        (Fault(bomb=50_000_000), False, 200),
        (Fault(status=500, padding=5 * 1024 * 1024), False, 500),
        (Fault(status=429), True, 429),
        (Fault(status=302, headers={"location": "http://127.0.0.1:1/"}), False, 302),
        (Fault(reset="before"), True, None),
        (Fault(reset="body"), True, None),
        (Fault(truncated=True), True, None),
    ],
    ids=str,
)
def test_what_goes_wrong_is_told(
    protocol: Protocol, fault: Fault, again: bool, status: int | None
) -> None:
    with serving(Script(always=fault)) as provider:
        error = fault_of(model_at(provider, protocol))
    assert (error.again, error.status, error.reached) == (again, status, True)


@pytest.mark.parametrize("protocol", BOTH)
def test_nobody_listening_says_that_nothing_was_sent(protocol: Protocol) -> None:
    with serving() as provider:
        model = model_at(provider, protocol)
    error = fault_of(model)
    assert (error.again, error.reached) == (True, False)


@pytest.mark.parametrize("protocol", BOTH)
def test_a_call_can_be_given_up(protocol: Protocol) -> None:
    async def given_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await model.complete(REQUEST)

    with serving(Script(first=(Fault(hang=True),))) as provider:
        model = model_at(provider, protocol)
        run(given_up(), model)
