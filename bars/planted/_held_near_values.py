"""Template 2, near misses of values: what is told or passed has an origin, or was asked for.

Each gives the step that a hasty check would blame, and the axis not to be called at fault there.
"""

from __future__ import annotations

from datetime import date

import msgspec

from bars.planted._held_course import case_of
from bars.planted._held_steps import (
    as_table,
    ask_aside,
    draw_planter,
    forms_of,
    looked_up,
    ordinal,
    side_places,
    strange_day,
    with_recap,
    with_remark,
)
from bars.planted._held_values import field_questions, part_names
from bars.planted._held_writes import coding_end
from bars.planted._plant_places import (
    DOLLARS,
    Consented,
    Planted,
    Record,
    Site,
    money,
    number_of,
    strings_of,
    value_of,
)
from bars.planted._plant_steps import (
    shell,
    spoken,
    with_changed_call,
    with_changed_text,
    with_result_text,
)
from bars.planted._planted_values import NOT_FOUND, of_results
from bars.planted._planted_writes import priced_parts
from bars.planted.faults import substitute_text, with_text
from stepscope.model import Exchange, Json, Step

# What the airline's policy says of today, in 7 business days, and a week from today.
IN_BUSINESS_DAYS, IN_A_WEEK = date(2024, 5, 24), date(2024, 5, 22)


def _trips(site: Site) -> list[Record]:
    return [r for r in site.records if r.kind in ("order", "reservation")]


# --- Ids ------------------------------------------------------------------------------------------


def given_id_passed(site: Site) -> Planted | None:
    """An id is looked up that the user spelt in a way of their own; nothing is found."""
    record = site.draw([r for r in _trips(site) if r.exchange.call.name in NOT_FOUND])
    at = site.draw(side_places(site, 0 if record is None else record.exchange.answer_step))
    if record is None or at is None:
        return None
    new = site.fresh(record.id)
    bare = new.lstrip("#")
    spelt = site.draw([bare.lower(), f"{bare[:4]} {bare[4:]}", f"{bare[:3]}-{bare[3:]}"])
    name = record.exchange.call.name
    made = looked_up(name, {f"{record.kind}_id": new}, NOT_FOUND[name], at)
    ask_aside(
        site, at, site.say("ask", id=spelt, what=record.kind), site.say("answer", id=new), *made
    )
    return Planted(made[0], "argument_validity", f"{new} is what the user spelt {spelt}")


def known_id_told(site: Site) -> Planted | None:
    """The id of a record is told masked, in groups, or without its mark."""
    options = [(s, r) for r in _trips(site) for s in site.messages[:-1]
               if s.index > r.exchange.answer_step]  # fmt: skip
    option = site.draw(options)
    if option is None:
        return None
    message, r = option
    bare = r.id.lstrip("#")
    told = site.draw([f"***{bare[-3:]}", bare.lower(), f"`{bare}`", f"{bare[:3]} {bare[3:]}"])
    step = with_remark(site, message, site.say("remark", id=told, what=r.kind))
    about = f"{r.id} is told as {told}"
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


# --- Amounts --------------------------------------------------------------------------------------


def traced_sum_told(site: Site) -> Planted | None:
    """An amount is told: three of a price, half of it, a tenth off, or what the user named."""
    options = [
        (at, name, price)
        for r in site.records
        if r.kind in ("order", "reservation")
        for name, price in part_names(r)
        for at in side_places(site, r.exchange.answer_step)[:3]
    ]
    option = site.draw(options)
    if option is None:
        return None
    at, name, price = option
    value = number_of(price)
    fields = {"name": name, "price": price, "three": money(round(3 * value, 2)),
              "half": money(round(value / 2, 2)), "off": money(round(value * 0.9, 2)),
              "budget": money(float(round(value) + 40))}  # fmt: skip
    asked, answered = (part.strip() for part in site.say("aside", **fields).split("|||"))
    step = ask_aside(site, at, asked, answered)
    return Planted(step, "result_interpretation", f"calculated from ${price}, or named by the user")


def traced_sum_passed(site: Site) -> Planted | None:
    """A calculation takes a rate or a number of pieces that the user names."""
    amounts = [(at, m[0]) for at in side_places(site) for s in site.messages if s.index < at
               for m in DOLLARS.finditer(s.text) if of_results(site, s.index, m[0])]  # fmt: skip
    option = site.draw(amounts)
    if option is None:
        return None
    at, amount = option
    pieces, percent = int(site.rng.integers(3, 9)), int(str(site.draw([5, 15, 30])))
    asked, expression, answered = (
        part.strip()
        for part in site.say("aside", a=f"{number_of(amount):g}", n=pieces, p=percent).split("|||")
    )
    total = value_of(expression)
    made = looked_up("calculate", {"expression": expression}, f"{total}", at)
    ask_aside(site, at, asked, answered.replace("{TOTAL}", money(total)), *made)
    return Planted(made[0], "argument_validity", f"{expression}: every number has an origin")


# --- Dates ----------------------------------------------------------------------------------------


def known_date_told(site: Site) -> Planted | None:
    """A date is told in words: a record's, the user's, or one that the policy gives."""
    options = []
    for r in site.records:
        for flight in r.value.get("flights", ()) if r.kind == "reservation" else ():
            day = date.fromisoformat(flight["date"])
            places = side_places(site, r.exchange.answer_step)[:4]
            options += [(at, flight["flight_number"], r.called, day) for at in places]
    option = site.draw(options)
    if option is not None and site.rng.integers(3):
        at, number, what, day = option
        fields = {"flight": number, "what": what, "date": site.draw(forms_of(day))}
        step = ask_aside(site, at, site.say("ask", **fields), site.say("answer", **fields))
        return Planted(step, "result_interpretation", f"{day} is told as {fields['date']}")
    at_ = site.draw(side_places(site))
    named = strange_day(site)
    if at_ is None or named is None:
        return None
    if site.airline_or_retail == "airline" and site.rng.integers(2):
        asked, answered = case_of(site, "policy")
        day_ = str(site.draw([f for f in forms_of(IN_BUSINESS_DAYS)]))
        step = ask_aside(site, at_, asked, answered.replace("DATE", day_))
        return Planted(step, "result_interpretation", f"{day_} is seven business days from today")
    first, second = (str(site.draw(forms_of(named))) for _ in range(2))
    step = ask_aside(site, at_, site.say("user", date=first), site.say("noted", date=second))
    return Planted(step, "result_interpretation", f"{second} is told; the user named it")


def given_date_passed(site: Site) -> Planted | None:
    """Flights are searched on a day that the user gives in numbers, in words, or from today on."""
    trip = site.draw([r for r in site.records if r.kind == "reservation"])
    at = site.draw(side_places(site, 0 if trip is None else trip.exchange.answer_step))
    named = strange_day(site)
    if trip is None or at is None or named is None:
        return None
    spoken_as = {
        f"the {ordinal(named.day)} of {named:%B}": named,
        f"{named.month}/{named.day}": named,
        f"{named:%b} {named.day}": named,
        "a week from today": IN_A_WEEK,
        "this coming Friday": date(2024, 5, 17),
    }
    words = str(site.draw(list(spoken_as)))
    day = spoken_as[words]
    arguments = {"origin": trip.value["origin"], "destination": trip.value["destination"]}
    made = looked_up("search_onestop_flight", {**arguments, "date": day.isoformat()}, "[]", at)
    told = site.say("answer", date=f"{day:%B} {day.day}")
    ask_aside(site, at, site.say("ask", date=words), told, *made)
    return Planted(made[0], "argument_validity", f"{day} is what the user calls {words}")


# --- E-mail and street addresses ------------------------------------------------------------------


def given_email(site: Site) -> Planted | None:
    """An e-mail address is told that the user spelt out, or the profile's, masked."""
    profile = site.draw([r for r in site.records if r.kind == "user" and "email" in r.value])
    if profile is not None and site.rng.integers(2):
        at = site.draw(side_places(site, profile.exchange.answer_step))
        if at is None:
            return None
        local, host = str(profile.value["email"]).split("@")
        told = str(site.draw([f"{local[0]}***{local[-2:]}@{host}", f"{local} at {host}"]))
        step = ask_aside(site, at, site.say("ask"), site.say("own", contact=told))
        return Planted(step, "result_interpretation", f"{profile.value['email']} is told as {told}")
    at, name = site.draw(side_places(site)), site.customer()
    if at is None or name is None:
        return None
    local = site.fresh(f"{name[1]}{name[0][0]}51".lower())
    spelt = str(site.draw([f"{local} at mail dot example", f"{local}@mail.example"]))
    step = ask_aside(site, at, site.say("user", contact=spelt),
                     site.say("noted", contact=f"{local}@mail.example"))  # fmt: skip
    return Planted(step, "result_interpretation", f"{spelt} is told back to the user who gave it")


def given_address(site: Site) -> Planted | None:
    """An address is told: the record's in part or abbreviated, or one that the user named."""
    options = [
        (at, r.value["address"])
        for r in site.records
        if isinstance(r.value.get("address"), dict)
        for at in side_places(site, r.exchange.answer_step)
    ]
    option = site.draw(options)
    if option is not None and site.rng.integers(2):
        at, address = option
        street = str(address["address1"]).replace("Street", "St").replace("Avenue", "Ave")
        suite = str(address["address2"]).replace("Suite", "Ste")
        town = f"{address['city']} {address['zip']}"
        told = str(site.draw([f"{street}, {suite}\n{town}", town, f"{street}, {suite}"]))
        step = ask_aside(site, at, site.say("ask"), site.say("own", contact=told))
        return Planted(step, "result_interpretation", f"a record's address, as {told!r}")
    at_ = site.draw(side_places(site))
    if at_ is None:
        return None
    streets = site.choices("streets", ("Wharf Road", "Heron Close"))
    place = f"{site.rng.integers(20, 900)} {site.draw(streets)}, Duluth"
    step = ask_aside(site, at_, site.say("user", contact=place), site.say("noted", contact=place))
    return Planted(step, "result_interpretation", f"{place} is told back to the user who gave it")


# --- Fields, outputs, names -----------------------------------------------------------------------


def field_told(site: Site) -> Planted | None:
    """A field is told as the record has it, on demand or in a table in another order."""
    return draw_planter(site, _rows_turned, _field_answered)


def _rows_turned(site: Site) -> Planted | None:
    options = [(s, r) for r in site.records if len(part_names(r)) > 1
               for s in site.messages[:-1] if s.index > r.exchange.answer_step]  # fmt: skip
    option = site.draw(options)
    if option is None:
        return None
    message, r = option
    rows = [(f"${price}", name) for name, price in reversed(part_names(r))]
    table = as_table([("Price", "Item"), *rows])
    step = with_recap(message, f"{site.say('table', what=r.called)}\n\n{table}")
    about = f"a table of {r.called}, as the record has it"
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


def _field_answered(site: Site) -> Planted | None:
    options = [
        (at, words, value)
        for r in site.records
        for words, value, others in field_questions(r)
        if others
        for at in side_places(site, r.exchange.answer_step)[:3]
    ]
    option = site.draw(options)
    if option is None:
        return None
    at, words, value = option
    step = ask_aside(
        site, at, site.say("ask", what=words), site.say("answer", what=words, value=value)
    )
    return Planted(step, "result_interpretation", f"{words} is told as {value}, and is so")


def output_told(site: Site) -> Planted | None:
    """Figures of an output are told in other units, as shares or differences, in another order."""
    if site.manner == "service" or not site.has_shell:
        return None
    command, output, claim = case_of(site, f"case_{site.manner}")
    ran = shell(site, site.say("try"), command, output, 0)
    step = spoken(site, claim)
    site.draft.insert(coding_end(site), *ran, step)
    return Planted(step, "result_interpretation", "the output is told as it is")


def real_name(site: Site) -> Planted | None:
    """A file is used that a command has just written, moved or unpacked, by a path of its own."""
    if site.manner == "service" or not site.has_shell:
        return None
    names = ("string_tools", "result_sheet", "fetch_pages")
    name = str(site.draw(site.choices("names", names)))
    while name in site.known:
        name += "_new"
    say, first, shown, then, command = (
        part.strip() for part in site.say("case", name=name).split("|||")
    )
    before = shell(site, say, first, shown, 0)
    made = shell(site, then, command, "ok", 0)
    site.draft.insert(coding_end(site), *before, *made)
    return Planted(made[0], "argument_validity", f"{name} is there before it is used")


# --- Writes that the user asked for otherwise -----------------------------------------------------


def other_one_asked(site: Site) -> Planted | None:
    """The write acts on another order or reservation, which the user names in a second message."""
    options: list[tuple[Consented, str, str]] = []
    for c in (c for c in site.consented if c.write.step == c.answer + 1):
        given = c.write.call.arguments
        old = given.get("order_id") or given.get("reservation_id")
        if set(given) - {"order_id", "reservation_id", "reason"} or old is None:
            continue
        for r in site.records:
            listed = r.value.get("orders", r.value.get("reservations", ()))
            if isinstance(listed, list) and r.exchange.position < c.write.position:
                options += [(c, old, str(n)) for n in listed if n != old]
    # Not what is written to elsewhere in the run, nor what its status or rules keep as it is.
    written = {text for w in site.writes for text in strings_of(w.call.arguments)}
    kept = {r.id for r in site.records if r.value.get("status") != "pending"}
    option = site.draw([o for o in options if o[2] not in written | kept])
    if option is None:
        return None
    c, old, new = option
    site.draft.insert(
        c.answer + 1,
        spoken(site, site.say("second", old=old, new=new), "user"),
        *_looked_at(site, c.write, old, new),
        spoken(site, site.say("propose", old=old, new=new)),
        spoken(site, site.say("yes", new=new), "user"),
    )
    return _write_instead(site, c.write, old, new, site.say("done", new=new))


def _looked_at(site: Site, write: Exchange, old: str, new: str) -> list[Step]:
    """Return a lookup of the one that the user means, alike but for its id, as the rules demand."""
    seen = [r for r in site.records if r.id == old and r.exchange.position < write.position]
    if not seen or seen[-1].exchange.result is None:
        return []
    kind, answer = seen[-1].kind, seen[-1].exchange.result.text.replace(old, new)
    return looked_up(f"get_{kind}_details", {f"{kind}_id": new}, answer, new)


def _write_instead(site: Site, write: Exchange, old: str, new: str, said: str) -> Planted:
    """Change a value in a write and its answer; the message behind it reports no more than that.

    What the changed run is measured against says nothing of the write: the user wants another.
    """
    arguments = substitute_text(write.call.arguments, old, new)
    step = with_changed_call(site.steps[write.step], write.call, arguments)
    assert write.result is not None
    at = write.answer_step
    text = write.result.text.replace(old, new)
    site.draft.put(at, with_result_text(site.steps[at], write.result, text, failed=False))
    for later in site.steps[at + 1 :]:
        if later.actor == "agent" and old in later.text:
            site.draft.put(later.index, with_changed_text(later, old, new))
    for claimed, message in site.claimed:
        if claimed.position == write.position:
            site.draft.put(message.index, with_text(message, said))
    if site.draft.case is not None:
        site.draft.case = msgspec.structs.replace(site.draft.case, reference=None, subgoals=())
    about = f"{write.call.name} takes {new} in place of {old}, as the user asked"
    return Planted(site.draft.put(write.step, step), "argument_validity", about)


def other_method_asked(site: Site) -> Planted | None:
    """Another payment method is used, which the user names by its last digits or its kind."""
    options: list[tuple[Consented, str, dict[str, Json]]] = []
    for c in (c for c in site.consented if c.write.step == c.answer + 1):
        given = c.write.call.arguments
        old = given.get("payment_method_id") or given.get("payment_id")
        for r in site.records:
            methods = r.value.get("payment_methods")
            if isinstance(methods, dict) and old and r.exchange.position < c.write.position:
                kinds = [m["source"] for m in methods.values()]
                options += [
                    (c, str(old), m)
                    for m in methods.values()
                    if m["id"] != old
                    and (m["source"] == "credit_card" or kinds.count(m["source"]) == 1)
                ]
    # What the policies rule out: certificates for changes, refunds to any but a gift card.
    options = [
        (c, old, m)
        for c, old, m in options
        if m["source"] != "certificate"
        and (m["source"] == "gift_card" or "return" not in c.write.call.name)
    ]
    option = site.draw(options)
    if option is None:
        return None
    c, old, method = option
    named = {
        "gift_card": "gift card",
        "paypal": "PayPal",
    }.get(
        str(method["source"]),
        f"{str(method.get('brand', 'card')).title()} {method.get('last_four')}",
    )
    site.draft.insert(
        c.answer + 1,
        spoken(site, site.say("second", method=named), "user"),
        spoken(site, site.say("propose", method=named)),
        spoken(site, site.say("yes"), "user"),
    )
    return _write_instead(site, c.write, old, str(method["id"]), site.say("done", method=named))


def arguments_reordered(site: Site) -> Planted | None:
    """A write says the same with keys and lists turned at every depth, pairs kept together."""
    options: list[tuple[Exchange, Json]] = []
    for x in site.writes:
        inner = [v for v in x.call.arguments.values() if isinstance(v, list)]
        if any(len(v) > 1 or isinstance(v[0], dict) for v in inner if v):
            options.append((x, _turned(x.call.arguments)))
    option = site.draw(options) if site.manner == "service" else None
    if option is None:
        return None
    x, arguments = option
    step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
    return Planted(step, "argument_validity", f"{x.call.name}: the same, turned at every depth")


def _turned(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _turned(member) for name, member in reversed(value.items())}
    return [_turned(member) for member in reversed(value)] if isinstance(value, list) else value


def term_not_wanted(site: Site) -> Planted | None:
    """A sum is of fewer parts than the record has: those that the user names, and called so."""
    options: list[tuple[int, Record, list[tuple[str, float]]]] = []
    for r in site.records:
        priced = priced_parts(r)
        if len(priced) > 2 and len({name for name, _ in priced}) == len(priced):
            options += [(at, r, priced) for at in side_places(site, r.exchange.answer_step)[:3]]
    option = site.draw(options)
    if option is None:
        return None
    at, r, priced = option
    chosen = sorted(int(n) for n in site.rng.choice(len(priced), len(priced) - 1, replace=False))
    parts = [priced[n] for n in chosen]
    total = round(sum(price for _, price in parts), 2)
    names = ", ".join(name for name, _ in parts[:-1]) + f" and {parts[-1][0]}"
    listed = "\n".join(f"- {name}: ${money(price)}" for name, price in parts)
    fields = {"what": r.called, "names": names, "total": money(total), "listed": listed}
    step = ask_aside(site, at, site.say("ask", **fields), site.say("answer", **fields))
    return Planted(step, "result_interpretation", f"the sum of {names}, as the user wants it")
