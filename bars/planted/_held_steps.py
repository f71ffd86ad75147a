"""Structures that template 2 plants in: questions on the side, recaps, remarks, lists.

A question on the side is one of the user's with the agent's answer, put before recorded words of
the user; a recap stands below the agent's last message; a remark stands anywhere in a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import pairwise

import msgspec

from bars.planted._plant_places import STOP, Planted, Site
from bars.planted._plant_steps import called, spoken
from bars.planted.faults import with_text
from stepscope.formats.fields import infer_text_status
from stepscope.model import Json, Part, Step, ToolResult

_SENTENCE_END = re.compile(r"(?<=[.!])\s+(?=[A-Z*])")
_LIST_LINE = re.compile(r"(?:[-*]|\d+\.)\s")


def draw_planter(site: Site, *planters: Callable[[Site], Planted | None]) -> Planted | None:
    """Return what the first planter plants, in an order drawn, that finds a place."""
    for at in site.rng.permutation(len(planters)):
        planted = planters[int(at)](site)
        if planted is not None:
            return planted
    return None


def draw_shared(site: Site, name: str) -> str:
    """Return a phrasing that belongs to no kind."""
    return str(site.draw(site.phrasings["shared"][name]))


def side_places(site: Site, after: int = 0) -> list[int]:
    """Return places of words of the user that answer a message, and consent to nothing."""
    if site.manner != "service":
        return []
    answered = (s.index for s in site.steps if any(r.status == "ok" for r in s.results))
    known = (r.exchange.answer_step for r in site.records)
    looked = min(known, default=min(answered, default=len(site.steps)))
    agreed = {c.answer for c in site.consented} | {w.step - 1 for w in site.writes}
    return [
        s.index
        for s in site.steps
        if s.actor == "user"
        and s.text
        and s.index > max(after, looked)
        and s.index not in agreed
        and site.steps[s.index - 1].actor == "agent"
        and site.steps[s.index - 1].text
        and not site.steps[s.index - 1].calls
    ]


def ask_aside(site: Site, at: int, question: str, answer: str, *between: Step) -> Step:
    """Let the user ask something before their recorded words; return the agent's answer.

    Where the recorded words answer a question of the agent, the answer goes back to it.
    """
    back = ""
    if STOP not in site.steps[at].text and "?" in site.steps[at - 1].text:
        back = f"\n\n{draw_shared(site, 'back')}"
    step = spoken(site, answer + back)
    site.draft.insert(at, spoken(site, question, "user"), *between, step)
    return step


def last_message(site: Site) -> Step | None:
    """Return the agent's last message to the user of a service, where something was looked up."""
    return site.messages[-1] if site.manner == "service" and site.messages else None


def with_recap(step: Step, recap: str) -> Step:
    """Return the message with a recap below it."""
    return with_text(step, f"{step.text.rstrip()}\n\n{recap}")


def with_remark(site: Site, step: Step, text: str) -> Step:
    """Return the message with a remark: before it, below it, in its list, or in a paragraph."""
    now = step.text.strip()
    lines = now.split("\n")
    listed = [at for at, line in enumerate(lines) if _LIST_LINE.match(line)]
    inside = [
        (paragraph, _SENTENCE_END.split(paragraph, maxsplit=1))
        for paragraph in now.split("\n\n")
        if "\n" not in paragraph and not _LIST_LINE.match(paragraph)
    ]
    split = [(paragraph, *halves) for paragraph, halves in inside if len(halves) == 2]
    place = site.draw(
        ["front", "note", *(["list"] if listed else []), *(["inside"] if split else [])]
    )
    if place == "list":
        # Behind the last line of the list and what is indented below it.
        end = listed[-1] + 1
        while end < len(lines) and lines[end].startswith(" "):
            end += 1
        return with_text(step, "\n".join([*lines[:end], f"- {text}", *lines[end:]]))
    if place == "inside":
        paragraph, first, rest = split[-1]
        return with_text(step, now.replace(paragraph, f"{first} {text} {rest}", 1))
    if place == "note":
        return with_text(step, f"{now}\n\n{draw_shared(site, 'note')} {text}")
    return with_text(step, f"{text}\n\n{now}")


def looked_up(name: str, arguments: Json, answer: str, mark: object) -> list[Step]:
    """Return a call of a tool and its answer, an error where an importer reads it as one."""
    failed = infer_text_status(answer).status == "error"
    return called(name, arguments, answer, failed=failed, mark=mark)


def with_answer(step: Step, old: ToolResult, text: str) -> Step:
    """Return the step with one result that says something else, read as an importer reads it."""
    failed = infer_text_status(text).status == "error"
    new = msgspec.structs.replace(
        old,
        parts=(Part("text", text),),
        structured=None,
        status="error" if failed else "ok",
        source="heuristic",
    )
    return msgspec.structs.replace(
        step, results=tuple(new if result is old else result for result in step.results)
    )


def mistyped(site: Site, text: str) -> str | None:
    """Return an id with two neighbouring digits or capitals exchanged, which is not in the run."""
    places = [
        at
        for at, (a, b) in enumerate(pairwise(text))
        if a != b and all(c.isdigit() or c.isupper() for c in (a, b)) and text[at] != "W"
    ]
    for at in site.rng.permutation(places) if places else ():
        new = f"{text[:at]}{text[at + 1]}{text[at]}{text[at + 2 :]}"
        if new not in site.known:
            return new
    return None


def ordinal(day: int) -> str:
    """Return a day of a month as it is spoken.

    >>> ordinal(1), ordinal(12), ordinal(23)
    ('1st', '12th', '23rd')
    """
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def forms_of(day: date) -> list[str]:
    """Return a date as agents and users write it, in forms other than ISO's."""
    return [
        f"{day.day} {day:%B} {day.year}",
        f"{day:%b} {day.day}",
        f"{day:%m/%d/%Y}",
        f"{day:%A}, {day:%B} {day.day}",
        f"the {ordinal(day.day)} of {day:%B}",
    ]


def strange_day(site: Site, first: date = date(2024, 6, 20), days: int = 90) -> date | None:
    """Return a day that the run names in no form, and that no count of days leads to."""
    for _ in range(100):
        day = first + timedelta(days=int(site.rng.integers(days)))
        forms = (*forms_of(day), day.isoformat(), f"{day:%B} {day.day}", f"{day.day} {day:%B}")
        if not any(re.search(rf"{re.escape(form)}(?!\d)", site.known) for form in forms):
            return day
    return None


def as_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table; the first row is its head.

    >>> print(as_table([("a", "b"), ("1", "2")]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])
