"""The retry loop: tries, pauses, deadlines, and what one call tells the others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from stepscope.errors import ModelError
from stepscope.model import Reply, Request
from stepscope.models.retry import RetryLimits, RetryPolicy
from tests.clock import run_stepped
from tests.models.scripted import REQUEST

GOOD = Reply(text="{}", stop="end", structure="json_schema")
Answer = ModelError | Reply | None


class Said:
    """A model that says what it is told, one thing after the other; None is silence."""

    def __init__(self, answers: Sequence[Answer], name: str = "local/tiny") -> None:
        self.answers = list(answers)
        self.name = name
        self.asked = 0
        self.most = 0
        self._inside = 0

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        self._inside += 1
        self.most = max(self.most, self._inside)
        try:
            answer = self.answers.pop(0) if self.answers else GOOD
            await asyncio.sleep(3600 if answer is None else 0)
            if isinstance(answer, ModelError):
                raise answer
            assert answer is not None
            return answer
        finally:
            self._inside -= 1


def broken(*, again: bool = True, after: float | None = None, status: int = 500) -> ModelError:
    return ModelError("local/tiny: scripted", again=again, after=after, status=status)


class Waits:
    """Takes down how long is waited; the clock itself stands still."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def quiet(number: int, error: ModelError | None) -> None:
    pass


def asked(
    model: Said,
    *,
    limits: RetryLimits | None = None,
    before: Callable[[int, ModelError | None], None] = quiet,
) -> tuple[Reply | ModelError, list[float]]:
    """Return what a call gave, and what was waited."""
    waits = Waits()
    patience = RetryPolicy(random.Random(0), limits=limits or RetryLimits(), sleep=waits)
    try:
        return run_stepped(patience.complete(model, REQUEST, before=before)), waits.seconds
    except ModelError as e:
        return e, waits.seconds


def test_a_good_reply_is_asked_for_once() -> None:
    model = Said([GOOD])
    assert asked(model) == (GOOD, [])
    assert model.asked == 1


def test_what_no_second_try_can_mend_is_tried_once() -> None:
    model = Said([broken(again=False, status=400)])
    error, waits = asked(model)
    assert isinstance(error, ModelError)
    assert (model.asked, waits) == (1, [])


def test_every_try_is_announced_with_the_error_before_it() -> None:
    told: list[tuple[int, str]] = []

    def before(number: int, error: ModelError | None) -> None:
        told.append((number, str(error)))

    first = ModelError("first", again=True, status=500)
    second = ModelError("second", again=True, status=502)
    assert asked(Said([first, second, GOOD]), before=before)[0] == GOOD
    assert told == [(0, "None"), (1, "first"), (2, "second")]


def test_who_announces_can_stop_before_anything_is_sent() -> None:
    class Stop(Exception):
        pass

    def before(number: int, error: ModelError | None) -> None:
        raise Stop

    model = Said([GOOD])
    with pytest.raises(Stop):
        asked(model, before=before)
    assert model.asked == 0


def test_the_last_error_is_told_when_the_tries_are_used_up() -> None:
    errors = [ModelError(f"try {n}", again=True, status=500) for n in range(9)]
    model = Said(errors)
    error, waits = asked(model, limits=RetryLimits(tries=3))
    assert str(error) == "try 2"
    assert (model.asked, len(waits)) == (3, 2)


def test_a_reply_that_cannot_be_read_may_be_paid_for_and_is_asked_for_twice() -> None:
    model = Said([broken(status=500), *[broken(status=200)] * 9])
    assert isinstance(asked(model)[0], ModelError)
    assert model.asked == 3


def test_random_pauses_lie_below_a_bound_that_doubles_up_to_a_cap() -> None:
    limits = RetryLimits(tries=7, base_seconds=1.0, cap_seconds=8.0, whole_seconds=1e6)
    waits = asked(Said([broken()] * 7), limits=limits)[1]
    bounds = [1, 2, 4, 8, 8, 8]
    assert all(0 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    assert len({round(wait, 6) for wait in waits}) == 6
    assert max(waits) > 2
    assert asked(Said([broken()] * 7), limits=limits)[1] == waits  # the seed decides


def test_a_server_is_waited_for_as_long_as_it_asks() -> None:
    assert asked(Said([broken(after=2.5, status=500), GOOD]))[1] == [2.5]


def test_what_is_worth_asking_again_at_once_is_not_waited_for() -> None:
    assert asked(Said([broken(after=0.0, status=400), GOOD])) == (GOOD, [])


def test_a_wait_beyond_the_deadline_ends_the_call_at_once() -> None:
    model = Said([broken(after=3600.0, status=500), GOOD])
    error, waits = asked(model, limits=RetryLimits(whole_seconds=60.0))
    assert isinstance(error, ModelError)
    assert (model.asked, waits, error.after) == (1, [], 3600.0)
    assert "run the same command again" in str(error)


def test_a_server_that_says_nothing_is_given_up_and_asked_again() -> None:
    model = Said([None, GOOD])
    assert asked(model, limits=RetryLimits(attempt_seconds=20.0))[0] == GOOD
    assert model.asked == 2


def test_the_whole_call_ends_at_its_deadline_however_many_tries_are_left() -> None:
    model = Said([None] * 100)
    limits = RetryLimits(tries=100, attempt_seconds=5.0, whole_seconds=18.0, base_seconds=0.0)
    patience = RetryPolicy(random.Random(0), limits=limits)
    seconds = run_stepped(timed(patience, model))
    assert (model.asked, seconds) == (4, 18.0)


def many(model: Said, number: int, patience: RetryPolicy) -> list[Reply | BaseException]:
    async def all_of_them() -> list[Reply | BaseException]:
        calls = [patience.complete(model, REQUEST, before=quiet) for _ in range(number)]
        return await asyncio.gather(*calls, return_exceptions=True)

    return run_stepped(all_of_them())


async def timed(patience: RetryPolicy, model: Said) -> float:
    began = asyncio.get_running_loop().time()
    with suppress(ModelError):
        await patience.complete(model, REQUEST, before=quiet)
    return asyncio.get_running_loop().time() - began


def test_no_more_are_in_flight_than_are_allowed() -> None:
    model = Said([])
    replies = many(model, 50, RetryPolicy(random.Random(0), most=7))
    assert replies == [GOOD] * 50
    assert model.most == 7


def test_refusals_for_rate_let_fewer_through_and_all_calls_end_well() -> None:
    model = Said([broken(status=429)] * 8)
    patience = RetryPolicy(random.Random(0), most=8, limits=RetryLimits(base_seconds=1.0))
    assert many(model, 8, patience) == [GOOD] * 8
    assert patience.lane("local").allowed < 8


def test_a_pause_that_one_call_is_told_is_kept_by_all_calls_to_the_provider() -> None:
    patience = RetryPolicy(random.Random(0), most=4)
    model = Said([broken(status=429, after=150.0)])
    other = Said([], name="other/tiny")

    async def all_three() -> tuple[float, float, float]:
        first = asyncio.create_task(timed(patience, model))
        await asyncio.sleep(1.0)
        return await asyncio.gather(first, timed(patience, model), timed(patience, other))

    refused, second, elsewhere = run_stepped(all_three())
    # At the end of a shared pause, calls begin spread over a second.
    assert 150.0 <= refused <= 152.0
    assert 149.0 <= second <= 151.0
    assert elsewhere == 0.0


def test_waiting_for_a_turn_does_not_count_against_the_deadline() -> None:
    patience = RetryPolicy(random.Random(0), most=1, limits=RetryLimits(whole_seconds=500.0))

    class Slow(Said):
        async def complete(self, request: Request) -> Reply:
            await asyncio.sleep(60.0)
            return GOOD

    assert many(Slow([]), 12, patience) == [GOOD] * 12


def test_a_call_that_is_cancelled_gives_its_place_back() -> None:
    patience = RetryPolicy(random.Random(0), most=1)

    async def cancelled() -> int:
        silent = asyncio.create_task(patience.complete(Said([None]), REQUEST, before=quiet))
        waiting = asyncio.create_task(patience.complete(Said([None]), REQUEST, before=quiet))
        await asyncio.sleep(1.0)
        silent.cancel()
        waiting.cancel()
        await asyncio.gather(silent, waiting, return_exceptions=True)
        await patience.complete(Said([]), REQUEST, before=quiet)
        return patience.lane("local").inside

    assert run_stepped(cancelled()) == 0
