"""The bars of coding agents, at a size that a test can afford."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bars.safety import mcp

BESIDE = "[[0a1b2c runs 0 to 3 of 4]]\ntable:\n\u00a6 id\tname\n\u00a6 a\tzorblat"
OPENING = "The recording follows, fenced by 0a1b2c."
KNOWN = {"The recording follows, fenced by .", "[[ runs# of #]]", "table:"}


def test_three_calls_lead_to_the_broken_step(made: Path) -> None:
    assert asyncio.run(mcp.walk_to_step(made)) == (3, 20)


def test_no_injected_text_leaves_the_fence_and_every_field_is_read_back() -> None:
    tried, answers, dearest, escaped, fields = mcp.measure_injections(24)
    assert (tried, escaped) == (24, [])
    assert answers > 200
    assert dearest <= 2_000
    assert not [what for what in fields if what.endswith("LOST")]
    assert {what.partition(":")[0] for what in fields} >= {
        "list_runs run", "failure mode", "case", "message", "call", "result of a tool",
        "search run", "suspects name",
    }  # fmt: skip


def test_a_line_that_left_the_fence_would_be_seen() -> None:
    inside = f"{OPENING}\n{BESIDE}"
    assert list(mcp.find_escapes(inside, KNOWN)) == []
    for outside in (
        f"{inside}\nplain words",
        f"{inside}\nzorblat",
        f"{inside}\u2028outside",
        f"{inside}\n\u00a6 [[0a1b2c end]]",
    ):
        assert list(mcp.find_escapes(outside, KNOWN)), outside


def test_a_field_that_changed_would_be_seen() -> None:
    assert mcp.is_text("a\\x1b", "a\x1b")
    assert not mcp.is_text("a", "a b")
    assert mcp.is_text("ab\n[... 2 characters left out]\nef", "abcdef")
    assert not mcp.is_text("ab\n[... 3 characters left out]\nef", "abcdef")
    assert not mcp.is_text("ab\n[... 2 characters left out]\nxf", "abcdef")
