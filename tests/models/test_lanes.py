"""How many calls go to a provider at once, and when none may."""

from __future__ import annotations

import asyncio

import pytest

from stepscope.model import Usage
from stepscope.models.retry import ProviderLimiter

SMALL = Usage(input_total=90, output_total=10)


def test_a_refusal_halves_and_answers_bring_one_more_a_round() -> None:
    lane = ProviderLimiter(32)
    lane.refused(began=0.0, now=1.0, after=None)
    assert lane.allowed == 16
    for _ in range(16):
        lane.answered({}, None, now=2.0)
    assert lane.allowed == pytest.approx(17, abs=0.1)


def test_refusals_of_one_burst_count_once() -> None:
    lane = ProviderLimiter(32)
    for _ in range(20):
        lane.refused(began=0.5, now=1.0, after=None)
    assert lane.allowed == 16
    lane.refused(began=1.5, now=2.0, after=None)
    assert lane.allowed == 8


def test_it_stays_between_one_and_the_most() -> None:
    lane = ProviderLimiter(4)
    for moment in range(10):
        lane.refused(began=moment + 0.5, now=moment + 1.0, after=None)
    assert lane.allowed == 1
    for _ in range(100):
        lane.answered({}, None, now=20.0)
    assert lane.allowed == 4


def test_all_wait_for_the_longest_that_was_asked_for() -> None:
    lane = ProviderLimiter(4)
    lane.refused(began=0.0, now=10.0, after=30.0)
    lane.refused(began=0.0, now=11.0, after=1.0)
    assert lane.opens == 40.0


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"x-ratelimit-remaining-requests": "5"}, 5),
        ({"x-ratelimit-remaining-requests": "500"}, 32),
        ({"x-ratelimit-remaining-tokens": "350"}, 3),  # of 100 each
        ({"anthropic-ratelimit-input-tokens-remaining": "900"}, 10),  # of 90 each
        ({"anthropic-ratelimit-output-tokens-remaining": "20"}, 2),  # of 10 each
        ({"x-ratelimit-remaining-requests": "0"}, 1),
    ],
)
def test_no_more_are_in_flight_than_what_is_left_lets_through(
    headers: dict[str, str], allowed: int
) -> None:
    lane = ProviderLimiter(32)
    lane.answered(headers, SMALL, now=0.0)
    assert lane.allowed == allowed


def test_a_used_up_window_is_waited_for_up_to_a_minute() -> None:
    lane = ProviderLimiter(32)
    spent = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"}
    lane.answered(spent, SMALL, now=100.0)
    assert lane.opens == 120.0
    lane.answered({**spent, "x-ratelimit-reset-requests": "24h"}, SMALL, now=100.0)
    assert lane.opens == 160.0


def test_places_are_given_in_the_order_of_asking() -> None:
    async def order() -> list[int]:
        lane, entered = ProviderLimiter(1), list[int]()

        async def call(number: int) -> None:
            await lane.enter()
            entered.append(number)
            await asyncio.sleep(0)
            lane.leave()

        await asyncio.gather(*[call(number) for number in range(5)])
        assert lane.inside == 0
        return entered

    assert asyncio.run(order()) == [0, 1, 2, 3, 4]


def test_a_place_given_to_a_call_that_gives_up_goes_to_the_next() -> None:
    async def given_up() -> int:
        lane = ProviderLimiter(1)
        await lane.enter()
        second, third = (asyncio.create_task(lane.enter()) for _ in range(2))
        await asyncio.sleep(0)
        lane.leave()  # the second has the place now, and has not run since
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        await third
        fourth = asyncio.create_task(lane.enter())
        await asyncio.sleep(0)
        fourth.cancel()  # while it waits
        await asyncio.gather(fourth, return_exceptions=True)
        lane.leave()
        return lane.inside

    assert asyncio.run(given_up()) == 0
