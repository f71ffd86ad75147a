"""`stepscope shape`: the shapes of score curves in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscope.cli.options import Json, Offline, Seed, StorePath
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api.shaping import FileShapes


def shape(
    scores: Annotated[str, typer.Argument(metavar="SCORES", help="CSV or JSON lines; - is stdin.")],
    *,
    sigma: Annotated[
        float | None,
        typer.Option("--sigma", help="Noise of one score. Default: measured, else unknown."),
    ] = None,
    quantum: Annotated[
        float | None,
        typer.Option("--quantum", help="Step between the scores that the judge can give."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="1,2,3", help="Of the steps; or a TOML file by run."),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", min=0, metavar="N", help="How many curves to print.")
    ] = 40,
    seed: Seed = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Classify the score curves of a file by shape.

    One line a curve: its shape, how sure, where it broke; below them the shares of all. The file
    has the columns run, step, score (0 to 1) and what else is known: repeat, judge, latency, cost,
    weight, task. Without --sigma the noise that calibrate sigma measured is used.

    Example: stepscope shape scores.csv --sigma 0.05
    """
    from stepscope import api
    from stepscope.cli import terminal

    with (
        terminal.progress("classifying curves") as step,
        api.shapes(
            scores,
            sigma=sigma,
            quantum=quantum,
            weights=None if weights is None else _weights(weights),
            store=store,
            seed=seed,
            progress=step,
        ) as found,
    ):
        if as_json:
            _json(found)
        else:
            _text(found, runs, terminal.width())


def _text(found: FileShapes, most: int, width: int) -> None:
    from stepscope.api import shape_view
    from stepscope.cli import terminal

    printed = total = open_ = 0
    for part in found.batches():
        total += len(part)
        for at in range(min(len(part), most - printed)):
            if not printed:
                terminal.out(shape_view.HEAD)
            run = part.run(at)
            terminal.out(shape_view.line(run, width))
            printed += 1
            open_ += run.shape == "unresolved" and not run.unmodelled
    if total > printed:
        terminal.out(f"... {total - printed:,} more: --runs {total} prints all, --json has all")
    terminal.out(f"{shape_view.OPEN}\n" if open_ else "")
    terminal.out("\n".join(shape_view.fleet(found.fleet(), width)))


def _json(found: FileShapes) -> None:
    """Print curve by curve, so that a million need no more memory than a few."""
    import msgspec

    from stepscope.cli import terminal

    encode = msgspec.json.Encoder(order="deterministic").encode
    lead = '{"runs": [\n'
    for run in found:
        terminal.out(lead + encode(run).decode())
        lead = ","
    end = "]," if lead == "," else f"{lead}],"
    terminal.out(f'{end}\n"fleet": {encode(found.fleet()).decode()}}}')


def _weights(text: str) -> dict[str, tuple[float, ...]]:
    """Return weights as said: a list for every run, or a file of lists by name of a run or task."""
    from stepscope.settings import weights_file

    if Path(text).is_file():
        return weights_file(Path(text))
    try:
        return {"*": tuple(float(weight) for weight in text.split(","))}
    except ValueError as e:
        raise UsageError(
            f"--weights {text!r}: no such file, and no list of weights such as 1,2,3"
        ) from e
