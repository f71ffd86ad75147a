"""What a deterministic measure is made of: one function, a name, a version, a scale.

Also: answers merged to one a step, answers of an axis (`incorrect` always cites, `uncertain` says
what was checked; rules never say correct, since finding nothing proves nothing), and values that
several measures share, cached on the run itself, or by a text that other runs have too.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict
from stepscope.model.records import UNCERTAIN
from stepscope.values import Unmeasured, UnmeasuredKind

Run = Callable[[Trajectory, Case | None, Facts | None], Iterable[Answer]]


@dataclass(frozen=True, slots=True)
class RuleMeasure:
    """A measure made of one function; satisfies `stepscope.model.Measure`."""

    name: str
    version: str
    scale: Scale
    learns: tuple[str, ...]
    run: Run

    def __call__(
        self, trajectory: Trajectory, case: Case | None, facts: Facts | None
    ) -> Iterable[Answer]:
        """Answer about one run."""
        return self.run(trajectory, case, facts)


def one_a_step(answers: Sequence[Verdict], pick: Callable[[list[str]], str]) -> Sequence[Verdict]:
    """Return one answer a step: parallel calls may answer twice at one, and a record's key cannot.

    `pick` chooses the label of a step from its labels.
    """
    if len({answer.step for answer in answers}) == len(answers):
        return answers
    merged: list[Verdict] = []
    for step, group in groupby(answers, key=lambda answer: answer.step):
        same = list(group)
        label = pick([answer.label for answer in same if answer.label is not None])
        cites = tuple(sorted({cite for answer in same for cite in answer.cites}))
        reason = "; ".join(answer.reason for answer in same)
        merged.append(Verdict(same[0].measure, None, label, step, cites, reason))
    return merged


def step_answer(measure: str, label: str | None, step: int, reason: str) -> Verdict:
    """Return an answer about a step that cites the step itself."""
    return Verdict(measure, None, label, step, (step,), reason)


def absences(kind: UnmeasuredKind, reason: str, *measures: str) -> tuple[Unmeasured, ...]:
    """Return the absence of the answers of some measures, all for one reason."""
    return tuple([Unmeasured(kind, reason, measure) for measure in measures])


INCORRECT = "incorrect"
AXIS_SCALE = Scale(0.0, 0.0, (INCORRECT, UNCERTAIN))


class Fault(NamedTuple):
    """What is wrong at a step, and the rule of conduct, or the tool's schema, that it breaks."""

    step: int
    reason: str  # one sentence
    cites: tuple[int, ...] = ()  # the steps that show it, besides the step itself
    rule: str = ""  # its name, or the tool's; "" for faults of an axis


def fault_answers(name: str, faults: Iterable[Fault]) -> Sequence[Answer]:
    """Return the answers of an axis that found faults: the run's first, then one a step."""
    found = sorted(set(faults))
    cited = [tuple(sorted({fault.step, *fault.cites})) for fault in found]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    each = [
        Verdict(name, label=INCORRECT, step=fault.step, cites=cites, reason=fault.reason)
        for fault, cites in zip(found, cited, strict=True)
    ]
    cites = tuple(sorted({step for cites in cited for step in cites}))
    whole = Verdict(name, label=INCORRECT, cites=cites, reason=found[0].reason + more)
    return (whole, *one_a_step(each, lambda labels: labels[0]))


def faultless_answer(name: str, reason: str, cites: tuple[int, ...] = ()) -> tuple[Verdict]:
    """Return the one answer of an axis whose checks ran and proved nothing: what was checked."""
    return (Verdict(name, label=UNCERTAIN, cites=cites, reason=reason),)


def not_applicable(name: str, reason: str) -> tuple[Unmeasured]:
    """Return the one answer of an axis that had nothing to check."""
    return (Unmeasured("not_applicable", reason, name),)


T = TypeVar("T")
K = TypeVar("K")


def cached_on_run(make: Callable[[Trajectory], T]) -> Callable[[Trajectory], T]:
    """Keep what a function says of a run on the run itself, for all measures that ask."""
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def cached(trajectory: Trajectory) -> T:
        kept: T | None = trajectory.__dict__.get(name)
        if kept is None:
            kept = trajectory.__dict__[name] = make(trajectory)
        return kept

    return cached


def cached_with_facts(make: Callable[[Trajectory, K], T]) -> Callable[[Trajectory, K], T]:
    """Keep what a function says of a run and facts, or a case, on the run; of others anew."""
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def cached(trajectory: Trajectory, facts: K) -> T:
        kept: tuple[K, T] | None = trajectory.__dict__.get(name)
        if kept is None or kept[0] is not facts:
            kept = trajectory.__dict__[name] = (facts, make(trajectory, facts))
        return kept[1]

    return cached


def _nothing_yet(text: str) -> dict[object, Any]:
    return {}


# So many texts of fewer characters than that are kept, fifty million characters at worst: lines and
# messages, results, policies. Of longer ones the last few: several checks ask of each.
_SIZES = (513, 4097, 16_385, 131_073)
_KEPT = [lru_cache(n)(_nothing_yet) for n in (16_384, 4096, 1024, 64, 4)]
_SHORT, _KEPT_SHORT = _SIZES[0], _KEPT[0]


def cached_by_text(make: Callable[[str], T]) -> Callable[[str], T]:
    """Keep what a function says of a text: trials of one task say and read much the same."""

    @wraps(make)
    def cached(text: str) -> T:
        kept = (_KEPT_SHORT if len(text) < _SHORT else _KEPT[bisect(_SIZES, len(text))])(text)
        try:
            found: T = kept[make]
        except KeyError:
            found = kept[make] = make(text)
        return found

    return cached
