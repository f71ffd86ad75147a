"""Every step of the agent in a failed run, with how likely the run went wrong there; no judge.

A suspicion is a place to look, with what a reader can check there. Its factor says how many times
more often such a step was the one people named; several kinds at one step multiply. Factors, the
step's place and small features of it (`step_features`) make a log score; weights and scales stand
in `localise.json`, fitted on people's labels (`python -m bars.run fit_localise`, a conditional
logit, McFadden 1974). No step is left out. Evidence of tool calls names the step where the agent
acted. Evidence of words is read in runs in which agents only talk with each other; the words are
English. What only a store knows is added when the records are read (`findings.ranking`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from math import exp, inf, log
from operator import mul
from typing import Literal, NamedTuple

import msgspec

from stepscope import model
from stepscope.measures import calls
from stepscope.measures import step_features as features
from stepscope.measures.axes.arguments import trace_values
from stepscope.measures.axes.sums import find_missing_terms, trace_refusals
from stepscope.measures.conduct import lacks_consent
from stepscope.measures.errors import REASON_CHARACTERS, first_line, reactions_of
from stepscope.measures.outcome import subgoal_calls
from stepscope.measures.rule import RuleMeasure, absences
from stepscope.measures.same_calls import redundant_calls

Kind = Literal[
    "origin",
    "wrong_write",
    "other_write",
    "gave_up",
    "invented",
    "ignored",
    "unconfirmed",
    "failed",
    "repeated",
    "repeat",
    "write",
    "empty",
    "stuck",
    "replan",
    "assumed",
    "cannot",
    "unsourced",
    "code",
    "end",
    "place",
]

# Odds against any other step of the agent. Of runs with messages only (from `empty` down, and
# `failed`, `ignored`) they are frequencies on the tuning half of Who&When, drawn towards 1 and
# rounded to halves; those of calls are set by hand, strongest where the case itself contradicts.
FACTORS: dict[Kind, float] = {
    "origin": 12.0,
    "wrong_write": 5.0,
    "other_write": 4.0,
    "gave_up": 4.0,
    "invented": 3.0,
    "ignored": 2.0,
    "unconfirmed": 2.0,
    "failed": 2.0,
    "repeated": 1.5,
    "repeat": 1.2,
    "write": 1.5,
    "empty": 2.5,
    "stuck": 2.5,
    "replan": 2.5,
    "assumed": 1.5,
    "cannot": 1.5,
    "unsourced": 2.0,
    "code": 1.5,
    "end": 1.2,
    "place": 1.0,
}
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


def log_factors(trajectory: model.Trajectory, found: Iterable[Suspicion]) -> list[float]:
    """Return for each step of the agent, in order, the log of the factors of what was found there.

    What is `found` is in the order of the run; a step that is not the agent's counts nowhere.
    """
    odds = {x.index: BY_KIND.get(x.kind, 1.0) for x in trajectory.steps if x.actor == "agent"}
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
    return [log(product) for product in odds.values()]


def suspicions_of_calls(
    trajectory: model.Trajectory, case: model.Case | None, facts: model.Facts | None
) -> list[Suspicion]:
    """Return what the run's tool calls make suspicious, by step."""
    made = calls.agent_calls(trajectory)
    if not made:
        return []
    found = list(_errors(trajectory, facts))
    for again, before in redundant_calls(trajectory.exchanges, facts):
        reason = f"{again.call.name} asks again what step {before.step} answered"
        found.append(Suspicion(again.step, "repeat", reason, (before.step,)))
    for value in trace_values(trajectory):
        if value.state == "invented":
            reason = f"{value.tool}: {value.argument} {value.text!r} was said nowhere before"
            found.append(Suspicion(value.step, "invented", reason))
    found += _origins(trajectory)
    found += _writes(trajectory, made, case, facts)
    return sorted(found, key=lambda suspicion: suspicion.step)


def _errors(trajectory: model.Trajectory, facts: model.Facts | None) -> Iterator[Suspicion]:
    for reaction in reactions_of(trajectory, facts).values():
        error = reaction.error
        if error.call.requestor != "agent":
            continue
        read = error.answer_step
        said = f"{error.call.name} fails: {first_line(error.result)}"
        yield Suspicion(error.step, "failed", said, (read,))
        if reaction.label == "ignored" and reaction.step is not None:
            reason = f"continues after the error at step {read}"
            yield Suspicion(reaction.step, "ignored", reason, (read,))
        elif reaction.label == "repeated" and reaction.step is not None:
            reason = f"the call that failed at {read} again, unchanged"
            yield Suspicion(reaction.step, "repeated", reason, (read,))


def _origins(trajectory: model.Trajectory) -> Iterator[Suspicion]:
    """Yield where the numbers first arose that a refusal names: there it went wrong, not later."""
    missing = find_missing_terms(trajectory)
    for fault in missing:
        yield Suspicion(fault.step, "origin", fault.reason, fault.cites)
    shown = {fault.step for fault in missing}
    for exchange, made, other in trace_refusals(trajectory):
        if made.step not in shown:
            at = exchange.answer_step
            said = f"{made} = {made.total:.12g} first appears here; {exchange.call.name} is refused"
            reason = f"{said} because of it at step {at}, where the error says {other:.12g}"
            yield Suspicion(made.step, "origin", reason, (at,))


def _writes(
    trajectory: model.Trajectory,
    made: Sequence[model.Exchange],
    case: model.Case | None,
    facts: model.Facts | None,
) -> Iterator[Suspicion]:
    goals = case.called if case is not None else ()
    pairs = subgoal_calls(case, trajectory) if case is not None else []
    undone = {goal.tool: goal.name for goal, at in zip(goals, pairs, strict=True) if at is None}
    judges = case is not None and (bool(goals) or case.reference is not None)
    for at, exchange in enumerate(made):
        name = exchange.call.name
        if calls.escalates_to_person(name) and undone:
            reason = f"hands over before {', '.join(dict.fromkeys(undone.values()))}"
            yield Suspicion(exchange.step, "gave_up", reason)
        # A write that failed has changed nothing: it is told as a failure.
        if calls.effect_of(name, facts) != "write" or calls.ends_run(name) or exchange.failed:
            continue
        yield Suspicion(exchange.step, "write", f"{name} changes the world")
        lacks = lacks_consent(trajectory, at)
        if lacks is not None:
            yield Suspicion(exchange.step, "unconfirmed", f"{name} without consent: {lacks}")
        if not judges or at in pairs or not calls.has_succeeded(exchange):
            continue
        kind: Kind = "wrong_write" if name in undone else "other_write"
        what = (
            "expected with other arguments" if name in undone else "not among the expected writes"
        )
        yield Suspicion(exchange.step, kind, f"{name} is {what}")


# Entries that organise. Of 20 labels on the tuning half of the hand-crafted Who&When runs 14 name
# the 198 messages, 7 the 694 plans, hand-offs and closing notes.
BY_KIND: dict[model.StepKind, float] = {"plan": 0.2, "handoff": 0.1, "other": 0.1}

ASSUMES = re.compile(
    r"(?i)\b(?:assum(?:e|es|ed|ing|ptions?)|simulat\w+|hypothetical\w*|placeholder|mock|dummy|"
    r"sample data|example data|for demonstration|let(?:'|\u2019)s say|pretend|illustrat\w+)\b"
)
CANNOT = re.compile(
    r"(?i)\b(?:cannot|can(?:'|\u2019)t|unable to|could not|couldn(?:'|\u2019)t|not able to|"
    r"did not find|didn(?:'|\u2019)t find|no results|not found|404|don(?:'|\u2019)t have access|"
    r"not available|no (?:specific )?information|does not (?:contain|provide|include)|"
    r"not accessible)\b"
)
# What every match holds one of: plain search finds some times faster that none is there.
ASSUMES_PARTS = (
    *"assum simulat hypothetical placeholder mock dummy pretend illustrat".split(),
    *("sample data", "example data", "for demonstration", "let's say", "let\u2019s say"),
)
CANNOT_PARTS = ("not", "n't", "n\u2019t", "no ", "unable to", "404")
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
# Digits, commas and points stay, all else separates. Two digits are counts, days, list numbers;
# from three characters on a figure is a fact.
_TO_FIGURES = bytes(c if c in b"0123456789,." else 32 for c in range(256))
FIGURE_CHARACTERS = 3
# One new figure may be a slip; two are data.
FIGURES = 2
# A quotation is cut to this: the step holds the whole.
QUOTE_CHARACTERS = 60
# Shorter messages ("TERMINATE", "Go on.") are turns of the protocol.
REPEAT_CHARACTERS = 16
# Messages that begin with other words are not the same one again.
FIRST_WORDS = 8


def suspicions_of_messages(trajectory: model.Trajectory) -> list[Suspicion]:
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


def _message(step: model.Step, text: str, lower: str, new: set[str]) -> Iterator[Suspicion]:
    assumes = _search(ASSUMES, ASSUMES_PARTS, text, lower)
    if assumes is not None:
        yield Suspicion(step.index, "assumed", f"assumes: {_quote(text, assumes)}")
    cannot = _search(CANNOT, CANNOT_PARTS, text, lower)
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
    pattern: re.Pattern[str], parts: Sequence[str], text: str, lower: str
) -> re.Match[str] | None:
    """Return the first match of a pattern of which every match holds one of some parts."""
    odd = not text.isascii() and any(letter in text for letter in _ODD_LETTERS)
    return pattern.search(text) if odd or any([part in lower for part in parts]) else None


def _code(steps: Sequence[model.Step]) -> Iterator[Suspicion]:
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
            reason = f"continues after the error at step {before.index}"
            yield Suspicion(here.index, "ignored", reason, (before.index,))


def _planner(steps: Sequence[model.Step]) -> Iterator[Suspicion]:
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


def _does_work(step: model.Step) -> bool:
    return step.actor == "agent" and step.kind == "message"


def _figures(text: str) -> set[str]:
    pieces = text.encode("utf-8", "replace").translate(_TO_FIGURES).split()
    found = [piece.strip(b",.").decode() for piece in pieces if len(piece) >= FIGURE_CHARACTERS]
    return {figure for figure in found if len(figure) >= FIGURE_CHARACTERS}


def _quote(text: str, match: re.Match[str]) -> str:
    start = max(match.start() - QUOTE_CHARACTERS // 2, 0)
    return f"“{' '.join(text[start : match.end() + QUOTE_CHARACTERS // 2].split())}”"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARACTERS else line[: REASON_CHARACTERS - 1] + "…"


# The table's name of the log of the factors, beside the features of `step_features`.
FACTORS_COLUMN = "factors"


class FittedTable(msgspec.Struct, frozen=True):
    """What of `localise.json` is read: weights for the columns of `step_features`, then factors."""

    weights: dict[features.Family, tuple[float, ...]]  # of a log score, of features as they are
    nobody: dict[features.Family, float]  # probability that no step of the agent is at fault
    # share of labelled runs in which a labelled step is among the first 1, 3 and 5 of the printed
    # list, on labels that fitted nothing; and how many runs
    reliability: dict[features.Family, tuple[float, float, float]]
    runs: dict[features.Family, int]


@cache
def read_table() -> FittedTable:
    """Return the fitted table of the package."""
    table = msgspec.json.decode(files("stepscope.measures").joinpath("localise.json").read_bytes())
    by_name = {feature["name"]: feature for feature in table["features"]}
    columns = [by_name.get(name) for name in (*features.NAMES, FACTORS_COLUMN)]
    weights = {
        family: tuple(
            0.0 if c is None else table["temperature"] * c["weights"][family] / c["scale"]
            for c in columns
        )
        for family in features.FAMILIES
    }
    figures = {family: table["figures"]["by_family"][family] for family in features.FAMILIES}
    return FittedTable(
        weights,
        {family: table["nobody"][family]["probability"] for family in features.FAMILIES},
        {f: (one["first"][0], one["three"][0], one["five"][0]) for f, one in figures.items()},
        {family: one["runs"] for family, one in figures.items()},
    )


_NAMES = LOCALISE_NAME, NOBODY_NAME = (LOCALISE_NAME, f"{LOCALISE_NAME}.nobody")
_PASSED = absences("not_applicable", "the run passed", *_NAMES)
_NO_OUTCOME = "nothing says whether the run failed (outcome)"
_UNKNOWN = absences("missing_input", _NO_OUTCOME, *_NAMES)
_NO_AGENT = absences("not_applicable", "no step of the run is the agent's", *_NAMES)
# What a feature says of a step at which nothing else was found.
SIGNS = {
    "source.request_missing": "its first message leaves out part of what was asked for",
    "closed.claim_unseen": "says what was found without a look at anything in between",
    "closed.final_most": "more of the final answer was first said here than anywhere else",
    "closed.new_figures": "brings figures into a run that answered",
    "closed.code_last": "the last code before the answer",
    "open.code_last": "the last code of a run that never answered",
    "open.cannot": "says that it cannot, in a run that never answered",
}
# From this much more log score than at the run's other steps on, a sign is told.
TELLING = 0.15
# What most failed runs have at some step: told where there is nothing else to tell.
USUAL = frozenset[Kind]({"write", "code", "end"})
NOTHING_FOUND = "no fault found at this step; ranked by its position only"


def find_evidence(
    trajectory: model.Trajectory, case: model.Case | None = None, facts: model.Facts | None = None
) -> list[Suspicion]:
    """Return what was found in a run, in its order, and that it ended where it ended."""
    if features.family_of(trajectory) == "calls":
        found = suspicions_of_calls(trajectory, case, facts)
    else:
        found = suspicions_of_messages(trajectory)
    own = features.agent_steps(trajectory)
    if own:
        found.append(Suspicion(own[-1], "end", "the last step of the agent in a failed run"))
    return found


def rank_by_table(run: model.Trajectory, found: Sequence[Suspicion]) -> list[model.Verdict]:
    """Return one answer for each step of the agent, the likeliest first.

    Its value is the log of the step's share among the agent's steps.
    """
    own = features.agent_steps(run)
    weights = read_table().weights[features.family_of(run)]
    factors = log_factors(run, found)
    # Runs with calls have weights for places only.
    places_only = not any(weights[len(features.PLACE_NAMES) : -1])
    rows = features.place_features(run) if places_only else features.step_features(run)
    scores = [
        sum(map(mul, weights, row)) + weights[-1] * factor
        for row, factor in zip(rows, factors, strict=True)
    ]
    most = max(scores)
    total = most + log(sum(exp(score - most) for score in scores))
    at: dict[int, list[Suspicion]] = {}
    for suspicion in dict.fromkeys(found):
        at.setdefault(suspicion.step, []).append(suspicion)
    signs = [""] * len(rows) if places_only else _signs(weights, rows)
    ranked = [
        _answer(step, min(score - total, 0.0), at.get(step, ()), sign)
        for step, score, sign in zip(own, scores, signs, strict=True)
    ]
    return sorted(ranked, key=lambda answer: (-(answer.value or 0.0), answer.step or 0))


def _signs(weights: Sequence[float], rows: Sequence[Sequence[float]]) -> list[str]:
    """Return what features say of each step, by the one that says most; "" for little."""
    best = [(TELLING, "")] * len(rows)
    for name, sign in SIGNS.items():
        column = features.NAMES.index(name)
        mean = sum(row[column] for row in rows) / len(rows)
        for at, row in enumerate(rows):
            gain = weights[column] * (row[column] - mean)
            if gain > best[at][0]:
                best[at] = gain, sign
    return [sign for _, sign in best]


def _answer(step: int, share: float, here: Sequence[Suspicion], sign: str) -> model.Verdict:
    if not here:
        found = sign or NOTHING_FOUND
        return model.Verdict(LOCALISE_NAME, share, "place", step, (step,), found)
    first: dict[Kind, Suspicion] = {}
    for suspicion in here:
        first.setdefault(suspicion.kind, suspicion)
    ordered = sorted(first.values(), key=lambda suspicion: -FACTORS[suspicion.kind])
    cites = tuple(sorted({step}.union(*(suspicion.cites for suspicion in ordered))))
    telling = [one for one in ordered if one.kind not in USUAL] or ordered
    reason = "; ".join([suspicion.reason for suspicion in telling])
    return model.Verdict(LOCALISE_NAME, share, ordered[0].kind, step, cites, reason)


def _localise(
    trajectory: model.Trajectory, case: model.Case | None, facts: model.Facts | None
) -> Iterable[model.Answer]:
    """Every step of the agent in a failed run, with how likely the run went wrong there; no judge.

    Per-step answers, one for each step of the agent, the likeliest first: value = the natural log
    of its share among the agent's steps, label = the strongest kind of evidence there (`place`
    where nothing was found), reason = what was found there. Whole run: how many steps were ranked;
    `.nobody` = the probability that no step of the agent is at fault (environment, user, checker,
    or not seen), label = the family of runs that it was counted on. How often the first is the
    one that people name: docs/explanation/localise.md. Refused: runs that did not fail.
    """
    if trajectory.outcome.status != "fail":
        return _PASSED if trajectory.outcome.status == "pass" else _UNKNOWN
    if not features.agent_steps(trajectory):
        return _NO_AGENT
    ranked = rank_by_table(trajectory, find_evidence(trajectory, case, facts))
    first, family = ranked[0], features.family_of(trajectory)
    said, cites = f"first step {first.step}: {first.reason}", (first.step or 0,)
    whole = model.Verdict(LOCALISE_NAME, float(len(ranked)), first.label, cites=cites, reason=said)
    return (whole, model.Verdict(NOBODY_NAME, read_table().nobody[family], label=family), *ranked)


_SCALE = model.Scale(-inf, inf, (*KINDS, *features.FAMILIES))
LOCALISE = RuleMeasure(LOCALISE_NAME, "9", _SCALE, ("alternatives", "effects"), _localise)
