"""Read step scores: `run,step,score` and what else is known, as CSV or JSON lines.

Every run of the file comes out as a run of which nothing but its scores is known: its steps have no
content. The store gives the scores to the run of that name or id where it has one. A wrong row is
quarantined alone, with its number; a missing column refuses the file. Rows are those of
`stepscope.formats.score_rows`; the format is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from stepscope.formats.building import Ordinals, finish
from stepscope.formats.opening import opening
from stepscope.formats.score_files import chunks, delimiter
from stepscope.formats.score_groups import Group, groups
from stepscope.formats.score_rows import KNOWN, NEEDED, BadRow, column
from stepscope.model import (
    SCORES,
    Case,
    Json,
    Quarantined,
    Source,
    Step,
    StepScore,
    Stream,
    Trajectory,
)
from stepscope.safety.forgiving import BOM

NAME = SCORES
# The columns are there: sure. All but one: sure enough to say which is missing.
_SURE, _NEARLY = 0.95, 0.6


@dataclass(frozen=True, slots=True)
class _StepScores:
    name: str = NAME

    def sniff(self, head: bytes) -> float:
        """Look at the header, or at the keys of the first JSON record."""
        first = head.removeprefix(BOM).lstrip()
        if first[:1] in (b"{", b"["):
            return _json_likeness(head)
        line = first.partition(b"\n")[0].decode("utf-8", "replace")
        mark = delimiter(line)
        if mark is None:
            return 0.0
        names = {column(name) for name in line.split(mark)}
        return _SURE if names.issuperset(NEEDED) else _NEARLY

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield the runs of the file and the rows that cannot be read.

        Raises:
            TraceError: a column is missing or named twice, or the file is no text.
        """
        ordinals = Ordinals()
        for found in groups(chunks(stream), stream.uri):
            if isinstance(found, BadRow):
                yield quarantined(found, stream.uri)
            else:
                yield from _runs(found, stream, ordinals)


def _json_likeness(head: bytes) -> float:
    for record in opening(head).records[:1]:
        if isinstance(record, dict):
            names = {column(str(key)) for key in record}
            if names.issuperset(NEEDED):
                return _SURE if not isinstance(record[_key(record, "score")], dict | list) else 0.0
            return _NEARLY if "score" in names and names & {"run", "step"} else 0.0
    return 0.0


def _key(record: dict[str, object], name: str) -> str:
    return next(key for key in record if column(str(key)) == name)


def quarantined(bad: BadRow, uri: str) -> Quarantined:
    """Return a wrong row as it is set aside; its place is the number of the row."""
    reason = f"row {bad.row}: {bad.reason}"
    return Quarantined(reason=reason, offset=bad.row, raw=bad.raw.encode(), uri=uri)


def _runs(group: Group, stream: Stream, ordinals: Ordinals) -> Iterator[Trajectory | Quarantined]:
    rows = group.rows
    for at, name in enumerate(group.names):
        places = range(int(group.starts[at]), int(group.starts[at + 1]))
        first = places[0]
        steps = max(int(rows.step[i]) for i in places) + 1
        if steps > stream.limits.steps:
            yield quarantined(
                BadRow(
                    int(rows.row[first]),
                    f"step {steps - 1}; a run has at most {stream.limits.steps:,} steps, raise "
                    "limits.steps",
                    name,
                ),
                stream.uri,
            )
            continue
        draft = Trajectory(
            id="",
            name=name,
            steps=tuple([Step(index=i, actor="agent", kind="other") for i in range(steps)]),
            source=Source(format=NAME, uri=stream.uri, offset=int(rows.row[first]), run_id=name),
            workflow=_text(rows.texts.get("workflow"), first) or "",
            task=_text(rows.texts.get("task"), first),
            trial=_text(rows.texts.get("trial"), first),
            agent=_text(rows.texts.get("agent"), first),
            scores=tuple([_score(group, i) for i in places]),
            case=_case(group, places, name),
            extra=_unknown(group, places),
        )
        yield finish(draft, ordinals, limits=stream.limits)


def _score(group: Group, i: int) -> StepScore:
    rows = group.rows
    value = float(rows.score[i])
    return StepScore(
        step=int(rows.step[i]),
        value=None if math.isnan(value) else value,
        judge=_text(rows.texts.get("judge"), i) or "",
        repeat=0 if rows.repeat is None else int(rows.repeat[i]),
        latency_s=_number(group, "latency", i),
        cost_usd=_number(group, "cost", i),
        reason=_remarks(group, i),
    )


def _case(group: Group, places: range, name: str) -> Case | None:
    """Return the weights of a run as what it is measured against; None without weights."""
    rows = group.rows
    if "weight" not in rows.numbers:
        return None
    weights: dict[int, float] = {}
    for i in places:
        weight = _number(group, "weight", i)
        if weight is not None:
            weights.setdefault(int(rows.step[i]), weight)
    if not weights:
        return None
    ordered = tuple([weights[step] for step in sorted(weights)])
    workflow = _text(rows.texts.get("workflow"), places[0]) or ""
    task = _text(rows.texts.get("task"), places[0]) or name
    return Case(workflow=workflow, task=task, weights=ordered)


def _number(group: Group, name: str, i: int) -> float | None:
    cells = group.rows.numbers.get(name)
    value = math.nan if cells is None else float(cells[i])
    return None if math.isnan(value) else value


def _text(cells: list[str] | None, i: int) -> str | None:
    return (cells[i] or None) if cells is not None else None


def _remarks(group: Group, i: int) -> str:
    """Return the reason of a score, and the columns that have no place of their own."""
    texts = group.rows.texts
    said = [texts["reason"][i]] if "reason" in texts else []
    said += [f"{name}={cells[i]}" for name, cells in texts.items() if name not in KNOWN]
    return "; ".join(part for part in said if part and not part.endswith("="))


def _unknown(group: Group, places: range) -> dict[str, Json] | None:
    """Return the columns without a place of their own, with the cells that they fill: counted."""
    cells = {
        name: sum([texts[i] != "" for i in places])
        for name, texts in group.rows.texts.items()
        if name not in KNOWN
    }
    return {f"column {name}": n for name, n in cells.items() if n} or None


FORMAT = _StepScores()
