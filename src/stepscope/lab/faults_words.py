"""Faults in what the user is told: quantities and identifiers misread, errors hidden.

No fault is chosen or shaped by the judge's own rules: what it misses here, it misses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from stepscope.lab.faults_edits import (
    changed,
    everything_said,
    finished,
    with_error,
    with_text,
)
from stepscope.measures.calls import effect_of
from stepscope.model import Step, Trajectory

Spot = tuple[Trajectory, int]
Draw = np.random.Generator

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


def misread_number(run: Trajectory, rng: Draw) -> Spot | None:
    """An amount told to the user gets other digits, a number that occurs nowhere in the run."""
    options = [
        (step, match)
        for step in _told(run)
        for match in AMOUNT.finditer(step.text)
        if sum(map(str.isdigit, match.group())) > 1
    ]
    return _retold(run, "misread_number", options, rng)


def misread_identifier(run: Trajectory, rng: Draw) -> Spot | None:
    """An identifier told to the user gets other digits."""
    options = [(step, match) for step in _told(run) for match in IDENTIFIER.finditer(step.text)]
    return _retold(run, "misread_identifier", options, rng)


def misread_labelled_quantity(run: Trajectory, rng: Draw) -> Spot | None:
    """A named quantity of the latest result is told as another amount of the run.

    Where a message already names one beside an amount, that amount is exchanged; else the message
    behind a result with such a field says one sentence more.
    """
    amounts = sorted({m.group() for s in run.steps for r in s.results for m in _numbers(r.text)})
    options: list[tuple[Step, str, str, str]] = []
    for step in _told(run):
        for match in LABELLED.finditer(step.text):
            start, end = match.span(2)
            before, after = step.text[:start], step.text[end:]
            options.append((step, before, match[2].replace(",", ""), after))
        behind = run.steps[step.index - 1] if step.index else step
        for result in behind.results:
            for name, value in FIELD.findall(result.text)[-1:]:
                options.append((step, f"{step.text}\n\nThe {name} is $", value.lstrip("-"), "."))
    if not options:
        return None
    step, before, true, after = options[rng.integers(len(options))]
    others = [a for a in amounts if float(a) != float(true)]
    if not others:
        return None
    text = f"{before}{float(others[rng.integers(len(others))]):,.2f}{after}"
    steps = changed(run.steps, step.index, with_text(step, text))
    return finished(run, "misread_labelled_quantity", step.index, steps), step.index


def error_then_success(run: Trajectory, rng: Draw) -> Spot | None:
    """A write that worked has failed, and the agent's message behind it still claims success."""
    options = []
    for exchange in run.exchanges:
        at = exchange.result_step
        if at is None or exchange.failed or effect_of(exchange.call.name, None) != "write":
            continue
        claim = run.steps[at + 1] if at + 1 < len(run.steps) else run.steps[at]
        if claim.actor == "agent" and not claim.calls and CLAIM.search(claim.text):
            options.append((exchange, claim))
    if not options:
        return None
    exchange, claim = options[rng.integers(len(options))]
    assert exchange.result is not None
    assert exchange.result_step is not None
    step = with_error(
        run.steps[exchange.result_step], exchange.result, ERRORS[rng.integers(len(ERRORS))]
    )
    steps = changed(run.steps, exchange.result_step, step)
    return finished(run, "error_then_success", claim.index, steps), claim.index


def _told(run: Trajectory) -> Iterator[Step]:
    """The agent's messages to the user once something was looked up."""
    looked = False
    for step in run.steps:
        looked = looked or bool(step.results)
        if looked and step.actor == "agent" and step.text and not step.calls:
            yield step


def _numbers(text: str) -> list[re.Match[str]]:
    return list(NUMBER.finditer(text))


def _retold(
    run: Trajectory, kind: str, options: list[tuple[Step, re.Match[str]]], rng: Draw
) -> Spot | None:
    if not options:
        return None
    step, match = options[rng.integers(len(options))]
    known = everything_said(run)
    new = match.group()
    for _ in range(100):
        if new.replace(",", "") not in known and new not in known:
            break
        new = _other_digits(match.group(), rng)
    else:
        return None
    text = step.text[: match.start()] + new + step.text[match.end() :]
    steps = changed(run.steps, step.index, with_text(step, text))
    return finished(run, kind, step.index, steps), step.index


def _other_digits(text: str, rng: Draw) -> str:
    """Return the text with one to three of its digits changed, the first never into 0."""
    places = [at for at, c in enumerate(text) if c.isdigit()]
    chosen = rng.choice(places, size=min(len(places), int(rng.integers(1, 4))), replace=False)
    letters = list(text)
    for at in chosen.tolist():
        letters[at] = str(rng.integers(1, 10))
    return "".join(letters)
