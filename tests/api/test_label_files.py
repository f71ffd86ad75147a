"""Labels in files: what other tools export comes in, and our own go out and come back whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from stepscope import api
from stepscope.api import Notebook
from stepscope.errors import UsageError
from stepscope.labels.questions import ALREADY_WRONG, DECISIVE
from stepscope.model import Label, Source, Span, Trajectory
from tests.factories import agent, run, user

AXIS = "axes.termination"
JUDGE = f"judge.{AXIS}"


def traced(at: int) -> Trajectory:
    """Return a run of a recorder: trace t0, its root span, and a span for each step."""
    made = run(user("hi"), agent("a"), agent("b"), id=f"r{at}", name=f"n{at}")
    steps = [structs.replace(step, span=f"s{at}-{step.index}") for step in made.steps]
    spans = [Span(id=f"root{at}"), *(Span(id=f"s{at}-{i}", parent=f"root{at}") for i in range(3))]
    source = Source(format="otlp", run_id=f"t{at}")
    return structs.replace(made, steps=tuple(steps), spans=tuple(spans), source=source)


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    with api.open(tmp_path / "runs.db") as made:
        made.store.put(map(traced, range(4)))
        yield made


def given(notebook: Notebook, tmp_path: Path, rows: Any, **options: Any) -> list[Label]:
    """Import rows as JSON (or a text as CSV) and return the labels."""
    text = rows if isinstance(rows, str) else json.dumps(rows)
    file = tmp_path / ("labels.csv" if isinstance(rows, str) else "labels.json")
    file.write_text(text, encoding="utf-8")
    notebook.add_verdicts(file, **{"human": True, **options})
    return list(notebook.store.labels())


def short(labels: list[Label]) -> list[tuple[object, ...]]:
    return [(x.trajectory, x.step, x.measure, x.label, x.annotator, x.reason) for x in labels]


LANGSMITH = {
    "id": "f1", "run_id": "s0-1", "trace_id": "t0", "key": AXIS, "score": 0.0, "value": "incorrect",
    "comment": "too soon", "feedback_source": {"type": "app", "user_id": "u1", "user_name": "ann"},
    "created_at": "2026-03-01T10:00:00+00:00",
}  # fmt: skip
LANGFUSE = {
    "id": "s1", "traceId": "t0", "observationId": "s0-1", "name": AXIS, "value": 0,
    "stringValue": "incorrect", "dataType": "CATEGORICAL", "source": "ANNOTATION",
    "authorUserId": "ann", "comment": "too soon", "timestamp": "2026-03-01T10:00:00.000Z",
}  # fmt: skip
LANGFUSE_BLOB = {
    "id": "s1", "trace_id": "t0", "observation_id": "s0-1", "name": AXIS, "value": 0,
    "string_value": "incorrect", "data_type": "CATEGORICAL", "source": "ANNOTATION",
    "author_user_id": "ann", "comment": "too soon", "timestamp": "2026-03-01 10:00:00.000000",
}  # fmt: skip
PHOENIX = {
    "id": "U3Bhbg==", "span_id": "s0-1", "name": AXIS, "annotator_kind": "HUMAN", "user_id": "ann",
    "result": {"label": "incorrect", "score": 0.0, "explanation": "too soon"}, "identifier": "",
    "created_at": "2026-03-01T10:00:00+00:00", "source": "APP", "metadata": {},
}  # fmt: skip
MLFLOW = {
    "assessment_id": "a-1", "assessment_name": AXIS, "trace_id": "t0", "span_id": "s0-1",
    "source": {"source_type": "HUMAN", "source_id": "ann"}, "feedback": {"value": "incorrect"},
    "rationale": "too soon", "create_time": "2026-03-01T10:00:00Z", "valid": True,
}  # fmt: skip
LABEL_STUDIO = {
    "id": 1, "data": {"run": "n0", "step": 1, "text": "..."}, "predictions": [],
    "annotations": [
        {
            "id": 7, "completed_by": {"id": 3, "email": "ann"}, "lead_time": 4.25,
            "was_cancelled": False, "created_at": "2026-03-01T10:00:00Z",
            "result": [
                {
                    "id": "x", "from_name": AXIS, "to_name": "text", "type": "choices",
                    "value": {"choices": ["incorrect"]},
                },
                {"id": "y", "from_name": "box", "type": "rectangle", "value": {"x": 1, "y": 2}},
            ],
        },
        {"id": 8, "completed_by": 4, "was_cancelled": True, "result": []},
    ],
}  # fmt: skip
TOOLS: dict[str, Any] = {
    "langsmith": [LANGSMITH],
    "langfuse": {"data": [LANGFUSE], "meta": {"page": 1}},
    "langfuse blob": [LANGFUSE_BLOB],
    "phoenix": {"data": [PHOENIX], "next_cursor": None},
    "mlflow": [MLFLOW],
    "mlflow trace": {"info": {"trace_id": "t0", "assessments": [MLFLOW]}, "data": {"spans": []}},
    "label studio": [LABEL_STUDIO],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_label_of_each_tool_finds_its_run_and_step(
    notebook: Notebook, tmp_path: Path, tool: str
) -> None:
    (found,) = given(notebook, tmp_path, TOOLS[tool])
    why = "" if tool == "label studio" else "too soon"
    assert short([found]) == [("r0", 1, JUDGE, "incorrect", "ann", why)]
    assert found.given_at == 1_772_359_200_000_000_000  # 2026-03-01T10:00:00Z
    assert (found.queue, found.probability) == ("file", None)
    assert found.seconds == (4.25 if tool == "label studio" else None)


WHOLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "langsmith": (LANGSMITH, {"run_id": "t0"}),
    "langfuse": (LANGFUSE, {"observationId": None}),
    "phoenix": (PHOENIX, {"span_id": "root0"}),
    "mlflow": (MLFLOW, {"span_id": None}),
}


@pytest.mark.parametrize("tool", WHOLE)
def test_a_label_of_the_trace_or_of_its_root_is_about_the_whole_run(
    notebook: Notebook, tmp_path: Path, tool: str
) -> None:
    row, change = WHOLE[tool]
    (found,) = given(notebook, tmp_path, [{**row, **change}])
    assert (found.trajectory, found.step) == ("r0", None)


MACHINES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "langsmith": (LANGSMITH, {"feedback_source": {"type": "model"}}),
    "langfuse": (LANGFUSE, {"source": "EVAL"}),
    "phoenix": (PHOENIX, {"annotator_kind": "LLM"}),
    "mlflow": (MLFLOW, {"source": {"source_type": "LLM_JUDGE", "source_id": "gpt"}}),
}


@pytest.mark.parametrize("tool", MACHINES)
def test_what_a_machine_said_is_no_label_of_people(
    notebook: Notebook, tmp_path: Path, tool: str
) -> None:
    row, change = MACHINES[tool]
    file = tmp_path / "l.json"
    file.write_text(json.dumps([{**row, **change}]), encoding="utf-8")
    assert notebook.add_verdicts(file, human=True).quarantined == {"no person": 1}
    # As another judge's it may come in, under a name.
    assert notebook.add_verdicts(file, rater="theirs").new == 1
    assert list(notebook.store.labels()) == []


def test_a_data_frame_of_phoenix_as_csv(notebook: Notebook, tmp_path: Path) -> None:
    text = (
        "span_id,annotation_name,annotator_kind,result.label,result.score,result.explanation,user_id\n"
        f"s0-1,{AXIS},HUMAN,incorrect,0.0,too soon,ann\n"
    )
    assert short(given(notebook, tmp_path, text)) == [
        ("r0", 1, JUDGE, "incorrect", "ann", "too soon")
    ]


def test_numbers_and_truth_values_of_others_are_translated(
    notebook: Notebook, tmp_path: Path
) -> None:
    rows = [
        {**LANGSMITH, "value": None, "score": 1.0},
        {**LANGSMITH, "value": None, "score": 4.0, "trace_id": "t1", "run_id": "t1"},
        {**MLFLOW, "feedback": {"value": False}, "trace_id": "t2", "span_id": None},
    ]
    labels = {"1": "correct", "4": "correct", "false": "incorrect"}
    found = given(notebook, tmp_path, rows, labels=labels)
    assert [(x.trajectory, x.label, x.value) for x in found] == [
        ("r0", "correct", None), ("r1", "correct", None), ("r2", "incorrect", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"run_id": "s9", "trace_id": "t9"}, "unknown run"),
        ({"run_id": "s1-1"}, "no such step"),  # a span of another run
        ({"value": "meh"}, "off the menu"),
        ({"value": None, "score": 4}, "off the menu"),
        ({"key": "no_look", "value": None, "score": 4}, "no number"),
        ({"created_at": "soon"}, "no time"),
    ],
)
def test_what_does_not_fit_is_set_aside_with_the_reason(
    notebook: Notebook, tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    file = tmp_path / "l.json"
    file.write_text(json.dumps([{**LANGSMITH, **change}]), encoding="utf-8")
    found = notebook.add_verdicts(file, human=True)
    assert (found.new, found.quarantined) == (0, {why: 1})


def test_two_annotations_that_disagree_are_no_two_labels_of_one_person(
    notebook: Notebook, tmp_path: Path
) -> None:
    file = tmp_path / "l.json"
    rows = [LANGSMITH, {**LANGSMITH, "value": "correct"}, LANGSMITH]
    file.write_text(json.dumps(rows), encoding="utf-8")
    found = notebook.add_verdicts(file, human=True)
    assert (found.new, found.known, found.quarantined) == (1, 1, {"contradicts": 1})


def test_validation_sets_of_scout(notebook: Notebook, tmp_path: Path) -> None:
    asked = {"rater": "ann", "labels": {"true": "correct", "false": "incorrect"}}
    text = "id,label_axes.termination,label_axes.sequencing\nt0,true,false\nt1,false,true\n"
    found = given(notebook, tmp_path, text, **asked)
    assert [(x.trajectory, x.measure, x.label) for x in found] == [
        ("r0", JUDGE, "correct"), ("r0", "judge.axes.sequencing", "incorrect"),
        ("r1", JUDGE, "incorrect"), ("r1", "judge.axes.sequencing", "correct"),
    ]  # fmt: skip
    rows: list[dict[str, Any]] = [{"id": "t3", "labels": {"termination": False}}]
    found = given(notebook, tmp_path, rows, rubric="axes", **asked)
    rows = [{"id": "t2", "target": True}]
    found = given(notebook, tmp_path, rows, rubric=AXIS, **asked)
    assert [(x.trajectory, x.measure, x.label) for x in found[4:]] == [
        ("r3", JUDGE, "incorrect"), ("r2", JUDGE, "correct"),
    ]  # fmt: skip


ROUND_TRIP = [
    Label(
        trajectory="r0", measure=JUDGE, annotator="ann", label="incorrect", step=1, queue="active",
        probability=0.25, policy="abcdef0123456789", blind=True, position=3, seconds=4.5,
        expanded=("before", "texts"), given_at=1_772_359_200_000_000_000, cites=(0, 1),
        confidence=0.5, reason='it says "no", then\nends',
    ),
    Label(trajectory="r1", measure=JUDGE, annotator="ann", label="uncertain", decided=False,
          blind=False),
    Label(trajectory="r1", measure="scores", annotator="ann", value=0.4, step=1, cites=(1,)),
    Label(trajectory="r2", measure="scores", annotator="ann", step=1, decided=False, cites=(1,)),
    Label(trajectory="r0", measure=DECISIVE, annotator="bob", label="decisive_step", step=2,
          queue="uniform", probability=1.0, cites=(2,)),
    Label(trajectory="r0", measure=ALREADY_WRONG, annotator="bob", label="right", step=1,
          queue="uniform", cites=(1,)),
    Label(trajectory="r3", measure="judge.outcome", annotator="bob", label="fail",
          queue="uniform", probability=0.5),
    Label(trajectory="r2", measure="judge.outcome", annotator="bob", label="uncertain",
          decided=False, queue="uniform", probability=0.5),
    Label(trajectory="r2", measure=JUDGE, annotator="bob", label="correct", queue="norming",
          round=2),
    # An item that two answered differently, settled by one of them.
    Label(trajectory="r3", measure="judge.outcome", annotator="ann", label="pass",
          queue="uniform", probability=0.5),
    Label(trajectory="r3", measure="judge.outcome", annotator="bob", label="pass", blind=False,
          queue="adjudication", probability=0.5, repeat=1_000, reason="it pays twice"),
    # The same item by the same person out of the norming, and a name that a spreadsheet would run.
    Label(trajectory="r2", measure=JUDGE, annotator="bob", label="incorrect", queue="uniform",
          probability=0.5, reason="- it stops"),
    Label(trajectory="r3", measure=JUDGE, annotator="@kim", label="incorrect", reason="'quoted'"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl"])
def test_labels_go_out_and_come_back_whole(notebook: Notebook, tmp_path: Path, name: str) -> None:
    notebook.store.append_labels(ROUND_TRIP)
    wrote = notebook.export(tmp_path / name, verdicts="labels")
    assert wrote.verdicts == len(ROUND_TRIP)
    with api.open(tmp_path / "other.db") as other:
        other.store.put(map(traced, range(4)))
        found = other.add_verdicts(tmp_path / name, human=True)
        assert (found.new, found.quarantined) == (len(ROUND_TRIP), {})
        given_back = sorted(other.store.labels(), key=str)
    assert given_back == sorted(ROUND_TRIP, key=str)


def test_a_formula_in_a_note_stays_text_in_the_file(notebook: Notebook, tmp_path: Path) -> None:
    notebook.store.append_labels([structs.replace(ROUND_TRIP[0], reason="=1+1")])
    notebook.export(tmp_path / "l.csv", verdicts="labels")
    assert ",'=1+1," in (tmp_path / "l.csv").read_text("utf-8")


def test_labels_are_a_file_of_one_kind(notebook: Notebook, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="labels are written as"):
        notebook.export(tmp_path / "out", verdicts="labels", format="otlp")


def test_labels_go_onto_spans_as_a_persons(notebook: Notebook, tmp_path: Path) -> None:
    notebook.store.append_labels(ROUND_TRIP[:1])
    out = tmp_path / "spans.jsonl"
    notebook.export(out, format="otlp", verdicts="openinference")
    text = out.read_text("utf-8")
    assert "HUMAN" in text
    assert "incorrect" in text


def test_a_norming_row_is_no_outcome_of_its_run(notebook: Notebook, tmp_path: Path) -> None:
    head = "run,axis,label,annotator,queue,round\n"
    rows = head + "n0,outcome,fail,ann,norming,1\nn1,outcome,fail,ann,uniform,\n"
    found = given(notebook, tmp_path, rows)
    assert sorted((one.trajectory, one.round) for one in found) == [("r0", 1), ("r1", 0)]
    statuses = [notebook.store.trajectory(run).outcome.status for run in ("r0", "r1")]
    assert statuses == ["unknown", "fail"]


def test_a_bad_row_about_the_outcome_is_refused_alone(notebook: Notebook, tmp_path: Path) -> None:
    rows = "run,axis,label,annotator,probability\n"
    rows += "n0,outcome,pass,ann,0.5\nn1,outcome,pass,ann,2\nn2,outcome,fail,ann,0.5\n"
    file = tmp_path / "l.csv"
    file.write_text(rows, encoding="utf-8")
    found = notebook.add_verdicts(file, human=True)
    assert found.quarantined == {"no number": 1}
    assert [one.trajectory for one in notebook.store.labels()] == ["r0", "r2"]
    assert notebook.store.trajectory("r1").outcome.status == "unknown"


@pytest.mark.parametrize(
    ("fields", "first", "second"),
    [
        ("axis,label,round,queue", f"{AXIS},correct,1,norming", f"{AXIS},incorrect,1,norming"),
        ("step,axis,value,decided", "1,scores,,false", "1,scores,0.5,true"),
    ],
)
def test_another_file_that_contradicts_a_label_is_set_aside_and_the_same_one_is_known(
    notebook: Notebook, tmp_path: Path, fields: str, first: str, second: str
) -> None:
    head = f"run,annotator,{fields}\n"
    before = given(notebook, tmp_path, head + f"n0,ann,{first}\nn1,ann,{first}\n")
    assert len(before) == 2
    file = tmp_path / "l.csv"
    file.write_text(head + f"n0,ann,{first}\nn1,ann,{second}\n", encoding="utf-8")
    found = notebook.add_verdicts(file, human=True)
    assert (found.new, found.known, found.quarantined) == (0, 1, {"contradicts": 1})
    assert list(notebook.store.labels()) == before


def test_a_time_that_no_store_holds_is_set_aside(notebook: Notebook, tmp_path: Path) -> None:
    file = tmp_path / "l.csv"
    times = [2**63 - 1, 2**63, 10**40]
    rows = "".join(f"n{at},correct,ann,{moment}\n" for at, moment in enumerate(times))
    file.write_text("run,label,annotator,given_at\n" + rows, encoding="utf-8")
    found = notebook.add_verdicts(file, human=True, rubric=AXIS)
    assert (found.new, found.quarantined) == (1, {"no time": 2})
    assert [one.given_at for one in notebook.store.labels()] == [2**63 - 1]


def test_an_adjudicated_row_is_no_first_answer_and_no_outcome(
    notebook: Notebook, tmp_path: Path
) -> None:
    head = "run,axis,label,annotator,queue\n"
    rows = f"n0,{AXIS},correct,ann,uniform\nn0,{AXIS},incorrect,ann,adjudication\n"
    rows += "n1,outcome,fail,ann,adjudication\n"
    found = given(notebook, tmp_path, head + rows)
    assert [(one.trajectory, one.label, one.queue, one.repeat) for one in found] == [
        ("r0", "correct", "uniform", 0), ("r0", "incorrect", "adjudication", 1000),
        ("r1", "fail", "adjudication", 1000),
    ]  # fmt: skip
    assert notebook.store.trajectory("r1").outcome.status == "unknown"
    assert given(notebook, tmp_path, head + rows) == found
