"""Queues of items to label: what may be asked, what was drawn of it, and how probable each was.

A uniform draw takes all items equally likely. An active draw mixes a uniform part with the judges'
own doubt (`stats.sampling`), so that every item has a known chance above zero and estimates
weighted by it stay honest. What is chosen because it looks wrong, or because raters disagree, has
no probability, and no rate is computed from it. What annotators answered differently is asked once
more, with the probability of their answers, when they have answered everything that they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import NamedTuple

import msgspec
import numpy as np

from stepscope.errors import DataError
from stepscope.labels.questions import LabelQuestion
from stepscope.measures.step_features import agent_steps
from stepscope.model import Label, Queue, Verdict
from stepscope.model.labels import ADJUDICATION, settle_labels
from stepscope.model.records import NEUTRAL, NOT_MODELS
from stepscope.stats import sampling
from stepscope.stats.sample import Floats, Ints
from stepscope.stats.sampling import UNIFORM, WORTH_DRAWING, draw, draw_shares
from stepscope.store import Store
from stepscope.store.samples import QueuedItem
from stepscope.store.where import Where

# Random labels of judged items from which the judges' confidence is recalibrated on them.
ENOUGH_LABELS = 20


class QueueDraw(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue was drawn from, and how."""

    measure: str
    unit: str
    queue: Queue
    policy: str
    size: int  # items in it
    population: int  # items that could have been drawn
    overlap: int = 0  # items that every annotator is asked
    round: int = 0  # of norming
    where: str = ""
    seed: int = 0
    remark: str = ""  # what to know of the draw


class Population(NamedTuple):
    """What may be asked, in order: the run of each item, and its step (-1 for the whole run)."""

    run: Ints
    step: Ints


def list_population(store: Store, question: LabelQuestion, where: Where | None) -> Population:
    """Return every item that a question can be asked of; `DataError` where there is none."""
    keys = store.keys(where)
    if question.unit == "step":
        pairs = [(x.key, step) for x in store.stored(keys) for step in agent_steps(x.trajectory)]
    else:
        pairs = [(key, -1) for key in keys]
    if not pairs:
        raise DataError("nothing to label: no run with texts is chosen; stepscope list shows them")
    table = np.array(pairs, dtype=np.int64)
    return Population(table[:, 0], table[:, 1])


def failure_chances(
    store: Store, question: LabelQuestion, of: Population
) -> tuple[Floats, int, int]:
    """Return how probably each item fails by the judges, how many they judged, how many labels say.

    .5 where no judge answered: there is most to learn. Random labels of judged items recalibrate
    the probabilities.
    """
    failing = {one.label for one in question.answers if one.failing}
    key_of = list_keys(store)
    said: dict[tuple[int, int], list[float]] = {}
    for record in store.records(measure=question.measure):
        answer = record.answer
        if record.family in NOT_MODELS or not isinstance(answer, Verdict):
            continue
        if answer.label is None or answer.label in NEUTRAL:
            chance = 0.5 if answer.value is None else 1 - answer.value
        else:
            sure = 1.0 if answer.confidence is None else answer.confidence
            chance = sure if answer.label in failing else 1 - sure
        step = -1 if answer.step is None else answer.step
        said.setdefault((key_of.get(record.trajectory, -1), step), []).append(chance)
    items = zip(of.run.tolist(), of.step.tolist(), strict=True)
    place = {item: at for at, item in enumerate(items)}
    judged = said.keys() & place.keys()
    chances = np.full(len(of.run), 0.5)
    for item in judged:
        chances[place[item]] = sum(said[item]) / len(said[item])
    labelled, labels, shares = [], [], []
    for label in settle_labels(store.labels(measure=question.measure)):
        item = (key_of.get(label.trajectory, -1), -1 if label.step is None else label.step)
        against = question.speaks_against(label)
        if label.is_random and label.probability and item in judged and against is not None:
            labelled.append(place[item])
            labels.append(float(against))
            shares.append(label.probability)
    if len(labels) >= ENOUGH_LABELS:
        chances = sampling.recalibrate(chances, labelled, labels, shares)
    return chances, len(judged), len(labels)


def draw_queue(
    store: Store,
    question: LabelQuestion,
    *,
    queue: Queue,
    n: int,
    overlap: int = 0,
    seed: int = 0,
    where: Where | None = None,
    norming: int = 0,
    chosen: Sequence[tuple[str, int | None]] | None = None,
) -> int:
    """Draw a queue and keep it in the store; return its number.

    `chosen` are the items of a queue that is not drawn, by id of the run. Every annotator is asked
    the first `overlap` items, of a norming round all.

    Raises:
        DataError: there is nothing to ask, or `n` is below 1.
    """
    if n < 1:
        raise DataError(f"a queue of {n} items; expected 1 or more")
    rng = np.random.default_rng([seed, int(question.policy[:8], 16), norming])
    remark, shares = "", None
    drawn: list[tuple[int, int | None, float | None]]
    if queue == ADJUDICATION:
        differing, _ = list_differing(store, question, where)
        population, overlap = len(differing), 0
        drawn = [(run, None if at < 0 else at, p) for (run, at), p in differing.items()][:n]
        if not drawn:
            why = "nothing to adjudicate: no two annotators who are done differ on an item"
            raise DataError(why)
    elif chosen is not None:
        run_keys = list_keys(store)
        pairs = [(run_keys[run], step) for run, step in chosen if run in run_keys]
        if question.unit != "step":
            pairs = list(dict.fromkeys((run, None) for run, _ in pairs))
        elif any(step is None for _, step in pairs):
            raise DataError(f"{question.name} asks about steps; this queue chooses whole runs")
        if not pairs:
            raise DataError(f"nothing to label: the queue {queue!r} is empty here")
        population, places = len(pairs), np.arange(min(n, len(pairs)))
        drawn = [(*pairs[at], None) for at in places]
    else:
        of = list_population(store, question, where)
        population = len(of.run)
        n = min(n, population)
        if queue == "active":
            queue, shares, remark = _plan_active(store, question, of, n)
        places = rng.permutation(population)[:n] if shares is None else draw(shares, n, rng)
        uniform = np.full(population, np.nan if queue == "norming" else n / population)
        probability = uniform if shares is None else np.minimum(n * shares, 1.0)
        chances = probability[places].tolist()
        cells = zip(of.run[places].tolist(), of.step[places].tolist(), chances, strict=True)
        drawn = [(run, None if at < 0 else at, None if isnan(p) else p) for run, at, p in cells]
    shared = len(drawn) if queue == "norming" else min(overlap, len(drawn))
    made = QueueDraw(
        measure=question.measure,
        unit=question.unit,
        queue=queue,
        policy=question.policy,
        size=len(drawn),
        population=population,
        overlap=shared,
        round=norming,
        where="" if where is None else where.text,
        seed=seed,
        remark=remark,
    )
    items = (QueuedItem(*one, at < shared) for at, one in enumerate(drawn))
    return store.put_queue(msgspec.json.encode(made), items)


def list_keys(store: Store) -> dict[str, int]:
    """Return the key of each run by its id."""
    runs = store.runs()
    return dict(zip(runs.id.tolist(), runs.key.tolist(), strict=True))


def _plan_active(
    store: Store, question: LabelQuestion, of: Population, n: int
) -> tuple[Queue, Floats | None, str]:
    """Return the queue that is worth drawing, its shares of a draw, and what to know of it."""
    chances, judged, labels = failure_chances(store, question, of)
    if not judged:
        return "uniform", None, "no judge answered this, so that the draw is uniform"
    saved = sampling.saved_width(chances, draw_shares(chances, n, uniform=UNIFORM))
    if saved < WORTH_DRAWING:
        narrower = f"by {100 * saved:.0f} %, under {100 * WORTH_DRAWING:.0f} %"
        return "uniform", None, f"judges' doubt would narrow the interval {narrower}: uniform"
    checked = labels >= ENOUGH_LABELS
    shares = draw_shares(chances, n, uniform=UNIFORM if checked else sampling.UNIFORM_UNCALIBRATED)
    half = "" if checked else f"; half of it uniform until {ENOUGH_LABELS} labels check the judges"
    saved = sampling.saved_width(chances, shares)
    return "active", shares, f"drawn by the judges' doubt, about {100 * saved:.0f} % narrower{half}"


def find_queue(
    store: Store,
    question: LabelQuestion,
    queue: Queue,
    *,
    where: Where | None = None,
    norming: int = 0,
) -> int | None:
    """Return the last queue that asks the same under the same policy; None where there is none.

    An active queue that was not worth drawing was drawn uniformly.
    """
    text = "" if where is None else where.text
    for number, made in reversed(read_draws(store).items()):
        same = (made.measure, made.unit, made.policy, made.where, made.round)
        asked = (question.measure, question.unit, question.policy, text, norming)
        instead = queue == "active" and made.queue == "uniform" and made.remark
        if same == asked and (made.queue == queue or instead):
            return number
    return None


def is_first_answer(question: LabelQuestion, label: Label) -> bool:
    """Tell whether a label is an annotator's own answer under this policy, or one of a file."""
    return label.has_verdict and not label.repeat and label.policy in ("", question.policy)


def list_differing(
    store: Store, question: LabelQuestion, where: Where | None = None
) -> tuple[dict[tuple[int, int], float | None], set[str]]:
    """Return items with different answers and their probability; and who has not answered all.

    Of shared items the answers of those alone count who have answered all. Items, as a key of a run
    and a step, that were adjudicated are left out.
    """
    key_of, alive, chosen = list_keys(store), set(store.keys()), set(store.keys(where))
    said: dict[tuple[int, int], dict[str, Label]] = {}
    settled, waiting = set[tuple[int, int]](), set[str]()
    for one in store.labels(measure=question.measure):
        item = (key_of.get(one.trajectory, -1), -1 if one.step is None else one.step)
        if one.queue == ADJUDICATION:
            settled.add(item)
        elif is_first_answer(question, one) and (item[1] < 0) == (question.unit == "run"):
            said.setdefault(item, {})[one.annotator] = one
    for number, made in read_draws(store).items():
        if (made.measure, made.policy, made.round) == (question.measure, question.policy, 0):
            run, step, of = store.queue_items(number)[:3]
            pairs = zip(run[of].tolist(), step[of].tolist(), strict=True)
            shared = [said.get(item, {}) for item in pairs if item[0] in alive]
            for who in {name for answers in shared for name in answers}:
                if not all(who in answers for answers in shared):
                    waiting.add(who)
                    for answers in shared:
                        answers.pop(who, None)
    differing = {
        item: next((one.probability for one in answers.values() if one.is_random), None)
        for item, answers in said.items()
        if item[0] in chosen
        and item not in settled
        and len({(one.label, one.value) for one in answers.values()}) > 1
    }
    return differing, waiting


def read_draws(store: Store) -> dict[int, QueueDraw]:
    """Return what each queue of the store was drawn as, by number."""
    return {at: msgspec.json.decode(body, type=QueueDraw) for at, body in store.queues().items()}
