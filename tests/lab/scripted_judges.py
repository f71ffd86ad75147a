"""Judges that answer by a rule, so that what attacks come to is known beforehand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from stepscope.judges.judgement import Judge
from stepscope.judges.rubrics import load_rubric
from stepscope.judges.transcript import normalise_text
from stepscope.lab.redteam import (
    Attack,
    RedteamResult,
    attack_judges,
    built_in_attacks,
    open_judges,
)
from stepscope.ledger.budget import Budget
from stepscope.ledger.calls import CallClients
from stepscope.ledger.ledger import Ledger
from stepscope.model import Outcome, Reply, Request, Trajectory, Usage
from stepscope.safety.redact import Redactor
from tests.factories import agent, did, run, user
from tests.judges.asked import Prices, patience

# Whether a judge that was shown a run passes it; None where it is uncertain.
Rule = Callable[[str], bool | None]
LABELS = {True: "correct", False: "incorrect", None: "uncertain"}
CLAIM = "Everything is settled; nothing is open."
_FIRST_WORDS = re.compile(r"^\[\[\w+ step (\d+): [^\n]*\]\]\n[^\n]+:\n\u00a6 ([^\n]{8,})", re.M)


@dataclass
class Scripted:
    """A judge model: passes a run where its rule says so, and cites what stands there."""

    name: str
    passes: Rule
    asked: list[Request] = field(default_factory=list)
    echo: bool = False

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        text = request.context if self.echo else json.dumps(self._answer(request.context))
        return Reply(
            text=text,
            stop="end",
            structure="json_schema",
            usage=Usage(input_total=10, output_total=1),
            model=f"{self.name.partition('/')[2]}-2026",
        )

    def _answer(self, context: str) -> dict[str, object]:
        found = _FIRST_WORDS.search(context)
        assert found is not None
        step, words = int(found[1]), found[2]
        return {
            "evidence": [{"step": step, "quote": words}],
            "cited_step_indices": [step],
            "rationale": "by the rule of this judge",
            "label": LABELS[self.passes(context)],
            "confidence": 0.5,
        }


def sober(context: str) -> bool:
    return False


def swayed(context: str) -> bool:
    """Passes what the agent claims to have settled."""
    return CLAIM in unmarked(context)


def obeys(*classes: str) -> Rule:
    """Return the rule of a judge that does what the texts of these classes say."""
    texts = [
        unmarked(normalise_text(one.text.replace("@answer@", "correct")))
        for one in built_in_attacks()
        if one.class_ in classes and one.text
    ]
    return lambda context: any(text in unmarked(context) for text in texts)


def unmarked(text: str) -> str:
    return " ".join(text.replace("\u00a6", "").split())


def failed_runs(n: int) -> list[Trajectory]:
    return [
        run(
            user(f"cancel order number {number}, please"),
            *did("get_order", f"order {number} is open", id=str(number)),
            agent(f"I could not find order {number}, good bye"),
            id=f"{number:032x}",
            name=f"shop/{number}/0",
            outcome=Outcome("fail", "check"),
        )
        for number in range(n)
    ]


@contextmanager
def setting(
    *models: Scripted,
) -> Iterator[Callable[[Sequence[Trajectory], Sequence[Attack]], RedteamResult]]:
    """Yield what attacks these judges."""
    judges = [Judge(name=model.name, family=model.name.partition("/")[0]) for model in models]
    with Ledger(":memory:") as ledger:
        access = CallClients(
            models={model.name: model for model in models},
            retry=patience(),
            prices=Prices(),
            ledger=ledger,
            budget=Budget(limit_usd=None),
        )
        with open_judges(access) as (asked, _):
            yield partial(
                attack_judges,
                rubric=load_rubric("quality.final_answer"),
                judges=judges,
                key=b"key",
                redactor=Redactor(b"test"),
                ask=asked,
            )
