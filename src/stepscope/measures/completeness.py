"""What the trace of a run lacks, and which verdicts cannot be given without it.

An input that is not there, that a recorder hid (`[REDACTED]`) or that was cut is a gap. What an
axis proved stands; where nothing is proved and its input is not there at all, it is unmeasured; a
value that was said nowhere before is no fault where a gap may have held it. A tool list or policy
of the settings counts as there. No answer is due to the call that a run ended on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import wraps
from typing import Literal, NamedTuple

from stepscope.measures.calls import ends_run, no_calls
from stepscope.measures.rule import INCORRECT, RuleMeasure, Run, cached_by_text, cached_on_run
from stepscope.model import SCORES, Answer, Case, Facts, Scale, Trajectory, Verdict
from stepscope.model.records import COMPLETENESS_NAME, INPUTS, OF_CALLS, RECORDED, Input
from stepscope.values import Unmeasured

GapState = Literal["not_recorded", "redacted", "cut"]

# A placeholder stands in brackets or underscores: [REDACTED], __REDACTED__, <response clipped>,
# (12 lines truncated). Looked for only where the end of one of the words is there: what begins with
# plain letters is found some ten times faster.
_HIDES = re.compile(
    r"ed(?:(?<=dacted)|(?<=asked)|(?<=crubbed)|(?<=runcated)|(?<=lipped)|(?<=elided))"
)
_HIDES_LOUDLY = re.compile(r"ED(?:(?<=DACTED)|(?<=RUNCATED))")
_PLACEHOLDER = re.compile(
    r"(?i)(?:[\[<({]|__)(?:[^\[\]<>(){}\n]{0,40}[\W_])?(?:(redacted|masked|scrubbed)|"
    r"truncated|clipped|elided)(?:[\W_][^\[\]<>(){}\n]{0,60})?(?:[\])>}]|__)"
)
_STARS = re.compile(r"[*\u2022]{3,40}")


class Gap(NamedTuple):
    """An input that the trace of a run lacks in `n` of `of` places, at `step` first."""

    input: Input
    state: GapState
    n: int
    of: int
    step: int

    def __str__(self) -> str:
        part = "" if self.n == self.of else f" in {self.n} of {self.of}"
        return f"{INPUTS[self.input][0]} {self.state.replace('_', ' ')}{part}"


def hidden_state(text: str) -> GapState | None:
    """Return how a recorder hid a text or a part of it; None where nothing shows that it did."""
    if (_HIDES.search(text) or _HIDES_LOUDLY.search(text)) and (found := _PLACEHOLDER.search(text)):
        return "redacted" if found[1] else "cut"
    return "redacted" if len(text) <= 40 and _STARS.fullmatch(text) else None


_policy_state = cached_by_text(hidden_state)


@cached_on_run
def gaps_of(trajectory: Trajectory) -> tuple[Gap, ...]:
    """Return what the trace of a run lacks, in the order of `INPUTS`; one gap an input."""
    case, made = trajectory.case, trajectory.agent_exchanges
    said = [pair for pair in zip(trajectory.steps, trajectory.texts, strict=True) if pair[1]]
    asked = [(s.index, hidden_state(text)) for s, text in said if s.actor == "user"]
    told = [(s.index, _policy_state(text)) for s, text in said if s.actor == "system"]
    found = [
        _gap("task", asked, known=case is not None and case.request is not None),
        _gap("policy", told, known=trajectory.instructions is not None),
    ]
    if made:
        given = [(x.step, hidden_state(x.key)) for x in made if x.call.arguments or x.call.raw]
        # A call without arguments is one among others; where none has any, they were left out.
        known = any(x.call.arguments is not None for x in made)
        tools: list[tuple[int, GapState | None]] = [(0, None)] if trajectory.tools else []
        found += [_gap("tools", tools), _gap("arguments", given, known=known)]
        found.append(_gap("results", _results(trajectory), known=True))
    return tuple([gap for gap in found if gap is not None])


def _gap(
    name: Input, states: Sequence[tuple[int, GapState | None]], *, known: bool = False
) -> Gap | None:
    """Return the gap in what should be there; where there is nothing, it is one unless `known`."""
    lacking = [(step, state) for step, state in states if state is not None]
    if lacking:
        return Gap(name, lacking[0][1], len(lacking), len(states), lacking[0][0])
    return None if states or known else Gap(name, "not_recorded", 1, 1, 0)


def _results(trajectory: Trajectory) -> list[tuple[int, GapState | None]]:
    made, last = trajectory.agent_exchanges, trajectory.steps[-1].index
    # An answer without content is a tool's own, unless no tool has any.
    blank = not any(x.result and (x.result.parts or x.result.structured) for x in made)
    states: list[tuple[int, GapState | None]] = []
    for x in made:
        if x.result is not None and not (blank and x.result.error is None):
            states.append((x.step, "cut" if x.result.truncated else hidden_state(x.result.text)))
        elif x.result is not None or (x.step != last and not ends_run(x.call.name)):
            states.append((x.step, "not_recorded"))
    return states


def hides_words(trajectory: Trajectory) -> bool:
    """True if words of the user were redacted or cut: what is not read there may stand there."""
    return any(g.input == "task" and g.state != "not_recorded" for g in gaps_of(trajectory))


def hiding_gap(gaps: Sequence[Gap], before: int) -> str:
    """Say what may have held a value that was said nowhere before a step; "" where nothing may."""
    for gap in gaps:
        hidden = gap.state != "not_recorded" and gap.input in ("task", "policy")
        if gap.step < before and (hidden or gap.input == "results"):
            return str(gap)
    return ""


def needing(name: Input, run: Run) -> Run:
    """Return an axis that is unmeasured where it proves nothing and its input is not there.

    Where a part of it is not there, what was checked says so.
    """

    @wraps(run)
    def judged(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
        whole, *steps = run(trajectory, case, facts)
        gap = next((gap for gap in gaps_of(trajectory) if gap.input == name), None)
        if gap is not None and not (isinstance(whole, Verdict) and whole.label == INCORRECT):
            if gap.n == gap.of and gap.state != "cut":
                return (Unmeasured("missing_input", str(gap), whole.measure),)
            if isinstance(whole, Verdict):
                reason = f"{whole.reason}; {gap}"
                whole = Verdict(whole.measure, label=whole.label, cites=whole.cites, reason=reason)
        return (whole, *steps)

    return judged


def _complete(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Whether task, policy, tool list, arguments and results of a run are in its trace.

    One aspect an input (`completeness.results`): recorded, not recorded, redacted or cut, with how
    many of the calls or messages.
    """
    if trajectory.source.format == SCORES:
        for aspect in ("", *(f".{name}" for name in INPUTS)):
            why = "only scores of steps are known"
            yield Unmeasured("not_applicable", why, f"{COMPLETENESS_NAME}{aspect}")
        return
    gaps = {gap.input: gap for gap in gaps_of(trajectory)}
    said = "; ".join(f"{gap}: {INPUTS[name][1]}" for name, gap in gaps.items())
    label = "incomplete" if gaps else "complete"
    yield Verdict(COMPLETENESS_NAME, label=label, reason=said or "everything was recorded")
    for name in INPUTS:
        measure, gap = f"{COMPLETENESS_NAME}.{name}", gaps.get(name)
        if gap is not None:
            yield Verdict(measure, label=gap.state, reason=str(gap))
        elif name in OF_CALLS and not trajectory.agent_exchanges:
            yield no_calls(measure)
        else:
            yield Verdict(measure, label=RECORDED)


_LABELS = ("complete", "incomplete", RECORDED, "not_recorded", "redacted", "cut")
COMPLETENESS = RuleMeasure(COMPLETENESS_NAME, "1", Scale(0.0, 0.0, _LABELS), (), _complete)
