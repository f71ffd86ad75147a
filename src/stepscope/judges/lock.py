"""`rubrics.lock`: which text of each rubric is locked, what tuned it, which test sets it has seen.

The file is written by commands and committed by the user. A rubric is locked while its file and the
prompt template of its kind are those of the lock. Test sets are consumed at their first use, and
stay consumed under later versions: a later figure on them is a second look. Refused: a lock that
was edited by hand, and another text under a version that is locked. Commands that change it at once
wait for each other, so that no test set that one of them consumed is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from stepscope.errors import ConfigError
from stepscope.judges.rubrics import Rubric, load_prompt
from stepscope.model.records import Figure
from stepscope.safety.sealed import SealedFile, hold_sealed, read_sealed, seal, write_sealed

LOCK_FILE = "rubrics.lock"
# Digits of a run's id in the lock.
ID_DIGITS = 16


class ConsumedSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test set that a rubric has seen, at one version of it."""

    name: str  # "held out of cases, SPLIT", or the tag of its runs
    version: str  # of the rubric
    runs: int  # judged at the first use


class LockedRubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rubric as it was locked."""

    name: str
    version: str
    file: str  # hash of the rubric's file
    prompt: str  # hash of the prompt template
    path: str = ""  # of the user's file; "" for a built-in
    # judges that answered under this version -> snapshots that their providers name
    judges: dict[str, tuple[str, ...]] = {}
    development: tuple[str, ...] = ()  # runs that it was tuned on, at any version: their ids
    agreed: str = ""  # who agreed on the development runs, and by which figure
    agreement: Figure | None = None
    tests: tuple[ConsumedSet, ...] = ()  # the first first
    # hash of the file of each version locked before; left out of files where there is none
    earlier: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class RubricLock(SealedFile, frozen=True, kw_only=True):
    """The content of the file."""

    rubric: tuple[LockedRubric, ...] = ()

    def get(self, name: str) -> LockedRubric | None:
        """Return the entry of a rubric."""
        return next((one for one in self.rubric if one.name == name), None)

    def put(self, entries: Iterable[LockedRubric]) -> RubricLock:
        """Return the lock with these entries in the place of those of their names."""
        named = {one.name: one for one in (*self.rubric, *entries)}
        return seal(RubricLock(rubric=tuple(named[name] for name in sorted(named))))


def read_lock(folder: Path) -> RubricLock:
    """Return the lock in a folder; an empty one where there is none; errors as `read_sealed`."""
    return read_sealed(folder / LOCK_FILE, RubricLock, "lock of rubrics") or RubricLock()


def write_lock(folder: Path, lock: RubricLock) -> Path:
    """Write the lock into a folder."""
    write_sealed(folder / LOCK_FILE, lock)
    return folder / LOCK_FILE


@contextmanager
def change_lock(folder: Path) -> Iterator[RubricLock]:
    """Give the lock in a folder, and keep other commands from changing it until it is written."""
    with hold_sealed(folder / LOCK_FILE):
        yield read_lock(folder)


def explain_unlocked(rubric: Rubric, lock: RubricLock) -> str:
    """Return why a rubric is not locked; "" where it is."""
    entry = lock.get(rubric.name)
    if entry is None:
        return "not locked"
    if entry.file != rubric.hash:
        held = f"{entry.file}, version {entry.version}"
        return f"changed since it was locked (file {rubric.hash}, locked {held})"
    if entry.prompt != (now := load_prompt(rubric.kind).hash):
        return f"changed since it was locked (prompt template {now}, locked {entry.prompt})"
    return ""


def lock_rubric(rubric: Rubric, path: str, lock: RubricLock) -> LockedRubric:
    """Return the entry of a rubric as it is; `ConfigError` for another text under one version."""
    before = lock.get(rubric.name)
    known = {} if before is None else (before.earlier or {}) | {before.version: before.file}
    if known.get(rubric.version, rubric.hash) != rubric.hash:
        raise ConfigError(
            f"{path or rubric.name}: version {rubric.version} is locked with another text; raise "
            "its version, or restore the text"
        )
    prompt, version = load_prompt(rubric.kind).hash, rubric.version
    made = LockedRubric(
        name=rubric.name, version=version, file=rubric.hash, prompt=prompt, path=path
    )
    if before is None:
        return made
    earlier = {version: file for version, file in known.items() if version != rubric.version}
    return msgspec.structs.replace(
        made, development=before.development, tests=before.tests, earlier=earlier or msgspec.UNSET
    )


def consume_tests(entry: LockedRubric, sets: Mapping[str, int]) -> tuple[LockedRubric, list[str]]:
    """Return the entry with test sets of so many runs consumed, and notes on those seen before."""
    notes, tests = [], list(entry.tests)
    for name, runs in sets.items():
        seen = [before.version for before in tests if before.name == name]
        if entry.version not in seen:
            tests.append(ConsumedSet(name=name, version=entry.version, runs=runs))
        if seen and entry.version not in seen:
            seen_by = f"{name} was seen by version {seen[0]}"
            second = "what it says now is a second look, not a test"
            notes.append(f"{entry.name} version {entry.version}: {seen_by}; {second}")
    return msgspec.structs.replace(entry, tests=tuple(tests)), notes
