"""Import verdicts of other people or judges: records of family `imported`, or `human`.

They become a rater like any other, for agreement and calibration. A cell that maps steps to labels
(`{"1": 1, "3": -1}`) is one verdict a step. Verdicts under the rubric `outcome` say whether runs
worked: a check outranks a reward, a reward a person, and what judges had said before of a run that
failed is marked outranked. Refused, each row alone: a run that the store does not have, a step that
the run does not have, a label that the rubric does not offer, a number outside 0 to 1. Refused rows
are quarantined, counted and named. A file imported twice changes nothing; a row that contradicts
what the same rater said before is quarantined.

What people said is stored as labels, from which their verdicts follow. A file may say how an item
came to be asked (queue, probability, policy and so on); without that the probability is unknown,
and no rate is corrected by the label.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from stepscope.errors import ConfigError, DataError, TraceError, UsageError
from stepscope.formats import verdicts
from stepscope.formats.finish import reward_outcome
from stepscope.judges.rubrics import BUILT_IN_RUBRICS, FAULT_OWNERS, load_rubric
from stepscope.judges.verdicts import mark_outranked
from stepscope.labels.questions import ALREADY_WRONG, DECISIVE
from stepscope.model import (
    QUEUES,
    Json,
    Label,
    Outcome,
    Quarantined,
    Record,
    Stream,
    TraceLabel,
    Verdict,
    records,
)
from stepscope.model.labels import ADJUDICATION, ADJUDICATION_REPEAT
from stepscope.model.trajectory import GIVEN_AS
from stepscope.safety.text import visible_line
from stepscope.store import Store
from stepscope.store.where import parse_moment
from stepscope.values import format_count

# What a column is called where nobody says.
USUAL_COLUMNS: dict[str, tuple[str, ...]] = {
    "run": ("run", "id", "trajectory", "run_id", "trace_id", "session_id"),
    "step": ("step",),
    "label": ("label", "verdict", "outcome", "passed"),
    "value": ("value", "score", "reward"),
    "judge": ("judge", "rater", "annotator", "who", "by", "source"),
    "axis": ("axis", "aspect", "rubric"),
    "confidence": ("confidence",),
    "cites": ("cites", "cited_step_indices"),
    "reason": ("reason", "rationale"),
    "repeat": ("repeat",),
}
# What users do after a run, in a file of proxies.
SIGNALS = ("regenerated", "abandoned", "continued_unedited", "returned")
# A message quotes no more than this of a cell, and names so many rows; the rest are counted.
_QUOTED = 40
_NAMED = 5
# How files say whether a run worked, in lower case.
_STATUSES = {
    **dict.fromkeys(("pass", "passed", "true", "success", "succeeded", "yes"), "pass"),
    **dict.fromkeys(("fail", "failed", "false", "failure", "no"), "fail"),
}
_STATUS = ("pass", "fail")
NO_LOOK = "no_look"
# Measures of people that no judge has, by the name that exports have.
OWN = (DECISIVE, ALREADY_WRONG)
# What people say of an outcome, as verdicts: the outcome itself may be a check's or a reward's.
OUTCOME_MEASURE = records.JUDGE_PREFIX + records.OUTCOME_NAME
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
# The second question of attribution, whose answers are records of their own.
WHOSE_FAILURE = "attribution.whose"


class RefusedRow(TraceError):
    """A row that is set aside: one word or two for counting, and the reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def parse_pairs(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Return what `A=B,C=D` options say."""
    found: dict[str, str] = {}
    for pair in (part for text in pairs for part in text.split(",")):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if not (key and equals and value):
            raise UsageError(f"{option} {pair!r}: expected A=B, as {option} run=id,label=verdict")
        if key in found:
            raise UsageError(f"{option}: {key!r} is said twice")
        found[key] = value
    return found


# Records held before they are stored.
_BATCH = 5_000

# Marks the cells of a row that another tool exported.
_EXPORTED = "\0exported"
# Before the name of a field, in the cells of a row that was one step of a map.
_UNFOLDED = "\0"

Row = verdicts.VerdictFileRow
VerdictKey = tuple[str, int | None, str, int, int]  # the last: the round of norming
VerdictContent = tuple[str | None, float | None]


class AddedVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """What an import of verdicts found."""

    uri: str  # the file
    rows: int  # rows in it
    new: int  # verdicts that the store did not have
    known: int  # verdicts that it had
    empty: int  # rows without a label or score: nobody rated
    quarantined: dict[str, int]  # rows set aside, by why
    rubrics: dict[str, int]  # verdicts of each rubric
    raters: tuple[str, ...]  # who rated
    unknown: tuple[str, ...] = ()  # rubrics not known here: their labels stay as they are
    refused: tuple[str, ...] = ()  # the first rows that were set aside, with the reason
    conflicts: tuple[str, ...] = ()  # runs with several outcomes, the one that counts first
    outranked: int = 0  # verdicts of judges that an outcome given here outranks

    def __str__(self) -> str:
        aside = sum(self.quarantined.values())
        why = ", ".join(f"{n:,} {kind}" for kind, n in sorted(self.quarantined.items()))
        parts = [
            f"{self.uri}: {self.rows:,} rows",
            f"{self.new:,} new verdicts, {self.known:,} known",
            *([f"{self.empty:,} without a verdict"] if self.empty else []),
            f"{aside:,} set aside" + (f" ({why})" if why else ""),
        ]
        told = ", ".join(f"{visible_line(name)} {n:,}" for name, n in self.rubrics.items())
        lines = ["; ".join(parts)]
        if told:
            lines.append(f"{told}; raters: {visible_line(', '.join(self.raters))}")
        lines += [
            f"{visible_line(name)} is not a known rubric: labels are used unchanged"
            for name in self.unknown
        ]
        lines += _name_first(self.refused, aside)
        if self.conflicts:
            runs = format_count(len(self.conflicts), "run")
            lines.append(f"outcomes that contradict each other: {runs}")
            lines += _name_first(self.conflicts[:_NAMED], len(self.conflicts))
        if self.outranked:
            noun = "verdict of judges is" if self.outranked == 1 else "verdicts of judges are"
            lines.append(f"{self.outranked:,} earlier {noun} outranked by them")
        return "\n".join(lines)


def _name_first(named: Sequence[str], total: int) -> list[str]:
    more = [f"  and {total - len(named):,} more"] if named and total > len(named) else []
    return [f"  {visible_line(one)}" for one in named] + more


def outrank_verdicts(store: Store) -> int:
    """Mark what judges said of runs whose outcome came later; return how many changed.

    A verdict that praises a failed run is marked; one that was marked and is right again is not.
    """
    changed: list[Record] = []
    runs: dict[str, Outcome] = {}
    judged = (name for name in store.measures() if name.startswith(records.JUDGE_PREFIX))
    for record in (one for name in judged for one in store.records(measure=name)):
        answer = record.answer
        if record.family in records.NOT_MODELS or answer.step is not None or answer.reason == "":
            continue
        if record.trajectory not in runs:
            runs[record.trajectory] = store.trajectory(record.trajectory).outcome
        try:
            failing = load_rubric(record.rubric).failing
        except ConfigError:
            continue
        plain = answer
        if isinstance(answer, Verdict) and answer.reason.startswith(records.OUTRANKED):
            plain = msgspec.structs.replace(answer, reason=answer.reason.partition("; ")[2])
        marked = mark_outranked(plain, runs[record.trajectory], failing)
        if marked != answer:
            changed.append(msgspec.structs.replace(record, answer=marked))
    return store.rewrite_reasons(changed)


class VerdictImport:
    """One import under way: which column is what, what the store knew, what was found so far."""

    def __init__(
        self,
        store: Store,
        family: str,  # human or imported
        *,
        # field -> column; a dot leads into a nested object; "-1" behind a step's column says that
        # the file counts from 1
        columns: Mapping[str, str],
        labels: Mapping[str, str],  # label in the file -> label of the rubric
        rubric: str | None,  # of all rows, or the set that the axis column names one of
        rater: str | None,  # of all rows
    ) -> None:
        """Read what runs there are.

        Raises:
            UsageError: a column is of no field.
            ConfigError: the rubric is a file that holds none.
        """
        for field in columns:
            if field not in USUAL_COLUMNS:
                known = ", ".join(USUAL_COLUMNS)
                raise UsageError(f"--map {field}=...: no such field; expected {known}")
        # What the user's own rubric may be answered with, by its name.
        self._menus: dict[str, tuple[str, ...]] = {}
        if rubric is not None and rubric.endswith(".md"):
            own = load_rubric(rubric)
            rubric, self._menus = own.name, {own.name: own.answers}
        self._store, self._family = store, family
        self._columns, self._labels = columns, labels
        self._rubric, self._rater = rubric, rater
        runs = store.runs()
        counts = zip(runs.id.tolist(), runs.name.tolist(), runs.steps.tolist(), strict=True)
        self._runs: dict[str, tuple[str, int] | None] = {}
        for id_, name, steps in counts:
            # A name of several runs means none of them.
            self._runs[name] = None if name in self._runs else (id_, steps)
            self._runs[id_] = (id_, steps)
        for recorded, id_of in store.recorder_ids().items():
            self._runs.setdefault(recorded, None if id_of is None else self._runs.get(id_of))
        # Outcomes that were read and not given yet, each with its row.
        self.outcomes: list[tuple[Row, str, TraceLabel]] = []
        self._said: dict[str, dict[VerdictKey, VerdictContent]] = {}
        self.alone = False  # whether every row is new, whatever was said before
        self.known = self.empty = 0
        self.quarantined: Counter[str] = Counter()
        self.rubrics: Counter[str] = Counter()
        self.raters: dict[str, None] = {}

    def check(self, cells: Mapping[str, Json]) -> None:
        """Refuse a file whose columns are other ones."""
        known = visible_line(", ".join(cells))[:200]
        for field, name in self._columns.items():
            column = name.removesuffix("-1").partition(".")[0]
            if column not in cells and name.removesuffix("-1") not in cells:
                raise UsageError(f"--map {field}={name}: no such column; the file has {known}")
        for what, *others in (("run",), ("label", "value")):
            usual = {name for field in (what, *others) for name in USUAL_COLUMNS[field]}
            if not {what, *others} & self._columns.keys() and not cells.keys() & usual:
                said = f"no column says the {what}; the file has {known}: --map {what}=COLUMN"
                raise UsageError(said)

    def menu(self, name: str) -> tuple[str, ...] | None:
        """Return what a rubric may be answered with; None where nothing here knows the rubric."""
        if name == records.OUTCOME_NAME:
            return _STATUS
        if name in self._menus:
            return self._menus[name]
        if name == records.STEP_SCORES:
            return ()
        if name == WHOSE_FAILURE:
            return FAULT_OWNERS
        try:
            return load_rubric(name).answers
        except ConfigError:
            return None

    def unfold(self, row: Row) -> list[Row]:
        """Return the rows that a row stands for: `{"label": {"1": 1, "3": -1}}` is one a step.

        A row that another tool exported is one for each of its labels.
        """
        exported = None if self._columns else verdicts.read_label_exports(row.cells)
        if exported is not None:
            return [row._replace(cells={**one, _EXPORTED: True}) for one in exported]
        for field in ("label", "value"):
            steps = self._cell(row.cells, field)
            if isinstance(steps, dict) and steps and all(map(str.isdecimal, steps)):
                names = (_UNFOLDED + "step", _UNFOLDED + field)
                return [
                    row._replace(cells={**row.cells, **dict(zip(names, one, strict=True))})
                    for one in steps.items()
                ]
        return [row]

    def record(self, row: Row) -> Record | Label | None:
        """Return a row as a record, or as a label of people; None where it says nothing new."""
        cells = row.cells
        kind, person = str(cells.get("kind") or "").upper(), self._family == records.HUMAN
        if person and kind in verdicts.MACHINES and _EXPORTED in cells:
            raise RefusedRow("no person", f"a label of kind {kind}; --human takes people's alone")
        name = self._name(cells)
        run, steps = self.find_run(cells)
        undecided = person and self._text(cells, "label") == records.UNCERTAIN
        turn = (_count(cells, "round") or 0) if person else 0
        settles = person and cells.get("queue") == ADJUDICATION
        if name == records.OUTCOME_NAME and not undecided and not turn and not settles:
            given = self._outcome(cells)
            if given is not None and person and given.extra == {GIVEN_AS: "label"}:
                # Refuses a bad probability now: later, the outcome would be given already.
                worked = Verdict(OUTCOME_MEASURE, label=given.category)
                self._person(cells, run, worked, given.annotator, 0)
            if given is None:
                self.empty += 1
            else:
                self.outcomes.append((row, run, given))
            return None
        found = self._verdict(cells, name, run, steps)
        if found is None:
            self.empty += 1
            return None
        rater = self._rater or str(self._cell(cells, "judge") or "").strip()
        if not rater:
            raise RefusedRow("no rater", "no rater named; map a column to judge, or give --rater")
        given = self._cell(cells, "repeat")
        repeat = 0 if given is None or given == "" else _index(given, "repeat")
        repeat = ADJUDICATION_REPEAT if settles else repeat
        key, said = (run, found.step, rater, repeat, turn), (found.label, found.value)
        before = self._before(found.measure)
        if key in before and before[key] != said:
            was, now = (" ".join(str(x) for x in y if x is not None) for y in (before[key], said))
            why = f"said {was!r} before, now {now!r}; give another reading its own repeat"
            raise RefusedRow("contradicts", why)
        made: Record | Label
        if self._family == records.HUMAN:
            made = self._person(cells, run, found, rater, repeat)
        else:
            reason = self._store.redactor.redact(found.reason)
            made = Record(
                trajectory=run,
                answer=msgspec.structs.replace(found, reason=reason),
                version=records.GIVEN_VERSION,
                family=self._family,
                judge=rater,
                rubric=name,
                repeat=repeat,
            )
        self.rubrics[name] += 1
        self.raters[rater] = None
        if key in before:
            self.known += 1
            return None
        before[key] = said
        return made

    def _person(
        self, cells: Mapping[str, Json], run: str, said: Verdict, annotator: str, repeat: int
    ) -> Label:
        """Return what a person said as a label, with what the row tells of how it was asked."""
        queue = str(cells.get("queue") or "file")
        if queue not in QUEUES:
            what = f"queue {_quote(queue)}; expected one of {', '.join(QUEUES)}"
            raise RefusedRow("no queue", what)
        numbers = {name: _count(cells, name) for name in ("position", "round")}
        seconds = _number("seconds", cells.get("seconds"), share=False)
        try:
            return Label(
                trajectory=run,
                measure=said.measure,
                annotator=annotator,
                label=None if said.measure == records.STEP_SCORES else said.label,
                value=said.value,
                step=said.step,
                decided=said.label != records.UNCERTAIN,
                queue=queue,
                probability=_number("probability", cells.get("probability")),
                policy=str(cells.get("policy") or "")[:_QUOTED],
                blind=_TRUTHS.get(str(cells.get("blind")).lower()),
                seconds=None if seconds is None else max(seconds, 0.0),
                repeat=repeat,
                cites=said.cites,
                confidence=said.confidence,
                reason=said.reason,
                round=numbers["round"] or 0,
                position=numbers["position"],
                given_at=_moment(cells.get("given_at")),
                expanded=tuple(str(cells.get("expanded") or "").split()),
            )
        except DataError as e:
            raise RefusedRow("no number", str(e)) from e

    def _cell(self, cells: Mapping[str, Json], field: str) -> Json:
        """Return what a row says of a field; None where it says nothing."""
        if _UNFOLDED + field in cells:
            return cells[_UNFOLDED + field]
        if field in self._columns:
            return verdicts.find_cell(cells, self._columns[field].removesuffix("-1"))
        return next((cells[name] for name in USUAL_COLUMNS[field] if name in cells), None)

    def _text(self, cells: Mapping[str, Json], field: str) -> str:
        cell = self._cell(cells, field)
        return "" if cell is None else str(cell)

    def _name(self, cells: Mapping[str, Json]) -> str:
        """Return the name of the rubric that a row is about."""
        name = self._text(cells, "axis").strip()
        if self._rubric is not None:
            prefix = f"{self._rubric}."
            members = any(known.startswith(prefix) for known in BUILT_IN_RUBRICS)
            is_set = members and self._rubric not in BUILT_IN_RUBRICS
            name = prefix + name if name and is_set else self._rubric
        if not name:
            raise RefusedRow("no rubric", "no rubric; map a column to axis, or say --rubric NAME")
        if name in BUILT_IN_RUBRICS or name == records.STEP_SCORES:
            return records.STEP_SCORES if name == NO_LOOK else name
        ends = [known for known in BUILT_IN_RUBRICS if known.endswith(f".{name}")]
        if len(ends) > 1:
            raise RefusedRow("no rubric", f"axis {_quote(name)} may be {' or '.join(ends)}")
        return ends[0] if ends else name

    def find_run(self, cells: Mapping[str, Json]) -> tuple[str, int]:
        """Return the id of the run that a row is about, and how many steps it has."""
        name = self._text(cells, "run")
        if name not in self._runs and (span := str(cells.get("span") or "")) in self._spans:
            name = self._spans[span][0]
        shown = visible_line(name)[:60]
        if name not in self._runs:
            raise RefusedRow("unknown run", f"no run called {shown!r} in the store")
        found = self._runs[name]
        if found is None:
            raise RefusedRow("unknown run", f"several runs are called {shown!r}")
        return found

    @cached_property
    def _spans(self) -> dict[str, tuple[str, int | None]]:
        """The run and the first step of each span; None as the step of a root."""
        found: dict[str, tuple[str, int | None]] = {}
        for run in self._store.trajectories():
            roots = {span.id for span in run.spans if span.parent is None}
            found |= {span: (run.id, None) for span in roots}
            for step in run.steps:
                if step.span is not None:
                    found.setdefault(step.span, (run.id, step.index))
        return found

    def _step_of(self, cells: Mapping[str, Json], run: str, steps: int) -> int | None:
        """Return the step that a row is about, by its index or by the span that it came from."""
        span = str(cells.get("span") or "") if _EXPORTED in cells else ""
        if not span:
            from_one = self._columns.get("step", "").endswith("-1")
            return _step(self._cell(cells, "step"), steps, from_one)
        found = self._spans.get(span)
        if found is None or found[0] != run:
            raise RefusedRow("no such step", f"span {_quote(span)} made no step of the run")
        return found[1]

    def _verdict(self, row: Mapping[str, Json], name: str, run: str, steps: int) -> Verdict | None:
        """Return the verdict of a row; None where the row holds none."""
        label = self._label(row, name)
        value = None
        # Other tools have scales of their own: the label counts, not the number behind it.
        if label is None or name == records.STEP_SCORES or _EXPORTED not in row:
            value = _number("value", self._cell(row, "value"))
        undecided = _TRUTHS.get(str(row.get("decided")).lower()) is False
        if self._family == records.HUMAN and undecided and name == records.STEP_SCORES:
            label = records.UNCERTAIN
        elif label is None and (value is None or name != records.STEP_SCORES):
            return None
        step = self._step_of(row, run, steps)
        if name == records.STEP_SCORES and step is None:
            raise RefusedRow("no step", "a score without a step; map a column to step")
        whole = name == records.STEP_SCORES or name in OWN
        return Verdict(
            name if whole else records.JUDGE_PREFIX + name,
            value=value,
            label=label,
            step=step,
            cites=_cites(self._cell(row, "cites"), steps) or (() if step is None else (step,)),
            reason=self._text(row, "reason"),
            confidence=_number("confidence", self._cell(row, "confidence")),
        )

    def _outcome(self, cells: Mapping[str, Json]) -> TraceLabel | None:
        """Return what a row says of its run's outcome, as a label; None where it says nothing.

        `check` and `reward` are no names of people; a reward alone needs nobody who says it.
        """
        text = self._text(cells, "label")
        said = self._labels.get(text, text).strip().lower()
        status = _STATUSES.get(said)
        if said and status is None:
            what = f"outcome {_quote(text)}; expected {' or '.join(_STATUS)}"
            raise RefusedRow("off the menu", f"{what}; --labels translates, as --labels ok=pass")
        reward = _number("reward", self._cell(cells, "value"), share=False)
        status = reward_outcome(reward).status if status is None else status
        if status == "unknown":
            return None
        who = self._rater or str(self._cell(cells, "judge") or "").strip()
        who = who if who or said else "reward"
        if not who:
            why = "no source is named; map a column to judge, or give --rater check or --rater NAME"
            raise RefusedRow("no rater", why)
        extra: dict[str, Json] = {GIVEN_AS: who if who in ("check", "reward") else "label"}
        if reward is not None:
            extra["reward"] = reward
        why = self._store.redactor.redact(self._text(cells, "reason"))
        return TraceLabel(kind="outcome", category=status, annotator=who, reason=why, extra=extra)

    def give_labels(
        self, people: Sequence[tuple[Row, Label]], refuse: Callable[[Row, RefusedRow], None]
    ) -> int:
        """Store labels, count what was known, refuse what contradicts; return how many are new."""
        fates = self._store.append_labels([label for _, label in people]) if people else []
        for (row, label), fate in zip(people, fates, strict=True):
            if fate == "contradicts":
                refuse(row, RefusedRow(fate, f"{label.annotator} said otherwise of it before"))
        self.known += fates.count("known")
        return sum(fate in ("new", "replaced") for fate in fates)

    def give_outcomes(self) -> tuple[int, list[tuple[Row, RefusedRow]]]:
        """Give the runs their outcomes; return how many are new, and the rows refused."""
        new, refused, people = 0, [], list[Label]()
        fates = self._store.give_outcomes([(run, label) for _, run, label in self.outcomes])
        for (row, run, label), fate in zip(self.outcomes, fates, strict=True):
            if fate == "contradicts":
                why = f"{label.annotator} said otherwise of this run before, now {label.category}"
                refused.append((row, RefusedRow("contradicts", why)))
                continue
            if fate == "purged":
                refused.append((row, RefusedRow("purged", "the texts of this run were purged")))
                continue
            self.rubrics[records.OUTCOME_NAME] += 1
            self.raters[label.annotator] = None
            new += fate == "new"
            self.known += fate == "known"
            if self._family == records.HUMAN and label.extra == {GIVEN_AS: "label"}:
                said = Verdict(OUTCOME_MEASURE, label=label.category, reason=label.reason)
                people.append(self._person(row.cells, run, said, label.annotator, 0))
        self._store.append_labels(people)
        return new, refused

    def conflicts(self) -> Iterator[str]:
        """Yield the runs of this file whose outcomes contradict each other, each once."""
        for id_ in dict.fromkeys(run for _, run, _ in self.outcomes):
            run = self._store.trajectory(id_)
            if others := run.contradictions:
                counts = f"{run.name}: {run.outcome.status} by its {run.outcome.source}"
                yield f"{counts}; {', '.join(others)}"

    def _label(self, cells: Mapping[str, Json], name: str) -> str | None:
        cell = self._cell(cells, "label")
        if cell is None or cell == "" or name == records.STEP_SCORES:
            return None
        text = str(cell).lower() if isinstance(cell, bool) else str(cell)
        said = self._labels.get(text, text)
        allowed = self.menu(name)
        if self._family == records.HUMAN and said == records.UNCERTAIN:
            return said  # whatever is asked, a person may say that it cannot be decided
        if allowed is not None and said not in allowed:
            why = f"label {_quote(said)} is not on the menu of {name}: {', '.join(allowed)}; "
            why += "--labels translates, as --labels yes=correct,no=incorrect"
            raise RefusedRow("off the menu", why)
        return said

    def _before(self, measure: str) -> dict[VerdictKey, VerdictContent]:
        """Return what was said under a measure; read from the store once."""
        if self.alone:
            return {}
        if measure not in self._said:
            self._said[measure] = {}
            for record in self._store.records(measure=measure):
                answer = record.answer
                current = record.version == records.GIVEN_VERSION and not record.prompt
                if not current or not isinstance(answer, Verdict):
                    continue
                other = {records.HUMAN, records.IMPORTED} - {self._family}
                if record.family in other and record.judge == self._rater:
                    raise UsageError(
                        f"{record.judge!r} rated {answer.measure} here as {record.family}; import "
                        f"them as {record.family} again, or name the rater otherwise with --rater"
                    )
                key = (record.trajectory, answer.step, record.judge, record.repeat, 0)
                self._said[measure][key] = (answer.label, answer.value)
        return self._said[measure]


def _step(cell: Json, steps: int, from_one: bool) -> int | None:
    if cell is None or cell == "":
        return None
    step = _index(cell, "step") - from_one
    if not 0 <= step < steps:
        why = f"step {_quote(cell)}; the run has {steps} steps, from {int(from_one)}"
        raise RefusedRow("no such step", why)
    return step


def _index(cell: Json, what: str) -> int:
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    if isinstance(cell, bool) or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise RefusedRow(f"no {what}", f"{what} {_quote(cell)}; expected an index")
    return int(text)


def _moment(cell: Json) -> int | None:
    """Return a time in nanoseconds: a count of these, or a date and time."""
    if cell is None or cell == "":
        return None
    if str(cell).isascii() and str(cell).isdigit() and int(str(cell)[:20]) < 2**63:
        return int(str(cell))
    try:
        return parse_moment("given_at", str(cell))
    except UsageError as e:
        raise RefusedRow("no time", str(e)) from e


def _count(cells: Mapping[str, Json], field: str) -> int | None:
    cell = cells.get(field)
    if cell is None or cell == "":
        return None
    text = str(cell)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise RefusedRow("no number", f"{field} {_quote(cell)}; expected a whole number")
    return int(text)


def _number(what: str, cell: Json, *, share: bool = True) -> float | None:
    if cell is None or cell == "":
        return None
    try:
        number = math.nan if isinstance(cell, bool) else float(str(cell))
    except ValueError:
        number = math.nan
    if not (0 <= number <= 1 if share else math.isfinite(number)):
        expected = "a number from 0 to 1" if share else "a number"
        raise RefusedRow("no number", f"{what} {_quote(cell)}; expected {expected}")
    return number


def _cites(cell: Json, steps: int) -> tuple[int, ...]:
    if cell is None or cell == "":
        return ()
    parts = cell if isinstance(cell, list) else str(cell).strip("[]").replace(",", " ").split()
    cited = tuple(_index(part, "step") for part in parts)
    if any(step >= steps for step in cited):
        raise RefusedRow("no such step", f"cites {_quote(cell)}; the run has {steps} steps")
    return cited


def _quote(cell: Json) -> str:
    text = visible_line(str(cell))
    return repr(text if len(text) <= _QUOTED else text[:_QUOTED] + "…")


def read_label_file(
    store: Store, stream: Stream, *, rubric: str | None, rater: str | None
) -> tuple[list[Label], int]:
    """Return the labels of a file, of which nothing is stored; and how many rows are none."""
    adding = VerdictImport(store, records.HUMAN, columns={}, labels={}, rubric=rubric, rater=rater)
    adding.alone = True
    found, refused = list[Label](), 0
    for row in verdicts.read_verdict_rows(stream):
        for one in [] if isinstance(row, Quarantined) else adding.unfold(row):
            try:
                label = adding.record(one)
            except RefusedRow:
                label = None
            found += [label] if isinstance(label, Label) else []
            refused += not isinstance(label, Label)
    return found, refused


class Proxies(msgspec.Struct, frozen=True, kw_only=True):
    """What users did, as a file tells it: signal -> run's id -> value from 0 to 1."""

    rows: int
    signals: dict[str, dict[str, float]]
    quarantined: dict[str, int]  # rows set aside, by why
    refused: tuple[str, ...]  # the first of them

    def __str__(self) -> str:
        """Say how many rows there are, and which were set aside."""
        aside = sum(self.quarantined.values())
        why = ", ".join(f"{n:,} {kind}" for kind, n in sorted(self.quarantined.items()))
        head = f"{self.rows:,} rows, {aside:,} set aside" + (f" ({why})" if why else "")
        return "\n".join([head, *_name_first(self.refused, aside)])


def read_proxies(store: Store, stream: Stream, placebo: str | None = None) -> Proxies:
    """Read rows of run, signal, value and time, of which nothing is stored.

    A value that contradicts an earlier row is set aside, as is a time before the run began.
    """
    adding = VerdictImport(store, records.IMPORTED, columns={}, labels={}, rubric=None, rater=None)
    runs, count = store.runs(), 0
    began = dict(zip(runs.id.tolist(), runs.start_ns.tolist(), strict=True))
    signals, refused, kinds = dict[str, dict[str, float]](), list[str](), Counter[str]()
    for row in verdicts.read_verdict_rows(stream):
        count += 1
        try:
            if isinstance(row, Quarantined):
                raise RefusedRow("unreadable", row.reason)
            run, name = adding.find_run(row.cells)[0], str(row.cells.get("signal") or "").strip()
            name, cell = re.sub(r"[ -]", "_", name.lower()), row.cells.get("value")
            flag = _TRUTHS.get(str(cell).lower())
            value = _number("value", cell) if flag is None else float(flag)
            when, start = _moment(row.cells.get("time")), began[run]
            if name not in (*SIGNALS, placebo):
                what = f"signal {_quote(name)}; expected {', '.join(SIGNALS)} or the placebo"
                raise RefusedRow("unknown signal", what)
            if value is None:
                raise RefusedRow("no number", "no value; expected a number from 0 to 1")
            if when is not None and start is not None and when < start:
                raise RefusedRow("before the run", f"time {_quote(row.cells['time'])} is before it")
            if signals.setdefault(name, {}).setdefault(run, value) != value:
                raise RefusedRow("contradicts", f"an earlier row has another {name} of this run")
        except RefusedRow as e:
            kinds[e.kind] += 1
            at = "" if isinstance(row, Quarantined) else f"row {row.place}: "
            refused += [f"{at}{e}"] if len(refused) < _NAMED else []
    if not signals:
        why = visible_line(refused[0]) if refused else "it has none"
        raise TraceError(f"{stream.uri}: no row with run, signal and value can be used: {why}")
    return Proxies(rows=count, signals=signals, quarantined=dict(kinds), refused=tuple(refused))


def add_verdicts(store: Store, stream: Stream, adding: VerdictImport) -> AddedVerdicts:
    """Read a file of verdicts into the store.

    Raises:
        UsageError: a column that was named is not there.
        TraceError: the file cannot be read, or holds nothing.
    """
    count = new = 0
    checked = False
    batch: list[Record] = []
    people: list[tuple[Row, Label]] = []
    broken: list[Quarantined] = []

    def refuse(row: Row, why: RefusedRow) -> None:
        adding.quarantined[why.kind] += 1
        where = f"row {row.place}: {why}" if row.tabular else str(why)
        broken.append(Quarantined(reason=where, offset=row.place, raw=row.raw, uri=stream.uri))

    for row in verdicts.read_verdict_rows(stream):
        count += 1
        if isinstance(row, Quarantined):
            broken.append(row)
            adding.quarantined["unreadable"] += 1
            continue
        unfolded = adding.unfold(row)
        if row.tabular and not checked and unfolded == [row]:
            adding.check(row.cells)
            checked = True
        adding.empty += not unfolded
        for one in unfolded:
            try:
                record = adding.record(one)
            except RefusedRow as e:
                refuse(row, e)
                continue
            if isinstance(record, Label):
                people.append((row, record))
            elif record is not None:
                batch.append(record)
        if len(batch) + len(people) >= _BATCH:
            new += store.append(batch) + adding.give_labels(people, refuse)
            batch, people = [], []
    if not count:
        raise TraceError(f"{stream.uri}: no rows; expected a header and verdicts, or JSON lines")
    new += store.append(batch) + adding.give_labels(people, refuse)
    given, refused = adding.give_outcomes()
    new += given
    for row, why in refused:
        refuse(row, why)
    store.quarantine(broken)
    first = broken[:_NAMED]
    places = ["" if x.reason.startswith("row ") else f"byte {x.offset}: " for x in first]
    return AddedVerdicts(
        uri=stream.uri,
        rows=count,
        new=new,
        known=adding.known,
        empty=adding.empty,
        quarantined=dict(adding.quarantined),
        rubrics=dict(sorted(adding.rubrics.items())),
        raters=tuple(adding.raters),
        unknown=tuple(name for name in sorted(adding.rubrics) if adding.menu(name) is None),
        refused=tuple(at + one.reason for at, one in zip(places, first, strict=True)),
        conflicts=tuple(adding.conflicts()),
        outranked=outrank_verdicts(store) if given else 0,
    )
