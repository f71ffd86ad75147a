"""Template 2: repeated errors, giving up, exit codes, names and figures of outputs, early ends.

What follows a place where a run is cut is gone; what stands before it stays as it was recorded.
"""

from __future__ import annotations

import re

import msgspec

from bars.planted._held_steps import draw_planter, looked_up, side_places, with_answer
from bars.planted._held_writes import coding_end
from bars.planted._plant_places import STOP, Planted, Site
from bars.planted._plant_steps import shell, spoken, with_sentence
from bars.planted._planted_course import crashes_of, last_word
from bars.planted.faults import with_text
from stepscope.model import Step


def case_of(site: Site, name: str) -> list[str]:
    """Return the parts of a phrasing that are set apart by bars: command, output, what is said."""
    return [part.strip() for part in site.say(name).split("|||")]


def case_in_turn(site: Site) -> list[str]:
    """Return the parts of the kind's case that has the number of the seed."""
    cases = site.choices("cases", ())
    return [part.strip() for part in cases[site.seed % len(cases)].split("|||")]


# --- Errors ---------------------------------------------------------------------------------------


def same_error_repeated(site: Site) -> Planted | None:
    """Item 6. A call fails three times, with other things in between: turns, calls, looks."""
    if site.manner == "dialogue":
        return _crash_posted_again(site)
    if site.manner == "coding":
        command, output = case_of(site, "case")
        tries = [shell(site, site.say("try"), command, output, 2) for _ in range(3)]
        looks = []
        for _ in range(2):
            say, look, shown = case_of(site, "look")
            looks.append(shell(site, say, look, shown, 0))
        made = [*tries[0], *looks[0], *tries[1], *looks[1], *tries[2]]
        site.draft.insert(coding_end(site), *made)
        return Planted(
            tries[1][0], "tool_selection", f"{command!r} fails again, nothing was changed"
        )
    return draw_planter(site, _lookup_between_turns, _sum_between_calls)


def _lookup_between_turns(site: Site) -> Planted | None:
    reads = [x for x in site.run.exchanges if x.call.name.startswith(("get_", "find_"))]
    reads = [x for x in reads if not x.failed and x.call.arguments and x.step > 2]
    x = site.draw([x for x in reads if len(site.steps[x.step].calls) == 1])
    if x is None:
        return None
    name, arguments = x.call.name, x.call.arguments
    argument = "zip" if "zip" in arguments else next(iter(arguments))
    given = str(arguments[argument])
    spoilt = {
        "order_id": f"order {given.lstrip('#')}",
        "reservation_id": f"RES-{given}",
        "user_id": given.replace("_", " ").title(),
        "product_id": f"PID{given}",
        "zip": f"ZIP {given}",
    }.get(argument, f"mailto:{given}")
    if forms := site.choices("spoilt", ()):
        spoilt = str(site.draw(forms)).replace("{given}", given)
    error = site.say("error", id=spoilt)
    tries = [looked_up(name, {**arguments, argument: spoilt}, error, turn) for turn in range(3)]
    made = list(tries[0])
    for again in tries[1:]:
        made += [spoken(site, site.say("hold")), spoken(site, site.say("fine"), "user"), *again]
    site.draft.insert(x.step, *made)
    about = f"{name} fails for {spoilt!r} and is called with the same twice more"
    return Planted(tries[1][0], "tool_selection", about)


def _sum_between_calls(site: Site) -> Planted | None:
    calls = [x.step for x in site.run.exchanges if x.step > 4 and site.steps[x.step - 1].results]
    if len(calls) < 3:
        return None
    places = sorted(int(at) for at in site.rng.choice(calls, 3, replace=False))
    prices = re.findall(r'"(?:price|amount)": (\d+(?:\.\d+)?)', site.known)
    if len(prices) < 2:
        return None
    a, b = (str(p) for p in site.rng.choice(prices, 2))
    expression = f"${a} + ${b}"
    if forms := site.choices("sums", ()):
        expression = str(site.draw(forms)).format(a=a, b=b)
    tries = []
    for at in places:
        tries.append(looked_up("calculate", {"expression": expression}, site.say("sum_error"), at))
        site.draft.insert(at, *tries[-1])
    about = f"the calculation {expression!r} fails and is made again as it was"
    return Planted(tries[1][0], "tool_selection", about)


def _crash_posted_again(site: Site) -> Planted | None:
    crash = site.draw(crashes_of(site))
    if crash is None:
        return None
    code = site.steps[crash.index - 1]
    made: list[Step] = []
    for _ in range(2):
        made += [spoken(site, site.say("group")), with_text(code, code.text)]
        made += [msgspec.structs.replace(crash)]
    site.draft.insert(crash.index + 1, *made)
    return Planted(made[1], "tool_selection", "code that crashed is posted again word for word")


def gave_up_after_first_error(site: Site) -> Planted | None:
    """Item 6. After one error that a second try would mend the agent leaves the work to others."""
    if site.manner == "dialogue":
        crash = site.draw(crashes_of(site))
        if crash is None:
            return None
        step = spoken(site, site.say("dialogue"))
        site.draft.cut(crash.index + 1, step)
        return Planted(step, "termination", "after the first crash the group settles for a guess")
    if site.manner == "coding":
        first = next((s.index for s in site.steps if s.actor == "agent"), len(site.steps))
        command, output = case_of(site, "case")
        step = spoken(site, site.say("coding"))
        site.draft.cut(first, *shell(site, site.say("try"), command, output, 1), step)
        return Planted(step, "termination", "the first failing command ends the work")
    reads = [x for x in site.run.exchanges if x.call.name.startswith(("get_", "find_", "search_"))]
    read = site.draw([x for x in reads if not x.failed and x.result_step == x.step + 1])
    if read is None or read.result is None or read.result_step is None:
        return None
    at = read.result_step
    site.draft.put(at, with_answer(site.steps[at], read.result, site.say("error")))
    step = spoken(site, site.say("service"))
    site.draft.cut(at + 1, step, spoken(site, f"{site.say('bye')} {STOP}", "user"))
    return Planted(step, "termination", f"one error of {read.call.name} ends the run")


def exit_code_ignored(site: Site) -> Planted | None:
    """Item 6. A command fails by its exit code, looks half good, and all is told well."""
    if site.manner == "service" or not site.has_shell:
        return None
    command, output, code, claim = case_of(site, f"case_{site.manner}")
    ran = shell(site, site.say("try"), command, output, int(code))
    step = spoken(site, claim)
    site.draft.insert(coding_end(site), *ran, step)
    about = f"exit code {code} of {command!r}, and the agent tells that it went well"
    return Planted(step, "result_interpretation", about)


# --- Names and outputs ----------------------------------------------------------------------------


def fabricated_name(site: Site) -> Planted | None:
    """Item 1, in code. A branch, script, module or file that does not exist is used or reported."""
    if site.manner == "service" or not site.has_shell:
        return None
    names = ("string_tools", "banner_config", "release_notes", "parse_helpers")
    name = str(site.draw(site.choices("names", names)))
    while name in site.known:
        name += "_new"
    if site.rng.integers(2):
        said = site.say(f"told_{site.manner}", name=name)
        at = last_word(site)
        if site.manner == "coding":
            step = spoken(site, said)
            site.draft.insert(coding_end(site), step)
        elif at is not None:
            step = site.draft.put(at, with_sentence(site.steps[at], said, 0))
        else:
            return None
        return Planted(step, "result_interpretation", f"{name} is reported and exists nowhere")
    used = site.say(f"used_{site.manner}", name=name)
    say, command, output = (part.strip() for part in used.split("|||"))
    made = shell(site, say, command, output, 1)
    site.draft.insert(coding_end(site), *made)
    return Planted(made[0], "argument_validity", f"{command!r}: {name} exists nowhere")


def misread_output(site: Site) -> Planted | None:
    """Item 1, in code. A figure of a table, a record or a log is told as that of another row."""
    if site.manner == "service" or not site.has_shell:
        return None
    command, output, claim = case_of(site, f"case_{site.manner}")
    ran = shell(site, site.say("try"), command, output, 0)
    step = spoken(site, claim)
    site.draft.insert(coding_end(site), *ran, step)
    return Planted(step, "result_interpretation", "the output says otherwise than the agent")


# --- The end --------------------------------------------------------------------------------------


def ended_before_asked(site: Site) -> Planted | None:
    """Item 8. A request on the way is passed over, or the last one gets nothing but a farewell."""
    if site.manner == "dialogue":
        half = len(site.steps) // 2 + 1  # what was said later may be an answer
        at = site.draw([s.index for s in site.steps[2:half] if s.actor == "agent" and site.is_chat])
        if at is None:
            return None
        step = spoken(site, site.say("dialogue"))
        site.draft.cut(at, step)
        return Planted(step, "termination", "half of the plan is done, and the work is handed in")
    users = [s for s in site.steps if s.actor == "user" and s.text]
    agents = [s for s in site.steps if s.actor == "agent" and (s.text or s.calls)]
    if (
        not users
        or not agents
        or any(x.call.name.startswith("transfer") for x in site.run.exchanges)
    ):
        return None
    if site.manner == "coding":
        more = site.say("more_coding")
        site.draft.put(users[0].index, with_text(users[0], f"{users[0].text.rstrip()}\n\n{more}"))
        step = spoken(site, site.say("coding"))
        site.draft.insert(coding_end(site), step)
        return Planted(step, "termination", f"never done: {more}")
    more = site.say("more")
    ends = [at for at in side_places(site) if STOP in site.steps[at].text]
    if ends and site.rng.integers(2):
        step = spoken(site, site.say("farewell"))
        site.draft.insert(ends[0], spoken(site, more, "user"), step)
        return Planted(step, "termination", f"answered with a farewell: {more}")
    middle = [s for s in users[1:] if STOP not in s.text and s.index < agents[-1].index - 1]
    words = site.draw(middle)
    if words is None or not any(r.kind == "user" for r in site.records):
        return None
    site.draft.put(words.index, with_text(words, f"{more} {words.text}"))
    step = site.draft.put(agents[-1].index, msgspec.structs.replace(agents[-1]))
    return Planted(step, "termination", f"never dealt with: {more}")
