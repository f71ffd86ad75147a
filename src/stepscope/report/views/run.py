"""What one run is made of on every medium: what was read and said of it, where, and its curve.

Verdicts are not merged; repeats and other modes of a judge appear only where they change the
answer. A step has the colour of the gravest verdict about it. The calls of two runs are matched in
order by name and arguments, then by name. Source: `difflib` (Ratcliff and Obershelp), over calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Literal, NamedTuple

from stepscope.findings.ranking import StepEvidence, StoreFit, read_fit
from stepscope.measures.localise import LOCALISE_NAME
from stepscope.model import Case, Exchange, Record, Step, SubGoal, Trajectory, Verdict
from stepscope.model.effects import words_of
from stepscope.model.records import COMPLETENESS_NAME, HUMAN, RULES
from stepscope.report import words
from stepscope.report.document import Chart, StepAddress, Table, TableCell, make_columns, make_row
from stepscope.report.rows import RuleFindings, read_shown_run, sort_findings
from stepscope.report.suspects import (
    WEAK_KINDS,
    compare_with_trials,
    list_passing_trials,
    list_suspects,
    list_unreached,
    make_curve,
)
from stepscope.report.types import Curve, LookFirst, SuspectKind, SuspectSteps
from stepscope.report.views import steps as step_views
from stepscope.report.votes import PRESENT, select_current
from stepscope.safety.text import visible_line
from stepscope.store import Store
from stepscope.store.judged import current_records, question_of_record
from stepscope.values import Unmeasured, format_count, format_limits, format_number, format_percent

# How a step is marked when a suspect of this kind begins there; the evidence stands below the run.
# A step at which nothing was found has no mark.
MARKS: dict[SuspectKind, tuple[str, str]] = {
    "break": ("!", "scores fall"),
    "gate": ("!", "below the gate"),
    "violation": ("!", "breaks a rule"),
    "error": ("!", ""),
    "loop": ("!", ""),
    "other_write": ("!", "no sub-goal expects it"),
    "missed": ("?", "not what a sub-goal expects"),
    "repeat": ("?", "answered before"),
    "end": ("?", "ends here"),
    "new_write": ("!", "no passing trial makes this call"),
    "fault": ("!", ""),
    "judge": ("?", ""),
    "localised": ("?", ""),
}


class StepMark(NamedTuple):
    """What the rules say about a step: the sign before it and the remark behind it."""

    sign: str
    remark: str


UNMARKED = StepMark("", "")


def mark_steps(
    trajectory: Trajectory, found: RuleFindings, marked: Sequence[SuspectSteps]
) -> dict[int, StepMark]:
    """Return, by step, what the rules say of it: the sign before it and the remark behind it."""
    marks: dict[int, StepMark] = {}
    for suspect in reversed(marked):
        if suspect.kind != "place":
            marks[suspect.first] = StepMark(*MARKS[suspect.kind])
    at_fault = note_axis_faults(found)
    for step, axes in at_fault.items():
        if not (step in marks and marks[step].sign == "!" and marks[step].remark):
            marks[step] = StepMark("!", axes)
    failed: dict[str, int] = {}
    for exchange in trajectory.exchanges:
        if exchange.failed:
            before = failed.get(exchange.key)
            axes = marks[exchange.step].remark if exchange.step in at_fault else ""
            said = axes if before is None else f"repeats failed step {before}"
            marks[exchange.step] = StepMark("!", said)
            failed.setdefault(exchange.key, exchange.step)
    for step, rule in found.labels("policy").items():
        marks[step] = StepMark("!", f"breaks the rule {rule!r}")
    return marks


def note_axis_faults(found: RuleFindings) -> dict[int, str]:
    """Return, by step, the axes that are at fault there; those it cites where it names no step."""
    out: dict[int, list[str]] = {}
    for key, name in words.AXES.items():
        faults = [v for v in found.by_step.get(key, ()) if v.label == words.INCORRECT]
        whole = found.whole.get(key)
        cited = whole.cites if whole is not None and whole.label == words.INCORRECT else ()
        for step in dict.fromkeys([v.step for v in faults if v.step is not None] or cited):
            out.setdefault(step, []).append(name)
    return {step: ", ".join(names) for step, names in out.items()}


@dataclass(frozen=True, kw_only=True)
class RunData:
    """A run, what it is measured against, what was said of it, and where to look."""

    trajectory: Trajectory
    case: Case | None
    records: tuple[Record, ...]
    curve: Curve | Unmeasured
    found: RuleFindings  # the rules' records, sorted
    look: LookFirst  # where it may have broken, and why it failed
    marks: dict[int, StepMark]  # by step, the sign and the remark of the rules

    @property
    def suspects(self) -> tuple[SuspectSteps, ...]:
        """Where it may have broken, most telling first."""
        return self.look.suspects

    @cached_property
    def verdicts(self) -> list[ShownVerdict]:
        """The verdicts to tell, which all windows of the run share."""
        return list_verdicts(self.records)

    @cached_property
    def history(self) -> step_views.CallHistory:
        """What came before each call."""
        return step_views.read_history(self.trajectory)

    @cached_property
    def events(self) -> list[step_views.StepEvent]:
        """What happens in each step."""
        return list(map(step_views.find_event, self.trajectory.steps))

    @cached_property
    def goals(self) -> list[SubGoal]:
        """The expected calls that the run never reached."""
        return list_unreached(self.trajectory, self.case, self.found)

    @cached_property
    def several_agents(self) -> bool:
        """Whether more than one agent acts in the run."""
        return len({step.agent for step in self.trajectory.steps if step.actor == "agent"}) > 1

    def describe_steps(self, steps: Sequence[int]) -> Iterator[step_views.StepLine]:
        """Yield some steps, each in one line."""
        return step_views.list_step_lines(
            self.trajectory, steps, history=self.history, suspects=self.suspects, goals=self.goals
        )


def read_run(store: Store, run: str) -> RunData:
    """Return a run of the store by name or unique start of its id; its texts must be there."""
    trajectory, case, records = read_shown_run(store, run)
    curve = make_curve(trajectory, records, noise=store.noise(), weights=store.weights())
    stored = store.trajectory(trajectory.id)  # trials are compared with their secrets
    evidence = compare_with_trials(store, stored, list_passing_trials(store, [stored.task]))
    return gather_run(trajectory, case, records, curve, evidence, fit=read_fit(store.path))


def gather_run(
    trajectory: Trajectory,
    case: Case | None,
    records: Sequence[Record],
    curve: Curve | Unmeasured,
    evidence: Sequence[StepEvidence] = (),
    *,
    fit: StoreFit | None = None,
) -> RunData:
    """Return a run with its marks and suspects, of what was said of it."""
    found = sort_findings(records)
    look = list_suspects(trajectory, case, records, curve=curve, evidence=evidence, fit=fit)
    return RunData(
        trajectory=trajectory,
        case=case,
        records=tuple(records),
        curve=curve,
        found=found,
        look=look,
        marks=mark_steps(trajectory, found, look.suspects),
    )


# Steps that one verdict's row names.
NAMED_STEPS = 12
# Remarks on one step: what speaks of it first, then what cites it.
MOST_REMARKS = 8
# The gravest first: what a step's edge and a column of the strip are coloured by.
CATEGORIES = ("error", "fault", "redundant", "detour", "suspect", "progress", "label")
_LABELS = {label: label.lower() for label in ("ERROR", "REDUNDANT", "DETOUR", "PROGRESS")}
_LABELS |= dict.fromkeys((words.INCORRECT, PRESENT), "fault")
ABSENT_LABEL = "absent"


class ShownVerdict(NamedTuple):
    """A record and its verdict, its lane in the strip, what it is called, and what turns it."""

    record: Record
    verdict: Verdict
    lane: str
    called: str
    turns: tuple[str, ...] = ()


def list_verdicts(records: Sequence[Record]) -> list[ShownVerdict]:
    """Return the verdicts that a page tells: those that speak of faults or steps first."""

    def order(one: ShownVerdict) -> tuple[bool, bool, int, str, str]:
        said, step = one.verdict, -1 if one.verdict.step is None else one.verdict.step
        return not categorise(said), not said.cites, step, said.measure, one.record.family

    return sorted(_answered(records), key=order)


def _answered(records: Sequence[Record]) -> Iterator[ShownVerdict]:
    """Yield the verdicts to tell, those of judges only where they are current."""
    judges = select_current(records)
    names = {one.asked.judge: one.asked.family for one in judges}
    short = words.shorten_names(names)
    turns = {id(one.record): one.turns for one in judges}
    for record in records:
        answer, key = record.answer, question_of_record(record)
        # A number about a step is a point of a curve, not a remark.
        if not isinstance(answer, Verdict) or (record.family == HUMAN and key is None):
            continue
        if answer.step is not None and answer.label is None:
            continue
        if key is None:
            called = words.AXES.get(answer.measure, answer.measure)
            yield ShownVerdict(record, answer, record.family, called)
        elif id(record) in turns:
            called = words.name_rubric(key.measure)
            lane = key.family if list(names.values()).count(key.family) == 1 else short[key.judge]
            yield ShownVerdict(record, answer, lane, called, turns[id(record)])


def list_faulted(answer: Verdict) -> tuple[int, ...]:
    """Return the step a verdict is about; of one about the run, the steps it faults."""
    if answer.step is not None:
        return (answer.step,)
    return answer.cites if answer.label == words.INCORRECT else ()


def categorise(answer: Verdict) -> str:
    """Return what a verdict makes of the steps that it is about; "" for nothing."""
    if answer.measure == LOCALISE_NAME and answer.step is not None:
        return "" if answer.label in WEAK_KINDS else "suspect"
    if answer.measure == "policy" and answer.step is not None:
        return "error"
    return _LABELS.get(answer.label or "", "")


def categorise_steps(answered: Sequence[ShownVerdict]) -> dict[str, dict[int, str]]:
    """Return the gravest category of each step, by who says so."""
    found: dict[str, dict[int, str]] = {}
    for one in answered:
        category = categorise(one.verdict)
        for step in list_faulted(one.verdict) if category else ():
            steps = found.setdefault(one.lane, {})
            steps[step] = min(category, steps.get(step, category), key=CATEGORIES.index)
    return found


def name_judge(record: Record) -> str:
    """Return who says so: the family, and the model where one is named and does not say both."""
    if record.judge.startswith(f"{record.family}/"):
        return record.judge
    return f"{record.family}: {record.judge}" if record.judge else record.family


def remark_on_steps(answered: Sequence[ShownVerdict]) -> dict[int, dict[str, int]]:
    """Return, by step, the remarks on it: what is said of it, then what cites it.

    Each remark has the place of its verdict. A verdict that cites most of a run points at nothing,
    a bare number says nothing, and what sums up verdicts about steps adds nothing to them: none is
    a remark on a step.
    """
    found: dict[int, dict[str, int]] = {}
    # By step, the measures that have a verdict of it.
    of_step: dict[int | None, set[str]] = {}
    for one in answered:
        of_step.setdefault(one.verdict.step, set()).add(one.verdict.measure)
    for at, one in enumerate(answered):
        answer, judge = one.verdict, name_judge(one.record)
        about = dict.fromkeys(list_faulted(answer))
        telling = bool(answer.reason or answer.label) and len(answer.cites) <= NAMED_STEPS
        cited = answer.cites if telling else ()
        # That a behaviour does not show at a step is no remark on it.
        for step in dict.fromkeys((*about, *cited)) if answer.label != ABSENT_LABEL else ():
            summed = any(answer.measure.startswith(name) for name in of_step.get(step, ()))
            if step in about or not summed:
                said = f"{one.called}: {name_label(one) or format_value(answer)}"
                said = said if step in about else f"cited by {one.called}"
                said += "" if judge == "rules" else f" ({judge})"
                found.setdefault(step, {}).setdefault(said, at)
    return {step: dict(list(said.items())[:MOST_REMARKS]) for step, said in found.items()}


def name_label(one: ShownVerdict) -> str:
    """Return the label of a verdict, and what turns it."""
    return ", ".join([one.verdict.label or "", *one.turns])


def format_value(answer: Verdict) -> str:
    """Return the number that a verdict says; "" for none."""
    return "" if answer.value is None else f"{answer.value:.4g}"


def list_unmeasured(records: Sequence[Record]) -> dict[tuple[str, str], list[str]]:
    """Return the measures without an answer, by who and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for record in current_records(records):
        answer = record.answer
        if isinstance(answer, Unmeasured) and answer.step is None:
            key = (name_judge(record), f"{answer.kind}: {answer.reason}")
            found.setdefault(key, []).append(answer.measure)
    return {key: sorted(names) for key, names in found.items()}


def collect_labels(run: Trajectory) -> dict[int | None, list[str]]:
    """Return what people said, by step; at None what they said of the run."""
    found: dict[int | None, list[str]] = {}
    for label in run.labels:
        parts = [label.annotator, label.kind.replace("_", " "), label.category or "", label.reason]
        found.setdefault(label.step, []).append(": ".join(part for part in parts if part))
    return found


def explain_outcome(run: Trajectory) -> str:
    """Return where the outcome of a run comes from; "" where it has none."""
    outcome = run.outcome
    if outcome.reward is not None:
        return f"recorded reward {outcome.reward:g}"
    return "" if outcome.source == "none" else outcome.source


def place_run(run: Trajectory) -> Iterator[str]:
    """Yield where a run belongs: workflow, agent, task and trial."""
    yield from filter(None, [run.workflow, " ".join(filter(None, [run.agent, run.agent_version]))])
    if run.task is not None:
        yield f"task {run.task}" + (f", trial {run.trial}" if run.trial is not None else "")


def list_facts(run: Trajectory) -> Iterator[str]:
    """Yield what is known of a run."""
    calls = run.exchanges
    yield format_count(len(run.steps), "step")
    failed = sum(call.failed for call in calls)
    yield format_count(len(calls), "call") + (f", {failed:,} refused" if failed else "")
    usage = run.usage
    if usage is not None and usage.input_total is not None and usage.output_total is not None:
        yield f"{usage.input_total:,} tokens in, {usage.output_total:,} out"
    if run.cost_usd is not None:
        yield format_number(run.cost_usd, "usd")
    if run.start is not None and run.end is not None:
        yield format_number((run.end.ns - run.start.ns) / 1e9, "seconds")
    source = explain_outcome(run)
    yield run.source.format + (f", {source}" if source else "")
    if run.termination:
        yield f"ended: {run.termination}"


def sum_up(data: RunData) -> str:
    """Return a run in one or two sentences: where it most likely went wrong, or that it did not."""
    run, suspects = data.trajectory, data.suspects
    if not data.records:
        return "Nothing was said of this run yet: run stepscope score."
    failed = sum(call.failed for call in run.exchanges)
    refused = f" {format_count(failed, 'call')} refused." if failed else ""
    if run.outcome.status == "fail" and suspects and suspects[0].share is not None:
        (line,) = data.describe_steps([suspects[0].first])
        chance = words.format_chance(suspects[0].share)
        end = "" if line.sentence.endswith((".", "!", "?", "…")) else "."
        said = f"Most likely it went wrong at step {line.step} ({chance}): {line.sentence}"
        return said + end + refused
    found = format_count(sum(one.kind != "place" for one in suspects), "finding")
    if run.outcome.status == "pass":
        nothing = "It passed, and the rules found nothing."
        return f"It passed, with {found}." if suspects else nothing
    how = "It failed" if run.outcome.status == "fail" else "No outcome recorded"
    return f"{how}; {found}.{refused}" if suspects else f"{how}; the rules found nothing."


def add_evidence(sentence: str, evidence: str) -> str:
    """Return what evidence says beyond a sentence that stands above it."""
    said = sentence.casefold().removesuffix("…")
    parts = [part for part in evidence.split("; ") if not part.casefold().startswith(said)]
    return "; ".join(part for part in parts if part.casefold() not in said)


def name_message(step: Step, line: step_views.StepLine) -> str:
    """Return what a message is, beside its own words."""
    if step.actor == "system":
        return "The instructions"
    asks = step.text.rstrip().removesuffix("###STOP###").rstrip().endswith("?")
    count = len(step.text.split())
    verb = "Asks" if asks else "Says" if count else line.sentence
    return f"{verb}, {count:,} words" if count > 40 else verb


# Remarks from the import that a page lists.
MOST_NOTES = 20


def list_notes(run: Trajectory, found: RuleFindings) -> Iterator[str]:
    """Yield what the trace lacks, and the remarks from the import."""
    if COMPLETENESS_NAME in found.whole:
        yield found.whole[COMPLETENESS_NAME].reason
    warnings = run.warnings
    for warning in warnings[:MOST_NOTES]:
        yield warning.reason if warning.step is None else f"step {warning.step}: {warning.reason}"
    if len(warnings) > MOST_NOTES:
        yield f"and {len(warnings) - MOST_NOTES:,} more"


def list_step_facts(step: Step) -> Iterator[str]:
    """Yield the time, tokens and cost of a step, where known, and its model."""
    if step.start is not None and step.end is not None:
        yield format_number((step.end.ns - step.start.ns) / 1e9, "seconds")
    if step.usage is not None:
        for count, what in ((step.usage.input_total, "in"), (step.usage.output_total, "out")):
            if count is not None:
                yield f"{count:,} {what}"
    if step.cost_usd is not None:
        yield format_number(step.cost_usd, "usd")
    if step.model:
        yield step.model


def list_scores(curve: Curve | Unmeasured) -> dict[int, str]:
    """Return the scores that somebody gave, by step."""
    if isinstance(curve, Unmeasured):
        return {}
    pairs = zip(curve.steps, curve.scores, strict=True)
    return {step: format_number(score) for step, score in pairs if score is not None}


# Columns that a wide screen shows apart, and steps of a run that needs no strip.
MOST_COLUMNS = 150
FEW_STEPS = 6
# Columns up to which each has room for its number.
ROOMY = 25


def count_steps_per_column(count: int) -> int:
    """Return how many steps a column holds."""
    return max(-(-count // MOST_COLUMNS), 1)


def place_lanes(data: RunData, labelled: Sequence[int]) -> dict[str, Mapping[int, str]]:
    """Return the lanes below the strip: categories by step, of each judge and of people."""
    lanes: dict[str, Mapping[int, str]] = {**categorise_steps(data.verdicts)}
    lanes["people"] = dict.fromkeys(labelled, "label")
    return {name: steps for name, steps in lanes.items() if steps and name != RULES}


def choose_marks(steps: Mapping[int, str], each: int) -> dict[int, int]:
    """Return the step that each column of a lane shows: the first of the gravest category."""
    found: dict[int, int] = {}
    for step in sorted(steps, key=lambda step: (CATEGORIES.index(steps[step]), step)):
        found.setdefault(step // each, step)
    return found


def name_curve_chart(*panels: str) -> str:
    """Return the name of the curve's specification with these panels above the score."""
    return "_".join(["curve", *(name for name in ("latency", "cost", "break") if name in panels)])


SOURCES = {"imported": "imported step scores", "judge": "step scores of a judge"}
NOISE = {
    "given": "given",
    "repeats": "upper limit, measured from repeated scorings",
    "marginalised": "unknown, averaged over a range",
}
# Points that a chart can show apart; of a longer run the lowest score of each stretch is drawn.
MOST_POINTS = 600


def chart_curve(curve: Curve, count: int, anchor: str, to: StepAddress) -> Chart:
    """Return the curve of a run of `count` steps."""
    columns: list[tuple[str, str, str, tuple[float | None, ...] | None]] = [
        ("", "score", "", curve.scores),
        ("break", "probability of the break", "share", curve.break_probability or None),
        ("latency", "seconds", "seconds", curve.latency_s),
        ("cost", "usd", "usd", curve.cost_usd),
    ]
    kept = [(name, label, unit, values) for name, label, unit, values in columns if values]
    labels = ["step", *(label for _, label, _, _ in kept)]
    rows = []
    for entry, step in enumerate(curve.steps[:MOST_POINTS]):
        cells = (_cell(unit, values[entry]) for _, _, unit, values in kept)
        rows.append(make_row(TableCell(str(step), sort=step, href=to(step)), *cells))
    first = f", the first {MOST_POINTS}" if len(curve.steps) > MOST_POINTS else ""
    head, caption = make_columns(*labels, numbers=labels), f"Scores by step{first}"
    return Chart(
        id=f"{anchor}-curve",
        spec=name_curve_chart(*(name for name, _, _, values in kept if any(values))),
        title="Score curve",
        alt=" ".join(describe_curve(curve)) or "Score by step.",
        rows=make_curve_rows(curve, count, to),
        table=Table(f"{anchor}-scores", head, rows, caption=caption),
    )


def make_curve_rows(
    curve: Curve, count: int, to: StepAddress | None = None
) -> tuple[dict[str, object], ...]:
    """Return a row a step for the chart, scored or not; of a long run, a row a stretch of steps."""
    at = {step: entry for entry, step in enumerate(curve.steps)}
    last = max(count, curve.steps[-1] + 1 if curve.steps else 0)
    each = max(-(-last // MOST_POINTS), 1)
    watch, gate = set(curve.watch), set(curve.gate_failed)
    broke, noise = range(0), curve.sigma or 0.0
    if curve.break_first is not None and curve.break_last is not None:
        broke = range(curve.break_first, curve.break_last + 1)
    rows = []
    for first in range(0, last, each):
        inside = range(first, min(first + each, last))
        held = [at[step] for step in inside if step in at]
        scored = [2.0 if (found := curve.scores[e]) is None else found for e in held]
        entry = held[scored.index(min(scored))] if held else None
        step = first if entry is None else curve.steps[entry]
        score = None if entry is None else curve.scores[entry]
        row = {
            "step": step,
            "from": first - 0.5,
            "to": inside.stop - 0.5,
            "kind": _kind(curve, inside, watch, gate),
            "in_break": bool(broke) and broke.start < inside.stop and broke.stop > inside.start,
            "href": (to(step) if to is not None else None) or "",
            "score": score,
            "low": None if score is None else max(score - noise, 0.0),
            "high": None if score is None else min(score + noise, 1.0),
            "break_probability": _sum(curve.break_probability or None, held),
            "latency_s": _sum(curve.latency_s, held),
            "cost_usd": _sum(curve.cost_usd, held),
        }
        # What is absent or false need not be said: a page of many runs has many rows.
        rows.append({k: v for k, v in row.items() if v is not None and v is not False and v != ""})
    return tuple(rows)


def _sum(values: tuple[float | None, ...] | None, held: list[int]) -> float | None:
    found = [value for e in held if values is not None and (value := values[e]) is not None]
    return sum(found) if found else None


def _kind(curve: Curve, steps: range, watch: set[int], gate: set[int]) -> str:
    if curve.break_step is not None and curve.break_step in steps:
        return "break"
    if not gate.isdisjoint(steps):
        return "below the gate"
    return "score" if watch.isdisjoint(steps) else "watch"


def describe_curve(curve: Curve) -> Iterator[str]:
    """Yield what is concluded from a curve, in sentences."""
    shape = curve.shape
    if isinstance(shape, Unmeasured):
        yield f"No shape: {shape.reason}."
    elif curve.unmodelled:
        yield "No shape fits these scores."
    elif shape == "unresolved":
        yield f"Shape unresolved: {_odds(curve)}."
    else:
        yield f"Shape: {words.name_shape(shape)} ({_odds(curve)})."
    if curve.break_step is not None:
        alone = curve.break_first == curve.break_last
        within = "" if alone else f", with 90 % at steps {curve.break_first}-{curve.break_last}"
        yield f"Broke at step {curve.break_step}{within}."
    elif curve.break_probability:
        yield "No break found."
    if curve.watch:
        yield f"Watch {_steps(curve.watch)}: time or cost rise while the score holds."
    if curve.gate_failed:
        yield f"Below the gate at {_steps(curve.gate_failed)}."
    if curve.low_level:
        yield "Low throughout, whatever the shape."


def _odds(curve: Curve) -> str:
    named = sorted(curve.posterior.items(), key=lambda item: -item[1])[:2]
    return ", ".join(f"{words.name_shape(shape)} {format_percent(share)}" for shape, share in named)


def _steps(steps: tuple[int, ...]) -> str:
    return f"step{'s' * (len(steps) > 1)} {words.list_some(steps, 8)}"


def describe_curve_basis(curve: Curve) -> str:
    """Return what the conclusions rest on: whose scores, their noise, and the mean."""
    noise = "" if curve.sigma is None else f" {format_number(curve.sigma)}"
    judge = f" ({curve.judge})" if curve.judge else ""
    mean = ""
    if curve.mean is not None:
        limits = format_limits(curve.mean.low, curve.mean.high)
        mean = f"; mean {format_number(curve.mean.value)}, {limits}"
    return f"From {SOURCES[curve.source]}{judge}; noise{noise}: {NOISE[curve.sigma_source]}{mean}."


def _cell(unit: str, value: float | None) -> TableCell:
    if value is None:
        return TableCell("-", tone="quiet")
    return TableCell(format_number(value, unit), sort=value)


# Calls of one run that are matched; matching costs the product of both lengths.
MOST_CALLS = 400
# Characters of a call and of what it gave.
CALL_WIDTH = 120

CallRelation = Literal["same", "result", "arguments", "left", "right"]
# Two calls, one of them absent where only one run made it.
ExchangePair = tuple[Exchange | None, Exchange | None]


def align_calls(first: Trajectory, second: Trajectory) -> Iterator[ExchangePair]:
    """Yield the calls of two runs side by side, in order."""
    left, right = first.exchanges[:MOST_CALLS], second.exchanges[:MOST_CALLS]
    for _, a, b, c, d in SequenceMatcher(
        None, [call.key for call in left], [call.key for call in right], autojunk=False
    ).get_opcodes():
        yield from _between(left[a:b], right[c:d])


def _between(left: Sequence[Exchange], right: Sequence[Exchange]) -> Iterator[ExchangePair]:
    """Pair calls of the same tool in order; what has no counterpart stands alone."""
    for tag, a, b, c, d in SequenceMatcher(
        None, [call.call.name for call in left], [call.call.name for call in right], autojunk=False
    ).get_opcodes():
        if tag == "equal":
            yield from zip(left[a:b], right[c:d], strict=True)
        else:
            yield from ((x, None) for x in left[a:b])
            yield from ((None, y) for y in right[c:d])


# Tools that only write down what the agent thinks: two runs do not part in these.
THOUGHTS = frozenset({"think", "thought", "reason", "reflect", "plan"})


def is_thought(pair: ExchangePair) -> bool:
    """True for calls that only write down what the agent thinks."""
    made = pair[0] or pair[1]
    return made is not None and THOUGHTS.issuperset(words_of(made.call.name)[:1])


def find_parting(pairs: Sequence[ExchangePair]) -> int | None:
    """Return the first pair of calls in which two runs differ, thoughts aside; None for none."""
    differ = (relate_calls(*pair) != "same" and not is_thought(pair) for pair in pairs)
    return next((at for at, parts in enumerate(differ) if parts), None)


def relate_calls(left: Exchange | None, right: Exchange | None) -> CallRelation:
    """Return how two calls side by side differ, or whose call stands alone."""
    if left is None or right is None:
        return "right" if left is None else "left"
    if left.key != right.key:
        return "arguments"
    return "same" if _given(left) == _given(right) else "result"


def _given(exchange: Exchange) -> str:
    return "" if exchange.result is None else words.quote_result(exchange.result)


def summarise_result(exchange: Exchange) -> str:
    """Return what a call gave, in few words."""
    return words.cut_words(visible_line(_given(exchange)), CALL_WIDTH)


RELATION_WORDS: dict[CallRelation, str] = {
    "same": "the same",
    "result": "with another result",
    "arguments": "with other arguments",
    "left": "only in the first",
    "right": "only in the second",
}
