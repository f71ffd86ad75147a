"""Judges of the tiny model: its settings, and what its replies in a ledger say."""

from __future__ import annotations

from pathlib import Path

from stepscope.ledger.ledger import Ledger
from stepscope.model import Reply, Structure
from stepscope.models.configured import JudgesTable, JudgeTable, PriceTable
from stepscope.settings import Settings

RUNS = Path(__file__).resolve().parents[2] / "examples" / "airline"
JUDGE = "local/tiny"
FREE = PriceTable(input=0.0, output=0.0)


def settings(
    base: str,
    *,
    protocol: str = "openai",
    structure: Structure | None = None,
    context_tokens: int = 7_500,
) -> Settings:
    """Return settings with the tiny model as a judge.

    Its tokens are bytes, so that it is said to read little, and long steps are cut.
    """
    judge = JudgeTable(
        protocol=protocol,
        base_url=base,
        family="random",
        structure=structure,
        context_tokens=context_tokens,
        max_output_tokens=2_000,
        seed=1,
        price=FREE,
    )
    return Settings(judges=JudgesTable(concurrency=2, model={JUDGE: judge}))


def replies(ledger: Ledger) -> list[Reply]:
    """Return every reply that was kept."""
    return [reply for _, reply in ledger.replies()]
