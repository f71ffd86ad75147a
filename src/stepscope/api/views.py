"""What a notebook holds of a report: the pure value, able to print itself and to show its runs."""

from __future__ import annotations

from typing import Protocol

import msgspec

from stepscope.report import compare_text, json, junit, lines, markdown, text
from stepscope.report.types import ComparisonReport, Figure, LookFirst, Profile, Report, Suspect


class Show(Protocol):
    """Shows one run; `Notebook.show` is one."""

    def __call__(
        self, run: str, *, around: int | None = None, steps: tuple[int, int] | None = None
    ) -> Text:
        """Return the run as text."""


class Text(str):
    """A text that a notebook shows as it reads, not as Python quotes it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class RunView:
    """A run to look at first: its suspects, and a way to read it."""

    def __init__(self, run: LookFirst, show: Show) -> None:
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
    def suspects(self) -> tuple[Suspect, ...]:
        """Steps where the run may have broken, the most suspicious first."""
        return self._run.suspects

    def show(self, *, around: int | None = None, steps: tuple[int, int] | None = None) -> Text:
        """Return the run as text: all of it, around one step, or from one step to before another.

        Raises:
            UsageError: the run has no such step.
        """
        return self._show(self._run.id, around=around, steps=steps)

    def __repr__(self) -> str:
        where = ", ".join(suspect.where for suspect in self.suspects) or "none"
        return f"<run {self.name}: {self.outcome}, suspects {where}>"


class ReportView:
    """A report in a notebook: figures by name, the runs to look at first, and itself as a table.

    `value` is the report as a pure value.
    """

    def __init__(self, value: Report, show: Show) -> None:
        self.value = value
        self._show = show

    def __getitem__(self, key: str) -> Figure:
        """Return one figure over all chosen runs, an Estimate or Unmeasured.

        Raises:
            UsageError: no such figure; the message lists them.
        """
        return self.value[key]

    def profile(self, group: str) -> Profile:
        """Return the vector of one group, as an agent.

        Raises:
            UsageError: no group or several groups match.
        """
        return self.value.profile(group)

    @property
    def look_first(self) -> tuple[RunView, ...]:
        """The runs to look at first."""
        return tuple(RunView(run, self._show) for run in self.value.look_first)

    def located(self, option: str) -> ReportView:
        """Return the view with `option` on every command it names, as `--store runs.db`."""
        runs = tuple(
            msgspec.structs.replace(run, command=f"{run.command} {option}")
            for run in self.value.look_first
        )
        following = tuple(f"{command} {option}" for command in self.value.next)
        value = msgspec.structs.replace(self.value, look_first=runs, next=following)
        return ReportView(value, self._show)

    def line(self, key: str) -> str:
        """Return one figure as a line: name, value, interval, n, what was not measured.

        Raises:
            UsageError: no such figure.
        """
        line = lines.line(key, self[key], runs=self.value.whole.n_runs)
        return f"{key}  {line.value}  {line.interval}  n {line.n}  unmeasured {line.unmeasured}"

    def text(self, width: int = 100) -> str:
        """Return the report as text, no wider than `width` columns."""
        return text.render(self.value, width)

    def markdown(self) -> str:
        """Return the report as Markdown."""
        return markdown.render(self.value)

    def json(self) -> str:
        """Return the report as JSON; the same rows give the same bytes."""
        return json.render(self.value)

    def junit(self) -> str:
        """Return the report as JUnit XML."""
        return junit.render(self.value)

    def __repr__(self) -> str:
        return self.text()

    def _repr_markdown_(self) -> str:
        return self.markdown()


class ComparisonView:
    """Two groups compared, paired by task; `value` is the comparison as a pure value."""

    def __init__(self, value: ComparisonReport) -> None:
        self.value = value

    def __getitem__(self, key: str) -> object:
        """Return the comparison of one figure.

        Raises:
            UsageError: no such figure; the message lists them.
        """
        return self.value[key]

    def text(self, width: int = 100) -> str:
        """Return the comparison as text."""
        return compare_text.render(self.value, width)

    def markdown(self) -> str:
        """Return the comparison as Markdown."""
        return compare_text.markdown(self.value)

    def json(self) -> str:
        """Return the comparison as JSON."""
        return json.render(self.value)

    def __repr__(self) -> str:
        return self.text()

    def _repr_markdown_(self) -> str:
        return self.markdown()
