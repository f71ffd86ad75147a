"""Two runs, aligned call by call, beside how far runs of one version are from each other.

Two trials of the same agent on the same task seldom make the same calls. So a distance between two
runs says nothing by itself: beside it stand the distances within each version, of trials of this
task. These pairs share runs, so that no p value is computed of them: the rank is what is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby
from statistics import median

import msgspec

from stepscope.errors import UsageError
from stepscope.model import Trajectory
from stepscope.report import words
from stepscope.report.document import (
    Document,
    Paragraph,
    Table,
    TableCell,
    TableColumn,
    make_columns,
    make_row,
)
from stepscope.report.rows import read_shown_run
from stepscope.report.views.run import (
    MOST_CALLS,
    RELATION_WORDS,
    CallRelation,
    ExchangePair,
    align_calls,
    find_parting,
    is_thought,
    relate_calls,
    summarise_result,
)
from stepscope.safety.text import visible_line
from stepscope.store import Store
from stepscope.store.where import Where
from stepscope.values import Unmeasured, format_count, format_percent

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
_MARKS: dict[CallRelation, str] = {
    "same": "=", "result": "r", "arguments": "a", "left": "<", "right": ">",
}  # fmt: skip


class AlignedCall(msgspec.Struct, frozen=True):
    """One call of the first run, of the second, or of both, with what tells them apart."""

    relation: CallRelation
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
        apart = " to ".join(dict.fromkeys(map(format_percent, (held[0], held[-1]))))
        said = f"{format_count(len(held), 'pair')} of {self.runs:,} trials"
        said += f" {'is' if len(held) == 1 else 'are'} {apart} apart"
        said += f", median {format_percent(median(held))}" if held[0] < held[-1] else ""
        more = f"; {self.without_calls:,} more make no call" if self.without_calls else ""
        return f"{said}; {self.parted:,} diverge for good{more}"


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
    """Return two runs of a store side by side, named as `Store.find` takes names.

    Raises:
        UsageError: no such run, several, or one and the same.
        StoreError: the texts of a run were purged.
    """
    one, _, _ = read_shown_run(store, first)
    other, _, _ = read_shown_run(store, second)
    if one.id == other.id:
        raise UsageError(f"{first!r} and {second!r} are the same run; name two")
    pairs = list(align_calls(one, other))
    return RunDiff(
        first=_describe_side(store, one),
        second=_describe_side(store, other),
        calls=tuple(map(_describe_pair, pairs)),
        unaligned=sum(max(len(run.exchanges) - MOST_CALLS, 0) for run in (one, other)),
        parting=find_parting(pairs),
        lasting=find_lasting(pairs),
        distance=measure_distance(pairs),
        same_version=_measure_peers(store, store.trajectory(one.id), store.trajectory(other.id)),
    )


def find_lasting(pairs: Sequence[ExchangePair]) -> int | None:
    """Return the first pair that differs and behind which runs are not together again.

    They are together where `TOGETHER` calls in a row are the same, thoughts aside; None where they
    are so at the end, or never part.
    """
    told = [at for at, pair in enumerate(pairs) if not is_thought(pair)]
    same = [relate_calls(*pairs[at]) == "same" for at in told]
    ends = range(len(told), TOGETHER - 1, -1)
    last = next((end for end in ends if all(same[end - TOGETHER : end])), 0)
    return next((told[at] for at in range(last, len(told)) if not same[at]), None)


def measure_distance(pairs: Sequence[ExchangePair]) -> float | Unmeasured:
    """Return the share of the calls of both runs that the other does not make, thoughts aside.

    0 where each asks what the other asks in the same order, whatever came back; 1 where no call
    has its like.
    """
    told = [pair for pair in pairs if not is_thought(pair)]
    made = sum((left is not None) + (right is not None) for left, right in told)
    if not made:
        return Unmeasured("undefined", "neither run makes a call", "distance")
    alike = sum(relate_calls(*pair) in ("same", "result") for pair in told)
    return 1.0 - 2.0 * alike / made


def _measure_peers(store: Store, one: Trajectory, other: Trajectory) -> PeerDistances | Unmeasured:
    """Return how far pairs of trials of either version are apart, these two themselves left out."""
    if one.task is None or other.task is None:
        return Unmeasured("missing_input", "a run names no task", "distance")
    if (one.workflow, one.task) != (other.workflow, other.task):
        return Unmeasured("not_applicable", "the runs are of different tasks", "distance")
    where = Where("runs.workflow = ? AND runs.task = ?", (one.workflow, one.task))
    of_version: dict[tuple[str | None, str | None], list[Trajectory]] = {
        (run.agent, run.agent_version): [] for run in (one, other)
    }
    for run in store.trajectories(where):
        held = of_version.get((run.agent, run.agent_version))
        if held is not None and len(held) < MOST_TRIALS:
            held.append(run)
    found, used, empty, parted = list[float](), set[str](), 0, 0
    for trials in of_version.values():
        for left, right in combinations(trials, 2):
            if {left.id, right.id} == {one.id, other.id}:
                continue
            pairs = list(align_calls(left, right))
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


def _describe_pair(pair: ExchangePair) -> AlignedCall:
    left, right = pair
    relation = relate_calls(left, right)
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
        said += f": {summarise_result(left)} | {summarise_result(right)}"
    first, second = (None if side is None else side.step for side in pair)
    return AlignedCall(relation, first, second, visible_line(said))


def make_diff_document(found: RunDiff) -> Document:
    """Return two runs side by side as text and Markdown have them."""
    about = (
        f"{side.handle} ({which}; {side.version}): {side.outcome}, "
        f"{format_count(side.steps, 'step')}, {format_count(side.calls, 'call')}"
        for which, side in (("first", found.first), ("second", found.second))
    )
    table = Table(
        id="calls",
        columns=(
            *make_columns("", "first", "second", numbers=("first", "second")),
            TableColumn("call", overflow="wrap"),
        ),
        rows=tuple(
            make_row(
                mark,
                *("" if at is None else str(at) for at in steps),
                TableCell(words.cut_words(said, MOST_SAID)),
            )
            for mark, *steps, said in _fold_calls(found)
        ),
        notes=("= the same; r another result, a other arguments: first | second; < > one alone",),
    )
    calls = [table] if found.calls else []
    sentences = [Paragraph(text=said) for said in conclude_diff(found)]
    return [[Paragraph(text=line) for line in about], calls, sentences]


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
        yield f"They diverge for good {_place(found, found.lasting)}."
    if found.unaligned:
        yield f"Not compared: {found.unaligned:,} calls after the first {MOST_CALLS} of a run."
    apart, peers = found.distance, found.same_version
    if isinstance(apart, Unmeasured):
        yield f"Distance: unmeasured, {apart.kind}: {apart.reason}."
    else:
        share = format_percent(apart)
        yield f"Distance: {share}, the share of calls of both runs that the other does not make."
    if isinstance(peers, Unmeasured):
        yield f"Same version, same task: unmeasured, {peers.kind}: {peers.reason}."
        return
    yield f"Same version, same task: {peers.summary}."
    if not isinstance(apart, Unmeasured):
        n, as_far = len(peers.distances), sum(one >= apart for one in peers.distances)
        yield (
            f"{as_far:,} of {n:,} differ at least as much as the two "
            "runs: such a difference occurs without a change of version."
            if as_far
            else f"None of these {format_count(n, 'pair')} differs as much as the two runs."
        )


def _place(found: RunDiff, at: int) -> str:
    call = found.calls[at]
    sides = (("first", call.first), ("second", call.second))
    where = " and ".join(f"step {step} of the {side}" for side, step in sides if step is not None)
    return f"at {where}, {RELATION_WORDS[call.relation]}: {words.cut_words(call.said, MOST_SAID)}"
