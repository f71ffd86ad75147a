"""Agreement in a notebook: figures by rubric, the disputes, and itself as a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from msgspec import structs

from stepscope.api.views import DocumentView
from stepscope.calibrate import agreement as raters
from stepscope.calibrate.judges import JudgeCalibration, calibrate_judges
from stepscope.calibrate.modes import ModeComparison, compare_modes
from stepscope.calibrate.ratings import choose_raters, rated_rubrics
from stepscope.calibrate.types import Agreement, Dispute, RubricAgreement
from stepscope.errors import UsageError
from stepscope.model.records import RULES
from stepscope.report.document import Document
from stepscope.report.render import text
from stepscope.report.views import calibration, judges
from stepscope.safety.redact import hide_in
from stepscope.safety.text import render_json
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.where import Where
from stepscope.values import Decision

T = TypeVar("T")


class AgreementView(DocumentView[tuple[Agreement, ...]]):
    """Agreement of raters; `value` holds it as a pure value, one entry a group of runs."""

    def __getitem__(self, rubric: str) -> RubricAgreement:
        """Return the agreement on one rubric over all chosen runs.

        Raises:
            UsageError: no such rubric was rated, or runs were grouped; look into `value` then.
        """
        if len(self.value) != 1:
            raise UsageError(f"{len(self.value)} groups of runs; take one of .value by its number")
        return self.value[0][rubric]

    @property
    def measured(self) -> bool:
        """Whether anything was decided."""
        return any(
            decision.outcome != "undecided"
            for group in self.value
            for aspect in group.aspects
            for decision in (aspect.decision, *aspect.judges.values())
        )

    def document(self) -> Document:
        """Return the agreement as text and tables."""
        return judges.make_agreement_document(self.value)

    def json(self) -> str:
        """Return the agreement as JSON; the same rows give the same bytes."""
        return render_json({"groups": self.value})


class QueueView(tuple[Dispute, ...]):
    """Runs and steps that families disagree on, the most telling first; a list that prints."""

    __slots__ = ()

    def text(self, first: int = 10, width: int = 100) -> str:
        """Return the first disputes as text."""
        return text.render(judges.make_disputes_document(self[:first], len(self)), width)

    def csv(self, first: int | None = None) -> str:
        """Return the first disputes as CSV, a row an answer."""
        return raters.queue_csv(self[:first])

    def json(self, first: int | None = None) -> str:
        """Return the first disputes as JSON."""
        return render_json({"total": len(self), "queue": self[:first]})

    def __repr__(self) -> str:
        return self.text()


class ModesView(DocumentView[tuple[ModeComparison, ...]]):
    """Isolated against contextual judging; `value` holds one entry a judge and rubric."""

    def document(self) -> Document:
        """Return what differs as text and tables."""
        return judges.make_modes_document(self.value)

    def json(self) -> str:
        """Return what differs as JSON."""
        return render_json({"modes": self.value})


class CalibrationView(DocumentView[tuple[JudgeCalibration, ...]]):
    """Judges beside people; `value` holds one entry a judge and rubric."""

    def __getitem__(self, judge: str) -> JudgeCalibration:
        """Return the first entry of a judge, by its name; a `UsageError` lists the judges."""
        for one in self.value:
            if one.judge == judge:
                return one
        known = ", ".join(dict.fromkeys(one.judge for one in self.value)) or "none"
        raise UsageError(f"no judge {judge!r} was held against people; judges: {known}")

    def document(self) -> Document:
        """Return the figures as text and tables."""
        return calibration.make_calibration_document(self.value)

    def json(self) -> str:
        """Return the figures as JSON; the same rows give the same bytes."""
        return render_json({"judges": self.value})


def view_agreement(
    rows: Rows,
    rubric: str | None,
    *,
    where: Where | None,
    by: str | None,
    names: Sequence[str] | None,
    version: str | None,
    seed: int,
    threshold: float,
) -> AgreementView:
    """Return the agreement of the chosen runs' raters."""
    if not 0 < threshold < 1:
        raise UsageError(f"--min {threshold:g}: expected a kappa between 0 and 1, such as .5")
    chosen = choose_raters(rows, names, where=where, rubric=rubric, version=version)
    measure = partial(raters.measure_agreement_by, rows, by, rubric=rubric, version=version)
    found = measure(where=where, raters=chosen, seed=seed, threshold=threshold)
    if rubric is not None and not any(group.aspects for group in found):
        _refuse_unknown(rows, rubric)
    return AgreementView(_hide_secrets(found, rows))


def view_calibration(
    rows: Rows,
    rubric: str | None,
    *,
    where: Where | None,
    names: Sequence[str] | None,
    version: str | None,
    seed: int,
) -> CalibrationView:
    """Return the judges of the chosen runs beside the people who labelled them."""
    chosen = choose_raters(rows, names, where=where, rubric=rubric, version=version)
    found = calibrate_judges(
        rows, where=where, rubric=rubric, raters=chosen, version=version, seed=seed
    )
    if names is None and where is None and rubric in (None, "attribution"):
        found += _beside_named(rows)
    if rubric is not None and not found:
        _refuse_unknown(rows, rubric)
    return CalibrationView(_hide_secrets(found, rows))


def _beside_named(rows: Rows) -> tuple[JudgeCalibration, ...]:
    """Return suspects, and proofs of rules, beside the steps that people named, like judges."""
    from stepscope.findings import fit  # scipy.optimize

    labelled = fit.read_labelled(rows) if isinstance(rows, Store) else ()
    runs = [run for run in labelled if run.named is not None]
    if not runs:
        return ()
    suspects = JudgeCalibration(
        rubric="attribution",
        unit="runs",
        judge="localise",
        family=RULES,
        n=len(runs),
        runs=len(runs),
        people=("people who named a step",),
        figures=fit.measure_suspects(runs),
        decision=Decision("undecided", "it asks of judges, not of a list of suspects"),
        notes=("the ranking was fitted on public runs, where it is better than elsewhere",),
    )
    counts, figures = fit.measure_proofs(runs)
    proofs = structs.replace(
        suspects,
        unit="steps",
        judge=RULES,
        n=int(counts.sum()),
        labels=("named", "not named"),
        confusion=tuple(map(tuple, counts.tolist())),
        figures=figures,
        decision=Decision("undecided", "it asks of judges, not of rules"),
        notes=("people name few steps of a run: a fault proved at another one may be real",),
    )
    return suspects, proofs


def _hide_secrets(found: T, rows: Rows) -> T:
    """Return a value of agreement as it is shown: secrets hidden in the texts within it."""
    return hide_in(rows.shown if isinstance(rows, Store) else None, found)


def _refuse_unknown(rows: Rows, rubric: str) -> None:
    known = rated_rubrics(rows.measures(), None)
    if known and not rated_rubrics(rows.measures(), rubric):
        raise UsageError(f"there are no ratings for {rubric!r}; rated rubrics: {', '.join(known)}")


def view_disputes(
    rows: Rows,
    rubric: str | None,
    *,
    where: Where | None,
    names: Sequence[str] | None,
    version: str | None,
) -> QueueView:
    """Return the disputes of the chosen runs."""
    chosen = choose_raters(rows, names, where=where, rubric=rubric, version=version)
    found = raters.labelling_queue(rows, rubric=rubric, where=where, raters=chosen, version=version)
    if rubric is not None and not found:
        _refuse_unknown(rows, rubric)
    return QueueView(_hide_secrets(found, rows))


def view_modes(rows: Rows, *, where: Where | None, seed: int) -> ModesView:
    """Return how judges' isolated answers differ from their contextual ones."""
    return ModesView(_hide_secrets(compare_modes(rows, seed, where=where), rows))
