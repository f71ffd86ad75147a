"""Both adapters, over the real SDKs, against a server that speaks their protocols badly."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import msgspec
import pytest

from stepscope.errors import ModelError
from stepscope.model import Reply, Stop, Structure
from stepscope.models.retry import RetryPolicy
from tests.faults.providers import serving
from tests.faults.script import Fault, Script
from tests.models.scripted import (
    IMAGES,
    KEY,
    REQUEST,
    Protocol,
    ask,
    fault_of,
    model_at,
    run,
)


async def never(seconds: float) -> None:
    raise AssertionError(f"waits {seconds} s")


def ignore(number: int, error: ModelError | None) -> None:
    pass


ROOT = Path(__file__).resolve().parents[2]
BOTH: tuple[Protocol, ...] = ("openai", "anthropic")


@pytest.mark.parametrize("protocol", BOTH)
def test_everything_that_came_is_kept(protocol: Protocol) -> None:
    with serving(Script(always=Fault(snapshot="tiny-2026-01-01"))) as provider:
        reply = ask(model_at(provider, protocol))
    assert reply.text in {'{"label": "correct"}', '{"label": "incorrect"}'}
    assert reply.stop == "end"
    assert reply.structure == "json_schema"
    assert reply.model == "tiny-2026-01-01"
    assert reply.request_id == "req_scripted"
    assert b"tiny-2026-01-01" in reply.raw
    assert 0 < reply.seconds < 60
    assert reply.usage is not None
    assert reply.usage.input_total
    assert reply.usage.output_total


@pytest.mark.parametrize("protocol", BOTH)
def test_one_question_is_one_request(protocol: Protocol) -> None:
    with serving(Script(always=Fault(status=503))) as provider:
        fault_of(model_at(provider, protocol))
        assert len(provider.asked) == 1


@pytest.mark.parametrize("protocol", BOTH)
def test_images_are_sent_and_the_reply_is_read_as_ever(protocol: Protocol) -> None:
    seen = msgspec.structs.replace(REQUEST, media=IMAGES)
    with serving() as provider:
        plain, reply = (ask(model_at(provider, protocol), one) for one in (REQUEST, seen))
        without, sent = (asked.body for asked in provider.asked)
    assert (plain.stop, reply.stop) == ("end", "end")
    for image in IMAGES:
        assert image.data.encode() in sent
        assert image.data.encode() not in without


@pytest.mark.parametrize("protocol", BOTH)
def test_headers_are_kept_without_cookies_and_names_of_accounts(protocol: Protocol) -> None:
    told = {"set-cookie": "session=1", "retry-after": "3", "openai-organization": "acme"}
    with serving(Script(always=Fault(headers=told))) as provider:
        headers = ask(model_at(provider, protocol)).headers
    assert headers["retry-after"] == "3"
    assert any("ratelimit" in name for name in headers)
    assert not {"set-cookie", "openai-organization", "anthropic-organization-id"} & set(headers)


@pytest.mark.parametrize(
    ("protocol", "told", "stop"),
    [
        ("openai", "length", "length"),
        ("openai", "content_filter", "filter"),
        ("openai", "tool_calls", "tool"),
        ("openai", "error", "other"),
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "model_context_window_exceeded", "length"),
        ("anthropic", "refusal", "refusal"),
        ("anthropic", "tool_use", "tool"),
        ("anthropic", "pause_turn", "other"),
    ],
)
def test_why_a_model_stopped_is_told(protocol: Protocol, told: str, stop: Stop) -> None:
    with serving(Script(always=Fault(stop=told))) as provider:
        assert ask(model_at(provider, protocol)).stop == stop


@pytest.mark.parametrize("protocol", BOTH)
def test_a_refusal_is_one_whatever_else_is_said(protocol: Protocol) -> None:
    with serving(Script(always=Fault(refusal="I will not judge this."))) as provider:
        reply = ask(model_at(provider, protocol))
    assert reply.stop == "refusal"
    assert "I will not judge this." in reply.text


def test_a_question_that_the_filter_took_is_filtered_not_failed() -> None:
    body = '{"error": {"code": "content_filter", "message": "the prompt was filtered"}}'
    with serving(Script(always=Fault(status=400, body=body))) as provider:
        assert ask(model_at(provider, "openai")).stop == "filter"


@pytest.mark.parametrize("protocol", BOTH)
def test_tokens_that_are_not_told_are_none_not_zero(protocol: Protocol) -> None:
    with serving(Script(always=Fault(usage=False))) as provider:
        assert ask(model_at(provider, protocol)).usage is None


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        (
            {
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
                "retry-after": "Sat, 21 Nov 2026 10:00:30 GMT",
            },
            30.0,
        ),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s"}, 90.0),
    ],
)
def test_a_429_says_when_to_ask_again(
    protocol: Protocol, headers: dict[str, str], after: float
) -> None:
    with serving(Script(always=Fault(status=429, headers=headers))) as provider:
        error = fault_of(model_at(provider, protocol))
    assert (error.again, error.after, error.status) == (True, after, 429)


def test_a_moment_is_held_against_the_clock_of_the_server() -> None:
    headers = {
        "date": "Sat, 21 Nov 2026 10:00:00 GMT",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-11-21T10:00:12Z",
    }
    with serving(Script(always=Fault(status=429, headers=headers))) as provider:
        assert fault_of(model_at(provider, "anthropic")).after == 12.0


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize(
    ("status", "again"),
    [
        (400, False),
        (401, False),
        (402, False),
        (403, False),
        (404, False),
        (408, True),
        (409, True),
        (413, False),
        (429, True),
        (500, True),
        (503, True),
        (529, True),
    ],
)
def test_a_status_says_whether_asking_again_may_help(
    protocol: Protocol, status: int, again: bool
) -> None:
    with serving(Script(always=Fault(status=status))) as provider:
        error = fault_of(model_at(provider, protocol))
    assert (error.again, error.status, error.reached) == (again, status, True)
    assert str(error).startswith(f"local/claude-tiny: {status}: scripted")


@pytest.mark.parametrize(("said", "again"), [("true", True), ("false", False)])
def test_what_the_server_says_about_asking_again_goes_before_its_status(
    said: str, again: bool
) -> None:
    status = 400 if again else 500
    fault = Fault(status=status, headers={"x-should-retry": said})
    with serving(Script(always=fault)) as provider:
        assert fault_of(model_at(provider, "openai")).again is again


def test_an_account_without_credit_is_not_asked_again() -> None:
    body = '{"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}}'
    with serving(Script(always=Fault(status=429, body=body))) as provider:
        error = fault_of(model_at(provider, "openai"))
    assert not error.again
    assert "no credit" in str(error)


@pytest.mark.parametrize(
    ("code", "status", "again"), [("429", 429, True), ("401", 401, False), ('"odd"', 502, True)]
)
def test_an_error_under_status_200_is_an_error(code: str, status: int, again: bool) -> None:
    body = f'{{"error": {{"code": {code}, "message": "the provider behind it failed"}}}}'
    with serving(Script(always=Fault(body=body))) as provider:
        error = fault_of(model_at(provider, "openai"))
    assert (error.status, error.again) == (status, again)
    assert "the provider behind it failed" in str(error)


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize(
    "fault",
    [
        Fault(reset="before"),
        Fault(reset="headers"),
        Fault(reset="body"),
        Fault(truncated=True),
        Fault(body="{"),
        Fault(body="[]"),
        Fault(body="<html>sign in</html>"),
        Fault(body="{}"),
        Fault(body='{"choices": [], "content": 7}'),
        Fault(body="[" * 100_000),
    ],
    ids=str,
)
def test_what_is_no_reply_of_the_protocol_may_be_asked_again(
    protocol: Protocol, fault: Fault
) -> None:
    with serving(Script(always=fault)) as provider:
        error = fault_of(model_at(provider, protocol))
    assert (error.again, error.reached) == (True, True)
    assert "\n" not in str(error)


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize(
    "fault",
    [
        Fault(padding=5 * 1024 * 1024),
        Fault(bomb=50_000_000),
        Fault(status=500, padding=5 * 1024 * 1024),
        Fault(status=500, bomb=50_000_000),
        Fault(headers={"content-encoding": "zstd"}),
    ],
    ids=str,
)
def test_a_reply_is_read_up_to_a_cap_packed_or_not(protocol: Protocol, fault: Fault) -> None:
    with serving(Script(always=fault)) as provider:
        error = fault_of(model_at(provider, protocol))
    assert not error.again
    assert "over 4 MiB" in str(error) or "zstd" in str(error)


@pytest.mark.parametrize("protocol", BOTH)
def test_a_packed_reply_is_unpacked(protocol: Protocol) -> None:
    with serving(Script(always=Fault(gzip=True))) as provider:
        assert ask(model_at(provider, protocol)).stop == "end"


@pytest.mark.parametrize("protocol", BOTH)
def test_nobody_listening_says_that_nothing_was_sent(protocol: Protocol) -> None:
    with serving() as provider:
        model = model_at(provider, protocol)
    error = fault_of(model)
    assert (error.again, error.reached) == (True, False)


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize("fault", [Fault(hang=True), Fault(drip=5.0)], ids=["hang", "drip"])
def test_a_call_can_be_given_up(protocol: Protocol, fault: Fault) -> None:
    async def given_up() -> float:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await model.complete(REQUEST)
        return time.monotonic() - began

    with serving(Script(first=(fault,))) as provider:
        model = model_at(provider, protocol)
        assert run(given_up(), model) < 20


@pytest.mark.parametrize("protocol", BOTH)
def test_a_model_is_asked_on_another_loop_after_the_first_has_ended(protocol: Protocol) -> None:
    with serving() as provider:
        model = model_at(provider, protocol)
        assert ask(model).text == ask(model).text


@pytest.mark.filterwarnings("ignore")  # what was not closed is told by aiohttp
@pytest.mark.parametrize("protocol", BOTH)
def test_connections_of_a_loop_that_has_ended_are_not_used(protocol: Protocol) -> None:
    with serving() as provider:
        model = model_at(provider, protocol)
        first = asyncio.run(model.complete(REQUEST))
        assert ask(model).text == first.text
        del model
        gc.collect()


@pytest.mark.parametrize("protocol", BOTH)
def test_connections_are_reused_and_many_are_open_at_once(protocol: Protocol) -> None:
    async def many() -> None:
        await asyncio.gather(*[model.complete(REQUEST) for _ in range(40)])

    with serving(Script(always=Fault(delay=0.6))) as provider:
        model = model_at(provider, protocol)
        run(many(), model)
        assert provider.most_in_flight == 40


# Keys


@pytest.mark.parametrize("protocol", BOTH)
def test_a_key_is_sent_and_never_told(protocol: Protocol) -> None:
    with serving(Script(always=Fault(status=401, message="wrong key {key}"))) as provider:
        model = model_at(provider, protocol, key=KEY)
        error = fault_of(model)
        assert KEY in str(provider.asked[0].headers)
    assert KEY not in f"{error} {error!r} {error.__cause__} {vars(model)} {model!r}"
    assert "***" in str(error)


@pytest.mark.parametrize("protocol", BOTH)
def test_a_key_that_a_reply_repeats_is_not_kept(protocol: Protocol) -> None:
    with serving(Script(always=Fault(snapshot=KEY))) as provider:
        reply = ask(model_at(provider, protocol, key=KEY))
    assert KEY.encode() not in reply.raw
    assert KEY not in str(reply)


@pytest.mark.parametrize("protocol", BOTH)
def test_variables_that_the_sdk_would_read_send_nothing_elsewhere(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, KEY)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, KEY)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving() as provider:
        ask(model_at(provider, protocol))
        assert KEY not in str(provider.asked[0].headers)


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(protocol: Protocol, status: int) -> None:
    with serving() as elsewhere:
        away = {"location": f"{elsewhere.openai}/chat/completions"}
        with serving(Script(always=Fault(status=status, headers=away))) as provider:
            error = fault_of(model_at(provider, protocol, key=KEY))
        assert elsewhere.asked == []
    assert (error.again, error.status) == (False, status)
    assert "base_url" in str(error)


# Structured output


@pytest.mark.parametrize(
    ("protocol", "known", "used"),
    [
        ("openai", ("json_object_schema",), "json_object_schema"),
        ("openai", ("forced_tool",), "forced_tool"),
        ("openai", ("prompt_only",), "prompt_only"),
        ("anthropic", ("forced_tool",), "forced_tool"),
        ("anthropic", ("prompt_only",), "prompt_only"),
    ],
)
def test_an_endpoint_is_asked_in_the_way_that_it_takes_and_that_is_remembered(
    protocol: Protocol, known: tuple[Structure, ...], used: Structure
) -> None:
    async def asked() -> Reply:
        # A form that is not taken is worth asking again at once: this waits for nothing.
        return await RetryPolicy(Random(0), sleep=never).complete(model, REQUEST, before=ignore)

    with serving(Script(structures=known)) as provider:
        model = model_at(provider, protocol)
        assert run(asked(), model).structure == used
        before = len(provider.asked)
        reply = ask(model)
        assert len(provider.asked) == before + 1
    assert reply.structure == used
    assert "label" in reply.text


def test_a_server_error_that_names_the_form_falls_too() -> None:
    words = "Input should be 'text' or 'json_object'"
    with serving(Script(first=(Fault(status=500, message=words),))) as provider:
        assert fault_of(model_at(provider, "openai")).after == 0.0


@pytest.mark.parametrize(
    "words",
    ["maximum context length is 8192 tokens, of them 900 in the schema", "no such model"],
)
def test_another_error_does_not_change_the_form(words: str) -> None:
    with serving(Script(first=(Fault(status=400, message=words),))) as provider:
        model = model_at(provider, "openai")
        assert not fault_of(model).again
        assert ask(model).structure == "json_schema"


def test_a_form_that_was_configured_is_not_changed() -> None:
    with serving(Script(structures=("prompt_only",))) as provider:
        error = fault_of(model_at(provider, "openai", structure="json_schema"))
    assert (error.again, error.status) == (False, 400)


@pytest.mark.parametrize("structure", ["json_schema", "json_object_schema", "forced_tool"])
def test_text_beside_the_schema_is_handed_on_as_it_came(structure: str) -> None:
    with serving(Script(always=Fault(text="the verdict is: correct"))) as provider:
        reply = ask(model_at(provider, "openai", structure=structure))
    assert reply.text == "the verdict is: correct"


@pytest.mark.parametrize("protocol", BOTH)
def test_offline_nothing_is_asked_and_nothing_is_tried_again(protocol: Protocol) -> None:
    code = f"""
import asyncio
from stepscope.errors import EnvironmentFault
from stepscope.models.configured import JudgesTable, JudgeTable
from stepscope.models.opening import close_models, open_model
from stepscope.safety.offline import refuse_network
from tests.models.scripted import REQUEST
async def asked():
    async with close_models([model]):
        await model.complete(REQUEST)
table = JudgeTable(protocol={protocol!r}, base_url="http://10.255.255.1:1/v1")
model = open_model("far/away", JudgesTable(model={{"far/away": table}}), keys={{}})
refuse_network()
try:
    asyncio.run(asked())
except EnvironmentFault as e:
    print(type(e).__name__, e)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.startswith("EnvironmentFault offline: refused to connect to '10.255.255.1'")
