"""Template 2, near misses of acts: nothing is claimed, consent was given, a repeat was asked for.

Each gives the step that a hasty check would blame, and the axis not to be called at fault there.
"""

from __future__ import annotations

import msgspec

from bars.planted._held_acts import failed_once, latest_records, states_of
from bars.planted._held_course import case_of
from bars.planted._held_steps import ask_aside, looked_up, side_places, with_answer, with_remark
from bars.planted._held_writes import coding_end
from bars.planted._plant_places import PROPOSAL, STOP, Consented, Planted, Record, Site
from bars.planted._plant_steps import shell, spoken, with_sentence
from bars.planted._planted_acts import consented_once
from bars.planted._planted_course import last_word
from bars.planted._planted_values import NOT_FOUND
from bars.planted.faults import with_text
from stepscope.model import Exchange

# --- Claims, promises, status ---------------------------------------------------------------------


def no_claim(site: Site) -> Planted | None:
    """A message asks, reports a rule, tells the past, or tells what others or the user did."""
    about = "an act is spoken of, and not claimed"
    if site.manner == "coding":
        step = spoken(site, site.say("coding"))
        site.draft.insert(coding_end(site), step)
        return Planted(step, "result_interpretation", about)
    if site.manner == "dialogue":
        at = last_word(site)
        if at is None:
            return None
        said = with_sentence(site.steps[at], site.say("dialogue"), 1)
        return Planted(site.draft.put(at, said), "result_interpretation", about)
    message = site.draw(list(site.messages[1:-1]))
    if message is None:
        return None
    step = with_remark(site, message, site.say("remark"))
    return Planted(site.draft.put(message.index, step), "result_interpretation", about)


def worked_later(site: Site) -> Planted | None:
    """The write is refused first, as malformed or in the middle of work, and then goes through."""
    if site.manner != "service":
        return None
    options = [(w, s) for w, s in site.claimed if w.answer_step == w.step + 1]
    options = [(w, s) for w, s in options if len(site.steps[w.step].calls) == 1]
    option = site.draw(options)
    if option is None:
        return None
    write, message = option
    thought = looked_up("think", {"thought": site.say("thought")}, "", write.step)
    site.draft.insert(write.step, *failed_once(site, write.step, site.say("error")), *thought)
    step = site.draft.put(message.index, with_remark(site, message, site.say("remark")))
    about = f"{write.call.name} was refused once, worked then, and is told so"
    return Planted(step, "result_interpretation", about)


def promise_kept(site: Site) -> Planted | None:
    """The agent says what it will do once the user agrees, who does; or keeps it a little later."""
    if site.manner == "dialogue":
        return None
    if site.manner == "coding":
        step = spoken(site, site.say("coding"), done=False)
        say, command, output = case_of(site, "kept")
        site.draft.insert(coding_end(site), step, *shell(site, say, command, output, 0))
        return Planted(step, "termination", "what is announced is done next")
    agreed = site.draw([c for c in site.consented if site.steps[c.ask].text])
    if agreed is None:
        return None
    ask = site.steps[agreed.ask]
    step = site.draft.put(ask.index, with_text(ask, f"{ask.text.rstrip()}\n\n{site.say('once')}"))
    return Planted(step, "termination", f"{agreed.write.call.name} is promised and then made")


def status_told(site: Site) -> Planted | None:
    """Asked for a status, the agent tells the right one, in words or by what it is not."""
    options: list[tuple[int, Record, str]] = []
    for at in side_places(site):
        for r in latest_records(site, at):
            options += [(at, r, told) for told in states_of(site, r, right=True)]
            status = str(r.value.get("status", ""))
            if r.kind == "order" and status in ("pending", "delivered", "cancelled"):
                others = {"pending", "delivered", "cancelled"} - {status}
                options += [(at, r, f"is not {other}") for other in sorted(others)]
    option = site.draw(options)
    if option is None:
        return None
    at, r, told = option
    step = ask_aside(
        site, at, site.say("ask", what=r.called), site.say("answer", what=r.called, told=told)
    )
    return Planted(step, "result_interpretation", f"{r.called} {told}, as the results have it")


# --- Consent --------------------------------------------------------------------------------------


def _proposed(site: Site) -> list[Consented]:
    """Return the consents that answer a proposal and choose nothing, so that nobody can doubt."""
    found = [c for c in consented_once(site) if PROPOSAL.search(site.steps[c.ask].text)]
    return [c for c in found if not any(d.isdigit() for d in site.steps[c.answer].text)]


def _write_of(site: Site, agreed: Consented) -> Planted:
    call = site.steps[agreed.write.step]
    step = site.draft.put(call.index, msgspec.structs.replace(call))
    return Planted(step, "sequencing", f"{agreed.write.call.name} has the user's consent")


def odd_consent(site: Site) -> Planted | None:
    """The user agrees in words that deny something else, complain, or ask for haste."""
    clear = [c for c in _proposed(site) if len(site.steps[c.answer].text) < 90]
    agreed = site.draw(clear)
    if agreed is None:
        return None
    site.draft.put(agreed.answer, with_text(site.steps[agreed.answer], site.say("user")))
    return _write_of(site, agreed)


def consent_renewed(site: Site) -> Planted | None:
    """The user wavers and agrees in the end, in one message or in a second; or drops an extra."""
    agreed = site.draw(_proposed(site))
    if agreed is None:
        return None
    answer = site.steps[agreed.answer]
    if site.rng.integers(2):
        site.draft.put(answer.index, with_text(answer, f"{site.say('wavers')} {answer.text}"))
    else:
        wait, again = case_of(site, "twice")
        site.draft.insert(
            agreed.answer + 1, spoken(site, wait, "user"), spoken(site, again, "user")
        )
    return _write_of(site, agreed)


# --- Repeats --------------------------------------------------------------------------------------


def asked_twice(site: Site) -> Planted | None:
    """A write is repeated because no answer came, and a look shows that nothing was changed."""
    if site.manner != "service":
        return None
    options: list[tuple[Exchange, Record]] = []
    for w in site.writes:
        name = "order_id" if "order_id" in w.call.arguments else "reservation_id"
        before = [r for r in site.records if r.exchange.position < w.position]
        seen = [r for r in before if r.id == w.call.arguments.get(name)]
        if seen and w.answer_step == w.step + 1 and len(site.steps[w.step].calls) == 1:
            options.append((w, seen[-1]))
    option = site.draw(options)
    if option is None:
        return None
    write, record = option
    assert record.exchange.result is not None
    look = looked_up(f"get_{record.kind}_details", {f"{record.kind}_id": record.id},
                     record.exchange.result.text, "look")  # fmt: skip
    site.draft.insert(write.step, *failed_once(site, write.step, site.say("error")), *look)
    call = site.steps[write.step]
    step = site.draft.put(call.index, msgspec.structs.replace(call))
    return Planted(step, "tool_selection", f"{write.call.name} is repeated; nothing had changed")


def other_errors(site: Site) -> Planted | None:
    """A lookup fails twice, first for want of an answer, then for what it was given."""
    if site.manner == "dialogue":
        return None
    if site.manner == "coding":
        parts = case_of(site, "pair")
        tries = [
            shell(site, say, command, output, int(code))
            for say, command, output, code in (parts[:4], parts[4:])
        ]
        end = spoken(site, site.say("end"))
        site.draft.insert(coding_end(site), *[step for made in tries for step in made], end)
        return Planted(tries[1][0], "tool_selection", "the second try is of another kind")
    reads = [x for x in site.run.exchanges if x.call.name in NOT_FOUND and not x.failed]
    x = site.draw([x for x in reads if x.step > 2 and len(site.steps[x.step].calls) == 1])
    if x is None:
        return None
    argument, given = next(iter(x.call.arguments.items()))
    spoilt = f"{given} "
    first = looked_up(x.call.name, {argument: spoilt}, site.say("silent"), "first")
    second = looked_up(x.call.name, {argument: spoilt}, NOT_FOUND[x.call.name], "second")
    site.draft.insert(x.step, *first, *second)
    about = f"{x.call.name} gave no answer and is called again; the next try is mended"
    return Planted(second[0], "tool_selection", about)


def tried_all(site: Site) -> Planted | None:
    """A lookup fails, another try and another way too; the user is told and leaves it at that."""
    reads = [x for x in site.run.exchanges if x.call.name in NOT_FOUND and not x.failed]
    reads = [x for x in reads if x.result is not None and x.result_step == x.step + 1]
    x = site.draw(reads)
    if x is None or x.result is None or x.result_step is None:
        return None
    error, at = site.say("error"), x.result_step
    site.draft.put(at, with_answer(site.steps[at], x.result, error))
    second, third = (
        looked_up(x.call.name, x.call.arguments, error, mark) for mark in ("second", "third")
    )
    offered = [spoken(site, site.say("offer")), spoken(site, site.say("wait"), "user")]
    step = spoken(site, site.say("told"))
    decline = spoken(site, f"{site.say('decline')} {STOP}", "user")
    site.draft.cut(at + 1, *second, *offered, *third, step, decline)
    return Planted(step, "termination", "the user leaves it, after three tries and an offer")


def exit_code_told(site: Site) -> Planted | None:
    """An exit code is not zero, and means a difference, an absence, or what the agent says."""
    if site.manner == "service" or not site.has_shell:
        return None
    say, command, output, told = case_of(site, f"case_{site.manner}")
    ran = shell(site, say, command, output, 1)
    step = spoken(site, told)
    site.draft.insert(coding_end(site), *ran, step)
    return Planted(step, "result_interpretation", "the exit code is read as what it means")


# --- Data and requests ----------------------------------------------------------------------------


def own_data_told(site: Site) -> Planted | None:
    """The user asks what is on file: their own profile, or who travels on their own booking."""
    options: list[tuple[int, str]] = []
    for r in site.records:
        people = r.value.get("passengers") or r.value.get("saved_passengers") or ()
        told = [f"{p['first_name']} {p['last_name']}, born {p['dob']}" for p in people]
        if r.kind == "user" and isinstance(r.value.get("address"), dict):
            address = r.value["address"]
            told += [f"{r.value['email']}; {address['address1']}, {address['city']}"]
            told += [f"{r.value['name']['first_name']} {r.value['name']['last_name']}, "
                     f"{address['address2']}, {address['zip']}"]  # fmt: skip
        options += [(at, t) for t in told for at in side_places(site, r.exchange.answer_step)[:3]]
    option = site.draw(options)
    if option is None:
        return None
    at, told_ = option
    step = ask_aside(site, at, site.say("ask"), site.say("answer", told=told_))
    return Planted(step, "result_interpretation", f"{told_} is of the user's own records")


def request_withdrawn(site: Site) -> Planted | None:
    """A request on the way is answered at once, dropped by the user, or beyond what can be done."""
    first = next((s for s in site.steps if s.actor == "user" and s.text), None)
    places = side_places(site)
    if first is None or len(places) < 2:
        return None
    at, later = places[0], places[-1]
    asked, answered, dropped = case_of(site, "case")
    site.draft.insert(at, spoken(site, asked, "user"), spoken(site, answered))
    words = site.steps[later]
    site.draft.put(later, with_text(words, f"{dropped} {words.text}" if dropped else words.text))
    last = [s for s in site.steps if s.actor == "agent"][-1]
    step = site.draft.put(last.index, msgspec.structs.replace(last))
    return Planted(step, "termination", f"answered or dropped: {asked}")
