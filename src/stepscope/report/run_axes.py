"""What the five axes say of one run: a line for each that found a fault, the rest in one line."""

from __future__ import annotations

from stepscope.model import Verdict
from stepscope.report.axes import INCORRECT
from stepscope.report.cutting import first_lines
from stepscope.report.findings import Findings
from stepscope.report.keys import AXES
from stepscope.report.text import fold
from stepscope.safety.text import visible_line

# Lines of evidence an axis may take.
EVIDENCE_LINES = 2
# Steps named of one axis; its records hold all.
MOST_CITES = 8


def remarks(found: Findings) -> dict[int, str]:
    """Return, by step, the axes that are at fault there; those it cites where it names no step."""
    out: dict[int, list[str]] = {}
    for key, name in AXES.items():
        faults = [v for v in found.by_step.get(key, ()) if v.label == INCORRECT]
        steps = [v.step for v in faults if v.step is not None] or _cited(found.whole.get(key))
        for step in dict.fromkeys(steps):
            out.setdefault(step, []).append(name)
    return {step: ", ".join(names) for step, names in out.items()}


def _cited(verdict: Verdict | None) -> list[int]:
    return list(verdict.cites) if verdict is not None and verdict.label == INCORRECT else []


def axis_lines(found: Findings, width: int) -> list[str]:
    """Return the verdicts of the axes as lines; none where no axis has a record."""
    out: list[str] = []
    others: dict[str, list[str]] = {}
    for key, name in AXES.items():
        verdict, absent = found.whole.get(key), found.absent.get(key)
        if verdict is not None and verdict.label == INCORRECT:
            cites = " ".join(map(str, verdict.cites[:MOST_CITES]))
            more = " ..." if len(verdict.cites) > MOST_CITES else ""
            said = f"{_head(out)}{name} incorrect [{cites}{more}]: {verdict.reason}"
            out += first_lines(fold(visible_line(said), width, 10), EVIDENCE_LINES, width)
        elif verdict is not None:
            others.setdefault(str(verdict.label), []).append(name)
        elif absent is not None:
            others.setdefault(absent.kind.replace("_", " "), []).append(name)
        else:
            others.setdefault("not scored", []).append(name)
    if not out and set(others) == {"not scored"}:
        return []
    order = sorted(others, key=lambda label: (label != "uncertain", label == "not scored", label))
    rest = " · ".join(f"{label}: {', '.join(others[label])}" for label in order)
    return out + (fold(_head(out) + visible_line(rest), width, 10) if rest else [])


def at_step(found: Findings, step: int, width: int) -> list[str]:
    """Return what the axes say against one step, whole."""
    out: list[str] = []
    for key, name in AXES.items():
        for verdict in found.by_step.get(key, ()):
            if verdict.label == INCORRECT and step in (verdict.step, *verdict.cites):
                said = f"{_head(out)}{name} incorrect at {verdict.step}: {verdict.reason}"
                out += fold(visible_line(said), width, 10)
    return out


def _head(before: list[str]) -> str:
    return f"{'' if before else 'Axes':<10}"
