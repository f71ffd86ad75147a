"""Two groups of runs compared, as text and as a page, and two runs aligned call by call.

Two trials of the same agent on the same task seldom make the same calls, so that beside a distance
of two runs stand those within each version on this task. These pairs share runs: no p is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, groupby
from statistics import median

import msgspec

from stepscope import values
from stepscope.errors import UsageError
from stepscope.model import Trajectory
from stepscope.report import document as doc
from stepscope.report import words
from stepscope.report.rows import read_shown_run
from stepscope.report.types import ComparisonReport, Difference, Shapes, ShapesDifference
from stepscope.report.views import profile
from stepscope.report.views import run as runs
from stepscope.report.views.overview import describe_flips, tabulate_shape_differences
from stepscope.safety.text import visible_line
from stepscope.store import Store
from stepscope.store.where import Where
from stepscope.values import Estimate, Unmeasured


def make_comparison_document(report: ComparisonReport) -> doc.Document:
    """Return a comparison of groups as text and Markdown have it."""
    title, _, about = describe_comparison(report).partition("   ")
    first, second, found = report.first.shapes, report.second.shapes, report.shapes
    shapes = []
    # What is compared has shapes on both sides.
    if isinstance(found, ShapesDifference):
        assert isinstance(first, Shapes)
        assert isinstance(second, Shapes)
        shapes.append(tabulate_shape_differences(found, first, second))
    sentences = [doc.Paragraph(sentence) for sentence in conclude_comparison(report)]
    sentences += describe_flips(report.rank_flips)
    head = doc.Paragraph(heading=title, text=about)
    return [[head], [_tabulate_differences(report)], shapes, sentences]


def _tabulate_differences(report: ComparisonReport) -> doc.Table:
    """Return a row a figure; one without an effect ends early, and says why."""
    rows = []
    for key, difference in report.differences.items():
        label = words.name_figure(key)
        name = doc.TableCell(label.strip(), level=int(label.startswith("  ")))
        first, second = (
            "-" if isinstance(one, Unmeasured) else values.format_number(one.value, one.unit)
            for one in (difference.first, difference.second)
        )
        effect = difference.effect
        if isinstance(effect, Unmeasured):
            rows.append(doc.make_row(name, first, second, "-", words.describe_effect(effect)))
            continue
        holm = values.format_p(difference.p_adjusted) + (" *" if difference.survives else "")
        limits = values.format_limits(effect.low, effect.high, effect.unit)
        below = () if limits else (doc.Paragraph(effect.no_interval, indent=4),)
        shown = values.format_difference(effect.value, effect.unit), limits or "none"
        cases = f"{difference.n_cases:,}" if difference.paired else "-"
        row = doc.make_row(name, first, second, *shown, cases, values.format_p(difference.p), holm)
        rows.append(replace(row, below=below))
    labels = ("first", "second", "difference", "95 % interval", "tasks", "p", "Holm")
    columns = doc.make_columns("", *labels, numbers={*labels} - {"95 % interval"})
    return doc.Table("differences", columns, rows, own=True)


def describe_comparison(report: ComparisonReport) -> str:
    """Return what is compared: the groups, their runs, the cases they share."""
    first, second = report.first, report.second
    names = f"{words.name_group(first)} (first) against {words.name_group(second)} (second)"
    size = f"{first.n_runs:,} and {second.n_runs:,} runs, {report.n_shared:,} tasks in common"
    return visible_line(f"{names}   {size}   seed {report.provenance.seed}")


def conclude_comparison(report: ComparisonReport) -> Iterator[str]:
    """Yield what survives, what could have been seen, and what stayed outside the pairs."""
    found = [key for key, d in report.differences.items() if d.survives]
    named = ", ".join(words.name_figure(key).strip() for key in found)
    tested = sum(d.p is not None for d in report.differences.values())
    yield (
        f"Differences that are significant at 0.05 after Holm's correction over "
        f"{values.format_count(tested, 'figure')}: {named or 'none'}."
    )
    for key, d in report.differences.items():
        if d.cases_needed is not None and key == "outcome.pass":
            points = f"a difference of {report.worth_seeing * 100:g} points"
            seen = ""
            if d.detectable is not None:
                least = f"{100 * d.detectable:.0f} points or more"
                seen = f"; with these tasks, only a difference of {least} would be detected"
            yield (
                f"To detect {points} in {words.name_figure(key).strip()!r} you need about "
                f"{d.cases_needed:,} tasks{seen}."
            )
    if report.n_shared and (report.n_only_first + report.n_only_second):
        first = values.format_count(report.n_only_first, "task")
        second = f"{report.n_only_second:,} of the second"
        yield f"Outside every pair: {first} of the first group only, {second}."
    shapes = report.shapes
    if isinstance(shapes, ShapesDifference):
        yield f"Shapes rest on {shapes.source}; noise: {shapes.sigma}."
    if not report.n_shared:
        yield "No task is shared: nothing is paired, and tasks differ as well as groups."


def tabulate_figures(report: ComparisonReport) -> doc.Table:
    """Return two groups figure by figure, as a page has it."""
    first, second = profile.name_profile(report.first), profile.name_profile(report.second)
    labels = (first, second, "difference", "cases", "p", "p, Holm", "smallest seen")
    columns = doc.make_columns("figure", *labels, numbers=labels)
    rows = [_effect_row(key, d) for key, d in report.differences.items()]
    return doc.Table("differences", columns, rows, caption="Every figure, paired by case")


def chart_effects(report: ComparisonReport, table: doc.Table) -> doc.Chart | None:
    """Return the differences of shares with their intervals; None where there is none."""
    out: list[dict[str, object]] = []
    for order, (key, difference) in enumerate(report.differences.items()):
        gap = difference.effect
        if not isinstance(gap, Estimate) or gap.unit != "share":
            continue
        if gap.low is not None and gap.high is not None:
            group = "survives correction" if difference.survives else "does not"
            out.append(profile.make_interval_row(words.name_figure(key).strip(), group, gap, order))
    title = f"{profile.name_profile(report.second)} minus {profile.name_profile(report.first)}"
    return profile.chart_intervals("effects", title, out, table)


def state_difference(report: ComparisonReport) -> str:
    """Return the first sentence of a comparison: which group passes more, as far as is shown."""
    first, second = profile.name_profile(report.first), profile.name_profile(report.second)
    found = report.differences.get("outcome.pass")
    if found is None or not isinstance(found.effect, Estimate):
        return f"{second} against {first}: their outcomes cannot be compared."
    points = 100 * found.effect.value
    limits = values.format_interval(found.effect)
    if not round(points):
        return f"{second} and {first} pass equally often, to the nearest point (95 %: {limits})."
    share = values.format_count(abs(round(points)), "point")
    said = f"{second} passes {share} {'fewer' if points < 0 else 'more'} than"
    doubt = "" if found.survives else "; chance alone may do that"
    return f"{said} {first} (95 %: {limits}){doubt}."


def _effect_row(key: str, difference: Difference) -> doc.TableRow:
    effect = difference.effect
    shown, detectable = profile.make_figure_cell(key, effect), "-"
    if isinstance(effect, Estimate):
        value = values.format_difference(effect.value, effect.unit)
        tone: doc.Tone = "warn" if difference.survives else ""
        note = values.format_interval(effect)
        shown = doc.TableCell(value, sort=effect.value, note=note, tone=tone)
        if difference.detectable is not None:
            seen = values.format_difference(difference.detectable, effect.unit)
            detectable = seen.removeprefix("+")
    holm = values.format_p(difference.p_adjusted) + (" survives" if difference.survives else "")
    sides = (profile.make_figure_cell(key, x) for x in (difference.first, difference.second))
    cases = f"{difference.n_cases:,}" if difference.paired else "-"
    p = doc.TableCell(values.format_p(difference.p), sort=difference.p)
    adjusted = doc.TableCell(holm, sort=difference.p_adjusted)
    least = doc.TableCell(detectable, sort=difference.detectable, tone="quiet")
    name = words.name_figure(key).strip()
    return doc.make_row(name, *sides, shown, cases, p, adjusted, least)


# Same calls in a row after which two runs are together again: one alone may be chance.
TOGETHER = 2
# Trials of one version that are compared with each other: 190 pairs.
MOST_TRIALS = 20
# Arguments that are told of two calls that differ in more.
MOST_DIFFERENCES = 3
# Characters of a call in a line of text; the JSON has it whole.
MOST_SAID = 200
# Calls in a row that are the same and are folded into one line.
FOLDED = 3
_MARKS: dict[runs.CallRelation, str] = {
    "same": "=",
    "result": "r",
    "arguments": "a",
    "left": "<",
    "right": ">",
}


class AlignedCall(msgspec.Struct, frozen=True):
    """One call of the first run, of the second, or of both, with what tells them apart."""

    relation: runs.CallRelation
    first: int | None  # the step that makes it
    second: int | None
    said: str  # the call, as its side has it; of two calls as the second differs from the first


class DiffSide(msgspec.Struct, frozen=True):
    """One of two runs that are compared."""

    id: str
    name: str
    handle: str  # what to type for it
    outcome: str
    steps: int
    calls: int
    version: str  # the agent and its version


class PeerDistances(msgspec.Struct, frozen=True):
    """How far other pairs of trials of one version are apart, on the same task."""

    runs: int
    distances: tuple[float, ...]  # one a pair, ascending
    without_calls: int  # pairs of runs that make no call: nothing to compare
    parted: int  # pairs that diverge for good

    @property
    def summary(self) -> str:
        """Say it in one line."""
        held = self.distances
        apart = " to ".join(dict.fromkeys(map(values.format_percent, (held[0], held[-1]))))
        said = f"{values.format_count(len(held), 'pair')} of {self.runs:,} trials"
        said += f" {'is' if len(held) == 1 else 'are'} {apart} apart"
        said += f", median {values.format_percent(median(held))}" if held[0] < held[-1] else ""
        parted = f"{self.parted:,} diverge{'s' * (self.parted == 1)} permanently"
        none, one = self.without_calls, self.without_calls == 1
        return f"{said}; {parted}" + (f"; {none:,} more make{'s' * one} no call" if none else "")


class RunDiff(msgspec.Struct, frozen=True):
    """Two runs side by side."""

    first: DiffSide
    second: DiffSide
    calls: tuple[AlignedCall, ...]
    unaligned: int  # calls behind those that are aligned
    parting: int | None  # the first of `calls` that differs, thoughts aside
    lasting: int | None  # the first after which they are not together again
    distance: float | Unmeasured  # share of the calls of both that the other does not make
    same_version: PeerDistances | Unmeasured


def diff_runs(store: Store, first: str, second: str) -> RunDiff:
    """Return two runs of a store side by side, named as `Store.find` takes names."""
    one, _, _ = read_shown_run(store, first)
    other, _, _ = read_shown_run(store, second)
    if one.id == other.id:
        raise UsageError(f"{first!r} and {second!r} are the same run; name two")
    pairs = list(runs.align_calls(one, other))
    return RunDiff(
        first=_describe_side(store, one),
        second=_describe_side(store, other),
        calls=tuple(map(_describe_pair, pairs)),
        unaligned=sum(max(len(run.exchanges) - runs.MOST_CALLS, 0) for run in (one, other)),
        parting=runs.find_parting(pairs),
        lasting=find_lasting(pairs),
        distance=measure_distance(pairs),
        same_version=_measure_peers(store, store.trajectory(one.id), store.trajectory(other.id)),
    )


def find_lasting(pairs: Sequence[runs.ExchangePair]) -> int | None:
    """Return the first difference behind which no `TOGETHER` calls in a row are the same."""
    told = [at for at, pair in enumerate(pairs) if not runs.is_thought(pair)]
    same = [runs.relate_calls(*pairs[at]) == "same" for at in told]
    ends = range(len(told), TOGETHER - 1, -1)
    last = next((end for end in ends if all(same[end - TOGETHER : end])), 0)
    return next((told[at] for at in range(last, len(told)) if not same[at]), None)


def measure_distance(pairs: Sequence[runs.ExchangePair]) -> float | Unmeasured:
    """Return the share of calls of both runs that the other does not make in the same order."""
    told = [pair for pair in pairs if not runs.is_thought(pair)]
    made = sum((left is not None) + (right is not None) for left, right in told)
    if not made:
        return Unmeasured("undefined", "neither run makes a call", "distance")
    alike = sum(runs.relate_calls(*pair) in ("same", "result") for pair in told)
    return 1.0 - 2.0 * alike / made


def _measure_peers(store: Store, one: Trajectory, other: Trajectory) -> PeerDistances | Unmeasured:
    """Return how far pairs of trials of either version are apart, these two themselves left out."""
    if one.task is None or other.task is None:
        return Unmeasured("missing_input", "a run names no task", "distance")
    if (one.workflow, one.task) != (other.workflow, other.task):
        return Unmeasured("not_applicable", "the runs are of different tasks", "distance")
    where = Where("runs.workflow = ? AND runs.task = ?", (one.workflow, one.task))
    versions = [(run.agent, run.agent_version) for run in (one, other)]
    of_version: dict[tuple[str | None, str | None], list[Trajectory]] = {x: [] for x in versions}
    for run in store.trajectories(where):
        held = of_version.get((run.agent, run.agent_version))
        if held is not None and len(held) < MOST_TRIALS:
            held.append(run)
    found, used, empty, parted = list[float](), set[str](), 0, 0
    for trials in of_version.values():
        for left, right in combinations(trials, 2):
            if {left.id, right.id} == {one.id, other.id}:
                continue
            pairs = list(runs.align_calls(left, right))
            if isinstance(apart := measure_distance(pairs), Unmeasured):
                empty += 1
                continue
            found.append(apart)
            used |= {left.id, right.id}
            parted += find_lasting(pairs) is not None
    if not found:
        why = "no other trials of this task: nothing to compare with"
        return Unmeasured("insufficient_data", why, "distance")
    return PeerDistances(len(used), tuple(sorted(found)), empty, parted)


def _describe_side(store: Store, run: Trajectory) -> DiffSide:
    return DiffSide(
        id=run.id,
        name=run.name,
        handle=store.handle(run.id, run.name),
        outcome=run.outcome.status,
        steps=len(run.steps),
        calls=len(run.exchanges),
        version=" ".join(filter(None, (run.agent, run.agent_version))) or "no agent named",
    )


def _describe_pair(pair: runs.ExchangePair) -> AlignedCall:
    left, right = pair
    relation = runs.relate_calls(left, right)
    made = left or right
    assert made is not None  # a pair has at least one side
    said = words.describe_call(made.call)
    if left is not None and right is not None and relation == "arguments":
        before, after = left.call.arguments, right.call.arguments
        told = [
            f"{path} {words.brief_value(old)} | {words.brief_value(new)}".strip()
            for path, old, new in words.find_differences(before, after)
        ]
        said = f"{made.call.name}: {words.list_some(told, MOST_DIFFERENCES, ', ')}"
    elif left is not None and right is not None and relation == "result":
        said += f": {runs.summarise_result(left)} | {runs.summarise_result(right)}"
    first, second = (None if side is None else side.step for side in pair)
    return AlignedCall(relation, first, second, visible_line(said))


def make_diff_document(found: RunDiff) -> doc.Document:
    """Return two runs side by side as text and Markdown have them."""
    about = (
        f"{side.handle} ({which}; {side.version}): {side.outcome}, "
        f"{values.format_count(side.steps, 'step')}, {values.format_count(side.calls, 'call')}"
        for which, side in (("first", found.first), ("second", found.second))
    )
    sides = doc.make_columns("", "first", "second", numbers=("first", "second"))
    columns = (*sides, doc.TableColumn("call", overflow="wrap"))
    rows = []
    for mark, *steps, said in _fold_calls(found):
        at = ("" if step is None else str(step) for step in steps)
        rows.append(doc.make_row(mark, *at, words.cut_words(said, MOST_SAID)))
    notes = ["= the same; r another result, a other arguments: first | second; < > one alone"]
    calls = [doc.Table("calls", columns, rows, notes=notes)] if found.calls else []
    sentences = [doc.Paragraph(said) for said in conclude_diff(found)]
    return [[doc.Paragraph(line) for line in about], calls, sentences]


def _fold_calls(found: RunDiff) -> Iterator[tuple[str, int | None, int | None, str]]:
    """Yield mark, steps and words of each line; long stretches of the same calls are one."""
    for same, held in groupby(found.calls, key=lambda call: call.relation == "same"):
        first, *rest = held
        if same and len(rest) >= FOLDED:
            yield "=", first.first, first.second, f"... {len(rest) + 1:,} identical calls"
        else:
            yield from ((_MARKS[x.relation], x.first, x.second, x.said) for x in (first, *rest))


def conclude_diff(found: RunDiff) -> Iterator[str]:
    """Yield where the runs part, how far they are apart, and how far runs of one version are."""
    if found.parting is None and found.calls:
        yield "They never part, thoughts aside: the same calls with the same results."
    elif found.parting is not None and found.lasting != found.parting:
        yield f"They first differ {_place(found, found.parting)} and come together again."
    if found.lasting is not None:
        yield f"They diverge permanently {_place(found, found.lasting)}."
    if found.unaligned:
        calls = values.format_count(found.unaligned, "call")
        yield f"Not compared: {calls} after the first {runs.MOST_CALLS} of a run."
    apart, peers = found.distance, found.same_version
    if isinstance(apart, Unmeasured):
        yield f"Distance: unmeasured, {apart.kind}: {apart.reason}."
    else:
        share = values.format_percent(apart)
        yield f"Distance: {share}, the share of calls of both runs that the other does not make."
    if isinstance(peers, Unmeasured):
        yield f"Same version, same task: unmeasured, {peers.kind}: {peers.reason}."
        return
    yield f"Same version, same task: {peers.summary}."
    if not isinstance(apart, Unmeasured):
        n, as_far = len(peers.distances), sum(one >= apart for one in peers.distances)
        said = f"None of these {values.format_count(n, 'pair')} differs as much as the two runs."
        if as_far:
            said = f"{as_far:,} of {n:,} differ{'s' * (as_far == 1)} at least as much as the two "
            said += "runs: such a difference occurs without a change of version."
        yield said


def _place(found: RunDiff, at: int) -> str:
    call = found.calls[at]
    sides = (("first", call.first), ("second", call.second))
    where = " and ".join(f"step {step} of the {side}" for side, step in sides if step is not None)
    said = words.cut_words(call.said, MOST_SAID)
    return f"at {where}, {runs.RELATION_WORDS[call.relation]}: {said}"
