"""LangSmith's runs in every shape that they come in, and graphs of runs that are none."""

from __future__ import annotations

import json

import pytest

from stepscope.formats.langsmith_files import FORMAT
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


def test_beginnings_and_ends_that_are_logged_apart_are_one_run_in_either_order() -> None:
    began = {k: v for k, v in ROUNDS[3].items() if k not in {"outputs", "end_time"}}
    ended = {key: ROUNDS[3][key] for key in ("id", "trace_id", "outputs", "end_time")}
    for halves in ((began, ended), (ended, began)):
        run = run_of(FORMAT, lines(*ROUNDS[:3], *halves))
        assert (run.id, run.warnings) == (run_of(FORMAT, ROUNDS).id, ())


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


def test_a_part_of_a_trace_with_what_is_nested_in_it_is_of_that_trace() -> None:
    part = {**ROUNDS[1], "child_runs": [{"id": "p", "name": "p", "run_type": "parser"}]}
    run = run_of(FORMAT, [ROUNDS[0], part])
    assert [(span.id, span.parent) for span in run.spans if span.id == "p"] == [("p", "m1")]
