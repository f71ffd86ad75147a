r"""Suspicions that words give, in runs whose agents only talk (and have code run from their talk).

An environment entry is what came of the agent's entry before it. Read are: code that fails or
prints nothing, talk that goes on after it, assumptions and made-up data, figures said nowhere
before, "I cannot", the same message again, and a planner that says nothing moves or plans anew.
The words are English. Runs with tool calls are judged by their calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from stepscope.measures.errors import REASON_CHARACTERS
from stepscope.measures.suspicion import Suspicion
from stepscope.model import Step, Trajectory

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
        *("assum", "simulat", "hypothetical", "placeholder", "mock", "dummy", "sample data"),
        *(
            "example data",
            "for demonstration",
            "let's say",
            "let\u2019s say",
            "pretend",
            "illustrat",
        ),
    )
}
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


def from_words(trajectory: Trajectory) -> list[Suspicion]:
    """Return what the messages of a run without tool calls make suspicious, by step."""
    steps = trajectory.steps
    found = [*_code(steps), *_planner(steps)]
    said: set[str] = set()
    begun: dict[str, tuple[int, str]] = {}
    seen: dict[str, int] = {}
    for at, step in enumerate(steps):
        text = step.text
        figures = _figures(text)
        if at > 0 and _works(step):
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
                reason = f"what it ran fails: {_last_line(here)}"
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
            worker = next((s for s in reversed(steps[:at]) if _works(s)), None)
            if worker is not None:
                reason = f"no progress by it, says {step.agent or 'the planner'} at {at}"
                yield Suspicion(worker.index, "stuck", reason, (at,))
        if at > 1 and PLAN_ANEW.match(text):
            yield Suspicion(at, "replan", f"plans anew: {_cut(text)}")


def _works(step: Step) -> bool:
    return step.actor == "agent" and step.kind == "message"


def _figures(text: str) -> set[str]:
    return set((_ASCII_FIGURE if text.isascii() else _FIGURE).findall(text))


def _last_line(step: Step) -> str:
    """The last line that says something: where Python puts the error itself."""
    lines = [line.strip() for line in step.text.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(?:Error|Exception)\b", line)]
    return _cut((raised or lines or [""])[-1])


def _quote(text: str, match: re.Match[str]) -> str:
    start = max(match.start() - QUOTE_CHARACTERS // 2, 0)
    piece = " ".join(text[start : match.end() + QUOTE_CHARACTERS // 2].split())
    return f"“{piece}”"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARACTERS else line[: REASON_CHARACTERS - 1] + "…"
