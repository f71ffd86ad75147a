"""What is the default classifier of shapes worth, beside the articles' best, V3?

`python -m bars.shape.shape [TRIALS]`, 20,000 runs a cell unless given. Every figure is printed for
each generator of curves, `holdout` among them, on which nothing was tuned; Gaussian noise of known
sigma unless the line says otherwise. Code 0: every bar holds but those of `KNOWN`, which are
printed as missed all the same and must not get worse; 3: another is missed, by more than two
standard errors of the simulation (less is "at the bar"). Lines without a bar bind nothing: what
they show is beyond the promise, or the generator breaks its terms (a tenth of the healthy runs of
`reconstruction` fall by .35 to .46 at the end; that is a break).
"""

from __future__ import annotations

import hashlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from bars.shape._shape import WITHIN, Line, figure, line
from bars.shape.compound import COMPOUND
from stepscope.lab.curves import (
    EXAMPLES,
    GENERATORS,
    PlantedCurves,
    add_noise,
    as_rows,
    draw_uniform,
    half_drop_steps,
)
from stepscope.lab.envelope import (
    CLASSIFIERS,
    Classifications,
    EnvelopeRow,
    classify_by_default,
    draw_cell,
    measure_envelope,
)
from stepscope.shape.articles import v3_many
from stepscope.shape.classifier import classify, classify_many, classify_ragged
from stepscope.shape.noise import learn_noise
from stepscope.shape.types import RECOVERY, SHAPES, Shape
from stepscope.stats.sample import Floats
from stepscope.values import Unmeasured

Answer = TypeVar("Answer")

TRIALS = 20_000
NS = (5, 7, 10, 20, 40)
SIGMAS = (0.02, 0.05, 0.08, 0.11, 0.15)
# What macro F1 must be, by steps and sigma.
MACRO_F1 = {
    (5, 0.05): 0.91,
    (7, 0.05): 0.94,
    (10, 0.05): 0.96,
    (10, 0.08): 0.88,
    (20, 0.08): 0.94,
    (40, 0.15): 0.87,
}
FLAGGED = ("sawtooth", "two_dips", "dip_then_late_drop")
SPEED_RUNS, SECONDS = 1_000_000, 5.0
# Their healthy runs are not healthy.
UNFAIR = ("reconstruction",)
# A cell is below V3 when it is by more than this many standard errors of both.
ERRORS = 2.0


def gradual_recovery(n: int, m: int, rng: np.random.Generator) -> PlantedCurves:
    """Draw recoveries that fall over two or three steps and return over two or three.

    The deepest point is one or two steps long; what is lost is .28 to .50 and 85 % or more of it
    comes back. With fewer than seven steps falls and returns take two; five are needed.
    """
    widest = 3 if n >= 7 else 2
    down, up = (as_rows(rng.integers(2, widest + 1, m)) for _ in range(2))
    bottom = np.minimum(as_rows(rng.integers(0, 2, m)), n - 1 - down - up)
    latest = n - 1 - (down + bottom + up)
    start = 1 + np.floor(rng.random((m, 1)) * latest)
    steps = np.arange(n)
    fall = np.clip((steps - start + 1) / down, 0, 1)
    back = np.clip((steps - (start + down + bottom) + 1) / up, 0, 1)
    lost = draw_uniform(rng, 0.28, 0.50, m) * (fall - draw_uniform(rng, 0.85, 1.0, m) * back)
    return PlantedCurves(draw_uniform(rng, 0.80, 0.93, m) - lost, half_drop_steps(lost))


def examples() -> Iterator[Line]:
    """The articles' four examples, without noise and told three sigmas."""
    for sigma in (0.02, 0.03, 0.05):
        found = [classify(EXAMPLES[name], sigma=sigma) for name in SHAPES if name != "healthy"]
        right = [
            isinstance(one, Shape) and one.label == name
            for one, name in zip(found, SHAPES[1:], strict=True)
        ]
        yield Line(
            what="examples named right, of 4",
            where=f"sigma {sigma:g}",
            ours=float(sum(right)),
            v3=4.0,
            least=4.0,
        )


def grid(
    trials: int, generators: Sequence[str], ns: Sequence[int] = NS
) -> list[tuple[EnvelopeRow, EnvelopeRow]]:
    """Return V3's row and the default's for every cell."""
    made = measure_envelope(
        {name: CLASSIFIERS[name] for name in ("v3", "default")},
        ns=ns,
        sigmas=SIGMAS,
        generators=generators,
        trials=trials,
    )
    return list(zip(made.rows[::2], made.rows[1::2], strict=True))


def cells(pairs: Sequence[tuple[EnvelopeRow, EnvelopeRow]]) -> Iterator[Line]:
    """Bars that bind single cells."""
    at = {(ours.generator, ours.n, ours.sigma): (v3, ours) for v3, ours in pairs}
    names = list(dict.fromkeys(generator for generator, _, _ in at))
    if "article" in names:
        for sigma, least in ((0.05, 0.975), (0.08, 0.92)):
            yield line("accuracy", at["article", 10, sigma], "accuracy", least=least)
    for (n, sigma), least in MACRO_F1.items():
        for name in names:
            if (name, n, sigma) in at:
                yield line("macro F1", at[name, n, sigma], "macro_f1", least=least)
    for sigma, most in ((0.05, 0.03), (0.08, 0.09)):
        for name in names:
            fair = None if name in UNFAIR else most
            yield line(
                "break declared on healthy runs", at[name, 10, sigma], "false_breaks", most=fair
            )
    for sigma in (0.05, 0.08):
        for name in names:
            pair = at[name, 10, sigma]
            yield line("break step within one", pair, "break_within_one", least=0.97)
            yield line("90 % set holds the step", pair, "coverage", least=0.85)


def worst(pairs: Sequence[tuple[EnvelopeRow, EnvelopeRow]]) -> Iterator[Line]:
    """Bars that bind many cells: the worst of each generator is printed.

    Accuracy where resolved is bound in the cells of the macro F1 bars; elsewhere it is printed.
    """
    for name in dict.fromkeys(ours.generator for _, ours in pairs):
        mine = [pair for pair in pairs if pair[1].generator == name]
        yield _below(name, mine)
        pair = max(mine, key=lambda pair: figure(pair[1].calibration_error).value)
        yield line("calibration error, worst cell", pair, "calibration_error", most=0.06)
        quiet = [pair for pair in mine if pair[1].sigma <= 0.08]
        named = [pair for pair in quiet if (pair[1].n, pair[1].sigma) in MACRO_F1]
        pair = min(named, key=lambda pair: figure(pair[1].resolved_accuracy).value)
        fair = None if name in UNFAIR else 0.95
        yield line("accuracy where resolved", pair, "resolved_accuracy", least=fair)
        pair = min(quiet, key=lambda pair: figure(pair[1].resolved_accuracy).value)
        yield line("  worst of all n", pair, "resolved_accuracy")
        for pair in mine:
            if pair[1].n == 10 and pair[1].sigma in (0.05, 0.08):
                yield line("flagged as no shape, wrongly", pair, "unmodelled", most=0.01)
        pair = max(quiet, key=lambda pair: figure(pair[1].unmodelled).value)
        yield line("  worst cell", pair, "unmodelled")


def _below(name: str, pairs: Sequence[tuple[EnvelopeRow, EnvelopeRow]]) -> Line:
    """Count the cells in which V3's macro F1 is higher by more than simulation error."""
    lower = [
        ours.macro_f1.value
        < v3.macro_f1.value - ERRORS * math.hypot(ours.macro_f1.error, v3.macro_f1.error)
        for v3, ours in pairs
    ]
    return Line(
        what="cells with macro F1 below V3's",
        where=f"{name}, of {len(pairs)}",
        ours=float(sum(lower)),
        most=0.0,
    )


def exceptions(pairs: Sequence[tuple[EnvelopeRow, EnvelopeRow]]) -> Iterator[str]:
    """Classes that V3 recalls more often, at the price of naming them where they are not."""
    for name in dict.fromkeys(ours.generator for _, ours in pairs):
        for shape in SHAPES:
            lost = []
            for v3, ours in pairs:
                if ours.generator == name:
                    a, b = figure(ours.recall[shape]), figure(v3.recall[shape])
                    if a.value < b.value - ERRORS * math.hypot(a.error, b.error):
                        lost.append((b.value - a.value, ours.n, ours.sigma))
            if lost:
                most, n, sigma = max(lost)
                yield (
                    f"{name:<16}{shape:<20}{len(lost):>3} cells, at most by {most:.2f} "
                    f"(n {n}, sigma {sigma:g})"
                )


def taught(
    scores: Floats, sigma: float | None, quantum: float | None, *, trust: bool = True
) -> Classifications:
    """Answer with what the first 500 runs tell of their noise; sigma too, if it is not trusted."""
    some = scores[:500]
    lengths = np.full(len(some), some.shape[1])
    known = sigma if trust else None
    found = learn_noise(some.ravel(), lengths, sigma=known)
    if isinstance(found, Unmeasured):
        return classify_by_default(scores, known, quantum)
    known = sigma if trust else found.sigma.value
    return classify_by_default(scores, known, quantum, found.correlation_to_tell())


def correlated(
    trials: int, generators: Sequence[str], ns: Sequence[int] = (10, 20, 40)
) -> Iterator[Line]:
    """Judges whose errors last: a lag-1 correlation of .5, not told, and learned from the fleet."""
    made = measure_envelope(
        {"v3": CLASSIFIERS["v3"], "default": classify_by_default, "taught": taught},
        ns=ns,
        sigmas=SIGMAS[1:],
        generators=generators,
        noises=("ar1",),
        trials=trials,
    )
    rows = list(zip(made.rows[::3], made.rows[1::3], made.rows[2::3], strict=True))
    for name in generators:
        plain = [(v3, told) for v3, told, _ in rows if told.generator == name]
        wiser = [(v3, knows) for v3, _, knows in rows if knows.generator == name]
        yield _below(f"{name}, errors last", plain)
        for what, pairs, most in (
            ("calibration, errors last, worst", [p for p in plain if p[1].n == 10], 0.08),
            ("  correlation learned", wiser, 0.08),
            ("  not, and more steps", [p for p in plain if p[1].n > 10], None),
        ):
            if pairs:
                pair = max(pairs, key=lambda pair: figure(pair[1].calibration_error).value)
                yield line(what, pair, "calibration_error", most=most)
        for told, knows in zip(plain, wiser, strict=True):
            if told[1].sigma in (0.11, 0.15):
                yield line("macro F1, errors last", told, "macro_f1")
                yield line("  correlation learned", knows, "macro_f1")


def learned(trials: int, generators: Sequence[str]) -> Iterator[Line]:
    """A sigma told at half its value, and what 300 runs of the fleet say of it."""

    def half(scores: Floats, sigma: float | None, quantum: float | None) -> Classifications:
        return classify_by_default(scores, (sigma or 0.0) / 2, quantum)

    made = measure_envelope(
        {"v3": CLASSIFIERS["v3"], "half": half, "taught": partial(taught, trust=False)},
        ns=(10,),
        sigmas=(0.08,),
        generators=generators,
        noises=("gaussian", "ar1"),
        trials=trials,
    )
    for v3, wrong, right in zip(made.rows[::3], made.rows[1::3], made.rows[2::3], strict=True):
        noise = "independent" if wrong.noise == "gaussian" else "lasting"
        yield line(f"half sigma told, {noise}", (v3, wrong), "macro_f1")
        yield line("  learned from the fleet", (v3, right), "macro_f1")
        yield line("  flagged as no shape, told", (v3, wrong), "unmodelled")
        yield line("  learned", (v3, right), "unmodelled")


def gradual(trials: int) -> Iterator[Line]:
    """Recoveries without a cliff."""
    rng = np.random.default_rng(0)
    for sigma in (0.05, 0.08):
        scores = add_noise(gradual_recovery(10, trials, rng).curves, sigma, rng)
        ours = float((classify_many(scores, sigma=sigma).best == RECOVERY).mean())
        yield Line(
            what="gradual recoveries found",
            where=f"n 10, sigma {sigma:g}",
            ours=ours,
            error=math.sqrt(ours * (1 - ours) / trials),
            v3=float((v3_many(scores) == RECOVERY).mean()),
            least=0.95 if sigma == 0.05 else None,
        )


def compound(trials: int) -> Iterator[Line]:
    """Curves of none of the five shapes."""
    rng = np.random.default_rng(0)
    for sigma in (0.05, 0.08):
        for name, draw in COMPOUND.items():
            scores = add_noise(draw(10, trials, rng), sigma, rng)
            ours = float(classify_many(scores, sigma=sigma).unmodelled.mean())
            bound = name in FLAGGED and sigma == 0.05
            yield Line(
                what="flagged as no shape",
                where=f"{name}, n 10, sigma {sigma:g}",
                ours=ours,
                error=math.sqrt(ours * (1 - ours) / trials),
                least=0.95 if bound else None,
            )


def speed(runs: int = SPEED_RUNS, repeats: int = 3) -> Iterator[Line]:
    """Seconds for a million runs, and whether repeats give the same bytes."""
    pieces = -(-runs // 5_000)
    drawn = [
        draw_cell("agent", "gaussian", 10, 0.05, trials=5_000, seed=seed)[0]
        for seed in range(pieces)
    ]
    scores = np.concatenate(drawn)[:runs]
    seconds, hashes = [], set()
    busy = time.process_time()
    for _ in range(repeats):
        found, took = _timed(lambda: classify_many(scores, sigma=0.05))
        seconds.append(took)
        columns = (found.log_likelihood, found.posterior, found.gof_p, found.break_low)
        hashes.add(hashlib.sha256(b"".join(c.tobytes() for c in columns)).hexdigest())
    busy = (time.process_time() - busy) / repeats
    where = f"{len(scores):,} runs of 10 steps"
    v3 = _timed(lambda: v3_many(scores))[1]
    # On a machine with other work the clock measures that: processor time of all cores together
    # is then the honest figure, and the larger one on a machine without.
    taken = min(min(seconds), busy)
    yield Line(what="seconds, or of processor", where=where, ours=taken, v3=v3, most=SECONDS)
    yield Line(what="  by the clock, best of three", where=where, ours=min(seconds))
    yield Line(what="  of processor, all cores", where=where, ours=busy)
    yield Line(
        what="different answers when repeated", where=where, ours=float(len(hashes) - 1), most=0.0
    )
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 21, runs)
    values = rng.random(int(lengths.sum()))
    found, took = _timed(lambda: classify_ragged(values, lengths, sigma=0.05))
    where = f"{runs:,} runs of 0 to 20 steps"
    yield Line(what="seconds, mixed lengths", where=where, ours=took)
    lost = runs - len(found.rows) - int((found.reasons > 0).sum())
    yield Line(what="runs without any answer", where=where, ours=float(lost), most=0.0)


def _timed(classify_all: Callable[[], Answer]) -> tuple[Answer, float]:
    start = time.perf_counter()
    return classify_all(), time.perf_counter() - start


def lines(trials: int, generators: Sequence[str]) -> Iterator[Line | str]:
    """Yield the table, section after section."""
    yield from examples()
    pairs = grid(trials, generators)
    yield from cells(pairs)
    yield from worst(pairs)
    sections: list[Callable[[], Iterator[Line]]] = [
        partial(correlated, max(1_000, trials // 4), generators),
        partial(learned, max(1_000, trials // 4), generators),
        partial(gradual, trials),
        partial(compound, trials),
        speed,
    ]
    for section in sections:
        yield from section()
    yield "\nrecall of single classes below V3's by more than simulation error:"
    yield from exceptions(pairs)


def main(trials: int = TRIALS, generators: Sequence[str] = tuple(GENERATORS)) -> int:
    """Run the bar; print its table."""
    print(f"the default classifier beside V3, {trials:,} runs a cell, seed 0\n")
    print(f"{'what':<34}{'where':<34}{'ours':>8}{'V3':>8}  {'must be'}")
    missed, known = 0, 0
    for one in lines(trials, generators):
        print(one if isinstance(one, str) else one.text(), flush=True)
        if isinstance(one, Line) and not one.holds(WITHIN):
            missed, known = missed + (not one.known()), known + one.known()
    print(f"\n{missed + known} bars missed, {known} of them known and said in the documentation")
    return 3 if missed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS))
