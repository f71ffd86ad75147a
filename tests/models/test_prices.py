"""What calls cost: figures by hand, bounds that hold, and None for what nobody knows."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model import Request, Usage
from stepscope.models.configured import JudgesTable, JudgeTable, PriceTable
from stepscope.models.prices import Prices, input_bound
from tests.models.scripted import IMAGES, REQUEST

OWN = PriceTable(input=2.0, output=10.0, cache_read=0.2, cache_write=2.5, batch=0.5)
TABLE = JudgesTable(
    model={
        "local/own": JudgeTable(price=OWN),
        "local/plain": JudgeTable(price=PriceTable(input=2.0, output=10.0)),
        "local/free": JudgeTable(price=PriceTable(input=0, output=0)),
        "openai/gpt-5": JudgeTable(base_url="https://elsewhere.example/v1"),
        "anthropic/claude-sonnet-4-5": JudgeTable(family="anthropic"),
    }
)
PRICES = Prices(TABLE)
# 1,000 read, of them 600 from the cache and 100 into it; 50 written.
USED = Usage(input_total=1000, cache_read=600, cache_write=100, output_total=50)


@pytest.mark.parametrize(
    ("judge", "batch", "usd"),
    [
        # 300 x 2 + 600 x .2 + 100 x 2.5 + 50 x 10 = 1,470 millionths
        ("local/own", False, 0.00147),
        ("local/own", True, 0.000735),
        # 1,000 x 2 + 50 x 10
        ("local/plain", False, 0.0025),
        ("local/free", False, 0.0),
        # 300 x 3 + 600 x .3 + 100 x 3.75 + 50 x 15 = 2,205, prices of the table
        ("anthropic/claude-sonnet-4-5", False, 0.002205),
        ("anthropic/claude-sonnet-4-5", True, 0.0011025),
    ],
)
def test_a_reply_costs_what_its_tokens_do(judge: str, batch: bool, usd: float) -> None:
    assert PRICES.cost(judge, USED, batch=batch) == pytest.approx(usd, rel=1e-12)


@pytest.mark.parametrize(
    "judge",
    ["local/unknown", "openai/gpt-5", "openai/no-such-model", "acme/gpt-5"],
)
def test_a_price_that_nobody_knows_is_none(judge: str) -> None:
    assert PRICES.cost(judge, USED) is None
    assert PRICES.worst(judge, REQUEST) is None
    assert PRICES.saved(judge, USED) is None
    assert PRICES.source(judge) == ""
    assert f'[judges.model."{judge}"] price' in PRICES.advice(judge)


@pytest.mark.parametrize(
    "usage", [None, Usage(), Usage(input_total=5), Usage(output_total=5)], ids=str
)
def test_tokens_that_nobody_knows_cost_none_not_zero(usage: Usage | None) -> None:
    assert PRICES.cost("local/own", usage) is None


def test_more_cached_than_read_has_no_price_in_the_table() -> None:
    odd = Usage(input_total=5, cache_read=50, output_total=1)
    assert PRICES.cost("anthropic/claude-sonnet-4-5", odd) is None


def test_what_the_cache_saved_can_be_a_loss() -> None:
    # 1,000 x 2 + 500 = 2,500 without it, 1,470 with it
    assert PRICES.saved("local/own", USED) == pytest.approx(0.00103, rel=1e-12)
    filled = Usage(input_total=1000, cache_write=1000, output_total=50)
    assert PRICES.saved("local/own", filled) == pytest.approx(-0.0005, rel=1e-12)


def test_a_snapshot_with_a_price_of_its_own_is_priced_by_it() -> None:
    used = Usage(input_total=1_000_000, output_total=0)
    asked = PRICES.cost("anthropic/claude-haiku-4-5", used)
    answered = PRICES.cost("anthropic/claude-haiku-4-5", used, model="claude-sonnet-4-5")
    unknown = PRICES.cost("anthropic/claude-haiku-4-5", used, model="claude-of-tomorrow")
    assert asked == unknown
    assert answered != asked


def test_amounts_have_a_source() -> None:
    assert PRICES.source("local/own") == "settings"
    assert PRICES.source("anthropic/claude-sonnet-4-5").startswith("genai-prices 0.")


@pytest.mark.parametrize("judge", ["local/own", "local/plain", "anthropic/claude-sonnet-4-5"])
@given(
    context=st.text(max_size=40),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
    limit=st.integers(1, 5000),
)
def test_no_reply_costs_more_than_the_worst(
    judge: str, context: str, shares: tuple[float, float, float], limit: int
) -> None:
    request = msgspec.structs.replace(REQUEST, context=context, max_output_tokens=limit)
    bound = input_bound(request)
    read = int(bound * shares[0])
    hit = int(read * shares[1])
    put = int((read - hit) * shares[2])
    used = Usage(input_total=read, cache_read=hit, cache_write=put, output_total=limit)
    worst, cost = PRICES.worst(judge, request), PRICES.cost(judge, used)
    assert worst is not None
    assert cost is not None
    assert cost <= worst


@pytest.mark.parametrize(
    ("judge", "tokens", "usd"),
    [
        ("anthropic/claude-sonnet-4-5", 8_464, 3.75),
        ("openai/gpt-4.1-nano", 24_600, 0.1),
        ("openai/gpt-4o-mini", 48_169, 0.15),
        ("local/plain", 48_169, 2.0),
    ],
)
def test_an_image_is_reserved_as_the_dearest(judge: str, tokens: int, usd: float) -> None:
    plain, seen = (
        PRICES.worst(judge, msgspec.structs.replace(REQUEST, media=media)) for media in ((), IMAGES)
    )
    assert plain is not None
    assert seen is not None
    least = 2 * tokens * usd / 1_000_000
    assert least < seen - plain < 1.07 * least


def test_the_bound_counts_every_byte_that_is_sent() -> None:
    def bound(**told: str) -> int:
        return input_bound(msgspec.structs.replace(REQUEST, **told))

    base = bound(context="")
    assert bound(context="a" * 1000) == base + 1000
    assert bound(context="\u20ac" * 1000) == base + 3000
    assert bound(context="", system=REQUEST.system + "x" * 10) == base + 10
    assert bound(context="", question=REQUEST.question + "x" * 10) == base + 10
    wider = Request(system="", context="", question="", schema_name="s", schema={"a": "b" * 1000})
    assert input_bound(wider) > 4000 + 4096
