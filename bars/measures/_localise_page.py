"""What `docs/explanation/localise.md` prints of the fit: tables and sentences, from its figures."""

from __future__ import annotations

from typing import Any, Final

from bars._pages import DOCS, fill_page
from bars._pages import format_share as share
from stepscope.stats.intervals import wilson

PAGE: Final = DOCS / "explanation" / "localise.md"
RUNS_OF: Final = {
    "calls": "with tool calls, or with a user who answers",
    "search": "agents led by a planner",
    "dialogue": "agents that talk",
}


def refreshed_page(content: dict[str, Any]) -> str:
    """Return the page with the figures of a data file."""
    return fill_page(PAGE.read_text(encoding="utf-8"), page_blocks(content))


def page_blocks(content: dict[str, Any]) -> dict[str, str]:
    """Return what stands between the marks of the page."""
    figures = content["figures"]
    return {
        "suspects": _suspects(figures),
        "before": _before(figures),
        "rules": _rules(figures),
        "calibration": _calibration(figures),
        "claims": _claims(figures),
        "faults": _faults(figures),
        "gains": _gains(figures),
        "nobody": _nobody(content),
    }


def _suspects(figures: dict[str, Any]) -> str:
    lines = ["| runs | n | first | among three | among five |", "|---|---|---|---|---|"]
    for one in figures["by_family"].values():
        cells = [
            f"{share(mean)} [{share(least)}, {share(most)}]"
            for mean, least, most in (one[name] for name in ("first", "three", "five"))
        ]
        lines.append(f"| {one['set']} | {one['runs']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _before(figures: dict[str, Any]) -> str:
    hits = ", ".join(
        f"{hit} of {one['runs']}"
        for hit, one in zip(figures["before"], figures["by_family"].values(), strict=True)
    )
    return (
        f"What was printed before this table had the labelled step first in {hits} runs: on both\n"
        "Who&When sets together the difference is beyond chance (exact McNemar, p below "
        f"{figures['p']['before']:.0e} at every draw)."
    )


def _rules(figures: dict[str, Any]) -> str:
    lines = [
        "| rule | algorithm-generated: first, three, five | hand-crafted | AgentRx |",
        "|---|---|---|---|",
    ]
    for name, sets in figures["rules"].items():
        cells = [", ".join(share(value) for value in values) for values in sets]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _calibration(figures: dict[str, Any]) -> str:
    one = figures["calibration"]
    least, most = one["range"]
    return (
        f"Calibration of the first step, both Who&When sets: slope {one['slope']:.2f} (single "
        f"draws\n{least:.2f} to {most:.2f}), predicted {share(one['predicted'])} on average, "
        f"observed {share(one['observed'])}."
    )


def _claims(figures: dict[str, Any]) -> str:
    spans = []
    for one in (figures["by_family"]["dialogue"], figures["by_family"]["search"]):
        low, high = wilson(one["first"][0], one["runs"], 0.95)
        name = f"{share(one['first'][0])} of {one['runs']} runs"
        spans.append(f"{name} is [{share(float(low))}, {share(float(high))}]")
    unread = figures["unread"]
    return (
        "- On the tasks whose texts nobody had read the first step is right in "
        f"{share(unread['first'])}\n  of {unread['runs']} algorithm-generated runs.\n"
        f"- Sampling alone: {', '.join(spans)} (Wilson).\n"
        "- Against the best constant rule (the commonest index) the list is ahead on both\n"
        f"  Who&When sets together, p = {figures['p']['commonest index']:.4f} at the worst draw."
    )


def _faults(figures: dict[str, Any]) -> str:
    lines = ["| runs | steps that people named | others |", "|---|---|---|"]
    for family, of in figures["faults"].items():
        cells = [f"{of[f'{name} at fault']} of {of[name]:,}" for name in ("named", "other")]
        lines.append(f"| {RUNS_OF[family]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _gains(figures: dict[str, Any]) -> str:
    lines = [
        "| gain of the features over factors and places alone | runs | log score a run "
        "| standard error |",
        "|---|---|---|---|",
    ]
    for name, one in figures["gain over (a)"].items():
        gain = f"{one['mean']:+.3f}".replace("0.", ".")
        lines.append(f"| {name} | {one['n']} | {gain} | {share(one['error'])} |")
    return "\n".join(lines)


def _nobody(content: dict[str, Any]) -> str:
    lines = ['| runs | probability of "no step of the agent" |', "|---|---|"]
    for family, one in content["nobody"].items():
        lines.append(f"| {RUNS_OF[family]} | {share(one['probability'])} |")
    return "\n".join(lines)
