"""What `baseline update` would change, in lines that a person reads before committing the file.

Names of cases and agents come from traces: control characters in them are made visible.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepscope.gates.baseline import Baseline, BaselineProblem, natural
from stepscope.gates.sample import Absent, Cell
from stepscope.safety.text import visible_line


class BaselineDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What `baseline update` changes: totals and cases, old against new, one line each."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        """All lines."""
        return "\n".join(self.lines)


def diff(old: Baseline | BaselineProblem, new: Baseline) -> BaselineDiff:
    """Return what changes from an old baseline to a new one, for people."""
    said = [f"workflow {new.workflow}"]
    if isinstance(old, BaselineProblem):
        said.append(f"new baseline: {_size(new)}")
        said += [f"  {name}: {_total(new, name)}" for name in sorted(new.measures)]
        return BaselineDiff(lines=tuple(visible_line(line) for line in said))
    said.append(f"runs: {_size(old)} -> {_size(new)}")
    for what in ("commit", "agents"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after:
            said.append(f"{what}: {_plain(before)} -> {_plain(after)}")
    for name in sorted({*old.measures, *new.measures}):
        said += _changes(name, old, new)
    gone, come = _but(old, new), _but(new, old)
    said += [f"cases gone: {', '.join(gone)}"] if gone else []
    said += [f"cases new: {', '.join(come)}"] if come else []
    if len(said) == 2 and old.sample.runs == new.sample.runs:
        said = [said[0], "nothing changes"]
    return BaselineDiff(lines=tuple(visible_line(line) for line in said))


def _changes(name: str, old: Baseline, new: Baseline) -> list[str]:
    before, after = old.measures.get(name), new.measures.get(name)
    if before is None or after is None:
        return [f"{name}: {'added' if before is None else 'no longer kept'}"]
    said = [f"{name}: {before} -> {after}"] if before != after else []
    if old.sample.cells[name] != new.sample.cells[name]:
        totals = _total(old, name), _total(new, name)
        said.append(f"{name}: {totals[0]} -> {totals[1]}")
        moved = [
            case
            for case in old.sample.cases
            if (was := _of(old, name, case)) and (now := _of(new, name, case)) and was != now
        ]
        said += [f"  case {c}: {_of(old, name, c)} -> {_of(new, name, c)}" for c in moved]
    return said


def _of(baseline: Baseline, name: str, case: str) -> str:
    cells = baseline.sample.cells[name]
    return _said([c for c, r in zip(cells, baseline.sample.runs, strict=True) if r.case == case])


def _total(baseline: Baseline, name: str) -> str:
    return _said(baseline.sample.cells[name])


def _said(cells: Sequence[Cell]) -> str:
    """Say cells in few words: the mean of numbers, counts of labels and of what is absent.

    >>> _said([1.0, 0.0, "uncertain", Absent("missing_input")])
    'mean 0.5 of 2, 1 missing_input, 1 uncertain'
    """
    numbers = [cell for cell in cells if isinstance(cell, int | float)]
    words = [
        c if isinstance(c, str) else c.unmeasured for c in cells if isinstance(c, str | Absent)
    ]
    parts = [f"mean {sum(numbers) / len(numbers):.4g} of {len(numbers)}"] if numbers else []
    return ", ".join([*parts, *(f"{words.count(word)} {word}" for word in sorted(set(words)))])


def _size(baseline: Baseline) -> str:
    return f"{len(baseline.sample.runs)} runs of {len(baseline.sample.cases)} cases"


def _but(one: Baseline, other: Baseline) -> list[str]:
    known = set(other.sample.cases)
    return sorted((case for case in one.sample.cases if case not in known), key=natural)


def _plain(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value or "none said")
