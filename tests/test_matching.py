from __future__ import annotations

import json

import pytest

import stepscope
from stepscope.errors import TraceError, UsageError
from stepscope.formats.chat.messages import CallMessage, message_calls
from stepscope.model import Json, ReferenceCall


def says(*calls: tuple[str, Json]) -> list[dict[str, Json]]:
    """A chat whose second message makes the calls."""
    made = [
        {"id": str(at), "function": {"name": n, "arguments": a}} for at, (n, a) in enumerate(calls)
    ]
    return [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": made}]


RUN = says(("find", '{"id": 7}'), ("cancel", '{"id": 7}'))
WANTED = [ReferenceCall("cancel", {"id": 7}), ReferenceCall("find", {"id": 7})]


@pytest.mark.parametrize(
    ("mode", "matched"),
    [("strict", False), ("unordered", True), ("in_order", False), ("superset", True)],
)
def test_messages_match_a_reference_as_the_measure_does(mode: str, matched: bool) -> None:
    assert stepscope.match(RUN, WANTED, mode=mode).matched is matched  # type: ignore[arg-type]


def test_dictionaries_bytes_and_messages_are_the_same_run() -> None:
    raw = json.dumps(RUN).encode()
    typed = [CallMessage(), *_decoded(raw)[1:]]
    assert message_calls(RUN) == message_calls(raw) == message_calls(typed)
    assert [call.arguments for call in message_calls(raw)] == [{"id": 7}, {"id": 7}]


def _decoded(raw: bytes) -> list[CallMessage]:
    import msgspec

    return msgspec.json.decode(raw, type=list[CallMessage])


@pytest.mark.parametrize("reference", [RUN, json.dumps(RUN).encode()])
def test_a_reference_may_be_messages_too(reference: list[dict[str, Json]] | bytes) -> None:
    assert stepscope.match(RUN, reference, mode="strict").matched
    assert not stepscope.match(RUN[:1], reference, mode="strict").matched


def test_an_empty_reference_wants_no_call() -> None:
    assert stepscope.match(RUN[:1], [], mode="strict").matched
    assert not stepscope.match(RUN, [], mode="strict").matched


def test_arguments_that_are_no_json_are_data_and_match_nothing() -> None:
    broken = says(("find", '{"id": 7'))
    assert message_calls(broken)[0].parse_error is not None
    assert not stepscope.match(broken, [ReferenceCall("find", {"id": 7})]).matched
    assert stepscope.match(broken, [ReferenceCall("find", {"id": 7})], arguments="ignore").matched


@pytest.mark.parametrize(
    "messages",
    [
        b"{",
        b"3",
        [{"tool_calls": 3}],
        [{"tool_calls": [{"function": {"arguments": "{}"}}]}],
        ["hi"],
    ],
)
def test_another_shape_is_one_line(messages: list[dict[str, Json]] | bytes) -> None:
    with pytest.raises(TraceError, match="no chat messages with tool calls") as caught:
        message_calls(messages)
    assert "\n" not in str(caught.value)


def test_an_unknown_mode_is_named() -> None:
    with pytest.raises(UsageError, match="'loose'"):
        stepscope.match(RUN, WANTED, mode="loose")  # type: ignore[arg-type]


def test_names_alone_match_whatever_the_arguments() -> None:
    assert stepscope.match(RUN, ["find", "cancel"], mode="strict").matched
    assert not stepscope.match(RUN, ["cancel", "find"]).matched
    assert not stepscope.match(RUN, ["refund"]).matched


def test_names_and_pairs_may_stand_together() -> None:
    assert stepscope.match(RUN, ["find", ("cancel", {"id": 7})]).matched
    assert not stepscope.match(RUN, ["find", ("cancel", {"id": 8})]).matched


@pytest.mark.parametrize("item", [3, ("find",), ("find", 7), ("find", {}, 1), None])
def test_a_reference_of_something_else_is_one_line(item: Json) -> None:
    with pytest.raises(UsageError, match="call 1 of the reference is"):
        stepscope.match(RUN, ["find", item])


def test_an_object_that_holds_messages_is_read_on_both_sides() -> None:
    held = {"messages": says(("find", {"id": 7}))}
    assert stepscope.match(held, ["find"]).matched
    assert stepscope.match(held, held, mode="strict").matched
    assert not stepscope.match(held, {"messages": says(("cancel", {}))}).matched


@pytest.mark.parametrize("messages", [{}, {"messages": 7}, {"task": "x"}, ["\ud800"], 7, "find"])
def test_what_is_no_chat_is_refused_in_one_line(messages: Json) -> None:
    with pytest.raises(TraceError, match="no chat messages") as refused:
        stepscope.match(messages, ["find"])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("reference", ["find", 7, None])
def test_a_reference_that_is_no_list_is_refused(reference: Json) -> None:
    with pytest.raises(UsageError, match="expected a list of calls"):
        stepscope.match(says(("find", {})), reference)
