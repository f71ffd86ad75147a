"""Reading in processes gives what reading in one gives, to the byte, and ends as well."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from stepscope.api import open as open_store
from stepscope.errors import EnvironmentFault, TraceError
from stepscope.formats import ours
from stepscope.formats.reading import read_files
from stepscope.model import Case, Part, TraceLabel, Trajectory
from stepscope.score.importing import Added
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.runs import PreparedRun, prepare_run
from stepscope.store.store import BATCH_BYTES
from tests.factories import agent, run, user

WHO = f"{Path(__file__).with_name('formats.py')}:FORMAT"
# When something was imported is the only thing that may differ.
WHEN = {"imported_ns", "at_ns", "fitted_ns"}
# Enough for several frames to every process.
MANY = 1_200
# The others of `everything`: without trial in two files, message lists, zipped, ours, labelled.
OTHERS = 3 + 2 + 40 + 30 + 2 + 4


def tau(number: int, **fields: object) -> dict[str, object]:
    turns = [{"role": "user", "content": f"hi {number}"}, {"role": "assistant", "content": "ho"}]
    return {"task_id": number, "reward": 1.0, "info": None, "traj": turns, "trial": 0, **fields}


def messages(number: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": "yes"}]


def everything(folder: Path) -> Path:
    """Make a folder of files that are read in every way there is."""
    folder.mkdir()
    same, other = tau(1), tau(2)
    del same["trial"], other["trial"]
    odd = ["1", '{"task_id": 3, "traj": 7}', '{"task_id": 4, "traj": [{"role": "boss"}]}']
    runs = [json.dumps(tau(n)) for n in range(MANY)]
    runs[5:5] = odd
    runs[700:700] = [json.dumps(same)] * 3
    (folder / "a-array.json").write_text("[" + ", ".join(runs) + "]", encoding="utf-8")
    again = "\n".join([json.dumps(other), *odd, json.dumps(other), '{"task_id": 9, "tr'])
    (folder / "b-lines.jsonl").write_text(again, encoding="utf-8")
    for number in range(40):
        path = folder / f"c-{number:02}.json"
        path.write_text(json.dumps(messages(number)), encoding="utf-8")
    with zipfile.ZipFile(folder / "d.zip", "w") as archive:
        archive.writestr("x.json", json.dumps([tau(n, trial=7) for n in range(30)]))
        archive.writestr("y.txt", "no trace")
    with (folder / "e-ours.jsonl").open("wb") as file:
        one = run(user("a"), agent("b"), case=Case(workflow="w", task="t", outputs=("x",)))
        tagged = msgspec.structs.replace(
            one, tags={"k": "v"}, labels=(TraceLabel(kind="note", step=1),)
        )
        ours.write([one, msgspec.structs.replace(tagged, id="other")], file)
        file.write(b'{"stepscope":"trajectories","schema":99}\n{"id":"z"}\n')
    (folder / "f.bin").write_bytes(bytes(range(256)))
    (folder / "g.parquet").write_bytes(b"PAR1 and no more")
    labelled = folder / "labelled"
    labelled.mkdir()
    (labelled / "runs.json").write_text(
        json.dumps([tau(n, trial=t) for n in (90001, 90002) for t in (0, 1)]), encoding="utf-8"
    )
    failures = [{"step_number": 2, "failure_category": "Wrong Tool"}]
    (labelled / "failure_labels.json").write_text(
        json.dumps([{"trajectory_id": n, "failures": failures} for n in (90001, 90002, 90003)]),
        encoding="utf-8",
    )
    return folder


def rows(store: Path) -> dict[str, list[tuple[object, ...]]]:
    db = sqlite3.connect(store)
    # The keys of a store are random.
    tables = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'keys'"
    ).fetchall()
    found = {}
    for (table,) in tables:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        kept = ", ".join(column for column in columns if column not in WHEN)
        found[table] = db.execute(f"SELECT {kept} FROM {table}").fetchall()
    db.close()
    return found


def imported(
    store: Path, paths: Iterable[Path], workers: int | None, format_name: str | None = None
) -> Added:
    with open_store(store, settings=Settings()) as notebook:
        return notebook.add(paths, workers=workers, format_name=format_name)


def test_processes_leave_the_rows_accounts_and_quarantine_of_one(tmp_path: Path) -> None:
    folder = everything(tmp_path / "runs")
    once = imported(tmp_path / "1.db", [folder], 1)
    expected = rows(tmp_path / "1.db")
    assert once.runs == MANY + OTHERS
    assert once.quarantined == 3 + 3 + 1 + 2
    assert len(expected["quarantine"]) == once.quarantined
    assert once.repaired == {}
    assert [account.flagged for account in once.files][-1] == {"label_without_run": 1}
    assert sum(row[0] is not None for row in expected["records"]) == 3  # labels, each once
    for workers in (2, 3):
        assert imported(tmp_path / f"{workers}.db", [folder], workers) == once
        assert rows(tmp_path / f"{workers}.db") == expected
    assert imported(tmp_path / "2.db", [folder], 2).new == 0


def test_agent_and_tags_are_filled_in_wherever_a_run_is_read(tmp_path: Path) -> None:
    folder = everything(tmp_path / "runs")
    for workers in (1, 2):
        with open_store(tmp_path / f"{workers}.db", settings=Settings()) as notebook:
            notebook.add(folder, workers=workers, agent="g", tags={"k": "own", "x": "y"})
            assert notebook.count(where="agent = 'g' and tag.x = 'y'") == MANY + OTHERS
            assert notebook.count(where="tag.k = 'v'") == 1
    assert rows(tmp_path / "1.db") == rows(tmp_path / "2.db")


def test_rows_come_in_the_order_of_the_files_with_the_ids_of_reading_in_one_go(
    tmp_path: Path,
) -> None:
    folder = everything(tmp_path / "runs")
    imported(tmp_path / "2.db", [folder], 2)
    read = [run for r in read_files([str(folder)]) for run in r if isinstance(run, Trajectory)]
    assert [row[1] for row in rows(tmp_path / "2.db")["runs"]] == [run.id for run in read]
    assert [run.source.ordinal for run in read if run.trial is None][:5] == [0, 1, 2, 0, 1]


@pytest.mark.shared_data
def test_real_runs_are_the_same_rows_from_processes(shared: Path, tmp_path: Path) -> None:
    folders = [shared / "formats", shared / "whowhen", shared / "agentrx-retail"]
    once = imported(tmp_path / "1.db", folders, 1)
    assert imported(tmp_path / "2.db", folders, 2) == once
    assert rows(tmp_path / "2.db") == rows(tmp_path / "1.db")


def test_a_small_import_starts_no_process_and_a_large_one_does(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a\nprint\nc", encoding="utf-8")
    imported(tmp_path / "1.db", [path], None, WHO)
    assert {row[3] for row in rows(tmp_path / "1.db")["runs"]} == {str(os.getpid())}
    imported(tmp_path / "2.db", [path], 2, WHO)
    readers = {row[3] for row in rows(tmp_path / "2.db")["runs"]}
    assert len(readers) == 1
    assert readers != {str(os.getpid())}


def test_what_travels_is_what_was_sent() -> None:
    part = Part("image", media_type="image/png", data="aGk=")
    made = run(
        user("a"),
        msgspec.structs.replace(agent("b"), parts=(part,)),
        case=Case(workflow="w", task="t"),
    )
    made = msgspec.structs.replace(
        made, tags={"k": "v"}, labels=(TraceLabel(kind="failure", step=0),)
    )
    for move_media in (True, False):
        sent = prepare_run(made, move_media=move_media)
        assert len(sent.blobs) == move_media
        frame = msgspec.msgpack.encode(sent)
        assert msgspec.msgpack.decode(frame, type=PreparedRun) == sent


def test_long_runs_are_written_few_at_a_time(tmp_path: Path) -> None:
    third = BATCH_BYTES // 3
    assert written(tmp_path / "1.db", [0, third, third, 0, third, 0, BATCH_BYTES, 0]) == [5, 2, 1]
    assert written(tmp_path / "2.db", [0] * 600) == [256, 256, 88]


def written(path: Path, sizes: Sequence[int]) -> list[int]:
    """How many runs of so many bytes each transaction wrote, as another connection sees them."""
    seen = []
    with Store.open(path) as store, Store.open(path) as other:

        def runs() -> Iterator[PreparedRun]:
            for at, size in enumerate(sizes):
                seen.append(len(other.runs()))
                made = prepare_run(run(user("a"), id=f"r{at}"), move_media=True)
                yield msgspec.structs.replace(made, body=b"[" + b" " * size + b"]")

        store.put_prepared(runs())
        seen.append(len(other.runs()))
    return [now - before for before, now in pairwise(sorted(set(seen)))]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_stands_before_a_file_that_is_no_trace_is_kept(tmp_path: Path, workers: int) -> None:
    good, bad, late = tmp_path / "good.json", tmp_path / "bad.txt", tmp_path / "late.json"
    good.write_text(json.dumps([tau(n) for n in range(300)]), encoding="utf-8")
    bad.write_text("no trace", encoding="utf-8")
    late.write_text(json.dumps(tau(1, trial=5)), encoding="utf-8")
    with pytest.raises(TraceError, match=r"bad\.txt: no known trace"):
        imported(tmp_path / "s.db", [good, bad, late], workers)
    assert len(rows(tmp_path / "s.db")["runs"]) == 300
    assert len(rows(tmp_path / "s.db")["accounts"]) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_named_that_is_damaged_within_is_an_error(tmp_path: Path, workers: int) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "runs.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(TraceError, match=r"runs\.parquet: Parquet that cannot be read"):
        imported(tmp_path / "s.db", [path], workers)
    added = imported(tmp_path / "s.db", [path.parent], workers)
    assert [account.problem is None for account in added.files] == [False] * len(added.files)


@pytest.mark.parametrize("workers", [1, 2])
def test_strict_keeps_nothing_however_many_read(tmp_path: Path, workers: int) -> None:
    folder = everything(tmp_path / "runs")
    with open_store(tmp_path / "s.db", settings=Settings()) as notebook:
        with pytest.raises(TraceError, match="strict keeps nothing"):
            notebook.add(folder, workers=workers, strict=True)
        assert notebook.count() == 0


def test_a_process_that_dies_is_one_line_and_what_was_read_is_kept(tmp_path: Path) -> None:
    for number, text in enumerate(["a\nb", "c\ndie", "d"]):
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    first = [tmp_path / "0.txt"] * 300  # a frame of its own
    with pytest.raises(
        EnvironmentFault, match=r"a reading process ended \(exit code 9\); records read"
    ):
        imported(tmp_path / "s.db", [*first, tmp_path / "1.txt", tmp_path / "2.txt"], 2, WHO)
    assert [row[2] for row in rows(tmp_path / "s.db")["runs"]] == ["a", "b"]
    assert imported(tmp_path / "s.db", [tmp_path / "2.txt"], 2, WHO).new == 1


# No main guard on purpose: the script must not run again in the processes that read.
SCRIPT = """
import os, signal, sys
import stepscope
print("started", flush=True)
stop = (lambda done, total: os.killpg(0, signal.SIGINT)) if sys.argv[3] == "stop" else None
with stepscope.open(sys.argv[1]) as store:
    try:
        print(store.add(sys.argv[2], workers=2, progress=stop).runs)
    except KeyboardInterrupt:
        print("stopped")
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no process left")
"""


def test_a_script_without_a_main_guard_may_be_stopped_and_run_again(tmp_path: Path) -> None:
    folder = everything(tmp_path / "runs")
    imported(tmp_path / "1.db", [folder], 1)

    def script(*words: object) -> str:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *map(str, words)],
            capture_output=True,
            text=True,
            check=True,
            process_group=0,  # as a terminal does it: the signal goes to the whole group
            timeout=300,
            cwd=tmp_path,
        )
        assert done.stderr == ""
        return done.stdout

    store = tmp_path / "2.db"
    assert script(store, folder, "stop") == "started\nstopped\nno process left\n"
    assert len(rows(store)["runs"]) < MANY
    assert script(store, folder, "go") == f"started\n{MANY + OTHERS}\nno process left\n"
    assert rows(store) == rows(tmp_path / "1.db")


def test_no_process_outlives_a_killed_parent(tmp_path: Path) -> None:
    script = "import sys, stepscope; stepscope.open(sys.argv[1]).add('-', workers=2)"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "s.db")],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stderr is not None
        # More than a pipe holds: when it is written, the processes wait for their first frame.
        parent.stdin.write(b"[" + b" " * 2**18)
        parent.send_signal(signal.SIGKILL)
        # This ends when nobody holds the other end any more.
        assert parent.stderr.read() == b""
