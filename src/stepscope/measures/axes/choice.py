"""Whether the agent chose the right tools, in a workable order, with consent before writes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from stepscope.measures import calls, conduct
from stepscope.measures.axes.arguments import declared_tools
from stepscope.measures.axes.ending import WANTS_DETAILS
from stepscope.measures.axes.evidence import evidence_of
from stepscope.measures.completeness import hides_words
from stepscope.measures.errors import TRANSIENT, executions_of, first_line
from stepscope.measures.facts import calls_too_early, describe_source, is_binding
from stepscope.measures.language import content_stems
from stepscope.measures.rule import (
    AXIS_SCALE,
    Fault,
    RuleMeasure,
    cached_by_text,
    cached_on_run,
    fault_answers,
    faultless_answer,
    not_applicable,
)
from stepscope.measures.same_calls import same_key
from stepscope.model import Answer, Case, Exchange, Facts, Precondition, Trajectory
from stepscope.model.effects import infer_effect, words_of
from stepscope.values import Unmeasured

TOOL_SELECTION_NAME = "axes.tool_selection"

# Kinds of calls that a recorder lists among the declared tools; a provider's own are often not.
DECLARABLE = frozenset({"function", "mcp"})

_SELECTION_OF_NO_CALLS = (calls.no_calls(TOOL_SELECTION_NAME),)


def _choose(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Did the agent pick the right tool, and only when one was called for?

    Incorrect: a tool that was not offered; a tool that a declared policy forbids; the same call
    failing again in the same way with nothing changed in between (also code in messages); a write
    made again after it succeeded, without a new request; a write that the user neither asked for
    nor agreed to (only where the tool is *declared* to write: a guess from its name makes it
    uncertain).

    Otherwise uncertain, with what was checked: no rule knows whether another tool would have served
    better. Arguments belong to argument_validity, order and consent to a write that was asked for
    to sequencing.
    """
    made = calls.agent_calls(trajectory)
    if not made:
        again = list(_unchanged_retries(executions_of(trajectory), facts))
        if again:
            return fault_answers(TOOL_SELECTION_NAME, again)
        return _SELECTION_OF_NO_CALLS
    rules = conduct.declared_rules(case, facts)
    rules = tuple(rule for rule in rules if rule.before is None and rule.max_calls is None)
    found = conduct.find_breaches(trajectory, rules, facts)
    faults = [
        *_undeclared_tools(trajectory, made),
        *(Fault(one.step, f"policy {one.rule!r}: {one.reason}") for one in found),
        *(_unchanged_retries(made, facts) if calls.failed_calls(trajectory) else ()),
        *_done_twice(trajectory, made, facts),
    ]
    unasked = _unasked(trajectory, made, facts)
    declared = facts.effects if facts is not None else {}
    faults += [
        Fault(x.step, f"{x.call.name} writes, and the user neither asked for it nor agreed")
        for x in unasked
        if x.call.name in declared
    ]
    if faults:
        return fault_answers(TOOL_SELECTION_NAME, faults)
    if doubts := conduct.find_doubts(trajectory, rules, facts):
        return (Unmeasured("missing_input", doubts[0].reason, TOOL_SELECTION_NAME),)
    if unasked:
        cites = tuple(sorted({exchange.step for exchange in unasked}))
        why = f"{unasked[0].call.name} seems to write without having been asked for"
        why += "; declare what it does under [tools]"
        return faultless_answer(TOOL_SELECTION_NAME, why, cites)
    n = sum(calls.has_succeeded(made[at]) for at in calls.writes_of(trajectory, facts))
    why = f"no rule broken in {len(made)} calls ({n} writes)"
    return faultless_answer(TOOL_SELECTION_NAME, f"{why}; not judged: whether others served better")


def _undeclared_tools(trajectory: Trajectory, made: Sequence[Exchange]) -> Iterator[Fault]:
    if not trajectory.tools:
        return
    for exchange in made:
        call = exchange.call
        if call.kind in DECLARABLE and not declared_tools(trajectory, exchange):
            offered = len({tool.name for tool in trajectory.tools})
            reason = f"{call.name} is not among the {offered} tools that were offered"
            yield Fault(exchange.step, reason)


def _unchanged_retries(made: Sequence[Exchange], facts: Facts | None) -> Iterator[Fault]:
    """The same call, the same error, and nothing in between that could have changed it.

    A shell's commands are what might have changed it, unless they failed too.
    """
    open_errors: dict[str, Exchange] = {}
    for exchange in made:
        name = exchange.call.name
        if not exchange.failed:
            if (
                open_errors
                and calls.effect_of(name, facts) != "read"
                and calls.has_succeeded(exchange)
            ):
                open_errors.clear()
            continue
        key = same_key(exchange)
        before = open_errors.get(key)
        if before is not None and calls.compared_error(before) == calls.compared_error(exchange):
            said = first_line(exchange.result)
            if not TRANSIENT.search(said):
                cites = (before.answer_step, exchange.step)
                yield Fault(exchange.step, f"{name} fails again in the same way: {said}", cites)
        open_errors[key] = exchange


# Verbs of acts that are meant to be repeated: every one goes a step further.
_STEPWISE = frozenset("append move push put press scroll click type write_stdin wait next".split())
# A user who wants a thing twice says so.
_REPEATS = re.compile(
    r"(?i)\b(?:twice|again|once more|each|(?:\d+|two|three|four|several|many) (?:times|copies))\b"
)


def _done_twice(run: Trajectory, made: Sequence[Exchange], facts: Facts | None) -> Iterator[Fault]:
    """A write made again after it succeeded, and the user did not ask for it again."""
    done: dict[str, Exchange] = {}
    for at in calls.writes_of(run, facts):
        exchange = made[at]
        if exchange.failed or calls.ends_run(exchange.call.name):
            continue
        name, key = exchange.call.name, exchange.key
        before = done.get(key)
        if before is None or not _STEPWISE.isdisjoint(words_of(name)):
            # Another write of the same tool may have changed what was done.
            done = {kept: x for kept, x in done.items() if x.call.name != name} if done else done
        elif _was_carried_out(before, exchange):
            heard = evidence_of(run).heard
            low = bisect_left(heard, before.step, key=itemgetter(0))
            high = bisect_left(heard, exchange.step, key=itemgetter(0))
            between = run.steps[before.step : exchange.step]
            agrees = any(conduct.proposes(s.text) for s in between if s.actor == "agent")
            if not any(_asks_again(text, name, agrees) for _, text in heard[low:high]) and not (
                low and _REPEATS.search(heard[low - 1][1])
            ):
                said = f"{name} was done before, at {before.step}, and nobody asked for it again"
                yield Fault(exchange.step, said, (before.step, before.answer_step))
        done[key] = exchange


def _was_carried_out(before: Exchange, again: Exchange) -> bool:
    """True if a write succeeded before it was made again.

    An answer without a word of what was asked is no success where the next one has some.
    """
    if not calls.has_succeeded(before) or before.answer_step >= again.step:
        return False
    things = [
        x for x in conduct.leaf_texts(before.call.arguments) if len(x) >= conduct.THING_CHARACTERS
    ]
    first, second = (x.result.text if x.result is not None else "" for x in (before, again))
    return any(x in first for x in things) or not any(x in second for x in things)


def _asks_again(text: str, tool: str, agrees: bool) -> bool:
    """True if a user's words may ask for what a tool did; `agrees` if something was proposed."""
    verbs, things = conduct.ways_to_ask(tool)
    asks = any(words is not None and words.search(text) for words in (verbs, things))
    return (
        asks
        or (agrees and conduct.find_decision(text) == "agrees")
        or _REPEATS.search(text) is not None
    )


def _unasked(run: Trajectory, made: Sequence[Exchange], facts: Facts | None) -> list[Exchange]:
    """Return the writes that came without any word for them from the user, nor a yes.

    What a tool writes to counts only in the user's latest message: "make it my default address". In
    a run whose user speaks once, the task itself is the request and says nothing of tools.
    """
    found: list[Exchange] = []
    for at in calls.writes_of(run, facts):
        exchange = made[at]
        name, step = exchange.call.name, exchange.step
        verbs, things = conduct.ways_to_ask(name)
        if verbs is None:
            continue
        evidence = evidence_of(run)
        asked = evidence.matched(verbs)
        if asked is not None and asked < step:
            continue
        spoken = evidence.heard
        heard = bisect_left(spoken, step, key=lambda said: said[0])
        if (
            heard < 2
            or hides_words(run)
            or (things is not None and things.search(spoken[heard - 1][1]))
        ):
            continue
        if conduct.lacks_consent(run, at) is not None:
            found.append(exchange)
    return found


TOOL_SELECTION = RuleMeasure(TOOL_SELECTION_NAME, "6", AXIS_SCALE, ("effects", "policy"), _choose)


SEQUENCING_NAME = "axes.sequencing"
# How instructions ask for consent: "obtain explicit user confirmation (yes) to proceed".
ASKS_FOR_CONSENT = re.compile(
    r"(?i)(?:obtain|get|ask|require|receive|seek|wait)\w*\b[^.\n]{0,60}\b(?:confirm\w*|consent|approv\w*)"
)
_asks_for_consent = cached_by_text(ASKS_FOR_CONSENT.search)
# A question, a denial, a condition, a delay, a sound: beside them nothing is settled.
SETTLES_NOTHING = re.compile(
    r"\?(?!.*\bplease\b)|\b(?:if|unless|until|first|before|still|yet|not|never|later|would have|"
    r"(?:have|need|want) to|let me|i['\u2019]d|sorry|brb|moment|minute|sec)\b|n['\u2019]t\b|"
    r"\A\W*(?:h+m+|u+[hm]+|e+[hr]+m*)\b[^a-z]*\Z"
)
# Who wants it for every one has named them all.
EVERY_ONE = re.compile(r"\b(?:any|all|both|each|every|everything) (?!else|other|help|more)")


def _sequencing(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Were the calls in a workable order: what is needed first, first, consent before writes?

    Incorrect: a tool called before another that it needs (declared, or kept by practically all
    passing runs of the workflow: `facts.is_binding`); a write without consent where the
    instructions ask for consent, and the user neither agreed nor asked for it nor was asked
    anything, or it was looked up after the user's last word. A mined habit that is not binding, and
    a write that the user asked for but did not confirm, are said and prove nothing.

    Otherwise uncertain, with the preconditions kept and the writes confirmed. Whether the tool was
    the right one is tool_selection's, rules of the policy are `policy`'s.
    """
    made = calls.agent_calls(trajectory)
    if not made:
        return (calls.no_calls(SEQUENCING_NAME),)
    tools = {exchange.call.name for exchange in made}
    rules = [rule for rule in facts.preconditions if rule.tool in tools] if facts else []
    broken = [(rule, x.step) for rule in rules for x in calls_too_early(made, rule)]
    faults = [Fault(step, _why_too_early(rule)) for rule, step in broken if is_binding(rule)]
    writes = calls.writes_of(trajectory, facts)
    doubts = [(step, _why_too_early(rule)) for rule, step in broken if not is_binding(rule)]
    confirmed, wronged = 0, set[str]()
    for at in writes:
        why = conduct.lacks_consent(trajectory, at)
        if why is None or why in wronged:
            confirmed += why is None
        elif _is_unwanted(trajectory, made[at]) and _consent_is_asked_for(trajectory, case, facts):
            # Several writes for want of one yes are one fault, at the first.
            wronged.add(why)
            faults.append(Fault(made[at].step, f"{made[at].call.name} without consent: {why}"))
        else:
            doubts.append((made[at].step, f"{made[at].call.name} may lack consent: {why}"))
    if faults:
        return fault_answers(SEQUENCING_NAME, faults)
    if doubts:
        cites = tuple(sorted({step for step, _ in doubts}))
        return faultless_answer(SEQUENCING_NAME, min(doubts)[1], cites)
    kept = len([rule for rule in rules if is_binding(rule)])
    if not kept and not writes:
        why = "no precondition is known for the tools called, and none of them writes"
        return not_applicable(SEQUENCING_NAME, why)
    why = f"{kept} preconditions kept, {confirmed} of {len(writes)} writes confirmed"
    why += "; not judged: whether another order was better"
    return faultless_answer(SEQUENCING_NAME, why, tuple(sorted({made[at].step for at in writes})))


def _why_too_early(rule: Precondition) -> str:
    same = f" for the same {rule.by}" if rule.by is not None else ""
    source = describe_source(rule)
    return f"{rule.tool} before {rule.after} had succeeded{same} ({source} it comes after)"


def _consent_is_asked_for(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> bool:
    asked = any(rule.require == "confirm" for rule in conduct.declared_rules(case, facts))
    return asked or _instructions_ask(trajectory)


@cached_on_run
def _instructions_ask(trajectory: Trajectory) -> bool:
    told = [step.text for step in trajectory.steps if step.actor == "system"]
    return any(map(_asks_for_consent, (*told, trajectory.instructions or "")))


def _is_unwanted(trajectory: Trajectory, write: Exchange) -> bool:
    """True if the user's latest message before a write neither asks for it nor settles anything.

    Who has spoken once has asked for all that follows: the task itself is the request.
    """
    spoken = conduct.messages_by_actor(trajectory)
    users, agents = spoken.get("user", []), spoken.get("agent", [])
    latest = bisect_left(users, write.step) - 1
    if latest < 1 or hides_words(trajectory):
        return False
    last, texts = users[latest], trajectory.texts
    low, high = bisect_left(agents, users[latest - 1]), bisect_left(agents, last)
    asked = [texts[at] for at in reversed(agents[low:high])]
    decision = conduct.find_decision(texts[last])
    # "Sure, my name is ..." agrees to nothing that is done.
    if decision == "agrees" and not (
        asked and WANTS_DETAILS.search(asked[0]) and not conduct.proposes(asked[0])
    ):
        return False
    if decision in ("refuses", "asks back"):
        put_to_user = any(map(conduct.proposes, asked))
        if put_to_user or decision == "refuses":
            return put_to_user
    never = decision in ("takes back", "hesitates")
    if never or _was_never_put(trajectory, write, last):
        return True
    heard = texts[last].casefold()
    if any(words and words.search(heard) for words in conduct.ways_to_ask(write.call.name)):
        return False
    if not asked or not ("?" in asked[0] or conduct.asks_consent(asked[0])):
        wish = re.search(r"\?|\b(?:if|unless|until|first|have to)\b", heard) is not None
        return decision != "asks back" and not (wish and conduct.is_proposed(write, asked))
    # What is no yes, and has no word of what was asked or is done, settles nothing.
    put = content_stems(f"{asked[0]} {write.call.arguments}".replace("_", " "))
    return SETTLES_NOTHING.search(heard) is not None and put.isdisjoint(content_stems(heard))


def _was_never_put(trajectory: Trajectory, write: Exchange, heard: int) -> bool:
    """True if the agent looked something up after the user's last word, and had proposed nothing.

    Nobody has told the user what was found: whatever they said was no consent to this write. Who
    wanted it for every one has agreed to all that was found.
    """
    asked = evidence_of(trajectory).matched(EVERY_ONE)
    made = calls.agent_calls(trajectory)
    low, high = (bisect_left(made, at, key=lambda x: x.step) for at in (heard, write.step))
    looked = any(
        not x.failed and infer_effect(x.call.name) == "read" and x.call.name != "think"
        for x in made[max(low, high - conduct.MOST_CALLS) : high]
    )
    if not looked or (asked is not None and asked <= heard):
        return False
    agents = conduct.messages_by_actor(trajectory).get("agent", [])
    end = bisect_left(agents, heard)
    told = [trajectory.texts[at] for at in agents[max(end - conduct.MOST_MESSAGES, 0) : end]]
    return not any(conduct.proposes(text) and conduct.is_proposed(write, [text]) for text in told)


SEQUENCING = RuleMeasure(
    SEQUENCING_NAME, "6", AXIS_SCALE, ("effects", "policy", "preconditions"), _sequencing
)
