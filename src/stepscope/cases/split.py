"""The held-out part of a corpus: drawn once, frozen by hash, checked whenever the cases are read.

A split is a file beside the cases, written by `case split --freeze` and committed with them. It
holds the hash of every held-out case and a hash of itself. An edited, lost or added held-out case
is refused, as is a split that was edited: figures before and after would be of two test sets. Cases
that came later belong to neither part. The draw is systematic over the strata, so that each has its
share, and depends on the seed and the names of tasks alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import floor
from pathlib import Path
from typing import Literal

import msgspec

from stepscope.errors import ConfigError, UsageError
from stepscope.model import Case
from stepscope.safety.sealed import SealedFile, read_sealed, seal, write_sealed
from stepscope.values import format_count, format_percent

# The fields of a case that strata may be of; any other name is a tag.
_CASE_FIELDS = ("workflow", "difficulty")
# The stratum of cases that lack the field.
NO_STRATUM = "-"
# Below and above these, `case check` says what a corpus cannot do.
FEWEST_CASES, FEWEST_GOALS, MOST_GOALS = 30, 4, 10
Part = Literal["held_out", "development"]
TaskKey = tuple[str, str]


class SplitCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case of a split."""

    workflow: str
    task: str
    part: Part
    hash: str = ""  # of the case, where it is held out


class Split(SealedFile, frozen=True, kw_only=True):
    """Which cases of a corpus are held out."""

    share: float  # of the cases, as it was asked for
    by: tuple[str, ...] = ()  # what the strata are of
    seed: int = 0
    cases: tuple[SplitCase, ...]  # in the order of workflow and task

    def tasks(self, part: Part) -> frozenset[TaskKey]:
        """Return workflow and task of the cases of one part."""
        return frozenset((one.workflow, one.task) for one in self.cases if one.part == part)

    def __str__(self) -> str:
        held, of = len(self.tasks("held_out")), len(self.cases)
        strata = f", by {', '.join(self.by)}" if self.by else ""
        return (
            f"{held} of {format_count(of, 'case')} held out "
            f"({format_percent(held / of)}{strata}), hash {self.hash[:16]}"
        )


def split_path(corpus: Path) -> Path:
    """Return where the split of a folder, or of a file of cases, lies."""
    return corpus / "split.json" if corpus.is_dir() else corpus.with_suffix(".split.json")


def draw_split(
    cases: Sequence[Case], *, share: float, by: Sequence[str] = (), seed: int = 0
) -> Split:
    """Return a split with about this share of each stratum held out; `UsageError` for no share.

    Source: systematic sampling of a list in the order of the strata, with a random start; e.g.
    Cochran (1977), Sampling Techniques, chapter 8.
    """
    n = len(cases)
    held = round(share * n) if 0 < share < 1 else 0
    if not 1 <= held < n:
        expected = f"1 to {n - 1}" if n > 1 else "two cases or more"
        raise UsageError(f"--held-out {share:g} of {n} cases holds {held} out; expected {expected}")
    for name in by:
        if all(_stratum(case, name) == NO_STRATUM for case in cases):
            why = f"--by {name}: no case has it; it is difficulty, workflow, or a key of tags"
            raise UsageError(why)

    def place(case: Case) -> tuple[list[str], bytes]:
        drawn = sha256(f"{seed}\0{case.workflow}\0{case.task}".encode("utf-8", "replace"))
        return [_stratum(case, name) for name in by], drawn.digest()

    ordered = sorted(cases, key=place)
    start = int.from_bytes(sha256(f"start\0{seed}".encode()).digest()[:6], "big") / 2**48
    chosen = {floor((start + at) * n / held) for at in range(held)}
    rows = []
    for at, case in enumerate(ordered):
        part: Part = "held_out" if at in chosen else "development"
        hash_ = case.hash if at in chosen else ""
        rows.append(SplitCase(workflow=case.workflow, task=case.task, part=part, hash=hash_))
    rows.sort(key=lambda one: (one.workflow, one.task))
    return seal(Split(share=share, by=tuple(by), seed=seed, cases=tuple(rows)))


def _stratum(case: Case, name: str) -> str:
    found = getattr(case, name) if name in _CASE_FIELDS else case.tags.get(name)
    return str(found) if found else NO_STRATUM


def freeze(split: Split, corpus: Path) -> Path:
    """Write a split beside its cases; `UsageError` where one is frozen already."""
    path = split_path(corpus)
    if path.exists() or path.is_symlink():
        raise UsageError(
            f"{path} is there: this corpus is frozen; a new draw would put cases that were tuned "
            "on into the test set. Remove the file only to begin again with new cases"
        )
    write_sealed(path, split)
    return path


def load_split(corpus: Path) -> Split | None:
    """Return the frozen split of a corpus; None where there is none; errors as `read_sealed`."""
    return read_sealed(split_path(corpus), Split, "split")


def find_split(corpus: Path) -> Split | None:
    """Return the split of a corpus, or of the frozen folder that its file lies in."""
    found = load_split(corpus)
    return found if found is not None or corpus.is_dir() else load_split(corpus.parent)


def refuse_edited(corpus: Path, cases: Mapping[TaskKey, Case]) -> Split | None:
    """Return the frozen split of a corpus; `ConfigError` where a held-out case is not as frozen.

    Of one file in a frozen folder only the cases in it are compared.
    """
    split, whole = find_split(corpus), corpus.is_dir() or split_path(corpus).exists()
    for one in split.cases if split is not None else ():
        case, name = cases.get((one.workflow, one.task)), f"{one.workflow}/{one.task}"
        if one.part == "held_out" and (whole or case is not None):
            if case is None:
                found = "is gone"
            elif case.hash != one.hash:
                found = f"was edited (its hash is {case.hash}, frozen as {one.hash})"
            else:
                continue
            raise ConfigError(
                f"{corpus}: held-out case {name} {found}; undo the change (git checkout), or "
                f"remove {split_path(corpus if whole else corpus.parent)} to begin a new test set"
            )
    return split if whole else None


class CorpusCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a corpus holds, and what it cannot do."""

    corpus: str
    cases: int
    workflows: dict[str, int]  # cases of each
    split: Split | None = None  # where it is frozen
    later: int = 0  # cases that came after the freeze: in neither part
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        each = ", ".join(f"{name} {n:,}" for name, n in self.workflows.items())
        frozen = "not frozen: no case is held out" if self.split is None else str(self.split)
        later = f"; {format_count(self.later, 'case')} came later, in neither part"
        lines = [f"{self.corpus}: {format_count(self.cases, 'case')} ({each})"]
        lines += [frozen + (later if self.later else ""), *(f"! {one}" for one in self.warnings)]
        return "\n".join(lines)


def check_corpus(corpus: Path, cases: Sequence[Case]) -> CorpusCheck:
    """Return what a corpus holds; `ConfigError` where a held-out case is not as frozen."""
    split = refuse_edited(corpus, {(one.workflow, one.task): one for one in cases})
    sizes = dict(sorted(Counter(one.workflow for one in cases).items()))
    warnings = [
        f"{name} has {format_count(n, 'case')}; below {FEWEST_CASES} most differences stay unseen"
        for name, n in sizes.items()
        if n < FEWEST_CASES
    ]
    odd = [one for one in cases if not FEWEST_GOALS <= len(one.subgoals) <= MOST_GOALS]
    if odd:
        warnings.append(
            f"{format_count(len(odd), 'case')} with fewer than {FEWEST_GOALS} or more than "
            f"{MOST_GOALS} sub-goals, as {odd[0].workflow}/{odd[0].task}: no shape of effort"
        )
    keys = {(one.workflow, one.task) for one in cases}
    kept = [] if split is None else [one for one in split.cases if (one.workflow, one.task) in keys]
    leaks = () if split is None else _find_leaks(split, cases)
    return CorpusCheck(
        corpus=str(corpus),
        cases=len(cases),
        workflows=sizes,
        split=split,
        later=0 if split is None else len(cases) - len(kept),
        warnings=(*warnings, *leaks),
    )


def _find_leaks(split: Split, cases: Sequence[Case]) -> list[str]:
    """Say which held-out cases have the request of a case of the other part."""
    held = split.tasks("held_out")
    asked: dict[str, list[Case]] = {}
    for case in cases:
        asked.setdefault(" ".join((case.request or "").casefold().split()), []).append(case)
    found = []
    for text, same in asked.items():
        inside = [one for one in same if (one.workflow, one.task) in held]
        if text and inside and len(inside) < len(same):
            other = next(one for one in same if one not in inside)
            found.append(
                f"held-out case {inside[0].workflow}/{inside[0].task} has the request of "
                f"{other.workflow}/{other.task}: it is no new task"
            )
    return found
