"""Tool errors, with where the belief comes from, what the agent did about each; labels of steps.

Tool results count, paired with their calls, and in runs without calls what came of code in
messages. Where no result of a run says ok or error the count is unmeasured, not 0. Two errors are
the same where tool and message agree (`calls.compared_error`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from stepscope.measures.calls import (
    compared_error,
    effect_of,
    error_message,
    escalates_to_person,
    failed_calls,
    has_succeeded,
)
from stepscope.measures.language import admits_failure
from stepscope.measures.rule import (
    RuleMeasure,
    absences,
    cached_on_run,
    cached_with_facts,
    one_a_step,
    step_answer,
)
from stepscope.measures.same_calls import is_same_purpose, overlaps, redundant_calls, same_key
from stepscope.model import (
    Answer,
    Case,
    Exchange,
    Facts,
    ResultStatus,
    Scale,
    Step,
    ToolCall,
    ToolResult,
    Trajectory,
    Verdict,
)
from stepscope.model.records import STEP_LABELS_NAME
from stepscope.model.trajectory import call_key, with_exit_status

# A reason is one line of a table; the whole text stands at the step cited.
REASON_CHARACTERS = 120

# The strongest first.
BELIEFS: tuple[str, ...] = ("explicit", "protocol", "heuristic", "none")

NO_STATUS = "no tool result says whether it is ok or an error"
_ERRORS_WITHOUT_STATUS = absences("missing_input", NO_STATUS, "errors")
_NONE = (Verdict("errors", 0.0),)

# Shorter than any key, in whatever form it is written.
_LONG_WORD = 20


def first_line(result: ToolResult | None) -> str:
    """Return what an error says, cut to a table's width.

    A long word is left out whole: of one that is cut nobody could tell that it was a secret.
    """
    line = error_message(result)
    if len(line) <= REASON_CHARACTERS:
        return line
    cut = line[: REASON_CHARACTERS - 1]
    head, _, word = cut.rpartition(" ")
    if len(word) <= _LONG_WORD:
        return cut + "…"
    return (head or f"a word of {len(line.split()[0]):,} characters") + "…"


@cached_on_run
def executions_of(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Return the code that a run without tool calls has in its messages, each with its outcome.

    An entry of the environment answers the latest message of an agent that holds a block of code;
    what a format makes of its text is the outcome. A message that carries a result itself ran what
    it says. Runs with calls have their code there.
    """
    if trajectory.exchanges:
        return ()
    found: list[Exchange] = []
    written: Step | None = None
    for step in trajectory.steps:
        if step.actor == "agent" and step.results:
            told = with_exit_status(step.results[0])
            call = ToolCall("code", {"code": step.text}, kind="builtin")
            found.append(Exchange(len(found), step.index, call, step.index, told, call_key(call)))
        elif step.actor == "agent" and _FENCE in step.text:
            written = step
        elif step.actor == "environment" and (written is not None or step.error is not None):
            blocks = written.text.split(_FENCE)[1::2] if written is not None else []
            code = "\n".join([block.strip() for block in blocks])
            status: ResultStatus = "ok" if step.error is None else "error"
            result = ToolResult(None, "code", step.parts, None, status, "heuristic", step.error)
            call = ToolCall("code", {"code": code} if code else None, kind="builtin")
            at = step.index if written is None else written.index
            found.append(Exchange(len(found), at, call, step.index, result, f"code\0{code}"))
            written = None
    return tuple(found)


_FENCE = "```"


def has_known_status(exchanges: Sequence[Exchange]) -> bool:
    """True if any result says ok or error; true where there is no call to say it of."""
    known = (x.result is not None and x.result.status != "unknown" for x in exchanges)
    return not exchanges or any(known)


def _errors(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Tool errors, each with where the belief comes from: explicit flag, protocol or heuristic.

    Tool results count, paired with their calls; in a run without calls what the environment
    answered to code in messages. Where no result of a run says ok or error the count is unmeasured,
    not 0.
    """
    exchanges = trajectory.exchanges or executions_of(trajectory)
    failed = [exchange for exchange in exchanges if exchange.failed]
    if not failed:
        return _NONE if has_known_status(exchanges) else _ERRORS_WITHOUT_STATUS
    cites = tuple(sorted({exchange.answer_step for exchange in failed}))
    said = f"{len(failed)} of {len(exchanges)} calls; first: {first_line(failed[0].result)}"
    whole = Verdict("errors", float(len(failed)), cites=cites, reason=said)
    each = [
        Verdict("errors", None, x.result.source, x.answer_step, (x.step,), first_line(x.result))
        for x in sorted(failed, key=lambda exchange: exchange.answer_step)
        if x.result is not None
    ]
    return (whole, *one_a_step(each, lambda labels: min(labels, key=BELIEFS.index)))


ERRORS = RuleMeasure("errors", "3", Scale(0.0, inf, BELIEFS), (), _errors)


# What a tool says when the same call may well work the next time.
TRANSIENT = re.compile(
    r"(?i)time[d]?[ -]?out|temporar|rate.?limit|too many requests|try again|unavailable|overloaded|"
    r"connection|network|\b(?:retry|repeat the|in time|busy|locked|deadlock|upstream|gateway|"
    r"throttl\w+|maintenance|seconds?|429|500|502|503|504|529)\b"
)


REACTIONS = ("recovered", "replanned", "reported", "repeated", "ignored")
# Two: one call to look up what was wrong, one to try again.
FURTHER_CALLS = 2
# So many successful calls are looked through for one that served instead.
LATER_CALLS = 100
_NAMES = ("recovery", "recovery.recovered")
NO_ERRORS = absences("not_applicable", "no tool call failed", *_NAMES)
_RECOVERY_WITHOUT_STATUS = absences("missing_input", NO_STATUS, *_NAMES)


class Reaction(NamedTuple):
    """What followed one error: the label, the step that shows it (None: nothing followed), why."""

    error: Exchange
    label: str
    step: int | None
    reason: str


def _recovery(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """What the agent did about each tool error, the best of five that holds.

    `recovered`: a later call with the same purpose (the same tool and, in a shell, the same
    program; or an alternative declared in `stepscope.toml`) succeeds within two further calls.
    `replanned`: later still, or by another tool of the same effect, a call about the same thing (at
    least half of the failed call's arguments recur, or the tools differ only in what they look
    `_by_`) succeeds. `reported`: before it changes anything else the agent tells the user of it, or
    escalates. `repeated`: within two further calls the same call brings the same error. `ignored`:
    it went on as if it had worked.

    Aspects: `recovery` share of errors recovered; `recovery.recovered` their count, to be pooled
    over a fleet; per error one answer at the step of the error.
    """
    exchanges = trajectory.exchanges
    if not failed_calls(trajectory):
        return NO_ERRORS if has_known_status(exchanges) else _RECOVERY_WITHOUT_STATUS
    reactions = list(reactions_of(trajectory, facts).values())
    n_recovered = sum(reaction.label == "recovered" for reaction in reactions)
    left = tuple(sorted({r.error.answer_step for r in reactions if r.label != "recovered"}))
    said = f"{n_recovered} of {len(reactions)} errors recovered"
    each = sorted(map(_answer, reactions), key=lambda answer: answer.step or 0)
    return (
        Verdict("recovery", n_recovered / len(reactions), cites=left, reason=said),
        Verdict("recovery.recovered", float(n_recovered)),
        *one_a_step(each, lambda labels: max(labels, key=REACTIONS.index)),
    )


def _answer(reaction: Reaction) -> Verdict:
    error = reaction.error
    cites = (error.step,) if reaction.step is None else (error.step, reaction.step)
    said = f"{reaction.reason}: {first_line(error.result)}"
    return Verdict("recovery", None, reaction.label, error.answer_step, cites, said)


@cached_with_facts
def reactions_of(trajectory: Trajectory, facts: Facts | None) -> dict[int, Reaction]:
    """Return how the agent reacted to each failed exchange, by the index of the exchange."""
    if not failed_calls(trajectory):
        return {}
    steps, exchanges = trajectory.steps, trajectory.exchanges
    succeeded = [exchange for exchange in exchanges if has_succeeded(exchange)]
    read = min(error.answer_step for error in failed_calls(trajectory))
    reports = list(_list_reports(steps[read + 1 :], facts))
    # Of calls that ask the same, the same later calls are about the same thing: where the search
    # for one went to, and whether it was found there.
    looked: dict[str, tuple[int, bool]] = {}
    reactions = {}
    for error in failed_calls(trajectory):
        after = bisect_right(succeeded, error.position, key=lambda x: x.position)
        at, found = looked.get(error.key, (0, False))
        if at < after or not found:
            at = max(at, after)
            end = min(at + LATER_CALLS, len(succeeded))
            while at < end and not _serves(succeeded[at], error, facts):
                at += 1
            found = at < end
            looked[error.key] = at, found
        said = bisect_right(reports, error.answer_step, key=lambda report: report[0])
        served = succeeded[at] if found else None
        report = reports[said] if said < len(reports) else None
        reactions[error.position] = _react(trajectory, error, served, report, facts)
    return reactions


def _serves(again: Exchange, error: Exchange, facts: Facts | None) -> bool:
    """True if a call, made later, would be about the same thing as a failed one."""
    name, tool = again.call.name, error.call.name
    if effect_of(name, facts) != effect_of(tool, facts):
        return False
    # Two lookups may differ only in their key: find_user_by_email, find_user_by_zip.
    stem, by, _ = name.partition("_by_")
    if by and name != tool and tool.startswith(stem + by):
        return True
    return overlaps(error.call.arguments, again.call.arguments)


def _react(
    trajectory: Trajectory,
    error: Exchange,
    served: Exchange | None,
    report: tuple[int, str] | None,
    facts: Facts | None,
) -> Reaction:
    at = error.position + 1
    further = trajectory.exchanges[at : at + FURTHER_CALLS]
    tool = error.call.name
    alternatives = facts.alternatives.get(tool, ()) if facts is not None else ()
    for again in further:
        if has_succeeded(again) and (
            is_same_purpose(error.call, again.call) or again.call.name in alternatives
        ):
            return Reaction(error, "recovered", again.step, f"{again.call.name} then succeeded")
    if served is not None:
        how = "succeeded later" if served.call.name == tool else "served instead"
        return Reaction(error, "replanned", served.step, f"{served.call.name} {how}")
    if report is not None and report[1]:
        return Reaction(error, "reported", *report)
    for again in further:
        if again.failed and same_key(again) == same_key(error):
            if compared_error(again) == compared_error(error):
                return Reaction(error, "repeated", again.step, "the same call, the same error")
    went_on = _describe_next(trajectory.steps, error)
    return Reaction(error, "ignored", further[0].step if further else None, went_on)


def _list_reports(steps: Sequence[Step], facts: Facts | None) -> Iterator[tuple[int, str]]:
    """Yield the agent's entries that decide whether an error before them is reported, and how.

    An entry decides by admitting a failure, by escalating, or ("") by doing or saying anything else
    than reading on.
    """
    for entry in steps:
        if entry.actor != "agent":
            continue
        escalated = next((c.name for c in entry.calls if escalates_to_person(c.name)), None)
        if escalated is not None:
            yield entry.index, f"escalated by {escalated}"
        elif entry.text and admits_failure(entry.text):
            yield entry.index, "told the user"
        elif not entry.calls or any(effect_of(c.name, facts) != "read" for c in entry.calls):
            yield entry.index, ""


def _describe_next(steps: Sequence[Step], error: Exchange) -> str:
    for at in range(error.answer_step + 1, len(steps)):
        if steps[at].actor == "agent":
            calls = steps[at].calls
            return "went on with other calls" if calls else "the next message says nothing of it"
    return "the run ends on it"


_LEARNS = ("alternatives", "effects")
RECOVERY = RuleMeasure("recovery", "3", Scale(0.0, inf, REACTIONS), _LEARNS, _recovery)


ERROR, REDUNDANT = LABELS = ("ERROR", "REDUNDANT")

_ASPECTS = _ERROR_COUNT, _REDUNDANT_COUNT, _STEP_COUNT = (
    f"{STEP_LABELS_NAME}.errors",
    f"{STEP_LABELS_NAME}.redundant",
    f"{STEP_LABELS_NAME}.steps",
)
_NO_STEPS = absences("not_applicable", "the agent did nothing", STEP_LABELS_NAME, *_ASPECTS)
_NO_LABELS = (Verdict(_ERROR_COUNT, 0.0), Verdict(_REDUNDANT_COUNT, 0.0))


def _labels(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Labels of steps, where rules can know: REDUNDANT and ERROR; all others are uncertain.

    REDUNDANT: every call of the step repeats one whose answer still holds (`redundant_calls`).
    ERROR: a call of the step failed, and not by bad luck that a retry would mend (a timeout, a rate
    limit). No rule claims PROGRESS or DETOUR: whether a step helped is for judges.

    Aspects: `step_labels` how many of the agent's steps have a label; `.errors`, `.redundant`
    counts; `.steps` how many steps the agent made, each cited: where a label could stand. Source of
    the labels: the categories of trajectory judges that label every step.
    """
    acted = tuple([step.index for step in trajectory.steps if step.actor == "agent"])
    if not acted:
        return _NO_STEPS
    errors: dict[int, str] = {}
    for exchange in failed_calls(trajectory):
        said = first_line(exchange.result)
        if exchange.call.requestor == "agent" and not TRANSIENT.search(said):
            errors.setdefault(exchange.step, f"{exchange.call.name} failed: {said}")
    again: dict[int, list[int]] = {}
    for repeat, earlier in redundant_calls(trajectory.exchanges, facts):
        again.setdefault(repeat.step, []).append(earlier.step)
    where = Verdict(_STEP_COUNT, float(len(acted)), cites=acted)
    if not errors and not again:
        why = f"0 ERROR, 0 REDUNDANT, {len(acted)} uncertain"
        return (Verdict(STEP_LABELS_NAME, 0.0, reason=why), *_NO_LABELS, where)
    twice = {
        step: sources
        for step, sources in again.items()
        if step not in errors and len(sources) == len(trajectory.steps[step].calls)
    }
    labelled = {at: step_answer(STEP_LABELS_NAME, ERROR, at, why) for at, why in errors.items()}
    for at, sources in twice.items():
        cites, why = (*sorted(set(sources)), at), f"repeats {min(sources)}"
        labelled[at] = Verdict(STEP_LABELS_NAME, None, REDUNDANT, at, cites, why)
    left = len(acted) - len(labelled)
    why = f"{len(errors)} ERROR, {len(twice)} REDUNDANT, {left} uncertain"
    return (
        Verdict(STEP_LABELS_NAME, float(len(labelled)), cites=tuple(sorted(labelled)), reason=why),
        Verdict(_ERROR_COUNT, float(len(errors)), cites=tuple(sorted(errors))),
        Verdict(_REDUNDANT_COUNT, float(len(twice)), cites=tuple(sorted(twice))),
        where,
        *(labelled[at] for at in sorted(labelled)),
    )


STEP_LABELS = RuleMeasure(STEP_LABELS_NAME, "4", Scale(0.0, inf, LABELS), ("effects",), _labels)
