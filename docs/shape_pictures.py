"""Draw the pictures of `docs/explanation/shapes.md`: five shapes, breaks, one run in noise.

    python -m docs.shape_pictures            draw them anew
    python -m docs.shape_pictures --check    say whether they are what the classifier answers now

Scores are the articles' examples with seeded noise; every number in a picture is an answer of the
classifier. Plain SVG: no font is fetched and no library's version moves a pixel.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from stepscope.lab import EXAMPLES, add_noise, choose_classifiers, measure_envelope
from stepscope.report.render import charts
from stepscope.shape import SHAPES, Shape, classify

FOLDER = Path(__file__).resolve().parent / "img"
BLUE, RED, GREY, INK = "#0072B2", "#D55E00", "#b9bec6", "#24292f"
# Pixels: a panel's plot, and the room around it.
WIDE, HIGH, GAP, HEAD, FOOT = 196, 110, 30, 42, 22
SIGMA = 0.05
SAID = {
    "healthy": "holds, or gets better",
    "early_collapse": "falls before the middle, stays low",
    "late_drift": "falls from the middle on",
    "steady_degradation": "loses a little at every step",
    "recovery": "falls, and climbs back",
}
SAWTOOTH = (0.88, 0.86, 0.52, 0.50, 0.87, 0.85, 0.51, 0.49, 0.86, 0.88)


def scored(clean: Sequence[float], sigma: float, seed: int) -> list[float]:
    """Return the scores that a judge with noise would give."""
    rng = np.random.default_rng(seed)
    return [round(float(score), 3) for score in add_noise(np.array([clean]), sigma, rng)[0]]


def shape_of(scores: Sequence[float], sigma: float) -> Shape:
    """Return the answer of the classifier, which has one for every run drawn here."""
    found = classify(scores, sigma=sigma)
    assert isinstance(found, Shape)
    return found


def text(x: float, y: float, words: str, *, size: int = 11, weight: str = "normal") -> str:
    """A line of text; x and y are its left end on the baseline."""
    font = f'font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {font}>{escape(words)}</text>'


def across(step: int, n: int) -> float:
    """Where a step lies in a panel."""
    return WIDE * (step + 0.5) / n


def curve(scores: Sequence[float], sigma: float, clean: Sequence[float] = ()) -> list[str]:
    """The scores with their noise, and the curve below them if it is known."""
    n = len(scores)
    out = [f'<rect width="{WIDE}" height="{HIGH}" fill="none" stroke="{GREY}"/>']
    if clean:
        points = " ".join(f"{across(i, n):.1f},{HIGH * (1 - s):.1f}" for i, s in enumerate(clean))
        out.append(f'<polyline points="{points}" fill="none" stroke="{GREY}" stroke-width="2"/>')
    for i, score in enumerate(scores):
        x, top = across(i, n), HIGH * (1 - min(score + sigma, 1))
        foot = HIGH * (1 - max(score - sigma, 0))
        out.append(f'<path d="M{x:.1f} {top:.1f}V{foot:.1f}" stroke="{BLUE}" stroke-width="1.5"/>')
        out.append(f'<circle cx="{x:.1f}" cy="{HIGH * (1 - score):.1f}" r="3" fill="{BLUE}"/>')
    return out


def marked(found: Shape, n: int) -> list[str]:
    """The break step as a dashed line, where one is declared."""
    if found.break_.step is None:
        return []
    x = across(found.break_.step, n)
    return [
        f'<path d="M{x:.1f} 0V{HIGH}" stroke="{RED}" stroke-width="1.5" stroke-dasharray="4 3"/>'
    ]


def answer(found: Shape) -> str:
    """What the classifier says of a run, in a few words."""
    if found.unmodelled:
        return "fits none of the five"
    said = f"{found.label.replace('_', ' ')}, P {found.posterior[found.best]:.2f}"
    if found.label == "unresolved":
        said = f"unresolved: {found.best.replace('_', ' ')} {found.posterior[found.best]:.2f}"
    return said if found.break_.step is None else f"{said}, step {found.break_.step}"


def panel(at: tuple[int, int], title: str, words: Sequence[str], inside: Sequence[str]) -> str:
    """A panel in column and row `at`, with a title above and words below it."""
    x = GAP + at[0] * (WIDE + GAP)
    y = HEAD + at[1] * (HEAD + HIGH + FOOT)
    head = [text(0, -24, title, size=13, weight="bold"), text(0, -8, words[0])]
    foot = [text(0, HIGH + 15, words[1])]
    return f'<g transform="translate({x},{y})">' + "\n".join([*head, *inside, *foot]) + "</g>"


def drawing(panels: Sequence[str], columns: int, *, extra: int = 0, label: str) -> str:
    """Return panels as one SVG of so many columns."""
    rows = -(-len(panels) // columns)
    width = columns * (WIDE + GAP) + GAP
    height = rows * (HEAD + HIGH + FOOT) + 10 + extra
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'font-family="system-ui,Helvetica,Arial,sans-serif" fill="{INK}">\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
        + "\n".join(panels)
        + "\n</svg>\n"
    )


def five() -> str:
    """Each shape once, and a run that has none of them."""
    panels = []
    for at, shape in enumerate(SHAPES):
        scores = scored(EXAMPLES[shape], SIGMA, seed=2)
        found = shape_of(scores, SIGMA)
        inside = [*curve(scores, SIGMA, EXAMPLES[shape]), *marked(found, len(scores))]
        words = (SAID[shape], answer(found))
        panels.append(panel((at % 3, at // 3), shape.replace("_", " "), words, inside))
    scores = scored(SAWTOOTH, SIGMA, seed=2)
    found = shape_of(scores, SIGMA)
    words = ("two tools taking turns", answer(found))
    panels.append(panel((2, 1), "none of them", words, curve(scores, SIGMA, SAWTOOTH)))
    return drawing(panels, 3, label="the five shapes, and a run that has none of them")


def in_noise() -> str:
    """One collapse under three noises: what is left of the label."""
    panels = []
    for at, sigma in enumerate((0.02, 0.08, 0.15)):
        scores = scored(EXAMPLES["early_collapse"], sigma, seed=4)
        found = shape_of(scores, sigma)
        inside = [*curve(scores, sigma, EXAMPLES["early_collapse"]), *marked(found, len(scores))]
        for row, shape in enumerate(SHAPES):
            y = HIGH + 34 + 15 * row
            long = 76 * found.posterior[shape]
            inside.append(
                f'<rect x="112" y="{y - 9}" width="{round(long)}" height="10" fill="{BLUE}"/>'
            )
            inside.append(text(0, y, shape.replace("_", " ")))
        words = ("the same run", answer(found))
        panels.append(panel((at, 0), f"noise {sigma:g}", words, inside))
    return drawing(panels, 3, extra=82, label="one run under three noises, with its posterior")


def where() -> str:
    """Where a run broke: sharply, over three steps, and nowhere."""
    slope = (0.86, 0.88, 0.87, 0.88, 0.86, 0.87, 0.70, 0.55, 0.40, 0.41)
    runs = (
        ("a cliff", "all at one step", EXAMPLES["late_drift"]),
        ("a slope", "half of the fall is the break", slope),
        ("no break", "a steady loss has none", EXAMPLES["steady_degradation"]),
    )
    panels = []
    for at, (title, said, clean) in enumerate(runs):
        scores = scored(clean, SIGMA, seed=2)
        found, n = shape_of(scores, SIGMA), len(clean)
        inside = [*curve(scores, SIGMA, clean), *marked(found, n)]
        for step, chance in enumerate(found.break_.probability):
            high = 40 * chance
            inside.append(
                f'<rect x="{across(step, n) - 6:.1f}" y="{HIGH + 66 - round(high)}" width="12" '
                f'height="{round(high)}" fill="{RED}"/>'
            )
        inside.append(f'<path d="M0 {HIGH + 66}H{WIDE}" stroke="{GREY}"/>')
        inside.append(text(0, HIGH + 82, f"probability of the break: {_span(found)}"))
        panels.append(panel((at, 0), title, (said, answer(found)), inside))
    return drawing(panels, 3, extra=76, label="three runs with the probability of a break by step")


def _span(found: Shape) -> str:
    first, last = found.break_.first, found.break_.last
    if first is None or last is None:
        return f"none {1 - sum(found.break_.probability):.2f}"
    return f"90 % at {first}" if first == last else f"90 % at {first} to {last}"


PICTURES = {"shapes": five, "shapes-noise": in_noise, "shapes-break": where}


def draw() -> list[str]:
    """Draw what has changed, and the envelope, whose letters a machine's fonts may move."""
    changed = [name for name, made in PICTURES.items() if not _is_drawn(name, made())]
    for name in changed:
        (FOLDER / f"{name}.svg").write_text(PICTURES[name](), encoding="utf-8")
    made = measure_envelope(
        choose_classifiers(["v3", "default"]),
        ns=[5, 10],
        sigmas=[0.02, 0.05, 0.08, 0.11, 0.15],
        generators=["walk"],
    )
    charts.save_envelope_chart(made, FOLDER / "envelope.svg")
    return changed


def _is_drawn(name: str, new: str) -> bool:
    file = FOLDER / f"{name}.svg"
    return file.is_file() and file.read_text(encoding="utf-8") == new


def main() -> int:
    """Draw the pictures, or with --check say whether they are as drawn; 1 when not."""
    if "--check" in sys.argv[1:]:
        return int(not all(_is_drawn(name, made()) for name, made in PICTURES.items()))
    for name in draw():
        sys.stdout.write(f"changed: docs/img/{name}.svg\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
