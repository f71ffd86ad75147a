"""The notebook object: one store, the settings that hold, and everything one can do with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.api.adding import Added, Progress, add
from stepscope.api.choosing import Records, filter_of
from stepscope.api.exporting import Exported, Target, VerdictsAs, export
from stepscope.api.judging_notebook import JudgingNotebook
from stepscope.api.reading import Filling
from stepscope.api.views import ComparisonView, CurveView, ReportView, Source, Text
from stepscope.effects import infer_effect
from stepscope.errors import UsageError
from stepscope.model import Effect, Trajectory
from stepscope.report import show
from stepscope.score import Scored, score
from stepscope.settings import Settings, load
from stepscope.store import Store

if TYPE_CHECKING:
    from stepscope.calibrate.noise import Noise
    from stepscope.report.curve_types import Shapes
    from stepscope.store import Purged
    from stepscope.values import Unmeasured


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
    held = load() if settings is None else settings
    place = Path(held.store if path is None else path)
    if not place.parent.is_dir():
        raise UsageError(f"{place}: there is no folder {str(place.parent)!r} to make a store in")
    return Notebook(Store.open(place), held)


class Notebook(JudgingNotebook):
    """A store with the settings that hold for it; a context manager that closes it."""

    def add(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        agent: str | None = None,
        agent_version: str | None = None,
        tags: Mapping[str, str] | None = None,
        format_name: str | None = None,
        strict: bool = False,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> Added:
        """Read traces into the store: files, folders, globs, zips.

        Args:
            paths: one or several.
            agent: the agent, where a trace names none.
            agent_version: its version, where a trace names none.
            tags: tags that a trace lacks.
            format_name: the format; told from the content when left out.
            strict: keep nothing unless everything can be read as it is.
            workers: processes; when left out, one a core for much to read and none for little.
            progress: called with the runs read so far, and 0.

        Raises:
            TraceError: a path named is no trace.
            UsageError: no such path.
        """
        self.store.fix_weights(self.settings.weights)
        several = [paths] if isinstance(paths, str | Path) else list(paths)
        return add(
            self.store,
            [str(path) for path in several],
            format_name=format_name,
            limits=self.settings.limits,
            strict=strict,
            filling=Filling(agent, agent_version, dict(tags or {})),
            workers=workers,
            progress=progress or _silent,
        )

    def score(
        self,
        *,
        where: str | None = None,
        since: str | None = None,
        measures: Sequence[str] | None = None,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> Scored:
        """Give every run its verdicts; deterministic, never spends, resumes.

        Raises:
            StoreError: the settings have other weights than those that runs were scored under.
        """
        self.store.fix_weights(self.settings.weights)
        return score(
            self.store,
            measures=measures,
            where=filter_of(where, since),
            declared=self.settings.declared,
            workers=workers,
            progress=progress,
        )

    def report(
        self,
        *,
        where: str | None = None,
        since: str | None = None,
        by: str | None = None,
        seed: int | None = None,
        look_first: int | None = 10,
    ) -> ReportView:
        """Return the report vector of the chosen runs.

        Args:
            where: a filter, as "agent = 'gpt-4o'".
            since: a date or an age, as "7d".
            by: one group for each value of this field.
            seed: where random draws start; when left out that of the settings.
            look_first: how many runs to look at first; None for all.

        Raises:
            UsageError: the filter makes no sense.
            DataError: no run is chosen.
        """
        # Statistics load slowly, and reading runs into the store has no use for them.
        from stepscope.report.build import build

        chosen = filter_of(where)
        value = build(
            self.store,
            where=chosen,
            since=since,
            by=by,
            seed=self.settings.seed if seed is None else seed,
            look_first=look_first,
        )
        return ReportView(
            value, self.show, Source(self.store, chosen, since, self.settings.policies)
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
    ) -> ComparisonView:
        """Compare the runs of two agents (or two values of another field), paired by task."""
        from stepscope.report.compare import compare

        drawn = self.settings.seed if seed is None else seed
        chosen = filter_of(where, since)
        return ComparisonView(compare(self.store, a, b, by=by, where=chosen, seed=drawn))

    def show(
        self,
        run: str,
        *,
        around: int | None = None,
        steps: tuple[int, int] | None = None,
        width: int = 100,
    ) -> Text:
        """Return one run as text, by name or unique id prefix.

        Raises:
            UsageError: no such run, several, or no such step.
        """
        return Text(show.show(self.store, run, around=around, steps=steps, width=width))

    def curve(self, run: str) -> CurveView:
        """Return the score curve of one run, by name or unique id prefix.

        Raises:
            UsageError: no such run, or several.
        """
        from stepscope.report.curves import curve

        return CurveView(curve(self.store, self.store.find(run)))

    def show_json(self, run: str) -> str:
        """Return one run with its records and suspects as JSON."""
        return show.show_json(self.store, run)

    def shapes(self, *, where: str | None = None, since: str | None = None) -> Shapes | Unmeasured:
        """Return the shapes of the score curves of the chosen runs: shares with intervals."""
        from stepscope.report.build import read_chosen
        from stepscope.report.fleet_shapes import shapes

        table = read_chosen(self.store, where=filter_of(where), since=since, by=None)
        return shapes(table.shapes, table.clusters, self.settings.seed)

    def calibrate_sigma(
        self, scores: str | Path | None = None, *, quantum: float | None = None
    ) -> list[Noise]:
        """Measure the noise of each judge from steps scored twice, and keep it for shapes.

        Args:
            scores: a file of scores with a column repeat; the scores of the store when left out.
            quantum: step between the scores that the judge can give.

        Raises:
            TraceError: a row of the file cannot be read.
            UsageError: no such file.
        """
        from stepscope.api.score_file import opened
        from stepscope.calibrate import noise

        if scores is None:
            found = noise.of_store(self.store, quantum=quantum)
        else:
            stream = opened(str(scores), self.settings)
            with stream.file:
                found = noise.of_file(stream, quantum=quantum)
        noise.keep(self.store, found)
        return found

    def trajectories(
        self, *, where: str | None = None, since: str | None = None
    ) -> Iterator[Trajectory]:
        """Yield the chosen runs."""
        return self.store.trajectories(filter_of(where, since))

    def records(self, *, where: str | None = None) -> Records:
        """Return the verdicts of the chosen runs."""
        return Records(self.store, filter_of(where))

    def tools(self) -> dict[str, Effect]:
        """Return every tool that was called, and its effect: as declared, or as its name says."""
        steps = (step for run in self.trajectories() for step in run.steps)
        names = {call.name for step in steps for call in step.calls}
        return {name: self.settings.tools.get(name) or infer_effect(name) for name in sorted(names)}

    def count(self, *, where: str | None = None, older_than: str | None = None) -> int:
        """Return how many runs are chosen."""
        return len(self.store.runs(filter_of(where, older_than=older_than)))

    def purge(self, *, where: str | None = None, older_than: str | None = None) -> Purged:
        """Erase texts, raw replies, blobs and quarantine of the chosen runs; numbers stay."""
        from stepscope.api.judging import existing, without_replies

        purged = self.store.purge(filter_of(where, older_than=older_than))
        if self._ledger is None and existing(self.store) is None:
            return purged
        return without_replies(self.store, purged, self.ledger)

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
        return export(
            self.store,
            str(out),
            format=format,
            verdicts=verdicts,
            force=force,
            where=filter_of(where, since),
            progress=progress or _silent,
        )


def _silent(done: int, total: int) -> None:
    pass
