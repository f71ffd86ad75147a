"""Ten real exports of Langfuse against the chats that Langfuse itself reads in them.

Beside each export stands, for every observation, what its input and its output are as chat
messages, or that they are none. What is compared, for every side that is a chat:

- every message with a role: its text (parts joined, or the text that its `json` keeps) and each of
  its calls by name and arguments are said in the run by the actor of that role, each in a place of
  its own; but for results, whose order is the clock's, in the same order;
- the names of all tools offered are among the run's tools.

A message without a role is no message; a text that is a written list of calls is those calls; JSON
equals JSON however it is written. Two readings differ on purpose: see `_ELSEWHERE` and `_inner`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.formats.langfuse_files import FORMAT
from stepscope.model import Trajectory
from tests.formats.reading import run_of

pytestmark = pytest.mark.shared_data

_ACTORS = {
    "system": "system",
    "user": "user",
    "assistant": "agent",
    "model": "agent",
    "tool": "environment",
}
# Gemini files a function's response under the user; to us a tool says it.
_ELSEWHERE = {("google-adk-2025-08-28", "bded677884f031ce", "input", 3): "environment"}

Unit = tuple[str, str]


def _canonical(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True) if text[:1] in "[{" else text
    except ValueError:
        return text


def _call(name: str, arguments: Any) -> str:
    held = json.loads(arguments) if isinstance(arguments, str) else arguments
    return f"call {name} {json.dumps(held, sort_keys=True)}"


def _inner(text: str) -> str:
    """Out of Microsoft's wrapping: the tool's own observation gives the plain result."""
    held = json.loads(text) if text.startswith('{"type": "function_result"') else {"result": text}
    return str(held["result"])


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if content is None:
        held = message.get("json", {})
        content = held.get("text", "") if isinstance(held, dict) else ""
    if isinstance(content, list) and all(isinstance(part.get("text"), str) for part in content):
        return "\n".join(part["text"] for part in content)
    return _inner(content) if isinstance(content, str) else json.dumps(content)


def _expected(message: dict[str, Any], actor: str) -> list[Unit]:
    text = _text(message)
    written = json.loads(text) if text.startswith('[{"function":') else None
    units = [(actor, _canonical(text))] if text and written is None else []
    listed = [entry["function"] for entry in written or []] + list(message.get("tool_calls", []))
    return units + [("agent", _call(call["name"], call["arguments"])) for call in listed]


def _said(run: Trajectory) -> list[Unit]:
    units: list[Unit] = []
    for step in run.steps:
        if step.text:
            units.append((step.actor, _canonical(step.text)))
        units += [("agent", _call(call.name, call.arguments)) for call in step.calls]
        units += [("environment", _canonical(result.text)) for result in step.results]
    return units


def _missing(expected: list[Unit], said: list[Unit]) -> list[Unit]:
    """What is expected and not said, or not in its order."""
    left = list(said)
    missing: list[Unit] = []
    for unit in expected:
        if unit in left:
            left.remove(unit)
        else:
            missing.append(unit)
    rest = iter(said)
    for unit in [unit for unit in expected if unit[0] != "environment" and unit not in missing]:
        if unit not in rest:
            missing.append(("not in order", unit[1]))
    return missing


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("agno-2025-06-11", 2),
        ("beeai-2025-08-01", 24),
        ("crewai-2025-07-11", 2),
        ("google-adk-2025-08-28", 11),
        ("koog-2025-08-26", 11),
        ("langgraph-python-2025-08-22", 29),
        ("microsoft-agent-2025-12-17", 9),
        ("pydantic-ai-2025-06-06", 5),
        ("pydantic-ai-tools-2025-12-04", 22),
        ("vercel-aisdk-2025-11-17", 3),
    ],
)
def test_a_run_says_all_that_langfuse_reads_as_chat(shared: Path, name: str, compared: int) -> None:
    folder = shared / "formats" / "langfuse"
    run = run_of(FORMAT, (folder / f"{name}.trace.json").read_bytes())
    chats = json.loads((folder / f"{name}.chatml.json").read_text("utf-8"))
    said, tools = _said(run), {tool.name for tool in run.tools or ()}
    seen = 0
    for observation, sides in chats.items():
        for side, chat in sides.items():
            expected: list[Unit] = []
            for at, message in enumerate(chat.get("data", ()) if chat["success"] else ()):
                offered = {tool["name"] for tool in message.get("tools", ())}
                assert offered <= tools, (observation, side, at)
                if "role" not in message:
                    continue
                seen += 1
                actor = _ELSEWHERE.get((name, observation, side, at), _ACTORS[message["role"]])
                expected += _expected(message, actor)
            assert _missing(expected, said) == [], (observation, side)
    assert seen == compared


def test_every_observation_stands_in_the_run_as_it_was(shared: Path) -> None:
    for file in sorted((shared / "formats" / "langfuse").glob("*.trace.json")):
        run = run_of(FORMAT, file.read_bytes())
        held = {span.id: span for span in run.spans}
        observations = json.loads(file.read_text("utf-8"))["observations"]
        assert len(held) == len(observations), file.name
        for record in observations:
            about = held[record["id"]].attributes or {}
            for side in ("input", "output"):
                assert about.get(f"langfuse.observation.{side}") == record[side], file.name
