"""Whether the run ended when it should: not past a goodbye, nor on an error, limit or promise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stepscope.measures.calls import agent_calls, ends_run
from stepscope.measures.errors import first_line
from stepscope.measures.outcome import LIMITS
from stepscope.measures.rule import (
    AXIS_SCALE,
    Fault,
    RuleMeasure,
    fault_answers,
    faultless_answer,
    not_applicable,
)
from stepscope.model import Answer, Case, Facts, Step, Trajectory
from stepscope.model.effects import READS, WRITES

TERMINATION_NAME = "axes.termination"
# What a simulated user says to end a run (tau-bench), and nobody says by chance.
STOP = re.compile(r"#{2,}\s?STOP\s?#{2,}")
# How people say goodbye.
CLOSES = re.compile(
    r"\b(?:good)?bye\b|\bhave a (?:great|good|nice|lovely|wonderful) \w+|\btake care\b|"
    r"\bthat(?:'|\u2019)?s (?:all|everything|it)\b|\bthat is (?:all|everything|it)\b|"
    r"\bthat (?:was|will be|would be) (?:all|everything)\b|"
    r"\bnothing else\b|\bno (?:more|further|other) (?:questions|requests|help)\b|\ball set\b",
    re.IGNORECASE,
)
# A wish, or an answer that the agent is to act upon, in the same breath as thanks.
WISHES = re.compile(
    r"\?|\b(?:please|yes|yeah|yep|sure|ok|okay|can you|could you|would you|i(?:'|\u2019)?d like|"
    r"i would like|i want|i need|i(?:'|\u2019)ll (?:take|go)|let(?:'|\u2019)?s|go ahead|proceed|"
    r"but|also|except|confirm\w*)\b",
    re.IGNORECASE,
)
# "I will now cancel the order", "let me look", "I'm going to update".
ANNOUNCES = re.compile(
    r"\b(?:i(?:'|\u2019)ll|i will|i(?:'|\u2019)m going to|i am going to|let me|allow me to|i shall)"
    r"(?: now| just| first| quickly| also| go ahead and| proceed to| proceed with)* "
    r"(proceed|process|transfer|\w+)",
    re.IGNORECASE,
)
# Every announcement holds one of these.
STARTS = ("'ll", "\u2019ll", " will", "going to", "let me", "allow me", "shall")
# Conditions and offers: nothing is promised yet.
IF = re.compile(
    r"\?|\b(?:if|once|when|after|as soon as|would you|shall i|please (?:provide|confirm|let)|"
    r"let me know|before)\b",
    re.IGNORECASE,
)
ACTS = (
    READS
    | WRITES
    | frozenset(
        "proceed process transfer initiate start handle arrange complete look verify make".split()
    )
)


def _termination(
    trajectory: Trajectory, case: Case | None, facts: Facts | None
) -> Iterable[Answer]:
    """Did the run end when it should: not past the user's goodbye, on an error, limit or promise?

    Incorrect: calls after the user's closing message; a run that ends on a tool error, unanswered,
    or on a limit, as its recorder says; a last message that announces an act and nothing follows
    it. Otherwise uncertain: who closed the run is said, and whether all was done is not for rules
    to say (the measure `termination` asks the case).
    """
    steps = trajectory.steps
    if not steps:
        return not_applicable(TERMINATION_NAME, "the run has no steps")
    closing = _closing_message(steps)
    faults = [
        *_calls_after_closing(trajectory, closing),
        *_cut_short(trajectory),
        *_unkept_promises(steps, closing),
    ]
    if faults:
        return fault_answers(TERMINATION_NAME, faults)
    why, cites = "nobody closed the run", tuple[int, ...]()
    made = agent_calls(trajectory)
    if closing is not None:
        why, cites = "the user closed the conversation, and no call came after", (closing,)
    elif made and ends_run(made[-1].call.name) and not made[-1].failed:
        why, cites = f"the agent ended the run by {made[-1].call.name}", (made[-1].step,)
    why += "; no error, limit or open promise at the end; not judged: whether all was done"
    return faultless_answer(TERMINATION_NAME, why, cites)


def _closing_message(steps: tuple[Step, ...]) -> int | None:
    """Return the user's last message, if it says goodbye and the user says no more after it.

    The word that ends a simulation counts wherever it stands.
    """
    last = None
    for step in reversed(steps):
        if step.actor != "user":
            continue
        text = step.text
        if "STOP" in text and STOP.search(text):
            last = step.index
        elif last is None and text and CLOSES.search(text) and not WISHES.search(text):
            return step.index
        else:
            break
    return last


def _calls_after_closing(trajectory: Trajectory, closing: int | None) -> Iterator[Fault]:
    if closing is None:
        return
    for exchange in agent_calls(trajectory):
        name = exchange.call.name
        if exchange.step > closing and not ends_run(name):
            reason = f"calls {name} after the user closed the conversation at {closing}"
            yield Fault(exchange.step, reason, (closing,))


def _cut_short(trajectory: Trajectory) -> Iterator[Fault]:
    steps, said = trajectory.steps, trajectory.termination
    last = steps[-1].index
    if said and LIMITS.search(said):
        yield Fault(last, f"ended from outside: {said}")
    for exchange in reversed(trajectory.exchanges):
        if exchange.result_step != last:
            break
        if exchange.failed:
            yield Fault(
                last, f"ends on the error of {exchange.call.name}: {first_line(exchange.result)}"
            )
            break


def _unkept_promises(steps: tuple[Step, ...], closing: int | None) -> Iterator[Fault]:
    """Yield the last message where it announces an act that never came."""
    last = next((s for s in reversed(steps) if s.actor == "agent"), None)
    if last is None or last.calls or any(s.calls for s in steps[last.index + 1 :]):
        return
    text = last.text
    # "Let me know" announces nothing, and ends most messages.
    lower = text.lower().replace("let me know", "")
    if not any(start in lower for start in STARTS):
        return
    if not any(match[1].casefold() in ACTS for match in ANNOUNCES.finditer(text)):
        return
    for sentence in re.split(r"(?<=[.!?])\s+|\n+", text):
        match = ANNOUNCES.search(sentence)
        if match and match[1].casefold() in ACTS and not IF.search(sentence):
            yield Fault(last.index, f"announces and never does it: {sentence.strip()[:100]!r}")
            return


TERMINATION = RuleMeasure(TERMINATION_NAME, "2", AXIS_SCALE, ("effects",), _termination)
