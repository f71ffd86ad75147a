"""The bar of the server runs, and holds at a small size."""

from __future__ import annotations

import pytest

from bars.report import web


@pytest.mark.slow
def test_pages_of_a_small_store_are_quick(capsys: pytest.CaptureFixture[str]) -> None:
    assert web.table(20, 500, web.FLEET)
    said = capsys.readouterr().out
    assert said.count("\n") == len(web.FLEET) + 3
    assert "MISSED" not in said
