"""One line of accounting for every file: what was read, repaired, quarantined, kept only aside."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stepscope.model import Quarantined, Trajectory
from stepscope.safety.json import REPAIR_CODES
from stepscope.safety.redact import scrub_message


class Account(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came out of one file."""

    uri: str  # the file, or archive and member
    format: str | None = None  # the format that read it; None where none did
    runs: int = 0  # trajectories read
    steps: int = 0  # steps in them
    calls: int = 0  # tool calls in them
    scores: int = 0  # step scores in them
    # code of a repair -> records or runs that it was made in
    repaired: dict[str, int] = msgspec.field(default_factory=dict)
    # code of any other warning -> how often it was given
    flagged: dict[str, int] = msgspec.field(default_factory=dict)
    quarantined: int = 0  # records that could not be read
    # key that has no field of its own -> how often it was kept in `extra`; keys of steps, calls and
    # results are prefixed `step.`, `call.`, `result.`
    kept_in_extra: dict[str, int] = msgspec.field(default_factory=dict)
    # what the source itself kept back, by what it is -> how often
    withheld: dict[str, int] = msgspec.field(default_factory=dict)
    problem: str | None = None  # why nothing, or not all, was read

    @property
    def unread(self) -> int:
        """Records that could not be read; the rest of a file that was cut is one.

        >>> Account(uri="a.eval", format="inspect_ai", quarantined=1, problem="damaged").unread
        2
        >>> Account(uri="README.md", problem="no known trace").unread
        0
        """
        return self.quarantined + (self.format is not None and self.problem is not None)

    def line(self) -> str:
        """Say it in one line.

        >>> Account(uri="a.json", format="atif", runs=1, steps=9, quarantined=2).line()
        'a.json: atif, 1 run, 9 steps, 0 calls; quarantined 2'
        >>> Account(uri="b.json", format="mlflow").line()
        'b.json: mlflow, 0 runs, 0 steps, 0 calls; nothing in it is a run'
        """
        said = [f"{self.uri}:"]
        if self.format is not None:
            said.append(
                f"{self.format}, {_count_noun(self.runs, 'run')}, "
                f"{_count_noun(self.steps, 'step')}, {_count_noun(self.calls, 'call')}"
                + (f", {_count_noun(self.scores, 'score')};" if self.scores else ";")
            )
        for word, counts in (
            ("repaired", self.repaired),
            ("flagged", self.flagged),
            ("only in extra", self.kept_in_extra),
            ("withheld by the source", self.withheld),
        ):
            if counts:
                told = ", ".join(f"{name} {n:,}" for name, n in counts.items())
                said.append(f"{word}: {told};")
        if self.format is not None and not (self.runs or self.scores or self.quarantined):
            said.append("nothing in it is a run;")
        if self.quarantined:
            said.append(f"quarantined {self.quarantined:,};")
        if self.problem is not None:
            said.append(f"{self.problem};")
        return " ".join(said).removesuffix(";").removesuffix(":")


class Counts(msgspec.Struct, array_like=True):
    """What came out of a file or of a part of it, as numbers that add up."""

    runs: int = 0
    steps: int = 0
    calls: int = 0
    quarantined: int = 0
    scores: int = 0
    warned: dict[str, int] = msgspec.field(default_factory=dict)
    extra: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, found: Trajectory | Quarantined) -> None:
        """Count one thing that came out."""
        if isinstance(found, Quarantined):
            self.quarantined += 1
            return
        self.runs += 1
        self.steps += len(found.steps)
        self.scores += len(found.scores)
        for warning in found.warnings:
            _count(self.warned, warning.code)
        _count_each(self.extra, found.extra)
        for step in found.steps:
            if step.extra is not None:
                _count_each(self.extra, step.extra, "step.")
            self.calls += len(step.calls)
            for call in step.calls:
                if call.extra is not None:
                    _count_each(self.extra, call.extra, "call.")
            for result in step.results:
                if result.extra is not None:
                    _count_each(self.extra, result.extra, "result.")

    def merge(self, other: Counts) -> None:
        """Add what came out of another part."""
        for name in ("runs", "steps", "calls", "scores", "quarantined"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.warned, other.warned), (self.extra, other.extra)):
            for key, n in theirs.items():
                _count(mine, key, n)


class FileTally:
    """Counts what comes out of a file while it is read."""

    def __init__(self, uri: str, format_name: str | None, problem: str | None) -> None:
        self.uri = uri
        self.format = format_name
        self.problem = problem
        self.counts = Counts()

    def repaired(self, code: str) -> None:
        """Count a repair that was made to the file as a whole."""
        _count(self.counts.warned, code)

    def account(self) -> Account:
        """Return the counts so far."""
        counts = self.counts
        warned = sorted(counts.warned.items())
        return Account(
            uri=self.uri,
            format=self.format,
            runs=counts.runs,
            steps=counts.steps,
            calls=counts.calls,
            scores=counts.scores,
            repaired={code: n for code, n in warned if code in REPAIR_CODES},
            flagged={code: n for code, n in warned if code not in REPAIR_CODES},
            quarantined=counts.quarantined,
            kept_in_extra=dict(sorted(counts.extra.items())),
            problem=None if self.problem is None else scrub_message(self.problem),
        )


def _count(counted: dict[str, int], key: str, n: int = 1) -> None:
    counted[key] = counted.get(key, 0) + n


def _count_each(counted: dict[str, int], keys: Iterable[str] | None, prefix: str = "") -> None:
    for key in keys or ():
        name = prefix + key
        counted[name] = counted.get(name, 0) + 1


def _count_noun(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
