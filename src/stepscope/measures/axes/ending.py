"""Whether the run ended when it should: not past a goodbye, nor on an error, limit or promise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stepscope.measures.calls import agent_calls, ends_run, escalates_to_person
from stepscope.measures.conduct import find_decision
from stepscope.measures.errors import TRANSIENT, admits_failure, executions_of, first_line
from stepscope.measures.outcome import LIMITS
from stepscope.measures.rule import (
    AXIS_SCALE,
    Fault,
    RuleMeasure,
    fault_answers,
    faultless_answer,
    not_applicable,
)
from stepscope.measures.same_calls import is_same_purpose, program_of
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
    or on a limit, as its recorder says; an act that is announced, and no call follows; giving up
    after one error that another try may mend; a farewell in answer to a request. Otherwise
    uncertain: who closed the run is said, and whether all was done is not for rules to say (the
    measure `termination` asks the case).
    """
    steps = trajectory.steps
    if not steps:
        return not_applicable(TERMINATION_NAME, "the run has no steps")
    closing = _closing_message(steps)
    faults = [
        *_calls_after_closing(trajectory, closing),
        *_cut_short(trajectory),
        *_unkept_promises(trajectory),
        *_gave_up(trajectory),
        *_ended_on_request(trajectory),
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


def _unkept_promises(trajectory: Trajectory) -> Iterator[Fault]:
    """Yield the last announcement of an act that no call came after.

    Announced and then refused, or taken back by the user, is no promise left open.
    """
    steps = trajectory.steps
    calls = [s.index for s in steps if s.actor == "agent" and (s.results or _acts(s))]
    # A run that only talks may keep its promises in words; the last of them is left open.
    last = next((s.index for s in reversed(steps) if s.actor == "agent"), -1)
    after = calls[-1] if calls else last - 1
    for step in reversed(steps[after + 1 :]):
        text = step.text
        if step.actor == "user" and find_decision(text) in ("takes back", "refuses"):
            return
        if step.actor != "agent" or not text or (step.calls and step.index == last):
            continue
        if step.index != last and admits_failure(text):
            return
        # "Let me know" announces nothing, and ends most messages.
        lower = text.lower().replace("let me know", "")
        if not any(start in lower for start in STARTS):
            continue
        if not any(match[1].casefold() in ACTS for match in ANNOUNCES.finditer(text)):
            continue
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", text):
            match = ANNOUNCES.search(sentence)
            if match and match[1].casefold() in ACTS and not IF.search(sentence):
                reason = f"announces and never does it: {sentence.strip()[:100]!r}"
                yield Fault(step.index, reason)
                return


def _acts(step: Step) -> bool:
    """True if a step makes a call that does more than end the run."""
    return any(not ends_run(c.name) or escalates_to_person(c.name) for c in step.calls)


# Gives up, and says that something technical is why: no rule and no wish of the user.
GIVES_UP = re.compile(
    r"\b(?:cannot|can(?:'|\u2019)?t|can not|could not|couldn(?:'|\u2019)t|unable to|not able to) "
    r"(?:be )?(?:continue|proceed|help|assist|complete|finish|do|solve|go on|process|access|"
    r"retrieve|create|answer|look|fulfil|handle)\w*\b(?! (?:yet|until|before))|\bgiv(?:e|ing) up\b|"
    r"\bnothing (?:more |else )?(?:i|we) can\b|\bstop(?:ping)? here\b|\btry again later\b|"
    r"\b(?:end|close) (?:the|this) (?:task|conversation|chat)\b|\b(?:no|see a) way\b|"
    r"\b(?:another|some other) (?:day|time)\b",
    re.IGNORECASE,
)
TECHNICAL = re.compile(
    r"\b(?:errors?|technical|system|problem|issue|fail\w*|unavailable|timed? out|went wrong|"
    r"trouble|not work\w*|crash\w*)\b",
    re.IGNORECASE,
)


def _gave_up(trajectory: Trajectory) -> Iterator[Fault]:
    """Yield the message that gives up after the first error of a call that no other call follows.

    Only where trying again is what anybody would do: the error says that it passes, or a command
    failed as commands do. An order that is not found, and a rule that refuses, end a task rightly.
    """
    made = agent_calls(trajectory) or executions_of(trajectory)
    if not made or not made[-1].failed:
        return
    error = made[-1]
    said = first_line(error.result)
    if not TRANSIENT.search(said) and program_of(error.call) is None:
        return
    if sum(x.failed and is_same_purpose(x.call, error.call) for x in made) > 1:
        return
    for step in trajectory.steps[error.answer_step + 1 :]:
        if step.actor == "agent" and step.text:
            said_why = TECHNICAL.search(step.text) and "?" not in step.text
            if said_why and GIVES_UP.search(step.text):
                why = f"gives up after one error of {error.call.name}: {said}"
                yield Fault(step.index, why, (error.step, error.answer_step))
            return


# How agents end a conversation. Offers of more help end none.
FAREWELL = re.compile(
    r"\b(?:good)?bye\b|\bhave a (?:great|good|nice|lovely|wonderful) \w+|\btake care\b|"
    r"\b(?:glad|happy) (?:that )?i could (?:help|assist)\b|"
    r"\bwe(?:'|\u2019)?re (?:all )?(?:done|finished)\b|"
    r"\bthank you for (?:contacting|reaching|calling|choosing)\b|"
    r"\b(?:all|everything) (?:is |has been )?(?:settled|set|done|in place|taken care of)\b",
    re.IGNORECASE,
)
REFUSAL = re.compile(
    r"\b(?:unable|cannot|unfortunately|sorry|policy|not (?:able|possible|allowed|eligible)|regret|"
    r"transfer\w*)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
# Longer farewells say more than goodbye: whether that is the answer is not for rules.
LONG_FAREWELL = 300
# A user who wants something done, and not just to know.
REQUESTS = re.compile(
    r"\b(?:(?:can|could|would|will) you|please|i(?:'|\u2019)?d (?:like|prefer|rather)|"
    r"let(?:'|\u2019)?s|i(?:'|\u2019)?ll (?:take|go|only)|i (?:would like|want|need)|"
    r"go ahead|proceed)\b[^.?!\n]*?\b(?:"
    + "|".join(sorted(ACTS | {"go ahead", "proceed", "take", "option", "finalize", "refund"}))
    + r")(?:ing)?\b",
    re.IGNORECASE,
)
WANTS_DETAILS = re.compile(
    r"\b(?:provide|specify|let me know (?:which|what|your|the)|tell me|what is your|"
    r"which (?:one|of)|i(?:'|\u2019)?ll need|confirm (?:your|which|the))\b",
    re.IGNORECASE,
)
THANKS = re.compile(
    r"\bthank|\bthat(?:'|\u2019)?s (?:all|it|everything|great|perfect|good|fine)\b|\bappreciate\b|"
    r"\bnothing\b|\bhelpful\b",
    re.IGNORECASE,
)


def _ended_on_request(trajectory: Trajectory) -> Iterator[Fault]:
    """Yield the farewell that answers a request, or the details that the agent had asked for.

    A farewell after a call, a refusal, thanks or a question to the user leaves nothing open.
    """
    steps = trajectory.steps
    talk = [s for s in steps if s.actor in ("agent", "user") and (s.text or s.calls)]
    for at in range(len(talk) - 1, 0, -1):
        here, heard, text = talk[at], talk[at - 1], talk[at - 1].text
        if here.actor != "agent":
            continue
        if here.calls or heard.actor != "user" or not FAREWELL.search(here.text):
            return
        if (
            "?" in here.text
            or REFUSAL.search(here.text)
            or CLOSES.search(text)
            or STOP.search(text)
        ):
            return
        asks = [s for s in re.split(r"(?<=[.!?])\s+|\n+", text) if REQUESTS.search(s)]
        asked = talk[at - 2].text if at > 1 and talk[at - 2].actor == "agent" else ""
        answers = (
            WANTS_DETAILS.search(asked) is not None
            and THANKS.search(text) is None
            and find_decision(text) not in ("refuses", "takes back")
        )
        if (asks or answers) and len(here.text) <= LONG_FAREWELL:
            why = f"says goodbye in answer to {(asks or [text])[-1].strip()[:100]!r}"
            yield Fault(here.index, why, (heard.index,))
        return


TERMINATION = RuleMeasure(TERMINATION_NAME, "2", AXIS_SCALE, ("effects",), _termination)
