"""The half of the notebook that has to do with judges: asking them, and holding them to account."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from stepscope.api.choosing import filter_of
from stepscope.safety.redact import look_also_for
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.where import Where

if TYPE_CHECKING:
    from stepscope.api.agreements import AgreementView, ModesView, QueueView
    from stepscope.api.goal_drafts import GoalDraft
    from stepscope.api.judging import How
    from stepscope.api.rejudging import Rejudged
    from stepscope.api.verdicts import AddedVerdicts
    from stepscope.judges.ledger import Ledger
    from stepscope.model import Model
    from stepscope.score.expected import DryRun
    from stepscope.score.judging import Judged
    from stepscope.score.planned import Asking


class JudgingNotebook:
    """A store, its settings and the ledger of its judges; see `Notebook`."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self._ledger: Ledger | None = None
        own = settings.redaction.forms
        store.redact(own, shown=settings.redaction.shown)
        look_also_for(own)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        self.store.close()
        if self._ledger is not None:
            self._ledger.close()

    @property
    def ledger(self) -> Ledger:
        """What judges were asked and replied, in a file beside the store; made where it is not."""
        from stepscope.judges.ledger import Ledger, beside

        if self._ledger is None:
            self._ledger = Ledger(beside(self.store.path))
        return self._ledger

    def judge(
        self,
        rubrics: str | Sequence[str] = "axes",
        *,
        judges: str | Sequence[str],
        where: str | None = None,
        since: str | None = None,
        how: How | None = None,
        budget_usd: float | None = None,
        budget: str = "",
        models: Mapping[str, Model] | None = None,
        progress: Callable[[int, float], None] | None = None,
        stopping: Callable[[], None] | None = None,
    ) -> Judged:
        """Ask judges about the chosen runs; spends, resumes, and never asks the same twice.

        Args:
            rubrics: sets, names, and paths of files.
            judges: models, as "openai/gpt-5".
            where: a filter.
            since: a date or an age.
            how: how often, with what left out, of how many.
            budget_usd: what may be spent; when left out that of the settings.
            budget: a name under which several calls and processes share it; "" is this call's own.
            models: by the judge's name; opened by the settings and keys when left out.
            progress: called after every judgement with how many are done, and USD paid.
            stopping: called when Ctrl-C was heard and calls in flight are waited for.

        Raises:
            ConfigError: no such rubric or judge, a key is missing, or a price is not known.
            EnvironmentFault: the disk is full; calling again goes on.
        """
        from stepscope.api import judging
        from stepscope.judges.budget import Budget
        from stepscope.score.judging import judge

        most = self.settings.judges.budget_usd if budget_usd is None else budget_usd
        names, asked = self._asking(judges, rubrics, filter_of(where, since), how)
        opened = judging.access(
            self.settings,
            self.ledger,
            names,
            asked.judges,
            budget=Budget(budget, most),
            models=models,
            batch=how is not None and how.batch,
        )
        if how is not None and how.sample is not None:
            judging.keep_sample(self.store, self.settings, asked, how.sample)
        return judge(self.store, asked, opened, progress=progress, stopping=stopping)

    def judge_cost(
        self,
        rubrics: str | Sequence[str] = "axes",
        *,
        judges: str | Sequence[str],
        where: str | None = None,
        since: str | None = None,
        how: How | None = None,
        budget_usd: float | None = None,
    ) -> DryRun:
        """Return what `judge` would ask and cost; sends nothing and needs no key."""
        from stepscope.api import judging
        from stepscope.judges.models.prices import Prices
        from stepscope.score.expected import dry_run

        table = self.settings.judges
        _, asked = self._asking(judges, rubrics, filter_of(where, since), how)
        known = self._ledger is not None or judging.existing(self.store) is not None
        return dry_run(
            self.store,
            asked,
            prices=Prices(table),
            ledger=self.ledger if known else None,
            budget_usd=table.budget_usd if budget_usd is None else budget_usd,
            batch=how is not None and how.batch,
        )

    def rejudge(
        self,
        rubrics: str | Sequence[str] = "axes",
        *,
        judges: str | Sequence[str] = (),
        where: str | None = None,
        since: str | None = None,
        how: How | None = None,
        budget_usd: float | None = None,
        budget: str = "",
        models: Mapping[str, Model] | None = None,
        progress: Callable[[int, float], None] | None = None,
        stopping: Callable[[], None] | None = None,
    ) -> Rejudged:
        """Ask about the runs that were judged before, by today's rubrics; say what turned.

        The arguments are those of `judge`; without `judges` those that were asked before are asked.
        Records that are there stay. What was asked in the very same words is not asked again.

        Raises:
            UsageError: no judge was asked by these rubrics about these runs.
        """
        import msgspec

        from stepscope.api import judging, rejudging
        from stepscope.judges import rubrics as of_files

        asked = judging.several(rubrics, "rubric")
        chosen = filter_of(where, since)
        files = of_files.rubrics(asked)
        only, before = rejudging.judged_before(self.store, files, chosen)
        earlier = rejudging.answers(self.store, files, chosen)
        judged = self.judge(
            asked,
            judges=judges or before,
            where=where,
            since=since,
            how=msgspec.structs.replace(how or judging.AS_USUAL, only=only),
            budget_usd=budget_usd,
            budget=budget,
            models=models,
            progress=progress,
            stopping=stopping,
        )
        now = rejudging.answers(self.store, files, chosen)
        turned = rejudging.turned(self.store, earlier, now)
        return rejudging.Rejudged(judged=judged, turned=turned)

    def propose_goals(self, *, where: str | None = None, since: str | None = None) -> GoalDraft:
        """Return a draft of sub-goals for a person to confirm, from the cases of the runs."""
        from stepscope.api.goal_drafts import drafted

        return drafted(self.store, filter_of(where, since))

    def _asking(
        self,
        judges: str | Sequence[str],
        rubrics: str | Sequence[str],
        where: Where | None,
        how: How | None,
    ) -> tuple[tuple[str, ...], Asking]:
        from stepscope.api import judging

        names = judging.several(judges, "judge")
        asked = judging.asking(
            self.store,
            self.settings,
            names,
            judging.several(rubrics, "rubric"),
            where=where,
            how=how or judging.AS_USUAL,
        )
        return names, asked

    def agreement(
        self,
        rubric: str | None = None,
        *,
        where: str | None = None,
        since: str | None = None,
        by: str | None = None,
        seed: int | None = None,
        threshold: float = 0.5,
    ) -> AgreementView:
        """Return how far judges, the rules and people agree on a rubric or a set of them.

        Args:
            rubric: "axes.termination", or "axes" for its set; all when left out.
            where: a filter, as "agent = 'gpt-4o'".
            since: a date or an age, as "7d".
            by: one group for each value of this field.
            seed: where random draws start; when left out that of the settings.
            threshold: kappa below which a rubric is to be sharpened.

        Raises:
            UsageError: nobody rated this rubric, or no such field.
        """
        from stepscope.api.agreements import agreement

        return agreement(
            self.store,
            rubric,
            where=filter_of(where, since),
            by=by,
            seed=self.settings.seed if seed is None else seed,
            threshold=threshold,
        )

    def disputes(
        self, rubric: str | None = None, *, where: str | None = None, since: str | None = None
    ) -> QueueView:
        """Return the runs and steps on which families disagree, the most telling first."""
        from stepscope.api.agreements import queue

        return queue(self.store, rubric, where=filter_of(where, since))

    def modes(
        self, *, where: str | None = None, since: str | None = None, seed: int | None = None
    ) -> ModesView:
        """Return how judges' answers to single steps differ from those with the run in view."""
        from stepscope.api.agreements import both_modes

        drawn = self.settings.seed if seed is None else seed
        return both_modes(self.store, where=filter_of(where, since), seed=drawn)

    def add_verdicts(
        self,
        file: str | Path,
        *,
        columns: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        rubric: str | None = None,
        rater: str | None = None,
        human: bool = False,
    ) -> AddedVerdicts:
        """Read other people's verdicts on runs of the store; they become a rater like any other.

        Args:
            file: CSV, JSON lines or Parquet, "-" for standard input.
            columns: field -> column: run, step, label, value, judge, axis, confidence, cites,
                reason, repeat; "n-1" for a step's column n that counts from 1.
            labels: label in the file -> label of the rubric.
            rubric: the rubric, the file of one of your own, or the set that the axis column names
                one of.
            rater: who rated, where no column says it.
            human: people rated.

        Raises:
            UsageError: no such file or column.
            TraceError: the file cannot be read.
        """
        from stepscope.api.score_file import opened
        from stepscope.api.verdict_cells import Columns
        from stepscope.api.verdicts import add_verdicts

        said = Columns(
            of=dict(columns or {}), labels=dict(labels or {}), rubric=rubric, rater=rater
        )
        stream = opened(str(file), self.settings)
        with stream.file:
            family: Literal["human", "imported"] = "human" if human else "imported"
            return add_verdicts(self.store, stream, said, family=family)
