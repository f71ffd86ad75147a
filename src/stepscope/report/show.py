"""One run of a store, readable: `run_text` around the steps asked for, or a single step whole."""

from __future__ import annotations

import msgspec

from stepscope.errors import UsageError
from stepscope.measures.per_agent import per_agent
from stepscope.model import Case, Record, Trajectory
from stepscope.report import panels_run
from stepscope.report.agents_text import agent_lines
from stepscope.report.curve_suspects import with_curve
from stepscope.report.curve_types import Curve
from stepscope.report.curves import curve_of
from stepscope.report.findings import findings
from stepscope.report.hiding import hidden
from stepscope.report.run_axes import at_step
from stepscope.report.run_text import pretty, render, result_text, suspect_lines
from stepscope.report.suspects import suspects
from stepscope.safety.text import visible, visible_line
from stepscope.store import Store
from stepscope.values import Unmeasured

# Steps shown on either side of `around`.
NEIGHBOURS = 6


def show(
    store: Store,
    run: str,
    *,
    around: int | None = None,
    steps: tuple[int, int] | None = None,
    width: int = 100,
) -> str:
    """Return one run of the store as text.

    Args:
        store: where the run and its records are.
        run: a unique id prefix, or the source's own name.
        around: show only the steps near this one, and below them this one whole.
        steps: show only these: the first, and the one after the last.
        width: no line is longer, but for the step shown whole.

    Raises:
        UsageError: no such run, or no such step.
    """
    trajectory, case, records = read(store, run)
    curve = _curve(store, trajectory, records)
    chosen = _chosen(trajectory, around, steps)
    text = render(trajectory, case, records, curve=curve, chosen=chosen, width=width)
    if chosen is None:
        agents = per_agent(trajectory, case, store.facts(trajectory.workflow))
        text += "".join(f"{line}\n" for line in agent_lines(agents, width))
    if around is None:
        return text
    one = one_step(trajectory, case, records, around, curve=curve, width=width)
    return f"{text}\n{one}"


def show_json(store: Store, run: str) -> str:
    """Return one run with its records and suspects as JSON; ends in a line break."""
    trajectory, case, records = read(store, run)
    curve = _curve(store, trajectory, records)
    found = with_curve(curve, suspects(trajectory, case, records))
    document = {
        "run": trajectory,
        "case": case,
        "records": records,
        "suspects": found,
        "curve": curve,
        "agents": per_agent(trajectory, case, store.facts(trajectory.workflow)),
    }
    text = msgspec.json.format(msgspec.json.encode(document, order="deterministic"))
    return text.decode() + "\n"


def read(store: Store, run: str) -> tuple[Trajectory, Case | None, list[Record]]:
    """Return a run with its case and its records, in the order of measures and steps.

    Secrets in them are hidden, unless the store shows runs as they are.
    """
    key = store.find(run)
    records = list(store.records(trajectory=key))
    records.sort(key=lambda r: (r.family, r.answer.measure, _step(r), r.version))
    trajectory, records = hidden(store.shown, store.trajectory(key), records)
    return trajectory, trajectory.case, records


def _curve(store: Store, trajectory: Trajectory, records: list[Record]) -> Curve | Unmeasured:
    return curve_of(trajectory, records, noise=store.noise(), weights=store.weights())


def one_step(
    trajectory: Trajectory,
    case: Case | None,
    records: list[Record],
    step: int,
    *,
    curve: Curve | Unmeasured | None = None,
    width: int,
) -> str:
    """Return one step whole: every text, call and result in full, made visible.

    Raises:
        UsageError: no such step.
    """
    _check(trajectory, step)
    whole = trajectory.steps[step]
    out = [f"Step {step} of {visible_line(trajectory.name)}: {whole.actor} {whole.kind}"]
    out += [visible(part.text) for part in whole.parts if part.text is not None]
    for call in whole.calls:
        given = (call.raw or "") if call.arguments is None else pretty(call.arguments)
        out.append(f"call {visible_line(call.name)} {visible(given)}")
        if call.parse_error is not None:
            out.append(f"arguments that could not be read: {visible_line(call.parse_error)}")
    for result in whole.results:
        out += [f"result {result.status} ({result.source})", visible(result_text(result))]
    if whole.error is not None:
        out.append(f"error {visible(whole.error)}")
    every = with_curve(curve, suspects(trajectory, case, records))
    said = [suspect for suspect in every if suspect.first <= step <= suspect.last]
    spoken = [*at_step(findings(records), step, width), *panels_run.at_step(records, step, width)]
    return "\n".join([*out, *suspect_lines(said, width), *spoken]) + "\n"


def _step(record: Record) -> int:
    return -1 if record.answer.step is None else record.answer.step


def _chosen(
    trajectory: Trajectory, around: int | None, steps: tuple[int, int] | None
) -> range | None:
    count = len(trajectory.steps)
    if around is not None:
        _check(trajectory, around)
        return range(max(around - NEIGHBOURS, 0), min(around + NEIGHBOURS + 1, count))
    if steps is None:
        return None
    chosen = range(max(steps[0], 0), min(steps[1], count))
    if not chosen:
        raise UsageError(
            f"no step of {trajectory.name!r} is in {steps[0]}:{steps[1]}; "
            f"its steps are 0 to {count - 1}"
        )
    return chosen


def _check(trajectory: Trajectory, step: int) -> None:
    count = len(trajectory.steps)
    if not 0 <= step < count:
        raise UsageError(f"{trajectory.name!r} has no step {step}; its steps are 0 to {count - 1}")
