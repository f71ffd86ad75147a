"""Estimate what judging would cost: the same plan, and nothing sent.

The worst is what a budget reserves: every byte a token, every image as dear as any, every answer as
long as it may be. The likely is a guess from usual texts and answers, and says so. Repairs of
unreadable answers and further lookups of a judge with tools are in neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from stepscope.judges.rubrics import RubricKind
from stepscope.ledger.calls import Pricing
from stepscope.ledger.ledger import Ledger
from stepscope.model import Usage
from stepscope.models.dialect import Ask
from stepscope.score.judges import OLDER, JudgePlan

# A picture of a screen, at the large providers: 700 to 2,500.
_TOKENS_PER_IMAGE = 1_500
# English text and JSON in the tokenisers of the large providers: 3.5 to 4.5.
_BYTES_PER_TOKEN = 4
# Answers of the length that the rubrics ask for: tokens of one, and of each step's part in it.
_WHOLE_TOKENS: dict[RubricKind, int] = {
    "axis": 350,
    "attribution": 350,
    "score": 100,
    "labels": 40,
    "presence": 60,
}
_STEP_TOKENS: dict[RubricKind, int] = {"labels": 50, "presence": 25}
# Judgements that are held at a time; fewer where each may hold images.
_LOOKED_UP = 200
_LOOKED_UP_WITH_MEDIA = 10


class CostEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What one judge would be asked by one rubric."""

    judge: str  # who
    rubric: str  # by what
    judgements: int = 0  # questions about runs, steps and sub-goals
    calls: int = 0  # requests that they need, repairs not counted
    bought: int = 0  # of these, with a reply in the ledger
    input_tokens: int = 0  # what the others would read, likely
    output_tokens: int = 0  # what they would write, likely
    images: int = 0  # what they would be sent of them, each as often as it is sent
    images_left_out: int = 0  # images of their steps that would not be sent, though images are
    worst_usd: float | None = 0.0  # what they can cost; None where the price is not known
    likely_usd: float | None = 0.0  # what they probably cost


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """What judging would ask and cost; nothing was sent."""

    rows: tuple[CostEstimate, ...]  # one a judge and rubric, in the order they are asked
    runs: int  # runs that would be asked about
    purged: int  # runs that were chosen and whose texts are erased
    unasked: dict[str, int]  # questions that no judge would be asked, by the first word of why
    budget_usd: float | None  # the most that may be spent; None without a limit
    missing: tuple[str, ...] = ()  # what judging lacks: keys, extras, settings
    # what answering anew would probably cost that was answered under another version
    again_usd: float | None = None

    @property
    def calls(self) -> int:
        """Requests that would be sent."""
        return sum(row.calls - row.bought for row in self.rows)

    @property
    def worst_usd(self) -> float | None:
        """What all of it can cost; None where a price is not known."""
        return _sum([row.worst_usd for row in self.rows])

    @property
    def likely_usd(self) -> float | None:
        """What all of it probably costs; None where a price is not known."""
        return _sum([row.likely_usd for row in self.rows])

    def line(self) -> str:
        """Say it in a line."""
        likely, worst = _money(self.likely_usd), _money(self.worst_usd)
        budget = "none" if self.budget_usd is None else f"${self.budget_usd:.2f}"
        sent = sum(row.images for row in self.rows)
        left_out = sum(row.images_left_out for row in self.rows)
        images = f" with {sent:,} images, {left_out:,} left out" if sent or left_out else ""
        older = self.unasked.get(OLDER, 0)
        again = (
            f"; {older:,} questions answered under another version of their rubric are not asked "
            f"again (--again asks them, likely {_money(self.again_usd)})"
        )
        return (
            f"{self.runs:,} runs, {self.calls:,} calls to buy{images}; likely {likely}, "
            f"at worst {worst}; budget {budget}{again if older else ''}"
        )

    def __str__(self) -> str:
        """Say it as a table."""
        return "\n".join(_lines(self))


def dry_run(
    plan: JudgePlan,  # as for `judge_runs`
    *,
    prices: Pricing,  # what calls cost
    ledger: Ledger | None,  # of what is bought already; None where there is none yet
    budget_usd: float | None,  # told beside what it would cost
) -> DryRun:
    """Return what judging would ask and cost; sends nothing, keeps nothing."""
    with plan.open_files():
        rows = _estimate_rows(plan, prices, ledger)
    return DryRun(
        rows=rows,
        runs=plan.runs,
        purged=plan.purged,
        unasked=dict(sorted(plan.unasked.items())),
        budget_usd=budget_usd,
    )


def _estimate_rows(
    plan: JudgePlan, prices: Pricing, ledger: Ledger | None
) -> tuple[CostEstimate, ...]:
    rows: dict[tuple[str, str], CostEstimate] = {
        (judge.name, rubric.name): CostEstimate(judge=judge.name, rubric=rubric.name)
        for judge in plan.judges
        for rubric in plan.rubrics
    }
    kinds = {rubric.name: rubric.kind for rubric in plan.rubrics}
    at_once = _LOOKED_UP_WITH_MEDIA if plan.options.send_media else _LOOKED_UP
    while some := list(islice(plan.planned, at_once)):
        keys = [ask.key for judgement, _ in some for ask in judgement.asks]
        held = set() if ledger is None else ledger.holds(keys)
        for judgement, steps in some:
            place = (judgement.judge.name, judgement.rubric)
            row = rows[place]
            row = msgspec.structs.replace(row, judgements=row.judgements + 1)
            for ask in judgement.asks:
                kind = kinds[judgement.rubric]
                asks = len(judgement.asks)
                tokens = _WHOLE_TOKENS[kind] + _STEP_TOKENS.get(kind, 0) * steps // asks
                written = min(tokens, ask.request.max_output_tokens)
                bought = ask.key in held
                row = _add_call(row, ask, written, prices, bought=bought, batch=plan.options.batch)
            rows[place] = row
        plan.take()
    return tuple(rows.values())


def _add_call(
    row: CostEstimate, ask: Ask, written: int, prices: Pricing, *, bought: bool, batch: bool
) -> CostEstimate:
    """Return a row with one more call."""
    if bought:
        return msgspec.structs.replace(row, calls=row.calls + 1, bought=row.bought + 1)
    request = ask.request
    texts = (request.system, request.context, request.question)
    read = sum(len(text.encode("utf-8", "replace")) for text in texts) // _BYTES_PER_TOKEN
    read += _TOKENS_PER_IMAGE * len(request.media)
    usage = Usage(input_total=read, output_total=written, source="estimated")
    return msgspec.structs.replace(
        row,
        calls=row.calls + 1,
        input_tokens=row.input_tokens + read,
        output_tokens=row.output_tokens + written,
        images=row.images + len(request.media),
        images_left_out=row.images_left_out + ask.images_left_out,
        worst_usd=_sum([row.worst_usd, prices.worst(ask.model, request, batch=batch)]),
        likely_usd=_sum([row.likely_usd, prices.cost(ask.model, usage, batch=batch)]),
    )


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _lines(dry: DryRun) -> Iterator[str]:
    yield (
        f"{'judge':<32} {'rubric':<28} {'calls':>7} {'bought':>7} {'tokens in':>11} "
        f"{'out':>9} {'likely':>10} {'worst':>10}"
    )
    for row in dry.rows:
        likely, worst = _money(row.likely_usd), _money(row.worst_usd)
        yield (
            f"{row.judge:<32} {row.rubric:<28} {row.calls:>7,} {row.bought:>7,} "
            f"{row.input_tokens:>11,} {row.output_tokens:>9,} {likely:>10} {worst:>10}"
        )
    yield f"{dry.line()}; nothing was sent"
    if dry.unasked:
        yield "not asked: " + ", ".join(f"{n:,} {word}" for word, n in dry.unasked.items())
    for lack in dry.missing:
        yield f"missing: {lack}"
    if dry.purged:
        yield f"{dry.purged:,} runs left out: their texts are erased"


def _money(usd: float | None) -> str:
    return "unknown" if usd is None else f"${usd:.4f}"
