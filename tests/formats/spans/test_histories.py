from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.formats.spans.messages import read_messages
from stepscope.model import Actor, Json
from stepscope.safety.limits import Limits

LIMITS = Limits()
LONG = "x" * 600  # a text long enough to be remembered
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "tool", "system"]),
        "content": st.sampled_from(["", "a", LONG, 'q"],', "]", [{"type": "text", "text": "t"}]]),
    },
    optional={"tool_call_id": st.sampled_from(["c1", "c2"]), "odd": st.none() | st.integers(-9, 9)},
)
separators = st.sampled_from([(",", ":"), (", ", ": "), (",\n", " : ")])


@given(st.lists(messages, max_size=6), st.data(), separators)
def test_a_history_that_grew_says_what_it_says_read_whole(
    told: list[Json], data: st.DataObject, signs: tuple[str, str]
) -> None:
    opening = {"role": "system", "content": LONG}
    for end in sorted(data.draw(st.lists(st.integers(0, len(told)), max_size=4))):
        history = [opening, *told[:end]]
        actor: Actor = data.draw(st.sampled_from(["user", "agent"]))
        assert read_messages(json.dumps(history, separators=signs), actor, LIMITS) == read_messages(
            history, actor, LIMITS
        )


@pytest.mark.parametrize("tail", ["]", ",]", " ]", ',"a"]', ",{}]", ",[]]", "}]", ", 1]", ",{]"])
def test_what_does_not_go_on_as_a_list_of_messages_is_read_whole(tail: str) -> None:
    whole = json.dumps([{"role": "user", "content": LONG}])
    read_messages(whole, "user", LIMITS)
    text = whole[:-1] + tail
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    expected = None if value is None else read_messages(value, "user", LIMITS)
    found = read_messages(text, "user", LIMITS)
    if expected is None or not all(isinstance(entry, dict | list) for entry in value):
        assert [message.parts[0].text for message in found] == [text]
    else:
        assert found == expected


def test_limits_and_actor_are_part_of_what_is_remembered() -> None:
    text = json.dumps([{"content": LONG, "type": "text"}])
    assert {read_messages(text, actor, LIMITS)[0].actor for actor in ("user", "agent")} == {
        "user",
        "agent",
    }
    cut = read_messages(text, "user", Limits(text_bytes=400))
    assert "[truncated: 600 bytes" in (cut[0].parts[0].text or "")
