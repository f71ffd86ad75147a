"""The raters of a rubric, read from stored records, and their ratings as an array.

A judge is one rater whatever snapshot of its model answered. Of several versions of a rubric that
of most runs counts, as in a report; what is left out (repeats, other versions, other modes,
verdicts on steps of users, systems or tools) is counted. The rules prove faults and never say
correct, so that they are no rater; what they prove is compared with each. The array has items down
and raters across; scores are put into the four bands of the no-look rubric; `uncertain` and
`not_applicable` are labels; -1 is no verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from stepscope.calibrate.types import Rater, RaterAnswer, Unit
from stepscope.errors import StoreError, UsageError
from stepscope.measures.step_features import agent_steps
from stepscope.model import Answer, Label, Record, Verdict
from stepscope.model.labels import ADJUDICATION
from stepscope.model.records import (
    HUMAN,
    ISOLATED_SUFFIX,
    JUDGE_PREFIX,
    LOOKS_SUFFIX,
    NOT_MODELS,
    PREFIX_SUFFIX,
    RULES,
    SEAMS_SUFFIX,
    STEP_LABELS_NAME,
    STEP_SCORES,
    UNCERTAIN,
)
from stepscope.stats.sample import Floats, Ints
from stepscope.stats.sample import codes as numbered
from stepscope.store import Store
from stepscope.store.columns import AnswerColumn, LabelledRows, Rows, Runs
from stepscope.store.judged import MODE, judge_version_order, read_judge_answers
from stepscope.store.where import Where
from stepscope.values import Unmeasured, UnmeasuredKind

# Which answers are ratings, as reports say it.
WHAT_ENTERS = (
    "uncertain and not_applicable of judges and people are labels; the rules prove faults and rate "
    "nothing else; unmeasured verdicts are counted and are no labels"
)
# Behind measures that rate nothing of their own: of a rubric asked in another view, how windows fit
# together, what a judge looked up.
BESIDE = (ISOLATED_SUFFIX, PREFIX_SUFFIX, SEAMS_SUFFIX, LOOKS_SUFFIX)

# A run's id, and the step, None for the whole run.
Item = tuple[str, int | None]
# A rater's family, and its name.
RaterKey = tuple[str, str]
# Why a verdict on a step is no rating: only what the agent did is rated.
NOT_OF_AGENT = "on steps of users, systems or tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterVerdicts:
    """What one rater said."""

    name: str  # the rater
    family: str  # its family
    said: dict[Item, Answer]  # its answers under the version of the rubric that most runs have
    version: str  # that version
    # its answers under the version before, and that version; empty without one
    before: tuple[str, dict[Item, Answer]]
    snapshots: tuple[str, ...] = ()  # of the model, as told by the records in `said`
    prompts: tuple[str, ...] = ()  # under which these were given
    silent: int = 0  # answers of the rules whose checks proved nothing
    left_out: dict[str, int] = field(default_factory=dict)  # records that are not in `said`, by why


def read_ratings(
    rows: Rows,
    *,
    where: Where | None = None,
    rubric: str | None = None,
    raters: Container[RaterKey] | None = None,
    version: str | None = None,
    adjudicated: bool = False,
) -> list[RatingTable]:
    """Return every rubric that somebody but the rules rated, by name, whole runs before steps.

    `raters` are those that count; all when left out. With a version of rubrics only what judges
    answered under it. Where `adjudicated`, that answer takes the place of what people said.
    """
    runs = rows.runs(where)
    names = dict(zip(runs.id.tolist(), runs.name.tolist(), strict=True))
    own: dict[str, frozenset[int] | None] = {}
    found = []
    for aspect in rated_rubrics(rows.measures(), rubric):
        if aspect == STEP_SCORES and rubric is None and isinstance(rows, Store):
            if rows.raters(STEP_SCORES) < 2:
                continue
        name = rating_measure(aspect)
        given = [r for r in rows.records(where, measure=name) if r.family != RULES]
        given += _rules(rows, runs, where, aspect)
        stepped = {r.trajectory for r in given if r.answer.step is not None} - own.keys()
        own |= load_agent_steps(rows, runs, stepped)
        for unit in ("runs", "steps"):
            told = read_raters(given, unit, own, version)
            voices = tuple(voice for voice in told if raters is None or rater_key(voice) in raters)
            others = [voice for voice in voices if voice.family != RULES]
            answers = chain.from_iterable(voice.said.values() for voice in others)
            left_out = any(NOT_OF_AGENT in voice.left_out for voice in others)
            if left_out or any(isinstance(answer, Verdict) for answer in answers):
                found.append(rating_table(aspect, unit, voices, names))
                if adjudicated and isinstance(rows, LabelledRows):
                    found[-1] = _settle(found[-1], rows.labels(where, measure=name))
    return found


def rating_measure(aspect: str) -> str:
    """Return the measure under which raters answer a rubric."""
    return aspect if aspect == STEP_SCORES else JUDGE_PREFIX + aspect


def load_agent_steps(
    rows: Rows, runs: Runs, wanted: Container[str]
) -> dict[str, frozenset[int] | None]:
    """Return the agent's steps of the wanted runs by id, None where nothing tells them."""
    found: dict[str, frozenset[int] | None] = {}
    chosen = [(place, run) for place, run in enumerate(runs.id.tolist()) if run in wanted]
    cited = rows.cited(f"{STEP_LABELS_NAME}.steps", runs) if chosen else []
    for place, run in chosen:
        known = cited[place]
        if known is None and isinstance(rows, Store):
            # Where its texts were purged, the run cannot be opened.
            with suppress(StoreError):
                known = tuple(agent_steps(rows.trajectory(run)))
        found[run] = None if known is None else frozenset(known)
    return found


def rater_key(voice: RaterVerdicts) -> RaterKey:
    """Return the family and name of a rater, the name as it is where it stands alone."""
    return voice.family, voice.name.removesuffix(f" ({voice.family})")


def choose_raters(
    rows: Rows,
    words: Iterable[str] | None,
    *,
    where: Where | None,
    rubric: str | None,
    version: str | None = None,
) -> frozenset[RaterKey] | None:
    """Return the raters that words name: whole, by the end behind a slash, or by family.

    A word that is none of these names all whose name or family begins so; one that names nobody is
    a `UsageError`, as is a version of rubrics under which nobody answered. None where all count.
    """
    if version is not None:
        read_judge_answers(rows, rows.runs(where), where, version=version)
    if words is None:
        return None
    tables = read_ratings(rows, where=where, rubric=rubric)
    known = sorted({rater_key(voice) for table in tables for voice in table.voices})
    found: set[RaterKey] = set()
    for word in words:
        named = {key for key in known if word in (*key, key[1].rpartition("/")[2])} or {
            key for key in known if word and any(part.startswith(word) for part in key)
        }
        if not named:
            there, families = (", ".join(dict.fromkeys(key[at] for key in known)) for at in (1, 0))
            told = f"raters: {there or 'none'}; families: {families or 'none'}"
            raise UsageError(f"--raters {word!r}: no such rater; {told}")
        found |= named
    return frozenset(found)


def rated_rubrics(measures: Iterable[str], rubric: str | None) -> list[str]:
    """Return the rubrics among the names of measures, the one asked for or those of its set."""
    kept = [name for name in measures if not name.endswith(BESIDE)]
    named = [name.removeprefix(JUDGE_PREFIX) for name in kept if name.startswith(JUDGE_PREFIX)]
    named += [STEP_SCORES] if STEP_SCORES in kept else []
    if rubric is None:
        return sorted(named)
    return sorted(name for name in named if name == rubric or name.startswith(f"{rubric}."))


def read_raters(
    records: Iterable[Record],
    unit: Unit,
    own: Mapping[str, Container[int] | None],
    version: str | None = None,
) -> tuple[RaterVerdicts, ...]:
    """Return what each rater said of runs, or of steps: by family and name, the rules last.

    `own` are the agent's steps of each run: verdicts on others are counted and left out. `version`
    is as for `read_ratings`.
    """
    found = tuple(_voices((one for one in records if _is_rating(one, unit)), own, version))
    names = Counter(voice.name for voice in found)
    # A judge that judged here and whose verdicts came from elsewhere too is two raters.
    return tuple(
        replace(voice, name=f"{voice.name} ({voice.family})") if names[voice.name] > 1 else voice
        for voice in found
    )


def _is_rating(record: Record, unit: Unit) -> bool:
    answer = record.answer
    if (answer.step is None) != (unit == "runs"):
        return False
    return (
        not isinstance(answer, Verdict)
        or answer.label is not None
        or (answer.measure == STEP_SCORES and answer.value is not None)
    )


def _rules(rows: Rows, runs: Runs, where: Where | None, aspect: str) -> Iterator[Record]:
    """Yield the current records of the rules: of each run those that its column was read from."""
    if aspect == STEP_SCORES:
        return
    column: AnswerColumn | None = None
    at: dict[str, int] = {}
    sets: dict[str, dict[tuple[str, str, str], list[Record]]] = {}
    for record in rows.records(where, measure=aspect):
        if record.family == RULES:
            key = (record.version, record.facts, record.case)
            sets.setdefault(record.trajectory, {}).setdefault(key, []).append(record)
    for run, by_key in sets.items():
        if column is None:
            column = rows.column(aspect, runs)
            at = {id_: place for place, id_ in enumerate(runs.id.tolist())}
        current = [found for found in by_key.values() if _is_current(found, column, at[run])]
        yield from current[-1] if current else ()


def _is_current(records: Iterable[Record], column: AnswerColumn, at: int) -> bool:
    whole = next((r.answer for r in records if r.answer.step is None), None)
    if not isinstance(whole, Verdict):
        return whole is not None and bool(column.state[at] < 0)
    # A value that is absent is NaN in its column, and equals nothing there.
    same = whole.value is None or whole.value == column.value[at]
    return bool(column.answered[at]) and whole.label == column.label[at] and same


def _voices(
    records: Iterable[Record], own: Mapping[str, Container[int] | None], version: str | None
) -> Iterator[RaterVerdicts]:
    by_rater: dict[tuple[bool, str, str], list[Record]] = {}
    for record in records:
        judge = record.judge
        name = judge if record.family in NOT_MODELS else judge.partition("@")[0]
        key = (record.family == RULES, record.family, name or record.family)
        by_rater.setdefault(key, []).append(record)
    for (_, family, name), given in sorted(by_rater.items()):
        yield _voice(family, name, given, own, None if family in NOT_MODELS else version)


def _voice(
    family: str,
    name: str,
    given: Iterable[Record],
    own: Mapping[str, Container[int] | None],
    version: str | None,
) -> RaterVerdicts:
    left = {NOT_OF_AGENT: 0, "repeats": 0, "other versions": 0, "variants": 0}
    versions: dict[tuple[str, str], list[Record]] = {}
    silent = 0
    for record in given:
        answer = record.answer
        under, _, mode = record.version.partition(MODE)
        steps = None if answer.step is None else own.get(record.trajectory)
        if steps is not None and answer.step not in steps:
            left[NOT_OF_AGENT] += 1
        elif record.repeat:
            left["repeats"] += 1
        elif family == RULES and isinstance(answer, Verdict) and answer.label == UNCERTAIN:
            silent += 1
        else:
            versions.setdefault((mode, under), []).append(record)
    # Asked as usual; or, never asked so, in the mode that there is.
    usual = min((mode for mode, _ in versions), default="")
    ordered = sorted((v for mode, v in versions if mode == usual), key=judge_version_order)
    judged = {
        name: len({r.trajectory for r in versions[usual, name] if isinstance(r.answer, Verdict)})
        for name in ordered
    }
    # Of two versions with as many runs the later.
    chosen = version or max(reversed(ordered), key=lambda name: judged[name], default="")
    before = ["", *ordered][ordered.index(chosen)] if chosen in ordered else ""
    left["variants"] = sum(len(told) for (mode, _), told in versions.items() if mode != usual)
    left["other versions"] = sum(len(versions[usual, name]) for name in ordered if name != chosen)
    kept = _latest(versions.get((usual, chosen), []))
    marks = {r.judge.partition("@")[2] for r in kept.values() if family not in NOT_MODELS}
    old = _latest(versions.get((usual, before), []))
    return RaterVerdicts(
        name=name,
        family=family,
        said={item: record.answer for item, record in kept.items()},
        version=chosen + (MODE + usual if usual else ""),
        before=(before, {item: record.answer for item, record in old.items()}),
        snapshots=tuple(sorted(marks - {""})),
        prompts=tuple(sorted({record.prompt for record in kept.values()})),
        silent=silent,
        left_out={why: n for why, n in left.items() if n},
    )


def _latest(records: Iterable[Record]) -> dict[Item, Record]:
    """Return the answers about each run under the last prompt, by the last snapshot there."""
    made: dict[str, dict[tuple[str, str], dict[Item, Record]]] = {}
    for record in records:
        told = made.setdefault(record.trajectory, {}).setdefault((record.prompt, record.judge), {})
        item = (record.trajectory, record.answer.step)
        # An answer against a case takes the place of one against none.
        if item not in told or record.case >= told[item].case:
            told[item] = record
    return {item: record for of in made.values() for item, record in of[max(of)].items()}


# Where one band of the no-look rubric ends, half-way between the scores that it names, and the
# next begins: not achieved to .2, partial from .3, with caveats from .6, fully from .9.
BANDS = ((0.25, "0-.2"), (0.55, ".3-.5"), (0.85, ".6-.8"), (2.0, ".9-1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingTable:
    """What raters said of items: one rubric at one granularity."""

    aspect: str  # the rubric
    unit: Unit
    voices: tuple[RaterVerdicts, ...]  # the raters, in the order of the columns
    names: Mapping[str, str]  # of runs, by id
    items: tuple[Item, ...]  # what anybody was asked about, by name of the run, run and step
    labels: tuple[str, ...]  # what the codes stand for; bands in their order, else by name
    codes: Ints  # shape (items, raters), -1 where a rater has none
    values: Floats  # shape (items, raters), scores; NaN where there is none
    runs: Ints  # shape (items,), a number for the run of each item
    confidence: Floats  # shape (items, raters), as raters gave it; NaN where there is none
    # shape (items, raters), which of `cited` each cites; -1 where there is no verdict, and of a
    # rater who never cites: people, files from elsewhere
    cites: Ints
    cited: tuple[frozenset[int], ...]  # of a step those beside itself
    # for each rater the kind of each answer that there is not, by place of the item
    absent: tuple[dict[int, UnmeasuredKind], ...]

    @property
    def readers(self) -> list[int]:
        """The columns of all raters but the rules, which cannot say both fault and none."""
        return [at for at, voice in enumerate(self.voices) if voice.family != RULES]

    @property
    def rated(self) -> list[int]:
        """Those of them who gave a label."""
        return [at for at in self.readers if (self.codes[:, at] >= 0).any()]

    @property
    def people(self) -> list[int]:
        """Those of them who are people."""
        return [at for at in self.rated if self.voices[at].family == HUMAN]

    @property
    def scored(self) -> bool:
        """Whether the ratings are scores, so that near misses count as near."""
        return self.aspect == STEP_SCORES

    def answers(self, item: Item) -> tuple[RaterAnswer, ...]:
        """Return what each rater said of one item."""
        return tuple(
            rater_answer(voice.name, voice.family, verdict)
            for voice in self.voices
            if isinstance(verdict := voice.said.get(item), Verdict)
        )

    def raters(self) -> tuple[Rater, ...]:
        """Return the raters, with counts of their labels and of what is missing."""
        found = []
        for voice, codes in zip(self.voices, self.codes.T, strict=True):
            counts = np.bincount(codes[codes >= 0], minlength=len(self.labels)).tolist()
            absent = (one.kind for one in voice.said.values() if isinstance(one, Unmeasured))
            rater = Rater(
                name=voice.name,
                family=voice.family,
                labels={label: n for label, n in zip(self.labels, counts, strict=True) if n},
                unmeasured=dict(Counter(absent)),
                silent=voice.silent,
                version=voice.version,
                snapshots=voice.snapshots,
                prompts=len(voice.prompts),
                left_out=voice.left_out,
            )
            found.append(rater)
        return tuple(found)

    def lost(self, columns: Sequence[int]) -> dict[str, int]:
        """Return how many items one of these raters could not answer, by kind."""
        kinds: dict[int, UnmeasuredKind] = {}
        for at in reversed(columns):
            kinds |= self.absent[at]
        return dict(Counter(kinds.values()))


def rating_table(
    aspect: str, unit: Unit, voices: tuple[RaterVerdicts, ...], names: Mapping[str, str]
) -> RatingTable:
    """Return what raters said of one rubric as an array."""
    every = {item for voice in voices for item in voice.said}
    items = tuple(
        sorted(every, key=lambda i: (names.get(i[0], ""), i[0], -1 if i[1] is None else i[1]))
    )
    answers = chain.from_iterable(voice.said.values() for voice in voices)
    used = {label_of(answer) for answer in answers if isinstance(answer, Verdict)}
    labels = tuple(name for _, name in BANDS) if aspect == STEP_SCORES else tuple(sorted(used))
    code = {label: number for number, label in enumerate(labels)}
    place_of = {item: place for place, item in enumerate(items)}
    codes, cites = np.full((2, len(items), len(voices)), -1, np.int64)
    values, confidence = np.full((2, *codes.shape), np.nan)
    cited: dict[frozenset[int], int] = {frozenset(): 0}
    absent: list[dict[int, UnmeasuredKind]] = []
    for at, voice in enumerate(voices):
        lost: dict[int, UnmeasuredKind] = {}
        for item, answer in voice.said.items():
            place = place_of[item]
            if isinstance(answer, Unmeasured):
                lost[place] = answer.kind
                continue
            codes[place, at] = code[label_of(answer)]
            # None becomes NaN.
            values[place, at], confidence[place, at] = answer.value, answer.confidence
            steps = frozenset(answer.cites) - {item[1]}
            cites[place, at] = cited.setdefault(steps, len(cited))
        if cites[:, at].max(initial=-1) < 1:
            cites[:, at] = -1
        absent.append(dict(sorted(lost.items())))
    return RatingTable(
        aspect=aspect,
        unit=unit,
        voices=voices,
        names=names,
        items=items,
        labels=labels,
        codes=codes,
        values=values,
        runs=numbered(run for run, _ in items),
        confidence=confidence,
        cites=cites,
        cited=tuple(cited),
        absent=tuple(absent),
    )


def _settle(table: RatingTable, labels: Iterable[Label]) -> RatingTable:
    """Return the table with each adjudicated answer as that of all people."""
    names, codes, values = list(table.labels), table.codes.copy(), table.values.copy()
    places, people = {item: at for at, item in enumerate(table.items)}, table.people
    for one in labels:
        at, answer = places.get((one.trajectory, one.step)), one.record().answer
        if one.queue == ADJUDICATION and at is not None:
            codes[at, people], values[at, people] = -1, np.nan
            if isinstance(answer, Verdict):
                names += {label_of(answer)} - {*names}
                codes[at, people], values[at, people] = names.index(label_of(answer)), answer.value
    return replace(table, labels=tuple(names), codes=codes, values=values)


def rater_answer(rater: str, family: str, verdict: Verdict) -> RaterAnswer:
    """Return a rater's verdict as agreements show it."""
    return RaterAnswer(
        rater=rater,
        family=family,
        label=label_of(verdict),
        value=verdict.value,
        confidence=verdict.confidence,
        cites=verdict.cites,
        reason=verdict.reason,
    )


def label_of(verdict: Verdict) -> str:
    """Return what a verdict is compared by: its label, or the band of its score."""
    return score_band(verdict.value or 0.0) if verdict.label is None else verdict.label


def score_band(score: float) -> str:
    """Return the band of a score."""
    return next(name for end, name in BANDS if score < end)
