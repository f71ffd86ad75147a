"""The cases in breach, worst first, with the steps and the words of the measure that says so.

Selected for reading: no rate is computed on them. Evidence is the trace's or the measure's text as
it is; renderers make it visible.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.gates.policy import GatePolicy
from stepscope.gates.sample import Run, Sample
from stepscope.gates.sides import Side
from stepscope.gates.types import CaseFailure
from stepscope.model import Verdict
from stepscope.safety.redact import scrubbed
from stepscope.store.columns import Rows

# More cases than this are counted, not listed.
CASES_LISTED = 10


def failing(
    gate: GatePolicy, current: Side, baseline: Side | None, sample: Sample, rows: Rows
) -> tuple[tuple[CaseFailure, ...], int]:
    """Return the worst cases of a gate, and how many cases are in breach.

    Args:
        gate: what was asked.
        current: the runs under test, as the gate sees them.
        baseline: those of the baseline, for gates that compare.
        sample: where the runs' names are.
        rows: where the words of the measure are.
    """
    measured = current.measured()
    if gate.compares and baseline is not None:
        worst = _worsened(gate, measured, baseline.measured())
    else:
        worst = _bad(measured)
    found = [
        _failure(gate, [sample.runs[at] for at in places], said, rows)
        for _, places, said in worst[:CASES_LISTED]
    ]
    return tuple(found), len(worst)


Worst = list[tuple[float, list[int], str]]


def _bad(side: Side) -> Worst:
    """Return the cases that have bad runs: how bad, the places of these runs, nothing to add."""
    cases: dict[object, list[int]] = {}
    for row in np.flatnonzero(side.top > 0).tolist():
        cases.setdefault(side.cases[row], []).append(row)
    worst = []
    for rows in cases.values():
        rows.sort(key=lambda row: -side.top[row])
        worst.append((float(side.top[rows].sum()), side.at[rows].tolist(), ""))
    return _sorted(worst)


def _worsened(gate: GatePolicy, now: Side, before: Side) -> Worst:
    """Return the cases that both have and that got worse, by how much they did."""
    worst: Worst = []
    known = set(before.cases.tolist())
    for case in dict.fromkeys(now.cases.tolist()):
        if case not in known:
            continue
        rows = np.flatnonzero(now.cases == case)
        old = before.top[before.cases == case]
        if gate.about == "ratio":
            was, is_ = float(np.median(old)), float(np.median(now.top[rows]))
            unit = gate.quantity.unit or gate.quantity.measure
            said = f"median {is_:g} {unit}, {was:g} in the baseline"
            chosen = rows[np.argsort(-now.top[rows], kind="stable")]
            more = is_ / was if was > 0 else is_
            limit = 1.0
        else:
            new, first = now.bad[rows], before.bad[before.cases == case]
            more, limit = float(new.mean() - first.mean()), 0.0
            said = f"bad in {_of(new)}, in the baseline in {_of(first)}"
            chosen = rows[new > 0]
        if more > limit:
            worst.append((more, now.at[chosen].tolist(), said))
    return _sorted(worst)


def _sorted(worst: Worst) -> Worst:
    return sorted(worst, key=lambda case: -case[0])


def _of(bad: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    return f"{bad.sum():g} of {len(bad)} runs" if len(bad) != 1 else f"{bad.sum():g} of 1 run"


def _failure(gate: GatePolicy, runs: Sequence[Run], said: str, rows: Rows) -> CaseFailure:
    steps, reason = _evidence(gate, runs[0].id, rows) if runs and runs[0].id else ((), "")
    return CaseFailure(
        case=runs[0].case,
        runs=tuple(run.name for run in runs),
        ids=tuple(run.id for run in runs if run.id),
        steps=steps,
        evidence=scrubbed("; ".join(part for part in (said, reason) if part)),
    )


def _evidence(gate: GatePolicy, run: str, rows: Rows) -> tuple[tuple[int, ...], str]:
    """Return what the measure of a gate says of a run: the steps it cites, its reason."""
    measure = "errors" if gate.quantity.kind == "recovered" else gate.quantity.measure
    steps: tuple[int, ...] = ()
    reason = ""
    # An aspect counts; the whole measure may say it in words.
    for name in dict.fromkeys((measure, measure.rpartition(".")[0])):
        for record in rows.records(trajectory=run, measure=name) if name else ():
            answer = record.answer
            if isinstance(answer, Verdict) and answer.step is None:
                steps = steps or answer.cites
                reason = reason or answer.reason
    return steps, reason
