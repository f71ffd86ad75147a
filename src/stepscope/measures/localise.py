"""One ranked list of suspicious steps for a failed run, each with its evidence; no judge.

Per-step answers: value = the step's share of the suspicion of all the agent's steps, label = the
strongest kind of evidence there, reason = everything found there. Whole run: how many steps are
named. A reading order: how often the first is the one that people name is measured by
`python -m bars.localise` and told in docs/explanation/localise.md. Refused: runs that did not fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from stepscope.measures.rule import Rule
from stepscope.measures.suspicion import KINDS, Suspect, Suspicion, rank
from stepscope.measures.suspicion_calls import from_calls
from stepscope.measures.suspicion_prior import asked, prior_of, share_at
from stepscope.measures.suspicion_words import from_words
from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict
from stepscope.values import Unmeasured

NAME = "localise"
# More than a person reads before looking at the run itself.
LONGEST_LIST = 10
# An index that this share of the labels name is evidence by itself.
COMMON = 0.1

_PASSED = (Unmeasured("not_applicable", "the run passed", NAME),)
_UNKNOWN = (Unmeasured("missing_input", "nothing says whether the run failed (outcome)", NAME),)
_NO_AGENT = (Unmeasured("not_applicable", "no step of the run is the agent's", NAME),)


def suspects(
    trajectory: Trajectory, case: Case | None = None, facts: Facts | None = None
) -> list[Suspect]:
    """Return every step of a run with something suspicious, the most suspicious first.

    The agent's last step is always among them: the run ended there and nothing saved it.
    """
    positions = facts.positions if facts is not None else {}
    if trajectory.exchanges:
        found = from_calls(trajectory, case, facts)
    else:
        found = from_words(trajectory)
    found += _common(trajectory, positions)
    found += _end(trajectory)
    return rank(trajectory.steps, found, prior_of(positions, trajectory))


def _common(trajectory: Trajectory, positions: dict[str, int]) -> Iterator[Suspicion]:
    if not asked(positions):
        return
    for step in trajectory.steps:
        hits, labels = share_at(positions, step.index)
        if hits / labels >= COMMON:
            reason = f"{hits} of {labels} labels of this workflow name step {step.index}"
            yield Suspicion(step.index, "position", reason)


def _end(trajectory: Trajectory) -> Iterator[Suspicion]:
    last = next((s for s in reversed(trajectory.steps) if s.actor == "agent"), None)
    if last is not None:
        yield Suspicion(last.index, "end", "the agent's last step, and the run failed")


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    if trajectory.outcome.status != "fail":
        return _PASSED if trajectory.outcome.status == "pass" else _UNKNOWN
    ranked = suspects(trajectory, case, facts)[:LONGEST_LIST]
    if not ranked:
        return _NO_AGENT
    first = ranked[0]
    whole = Verdict(
        NAME,
        float(len(ranked)),
        label=first.kind,
        cites=(first.step,),
        reason=f"first step {first.step}, {first.share:.0%} of the suspicion: {first.reason}",
    )
    each = [
        Verdict(NAME, s.share, label=s.kind, step=s.step, cites=s.cites, reason=s.reason)
        for s in ranked
    ]
    return (whole, *each)


MEASURE = Rule(NAME, "1", Scale(0.0, inf, KINDS), ("alternatives", "effects", "positions"), _run)
