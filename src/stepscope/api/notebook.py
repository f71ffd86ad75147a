"""The notebook object: one store, the settings that hold, and everything one can do with them.

`open` opens a store. Nothing is computed here: each method calls the room that does the work, and
loads it when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from stepscope.api import views
from stepscope.api.exporting import Exported, Target, VerdictsAs, export_runs
from stepscope.api.memory import Source, read_sources
from stepscope.errors import UsageError
from stepscope.gates.settings import DROP, REPLICATIONS
from stepscope.model import Effect, Trajectory
from stepscope.model.effects import infer_effect
from stepscope.model.records import HUMAN, IMPORTED
from stepscope.report.render import text
from stepscope.report.views.show import make_run_document, show_run_json
from stepscope.runtime.database import Closeable
from stepscope.safety.redact import hide_patterns
from stepscope.score import ScoringResult, score_runs
from stepscope.score.importing import Added, Progress, RunDefaults, RunNames, import_traces
from stepscope.settings import Settings, load_settings
from stepscope.store import Store
from stepscope.store.where import Where, combine_filters

if TYPE_CHECKING:
    from stepscope.api.agreement import AgreementView, CalibrationView, ModesView, QueueView
    from stepscope.api.gating import SelftestView
    from stepscope.api.judging import GoalDraft, JudgeFinding, PlannedRequest, RejudgeResult
    from stepscope.api.verdict_import import AddedVerdicts
    from stepscope.calibrate.noise import JudgeNoise
    from stepscope.cases.files import AddedCases
    from stepscope.findings.fit import LocaliseFit
    from stepscope.judges.judgement import JudgingOptions
    from stepscope.ledger.ledger import Ledger
    from stepscope.model import Model
    from stepscope.report.types import Shapes
    from stepscope.score.judges import DryRun, JudgePlan, JudgingResult
    from stepscope.store import PurgeResult
    from stepscope.values import Unmeasured


# One name or several.
Names: TypeAlias = str | Sequence[str]


def ignore_progress(done: int, total: int) -> None:
    """Tell nobody."""


def open(path: str | Path | None = None, *, settings: Settings | None = None) -> Notebook:
    """Open a store, making it where there is none; ":memory:" keeps it for this process only.

    Args:
        path: the store; when left out the one of `stepscope.toml`, or `stepscope.db`.
        settings: when left out those of the working directory.

    Raises:
        ConfigError: the settings are wrong.
        UsageError: there is no folder to make the store in.
        StoreError: the file is no store, or of a newer version.
        EnvironmentFault: the disk does not let it be read or written.
    """
    held = load_settings() if settings is None else settings
    place = Path(held.store if path is None else path)
    if not place.parent.is_dir():
        raise UsageError(f"{place}: there is no folder {str(place.parent)!r} to make a store in")
    return Notebook(Store.open(place), held)


class Notebook(Closeable):
    """A store with the settings that hold for it; a context manager that closes it.

    Wherever they are taken, `where` is a filter of runs, as "agent = 'gpt-4o'", `since` a date or
    an age from which on they count, as "7d", `by` a field each of whose values makes a group, and
    `seed` where random draws start, that of the settings when left out.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self._ledger: Ledger | None = None
        own = settings.redaction.forms
        store.redact(own, shown=settings.redaction.shown)
        hide_patterns(own)

    def explain(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say that the store or the ledger is damaged where that may be behind an error."""
        self.store.explain(kind, error, trace)
        if self._ledger is not None:
            self._ledger.explain(kind, error, trace)

    def close(self) -> None:
        """Close the store."""
        self.store.close()
        if self._ledger is not None:
            self._ledger.close()

    @property
    def ledger(self) -> Ledger:
        """What judges were asked and replied, in a file beside the store; made where it is not."""
        from stepscope.ledger.ledger import Ledger, ledger_path

        if self._ledger is None:
            self._ledger = Ledger(ledger_path(self.store.path))
        return self._ledger

    def add(
        self,
        paths: Source | Iterable[Source],
        *,
        agent: str | None = None,
        agent_version: str | None = None,
        tags: Mapping[str, str] | None = None,
        workflow: str | None = None,
        task: str | None = None,
        trial: str | None = None,
        format_name: str | None = None,
        strict: bool = False,
        workers: int | None = None,
        progress: Progress | None = None,
        read: RunNames | None = None,
    ) -> Added:
        """Read traces into the store: files, folders, globs, zips, or what is in memory.

        Args:
            paths: one or several, or the bytes of files; or a run as a recorder has it (messages,
                an object around them, a `Trajectory`), or a list of runs.
            agent: the agent, where a trace names none.
            agent_version: its version, where a trace names none.
            tags: tags that a trace lacks.
            workflow: the workflow, task and trial, where a trace names none.
            task: see `workflow`.
            trial: see `workflow`.
            format_name: the format; told from the content when left out.
            strict: keep nothing unless everything can be read as it is.
            workers: processes; when left out, one a core for much to read and none for little.
            progress: called with the runs read so far, and 0.
            read: takes the runs that were read, known ones as well.

        Raises:
            TraceError: a path named is no trace.
            UsageError: no such path.
        """
        self.store.fix_weights(self.settings.weights)
        added = import_traces(
            self.store,
            read_sources(paths),
            format_name=format_name,
            limits=self.settings.limits,
            strict=strict,
            filling=RunDefaults(agent, agent_version, dict(tags or {}), workflow, task, trial),
            workers=workers,
            progress=progress or ignore_progress,
            read=read,
        )
        self.give_declared_cases()
        if added.known:
            from stepscope.api.verdict_import import outrank_verdicts

            outrank_verdicts(self.store)  # an outcome may have come late
        return added

    def score(
        self,
        *,
        where: str | Where | None = None,
        since: str | None = None,
        measures: Sequence[str] | None = None,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> ScoringResult:
        """Give every run its verdicts; deterministic, never spends, resumes.

        Raises:
            StoreError: the settings have other weights than those that runs were scored under.
        """
        self.store.fix_weights(self.settings.weights)
        self.give_declared_cases()
        return score_runs(
            self.store,
            measures=measures,
            where=combine_filters(where, since),
            declared=self.settings.declared,
            workers=workers,
            progress=progress,
        )

    def report(
        self,
        paths: Source | Iterable[Source] | None = None,
        *,
        where: str | None = None,
        since: str | None = None,
        by: str | None = None,
        seed: int | None = None,
        look_first: int | None = 10,
        rubric_version: str | None = None,
        progress: Progress | None = None,
        tell: Callable[[Added], object] | None = None,
    ) -> views.ReportView:
        """Return the report vector of the chosen runs, with `look_first` runs (None: all) to read.

        Of each judge the version of its rubrics counts that most runs were judged by, or this one.
        With `paths` these traces are read as `add` does, scored, and reported alone; `tell` is
        called with what was read.

        Raises:
            UsageError: the filter makes no sense, or no run was read of the paths.
            DataError: no run is chosen.
        """
        # Statistics load slowly, and reading runs into the store has no use for them.
        from stepscope.report.build import build_report

        chosen = combine_filters(where)
        if paths is not None:
            read = RunNames()
            added = self.add(paths, progress=progress, read=read)
            if tell is not None:
                tell(added)
            if not read.ids + read.names:
                raise UsageError("no run was read, so there is nothing to report")
            among = self.store.among(read.ids, read.names, "the runs of these paths")
            chosen = among if chosen is None else among & chosen
            self.score(where=chosen, since=since, progress=progress)
        value = build_report(
            self.store,
            where=chosen,
            since=since,
            by=by,
            seed=self.settings.seed if seed is None else seed,
            look_first=look_first,
            rubric_version=rubric_version,
        )
        return views.ReportView(
            value, self.show, self.store, where=chosen, since=since, settings=self.settings
        )

    def compare(
        self,
        a: str,
        b: str,
        *,
        by: str = "agent",
        where: str | None = None,
        since: str | None = None,
        seed: int | None = None,
    ) -> views.ComparisonView:
        """Compare the runs of two agents (or two values of another field), paired by task."""
        from stepscope.report.compare import compare_groups

        drawn = self.settings.seed if seed is None else seed
        chosen = combine_filters(where, since)
        found = compare_groups(self.store, a, b, by=by, where=chosen, seed=drawn)
        return views.ComparisonView(found)

    def list_runs(
        self,
        *,
        where: str | None = None,
        since: str | None = None,
        by: str | None = None,
        columns: Sequence[str] = (),
        sort: str = "run",
        limit: int = 50,
    ) -> views.RunListView:
        """Return the chosen runs, as many of each group as `limit` says (0: all).

        Args:
            columns: figures of a run, fields, tags as "tag.KEY", measures; the usual when left out.
            sort: a column, with a minus before it for the other way round.

        Raises:
            UsageError: no run is in the store, or there is no such column or field.
        """
        from stepscope.report.views.runs import list_runs

        chosen = combine_filters(where, since)
        found = list_runs(self.store, where=chosen, by=by, columns=columns, sort=sort, limit=limit)
        return views.RunListView(found)

    def diff(self, first: str, second: str) -> views.RunDiffView:
        """Return two runs, aligned, with how far runs of one version are apart on their task.

        Raises:
            UsageError: no such run, several, or the same run twice.
        """
        from stepscope.report.views.compare import diff_runs

        return views.RunDiffView(diff_runs(self.store, first, second))

    def show(
        self,
        run: str,
        *,
        around: int | None = None,
        steps: tuple[int, int] | None = None,
        width: int = 100,
    ) -> views.Text:
        """Return one run as text, by name or unique id prefix.

        Raises:
            UsageError: no such run, several, or no such step.
        """
        document = make_run_document(self.store, run, around=around, steps=steps, width=width)
        return views.Text(text.render(document, width))

    def curve(self, run: str) -> views.ScoreCurveView:
        """Return the score curve of one run, by name or unique id prefix.

        Raises:
            UsageError: no such run, or several.
        """
        from stepscope.report.suspects import read_curve

        return views.ScoreCurveView(read_curve(self.store, self.store.find(run)))

    def show_json(self, run: str) -> str:
        """Return one run with its records and suspects as JSON."""
        return show_run_json(self.store, run)

    def shapes(self, *, where: str | None = None, since: str | None = None) -> Shapes | Unmeasured:
        """Return the shapes of the score curves of the chosen runs: shares with intervals."""
        from stepscope.report.build import read_chosen_runs
        from stepscope.report.rows import estimate_shapes

        table = read_chosen_runs(self.store, where=combine_filters(where), since=since, by=None)
        return estimate_shapes(table.shapes, table.clusters, self.settings.seed)

    def gate_selftest(
        self, *workflows: str, drop: float = DROP, replications: int = REPLICATIONS
    ) -> SelftestView:
        """Return how often the gates of the settings are wrong, by runs drawn from baselines.

        Args:
            workflows: whose gates; all when left out.
            drop: the worsening that is put in: so much fewer runs are good, or take longer.
            replications: invocations drawn.

        Raises:
            UsageError: no gates, no baseline, or a number makes no sense.
        """
        from stepscope.api.gating import choose_policies, selftest_policies

        policies = choose_policies(self.settings, workflows)
        seed = self.settings.seed
        return selftest_policies(policies, drop=drop, replications=replications, seed=seed)

    def calibrate_sigma(
        self, scores: str | Path | None = None, *, quantum: float | None = None
    ) -> list[JudgeNoise]:
        """Measure the noise of each judge from steps scored twice, and keep it for shapes.

        Args:
            scores: a file of scores with a column repeat; the scores of the store when left out.
            quantum: step between the scores that the judge can give.

        Raises:
            TraceError: a row of the file cannot be read.
            UsageError: no such file.
        """
        from stepscope.api.score_files import open_score_file
        from stepscope.calibrate import noise

        if scores is None:
            found = noise.noise_of_store(self.store, quantum=quantum)
        else:
            stream = open_score_file(str(scores), self.settings)
            with stream.file:
                found = noise.noise_of_file(stream, quantum=quantum)
        noise.store_noise(self.store, found)
        return found

    def calibrate_judge(
        self,
        rubric: str | None = None,
        *,
        where: str | None = None,
        since: str | None = None,
        raters: Sequence[str] | None = None,
        rubric_version: str | None = None,
        seed: int | None = None,
    ) -> CalibrationView:
        """Compare judges with the people who labelled the same runs or steps.

        Arguments and errors are those of `agreement`.
        """
        from stepscope.api.agreement import view_calibration

        chosen, drawn = combine_filters(where, since), self.settings.seed if seed is None else seed
        return view_calibration(
            self.store, rubric, where=chosen, names=raters, version=rubric_version, seed=drawn
        )

    def calibrate_localise(self) -> LocaliseFit:
        """Fit the ranking of suspects to the steps that people named; keep it where it is better.

        Raises:
            EnvironmentFault: the file of the fit cannot be written beside the store.
        """
        from stepscope.findings.fit import fit_store

        return fit_store(self.store)

    def judge(
        self,
        rubrics: Names = "axes",
        *,
        judges: Names,
        where: str | None = None,
        since: str | None = None,
        how: JudgingOptions | None = None,
        budget_usd: float | None = None,
        budget: str = "",
        models: Mapping[str, Model] | None = None,
        progress: Callable[[int, float], None] | None = None,
        stopping: Callable[[], None] | None = None,
    ) -> JudgingResult:
        """Ask judges about the chosen runs; spends, resumes, and never asks the same twice.

        Args:
            rubrics: sets, names, and paths of files.
            judges: models, as "openai/gpt-5".
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
        import stepscope.api.judging as judging
        from stepscope.api.rubrics import consume_tests
        from stepscope.ledger.budget import Budget
        from stepscope.score.judges import judge_runs

        most = self.settings.judges.budget_usd if budget_usd is None else budget_usd
        asks_of = combine_filters(where, since)
        names, asked = self._asking(judges, rubrics, asks_of, how, self.ledger)
        limit, batch = Budget(budget, most), asked.options.batch
        opened = judging.open_access(
            self.settings,
            self.ledger,
            names,
            asked.judges,
            budget=limit,
            models=models,
            batch=batch,
        )
        if asked.options.sample is not None:
            judging.keep_sample(self.store, self.settings, asked, asked.options.sample)
        notes = consume_tests(asked, self.settings)
        return replace(judge_runs(asked, opened, progress=progress, stopping=stopping), notes=notes)

    def judge_cost(
        self,
        rubrics: Names = "axes",
        *,
        judges: Names = (),
        where: str | None = None,
        since: str | None = None,
        how: JudgingOptions | None = None,
        budget_usd: float | None = None,
        again: bool = False,
    ) -> DryRun:
        """Return what `judge`, or with `again` `rejudge`, would ask and cost; needs no key."""
        import stepscope.api.judging as judging
        from stepscope.models.prices import Prices
        from stepscope.score.judges import OLDER, dry_run

        table = self.settings.judges
        known = self._ledger is not None or judging.find_ledger(self.store) is not None
        ledger = self.ledger if known else None
        chosen = combine_filters(where, since)
        if again:
            _, judges, how = judging.ask_again(self.store, rubrics, chosen, judges, how)
        names, asked = self._asking(judges, rubrics, chosen, how, ledger)
        most = table.budget_usd if budget_usd is None else budget_usd
        found = dry_run(asked, prices=Prices(table), ledger=ledger, budget_usd=most)
        batch = asked.options.batch
        missing = judging.find_missing(self.settings, names, asked.judges, batch=batch)
        if not found.unasked.get(OLDER):
            return replace(found, missing=missing)
        # What answering anew would cost is told before anybody asks for it.
        all_of_it = replace(asked.options, again=True)
        _, anew = self._asking(judges, rubrics, chosen, all_of_it, ledger)
        whole = dry_run(anew, prices=Prices(table), ledger=ledger, budget_usd=None).likely_usd
        usd = None if whole is None or found.likely_usd is None else whole - found.likely_usd
        return replace(found, missing=missing, again_usd=usd)

    def judge_requests(
        self, rubrics: Names = "axes", *, judges: Names, run: str, how: JudgingOptions | None = None
    ) -> tuple[PlannedRequest, ...]:
        """Return what `judge --again` would send about one run, whole; sends nothing."""
        import stepscope.api.judging as judging
        from stepscope.judges.judgement import DEFAULT_OPTIONS

        where = combine_filters(f"id = '{self.store.find(run)}'")
        again = replace(how or DEFAULT_OPTIONS, again=True)
        _, asked = self._asking(judges, rubrics, where, again, None)
        return judging.plan_requests(asked)

    def judge_findings(
        self, rubrics: Names = "axes", *, where: str | None = None, since: str | None = None
    ) -> tuple[JudgeFinding, ...]:
        """Return what judges found by these rubrics in the chosen runs, the most faults first."""
        import stepscope.api.judging as judging

        files = judging.load_named_rubrics(rubrics)
        return judging.find_faulted(self.store, files, combine_filters(where, since))

    def rejudge(
        self,
        rubrics: Names = "axes",
        *,
        judges: Names = (),
        where: str | None = None,
        since: str | None = None,
        how: JudgingOptions | None = None,
        budget_usd: float | None = None,
        budget: str = "",
        models: Mapping[str, Model] | None = None,
        progress: Callable[[int, float], None] | None = None,
        stopping: Callable[[], None] | None = None,
    ) -> RejudgeResult:
        """Ask about the runs that were judged before, by today's rubrics; say what turned.

        The arguments are those of `judge`; without `judges` those that were asked before are asked.
        Records that are there stay. What was asked in the very same words is not asked again.

        Raises:
            UsageError: no judge was asked by these rubrics about these runs.
        """
        import stepscope.api.judging as judging

        chosen = combine_filters(where, since)
        earlier, judges, how = judging.ask_again(self.store, rubrics, chosen, judges, how)
        judged = self.judge(
            rubrics,
            judges=judges,
            where=where,
            since=since,
            how=how,
            budget_usd=budget_usd,
            budget=budget,
            models=models,
            progress=progress,
            stopping=stopping,
        )
        now = judging.read_first_answers(self.store, rubrics, chosen)
        turned = judging.compare_answers(self.store, earlier, now)
        return judging.RejudgeResult(judged=judged, turned=turned)

    def propose_goals(self, *, where: str | None = None, since: str | None = None) -> GoalDraft:
        """Return a draft of sub-goals for a person to confirm, from the cases of the runs."""
        from stepscope.api.judging import draft_goals

        return draft_goals(self.store, combine_filters(where, since))

    def _asking(
        self,
        judges: Names,
        rubrics: Names,
        where: Where | None,
        how: JudgingOptions | None,
        ledger: Ledger | None,
    ) -> tuple[tuple[str, ...], JudgePlan]:
        import stepscope.api.judging as judging
        from stepscope.api.rubrics import refuse_unlocked
        from stepscope.judges.judgement import DEFAULT_OPTIONS

        names = judging.unique_names(judges, "judge")
        asked, how = judging.unique_names(rubrics, "rubric"), how or DEFAULT_OPTIONS
        plan = judging.plan_questions(
            self.store, self.settings, names, asked, where=where, options=how, ledger=ledger
        )
        refuse_unlocked(plan, self.settings)
        return names, plan

    def agreement(
        self,
        rubric: str | None = None,
        *,
        where: str | None = None,
        since: str | None = None,
        by: str | None = None,
        raters: Sequence[str] | None = None,
        rubric_version: str | None = None,
        seed: int | None = None,
        threshold: float = 0.5,
    ) -> AgreementView:
        """Return how far judges, the rules and people agree on a rubric or a set of them.

        Args:
            rubric: "axes.termination", or "axes" for its set; all when left out.
            raters: names, families, or how they begin; all when left out.
            rubric_version: that judges answered under; of each that of most runs when left out.
            threshold: kappa below which a rubric is to be sharpened.

        Raises:
            UsageError: nobody rated this rubric, no such rater or field.
        """
        from stepscope.api.agreement import view_agreement

        return view_agreement(
            self.store,
            rubric,
            where=combine_filters(where, since),
            by=by,
            names=raters,
            version=rubric_version,
            seed=self.settings.seed if seed is None else seed,
            threshold=threshold,
        )

    def disputes(
        self,
        rubric: str | None = None,
        *,
        where: str | None = None,
        since: str | None = None,
        raters: Sequence[str] | None = None,
        rubric_version: str | None = None,
    ) -> QueueView:
        """Return the runs and steps on which families disagree, the most telling first."""
        from stepscope.api.agreement import view_disputes

        chosen = combine_filters(where, since)
        return view_disputes(self.store, rubric, where=chosen, names=raters, version=rubric_version)

    def modes(
        self, *, where: str | None = None, since: str | None = None, seed: int | None = None
    ) -> ModesView:
        """Return how judges' answers to single steps differ from those with the run in view."""
        from stepscope.api.agreement import view_modes

        drawn = self.settings.seed if seed is None else seed
        return view_modes(self.store, where=combine_filters(where, since), seed=drawn)

    def add_cases(self, path: str | Path, *, workflow: str = "") -> AddedCases:
        """Give the cases of a file or folder to the runs of their tasks, whatever traces say.

        Args:
            path: `cases.toml`, JSON lines, or a folder of them.
            workflow: where they name none.

        Raises:
            ConfigError: it cannot be read, or a case makes no sense.
        """
        from stepscope.cases.files import give_cases

        return give_cases(self.store, path, workflow)

    def give_declared_cases(self) -> None:
        """Give the cases that the settings name to the runs of their workflows."""
        for name, table in self.settings.workflow.items():
            if table.cases is not None:
                self.add_cases(table.cases, workflow=name)

    def promote_case(self, run: str, *, step: int | None = None) -> dict[str, str]:
        """Return the files of a case that a failing run makes, cut at its broken step, by name.

        Args:
            run: its name, or a unique prefix of its id.
            step: the broken step; the first suspect when left out.

        Raises:
            UsageError: no such run or step, the run passed, or nothing in it is suspected.
        """
        from stepscope.cases.files import promote_run

        found = self.store.trajectory(self.store.find(run))
        why = ""
        if step is None:
            if found.outcome.status == "pass":
                raise UsageError(f"{found.name!r} passed; name the step that broke with --step")
            look = self.report(where=f"id = '{found.id}'").value.look_first
            suspects = look[0].suspects if look else ()
            if not suspects:
                said = "is suspected; run stepscope score, or name --step"
                raise UsageError(f"nothing in {found.name!r} {said}")
            step, why = suspects[0].step, suspects[0].evidence
        return promote_run(found, step, why)

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
        from stepscope.api.score_files import open_score_file
        from stepscope.api.verdict_import import VerdictImport, add_verdicts

        stream = open_score_file(str(file), self.settings)
        with stream.file:
            family, columns, labels = HUMAN if human else IMPORTED, columns or {}, labels or {}
            adding = VerdictImport(
                self.store, family, columns=columns, labels=labels, rubric=rubric, rater=rater
            )
            return add_verdicts(self.store, stream, adding)

    def trajectories(
        self, *, where: str | None = None, since: str | None = None
    ) -> Iterator[Trajectory]:
        """Yield the chosen runs."""
        return self.store.trajectories(combine_filters(where, since))

    def records(self, *, where: str | None = None) -> views.Records:
        """Return the verdicts of the chosen runs."""
        return views.Records(self.store, combine_filters(where))

    def tools(self) -> dict[str, Effect]:
        """Return every tool that was called, and its effect: as declared, or as its name says."""
        steps = (step for run in self.trajectories() for step in run.steps)
        names = {call.name for step in steps for call in step.calls}
        return {name: self.settings.tools.get(name) or infer_effect(name) for name in sorted(names)}

    def count(self, *, where: str | None = None, older_than: str | None = None) -> int:
        """Return how many runs are chosen."""
        return len(self.store.runs(combine_filters(where, older_than=older_than)))

    def purge(self, *, where: str | None = None, older_than: str | None = None) -> PurgeResult:
        """Erase texts, raw replies, blobs and quarantine of the chosen runs; numbers stay."""
        from stepscope.api.judging import find_ledger, purge_replies

        purged = self.store.purge(combine_filters(where, older_than=older_than))
        if self._ledger is None and find_ledger(self.store) is None:
            return purged
        return purge_replies(self.store, purged, self.ledger)

    def export(
        self,
        out: str | Path,
        *,
        format: Target = "ours",
        verdicts: VerdictsAs | None = None,
        force: bool = False,
        where: str | None = None,
        since: str | None = None,
        progress: Progress | None = None,
    ) -> Exported:
        """Write the chosen runs to a file (a folder for several ATIF runs).

        `verdicts` says whether verdicts are written alone (`only`), or on the spans that they are
        about (`gen_ai`, `openinference`; OTLP has them so unless it is `none`).

        Raises:
            UsageError: something is there already and `force` is not said.
            ConfigError: Parquet is asked for and pyarrow is not installed.
        """
        return export_runs(
            self.store,
            str(out),
            format=format,
            verdicts=verdicts,
            force=force,
            where=combine_filters(where, since),
            progress=progress or ignore_progress,
        )
