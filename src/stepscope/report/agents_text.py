"""The agents of one run as lines: a row an agent, a column a measure asked of it alone.

Shown where a run has several. What could not be measured is a dash; its reason is in the JSON.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.measures.per_agent import AgentAnswers
from stepscope.report import lines
from stepscope.report.text import clip
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

# Measure -> heading.
COLUMNS = {
    "efficiency.steps": "steps",
    "handoffs": "handoffs",
    "efficiency.calls": "calls",
    "redundant_calls.count": "repeats",
    "errors": "errors",
    "recovery.recovered": "recovered",
    "policy": "breaches",
    "tool_schema": "schema",
    "efficiency.tokens": "tokens",
    "efficiency.cost_usd": "cost",
}
TITLE = "Agents"
# A name keeps at least so much of the line: enough to tell agents apart.
LEAST_NAME = 14


def agent_lines(found: tuple[AgentAnswers, ...] | Unmeasured, width: int) -> list[str]:
    """Return the agents of a run, one a line, none where it has fewer than two.

    A column that no agent has a number in is left out.
    """
    if isinstance(found, Unmeasured) or len(found) < 2:
        return []
    cells = {name: [_cell(one, name) for one in found] for name in COLUMNS}
    kept = {name: column for name, column in cells.items() if set(column) != {"-"}}
    widths = [max(len(COLUMNS[name]), *map(len, column)) + 2 for name, column in kept.items()]
    names = [visible_line(one.agent) for one in found]
    room = max(min(max(map(len, names)), width - sum(widths) - 2), LEAST_NAME)
    out = [TITLE.ljust(room + 2) + _row([COLUMNS[name] for name in kept], widths)]
    for at, name in enumerate(names):
        row = [column[at] for column in kept.values()]
        out.append(f"  {clip(name, room):<{room}}" + _row(row, widths))
    return [clip(line.rstrip(), width) for line in out]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _cell(one: AgentAnswers, name: str) -> str:
    answer = one.answer(name)
    if isinstance(answer, Unmeasured) or answer.value is None:
        return "-"
    if name == "efficiency.cost_usd":
        return lines.number("cost_usd", answer.value)
    return f"{answer.value:,.0f}"
