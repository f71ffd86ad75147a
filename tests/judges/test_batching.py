from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from stepscope.errors import ConfigError, ModelError
from stepscope.judges.judgement import Judgement
from stepscope.judges.run import JudgingStatistics, run_judgements
from stepscope.ledger.budget import Budget
from stepscope.ledger.calls import CallClients
from stepscope.ledger.ledger import Ledger
from stepscope.model import Record
from stepscope.models.batches import open_batches
from stepscope.models.configured import JudgesTable, PriceTable
from stepscope.models.opening import open_model
from tests.faults.batching import Batching
from tests.faults.providers import Provider, Threaded, serving
from tests.faults.script import Batches, Fault, Script
from tests.judges.asked import Answering, Prices, judgement, judgements, patience
from tests.judges.batched import JUDGE, PROTOCOLS, Protocol, batched, batches_at, table
from tests.models.scripted import IMAGES

pytestmark = pytest.mark.parametrize("protocol", PROTOCOLS)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger(":memory:") as opened:
        yield opened


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Threaded]:
    with serving(ledger=tmp_path / "asked.jsonl") as served:
        yield served


def paid(provider: Provider) -> Counter[str]:
    """How often each ask was answered."""
    return Counter(entry.custom for entry in provider.entries() if entry.event == "received")


def batches(ledger: Ledger) -> dict[str, int]:
    """How many batches are open, and over."""

    def count(db: sqlite3.Connection) -> dict[str, int]:
        return dict(
            db.execute(
                "SELECT iif(owner IS NULL, 'over', 'open'), count(*) FROM batches GROUP BY 1"
            ).fetchall()
        )

    return ledger.batch([count]).result()[0]


def test_a_batch_holds_the_images_that_its_asks_have(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    (plain,) = judgement("r0").asks
    request = msgspec.structs.replace(plain.request, media=IMAGES)
    seen = msgspec.structs.replace(plain, request=request)
    batch = batches_at(provider, protocol)
    without, sent = (batch.line(one, "json_schema") for one in (plain, seen))
    for image in IMAGES:
        assert image.data.encode() in sent
        assert image.data.encode() not in without


def judged(asked: Iterator[Judgement], ledger: Ledger, *, model: Answering) -> JudgingStatistics:
    """Ask one by one, without batches."""

    def keep(records: Sequence[Record]) -> None:
        pass

    free = Prices(most=0.0, paid=0.0)
    going = run_judgements(
        asked,
        CallClients(
            models={JUDGE: model},
            retry=patience(),
            ledger=ledger,
            prices=free,
            budget=Budget(limit_usd=None),
        ),
        keep=keep,
    )
    return asyncio.run(going)


def test_every_ask_is_bought_once_at_half_the_price(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    kept: list[Record] = []
    ran = batched(lambda: judgements(3), ledger, provider, protocol, keep=kept.extend)
    assert (ran.judgements, ran.bought, ran.from_ledger) == (6, 6, 0)
    assert set(paid(provider).values()) == {1}
    tokens = ran.input_tokens + ran.output_tokens
    assert ran.usd == pytest.approx(tokens * 0.5e-6)
    assert ran.spent_usd == pytest.approx(0.0)  # a budget of its own, without a limit
    assert sum(record.cost_usd or 0 for record in kept) == pytest.approx(ran.usd)
    again = batched(lambda: judgements(3), ledger, provider, protocol)
    assert (again.bought, again.from_ledger) == (0, 6)
    assert sum(paid(provider).values()) == 6


def test_a_batch_is_polled_until_it_has_ended(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(polls=3))
    assert batched(lambda: judgements(2), ledger, provider, protocol).judgements == 4


def test_a_result_that_comes_twice_counts_once_and_the_first_stands(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    kept: list[Record] = []
    provider.script = Script(batches=Batches(doubled=True))
    ran = batched(lambda: judgements(2), ledger, provider, protocol, keep=kept.extend)
    assert (ran.bought, len(kept)) == (4, 4)
    assert {record.judge for record in kept} == {JUDGE}  # the second says another model


def test_what_expired_or_was_cancelled_goes_into_the_next_batch_and_costs_nothing(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(expired=2, canceled=1))
    ran = batched(lambda: judgements(3), ledger, provider, protocol)
    assert (ran.judgements, ran.failed, ran.unknown) == (6, {}, ())
    assert set(paid(provider).values()) == {1}


def test_what_fails_in_two_batches_has_no_answer_and_says_why(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(expired=2, rounds=0))
    ran = batched(lambda: judgements(3), ledger, provider, protocol)
    assert (ran.judgements, ran.failed) == (4, {"no_answer": 2})
    assert any(word in reason for reason in ran.reasons for word in ("expired", "time", "executed"))
    provider.script = Script()
    assert batched(lambda: judgements(3), ledger, provider, protocol).judgements == 6


def test_what_the_provider_refuses_is_asked_once(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(errored=6, rounds=0))
    ran = batched(lambda: judgements(3), ledger, provider, protocol)
    assert ran.failed == {"no_answer": 6}
    assert "scripted" in ran.reasons[0]
    assert ledger.states() == {"failed": 6}
    assert batches(ledger) == {"over": 1}


def test_an_ask_of_which_the_results_say_nothing_is_listed_and_asked_again(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(missing=1))
    ran = batched(lambda: judgements(2), ledger, provider, protocol)
    assert ran.judgements == 4
    assert [one.why for one in ran.unknown] == ["the batch ended without a word of it"]
    assert ran.unknown_usd > 0


def test_a_further_ask_goes_into_the_next_batch(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    ran = batched(lambda: [judgement(more_asks=2)], ledger, provider, protocol)
    assert (ran.judgements, ran.bought) == (1, 3)


def test_a_form_of_answer_that_is_not_known_falls_to_the_next_in_the_next_batch(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(structures=("forced_tool",), strict=False)
    batch = batches_at(provider, protocol)
    plan = judgement("r1"), judgement("r2")
    first = batched(lambda: plan, ledger, provider, protocol, batch=batch)
    # OpenAI's protocol has one more form between the two: a third batch is for the next run.
    second = batched(lambda: plan, ledger, provider, protocol, batch=batch)
    assert first.judgements + second.judgements in {2, 4}
    assert second.judgements == 2
    assert batch.structure == "forced_tool"


def test_more_asks_than_a_batch_holds_make_several(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    batch = batches_at(provider, protocol)
    batch.most = 4
    ran = batched(lambda: judgements(5), ledger, provider, protocol, batch=batch)
    assert (ran.judgements, ran.bought) == (10, 10)
    assert set(paid(provider).values()) == {1}
    assert batches(ledger) == {"over": 3}


def test_a_batch_that_is_refused_whole_costs_nothing_and_says_why(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(refused="too much is enqueued"))
    if protocol == "anthropic":
        with pytest.raises(ModelError, match="too much is enqueued"):
            batched(lambda: judgements(1), ledger, provider, protocol)
    else:
        ran = batched(lambda: judgements(1), ledger, provider, protocol)
        assert ran.failed == {"no_answer": 2}
        assert "too much is enqueued" in ran.reasons[0]
    assert ledger.unknown() == []
    assert ledger.states() == {"failed": 2}


# What a call costs at worst in a batch: some 6,600 bytes and 100 tokens of answer, at half price.
WORST = 0.0033675


@pytest.mark.parametrize(("calls", "made"), [(10, 1), (4, 2)])
def test_a_budget_lets_into_a_batch_what_it_holds_at_worst_and_the_rest_later(
    ledger: Ledger, provider: Threaded, protocol: Protocol, calls: int, made: int
) -> None:
    # The calls cost a hundredth of their worst, so that a second batch holds all that is left.
    night = Budget("night", (calls + 0.9) * WORST)
    ran = batched(
        lambda: judgements(3 if calls == 4 else 5), ledger, provider, protocol, budget=night
    )
    assert ran.failed == {}
    assert batches(ledger) == {"over": made}
    assert ran.spent_usd == pytest.approx(ran.usd)


def test_a_budget_of_zero_sends_nothing(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    ran = batched(lambda: judgements(2), ledger, provider, protocol, budget=Budget("none", 0.0))
    assert (ran.failed, sum(paid(provider).values())) == ({"budget": 4}, 0)
    assert batches(ledger) == {}


def test_a_price_that_nobody_knows_fits_into_no_budget(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    with pytest.raises(ConfigError, match="price"):
        batched(
            lambda: judgements(2), ledger, provider, protocol, budget=Budget("x", 5.0), price=None
        )
    assert sum(paid(provider).values()) == 0


def test_a_run_that_is_stopped_leaves_its_batch_and_the_next_one_fetches_it(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(polls=1_000_000))
    ran = batched(
        lambda: judgements(2), ledger, provider, protocol, stop_when=lambda: provider.looks > 0
    )
    assert (ran.stopped, ran.judgements) == (True, 0)
    assert batches(ledger) == {"open": 1}
    alone = judged(judgements(2), ledger, model=Answering())
    assert (alone.failed, alone.bought) == ({"batched": 4}, 0)
    assert "ask by batches" in alone.reasons[0]
    provider.script = Script()
    provider.finish()
    after = batched(lambda: judgements(2), ledger, provider, protocol)
    assert (after.judgements, after.bought, after.unknown) == (4, 4, ())
    assert set(paid(provider).values()) == {1}


def test_two_runs_at_once_buy_every_ask_once(
    tmp_path: Path, provider: Threaded, protocol: Protocol
) -> None:
    path = str(tmp_path / "runs.db.judges.db")
    provider.script = Script(batches=Batches(polls=20))
    found = []

    def one() -> None:
        with Ledger(path) as ledger:
            found.append(batched(lambda: judgements(3), ledger, provider, protocol))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ran.judgements for ran in found] == [6, 6]
    assert sum(ran.bought for ran in found) == 6
    assert set(paid(provider).values()) == {1}


def test_only_protocols_with_batches_have_them(protocol: Protocol) -> None:
    with pytest.raises(ConfigError, match="has no batches"):
        open_batches(Answering(), JudgesTable())


def test_a_server_of_ones_own_has_batches_where_its_price_says_so(
    provider: Threaded, protocol: Protocol
) -> None:
    for price in (None, PriceTable(input=1.0, output=5.0)):
        judges = table(provider, protocol, price)
        with pytest.raises(ConfigError, match="is at a server of its own"):
            open_batches(open_model(JUDGE, judges, keys={}), judges)


def test_what_is_no_batch_is_not_waited_for(
    provider: Threaded, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*_: object, **__: object) -> dict[str, object]:
        return {"id": "chat-1", "object": "chat.completion"}

    monkeypatch.setattr(Batching, f"{protocol}_told", told)
    asked = batches_at(provider, protocol)

    async def looked() -> bool:
        try:
            return await asked.is_over("chat-1")
        finally:
            await asked.close()

    with pytest.raises(ModelError, match="it has no status"):
        asyncio.run(looked())


def test_an_error_of_the_provider_while_polling_is_waited_out(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(polls=1, faults=(Fault(), Fault(status=503))))
    assert batched(lambda: judgements(1), ledger, provider, protocol).judgements == 2


def test_a_result_that_nobody_asked_for_is_not_kept(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(foreign=True))
    ran = batched(lambda: judgements(2), ledger, provider, protocol)
    assert (ran.judgements, ran.bought) == (4, 4)
    assert len(list(ledger.replies())) == 4


def test_a_batch_whose_making_got_no_answer_is_found_and_not_made_twice(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    made = (Fault(status=504),) if protocol == "anthropic" else (Fault(), Fault(status=504))
    provider.script = Script(batches=Batches(faults=made, hidden=2))
    ran = batched(lambda: judgements(2), ledger, provider, protocol, settle_seconds=60.0)
    assert (ran.judgements, ran.unknown) == (4, ())
    assert set(paid(provider).values()) == {1}


def test_a_batch_that_was_never_made_is_made_when_it_cannot_show_up_any_more(
    ledger: Ledger, provider: Threaded, protocol: Protocol
) -> None:
    provider.script = Script(batches=Batches(faults=(Fault(reset="before"),)))
    if protocol == "anthropic":
        provider.script = Script(batches=Batches(faults=(Fault(status=504),), hidden=1_000))
    ran = batched(lambda: judgements(2), ledger, provider, protocol)
    assert (ran.judgements, ran.unknown) == (4, ())
