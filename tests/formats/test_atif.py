from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.formats import claude_code, tau_bench, whowhen
from stepscope.formats.atif import FORMAT, write
from stepscope.formats.building import Ordinals, finish
from stepscope.model import (
    Format,
    Instant,
    Json,
    Label,
    Outcome,
    Part,
    Source,
    Span,
    Step,
    Stream,
    ToolCall,
    ToolDef,
    ToolResult,
    Trajectory,
    Usage,
    Warn,
)
from tests.formats.reading import codes, read, refused, run_of, written

EXAMPLES = Path(__file__).parents[2] / "examples"

ATIF: dict[str, Json] = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s",
    "agent": {"name": "a", "version": "2", "model_name": "m", "extra": {"parser": "json"}},
    "steps": [
        {"step_id": 1, "source": "user", "message": "go"},
        {
            "step_id": 2,
            "timestamp": "2026-01-01T00:00:00.5Z",
            "source": "agent",
            "model_name": "m",
            "reasoning_effort": "high",
            "message": "On it.",
            "reasoning_content": "hm",
            "tool_calls": [
                {"tool_call_id": "c1", "function_name": "sh", "arguments": {"cmd": "ls"}},
                {"tool_call_id": "c2", "function_name": "sh", "arguments": {}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "c2", "content": "Error: no"},
                    {"source_call_id": "c1", "content": [{"type": "text", "text": "a b"}]},
                ]
            },
            "metrics": {
                "prompt_tokens": 100,
                "cached_tokens": 60,
                "completion_tokens": 50,
                "cost_usd": 0.5,
                "logprobs": [-0.1],
            },
            "llm_call_count": 1,
        },
        {
            "step_id": 3,
            "source": "system",
            "message": "compacted",
            "extra": {"context_management": {"type": "compaction"}},
        },
        {"step_id": 4, "source": "agent", "message": "done", "is_copied_context": True},
    ],
    "notes": "n",
    "final_metrics": {
        "total_prompt_tokens": 100,
        "total_completion_tokens": 50,
        "total_cached_tokens": 60,
        "total_cost_usd": 0.5,
        "total_steps": 4,
    },
    "extra": {"mine": 1},
}


def as_atif(*runs: Trajectory) -> bytes:
    file = io.BytesIO()
    write(runs, file)
    return file.getvalue()


def there_and_back(run: Trajectory) -> Trajectory:
    """The run, written and read again, with where it was read made equal."""
    back = run_of(FORMAT, as_atif(run))
    source = msgspec.structs.replace(back.source, uri=run.source.uri, offset=run.source.offset)
    return msgspec.structs.replace(back, source=source)


def test_a_run_is_read_with_every_field_that_has_one() -> None:
    run = run_of(FORMAT, ATIF)
    assert [(s.actor, s.kind) for s in run.steps] == [
        ("user", "message"),
        ("agent", "call"),
        ("system", "compaction"),
        ("agent", "message"),
    ]
    step = run.steps[1]
    assert [(p.kind, p.text) for p in step.parts] == [("reasoning", "hm"), ("text", "On it.")]
    assert [(r.call_id, r.text, r.status) for r in step.results] == [
        ("c2", "Error: no", "error"),
        ("c1", "a b", "unknown"),
    ]
    assert step.usage == Usage(input_total=100, cache_read=60, output_total=50)
    assert (step.cost_usd, step.model) == (0.5, "m")
    assert step.start == Instant(1767225600500000000, "2026-01-01T00:00:00.5Z")
    assert step.extra == {
        "reasoning_effort": "high",
        "llm_call_count": 1,
        "metrics": {"logprobs": [-0.1]},
    }
    assert (run.steps[3].replayed, run.warnings) == (True, ())
    assert (run.agent, run.agent_version, run.source.run_id) == ("a", "2", "s")
    assert run.usage == Usage(input_total=100, cache_read=60, output_total=50)
    assert (run.cost_usd, run.outcome.status) == (0.5, "unknown")
    assert run.extra == {
        "mine": 1,
        "agent": {"model_name": "m", "extra": {"parser": "json"}},
        "final_metrics": {"total_steps": 4},
        "notes": "n",
    }


def test_absent_tokens_and_costs_are_none() -> None:
    run = run_of(FORMAT, {k: ATIF[k] for k in ("schema_version", "agent", "steps", "session_id")})
    assert (run.usage, run.cost_usd, run.steps[0].usage) == (None, None, None)


def test_subagents_are_children_linked_both_ways() -> None:
    inner = {
        **ATIF,
        "trajectory_id": "t2",
        "subagent_trajectories": [{**ATIF, "trajectory_id": "t3"}],
    }
    found = read(FORMAT, {**ATIF, "trajectory_id": "t1", "subagent_trajectories": [inner]})
    first, second, third = [r for r in found if isinstance(r, Trajectory)]
    assert (first.children, second.children, third.children) == ((second.id,), (third.id,), ())
    assert (first.parent, second.parent, third.parent) == (None, first.id, second.id)
    (again,) = as_atif(first, second, third).splitlines()
    back = [r for r in read(FORMAT, again) if isinstance(r, Trajectory)]
    assert [r.id for r in back] == [first.id, second.id, third.id]
    assert [r.children for r in back] == [first.children, second.children, third.children]


def test_step_ids_out_of_order_are_flagged_and_the_order_of_the_file_kept() -> None:
    steps = [{"step_id": 2, "source": "user", "message": "a"}, {"step_id": 2, "source": "agent"}]
    run = run_of(FORMAT, {**ATIF, "steps": steps})
    assert codes(run) == [("step_id_not_sequential", 0)]
    assert [s.index for s in run.steps] == [0, 1]


def test_fields_the_format_does_not_know_are_kept() -> None:
    call = {"tool_call_id": "c", "function_name": "f", "arguments": {}, "novel": 1}
    step = {"step_id": 1, "source": "agent", "message": "x", "tool_calls": [call], "new": [2]}
    run = run_of(FORMAT, {**ATIF, "steps": [step], "brand_new": {"b": 3}})
    assert run.extra is not None
    assert run.extra["brand_new"] == {"b": 3}
    assert run.steps[0].extra == {"new": [2]}
    assert run.steps[0].calls[0].extra == {"novel": 1}
    assert there_and_back(run) == run


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema_version": "ATIF-v2.0"}, "this importer reads ATIF-v1.0 to v1.8"),
        ({"steps": "x"}, "`$.steps`"),
        ({"agent": {}}, "missing required field `name`"),
        ({"steps": [{"source": "robot"}]}, "step 0: Invalid enum value 'robot'"),
        ({"steps": [{"source": "user", "message": 3}]}, "step 0: Expected `str | array | null`"),
        ({"steps": [{"source": "agent", "tool_calls": [{}]}]}, "step 0: Object missing required"),
        ({"steps": [{"source": "agent", "observation": []}]}, "step 0: Expected `object | null`"),
        ({"steps": [{"source": "agent", "metrics": {"prompt_tokens": "x"}}]}, "`$.metrics"),
        ({"steps": [7]}, "step 0: Expected `object`, got `int`"),
        ({"subagent_trajectories": [7]}, "an ATIF run is an object; found '7'"),
        ({"extra": {"stepscope": 3}}, "`extra.stepscope` is '3'"),
        ({"extra": {"stepscope": {"tags": 3}}}, "Expected `object`, got `int`"),
        ({"extra": {"stepscope": {"folded": [{"index": 9, "actor": "agent"}]}}}, "do not fit"),
    ],
)
def test_a_record_of_wrong_types_is_quarantined_with_one_line(change: Json, reason: str) -> None:
    bad = refused(FORMAT, {**ATIF, **change})
    assert reason in bad.reason
    assert "\n" not in bad.reason


@pytest.mark.parametrize(
    ("file", "confident"),
    [
        (ATIF, True),
        (written(ATIF)[:60], True),
        ({"schema_version": "2.0", "steps": []}, False),
        ({"schema": "ATIF-v1.7"}, False),
        ([], False),
    ],
)
def test_sniff_knows_atif_from_others(file: Json, confident: bool) -> None:
    assert (FORMAT.sniff(written(file)) >= 0.5) is confident


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


@settings(max_examples=60, deadline=None)
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
        labels=(Label(kind="note", reason="r"),),
        warnings=(Warn("odd", "kept", 0),),
        extra=extra,
    )
    run = finish(draft, Ordinals())
    assert there_and_back(run) == run
    valid(json.loads(as_atif(run)))


def test_a_run_counted_among_equals_keeps_its_ordinal_and_id_alone() -> None:
    ordinals = Ordinals()
    draft = Trajectory(
        id="", name="n", steps=(Step(index=0, actor="user"),), source=Source(format="t")
    )
    first, second = finish(draft, ordinals), finish(draft, ordinals)
    assert first.id != second.id
    assert there_and_back(second).id == second.id


def test_runs_that_are_each_others_parents_are_written_all_the_same() -> None:
    base = Trajectory(id="a", name="n", steps=(), source=Source(format="t"), parent="b")
    other = msgspec.structs.replace(base, id="b", parent="a")
    assert len(as_atif(base, other).splitlines()) == 2
