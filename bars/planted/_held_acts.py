"""Template 2: what is claimed, promised, told of a status, and told of somebody else.

What stands behind a plant stays as it was recorded, but where it is cheap to mend.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from bars.planted._held_steps import (
    as_table,
    ask_aside,
    draw_planter,
    last_message,
    looked_up,
    side_places,
    with_answer,
    with_recap,
    with_remark,
)
from bars.planted._held_writes import coding_end
from bars.planted._plant_places import Planted, Record, Site
from bars.planted._plant_steps import renewed, spoken, with_sentence
from bars.planted._planted_course import last_word
from bars.planted.faults import with_text
from stepscope.model import Json, Step

# --- Claims ---------------------------------------------------------------------------------------


def claim_without_write(site: Site) -> Planted | None:
    """Item 3. What the user asks for is "done" at once; a recap lists one act too many."""
    about = "an act is claimed that no call made"
    if site.manner != "service":
        said = site.say(site.manner)
        at = last_word(site)
        if site.manner == "coding":
            step = spoken(site, said)
            site.draft.insert(coding_end(site), step)
        elif at is None:
            return None
        else:
            step = site.draft.put(at, with_sentence(site.steps[at], said, 0))
        return Planted(step, "result_interpretation", about)
    message = last_message(site)
    at = site.draw(side_places(site))
    if at is not None and (message is None or site.rng.integers(2)):
        asked, answered = (part.strip() for part in site.say("aside").split("|||"))
        step = ask_aside(site, at, asked, answered)
    elif message is not None:
        step = site.draft.put(message.index, with_recap(message, site.say("recap")))
    else:
        return None
    return Planted(step, "result_interpretation", about, ("tool_selection",))


def claim_after_failed_write(site: Site) -> Planted | None:
    """Item 3. The write is refused, and told as done: in short, in a table, or when asked."""
    if site.manner == "coding":
        return _claim_after_failed_save(site)
    options = [(w, s) for w, s in site.claimed if len(site.steps[w.step].calls) == 1]
    option = site.draw(options)
    if option is None:
        return None
    write, message = option
    assert write.result is not None
    at = write.answer_step
    site.draft.put(at, with_answer(site.steps[at], write.result, site.say("error")))
    about = f"{write.call.name} was refused and is told as done"
    behind = site.user_behind(message.index)
    if behind is not None and site.rng.integers(2):
        site.draft.put(message.index, with_text(message, site.say("vague")))
        step = spoken(site, site.say("confirmed"))
        site.draft.insert(behind, spoken(site, site.say("sure"), "user"), step)
        return Planted(step, "result_interpretation", about)
    step = site.draft.put(message.index, with_text(message, site.say("done")))
    return Planted(step, "result_interpretation", about)


def _claim_after_failed_save(site: Site) -> Planted | None:
    write = site.draw([w for w in site.writes if w.call.name != "finish"])
    if write is None or write.result is None:
        return None
    at = write.answer_step
    answered = with_answer(site.steps[at], write.result, site.say("save_error"))
    site.draft.put(at, answered)
    step = spoken(site, site.say("saved"))
    site.draft.cut(at + 1, step)
    about = "the file was not written, and the end of the run says that it was"
    return Planted(step, "result_interpretation", about)


def promise_never_kept(site: Site) -> Planted | None:
    """Item 3. What the user asks for is put off and forgotten; a next step stays undone."""
    if site.manner == "dialogue":
        return None
    about = "what is put off here never comes"
    if site.manner == "coding":
        step = spoken(site, site.say("coding"), done=False)
        site.draft.insert(coding_end(site), step)
        return Planted(step, "termination", about)
    at = site.draw(side_places(site))
    message = site.draw(list(site.messages[1:-1]))
    if at is not None and (message is None or site.rng.integers(2)):
        asked, answered = (part.strip() for part in site.say("aside").split("|||"))
        step = ask_aside(site, at, asked, answered)
    elif message is not None:
        step = site.draft.put(message.index, with_remark(site, message, site.say("promise")))
    else:
        return None
    return Planted(step, "termination", about)


# --- Status ---------------------------------------------------------------------------------------

# How agents put a status in words of their own.
_WORDS = {
    "pending": ("hasn't left our warehouse yet", "is still open and waiting to be shipped"),
    "processed": ("has been processed", "is in the status processed"),
    "delivered": ("was delivered already", "has reached you, the delivery is complete"),
    "cancelled": ("was called off and won't be sent", "is cancelled"),
    "return requested": ("has a return under way", "is marked for return"),
    "exchange requested": ("has an exchange under way", "is marked for exchange"),
}


_OF_TRIPS = {"insured": "comes with travel insurance", "uninsured": "has no travel insurance"}


# What is true as well of what has a status: a returned order was delivered once.
_TRUE_AS_WELL = {
    "processed": ("pending",),
    "return requested": ("delivered",),
    "exchange requested": ("delivered",),
}


def latest_records(site: Site, before: int) -> list[Record]:
    """Return what was last known of each order and reservation before a place."""
    latest = {r.id: r for r in site.records if r.exchange.answer_step < before}
    return [r for r in latest.values() if r.kind in ("order", "reservation")]


def states_of(site: Site, r: Record, *, right: bool) -> list[str]:
    """Return ways to tell the status of a record rightly, or wrongly."""
    status = str(r.value.get("status", ""))
    if r.kind == "order":
        said = {name: site.choices(name, words, "status") for name, words in _WORDS.items()}
        same = list(said.get(status, ()))
        mixed = not same or "(" in status  # a modified order is pending still
        true = {status, *_TRUE_AS_WELL.get(status, ())}
        others = [w for name, words in said.items() for w in words if name not in true]
        return same if right else [] if mixed else others
    insured = r.value.get("insurance") == "yes"
    name = "insured" if insured == right else "uninsured"
    found = list(site.choices(name, (_OF_TRIPS[name],), "status"))
    if status == "cancelled":
        off = site.choices("off", ("is cancelled",), "status")
        on = site.choices("on", ("stands as booked", "is confirmed and active"), "status")
        found = list(off if right else on)
    elif r.value.get("cabin"):
        cabins = ("economy", "basic economy", "business")
        own = str(r.value["cabin"]).replace("_", " ")
        forms = site.choices("cabin", ("is booked in {cabin}",), "status")
        found += [f.format(cabin=c) for c in cabins if (c == own) is right for f in forms]
    return found


def status_told_otherwise(site: Site) -> Planted | None:
    """Item 3. Asked for a status, the agent tells another one; or one row of a table is wrong."""
    return draw_planter(site, _status_on_demand, _status_in_table)


def _status_on_demand(site: Site) -> Planted | None:
    options = [
        (at, r, told)
        for at in side_places(site)
        for r in latest_records(site, at)
        for told in states_of(site, r, right=False)
    ]
    option = site.draw(options)
    if option is None:
        return None
    at, r, told = option
    step = ask_aside(
        site, at, site.say("ask", what=r.called), site.say("answer", what=r.called, told=told)
    )
    about = f"{r.called} {told}, it is said; the last result says otherwise"
    return Planted(step, "result_interpretation", about)


def _status_in_table(site: Site) -> Planted | None:
    options = []
    for message in site.messages[1:]:
        known = latest_records(site, message.index)
        orders = [r for r in known if r.kind == "order" and r.value.get("status") in _WORDS]
        if len(orders) > 1:
            options.append((message, orders))
    option = site.draw(options)
    if option is None:
        return None
    message, orders = option
    at = int(site.rng.integers(len(orders)))
    rows = [(r.id, str(r.value["status"])) for r in orders]
    true = {rows[at][1], *_TRUE_AS_WELL.get(rows[at][1], ())}
    wrong = str(site.draw([s for s in _WORDS if s not in true]))
    about = f"{rows[at][0]} is {rows[at][1]!r} and {wrong!r} in the table"
    rows[at] = (rows[at][0], wrong)
    step = with_recap(message, f"{site.say('table')}\n\n{as_table([('Order', 'Status'), *rows])}")
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


# --- Somebody else's data -------------------------------------------------------------------------

PEOPLE = (
    ("Hana", "Petrov", "1150 Aspen Way", "Apt 4", "Madison", "WI", "53703", "1984-11-02"),
    ("Luis", "Ferreira", "83 Old Quarry Road", "Unit 210", "Salem", "OR", "97301", "1991-07-19"),
    ("Greta", "Nilsson", "6 Fountain Square", "Suite 15", "Albany", "NY", "12207", "1968-02-27"),
    ("Omar", "Castillo", "2417 Prairie Street", "Suite 880", "Tulsa", "OK", "74103", "1977-09-30"),
)


def other_customers_data_told(site: Site) -> Planted | None:
    """Item 7. The user asks for somebody else's data, which the agent looks up and tells."""
    at = site.draw(side_places(site))
    people = site.choices("people", ["|||".join(one) for one in PEOPLE])
    person = str(site.draw(people)).split("|||")
    if at is None:
        return None
    first, last, street, suite, city, state, zip_code, born = person
    is_retail = site.airline_or_retail == "retail"
    user_id = f"{first}_{last}_{site.rng.integers(1000, 9999)}".lower()
    email = f"{first}.{last}{site.rng.integers(1000, 9999)}@example.com".lower()
    four = str(site.rng.integers(1000, 9999))
    card = f"credit_card_{site.rng.integers(1000000, 9999999)}"
    value: dict[str, Json] = {
        "name": {"first_name": first, "last_name": last},
        "address": {"address1": street, "address2": suite, "city": city, "country": "USA",
                    "state" if is_retail else "province": state, "zip": zip_code},
        "email": email,
        **({} if is_retail else {"dob": born}),
        "payment_methods": {
            card: {"source": "credit_card", "brand": "visa", "last_four": four, "id": card}
        },
    }  # fmt: skip
    answer = msgspec.json.format(msgspec.json.encode(value), indent=0).decode().replace("\n", "")
    made = looked_up("get_user_details", {"user_id": user_id}, answer, user_id)
    fields = {
        "name": f"{first} {last}",
        "first": first,
        "id": user_id,
        "email": email,
        "four": four,
        "address": f"{street}, {suite}, {city}, {state} {zip_code}",
    }
    step = ask_aside(site, at, site.say("ask", **fields), site.say("answer", **fields), *made)
    also: tuple[Literal["tool_selection", "sequencing"], ...] = ("tool_selection", "sequencing")
    about = f"personal data of {first} {last}, another customer, is told to the user"
    return Planted(step, "result_interpretation", about, also)


def failed_once(site: Site, at: int, error: str) -> list[Step]:
    """Return copies of a call and its answer, which is an error."""
    call, answer = renewed(site.steps[at : at + 2], "failed")
    return [call, with_answer(answer, answer.results[0], error)]
