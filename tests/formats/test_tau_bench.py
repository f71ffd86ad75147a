from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.formats.tau_bench import FORMAT
from stepscope.model import Json, Quarantined, Stream, Trajectory
from tests.formats.reading import codes, read, refused, run_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "airline" / "runs.json"


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> Json:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def answer(content: str, call_id: str = "c1") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "name": "f", "content": content}


def record(*messages: Json, **fields: Json) -> dict[str, Json]:
    traj = [{"role": "system", "content": "# Airline Agent Policy\n\nBe kind."}, *messages]
    actions = [
        {"name": "get_user_details", "kwargs": {"user_id": "u"}},
        {"name": "cancel_reservation", "kwargs": {"reservation_id": "A"}},
        {"name": "cancel_reservation", "kwargs": {"reservation_id": "B"}},
        {"name": "transfer_to_human_agents", "kwargs": {"summary": "s"}},
    ]
    task = {"user_id": "u", "instruction": "Cancel A and B.", "actions": actions, "outputs": ["9"]}
    info = {"task": task, "source": "user", "user_cost": 0.5}
    return {"task_id": 11, "reward": 1.0, "info": info, "traj": traj, "trial": 2, **fields}


def test_a_run_is_named_by_workflow_task_and_trial() -> None:
    run = run_of(FORMAT, [record()])
    assert (run.name, run.workflow, run.task, run.trial) == ("airline/11/2", "airline", "11", "2")
    assert (run.agent, run.usage, run.start) == (None, None, None)


def test_one_message_is_one_step_at_its_position() -> None:
    run = run_of(
        FORMAT,
        [record({"role": "user", "content": "hi"}, call("f", '{"a": 1}'), answer("Error: no"))],
    )
    assert [(s.index, s.actor, s.kind) for s in run.steps] == [
        (0, "system", "message"),
        (1, "user", "message"),
        (2, "agent", "call"),
        (3, "environment", "result"),
    ]
    (made,) = run.steps[2].calls
    assert (made.id, made.name, made.arguments, made.raw) == ("c1", "f", {"a": 1}, '{"a": 1}')
    (came,) = run.steps[3].results
    assert (came.call_id, came.name, came.text) == ("c1", "f", "Error: no")
    assert run.warnings == ()


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Error: not found", "error"),
        ("error: not found", "ok"),
        ("No Error: fine", "ok"),
        ("", "ok"),
        ('{"error": "kept"}', "ok"),
    ],
)
def test_only_text_beginning_error_is_an_error(text: str, status: str) -> None:
    run = run_of(FORMAT, [record(call("f"), answer(text))])
    (came,) = run.steps[2].results
    assert (came.status, came.source) == (status, "heuristic")


def test_the_case_holds_reference_subgoals_and_outputs() -> None:
    case = run_of(FORMAT, [record()]).case
    assert case is not None
    assert case.reference is not None
    assert [r.name for r in case.reference] == [
        "get_user_details",
        "cancel_reservation",
        "cancel_reservation",
        "transfer_to_human_agents",
    ]
    assert [(g.name, g.tool, g.arguments) for g in case.subgoals] == [
        ("cancel_reservation", "cancel_reservation", {"reservation_id": "A"}),
        ("cancel_reservation 2", "cancel_reservation", {"reservation_id": "B"}),
    ]
    assert (case.workflow, case.task, case.request) == ("airline", "11", "Cancel A and B.")
    assert (case.order, case.outputs, case.setup) == ("unordered", ("9",), {"user_id": "u"})


@pytest.mark.parametrize(
    ("reward", "status"),
    [(1.0, "pass"), (1, "pass"), (1 - 1e-7, "pass"), (1 - 1e-5, "fail"), (0.0, "fail")],
)
def test_the_reward_decides_with_the_benchmarks_own_tolerance(reward: float, status: str) -> None:
    outcome = run_of(FORMAT, [record(reward=reward)]).outcome
    assert (outcome.status, outcome.source, outcome.reward) == (status, "reward", reward)


@pytest.mark.parametrize(
    ("reward", "matches", "source", "reason"),
    [
        (0.0, 0.0, "check", "the final state differs from that of the reference calls"),
        (1.0, True, "check", "the final state is that of the reference calls"),
        (0.0, 1.0, "reward", "reward 0"),  # what was wrong was something else
        (0.0, None, "reward", "reward 0"),
        (0.0, "no", "reward", "reward 0"),
    ],
)
def test_where_the_recorder_compared_states_the_difference_is_the_reason(
    reward: float, matches: object, source: str, reason: str
) -> None:
    info = {"reward_info": {"reward": reward, "info": {"r_actions": matches}}}
    outcome = run_of(FORMAT, [record(reward=reward, info=info)]).outcome
    assert (outcome.source, outcome.reward, outcome.reason) == (source, reward, reason)


def test_no_reward_is_an_unknown_outcome_not_a_failure() -> None:
    outcome = run_of(FORMAT, [record(reward=None)]).outcome
    assert (outcome.status, outcome.source, outcome.reward) == ("unknown", "none", None)


def test_what_has_no_field_stays_in_extra() -> None:
    message = {"role": "user", "content": "hi", "index": 4, "refusal": None}
    run = run_of(FORMAT, [record(message, records={"a": 1})])
    assert run.extra == {"info": {"source": "user", "user_cost": 0.5}, "records": {"a": 1}}
    assert run.steps[1].extra == {"index": 4}


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"reward": "high"}, "`$.reward` is text, expected a number"),
        ({"trial": [1]}, "`$.trial` is an array, expected text or a whole number"),
        ({"info": 3}, "`$.info` is a whole number, expected an object"),
    ],
)
def test_an_ornamental_key_of_another_shape_never_costs_the_run(
    odd: dict[str, Json], why: str
) -> None:
    run = run_of(FORMAT, [record(**odd)])
    assert [(w.code, w.reason) for w in run.warnings] == [("unexpected_shape", why)]
    assert run.extra is not None
    assert {key: run.extra[key] for key in odd} == odd


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"traj": "text"}, "`$.traj` is text, expected an array"),
        ({"info": {"task": {"actions": [{"kwargs": {}}]}}}, "`$[0].name` is missing"),
        ({"traj": [3]}, "message 0 needs an object; found '3'"),
        ({"traj": [{"role": "wizard"}]}, "message 0 needs a `role` among system, developer"),
        ({"traj": [{"role": ["user"]}]}, "message 0 needs a `role`"),
        ({"traj": [{"role": "user", "content": 3}]}, "message 0 needs text, a list or null"),
        ({"traj": [{"role": "assistant", "tool_calls": "f"}]}, "a list under `tool_calls`"),
        ({"traj": [{"role": "assistant", "tool_calls": [7]}]}, "objects under `tool_calls`"),
        ({"traj": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}, "a `function` with"),
    ],
)
def test_a_record_of_wrong_types_is_quarantined_alone_with_its_reason(
    broken: dict[str, Json], reason: str
) -> None:
    bad = refused(FORMAT, [record(**broken)])
    assert reason in bad.reason
    assert "\n" not in bad.reason
    kept = read(FORMAT, [record(), record(**broken), record(trial=3)])
    assert [type(r) for r in kept] == [Trajectory, Quarantined, Trajectory]


def test_a_record_that_is_no_object_is_quarantined() -> None:
    kept = read(FORMAT, [record(), 3])
    assert [type(r) for r in kept] == [Trajectory, Quarantined]


def test_identical_trials_of_one_file_stay_apart_and_reading_twice_gives_the_same_ids() -> None:
    file = [record(trial=0), record(trial=1), record(trial=None), record(trial=None)]
    first = [r.id for r in read(FORMAT, file) if isinstance(r, Trajectory)]
    again = [r.id for r in read(FORMAT, file, uri="b.json") if isinstance(r, Trajectory)]
    assert first == again
    assert len(set(first)) == 4


def test_a_late_reward_and_another_order_of_keys_keep_the_id() -> None:
    one = record(reward=None)
    other = {key: record(reward=1.0)[key] for key in reversed(list(one))}
    assert run_of(FORMAT, [one]).id == run_of(FORMAT, [other]).id


def test_a_message_repeated_in_a_call_id_is_flagged() -> None:
    run = run_of(FORMAT, [record(call("f"), answer("x"), call("f"), answer("y"))])
    assert codes(run) == [("duplicate_call_id", 3)]


def test_the_bundled_airline_runs_read_whole() -> None:
    with EXAMPLE.open("rb") as file:
        runs = list(FORMAT.read(Stream(file, "runs.json")))
    assert all(isinstance(r, Trajectory) for r in runs)
    good = [r for r in runs if isinstance(r, Trajectory)]
    assert (len(good), len({r.id for r in good})) == (20, 20)
    assert sum(r.outcome.status == "pass" for r in good) == 8
    assert all(msgspec.json.decode(msgspec.json.encode(r), type=Trajectory) == r for r in good)


@pytest.mark.parametrize(
    ("head", "confident"),
    [
        (b'[{"task_id": 0, "reward": 0.0, "info": {"task": {"user_id": "m', True),
        (b'{"task_id": 0, "reward": 1.0, "traj": [{"role": "system", "content": "# Air', True),
        (b'[{"role": "user", "content": "traj task_id reward info trial"}]', False),
        (b'[{"task_id": 0, "simulations": []}]', False),
        (b'{"task_id": 3}', False),
        (b"", False),
        (b"\x00\x01", False),
        (b"[" * 1000, False),
    ],
)
def test_sniff_knows_a_tau_bench_file_even_where_the_head_is_cut(
    head: bytes, confident: bool
) -> None:
    assert (FORMAT.sniff(head) >= 0.5) is confident
