"""What a run of judges did: counts, tokens and money, and what nobody knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import msgspec

from stepscope.judges.budget import usd
from stepscope.judges.ledger import Unknown
from stepscope.judges.running_buying import Bought, Lost
from stepscope.model import Answer, Usage
from stepscope.values import Unmeasured

# Reasons told in full; the others are counted.
_TOLD = 5
_WORD = re.compile("([a-z_]+):")


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `run` did.

    Attributes:
        judgements: judgements whose records were kept.
        records: their records.
        bought: replies that were paid for now.
        from_ledger: replies that were here already, or that another run bought meanwhile.
        failed: judgements without records, by why: "budget", "no_answer", "stopped", "batched" (a
            batch under way holds it). A later run asks them again.
        reasons: of those without an answer, the first few reasons.
        unmeasured: answers kept that measured nothing, by the first word of their reason.
        unknown: calls found now of which nobody knows what became; each counts as paid.
        usd: what was paid now, as far as prices are known.
        unpriced: replies bought now whose price is not known.
        spent_usd: of the budget, by everybody who shares it, calls of unknown outcome included.
        reserved_usd: what calls of others under way may still cost.
        input_tokens: read by the judges, what was cached included.
        output_tokens: written by them.
        cached_tokens: of those read, from the provider's cache.
        saved_usd: what that saved, as far as prices are known; below 0 where filling the cache
            cost more than it brought.
        ignored_schema: judge -> replies of an endpoint that let the model ignore the schema that it
            accepted; another `structure` in the settings is the cure.
        seconds: from start to end, on a clock that never goes back.
        stopped: whether the run was stopped before its end.
    """

    judgements: int
    records: int
    bought: int
    from_ledger: int
    failed: dict[str, int]
    reasons: tuple[str, ...]
    unmeasured: dict[str, int]
    unknown: tuple[Unknown, ...]
    usd: float
    unpriced: int
    spent_usd: float
    reserved_usd: float
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    saved_usd: float
    ignored_schema: dict[str, int]
    seconds: float
    stopped: bool

    @property
    def unknown_usd(self) -> float:
        """The worst that calls of unknown outcome have cost."""
        return sum(one.usd for one in self.unknown)


def word_of(absent: Unmeasured) -> str:
    """Return the word that a reason begins with, where it has one, else its kind.

    >>> word_of(Unmeasured("unparsable", "not_json: it is prose"))
    'not_json'
    """
    found = _WORD.match(absent.reason)
    return absent.kind if found is None else found[1]


class Tally:
    """The counts of a run while it goes on."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.judgements = 0
        self.records = 0
        self.bought = 0
        self.from_ledger = 0
        self.unpriced = 0
        self.nano = 0
        self.saved_usd = 0.0
        self.ignored: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.unmeasured: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.reasons: dict[str, None] = {}

    def replied(self, judge: str, bought: Bought, saved: float | None) -> None:
        """Count a reply, and what the provider's cache saved of its price."""
        if not bought.fresh:
            self.from_ledger += 1
            return
        self.bought += 1
        self.saved_usd += saved or 0.0
        if bought.ignored:
            self.ignored[judge] += 1
        if bought.cost is None:
            self.unpriced += 1
        else:
            self.nano += bought.cost
        usage = bought.reply.usage or Usage()
        self.tokens["input"] += usage.input_total or 0
        self.tokens["output"] += usage.output_total or 0
        self.tokens["cached"] += usage.cache_read or 0

    def lost(self, lost: Lost) -> None:
        """Count a judgement that has no records."""
        self.failed[lost.word] += 1
        if lost.word in {"no_answer", "batched"} and len(self.reasons) < _TOLD:
            self.reasons[lost.reason] = None

    def answered(self, answers: Iterable[Answer]) -> None:
        """Count the answers of a judgement."""
        self.judgements += 1
        for answer in answers:
            if isinstance(answer, Unmeasured):
                self.unmeasured[word_of(answer)] += 1

    @property
    def done(self) -> int:
        """Judgements that came to an end, whatever end."""
        return self.judgements + sum(self.failed.values())

    @property
    def usd(self) -> float:
        """What was paid now."""
        return usd(self.nano)
