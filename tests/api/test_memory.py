"""`store.add` takes what is in memory, as a recorder has it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepscope
from stepscope.api import Notebook
from stepscope.errors import ConfigError, TraceError, UsageError
from stepscope.model import Json
from stepscope.settings import Settings
from tests.factories import agent, run

SAYS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    with stepscope.open(":memory:", settings=Settings()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        (SAYS, 1),
        (tuple(SAYS), 1),
        ([{"messages": SAYS, "task": 1}, {"messages": SAYS, "task": 2, "trial": 1}], 2),
        ({"messages": SAYS, "task": 1}, 1),
        ([SAYS, [*SAYS, *SAYS]], 2),
        (b'{"messages": [{"role": "user", "content": "hi"}]}', 1),
        (run(agent("x")), 1),
        ([run(agent("x")), run(agent("y"), id="other")], 2),
        ([{"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}], 1),
    ],
)
def test_runs_in_memory_are_read_as_from_a_file(notebook: Notebook, given: Json, runs: int) -> None:
    added = notebook.add(given, agent="mine", tags={"night": "1"})
    assert (added.runs, added.new, added.quarantined) == (runs, runs, 0)
    assert {one.uri for one in added.files} == {"memory"}
    assert {one.tags.get("night") for one in notebook.trajectories()} == {"1"}
    assert notebook.add(given).new == 0


def test_bytes_and_paths_are_files_side_by_side(notebook: Notebook, tmp_path: Path) -> None:
    files = [json.dumps([*SAYS, *SAYS * at]).encode() for at in range(3)]
    (tmp_path / "c.json").write_bytes(files[2])
    assert notebook.add(files[:2], strict=True).new == 2
    added = notebook.add([files[0], tmp_path / "c.json"])
    assert (added.new, added.known) == (1, 1)
    assert [one.uri for one in added.files] == ["memory", str(tmp_path / "c.json")]


class Message:
    """As SDKs have them: an object that becomes a dictionary."""

    def model_dump(self) -> dict[str, Json]:
        return SAYS[1]


def test_messages_of_an_sdk_are_read_among_others(notebook: Notebook) -> None:
    assert notebook.add([SAYS[0], Message()]).runs == 1


def test_a_lone_surrogate_is_kept_as_an_escape_and_told(notebook: Notebook) -> None:
    added = notebook.add([{"role": "user", "content": "a\ud800"}, SAYS[1]])
    assert (added.runs, added.repaired) == (1, {"lone_surrogate": 1})


@pytest.mark.parametrize(
    "given", [[SAYS[0], object()], [{("a", 1): 2}], [3.5, "x.json"], [SAYS, b"[]"]]
)
def test_what_is_neither_paths_nor_runs_is_one_line(notebook: Notebook, given: Json) -> None:
    with pytest.raises((UsageError, TraceError)) as refused:
        notebook.add(given)
    assert "\n" not in str(refused.value)


def test_strict_reads_memory_twice(notebook: Notebook) -> None:
    assert notebook.add(SAYS, strict=True).runs == 1


def test_records_become_a_table_of_pandas_where_it_is_there(notebook: Notebook) -> None:
    notebook.add(SAYS)
    notebook.score()
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(ConfigError, match="pip install pandas"):
            notebook.records().to_pandas()
    else:
        table = notebook.records().to_pandas()
        assert list(table.columns) == notebook.records().to_arrow().column_names
