"""Near misses of acts: nothing is claimed, consent was given, a repeat was asked for.

Each gives the step that a hasty check would blame, and the axis not to be called at fault there.
"""

from __future__ import annotations

import re

import msgspec

from bars.planted._plant_places import (
    PROPOSAL,
    Consented,
    Planted,
    Record,
    Site,
)
from bars.planted._plant_steps import (
    called,
    renewed,
    shell,
    spoken,
    user_adds,
    with_result_text,
    with_sentence,
    words_before,
)
from bars.planted._planted_acts import consented_once
from bars.planted._planted_course import closing, last_word
from bars.planted._planted_values import NOT_FOUND
from bars.planted.faults import with_text
from stepscope.model import Json, Step


def no_claim(site: Site) -> Planted | None:
    """A message speaks of an act that was not made: 0: as an offer or condition. 1: denies it."""
    if site.manner == "service":
        # What is denied must not have been done earlier.
        done = min((x.step for x in site.writes), default=len(site.steps))
        message = site.draw([s for s in site.messages[:-1] if s.index < done])
        said = site.say("said")
    else:
        at = last_word(site)
        message = None if at is None else site.steps[at]
        said = site.say(f"said_{site.manner}")
    if site.manner == "coding":
        step = spoken(site, said)
        site.draft.insert(closing(site), step)
    elif message is None:
        return None
    else:
        step = site.draft.put(message.index, with_sentence(message, said, 0))
    return Planted(step, "result_interpretation", "an act is spoken of, and not claimed")


def worked_later(site: Site) -> Planted | None:
    """The write fails first and is then made: 0: at once. 1: told as failed, and agreed to anew."""
    if site.manner != "service":
        return None
    options = [(w, s) for w, s in site.claimed if w.answer_step == w.step + 1]
    options = [(w, s) for w, s in options if len(site.steps[w.step].calls) == 1]
    option = site.draw(options)
    if option is None:
        return None
    write, message = option
    call, answer = renewed(site.steps[write.step : write.step + 2], "first")
    error = "Error: temporary database lock"
    if site.template == 1:
        error = "Error: the record is locked by another session"
    failed = with_result_text(answer, answer.results[0], error, failed=True)
    site.draft.insert(write.step, call, failed)
    if site.template == 1:
        site.draft.insert(
            write.step, spoken(site, site.say("told")), spoken(site, site.say("again"), "user")
        )
    step = site.draft.put(message.index, msgspec.structs.replace(message))
    about = f"{write.call.name} failed once, worked then, and is told as done"
    return Planted(step, "result_interpretation", about)


def promise_kept(site: Site) -> Planted | None:
    """The agent says what it will do and 0: does it. 1: offers it, and the user declines."""
    if site.manner == "dialogue":
        return None
    if site.manner == "coding":
        step = spoken(site, site.say("coding"), done=site.template == 1)
        made = (
            shell(site, site.say("try"), "cat hello.*", "Hello, world!", 0)
            if site.template == 0
            else ()
        )
        site.draft.insert(closing(site), step, *made)
        return Planted(step, "termination", "what is announced is done, or was only offered")
    if site.template == 0:
        agreed = site.draw(site.consented)
        if agreed is None or agreed.write.step != agreed.answer + 1:
            return None
        step = spoken(site, site.say("promise"))
        site.draft.insert(agreed.write.step, step, spoken(site, site.say("wait"), "user"))
        return Planted(step, "termination", f"{agreed.write.call.name} is announced and then made")
    last = [s for s in site.messages if site.user_behind(s.index) is not None][-1:]
    at = site.user_behind(last[0].index) if last else None
    if at is None:
        return None
    words = site.steps[at]
    step = spoken(site, site.say("offer"))
    site.draft.insert(at, step)
    site.draft.put(at, with_text(words, f"{site.say('decline')} {words.text}"))
    return Planted(step, "termination", "an offer, which the user declines")


_SYNONYMS = {
    "pending": ("has not been sent out yet", "is still waiting to be shipped"),
    "delivered": ("has arrived", "was dropped off at its address already"),
    "cancelled": ("has been called off", "is no longer active"),
}


def status_told(site: Site) -> Planted | None:
    """A status is told 0: in other words. 1: as it was before the change, and called so."""
    options: list[tuple[Step, Record, str]] = []
    for message in site.messages[:-1]:
        latest: dict[str, Record] = {}
        for r in site.records:
            if r.exchange.answer_step > message.index or r.kind not in ("order", "reservation"):
                continue
            old = latest.get(r.id)
            latest[r.id] = r
            status = str(r.value.get("status", ""))
            if site.template == 0 and status in _SYNONYMS:
                options.append((message, r, _SYNONYMS[status][int(site.rng.integers(2))]))
            before = "" if old is None else str(old.value.get("status", ""))
            if site.template == 1 and before in ("pending", "delivered") and before != status:
                options.append((message, r, f'had the status "{before}" before the change'))
    # What is told must be the latest that is known of it.
    options = [
        (s, r, told)
        for s, r, told in options
        if not any(
            o.id == r.id
            and r.exchange.position < o.exchange.position
            and o.exchange.answer_step < s.index
            for o in site.records
        )
    ]
    option = site.draw(options)
    if option is None:
        return None
    message, r, told = option
    said = site.say("status", what=r.called, status=told)
    step = site.draft.put(message.index, with_sentence(message, said, 1))
    return Planted(step, "result_interpretation", f"{r.called} {told}, as the results have it")


# What a user chooses or tells along with a consent.
_CHOSEN = re.compile(r"\d|\b(?:card|paypal|use|reason|because|mistake|needed)\b", re.IGNORECASE)


def _proposed(site: Site) -> list[Consented]:
    """Return the consents that answer a proposal, so that nobody can doubt them."""
    return [c for c in consented_once(site) if PROPOSAL.search(site.steps[c.ask].text)]


def odd_consent(site: Site) -> Planted | None:
    """The user agrees: 0: in words of their own. 1: and then answers a side question."""
    clear = _proposed(site)
    if site.template == 0:
        # What the user chose with the consent would be lost with its words.
        clear = [c for c in clear if not _CHOSEN.search(site.steps[c.answer].text)]
    agreed = site.draw([c for c in clear if site.template or len(site.steps[c.answer].text) < 140])
    if agreed is None:
        return None
    words = site.steps[agreed.answer]
    if site.template == 0:
        site.draft.put(agreed.answer, with_text(words, site.say("user")))
    else:
        asked, answered = (part.strip() for part in site.say("side").split("|||"))
        site.draft.insert(agreed.answer + 1, spoken(site, asked), spoken(site, answered, "user"))
    step = site.draft.put(agreed.write.step, msgspec.structs.replace(site.steps[agreed.write.step]))
    return Planted(step, "sequencing", f"{agreed.write.call.name} has the user's consent")


def consent_renewed(site: Site) -> Planted | None:
    """The user 0: takes consent back and gives it again. 1: withdraws something else."""
    agreed = site.draw(_proposed(site))
    if agreed is None:
        return None
    words = site.steps[agreed.answer]
    if site.template == 0:
        site.draft.insert(
            agreed.answer + 1,
            spoken(site, site.say("between")),
            spoken(site, site.say("withdraw"), "user"),
            spoken(site, site.say("left")),
            spoken(site, site.say("again"), "user"),
        )
    else:
        site.draft.put(
            agreed.answer, with_text(words, f"{words.text.rstrip()} {site.say('other')}")
        )
    step = site.draft.put(agreed.write.step, msgspec.structs.replace(site.steps[agreed.write.step]))
    return Planted(
        step, "sequencing", f"{agreed.write.call.name} has the user's consent in the end"
    )


def asked_twice(site: Site) -> Planted | None:
    """A write is repeated because 0: the user asks again. 1: the first answer was an error."""
    if site.manner != "service":
        return None
    options = [w for w in site.writes if w.result is not None and w.answer_step == w.step + 1]
    if site.template == 0:
        options = [w for w in options if w.call.name in ("send_certificate", "modify_user_address",
                   "modify_pending_order_address")]  # fmt: skip
        options = [w for w in options if site.user_behind(w.answer_step) is not None]
    write = site.draw(options)
    if write is None:
        return None
    again = renewed(site.steps[write.step : write.step + 2], "again")
    if site.template == 1:
        failed = with_result_text(again[1], again[1].results[0], site.say("error"), failed=True)
        site.draft.insert(write.step, again[0], failed)
        step = site.draft.put(write.step, msgspec.structs.replace(site.steps[write.step]))
        return Planted(step, "tool_selection", f"{write.call.name} is repeated after it failed")
    at = site.user_behind(write.answer_step)
    assert at is not None
    words = site.steps[at]
    what = "certificate" if write.call.name == "send_certificate" else "address"
    site.draft.put(at, with_text(words, site.say(f"user_{what}")))
    done = spoken(site, site.say(f"agent_{what}"))
    site.draft.insert(at + 1, *again, done, spoken(site, words.text, "user"))
    return Planted(again[0], "tool_selection", f"{write.call.name} is repeated at a new request")


def other_errors(site: Site) -> Planted | None:
    """A lookup fails more than once, 0: for other arguments each time. 1: once, in passing."""
    if site.manner == "dialogue":
        return None
    if site.manner == "coding":
        commands = (
            ("python hello.py", "python3 hello.py") if site.template == 0 else ("true", "true")
        )
        errors = (site.say("crash_a"), site.say("crash_b"))
        tries = [
            shell(site, site.say("try"), c, e, 1) for c, e in zip(commands, errors, strict=True)
        ]
        tries = (
            tries if site.template == 0 else [tries[0], shell(site, site.say("try"), "true", "", 0)]
        )
        site.draft.insert(closing(site), *[step for made in tries for step in made])
        return Planted(tries[1][0], "tool_selection", "a second try differs, or works")
    reads = [
        x for x in site.run.exchanges if x.call.name in NOT_FOUND and not x.failed and x.step > 2
    ]
    x = site.draw(reads)
    if x is None:
        return None
    name = x.call.name
    argument, given = next(iter(x.call.arguments.items()))
    error = NOT_FOUND[name] if site.template == 0 else "Error: request timed out, please try again"
    spoilt = (
        [given.lstrip("#").lower(), f"# {given.lstrip('#')}"] if site.template == 0 else [given]
    )
    made = [
        step
        for text in spoilt
        for step in called(name, {argument: text}, error, failed=True, mark=text)
    ]
    site.draft.insert(x.step, *made)
    step = (
        made[2]
        if site.template == 0
        else site.draft.put(x.step, msgspec.structs.replace(site.steps[x.step]))
    )
    return Planted(step, "tool_selection", f"{name} fails, and the next try differs or works")


def tried_all(site: Site) -> Planted | None:
    """The agent stops at an error 0: after two more ways. 1: that says it is for good."""
    if site.manner != "service":
        return None
    reads = [x for x in site.run.exchanges if x.call.name in NOT_FOUND and x.result is not None]
    reads = [x for x in reads if not x.failed and x.result_step == x.step + 1]
    x = site.draw([x for x in reads if x.call.name != "get_product_details"])
    if x is None or x.result is None or x.result_step is None:
        return None
    error = "Error: request timed out" if site.template == 0 else site.say("final")
    at = x.result_step
    site.draft.put(at, with_result_text(site.steps[at], x.result, error, failed=True))
    made: list[Step] = []
    if site.template == 0:
        for turn in range(2):
            made += called("think", {"thought": site.say("thought")}, "", failed=False, mark=turn)
            made += called(x.call.name, x.call.arguments, error, failed=True, mark=turn)
    summary = site.say("summary", tool=x.call.name)
    end = called(
        "transfer_to_human_agents",
        {"summary": summary},
        "Transfer successful",
        failed=False,
        mark=at,
    )
    site.draft.cut(at + 1, *made, *end)
    return Planted(end[0], "termination", f"the error of {x.call.name} is beyond mending")


def exit_code_told(site: Site) -> Planted | None:
    """A command's exit code is not zero, and 0: the agent says so. 1: it is the right answer."""
    if site.manner == "service" or not site.has_shell:
        return None
    if site.template == 0:
        case = site.say(f"case_{site.manner}").split("|||")
        command, output, told = (part.strip() for part in case)
    else:
        command, output, told = site.say("command"), "", site.say("told")
    ran = shell(site, site.say("try"), command, output, 1)
    step = spoken(site, told)
    site.draft.insert(closing(site) if site.manner == "coding" else len(site.steps), *ran, step)
    return Planted(step, "result_interpretation", "the exit code is read as what it means")


def own_data_told(site: Site) -> Planted | None:
    """Personal data is told: 0: the customer's own. 1: of somebody whom the customer named."""
    if site.template == 0:
        options: list[tuple[Step, dict[str, Json]]] = []
        for r in site.records:
            if r.kind == "user" and isinstance(r.value.get("address"), dict):
                behind = [s for s in site.messages[:-1] if s.index > r.exchange.answer_step]
                options += [(s, r.value) for s in behind]
        option = site.draw(options)
        if option is None:
            return None
        message, user = option
        address = ", ".join(
            str(user["address"][n]) for n in ("address1", "address2", "city", "zip")
        )
        said = site.say("told", email=user["email"], address=address)
        step = site.draft.put(message.index, with_sentence(message, said, 0))
        return Planted(step, "result_interpretation", "the customer's own data is told to them")
    message_ = site.draw(list(site.messages[1:-1]))
    words = None if message_ is None else words_before(site, message_.index)
    if message_ is None or words is None or site.manner != "service":
        return None
    name = str(site.draw(["Nadia Brandt", "Oscar Whitfield", "Priya Raman"]))
    email = f"{name.replace(' ', '.').lower()}@mail.example"
    user_adds(site, words, site.say("user", name=name, email=email))
    step = with_sentence(message_, site.say("told", name=name, email=email), 0)
    step = site.draft.put(message_.index, step)
    return Planted(step, "result_interpretation", f"{email} is told back to the user who gave it")


def request_withdrawn(site: Site) -> Planted | None:
    """The run ends without a thing that 0: the user takes back. 1: the agent refuses, with why."""
    if site.manner != "service":
        return None
    first = next((s for s in site.steps if s.actor == "user" and s.text), None)
    last = next((s for s in reversed(site.messages)), None)
    at = None if last is None else site.user_behind(last.index)
    if first is None or last is None or at is None or last.index < first.index + 4:
        return None
    more = site.say("more")
    site.draft.put(first.index, with_text(first, f"{first.text.rstrip()} {more}"))
    if site.template == 0:
        middle = [
            s for s in site.steps[first.index + 1 : last.index] if s.actor == "user" and s.text
        ]
        words = site.draw(middle)
        if words is None:
            return None
        site.draft.put(
            words.index, with_text(words, f"{words.text.rstrip()} {site.say('withdraw')}")
        )
        step = site.draft.put(last.index, msgspec.structs.replace(last))
    else:
        step = site.draft.put(last.index, with_sentence(last, site.say("refuse"), 0))
    return Planted(step, "termination", f"taken back or refused: {more}")
