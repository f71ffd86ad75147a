from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.formats import claude_code, tau_bench, whowhen
from stepscope.formats.atif import FORMAT
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.model import (
    Format,
    Instant,
    Json,
    Outcome,
    Part,
    Source,
    Span,
    Step,
    Stream,
    ToolCall,
    ToolDef,
    ToolResult,
    TraceLabel,
    Trajectory,
    Usage,
    Warn,
)
from tests.formats.atif.test_atif import ATIF, as_atif, there_and_back
from tests.formats.reading import run_of, written

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_atif_comes_back_as_it_was_read_but_for_its_version() -> None:
    back = json.loads(as_atif(run_of(FORMAT, ATIF)))
    kept = back.pop("extra")
    assert kept.pop("stepscope") == {
        "source": {"format": "atif", "format_version": "ATIF-v1.7", "run_id": "s"}
    }
    assert kept == ATIF["extra"]
    assert back.pop("trajectory_id") == "s"
    # One text is text, whether it stood in a list of parts or not.
    wanted = json.loads(written(ATIF))
    wanted["steps"][1]["observation"]["results"][1]["content"] = "a b"
    assert back == {
        **{k: v for k, v in wanted.items() if k != "extra"},
        "schema_version": "ATIF-v1.8",
    }


def valid(record: Any) -> None:
    """Assert what ATIF v1.8 demands of a run (formats.md A9)."""
    top = set(
        "schema_version session_id trajectory_id agent steps notes final_metrics "
        "continued_trajectory_ref subagent_trajectories extra".split()
    )
    assert record.keys() <= top
    assert record["agent"].keys() <= {"name", "version", "model_name", "tool_definitions", "extra"}
    assert isinstance(record["agent"]["version"], str)
    assert [step["step_id"] for step in record["steps"]] == list(range(1, len(record["steps"]) + 1))
    known = set(
        "step_id timestamp source model_name reasoning_effort message reasoning_content tool_calls "
        "observation metrics is_copied_context llm_call_count extra".split()
    )
    agents_own = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
    for step in record["steps"]:
        assert step.keys() <= known
        assert step["source"] in {"system", "user", "agent"}
        assert step["source"] == "agent" or not agents_own & step.keys()
        assert isinstance(step["message"], str | list)
        calls = step.get("tool_calls", [])
        ids = [call["tool_call_id"] for call in calls]
        assert all(isinstance(i, str) for i in ids)
        for call in calls:
            assert call.keys() <= {"tool_call_id", "function_name", "arguments", "extra"}
            assert isinstance(call["arguments"], dict)
        for result in step.get("observation", {"results": []})["results"]:
            allowed = {"source_call_id", "content", "subagent_trajectory_ref", "extra"}
            assert result.keys() <= allowed
            assert result.get("source_call_id") is None or result["source_call_id"] in ids
        metrics = step.get("metrics", {})
        assert metrics.keys() <= set(
            "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids "
            "completion_token_ids logprobs extra".split()
        )
    for child in record.get("subagent_trajectories", []):
        valid(child)


@pytest.mark.parametrize(
    ("form", "path"),
    [
        (tau_bench.FORMAT, EXAMPLES / "airline" / "runs.json"),
        (claude_code.FORMAT, EXAMPLES / "claude_code" / "sample_session.jsonl"),
        (FORMAT, EXAMPLES / "atif" / "openhands_hello-world.trajectory.json"),
    ],
    ids=["tau_bench", "claude_code", "atif"],
)
def test_real_runs_come_back_whole_and_are_valid_atif(form: Format, path: Path) -> None:
    with path.open("rb") as file:
        runs = [r for r in form.read(Stream(file, str(path))) if isinstance(r, Trajectory)]
    assert runs
    whole = as_atif(*runs)
    assert str(path).encode() not in whole
    for line, run in zip(whole.splitlines(), runs, strict=True):
        valid(json.loads(line))
        assert there_and_back(run) == run


@pytest.mark.shared_data
def test_every_who_and_when_run_comes_back_whole(shared: Path) -> None:
    for path in sorted((shared / "whowhen").glob("*/*.json"))[::5]:
        with path.open("rb") as file:
            (run,) = whowhen.FORMAT.read(Stream(file, str(path)))
        assert isinstance(run, Trajectory)
        assert there_and_back(run) == run
        valid(json.loads(as_atif(run)))


# The door escapes NUL, so that text with one never comes back as it was.
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
maybe = st.none() | names
small = st.dictionaries(names, st.integers(-9, 9) | names, max_size=2)
extras = st.none() | st.dictionaries(
    names.filter(lambda k: k != "stepscope"), names, min_size=1, max_size=2
)
parts = st.lists(
    st.builds(
        Part,
        kind=st.sampled_from(["text", "reasoning", "refusal", "image", "data"]),
        text=maybe,
        uri=maybe,
        extra=extras,
    ),
    max_size=3,
).map(tuple)
call_ids = st.sampled_from([None, "a", "b", "c"])
times = st.builds(Instant, ns=st.integers(0, 2**61), text=names)
tool_calls = st.builds(
    ToolCall,
    name=names,
    arguments=st.none() | small | st.lists(names, max_size=2),
    id=call_ids,
    raw=maybe,
    requestor=st.sampled_from(["agent", "user"]),
    extra=extras,
)
tool_results = st.builds(
    ToolResult,
    call_id=call_ids,
    name=maybe,
    parts=parts,
    structured=st.none() | small,
    status=st.sampled_from(["ok", "error", "unknown"]),
    source=st.sampled_from(["explicit", "none"]),
    truncated=st.booleans(),
    extra=extras,
)
usages = st.none() | st.builds(
    Usage, input_total=st.none() | st.integers(0, 9), reasoning=st.just(1)
)
steps = st.builds(
    Step,
    index=st.just(0),
    actor=st.sampled_from(["system", "user", "agent", "environment"]),
    kind=st.sampled_from(["message", "call", "result", "plan", "compaction"]),
    parts=parts,
    calls=st.lists(tool_calls, max_size=2).map(tuple),
    results=st.lists(tool_results, max_size=2).map(tuple),
    agent=maybe,
    model=maybe,
    usage=usages,
    start=st.none() | times,
    end=st.none() | times,
    error=maybe,
    id=maybe,
    replayed=st.booleans(),
    extra=extras,
)


@settings(max_examples=60)
@given(
    listed=st.lists(steps, min_size=1, max_size=6),
    run_id=maybe,
    trial=maybe,
    agent=maybe,
    tags=st.dictionaries(names, names, max_size=2),
    extra=extras,
)
def test_any_run_comes_back_whole(
    listed: list[Step],
    run_id: str | None,
    trial: str | None,
    agent: str | None,
    tags: dict[str, str],
    extra: Json,
) -> None:
    numbered = tuple([msgspec.structs.replace(s, index=i) for i, s in enumerate(listed)])
    draft = Trajectory(
        id="",
        name="n",
        steps=numbered,
        source=Source(format="t", run_id=run_id),
        task="1",
        trial=trial,
        agent=agent,
        tags=tags,
        tools=(ToolDef("f", "d", {"type": "object"}, agent="x"),),
        spans=(Span(id="1", attributes={"a": [1]}),),
        outcome=Outcome("pass", "check"),
        labels=(TraceLabel(kind="note", reason="r"),),
        warnings=(Warn("odd", "kept", 0),),
        extra=extra,
    )
    run = finish_run(draft, Ordinals())
    assert there_and_back(run) == run
    valid(json.loads(as_atif(run)))


def test_a_run_counted_among_equals_keeps_its_ordinal_and_id_alone() -> None:
    ordinals = Ordinals()
    draft = Trajectory(
        id="", name="n", steps=(Step(index=0, actor="user"),), source=Source(format="t")
    )
    first, second = finish_run(draft, ordinals), finish_run(draft, ordinals)
    assert first.id != second.id
    assert there_and_back(second).id == second.id


def test_runs_that_are_each_others_parents_are_written_all_the_same() -> None:
    base = Trajectory(id="a", name="n", steps=(), source=Source(format="t"), parent="b")
    other = msgspec.structs.replace(base, id="b", parent="a")
    assert len(as_atif(base, other).splitlines()) == 2
