from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.prepared import Prepared, shared

# Says and writes something else whenever it is run.
COMMAND = "date +%s%N | tee made"


def in_folder(prepared: Prepared, folder: Path, text: str = COMMAND) -> tuple[int, str, str]:
    folder.mkdir(exist_ok=True)
    ran = prepared.shell(text, folder)
    return ran.returncode, ran.stdout, (folder / "made").read_text(encoding="utf-8")


def test_a_command_is_run_once_for_folders_of_the_same_files(tmp_path: Path) -> None:
    first = in_folder(Prepared(tmp_path / "held"), tmp_path / "1")
    assert in_folder(Prepared(tmp_path / "held"), tmp_path / "2") == first
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "settings").write_text("other", encoding="utf-8")
    assert in_folder(Prepared(tmp_path / "held"), tmp_path / "3") != first
    assert in_folder(Prepared(tmp_path / "held"), tmp_path / "4", f"{COMMAND} again") != first


def test_a_command_that_failed_is_run_again(tmp_path: Path) -> None:
    prepared = Prepared(tmp_path / "held")
    first = in_folder(prepared, tmp_path / "1", f"{COMMAND}; false")
    assert first[0] == 1
    assert in_folder(prepared, tmp_path / "2", f"{COMMAND}; false") != first


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("stepscope import examples/airline", "stepscope import examples/airline"),
        ("stepscope score   # resumes", "stepscope score"),
        ("stepscope score > log.txt", "stepscope score > log.txt"),
        ("stepscope score --measure apologies.py:MEASURE", None),
        ("stepscope import examples/airline | tail -1", None),
        ("stepscope report", None),
    ],
)
def test_pages_share_what_depends_on_the_folder_alone(line: str, command: str | None) -> None:
    assert shared(line) == command
