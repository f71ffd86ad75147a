"""Held out: template 4 of every kind and near miss; who writes checks reads none of `_last_*`.

It places as template 3 does and then, by chance, gives what was planted another shape: a question
on the side is asked with the user's other words and answered in the agent's next message; what
was added to a message is a message of its own, before or behind it; a table is lines of text. A few
ways to place are its own: a correction that is wrong, a write behind a question that nobody has
answered, a word about two commands. What is said of outputs are cases that are taken in turn.
"""

from __future__ import annotations

import re

import msgspec

from bars.planted import _sealed_kinds as sealed
from bars.planted._held_course import case_in_turn, case_of
from bars.planted._held_kinds import HeldKind
from bars.planted._held_steps import draw_planter, side_places
from bars.planted._held_values import field_questions
from bars.planted._held_writes import coding_end
from bars.planted._plant_places import PROPOSAL, STOP, Planted, Planter, Site
from bars.planted._plant_steps import shell, spoken
from bars.planted._planted_acts import consented_once
from bars.planted.faults import with_text
from stepscope.model import Step

_TABLE = re.compile(r"(?:^\|.*\|\n?){3,}", re.MULTILINE)
_RULE = re.compile(r"\|[|\s:-]+\|")


def _reshaped(planter: Planter) -> Planter:
    """Return a planter that plants in another shape, three times of four where there is one."""

    def plant(site: Site) -> Planted | None:
        planted = planter(site)
        if planted is None or site.manner != "service" or not site.rng.integers(4):
            return planted
        return _woven(site, planted) or _apart(site, planted) or planted

    return plant


def _corrected(site: Site) -> Planted | None:
    """Item 1. The agent corrects itself of its own accord: a field is told with another's value."""
    options = []
    for r in site.records:
        behind = [s for s in site.messages[:-1] if s.index > r.exchange.answer_step]
        for words, value, others in field_questions(r):
            options += [(s, words, value, others) for s in behind[:4] if others]
    option = site.draw(options) if site.manner == "service" else None
    if option is None:
        return None
    message, words, value, others = option
    told = site.draw(others)
    step = spoken(site, site.say("corrected", what=words, value=value, told=told))
    site.draft.insert(message.index + 1, step)
    about = f"{words} is {value} in the record and corrected to {told}"
    return Planted(step, "result_interpretation", about)


# What the user tells along with a consent.
_TOLD = re.compile(r"\d|card|paypal|method|reason|because|mistake|needed|address", re.IGNORECASE)


def _not_waited(site: Site) -> Planted | None:
    """Item 4. The agent asks for consent, and makes the write at once."""
    found = [
        c
        for c in consented_once(site)
        if PROPOSAL.search(site.steps[c.ask].text)
        and "?" in site.steps[c.ask].text
        and c.answer == c.ask + 1
        and c.write.step == c.answer + 1
        and not _TOLD.search(site.steps[c.answer].text)
    ]
    agreed = site.draw(found)
    if agreed is None:
        return None
    site.draft.drop(agreed.answer)
    call = site.steps[agreed.write.step]
    step = site.draft.put(call.index, msgspec.structs.replace(call))
    about = f"{agreed.write.call.name} is made without waiting for the user's answer"
    return Planted(step, "sequencing", about)


def _two_checked(site: Site) -> Planted | None:
    """Item 6. Two commands are run, the second fails; both are told of (rightly or not)."""
    if site.manner == "service" or not site.has_shell:
        return None
    first, shown, second, failed, code, said = case_of(site, f"two_{site.manner}")
    ran = [*shell(site, site.say("try"), first, shown, 0),
           *shell(site, "And:", second, failed, int(code))]  # fmt: skip
    step = spoken(site, said)
    site.draft.insert(coding_end(site), *ran, step)
    about = f"exit code {code} of {second!r}, behind a command that worked: {said}"
    return Planted(step, "result_interpretation", about)


def _output_told(site: Site) -> Planted | None:
    """Item 1, in code. What commands print is told, rightly or not: a case a seed, in turn."""
    if site.manner == "service" or not site.has_shell:
        return None
    names, said = case_in_turn(site)
    ran: list[Step] = []
    for name in names.split(", "):
        command, output = site.phrasings["outputs"][name]
        ran += shell(site, site.say("try"), command, output.strip("\n"), 0)
    step = spoken(site, said)
    site.draft.insert(coding_end(site), *ran, step)
    return Planted(step, "result_interpretation", f"output of {names}: {said}")


def _woven(site: Site, planted: Planted) -> Planted | None:
    """Put a question on the side into recorded words, and its answer into the message behind."""
    for at in side_places(site):
        behind = site.steps[at + 1] if at + 1 < len(site.steps) else None
        aside = site.draft.inserted(at)
        if (
            behind is None
            or behind.actor != "agent"
            or behind.calls
            or not behind.text
            or STOP in site.steps[at].text
            or len(aside) != 2
            or aside[1] is not planted.step
            or site.draft.now(at) is not site.steps[at]
            or site.draft.now(at + 1) is not behind
        ):
            continue
        asked, answer = aside[0].text, _without_back(site, aside[1].text)
        words = site.steps[at].text.rstrip()
        ended = asked if asked.endswith((".", "?", "!")) else f"{asked}\n"
        both = site.draw([f"{words} {asked}", f"{words}\n\n{asked}", f"{ended} {words}"])
        told = site.draw([f"{answer}\n\n{behind.text}", f"{answer} {behind.text.lstrip()}"])
        if "\n" in answer:
            told = f"{answer}\n\n{behind.text}"
        site.draft.take(at)
        site.draft.put(at, with_text(site.steps[at], str(both)))
        step = site.draft.put(behind.index, with_text(behind, str(told)))
        return planted._replace(step=step)
    return None


def _without_back(site: Site, text: str) -> str:
    """Return an answer without the way back to what the agent had asked."""
    for back in site.phrasings["shared"]["back"]:
        text = text.removesuffix(f"\n\n{back}")
    return text


def _apart(site: Site, planted: Planted) -> Planted | None:
    """Put what was added to a message into one of its own, a table as lines of text."""
    for old in site.messages:
        if site.draft.now(old.index) is not planted.step:
            continue
        new, was = planted.step.text.strip(), old.text.strip()
        if len(new) <= len(was) + 1 or site.draft.inserted(old.index):
            return None
        if new.startswith(was):
            made = _as_message(site, new.removeprefix(was))
            site.draft.insert(old.index + 1, made)
        elif new.endswith(was):
            made = _as_message(site, new.removesuffix(was))
            site.draft.insert(old.index, made)
        else:
            return None
        site.draft.put(old.index, old)
        return planted._replace(step=made)
    return None


def _as_message(site: Site, text: str) -> Step:
    return spoken(site, _TABLE.sub(lambda m: _as_lines(site, m[0]), text.strip()))


def _as_lines(site: Site, table: str) -> str:
    """Return the rows of a Markdown table as lines: listed, dotted, or in columns."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in table.strip().splitlines()
        if not _RULE.fullmatch(line.strip())
    ]
    mark, between = site.draw([("- ", ": "), ("", " ..... "), ("", "; "), ("* ", " - ")]) or (
        "",
        "",
    )
    lines = [f"{mark}{between.join(row)}" for row in rows[1:]]
    return "\n".join(lines) + ("\n" if table.endswith("\n") else "")


def _nothing_lost(planter: Planter) -> Planter:
    """Plant only where no words of the user are replaced that tell what the write is given."""

    def plant(site: Site) -> Planted | None:
        planted = planter(site)
        lost = (s for s in site.steps if s.actor == "user" and site.draft.now(s.index) is not s)
        return None if any(_TOLD.search(s.text) for s in lost) else planted

    return plant


# What is placed in ways of this template alone, as often as in those of template 3.
_FAULTS: dict[str, Planter] = {
    "misread_field": _corrected,
    "write_without_consent": _not_waited,
    "exit_code_ignored": _two_checked,
}
_NEAR_MISSES: dict[str, Planter] = {
    "exit_code_ignored": _two_checked,
}
# Their questions say "that", and mean what was said right before.
_UNSHAPED = frozenset({"claim_after_failed_write"})


def _planter(kind: str, planter: Planter, own: dict[str, Planter]) -> Planter:
    shaped = planter if kind in _UNSHAPED else _reshaped(planter)
    if kind not in own:
        return shaped
    return lambda site: draw_planter(site, shaped, own[kind])


KINDS: dict[str, HeldKind] = {
    kind: HeldKind(_planter(kind, one.fault, _FAULTS), _planter(kind, one.near_miss, _NEAR_MISSES))
    for kind, one in sealed.KINDS.items()
}
_CONSENT = KINDS["write_without_consent"]
KINDS["misread_output"] = HeldKind(_output_told, _output_told)
KINDS["write_without_consent"] = HeldKind(_CONSENT.fault, _nothing_lost(_CONSENT.near_miss))
