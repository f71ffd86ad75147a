"""Faults of values that a record holds: misread, of another entity, changed, or wrongly added up.

What a changed write answered stays as it was recorded; a wrong sum is told on, and refused once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bars.planted._plant_places import (
    DOLLARS,
    Planted,
    Record,
    Site,
    identifiers_of,
    money,
    strings_of,
    value_of,
)
from bars.planted._plant_steps import (
    called,
    renewed,
    with_changed_call,
    with_changed_text,
    with_result_text,
    with_sentence,
)
from bars.planted._planted_values import calculations, recalculated, results_before
from bars.planted.faults import substitute_text
from stepscope.model import Exchange, Json, Step


def facts_of(record: Record) -> Iterator[tuple[str, str, str]]:
    """Yield what of a record may be told: sort, the words for it, and its value.

    Values of one sort can be taken for each other.
    """
    value = record.value
    if record.kind == "order":
        for item in value.get("items", ()):
            yield (
                "money",
                f"the price of the {item['name']} in {record.called}",
                money(item["price"]),
            )
        for paid in value.get("payment_history", ())[:1]:
            yield "money", f"the total paid for {record.called}", money(paid["amount"])
    elif record.kind == "reservation":
        for flight in value.get("flights", ()):
            if "price" in flight:
                words = f"the fare of flight {flight['flight_number']} on {flight['date']}"
                yield "money", f"{words} in {record.called}", money(flight["price"])
        for paid in value.get("payment_history", ())[:1]:
            yield "money", f"the total paid for {record.called}", money(paid["amount"])
    elif record.kind == "product":
        for item in value.get("variants", {}).values():
            options = ", ".join(map(str, item["options"].values()))
            yield "money", f"the {value['name']} ({options}) costs", money(item["price"])


def misread_field(site: Site) -> Planted | None:
    """Item 1. A field of the right entity is told with the value of another field of it.

    0: an amount in a recorded message is exchanged with its neighbour in the same record. 1: a
    sentence of its own about one field, with the value of another.
    """
    options: list[tuple[Step, Record, str, str, str]] = []
    for message in site.messages:
        for record in site.records:
            if record.exchange.answer_step > message.index:
                break
            facts = [(words, value) for _, words, value in facts_of(record)]
            told = {m[0] for m in DOLLARS.finditer(message.text)}
            # A value that several fields hold cannot be told wrongly, nor one told beside it.
            values = [value for _, value in facts]
            names = [words for words, _ in facts]
            for words, value in facts:
                if names.count(words) > 1:
                    continue
                others = [v for w, v in facts if v not in told | {value} and values.count(v) == 1]
                of_it = value in told if site.template == 0 else values.count(value) == 1
                if of_it and others and (site.template or values.count(value) == 1):
                    options += [(message, record, words, value, other) for other in others[:3]]
    if site.template == 1:
        options = [o for o in options if o[1].kind != "product"]
    option = site.draw(options)
    if option is None:
        return None
    message, _, words, right, other = option
    if site.template == 0:
        step = with_changed_text(message, right, other)
    else:
        said = site.say("field", what=words, value=other)
        step = with_sentence(message, said[0].upper() + said[1:], 1)
    about = f"{words}: ${right} in the record, told as ${other}, the value of another field of it"
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


def wrong_one_of_several(site: Site) -> Planted | None:
    """Item 2. A write acts on the wrong one of several that the customer has.

    0: on another order or reservation of the customer. 1: on another item of the order, or another
    flight that was seen for the trip. What the write answered stays.
    """
    options: list[tuple[Exchange, str, str]] = []
    for x in site.writes:
        seen = [r for r in site.records if r.exchange.position < x.position]
        names = {str(r.value.get(f"{r.kind}_id")) for r in seen}
        for r in seen:
            listed = r.value.get("orders", r.value.get("reservations", ()))
            names.update(map(str, listed) if isinstance(listed, list) else ())
        arguments = strings_of(x.call.arguments)
        if site.template == 0:
            old = x.call.arguments.get("order_id") or x.call.arguments.get("reservation_id")
            if old is not None:
                others = sorted(
                    n for n in names if re.fullmatch(r"#W\d{7}|[A-Z0-9]{6}", n) and n != old
                )
                options += [(x, old, other) for other in others]
            continue
        for r in seen:
            items = [i["item_id"] for i in r.value.get("items", ())] if r.kind == "order" else []
            if r.id == x.call.arguments.get("order_id"):
                inside = [i for i in items if i in x.call.arguments.get("item_ids", ())]
                options += [(x, a, b) for a in inside for b in items if b not in arguments]
        flights = sorted(
            set(re.findall(r'"flight_number": "(HAT\d{3})"', results_before(site, x.step)))
        )
        own = [a for a in arguments if a.startswith("HAT")]
        options += [(x, a, b) for a in own for b in flights if b not in own]
    option = site.draw(options)
    if option is None:
        return None
    x, old, other = option
    arguments = substitute_text(x.call.arguments, old, other)
    step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
    return Planted(
        step, "argument_validity", f"{x.call.name} acts on {other} where {old} was meant"
    )


def other_entity_value_in_write(site: Site) -> Planted | None:
    """Item 2. A write takes a value that belongs to something else.

    0: another payment method of the customer than the one agreed. 1: another variant of the
    product than the one chosen; part of another address of the run; an amount of another record.
    """
    values = _other_variants if site.template else _other_methods
    option = site.draw([(x, *value) for x in site.writes for value in values(site, x)])
    if option is None:
        return None
    x, name, old, new = option
    changed = new if name == "amount" else substitute_text(x.call.arguments[name], old, new)
    arguments = {**x.call.arguments, name: changed}
    step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
    about = f"{x.call.name} takes {new} as {name}; {old} was meant"
    return Planted(step, "argument_validity", about)


def _other_methods(site: Site, x: Exchange) -> Iterator[tuple[str, Json, Json]]:
    """Yield argument, value and another payment method of the customer."""
    methods = {m for r in site.records for m in r.value.get("payment_methods", ())}
    for name in ("payment_method_id", "payment_id", "payment_methods"):
        for old in identifiers_of(x.call.arguments.get(name))[:1]:
            yield from ((name, old, method) for method in sorted(methods - {old}))


def _other_variants(site: Site, x: Exchange) -> Iterator[tuple[str, Json, Json]]:
    """Yield argument, value and what another variant, address or payment has in its place."""
    given = x.call.arguments
    before = [r for r in site.records if r.exchange.position < x.position]
    for r in before:
        variants = r.value.get("variants", {})
        for old in given.get("new_item_ids", ()):
            others = set(variants) - set(strings_of(given)) if old in variants else ()
            yield from (("new_item_ids", old, other) for other in sorted(others))
        address = r.value.get("address")
        for name in ("zip", "address1"):
            if isinstance(address, dict) and given.get(name, address[name]) != address[name]:
                yield name, given[name], address[name]
        for paid in r.value.get("payment_history", ()):
            if given.get("amount", paid["amount"]) != paid["amount"]:
                yield "amount", given["amount"], paid["amount"]


_CHOICES = {
    "reason": ("no longer needed", "ordered by mistake"),
    "cabin": ("basic_economy", "economy", "business"),
    "insurance": ("yes", "no"),
    "flight_type": ("one_way", "round_trip"),
}


_LISTS = (("item_ids", "new_item_ids"), ("flights",), ("passengers",))


def reference_value_changed(site: Site) -> Planted | None:
    """Item 2. A write differs in one argument from the reference call that it matched.

    0: another of a few allowed values, or a suite, a number or a name one off. 1: one element of a
    list left out. What the write answered stays.
    """
    case = site.run.case
    reference = () if case is None else case.reference or ()
    options: list[tuple[Exchange, dict[str, Json], str]] = []
    for x in site.writes:
        given = x.call.arguments
        if not any(call.name == x.call.name and call.arguments == given for call in reference):
            continue
        if site.template == 1:
            for names in _LISTS:
                held = [n for n in names if len(given.get(n, ())) > 1]
                at = int(site.rng.integers(len(given[held[0]]))) if held else 0
                changed = {n: [*given[n][:at], *given[n][at + 1 :]] for n in held}
                if held:
                    options.append((x, {**given, **changed}, f"one of {names[0]} left out"))
            continue
        for name, value in given.items():
            other: Json = None
            if name in _CHOICES:
                other = site.draw([c for c in _CHOICES[name] if c != value])
            elif name == "address2" and re.search(r"\d", str(value)):
                other = site.fresh(str(value))
            elif isinstance(value, int) and not isinstance(value, bool):
                other = value + (1 if value < 10 else 50)
            if other is not None:
                options.append((x, {**given, name: other}, f"{name} {value!r} is made {other!r}"))
    option = site.draw(options)
    if option is None:
        return None
    x, arguments, about = option
    step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
    return Planted(step, "argument_validity", f"{x.call.name}: {about}")


def term_left_out(site: Site) -> Planted | None:
    """Item 9. A sum leaves out one term of its kind; the write behind it is refused for it.

    0: in a calculation: a recorded one of three terms or more, else one over what an order or a
    reservation holds. 1: in a message that lists the terms. In both the total is told; the
    refusal names the right one, and the run goes on as recorded.
    """
    x = site.draw([x for x in calculations(site, 3) if _terms(x)])
    if site.template == 0 and x is not None:
        terms = _terms(x)
        gone = int(site.rng.integers(len(terms)))
        left = " + ".join(terms[:gone] + terms[gone + 1 :])
        step = recalculated(site, x, left)
        _refuse(site, x.answer_step, value_of(" + ".join(terms)), value_of(left))
        about = f"{terms[gone]} is left out of {' + '.join(terms)}"
        return Planted(step, "argument_validity", about, ("result_interpretation",))
    options: list[tuple[Step, Record, list[tuple[str, float]]]] = []
    for r in site.records:
        priced = priced_parts(r)
        behind = [s for s in site.messages if s.index > r.exchange.answer_step]
        if len(priced) > 2:
            options += [(s, r, priced) for s in behind[:3] if s.index + 1 < len(site.steps)]
    last_write = max((w.step for w in _priced_writes(site)), default=0)
    refusable = [option for option in options if option[0].index < last_write]
    option = site.draw(refusable or options)
    return None if option is None else _sum_told(site, *option)


def _sum_told(
    site: Site, message: Step, record: Record, priced: list[tuple[str, float]]
) -> Planted:
    """Let a message tell the sum of the parts of a record, without one of them."""
    gone = int(site.rng.integers(len(priced)))
    prices = [price for _, price in priced]
    left = prices[:gone] + prices[gone + 1 :]
    wrong, right = round(sum(left), 2), round(sum(prices), 2)
    fields = {
        "what": record.called,
        "things": "items" if record.kind == "order" else "flights",
        "n": len(priced),
        "total": money(wrong),
        "listed": "\n".join(f"- {name}: ${money(price)}" for name, price in priced),
    }
    step = with_sentence(message, site.say("sum", **fields), site.template)
    step = site.draft.put(message.index, step)
    about = f"the sum over {record.called} leaves out {prices[gone]:g}: {wrong:g}, not {right:g}"
    planted = Planted(step, "result_interpretation", about, ("argument_validity",))
    if site.template == 0:
        expression = " + ".join(f"{price:g}" for price in left)
        made = called(
            "calculate", {"expression": expression}, str(wrong), failed=False, mark=record.id
        )
        site.draft.insert(message.index, *made)
        planted = Planted(made[0], "argument_validity", about, ("result_interpretation",))
    _refuse(site, message.index, right, wrong)
    return planted


def priced_parts(record: Record) -> list[tuple[str, float]]:
    """Return name and price of what an order or the reservation of one passenger consists of."""
    if len(record.value.get("passengers", ())) > 1:
        return []  # prices of flights are for one
    parts = record.value.get({"order": "items", "reservation": "flights"}.get(record.kind, ""), ())
    return [
        (str(part.get("name") or part.get("flight_number")), float(part["price"]))
        for part in parts
        if "price" in part
    ]


def _terms(x: Exchange) -> list[str]:
    """Return the terms of a plain sum, [] for anything else."""
    expression = str(x.call.arguments["expression"])
    parts = expression.replace(" ", "").split("+")
    return parts if len(parts) > 2 and all(re.fullmatch(r"[\d.]+", p) for p in parts) else []


_PRICED = ("book", "exchange", "items", "flights", "payment")


def _priced_writes(site: Site) -> list[Exchange]:
    """Return the writes that something is paid with or paid back."""
    return [w for w in site.writes if any(part in w.call.name for part in _PRICED)]


def _refuse(site: Site, after: int, right: float, wrong: float) -> None:
    """Refuse the next write for its amount once, before it works as recorded."""
    write = next((w for w in _priced_writes(site) if w.step > after), None)
    if write is None or write.result is None or write.result_step != write.step + 1:
        return
    error = site.say("refused", right=f"{right:g}", wrong=f"{wrong:g}")
    call, answer = renewed(site.steps[write.step : write.step + 2], "refused")
    refused = with_result_text(answer, answer.results[0], error, failed=True)
    site.draft.insert(write.step, call, refused)
