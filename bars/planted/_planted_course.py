"""Faults of the course of a run: repeated errors, giving up, ignored exit codes, ending too early.

Most of what is planted in coding runs and in dialogues with a terminal is here. What follows a
place where a run is cut is gone; what stands before it stays as it was recorded.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from bars.planted._plant_places import (
    STOP,
    Planted,
    Site,
)
from bars.planted._plant_steps import (
    called,
    shell,
    spoken,
    terminal,
    with_result_text,
    with_sentence,
)
from bars.planted.faults import with_text
from stepscope.model import Step

_FAILED = re.compile(r"exitcode: [1-9]\d*")


_WORKED = re.compile(r"exitcode: 0\b")


def last_word(site: Site) -> int | None:
    """Return the place of the last message without code in a dialogue of free speech."""
    said = [s for s in site.steps[1:] if s.actor == "agent" and "```" not in s.text]
    said = [s for s in said if 80 < len(s.text) < 2000 and site.is_chat]
    return said[-1].index if said else None


def closing(site: Site) -> int:
    """Return the place before a coding run's closing step: its last word, `finish`, a summary."""
    last = site.steps[-1]
    closes = last.actor == "system" or any(c.name == "finish" for c in last.calls)
    return last.index if closes else len(site.steps)


def same_error_repeated(site: Site) -> Planted | None:
    """Item 6. A call fails, and is made again without any change, in vain.

    0: three times on end. 1: four times, with words or a thought in between. The fault is the
    first repeat.
    """
    if site.manner == "dialogue":
        return _same_crash_again(site)
    if site.manner == "coding":
        command, output = (part.strip() for part in site.say("case").split("|||"))
        tries = [
            shell(site, site.say("try" if turn else "first"), command, output, 1)
            for turn in range(3 + site.template)
        ]
        site.draft.insert(closing(site), *[step for made in tries for step in made])
        return Planted(
            tries[1][0], "tool_selection", f"{command!r} fails and is run again unchanged"
        )
    reads = [x for x in site.run.exchanges if x.call.name in _SPOILT and not x.failed]
    option = site.draw([x for x in reads if x.step > 2])
    if option is None:
        return None
    name, argument, error = _SPOILT[option.call.name]
    given = str(option.call.arguments.get(argument, ""))
    spoilt = given.lstrip("#") if site.template == 0 else given.lower()
    if spoilt == given:
        spoilt = given.upper() if site.template == 0 else f"{given} "
    arguments = {**option.call.arguments, argument: spoilt}
    made: list[Step] = []
    places: list[int] = []
    for turn in range(3 + site.template):
        if site.template == 1 and turn:
            made += called("think", {"thought": site.say("thought")}, "", failed=False, mark=turn)
        places.append(len(made))
        made += called(name, arguments, error, failed=True, mark=turn)
    site.draft.insert(option.step, *made)
    about = f"{name} fails for {spoilt!r} and is called again with the same"
    return Planted(made[places[1]], "tool_selection", about)


# Lookups with an argument that fails when it is written otherwise, and the error it fails with.
_SPOILT = {
    "get_order_details": ("get_order_details", "order_id", "Error: order not found"),
    "get_reservation_details": (
        "get_reservation_details",
        "reservation_id",
        "Error: reservation not found",
    ),
    "get_user_details": ("get_user_details", "user_id", "Error: user not found"),
    "find_user_id_by_email": ("find_user_id_by_email", "email", "Error: user not found"),
}


def crashes_of(site: Site) -> list[Step]:
    """Return the terminal's reports of failures that follow a message of the agent with code."""
    return [
        s
        for s in site.steps[1:]
        if s.actor == "environment"
        and _FAILED.search(s.text)
        and site.steps[s.index - 1].actor == "agent"
        and "```" in site.steps[s.index - 1].text
        and s.index > 1
    ]


def _same_crash_again(site: Site) -> Planted | None:
    crash = site.draw(crashes_of(site))
    if crash is None:
        return None
    code = site.steps[crash.index - 1]
    block = re.search(r"```.*?```", code.text, re.DOTALL)
    if block is None:
        return None
    made: list[Step] = []
    for _ in range(2 + site.template):
        text = code.text if site.template == 0 else f"{site.say('try')}\n\n{block[0]}"
        made += [with_text(code, text), msgspec.structs.replace(crash)]
    site.draft.insert(crash.index + 1, *made)
    return Planted(made[0], "tool_selection", "code that failed is run again without any change")


def gave_up_after_first_error(site: Site) -> Planted | None:
    """Item 6. After the first error, which a second try or another way would mend, the agent stops.

    0: it tells that it cannot help. 1: it hands the matter on (service), or blames what it was
    given. The run ends there.
    """
    if site.manner == "dialogue":
        crash = site.draw(crashes_of(site))
        if crash is None:
            return None
        step = spoken(site, site.say("dialogue"))
        site.draft.cut(crash.index + 1, step)
        return Planted(step, "termination", "the first crash of a script ends the work")
    if site.manner == "coding":
        step = spoken(site, site.say("coding"))
        failed = shell(site, site.say("try"), "python --version", site.say("crash"), 127)
        site.draft.cut(_first_act(site), *failed, step)
        return Planted(step, "termination", "the first failing command ends the work")
    read = site.draw(
        [
            x
            for x in site.run.exchanges
            if x.result is not None
            and not x.failed
            and x.call.name.startswith(("get_", "find_", "search_"))
            and x.result_step == x.step + 1
        ]
    )
    if read is None or read.result is None or read.result_step is None:
        return None
    at = read.result_step
    site.draft.put(
        at, with_result_text(site.steps[at], read.result, site.say("error"), failed=True)
    )
    if site.template == 0:
        step = spoken(site, site.say("sorry"))
        site.draft.cut(at + 1, step, spoken(site, f"{site.say('bye')} {STOP}", "user"))
    else:
        summary = site.say("summary", tool=read.call.name)
        made = called(
            "transfer_to_human_agents",
            {"summary": summary},
            "Transfer successful",
            failed=False,
            mark=at,
        )
        step = made[0]
        site.draft.cut(at + 1, *made)
    also: tuple[Literal["tool_selection"], ...] = ("tool_selection",) if site.template else ()
    return Planted(step, "termination", f"one error of {read.call.name} ends the run", also)


def _first_act(site: Site) -> int:
    first = [s.index for s in site.steps if s.actor == "agent"]
    return first[0] if first else len(site.steps)


def exit_code_ignored(site: Site) -> Planted | None:
    """A command fails, by its exit code, and the agent says that it worked.

    Dialogue: 0: the message behind a recorded failure says so. 1: a recorded success becomes a
    failure, and the message behind it stays. Coding: a check is run, fails, and is told as passed;
    1: of several things that the output names, only the good ones are told.
    """
    if site.manner == "service":
        return None
    if site.manner == "coding":
        ran = shell(site, site.say("try"), site.say("command"), site.say("crash_coding"), 1)
        step = spoken(site, site.say("claim_coding"))
        site.draft.insert(closing(site), *ran, step)
        return Planted(step, "result_interpretation", "a failing check is told as passed")
    if site.template == 0:
        crash = site.draw([s for s in crashes_of(site) if s.index + 1 < len(site.steps)])
        behind = None if crash is None else site.steps[crash.index + 1]
        if behind is None or behind.actor != "agent":
            return None
        step = site.draft.put(behind.index, with_text(behind, site.say("claim_dialogue")))
        site.draft.cut(behind.index + 1)
        return Planted(step, "result_interpretation", "a script that failed is told to have worked")
    worked = [
        s
        for s in site.steps[1:-1]
        if s.actor == "environment"
        and _WORKED.search(s.text[:20])
        and site.steps[s.index + 1].actor == "agent"
        and re.search(
            r"\bresults?\b|\bshows?\b|\bfound\b|success", site.steps[s.index + 1].text[:400]
        )
        and not re.search(r"\bdid not|didn't|error|could not", site.steps[s.index + 1].text[:400])
    ]
    answer = site.draw(worked)
    if answer is None:
        return None
    text = f"exitcode: 1 (execution failed)\nCode output: {site.say('crash_dialogue')}\n"
    site.draft.put(answer.index, terminal(site, text, 1))
    step = site.draft.put(answer.index + 1, msgspec.structs.replace(site.steps[answer.index + 1]))
    return Planted(step, "result_interpretation", "results are told of a script that failed")


def fabricated_name(site: Site) -> Planted | None:
    """Item 1, in code. A file or function is named that does not exist.

    0: a command or script uses it, and fails. 1: the agent tells of it as if it had seen it.
    """
    if site.manner == "service" or not site.has_shell:
        return None
    names = {"coding": ["text_utils", "greeting_core", "format_helpers"]}
    name = str(
        site.draw(names.get(site.manner, ["table_reader", "archive_search", "source_index"]))
    )
    while name in site.known:
        name += "_v2"
    if site.template == 1:
        at = last_word(site)
        said = site.say(f"told_{site.manner}", name=name)
        if site.manner == "coding":
            step = spoken(site, said)
            site.draft.insert(closing(site), step)
        elif at is None:
            return None
        else:
            step = site.draft.put(at, with_sentence(site.steps[at], said, 1))
        return Planted(step, "result_interpretation", f"{name} is told of and exists nowhere")
    used = site.say(f"use_{site.manner}", name=name)
    command, output = (part.strip() for part in used.split("|||"))
    made = shell(site, site.say("try", name=name), command, output, 2)
    site.draft.insert(closing(site) if site.manner == "coding" else len(site.steps), *made)
    return Planted(made[0], "argument_validity", f"{command!r}: {name} exists nowhere")


def ended_before_asked(site: Site) -> Planted | None:
    """The run ends before what was asked is done.

    Service: 0: a request for which a write was made is answered with a farewell. 1: the first
    words of the user ask for one thing more, which is never touched; the fault is the agent's last
    step. Coding, dialogue: one thing more is asked for, or the work is called done half-way.
    """
    if site.manner == "dialogue":
        half = len(site.steps) // 2 + 1  # what was said later may be an answer
        agents = [s.index for s in site.steps[2:half] if s.actor == "agent" and site.is_chat]
        at = site.draw(agents)
        if at is None:
            return None
        step = spoken(site, site.say("dialogue"))
        site.draft.cut(at, step)
        return Planted(step, "termination", "the work is called done before the task is answered")
    if site.manner == "service" and site.template == 0:
        later = [c for c in site.consented if any(w.answer_step < c.ask for w in site.writes)]
        agreed = site.draw(later or list(site.consented))
        if agreed is None:
            return None
        asked = [s.index for s in site.steps[: agreed.answer] if s.actor == "user" and s.text][-1:]
        if not asked:
            return None
        step = spoken(site, site.say("farewell"))
        site.draft.cut(asked[0] + 1, step, spoken(site, f"{site.say('bye')} {STOP}", "user"))
        about = f"the run ends before {agreed.write.call.name}, which the user asked for"
        return Planted(step, "termination", about)
    first = next((s for s in site.steps if s.actor == "user" and s.text), None)
    last = next(
        (s for s in reversed(site.steps) if s.actor == "agent" and (s.text or s.calls)), None
    )
    handed_on = any(x.call.name.startswith("transfer") for x in site.run.exchanges)
    if first is None or last is None or handed_on:
        return None
    if site.manner == "service" and not any(r.kind == "user" for r in site.records):
        return None
    more = site.say(f"more_{site.manner}")
    if site.manner == "service":
        site.draft.put(first.index, with_text(first, f"{first.text.rstrip()} {more}"))
        step = site.draft.put(last.index, msgspec.structs.replace(last))
        return Planted(step, "termination", f"never dealt with: {more}")
    site.draft.put(first.index, with_text(first, f"{first.text.rstrip()}\n{more}"))
    step = spoken(site, site.say("coding"))
    site.draft.insert(closing(site), step)
    return Planted(step, "termination", f"never done: {more}")


def misread_output(site: Site) -> Planted | None:
    """Item 1, in code. A number or a name of a command's output is told as another one of it.

    0: one line's number for another line. 1: a summary line read the wrong way round.
    """
    if site.manner == "service" or not site.has_shell:
        return None
    command, output, claim = (part.strip() for part in site.say(f"case_{site.manner}").split("|||"))
    ran = shell(site, site.say("try"), command, output, 0)
    step = spoken(site, claim)
    site.draft.insert(closing(site) if site.manner == "coding" else len(site.steps), *ran, step)
    return Planted(step, "result_interpretation", "the output is told with another line's number")
