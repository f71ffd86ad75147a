"""`stepscope calibrate sigma`: how noisy a judge is, from what it scored twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stepscope.cli.options import Json, Offline, StorePath
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.calibrate.noise import Noise

UNMEASURED = 4


def sigma(
    scores: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="Scores with a column repeat. Default: the store's."),
    ] = None,
    *,
    quantum: Annotated[
        float | None,
        typer.Option("--quantum", help="Step between the scores that the judge can give."),
    ] = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Measure how noisy each judge is, from steps scored twice.

    Some 15 steps scored three times each, spread over the range of scores, are a good design. The
    result is kept in the store; its upper limit is the noise that report, show and shape assume.

    Example: stepscope calibrate sigma repeated.csv
    """
    from stepscope import api
    from stepscope.cli import terminal
    from stepscope.cli.stores import existing
    from stepscope.values import Unmeasured

    if quantum is not None and not 0 < quantum <= 1:
        raise UsageError(f"--quantum {quantum}: expected more than 0 and at most 1, as 0.1")
    with existing(store) if scores is None else api.open(store) as notebook:
        found = notebook.calibrate_sigma(scores, quantum=quantum)
    if as_json:
        terminal.out_json(found)
    else:
        terminal.out("\n".join(_lines(found, terminal.width())))
    measured = [noise for noise in found if not isinstance(noise.sigma, Unmeasured)]
    return 0 if measured else UNMEASURED


def _lines(found: Sequence[Noise], width: int) -> Iterator[str]:
    import textwrap

    from stepscope.report import lines
    from stepscope.safety.text import visible_line
    from stepscope.values import Unmeasured

    names = [visible_line(noise.judge) or "(no judge named)" for noise in found]
    wide = max([5, *map(len, names)])
    yield f"{'judge':<{wide}}  sigma  95 % interval  scorings  steps"
    for name, noise in zip(names, found, strict=True):
        sigma = noise.sigma
        if isinstance(sigma, Unmeasured):
            said = f"{name:<{wide}}      -  {sigma.kind}: {sigma.reason}"
            yield from textwrap.wrap(visible_line(said), width, subsequent_indent=" " * (wide + 9))
            continue
        interval = lines.interval("sigma", sigma)
        yield (
            f"{name:<{wide}}  {lines.share(sigma.value):>5}  {interval:<13}  {sigma.n:>8,}  "
            f"{sigma.n_tasks:>5,}"
        )
        notes = [noise.decision.reason if noise.decision else "", *sigma.diagnostics]
        for note in filter(None, notes):
            yield from textwrap.wrap(note, width, initial_indent="  ", subsequent_indent="    ")
    yield ""
    yield "Shapes are classified with the upper limit. Duplicates tell how well a judge agrees with"
    yield "itself, not whether it is right."
