"""`rubrics.lock`: what is locked, what changed since, which test sets were seen; never by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from stepscope.api.rubrics import find_evaluation_runs, list_rubrics, lock_rubrics
from stepscope.cases.files import load_cases
from stepscope.cases.split import draw_split, freeze
from stepscope.errors import ConfigError, EnvironmentFault
from stepscope.judges.lock import (
    LOCK_FILE,
    ConsumedSet,
    RubricLock,
    consume_tests,
    explain_unlocked,
    lock_rubric,
    read_lock,
    write_lock,
)
from stepscope.judges.rubrics import RUBRICS_FOLDER, load_rubric
from stepscope.settings import Settings, load_settings
from stepscope.store import Store
from tests.calibrate.made import AXIS, store, whole
from tests.factories import agent, run

RUBRIC = load_rubric(AXIS)


def locked(folder: Path, *names: str, store: Store | None = None) -> RubricLock:
    lock_rubrics(store, Settings(), names or (AXIS,), folder=folder)
    return read_lock(folder)


def own(folder: Path, version: str = "1", question: str = "Is it so?") -> str:
    text = (RUBRICS_FOLDER / f"{AXIS}.md").read_text("utf-8")
    lines = [
        f'version = "{version}"' if line.startswith("version =")
        else 'name = "mine.ending"' if line.startswith("name =")
        else f'question = "{question}"' if line.startswith("question =") else line
        for line in text.split("\n")
    ]  # fmt: skip
    path = folder / "ending.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_a_rubric_is_locked_while_its_file_and_its_template_are_the_same(tmp_path: Path) -> None:
    lock = locked(tmp_path)
    assert explain_unlocked(RUBRIC, lock) == ""
    assert explain_unlocked(RUBRIC, RubricLock()) == "not locked"
    (entry,) = lock.rubric
    other = lock.put([msgspec.structs.replace(entry, file="0" * 16)])
    assert explain_unlocked(RUBRIC, other).startswith("changed since it was locked (file ")
    other = lock.put([msgspec.structs.replace(entry, prompt="0" * 16)])
    assert explain_unlocked(RUBRIC, other).startswith("changed since it was locked (prompt ")


def test_another_text_under_a_locked_version_is_refused_and_a_new_version_is_not(
    tmp_path: Path,
) -> None:
    locked(tmp_path, own(tmp_path))
    path = own(tmp_path, question="Is it not so?")
    (state,) = list_rubrics([path], tmp_path)
    assert state.unlocked.startswith("changed since")
    with pytest.raises(ConfigError, match="version 1 is locked with another text; raise"):
        locked(tmp_path, path)
    entry = locked(tmp_path, own(tmp_path, "2", "Is it not so?")).get("mine.ending")
    assert entry is not None
    assert entry.version == "2"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"version": "2"', '"version": "3"', "was edited by hand: .*git checkout"),
        ('"schema": 1', '"schema": 2', "newer stepscope"),
        ('"rubric"', '"rubrics"', "is no lock of rubrics .*git checkout"),
    ],
)
def test_a_lock_that_was_edited_by_hand_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    locked(tmp_path)
    path = tmp_path / LOCK_FILE
    path.write_text(path.read_text("utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        read_lock(tmp_path)
    with pytest.raises(ConfigError, match=said):
        locked(tmp_path)


def test_a_lock_keeps_what_tuned_it_and_who_answered(tmp_path: Path) -> None:
    with store(12) as made:
        made.append(
            whole(
                "openai/a@2026",
                ["correct"] * 8,
            )
        )
        made.append(whole("anthropic/b", ["correct"] * 7 + ["incorrect"]))
        made.put([run(agent("x"), id="tested", name="t/1/1", tags={"evaluation": "june"})])
        (answer,) = whole("openai/a@2026", ["correct"])
        made.append([msgspec.structs.replace(answer, trajectory="tested")])
        (entry,) = locked(tmp_path, store=made).rubric
    assert entry.development == tuple(sorted(f"r{n}" for n in range(8)))
    # Both answered under version 1 of the rubric, which is not the one that is locked.
    assert entry.judges == {}
    assert entry.agreed == "AC1 of 8 items"


def test_development_runs_of_earlier_versions_stay(tmp_path: Path) -> None:
    entry = lock_rubric(RUBRIC, "", RubricLock())
    lock = RubricLock().put([
        msgspec.structs.replace(entry, version="1", file="0" * 16, development=("r9",))
    ])  # fmt: skip
    write_lock(tmp_path, lock)
    (entry,) = locked(tmp_path).rubric
    assert (entry.version, entry.development) == (RUBRIC.version, ("r9",))


def test_a_test_set_is_consumed_at_its_first_use() -> None:
    june = {"tag evaluation=june": 20}
    entry, notes = consume_tests(lock_rubric(RUBRIC, "", RubricLock()), june)
    first = ConsumedSet(name="tag evaluation=june", version="2", runs=20)
    assert (entry.tests, notes) == ((first,), [])
    # The same version again, by another judge, say: nothing is new.
    assert consume_tests(entry, june) == (entry, [])
    entry, notes = consume_tests(msgspec.structs.replace(entry, version="3"), june)
    assert entry.tests == (first, msgspec.structs.replace(first, version="3"))
    assert "tag evaluation=june was seen by version 2" in notes[0]
    assert "a second look, not a test" in notes[0]


def test_the_same_lock_gives_the_same_bytes(tmp_path: Path) -> None:
    locked(tmp_path, "axes")
    raw = (tmp_path / LOCK_FILE).read_bytes()
    locked(tmp_path, "axes.termination", "axes.sequencing")
    assert (tmp_path / LOCK_FILE).read_bytes() == raw


def test_a_lock_of_one_version_is_sealed_as_before_locks_kept_earlier_ones(tmp_path: Path) -> None:
    locked(tmp_path, "no_look")
    assert "earlier" not in (tmp_path / LOCK_FILE).read_text("utf-8")


def test_an_earlier_version_keeps_its_text(tmp_path: Path) -> None:
    first = Path(own(tmp_path)).read_text("utf-8")
    locked(tmp_path, own(tmp_path))
    locked(tmp_path, own(tmp_path, "2", "Is it not so?"))
    with pytest.raises(ConfigError, match="version 1 is locked with another text; raise"):
        locked(tmp_path, own(tmp_path, "1", "Was it so?"))
    # Back to the first as it was, and to the second as it was.
    Path(own(tmp_path)).write_text(first, encoding="utf-8")
    entry = locked(tmp_path, str(tmp_path / "ending.md")).get("mine.ending")
    assert entry is not None
    assert (entry.version, list(entry.earlier or {})) == ("1", ["2"])
    entry = locked(tmp_path, own(tmp_path, "2", "Is it not so?")).get("mine.ending")
    assert entry is not None
    assert (entry.version, list(entry.earlier or {})) == ("2", ["1"])


def test_test_sets_that_a_rubric_has_seen_stay_seen_under_its_next_version(tmp_path: Path) -> None:
    lock = locked(tmp_path, own(tmp_path))
    entry = lock.get("mine.ending")
    assert entry is not None
    seen, _ = consume_tests(entry, {"tag evaluation=june": 20})
    write_lock(tmp_path, lock.put([seen]))
    new = locked(tmp_path, own(tmp_path, "2", "Is it not so?")).get("mine.ending")
    assert new is not None
    assert (new.version, new.tests) == ("2", seen.tests)
    assert "a second look" in consume_tests(new, {"tag evaluation=june": 20})[1][0]


def test_a_lock_of_a_newer_stepscope_is_told_from_a_broken_one(tmp_path: Path) -> None:
    locked(tmp_path)
    path = tmp_path / LOCK_FILE
    newer = {**msgspec.json.decode(path.read_bytes()), "schema": 2, "models": []}
    path.write_bytes(msgspec.json.encode(newer))
    with pytest.raises(ConfigError, match="newer stepscope: upgrade"):
        read_lock(tmp_path)
    path.write_bytes(msgspec.json.encode({**newer, "schema": 1}))
    with pytest.raises(ConfigError, match="is no lock of rubrics"):
        read_lock(tmp_path)


@pytest.mark.parametrize("place", ["cases", "cases/shop.jsonl"])
def test_settings_may_name_a_file_of_a_frozen_folder(tmp_path: Path, place: str) -> None:
    (tmp_path / "cases").mkdir()
    rows = [f'{{"workflow": "shop", "task": "{task}"}}' for task in range(10)]
    (tmp_path / "cases" / "shop.jsonl").write_text("\n".join(rows), encoding="utf-8")
    split = draw_split(load_cases(tmp_path / "cases"), share=0.2)
    freeze(split, tmp_path / "cases")
    (tmp_path / "stepscope.toml").write_text(f'[workflow.shop]\ncases = "{place}"\n', "utf-8")
    with Store.open(":memory:") as made:
        made.put(
            run(agent("x"), id=f"r{task}", name=f"n{task}", task=str(task)) for task in range(10)
        )
        found = find_evaluation_runs(made, load_settings(tmp_path), None)
    assert sorted(found) == sorted(f"r{task}" for _, task in split.tasks("held_out"))


# Two commands at once: each waits until both are there, then changes the lock many times.
AT_ONCE = """
import sys
from pathlib import Path
from types import SimpleNamespace
from stepscope.api.rubrics import consume_tests, lock_rubrics
from stepscope.judges.rubrics import load_rubric
from stepscope.settings import Settings
from stepscope.store import Store
from tests.factories import agent, run

rubric, folder, store = sys.argv[1], Path(sys.argv[2]), Store.open(":memory:")
plan = SimpleNamespace(store=store, where=None, drawn={}, rubrics=[load_rubric(rubric)])
plan.options = SimpleNamespace(unlocked=frozenset())
print("ready", flush=True)
sys.stdin.readline()
for turn in range(40):
    if rubric == "axes.sequencing":
        lock_rubrics(None, Settings(), [rubric], folder=folder)
    store.put([run(agent("x"), id=f"r{turn}", name=f"n{turn}", tags={"evaluation": str(turn)})])
    consume_tests(plan, Settings(), folder)
store.close()
"""


def test_two_commands_at_once_lose_no_test_set(tmp_path: Path) -> None:
    locked(tmp_path, "axes.termination", "axes.sequencing")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, rubric, str(tmp_path)],
            cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for rubric in ("axes.termination", "axes.sequencing")
    ]  # fmt: skip
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    assert [one.communicate()[1] for one in started] == ["", ""]
    assert [one.returncode for one in started] == [0, 0]
    assert [len(entry.tests) for entry in read_lock(tmp_path).rubric] == [40, 40]
    # Nothing is left beside the lock; what a killed command left keeps nobody waiting.
    assert [one.name for one in tmp_path.iterdir()] == [LOCK_FILE]
    (tmp_path / f".{LOCK_FILE}.held").touch()
    locked(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == [LOCK_FILE]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"rubrics\.lock: cannot be written \(No such"):
        locked(tmp_path / "away")
    # A link that somebody laid there is not followed.
    (tmp_path / f".{LOCK_FILE}.held").symlink_to(tmp_path / "other")
    with pytest.raises(EnvironmentFault, match="cannot be written"):
        locked(tmp_path)
    assert not (tmp_path / "other").exists()
