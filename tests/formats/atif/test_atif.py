from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest

from stepscope.formats.atif import FORMAT, write
from stepscope.model import Instant, Json, Trajectory, Usage
from tests.formats.reading import codes, read, refused, run_of, written

EXAMPLES = Path(__file__).parents[3] / "examples"

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
        ({"agent": {}}, "`$.agent.name` is missing"),
        ({"steps": [{"source": "robot"}]}, "step 0: Invalid enum value 'robot'"),
        (
            {"steps": [{"source": "user", "message": 3}]},
            "step 0: `$.message` is a whole number, expected an array or text",
        ),
        (
            {"steps": [{"source": "agent", "tool_calls": [{}]}]},
            "step 0: `$.function_name` is missing",
        ),
        (
            {"steps": [{"source": "agent", "observation": []}]},
            "step 0: `$.observation` is an array, expected an object",
        ),
        ({"steps": [{"source": "agent", "metrics": {"prompt_tokens": "x"}}]}, "`$.metrics"),
        ({"steps": [7]}, "step 0: `$` is a whole number, expected an object"),
        ({"subagent_trajectories": [7]}, "an ATIF run is an object; found '7'"),
        ({"extra": {"stepscope": 3}}, "`extra.stepscope` is '3'"),
        ({"extra": {"stepscope": {"tags": 3}}}, "`$` is a whole number, expected an object"),
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
