from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.formats.claude_code import FORMAT
from stepscope.model import Json, Quarantined, Stream, Trajectory
from tests.formats.reading import codes, lines, read, run_of, written

EXAMPLE = Path(__file__).parents[2] / "examples" / "claude_code" / "sample_session.jsonl"


def line(kind: str, content: Json, uuid: str, parent: str | None = None, **more: Json) -> Json:
    role = "assistant" if kind == "assistant" else "user"
    message = {"role": role, "content": content, **more.pop("message", {})}
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": f"2026-01-01T00:00:{len(uuid):02d}Z",
        "message": message,
        **more,
    }


def use(call_id: str, name: str = "Bash") -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"command": "ls"}}


def result(call_id: str, text: str = "done", **more: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text, **more}


def of_message(message_id: str, input_tokens: int, output_tokens: int) -> Json:
    usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    return {"id": message_id, "usage": usage, "model": "claude"}


def runs(*records: Json) -> list[Trajectory]:
    found = read(FORMAT, lines(*records))
    good = [r for r in found if isinstance(r, Trajectory)]
    assert len(good) == len(found), found
    return good


def test_the_bundled_session_has_the_figures_counted_by_hand() -> None:
    with EXAMPLE.open("rb") as file:
        (run,) = FORMAT.read(Stream(file, "s.jsonl"))
    assert isinstance(run, Trajectory)
    assert (len(run.steps), [c.name for s in run.steps for c in s.calls]) == (7, ["Write", "Bash"])
    assert [s.actor for s in run.steps] == [
        "user",
        "agent",
        "environment",
        "agent",
        "environment",
        "user",
        "agent",
    ]
    assert (run.name, run.agent, run.usage) == ("claude_code/test-session-id", "claude-code", None)
    assert (run.warnings, run.start, run.end) == ((), run.steps[0].start, run.steps[6].start)
    assert run.extra is not None
    assert [kept["line"]["type"] for kept in run.extra["lines"]] == ["summary"]
    assert (run.extra["cwd"], run.extra["gitBranch"]) == ("/project", "main")


def test_lines_of_one_api_message_are_one_step_and_the_last_usage_counts() -> None:
    (run,) = runs(
        line("user", "go", "a"),
        line(
            "assistant",
            [{"type": "text", "text": "On it."}],
            "bb",
            "a",
            message=of_message("m", 9, 1),
        ),
        line("assistant", [use("t1")], "ccc", "bb", message=of_message("m", 9, 2)),
        line("assistant", [use("t2")], "dddd", "ccc", message=of_message("m", 9, 30)),
        line("user", [result("t1")], "eeeee", "ccc"),
        line("user", [result("t2")], "ffffff", "dddd"),
    )
    assert [(s.index, len(s.calls)) for s in run.steps] == [(0, 0), (1, 2), (2, 0), (3, 0)]
    step = run.steps[1]
    assert (step.text, step.id, step.model) == ("On it.", "bb", "claude")
    assert step.usage is not None
    assert (step.usage.input_total, step.usage.output_total) == (9, 30)
    assert run.usage == step.usage
    assert step.extra is not None
    assert step.extra["more_lines"] == ["ccc", "dddd"]
    assert step.end is not None
    assert step.end.text == "2026-01-01T00:00:04Z"
    assert run.warnings == ()


def test_a_message_split_around_a_result_counts_its_usage_once() -> None:
    (run,) = runs(
        line("assistant", [use("t1")], "a", message=of_message("m", 9, 1)),
        line("user", [result("t1")], "bb", "a"),
        line("assistant", [use("t2")], "ccc", "a", message=of_message("m", 9, 5)),
        line("user", [result("t2")], "dddd", "ccc"),
    )
    assert [s.usage is not None for s in run.steps] == [False, False, True, False]
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total) == (9, 5)


def test_what_was_rewound_is_kept_marked_and_flagged() -> None:
    (run,) = runs(
        line("user", "go", "a"),
        line("assistant", "wrong way", "bb", "a"),
        line("user", "try again", "ccc", "a"),
        line("assistant", "right", "dddd", "ccc"),
    )
    assert [bool((s.extra or {}).get("abandoned")) for s in run.steps] == [
        False,
        True,
        False,
        False,
    ]
    assert codes(run) == [("rewound", 1)]


def test_parallel_calls_fan_out_without_being_taken_for_rewinding() -> None:
    (run,) = runs(
        line("user", "go", "a"),
        line("assistant", [use("t1")], "bb", "a", message={"id": "m"}),
        line("assistant", [use("t2")], "ccc", "bb", message={"id": "m"}),
        line("user", [result("t1")], "dddd", "bb"),
        line("user", [result("t2")], "eeeee", "ccc"),
        line("assistant", "done", "ffffff", "eeeee"),
    )
    assert codes(run) == []


def test_a_call_that_was_never_answered_hangs_beside_the_path_of_its_message() -> None:
    (run,) = runs(
        line("user", "go", "a"),
        line("assistant", [use("t1")], "bb", "a", message={"id": "m"}),
        line("assistant", [use("t2")], "ccc", "bb", message={"id": "m"}),
        line("user", [result("t1")], "dddd", "bb"),
        line("assistant", "done", "eeeee", "dddd"),
    )
    assert codes(run) == [("call_without_result", 1)]


def test_what_was_rewound_is_told_across_a_compaction_and_a_replay() -> None:
    first = line("user", "go", "a")
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "dddd",
        "logicalParentUuid": "ccc",
        "sessionId": "s",
    }
    (run,) = runs(
        first,
        line("assistant", "wrong way", "bb", "a"),
        line("user", "try again", "ccc", "a"),
        boundary,
        first,
        line("assistant", "right", "eeeee", "dddd"),
    )
    assert [s.replayed for s in run.steps] == [False, False, False, False, True, False]
    assert codes(run) == [("rewound", 1)]


def test_orphans_and_cycles_of_parents_are_flagged_not_followed() -> None:
    (run,) = runs(
        line("user", "go", "a", "gone"),
        line("assistant", "x", "bb", "dddd"),
        line("user", "y", "ccc", "bb"),
        line("assistant", "z", "dddd", "ccc"),
    )
    assert len(run.steps) == 4
    assert ("orphan_parent", 0) in codes(run)
    assert [code for code, _ in codes(run)].count("parent_cycle") == 1


def test_a_sidechain_is_a_child_linked_both_ways() -> None:
    main, child = runs(
        line("user", "go", "a"),
        line("assistant", [use("t1", "Task")], "bb", "a"),
        line("user", "subtask", "ccc", None, isSidechain=True, agentId="ag"),
        line("assistant", "found", "dddd", "ccc", isSidechain=True, agentId="ag"),
        line(
            "user", [result("t1")], "eeeee", "bb", toolUseResult={"agentId": "ag", "status": "ok"}
        ),
    )
    assert (main.children, child.parent) == ((child.id,), main.id)
    assert (len(main.steps), len(child.steps)) == (3, 2)
    assert [s.sidechain for s in child.steps] == [True, True]
    assert (child.name, child.source.run_id) == ("claude_code/s/ag", "s/ag")
    assert main.steps[2].results[0].structured == {"agentId": "ag", "status": "ok"}


def test_a_sidechain_without_an_agent_id_is_told_by_its_parents() -> None:
    main, one, two = runs(
        line("user", "go", "a"),
        line("user", "first", "bb", None, isSidechain=True),
        line("user", "second", "ccc", None, isSidechain=True),
        line("assistant", "of first", "dddd", "bb", isSidechain=True),
        line("assistant", "of second", "eeeee", "ccc", isSidechain=True),
    )
    assert main.children == (one.id, two.id)
    assert [s.text for s in one.steps] == ["first", "of first"]
    assert [s.text for s in two.steps] == ["second", "of second"]


def test_a_subagent_in_a_file_of_its_own_and_its_parent_name_each_other() -> None:
    (main,) = runs(
        line("assistant", [use("t1", "Task")], "a"),
        line("user", [result("t1")], "bb", "a", toolUseResult={"agentId": "ag"}),
    )
    (child,) = runs(line("user", "subtask", "a", None, isSidechain=True, agentId="ag"))
    assert main.children == ("claude_code:s/ag",)
    assert (child.parent, child.source.run_id) == ("claude_code:s", "s/ag")


def test_lines_logged_again_after_a_compaction_are_replayed_and_count_once() -> None:
    call = line("assistant", [use("t1")], "bb", "a", message=of_message("m", 9, 5))
    answer = line("user", [result("t1")], "ccc", "bb")
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "uuid": "dddd",
        "parentUuid": None,
        "logicalParentUuid": "ccc",
        "sessionId": "s",
    }
    summary = line("user", "Summary of before", "eeeee", "dddd", isCompactSummary=True)
    (run,) = runs(
        line("user", "go", "a"),
        call,
        answer,
        boundary,
        summary,
        call,
        {**answer, "uuid": "ffffff"},
        line("assistant", "done", "ggggggg", "eeeee"),
    )
    assert [s.kind for s in run.steps][3:5] == ["compaction", "compaction"]
    assert [s.replayed for s in run.steps] == [False] * 5 + [True, True, False]
    assert run.usage is not None
    assert run.usage.output_total == 5
    assert [(e.step, e.result_step) for e in run.exchanges] == [(1, 2)]
    assert codes(run) == []


def test_two_equal_prompts_are_two_prompts() -> None:
    (run,) = runs(line("user", "yes", "a"), line("user", "yes", "bb", "a"))
    assert [s.replayed for s in run.steps] == [False, False]


def test_lines_of_other_kinds_are_kept_raw_where_they_stood() -> None:
    (run,) = runs(
        {"type": "file-history-snapshot", "snapshot": {"a": 1}, "sessionId": "s"},
        line("user", "caveat", "a", isMeta=True),
        line("user", "go", "bb"),
        {"type": "brand-new-kind", "sessionId": "s", "x": [1]},
        line("assistant", "ok", "ccc", "bb", requestId="req_1", cwd="/b"),
    )
    assert len(run.steps) == 2
    assert run.extra is not None
    kept = [(k["at"], k["line"]["type"]) for k in run.extra["lines"]]
    assert kept == [(0, "file-history-snapshot"), (0, "user"), (1, "brand-new-kind")]
    assert run.steps[1].extra == {"parentUuid": "bb", "requestId": "req_1"}


def test_what_is_repaired_in_a_line_before_the_session_is_told() -> None:
    early = b'{"type": "summary", "leafUuid": "x", "zz": 1, "zz": 2}\n'
    (run,) = read(FORMAT, early + lines(line("user", "go", "a"), line("assistant", "ok", "bb")))
    assert isinstance(run, Trajectory)
    assert [warn.code for warn in run.warnings] == ["duplicate_key"]


def test_what_changes_between_lines_is_said_by_the_step() -> None:
    (run,) = runs(
        line("user", "go", "a", cwd="/a", version="2.0.1"),
        line("assistant", "ok", "bb", "a", cwd="/b", version="2.0.1"),
    )
    assert run.extra == {"cwd": "/a", "version": "2.0.1"}
    assert run.steps[1].extra == {"parentUuid": "a", "cwd": "/b"}
    assert (run.agent_version, run.source.format_version) == ("2.0.1", "2.0.1")


@pytest.mark.parametrize(
    ("block", "status", "source"),
    [
        (result("t1", "boom", is_error=True), "error", "explicit"),
        (result("t1", "fine", is_error=False), "ok", "explicit"),
        (result("t1", "fine"), "unknown", "none"),
    ],
)
def test_a_tools_own_account_stands_beside_what_the_model_saw(
    block: Json, status: str, source: str
) -> None:
    own = {"stdout": "x", "stderr": "", "interrupted": False}
    (run,) = runs(
        line("assistant", [use("t1")], "a"), line("user", [block], "bb", "a", toolUseResult=own)
    )
    (came,) = run.steps[1].results
    assert (came.status, came.source, came.structured) == (status, source, own)


def test_stream_json_output_ends_with_cost_and_termination() -> None:
    (run,) = runs(
        {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"]},
        {"type": "assistant", "session_id": "s", "message": {"role": "assistant", "content": "ok"}},
        {
            "type": "result",
            "subtype": "success",
            "session_id": "s",
            "total_cost_usd": 0.25,
            "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5},
        },
    )
    assert (run.cost_usd, run.termination) == (0.25, "success")
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total) == (7, 5)


def test_a_session_file_has_no_cost_of_its_own() -> None:
    (run,) = runs(line("user", "go", "a"))
    assert (run.cost_usd, run.usage, run.termination) == (None, None, None)


def test_a_broken_line_is_quarantined_and_the_run_says_where() -> None:
    whole = lines(line("user", "go", "a"), line("assistant", "ok", "bb", "a"))
    first, second = whole.splitlines()
    found = read(FORMAT, b"\n".join([first, b'{"type": "assis', b"[3]", second, b'{"type": 3}']))
    assert [type(r) for r in found] == [Quarantined, Quarantined, Quarantined, Trajectory]
    run = found[-1]
    assert isinstance(run, Trajectory)
    assert len(run.steps) == 2
    assert [code for code, _ in codes(run)] == ["record_quarantined"] * 3


def test_a_broken_line_is_placed_in_the_main_thread_not_in_a_subagents() -> None:
    found = read(
        FORMAT,
        lines(
            line("user", "go", "a"),
            line("user", "sub", "bb", None, isSidechain=True, agentId="ag"),
            line("assistant", "found", "ccc", "bb", isSidechain=True, agentId="ag"),
            b'{"type": ',
            line("assistant", "ok", "dddd", "a"),
            line("user", "thanks", "eeeee", "dddd"),
        ),
    )
    main = next(r for r in found if isinstance(r, Trajectory))
    assert codes(main) == [("record_quarantined", 1)]


def test_a_session_being_written_keeps_what_is_whole() -> None:
    whole = lines(*[line("user", f"message {i}", "u" * (i + 1)) for i in range(5)])
    for cut in range(len(whole)):
        found = read(FORMAT, whole[:cut])
        good = [r for r in found if isinstance(r, Trajectory)]
        bad = [r for r in found if isinstance(r, Quarantined)]
        assert sum(len(r.steps) for r in good) + len(bad) >= whole[:cut].count(b"\n")
        assert len(bad) <= 1


def test_a_session_that_grows_keeps_its_run_id_and_its_first_steps() -> None:
    before = line("user", "go", "a")
    (short,) = runs(before)
    (longer,) = runs(before, line("assistant", "ok", "bb", "a"))
    assert short.source.run_id == longer.source.run_id == "s"
    assert short.steps == longer.steps[:1]
    assert short.id != longer.id


def test_several_sessions_of_one_file_are_several_runs() -> None:
    other = {**line("user", "go", "a"), "sessionId": "t"}
    first, second = runs(line("user", "go", "a"), other)
    assert (first.source.run_id, second.source.run_id) == ("s", "t")


@pytest.mark.parametrize(
    ("file", "confident"),
    [
        (lines({"type": "summary", "summary": "x", "leafUuid": "u"}), True),
        (lines(line("user", "go", "a")), True),
        (
            lines({"type": "user", "message": {"role": "user", "content": "x"}, "session_id": "s"}),
            True,
        ),
        (lines({"type": "user", "content": "hi"}), False),
        (lines({"role": "user", "content": "sessionId uuid parentUuid"}), False),
        (lines({"type": "summary", "summary": "x"}), False),
        (b"", False),
    ],
)
def test_sniff_knows_a_session_from_others(file: bytes, confident: bool) -> None:
    assert (FORMAT.sniff(file) >= 0.5) is confident


def test_the_id_ignores_the_files_name_and_the_order_of_keys() -> None:
    record = line("user", "go", "a")
    turned = dict(reversed(list(record.items())))
    one = run_of(FORMAT, written(record), uri="a.jsonl")
    assert one.id == run_of(FORMAT, written(turned), uri="b.jsonl").id


def test_a_session_of_notes_is_no_run_and_one_without_messages_is_set_aside() -> None:
    note = {"type": "summary", "summary": "s", "leafUuid": "u"}
    assert read(FORMAT, lines(note)) == []
    (aside,) = read(FORMAT, lines(note, {"type": "user", "sessionId": "s", "cwd": "d"}))
    assert isinstance(aside, Quarantined)
    assert "no line of it is a message" in aside.reason
