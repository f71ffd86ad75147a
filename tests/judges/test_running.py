from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from stepscope.errors import ConfigError, EnvironmentFault, ModelError
from stepscope.judges.judgement import Judgement
from stepscope.judges.run import (
    JudgingStatistics,
    Progress,
    judge_name,
    judgement_records,
    run_judgements,
)
from stepscope.ledger.budget import Budget
from stepscope.ledger.calls import CallClients, LedgerModel, Pricing
from stepscope.ledger.ledger import Ledger
from stepscope.ledger.states import Paid
from stepscope.model import Model, Record, Reply, Request, Usage, Verdict
from stepscope.models import JudgesTable, JudgeTable, PriceTable
from stepscope.models.prices import Prices as TablePrices
from stepscope.models.retry import BeforeAttempt, RetryPolicy
from stepscope.values import Unmeasured
from tests.judges.asked import (
    Answering,
    Prices,
    Silent,
    judgement,
    judgements,
    patience,
    reply,
)

RICH = Budget(limit_usd=1_000.0)
VERDICT = Verdict("judge.axes.termination", label="correct")


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger(":memory:") as opened:
        yield opened


def judged(
    asked: Iterable[Judgement],
    ledger: Ledger,
    *,
    model: Model | None = None,
    budget: Budget = RICH,
    prices: Pricing = Prices(),  # noqa: B008 (frozen)
    keep: Callable[[Sequence[Record]], None] = lambda made: None,
    concurrency: int = 8,
    tries: int = 3,
    progress: Progress | None = None,
) -> JudgingStatistics:
    """Run to the end; a model that is None is not open."""
    return asyncio.run(
        run_judgements(
            asked,
            CallClients(
                models={} if model is None else {"local/tiny": model},
                retry=patience(tries=tries),
                ledger=ledger,
                prices=prices,
                budget=budget,
                concurrency=concurrency,
            ),
            keep=keep,
            progress=progress,
        )
    )


def test_replies_become_records_with_their_price(ledger: Ledger) -> None:
    kept: list[Record] = []
    ran = judged([judgement("r1", "termination")], ledger, model=Answering(), keep=kept.extend)
    assert kept == [
        Record(
            trajectory="r1",
            answer=Verdict("judge.axes.termination", label="correct"),
            version="1",
            family="qwen",
            judge="local/tiny",
            rubric="axes.termination",
            prompt="0123456789abcdef",
            usage=Usage(input_total=100, cache_read=40, output_total=10),
            cost_usd=0.125,
            seconds=0.5,
        )
    ]
    assert (ran.judgements, ran.records, ran.bought, ran.from_ledger) == (1, 1, 1, 0)
    assert (ran.usd, ran.spent_usd, ran.reserved_usd, ran.unpriced) == (0.125, 0.125, 0.0, 0)
    assert (ran.input_tokens, ran.output_tokens, ran.cached_tokens) == (100, 10, 40)
    assert (ran.saved_usd, ran.ignored_schema) == (0.0625, {})
    assert ledger.states() == {"verdict": 1}


def test_an_endpoint_that_ignores_the_schema_is_told(ledger: Ledger) -> None:
    model = Answering(lambda number, request: reply(label="who knows"))
    assert judged(judgements(2), ledger, model=model).ignored_schema == {"local/tiny": 4}


def test_a_second_run_buys_nothing_and_says_the_same(ledger: Ledger) -> None:
    first: list[Record] = []
    second: list[Record] = []
    judged(judgements(5), ledger, model=Answering(), keep=first.extend)
    ran = judged(judgements(5), ledger, model=None, prices=Prices(None, None), keep=second.extend)
    assert (ran.bought, ran.from_ledger, ran.usd) == (0, 10, 0.0)
    assert sorted(second, key=str) == sorted(first, key=str)


def test_usage_and_price_of_all_asks_stand_on_the_first_record(ledger: Ledger) -> None:
    kept: list[Record] = []
    judged([judgement(more_asks=2)], ledger, model=Answering(), keep=kept.extend)
    assert [(one.cost_usd, one.seconds) for one in kept] == [(0.375, 1.5)]
    assert kept[0].usage == Usage(input_total=300, cache_read=120, output_total=30)


def test_an_answer_without_usage_has_no_invented_one(ledger: Ledger) -> None:
    kept: list[Record] = []
    model = Answering(lambda number, request: reply(usage=None))
    ran = judged([judgement()], ledger, model=model, prices=Prices(0.25, None), keep=kept.extend)
    assert (kept[0].usage, kept[0].cost_usd) == (None, None)
    assert (ran.usd, ran.unpriced, ran.spent_usd) == (0.0, 1, 0.25)


@pytest.mark.parametrize("tokens", [10**18, 10**30, -(10**18)], ids=["1e18", "1e30", "below 0"])
def test_a_reply_is_kept_whatever_tokens_it_tells(ledger: Ledger, tokens: int) -> None:
    kept: list[Record] = []
    told = Usage(input_total=tokens, cache_read=tokens, output_total=10)
    model = Answering(lambda number, request: reply(usage=told))
    price = JudgeTable(price=PriceTable(input=1.0, output=2.0))
    prices = TablePrices(JudgesTable(model={"local/tiny": price}))
    judged([judgement()], ledger, model=model, prices=prices, keep=kept.extend)
    assert kept[0].usage == Usage(output_total=10)
    assert (kept[0].cost_usd, kept[0].answer) == (None, VERDICT)
    again = judged([judgement()], ledger, model=None, prices=prices)
    assert (again.bought, again.from_ledger) == (0, 1)


def test_no_answer_is_no_verdict_and_is_asked_again(ledger: Ledger) -> None:
    kept: list[Record] = []
    down = Answering(lambda number, request: ModelError("it is down", again=True, status=500))
    ran = judged([judgement()], ledger, model=down, keep=kept.extend)
    assert (kept, ran.failed, ran.reasons) == ([], {"no_answer": 1}, ("it is down",))
    assert (len(down.asked), ran.spent_usd, ran.unknown) == (3, 0.0, ())
    assert ledger.states() == {"failed": 1}
    ran = judged([judgement()], ledger, model=Answering(), keep=kept.extend)
    assert (len(kept), ran.bought, ran.failed) == (1, 1, {})


def test_a_refusal_is_kept_and_not_asked_again(ledger: Ledger) -> None:
    kept: list[Record] = []
    model = Answering(lambda number, request: reply(stop="refusal"))
    for _ in range(2):
        ran = judged([judgement()], ledger, model=model, keep=kept.extend)
        assert ran.unmeasured == {"refused": 1}
    assert len(model.asked) == 1
    assert kept[0] == kept[1]
    assert isinstance(kept[0].answer, Unmeasured)


@pytest.mark.parametrize(
    ("error", "spent", "listed"),
    [
        (ModelError("reset", again=True), 1.0, 4),
        (ModelError("cut off", again=True, status=200), 0.5, 2),
        (ModelError("gateway", again=True, status=504), 1.0, 4),
        (ModelError("limit", again=True, status=429), 0.0, 0),
        (ModelError("no route", again=True, reached=False), 0.0, 0),
        (ModelError("bad key", again=False, status=401), 0.0, 0),
    ],
)
def test_every_sending_that_may_have_been_paid_is_listed(
    ledger: Ledger, error: ModelError, spent: float, listed: int
) -> None:
    model = Answering(lambda number, request: error)
    ran = judged([judgement()], ledger, model=model, tries=4)
    assert (ran.spent_usd, len(ran.unknown), ran.unknown_usd) == (spent, listed, spent)
    assert [one.attempt for one in ran.unknown] == [1, 2, 3, 4][:listed]


def test_a_deadline_leaves_an_unknown_outcome(ledger: Ledger) -> None:
    class Hanging(Answering):
        async def complete(self, request: Request) -> Reply:
            raise TimeoutError

    ran = judged([judgement()], ledger, model=Hanging(), tries=1)
    assert (ran.failed, ran.spent_usd, len(ran.unknown)) == ({"no_answer": 1}, 0.25, 1)


def test_a_budget_holds_what_calls_cost_at_worst(ledger: Ledger) -> None:
    model = Answering()
    budget = Budget("night", 1.0)
    ran = judged(judgements(20), ledger, model=model, budget=budget)
    # 0.125 each; at 0.875 the worst of one more, 0.25, no longer fits.
    assert (len(model.asked), ran.bought, ran.spent_usd) == (7, 7, 0.875)
    assert ran.failed == {"budget": 33}
    ran = judged(judgements(20), ledger, model=model, budget=Budget("night", 2.0))
    assert (ran.from_ledger, ran.bought, ran.spent_usd) == (7, 8, 1.875)


def test_a_budget_of_zero_sends_nothing(ledger: Ledger) -> None:
    model = Answering()
    free = Prices(0.0, 0.0)
    ran = judged(judgements(2), ledger, model=model, budget=Budget(limit_usd=0.0), prices=free)
    assert (model.asked, ran.failed) == ([], {"budget": 4})


def test_an_unknown_price_fails_closed_and_says_what_to_write(ledger: Ledger) -> None:
    model = Answering()
    with pytest.raises(ConfigError, match="write the price of local/tiny"):
        judged(judgements(2), ledger, model=model, prices=Prices(None, None))
    assert model.asked == []
    ran = judged(
        judgements(2), ledger, model=model, prices=Prices(None, None), budget=Budget(limit_usd=None)
    )
    assert (ran.bought, ran.unpriced) == (4, 4)


def test_a_judge_without_a_model_is_named(ledger: Ledger) -> None:
    with pytest.raises(ConfigError, match="no model is open for the judge 'local/tiny'"):
        judged([judgement()], ledger)


def test_no_more_calls_are_in_flight_than_asked_for(ledger: Ledger) -> None:
    model = Answering(meeting=asyncio.Barrier(5))
    judged(judgements(30), ledger, model=model, concurrency=5)
    assert model.most_in_flight == 5


def test_judgements_are_taken_as_calls_end(ledger: Ledger) -> None:
    taken: list[int] = []

    def asked(model: Answering) -> Iterator[Judgement]:
        for at, one in enumerate(judgements(100, 1)):
            taken.append(at - len(model.asked))
            yield one

    model = Answering()
    judged(asked(model), ledger, model=model, concurrency=2)
    assert len(taken) == 100
    # Eight under way, and one in hand.
    assert max(taken) <= 9


def test_the_first_ask_with_a_long_beginning_goes_alone(ledger: Ledger) -> None:
    begun: list[tuple[int, str]] = []

    class Watched(Answering):
        async def complete(self, request: Request) -> Reply:
            begun.append((self.in_flight, request.question))
            self.meeting = meetings.pop(0)
            return await super().complete(request)

    long = "x" * 5_000
    asked = [judgement("r1", f"axis{n}", context=long) for n in range(4)]
    together = asyncio.Barrier(3)
    meetings = [None, together, together, together]
    judged(asked, ledger, model=Watched())
    assert begun[0] == (0, "axis0")
    assert [flying for flying, _ in begun[1:]] == [0, 1, 2]
    begun.clear()
    short = [judgement("r2", f"axis{n}") for n in range(4)]
    together = asyncio.Barrier(4)
    meetings = [together] * 4
    judged(short, ledger, model=Watched())
    assert [flying for flying, _ in begun] == [0, 1, 2, 3]


def test_one_ask_planned_twice_is_bought_once(ledger: Ledger) -> None:
    model = Answering()
    ran = judged([judgement(), judgement()], ledger, model=model)
    assert (len(model.asked), ran.bought, ran.from_ledger) == (1, 1, 1)


def test_repeats_are_bought_one_by_one(ledger: Ledger) -> None:
    model = Answering()
    kept: list[Record] = []
    asked = [judgement(repeat=repeat) for repeat in range(3)]
    judged(asked, ledger, model=model, keep=kept.extend)
    assert sorted(one.repeat for one in kept) == [0, 1, 2]
    assert len(model.asked) == 3


def test_two_runs_at_once_share_the_work(tmp_path: Path) -> None:
    async def both(first: Ledger, second: Ledger) -> list[JudgingStatistics]:
        clients = partial(
            CallClients,
            retry=patience(),
            prices=Prices(),
            budget=Budget("b", 1_000.0),
            concurrency=4,
        )
        return list(
            await asyncio.gather(
                *(
                    run_judgements(
                        judgements(20),
                        clients(models={"local/tiny": model}, ledger=ledger),
                        keep=kept.extend,
                    )
                    for model, ledger in zip(models, (first, second), strict=True)
                )
            )
        )

    class Sharing(Answering):
        """Answers when both models are asked."""

        async def complete(self, request: Request) -> Reply:
            begun[models.index(self)].set()
            for event in begun:
                await event.wait()
            return await super().complete(request)

    begun = [asyncio.Event(), asyncio.Event()]
    models = [Sharing(name="local/tiny"), Sharing(name="local/other")]
    kept: list[Record] = []
    path = str(tmp_path / "l.db")
    with Ledger(path) as first, Ledger(path) as second:
        one, two = asyncio.run(both(first, second))
        assert first.money("b")[0] == 5.0
    assert [len(model.asked) for model in models] == [one.bought, two.bought]
    assert one.bought + two.bought == 40
    assert one.judgements == two.judgements == 40
    assert min(one.bought, two.bought) > 0


def test_a_stop_sends_nothing_more_and_keeps_what_was_sent(ledger: Ledger) -> None:
    async def stopped() -> JudgingStatistics:
        stop = asyncio.Event()

        def answer(number: int, request: Request) -> Reply:
            if number == 2:
                stop.set()
            return reply()

        model.answer = answer
        return await run_judgements(
            judgements(50),
            CallClients(
                models={"local/tiny": model},
                retry=patience(),
                ledger=ledger,
                prices=Prices(),
                budget=RICH,
                concurrency=4,
            ),
            keep=kept.extend,
            stop=stop,
        )

    kept: list[Record] = []
    model = Answering(meeting=asyncio.Barrier(4))
    ran = asyncio.run(stopped())
    assert ran.stopped
    assert (ran.bought, ran.unknown, len(kept)) == (len(model.asked), (), len(model.asked))
    assert len(model.asked) == 4
    assert set(ran.failed) <= {"stopped"}


def test_a_stop_ends_retries(ledger: Ledger) -> None:
    async def stopped() -> JudgingStatistics:
        stop = asyncio.Event()

        def answer(number: int, request: Request) -> ModelError:
            stop.set()
            return ModelError("it is down", again=True, status=500)

        model.answer = answer
        return await run_judgements(
            [judgement()],
            CallClients(
                models={"local/tiny": model},
                retry=patience(tries=50),
                ledger=ledger,
                prices=Prices(),
                budget=RICH,
            ),
            keep=lambda made: None,
            stop=stop,
        )

    model = Answering()
    ran = asyncio.run(stopped())
    assert (len(model.asked), ran.failed, ran.unknown) == (1, {"stopped": 1}, ())
    assert ledger.states() == {"planned": 1}


class Impatient(RetryPolicy):
    """Gives a call up while its reply is on its way to the disk."""

    async def complete(self, model: Model, request: Request, *, before: BeforeAttempt) -> Reply:
        assert isinstance(model, LedgerModel)
        before(0, None)
        going = asyncio.create_task(model.complete(request))
        while model.paid is None:
            await asyncio.sleep(0)
        going.cancel()
        raise ModelError("too late", again=False)


def test_a_reply_that_was_received_too_late_is_still_a_reply(ledger: Ledger) -> None:
    ran = asyncio.run(
        run_judgements(
            [judgement()],
            CallClients(
                models={"local/tiny": Answering()},
                retry=Impatient(random.Random(0)),
                ledger=ledger,
                prices=Prices(),
                budget=RICH,
            ),
            keep=lambda made: None,
        )
    )
    assert (ran.bought, ran.judgements, ran.failed, ran.unknown) == (1, 1, {}, ())
    assert ledger.states() == {"verdict": 1}


def test_a_grace_cuts_off_what_does_not_come(ledger: Ledger) -> None:
    async def stopped() -> JudgingStatistics:
        model = Silent(4)
        return await run_judgements(
            judgements(50),
            CallClients(
                models={"local/tiny": model},
                retry=patience(),
                ledger=ledger,
                prices=Prices(),
                budget=RICH,
                concurrency=4,
                grace_seconds=0.1,
            ),
            keep=lambda made: None,
            stop=model.reached,
        )

    ran = asyncio.run(stopped())
    assert ran.stopped
    assert (len(ran.unknown), ran.unknown_usd) == (4, 1.0)
    assert ledger.states() == {"planned": 4}


def test_what_waits_for_another_try_when_it_is_cut_off_was_not_paid(ledger: Ledger) -> None:
    async def stopped() -> JudgingStatistics:
        stop = asyncio.Event()

        def answer(number: int, request: Request) -> ModelError:
            asyncio.get_running_loop().call_later(0.02, stop.set)
            return ModelError("wait a minute", again=True, status=500, after=60.0)

        return await run_judgements(
            [judgement()],
            CallClients(
                models={"local/tiny": Answering(answer)},
                retry=patience(),
                ledger=ledger,
                prices=Prices(),
                budget=Budget("b", 5.0),
                grace_seconds=0.05,
            ),
            keep=lambda made: None,
            stop=stop,
        )

    ran = asyncio.run(stopped())
    assert (ran.stopped, ran.unknown, ran.spent_usd, ran.reserved_usd) == (True, (), 0.0, 0.0)
    assert ledger.states() == {"planned": 1}


def test_a_cancelled_run_lists_what_it_had_sent(ledger: Ledger) -> None:
    async def aborted() -> None:
        model = Silent(4)
        going = asyncio.create_task(
            run_judgements(
                judgements(50),
                CallClients(
                    models={"local/tiny": model},
                    retry=patience(),
                    ledger=ledger,
                    prices=Prices(),
                    budget=Budget("b", 100.0),
                    concurrency=4,
                ),
                keep=lambda made: None,
            )
        )
        await model.reached.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

    asyncio.run(aborted())
    assert len(ledger.unknown()) == 4
    assert ledger.money("b") == (1.0, 0.0)


def test_a_full_disk_ends_the_run_and_loses_nothing_that_was_received(ledger: Ledger) -> None:
    def full(made: Sequence[Record]) -> None:
        raise EnvironmentFault("runs.db: the disk is full")

    with pytest.raises(EnvironmentFault, match="the disk is full"):
        judged(judgements(2), ledger, model=Answering(), keep=full)
    kept: list[Record] = []
    ran = judged(judgements(2), ledger, keep=kept.extend)
    assert (ran.from_ledger, len(kept)) == (4, 4)


def test_progress_counts_judgements_and_money(ledger: Ledger) -> None:
    seen: list[tuple[int, float]] = []
    judged(
        judgements(2),
        ledger,
        model=Answering(),
        concurrency=1,
        progress=lambda done, usd: seen.append((done, usd)),
    )
    assert seen == [(1, 0.125), (2, 0.25), (3, 0.375), (4, 0.5)]


def test_the_price_of_a_judgement_stands_on_its_first_record_alone() -> None:
    answers = [Verdict("", label="correct"), Verdict("", label="correct", step=3)]
    paid = [Paid(reply(), 5, fresh=True), Paid(reply(), 7, fresh=True)]
    first, second = judgement_records(judgement(), answers, paid)
    assert (first.cost_usd, first.seconds) == (12e-9, 1.0)
    assert (second.usage, second.cost_usd, second.seconds) == (None, None, None)
    assert (first.answer.measure, second.answer.step) == ("judge.axes.termination", 3)
    unpriced = [Paid(reply(), 5, fresh=True), Paid(reply(usage=None), None, fresh=True)]
    first, _ = judgement_records(judgement(), answers, unpriced)
    assert (first.usage, first.cost_usd, first.seconds) == (None, None, 1.0)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("gpt-5", "openai/gpt-5"),
        ("", "openai/gpt-5"),
        ("gpt-5-2026-08-07", "openai/gpt-5@gpt-5-2026-08-07"),
        ("a b\x1b[31m\u202e" + "x" * 200, "openai/gpt-5@ab[31m" + "x" * 94),
    ],
)
def test_a_judge_that_answers_under_another_name_says_so(said: str, name: str) -> None:
    assert judge_name("openai/gpt-5", [Paid(reply(model=said), 0, fresh=True)]) == name


def test_what_came_to_an_end_is_not_held(ledger: Ledger) -> None:
    model = Answering()
    judged(judgements(50), ledger, model=model, concurrency=4)
    model.asked.clear()
    gc.collect()
    assert sum(isinstance(held, Judgement) for held in gc.get_objects()) == 0
