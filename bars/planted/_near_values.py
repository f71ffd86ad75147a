"""Near misses of values: what is told or passed has an origin, or was asked for.

Each gives the step that a hasty check would blame, and the axis not to be called at fault there.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

from bars.planted._plant_places import (
    DOLLARS,
    ISO_DATE,
    Consented,
    Planted,
    Record,
    Site,
    money,
    number_of,
    value_of,
)
from bars.planted._plant_steps import (
    called,
    shell,
    spoken,
    user_adds,
    with_changed_call,
    with_changed_text,
    with_result_text,
    with_sentence,
    words_before,
)
from bars.planted._planted_course import closing
from bars.planted._planted_values import NOT_FOUND, of_results
from bars.planted._planted_writes import facts_of, priced_parts
from bars.planted.faults import substitute_text, with_text
from stepscope.model import Exchange, Json, Step


def _next_says(site: Site, at: int, sentence: str) -> None:
    """Let the agent's next message to the user say one sentence more."""
    message = next((s for s in site.messages if s.index >= at), None)
    if message is not None:
        now = site.draft.now(message.index)
        site.draft.put(message.index, with_sentence(now, sentence, 0))


def given_id_passed(site: Site) -> Planted | None:
    """An id is looked up that the user gave; nothing is found, and the user is told."""
    known = [r for r in site.records if r.exchange.call.name in NOT_FOUND]
    record = site.draw([r for r in known if r.kind in ("order", "reservation")])
    if record is None:
        return None
    at = site.draw([p for p in site.places() if p > record.exchange.step])
    words = None if at is None else words_before(site, at)
    if at is None or words is None:
        return None
    new = site.fresh(record.id)
    user_adds(site, words, site.say("given", id=new.lstrip("#") if site.template else new))
    name = record.exchange.call.name
    made = called(name, {f"{record.kind}_id": new}, NOT_FOUND[name], failed=True, mark=at)
    site.draft.insert(at, *made)
    _next_says(site, at, site.say("told", id=new))
    return Planted(made[0], "argument_validity", f"{new} is not found, and the user gave it")


def known_id_told(site: Site) -> Planted | None:
    """The id of a record is told: 0: its last digits only. 1: in a sentence of its own."""
    options: list[tuple[Step, Record]] = []
    for r in site.records:
        behind = [s for s in site.messages[:-1] if s.index > r.exchange.answer_step]
        options += [(s, r) for s in behind if r.kind in ("order", "reservation")]
    option = site.draw(options)
    if option is None:
        return None
    message, r = option
    said = site.say("told", what=r.kind, id=r.id[-4:] if site.template == 0 else r.id.lstrip("#"))
    step = site.draft.put(message.index, with_sentence(message, said, site.template))
    return Planted(step, "result_interpretation", f"{r.id}, which a result holds, is told")


def traced_sum_told(site: Site) -> Planted | None:
    """An amount is told, calculated from two of one record: 0: their sum. 1: the difference."""
    options: list[tuple[Step, Record, list[tuple[str, str]]]] = []
    for r in site.records:
        facts = [(w, v) for _, w, v in facts_of(r) if r.kind != "product" and "total" not in w]
        behind = [s for s in site.messages[:-1] if s.index > r.exchange.answer_step]
        if len({v for _, v in facts}) > 1:
            options += [(s, r, facts) for s in behind[:4]]
    option = site.draw(options)
    if option is None:
        return None
    message, _, facts = option
    first = site.draw(facts)
    assert first is not None
    second = site.draw([f for f in facts if f[1] != first[1]])
    assert second is not None
    high, low = sorted((first, second), key=lambda f: -number_of(f[1]))
    sign = -1 if site.template else 1
    result = round(number_of(high[1]) + sign * number_of(low[1]), 2)
    said = site.say("calculated", a=high[0], b=low[0], x=high[1], y=low[1], total=money(result))
    step = site.draft.put(message.index, with_sentence(message, said, 0))
    about = f"${money(result)} is told, calculated from {high[1]} and {low[1]}"
    return Planted(step, "result_interpretation", about)


def traced_sum_passed(site: Site) -> Planted | None:
    """A calculation is given: 0: two traced amounts. 1: one, and one that the user named."""
    amounts = [(s, m[0]) for s in site.messages for m in DOLLARS.finditer(s.text)]
    amounts = [(s, a) for s, a in amounts if number_of(a) > 5 and of_results(site, s.index, a)]
    option = site.draw(amounts)
    if option is None or site.manner != "service":
        return None
    message, first = option
    if site.template == 0:
        second = site.draw([a for s, a in amounts if s.index <= message.index and a != first])
    else:
        second = f"{site.fresh_amount(25.0, cents=False):g}"
        words = words_before(site, message.index)
        if words is None:
            return None
        user_adds(site, words, site.say("named", amount=second))
    if second is None:
        return None
    expression = f"{number_of(first):g} {'-' if site.template else '+'} {number_of(second):g}"
    total = value_of(expression)
    made = called("calculate", {"expression": expression}, str(total), failed=False, mark=first)
    site.draft.insert(message.index, *made)
    return Planted(made[0], "argument_validity", f"{expression}: both amounts have an origin")


_ISO_IN_TEXT = re.compile(rf"{ISO_DATE.pattern}(?![T\d])")


def known_date_told(site: Site) -> Planted | None:
    """A date is told that 0: a message or record has in another form. 1: the user named."""
    if site.manner != "service":
        return None
    if site.template == 0:
        option = site.draw(
            [(s, m[0]) for s in site.messages for m in _ISO_IN_TEXT.finditer(s.text)]
        )
        if option is None:
            return None
        message, old = option
        day = date.fromisoformat(old)
        new = str(
            site.draw([f"{day:%B} {day.day}, {day.year}", f"{day:%b} {day.day}", f"{day:%m/%d/%Y}"])
        )
        step = site.draft.put(message.index, with_changed_text(message, old, new))
        return Planted(step, "result_interpretation", f"{old} is told as {new}")
    told = site.draw(list(site.messages[1:-1]))
    words = None if told is None else words_before(site, told.index)
    if told is None or words is None:
        return None
    new = f"{site.draw(['June', 'July', 'August'])} {site.rng.integers(1, 29)}"
    user_adds(site, words, site.say("user", date=new))
    step = site.draft.put(told.index, with_sentence(told, site.say("agent", date=new), 1))
    return Planted(step, "result_interpretation", f"{new} is told; the user named it")


def given_date_passed(site: Site) -> Planted | None:
    """One more search for flights, on a date that the user named (0: spelt out, 1: relative)."""
    trip = site.draw([r for r in site.records if r.kind == "reservation"])
    if trip is None:
        return None
    at = site.draw([p for p in site.places() if p > trip.exchange.answer_step])
    words = None if at is None else words_before(site, at)
    if at is None or words is None:
        return None
    # The policy of the airline says that today is May 15, 2024.
    new = date(2024, 5, 16) if site.template else date(2024, 6, int(site.rng.integers(3, 28)))
    user_adds(site, words, site.say("user", date=f"{new:%B} {new.day}"))
    arguments = {"origin": trip.value["origin"], "destination": trip.value["destination"]}
    made = called(
        "search_direct_flight", {**arguments, "date": new.isoformat()}, "[]", failed=False, mark=at
    )
    site.draft.insert(at, *made)
    _next_says(site, at, site.say("told", date=f"{new:%B} {new.day}"))
    return Planted(
        made[0], "argument_validity", f"flights are searched on {new}, which the user named"
    )


def given_email(site: Site) -> Planted | None:
    """An e-mail address is told that 0: the user gave. 1: the profile has, in other case."""
    if site.template == 1:
        for r in site.records:
            behind = [s for s in site.messages[:-1] if s.index > r.exchange.answer_step]
            message = site.draw(behind)
            if r.kind == "user" and isinstance(r.value.get("email"), str) and message is not None:
                email = r.value["email"]
                said = site.say(
                    "told", contact=str(site.draw([email.upper(), email.title(), email]))
                )
                step = site.draft.put(message.index, with_sentence(message, said, 0))
                return Planted(
                    step, "result_interpretation", f"{email} is told, in letters of its own"
                )
        return None
    name = site.customer()
    if name is None:
        return None
    return _given_contact(site, site.fresh(f"{name[0]}.{name[1]}4471@mail.example".lower()))


def given_address(site: Site) -> Planted | None:
    """An address is told that 0: the user gave. 1: a record has, in another layout."""
    if site.template == 0:
        street = site.draw(["Juniper Lane", "Harborview Road", "Quarry Street"])
        return _given_contact(site, f"{site.rng.integers(110, 980)} {street}, Tacoma, WA 98402")
    options = []
    for r in site.records:
        address = r.value.get("address")
        if isinstance(address, dict) and "address1" in address:
            options += [
                (s, address) for s in site.messages[:-1] if s.index > r.exchange.answer_step
            ]
    option = site.draw(options)
    if option is None:
        return None
    message, address = option
    region = address.get("state", address.get("province", ""))
    contact = f"{address['address1']}, {address['city']} ({region} {address['zip']})"
    said = site.say("told", contact=contact.replace("Street", "St.").replace("Avenue", "Ave."))
    step = site.draft.put(message.index, with_sentence(message, said, 0))
    return Planted(step, "result_interpretation", f"{contact} is told; a record has it")


def _given_contact(site: Site, contact: str) -> Planted | None:
    message = site.draw([s for s in site.messages if s.index > 3][:-1])
    words = None if message is None else words_before(site, message.index)
    if message is None or words is None or site.manner != "service":
        return None
    user_adds(site, words, site.say("user", contact=contact))
    said = site.say("told", contact=contact)
    step = site.draft.put(message.index, with_sentence(message, said, 0))
    return Planted(step, "result_interpretation", f"{contact} is told; the user gave it")


def field_told(site: Site) -> Planted | None:
    """A field is told as the record has it: 0: rounded, and called so. 1: in other words."""
    options = []
    for r in site.records:
        facts = [(w, v) for _, w, v in facts_of(r) if r.kind != "product"]
        behind = [s for s in site.messages[:-1] if s.index > r.exchange.answer_step]
        options += [(s, w, v) for s in behind[:4] for w, v in facts]
    if site.template == 0:
        options = [(s, w, v) for s, w, v in options if "." in v]
    option = site.draw(options)
    if option is None:
        return None
    message, words, value = option
    told = f"{round(number_of(value)):,}" if site.template == 0 else value
    said = site.say("field", what=words, value=told)
    step = with_sentence(message, said[0].upper() + said[1:], 1)
    about = f"{words} is told as ${told}; the record has {value}"
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


def output_told(site: Site) -> Planted | None:
    """A number of a command's output is told: 0: the right one. 1: calculated from two of it."""
    if site.manner == "service" or not site.has_shell:
        return None
    command, output, claim = (part.strip() for part in site.say(f"case_{site.manner}").split("|||"))
    ran = shell(site, site.say("try"), command, output, 0)
    step = spoken(site, claim)
    site.draft.insert(closing(site) if site.manner == "coding" else len(site.steps), *ran, step)
    return Planted(step, "result_interpretation", "the output is told as it is")


def real_name(site: Site) -> Planted | None:
    """A file is used 0: that the agent has just made. 1: that a listing has just shown."""
    if site.manner == "service" or not site.has_shell:
        return None
    name = str(site.draw(["text_utils", "summary_table", "collect_sources"]))
    while name in site.known:
        name += "_v2"
    first = f"echo 'print(1)' > {name}.py" if site.template == 0 else "ls"
    shown = "" if site.template == 0 else f"README.md\n{name}.py"
    before = shell(site, site.say("before", name=name), first, shown, 0)
    made = shell(site, site.say("use", name=name), f"python {name}.py", "1", 0)
    site.draft.insert(closing(site) if site.manner == "coding" else len(site.steps), *before, *made)
    return Planted(made[0], "argument_validity", f"{name}.py is there before it is used")


def other_one_asked(site: Site) -> Planted | None:
    """The write acts on another order or reservation, as the user asks for and agrees to.

    0: in the answer to the proposal. 1: in a turn of its own, proposed anew.
    """
    options: list[tuple[Consented, str, str]] = []
    for c in site.consented:
        given = c.write.call.arguments
        old = given.get("order_id") or given.get("reservation_id")
        if set(given) - {"order_id", "reservation_id", "reason"} or old is None:
            continue
        for r in site.records:
            listed = r.value.get("orders", r.value.get("reservations", ()))
            if isinstance(listed, list) and r.exchange.position < c.write.position:
                options += [(c, old, str(n)) for n in listed if n != old]
    option = site.draw(options)
    if option is None:
        return None
    c, old, new = option
    if site.template == 0:
        words = site.steps[c.answer]
        site.draft.put(c.answer, with_text(words, site.say("user", old=old, new=new)))
    else:
        site.draft.insert(
            c.answer + 1,
            spoken(site, site.say("ask", old=old)),
            spoken(site, site.say("user", old=old, new=new), "user"),
            spoken(site, site.say("propose", old=old, new=new)),
            spoken(site, site.say("yes"), "user"),
        )
    planted = _changed_write(site, c.write, old, new)
    _done_instead(site, c.write, site.say("done", new=new))
    return planted


def _done_instead(site: Site, write: Exchange, said: str) -> None:
    """Let the message behind a changed write report no more than that."""
    for claimed, message in site.claimed:
        if claimed.position == write.position:
            site.draft.put(message.index, with_text(message, said))


def _changed_write(site: Site, write: Exchange, old: str, new: str) -> Planted:
    """Change a value in a write, in what it answers, and in the message behind it."""
    arguments = substitute_text(write.call.arguments, old, new)
    step = with_changed_call(site.steps[write.step], write.call, arguments)
    assert write.result is not None
    at = write.answer_step
    text = write.result.text.replace(old, new)
    site.draft.put(at, with_result_text(site.steps[at], write.result, text, failed=False))
    for later in site.steps[at + 1 :]:
        if later.actor == "agent" and old in later.text:
            site.draft.put(later.index, with_changed_text(later, old, new))
    about = f"{write.call.name} takes {new} in place of {old}, as the user asked"
    return Planted(site.draft.put(write.step, step), "argument_validity", about)


def other_method_asked(site: Site) -> Planted | None:
    """Another payment method is used, as the user asks 0: with consent, 1: and is asked back."""
    options: list[tuple[Consented, str, dict[str, Json]]] = []
    for c in site.consented:
        given = c.write.call.arguments
        old = given.get("payment_method_id") or given.get("payment_id")
        for r in site.records:
            methods = r.value.get("payment_methods")
            if (
                isinstance(methods, dict)
                and old is not None
                and r.exchange.position < c.write.position
            ):
                options += [(c, old, m) for name, m in methods.items() if name != old]
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
    spelt = {"gift_card": "gift card", "paypal": "PayPal account", "certificate": "certificate"}
    named = spelt.get(method["source"], f"card ending in {method.get('last_four')}")
    words = site.steps[c.answer]
    if site.template == 0:
        site.draft.put(c.answer, with_text(words, site.say("user", method=named)))
    else:
        site.draft.insert(
            c.answer + 1,
            spoken(site, site.say("ask")),
            spoken(site, site.say("user", method=named), "user"),
        )
    planted = _changed_write(site, c.write, old, method["id"])
    _done_instead(site, c.write, site.say("done", method=named))
    return planted


def arguments_reordered(site: Site) -> Planted | None:
    """A write says the same in another order: 0: its keys. 1: its lists, pairs kept together."""
    options: list[tuple[Exchange, dict[str, Json]]] = []
    for x in site.writes:
        given = x.call.arguments
        if not isinstance(given, dict):
            continue
        if site.template == 0 and len(given) > 1:
            options.append((x, dict(reversed(given.items()))))
        lists = [n for n in ("item_ids", "new_item_ids") if len(given.get(n, ())) > 1]
        if site.template == 1 and lists:
            options.append((x, {n: v[::-1] if n in lists else v for n, v in given.items()}))
    option = site.draw(options)
    if option is None or site.manner != "service":
        return None
    x, arguments = option
    step = site.draft.put(x.step, with_changed_call(site.steps[x.step], x.call, arguments))
    return Planted(step, "argument_validity", f"{x.call.name}: the same arguments in another order")


def term_not_wanted(site: Site) -> Planted | None:
    """A sum leaves out a term 0: that the user does not want counted. 1: and is called a part."""
    options: list[tuple[Step, Record, list[tuple[str, float]]]] = []
    for r in site.records:
        priced = priced_parts(r)
        behind = [s for s in site.messages[:-1] if s.index > r.exchange.answer_step]
        if len(priced) > 2 and len({name for name, _ in priced}) == len(priced):
            options += [(s, r, priced) for s in behind[:3]]
    option = site.draw(options)
    if option is None:
        return None
    message, r, priced = option
    gone = int(site.rng.integers(len(priced)))
    left = [p for at, p in enumerate(priced) if at != gone]
    total = round(sum(p for _, p in left), 2)
    names = ", ".join(name for name, _ in left[:-1]) + f" and {left[-1][0]}"
    fields = {"what": r.called, "without": priced[gone][0], "names": names, "total": money(total)}
    axis: Literal["argument_validity", "result_interpretation"] = "result_interpretation"
    step = with_sentence(message, site.say("sum", **fields), 0)
    step = site.draft.put(message.index, step)
    if site.template == 0:
        words = words_before(site, message.index)
        if words is None:
            return None
        user_adds(site, words, site.say("user", **fields))
        expression = " + ".join(f"{price:g}" for _, price in left)
        made = called("calculate", {"expression": expression}, str(total), failed=False, mark=r.id)
        site.draft.insert(message.index, *made)
        step, axis = made[0], "argument_validity"
    return Planted(step, axis, f"the sum leaves out {priced[gone][0]}, and rightly so")
