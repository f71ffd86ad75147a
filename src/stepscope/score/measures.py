"""Run measures over a store: plan, worker processes, checked answers. Resumes after a kill.

What was answered under a record's key is never asked again; the same input gives the same records.
Facts are fitted from all runs of a workflow before the first question, so neither the order of runs
nor an interruption shows in an answer. A measure may be anybody's code: if it crashes, answers off
its scale, twice, or citing steps that do not exist, that is one `Unmeasured("error")`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite

import msgspec

from stepscope import registry
from stepscope.errors import ConfigError
from stepscope.measures import facts as run_facts
from stepscope.model import Answer, Case, Facts, Figures, Measure, Scale, Trajectory, Verdict
from stepscope.registry import PluginFault
from stepscope.runtime.database import MEMORY
from stepscope.runtime.processes import Executor, Job, cores
from stepscope.store import Store
from stepscope.store.records import AnswerLine, Question, encode_answer
from stepscope.store.runs import StoredRun
from stepscope.store.store import Current
from stepscope.store.where import Where, parse_where
from stepscope.values import Unmeasured

# An exception's text may hold half a trace; a reason is one line.
_REASON_CHARACTERS = 300


class MeasurePlan(msgspec.Struct, frozen=True):
    """What every process needs to know: measures by registry name, facts by workflow."""

    measures: tuple[str, ...]
    facts: dict[str, Facts]
    store: str = ""  # path of the store that a child process opens


class AnswerBatch(msgspec.Struct, array_like=True):
    """Answers ready for the store; `unmeasured` counts those about whole runs, by kind."""

    questions: list[Question]
    lines: list[AnswerLine]
    runs: int
    unmeasured: dict[str, int]


# A run's row, and which measures to ask: bit n stands for measure n of the plan.
RunTask = tuple[int, int]


class MeasureRunner:
    """The measures of a plan, loaded; answers come as lines of a batch."""

    def __init__(self, plan: MeasurePlan) -> None:
        self._measures = [registry.measure(name) for name in plan.measures]
        self._facts = plan.facts
        self._hashes = {
            (workflow, at): facts.hash_of(measure.learns)
            for workflow, facts in plan.facts.items()
            for at, measure in enumerate(self._measures)
        }

    def batch(self, stored: Iterable[StoredRun], masks: Mapping[int, int]) -> AnswerBatch:
        """Ask about runs; `masks` gives the measures to ask, by the run's row."""
        asked: dict[tuple[str, int, str], int] = {}
        questions: list[Question] = []
        batch = AnswerBatch(questions, [], 0, {})
        for run in stored:
            batch.runs += 1
            workflow = run.trajectory.workflow
            facts = self._facts.get(workflow)
            trajectory = run_facts.supply_context(run.trajectory, facts)
            for at, measure in enumerate(self._measures):
                if not masks[run.key] >> at & 1:
                    continue
                for answer in ask_measure(measure, trajectory, trajectory.case, facts):
                    key = (answer.measure, at, workflow)
                    question = asked.get(key)
                    if question is None:
                        question = asked[key] = len(questions)
                        hash_ = self._hashes.get((workflow, at), "")
                        questions.append(Question(answer.measure, measure.version, hash_))
                    batch.lines.append((question, run.key, run.case_id, 0, *encode_answer(answer)))
                    if answer.step is None and type(answer) is Unmeasured:
                        kind = answer.kind
                        batch.unmeasured[kind] = batch.unmeasured.get(kind, 0) + 1
        return batch


def ask_measure(
    measure: Measure, trajectory: Trajectory, case: Case | None, facts: Facts | None
) -> list[Answer]:
    """Return one measure's checked answers about a run; a crash is one of them."""
    try:
        with registry.guarded():
            given = list(measure(trajectory, case, facts))
    except PluginFault as e:
        return [Unmeasured("error", _storable(str(e)[:_REASON_CHARACTERS]), measure.name)]
    return check_answers(measure, given, len(trajectory.steps))


def check_answers(measure: Measure, given: Iterable[object], steps: int) -> list[Answer]:
    """Return the answers with every unsound one replaced by why it is refused.

    An answer about a step that does not exist, or no answer at all, spoils the whole-run answer of
    its aspect.
    """
    kept: dict[tuple[str, int | None], Answer] = {}
    spoiled: dict[str, Unmeasured] = {}
    whole: set[str] = set()
    at_steps: set[str] = set()
    own, scale = measure.name, measure.scale
    for answer in given:
        sound = _check_answer(own, scale, answer, steps)
        key = (sound.measure, sound.step)
        if sound.step is not None:
            at_steps.add(sound.measure)
        else:
            whole.add(sound.measure)
            if sound is not answer and type(sound) is Unmeasured and type(answer) is not Unmeasured:
                spoiled[sound.measure] = sound
        if key in kept:
            where = "the whole run" if sound.step is None else f"step {sound.step}"
            reason = f"answered twice about {where}"
            spoiled.setdefault(sound.measure, Unmeasured("error", reason, sound.measure))
        kept[key] = sound
    for name in at_steps - whole if kept else {own}:
        kept[name, None] = Unmeasured("error", "gave no answer about the whole run", name)
    for name, fault in spoiled.items():
        kept[name, None] = fault
    return list(kept.values())


def _check_answer(own: str, scale: Scale, answer: object, steps: int) -> Answer:
    """Return the answer itself where it is sound, else why it is not."""
    # By type, not isinstance: this line runs for every answer of every run.
    if type(answer) is not Verdict and type(answer) is not Unmeasured:
        found = type(answer).__name__
        return Unmeasured("error", f"gave a {found}; expected Verdict or Unmeasured", own)
    name = answer.measure or own
    if name != own and not name.startswith(own + "."):
        return Unmeasured("error", f"gave an answer named {name!r}; its name is {own!r}", own)
    step = answer.step
    if step is not None and not (type(step) is int and 0 <= step < steps):
        reason = f"an answer about step {step!r}; the run has {steps} steps"
        return Unmeasured("invalid_evidence", reason, name)
    if isinstance(answer, Unmeasured):
        if answer.measure and answer.reason.isascii():
            return answer
        return Unmeasured(answer.kind, _storable(answer.reason), name, step)
    for cited in answer.cites:
        if not (type(cited) is int and 0 <= cited < steps):
            reason = f"cites step {cited!r}; the run has {steps} steps"
            return Unmeasured("invalid_evidence", reason, name, step)
    value = answer.value
    # A number on the scale and nothing else, as most answers are.
    is_figure = type(value) is float and scale.low <= value <= scale.high and isfinite(value)
    is_figure = is_figure and answer.label is None and answer.confidence is None
    if not is_figure and (reason := _off_scale(scale, answer)):
        return Unmeasured("error", reason, name, step)
    if (
        answer.reason.isascii()
        and (answer.label is None or answer.label.isascii())
        and type(answer.value) in (float, type(None))
    ):
        return answer
    return msgspec.structs.replace(
        answer,
        value=None if answer.value is None else float(answer.value),
        label=None if answer.label is None else _storable(answer.label),
        reason=_storable(answer.reason),
    )


def _off_scale(scale: Scale, answer: Verdict) -> str:
    """Return what is wrong with an answer's value, label or confidence, "" when nothing is."""
    # Structs made in Python are not type-checked: a plugin may put anything here.
    value: object = answer.value
    label: object = answer.label
    sure: object = answer.confidence
    if value is not None:
        if not isinstance(value, (float, int)) or isinstance(value, bool) or not isfinite(value):
            return f"value {value!r} is no finite number"
        if not scale.low <= value <= scale.high:
            return f"value {value!r} is off the declared scale [{scale.low:g}, {scale.high:g}]"
    elif not label:
        return "gave neither a value nor a label"
    if label is not None:
        if not isinstance(label, str):
            return f"label {label!r} is no text"
        if scale.labels and label not in scale.labels:
            return f"label {label!r} is not among the declared {', '.join(scale.labels)}"
    if sure is not None and not (isinstance(sure, (float, int)) and 0 <= sure <= 1):
        return f"confidence {sure!r} is no share"
    return ""


def _storable(text: str) -> str:
    """Return text without lone surrogates, which no UTF-8 can hold."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


# Chunks asked before their turn: two a process keep all busy; more would only fill memory.
_AHEAD = 2
_DIED = (
    "a scoring process ended (exit code {code}); finished scores are kept: run it again to resume, "
    "with --workers 1 if memory is short"
)
_encode_frame = msgspec.msgpack.encode
_plan_decoder = msgspec.msgpack.Decoder(MeasurePlan)
_chunk_decoder = msgspec.msgpack.Decoder(list[RunTask])
_batch_decoder = msgspec.msgpack.Decoder(AnswerBatch)


def score_chunk(store: Store, asker: MeasureRunner, chunk: Sequence[RunTask]) -> AnswerBatch:
    """Read the runs of a chunk and ask about them; a run purged meanwhile is left out."""
    return asker.batch(store.stored([key for key, _ in chunk]), dict(chunk))


def score_chunks(
    path: str, plan: MeasurePlan, chunks: Iterable[Sequence[RunTask]], workers: int
) -> Iterator[AnswerBatch]:
    """Yield the answers to every chunk, in the order of the chunks, from `workers` processes."""
    executor = Executor(workers=workers, ahead=_AHEAD, died=_DIED)
    jobs = (Job(None, _encode_frame(list(chunk))) for chunk in chunks)
    first = _encode_frame(msgspec.structs.replace(plan, store=path))
    for _, reply in executor.map(begin_scoring, first, jobs):
        yield _batch_decoder.decode(reply)


@contextmanager
def begin_scoring(first: bytes) -> Iterator[Callable[[bytes], bytes]]:
    """Give what scores chunks of runs in a child process, `first` being the plan."""
    plan = _plan_decoder.decode(first)
    with Store.open(plan.store) as store:
        asker = MeasureRunner(plan)
        yield lambda frame: _encode_frame(score_chunk(store, asker, _chunk_decoder.decode(frame)))


# Starting processes costs about half a second: what this many runs cost in one process.
POOL_FROM_RUNS = 1_500
# Runs in one durable batch: some 5,000 records, a tenth of a second of work.
CHUNK_RUNS = 128
# Passing runs of a workflow that preconditions are mined from: enough for shares of .98, and read
# in some 30 milliseconds.
MINED_RUNS = 300
_PASSED = parse_where("outcome = 'pass'")


class ScoringResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `score_runs` did."""

    runs: int  # runs that were asked about
    records: int  # new records in the store
    # whole-run answers of this call that measured nothing, by kind
    unmeasured_by_kind: dict[str, int]
    skipped: int  # runs that had all their answers already
    outdated: int = 0  # runs whose answers were given under another tool list or policy

    def __str__(self) -> str:
        kinds = sorted(self.unmeasured_by_kind.items(), key=lambda item: (-item[1], item[0]))
        absent = ", ".join(f"{count:,} {kind}" for kind, count in kinds) or "none"
        return (
            f"{self.runs:,} runs scored, {self.records:,} values stored; unmeasured: {absent}; "
            f"{self.skipped:,} runs were already scored"
            + (f"; {self.outdated:,} under another tool list or policy" if self.outdated else "")
        )


def score_runs(
    store: Store,
    *,
    measures: Sequence[str] | None = None,  # registry names; all that are installed when left out
    where: Where | None = None,
    workflows: Container[str] | None = None,  # whose runs; all when left out
    declared: run_facts.DeclaredConduct | None = None,  # what the user says about tools and conduct
    workers: int | None = None,  # processes; when left out, one a core for many runs
    progress: Callable[[int, int], None] | None = None,  # called with runs done and runs to do
) -> ScoringResult:
    """Ask every measure about every run that it has not answered for yet; never spends.

    Every batch is durable: `EnvironmentFault` where the disk is full or a process died, and calling
    again goes on. `ConfigError` where a measure is unknown, or named as an aspect of another.
    """
    names = tuple(registry.names("measures") if measures is None else dict.fromkeys(measures))
    asked = [registry.measure(name) for name in names]
    _refuse_aspects([measure.name for measure in asked])
    workflow_of = store.workflows()
    if workflows is not None:
        workflow_of = {key: name for key, name in workflow_of.items() if name in workflows}
    facts = _fit_facts(store, declared, workflow_of)
    current = [
        Current(measure.name, workflow, measure.version, fitted.hash_of(measure.learns))
        for measure in asked
        for workflow, fitted in facts.items()
    ]
    changed = {
        name
        for name, one in facts.items()
        if (last := store.facts(name)) is not None
        and (last.tools, last.instructions) != (one.tools, one.instructions)
    }
    store.put_facts(facts.values(), current)
    keys = [key for key in store.keys(where) if key in workflow_of]
    bits = {measure.name: 1 << at for at, measure in enumerate(asked)}
    whole = (1 << len(asked)) - 1
    have: dict[int, int] = {}
    for question in current:
        for key in store.answered(question):
            have[key] = have.get(key, 0) | bits[question.measure]
    todo = [(key, whole & ~have.get(key, 0)) for key in keys if have.get(key, 0) != whole]
    plan = MeasurePlan(names, facts)
    done = records = 0
    unmeasured: Counter[str] = Counter()
    for batch in _score_tasks(store, plan, todo, workers):
        records += store.append_lines(batch.questions, batch.lines)
        done += batch.runs
        unmeasured.update(batch.unmeasured)
        if progress is not None:
            progress(done, len(todo))
    return ScoringResult(
        runs=done,
        records=records,
        unmeasured_by_kind=dict(sorted(unmeasured.items())),
        skipped=len(keys) - len(todo),
        outdated=sum(workflow_of[key] in changed for key, _ in todo),
    )


def _refuse_aspects(asked: Sequence[str]) -> None:
    known = {*asked, *registry.names("measures")}
    for name in asked:
        words = name.split(".")
        for length in range(1, len(words)):
            if (whole := ".".join(words[:length])) in known:
                said = f"measure {name!r} would be an aspect of {whole!r}"
                raise ConfigError(f"{said}; choose another name")


def _fit_facts(
    store: Store, declared: run_facts.DeclaredConduct | None, workflow_of: Mapping[int, str]
) -> dict[str, Facts]:
    rows: dict[str, list[tuple[str, Figures]]] = {}
    for workflow, outcome, figures in store.figures():
        rows.setdefault(workflow, []).append((outcome, figures))
    passing = _passing_uses(store, workflow_of)
    return {
        workflow: run_facts.fit_facts(
            workflow, rows[workflow], declared=declared, passing_uses=passing.get(workflow, ())
        )
        for workflow in sorted(rows.keys() & {*workflow_of.values()})
    }


def _passing_uses(
    store: Store, workflow_of: Mapping[int, str]
) -> dict[str, list[tuple[run_facts.SuccessfulCall, ...]]]:
    """Return what succeeded in the first passing runs of each workflow, in order of import.

    The first, so that what was mined stays what it is as runs come in, and answers stay current.
    """
    chosen: dict[str, list[int]] = {}
    for key in sorted(workflow_of.keys() & store.keys(_PASSED)):
        keys = chosen.setdefault(workflow_of[key], [])
        if len(keys) < MINED_RUNS:
            keys.append(key)
    return {
        workflow: [run_facts.successful_calls(stored.trajectory) for stored in store.stored(keys)]
        for workflow, keys in chosen.items()
    }


def _score_tasks(
    store: Store, plan: MeasurePlan, todo: list[RunTask], workers: int | None
) -> Iterator[AnswerBatch]:
    chunks = (todo[at : at + CHUNK_RUNS] for at in range(0, len(todo), CHUNK_RUNS))
    if workers is None:
        workers = cores() if len(todo) >= POOL_FROM_RUNS else 1
    if workers > 1 and store.path != MEMORY and todo:
        yield from score_chunks(store.path, plan, chunks, workers)
        return
    asker = MeasureRunner(plan)
    for chunk in chunks:
        yield score_chunk(store, asker, chunk)
