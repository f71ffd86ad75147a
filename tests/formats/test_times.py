from __future__ import annotations

import pytest

from stepscope.formats.fields import parse_time, time_bounds
from stepscope.model import Instant, Json, Step

SECOND = 1_766_570_400


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        ("2025-12-24T10:00:00Z", SECOND * 10**9),
        ("2025-12-24T10:00:00.5Z", SECOND * 10**9 + 500_000_000),
        ("2025-12-24T10:00:00.123456789+00:00", SECOND * 10**9 + 123_456_789),
        ("2025-12-24T10:00:00.1234567899Z", SECOND * 10**9 + 123_456_789),
        ("2025-12-24T12:00:00+02:00", SECOND * 10**9),
        ("2025-12-24T12:00:00+0200", SECOND * 10**9),
        ("2025-12-24T10:00:00.123456+00:00", SECOND * 10**9 + 123_456_000),
        ("2025-12-24T08:30:00.123456-01:30", SECOND * 10**9 + 123_456_000),
        ("2025-12-24 10:00:00.123456+00:00", SECOND * 10**9 + 123_456_000),
        ("2025-12-24T10:00:00.123456789012", SECOND * 10**9 + 123_456_789),
        ("2025-12-24 10:00:00", SECOND * 10**9),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        (SECOND, SECOND * 10**9),
        (SECOND * 10**3, SECOND * 10**9),
        (SECOND * 10**6, SECOND * 10**9),
        (SECOND * 10**9, SECOND * 10**9),
        (SECOND + 0.5, SECOND * 10**9 + 500_000_000),
    ],
)
def test_every_way_to_write_a_time_is_nanoseconds_utc_and_keeps_its_text(
    value: Json, ns: int
) -> None:
    assert parse_time(value) == Instant(ns, str(value))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "yesterday",
        "2025-13-01T00:00:00Z",
        "2025-12-24T25:00:00Z",
        "2025-12-24T25:00:00.123456+00:00",
        "2025-12-24T10:00:00.123456+00:0x",
        "2025-12-24",
        "0001-01-01T00:00:00+23:59",
        True,
        [],
        10**30,
        float("inf"),
        float("nan"),
    ],
)
def test_what_is_no_time_is_none(value: Json) -> None:
    assert parse_time(value) is None


def test_a_run_lasts_from_its_first_start_to_its_last_time() -> None:
    def step(start: int | None, end: int | None) -> Step:
        return Step(
            index=0,
            actor="agent",
            start=None if start is None else Instant(start, "s"),
            end=None if end is None else Instant(end, "e"),
        )

    steps = [step(None, None), step(5, 9), step(3, 4), step(7, None)]
    assert time_bounds(steps) == (Instant(3, "s"), Instant(9, "e"))
    assert time_bounds([step(None, None)]) == (None, None)
