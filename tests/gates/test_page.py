"""The page on gates names every key, cause and setting that there is."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from stepscope.gates.settings import GateTable, WorkflowTable
from stepscope.gates.types import Cause

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "gates.md"
KEYS = [field.name for field in msgspec.structs.fields(GateTable)]
WORDS = [*KEYS, *get_args(Cause)]


@pytest.mark.parametrize("word", WORDS)
def test_the_page_explains_every_word(word: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{word}`" in text or f"`{word} = " in text or f"{word} = " in text


def test_a_workflow_has_eight_keys() -> None:
    assert [f.name for f in msgspec.structs.fields(WorkflowTable)] == [
        "cases",
        "agent",
        "baseline",
        "trials",
        "tier",
        "gates",
        "tools",
        "policy",
    ]
