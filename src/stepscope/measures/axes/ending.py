"""Whether the run ended when it should: not past a goodbye, nor on an error, limit or promise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stepscope.measures import rule
from stepscope.measures.calls import agent_calls, ends_run, escalates_to_person, has_succeeded
from stepscope.measures.conduct import asks_consent, find_decision, leaf_texts, messages_by_actor
from stepscope.measures.errors import TRANSIENT, executions_of, first_line
from stepscope.measures.language import (
    ACTS,
    ADDS,
    ADMITS,
    WANTS,
    Intention,
    admits_failure,
    content_stems,
    find_intentions,
    sentences,
)
from stepscope.measures.outcome import LIMITS
from stepscope.measures.same_calls import is_same_purpose, program_of
from stepscope.model import Answer, Case, Facts, Step, Trajectory
from stepscope.model.effects import words_of

TERMINATION_NAME = "axes.termination"
# So many promises of a run are followed to its end.
MOST_PROMISES = 50
# So much of a result is looked through for what was promised.
RESULT_CHARACTERS = 2000
# What a simulated user says to end a run (tau-bench), and nobody says by chance.
STOP = re.compile(r"#{2,}\s?STOP\s?#{2,}")
# How people say goodbye.
CLOSES = re.compile(
    r"(?i)\b(?:good)?bye\b|\bhave a (?:great|good|nice|lovely|wonderful) \w+|\btake care\b|"
    r"\bthat(?:'|\u2019)?s (?:all|everything|it)\b|\bthat is (?:all|everything|it)\b|"
    r"\bthat (?:was|will be|would be) (?:all|everything)\b|"
    r"\bnothing else\b|\bno (?:more|further|other) (?:questions|requests|help)\b|\ball set\b"
)
# A wish, or an answer that the agent is to act upon, in the same breath as thanks.
WISHES = re.compile(
    r"(?i)\?|\b(?:please|yes|yeah|yep|sure|ok|okay|can you|could you|would you|i(?:'|"
    r"\u2019)?d like|i would like|i want|i need|i(?:'|\u2019)ll (?:take|go)|let(?:'|\u2019)?s|"
    r"go ahead|proceed|but|also|except|confirm\w*)\b"
)


def _ending(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Did the run end when it should: not past the user's goodbye, on an error, limit or promise?

    Incorrect: calls after the user's closing message; a run that ends on a tool error, unanswered,
    or on a limit, as its recorder says; an act that is announced, and no call follows or nothing is
    heard of it again; giving up after one error that another try may mend; a farewell in answer to
    a request; one thing more that was asked for, and nobody came back to. Otherwise
    uncertain: who closed the run is said, and whether all was done is not for rules to say (the
    measure `termination` asks the case).
    """
    steps = trajectory.steps
    if not steps:
        return rule.not_applicable(TERMINATION_NAME, "the run has no steps")
    closing = _closing_message(steps)
    faults = [
        *_calls_after_closing(trajectory, closing),
        *_cut_short(trajectory),
        *_unkept_promises(trajectory),
        *_gave_up(trajectory),
        *_ended_on_request(trajectory),
        *_never_dealt_with(trajectory),
    ]
    if faults:
        return rule.fault_answers(TERMINATION_NAME, faults)
    why, cites = "nobody closed the run", tuple[int, ...]()
    made = agent_calls(trajectory)
    if closing is not None:
        why, cites = "the user closed the conversation, and no call came after", (closing,)
    elif made and ends_run(made[-1].call.name) and not made[-1].failed:
        why, cites = f"the agent ended the run by {made[-1].call.name}", (made[-1].step,)
    why += "; no error, limit or open promise at the end; not judged: whether all was done"
    return rule.faultless_answer(TERMINATION_NAME, why, cites)


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


def _calls_after_closing(trajectory: Trajectory, closing: int | None) -> Iterator[rule.Fault]:
    if closing is None:
        return
    for exchange in agent_calls(trajectory):
        name = exchange.call.name
        if exchange.step > closing and not ends_run(name):
            reason = f"calls {name} after the user closed the conversation at {closing}"
            yield rule.Fault(exchange.step, reason, (closing,))


def _cut_short(trajectory: Trajectory) -> Iterator[rule.Fault]:
    steps, said = trajectory.steps, trajectory.termination
    last = steps[-1].index
    if said and LIMITS.search(said):
        yield rule.Fault(last, f"ended from outside: {said}")
    for x in reversed(trajectory.exchanges):
        if x.result_step != last:
            break
        if x.failed:
            yield rule.Fault(last, f"ends on the error of {x.call.name}: {first_line(x.result)}")
            break


def _unkept_promises(trajectory: Trajectory) -> Iterator[rule.Fault]:
    """Yield the announcement of an act that no call came after, the last, and those forgotten.

    Announced and then refused, or taken back by the user, is no promise left open.
    """
    steps = trajectory.steps
    acting = any(step.calls or step.results for step in steps)
    done = (s.index for s in reversed(steps) if s.actor == "agent" and (s.results or _acts(s)))
    # A run that only talks may keep its promises in words; the last of them is left open.
    last = next((s.index for s in reversed(steps) if s.actor == "agent"), -1)
    after = next(done, last - 1)
    texts = trajectory.texts
    for step in reversed(steps[after + 1 :]):
        text = texts[step.index]
        if step.actor != "agent" or not text or (step.calls and step.index == last):
            continue
        if step.index != last and admits_failure(text):
            break
        planned = [one for one in find_intentions(text) if acting or one.verb in ACTS]
        if planned:
            heard = [texts[s.index] for s in steps[step.index + 1 :] if s.actor == "user"]
            if any(find_decision(said) in ("takes back", "refuses") for said in heard):
                break
            yield rule.Fault(step.index, f"announces and never does it: {planned[-1].said[:100]!r}")
            return
    if acting:
        yield from _forgotten_promises(trajectory)


def _forgotten_promises(trajectory: Trajectory) -> Iterator[rule.Fault]:
    """Yield the announcements of which nothing is heard again: no call, no word of the agent.

    What was proposed and not agreed to is no promise, and a call that comes at once keeps it.
    """
    steps = trajectory.steps
    answer, acts_next = "", False
    open_promises: list[tuple[Step, Intention]] = []
    texts = trajectory.texts
    for step, text in zip(reversed(steps), reversed(texts), strict=True):
        acts = bool(step.calls or step.results)
        if step.actor == "user":
            answer, acts_next = text or answer, False
        elif step.actor == "agent":
            said = find_intentions(text) if text and not acts and not acts_next else ()
            open_promises += [(step, one) for one in said if _is_settled(one, text, answer)]
            acts_next = acts or (acts_next and not text)
    for step, one in open_promises[-MOST_PROMISES:]:
        about = content_stems(one.object)
        if not about:
            # "I'll find that out" is about what was asked.
            asked = [x for x in steps[max(step.index - 2, 0) : step.index] if x.actor == "user"]
            heard = texts[asked[-1].index] if asked else ""
            about = content_stems(heard) if "?" in heard else about
        if about and _is_open(about, steps[step.index + 1 :], most=0.5):
            why = f"announces and never comes back to it: {one.said[:100]!r}"
            yield rule.Fault(step.index, why)


def _is_settled(promise: Intention, text: str, answer: str) -> bool:
    """True if a promise stands whatever else its message asks, or the user agreed to it."""
    decision = find_decision(answer)
    aside = ADDS.search(promise.said) is not None or "?" in text[: text.find(promise.said)]
    # What is about nothing else that the message is about waits for no answer to it.
    about, beside = content_stems(promise.object), content_stems(text.replace(promise.said, " ", 1))
    # "Shall I?" is about the promise itself.
    aside = aside or (bool(about) and len(beside) > 2 and about.isdisjoint(beside))
    open_yet = asks_consent(text) and not aside
    return decision == "agrees" or (decision in ("", "asks back") and not open_yet)


def _acts(step: Step) -> bool:
    """True if a step makes a call that does more than end the run."""
    return any(not ends_run(c.name) or escalates_to_person(c.name) for c in step.calls)


# A check that fails and is told so ends nothing: who has done something says that this is the end.
QUITS = re.compile(
    r"(?i)\b(?:stop|end|close|terminate|give up|giving up|abandon|leave)\b|"
    r"(?:\b(?:cannot|can not|unable|no|not|never|impossible|without)\b|n['\u2019]t\b)[^.\n]{0,40}\b"
    r"(?:complet\w+|solv\w+|continu\w+|proceed\w*|answer\w*|help|task|go on|do (?:this|it)|way)\b"
)
# What a rule, or a thing that is gone, refuses for good.
FOR_GOOD = re.compile(
    r"(?i)\b(?:permanent\w*|restrict\w*|forbidden|not allowed|deleted|policy|only|human|permission|"
    r"authori[sz]ed)\b"
)


def _gave_up(trajectory: Trajectory) -> Iterator[rule.Fault]:
    """Yield where the agent stops at the first error of a call that no other call follows.

    Only where trying again is what anybody would do: the error says that it passes, or a command
    failed as commands do; and the agent says so and asks nothing, or hands the matter on. An order
    that is not found, and a rule that refuses, end a task rightly.
    """
    every = agent_calls(trajectory) or executions_of(trajectory)
    made = [x for x in every if not ends_run(x.call.name)]
    if not made or not made[-1].failed:
        return
    error = made[-1]
    said = first_line(error.result)
    mends_itself = TRANSIENT.search(said) is not None
    runs = program_of(error.call) is not None or not agent_calls(trajectory)
    if not (mends_itself or runs) or FOR_GOOD.search(said):
        return
    if sum(x.failed and is_same_purpose(x.call, error.call) for x in made) > 1:
        return
    behind = [s for s in trajectory.steps[error.answer_step + 1 :] if s.actor == "agent"]
    # Agents that only talk go on in words.
    for step in behind if agent_calls(trajectory) or len(behind) == 1 else ():
        if not (step.text or step.calls):
            continue
        told = "\n".join([step.text, *(t for c in step.calls for t in leaf_texts(c.arguments))])
        hands_on = any(escalates_to_person(call.name) for call in step.calls)
        achieved = not agent_calls(trajectory) or any(has_succeeded(x) for x in every)
        achieved = achieved and not mends_itself
        quits = QUITS if achieved else ADMITS
        if hands_on or (not step.calls and quits.search(told) and "?" not in told):
            why = f"gives up after one error of {error.call.name}: {said}"
            yield rule.Fault(step.index, why, (error.step, error.answer_step))
        return


# How agents end a conversation. Offers of more help end none.
FAREWELL = re.compile(
    r"(?i)\b(?:good)?bye\b|\bhave a (?:great|good|nice|lovely|wonderful) \w+|\btake care\b|"
    r"\b(?:glad|happy) (?:that )?i could (?:help|assist)\b|"
    r"\bwe(?:'|\u2019)?re (?:all )?(?:done|finished)\b|"
    r"\bthank you for (?:contacting|reaching|calling|choosing)\b|"
    r"\b(?:all|everything) (?:is |has been )?(?:settled|set|done|in place|taken care of)\b"
)
REFUSAL = re.compile(
    r"(?i)\b(?:unable|cannot|unfortunately|sorry|policy|not (?:able|possible|allowed|eligible)|"
    r"regret|transfer\w*)\b|n['\u2019]t\b"
)
# Longer farewells say more than goodbye: whether that is the answer is not for rules.
LONG_FAREWELL = 300
WANTS_DETAILS = re.compile(
    r"(?i)\b(?:provide|specify|let me know (?:which|what|your|the)|tell me|what is your|"
    r"which (?:one|of)|i(?:'|\u2019)?ll need|confirm (?:your|which|the))\b"
)
THANKS = re.compile(
    r"(?i)\bthank|\bthat(?:'|\u2019)?s (?:all|it|everything|great|perfect|good|fine)\b|"
    r"\bappreciate\b|\bnothing\b|\bhelpful\b"
)


def _ended_on_request(trajectory: Trajectory) -> Iterator[rule.Fault]:
    """Yield the farewell that answers a request, or the details that the agent had asked for.

    A farewell after a call, a refusal, thanks or a question to the user leaves nothing open.
    """
    back = zip(reversed(trajectory.steps), reversed(trajectory.texts), strict=True)
    talk = ((s, said) for s, said in back if s.actor in ("agent", "user") and (said or s.calls))
    nobody = (None, "")
    here, told = next((pair for pair in talk if pair[0].actor == "agent"), nobody)
    (heard, text), (before, asked) = next(talk, nobody), next(talk, nobody)
    if here is None or here.calls or heard is None or heard.actor != "user":
        return
    if "?" in told or not FAREWELL.search(told) or CLOSES.search(text) or STOP.search(text):
        return
    if REFUSAL.search(told):
        return
    asks = [said for said in sentences(text) if WANTS.search(said)]
    answers = (
        before is not None
        and before.actor == "agent"
        and WANTS_DETAILS.search(asked) is not None
        and THANKS.search(text) is None
        and find_decision(text) not in ("refuses", "takes back")
    )
    if (asks or answers) and len(told) <= LONG_FAREWELL:
        why = f"says goodbye in answer to {(asks or [text])[-1].strip()[:100]!r}"
        yield rule.Fault(here.index, why, (heard.index,))


# Who takes the one thing back, or refuses it, need not name it.
TAKES_BACK = re.compile(
    r"(?i)\b(?:forget|skip|drop|ignore|never ?mind|leave|no(?:t| longer)? need|already|found)\b|"
    r"n['\u2019]t (?:need|want|bother|have to)\b"
)
THE_OTHER = re.compile(r"\b(?:other|else|that|asked|requests?|questions?)\b", re.IGNORECASE)
FILE = re.compile(r"\b[\w-]+\.[a-z]{1,5}\b(?!\.|/)", re.IGNORECASE)
# Users' first messages, in characters too; a wish of fewer words is met in others.
FIRST_MESSAGES, WISH_CHARACTERS, LEAST_STEMS = 3, 2000, 3


def _never_dealt_with(trajectory: Trajectory) -> Iterator[rule.Fault]:
    """Yield the end of a run in which nobody came back to one thing more that the user asked for.

    Nothing of it was called, told, refused or taken back; or a file that was asked for is named in
    no call. A run that was handed on ends otherwise.
    """
    steps, calls = trajectory.steps, trajectory.exchanges
    last = next((s.index for s in reversed(steps) if s.actor == "agent"), -1)
    if any(escalates_to_person(x.call.name) for x in calls):
        return
    for at in messages_by_actor(trajectory).get("user", [])[:FIRST_MESSAGES]:
        text = trajectory.texts[at]
        some = at < last and len(text) <= WISH_CHARACTERS
        for said, names, more in _wishes_for_more(text) if some else ():
            about = names if names and calls else more
            if about and _is_open(about, steps[at + 1 :]):
                why = f"ends, and nothing came of what the user asked: {said.strip()[:100]!r}"
                yield rule.Fault(last, why, (at,))
                return


@rule.cached_by_text
def _wishes_for_more(text: str) -> list[tuple[str, frozenset[str], frozenset[str]]]:
    """Return the wishes of a message for one thing more: the files and the stems that it names."""
    found = []
    for said in sentences(text):
        names = frozenset(FILE.findall(said.lower()) if "." in said[:-1] else ())
        about = content_stems(said) if ADDS.search(said) else frozenset()
        about = about if len(about) >= LEAST_STEMS else frozenset()
        if (names or about) and WANTS.search(said):
            found.append((said, names, about))
    return found


def _is_open(about: frozenset[str], behind: Iterable[Step], *, most: float = 0) -> bool:
    """True if nothing that is called or told has its words, but so many of them, or ends it."""
    for step in behind:
        acts = [" ".join([*words_of(c.name), *leaf_texts(c.arguments)]) for c in step.calls]
        acts += [result.text[:RESULT_CHARACTERS] for result in step.results] if most else []
        if any(stem in told.lower() for told in acts for stem in about):
            return False
        text = step.text.lower() if step.actor in ("agent", "user") else ""
        if step.actor == "agent" and text:
            refuses = (REFUSAL.search(x) and THE_OTHER.search(x) for x in sentences(text))
            if sum(stem in text for stem in about) > most * len(about) or (
                not most and any(refuses)
            ):
                return False
        elif most and text and find_decision(step.text) in ("takes back", "refuses"):
            return False
        elif text and any(TAKES_BACK.search(x) and THE_OTHER.search(x) for x in sentences(text)):
            return False
    return True


TERMINATION = rule.RuleMeasure(TERMINATION_NAME, "5", rule.AXIS_SCALE, ("effects",), _ending)
