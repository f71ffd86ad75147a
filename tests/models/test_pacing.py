"""What headers say about pace, in every form that providers write."""

from __future__ import annotations

import pytest

from stepscope.models.retry import remaining_quota, reset_seconds, retry_after, should_retry

NOON = "Sat, 21 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "30"}, 30.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, 86400.0),
        ({"retry-after": "Sat, 21 Nov 2026 99999999999999999999:00:00 GMT"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"date": NOON, "retry-after": "Sat, 21 Nov 2026 12:00:45 GMT"}, 45.0),
        ({"date": NOON, "retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"date": NOON, "retry-after": "Sat, 21 Nov 2026 14:00:00 +0200"}, 0.0),
        # Nothing left of one limit and plenty of the other: only the first is waited for.
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "500",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            1.0,
        ),
        # Nothing left of both: the longer wait.
        (
            {
                "date": NOON,
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-21T12:00:20Z",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-21T12:00:05+00:00",
            },
            20.0,
        ),
    ],
)
def test_the_wait_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12ms", 0.012),
        ("1s", 1.0),
        ("1.5s", 1.5),
        ("6m0s", 360.0),
        ("1m30.5s", 90.5),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("7", 7.0),
        ("", None),
        ("later", None),
        ("1.2.3s", None),
    ],
)
def test_a_duration_is_read_as_providers_write_it(text: str, seconds: float | None) -> None:
    assert reset_seconds("requests", {"x-ratelimit-reset-requests": text}) == seconds


def test_what_is_left_is_read_of_both_providers_and_nothing_else() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-tokens": "many",
        "anthropic-ratelimit-input-tokens-remaining": "1000",
        "anthropic-ratelimit-input-tokens-limit": "2000",
    }
    assert remaining_quota(headers) == {"requests": 59, "input-tokens": 1000}


@pytest.mark.parametrize(("said", "told"), [(" True", True), ("false", False), ("", None)])
def test_whether_to_ask_again_is_told_or_not(said: str, told: bool | None) -> None:
    assert should_retry({"x-should-retry": said}) is told
    assert should_retry({}) is None
