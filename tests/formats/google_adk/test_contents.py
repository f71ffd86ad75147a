"""Contents of the Gemini API, however they are wrapped."""

from __future__ import annotations

import pytest

from stepscope.formats.google_adk.contents import FORMAT
from stepscope.model import Json
from tests.formats.reading import lines, read, refused, run_of, written

ASK = {"role": "user", "parts": [{"text": "Where is order 12?"}]}
CALL = {"role": "model", "parts": [
    {"functionCall": {"name": "get_order", "args": {"id": 12}}},
    {"functionCall": {"name": "get_order", "args": {"id": 13}}},
]}  # fmt: skip
SNAKE = {"role": "model", "parts": [
    {"function_call": {"name": "get_order", "args": {"id": 12}}},
    {"function_call": {"name": "get_order", "args": {"id": 13}}},
]}  # fmt: skip
TOLD = {"role": "user", "parts": [
    {"functionResponse": {"name": "get_order", "response": {"error": "no such order"}}},
    {"functionResponse": {"name": "get_order", "response": {"result": "shipped"}}},
]}  # fmt: skip
SAYS = {"role": "model", "parts": [{"text": "13 is on its way."}]}
CHAT = [ASK, CALL, TOLD, SAYS]
RESPONSE = {
    "candidates": [{"content": SAYS, "finishReason": "STOP", "safetyRatings": [1]}],
    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 2},
    "modelVersion": "gemini-2.5-pro",
    "responseId": "r1",
}
RECORDED = {"request": {"contents": CHAT[:3], "model": "gemini"}, "response": RESPONSE}


@pytest.mark.parametrize(
    "file",
    [
        CHAT, [CHAT], lines(*CHAT), {"contents": CHAT}, [{"contents": CHAT}], RECORDED,
        [ASK, SNAKE, TOLD, SAYS],
    ],
    ids=["array", "list of lists", "lines", "object", "list of objects", "recorded", "snake case"],
)  # fmt: skip
def test_however_contents_are_wrapped_they_are_one_run(file: Json) -> None:
    assert FORMAT.sniff(written(file)) > 0.9
    run = run_of(FORMAT, file)
    assert [(s.actor, s.kind) for s in run.steps] == [
        ("user", "message"), ("agent", "call"), ("environment", "result"), ("agent", "message"),
    ]  # fmt: skip
    assert [(x.call.arguments, x.failed) for x in run.exchanges] == [
        ({"id": 12}, True), ({"id": 13}, False),
    ]  # fmt: skip


def test_a_response_has_tokens_model_and_its_own_id() -> None:
    run = run_of(FORMAT, RECORDED)
    last = run.steps[-1]
    assert (last.model, last.finish_reason) == ("gemini-2.5-pro", "STOP")
    assert last.usage is not None
    assert (last.usage.input_total, last.usage.output_total, last.usage.reasoning) == (9, 6, 2)
    assert (run.source.run_id, last.extra) == ("r1", {"safety_ratings": [1]})


def test_the_system_instruction_and_the_tools_are_those_of_the_run() -> None:
    tools = [{"functionDeclarations": [{"name": "get_order"}]}, {"googleSearch": {}}]
    for system in ("Be kind.", {"parts": [{"text": "Be kind."}]}):
        request = {"systemInstruction": system, "tools": tools}
        run = run_of(FORMAT, {"contents": [ASK], **request, "task": "t", "reward": 1})
        assert (run.steps[0].actor, run.steps[0].text) == ("system", "Be kind.")
        assert [tool.name for tool in run.tools or ()] == ["get_order"]
        assert (run.task, run.outcome.status) == ("t", "pass")
        assert run.extra == {"tools": [{"google_search": {}}]}


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ({"contents": 3}, "content 0 needs a `role`"),
        ({"contents": []}, "without a single content"),
        ({"contents": [{"role": "wizard", "parts": []}]}, "content 0 needs a `role` among user"),
        ({"contents": [{"role": "user", "parts": [3]}]}, "needs objects as `parts`"),
        ({"request": {}, "response": {"candidates": []}}, "without a content"),
        ({"request": 3, "response": RESPONSE}, "`request` is '3'"),
    ],
)
def test_what_is_no_content_is_set_aside_with_one_line(file: Json, reason: str) -> None:
    assert reason in refused(FORMAT, file).reason


@pytest.mark.parametrize(
    "file",
    [
        [{"role": "user", "content": "hi"}],
        [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
        [{"role": "agent", "parts": [{"text": "hi"}]}],
        {"contents": [3]},
        {"contents": "x"},
        {"candidates": [{"name": "ann"}]},
    ],
)
def test_other_lists_with_parts_are_no_contents(file: Json) -> None:
    assert FORMAT.sniff(written(file)) == 0


def test_a_content_that_is_none_costs_the_others_nothing() -> None:
    bad, run = read(FORMAT, lines(ASK, {"role": "user", "parts": 3}, SAYS))
    assert "needs a list under `parts`" in getattr(bad, "reason", "")
    assert len(getattr(run, "steps", ())) == 2


@pytest.mark.parametrize(
    "parts", [[{"futurePart": {"a": 1}}], [{"text": "hi"}, {"futurePart": 1}], [{}]]
)
def test_parts_of_kinds_to_come_are_kept_also_at_the_beginning(parts: Json) -> None:
    assert FORMAT.sniff(written({"contents": [{"role": "user", "parts": parts}]})) > 0.9
    run = run_of(FORMAT, [{"role": "user", "parts": parts}, SAYS])
    assert run.steps[-1].text == "13 is on its way."


@pytest.mark.parametrize(
    "one", [{"parts": [{}]}, {"role": "user", "parts": []}, {"role": "user", "parts": ["a"]},
            {"role": "bot", "parts": [{"text": "a"}]}],
)  # fmt: skip
def test_what_only_has_parts_is_no_content(one: Json) -> None:
    assert FORMAT.sniff(written({"contents": [one]})) == 0
