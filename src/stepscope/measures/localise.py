"""Suspicious steps of a failed run in one ranked list, each with its evidence; no judge.

A suspicion is a place to look, with what a reader can check there. Its factor says how many times
more often such a step was the one people named; several kinds at one step multiply. The prior of a
step is learned by counting people's labels on *other* runs, else flat over the agent's messages and
calls. Evidence of tool calls names the step where the agent acted. Evidence of words is read in
runs without tool calls; the words are English. Factors: docs/explanation/localise.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Literal, NamedTuple

from stepscope.measures.axes.arguments import trace_values
from stepscope.measures.calls import (
    agent_calls,
    effect_of,
    ends_run,
    escalates_to_person,
    has_succeeded,
)
from stepscope.measures.conduct import lacks_consent
from stepscope.measures.errors import REASON_CHARACTERS, first_line, reactions_of
from stepscope.measures.outcome import subgoal_calls
from stepscope.measures.rule import RuleMeasure
from stepscope.measures.same_calls import redundant_calls
from stepscope.model import (
    Answer,
    Case,
    Exchange,
    Facts,
    Scale,
    Step,
    StepKind,
    Trajectory,
    Verdict,
)
from stepscope.values import Unmeasured

Kind = Literal[
    "wrong_write", "other_write", "gave_up", "invented", "ignored", "unconfirmed", "failed",
    "repeated", "repeat", "write", "empty", "stuck", "replan", "assumed", "cannot", "unsourced",
    "code", "end", "position",
]  # fmt: skip

# Odds against any other step of the agent. Of runs with messages only (from `empty` down, and
# `failed`, `ignored`) they are frequencies on the tuning half of Who&When, drawn towards 1 and
# rounded to halves; those of calls are set by hand, strongest where the case itself contradicts.
FACTORS: dict[Kind, float] = {
    "wrong_write": 5.0, "other_write": 4.0, "gave_up": 4.0, "invented": 3.0, "ignored": 2.0,
    "unconfirmed": 2.0, "failed": 2.0, "repeated": 1.5, "repeat": 1.2, "write": 1.5, "empty": 2.5,
    "stuck": 2.5, "replan": 2.5, "assumed": 1.5, "cannot": 1.5, "unsourced": 2.0, "code": 1.5,
    "end": 1.2, "position": 1.0,
}  # fmt: skip
KINDS: tuple[Kind, ...] = tuple(FACTORS)
LOCALISE_NAME = "localise"
# A mistake is named where it was first made: the same kind again later in the run counts less.
AGAIN = 0.5


class Suspicion(NamedTuple):
    """One thing found at a step of the agent: its kind, what a reader sees, where to check it."""

    step: int
    kind: Kind
    reason: str
    cites: tuple[int, ...] = ()


def rank_suspects(
    steps: Sequence[Step], found: Iterable[Suspicion], prior: Callable[[Step], float]
) -> list[Verdict]:
    """Return an answer for every step at which something was found, the most suspicious first.

    Its value is the step's share of the suspicion of all the agent's steps, which sums to 1.

    Args:
        steps: the run's; only the agent's own can be named.
        found: in the order of the run.
        prior: how likely a step is the one before anything is found there, to any constant factor.
    """
    odds = {step.index: prior(step) for step in steps if step.actor == "agent"}
    at: dict[int, list[Suspicion]] = {}
    seen: set[tuple[Kind, int]] = set()
    kinds: set[Kind] = set()
    for suspicion in found:
        step, kind = suspicion.step, suspicion.kind
        if step not in odds or (kind, step) in seen:
            continue
        seen.add((kind, step))
        factor = FACTORS[kind]
        odds[step] *= factor if kind not in kinds else 1.0 + (factor - 1.0) * AGAIN
        kinds.add(kind)
        at.setdefault(step, []).append(suspicion)
    total = sum(odds.values()) or 1.0
    suspects = [_suspect(step, odds[step] / total, here) for step, here in at.items()]
    return sorted(suspects, key=lambda suspect: (-(suspect.value or 0.0), suspect.step or 0))


def _suspect(step: int, share: float, here: list[Suspicion]) -> Verdict:
    here = sorted(here, key=lambda suspicion: -FACTORS[suspicion.kind])
    cites = {step}.union(*(suspicion.cites for suspicion in here))
    reason = "; ".join([suspicion.reason for suspicion in here])
    return Verdict(
        LOCALISE_NAME, share, here[0].kind, step=step, cites=tuple(sorted(cites)), reason=reason
    )


def suspicions_of_calls(
    trajectory: Trajectory, case: Case | None, facts: Facts | None
) -> list[Suspicion]:
    """Return what the run's tool calls make suspicious, by step."""
    made = agent_calls(trajectory)
    if not made:
        return []
    found = list(_errors(trajectory, facts))
    for again, before in redundant_calls(trajectory.exchanges, facts):
        reason = f"{again.call.name} asks again what {before.step} answered"
        found.append(Suspicion(again.step, "repeat", reason, (before.step,)))
    for value in trace_values(trajectory):
        if value.state == "invented":
            reason = f"{value.tool}: {value.argument} {value.text!r} was said nowhere before"
            found.append(Suspicion(value.step, "invented", reason))
    found += _writes(trajectory, made, case, facts)
    return sorted(found, key=lambda suspicion: suspicion.step)


def _errors(trajectory: Trajectory, facts: Facts | None) -> Iterator[Suspicion]:
    for reaction in reactions_of(trajectory, facts).values():
        error = reaction.error
        if error.call.requestor != "agent":
            continue
        read = error.answer_step
        said = f"{error.call.name} fails: {first_line(error.result)}"
        yield Suspicion(error.step, "failed", said, (read,))
        if reaction.label == "ignored" and reaction.step is not None:
            reason = f"goes on after the error at {read}"
            yield Suspicion(reaction.step, "ignored", reason, (read,))
        elif reaction.label == "repeated" and reaction.step is not None:
            reason = f"the call that failed at {read} again, unchanged"
            yield Suspicion(reaction.step, "repeated", reason, (read,))


def _writes(
    trajectory: Trajectory, made: Sequence[Exchange], case: Case | None, facts: Facts | None
) -> Iterator[Suspicion]:
    goals = case.subgoals if case is not None else ()
    pairs = subgoal_calls(case, trajectory) if case is not None else []
    undone = {goal.tool: goal.name for goal, at in zip(goals, pairs, strict=True) if at is None}
    judges = case is not None and (bool(goals) or case.reference is not None)
    for at, exchange in enumerate(made):
        name = exchange.call.name
        if escalates_to_person(name) and undone:
            yield Suspicion(
                exchange.step,
                "gave_up",
                f"hands over before {', '.join(dict.fromkeys(undone.values()))}",
            )
        if effect_of(name, facts) != "write" or ends_run(name):
            continue
        yield Suspicion(exchange.step, "write", f"{name} changes the world")
        reason = lacks_consent(trajectory, at)
        if reason is not None:
            yield Suspicion(exchange.step, "unconfirmed", f"{name} without consent: {reason}")
        if not judges or at in pairs or not has_succeeded(exchange):
            continue
        if name in undone:
            reason = f"{name} is asked for with other arguments"
            yield Suspicion(exchange.step, "wrong_write", reason)
        else:
            yield Suspicion(exchange.step, "other_write", f"{name}: nothing asks for this write")


NAMES_A_STEP = frozenset({"decisive_step", "failure"})
# A flat prior but for entries that organise. Of 20 labels on the tuning half of the hand-crafted
# Who&When runs 14 name the 198 messages, 7 the 694 plans, hand-offs and closing notes.
BY_KIND: dict[StepKind, float] = {"plan": 0.2, "handoff": 0.1, "other": 0.1}
# How many labels a learned prior needs before it is asked: below, one label is a spike.
FEWEST_LABELS = 8
# The flat prior counts as this many labels where the question is the place: on the tuning half of
# Who&When, out of fold, less let the commonest index outvote what was found in the run.
FLAT_LABELS = 32.0
# The same where the question is who speaks.
FLAT_SPEAKER_LABELS = 8.0
TENTHS = 10


def count_positions(runs: Iterable[Trajectory]) -> dict[str, int]:
    """Return the table `positions` of Facts: counts of what people's labels name, by place.

    Keys: `labels`; `at.K` index K; `end.K` K steps before the last; `tenth.K`; `who.NAME` labels on
    a speaker's steps, and `steps.NAME` how many steps it has in the labelled runs. Labels on steps
    that are not the agent's count nowhere: only the agent's steps are ranked.
    """
    counts: Counter[str] = Counter()
    for run in runs:
        named = {label.step for label in run.labels if label.kind in NAMES_A_STEP}
        own = [step for step in run.steps if step.index in named and step.actor == "agent"]
        if not own:
            continue
        for step in own:
            counts["labels"] += 1
            for place in _places(step.index, len(run.steps)):
                counts[place] += 1
            counts[f"who.{speaker_of(step)}"] += 1
        for step in run.steps:
            if step.actor == "agent":
                counts[f"steps.{speaker_of(step)}"] += 1
    return dict(sorted(counts.items()))


def speaker_of(step: Step) -> str:
    """Return who speaks, and how: an orchestrator plans, hands over, and talks."""
    return f"{step.agent or ''}/{step.kind}"


def step_prior(positions: Mapping[str, int], run: Trajectory) -> Callable[[Step], float]:
    """Return the prior of a run's steps, learned where `positions` has labels enough."""
    if not has_enough_labels(positions):
        return _flat
    n = len(run.steps)
    base = positions["labels"] / sum(
        count for key, count in positions.items() if key.startswith("steps.")
    )

    def learned(step: Step) -> float:
        return _place_factor(positions, step.index, n) * _speaker_factor(positions, step, base)

    return learned


def has_enough_labels(positions: Mapping[str, int]) -> bool:
    """True if the table has labels enough to be asked."""
    return positions.get("labels", 0) >= FEWEST_LABELS


def _flat(step: Step) -> float:
    return BY_KIND.get(step.kind, 1.0)


def _places(index: int, steps: int) -> tuple[str, str, str]:
    return f"at.{index}", f"end.{steps - 1 - index}", f"tenth.{index * TENTHS // steps}"


def _place_factor(positions: Mapping[str, int], index: int, steps: int) -> float:
    at, end, tenth = (positions.get(key, 0) for key in _places(index, steps))
    # Labels of a tenth are shared by the steps in it.
    spread = max(steps / TENTHS, 1.0)
    seen = (at + end + tenth / spread) / 3
    return (seen + FLAT_LABELS / steps) / (positions["labels"] + FLAT_LABELS)


def _speaker_factor(positions: Mapping[str, int], step: Step, base: float) -> float:
    """How much more often than any step this speaker's are named, drawn to what kinds tell."""
    name = speaker_of(step)
    hits, steps = positions.get(f"who.{name}", 0), positions.get(f"steps.{name}", 0)
    flat = FLAT_SPEAKER_LABELS
    return (hits + flat * _flat(step)) / (steps * base + flat)


ASSUMES = re.compile(
    r"\b(?:assum(?:e|es|ed|ing|ptions?)|simulat\w+|hypothetical\w*|placeholder|mock|dummy|"
    r"sample data|example data|for demonstration|let(?:'|\u2019)s say|pretend|illustrat\w+)\b",
    re.IGNORECASE,
)
CANNOT = re.compile(
    r"\b(?:cannot|can(?:'|\u2019)t|unable to|could not|couldn(?:'|\u2019)t|not able to|"
    r"did not find|didn(?:'|\u2019)t find|no results|not found|404|don(?:'|\u2019)t have access|"
    r"not available|no (?:specific )?information|does not (?:contain|provide|include)|"
    r"not accessible)\b",
    re.IGNORECASE,
)
# What every match begins with, by a part of it that several share: plain search finds them several
# times faster.
ASSUMES_STARTS = {
    start: (start,)
    for start in (
        "assum", "simulat", "hypothetical", "placeholder", "mock", "dummy", "sample data",
        "example data", "for demonstration", "let's say", "let\u2019s say", "pretend", "illustrat",
    )
}  # fmt: skip
CANNOT_STARTS = {
    "not": (
        *("cannot", "could not", "not able to", "did not find", "not found", "not available"),
        *("does not ", "not accessible"),
    ),
    "n't": ("can't", "couldn't", "didn't find", "don't have access"),
    "n\u2019t": ("can\u2019t", "couldn\u2019t", "didn\u2019t find", "don\u2019t have access"),
    "no ": ("no results", "no information", "no specific information"),
    "unable to": ("unable to",),
    "404": ("404",),
}
# Letters that a pattern without case takes for ASCII ones, and `str.lower` does not.
_ODD_LETTERS = "\u0130\u0131\u017f"
# What a run of code prints when it found nothing.
EMPTY = re.compile(r"Code output:\s*(?:None|\[\]|\{\}|nan)?\s*\Z")
PLAN_ANEW = re.compile(r"\A\W*(?:stalled|new plan|updated plan|re-?plan)", re.IGNORECASE)
# The ledger of an orchestrator: one question with reason and answer, written as JSON.
STUCK = re.compile(r'"is_progress_being_made":\s*\{[^}]*?"answer":\s*false')
CODE = "```"
# Who shows where the figures stand names a source.
LINK = "://"
_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Two digits are counts, days, list numbers; from three characters on a figure is a fact.
_FIGURE = re.compile(r"\d[\d,.]+\d")
_ASCII_FIGURE = re.compile(r"[0-9][0-9,.]+[0-9]")
# One new figure may be a slip of the pattern; two are data.
FIGURES = 2
# A quotation is cut to this: the step holds the whole.
QUOTE_CHARACTERS = 60
# Shorter messages ("TERMINATE", "Go on.") are turns of the protocol.
REPEAT_CHARACTERS = 16
# Messages that begin with other words are not the same one again.
FIRST_WORDS = 8


def suspicions_of_messages(trajectory: Trajectory) -> list[Suspicion]:
    """Return what the messages of a run without tool calls make suspicious, by step."""
    steps = trajectory.steps
    found = [*_code(steps), *_planner(steps)]
    said: set[str] = set()
    begun: dict[str, tuple[int, str]] = {}
    seen: dict[str, int] = {}
    for at, step in enumerate(steps):
        text = step.text
        figures = _figures(text)
        if at > 0 and _does_work(step):
            lower = text.lower()
            found += _message(step, text, lower, figures - said)
            begins = " ".join(lower.split(None, FIRST_WORDS)[:FIRST_WORDS])
            first, other = begun.setdefault(begins, (at, lower))
            if first != at:
                seen.setdefault(" ".join(other.split()), first)
                key = " ".join(lower.split())
                before = seen.setdefault(key, at)
                if before != at and len(key) >= REPEAT_CHARACTERS:
                    reason = f"says again what {before} said"
                    found.append(Suspicion(at, "repeat", reason, (before,)))
        said |= figures
    return sorted(found, key=lambda suspicion: suspicion.step)


def _message(step: Step, text: str, lower: str, new: set[str]) -> Iterator[Suspicion]:
    assumes = _search(ASSUMES, ASSUMES_STARTS, text, lower)
    if assumes is not None:
        yield Suspicion(step.index, "assumed", f"assumes: {_quote(text, assumes)}")
    cannot = _search(CANNOT, CANNOT_STARTS, text, lower)
    if cannot is not None:
        yield Suspicion(step.index, "cannot", f"does not get there: {_quote(text, cannot)}")
    if len(new) < FIGURES or LINK in text:
        return
    prose = _figures(_BLOCK.sub(" ", text)) & new if CODE in text else new
    if len(prose) >= FIGURES:
        named = ", ".join(sorted(prose, key=lambda figure: (text.find(figure), figure))[:3])
        reason = f"{len(prose)} figures that were said nowhere before: {named}"
        yield Suspicion(step.index, "unsourced", reason)


def _search(
    pattern: re.Pattern[str], starts: Mapping[str, Sequence[str]], text: str, lower: str
) -> re.Match[str] | None:
    """Return the first match of a pattern of which every match begins with one of `starts`."""
    if not text.isascii() and any(letter in text for letter in _ODD_LETTERS):
        return pattern.search(text)
    found = [
        at
        for part, some in starts.items()
        if part in lower
        for start in some
        if (at := lower.find(start)) >= 0
    ]
    return pattern.search(text, min(found)) if found else None


def _code(steps: Sequence[Step]) -> Iterator[Suspicion]:
    """What came of code: each environment entry blames the entry before, or the one after it."""
    for before, here in pairwise(steps):
        if before.actor == "agent" and CODE in before.text:
            yield Suspicion(before.index, "code", "writes code that the run builds on")
        if before.actor == "agent" and here.actor == "environment":
            if here.error is not None:
                # The last line that says something: where Python puts the error itself.
                lines = [line.strip() for line in here.text.splitlines() if line.strip()]
                raised = [line for line in lines if re.match(r"[\w.]+(?:Error|Exception)\b", line)]
                reason = f"what it ran fails: {_cut((raised or lines or [''])[-1])}"
                yield Suspicion(before.index, "failed", reason, (here.index,))
            elif EMPTY.search(here.text):
                reason = "what it ran prints nothing"
                yield Suspicion(before.index, "empty", reason, (here.index,))
        elif before.error is not None and here.actor == "agent" and CODE not in here.text:
            reason = f"goes on after the error at {before.index}"
            yield Suspicion(here.index, "ignored", reason, (before.index,))


def _planner(steps: Sequence[Step]) -> Iterator[Suspicion]:
    for at, step in enumerate(steps):
        if step.kind != "plan":
            continue
        text = step.text
        if STUCK.search(text):
            worker = next((s for s in reversed(steps[:at]) if _does_work(s)), None)
            if worker is not None:
                reason = f"no progress by it, says {step.agent or 'the planner'} at {at}"
                yield Suspicion(worker.index, "stuck", reason, (at,))
        if at > 1 and PLAN_ANEW.match(text):
            yield Suspicion(at, "replan", f"plans anew: {_cut(text)}")


def _does_work(step: Step) -> bool:
    return step.actor == "agent" and step.kind == "message"


def _figures(text: str) -> set[str]:
    return set((_ASCII_FIGURE if text.isascii() else _FIGURE).findall(text))


def _quote(text: str, match: re.Match[str]) -> str:
    start = max(match.start() - QUOTE_CHARACTERS // 2, 0)
    piece = " ".join(text[start : match.end() + QUOTE_CHARACTERS // 2].split())
    return f"“{piece}”"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARACTERS else line[: REASON_CHARACTERS - 1] + "…"


# More than a person reads before looking at the run itself.
LONGEST_LIST = 10
# An index that this share of the labels name is evidence by itself.
COMMON = 0.1

_PASSED = (Unmeasured("not_applicable", "the run passed", LOCALISE_NAME),)
_UNKNOWN = (
    Unmeasured("missing_input", "nothing says whether the run failed (outcome)", LOCALISE_NAME),
)
_NO_AGENT = (Unmeasured("not_applicable", "no step of the run is the agent's", LOCALISE_NAME),)


def find_suspects(
    trajectory: Trajectory, case: Case | None = None, facts: Facts | None = None
) -> list[Verdict]:
    """Return an answer for every step with something suspicious, the most suspicious first.

    The agent's last step is always among them: the run ended there and nothing saved it.
    """
    positions = facts.positions if facts is not None else {}
    if trajectory.exchanges:
        found = suspicions_of_calls(trajectory, case, facts)
    else:
        found = suspicions_of_messages(trajectory)
    found += _common(trajectory, positions)
    found += _end(trajectory)
    return rank_suspects(trajectory.steps, found, step_prior(positions, trajectory))


def _common(trajectory: Trajectory, positions: dict[str, int]) -> Iterator[Suspicion]:
    if not has_enough_labels(positions):
        return
    for step in trajectory.steps:
        hits, labels = positions.get(f"at.{step.index}", 0), positions["labels"]
        if hits / labels >= COMMON:
            reason = f"{hits} of {labels} labels of this workflow name step {step.index}"
            yield Suspicion(step.index, "position", reason)


def _end(trajectory: Trajectory) -> Iterator[Suspicion]:
    last = next((s for s in reversed(trajectory.steps) if s.actor == "agent"), None)
    if last is not None:
        yield Suspicion(last.index, "end", "the agent's last step, and the run failed")


def _localise(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """One ranked list of suspicious steps for a failed run, each with its evidence; no judge.

    Per-step answers: value = the step's share of the suspicion of all the agent's steps, label =
    the strongest kind of evidence there, reason = everything found there. Whole run: how many steps
    are named. A reading order: how often the first is the one that people name is measured by
    `python -m bars.measures.localise` and told in docs/explanation/localise.md. Refused: runs
    that did not fail.
    """
    if trajectory.outcome.status != "fail":
        return _PASSED if trajectory.outcome.status == "pass" else _UNKNOWN
    ranked = find_suspects(trajectory, case, facts)[:LONGEST_LIST]
    if not ranked:
        return _NO_AGENT
    first = ranked[0]
    whole = Verdict(
        LOCALISE_NAME,
        float(len(ranked)),
        label=first.label,
        cites=(first.step or 0,),
        reason=f"first step {first.step}, {first.value:.0%} of the suspicion: {first.reason}",
    )
    return (whole, *ranked)


LOCALISE = RuleMeasure(
    LOCALISE_NAME, "1", Scale(0.0, inf, KINDS), ("alternatives", "effects", "positions"), _localise
)
