"""Cells of a file of verdicts as a record: which column is what, and what a cell may hold.

Refused, each row alone: a run that the store does not have, a step that the run does not have, a
label off the rubric's menu, a number outside 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from stepscope.errors import ConfigError, TraceError, UsageError
from stepscope.judges.judgement import PREFIX, SCORES
from stepscope.judges.rubrics import BUILT_IN, rubric
from stepscope.judges.schemas import WHOSE
from stepscope.model import Json, Verdict
from stepscope.safety.text import visible_line

# What a column is called where nobody says.
USUAL: dict[str, tuple[str, ...]] = {
    "run": ("run", "id", "trajectory"),
    "step": ("step",),
    "label": ("label", "verdict"),
    "value": ("value", "score"),
    "judge": ("judge", "rater", "annotator"),
    "axis": ("axis", "aspect", "rubric"),
    "confidence": ("confidence",),
    "cites": ("cites", "cited_step_indices"),
    "reason": ("reason", "rationale"),
    "repeat": ("repeat",),
}
# A message quotes no more than this of a cell.
_QUOTED = 40
NO_LOOK = "no_look"
# The second question of attribution, whose answers are records of their own.
WHOSE_FAILURE = "attribution.whose"


class Refused(TraceError):
    """A row that is set aside: one word or two for counting, and the reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Which column is what, and what is the same for every row.

    Attributes:
        of: field -> column; a dot leads into a nested object; "-1" behind a step's column says
            that the file counts from 1.
        labels: label in the file -> label of the rubric.
        rubric: the rubric, or the set that the axis column names one of.
        rater: who rated.
        answers: what the user's own rubric may be answered with, by its name.
    """

    of: dict[str, str] = {}
    labels: dict[str, str] = {}
    rubric: str | None = None
    rater: str | None = None
    answers: dict[str, tuple[str, ...]] = {}

    def resolved(self) -> Columns:
        """Return the same with the file of a user's own rubric read: its name and its menu.

        Raises:
            ConfigError: the file is no rubric.
        """
        if self.rubric is None or not self.rubric.endswith(".md"):
            return self
        own = rubric(self.rubric)
        menus = {**self.answers, own.name: own.answers}
        return msgspec.structs.replace(self, rubric=own.name, answers=menus)

    def menu(self, name: str) -> tuple[str, ...] | None:
        """Return what a rubric may be answered with; None where nothing here knows the rubric."""
        return self.answers[name] if name in self.answers else menu(name)

    def cell(self, cells: Mapping[str, Json], field: str) -> Json:
        """Return what a row says of a field; None where it says nothing."""
        if field in self.of:
            return _nested(cells, self.of[field].removesuffix("-1"))
        return next((cells[name] for name in USUAL[field] if name in cells), None)

    def check(self, cells: Mapping[str, Json]) -> None:
        """Refuse a file whose columns are other ones.

        Raises:
            UsageError: a column that was named is not there, or none says the run or the verdict.
        """
        known = visible_line(", ".join(cells))[:200]
        for field, name in self.of.items():
            column = name.removesuffix("-1").partition(".")[0]
            if column not in cells and name.removesuffix("-1") not in cells:
                raise UsageError(f"--map {field}={name}: no such column; the file has {known}")
        for fields in (("run",), ("label", "value")):
            usual = [name for field in fields for name in USUAL[field]]
            if not any(field in self.of for field in fields) and not cells.keys() & set(usual):
                what = fields[0]
                raise UsageError(
                    f"no column says the {what}; the file has {known}: --map {what}=COLUMN"
                )


def _nested(cells: Mapping[str, Json], path: str) -> Json:
    if path in cells:
        return cells[path]
    found: Json = dict(cells)
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


class Steps(NamedTuple):
    """A run that was found: its id, and how many steps it has."""

    run: str
    steps: int


def parsed(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Return what `A=B,C=D` options say.

    Raises:
        UsageError: one says nothing, or a field twice.

    >>> parsed(["run=id,label=verdict", "step=n-1"], "--map")
    {'run': 'id', 'label': 'verdict', 'step': 'n-1'}
    """
    found: dict[str, str] = {}
    for pair in (part for text in pairs for part in text.split(",")):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if not (key and equals and value):
            raise UsageError(f"{option} {pair!r}: expected A=B, as {option} run=id,label=verdict")
        if key in found:
            raise UsageError(f"{option}: {key!r} is said twice")
        found[key] = value
    return found


def aspect(cells: Mapping[str, Json], columns: Columns) -> str:
    """Return the name of the rubric that a row is about.

    Raises:
        Refused: the row names none, or one that several rubrics end in.
    """
    said = columns.cell(cells, "axis")
    name = "" if said is None else str(said).strip()
    if columns.rubric is not None:
        inside = f"{columns.rubric}.{name}"
        name = inside if name and _is_set(columns.rubric) else columns.rubric
    if not name:
        raise Refused("no rubric", "no rubric; map a column to axis, or say --rubric NAME")
    if name in BUILT_IN or name == SCORES:
        return SCORES if name == NO_LOOK else name
    ends = [known for known in BUILT_IN if known.endswith(f".{name}")]
    if len(ends) > 1:
        raise Refused("no rubric", f"axis {_quoted(name)} may be {' or '.join(ends)}")
    return ends[0] if ends else name


def _is_set(name: str) -> bool:
    return name not in BUILT_IN and any(known.startswith(f"{name}.") for known in BUILT_IN)


def menu(name: str) -> tuple[str, ...] | None:
    """Return what a rubric may be answered with; None where nothing here knows the rubric."""
    if name == SCORES:
        return ()
    if name == WHOSE_FAILURE:
        return WHOSE
    try:
        return rubric(name).answers
    except ConfigError:
        return None


def verdict(cells: Mapping[str, Json], columns: Columns, name: str, run: Steps) -> Verdict | None:
    """Return the verdict of a row; None where the row holds none.

    Raises:
        Refused: a cell holds what it may not.
    """
    label = _label(columns, cells, name)
    value = _share("value", columns.cell(cells, "value"))
    if label is None and (value is None or name != SCORES):
        return None
    step = _step(columns.cell(cells, "step"), run, columns.of.get("step", "").endswith("-1"))
    if name == SCORES and step is None:
        raise Refused("no step", "a score without a step; map a column to step")
    cites = _cites(columns.cell(cells, "cites"), run)
    reason = columns.cell(cells, "reason")
    return Verdict(
        SCORES if name == SCORES else PREFIX + name,
        value=value,
        label=label,
        step=step,
        cites=cites or (() if step is None else (step,)),
        reason="" if reason is None else str(reason),
        confidence=_share("confidence", columns.cell(cells, "confidence")),
    )


def _label(columns: Columns, cells: Mapping[str, Json], name: str) -> str | None:
    cell = columns.cell(cells, "label")
    if cell is None or cell == "":
        return None
    text = str(cell).lower() if isinstance(cell, bool) else str(cell)
    said = columns.labels.get(text, text)
    allowed = columns.menu(name)
    if name == SCORES:
        return None
    if allowed is not None and said not in allowed:
        raise Refused(
            "off the menu",
            f"label {_quoted(said)} is not on the menu of {name}: {', '.join(allowed)}; "
            "--labels translates, as --labels yes=correct,no=incorrect",
        )
    return said


def _step(cell: Json, run: Steps, from_one: bool) -> int | None:
    if cell is None or cell == "":
        return None
    step = index(cell, "step") - from_one
    if not 0 <= step < run.steps:
        first = "1" if from_one else "0"
        raise Refused(
            "no such step", f"step {_quoted(cell)}; the run has {run.steps} steps, from {first}"
        )
    return step


def index(cell: Json, what: str) -> int:
    """Return a cell as a whole number.

    Raises:
        Refused: it is none.
    """
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    if isinstance(cell, bool) or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused(f"no {what}", f"{what} {_quoted(cell)}; expected an index")
    return int(text)


def _share(what: str, cell: Json) -> float | None:
    if cell is None or cell == "":
        return None
    try:
        number = math.nan if isinstance(cell, bool) else float(str(cell))
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise Refused("no number", f"{what} {_quoted(cell)}; expected a number from 0 to 1")
    return number


def _cites(cell: Json, run: Steps) -> tuple[int, ...]:
    if cell is None or cell == "":
        return ()
    parts = cell if isinstance(cell, list) else str(cell).strip("[]").replace(",", " ").split()
    cited = tuple(index(part, "step") for part in parts)
    if any(step >= run.steps for step in cited):
        raise Refused("no such step", f"cites {_quoted(cell)}; the run has {run.steps} steps")
    return cited


def _quoted(cell: Json) -> str:
    text = visible_line(str(cell))
    return repr(text if len(text) <= _QUOTED else text[:_QUOTED] + "…")


__all__ = ["Columns", "Refused", "Steps", "aspect", "index", "menu", "parsed", "verdict"]
