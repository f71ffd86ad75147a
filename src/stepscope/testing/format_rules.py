"""What a format promises of a file as it is, and of the same file told otherwise.

A rule is a function of a file: it yields one line for every way in which the promise is broken.
Its docstring is the promise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import msgspec

from stepscope.errors import StepscopeError
from stepscope.formats.building import Ordinals, finish, oddities
from stepscope.formats.ours import line_of, run_of
from stepscope.model import Json, Quarantined, Trajectory, Usage
from stepscope.safety.limits import Limits
from stepscope.testing.format_subject import Subject

_RENAMED = "another-name.dat"
_encode = msgspec.json.Encoder(order="deterministic").encode
# Keys under which token counts and prices stand in any format that we know of.
_COUNTS = ("token", "usage", "cost", "price")


def reads_its_own(subject: Subject) -> Iterator[str]:
    """Its own files are read without an error, and nothing in them is set aside."""
    found = subject.plain
    if found.crashed is not None:
        yield f"reading raises {found.crashed}; raise TraceError, or yield Quarantined"
    if found.refused is not None:
        yield f"reading refuses the file: {found.refused}"
    for item in found.quarantined[:1]:
        yield f"the record at byte {item.offset} is quarantined: {item.reason}"
    if not found.runs and found.crashed is None and found.refused is None:
        yield "no run comes out; give a file with at least one"


def yields_typed(subject: Subject) -> Iterator[str]:
    """What comes out is a `Trajectory` or a `Quarantined`, and says which format read it."""
    for item in subject.plain.items:
        if not isinstance(item, Trajectory | Quarantined):
            yield f"{type(item).__name__} comes out; yield Trajectory or Quarantined"
        elif isinstance(item, Trajectory) and not item.source.format:
            yield f"run {item.name!r} has no source.format; set it to {subject.form.name!r}"


def same_every_time(subject: Subject) -> Iterator[str]:
    """Reading twice gives the same bytes."""
    first, again = (_encode(read.runs) for read in (subject.plain, subject.read(subject.content)))
    if first != again:
        yield "a second reading gives other runs; use no clock, no random number, no set order"


def key_order_is_nothing(subject: Subject) -> Iterator[str]:
    """The order of keys in an object changes nothing."""
    if subject.documents is not None:
        other = subject.read(subject.changed(_reversed))
        yield from _differences(subject.runs, other.runs, "with its keys in another order")


def _reversed(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(list(value))}
    return [_reversed(entry) for entry in value] if isinstance(value, list) else value


def name_is_nothing(subject: Subject) -> Iterator[str]:
    """A file under another name, or read a second time, gives the same runs with the same ids."""
    other = subject.read(subject.content, _RENAMED)
    yield from _differences(subject.runs, other.runs, "under another name")


def _differences(runs: list[Trajectory], others: list[Trajectory], how: str) -> Iterator[str]:
    if len(runs) != len(others):
        yield f"{how} the file gives {len(others)} runs instead of {len(runs)}"
        return
    for run, other in zip(runs, others, strict=True):
        here, there = _without_place(run), _without_place(other)
        if run.id != other.id:
            yield f"{how} run {run.name!r} has another id; make ids with building.finish"
        elif here != there:
            fields = [n for n in here.__struct_fields__ if getattr(here, n) != getattr(there, n)]
            yield f"{how} run {run.name!r} has another {fields[0]}"


def _without_place(run: Trajectory) -> Trajectory:
    return msgspec.structs.replace(
        run, source=msgspec.structs.replace(run.source, uri="", offset=None)
    )


def ids_are_content(subject: Subject) -> Iterator[str]:
    """Ids are those of `building.finish`, and no two runs of a file share one."""
    for run in subject.runs:
        own = finish(msgspec.structs.replace(run, id=""), Ordinals()).id
        if run.id != own:
            yield f"run {run.name!r} has the id {run.id!r}; building.finish gives {own!r}"
    doubled = [key for key, n in Counter([run.id for run in subject.runs]).items() if n > 1]
    if doubled:
        yield f"id {doubled[0]!r} is that of several runs; share one Ordinals among a file's runs"


def steps_are_numbered(subject: Subject) -> Iterator[str]:
    """Steps count from 0; labels, scores and warnings point at steps that are there."""
    for run in subject.runs:
        count = len(run.steps)
        if [step.index for step in run.steps] != list(range(count)):
            yield f"run {run.name!r} has steps {[step.index for step in run.steps]}; count from 0"
        pointed = [
            *[label.step for label in run.labels],
            *[score.step for score in run.scores],
            *[warning.step for warning in run.warnings],
        ]
        for at in pointed:
            if at is not None and not 0 <= at < count:
                yield f"run {run.name!r} points at step {at} of {count}"


def calls_and_results_are_told(subject: Subject) -> Iterator[str]:
    """Calls without results, results without calls and doubled ids are warned of."""
    for run in subject.runs:
        missing = [warning for warning in oddities(run.steps) if warning not in run.warnings]
        if missing:
            yield f"run {run.name!r} does not say: {missing[0].reason}; end with building.finish"


def beliefs_have_sources(subject: Subject) -> Iterator[str]:
    """A result's status says where the belief comes from; one that nobody recorded is unknown."""
    for run in subject.runs:
        for step in run.steps:
            for result in step.results:
                if (result.status == "unknown") != (result.source == "none"):
                    yield (
                        f"run {run.name!r}, step {step.index}: a result of status "
                        f"{result.status!r} has the source {result.source!r}"
                    )


def counts_are_counts(subject: Subject) -> Iterator[str]:
    """Token counts include the cache; absent ones are None, and no number is NaN or negative."""
    for run in subject.runs:
        for where, usage in _usages(run):
            counts = [count for count in msgspec.structs.astuple(usage) if isinstance(count, int)]
            cached = (usage.cache_read or 0) + (usage.cache_write or 0)
            if not counts:
                yield f"{where} has a Usage without any count; leave it None"
            elif min(counts) < 0:
                yield f"{where} counts {min(counts)} tokens"
            elif usage.input_total is not None and usage.input_total < cached:
                yield f"{where} has {usage.input_total} input tokens and {cached} cached ones; add"
        for where, cost in [("the run", run.cost_usd), *_costs(run)]:
            if cost is not None and not (math.isfinite(cost) and cost >= 0):
                yield f"run {run.name!r}, {where}: a cost of {cost!r}"


def _usages(run: Trajectory) -> Iterator[tuple[str, Usage]]:
    if run.usage is not None:
        yield f"run {run.name!r}", run.usage
    for step in run.steps:
        if step.usage is not None:
            yield f"run {run.name!r}, step {step.index}", step.usage


def _costs(run: Trajectory) -> list[tuple[str, float | None]]:
    return [(f"step {step.index}", step.cost_usd) for step in run.steps]


def absence_is_none(subject: Subject) -> Iterator[str]:
    """Where the file says nothing of tokens and cost, the run says nothing: None, never 0."""
    silent = subject.changed(_uncounted)
    if subject.documents is None or any(word.encode() in silent for word in _COUNTS):
        return  # counts stand in text, where they cannot be taken away
    for run in subject.read(silent).runs:
        for where, _ in _usages(run):
            yield f"{where}: a Usage, though the file says nothing of tokens; leave it None"
        for at, cost in [("the run", run.cost_usd), *_costs(run)]:
            if cost is not None:
                yield f"run {run.name!r}, {at}: a cost of {cost!r}, and the file says none"


def _uncounted(value: Json) -> Json:
    if isinstance(value, dict):
        if isinstance(value.get("key"), str) and _is_count(value["key"]):
            return {}
        return {key: _uncounted(found) for key, found in value.items() if not _is_count(key)}
    return [_uncounted(entry) for entry in value] if isinstance(value, list) else value


def _is_count(key: str) -> bool:
    return any(word in key.lower() for word in _COUNTS)


def comes_back_from_ours(subject: Subject) -> Iterator[str]:
    """A run can be written in our own format and comes back equal."""
    for run in subject.runs:
        try:
            again = run_of(line_of(run), Limits(line_bytes=2**62))
        except StepscopeError as e:
            yield f"run {run.name!r} cannot be kept: {e}"
            continue
        if again != run:
            yield f"run {run.name!r} comes back from our own format as another"
