from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from stepscope.formats.whowhen import FORMAT
from stepscope.model import Json, Stream, Trajectory
from tests.formats.reading import refused, run_of, written

LABELS = {
    "question": "How many?",
    "question_ID": "q-1",
    "ground_truth": "7",
    "mistake_agent": "Expert",
    "mistake_step": "1",
    "mistake_reason": "guessed",
}
GENERATED = {
    **LABELS,
    "is_correct": False,
    "level": "2",
    "system_prompt": {"Expert": "You are."},
    "history": [
        {"content": "Task", "role": "assistant", "name": "Expert"},
        {"content": "I guess", "role": "user", "name": "Checker_Expert"},
        {"content": "exitcode: 1 (execution failed)", "role": "user", "name": "Computer_terminal"},
        {
            "content": "exitcode: 0 (execution succeeded)",
            "role": "user",
            "name": "Computer_terminal",
        },
    ],
}
CRAFTED = {
    **LABELS,
    "mistake_agent": "Orchestrator",
    "is_corrected": False,
    "level": 3,
    "mistake_type": "planning",
    "history": [
        {"content": "How many?", "role": "human"},
        {"content": "Plan", "role": "Orchestrator (thought)"},
        {"content": "Go", "role": "Orchestrator (-> WebSurfer)"},
        {"content": "Seen", "role": "WebSurfer"},
        {"content": "Done", "role": "Orchestrator (termination condition)"},
    ],
}


def test_generated_runs_name_the_agent_in_name() -> None:
    run = run_of(FORMAT, GENERATED)
    assert [(s.actor, s.agent, s.kind) for s in run.steps] == [
        ("agent", "Expert", "message"),
        ("agent", "Checker_Expert", "message"),
        ("environment", "Computer_terminal", "message"),
        ("environment", "Computer_terminal", "message"),
    ]
    assert [s.error is not None for s in run.steps] == [False, False, True, False]
    assert (run.name, run.workflow) == ("whowhen-algorithm/q-1", "whowhen-algorithm")
    assert run.extra == {"system_prompt": {"Expert": "You are."}}


def test_hand_crafted_runs_name_the_agent_in_role_with_what_it_does_behind() -> None:
    run = run_of(FORMAT, CRAFTED)
    assert [(s.actor, s.agent, s.kind) for s in run.steps] == [
        ("user", None, "message"),
        ("agent", "Orchestrator", "plan"),
        ("agent", "Orchestrator", "handoff"),
        ("agent", "WebSurfer", "message"),
        ("agent", "Orchestrator", "other"),
    ]
    assert run.steps[2].extra == {"role": "Orchestrator (-> WebSurfer)"}
    assert (run.name, run.workflow) == ("whowhen-handcrafted/q-1", "whowhen-handcrafted")


@pytest.mark.parametrize(
    ("record", "agent", "level"), [(GENERATED, "Expert", "2"), (CRAFTED, "Orchestrator", "3")]
)
def test_the_label_the_outcome_and_the_case_come_along(
    record: Json, agent: str, level: str
) -> None:
    run = run_of(FORMAT, record)
    (label,) = run.labels
    assert (label.kind, label.step, label.agent) == ("decisive_step", 1, agent)
    assert (label.reason, label.annotator) == ("guessed", "Who&When")
    assert (run.outcome.status, run.outcome.source) == ("fail", "label")
    assert run.case is not None
    assert (run.case.request, run.case.outputs, run.case.difficulty) == ("How many?", ("7",), level)
    assert (run.task, run.source.run_id, run.usage) == ("q-1", "q-1", None)


def test_without_a_verdict_the_outcome_is_unknown() -> None:
    record = {k: v for k, v in GENERATED.items() if k != "is_correct"}
    assert run_of(FORMAT, record).outcome.status == "unknown"


def test_a_label_that_changes_keeps_the_id() -> None:
    assert run_of(FORMAT, GENERATED).id == run_of(FORMAT, {**GENERATED, "mistake_step": "0"}).id


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mistake_step": "4"}, "`mistake_step` is 4; the history has 4 steps, from 0"),
        ({"mistake_step": "-1"}, "expected digits"),
        ({"mistake_step": "one"}, "expected digits"),
        ({"mistake_step": "²"}, "expected digits"),
        ({"mistake_step": None}, "`$.mistake_step`"),
        ({"history": "text"}, "`$.history`"),
        ({"history": [{"content": "x"}]}, "message 0 needs an object with a `role`"),
        ({"history": [3]}, "message 0 needs an object with a `role`; found '3'"),
    ],
)
def test_a_record_of_wrong_types_is_quarantined_with_one_line(change: Json, reason: str) -> None:
    assert reason in refused(FORMAT, {**GENERATED, **change}).reason


@pytest.mark.parametrize(
    ("file", "confident"),
    [
        (GENERATED, True),
        (CRAFTED, True),
        (written(CRAFTED)[:700], True),
        ({"history": []}, False),
        ({"history": [{"role": "user", "content": "x"}], "question": "q"}, False),
        ({"mistake_step": "1", "mistake_agent": "a", "mistake_reason": "r"}, False),
    ],
)
def test_sniff_knows_whowhen_from_others(file: Json, confident: bool) -> None:
    assert (FORMAT.sniff(written(file)) >= 0.5) is confident


@pytest.mark.shared_data
def test_all_ninety_runs_import_with_the_figures_of_the_data_set(shared: Path) -> None:
    figures: Counter[str] = Counter()
    ids = set()
    for path in sorted((shared / "whowhen").glob("*/*.json")):
        head = path.read_bytes()[: 256 * 1024]
        assert FORMAT.sniff(head) >= 0.5, path
        with path.open("rb") as file:
            (run,) = FORMAT.read(Stream(file, path.name))
        assert isinstance(run, Trajectory)
        ids.add(run.id)
        (label,) = run.labels
        assert label.step is not None
        figures["runs"] += 1
        figures[f"{run.workflow} runs"] += 1
        figures[f"{run.workflow} steps"] += len(run.steps)
        figures["same agent"] += run.steps[label.step].agent == label.agent
        figures["executor failed"] += sum(s.error is not None for s in run.steps)
        figures["fail"] += run.outcome.status == "fail"
    assert len(ids) == 90
    assert figures == {
        "runs": 90,
        "fail": 90,
        "whowhen-algorithm runs": 59,
        "whowhen-algorithm steps": 521,
        "whowhen-handcrafted runs": 31,
        "whowhen-handcrafted steps": 1223,
        # In four runs people blame another agent than the one who speaks at the step.
        "same agent": 86,
        "executor failed": 41,
    }
