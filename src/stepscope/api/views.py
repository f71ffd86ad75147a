"""What a notebook shows: reports, runs, curves and comparisons that print themselves.

Each view holds the pure value in `value`. A report over an exported Parquet folder has figures
only: no run can be opened, so none is named to look at first, and nothing can be scored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

from stepscope.errors import ConfigError, UsageError
from stepscope.model import Record
from stepscope.model.records import Figure
from stepscope.report import types
from stepscope.report.render import data, markdown, text
from stepscope.report.views.compare import RunDiff, make_comparison_document, make_diff_document
from stepscope.report.views.overview import make_report_document
from stepscope.report.views.runs import RunList, flatten_list, make_list_document
from stepscope.report.words import describe_figure, find_profile, name_steps
from stepscope.safety.text import render_json
from stepscope.store import ParquetRows, Store
from stepscope.store.where import parse_where
from stepscope.values import Unmeasured

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

    from stepscope.gates.looks import GateHistory
    from stepscope.report.document import Document
    from stepscope.report.render.html import Embed
    from stepscope.settings import Settings
    from stepscope.store.columns import Rows
    from stepscope.store.where import Where


T = TypeVar("T")
# Columns of text in which nothing is cut.
UNCUT = 10_000
# Shows one run; `Notebook.show` is one.
ShowRun: TypeAlias = "Callable[..., Text]"


class Text(str):
    """A text that a notebook shows as it reads, not as Python quotes it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class DocumentView(Generic[T]):
    """A value that prints itself, as text and in a notebook; `value` is the pure value."""

    def __init__(self, value: T) -> None:
        self.value = value

    def document(self) -> Document:
        """Return what is printed."""
        raise NotImplementedError

    def text(self, width: int = 100) -> str:
        """Return it as text, no wider than `width` columns."""
        return text.render(self.document(), width)

    def markdown(self) -> str:
        """Return it as Markdown."""
        return markdown.render(self.document())

    def json(self) -> str:
        """Return the value as JSON; the same rows give the same bytes."""
        return render_json(self.value)

    def __repr__(self) -> str:
        return self.text()

    def _repr_markdown_(self) -> str:
        return self.markdown()


class Records:
    """The verdicts of the chosen runs: iterate, or take them as an Arrow table."""

    def __init__(self, store: Store, where: Where | None) -> None:
        self._store = store
        self._where = where

    def __iter__(self) -> Iterator[Record]:
        return self._store.records(self._where)

    def to_arrow(self) -> pa.Table:
        """Return the records as a table that polars, pandas and DuckDB read.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        return self._store.to_arrow(self._where)

    def to_pandas(self) -> Any:
        """Return the records as a `pandas.DataFrame`, with the columns of `to_arrow`.

        Raises:
            ConfigError: pandas or pyarrow is not installed.
        """
        try:
            return self.to_arrow().to_pandas()
        except ImportError as e:
            raise ConfigError("to_pandas needs pandas: pip install pandas") from e


class RunView:
    """A run to look at first: its suspects, and a way to read it."""

    def __init__(self, run: types.LookFirst, show: ShowRun) -> None:
        self._run = run
        self._show = show

    @property
    def id(self) -> str:
        """The run's id."""
        return self._run.id

    @property
    def name(self) -> str:
        """The source's own name for the run."""
        return self._run.name

    @property
    def outcome(self) -> str:
        """Pass, fail or unknown."""
        return self._run.outcome

    @property
    def suspects(self) -> tuple[types.SuspectSteps, ...]:
        """Steps where the run may have broken, the most suspicious first."""
        return self._run.suspects

    def show(self, *, around: int | None = None, steps: tuple[int, int] | None = None) -> Text:
        """Return the run as text: all of it, around one step, or from one step to before another.

        Raises:
            UsageError: the run has no such step.
        """
        return self._show(self._run.id, around=around, steps=steps)

    def __repr__(self) -> str:
        where = ", ".join(name_steps(suspect) for suspect in self.suspects) or "none"
        return f"<run {self.name}: {self.outcome}, suspects {where}>"


class ReportView(DocumentView[types.Report]):
    """A report in a notebook: figures by name, the runs to look at first, and itself as a table.

    `value` is the report as a pure value.
    """

    def __init__(
        self,
        value: types.Report,
        show: ShowRun,
        rows: Rows | None = None,
        *,
        where: Where | None = None,
        since: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Hold a report; the `rows` that it was made of let it write a page of them."""
        super().__init__(value)
        self._show = show
        self._rows = rows
        self._where, self._since, self._settings = where, since, settings

    def __getitem__(self, key: str) -> Figure:
        """Return one figure over all chosen runs, an Estimate or Unmeasured.

        Raises:
            UsageError: no such figure; the message lists them.
        """
        return self.value[key]

    def profile(self, group: str) -> types.Profile:
        """Return the vector of one group, as an agent.

        Raises:
            UsageError: no group or several groups match.
        """
        return find_profile(self.value, group)

    @property
    def shapes(self) -> types.Shapes | Unmeasured:
        """The shapes of the score curves of all chosen runs, or why there are none."""
        return self.value.whole.shapes

    @property
    def look_first(self) -> tuple[RunView, ...]:
        """The runs to look at first."""
        return tuple(RunView(run, self._show) for run in self.value.look_first)

    def located(self, option: str, paths: str = "") -> ReportView:
        """Return the view with `option` on every command it names, as `--store runs.db`.

        `paths` are traces that it was made of, as a shell takes them.
        """
        runs = tuple(
            msgspec.structs.replace(run, command=f"{run.command} {option}".rstrip())
            for run in self.value.look_first
        )
        reported = f"stepscope report {paths}".rstrip()
        following = tuple(
            f"{command.replace('stepscope report', reported, 1)} {option}".rstrip()
            for command in self.value.next
        )
        found = copy.copy(self)
        found.value = msgspec.structs.replace(self.value, look_first=runs, next=following)
        return found

    def line(self, key: str) -> str:
        """Return one figure as a line: name, value, interval, n, what was not measured.

        Raises:
            UsageError: no such figure.
        """
        line = describe_figure(key, self[key])
        _, value, interval, n, lost = (cell.text for cell in line.cells)
        return f"{key}  {value}  {interval}  n {n}  unmeasured {lost}"

    def document(self) -> Document:
        """Return the report as text and tables."""
        return make_report_document(self.value)

    def junit(self) -> str:
        """Return the report as JUnit XML."""
        return data.render_report_junit(self.value)

    def html(
        self, file: str | Path, *, embed: Embed = 25, gates: Sequence[str | Path] = ()
    ) -> Path:
        """Write every page to one HTML file, which needs no server; return its path.

        Args:
            file: where to; what is there is replaced.
            embed: of how many runs the steps are in it, those to look at first; "all" for all.
            gates: files that `stepscope gate --json` wrote, the latest last.

        Raises:
            UsageError: the report has no rows behind it, or a file is no gate report.
        """
        from stepscope.api.calibration import list_calibration
        from stepscope.gates.looks import read_gate_history
        from stepscope.report.render import html
        from stepscope.report.render.data import read_gate_reports
        from stepscope.settings import Settings
        from stepscope.store.where import combine_filters

        if self._rows is None:
            raise UsageError("this report was made without rows; take one from a store's report()")
        where, since, place = self._where, self._since, Path(file)
        kept: tuple[GateHistory, ...] = ()
        if self._settings is not None and self._settings.workflow:
            both = combine_filters(where, since)
            kept = read_gate_history(self._rows, self._settings.policies, where=both)
        told = read_gate_reports([Path(name) for name in gates]) if gates else ()
        page = None
        if isinstance(self._rows, Store):
            page = list_calibration(self._rows, self._settings or Settings())
        html.write_html(
            self._rows,
            self.value,
            place,
            embed=embed,
            where=where,
            since=since,
            gates=told,
            kept=kept,
            calibration=page,
        )
        return place

    def charts(self) -> dict[str, alt.TopLevelMixin]:
        """Return the charts as Altair objects, by name: vector, axes, shapes, panel."""
        from stepscope.report.render import charts
        from stepscope.report.render.html import make_report_charts

        found = make_report_charts(self.value)
        return {name: charts.make_chart(chart.spec, chart.rows) for name, chart in found.items()}

    def plots(self, folder: str | Path) -> list[Path]:
        """Write the charts as PNG and SVG to a folder; return the files.

        Raises:
            ConfigError: the `plots` extra is not installed.
        """
        from stepscope.report.render import charts
        from stepscope.report.render.html import make_report_charts

        return charts.write_plots(make_report_charts(self.value), folder)

    def _repr_html_(self) -> str:
        from stepscope.report.render.html import render_report_html

        return render_report_html(self.value)


class ScoreCurveView:
    """A score curve in a notebook; `value` is the curve as a pure value, or why there is none."""

    def __init__(self, value: types.Curve | Unmeasured) -> None:
        self.value = value

    def chart(self) -> alt.TopLevelMixin:
        """Return the curve as an Altair chart.

        Raises:
            UsageError: there is no curve; the message says why.
        """
        from stepscope.report.render import charts
        from stepscope.report.render.html import make_curve_chart

        if isinstance(self.value, Unmeasured):
            raise UsageError(f"no curve: {self.value.reason}")
        found = make_curve_chart(self.value)
        return charts.make_chart(found.spec, found.rows)

    def __repr__(self) -> str:
        if isinstance(self.value, Unmeasured):
            return f"<no curve: {self.value.reason}>"
        shape = self.value.shape
        said = shape.reason if isinstance(shape, Unmeasured) else shape
        return f"<curve of {self.value.name}: {len(self.value.steps)} steps, {said}>"

    def _repr_html_(self) -> str | None:
        from stepscope.report.render.html import render_curve_html

        return None if isinstance(self.value, Unmeasured) else render_curve_html(self.value)


class ComparisonView(DocumentView[types.ComparisonReport]):
    """Two groups compared, paired by task; `value` is the comparison as a pure value."""

    def __getitem__(self, key: str) -> object:
        """Return the comparison of one figure.

        Raises:
            UsageError: no such figure; the message lists them.
        """
        return self.value[key]

    def document(self) -> Document:
        """Return the comparison as text and tables."""
        return make_comparison_document(self.value)


class RunListView(DocumentView[RunList]):
    """A list of runs; `value` is the list as a pure value."""

    def document(self) -> Document:
        """Return the list as tables."""
        return make_list_document(self.value)

    def text(self, width: int = 100) -> str:
        """Return it as text; no name is cut, so that each can be typed."""
        return text.render(self.document(), max(width, UNCUT))

    def json(self) -> str:
        """Return the list as JSON."""
        return render_json(flatten_list(self.value))


class RunDiffView(DocumentView[RunDiff]):
    """Two runs, aligned; `value` is the comparison as a pure value."""

    def document(self) -> Document:
        """Return the aligned calls, and what is concluded."""
        return make_diff_document(self.value)


def report_folder(
    folder: str | Path,
    *,
    where: str | None = None,
    since: str | None = None,
    by: str | None = None,
    seed: int = 0,
    rubric_version: str | None = None,
) -> ReportView:
    """Return the report over a folder with runs.parquet and records.parquet, as `export` wrote it.

    The other arguments are those of `Notebook.report`.

    Raises:
        ConfigError: pyarrow is not installed.
        StoreError: the folder holds no export.
        UsageError: no run is chosen, or the filter makes no sense.
    """
    from stepscope.report.build import build_report

    rows = ParquetRows(folder)
    chosen = None if where is None else parse_where(where)
    value = build_report(
        rows, where=chosen, since=since, by=by, seed=seed, rubric_version=rubric_version
    )

    def show(run: str, **_: object) -> Text:
        raise UsageError(f"{folder} holds verdicts and no runs; open the store to read {run!r}")

    return ReportView(value, show, rows, where=chosen, since=since)
