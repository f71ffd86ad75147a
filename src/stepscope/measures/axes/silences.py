"""Whether a failure that nothing made good is told: what the agent says right after it.

A message that states something and has no word of the failure goes on as if it had worked, whatever
it says: it may be one word, a cell of a table or a yes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stepscope.measures.calls import effect_of
from stepscope.measures.errors import executions_of, first_line, reactions_of
from stepscope.measures.language import admits_failure
from stepscope.measures.rule import Fault
from stepscope.model import Exchange, Facts, Step, Trajectory

# Trouble that is denied is a success, and what the user need not do is no failure.
NO_TROUBLE = re.compile(
    r"(?i)\b(?:no|not (?:a single|one)|without(?: an?y?)?|zero|free (?:of|from)|nothing)\b"
    r"(?: \w+){0,2}? (?:fail\w*|errors?|problems?|issues?|trouble|broken?|crash\w*|wrong|"
    r"warnings?|complain\w*|conflicts?)\b|\bnothing broke\b|\byou (?:(?:do|will) not|"
    r"(?:do|wo)n['\u2019]t|need(?: not|n['\u2019]t)) (?:need|have to)\b"
)
# How a message says that something is not there or not so.
_LACKS = re.compile(
    r"(?i)\b(?:no|none|nothing|neither|nobody|nowhere|lacks?|lacking|miss(?:es|ing)|wrong|broken?|"
    r"empty|differs?|only|still|refus\w+|reject\w+|declin\w+|den(?:y|ie[sd]))\b"
)
# An offer behind every message, and what opens one: neither states anything.
COURTESY = re.compile(
    r"(?i)\b(?:hesitate|any (?:issues?|concerns?)|"
    r"any(?:thing|body)? (?:other|further|more|else)|(?:what|something|somebody) "
    r"(?:else|more)|(?:other|further|more) (?:questions?|concerns?|wishes|requests?)|questions?)\b|"
    r"\A\W*(?:thank(?:s| you)|you['\u2019]re welcome|i see|i understand|of course|all right|got it)"
    r"[^,;]*\Z"
)
# What takes a clause out of what is stated of what was: plans, wishes, conditions, guesses.
_OTHERWISE = re.compile(
    r"(?i)\b(?:will|shall|should|must|would|could|can|may|might|if|unless|whether|let['\u2019]?s?|"
    r"please|needs?|going to|next|plan|try|trying|again|seems?|appears?|likely|perhaps|maybe|"
    r"to (?:check|see|find|verify))\b|['\u2019]ll\b"
)
# Where a program says that it failed: without such a line an exit code may be an answer, as of a
# search that finds nothing.
_COMPLAINS = re.compile(
    r"(?i)error|exception|fail|fatal|denied|refused|invalid|missing|not (?!modified)|no such|"
    r"cannot|can't|unable|abort|exceed|insufficient|unknown|undefined"
)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_CLAUSE = re.compile(r"[.!;,\n]| (?:and|so|but) ")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
# After a failure so many messages are looked at: one that states nothing, and the next.
MESSAGES = 2
# Who asks whether it is done asks of "that" or "it", in the tense of what is done.
_ASKS_OF_IT = re.compile(r"\b(?:it|that|this|everything|all)\b", re.IGNORECASE)
_ASKS_WHETHER = re.compile(
    r"(?i)\b(?:did|done|has|have|been|being|went|gone|go through|now|final|sure|settled|work(?:s|"
    r"ed)|in (?:place|order|your))\b"
)
_YES = re.compile(
    r"(?i)\A\W*(?:yes|yep|yeah|yup|sure|absolutely|certainly|correct|exactly|indeed|right|it is|"
    r"that['\u2019]s right|\u2705)\b"
)


def find_silences(trajectory: Trajectory, facts: Facts | None) -> Iterator[Fault]:
    """Yield the messages that go on as if what failed just before had worked."""
    reactions = reactions_of(trajectory, facts)
    for reaction in reactions.values():
        error = reaction.error
        if reaction.label == "ignored" and effect_of(error.call.name, facts) != "read":
            yield from _silence(trajectory.steps, error)
    for run in executions_of(trajectory) if not reactions else ():
        if run.failed:
            yield from _silence(trajectory.steps, run)


def _silence(steps: Sequence[Step], error: Exchange) -> Iterator[Fault]:
    """Yield the first message after an error that states something, where it has no word of it."""
    result = error.result
    lines = "" if result is None else (result.error or result.text)
    if result is None or result.source not in ("explicit", "protocol"):
        lines = "\n".join([line for line in lines.splitlines() if _COMPLAINS.search(line)])
    asked, messages = "", 0
    for step in steps[error.answer_step + 1 :] if lines else ():
        text = step.text
        if step.actor == "user":
            asked = text
        if step.actor != "agent" or messages == MESSAGES:
            continue
        if step.calls or step.results or "```" in text or _tells_of(text, lines):
            return
        of_it = asked and _ASKS_OF_IT.search(asked) and _ASKS_WHETHER.search(asked)
        messages += 1
        if states_of(text) if messages == 1 else of_it and (_YES.match(text) or states_of(text)):
            why = f"goes on as if {error.call.name} had worked: {first_line(result)}"
            yield Fault(step.index, why, (error.answer_step,))
            return
        if asked:
            return


def _tells_of(text: str, lines: str) -> bool:
    """True if a message admits a failure, has a number of what was reported, or asks on."""
    told = NO_TROUBLE.sub(" ", text)
    if any("?" in said and not COURTESY.search(said) for said in _SENTENCE.findall(text)):
        return True
    if admits_failure(told) or _LACKS.search(told) is not None:
        return True
    return not set(_NUMBER.findall(lines)).isdisjoint(_NUMBER.findall(text))


def states_of(text: str) -> bool:
    """True if a message states something: no question, courtesy, plan or single word."""
    return any(
        len(clause.split()) > 1 and not _OTHERWISE.search(clause)
        for said in _SENTENCE.findall(text)
        if "?" not in said and not COURTESY.search(said.strip())
        for clause in _CLAUSE.split(said)
    )
