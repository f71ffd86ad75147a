"""Ask the judges that are attacked: through the same loop and ledger as all others.

What a judge said of an attacked run is no record of a store: it is kept in the ledger, so that it
is not bought twice, and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from stepscope.judges.judgement import Judgement
from stepscope.judges.models.opening import closing
from stepscope.judges.running import run
from stepscope.judges.running_tally import Ran
from stepscope.lab.redteam import Asked, Asking
from stepscope.model import Answer, Record
from stepscope.score.judging_loop import Access

# Called after every judgement with how many of its round are done.
Progress = Callable[[int], None]


@contextmanager
def asking(access: Access, progress: Progress | None = None) -> Iterator[tuple[Asked, list[Ran]]]:
    """Yield what asks judges, and what each of its rounds did; connections close at the end.

    Args:
        access: what calls go through.
        progress: called after every judgement.
    """
    rounds: list[Ran] = []
    # One loop for all rounds: connections belong to the loop that opened them.
    with asyncio.Runner() as runner:

        def asked(judgements: Iterable[Judgement]) -> dict[Asking, Answer]:
            return runner.run(_asked(judgements, access, rounds, progress))

        try:
            yield asked, rounds
        finally:
            runner.run(_close(access))


async def _close(access: Access) -> None:
    async with closing(access.models.values()):
        pass


async def _asked(
    judgements: Iterable[Judgement], access: Access, rounds: list[Ran], progress: Progress | None
) -> dict[Asking, Answer]:
    names = sorted(access.models, key=len, reverse=True)
    found: dict[Asking, Answer] = {}

    def keep(records: Sequence[Record]) -> None:
        for record in records:
            asked = record.judge
            # A snapshot stands behind the name of who was asked.
            judge = next(n for n in names if asked == n or asked.startswith(f"{n}@"))
            found.setdefault((record.trajectory, judge), record.answer)

    ran = await run(
        judgements,
        models=access.models,
        patience=access.patience,
        ledger=access.ledger,
        prices=access.prices,
        budget=access.budget,
        keep=keep,
        concurrency=access.concurrency,
        grace_seconds=access.grace_seconds,
        progress=None if progress is None else lambda done, _: progress(done),
    )
    rounds.append(ran)
    return found
