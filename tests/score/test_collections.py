"""Processes that read and score look for cycles rarely, and leave what was set as it was."""

from __future__ import annotations

import gc

from stepscope.runtime.processes import GC_OBJECTS, rare_collections


def test_collections_are_rare_within_and_as_before_behind() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        assert gc.get_threshold()[0] == GC_OBJECTS
        assert gc.get_freeze_count() > frozen
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
