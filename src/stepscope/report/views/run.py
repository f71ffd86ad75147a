"""One run, as text and as a page: head, curve, suspects, verdicts, and a window of its steps.

Every text of the trace is made visible, so that no escape sequence acts. Marks before a step: `!`
fails, breaks a rule or writes what nothing asked for; `?` repeats an answered call or is another
suspect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from stepscope.errors import UsageError
from stepscope.measures.agents import AgentAnswers, measure_agents
from stepscope.model import SCORES, Case, Exchange, Record, Trajectory
from stepscope.report.curves import make_curve
from stepscope.report.document import (
    Document,
    Lines,
    Links,
    Page,
    StepAddress,
    Table,
    TableCell,
    TableColumn,
    Tone,
    make_columns,
    make_row,
    run_anchor,
    step_anchor,
)
from stepscope.report.evidence import add_curve_suspects, list_suspects, read_shown_run
from stepscope.report.formatting import (
    clip,
    fold,
    format_json,
    format_number,
    keep_first_lines,
    quote_result,
)
from stepscope.report.rows import RuleFindings, sort_findings
from stepscope.report.types import Curve, Report, SuspectSteps
from stepscope.report.views import curve as curve_views
from stepscope.report.views import verdicts
from stepscope.report.views.curve import CurvePanel, draw_curve
from stepscope.report.views.runs import TONES, RunListRow, view_look_first
from stepscope.report.views.steps import StepView, Strip, _laid_out, _lines, make_strip, view_steps
from stepscope.report.views.verdicts import (
    UNMARKED,
    RunData,
    RunVerdicts,
    StepMark,
    collect_verdicts,
    describe_axes,
    describe_axes_at,
    describe_judges,
    mark_steps,
)
from stepscope.safety.text import visible, visible_line
from stepscope.store import Store
from stepscope.values import Unmeasured

# Measure -> heading.
COLUMNS = {
    "efficiency.steps": "steps",
    "handoffs": "handoffs",
    "efficiency.calls": "calls",
    "redundant_calls.count": "repeats",
    "errors": "errors",
    "recovery.recovered": "recovered",
    "policy": "breaches",
    "tool_schema": "schema",
    "efficiency.tokens": "tokens",
    "efficiency.cost_usd": "cost",
}
TITLE = "Agents"


def tabulate_agents(found: tuple[AgentAnswers, ...] | Unmeasured) -> Table | None:
    """Return the agents of a run, one a row; None where it has fewer than two.

    A column that no agent has a number in is left out.
    """
    if isinstance(found, Unmeasured) or len(found) < 2:
        return None
    cells = {name: [_agent_cell(one, name) for one in found] for name in COLUMNS}
    kept = {COLUMNS[name]: column for name, column in cells.items() if set(column) != {"-"}}
    rows = (
        make_row(TableCell(one.agent, level=1), *(column[at] for column in kept.values()))
        for at, one in enumerate(found)
    )
    columns = TableColumn("agent", least=16, most=80), *make_columns(*kept, numbers=kept)
    return Table(id="agents", corner=TITLE, columns=columns, rows=tuple(rows))


def _agent_cell(one: AgentAnswers, name: str) -> str:
    answer = one.answer(name)
    if isinstance(answer, Unmeasured) or answer.value is None:
        return "-"
    if name == "efficiency.cost_usd":
        return format_number("cost_usd", answer.value)
    return f"{answer.value:,.0f}"


# Steps that one page lays out; a page of so many stays quick to scroll.
WINDOW = 200
# Steps shown before the one that was asked for.
PAGE_LEAD_IN = 20
# Suspects named at the top.
PAGE_SUSPECTS = 6
# Remarks from the import that a page lists.
MOST_NOTES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingRun:
    """Another trial of the same task: its page, and both side by side."""

    name: str
    outcome: str
    tone: Tone
    href: str | None
    pair: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContent:
    """What the template of a run reads."""

    name: str
    outcome: str
    tone: Tone
    because: str
    facts: tuple[tuple[str, str], ...]
    to: StepAddress
    suspects: tuple[SuspectSteps, ...]
    more_suspects: int
    curve: CurvePanel | None
    no_curve: str
    strip: Strip
    said: RunVerdicts
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[StepView, ...]
    total: int
    first: int
    last: int
    before: str | None
    after: str | None
    others: tuple[SiblingRun, ...]


def make_run_page(
    data: RunData,  # what `read_run` read
    *,
    links: Links,  # where things are
    window: range | None = None,  # the steps to lay out; around the first suspect when left out
    clip: int | None = None,  # the most characters of one text; all when left out
    others: Sequence[RunListRow] = (),  # runs of the same task
) -> Page:
    """Return the page of one run."""
    trajectory = data.trajectory
    count = len(trajectory.steps)
    shown = (
        choose_window(count, data.suspects[0].first if data.suspects else 0)
        if window is None
        else window
    )
    shown = range(max(shown.start, 0), min(shown.stop, count))
    to = _addresses(trajectory.id, shown, count, links)
    spoken = collect_verdicts(data)
    curve = None
    if not isinstance(data.curve, Unmeasured):
        curve = curve_views.view_curve(data.curve, count, run_anchor(trajectory.id), to)
    steps = view_steps(
        data, spoken, to=to, raw=partial(links.raw, trajectory.id), window=shown, clip=clip
    )
    content = RunContent(
        name=trajectory.name,
        outcome=trajectory.outcome.status,
        tone=TONES.get(trajectory.outcome.status, "quiet"),
        because=_because(data),
        facts=tuple(_facts(data)),
        to=to,
        suspects=data.suspects[:PAGE_SUSPECTS],
        more_suspects=max(len(data.suspects) - PAGE_SUSPECTS, 0),
        curve=curve,
        no_curve=data.curve.reason if isinstance(data.curve, Unmeasured) else "",
        strip=make_strip(data, spoken, to),
        said=spoken,
        labels=spoken.labels.get(-1, ()),
        notes=tuple(_notes(data)),
        steps=tuple(steps),
        total=count,
        first=shown.start,
        last=shown.stop - 1,
        before=links.window(trajectory.id, max(shown.start - WINDOW, 0)) if shown.start else None,
        after=links.window(trajectory.id, shown.stop) if shown.stop < count else None,
        others=tuple(_others(trajectory.id, others, links)),
    )
    return Page(
        name="run",
        title=content.name,
        template="run.html",
        anchor=run_anchor(trajectory.id),
        content=content,
        charts=() if curve is None else (curve.chart,),
    )


def _addresses(run: str, shown: range, count: int, links: Links) -> StepAddress:
    """Return what gives the address of a step: in the window, on another page, or nowhere."""

    def to(step: int) -> str | None:
        if step in shown:
            return f"#{step_anchor(run, step)}"
        elsewhere = links.window(run, step) is not None and 0 <= step < count
        return links.run(run, step) if elsewhere else None

    return to


def make_run_choice_page(report: Report, *, links: Links) -> Page:
    """Return the page of runs before one is chosen: those to look at first."""
    looks = tuple(view_look_first(one, links) for one in report.look_first)
    return Page(name="run", title="Run", template="no_run.html", anchor="run", content=looks)


def choose_window(count: int, step: int) -> range:
    """Return the steps to lay out so that `step` is among them; all of a short run.

    >>> choose_window(150, 90), choose_window(1000, 500), choose_window(1000, 990)
    (range(0, 150), range(480, 680), range(800, 1000))
    """
    if count <= WINDOW:
        return range(count)
    start = min(max(step - PAGE_LEAD_IN, 0), count - WINDOW)
    return range(start, start + WINDOW)


def _because(data: RunData) -> str:
    outcome = data.trajectory.outcome
    if outcome.source == "reward" and outcome.reward is not None:
        return f"recorded reward {outcome.reward:g}"
    return "" if outcome.source == "none" else outcome.source


def _facts(data: RunData) -> Iterator[tuple[str, str]]:
    trajectory = data.trajectory
    for name in ("workflow", "task", "trial", "agent", "agent_version", "termination"):
        value: str | None = getattr(trajectory, name)
        if value:
            yield name.replace("_", " "), value
    calls = trajectory.exchanges
    yield "steps", f"{len(trajectory.steps):,}"
    yield "calls", f"{len(calls):,}"
    yield "failed calls", f"{sum(call.failed for call in calls):,}"
    usage = trajectory.usage
    if usage is not None and usage.input_total is not None and usage.output_total is not None:
        yield "tokens", f"{usage.input_total:,} in, {usage.output_total:,} out"
    if trajectory.cost_usd is not None:
        yield "cost", format_number("cost_usd", trajectory.cost_usd)
    if trajectory.start is not None and trajectory.end is not None:
        seconds = (trajectory.end.ns - trajectory.start.ns) / 1e9
        yield "latency", format_number("seconds", seconds)
    yield "source", trajectory.source.format


def _notes(data: RunData) -> Iterator[str]:
    warnings = data.trajectory.warnings
    for warning in warnings[:MOST_NOTES]:
        yield warning.reason if warning.step is None else f"step {warning.step}: {warning.reason}"
    if len(warnings) > MOST_NOTES:
        yield f"and {len(warnings) - MOST_NOTES:,} more"


def _others(run: str, others: Sequence[RunListRow], links: Links) -> Iterator[SiblingRun]:
    for row in others:
        if row.id != run:
            yield SiblingRun(
                name=row.name,
                outcome=row.outcome,
                tone=TONES.get(row.outcome, "quiet"),
                href=links.run(row.id),
                pair=links.pair(run, row.id),
            )


# Steps shown before the first mark, so that what led to it can be read.
LEAD_IN = 2


# Lines of evidence a suspect may take; the step itself says the rest.
EVIDENCE_LINES = 3
# Suspects named below a run.
MOST_SUSPECTS = 8
VERDICTS = {
    "policy": "violations",
    "errors": "errors",
    "redundant_calls": "repeats",
    "subgoals.other_writes": "unasked writes",
    "loops": "loops",
    "termination": "ends badly",
}


def describe_run(
    trajectory: Trajectory,
    case: Case | None,
    records: Sequence[Record],
    *,
    curve: Curve | Unmeasured | None = None,
    chosen: range | None = None,
    width: int = 100,
) -> list[str]:
    """Return a run as lines; without `chosen`, what precedes the first mark is folded.

    The curve is drawn where no steps are chosen. Of a run of which only scores are known there is
    nothing but the curve.
    """
    found = sort_findings(records)
    marked = add_curve_suspects(curve, list_suspects(trajectory, case, records))
    marks = mark_steps(trajectory, found, marked)
    shown = _unfolded(trajectory, marks) if chosen is None else chosen
    if trajectory.source.format == SCORES and chosen is None:
        shown = range(len(trajectory.steps), len(trajectory.steps))
    outcome = trajectory.outcome
    said = {"pass": "PASS", "fail": "FAIL", "unknown": "no outcome recorded"}[outcome.status]
    if outcome.source == "reward" and outcome.reward is not None:
        said += f" (recorded reward {outcome.reward:g})"
    elif outcome.source != "none":
        said += f" ({outcome.source})"
    calls = trajectory.exchanges
    errors = sum(e.failed for e in calls)
    known = [
        f"{name} {visible_line(value)}"
        for name, value in (
            ("task", trajectory.task),
            ("trial", trajectory.trial),
            ("agent", trajectory.agent),
        )
        if value is not None
    ]
    head = f"{visible_line(trajectory.name)}   {said}   {len(trajectory.steps)} steps, "
    out = [*fold(f"{head}{len(calls)} calls, {errors} errors   {', '.join(known)}", width, 2)]
    folded = [range(0, shown.start), range(shown.stop, len(trajectory.steps))]
    if trajectory.source.format == SCORES:
        folded = [range(0), range(0)]
    out += _fold_line(trajectory, folded[0], width)
    previous: dict[str, Exchange] = {}
    for exchange in trajectory.exchanges:
        if exchange.step < shown.start:
            previous[exchange.call.name] = exchange
    for index in shown:
        mark = marks.get(index, UNMARKED)
        step = trajectory.steps[index]
        marked_actor = "call" if step.calls else None
        for line in _lines(trajectory, step, previous):
            here = line.actor == marked_actor or marked_actor is None
            out.append(_laid_out(line, mark if here else UNMARKED, width))
            mark = UNMARKED if here else mark
    out += _fold_line(trajectory, folded[1], width)
    if isinstance(curve, Curve) and chosen is None:
        out += draw_curve(curve, width)
    out += describe_suspects(marked, width)
    out += describe_axes(found, width)
    out += _verdicts(trajectory, found, records, width)
    out += describe_judges(trajectory, records, width)
    return out


def _unfolded(trajectory: Trajectory, marks: dict[int, StepMark]) -> range:
    """Fold what precedes the first mark; a run without marks is shown whole."""
    start = max(min(marks, default=0) - LEAD_IN, 0)
    return range(start if start > 1 else 0, len(trajectory.steps))


def _fold_line(trajectory: Trajectory, steps: range, width: int) -> list[str]:
    if not steps:
        return []
    inside = [e for e in trajectory.exchanges if e.step in steps]
    failed = sum(e.failed for e in inside)
    actors = Counter(trajectory.steps[index].actor for index in steps)
    parts = ["system prompt"] if actors["system"] else []
    parts += [f"{actors['user']} of the user"] if actors["user"] else []
    if inside:
        parts.append(f"{_calls(len(inside))} {f'({failed} failed)' if failed else 'ok'}")
    left = f"{f'{steps[0]}-{steps[-1]}':>11}  folded: {', '.join(parts) or 'words only'}"
    hint = f"--steps {steps[0]}:{steps[-1] + 1} to unfold"
    return [left + hint.rjust(width - len(left)) if len(left) + len(hint) < width else left]


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def describe_suspects(marked: Sequence[SuspectSteps], width: int) -> list[str]:
    """Return the suspects, one a line, most telling first."""
    out = []
    for at, suspect in enumerate(marked[:MOST_SUSPECTS]):
        head = f"{'Suspects' if at == 0 else '':<10}{suspect.where:>7}  "
        said = fold(head + visible_line(suspect.evidence), width, len(head))
        out += keep_first_lines(said, EVIDENCE_LINES, width)
    left = len(marked) - MOST_SUSPECTS
    return out + ([f"{'':<10}and {left} more (--json has all)"] if left > 0 else [])


def _verdicts(
    trajectory: Trajectory, found: RuleFindings, records: Sequence[Record], width: int
) -> list[str]:
    if not found.whole and not found.absent:
        return ["Verdicts  none yet: run `stepscope score`"]
    said = []
    for measure, name in VERDICTS.items():
        verdict = found.whole.get(measure)
        cites = () if verdict is None or verdict.label == "stopped_well" else verdict.cites
        if cites:
            said.append(f"{name} {' '.join(map(str, cites))}")
    goals = found.whole.get("subgoals")
    if goals is not None:
        said.insert(0, f"sub-goals {goals.label or goals.value}")
    out = fold("Verdicts (rules)  " + visible_line(" · ".join(said) or "nothing found"), width, 10)
    lost = _lost(found)
    if lost:
        out += fold("Unmeasured  " + visible_line(lost), width, 10)
    for label in trajectory.labels:
        where = "" if label.step is None else f" at {label.step}"
        text = f"Label ({label.annotator})  {label.kind}{where} {label.category or ''}"
        out.append(clip(visible_line(f"{text} {label.reason}"), width))
    return out


def _lost(found: RuleFindings) -> str:
    """Say what could not be measured, by kind; where the question does not arise, nothing.

    A ratio to the baseline is left out: what it lacks is said by its numerator.
    """
    by_kind: dict[str, dict[str, list[str]]] = {}
    for name, answer in sorted(found.absent.items()):
        if answer.kind != "not_applicable" and not name.startswith("efficiency_ratio"):
            measure, _, aspect = name.partition(".")
            by_kind.setdefault(answer.kind, {}).setdefault(measure, []).append(aspect)
    return " · ".join(
        f"{kind}: "
        + ", ".join(f"{m} {' '.join(aspects)}".strip() for m, aspects in measures.items())
        for kind, measures in by_kind.items()
    )


# Steps shown on either side of `around`.
NEIGHBOURS = 6


def make_run_document(
    store: Store,  # where the run and its records are
    run: str,  # a unique id prefix, or the source's own name
    *,
    around: int | None = None,  # show only the steps near this one, and below them this one whole
    steps: tuple[int, int] | None = None,  # show only these: the first, and the one after the last
    width: int = 100,  # no line is longer, but for the step shown whole
) -> Document:
    """Return one run of the store, for text of this width.

    Raises:
        UsageError: no such run, or no such step.
    """
    trajectory, case, records = read_shown_run(store, run)
    curve = make_curve(trajectory, records, noise=store.noise(), weights=store.weights())
    chosen = _chosen(trajectory, around, steps)
    shown = describe_run(trajectory, case, records, curve=curve, chosen=chosen, width=width)
    first: list[Lines | Table] = [Lines(tuple(shown))]
    if chosen is None:
        agents = tabulate_agents(measure_agents(trajectory, case, store.facts(trajectory.workflow)))
        first += [] if agents is None else [agents]
    if around is None:
        return [first]
    one = describe_step(trajectory, case, records, around, curve=curve, width=width)
    return [first, [Lines(tuple(one))]]


def show_run_json(store: Store, run: str) -> str:
    """Return one run with its records and suspects as JSON; ends in a line break."""
    trajectory, case, records = read_shown_run(store, run)
    curve = make_curve(trajectory, records, noise=store.noise(), weights=store.weights())
    found = add_curve_suspects(curve, list_suspects(trajectory, case, records))
    document = {
        "run": trajectory,
        "case": case,
        "records": records,
        "suspects": found,
        "curve": curve,
        "agents": measure_agents(trajectory, case, store.facts(trajectory.workflow)),
    }
    text = msgspec.json.format(msgspec.json.encode(document, order="deterministic"))
    return text.decode() + "\n"


def describe_step(
    trajectory: Trajectory,
    case: Case | None,
    records: list[Record],
    step: int,
    *,
    curve: Curve | Unmeasured | None = None,
    width: int,
) -> list[str]:
    """Return one step whole: every text, call and result in full, made visible.

    Raises:
        UsageError: no such step.
    """
    _check(trajectory, step)
    whole = trajectory.steps[step]
    out = [f"Step {step} of {visible_line(trajectory.name)}: {whole.actor} {whole.kind}"]
    out += [visible(part.text) for part in whole.parts if part.text is not None]
    for call in whole.calls:
        given = (call.raw or "") if call.arguments is None else format_json(call.arguments)
        out.append(f"call {visible_line(call.name)} {visible(given)}")
        if call.parse_error is not None:
            out.append(f"arguments that could not be read: {visible_line(call.parse_error)}")
    for result in whole.results:
        out += [f"result {result.status} ({result.source})", visible(quote_result(result))]
    if whole.error is not None:
        out.append(f"error {visible(whole.error)}")
    every = add_curve_suspects(curve, list_suspects(trajectory, case, records))
    said = [suspect for suspect in every if suspect.first <= step <= suspect.last]
    spoken = [
        *describe_axes_at(sort_findings(records), step, width),
        *verdicts.describe_judges_at(records, step, width),
    ]
    return [*out, *describe_suspects(said, width), *spoken]


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
