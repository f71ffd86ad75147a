"""Plant one known fault in a real run that passed, so that a judge's recall can be measured.

Each kind belongs to the axis that has to find it. Planting is seeded, and no fault is chosen or
shaped by the judge's own rules: what it misses here, it misses. A run in which a kind cannot occur
(no write, no amount told, no declared tools) gives None. Where a fault is one only against a
declaration, the declaration is planted with it (a policy rule in the case) or is the caller's
(tools with schemas, `EFFECTS`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar, get_args

import msgspec
import numpy as np

from stepscope.errors import UsageError
from stepscope.measures.calls import effect_of
from stepscope.model import (
    Case,
    Effect,
    Exchange,
    Json,
    Outcome,
    Part,
    PolicyRule,
    Step,
    ToolCall,
    ToolDef,
    ToolResult,
    TraceLabel,
    Trajectory,
    digest,
)
from stepscope.model.effects import words_of

Steps = Sequence[Step]
T = TypeVar("T")


def label_fault(original: Trajectory, kind: str, step: int, steps: Iterable[Step]) -> Trajectory:
    """Return the run with other steps: a name and id of its own, its fault as a label.

    The outcome becomes unknown: what was recorded belongs to the original.
    """
    numbered = tuple(msgspec.structs.replace(s, index=at) for at, s in enumerate(steps))
    return msgspec.structs.replace(
        original,
        id=digest([original.id, kind, numbered]),
        name=f"{original.name}+{kind}",
        steps=numbered,
        outcome=Outcome(),
        labels=(TraceLabel(kind="failure", step=step, category=kind, annotator="planted"),),
        warnings=(),
        termination=None,
    )


def with_arguments(call: ToolCall, arguments: Json) -> ToolCall:
    """Return the call with other arguments, their text included."""
    raw = None if call.raw is None else msgspec.json.encode(arguments).decode()
    return msgspec.structs.replace(call, arguments=arguments, raw=raw)


def with_text(step: Step, text: str) -> Step:
    """Return the step saying `text` in place of its text parts."""
    others = tuple(part for part in step.parts if part.kind != "text")
    return msgspec.structs.replace(step, parts=(Part("text", text), *others))


def with_error(step: Step, old: ToolResult, text: str) -> Step:
    """Return the step with one of its results replaced by an error."""
    new = msgspec.structs.replace(
        old, parts=(Part("text", text),), structured=None, status="error", source="heuristic"
    )
    results = tuple(new if result is old else result for result in step.results)
    return msgspec.structs.replace(step, results=results)


def spoken_step(text: str, actor: str = "agent") -> Step:
    """Return a message of the agent or the user."""
    return Step(index=0, actor="user" if actor == "user" else "agent", parts=(Part("text", text),))


def call_steps(name: str, arguments: Json, text: str, *, failed: bool = False) -> tuple[Step, Step]:
    """Return two steps: a call, and what came back."""
    raw = msgspec.json.encode(arguments).decode()
    call = ToolCall(name, arguments, id=f"planted_{digest([name, arguments, text])}", raw=raw)
    result = ToolResult(
        call_id=call.id,
        name=name,
        parts=(Part("text", text),),
        status="error" if failed else "ok",
        source="heuristic",
    )
    return (
        Step(index=0, actor="agent", kind="call", calls=(call,)),
        Step(index=0, actor="environment", kind="result", results=(result,)),
    )


def replace_step(steps: Steps, at: int, step: Step) -> list[Step]:
    """Return the steps with the one at index `at` replaced."""
    return [*steps[:at], step, *steps[at + 1 :]]


def substitute_text(value: Json, old: str, new: str) -> Json:
    """Return JSON with every text that is exactly `old` replaced by `new`."""
    if isinstance(value, dict):
        return {name: substitute_text(member, old, new) for name, member in value.items()}
    if isinstance(value, list):
        return [substitute_text(member, old, new) for member in value]
    return new if value == old else value


def all_text(trajectory: Trajectory) -> str:
    """Return all text of a run, arguments included: where a planted value must not occur."""
    texts = [step.text for step in trajectory.steps]
    texts += [result.text for step in trajectory.steps for result in step.results]
    texts += [str(call.arguments) for step in trajectory.steps for call in step.calls]
    return "\n".join(texts)


# Tools that no recorded run has, by what they are planted for.
STRANGE = ("fetch_record", "lookup_account_v2", "query_database", "get_everything", "run_script")
FORBIDDEN = ("delete_user_account", "export_payment_methods", "override_price")
UNASKED = ("send_voucher", "delete_payment_method", "subscribe_newsletter")
# Enough digits to be a name of one thing, and to be changed into one that nobody has.
IDENTIFIER_DIGITS = 3


def fabricated_identifier(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """An identifier of a call gets other digits, which occur nowhere in the run."""
    known = all_text(run)
    options = [(x, text) for x in run.exchanges for text in _identifiers(x.call.arguments)]
    if (drawn := _draw(options, rng)) is None:
        return None
    exchange, old = drawn
    new = old
    while new in known:
        new = "".join(str(rng.integers(10)) if c.isdigit() else c for c in old)
    call = with_arguments(exchange.call, substitute_text(exchange.call.arguments, old, new))
    return _with_changed_call(run, "fabricated_identifier", exchange, call)


def wrong_format(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """Arguments break the declared schema: lost, of another type, unknown, or cut short."""
    schemas = {tool.name: tool.schema for tool in run.tools or () if tool.schema is not None}
    options = [x for x in run.exchanges if x.call.name in schemas and x.call.arguments]
    if (exchange := _draw(options, rng)) is None:
        return None
    given: dict[str, Json] = dict(exchange.call.arguments)
    name = sorted(given)[rng.integers(len(given))]
    way = rng.integers(4)
    if way == 0:
        del given[name]
    elif way == 1:
        given[name] = {"value": given[name]}
    elif way == 2:
        given[f"{name}_new"] = given[name]
    call = with_arguments(exchange.call, given)
    if way == 3:
        text = (exchange.call.raw or "{")[:-1]
        call = msgspec.structs.replace(call, arguments=None, raw=text, parse_error="cut short")
    return _with_changed_call(run, "wrong_format", exchange, call)


def undeclared_tool(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """A call goes to a tool that was not offered; only where the offered ones are known."""
    if not run.tools or not run.exchanges:
        return None
    exchange = run.exchanges[rng.integers(len(run.exchanges))]
    name = STRANGE[rng.integers(len(STRANGE))]
    call = msgspec.structs.replace(exchange.call, name=name)
    return _with_changed_call(run, "undeclared_tool", exchange, call)


def forbidden_tool(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """A tool that the case's policy forbids is called, declared though it is."""
    name = FORBIDDEN[rng.integers(len(FORBIDDEN))]
    rule = PolicyRule(name=f"no {name}", forbid=name)
    case = run.case or Case(workflow=run.workflow, task=run.task or "")
    run = msgspec.structs.replace(
        run,
        case=msgspec.structs.replace(case, policy=(*case.policy, rule)),
        tools=None if run.tools is None else (*run.tools, ToolDef(name)),
    )
    return _insert_calls(run, "forbidden_tool", call_steps(name, {}, "done"), rng)


def same_failure_again(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """A read of the run fails, and is tried again without any change, in vain."""
    reads = [x for x in run.exchanges if effect_of(x.call.name, None) == "read"]
    if not reads:
        return None
    call = reads[rng.integers(len(reads))].call
    given = call.arguments if isinstance(call.arguments, dict) else {}
    again = call_steps(call.name, {**given, "page": 1}, "Error: page not found", failed=True)
    return _insert_calls(run, "same_failure_again", (*again, *again), rng)


def unrequested_write(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """The agent changes something that nobody spoke of; the tool is to be declared a write."""
    name = UNASKED[rng.integers(len(UNASKED))]
    if run.tools is not None:
        run = msgspec.structs.replace(run, tools=(*run.tools, ToolDef(name)))
    return _insert_calls(run, "unrequested_write", call_steps(name, {}, "done"), rng)


def skipped_precondition(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """What a write acts on was never looked up: every earlier read with its arguments is gone."""
    options: list[tuple[Exchange, set[str]]] = []
    for write in run.exchanges:
        if effect_of(write.call.name, None) != "write":
            continue
        told = set(_texts(write.call.arguments))
        lookups = {
            x.call.name
            for x in run.exchanges[: write.position]
            if effect_of(x.call.name, None) == "read" and told & set(_texts(x.call.arguments))
        }
        options += [(write, {name}) for name in sorted(lookups)]
    if (drawn := _draw(options, rng)) is None:
        return None
    write, tools = drawn
    gone = {
        step
        for x in run.exchanges[: write.position]
        if x.call.name in tools and len(run.steps[x.step].calls) == 1
        for step in (x.step, x.result_step)
        if step is not None
    }
    return _without_steps(run, "skipped_precondition", gone, write.step)


def write_without_confirmation(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """The question before a write and the user's answer to it are gone."""
    options: list[tuple[Exchange, set[int]]] = []
    for write in run.exchanges:
        if effect_of(write.call.name, None) != "write":
            continue
        words = [s for s in run.steps[: write.step] if s.actor in ("user", "agent") and s.text]
        if len(words) > 2 and words[-1].actor == "user" and words[-2].actor == "agent":
            options.append((write, {words[-1].index, words[-2].index}))
    options = [(w, gone) for w, gone in options if not any(run.steps[i].calls for i in gone)]
    if (drawn := _draw(options, rng)) is None:
        return None
    write, gone = drawn
    return _without_steps(run, "write_without_confirmation", gone, write.step)


def _identifiers(arguments: Json) -> list[str]:
    return [
        text
        for text in _texts(arguments)
        if sum(map(str.isdigit, text)) >= IDENTIFIER_DIGITS
        and not set(text) & set(" ./@")
        and text.count("-") < 2  # dates
    ]


def _texts(value: Json) -> list[str]:
    if isinstance(value, dict):
        return [text for member in value.values() for text in _texts(member)]
    if isinstance(value, list):
        return [text for member in value for text in _texts(member)]
    return [value] if isinstance(value, str) and value else []


def _with_changed_call(
    run: Trajectory, kind: str, exchange: Exchange, call: ToolCall
) -> Trajectory:
    before = run.steps[exchange.step]
    calls = tuple(call if one is exchange.call else one for one in before.calls)
    step = msgspec.structs.replace(before, calls=calls)
    return label_fault(run, kind, exchange.step, replace_step(run.steps, exchange.step, step))


def _insert_calls(
    run: Trajectory, kind: str, steps: tuple[Step, ...], rng: np.random.Generator
) -> Trajectory | None:
    """Insert calls behind some result of the run; the last of them is the fault."""
    places = [x.result_step + 1 for x in run.exchanges if x.result_step is not None]
    if (at := _draw(places, rng)) is None:
        return None
    shown = at + len(steps) - 2
    return label_fault(run, kind, shown, [*run.steps[:at], *steps, *run.steps[at:]])


def _without_steps(run: Trajectory, kind: str, gone: set[int], step: int) -> Trajectory:
    moved = step - sum(index < step for index in gone)
    return label_fault(run, kind, moved, (s for s in run.steps if s.index not in gone))


# An amount as agents print it, and one as programs do.
AMOUNT = re.compile(r"(?<=\$)\d[\d,]*(?:\.\d{2})?(?![\d,.]*\d)")
NUMBER = re.compile(r"(?<![\w.#-])\d+\.\d{1,2}(?![\w.])")
LABELLED = re.compile(
    r"\b(refund(?:ed)?|total|balance|difference|fee|price|amount|cost)\b[^$\n.]{0,40}\$"
    r"(\d[\d,]*(?:\.\d{2})?)(?!\d)",
    re.IGNORECASE,
)
# A field of a result that holds a quantity with a name a user would be told.
FIELD = re.compile(
    r'"(?:\w*_)?(refund|total|balance|difference|fee|price|amount|cost)(?:_\w*)?": (-?\d+\.\d+)'
)
IDENTIFIER = re.compile(r"#?\b[A-Z]{0,3}\d{5,}\b")
# A write was claimed to have worked.
CLAIM = re.compile(r"success|(?:has|have) been|is now|are now", re.IGNORECASE)
ERRORS = (
    "Error: the request could not be processed",
    "Error: payment method not found",
    "Error: not allowed in the present state",
    "Error: internal failure, nothing was changed",
)


def misread_number(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """An amount in a message to the user gets other digits, a new number."""
    options = [
        (step, match)
        for step in _messages_after_results(run)
        for match in AMOUNT.finditer(step.text)
        if sum(map(str.isdigit, match.group())) > 1
    ]
    return _rewrite_message(run, "misread_number", options, rng)


def misread_identifier(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """An identifier in a message to the user gets other digits."""
    options = [
        (step, match)
        for step in _messages_after_results(run)
        for match in IDENTIFIER.finditer(step.text)
    ]
    return _rewrite_message(run, "misread_identifier", options, rng)


def misread_labelled_quantity(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """A named quantity of the latest result gets another amount of the run in the message.

    Where a message already names one beside an amount, that amount is exchanged; else the message
    behind a result with such a field says one sentence more.
    """
    amounts = sorted(
        {m.group() for s in run.steps for r in s.results for m in list(NUMBER.finditer(r.text))}
    )
    options: list[tuple[Step, str, str, str]] = []
    for step in _messages_after_results(run):
        for match in LABELLED.finditer(step.text):
            start, end = match.span(2)
            before, after = step.text[:start], step.text[end:]
            options.append((step, before, match[2].replace(",", ""), after))
        behind = run.steps[step.index - 1] if step.index else step
        for result in behind.results:
            for name, value in FIELD.findall(result.text)[-1:]:
                options.append((step, f"{step.text}\n\nThe {name} is $", value.lstrip("-"), "."))
    if (drawn := _draw(options, rng)) is None:
        return None
    step, before, true, after = drawn
    others = [a for a in amounts if float(a) != float(true)]
    if not others:
        return None
    text = f"{before}{float(others[rng.integers(len(others))]):,.2f}{after}"
    steps = replace_step(run.steps, step.index, with_text(step, text))
    return label_fault(run, "misread_labelled_quantity", step.index, steps)


def error_then_success(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """A write that worked has failed, and the agent's message behind it still claims success."""
    options = []
    for exchange in run.exchanges:
        at = exchange.result_step
        if at is None or exchange.failed or effect_of(exchange.call.name, None) != "write":
            continue
        claim = run.steps[at + 1] if at + 1 < len(run.steps) else run.steps[at]
        if claim.actor == "agent" and not claim.calls and CLAIM.search(claim.text):
            options.append((exchange, claim))
    if (drawn := _draw(options, rng)) is None:
        return None
    exchange, claim = drawn
    assert exchange.result is not None
    assert exchange.result_step is not None
    step = with_error(
        run.steps[exchange.result_step], exchange.result, ERRORS[rng.integers(len(ERRORS))]
    )
    steps = replace_step(run.steps, exchange.result_step, step)
    return label_fault(run, "error_then_success", claim.index, steps)


def _messages_after_results(run: Trajectory) -> Iterator[Step]:
    """The agent's messages to the user once something was looked up."""
    looked = False
    for step in run.steps:
        looked = looked or bool(step.results)
        if looked and step.actor == "agent" and step.text and not step.calls:
            yield step


def _rewrite_message(
    run: Trajectory, kind: str, options: list[tuple[Step, re.Match[str]]], rng: np.random.Generator
) -> Trajectory | None:
    if (drawn := _draw(options, rng)) is None:
        return None
    step, match = drawn
    known = all_text(run)
    new = match.group()
    for _ in range(100):
        if new.replace(",", "") not in known and new not in known:
            break
        new = _other_digits(match.group(), rng)
    else:
        return None
    text = step.text[: match.start()] + new + step.text[match.end() :]
    steps = replace_step(run.steps, step.index, with_text(step, text))
    return label_fault(run, kind, step.index, steps)


def _other_digits(text: str, rng: np.random.Generator) -> str:
    """Return the text with one to three of its digits changed, the first never into 0."""
    places = [at for at, c in enumerate(text) if c.isdigit()]
    chosen = rng.choice(places, size=min(len(places), int(rng.integers(1, 4))), replace=False)
    letters = list(text)
    for at in chosen.tolist():
        letters[at] = str(rng.integers(1, 10))
    return "".join(letters)


CLOSINGS = (
    "Thank you, that is all I needed. Goodbye!",
    "Great, everything is settled then. Have a nice day!",
    "No, that's everything. Thanks for your help!",
    "Perfect, thanks so much. Bye!",
)
PROMISES = (
    "I will now {what} for you. Please hold on a moment.",
    "Let me {what} right away.",
    "One moment please, I'm going to {what}.",
    "Thank you for confirming. I'll {what} now.",
)
LIMITS = ("max_steps", "timeout", "context_length_exceeded")


def calls_after_closing(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """After the user has said goodbye the agent calls again, and gets an answer."""
    done = [x for x in run.exchanges if x.result_step == x.step + 1 and not x.failed]
    if not done:
        return None
    steps = list(run.steps)
    if steps[-1].actor != "user":
        steps += [
            spoken_step("Is there anything else?"),
            spoken_step(_draw_text(CLOSINGS, rng), "user"),
        ]
    again = done[rng.integers(len(done))]
    at = len(steps)
    steps += [run.steps[again.step], run.steps[again.step + 1]]
    return label_fault(run, "calls_after_closing", at, steps)


def ended_on_error(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """A call fails, and that is the last that is heard."""
    exchange = _draw(run.exchanges, rng)
    if exchange is None or exchange.result is None or exchange.result_step is None:
        return None
    at = exchange.result_step
    error = with_error(run.steps[at], exchange.result, _draw_text(ERRORS, rng))
    return label_fault(run, "ended_on_error", at, replace_step(run.steps[: at + 1], at, error))


def ended_on_limit(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """The run is cut behind a result by a limit, as its recorder says."""
    exchange = _draw(run.exchanges, rng)
    if exchange is None or exchange.result_step is None:
        return None
    at = exchange.result_step
    cut = label_fault(run, "ended_on_limit", at, run.steps[: at + 1])
    return msgspec.structs.replace(cut, termination=_draw_text(LIMITS, rng))


def announced_never_made(run: Trajectory, rng: np.random.Generator) -> Trajectory | None:
    """The agent says what it is about to do, and the run ends."""
    writes = [x for x in run.exchanges if effect_of(x.call.name, None) == "write" and x.step]
    if (exchange := _draw(writes, rng)) is None:
        return None
    verb, *rest = words_of(exchange.call.name)
    promise = _draw_text(PROMISES, rng).format(what=f"{verb} the {' '.join(rest)}")
    at = exchange.step
    steps = [*run.steps[:at], spoken_step(promise)]
    return label_fault(run, "announced_never_made", at, steps)


def _draw(options: Sequence[T], rng: np.random.Generator) -> T | None:
    return options[int(rng.integers(len(options)))] if options else None


def _draw_text(texts: tuple[str, ...], rng: np.random.Generator) -> str:
    return texts[rng.integers(len(texts))]


Axis = Literal[
    "tool_selection", "argument_validity", "sequencing", "result_interpretation", "termination"
]
AXES: tuple[Axis, ...] = get_args(Axis)

FaultPlanter = Callable[[Trajectory, np.random.Generator], Trajectory | None]

FAULT_KINDS: dict[str, tuple[Axis, FaultPlanter]] = {
    "undeclared_tool": ("tool_selection", undeclared_tool),
    "forbidden_tool": ("tool_selection", forbidden_tool),
    "same_failure_again": ("tool_selection", same_failure_again),
    "unrequested_write": ("tool_selection", unrequested_write),
    "fabricated_identifier": ("argument_validity", fabricated_identifier),
    "wrong_format": ("argument_validity", wrong_format),
    "skipped_precondition": ("sequencing", skipped_precondition),
    "write_without_confirmation": ("sequencing", write_without_confirmation),
    "misread_number": ("result_interpretation", misread_number),
    "misread_identifier": ("result_interpretation", misread_identifier),
    "misread_labelled_quantity": ("result_interpretation", misread_labelled_quantity),
    "error_then_success": ("result_interpretation", error_then_success),
    "calls_after_closing": ("termination", calls_after_closing),
    "ended_on_error": ("termination", ended_on_error),
    "ended_on_limit": ("termination", ended_on_limit),
    "announced_never_made": ("termination", announced_never_made),
}
# What a user would declare of the tools that `unrequested_write` calls.
EFFECTS: dict[str, Effect] = dict.fromkeys(UNASKED, "write")


def plant_fault(trajectory: Trajectory, kind: str, rng: np.random.Generator) -> Trajectory | None:
    """Return the run with one fault of a kind, None where it cannot have one.

    Its only label says the kind, as category, and the step that shows it.

    Raises:
        UsageError: no such kind.
    """
    if kind not in FAULT_KINDS:
        raise UsageError(f"no planted fault {kind!r}; there are: {', '.join(sorted(FAULT_KINDS))}")
    return FAULT_KINDS[kind][1](trajectory, rng)


def plant_faults(
    runs: Sequence[Trajectory], kinds: Sequence[str], n: int, rng: np.random.Generator
) -> Iterator[Trajectory]:
    """Yield `n` faults, the kinds in turn, each in a run drawn anew among those that can have it.

    Fewer than `n` come where no run can have any of the kinds.
    """
    left = {kind: list(rng.permutation(len(runs))) for kind in kinds}
    given = 0
    while given < n and left:
        for kind in tuple(left):
            planted = None
            while planted is None and left[kind]:
                planted = plant_fault(runs[left[kind].pop()], kind, rng)
            if planted is None:
                # Every run has had its turn: begin again, unless none of them can have it.
                left[kind] = list(rng.permutation(len(runs)))
                planted = next(
                    filter(None, (plant_fault(runs[at], kind, rng) for at in left[kind])), None
                )
                if planted is None:
                    del left[kind]
                    continue
            yield planted
            given += 1
            if given == n:
                return
