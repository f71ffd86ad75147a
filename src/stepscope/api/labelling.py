"""Queues for people, chosen by what the rest of stepscope knows: shapes, disputes, suspects."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepscope.errors import DataError, UsageError
from stepscope.labels.drawing import draw_queue, list_keys, read_draws
from stepscope.labels.questions import LabelQuestion
from stepscope.model import Json, Label, Queue
from stepscope.model.records import JUDGE_PREFIX
from stepscope.report.build import build_report, read_chosen_runs
from stepscope.store import Store
from stepscope.store.columns import ANSWERED
from stepscope.store.where import Where

if TYPE_CHECKING:
    from stepscope.api.notebook import Notebook


def draw_labels(
    notebook: Notebook,
    question: LabelQuestion,
    *,
    queue: Queue,
    n: int,
    overlap: int,
    where: Where | None = None,
    norming: int = 0,
    seed: int | None = None,
) -> int:
    """Draw a queue of items for people, and return its number.

    Raises:
        DataError: there is nothing to ask.
        UsageError: the queue cannot choose items for this question.
    """
    store = notebook.store
    chosen: list[tuple[str, int | None]] | None = None
    drawn = notebook.settings.seed if seed is None else seed
    if queue in ("shape", "unresolved"):
        if question.name != "shape":
            raise UsageError(f"--queue {queue} is for --rubric shape, not {question.name!r}")
        ids = _runs_with_curves(store, where, unresolved=queue == "unresolved")
        if queue == "shape":
            text = "" if where is None else where.text
            where = store.among(ids, (), text)
        else:
            chosen = [(one, None) for one in ids]
    elif queue == "look_first":
        report = build_report(store, where=where, seed=drawn)
        first = [one.suspects[0].first if one.suspects else None for one in report.look_first]
        found = zip([one.id for one in report.look_first], first, strict=True)
        chosen = [one for one in found if one[1] is not None or question.unit != "step"]
    elif queue == "disagreement":
        name = question.measure.removeprefix(JUDGE_PREFIX)
        disputes = notebook.disputes(name, where=None if where is None else where.text or None)
        whole = question.unit != "step"
        chosen = [(one.run, one.step) for one in disputes if (one.step is None) == whole]
    draw = partial(draw_queue, store, question, queue=queue, n=n, overlap=overlap)
    return draw(seed=drawn, where=where, norming=norming, chosen=chosen)


def _runs_with_curves(store: Store, where: Where | None, *, unresolved: bool) -> list[str]:
    table = read_chosen_runs(store, where=where, since=None, by=None)
    shapes = table.shapes
    if shapes is None or not (shapes.state == ANSWERED).any():
        raise DataError("no run has scores of its steps; judge them first: stepscope judge no_look")
    kept = np.equal(shapes.state, ANSWERED)
    if unresolved:
        kept &= shapes.label < 0
    return [str(one) for one in table.runs.id[kept].tolist()]


def list_queues(store: Store) -> list[dict[str, Json]]:
    """Return what each queue of a store was drawn as, and how many labels each annotator gave."""
    given: dict[tuple[str, str, str, int], list[Label]] = {}
    for label in store.labels():
        given.setdefault((label.measure, label.policy, label.queue, label.round), []).append(label)
    key_of = list_keys(store)
    found = []
    for number, draw in read_draws(store).items():
        items = set(store.queue_items(number).run.tolist())
        counts = Counter(
            one.annotator
            for one in given.get((draw.measure, draw.policy, draw.queue, draw.round), ())
            if key_of.get(one.trajectory) in items
        )
        told = {"number": number, **msgspec.to_builtins(draw)}
        found.append({**told, "labels": dict(sorted(counts.items()))})
    return found
