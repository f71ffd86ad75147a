"""`add_verdicts`: other people's verdicts find their runs, or are set aside and counted."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

import stepscope
from stepscope.api import Notebook
from stepscope.api.verdict_import import parse_pairs
from stepscope.errors import TraceError, UsageError
from stepscope.model import Verdict
from stepscope.settings import Settings
from tests.factories import agent, run

AXIS = "axes.termination"


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    with stepscope.open(":memory:", settings=Settings()) as opened:
        opened.store.put(
            run(*[agent("x")] * 4, id=f"id{n}", name=f"shop/{n}/0", task=str(n)) for n in range(3)
        )
        twin = [run(agent("y"), id=f"twin{n}", name="twin", task=str(n)) for n in range(2)]
        opened.store.put(twin)
        yield opened


def file(tmp_path: Path, text: str, name: str = "v.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def said(notebook: Notebook, measure: str = f"judge.{AXIS}") -> list[Verdict]:
    return [
        record.answer
        for record in notebook.store.records(measure=measure)
        if isinstance(record.answer, Verdict)
    ]


def test_a_row_becomes_a_record_of_its_rater(notebook: Notebook, tmp_path: Path) -> None:
    rows = (
        "run,axis,label,judge,confidence,cites,reason\n"
        'shop/0/0,axes.termination,incorrect,gpt,0.9,"1, 3",too late\n'
        "id1,termination,correct,gpt,,,\n"
    )
    found = notebook.add_verdicts(file(tmp_path, rows))
    assert (found.rows, found.new, found.rubrics, found.raters) == (2, 2, {AXIS: 2}, ("gpt",))
    first, second = notebook.store.records(measure=f"judge.{AXIS}")
    assert (first.trajectory, first.family, first.judge, first.rubric) == (
        "id0",
        "imported",
        "gpt",
        AXIS,
    )
    assert first.answer == Verdict(
        f"judge.{AXIS}", label="incorrect", cites=(1, 3), reason="too late", confidence=0.9
    )
    assert second.answer == Verdict(f"judge.{AXIS}", label="correct")


def test_a_file_imported_twice_changes_nothing(notebook: Notebook, tmp_path: Path) -> None:
    path = file(tmp_path, "run,label\nid0,correct\nid1,incorrect\n")
    first = notebook.add_verdicts(path, rubric=AXIS, rater="ann", human=True)
    again = notebook.add_verdicts(path, rubric=AXIS, rater="ann", human=True)
    assert (first.new, first.known) == (2, 0)
    assert (again.new, again.known, again.quarantined) == (0, 2, {})
    assert len(said(notebook)) == 2


@pytest.mark.parametrize(
    ("row", "kind", "reason"),
    [
        ("nobody,termination,correct,,a", "unknown run", "no run called 'nobody' in the store"),
        ("twin,termination,correct,,a", "unknown run", "several runs are called 'twin'"),
        (",termination,correct,,a", "unknown run", "no run called '' in the store"),
        ("id0,termination,Correct,,a", "off the menu", "label 'Correct' is not on the menu"),
        ("id0,step_labels,PROGRESS,4,a", "no such step", "step '4'; the run has 4 steps, from 0"),
        ("id0,step_labels,PROGRESS,-1,a", "no step", "step '-1'; expected an index"),
        ("id0,step_labels,PROGRESS,1.5,a", "no step", "step '1.5'; expected an index"),
        ("id0,tool_selection,correct,,a", "no rubric", "axes.tool_selection or quality.tool_sel"),
        ("id0,,correct,,a", "no rubric", "map a column to axis, or say --rubric NAME"),
        ("id0,termination,correct,,", "no rater", "map a column to judge, or give --rater"),
        ("id0,termination,correct", "unreadable", "3 cells; the header has 5 columns"),
    ],
)
def test_what_cannot_be_placed_is_set_aside_alone(
    notebook: Notebook, tmp_path: Path, row: str, kind: str, reason: str
) -> None:
    text = f"run,axis,label,step,judge\n{row}\nid2,termination,correct,,a\n"
    found = notebook.add_verdicts(file(tmp_path, text))
    assert (found.new, found.quarantined) == (1, {kind: 1})
    (aside,) = notebook.store.quarantined()
    assert aside.reason.startswith("row 2: ")
    assert reason in aside.reason
    assert aside.raw.decode().startswith(row)
    assert f"1 set aside (1 {kind})" in str(found)


@pytest.mark.parametrize("value", ["1.0000001", "-0.1", "nan", "inf", "high"])
def test_a_score_outside_its_scale_is_set_aside(
    notebook: Notebook, tmp_path: Path, value: str
) -> None:
    text = f"run,step,score\nid0,1,{value}\nid0,2,0.5\n"
    found = notebook.add_verdicts(file(tmp_path, text), rubric="no_look", rater="ann")
    assert (found.new, found.quarantined) == (1, {"no number": 1})
    assert said(notebook, "scores") == [Verdict("scores", value=0.5, step=2, cites=(2,))]


def test_an_empty_label_is_nobodys_verdict(notebook: Notebook, tmp_path: Path) -> None:
    text = "run,label\nid0,\nid1,correct\n"
    found = notebook.add_verdicts(file(tmp_path, text), rubric=AXIS, rater="ann")
    assert (found.rows, found.new, found.empty) == (2, 1, 1)


def test_a_rater_who_says_otherwise_is_set_aside_unless_it_is_another_reading(
    notebook: Notebook, tmp_path: Path
) -> None:
    text = "run,label,repeat\nid0,correct,0\nid0,incorrect,0\nid0,incorrect,1\n"
    found = notebook.add_verdicts(file(tmp_path, text), rubric=AXIS, rater="ann")
    assert (found.new, found.quarantined) == (2, {"contradicts": 1})
    (aside,) = notebook.store.quarantined()
    assert "said 'correct' before, now 'incorrect'" in aside.reason


def test_one_name_is_not_a_person_and_a_judge(notebook: Notebook, tmp_path: Path) -> None:
    path = file(tmp_path, "run,label\nid0,correct\n")
    notebook.add_verdicts(path, rubric=AXIS, rater="ann", human=True)
    with pytest.raises(UsageError, match=r"rated judge\.axes\.termination here as human"):
        notebook.add_verdicts(path, rubric=AXIS, rater="ann")


def test_columns_are_mapped_labels_translated_and_steps_counted_from_1(
    notebook: Notebook, tmp_path: Path
) -> None:
    row = '{{"task": {{"run": "id0"}}, "n": {}, "ok": {}}}\n'
    text = row.format(1, "true") + row.format(4, "false")
    found = notebook.add_verdicts(
        file(tmp_path, text, "v.jsonl"),
        columns={"run": "task.run", "step": "n-1", "label": "ok"},
        labels={"true": "absent", "false": "present"},
        rubric="behaviour.sycophancy",
        rater="ann",
        human=True,
    )
    assert found.new == 2
    assert [(v.step, v.label) for v in said(notebook, "judge.behaviour.sycophancy")] == [
        (0, "absent"),
        (3, "present"),
    ]


def test_a_set_takes_its_aspect_from_the_file(notebook: Notebook, tmp_path: Path) -> None:
    text = "run,axis,label\nid0,tool_selection,correct\n"
    found = notebook.add_verdicts(file(tmp_path, text), rubric="axes", rater="ann")
    assert found.rubrics == {"axes.tool_selection": 1}


def test_labels_of_a_rubric_that_nothing_knows_are_taken_and_that_is_said(
    notebook: Notebook, tmp_path: Path
) -> None:
    text = "run,label\nid0,rude\n"
    found = notebook.add_verdicts(file(tmp_path, text), rubric="tone", rater="ann")
    assert (found.new, found.unknown) == (1, ("tone",))
    assert "tone is not a known rubric: labels are used unchanged" in str(found)


def test_a_rubric_of_ones_own_is_named_by_its_file_and_has_its_menu(
    notebook: Notebook, tmp_path: Path
) -> None:
    text = resources.files("stepscope.judges").joinpath("rubrics/axes.termination.md").read_text()
    own = file(tmp_path, text.replace('"axes.termination"', '"axes.ending"', 1), "own.md")
    rows = file(tmp_path, "run,label\nid0,correct\nid1,late\n")
    found = notebook.add_verdicts(rows, rubric=str(own), rater="ann")
    assert (found.rubrics, found.quarantined) == ({"axes.ending": 1}, {"off the menu": 1})
    assert found.unknown == ()


def test_parquet_is_read_as_csv_is(notebook: Notebook, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "v.parquet"
    table = pa.table({"run": ["id0", "id1"], "label": ["correct", None], "step": [None, None]})
    pq.write_table(table, path)
    found = notebook.add_verdicts(path, rubric=AXIS, rater="ann")
    assert (found.rows, found.new, found.empty) == (2, 1, 1)


def test_a_column_that_is_not_there_refuses_the_file(notebook: Notebook, tmp_path: Path) -> None:
    path = file(tmp_path, "run,label\nid0,correct\n")
    with pytest.raises(UsageError, match="--map label=verdict: no such column; the file has run"):
        notebook.add_verdicts(path, columns={"label": "verdict"}, rubric=AXIS, rater="ann")
    with pytest.raises(UsageError, match=r"--map colour=\.\.\.: no such field"):
        notebook.add_verdicts(path, columns={"colour": "label"}, rubric=AXIS, rater="ann")
    other = file(tmp_path, "name,label\nid0,correct\n", "other.csv")
    with pytest.raises(UsageError, match="no column says the run; the file has name, label"):
        notebook.add_verdicts(other, rubric=AXIS, rater="ann")
    other = file(tmp_path, "run,said\nid0,correct\n", "other.csv")
    with pytest.raises(UsageError, match="no column says the label; the file has run, said"):
        notebook.add_verdicts(other, rubric=AXIS, rater="ann")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"run,run\nid0,id0\n", "column 'run' is named twice"),
        (b"run,label\nid0,\xff\n", "no text in UTF-8"),
        (b'run,label\n"id0,correct\n', "row 2 or later"),
        (b"run,label\n", "no rows"),
        (b"", "no rows"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    notebook: Notebook, tmp_path: Path, data: bytes, why: str
) -> None:
    path = tmp_path / "v.csv"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=why):
        notebook.add_verdicts(path, rubric=AXIS, rater="ann")


def test_broken_json_is_set_aside_with_its_bytes(notebook: Notebook, tmp_path: Path) -> None:
    text = '{"run": "id0", "label": "correct"}\n{"run": \n["id1"]\n'
    found = notebook.add_verdicts(file(tmp_path, text, "v.jsonl"), rubric=AXIS, rater="ann")
    assert (found.new, found.quarantined) == (1, {"unreadable": 2})


def test_a_secret_in_a_reason_is_not_kept(notebook: Notebook, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    text = f"run,label,reason\nid0,correct,used {secret} here\n"
    notebook.add_verdicts(file(tmp_path, text), rubric=AXIS, rater="ann")
    assert secret not in said(notebook)[0].reason


@pytest.mark.parametrize("pair", ["run", "=id", "run=", "run=a,run=b"])
def test_a_mapping_that_says_nothing_is_refused(pair: str) -> None:
    with pytest.raises(UsageError):
        parse_pairs([pair], "--map")


STEPS = {"labels": {"1": "PROGRESS", "-1": "ERROR"}, "rubric": "step_labels", "rater": "ann"}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('{"run": "id0", "label": {"1": 1, "3": -1}}\n', {}),
        ('{"id": "id0", "marks": {"1": 1, "3": -1}}', {"label": "marks"}),
        ('{"id": "id0", "out": {"marks": {"1": 1, "3": -1}}}', {"label": "out.marks"}),
        ('{"id": "id0", "marks": {"2": 1, "4": -1}}', {"label": "marks", "step": "marks-1"}),
    ],
)
def test_a_map_of_steps_unfolds_into_a_verdict_each(
    notebook: Notebook, tmp_path: Path, text: str, columns: dict[str, str]
) -> None:
    found = notebook.add_verdicts(file(tmp_path, text, "v.json"), columns=columns, **STEPS)  # type: ignore[arg-type]
    assert (found.rows, found.new, found.quarantined) == (1, 2, {})
    kept = [(one.step, one.label) for one in said(notebook, "judge.step_labels")]
    assert kept == [(1, "PROGRESS"), (3, "ERROR")]
    again = notebook.add_verdicts(file(tmp_path, text, "v.json"), columns=columns, **STEPS)  # type: ignore[arg-type]
    assert (again.new, again.known) == (0, 2)


def test_a_map_of_scores_unfolds_too(notebook: Notebook, tmp_path: Path) -> None:
    text = '{"run": "id0", "score": {"0": 0.5, "2": null}}\n{"run": "id1", "score": {"1": 1}}\n'
    found = notebook.add_verdicts(file(tmp_path, text, "v.jsonl"), rubric="no_look", rater="ann")
    assert (found.new, found.empty) == (2, 1)


@pytest.mark.parametrize(
    ("cell", "kinds"),
    [
        ('{"1": 1, "9": 1}', {"no such step": 1}),
        ('{"1": 1, "\u0663": 1}', {"no step": 1}),
        ('{"1": 1, "2": {"a": 1}}', {"off the menu": 1}),
        ('{"1": 1, "2": 7}', {"off the menu": 1}),
    ],
)
def test_a_step_of_a_map_that_is_none_is_set_aside_alone(
    notebook: Notebook, tmp_path: Path, cell: str, kinds: dict[str, int]
) -> None:
    path = file(tmp_path, f'{{"run": "id0", "label": {cell}}}', "v.json")
    found = notebook.add_verdicts(path, **STEPS)  # type: ignore[arg-type]
    assert (found.new, found.quarantined) == (1, kinds)


def test_an_object_that_maps_no_steps_is_a_label_as_it_stands(
    notebook: Notebook, tmp_path: Path
) -> None:
    for cell in ("{}", '{"a": 1}', '{"1": 1, "a": 1}'):
        path = file(tmp_path, f'{{"run": "id0", "label": {cell}}}', "v.json")
        assert notebook.add_verdicts(path, **STEPS).quarantined == {"off the menu": 1}  # type: ignore[arg-type]


def test_pairs_of_an_option_may_share_it_or_repeat_it() -> None:
    found = parse_pairs(["run=id,label=verdict", "step=n-1"], "--map")
    assert found == {"run": "id", "label": "verdict", "step": "n-1"}
