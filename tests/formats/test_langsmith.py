"""LangSmith's runs in every shape that they come in, and graphs of runs that are none."""

from __future__ import annotations

import json
import time

import pytest

from stepscope.formats.langsmith import FORMAT
from stepscope.model import Json, Quarantined, Trajectory, figures
from tests.formats.langsmith_runs import (
    ROUNDS,
    Record,
    a_model,
    a_run,
    entries,
    recorded,
    results,
    runs_of,
    told,
    user,
)
from tests.formats.reading import codes, lines, read, refused, run_of, written


def test_an_agent_of_langchain_is_one_run_with_its_calls_and_what_the_tools_said_of_them() -> None:
    run = run_of(FORMAT, recorded("agent.jsonl"))
    assert told(run) == [
        ("system", "message", None),
        ("user", "message", None),
        ("agent", "call", "planner"),
        ("environment", "result", None),
        ("environment", "result", None),
        ("agent", "message", "planner"),
    ]
    assert results(run) == [
        ("c1", "21 degrees in Paris", "ok", "explicit"),
        ("c2", "no rooms left", "error", "explicit"),
    ]
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.cache_read, run.usage.output_total) == (140, 8, 32)
    assert [tool.name for tool in run.tools or ()] == ["get_weather", "book"]
    assert (run.steps[2].model, run.steps[2].finish_reason) == ("scripted-1", "tool_calls")
    assert (run.workflow, run.agent, run.tags) == ("planner", "planner", {"session": "t-1"})
    assert (len(run.spans), run.warnings) == (9, ())


def test_passing_control_on_is_a_handoff_and_the_next_agent_bears_its_own_name() -> None:
    run = run_of(FORMAT, recorded("handoff.jsonl"))
    assert told(run) == [
        ("system", "message", None),
        ("user", "message", None),
        ("agent", "handoff", "flight"),
        ("environment", "result", None),
        ("system", "message", None),
        ("agent", "call", "hotel"),
        ("environment", "result", None),
        ("agent", "message", "hotel"),
    ]
    assert run.steps[2].extra == {"to": "hotel"}
    assert results(run) == [
        ("f2", "handed over to hotel", "ok", "explicit"),
        ("h1", "no rooms left", "error", "explicit"),
    ]
    assert (run.workflow, run.tags, run.termination) == ("trip", {"session": "s-2"}, None)


def test_an_agent_within_a_tool_is_a_child_linked_both_ways_and_counts_its_own_tokens() -> None:
    main, child = [
        found for found in read(FORMAT, recorded("subagent.json")) if isinstance(found, Trajectory)
    ]
    assert (main.parent, main.children) == (None, (child.id,))
    assert (child.parent, child.children) == (main.id, ())
    assert [step.text or step.kind for step in main.steps] == [
        "You lead.", "Do I need a coat in Oslo?", "call", "result", "Take a coat.",
    ]  # fmt: skip
    assert [step.text or step.kind for step in child.steps] == [
        "You research.", "How is Oslo?", "call", "result", "Oslo is cold.",
    ]  # fmt: skip
    assert (main.agent, child.agent) == ("lead", "researcher")
    assert (figures(main).tokens, figures(child).tokens) == (36, 30)
    assert len(main.spans) + len(child.spans) == 14
    assert child.spans[0].parent in {span.id for span in main.spans}
    assert (main.warnings, child.warnings) == ((), ())


def test_a_chain_in_a_tool_that_is_no_agent_stays_in_the_run() -> None:
    inner = [
        a_run("chain", "look", 3),
        a_model("m", "chain", 3, [user("sum up")], {"content": "x"}),
    ]
    run = run_of(FORMAT, [*ROUNDS, *inner])
    assert "sum up" in [step.text for step in run.steps]
    assert run.children == ()


def test_clients_of_openai_wrapped_by_langsmith_are_read_with_retrieval_and_embedding() -> None:
    run = run_of(FORMAT, recorded("openai.jsonl"))
    assert [(step.actor, step.kind, step.text) for step in run.steps] == [
        ("agent", "other", "Weather in Paris?"),
        ("environment", "retrieval", "Paris is mild."),
        ("user", "message", "Weather in Paris?"),
        ("agent", "call", ""),
        ("environment", "result", ""),
        ("agent", "message", "It is 21 degrees in Paris."),
    ]
    # Nobody passed the call's id to the tool: it is found by name and arguments.
    assert results(run) == [("call_1", "21 degrees in Paris", "ok", "protocol")]
    assert run.steps[1].parts[0].extra == {"metadata": {"source": "a.txt"}, "type": "Document"}
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.cache_read, run.usage.output_total) == (100, 16, 17)


def test_batches_of_the_sdk_with_a_wrapped_anthropic_client_are_one_run() -> None:
    run = run_of(FORMAT, recorded("anthropic.jsonl"))
    assert [step.text for step in run.steps] == [
        "Be brief.", "Weather in Oslo?", "Let me look.", "", "It is cold in Oslo.",
    ]  # fmt: skip
    assert [(c.name, c.arguments, c.id) for c in run.steps[2].calls] == [
        ("get_weather", {"city": "Oslo"}, "toolu_1")
    ]
    assert results(run) == [("toolu_1", "21 degrees in Oslo", "ok", "explicit")]
    assert run.usage is not None
    # The client's own count leaves the cache out: 20 + 100 + 3, then 50.
    assert (run.usage.input_total, run.usage.cache_read, run.usage.cache_write) == (173, 100, 3)
    assert run.workflow == "scripted"


def test_a_tool_that_raised_is_an_error_and_ends_the_run() -> None:
    run = run_of(FORMAT, recorded("failing.jsonl"))
    (result,) = [result for step in run.steps for result in step.results]
    assert (result.status, result.source) == ("error", "explicit")
    assert (result.error or "").startswith("ValueError('no such thing')")
    assert (run.termination or "").startswith("ValueError('no such thing')")


def test_one_trace_is_the_same_run_as_list_lines_page_and_nest_in_any_order() -> None:
    listed = entries("agent.jsonl")
    shapes: list[Json] = [
        listed,
        listed[::-1],
        lines(*listed[::-1]),
        {"runs": listed, "cursors": {"next": None}},
        {"post": listed, "patch": []},
        nested(listed),
        [nested(listed)],
    ]
    runs = [run_of(FORMAT, shape) for shape in shapes]
    assert {(run.id, len(run.spans), run.warnings) for run in runs} == {(runs[0].id, 9, ())}
    assert runs[3].extra == {**(runs[0].extra or {}), "cursors": {"next": None}}


def nested(listed: list[Record]) -> Record:
    """The root with the others inside their parents, which they no longer name."""
    held = {entry["id"]: {**entry, "child_runs": []} for entry in listed}
    root: Record = {}
    for entry in held.values():
        parent = entry.pop("parent_run_id")
        if parent is None:
            root = entry
        else:
            held[parent]["child_runs"].append(entry)
            for key in ("trace_id", "dotted_order"):
                del entry[key]
    return root


def test_the_same_history_in_every_round_makes_each_message_one_step() -> None:
    run = run_of(FORMAT, ROUNDS)
    assert [(step.actor, step.kind) for step in run.steps] == [
        ("user", "message"), ("agent", "call"), ("environment", "result"), ("agent", "message"),
    ]  # fmt: skip
    assert codes(run) == []


def test_a_patch_adds_to_its_run_even_if_only_its_place_names_it() -> None:
    place = "20261122T040001000002Zm1"
    posted = a_model("m1", None, 1, [user("go")], {"content": "Hi."})
    answer = posted.pop("outputs")
    del posted["end_time"]
    posted |= {"trace_id": "m1", "dotted_order": place, "extra": {"metadata": {"a": 1}}}
    patch = {
        "trace_id": "m1",
        "dotted_order": place,
        "end_time": 1795320002000,
        "inputs": posted["inputs"],
        "outputs": answer,
        "extra": {"metadata": {"thread_id": "th"}},
    }
    run = run_of(FORMAT, {"post": [posted], "patch": [patch]})
    assert [step.text for step in run.steps] == ["go", "Hi."]
    assert (run.tags, codes(run)) == ({"session": "th"}, [])
    assert run.spans[0].attributes["langsmith.metadata.a"] == 1
    assert run.end is not None
    assert run.end.ns == 1795320002000000000


def test_what_a_patch_leaves_empty_stays_as_it_was_posted() -> None:
    posted = a_model("m1", None, 1, [user("go")], {"content": "Hi."})
    patch = {"id": "m1", "inputs": {}, "outputs": {}, "tags": [], "extra": {"metadata": {"a": 1}}}
    run = run_of(FORMAT, {"post": [{**posted, "extra": {"metadata": {}}}], "patch": [patch]})
    assert [step.text for step in run.steps] == ["go", "Hi."]
    assert (codes(run), run.spans[0].attributes["langsmith.metadata.a"]) == ([], 1)


def test_a_run_listed_twice_is_one_what_is_said_last_counts_and_a_warning_tells() -> None:
    pending = {**ROUNDS[3], "outputs": None, "end_time": None, "status": "pending"}
    done = {**ROUNDS[3], "status": "success", "name": "named"}
    for twice in ([pending, done], [done, pending]):
        run = run_of(FORMAT, [*ROUNDS[:3], *twice])
        assert [step.text for step in run.steps if step.actor == "agent"] == ["", "A door."]
        assert codes(run) == [("duplicate_run_id", 3)]
        assert len(run.spans) == 4
    assert run.extra is not None
    assert run.extra["span_facts"][3]["replaced"] == {"name": "named"}


def test_a_run_that_is_listed_once_has_no_such_warning() -> None:
    assert codes(run_of(FORMAT, [{**entry, "status": "success"} for entry in ROUNDS])) == []


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


def test_runs_that_name_no_trace_are_of_the_trace_of_their_root_and_circles_end() -> None:
    bare = [{k: v for k, v in entry.items() if k != "trace_id"} for entry in ROUNDS]
    assert [run.source.run_id for run in runs_of(bare[::-1])] == ["t"]
    circle = [
        {**bare[1], "parent_run_id": "m2"},
        {**bare[3], "parent_run_id": "m1"},
    ]
    (run,) = runs_of(circle)
    assert [code for code, _ in codes(run) if code == "span_cycle"] == ["span_cycle"] * 2


def test_traces_that_alternate_in_a_file_are_runs_of_their_own() -> None:
    other = [{**entry, "trace_id": "u", "id": entry["id"] + "u"} for entry in ROUNDS]
    for entry in other[1:]:
        entry["parent_run_id"] += "u"
    mixed = [entry for pair in zip(ROUNDS, other, strict=True) for entry in pair]
    runs = runs_of(mixed)
    assert [(run.source.run_id, len(run.steps)) for run in runs] == [("t", 4), ("u", 4)]
    assert runs[0].id != runs[1].id


def test_what_is_no_run_is_set_aside_without_the_others() -> None:
    nameless = {"run_type": "llm", "trace_id": "t"}
    for listed in ([nameless, *ROUNDS], lines(*ROUNDS, nameless), {"runs": [nameless, *ROUNDS]}):
        (bad,) = [each for each in read(FORMAT, listed) if isinstance(each, Quarantined)]
        assert bad.reason.startswith("a LangSmith run needs an `id`; found")
        assert json.loads(bad.raw) == nameless
        (run,) = [each for each in read(FORMAT, listed) if isinstance(each, Trajectory)]
        assert len(run.steps) == 4
    page = {"runs": [7]}
    assert refused(FORMAT, page).reason == "a LangSmith run is an object; found '7'"
    assert refused(FORMAT, page).raw == written(page)


@pytest.mark.parametrize(
    ("value", "sure"),
    [
        (ROUNDS, True),
        (ROUNDS[0], True),
        ({"runs": ROUNDS}, True),
        ({"post": [ROUNDS[0]], "patch": []}, True),
        ({"post": [], "patch": [{"trace_id": "t", "dotted_order": "x", "end_time": 1}]}, True),
        ([{**ROUNDS[0], "run_type": "job"}], False),
        ([{"id": "1", "run_type": "llm"}], False),
        ({"runs": []}, False),
        ({"runs": [{"id": 1}]}, False),
        ({"post": [{"trace_id": "t"}]}, False),
    ],
)
def test_only_runs_of_langsmith_are_taken_for_them(value: Json, sure: bool) -> None:
    assert (FORMAT.sniff(written(value)) > 0.9) is sure


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


def test_a_part_of_a_trace_with_what_is_nested_in_it_is_of_that_trace() -> None:
    part = {**ROUNDS[1], "child_runs": [{"id": "p", "name": "p", "run_type": "parser"}]}
    run = run_of(FORMAT, [ROUNDS[0], part])
    assert [(span.id, span.parent) for span in run.spans if span.id == "p"] == [("p", "m1")]


def test_a_trace_of_many_runs_takes_time_in_proportion() -> None:
    few, many = min(seconds(250) for _ in range(3)), seconds(2_500)
    assert many < 30 * few


def seconds(count: int) -> float:
    """Of CPU, for as many tools beside each other and as many chains within each other."""
    tools = [{**ROUNDS[2], "id": f"r{n}", "name": f"f{n}"} for n in range(count)]
    deep = [a_run(f"d{n}", f"d{n + 1}") for n in range(count)]
    file = lines(ROUNDS[0], *tools, *deep)
    begun = time.process_time()
    (run,) = runs_of(file)
    spent = time.process_time() - begun
    assert (len(run.spans), len(run.steps)) == (2 * count + 1, 2 * count + 2)
    return spent
