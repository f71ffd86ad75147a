"""When LangSmith's runs began and ended: by themselves, by their place, by their ids, or never."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from stepscope.formats.langsmith_files import FORMAT
from stepscope.model import figures
from tests.formats.langsmith_runs import ROUNDS, Record, a_run, runs_of
from tests.formats.reading import codes, lines, run_of


@pytest.mark.parametrize(
    ("changed", "warned"),
    [
        ({"end_time": None}, [("run_without_end", 3)]),
        ({"end_time": None, "status": "PENDING"}, [("run_without_end", 3)]),
        ({"end_time": None, "status": "success"}, []),
        ({"end_time": None, "error": "Boom"}, []),
        ({"parent_run_id": "gone"}, [("orphan_span", 3)]),
        (
            {"end_time": "2026-11-22T04:00:01"},
            [("span_negative_duration", 3), ("negative_duration", 3)],
        ),
    ],
)
def test_pending_orphaned_and_backward_runs_are_kept_and_told(
    changed: Record, warned: list[tuple[str, int]]
) -> None:
    run = run_of(FORMAT, [*ROUNDS[:3], {**ROUNDS[3], **changed}])
    assert (codes(run), len(run.steps), len(run.spans)) == (warned, 4, 4)


def test_a_pending_model_without_an_answer_is_a_step_that_says_nothing() -> None:
    waiting = {**ROUNDS[1], "outputs": None, "end_time": None}
    run = run_of(FORMAT, [ROUNDS[0], waiting])
    assert [(step.actor, step.text, step.end) for step in run.steps] == [
        ("user", "go", None), ("agent", "", None),
    ]  # fmt: skip
    assert codes(run) == [("run_without_end", 1)]


def test_place_in_the_trace_gives_parent_trace_and_start_to_a_run_that_lacks_them() -> None:
    root, model = dict(ROUNDS[0]), dict(ROUNDS[1])
    model |= {"dotted_order": "20261122T040000000001Zt.20261122T040001123456Zm1"}
    for key in ("trace_id", "parent_run_id", "start_time"):
        del model[key]
    run = run_of(FORMAT, [root, model])
    assert [(span.id, span.parent) for span in run.spans] == [("t", None), ("m1", "t")]
    assert run.spans[1].start_ns == 1795320001123456000


def test_runs_of_one_millisecond_stand_in_the_order_of_their_places() -> None:
    def placed(entry: Record, order: int) -> Record:
        own = f"20261122T040001{order:06}Z{entry['id']}"
        dotted = own if order == 0 else f"20261122T040001000000Zt.{own}"
        return {
            **entry,
            "start_time": 1795320001000,
            "end_time": 1795320001000,
            "dotted_order": dotted,
        }

    listed = [placed(entry, order) for order, entry in enumerate(ROUNDS)]
    for shape in (listed, listed[::-1]):
        run = run_of(FORMAT, shape)
        assert [step.kind for step in run.steps] == ["message", "call", "result", "message"]
        assert codes(run) == []
    assert (run.spans[1].start_ns, run.spans[1].end_ns) == (1795320001000001000,) * 2
    assert run.spans[1].attributes["langsmith.start_time"] == 1795320001000


def test_a_time_that_a_place_contradicts_is_taken_as_the_run_says_it() -> None:
    late = {**ROUNDS[0], "dotted_order": "20261122T050000000000Zt"}
    run = run_of(FORMAT, [late, *ROUNDS[1:]])
    assert run.spans[0].start_ns == 1795320000000000000


def test_scripts_that_export_traces_name_fields_anew_and_may_leave_out_times() -> None:
    exported: list[Record] = []
    for entry in ROUNDS:
        made = {"run_id": entry["id"], "parent_run_id": None, "duration_ms": 500, **entry}
        made |= {"token_usage": {"prompt_tokens": 7, "completion_tokens": 1}}
        made |= {"costs": {"total_cost": 0.5}, "custom_metadata": {"thread_id": "th"}}
        del made["id"]
        exported.append(made)
    run = run_of(FORMAT, {"trace_id": "t", "runs": exported})
    assert [step.kind for step in run.steps] == ["message", "call", "result", "message"]
    assert (run.tags, codes(run)) == ({"session": "th"}, [])
    assert (figures(run).tokens, figures(run).cost_usd) == (16, 1.0)
    for entry in exported:
        del entry["start_time"], entry["end_time"]
    bare = run_of(FORMAT, {"trace_id": "t", "runs": exported})
    assert [code for code, _ in codes(bare)][-1] == "runs_without_times"
    assert len(bare.spans) == 4


def test_runs_without_times_stand_by_the_times_in_their_ids() -> None:
    def named(entry: Record, second: int) -> Record:
        own = {"id": f"019a{second:08x}7000800000000000000{second}"[:32]}
        return {k: v for k, v in {**entry, **own}.items() if not k.endswith("_time")}

    root, *others = [named(entry, second) for second, entry in enumerate(ROUNDS)]
    listed = [root, *[{**entry, "parent_run_id": root["id"]} for entry in others]]
    run = run_of(FORMAT, listed[::-1])
    assert [step.kind for step in run.steps] == ["message", "call", "result", "message"]
    assert [span.start_ns is None for span in run.spans] == [False] * 4


def test_a_trace_of_many_runs_takes_work_in_proportion() -> None:
    few, many = lines_run(100), lines_run(1_000)
    assert many < 12 * few


def lines_run(count: int) -> int:
    """Lines of Python run, for as many tools beside each other and as many chains in each other."""
    tools = [{**ROUNDS[2], "id": f"r{n}", "name": f"f{n}"} for n in range(count)]
    deep = [a_run(f"d{n}", f"d{n + 1}") for n in range(count)]
    file = lines(ROUNDS[0], *tools, *deep)
    seen, before = 0, sys.gettrace()

    def line(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal seen
        seen += event == "line"
        return line

    sys.settrace(line)
    try:
        (run,) = runs_of(file)
    finally:
        sys.settrace(before)
    assert (len(run.spans), len(run.steps)) == (2 * count + 1, 2 * count + 2)
    return seen
