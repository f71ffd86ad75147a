"""The fifth round: gates.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Mechanisms that the first four did not have: breaches of rules as each format tells calls,
outcomes of benchmarks' own formats, trials told several times, looks that lack trials, what a CI
system names as the file of its summary.
"""

# fmt: off
from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bars.attack import _gates as gates
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._fourth import BAD, NEVER, Do, Row, acted, placed
from bars.attack._third import ended, forked

RULE = '[[policy]]\nname = "no wiping"\nforbid = "wipe"\n'
BREACH = "policy = { max_per_run = 0 }"


def rows_of(*rows: Any) -> str:
    """Return records as lines."""
    return "\n".join(json.dumps(row) for row in rows) + "\n"


# ---- a forbidden call, as each format tells it

ARGS = '{"disk": "a"}'
CALLED = {"id": "c1", "type": "function", "function": {"name": "wipe", "arguments": ARGS}}
ASKED = {"role": "user", "content": "Clean up, please."}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "wiped"}


def _chat(*said: dict[str, Any], asked: bool = True) -> str:
    """Return chat messages as one run of the workflow w."""
    head = [ASKED] if asked else []
    return json.dumps({"task_id": "c1", "trial": 0, "workflow": "w", "reward": 1.0, "messages": [*head, *said]})


def _assistant(**more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, **more}


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def _otlp(*attributes: dict[str, Any], name: str = "execute_tool wipe") -> str:
    """Return one span of the workflow w in OTLP."""
    span = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": name, "kind": 3,
            "startTimeUnixNano": "1764000000000000000", "endTimeUnixNano": "1764000001000000000",
            "attributes": [_attribute("gen_ai.workflow.name", "w"), *attributes]}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "a"}, "spans": [span]}]}]})


def _responses(*items: dict[str, Any]) -> str:
    return json.dumps([{"request": {"input": "Clean up."}, "response": {"object": "response", "id": "r1", "model": "gpt-5", "output": list(items)}}])


def _anthropic(block: dict[str, Any], result: str = "tool_result") -> str:
    return json.dumps({"model": "claude", "max_tokens": 9, "system": "You clean.", "messages": [
        {"role": "user", "content": "Clean up."}, {"role": "assistant", "content": [block]},
        {"role": "user", "content": [{"type": result, "tool_use_id": "t1", "content": "wiped"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}]})


def _langchain(**ai: Any) -> str:
    return json.dumps({"messages": [{"type": "human", "content": "Clean up."}, {"type": "ai", "content": "", **ai},
                                    {"type": "tool", "content": "wiped", "tool_call_id": "c1", "status": "success"},
                                    {"type": "ai", "content": "Done."}]})


def _langsmith(kind: str = "tool", **more: Any) -> str:
    root = {"id": "a1", "trace_id": "a1", "name": "w", "run_type": "chain", "start_time": "2026-11-22T04:00:00Z",
            "end_time": "2026-11-22T04:00:06Z", "inputs": {"question": "Clean up."}, "outputs": {"output": "Done."}}
    tool = {"id": "c3", "trace_id": "a1", "parent_run_id": "a1", "name": "wipe", "run_type": kind,
            "start_time": "2026-11-22T04:00:03Z", "end_time": "2026-11-22T04:00:04Z", "inputs": {"disk": "a"},
            "outputs": {"output": "wiped"}, **more}
    return json.dumps([root, tool])


def _claude(*, sidechain: bool) -> str:
    base = {"sessionId": "s1", "version": "2.0", "cwd": "/x", "userType": "external"}
    said = {**base, "isSidechain": sidechain}
    return rows_of(
        {**base, "isSidechain": False, "type": "user", "uuid": "u1", "parentUuid": None, "timestamp": "2025-12-24T10:00:00.000Z", "message": {"role": "user", "content": "Clean up."}},
        {**base, "isSidechain": False, "type": "assistant", "uuid": "u2", "parentUuid": "u1", "timestamp": "2025-12-24T10:00:01.000Z",
         "message": {"id": "m1", "role": "assistant", "model": "claude", "content": [{"type": "text", "text": "I do."}]}},
        {**said, "type": "user", "uuid": "u3", "parentUuid": None if sidechain else "u2", "timestamp": "2025-12-24T10:00:02.000Z", "message": {"role": "user", "content": "Now."}},
        {**said, "type": "assistant", "uuid": "u4", "parentUuid": "u3", "timestamp": "2025-12-24T10:00:03.000Z",
         "message": {"id": "m2", "role": "assistant", "model": "claude", "content": [{"type": "tool_use", "id": "t1", "name": "wipe", "input": {"disk": "a"}}]}},
        {**said, "type": "user", "uuid": "u5", "parentUuid": "u4", "timestamp": "2025-12-24T10:00:04.000Z",
         "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "wiped"}]}})


def _agents() -> str:
    return json.dumps([
        {"object": "trace", "id": "trace_1", "workflow_name": "w", "group_id": None},
        {"object": "trace.span", "id": "span_1", "trace_id": "trace_1", "parent_id": None, "started_at": "2025-11-24T10:00:00+00:00",
         "ended_at": "2025-11-24T10:00:04+00:00", "span_data": {"type": "agent", "name": "A", "tools": ["wipe"], "handoffs": []}, "error": None},
        {"object": "trace.span", "id": "span_2", "trace_id": "trace_1", "parent_id": "span_1", "started_at": "2025-11-24T10:00:02+00:00",
         "ended_at": "2025-11-24T10:00:03+00:00", "span_data": {"type": "function", "name": "wipe", "input": ARGS, "output": "wiped"}, "error": None}])


def _atif() -> str:
    return json.dumps({"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a", "version": "1"}, "steps": [
        {"step_id": 1, "source": "user", "message": "Clean up."},
        {"step_id": 2, "source": "agent", "message": "I do.", "tool_calls": [{"tool_call_id": "c1", "function_name": "wipe", "arguments": {"disk": "a"}}],
         "observation": {"results": [{"source_call_id": "c1", "content": "wiped"}]}}]})


def _adk() -> str:
    return json.dumps({"id": "s1", "appName": "w", "userId": "u", "state": {}, "lastUpdateTime": 1764000000.0, "events": [
        {"id": "e1", "invocationId": "i1", "author": "user", "timestamp": 1764000000.0, "content": {"role": "user", "parts": [{"text": "Clean up."}]}},
        {"id": "e2", "invocationId": "i1", "author": "cleaner", "timestamp": 1764000001.0,
         "content": {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "wipe", "args": {"disk": "a"}}}]}},
        {"id": "e3", "invocationId": "i1", "author": "cleaner", "timestamp": 1764000002.0,
         "content": {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "wipe", "response": {"result": "wiped"}}}]}}]})


# The workflow that a format gives its runs, and the file.
CALLS: dict[str, tuple[str, str]] = {
    "a call of chat messages": ("w", _chat(_assistant(tool_calls=[CALLED]), TOLD)),
    "a call by function_call": ("w", _chat(_assistant(function_call={"name": "wipe", "arguments": ARGS}), {"role": "function", "name": "wipe", "content": "wiped"})),
    "a call of a custom tool": ("w", _chat(_assistant(tool_calls=[{"id": "c1", "type": "custom", "custom": {"name": "wipe", "input": "a"}}]), TOLD)),
    "a call whose arguments are no JSON": ("w", _chat(_assistant(tool_calls=[{**CALLED, "function": {"name": "wipe", "arguments": "{disk: a"}}]), TOLD)),
    "a call whose name is spelt by escapes": ("w", _chat(_assistant(tool_calls=[CALLED]), TOLD).replace('"wipe"', '"\\u0077ip\\u0065"')),
    "a function call of the Responses": ("openai_responses", _responses({"type": "function_call", "call_id": "c1", "name": "wipe", "arguments": ARGS})),
    "a call by MCP of the Responses": ("openai_responses", _responses({"type": "mcp_call", "id": "m1", "server_label": "s", "name": "wipe", "arguments": ARGS, "output": "wiped", "error": None})),
    "a use of a tool in blocks": ("anthropic_messages", _anthropic({"type": "tool_use", "id": "t1", "name": "wipe", "input": {"disk": "a"}})),
    "a use of a server's tool in blocks": ("anthropic_messages", _anthropic({"type": "server_tool_use", "id": "t1", "name": "wipe", "input": {"disk": "a"}})),
    "a use of MCP in blocks": ("anthropic_messages", _anthropic({"type": "mcp_tool_use", "id": "t1", "name": "wipe", "server_name": "s", "input": {"disk": "a"}}, "mcp_tool_result")),
    "a call of LangChain": ("langchain_messages", _langchain(tool_calls=[{"name": "wipe", "args": {"disk": "a"}, "id": "c1", "type": "tool_call"}])),
    "a call that LangChain could not take apart": ("langchain_messages", _langchain(tool_calls=[], invalid_tool_calls=[
        {"name": "wipe", "args": "{disk", "id": "c1", "error": "no JSON", "type": "invalid_tool_call"}])),
    "a call among LangChain's further words": ("langchain_messages", _langchain(additional_kwargs={"tool_calls": [CALLED]})),
    "a tool's run of LangSmith": ("w", _langsmith()),
    "a function of the Agents SDK": ("w", _agents()),
    "a call in a span's messages": ("w", _otlp(_attribute("gen_ai.operation.name", "chat"), _attribute("gen_ai.output.messages", json.dumps(
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "wipe", "arguments": {"disk": "a"}}]}])), name="chat x")),
    "a call of a session": ("claude_code", _claude(sidechain=False)),
    "a call of a session's subagent": ("claude_code", _claude(sidechain=True)),
    "a call of ATIF": ("atif", _atif()),
    "a call of ADK": ("w", _adk()),
}  # fmt: skip


def _forbidden(workflow: str, text: str, codes: tuple[int, ...] = (3,), rule: str = RULE) -> Do:
    """Return what gates a run that calls what is forbidden."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy(BREACH, "").replace("workflow.w", f"workflow.{workflow}") + rule)
        place.write("t/a.json", text)
        return coded(place.run("gate", "--runs", "t"), codes)

    return do


def _paid(arguments: str, pattern: str, codes: tuple[int, ...] = (3,)) -> Do:
    """Return what gates a call with these arguments by a rule on one of them."""
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "ARGS"}}
    text = _chat(_assistant(tool_calls=[call]), TOLD).replace('"ARGS"', json.dumps(arguments))
    rule = f"[[policy]]\nname = 'r'\nforbid = 'pay'\nwhere = {{ amount = '{pattern}' }}\n"
    return _forbidden("w", text, codes, rule)


def _asked_twice(first: str, second: str, codes: tuple[int, ...] = (3,)) -> Do:
    """Return what gates a run that asks the same twice, in two spellings."""
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "get_order", "arguments": a}} for n, a in enumerate((first, second))]
    said: list[dict[str, Any]] = []
    for n, one in enumerate(calls):
        said += [_assistant(tool_calls=[one]), {"role": "tool", "tool_call_id": f"c{n}", "content": "shipped"}]

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy("no_redundant_calls = { max_per_run = 0 }", "") + '[tools]\nget_order = "read"\n')
        place.write("t/a.json", _chat(*said))
        return coded(place.run("gate", "--runs", "t"), codes)

    return do


# ---- outcomes as benchmarks' own formats tell them


def tau2(told: Callable[[int, int], dict[str, Any]], text: str = "new") -> str:
    """Return simulations of twelve tasks, four trials each, changed by a function."""
    tasks = [{"id": f"t{c}", "user_scenario": {"instructions": "Cancel."}, "evaluation_criteria": {"actions": []}} for c in gates.CASES]
    sims = [{"id": f"s{text}-{c}-{n}", "task_id": f"t{c}", "trial": n, "termination_reason": "user_stop", "reward_info": {"reward": 1.0},
             "messages": [{"role": "user", "content": f"{text} {c} {n}"}, {"role": "assistant", "content": "done"}], **told(c, n)}
            for c in gates.CASES for n in gates.TRIALS]
    info = {"agent_info": {"implementation": "a"}, "environment_info": {"domain_name": "w"}}
    return json.dumps({"info": info, "tasks": tasks, "simulations": [{k: v for k, v in s.items() if v is not ...} for s in sims]})


def inspected(told: Callable[[int, int], dict[str, Any]], text: str = "new") -> str:
    """Return a log of Inspect of twelve samples, four epochs each, changed by a function."""
    samples = [{"id": f"q{c}", "epoch": n + 1, "uuid": f"u{text}{c}-{n}", "input": f"{text} {c} {n}", "target": "x",
                "messages": [{"role": "user", "content": f"{text} {c} {n}"}, {"role": "assistant", "content": "done"}],
                "scores": {"includes": {"value": "C", "answer": "x"}}, **told(c, n)} for c in gates.CASES for n in gates.TRIALS]
    head = {"eval_id": "e1", "task": "w", "model": "openai/gpt-5", "dataset": {"name": "d"}, "config": {}}
    return json.dumps({"version": 2, "status": "success", "eval": head, "samples": [{k: v for k, v in s.items() if v is not ...} for s in samples]})


Made = Callable[[Callable[[int, int], dict[str, Any]], str], str]


def _formatted(make: Made, change: Callable[[int, int], dict[str, Any]], codes: tuple[int, ...]) -> Do:
    """Return what makes a baseline of passing runs of a format, and gates changed ones."""

    def do(place: Place) -> str:
        place.write("n.json", make(lambda c, n: {}, "old"))
        for command in ("import n.json", "score", "baseline update --yes"):
            place.must(*command.split(), "--store", "n.db")
        place.write("t/a.json", make(lambda c, n: change(c, n) if n > 1 else {}, "new"))
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), codes)

    return do


SIMS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "a reward that is a text": ({"reward_info": {"reward": "1.0"}}, (3, 4)),
    "an end by the infrastructure": ({"termination_reason": "infrastructure_error"}, (3, 4)),
    "a reward that is a list": ({"reward_info": [{"reward": 1.0}]}, (3, 4)),
    "messages of ticks alone": ({"messages": [], "ticks": [{"t": 0}]}, (3,)),
    "the trial of another": ({"trial": 0}, (3, 4)),
}  # fmt: skip
SAMPLES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "I, and C by the second scorer": ({"scores": {"a": {"value": "I"}, "b": {"value": "C"}}}, (3,)),
    "half a score": ({"scores": {"includes": {"value": 0.5}}}, (3, 4)),
    "scores that are null": ({"scores": None}, (3, 4)),
    "an error, and no scores": ({"scores": {}, "error": {"message": "x", "traceback": "x", "traceback_ansi": "x"}}, (3, 4)),
    "the epoch of another": ({"epoch": 1}, (3, 4)),
}  # fmt: skip


# ---- trials, looks, files that cannot be read


def _trials_told(trials: Iterable[object], codes: tuple[int, ...], **more: Any) -> Do:
    """Return what gates passing runs alone, four of each case, under these words for their trials."""

    def do(place: Place) -> str:
        told = [gates.line(c, t, text=f"new {at}", **{k: v.format(c=c) for k, v in more.items()}) for c in gates.CASES for at, t in enumerate(trials)]
        place.write("t/a.jsonl", told)
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), codes)

    return do


def _looks(*folders: str, codes: tuple[int, ...], between: Iterable[str] = ()) -> Do:
    """Return what looks at these folders at one commit, one after the other; the last code counts."""

    def do(place: Place) -> str:
        placed(place, {"a.jsonl": gates.PASSING}, "half")
        placed(place, {"a.jsonl": gates.runs("whole")}, "full")
        placed(place, BAD, "bad")
        for at, folder in enumerate(folders):
            for command in between if at else ():
                place.must(*shlex.split(command))
            words = ["--runs", folder] if folder != "store" else []
            done = place.run("gate", *words, "--commit", "abc", "--undecided", "pass")
        return coded(done, codes)

    return do


def _named_beside(name: str, content: gates.Content | None, codes: tuple[int, ...] = (2, 3, 4)) -> Do:
    """Return what gates whole runs, and one more file that is named and cannot be read."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy("outcome = { min_rate = 1.0 }", ""))
        place.write("full/a.jsonl", gates.runs())
        if content is not None:
            place.write(name, content)
        honest = place.run("gate", "--runs", "full")
        if honest.code:
            return f"the case is wrong: {coded(honest, (0,))}"
        return coded(place.run("gate", "--runs", "full", "--runs", name, "--undecided", "pass"), codes)

    return do


def _summary_named(name: str) -> Do:
    """Return what gates where the job summary is named so: our own files stay as they are."""

    def do(place: Place) -> str:
        placed(place, BAD)
        place.write(".env", "MY_KEY=abc\n")
        before = Path(name).read_bytes()
        os.environ["GITHUB_STEP_SUMMARY"] = str(place.folder / name)
        done = place.run("gate", "--runs", "t")
        if Path(name).read_bytes() != before:
            return f"code {done.code}, and {name} was written to"
        return coded(done, (2, 3, 5))

    return do


def _summary_in_baseline(place: Place) -> str:
    """A job summary that is named as the baseline spoils it, and a spoilt baseline never passes."""
    placed(place, BAD)
    place.write("full/a.jsonl", gates.runs())
    os.environ["GITHUB_STEP_SUMMARY"] = str(place.folder / "base.json")
    first = place.run("gate", "--runs", "t")
    del os.environ["GITHUB_STEP_SUMMARY"]
    return coded(first, (2, 3, 5)) or coded(place.run("gate", "--runs", "full", "--undecided", "pass"), (0, 4) if first.code != 3 else (4,))


def _at_the_same_time(*commands: str, codes: tuple[int, ...] = (3, 4)) -> Do:
    """Return what gates failing runs of the store while other commands work on it."""

    def do(place: Place) -> str:
        placed(place, BAD)
        place.write("more/a.jsonl", gates.runs("more"))
        place.must("import", "t")
        place.must("score")
        others = [forked(*shlex.split(command)) for command in commands]
        found = [place.run("gate", "--undecided", "pass").code for _ in range(3)]
        ends = [ended(pid, 12) for pid in others]
        if set(ends) - {0, 4}:
            return f"the others ended with {ends}"
        return "" if set(found) <= set(codes) else f"codes {found}"

    return do


def _person_called(who: str, said: str = "pass") -> Do:
    """Return what lets somebody of an odd name say that failing runs passed: a check said otherwise."""

    def do(place: Place) -> str:
        made = [gates.line(c, n, passed=False, run_id=f"r{c}-{n}") for c in gates.CASES for n in (2, 3)]
        place.write("t/a.jsonl", [*gates.PASSING, *made])
        place.must("import", "t")
        for at, (name, word) in enumerate((("check", "fail"), (who, said))):
            rows = [json.dumps({"run": f"r{c}-{n}", "outcome": word, "who": name}) for c in gates.CASES for n in (2, 3)]
            place.write(f"o{at}.jsonl", rows)
            place.run("import", "--outcomes", f"o{at}.jsonl")
        place.must("score")
        return coded(place.run("gate", "--undecided", "pass"), (3, 4))

    return do


def _figured(gate: str, codes: tuple[int, ...], told: str, workflow: str = "w") -> Do:
    """Return what gates thirty runs of this kind by a figure alone."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy(gate, "").replace("workflow.w", f"workflow.{workflow}"))
        for at in range(30):
            place.write(f"t/{at}.json", told.replace("a1", f"a{at + 10}").replace("Clean", f"{at}: clean"))
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), codes)

    return do


def _usage(**usage: Any) -> str:
    """Return a trace of LangSmith whose one call of a model took these tokens."""
    said = {"choices": [{"message": {"role": "assistant", "content": "done"}}], "usage_metadata": usage}
    return _langsmith("llm", inputs={"messages": [ASKED]}, outputs=said)


def _lasting(start: str, end: str, **more: Any) -> str:
    """Return a trace of LangSmith that lasts from then to then."""
    made = json.loads(_langsmith())
    made[0] |= {"start_time": start, "end_time": end, **more}
    made[1] |= {"start_time": start, "end_time": start}
    return json.dumps(made)


def _flagged(place: Place) -> str:
    """A trace out of time is kept as recorded and flagged."""
    place.write("x.json", _lasting("2026-11-22T10:00:00Z", "2026-11-22T09:00:00Z"))
    done = place.run("import", "x.json", "--store", "n.db")
    return coded(done, (0,), says="flagged: .*(negative|skew)")


def _update(words: str, codes: tuple[int, ...], before: Callable[[Place], object] | None = None, *, kept: bool = True) -> Do:
    """Return what updates the baseline by these words; where it is refused the file stays."""

    def do(place: Place) -> str:
        place.write("full/a.jsonl", gates.runs())
        place.must("import", "full")
        place.must("score")
        if before:
            before(place)
        old = Path("base.json").read_bytes() if Path("base.json").is_file() else b""
        done = place.spawn("baseline", "update", *shlex.split(words))
        if done.code and kept and Path("base.json").is_file() and Path("base.json").read_bytes() != old:
            return f"code {done.code}, and the baseline is another"
        return one_line(done, codes) if done.code == 2 else coded(done, codes)

    return do


def _baseline_elsewhere(value: str, codes: tuple[int, ...]) -> Do:
    """Return what writes a baseline to this place, and gates failing runs against it."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy(more=f'baseline = "{value}"'))
        made = place.run("baseline", "update", "--yes")
        if made.code:
            return one_line(made, codes)
        placed(place, BAD)
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (3,))

    return do


def _rewritten(change: Callable[[Any], str]) -> Do:
    """Return what rewrites the baseline as another program would, and gates failing runs."""

    def do(place: Place) -> str:
        place.write("base.json", change(json.loads(Path("base.json").read_text("utf-8"))))
        placed(place, BAD)
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (3, 4))

    return do


def _hard_linked(name: str) -> Do:
    """Return what writes the output of a gate where another name of the store's file stands."""

    def do(place: Place) -> str:
        placed(place, BAD)
        (place.folder / "w").mkdir()
        os.link("stepscope.db", "w/gate.json")
        done = place.run("gate", "--runs", "t", *shlex.split(name))
        if not Path("stepscope.db").read_bytes().startswith(b"SQLite format 3"):
            return f"code {done.code}, and the store is overwritten"
        return coded(done, (2, 3, 5))

    return do


def _precondition(after: str, codes: tuple[int, ...], more: str = "") -> Do:
    """Return what gates the order of two calls by a declared need: first look, then cancel."""
    def said(name: str, number: int) -> list[dict[str, Any]]:
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": '{"order": "W7"}'}}
        return [_assistant(tool_calls=[call]), {"role": "tool", "tool_call_id": f"c{number}", "content": "ok W7"}]

    def do(place: Place) -> str:
        rule = f'[[precondition]]\ntool = "cancel"\nafter = "{after}"\n{more}\n[tools]\ncancel = "write"\nlook = "read"\nlater = "read"\n'
        place.write("stepscope.toml", gates.policy("axes.sequencing = { max_rate = 0 }", "") + rule)
        asked = {"role": "user", "content": "Cancel order W7, yes, do it."}
        place.write("t/a.json", _chat(asked, *said("look", 1), *said("cancel", 2), *said("later", 3), {"role": "assistant", "content": "Cancelled W7."}))
        return coded(place.run("gate", "--runs", "t"), codes)

    return do


def _acted(code: int | tuple[int, ...], files: Mapping[str, gates.Content] | None = None, **inputs: str) -> Do:
    """Return what runs the action's step."""

    def do(place: Place) -> str:
        placed(place, BAD)
        placed(place, {"a.jsonl": gates.runs()}, "full")
        for name, content in (files or {}).items():
            place.write(name, content)
        return acted(place, code, **inputs)

    return do


def _both_places(text: str, words: str, codes: tuple[int, ...]) -> Do:
    """Return what gates by settings in `pyproject.toml`."""

    def do(place: Place) -> str:
        Path("stepscope.toml").unlink()
        place.write("pyproject.toml", text)
        placed(place, BAD)
        return coded(place.run("gate", *shlex.split(words)), codes)

    return do


def _other_workflow(place: Place) -> str:
    """Runs of a workflow in decomposed letters are none of the workflow in composed ones."""
    place.write("stepscope.toml", gates.policy("outcome = { min_rate = 0.1 }", "").replace("workflow.w", 'workflow."caf\u00e9"'))
    place.write("t/a.jsonl", [gates.line(c, n, workflow="cafe\u0301") for c in gates.CASES for n in gates.TRIALS])
    return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (4,))


def _gate_rows() -> list[Row]:
    three = "3: the forbidden call is counted"
    same = "3: the second asks what is known"
    trials = f"{NEVER}; two runs of one name are one trial"
    lasts = "3, or 4 where it cannot be told: 3,600 seconds are more than 60"
    tokens = "3, or 4 where it cannot be told: a million tokens are more than 100"
    named = "2 to 4, never 0: a file that is named and cannot be read counts as one bad run"
    stays = "2, 3 or 5: nothing of ours is written over"
    seconds, bound = "seconds.p95 = { max_per_run = 60 }", "tokens.p95 = { max_per_run = 100 }"
    project = gates.policy().replace("[workflow", "[tool.stepscope.workflow")
    return [
        *((f"a rule against it: {name}", three, "high", _forbidden(*v)) for name, v in CALLS.items()),
        ("a rule against another tool", "2, by the page: no run was offered or called it", "medium", _forbidden(*CALLS["a call of chat messages"], (2,), RULE.replace('"wipe"', '"other"'))),
        ("a rule on an amount that is a number", "3", "high", _paid('{"amount": 250}', "^[1-9][0-9]{2,}")),
        ("a rule on an amount in scientific notation", "3: 2.5e2 is 250", "high", _paid('{"amount": 2.5e2}', "^[1-9][0-9]{2,}")),
        ("the same asked in another order of keys", same, "high", _asked_twice('{"a": 1, "b": 2}', '{"b": 2, "a": 1}')),
        ("the same asked by escapes", same, "high", _asked_twice('{"id": "W1"}', '{"\\u0069d": "\\u00571"}')),
        ("the same asked with other blanks", same, "high", _asked_twice('{"id":"W1"}', '{\n "id" : "W1" }')),
        ("the same asked in other words", "0: another question", "medium", _asked_twice('{"id": "W1"}', '{"id": "W2"}', (0,))),
        *((f"tau2: {name}", "3" if codes == (3,) else NEVER, "high", _formatted(tau2, lambda c, n, v=v: v, codes)) for name, (v, codes) in SIMS.items()),  # type: ignore[misc]
        ("tau2: whole runs", "0", "medium", _formatted(tau2, lambda c, n: {}, (0,))),
        *((f"Inspect: {name}", "3" if codes == (3,) else NEVER, "high", _formatted(inspected, lambda c, n, v=v: v, codes)) for name, (v, codes) in SAMPLES.items()),  # type: ignore[misc]
        ("Inspect: whole runs", "0", "medium", _formatted(inspected, lambda c, n: {}, (0,))),
        ("one trial told four times", trials, "high", _trials_told((0, 0, 0, 0), (3, 4))),
        ("one trial told as number and text", trials, "high", _trials_told((0, "0", 0, "0"), (3, 4))),
        ("four trials of one recorder's id", "0: each trial is there, in its own words", "medium", _trials_told((0, 1, 2, 3), (0,), run_id="r{c}")),
        ("a look that lacks trials, then one that has all", "0: it makes good what an earlier one lacked", "medium", _looks("half", "full", codes=(0,))),
        ("a look that has all, then one that lacks trials", NEVER, "high", _looks("full", "half", codes=(3, 4))),
        ("a failing look of files, then passing runs of the store", "never 0: looks are pooled", "high",
         _looks("bad", "store", codes=(3, 4), between=("import full", "score"))),
        ("three looks, the failing one between", "never 0: looks are pooled", "high", _looks("full", "bad", "full", codes=(3, 4))),
        *((f"whole runs and {what}", named, "high", _named_beside(name, content)) for what, name, content in (
            ("an empty file", "x.jsonl", ""), ("the store", "stepscope.db", None), ("the baseline", "base.json", None), ("a gzip", "x.jsonl.gz", b"\x1f\x8b\x08\0" + bytes(40)),
            ("a number", "n.json", "7"))),
        *((f"a job summary that is {name}", stays, "high", _summary_named(name)) for name in ("stepscope.db", "stepscope.toml", ".env")),
        ("a job summary that is the baseline", "3; then 4: the baseline is corrupt, never green", "high", _summary_in_baseline),
        ("failing runs while the store is imported into", NEVER, "high", _at_the_same_time("import more", "score")),
        ("failing runs while the store is erased", NEVER, "high", _at_the_same_time("purge --where \"workflow = 'w'\" --yes")),
        *((f"a check that says fail, then {name!r} says pass", "never 0: a check outranks people, and the earlier of two stays", "high", _person_called(name))
          for name in ("Check", "check ", "\u0441heck")),
        ("a check that says fail, then a reward says pass", "never 0: a check outranks a reward", "high", _person_called("reward")),
        ("a trace that lasts an hour by its zones", lasts, "high", _figured(seconds, (3, 4), _lasting("2026-11-22T10:00:00+02:00", "2026-11-22T09:00:00+00:00"))),
        ("a trace that ends before it begins", "kept as recorded, and the import flags it", "medium", _flagged),
        ("tokens that are texts", tokens, "high", _figured(bound, (3, 4), _usage(input_tokens="1000000", output_tokens="10", total_tokens="1000010"))),
        ("tokens in scientific notation", tokens, "high", _figured(bound, (3, 4), _usage(input_tokens=1e6, output_tokens=1e1, total_tokens=1e6))),
        ("tokens below 0", NEVER, "high", _figured(bound, (3, 4), _usage(input_tokens=-1_000_000, output_tokens=-10, total_tokens=-1))),
        ("tokens of the answer below 0", NEVER, "high", _figured(bound, (3, 4), _usage(input_tokens=1_000_000, output_tokens=-999_999, total_tokens=1))),
        ("a baseline update that nobody confirms", "2, and it stays: nobody can answer", "high", _update("", (2,))),
        ("a baseline update of no run, confirmed", "2 or 4, and it stays", "medium", _update("--yes --where \"task = 'zz'\"", (2, 4))),
        ("a baseline in folders that are not there", "written, then 3", "medium", _baseline_elsewhere("a/b/c/base.json", (0,))),
        ("a baseline in the place of the store", "2 or 5: not written over", "high", _baseline_elsewhere("stepscope.db", (2, 5))),
        ("a baseline in the place of the settings", "2 or 5: not written over", "high", _baseline_elsewhere("stepscope.toml", (2, 5))),
        ("a baseline of a case twice, once by escapes", NEVER, "high", _rewritten(lambda base: re.sub(r'"c1": (\[[^]]*\])', r'"c1": \1, "\\u0063\\u0031": [0, 0, 0, 0]', json.dumps(base)))),
        ("an output over another name of the store", stays, "high", _hard_linked("--json -o w/gate.json")),
        ("what is needed first comes later", "3: a proved fault", "high", _precondition("later", (3,))),
        ("what is needed first came first", "0, or 4: nothing is proved", "medium", _precondition("look", (0, 4))),
        ("the action: a workflow in two lines, one nobody has", "2", "high", _acted(2, runs="t", workflow="w\nzzz")),
        ("the action: a baseline with a line break at its end", "2 to 4, never 0", "high", _acted((2, 3, 4), runs="t", baseline="base.json\n")),
        ("the action: settings that name a folder of two words", "3", "high",
         _acted(3, {"two words/stepscope.toml": gates.policy(more='baseline = "../base.json"')}, runs="t", config="two words")),
        ("settings in pyproject.toml", "3", "high", _both_places(project, "--runs t", (3,))),
        ("settings in pyproject.toml, named", "2 or 3", "medium", _both_places(project, "--runs t --config pyproject.toml", (2, 3))),
        ("a workflow in composed letters", "4: no run of it", "high", _other_workflow),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("gates", name, expected, severity, do, round=5) for name, expected, severity, do in _gate_rows()]
