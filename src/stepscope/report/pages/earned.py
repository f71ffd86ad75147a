"""Outcome against path, a point a case: where the two grades disagree.

A case counts with the mean of its runs' sub-goals and its pass rate; runs without either grade are
left out and counted. Cases at the same spot are one point whose area counts them: nothing is moved
apart to be seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.report.pages.page import Cell, Chart, Column, Row, Table
from stepscope.report.pages.runs import RunRow
from stepscope.report.rows import DEFAULT_BY
from stepscope.safety.text import visible_line

# Cases named of one spot.
NAMED = 4
# Spots closer than this are one: shares of few sub-goals, not measurements.
PLACES = 3


def group_of(row: RunRow, by: str | None) -> str:
    """Return the title of the group that a run is in; "all runs" for fields that rows lack."""
    fields = DEFAULT_BY if by is None else (by,)
    values = [str(getattr(row, field)) for field in fields if field in RunRow.__struct_fields__]
    return visible_line(" · ".join(value for value in values if value)) or "all runs"


def scatter(runs: Sequence[RunRow], by: str | None) -> Chart | None:
    """Return outcome against path over cases; None where no run has both grades."""
    cases: dict[tuple[str, str], list[RunRow]] = {}
    graded = [row for row in runs if row.reached is not None and row.outcome != "unknown"]
    for row in graded:
        cases.setdefault((group_of(row, by), row.task or row.name), []).append(row)
    spots: dict[tuple[str, float, float], list[str]] = {}
    for (group, case), held in cases.items():
        path = sum(row.reached or 0.0 for row in held) / len(held)
        passed = sum(row.outcome == "pass" for row in held) / len(held)
        spots.setdefault((group, round(path, PLACES), round(passed, PLACES)), []).append(case)
    if not spots:
        return None
    rows = [
        {
            "group": group,
            "path": path,
            "passed": passed,
            "cases": len(named),
            "named": _named(named),
        }
        for (group, path, passed), named in sorted(spots.items())
    ]
    left = len(runs) - len(graded)
    return Chart(
        id="earned-chart",
        spec="earned",
        title="Outcome against path, by case",
        alt=(
            f"{len(cases)} cases by mean share of sub-goals reached and pass rate; "
            f"{left} runs without both grades are left out."
        ),
        rows=rows,
        table=_table(rows),
    )


def _named(cases: Sequence[str]) -> str:
    more = f" and {len(cases) - NAMED} more" if len(cases) > NAMED else ""
    return visible_line(", ".join(cases[:NAMED])) + more


def _table(rows: Sequence[dict[str, object]]) -> Table:
    columns = (
        Column(key="group", label="group"),
        Column(key="path", label="path", number=True),
        Column(key="passed", label="pass rate", number=True),
        Column(key="cases", label="cases", number=True),
        Column(key="named", label="which"),
    )
    return Table(
        id="earned-table",
        caption="Cases by path and outcome",
        columns=columns,
        rows=tuple(Row(cells=tuple(_cell(row[column.key]) for column in columns)) for row in rows),
    )


def _cell(value: object) -> Cell:
    if isinstance(value, float):
        return Cell(text=f"{value:.2f}", sort=value)
    return Cell(text=str(value), sort=value if isinstance(value, int) else None)
