"""A failing run, cut at its broken step, as a case: a file of cases, messages, a pytest file.

The messages are those of the OpenAI API: what an agent is given to do that step again. What the
run's own case expects goes along. Secrets are hidden; nothing of a trace but numbers enters the
Python file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec

from stepscope.cases.files import PROMOTED
from stepscope.errors import UsageError
from stepscope.judges.goals import as_toml, exchange_steps
from stepscope.model import Exchange, Json, Step, Trajectory
from stepscope.safety.redact import scrub_value

_TEST = '''"""A run that broke at its step {step}, promoted to a case; see {name}.json."""

import json
from pathlib import Path

import pytest

import stepscope

CASE = json.loads(Path(__file__).with_name("{name}.json").read_text(encoding="utf-8"))


def agent(messages):
    """Return the messages that the agent adds to these: put a call of your agent here."""
    return CASE["recorded"]


@pytest.mark.xfail(strict=True, reason="as recorded: remove this line once `agent` calls yours")
def test_{name}_does_not_repeat_step_{step}():
    reply = agent(CASE["messages"])
    assert reply, "the agent said nothing"
    if CASE["broken"]:
        assert not stepscope.match(reply, CASE["broken"], mode="superset").matched
    else:
        assert reply[0]["content"] != CASE["recorded"][0]["content"]
'''
_PLAIN = re.compile(r"[a-z0-9_/-]{1,60}")


def promote_run(run: Trajectory, step: int, why: str) -> dict[str, str]:
    """Return the files of a case, by name: the run up to the exchange that `step` is of.

    Raises:
        UsageError: no such step, none of the agent's, or nothing comes before it.
    """
    if not 0 <= step < len(run.steps):
        raise UsageError(f"step {step}: {run.name!r} has {len(run.steps)} steps, from 0")
    broken = exchange_steps(run, step)
    first = run.steps[broken[0]]
    if first.actor != "agent" or first.index == 0:
        raise UsageError(f"step {step} is none of the agent's, or the first; name another --step")
    name = re.sub(r"[^a-z0-9]+", "_", run.name.lower())[:60].strip("_")
    if not _PLAIN.fullmatch(run.name):
        name = f"{name or 'run'}_{sha256(run.name.encode('utf-8', 'replace')).hexdigest()[:6]}"
    calls = [[x.name, x.arguments] for x in first.calls if isinstance(x.arguments, dict)]
    case = {
        "messages": _messages(run, run.steps[: first.index]),
        "recorded": _messages(run, [run.steps[at] for at in broken]),
        "broken": calls,
    }
    raw = msgspec.json.encode(scrub_value(case))
    return {
        f"{name}.toml": _case_toml(run, first.index, why),
        f"{name}.json": msgspec.json.format(raw, indent=1).decode() + "\n",
        f"test_{name}.py": _TEST.format(name=name, step=first.index),
    }


def _case_toml(run: Trajectory, step: int, why: str) -> str:
    told: Mapping[str, Json] = {} if run.case is None else msgspec.to_builtins(run.case)
    asked = next((x.text for x in run.steps if x.actor == "user" and x.text), None)
    table = {
        "workflow": run.workflow,
        "task": run.task or run.name,
        "request": told.get("request", asked),
        "expected": told.get("reference"),
        "goals": [{"goal": f"Calls {x.get('tool')}.", **x} for x in told.get("subgoals", ())],
        "must_tell": told.get("outputs"),
        **{key: told.get(key) for key in ("order", "policy", "weights", "constraint")},
        "tags": {**told.get("tags", {}), "run": run.name, PROMOTED: str(step), "why": why},
    }
    lines = [f"{key} = {as_toml(value)}" for key, value in scrub_value(table).items() if value]
    return "\n".join(["version = 2\n", "[[task]]", *lines, ""])


def _messages(run: Trajectory, steps: Sequence[Step]) -> list[Json]:
    """Return steps as messages of the OpenAI API; calls are numbered, so that each has an id."""
    made: dict[int | None, list[Exchange]] = defaultdict(list)
    answered: dict[int | None, list[Exchange]] = defaultdict(list)
    for exchange in run.exchanges:
        made[exchange.step].append(exchange)
        answered[exchange.result_step].append(exchange)
    found: list[Json] = []
    for step in steps:
        role = {"agent": "assistant", "system": "system"}.get(step.actor, "user")
        calls = [
            {
                "id": f"call_{x.position}",
                "type": "function",
                "function": {
                    "name": x.call.name,
                    "arguments": x.call.raw or msgspec.json.encode(x.call.arguments).decode(),
                },
            }
            for x in made[step.index]
        ]
        if step.text or calls:
            message = {"role": role, "content": step.text or None}
            found.append({**message, "tool_calls": calls} if calls else message)
        found += [
            {"role": "tool", "tool_call_id": f"call_{x.position}", "content": x.result.text}
            for x in answered[step.index]
            if x.result is not None
        ]
    return found
