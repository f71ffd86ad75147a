"""A few kills of the labelling page, as the bar makes two hundred of them."""

from __future__ import annotations

from bars.labels import label_kills


def test_no_acknowledged_label_is_lost_at_a_kill() -> None:
    assert label_kills.main(["4"]) == 0
