"""`stepscope lab envelope`: what a label of a shape is worth at your number of steps and noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from stepscope.cli.options import Json, Offline
from stepscope.errors import UsageError

Number = TypeVar("Number", int, float)
KINDS: dict[type, str] = {int: "a whole number", float: "a number"}


def envelope(
    *,
    n: Annotated[str, typer.Option("--n", metavar="N,N", help="Steps of a run.")] = "5,7,10,20",
    sigma: Annotated[
        str, typer.Option("--sigma", metavar="S,S", help="Noise of one score, as a deviation.")
    ] = "0.02,0.05,0.08,0.11,0.15",
    classifier: Annotated[
        str, typer.Option("--classifier", metavar="C,C", help="Of v1, v2, v3, default, fleet.")
    ] = "v1,v2,v3,default",
    generator: Annotated[
        str,
        typer.Option(
            "--generator",
            metavar="G,G",
            help="Of smooth, walk, agent, holdout, article, reconstruction.",
        ),
    ] = "smooth,walk,agent",
    noise: Annotated[
        str, typer.Option("--noise", metavar="K,K", help="Of gaussian, ar1, quantised, heavy.")
    ] = "gaussian",
    told: Annotated[
        str,
        typer.Option(
            "--told", metavar="X", help="Tell classifiers X times the true sigma, or: nothing."
        ),
    ] = "1",
    trials: Annotated[int, typer.Option("--trials", min=100, help="Runs of a cell.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Where the draws start.")] = 0,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: FILE.png or FILE.svg.")
    ] = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Say what a label of a shape is worth for your steps and noise.

    Simulated runs with a planted shape and break are scored with noise, and every classifier
    answers about the same runs: how often it is right, how often it says so, where it breaks.

    Example: stepscope lab envelope --n 8 --sigma 0.06 --plot envelope.svg
    """
    from stepscope.cli import terminal
    from stepscope.lab import envelope as lab
    from stepscope.report import envelope_text

    if plot is not None:
        from stepscope.report import envelope_chart

        envelope_chart.check(plot)
    with terminal.progress("simulating") as step:
        made = lab.envelope(
            lab.chosen(_listed(classifier)),
            ns=[_number("--n", text, int) for text in _listed(n)],
            sigmas=[_number("--sigma", text, float) for text in _listed(sigma)],
            generators=_listed(generator),
            noises=_listed(noise),
            trials=trials,
            seed=seed,
            told=None if told == "nothing" else _number("--told", told, float),
            progress=step,
        )
    if plot is not None:
        envelope_chart.save(made, plot)
        terminal.note(f"wrote {plot}")
    if as_json:
        terminal.out_json(made)
    else:
        terminal.out(envelope_text.render(made, terminal.width()))


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(option: str, text: str, kind: type[Number]) -> Number:
    try:
        return kind(text)
    except ValueError as e:
        raise UsageError(f"{option} {text!r}: expected {KINDS[kind]}") from e
