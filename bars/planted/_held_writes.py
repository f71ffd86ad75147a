"""Template 2: writes of the wrong thing, of another thing's value, unasked for, or made twice.

What a changed write answered stays as it was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise

import msgspec

from bars.planted._held_steps import draw_planter, looked_up, mistyped, with_answer
from bars.planted._plant_places import Consented, Planted, Site, decoded, strings_of
from bars.planted._plant_steps import renewed, shell, spoken, with_changed_call
from bars.planted._planted_acts import consented_once
from bars.planted._planted_course import closing
from bars.planted.faults import substitute_text, with_text
from stepscope.model import Exchange, Json, Step

Change = tuple[Exchange, dict[str, Json], str]


def _changed(site: Site, options: list[Change]) -> Planted | None:
    option = site.draw(options)
    if option is None:
        return None
    x, arguments, about = option
    step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
    return Planted(step, "argument_validity", f"{x.call.name}: {about}")


# --- The wrong one, the wrong value ---------------------------------------------------------------


def wrong_one_of_several(site: Site) -> Planted | None:
    """Item 2. The id of the write before, an item of another order, a pair crossed, a passenger."""
    return draw_planter(site, lambda s: _changed(s, list(_stale_ids(s))),
                        lambda s: _changed(s, list(_strange_items(s))),
                        lambda s: _changed(s, list(_crossed_pairs(s))),
                        lambda s: _changed(s, list(_other_passengers(s))))  # fmt: skip


def _stale_ids(site: Site) -> Iterator[Change]:
    for name in ("order_id", "reservation_id"):
        with_id = [w for w in site.writes if name in w.call.arguments]
        for before, w in pairwise(with_id):
            old, new = (str(x.call.arguments[name]) for x in (w, before))
            if old != new:
                yield w, {**w.call.arguments, name: new}, f"{new} again, {old} was meant"


def _strange_items(site: Site) -> Iterator[Change]:
    for w in site.writes:
        given = w.call.arguments
        for r in site.records:
            if r.kind != "order" or r.exchange.position > w.position:
                continue
            if r.id == given.get("order_id"):
                continue
            for old in given.get("item_ids", ()):
                for item in r.value.get("items", ()):
                    if item["item_id"] not in given["item_ids"]:
                        changed = substitute_text(given["item_ids"], old, item["item_id"])
                        about = f"item {item['item_id']} of {r.id}, not {old}"
                        yield w, {**given, "item_ids": changed}, about


def _crossed_pairs(site: Site) -> Iterator[Change]:
    for w in site.writes:
        new = w.call.arguments.get("new_item_ids", ())
        if len(set(new)) > 1:
            crossed = [*new[1:], new[0]]
            about = "new items are paired with the wrong old ones"
            yield w, {**w.call.arguments, "new_item_ids": crossed}, about


def _other_passengers(site: Site) -> Iterator[Change]:
    saved = [p for r in site.records for p in r.value.get("saved_passengers", ())]
    for w in site.writes:
        listed = w.call.arguments.get("passengers", ())
        for at, passenger in enumerate(listed):
            for other in saved:
                if all(other["first_name"] != p["first_name"] for p in listed):
                    changed = [*listed[:at], other, *listed[at + 1 :]]
                    about = f"{other['first_name']} in place of {passenger['first_name']}"
                    yield w, {**w.call.arguments, "passengers": changed}, about


def other_entity_value_in_write(site: Site) -> Planted | None:
    """Item 2. A product's id as an item's, a part of another address, another's date or baggage."""
    options = [
        o for w in site.writes for o in (*_retail_values(site, w), *_airline_values(site, w))
    ]
    return _changed(site, options)


def _retail_values(site: Site, w: Exchange) -> Iterator[Change]:
    given = w.call.arguments
    before = [r for r in site.records if r.exchange.position < w.position]
    for r in before:
        for item in r.value.get("items", ()) if r.kind == "order" else ():
            for name in ("item_ids", "new_item_ids"):
                pair = dict(zip(given.get("item_ids", ()), given.get(name, ()), strict=False))
                old = pair.get(item["item_id"])
                if old is not None:
                    changed = substitute_text(given[name], old, item["product_id"])
                    yield w, {**given, name: changed}, f"a product id as one of {name}"
        address = r.value.get("address")
        for name in ("city", "state", "address2"):
            other = address.get(name) if isinstance(address, dict) else None
            if name in given and other and other != given[name]:
                yield w, {**given, name: other}, f"{name} of another address: {other}"
    for old, new in zip(given.get("item_ids", ()), given.get("new_item_ids", ()), strict=False):
        changed = substitute_text(given["new_item_ids"], new, old)
        yield w, {**given, "new_item_ids": changed}, f"the old item {old} as a new one"


def _airline_values(site: Site, w: Exchange) -> Iterator[Change]:
    given = w.call.arguments
    dates = {str(f["date"]) for r in site.records for f in r.value.get("flights", ())}
    for at, flight in enumerate(given.get("flights", ())):
        for other in sorted(dates - set(strings_of(given["flights"]))):
            flights = [
                *given["flights"][:at],
                {**flight, "date": other},
                *given["flights"][at + 1 :],
            ]
            about = f"{flight['flight_number']} on {other}, the day of another flight"
            yield w, {**given, "flights": flights}, about
    people = given.get("passengers", ())
    births = {
        str(p["dob"])
        for r in site.records
        for name in ("passengers", "saved_passengers")
        for p in r.value.get(name, ())
    }
    for at, person in enumerate(people):
        for other in sorted(births - {p["dob"] for p in people}):
            changed = [*people[:at], {**person, "dob": other}, *people[at + 1 :]]
            about = f"{person['first_name']} with the birthday {other} of somebody else"
            yield w, {**given, "passengers": changed}, about
    for r in site.records:
        if r.kind == "reservation" and r.id != given.get("reservation_id"):
            for name in ("cabin", "total_baggages"):
                if name in given and r.value.get(name, given[name]) != given[name]:
                    about = f"{name} of {r.id}: {r.value[name]}"
                    yield w, {**given, name: r.value[name]}, about


def reference_value_changed(site: Site) -> Planted | None:
    """Item 2. A matching write gets one element too many, the next day, or a misspelt text."""
    case = site.run.case
    reference = () if case is None else case.reference or ()
    options: list[Change] = []
    for w in site.writes:
        given = w.call.arguments
        if not any(c.name == w.call.name and c.arguments == given for c in reference):
            continue
        if "reason" in given:
            reasons = ("no longer wanted", "changed my mind", "customer request")
            new = str(site.draw(site.choices("reasons", reasons)))
            options.append((w, {**given, "reason": new}, f"the reason is {new!r}"))
        for name in ("address1", "city", "zip"):
            text = str(given.get(name, ""))
            new = mistyped(site, text) or text.replace("er", "re", 1)
            if new != text:
                options.append((w, {**given, name: new}, f"{name} {text!r} is made {new!r}"))
        for at, person in enumerate(given.get("passengers", ())):
            name = str(person["last_name"])
            new = f"{name[:-2]}{name[-1]}{name[-2]}"
            changed = [*given["passengers"]]
            changed[at] = {**person, "last_name": new}
            options.append((w, {**given, "passengers": changed}, f"{name} is made {new}"))
        for at, flight in enumerate(given.get("flights", ())):
            day = date.fromisoformat(flight["date"]) + timedelta(days=1)
            flights = [*given["flights"]]
            flights[at] = {**flight, "date": day.isoformat()}
            options.append((w, {**given, "flights": flights}, f"{flight} a day later"))
        options += _with_one_more(site, w)
    return _changed(site, options)


def _with_one_more(site: Site, w: Exchange) -> Iterator[Change]:
    """Yield a return with an item of the order more than was asked for."""
    given = w.call.arguments
    if "new_item_ids" in given or "item_ids" not in given:
        return
    for r in site.records:
        if r.id == given.get("order_id") and r.exchange.position < w.position:
            for item in r.value.get("items", ()):
                if item["item_id"] not in given["item_ids"]:
                    more = [*given["item_ids"], item["item_id"]]
                    yield w, {**given, "item_ids": more}, f"{item['name']} as well"


# --- Consent --------------------------------------------------------------------------------------

# What a user chooses along with a consent would not be known before it.
_CHOICE = re.compile(r"\d|card|paypal|method|reason|because|mistake|needed|address", re.IGNORECASE)


def write_without_consent(site: Site) -> Planted | None:
    """Item 4. The user answers with something else; or the write is made, and then proposed."""
    return draw_planter(site, _answered_otherwise, _made_before_asked)


def _answered_otherwise(site: Site) -> Planted | None:
    agreed = site.draw(consented_once(site))
    if agreed is None:
        return None
    site.draft.put(agreed.answer, with_text(site.steps[agreed.answer], site.say("user")))
    about = f"{agreed.write.call.name} is made; the user has not said yes"
    return _write_of(site, agreed, about)


def _write_of(site: Site, agreed: Consented, about: str) -> Planted:
    call = site.steps[agreed.write.step]
    return Planted(site.draft.put(call.index, msgspec.structs.replace(call)), "sequencing", about)


def _made_before_asked(site: Site) -> Planted | None:
    found = [
        c
        for c in consented_once(site)
        if c.write.answer_step == c.write.step + 1 == c.answer + 2
        and len(site.steps[c.write.step].calls) == 1
        and not _CHOICE.search(site.steps[c.answer].text)
        and "?" in site.steps[c.ask].text
        and not site.steps[c.ask - 1].calls
    ]
    agreed = site.draw(found)
    if agreed is None:
        return None
    early = renewed(site.steps[agreed.write.step : agreed.write.step + 2], "early")
    early[0] = with_text(early[0], "") if early[0].text else early[0]
    site.draft.insert(agreed.ask, *early)
    site.draft.drop(agreed.write.step, agreed.write.answer_step)
    about = f"{agreed.write.call.name} is made before it is proposed"
    return Planted(early[0], "sequencing", about)


def consent_withdrawn(site: Site) -> Planted | None:
    """Item 4. The user writes a second message at once; or withdraws in the answer to an aside."""
    agreed = site.draw(consented_once(site))
    if agreed is None:
        return None
    if site.rng.integers(2):
        site.draft.insert(agreed.answer + 1, spoken(site, site.say("second"), "user"))
    else:
        asked, answered = (part.strip() for part in site.say("side").split("|||"))
        site.draft.insert(agreed.answer + 1, spoken(site, asked), spoken(site, answered, "user"))
    return _write_of(site, agreed, f"the user stopped {agreed.write.call.name} before it was made")


# --- Twice ----------------------------------------------------------------------------------------


def write_done_twice(site: Site) -> Planted | None:
    """Item 5. The write is repeated after a look at what it did, or before the last message.

    Its arguments may stand in another order; it works again or is refused as done.
    """
    if site.manner == "dialogue":
        return None
    write = site.draw([w for w in site.writes if w.call.name != "finish"])
    if write is None or write.result is None:
        return None
    pair = [site.steps[i] for i in sorted({write.step, write.answer_step})]
    if len(pair) == 2 and write.answer_step != write.step + 1:
        return None
    again = renewed(pair, "again")
    if isinstance(write.call.arguments, dict) and site.rng.integers(2):
        turned = dict(reversed(write.call.arguments.items()))
        call = next(c for c in again[0].calls if c.name == write.call.name)
        again[0] = with_changed_call(again[0], call, turned)
    if len(again) == 2 and site.rng.integers(2):
        again[1] = with_answer(again[1], again[1].results[0], site.say(f"error_{site.manner}"))
    last = site.messages[-1].index if site.messages else 0
    if site.manner == "service" and last > write.answer_step + 2 and site.rng.integers(2):
        site.draft.insert(last, *again)
    else:
        site.draft.insert(write.answer_step + 1, *_look_at(site, write), *again)
    about = f"{write.call.name} is made again, after it had worked, and nobody asked for that"
    return Planted(again[0], "tool_selection", about)


def _look_at(site: Site, write: Exchange) -> list[Step]:
    """Return a lookup of what was written, or a thought, or a look at the file."""
    assert write.result is not None
    if site.manner == "coding":
        return shell(site, site.say("look"), "ls -l", site.say("listing"), 0)
    value = decoded(write.result.text)
    for kind in ("order", "reservation"):
        if isinstance(value, dict) and f"{kind}_id" in value:
            arguments: Json = {f"{kind}_id": value[f"{kind}_id"]}
            return looked_up(f"get_{kind}_details", arguments, write.result.text, "look")
    return looked_up("think", {"thought": site.say("thought")}, "", "look")


def coding_end(site: Site) -> int:
    """Return where steps go at the end of a coding run or of a dialogue's head."""
    return closing(site) if site.manner == "coding" else len(site.steps)
