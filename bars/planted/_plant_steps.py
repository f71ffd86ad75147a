"""Steps as the recorders of runs write them: changed ones, messages, calls, and shell commands."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal

import msgspec

from bars.planted._plant_places import STOP, Site
from bars.planted.faults import with_arguments, with_text
from stepscope.model import Json, Part, Step, ToolCall, ToolResult, digest


def with_sentence(step: Step, sentence: str, template: int) -> Step:
    """Return the message saying one sentence more, where an agent would say it.

    Template 0: in a paragraph of its own, before a question that closes the message. Template 1:
    with the first paragraph, or before it where it announces a list.
    """
    paragraphs = step.text.strip().split("\n\n")
    if template == 0:
        last = paragraphs[-1]
        closing = (
            last.rstrip().endswith("?") or "feel free" in last or "let me know" in last.lower()
        )
        at = len(paragraphs) - 1 if closing and len(paragraphs) > 1 else len(paragraphs)
        paragraphs.insert(at, sentence)
    elif paragraphs[0].rstrip().endswith(":") or "\n" in paragraphs[0]:
        paragraphs.insert(0, sentence)
    else:
        paragraphs[0] = f"{paragraphs[0].rstrip()} {sentence}"
    return with_text(step, "\n\n".join(paragraphs))


def with_changed_text(step: Step, old: str, new: str) -> Step:
    """Return the message with every whole occurrence of a text replaced."""
    return with_text(
        step, re.sub(rf"(?<![\w.]){re.escape(old)}(?!\.?\w)", lambda _: new, step.text)
    )


def with_result_text(step: Step, old: ToolResult, text: str, *, failed: bool) -> Step:
    """Return the step with one result that says something else, an error or not."""
    status: Literal["ok", "error"] = "error" if failed else "ok"
    new = msgspec.structs.replace(
        old, parts=(Part("text", text),), structured=None, status=status, source="heuristic"
    )
    return msgspec.structs.replace(
        step, results=tuple(new if result is old else result for result in step.results)
    )


def with_changed_call(step: Step, call: ToolCall, arguments: Json) -> Step:
    """Return the step with one of its calls given other arguments."""
    changed = with_arguments(call, arguments)
    calls = tuple(changed if one is call else one for one in step.calls)
    return msgspec.structs.replace(step, calls=calls)


def renewed(steps: Iterable[Step], mark: str) -> list[Step]:
    """Return copies of a call and its result under ids of their own."""
    copies = []
    for step in steps:
        calls = tuple(
            msgspec.structs.replace(c, id=f"call_{digest([c.id, mark])}") for c in step.calls
        )
        results = tuple(
            msgspec.structs.replace(r, call_id=r.call_id and f"call_{digest([r.call_id, mark])}")
            for r in step.results
        )
        copies.append(msgspec.structs.replace(step, calls=calls, results=results, id=None))
    return copies


def spoken(
    site: Site, text: str, actor: Literal["agent", "user"] = "agent", *, done: bool = True
) -> Step:
    """Return a message in the manner of the run; `done` where its form says so of the task."""
    step = Step(index=0, actor=actor, parts=(Part("text", text),))
    if site.manner == "dialogue":
        last = [s for s in site.steps if s.actor == "agent"][-1]
        return msgspec.structs.replace(step, agent=last.agent, extra=last.extra)
    if actor == "agent" and _writes_json(site):
        return with_text(step, _as_json(text, [], done=done))
    return step


def _writes_json(site: Site) -> bool:
    return site.manner == "coding" and not site.run.exchanges


def _as_json(text: str, commands: Collection[str], *, done: bool) -> str:
    plan = "Run the command and look at its output." if commands else "As described."
    said = {
        "analysis": text,
        "plan": "Nothing further is needed." if done else plan,
        "commands": [{"keystrokes": f"{c}\n", "duration": 1.0} for c in commands],
        "task_complete": done,
    }
    return msgspec.json.format(msgspec.json.encode(said), indent=2).decode()


def called(name: str, arguments: Json, answer: str, *, failed: bool, mark: object) -> list[Step]:
    """Return a call of a service's tool and what it answered."""
    raw = msgspec.json.encode(arguments).decode()
    call = ToolCall(name, arguments, id=f"call_{digest([name, arguments, answer, mark])}", raw=raw)
    result = ToolResult(
        call_id=call.id,
        name=name,
        parts=(Part("text", answer),),
        status="error" if failed else "ok",
        source="heuristic",
    )
    return [
        Step(index=0, actor="agent", kind="call", calls=(call,)),
        Step(index=0, actor="environment", kind="result", results=(result,)),
    ]


def shell(site: Site, say: str, command: str, output: str, code: int) -> list[Step]:
    """Return the steps of a shell command, as the run's recorder writes them."""
    mark = digest([command, output, code, int(site.rng.integers(1 << 30))])
    if site.manner == "dialogue":
        asked = f"{say}\n\n```sh\n{command}\n```\n\nComputer_terminal, please run this."
        state = "failed" if code else "succeeded"
        return [
            spoken(site, asked),
            terminal(site, f"exitcode: {code} (execution {state})\nCode output: {output}\n", code),
        ]
    if _writes_json(site):
        prompt = f"root@CONTAINER_ID:/app# {command}; echo exit=$?"
        told = f"New Terminal Output:\n\n{prompt}\n{output}\nexit={code}\n"
        result = ToolResult(parts=(Part("text", told),))
        step = Step(index=0, actor="agent", parts=(Part("text", ""),), results=(result,))
        return [with_text(step, _as_json(say, [f"{command}; echo exit=$?"], done=False))]
    if site.run.source.format == "atif":
        # The tool wants the risk; the first two templates stay as they were.
        risk = {"security_risk": "LOW"} if site.wording > 1 else {}
        call = ToolCall("execute_bash", {"command": command, **risk}, id=f"call_{mark}")
        told = f"{output}\n[The command completed with exit code {code}.]"
        result = ToolResult(call_id=call.id, parts=(Part("text", told),))
        parts = (Part("text", say),)
        return [
            Step(index=0, actor="agent", kind="call", parts=parts, calls=(call,), results=(result,))
        ]
    call = ToolCall("Bash", {"command": command, "description": say}, id=f"toolu_{mark}")
    result = ToolResult(
        call_id=call.id,
        parts=(Part("text", f"Exit code {code}\n{output}" if code else output),),
        status="error" if code else "unknown",
        source="explicit" if code else "none",
    )
    parts = (Part("text", say),)
    return [
        Step(index=0, actor="agent", kind="call", parts=parts, calls=(call,)),
        Step(index=0, actor="environment", kind="result", results=(result,)),
    ]


def terminal(site: Site, text: str, code: int) -> Step:
    """Return an answer of a dialogue's terminal."""
    like = next((s for s in site.steps if s.actor == "environment"), None)
    return Step(
        index=0,
        actor="environment",
        parts=(Part("text", text),),
        agent="Computer_terminal" if like is None else like.agent,
        extra=None if like is None else like.extra,
        error=text.strip() if code else None,
    )


def words_before(site: Site, at: int) -> Step | None:
    """Return some words of the user before a place, which may say more than was recorded."""
    said = [s for s in site.steps[:at] if s.actor == "user" and s.text and STOP not in s.text]
    return site.draw(said)


def user_adds(site: Site, words: Step, more: str) -> None:
    """Let words of the user end in one sentence more."""
    now = site.draft.now(words.index)
    site.draft.put(words.index, with_text(now, f"{now.text.rstrip()} {more}"))
