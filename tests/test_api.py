"""The notebook of the specification, line by line, on the bundled runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Literal

import pytest

import stepscope as ss
from stepscope.api import Notebook, Text
from stepscope.errors import TraceError, UsageError
from stepscope.model import Case
from stepscope.settings import Settings
from stepscope.values import Estimate, Unmeasured

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
RUNS = EXAMPLES / "airline" / "runs.json"


@pytest.fixture(scope="module")
def notebook() -> Notebook:
    """The bundled airline runs, scored; tests only read it."""
    store = ss.open(":memory:", settings=Settings())
    store.add(RUNS, agent="gpt-4o")
    store.score()
    return store


def test_an_import_says_what_was_read_and_the_second_changes_nothing(tmp_path: Path) -> None:
    with ss.open(tmp_path / "runs.db", settings=Settings()) as store:
        first = store.add(EXAMPLES / "airline", agent="gpt-4o")
        assert (first.runs, first.new, first.known, first.quarantined) == (20, 20, 0, 0)
        assert str(first).endswith("20 runs: 20 new, 0 known; 0 set aside; 2 files without runs")
        second = store.add(str(RUNS))
        assert (second.runs, second.new, second.known) == (20, 0, 20)
        assert store.count() == 20


def test_agent_and_tags_fill_what_a_trace_lacks_and_nothing_else() -> None:
    store = ss.open(":memory:", settings=Settings())
    store.add(RUNS, agent="gpt-4o", agent_version="1", tags={"set": "a"})
    store.add(EXAMPLES / "atif", agent="not this one")
    assert store.count(where="agent = 'gpt-4o' and agent_version = '1' and tag.set = 'a'") == 20
    assert store.count(where="agent = 'not this one'") == 0
    assert store.count(where="agent = 'openhands'") == 1


def test_strict_keeps_nothing_unless_everything_is_read(tmp_path: Path) -> None:
    shutil.copy(RUNS, tmp_path / "a.json")
    broken = RUNS.read_text(encoding="utf-8").replace('"task_id": 15,', '"task_id": 15,,', 1)
    (tmp_path / "b.json").write_text(broken, encoding="utf-8")
    store = ss.open(":memory:", settings=Settings())
    with pytest.raises(TraceError, match="strict keeps nothing"):
        store.add(tmp_path, strict=True)
    assert store.count() == 0
    with pytest.raises(UsageError, match="standard input comes only once"):
        store.add("-", strict=True)
    added = store.add(tmp_path)
    assert (added.new, added.known, added.quarantined) == (20, 19, 1)


def test_a_figure_is_an_estimate_with_its_error_bar(notebook: Notebook) -> None:
    report = notebook.report(where="agent = 'gpt-4o'")
    rate = report["outcome.pass"]
    assert isinstance(rate, Estimate)
    assert (rate.value, rate.n, rate.n_tasks, rate.unmeasured) == (0.4, 20, 5, {})
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 0.4 < rate.high


def test_what_the_trace_lacks_is_unmeasured(notebook: Notebook) -> None:
    tokens = notebook.report()["tokens.median"]
    assert isinstance(tokens, Unmeasured)
    assert tokens.kind == "missing_input"


def test_the_runs_to_look_at_first_show_themselves(notebook: Notebook) -> None:
    runs = {run.name: run for run in notebook.report().look_first}
    assert len(runs) == 10
    run = runs["airline/11/2"]
    assert (run.outcome, run.suspects[0].step) == ("fail", 34)
    shown = run.show(around=14)
    assert isinstance(shown, Text)
    assert repr(shown) == str(shown)
    assert "payment amount does not add up, total price is 375, but paid 299" in shown
    assert len(run.show()) != len(shown)


def test_a_report_prints_itself_in_a_terminal_and_in_jupyter(notebook: Notebook) -> None:
    report = notebook.report()
    assert "outcome: pass" in repr(report)
    assert "|" in report._repr_markdown_()
    assert json.loads(report.json())["whole"]["n_runs"] == 20
    assert report.junit().startswith("<?xml")
    assert report.line("outcome.pass").startswith("outcome.pass  40 %  ")


def test_the_same_seed_gives_the_same_bytes(notebook: Notebook) -> None:
    assert notebook.report(seed=3).json() == notebook.report(seed=3).json()


def test_a_comparison_is_paired_by_case() -> None:
    store = ss.open(":memory:", settings=Settings())
    store.add(RUNS, agent="gpt-4o")
    store.score()
    compared = store.compare("0", "1", by="trial")
    assert compared["outcome.pass"] is not None
    assert "outcome: pass" in repr(compared)


def test_records_come_as_an_arrow_table(notebook: Notebook) -> None:
    pytest.importorskip("pyarrow")
    table = notebook.records(where="name = 'airline/11/2'").to_arrow()
    assert table.num_rows == len(list(notebook.records(where="name = 'airline/11/2'")))
    assert table.num_rows > 0


def test_tools_are_declared_or_inferred() -> None:
    store = ss.open(":memory:", settings=Settings(tools={"think": "write"}))
    store.add(RUNS)
    tools = store.tools()
    assert tools["book_reservation"] == "write"
    assert tools["get_user_details"] == "read"
    assert tools["transfer_to_human_agents"] == "unknown"
    assert tools["think"] == "write"


@pytest.mark.parametrize("format", ["ours", "parquet"])
def test_what_is_exported_reads_back_as_it_was(
    notebook: Notebook, tmp_path: Path, format: str
) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / f"runs.{format}"
    exported = notebook.export(out, format=format)  # type: ignore[arg-type]
    assert (exported.runs, [p.name for p in tmp_path.iterdir()]) == (20, [out.name])
    other = ss.open(":memory:", settings=Settings())
    assert other.add(out).new == 20
    assert list(other.trajectories()) == list(notebook.trajectories())
    assert isinstance(next(other.trajectories()).case, Case)


def test_an_export_overwrites_nothing_unasked(notebook: Notebook, tmp_path: Path) -> None:
    out = tmp_path / "runs.jsonl"
    out.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="already exists; --force overwrites it"):
        notebook.export(out)
    assert out.read_text(encoding="utf-8") == "mine"
    notebook.export(out, force=True)
    assert out.stat().st_size > 1000


def test_one_atif_file_a_run(notebook: Notebook, tmp_path: Path) -> None:
    notebook.export(tmp_path / "atif", format="atif", where="task = '11'")
    assert len(list((tmp_path / "atif").iterdir())) == 4
    notebook.export(tmp_path / "one.json", format="atif", where="name = 'airline/11/2'")
    notebook.export(tmp_path / "all.jsonl", format="atif")
    assert (tmp_path / "all.jsonl").read_bytes().count(b"\n") == 20
    assert json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))["steps"]


@pytest.mark.parametrize("how", ["gen_ai", "openinference", "none", None])
def test_runs_as_otlp_hold_their_verdicts_unless_told_otherwise(
    notebook: Notebook, tmp_path: Path, how: Literal["gen_ai", "openinference", "none"] | None
) -> None:
    exported = notebook.export(tmp_path / "runs.otlp.jsonl", format="otlp", verdicts=how)
    wanted = 0 if how == "none" else len(list(notebook.records()))
    assert (exported.runs, exported.verdicts) == (20, wanted)
    line = f"wrote 20 runs as {exported.spans:,} spans with {wanted:,} verdicts to "
    assert str(exported).startswith(line)
    other = ss.open(":memory:", settings=Settings())
    assert other.add(tmp_path / "runs.otlp.jsonl").new == 20
    # Known by its id, whatever it is called there.
    ids = {run.id for run in notebook.trajectories()}
    assert {run.id for run in other.trajectories()} == ids


def test_verdicts_are_for_spans_or_alone(notebook: Notebook, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="puts verdicts on spans; choose --format otlp"):
        notebook.export(tmp_path / "x", verdicts="gen_ai")
    with pytest.raises(UsageError, match="OTLP holds verdicts on spans"):
        notebook.export(tmp_path / "x", format="otlp", verdicts="only")


def test_verdicts_are_exported_as_lines(notebook: Notebook, tmp_path: Path) -> None:
    exported = notebook.export(tmp_path / "verdicts.jsonl", verdicts="only")
    lines = (tmp_path / "verdicts.jsonl").read_text(encoding="utf-8").split("\n")
    assert exported.verdicts == len(lines) - 1
    assert json.loads(lines[0])["answer"]


def test_verdicts_as_parquet_are_a_folder_that_reads_back(
    notebook: Notebook, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    exported = notebook.export(tmp_path / "rows", format="parquet", verdicts="only")
    assert exported.verdicts == len(list(notebook.records()))
    names = sorted(path.name for path in (tmp_path / "rows").iterdir())
    assert names == ["labels.parquet", "records.parquet", "runs.parquet"]
    with pytest.raises(UsageError, match="a folder of two files; name a folder"):
        notebook.export("-", format="parquet", verdicts="only")


def test_a_purge_erases_texts_and_keeps_numbers() -> None:
    store = ss.open(":memory:", settings=Settings())
    store.add(RUNS, agent="gpt-4o")
    store.score()
    before = store.report()["outcome.pass"]
    purged = store.purge(where="task = '11'")
    assert (purged.runs, store.count(), len(list(store.trajectories()))) == (4, 20, 16)
    assert store.report()["outcome.pass"] == before
    assert store.purge(older_than="1d").runs == 0


def test_a_pipe_is_written_to_and_not_replaced(notebook: Notebook, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        notebook.export(pipe, force=True, where="name = 'airline/15/3'", verdicts="only")
        assert os.read(reader, 1 << 20).count(b"\n") > 10
        assert pipe.is_fifo()
    finally:
        os.close(reader)


def test_a_link_stays_a_link_and_its_file_is_written(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "link").symlink_to("real")
    notebook.export(tmp_path / "link", force=True, where="name = 'airline/15/3'")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_size > 1000
