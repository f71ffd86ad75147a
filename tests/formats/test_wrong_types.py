"""Records with anything in the wrong place: a run or a quarantined record, never an exception."""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Iterator

import msgspec
import pytest

from stepscope import registry
from stepscope.formats import atif
from stepscope.model import Json, Quarantined, Stream, Trajectory
from tests.formats import test_agentrx as agentrx
from tests.formats import test_claude_code as claude
from tests.formats import test_langfuse as langfuse
from tests.formats import test_mini_swe_agent as mini
from tests.formats import test_mlflow as mlflow
from tests.formats import test_openai_agents as agents
from tests.formats import test_swe_agent as swe
from tests.formats import test_tau2 as tau2
from tests.formats import test_tau_bench
from tests.formats import test_whowhen as whowhen
from tests.formats.atif import test_atif
from tests.formats.chat import test_anthropic as anthropic
from tests.formats.chat import test_histories as histories
from tests.formats.chat import test_langchain as langchain
from tests.formats.chat import test_openai as openai
from tests.formats.chat import test_responses as responses
from tests.formats.google_adk import test_contents as contents
from tests.formats.google_adk import test_google_adk as adk
from tests.formats.inspect import made as inspect
from tests.formats.langsmith_runs import ROUNDS, entries
from tests.formats.openhands import test_openhands as openhands
from tests.formats.reading import lines, written
from tests.formats.spans import spoiling

JUNK: tuple[Json, ...] = (
    None, True, 0, -1, 3.5, 2**70, "", "x", "9" * 30, [], {}, [None], [[[]]], {"a": 1},
    {"type": "text"}, {"role": "user"},
)  # fmt: skip
KEYS = ("extra", "type", "id", "stepscope", "content", "usage", "role")
TRIES = 120

SIDE = {"isSidechain": True, "agentId": "ag"}
SESSION = [
    claude.line("user", "go", "a"),
    claude.line("assistant", [claude.use("t")], "bb", "a", message=claude.of_message("m", 9, 1)),
    claude.line("user", "sub", "ccc", None, **SIDE),
    claude.line("user", [claude.result("t")], "dddd", "bb", toolUseResult={"agentId": "ag"}),
    {"type": "result", "total_cost_usd": 1, "usage": {"input_tokens": 3}, "session_id": "s"},
]
TAU = [test_tau_bench.record(test_tau_bench.call("f"), test_tau_bench.answer("Error: x"))]
SEEDS: list[tuple[str, Json]] = [
    ("tau_bench", TAU),
    ("langfuse", langfuse.WHOLE),
    ("mlflow", mlflow.TRACE),
    ("openai_messages", openai.CHAT),
    ("openai_messages", {"messages": openai.CHAT, "tools": [{"function": {"name": "x"}}]}),
    ("openai_messages", {"request": {"messages": openai.CHAT}, "response": openai.COMPLETION}),
    ("chat_history", histories.GROUP),
    ("chat_history", {"history": histories.MAGENTIC, "task": "t"}),
    ("gemini_contents", contents.RECORDED),
    ("gemini_contents", contents.CHAT),
    ("google_adk", adk.SESSION),
    ("google_adk", adk.LEGACY),
    ("google_adk", adk.RESULT),
    ("openhands", openhands.TRAJECTORY),
    ("openhands", openhands.EVENTS),
    ("openai_agents", agents.SPANS),
    ("openai_agents", agents.STATE),
    ("openai_agents", agents.exports("error.jsonl")),
    ("openai_responses", responses.ITEMS),
    ("openai_responses", [responses.FIRST, responses.SECOND]),
    ("openai_responses", {"input": responses.PROVIDED, "output": responses.PROVIDED}),
    ("anthropic_messages", anthropic.CHAT),
    (
        "anthropic_messages",
        {"request": {"messages": anthropic.CHAT}, "response": anthropic.RESPONSE},
    ),
    ("atif", {**test_atif.ATIF, "subagent_trajectories": [test_atif.ATIF]}),
    ("whowhen", whowhen.GENERATED),
    ("whowhen", whowhen.CRAFTED),
    ("agentrx_labels", [agentrx.LABELLED]),
    ("claude_code", SESSION),
    ("swe_agent", swe.RUN),
    ("mini_swe_agent", mini.RUN),
    ("mini_swe_agent", mini.LIST),
    ("tau2", tau2.RESULTS),
    ("tau2", tau2.SIMULATION),
    ("inspect_ai", inspect.LOG),
    ("inspect_ai", inspect.AGENTS),
    ("spans", spoiling.FLAT),
    ("otlp", spoiling.OTLP),
    ("langsmith", ROUNDS),
    ("langsmith", entries("openai.jsonl")),
    ("langsmith", {"post": ROUNDS[:2], "patch": ROUNDS[2:]}),
    ("langchain_messages", langchain.PLAIN),
    ("langchain_messages", {"values": {"messages": langchain.FORMS["lc"]}, "thread_id": "t"}),
]


def places(value: Json, path: tuple[Json, ...] = ()) -> Iterator[tuple[Json, ...]]:
    """The way to every value within a value."""
    keys = range(len(value)) if isinstance(value, list) else value
    for key in keys if isinstance(value, dict | list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


def spoilt(value: Json, rng: random.Random) -> Json:
    """The value with one thing of another type, missing or beside the point."""
    value = copy.deepcopy(value)
    *way, last = rng.choice(list(places(value)))
    holder = value
    for key in way:
        holder = holder[key]
    chance = rng.random()
    if chance < 0.7:
        holder[last] = copy.deepcopy(rng.choice(JUNK))
    elif chance < 0.85:
        del holder[last]
    elif isinstance(holder, dict):
        holder[rng.choice(KEYS)] = copy.deepcopy(rng.choice(JUNK))
    else:
        holder.insert(0, copy.deepcopy(rng.choice(JUNK)))
    return value


@pytest.mark.parametrize(("name", "seed"), SEEDS)
def test_whatever_stands_in_the_wrong_place_is_a_run_or_quarantined(name: str, seed: Json) -> None:
    rng = random.Random(f"{name} {len(written(seed))}")
    for _ in range(TRIES):
        value = spoilt(seed, rng)
        file = lines(*value) if name == "claude_code" else written(value)
        for form in registry.installed_formats():
            assert 0 <= form.sniff(file) <= 1
        for found in registry.format(name).read(Stream(io.BytesIO(file), "f.json")):
            if isinstance(found, Quarantined):
                assert "\n" not in found.reason
                continue
            assert [step.index for step in found.steps] == list(range(len(found.steps)))
            assert msgspec.json.decode(msgspec.json.encode(found), type=Trajectory) == found
            assert_comes_back_from_atif(found)


def assert_comes_back_from_atif(run: Trajectory) -> None:
    file = io.BytesIO()
    atif.write([run], file)
    (back,) = atif.FORMAT.read(Stream(io.BytesIO(file.getvalue()), "f.json"))
    assert isinstance(back, Trajectory), back
    assert (back.id, back.steps) == (run.id, run.steps)
