"""Faults of values without origin: ids, amounts, dates, e-mail and street addresses made up.

Every planter puts one fault in a run and says at which step. Later turns may contradict a plant:
the results and words behind it stay as they were recorded, but where they are cheap to mend.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from bars.planted._plant_places import (
    DOLLARS,
    IDENTIFIER,
    ISO_DATE,
    Planted,
    Site,
    identifiers_of,
    money,
    number_of,
    strings_of,
    value_of,
)
from bars.planted._plant_steps import (
    called,
    with_changed_call,
    with_changed_text,
    with_result_text,
    with_sentence,
)
from bars.planted.faults import substitute_text
from stepscope.model import Exchange, Step

NOT_FOUND = {
    "get_order_details": "Error: order not found",
    "get_reservation_details": "Error: reservation not found",
    "get_user_details": "Error: user not found",
    "get_product_details": "Error: product not found",
}


_OUTPUT_NUMBER = re.compile(r"(?<![\w.,/:#-])\d[\d,]*\.?\d+(?![\w/:-])")


def invented_id_passed(site: Site) -> Planted | None:
    """Item 1. An id that nobody gave is passed.

    0: in a write, in place of the right one (the recorded answer stays). 1: one more lookup, of an
    id that is not the customer's and is not found; the run then goes on as recorded.
    """
    if site.template == 0:
        calls = [(x, text) for x in site.writes for text in identifiers_of(x.call.arguments)]
        option = site.draw([(x, t) for x, t in calls if not t.startswith("HAT")])
        if option is None:
            return None
        x, old = option
        new = site.fresh(old)
        arguments = substitute_text(x.call.arguments, old, new)
        step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
        return Planted(
            step, "argument_validity", f"{x.call.name} is given {new}, which occurs nowhere before"
        )
    looked = site.draw([x for x in site.run.exchanges if x.call.name in NOT_FOUND and not x.failed])
    at = None if looked is None else site.draw([p for p in site.places() if p > looked.step])
    if looked is None or at is None:
        return None
    new = site.fresh(strings_of(looked.call.arguments)[0])
    name = looked.call.name
    argument = next(iter(looked.call.arguments))
    made = called(name, {argument: new}, NOT_FOUND[name], failed=True, mark=at)
    site.draft.insert(at, *made)
    return Planted(made[0], "argument_validity", f"{name} is asked for {new}, an id nobody gave")


def invented_id_told(site: Site) -> Planted | None:
    """Item 1. The user is told an id that nothing gave.

    0: in place of the right one. 1: a reference number for the matter, which no tool returned.
    """
    if site.manner != "service":
        return None
    if site.template == 0:
        option = site.draw(
            [(step, m[0]) for step in site.messages for m in IDENTIFIER.finditer(step.text)]
        )
        if option is None:
            return None
        message, old = option
        new = site.fresh(old)
        step = site.draft.put(message.index, with_changed_text(message, old, new))
        return Planted(step, "result_interpretation", f"{old} is told as {new}")
    told = site.draw([step for _, step in site.claimed] or list(site.messages[:-1]))
    if told is None:
        return None
    forms = ("RF-482913", "CS20931", "88213-4", "TKT-7710042")
    number = site.fresh(str(site.draw(site.choices("references", forms))))
    step = site.draft.put(told.index, with_sentence(told, site.say("number", id=number), 1))
    return Planted(
        step, "result_interpretation", f"a reference number {number} is told; no result holds one"
    )


def invented_amount_told(site: Site) -> Planted | None:
    """Item 1. The user, or the group, is told an amount that has no origin.

    0: an amount (in a dialogue: a number of a terminal's output) told with other digits. 1: a fee
    or a number that was never looked up.
    """
    if site.manner == "dialogue":
        return _invented_number_told(site)
    messages = [s for s in site.messages if DOLLARS.search(s.text)]
    if site.template == 0:
        option = site.draw(
            [
                (s, m[0])
                for s in messages
                for m in DOLLARS.finditer(s.text)
                if of_results(site, s.index, m[0])
            ]
        )
        if option is None:
            return None
        told, old = option
        new = money(site.fresh_amount(number_of(old), cents="." in old), like=old)
        step = site.draft.put(told.index, with_changed_text(told, old, new))
        return Planted(step, "result_interpretation", f"${old} is told as ${new}, without origin")
    message = site.draw(messages or list(site.messages[:-1]))
    if message is None or site.manner != "service":
        return None
    new = f"{site.fresh_amount(20.0, cents=True):.2f}"
    step = site.draft.put(message.index, with_sentence(message, site.say("fee", amount=new), 1))
    return Planted(
        step, "result_interpretation", f"a fee of ${new} is told that no policy and no result names"
    )


def of_results(site: Site, at: int, amount: str) -> bool:
    """Whether results before a place hold an amount, as a field or as a calculation."""
    number = number_of(amount)
    return (
        re.search(rf"(?<![\d.])-?{number:g}(?:0|\.0+)?(?![\d.]*\d)", results_before(site, at))
        is not None
    )


def _invented_number_told(site: Site) -> Planted | None:
    outputs = ""
    options: list[tuple[Step, str]] = []
    for step in site.steps:
        if step.actor == "environment":
            outputs += step.text
        elif step in site.messages and "```" not in step.text:
            found = _OUTPUT_NUMBER.findall(step.text)
            options += [(step, n) for n in found if n in outputs and number_of(n) > 20]
    option = site.draw(options)
    if option is None:
        return None
    message, old = option
    if site.template == 0:
        new = _other_year(site) if re.fullmatch(r"(?:19|20)\d\d", old) else site.fresh(old)
        step = site.draft.put(message.index, with_changed_text(message, old, new))
        about = f"{old} of the output is told as {new}"
        return Planted(step, "result_interpretation", about)
    new = site.fresh("1,482")
    step = site.draft.put(message.index, with_sentence(message, site.say("count", n=new), 1))
    about = f"{new} records are told to have been checked; no output says so"
    return Planted(step, "result_interpretation", about)


def _other_year(site: Site) -> str:
    """Return a year that the run does not name."""
    years = [str(year) for year in range(1958, 2024) if str(year) not in site.known]
    return str(site.draw(years))


def invented_amount_passed(site: Site) -> Planted | None:
    """Item 1. A calculation is given an amount that nobody named.

    0: one term of a recorded calculation, its result and the message behind it changed with it.
    1: one more calculation that adds such an amount to one that is told next.
    """
    if site.template == 0:
        x = site.draw(calculations(site))
        if x is None or x.result is None or x.result_step is None:
            return None
        expression = str(x.call.arguments["expression"])
        terms = re.findall(r"\d+(?:\.\d+)?", expression)
        old = str(site.draw([t for t in terms if float(t) > 4] or terms))
        new = f"{site.fresh_amount(float(old), cents='.' in old):.{2 if '.' in old else 0}f}"
        changed = re.sub(rf"(?<![\d.]){re.escape(old)}(?![\d.])", new, expression, count=1)
        step = recalculated(site, x, changed)
        return Planted(step, "argument_validity", f"{old} is calculated with as {new}")
    options = [(s, m[0]) for s in site.messages for m in DOLLARS.finditer(s.text)]
    options = [(s, old) for s, old in options if number_of(old) > 1]
    option = site.draw(options)
    if option is None or site.manner != "service":
        return None
    message, old = option
    fee = site.fresh_amount(18.0, cents=True)
    expression = f"{number_of(old):g} + {fee:g}"
    made = called(
        "calculate", {"expression": expression}, str(value_of(expression)), failed=False, mark=old
    )
    site.draft.insert(message.index, *made)
    site.draft.put(
        message.index, with_changed_text(message, old, money(value_of(expression), like=old))
    )
    return Planted(
        made[0], "argument_validity", f"{fee:g} is added in a calculation; nobody named it"
    )


def calculations(site: Site, fewest: int = 1) -> list[Exchange]:
    """Return the calls of a calculator that worked, with so many numbers or more."""
    found = [x for x in site.run.exchanges if x.call.name == "calculate" and not x.failed]
    return [
        x
        for x in found
        if len(re.findall(r"\d+(?:\.\d+)?", str(x.call.arguments["expression"]))) >= fewest
    ]


def recalculated(site: Site, x: Exchange, expression: str) -> Step:
    """Change a calculation, what it gave, and the message behind it."""
    assert x.result is not None
    assert x.result_step is not None
    old, new = float(x.result.text), value_of(expression)
    answer = with_result_text(site.steps[x.result_step], x.result, str(new), failed=False)
    site.draft.put(x.result_step, answer)
    behind = next((s for s in site.messages if s.index > x.result_step), None)
    if behind is not None:
        for form in {money(abs(old)), f"{abs(old):.2f}", f"{abs(old):g}"}:
            behind = with_changed_text(behind, form, money(abs(new), like=form))
        site.draft.put(behind.index, behind)
    changed = with_changed_call(site.steps[x.step], x.call, {"expression": expression})
    return site.draft.put(x.step, changed)


_SPELT = re.compile(
    r"\b(January|February|March|April|May|June|July|August|September|October|November|December)"
    r" (\d{1,2})(?:st|nd|rd|th)?(?!\d)"
)


def _other_date(site: Site, text: str) -> str | None:
    """Return a date of the same form that the run does not hold in any form."""
    for _ in range(100):
        shift = timedelta(days=int(site.rng.integers(3, 60)))
        if ISO_DATE.fullmatch(text):
            new = date.fromisoformat(text) + shift
            written = new.isoformat()
        else:
            new = date(2024, 6, 1) + shift
            written = f"{new:%B} {new.day}"
        forms = (new.isoformat(), f"{new:%B} {new.day}", f"{new:%b} {new.day}")
        if not any(re.search(rf"{form}(?!\d)", site.known) for form in forms):
            return written
    return None


def invented_date_told(site: Site) -> Planted | None:
    """Item 1. The user is told a date that no record holds.

    0: in place of one that does. 1: when something is to arrive or to be done by.
    """
    if site.manner != "service":
        return None
    if site.template == 0:
        options = [
            (step, m[0])
            for step in site.messages
            for form in (ISO_DATE, _SPELT)
            for m in form.finditer(step.text)
        ]
        option = site.draw(options)
        new = None if option is None else _other_date(site, option[1])
        if option is None or new is None:
            return None
        message, old = option
        step = site.draft.put(message.index, with_changed_text(message, old, new))
        return Planted(step, "result_interpretation", f"the date {old} is told as {new}")
    told = site.draw([s for _, s in site.claimed] or list(site.messages[1:-1]))
    new = None if told is None else _other_date(site, "May 20")
    if told is None or new is None:
        return None
    step = site.draft.put(told.index, with_sentence(told, site.say("by", date=new), 1))
    return Planted(step, "result_interpretation", f"{new} is told; no record and no policy has it")


def invented_date_passed(site: Site) -> Planted | None:
    """Item 1. A date that nobody named is passed (airline).

    0: in place of the right one in a search or a write. 1: one more search, for such a date.
    """
    searches = [x for x in site.run.exchanges if ISO_DATE.search(str(x.call.arguments))]
    searches = [x for x in searches if x.call.name not in ("think", "transfer_to_human_agents")]
    x = site.draw(searches)
    if x is not None and site.template == 0:
        old = str(site.draw([s for s in strings_of(x.call.arguments) if ISO_DATE.fullmatch(s)]))
        new = _other_date(site, old)
        if new is None or old == "None":
            return None
        arguments = substitute_text(x.call.arguments, old, new)
        step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
        return Planted(step, "argument_validity", f"{x.call.name} is given {new}, not {old}")
    trip = site.draw([r for r in site.records if r.kind == "reservation"])
    if trip is None or site.template == 0:
        return None
    at = site.draw([p for p in site.places() if p > trip.exchange.answer_step])
    new = _other_date(site, str(trip.value["flights"][0]["date"]))
    if at is None or new is None:
        return None
    arguments = {"origin": trip.value["origin"], "destination": trip.value["destination"]}
    made = called("search_direct_flight", {**arguments, "date": new}, "[]", failed=False, mark=at)
    site.draft.insert(at, *made)
    return Planted(
        made[0], "argument_validity", f"flights are searched on {new}, which nobody named"
    )


def invented_email(site: Site) -> Planted | None:
    """Item 1. An e-mail address that nobody gave, made up from the customer's name.

    0: told as the one on file. 1: passed: to the lookup by e-mail (retail), or in the summary for
    the human agent (both).
    """
    name = site.customer()
    if name is None:
        return None
    email = site.fresh(f"{name[0]}.{name[1]}4471@example.com".lower())
    return _contact(site, email, "e-mail address")


def invented_address(site: Site) -> Planted | None:
    """Item 1. A street address that nobody gave.

    0: told as the one on file. 1: passed: street of an address write, or in the summary for the
    human agent.
    """
    street = site.draw(["Juniper Lane", "Harborview Road", "Quarry Street", "Larkspur Avenue"])
    town = site.draw(["Tacoma, WA 98402", "Boise, ID 83702", "Dayton, OH 45402"])
    address = f"{site.rng.integers(110, 980)} {street}, Apt {site.rng.integers(2, 40)}, {town}"
    for x in site.writes if site.template else ():
        if "address1" in x.call.arguments:
            arguments = {**x.call.arguments, "address1": address.split(",")[0]}
            step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
            about = f"{x.call.name} is given {arguments['address1']}, which nobody named"
            return Planted(step, "argument_validity", about)
    return _contact(site, address, "address")


def _contact(site: Site, contact: str, what: str) -> Planted | None:
    if site.template == 0:
        message = site.draw([s for s in site.messages if s.index > 3][:-1])
        if message is None or site.manner != "service":
            return None
        step = site.draft.put(
            message.index, with_sentence(message, site.say("told", contact=contact), 0)
        )
        return Planted(step, "result_interpretation", f"{contact} is told as the {what} on file")
    finds = [x for x in site.run.exchanges if x.call.name.startswith("find_user")]
    if finds and what == "e-mail address":
        made = called(
            "find_user_id_by_email",
            {"email": contact},
            "Error: user not found",
            failed=True,
            mark=0,
        )
        site.draft.insert(finds[0].step, *made)
        return Planted(made[0], "argument_validity", f"a user is looked up by {contact}, a guess")
    for x in site.run.exchanges:
        if x.call.name == "transfer_to_human_agents":
            summary = f"{x.call.arguments['summary']} {site.say('summary', contact=contact)}"
            changed = with_changed_call(site.steps[x.step], x.call, {"summary": summary})
            step = site.draft.put(x.step, changed)
            return Planted(step, "argument_validity", f"{contact} is handed on; nobody gave it")
    return None


def results_before(site: Site, at: int) -> str:
    """Return the text of all results before a place."""
    return "\n".join(r.text for s in site.steps[:at] for r in s.results)
