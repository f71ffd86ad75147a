"""Template 2: values without origin, and values of a record that are told for one another.

What stands behind a plant stays as it was recorded, but where it is cheap to mend.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bars.planted._held_steps import (
    as_table,
    ask_aside,
    draw_planter,
    forms_of,
    last_message,
    looked_up,
    mistyped,
    side_places,
    strange_day,
    with_answer,
    with_recap,
    with_remark,
)
from bars.planted._plant_places import (
    DOLLARS,
    ISO_DATE,
    Planted,
    Record,
    Site,
    money,
    number_of,
    strings_of,
    value_of,
)
from bars.planted._plant_steps import renewed, spoken, with_changed_call
from bars.planted._planted_values import NOT_FOUND, of_results
from bars.planted._planted_writes import priced_parts
from bars.planted.faults import substitute_text
from stepscope.model import Exchange, Json, Step


def transfers(site: Site) -> list[Exchange]:
    """Return the calls that hand the user on to a human agent."""
    return [x for x in site.run.exchanges if x.call.name == "transfer_to_human_agents"]


def _hand_on(site: Site, change: str, about: str) -> Planted | None:
    """Put another summary into the first call that hands the user on."""
    x = transfers(site)[0]
    arguments = {**x.call.arguments, "summary": change}
    step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
    return Planted(step, "argument_validity", about)


# --- Ids ------------------------------------------------------------------------------------------


def invented_id_passed(site: Site) -> Planted | None:
    """Item 1. An id is mistyped, made up from a name, or handed on wrongly."""
    if site.manner != "service":
        return None
    return draw_planter(
        site, _mistyped_lookup, _mistyped_lookup, _guessed_product, _wrong_handed_on
    )


def _mistyped_lookup(site: Site) -> Planted | None:
    reads = [x for x in site.run.exchanges if x.call.name in NOT_FOUND and not x.failed]
    x = site.draw([x for x in reads if len(site.steps[x.step].calls) == 1])
    if x is None:
        return None
    argument, given = next(iter(x.call.arguments.items()))
    new = mistyped(site, given)
    if new is None:
        return None
    made = looked_up(x.call.name, {argument: new}, site.say("error", id=new), x.step)
    site.draft.insert(x.step, *made)
    return Planted(made[0], "argument_validity", f"{given} is mistyped as {new}")


def _guessed_product(site: Site) -> Planted | None:
    items = [i for r in site.records if r.kind == "order" for i in r.value.get("items", ())]
    reads = [x for x in site.run.exchanges if x.call.name == "get_product_details"]
    x, item = site.draw(reads), site.draw(items)
    if x is None or item is None:
        return None
    name = str(item["name"]).lower().replace(" ", "_")
    guesses = [g.format(name=name) for g in site.choices("guesses", ("{name}_01", "prod_{name}"))]
    new = str(site.draw([*guesses, site.fresh(str(item["product_id"]))]))
    made = looked_up(x.call.name, {"product_id": new}, site.say("error", id=new), x.step)
    site.draft.insert(x.step, *made)
    return Planted(made[0], "argument_validity", f"the product id {new} is a guess")


def _wrong_handed_on(site: Site) -> Planted | None:
    for x in transfers(site)[:1]:
        summary = str(x.call.arguments.get("summary", ""))
        held = sorted({r.id for r in site.records if r.id in summary})
        old = site.draw(held)
        new = None if old is None else mistyped(site, old)
        if old is not None and new is not None:
            return _hand_on(site, summary.replace(old, new), f"{old} is handed on as {new}")
    return None


def invented_id_told(site: Site) -> Planted | None:
    """Item 1. A recap misspells an id; asked for a number, the agent invents one."""
    return draw_planter(site, _mistyped_in_recap, _number_on_demand)


def _mistyped_in_recap(site: Site) -> Planted | None:
    message = last_message(site)
    known = [r for r in site.records if r.kind in ("order", "reservation")]
    record = site.draw(known)
    if message is None or record is None or record.exchange.answer_step > message.index:
        return None
    new = mistyped(site, record.id)
    if new is None:
        return None
    step = with_recap(message, site.say("recap", id=new, what=record.kind))
    about = f"{record.id} is {new} in the recap"
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


def _number_on_demand(site: Site) -> Planted | None:
    at = site.draw(side_places(site))
    if at is None:
        return None
    forms = ["1Z84R2076640193387", "9400150205799", "DL-7740312"]
    if site.airline_or_retail == "airline":
        forms = ["0162208841973", "016-4471902855", "BX-7740312"]
    number = site.fresh(str(site.draw(site.choices("numbers", forms))))
    step = ask_aside(site, at, site.say("ask"), site.say("answer", id=number))
    about = f"the number {number} is told on demand; no result holds one"
    return Planted(step, "result_interpretation", about)


# --- Amounts --------------------------------------------------------------------------------------


def invented_amount_told(site: Site) -> Planted | None:
    """Item 1. A fee on demand, a total in a recap, or a figure in a status to the group."""
    if site.manner == "dialogue":
        return _figure_in_status(site)
    return draw_planter(site, _fee_on_demand, _total_in_recap)


def _fee_on_demand(site: Site) -> Planted | None:
    at = site.draw(side_places(site))
    if at is None:
        return None
    amount = f"{site.fresh_amount(24.0, cents=bool(site.rng.integers(2))):.2f}"
    step = ask_aside(site, at, site.say("ask"), site.say("answer", amount=amount))
    about = f"asked for a fee, the agent names ${amount}; no policy and no result does"
    return Planted(step, "result_interpretation", about)


def _total_in_recap(site: Site) -> Planted | None:
    message = last_message(site)
    if message is None:
        return None
    told = [number_of(a) for s in site.messages for a in DOLLARS.findall(s.text)]
    amount = site.fresh_amount(max(told, default=180.0), cents=True)
    step = with_recap(message, site.say("recap", amount=f"{amount:,.2f}"))
    about = f"the recap ends in ${amount:,.2f}, which nothing holds"
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


def _figure_in_status(site: Site) -> Planted | None:
    printed = [s for s in site.steps[1:] if s.actor == "environment" and "exitcode: 0" in s.text]
    output = site.draw(printed)
    if output is None:
        return None
    figures = site.choices("figures", ("2,317", "418", "96.4", "13,902"))
    number = site.fresh(str(site.draw(figures)))
    step = spoken(site, site.say("status", n=number))
    site.draft.insert(output.index + 1, step)
    return Planted(step, "result_interpretation", f"{number} is reported; no output has it")


def invented_amount_passed(site: Site) -> Planted | None:
    """Item 1. A rate that nobody named, an amount of a payment, or one handed on."""
    if site.manner != "service":
        return None
    return draw_planter(site, _invented_rate, _invented_payment, _amount_handed_on)


def _invented_rate(site: Site) -> Planted | None:
    amounts = [(s, m[0]) for s in site.messages[:-1] for m in DOLLARS.finditer(s.text)]
    amounts = [(s, a) for s, a in amounts if number_of(a) > 10 and of_results(site, s.index, a)]
    option = site.draw(amounts)
    rates = site.choices("rates", ("0.0825", "0.065", "0.0995", "0.175"))
    rates = [r for r in rates if r not in site.known]
    rate = site.draw(rates)
    if option is None or rate is None:
        return None
    message, amount = option
    expression = f"{number_of(amount):g} * (1 + {rate})"
    total = value_of(expression)
    made = looked_up("calculate", {"expression": expression}, f"{total}", amount)
    site.draft.insert(message.index, *made)
    told = site.say("told", percent=f"{float(rate) * 100:g}", amount=amount, total=money(total))
    site.draft.put(message.index, with_remark(site, message, told))
    return Planted(made[0], "argument_validity", f"{expression}: nobody named a rate of {rate}")


def _invented_payment(site: Site) -> Planted | None:
    options: list[tuple[Exchange, Json, float]] = []
    for x in site.writes:
        given = x.call.arguments
        if isinstance(given.get("amount"), int):
            amount = site.fresh_amount(given["amount"], cents=False)
            options.append((x, {**given, "amount": int(amount)}, amount))
        for at, paid in enumerate(given.get("payment_methods", ())):
            amount = site.fresh_amount(paid["amount"], cents=False)
            paid = {**paid, "amount": int(amount)}
            methods = given["payment_methods"]
            changed = [*methods[:at], paid, *methods[at + 1 :]]
            options.append((x, {**given, "payment_methods": changed}, amount))
    option = site.draw(options)
    if option is None:
        return None
    x, arguments, amount = option
    step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
    return Planted(step, "argument_validity", f"{x.call.name} is given {amount:g} as an amount")


def _amount_handed_on(site: Site) -> Planted | None:
    for x in transfers(site)[:1]:
        amount = f"{site.fresh_amount(140.0, cents=True):.2f}"
        summary = site.say("summary", amount=amount, summary=x.call.arguments.get("summary", ""))
        return _hand_on(site, summary, f"${amount} is handed on; nobody named it")
    return None


# --- Dates ----------------------------------------------------------------------------------------


def invented_date_told(site: Site) -> Planted | None:
    """Item 1. A date on demand, in a recap, or in a remark, in forms of everyday speech."""
    day = strange_day(site)
    if day is None or site.manner != "service":
        return None
    written = str(site.draw(forms_of(day)))
    about = f"{written} is told; no record and no policy has it"
    at = site.draw(side_places(site))
    message = last_message(site)
    manner = site.draw(["aside", "recap", "remark"])
    if manner == "aside" and at is not None:
        step = ask_aside(site, at, site.say("ask"), site.say("answer", date=written))
        return Planted(step, "result_interpretation", about)
    if manner == "remark":
        message = site.draw(list(site.messages[1:-1])) or message
    if message is None:
        return None
    if manner == "remark":
        step = with_remark(site, message, site.say("remark", date=written))
    else:
        step = with_recap(message, site.say("recap", date=written))
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


def invented_date_passed(site: Site) -> Planted | None:
    """Item 1. The wrong year, day and month exchanged, a return on no day named, or handed on."""
    if site.airline_or_retail == "retail":
        return None
    planted = draw_planter(site, _wrong_year, _month_for_day, _date_handed_on)
    return planted or _return_searched(site)


def _dated_calls(site: Site) -> list[tuple[Exchange, str]]:
    return [
        (x, text)
        for x in site.run.exchanges
        if x.call.name not in ("think", "transfer_to_human_agents")
        for text in strings_of(x.call.arguments)
        if ISO_DATE.fullmatch(text)
    ]


def _wrong_year(site: Site) -> Planted | None:
    searches = [(x, d) for x, d in _dated_calls(site) if x.call.name.startswith("search")]
    option = site.draw([(x, d) for x, d in searches if len(site.steps[x.step].calls) == 1])
    trip = site.draw([r for r in site.records if r.kind == "reservation"])
    if option is not None:
        x, old = option
        name, arguments, at = x.call.name, x.call.arguments, x.step
    elif trip is not None:
        places = [p for p in site.places() if p > trip.exchange.answer_step]
        name, at = "search_direct_flight", int(site.draw(places) or 0)
        old = str(trip.value["flights"][0]["date"])
        arguments = {n: trip.value[n] for n in ("origin", "destination")} | {"date": old}
    if (option is None and trip is None) or not at:
        return None
    new = str(int(old[:4]) + int(str(site.draw([-1, 1])))) + old[4:]
    made = looked_up(name, substitute_text(arguments, old, new), "[]", new)
    site.draft.insert(at, *made)
    return Planted(made[0], "argument_validity", f"flights are searched in {new[:4]}: {new}")


def _month_for_day(site: Site) -> Planted | None:
    options = []
    for x, old in _dated_calls(site):
        year, month, day = old.split("-")
        new = f"{year}-{day}-{month}"
        if int(day) < 13 and day != month and new not in site.known:
            options.append((x, old, new))
    option = site.draw(options)
    if option is None:
        return None
    x, old, new = option
    arguments = substitute_text(x.call.arguments, old, new)
    step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
    about = f"{x.call.name} is given {new}: day and month of {old} are exchanged"
    return Planted(step, "argument_validity", about)


def _return_searched(site: Site) -> Planted | None:
    trip = site.draw([r for r in site.records if r.kind == "reservation"])
    day = strange_day(site)
    if trip is None or day is None:
        return None
    at = site.draw([p for p in site.places() if p > trip.exchange.answer_step])
    if at is None:
        return None
    arguments = {"origin": trip.value["destination"], "destination": trip.value["origin"]}
    made = looked_up("search_onestop_flight", {**arguments, "date": day.isoformat()}, "[]", at)
    site.draft.insert(at, *made)
    return Planted(
        made[0], "argument_validity", f"a way back is searched on {day}, named by nobody"
    )


def _date_handed_on(site: Site) -> Planted | None:
    day = strange_day(site)
    for x in transfers(site)[:1] if day is not None else ():
        assert day is not None
        written = str(site.draw([day.isoformat(), *forms_of(day)]))
        summary = f"{x.call.arguments.get('summary', '')} {site.say('summary', date=written)}"
        return _hand_on(site, summary, f"{written} is handed on; nobody named it")
    return None


# --- E-mail and street addresses ------------------------------------------------------------------


def _draw_profile(site: Site) -> Record | None:
    return site.draw([r for r in site.records if r.kind == "user" and "email" in r.value])


def invented_email(site: Site) -> Planted | None:
    """Item 1. An e-mail address is told: that of the profile misspelt, or one of another host."""
    profile = _draw_profile(site)
    name = site.customer()
    if name is None or site.manner != "service":
        return None
    first, last = (part.lower() for part in name)
    forms = site.choices("forms", ("{f}{last}@gmail.com", "{last}.{first}@outlook.com"))
    made_up = [form.format(f=first[0], first=first, last=last) for form in forms]
    email = site.fresh(f"{first}_{last}88@yahoo.com") if profile is None else None
    if profile is not None:
        email = mistyped(site, str(profile.value["email"]))
    email = str(site.draw([e for e in (email, *made_up) if e is not None and e not in site.known]))
    return _told_contact(site, email, 0 if profile is None else profile.exchange.answer_step)


def invented_address(site: Site) -> Planted | None:
    """Item 1. A place to send things to that nobody named; the profile's with another number."""
    if site.manner != "service":
        return None
    return draw_planter(site, _office_told, _number_altered, _number_passed)


_OFFICES = (
    "4120 Industrial Parkway, Dock 7, Reno, NV 89506",
    "77 Commerce Blvd, Bldg C, Memphis, TN 38118",
    "1900 Terminal Road, 2nd Floor, Newark, NJ 07114",
    "560 Logistics Way, Unit 12, Joliet, IL 60433",
    "3301 Gateway Center, Suite 400, Tempe, AZ 85281",
)


def _office_told(site: Site) -> Planted | None:
    place = str(site.draw(site.choices("offices", _OFFICES)))
    at = site.draw(side_places(site))
    if at is None:
        return None
    step = ask_aside(site, at, site.say("ask_office"), site.say("office", contact=place))
    about = f"{place} is told as an address of the company"
    return Planted(step, "result_interpretation", about)


def _number_altered(site: Site) -> Planted | None:
    profile = site.draw([r for r in site.records if isinstance(r.value.get("address"), dict)])
    if profile is None:
        return None
    address = profile.value["address"]
    street = mistyped(site, str(address["address1"]))
    if street is None:
        return None
    contact = f"{street}, {address['address2']}, {address['city']} {address['zip']}"
    return _told_contact(site, contact, profile.exchange.answer_step)


def _number_passed(site: Site) -> Planted | None:
    for x in site.writes:
        for name in ("address1", "zip"):
            old = str(x.call.arguments.get(name, ""))
            new = mistyped(site, old)
            if new is not None:
                arguments = {**x.call.arguments, name: new}
                changed = with_changed_call(site.steps[x.step], x.call, arguments)
                about = f"{x.call.name} is given {new} as {name}, not {old}"
                return Planted(site.draft.put(x.step, changed), "argument_validity", about)
    return None


def _told_contact(site: Site, contact: str, after: int) -> Planted | None:
    at = site.draw(side_places(site, after))
    message = site.draw([s for s in site.messages if s.index > after][:-1])
    about = f"{contact} is told as what is on file"
    if at is not None and (message is None or site.rng.integers(2)):
        step = ask_aside(site, at, site.say("ask"), site.say("answer", contact=contact))
        return Planted(step, "result_interpretation", about)
    if message is None:
        return None
    step = with_remark(site, message, site.say("remark", contact=contact))
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


# --- Fields of a record ---------------------------------------------------------------------------


def misread_field(site: Site) -> Planted | None:
    """Item 1. Two rows of a table are exchanged; a field is told with another's value."""
    return draw_planter(site, _rows_exchanged, _field_on_demand, _field_on_demand)


def part_names(record: Record) -> list[tuple[str, str]]:
    """Return names and prices of the parts of a record, those whose name or price is their own."""
    parts = priced_parts(record)
    names, prices = [name for name, _ in parts], [price for _, price in parts]
    return [(n, money(p)) for n, p in parts if names.count(n) == 1 and prices.count(p) == 1]


def _rows_exchanged(site: Site) -> Planted | None:
    options = []
    for r in site.records:
        behind = [s for s in site.messages if s.index > r.exchange.answer_step]
        if len(part_names(r)) > 1:
            options += [(s, r) for s in behind[:2]]
    option = site.draw(options)
    if option is None:
        return None
    message, r = option
    rows = part_names(r)
    a, b = sorted(int(n) for n in site.rng.choice(len(rows), 2, replace=False))
    told = [(name, f"${price}") for name, price in rows]
    told[a], told[b] = (rows[a][0], f"${rows[b][1]}"), (rows[b][0], f"${rows[a][1]}")
    head = ("Item", "Price") if r.kind == "order" else ("Flight", "Fare")
    step = with_recap(message, f"{site.say('table', what=r.called)}\n\n{as_table([head, *told])}")
    about = f"the prices of {rows[a][0]} and {rows[b][0]} are exchanged in a table"
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


def field_questions(record: Record) -> Iterator[tuple[str, str, list[str]]]:
    """Yield what may be asked of a record: words, value, and values that it may be taken for."""
    value = record.value
    for name, price in part_names(record):
        others = [f"${p}" for n, p in part_names(record) if n != name]
        words = "price of the" if record.kind == "order" else "fare of flight"
        yield f"the {words} {name} in {record.called}", f"${price}", others
    if record.kind == "order":
        items = value.get("items", ())
        names = [i["name"] for i in items]
        for item in items:
            for option, chosen in item["options"].items():
                others = [str(i["options"][option]) for i in items if option in i["options"]]
                others = [o for o in others if o != chosen]
                if names.count(item["name"]) == 1:
                    yield f"the {option} of the {item['name']} in {record.called}", chosen, others
    if record.kind == "reservation":
        flights = value.get("flights", ())
        for flight in flights:
            others = [f["date"] for f in flights if f["date"] != flight["date"]]
            number = flight["flight_number"]
            if sum(f["flight_number"] == number for f in flights) == 1:
                yield f"the date of flight {number} in {record.called}", flight["date"], others
        bags, paid = value.get("total_baggages"), value.get("nonfree_baggages")
        if bags is not None and bags != paid:
            yield f"the number of checked bags in {record.called}", str(bags), [str(paid)]
    if record.kind == "user":
        cards = [m for m in value.get("payment_methods", {}).values() if "amount" in m]
        for card in cards:
            others = [f"${c['amount']}" for c in cards if c["amount"] != card["amount"]]
            yield f"the balance of {card['id']}", f"${card['amount']}", others


def _field_on_demand(site: Site) -> Planted | None:
    options = []
    for r in site.records:
        for words, value, others in field_questions(r):
            if others:
                places = side_places(site, r.exchange.answer_step)[:3]
                options += [(at, words, value, others) for at in places]
    option = site.draw(options)
    if option is None:
        return None
    at, words, value, others = option
    told = site.draw(others)
    step = ask_aside(
        site, at, site.say("ask", what=words), site.say("answer", what=words, value=told)
    )
    about = f"{words} is {value} in the record and told as {told}"
    return Planted(step, "result_interpretation", about)


# --- Sums -----------------------------------------------------------------------------------------


def term_left_out(site: Site) -> Planted | None:
    """Item 9. A table, a sentence or a thought adds up without one; a write is refused."""
    options: list[tuple[Step, Record, list[tuple[str, float]]]] = []
    writes = [
        w.step for w in site.writes if re.search("book|exchange|items|flights|pay", w.call.name)
    ]
    for r in site.records:
        behind = [s for s in site.messages if s.index > r.exchange.answer_step]
        priced = priced_parts(r)
        if len(priced) > 2 and len({p for _, p in priced}) > 1:
            options += [(s, r, priced) for s in behind[:3] if s.index + 1 < len(site.steps)]
    option = site.draw([o for o in options if o[0].index < max(writes, default=0)] or options)
    if option is None:
        return None
    message, r, priced = option
    gone = int(site.rng.integers(len(priced)))
    prices = [price for _, price in priced]
    right = round(sum(prices), 2)
    wrong = round(right - prices[gone], 2)
    about = f"the total of {r.called} leaves out {priced[gone][0]}: {wrong:g}, not {right:g}"
    _refuse_sum(site, message.index, right, wrong)
    manner = site.draw(["table", "prose", "thought"])
    if manner == "thought":
        terms = " + ".join(f"{p:g}" for at, p in enumerate(prices) if at != gone)
        thought = site.say("thought", what=r.called, n=len(prices), terms=terms, total=f"{wrong:g}")
        made = looked_up("think", {"thought": thought}, "", r.id)
        site.draft.insert(message.index, *made)
        told = with_remark(site, message, site.say("told", what=r.called, total=money(wrong)))
        site.draft.put(message.index, told)
        return Planted(made[0], "argument_validity", about, ("result_interpretation",))
    if manner == "table":
        head = ("Item", "Price") if r.kind == "order" else ("Flight", "Fare")
        rows = [(name, f"${money(price)}") for name, price in priced]
        total = (site.say("total"), f"**${money(wrong)}**")
        table = as_table([head, *rows, total])
        step = with_recap(message, f"{site.say('table', what=r.called)}\n\n{table}")
        step = site.draft.put(message.index, step)
    else:
        parts = [f"{name} (${money(price)})" for name, price in priced]
        listed = f"{', '.join(parts[:-1])} and {parts[-1]}"
        said = site.say("prose", what=r.called, listed=listed, n=len(parts), total=money(wrong))
        step = site.draft.put(message.index, with_remark(site, message, said))
    return Planted(step, "result_interpretation", about, ("argument_validity",))


def _refuse_sum(site: Site, after: int, right: float, wrong: float) -> None:
    """Refuse the next write that is paid for once, before it works as recorded."""
    paid = [w for w in site.writes if re.search("book|exchange|items|flights|pay", w.call.name)]
    write = next((w for w in paid if w.step > after), None)
    if write is None or write.result is None or write.result_step != write.step + 1:
        return
    error = site.say("refused", right=f"{right:g}", wrong=f"{wrong:g}")
    call, answer = renewed(site.steps[write.step : write.step + 2], "refused")
    site.draft.insert(write.step, call, with_answer(answer, answer.results[0], error))
