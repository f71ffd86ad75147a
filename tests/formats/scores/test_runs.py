"""Files of step scores: what is read, what is set aside and with which words."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from stepscope.errors import TraceError
from stepscope.formats.opening import detect
from stepscope.formats.reading import read_files
from stepscope.formats.scores import runs as runs_scores
from stepscope.formats.scores.runs import FORMAT
from stepscope.model import Quarantined, StepScore, Stream, Trajectory
from stepscope.safety.limits import Limits
from tests.formats.reading import read, refused

HEAD = "run,step,score\n"


def reasons(text: str) -> list[str]:
    return [item.reason for item in read(FORMAT, text.encode()) if isinstance(item, Quarantined)]


def runs(text: str) -> dict[str, list[tuple[int, float | None]]]:
    found = [item for item in read(FORMAT, text.encode()) if isinstance(item, Trajectory)]
    return {run.name: [(score.step, score.value) for score in run.scores] for run in found}


def test_rows_become_runs_whose_steps_have_no_content() -> None:
    (a, b) = read(FORMAT, (HEAD + "a,0,.9\na,1,0.5\nb,0,1\n").encode(), uri="s.csv")
    assert isinstance(a, Trajectory)
    assert isinstance(b, Trajectory)
    assert a.scores == (StepScore(step=0, value=0.9), StepScore(step=1, value=0.5))
    assert [(step.actor, step.kind, step.parts) for step in a.steps] == [("agent", "other", ())] * 2
    assert (a.source.format, a.source.run_id, a.source.offset, b.name) == (
        "step_scores",
        "a",
        2,
        "b",
    )


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "a,0,.5\na,1,\n",
        "\ufeffStep;RUN;Score\n0;a;.5\n1;a;\n",
        "score\trun\tstep\n.5\ta\t0\n\ta\t1\n",
        "run,step,score\r\na,0,.5\r\na,1,\r\n",
        HEAD + "a,1,\na,0,.5",
        '"run","step","score"\n"a",0,.5\n"a","1",\n',
        HEAD + 'a,0,.5\n"a",1,""\n',
        '{"run": "a", "step": 0, "score": 0.5}\n{"run": "a", "step": 1, "score": null}\n',
        '[{"run": "a", "step": 0, "score": 0.5}, {"run": "a", "step": 1, "score": null}]',
    ],
)
def test_csv_and_json_lines_say_the_same(text: str) -> None:
    assert runs(text) == {"a": [(0, 0.5), (1, None)]}
    assert detect(text.encode(), "x").name == "step_scores"


def test_known_columns_are_kept_and_unknown_ones_are_remarks() -> None:
    text = (
        "run,step,score,repeat,judge,latency_s,cost_usd,task,trial,agent,workflow,reason,note\n"
        "a,0,.9,1,gpt,1.5,.02,t1,2,g,refunds,because,late\n"
    )
    (run,) = read(FORMAT, text.encode())
    assert isinstance(run, Trajectory)
    assert (run.task, run.trial, run.agent, run.workflow) == ("t1", "2", "g", "refunds")
    assert run.scores == (
        StepScore(
            step=0, value=0.9, judge="gpt", repeat=1, latency_s=1.5, cost_usd=0.02,
            reason="because; note=late",
        ),
    )  # fmt: skip


def test_weights_become_the_case_of_the_run() -> None:
    (run,) = read(FORMAT, b"run,step,score,weight\na,0,.9,3\na,2,.8,1\n")
    assert isinstance(run, Trajectory)
    assert run.case is not None
    assert (run.case.task, run.case.weights) == ("a", (3.0, 1.0))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("a,0,good", "row 2: score is 'good'; expected a number from 0 to 1, or an empty cell"),
        ("a,0,nan", "row 2: score is 'nan'"),
        ("a,0,inf", "row 2: score is 'inf'"),
        ("a,0,1.01", "row 2: score is '1.01'"),
        ("a,0,-0.01", "row 2: score is '-0.01'"),
        ("a,0,0_1", "row 2: score is '0_1'"),
        ("a,0,\u0660", "row 2: score is '\u0660'"),
        ("a,-1,.5", "row 2: step is '-1'; expected an index, counted from 0"),
        ("a,1.0,.5", "row 2: step is '1.0'"),
        ("a,,.5", "row 2: step is missing"),
        ("a,99999999999999999999,.5", "row 2: step is '99999999999999999999'"),
        (",0,.5", "row 2: run is missing; expected its name or id"),
        ("a,0", "row 2: 2 cells; the header has 3 columns"),
        ("a,0,.5,x", "row 2: 4 cells"),
        ("a,100000,.5", "row 2: step 100000; a run has at most 100,000 steps"),
    ],
)
def test_a_wrong_row_is_set_aside_alone_with_its_number(row: str, says: str) -> None:
    text = HEAD + row + "\nz,0,.25\n"
    (reason,) = reasons(text)
    assert reason.startswith(says)
    assert runs(text) == {"z": [(0, 0.25)]}


def test_a_weight_is_1_2_or_3() -> None:
    head = "run,step,score,weight\n"
    assert reasons(head + "a,0,.5,3\na,1,.5,\n") == []
    assert reasons(head + "a,0,.5,2.5\n") == ["row 2: weight is '2.5'; expected 1, 2 or 3"]


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"run": "a", "step": 0, "score": "x"}, "row 1: score is 'x'"),
        ({"run": "a", "step": 0, "score": True}, "row 1: score is 'true'"),
        ({"run": "a", "step": 0.5, "score": 1}, "row 1: step is '0.5'"),
        ({"run": None, "step": 0, "score": 1}, "row 1: run is missing"),
        ({"run": "a", "score": 1}, "row 1: no step; expected run, step and score"),
        ({"run": "a", "Run": "b", "step": 0, "score": 1}, "row 1: two keys mean 'run'"),
    ],
)
def test_a_wrong_record_of_json_is_set_aside_alone(record: dict[str, object], says: str) -> None:
    assert refused(FORMAT, record).reason.startswith(says)


def test_a_wrong_line_of_json_leaves_its_neighbours_and_keeps_its_number() -> None:
    good = '{"run": "a", "step": %d, "score": 0.5}\n'
    text = good % 0 + good % 1 + '{"run": "a", "step": 2, "score": 2}\n' + good % 3
    assert runs(text) == {"a": [(0, 0.5), (1, 0.5), (3, 0.5)]}
    assert reasons(text)[0].startswith("row 3: score is '2'")
    more = good % 0 + '{"run": "a", "step": 1, "score": 0.5, "note": "x"}\n' + good % 2 + "not\n"
    assert runs(more) == {"a": [(0, 0.5), (1, 0.5), (2, 0.5)]}
    assert [reason[:5] for reason in reasons(more)] == ["row 4"]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("run,step,value", "s.csv, row 1: no column score; the header has 'run, step, value'"),
        ("run,score", "s.csv, row 1: no column step"),
        ("run,step,score,cost,cost_usd", "s.csv, row 1: column 'cost' is named twice"),
    ],
)
def test_a_missing_column_refuses_the_file_by_its_name(header: str, says: str) -> None:
    assert detect(header.encode(), "s.csv").name == "step_scores"
    with pytest.raises(TraceError) as caught:
        read(FORMAT, (header + "\na,0,.5\n").encode(), uri="s.csv")
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    "text", ["a,b,c\n1,2,3\n", "run\na\n", "a step of, the run\n", "prose, run\n"]
)
def test_other_tables_are_not_taken_for_scores(text: str) -> None:
    with pytest.raises(TraceError, match="no known trace"):
        detect(text.encode(), "x.csv")


@pytest.mark.parametrize(
    ("header", "rows", "says"),
    [
        (
            "run,step,score",
            ["a,3,.5", "b,3,.5", "a,3,.5"],
            "row 4: run 'a', step 3 is scored in row 2 too; a second scoring needs a column repeat",
        ),
        (
            "run,step,score,repeat",
            ["a,3,.5,0", "a,3,.5,0"],
            "row 3: run 'a', step 3 is scored in row 2 too; each scoring of a step has its own",
        ),
    ],
)
def test_a_step_that_is_scored_twice_is_told(header: str, rows: Sequence[str], says: str) -> None:
    (reason,) = reasons("\n".join([header, *rows]))
    assert reason.startswith(says)


def test_repeats_and_judges_tell_scorings_apart() -> None:
    header = "run,step,score,repeat,judge\n"
    rows = "a,0,.5,0,x\na,0,.6,1,x\na,0,.7,0,y\n"
    assert reasons(header + rows) == []
    assert runs(header + rows) == {"a": [(0, 0.5), (0, 0.6), (0, 0.7)]}


def test_in_a_small_file_the_order_of_rows_does_not_matter() -> None:
    text = HEAD + "a,1,.1\nb,0,.2\na,0,.3\nb,1,.4\n"
    assert runs(text) == {"a": [(0, 0.3), (1, 0.1)], "b": [(0, 0.2), (1, 0.4)]}


def test_in_a_large_file_a_run_that_comes_again_is_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs_scores, "SMALL_ROWS", 1)
    monkeypatch.setattr("stepscope.formats.records.LINE_BLOCK_BYTES", 12)
    text = HEAD + "a,0,.1\na,1,.2\nb,0,.3\nb,1,.4\nc,0,.5\na,2,.6\nb,2,.7\nd,0,.8\n"
    assert runs(text)["a"] == [(0, 0.1), (1, 0.2)]
    assert runs(text)["d"] == [(0, 0.8)]
    assert reasons(text) == [
        "row 7: run 'a' comes again; sort the file by run",
        "row 8: run 'b' comes again; sort the file by run",
    ]


def test_lines_of_json_are_numbered_over_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.formats.records.LINE_BLOCK_BYTES", 100)
    good = "".join(f'{{"run": "a", "step": {i}, "score": 0.5}}\n' for i in range(12))
    assert reasons(good + '{"run": "a", "step": 12}\n')[0].startswith("row 13: no score")


def test_a_quoted_cell_may_hold_commas_and_the_end_of_a_line() -> None:
    text = 'run,step,score,reason\na,0,.5,plain\nb,0,.5,"two,\nlines"\nb,1,bad,x\n'
    (_, b) = [item for item in read(FORMAT, text.encode()) if isinstance(item, Trajectory)]
    assert b.scores[0].reason == "two,\nlines"
    assert reasons(text)[0].startswith("row 4: score is 'bad'")


def test_rows_that_are_too_long_and_too_short_do_not_cancel_out() -> None:
    assert [r[:5] for r in reasons(HEAD + "a,0\n.5,a,1,.5\n")] == ["row 2", "row 3"]


def test_a_run_longer_than_a_chunk_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_scores, "SMALL_ROWS", 1)
    monkeypatch.setattr("stepscope.formats.records.LINE_BLOCK_BYTES", 12)
    text = HEAD + "".join(f"a,{i},.5\n" for i in range(7)) + "b,0,.5\n"
    assert {name: len(rows) for name, rows in runs(text).items()} == {"a": 7, "b": 1}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"run,step,score\na,0,\xff\n", "no text in UTF-8"),
        (b'run,step,score\n"a,0,.5\n', "row 2 or later"),
        (b"run,step,score\n" + b"a" * 3000, "a row of over 2,000 bytes"),
    ],
)
def test_what_is_no_table_refuses_the_file(raw: bytes, says: str) -> None:
    stream = Stream(io.BytesIO(raw), "s.csv", Limits(line_bytes=2000))
    with pytest.raises(TraceError, match=says):
        list(FORMAT.read(stream))


def test_a_stream_that_cannot_be_wound_back_is_read_once(tmp_path: Path) -> None:
    class Pipe(io.RawIOBase):
        def __init__(self, raw: bytes) -> None:
            self._held = io.BytesIO(raw)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            return self._held.readinto(buffer)  # type: ignore[arg-type]

    lines = b"".join(b'{"run": "r%d", "step": 0, "score": 0.5}\n' % i for i in range(500))
    found = list(FORMAT.read(Stream(io.BufferedReader(Pipe(lines)), "-", Limits())))
    assert len(found) == 500


def test_the_account_of_a_file_counts_what_was_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(HEAD + "a,0,.5\na,1,bad\n", encoding="utf-8")
    accounts = []
    for reading in read_files([str(path)]):
        list(reading)
        accounts.append(reading.account)
    assert [(account.runs, account.quarantined) for account in accounts] == [(1, 1)]
