"""One annotator at one queue: what is asked next, what was answered, what others said afterwards.

Everything that was answered is in the store before the answer is acknowledged, the probes of a
halving too, so that a session begins again where it was killed. Each annotator has an order of
their own, the shared items first. What others said is shown once both have answered everything
shared; norming rounds likewise. An adjudicator sees the answers that differ, not whose they are. An
item whose run was erased, or has grown into a longer one, is passed over and counted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from math import ceil
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from stepscope.errors import UsageError
from stepscope.labels.drawing import QueueDraw, is_first_answer, read_draws
from stepscope.labels.questions import ALREADY_WRONG, DECISIVE, NO_STEP, LabelQuestion
from stepscope.measures.step_features import agent_steps
from stepscope.model import Label
from stepscope.model.labels import ADJUDICATION, ADJUDICATION_REPEAT, DRAWN_QUEUES
from stepscope.stats.estimates import proportion
from stepscope.stats.sample import Ints
from stepscope.store import Store
from stepscope.values import Unmeasured, format_count, format_percent

# Half the width, as a share, at which a rate is known well enough to stop by default.
KNOWN_WITHIN = 0.10
# A question that was open longer was not looked at all the while.
_LONGEST_SECONDS = 24 * 3600.0


class AskedItem(NamedTuple):
    """What is asked now: a place of the queue, the run, and the step the question is about."""

    place: int
    run: str
    step: int | None
    probability: float | None
    left: int = 0  # questions of a halving that are left, at most


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an annotator does, as the page sends it; `key` is of an answer alone."""

    do: Literal["answer", "skip", "undo"]
    place: int
    step: int | None
    policy: str
    key: str = ""
    seconds: float | None = None
    expanded: tuple[str, ...] = ()
    note: str = ""


class LabelSession:
    """One annotator at one queue of a store that is open for writing."""

    def __init__(
        self, store: Store, question: LabelQuestion, queue: int, annotator: str, *, blind: bool
    ) -> None:
        """Read the queue, and what was answered before."""
        if not annotator.strip() or annotator != annotator.strip():
            raise UsageError(f"--annotator {annotator!r}: expected a name")
        self.store, self.question, self.queue = store, question, queue
        self.annotator, self.blind = annotator, blind
        self.draw: QueueDraw = read_draws(store)[queue]
        if self.draw.policy != question.policy:
            why = "the rubric has changed since this queue was drawn; start stepscope label again"
            raise UsageError(why)
        self._items = store.queue_items(queue)
        self._codes = _item_codes(self._items.run, self._items.step)
        self._by_code = np.argsort(self._codes)
        runs = store.runs()
        ids = runs.id.tolist()
        self._key_of = dict(zip(ids, runs.key.tolist(), strict=True))
        tasks = zip(ids, runs.workflow.tolist(), runs.task.tolist(), strict=True)
        self._task_of = {run: f"{flow}\0{task}" if task else run for run, flow, task in tasks}
        # The answers that an adjudicator sees, by place; nobody knows afterwards what is blind.
        self.differing: dict[int, list[Label]] = {}
        adjudicates = self.draw.queue == ADJUDICATION
        self._compared = adjudicates  # whether others' answers to the shared items were shown
        for one in store.labels(measure=question.measure):
            self._compared |= one.queue == ADJUDICATION and one.annotator == annotator
            place = self._place(one) if adjudicates and is_first_answer(question, one) else None
            if place is not None:
                self.differing.setdefault(place, []).append(one)
        self._others: tuple[int, list[tuple[int | None, Label]]] = (-1, [])
        self._order, self._taken = self._own_order(), 0
        self._next = 0
        self._first: list[int] = []  # taken back: asked before anything else
        self._skipped: list[int] = []
        self.gone: Counter[str] = Counter()
        self.given = [one for one in self._read_labels() if one.annotator == annotator]
        done = zip(self.given, map(self._place, self.given), strict=True)
        self._done = {at for one, at in done if at is not None and one.measure != ALREADY_WRONG}

    def _read_labels(self) -> Iterator[Label]:
        """Yield the labels of the items of this queue, under its policy, of all annotators.

        In a queue that was drawn, those are left out that were chosen: their items are asked anew.
        """
        measures = {self.question.measure}
        if self.question.unit == "decisive":
            measures.add(ALREADY_WRONG)
        only = self.question.measure if len(measures) == 1 else None
        for one in self.store.labels(measure=only):
            same = (one.round, one.policy) == (self.draw.round, self.question.policy)
            same &= (one.queue == ADJUDICATION) == (self.draw.queue == ADJUDICATION)
            probe = one.measure == ALREADY_WRONG
            drawn = one.probability or probe or self.draw.queue not in DRAWN_QUEUES
            if same and drawn and one.measure in measures and self._place(one) is not None:
                yield one

    def labels(self) -> list[Label]:
        """Return everybody's labels of items; those of others are read again when they change."""
        now = self.store.changes()
        if now != self._others[0]:
            others = [one for one in self._read_labels() if one.annotator != self.annotator]
            self._others = now, [(self._place(one), one) for one in others]
        shared = self._items.shared
        seen = [one for at, one in self._others[1] if at in self._done or not shared[at]]
        every = [*seen, *self.given]
        return [one for one in every if one.measure == self.question.measure]

    def _place(self, label: Label) -> int | None:
        step = None if self.question.unit == "decisive" else label.step
        key = self._key_of.get(label.trajectory)
        if key is None:
            return None
        code = _item_codes(np.array([key]), np.array([-1 if step is None else step]))[0]
        at = int(np.searchsorted(self._codes, code, sorter=self._by_code))
        place = int(self._by_code[at]) if at < len(self._codes) else -1
        return place if place >= 0 and self._codes[place] == code else None

    def _own_order(self) -> list[int]:
        """Return the places in this annotator's order: the shared ones first, then the others."""
        seed = blake2b(f"{self.queue}\0{self.annotator}".encode(), digest_size=8).digest()
        drawn = np.random.default_rng(int.from_bytes(seed, "big")).permutation(len(self._codes))
        shared = self._items.shared[drawn]
        # What was held and not answered when a session ended comes before anything new.
        mine = [at for at, who in self._items.holders.items() if who == self.annotator]
        held = np.isin(drawn, mine)
        free = ~np.isin(drawn, list(self._items.holders)) & ~shared
        return [*drawn[shared].tolist(), *drawn[held].tolist(), *drawn[free].tolist()]

    @property
    def answered(self) -> int:
        """How many items of this queue the annotator has answered."""
        return len(self._done)

    @property
    def size(self) -> int:
        """How many items there are for the annotator, as far as others have not taken them."""
        return len(self._order) - self._taken - sum(self.gone.values())

    def ask(self) -> AskedItem | None:
        """Return what is asked now, held for this annotator; None where nothing is left."""
        while (place := self._candidate()) is not None:
            held = None
            if place not in self._done:
                held = self.store.hold_item(self.queue, place, self.annotator)
                self._taken += held is None  # somebody else was faster
            if held is None:
                self._pass_over(place)
                continue
            gone = held.gone
            if not gone and self.question.unit == "decisive":
                low, high, steps = self._halve(held.run)
                if steps:
                    at = (low + high) // 2 if high - low > 1 else high
                    left = max(high - low - 1, 1).bit_length()
                    return AskedItem(place, held.run, steps[at], held.probability, left)
                gone = "without steps of the agent"
            if not gone:
                return AskedItem(place, held.run, held.step, held.probability)
            self.gone[gone] += 1
            self._pass_over(place)
        return None

    def _candidate(self) -> int | None:
        if self._first:
            return self._first[-1]
        while self._next < len(self._order) and self._order[self._next] in self._skipped:
            self._next += 1
        if self._next < len(self._order):
            return self._order[self._next]
        return self._skipped[0] if self._skipped else None

    def _pass_over(self, place: int) -> None:
        if self._first and self._first[-1] == place:
            self._first.pop()
        elif self._next < len(self._order) and self._order[self._next] == place:
            self._next += 1
        else:
            self._skipped.remove(place)

    def _halve(self, run: str, new: Label | None = None) -> tuple[int, int, list[int]]:
        """Return the last agent's step known to be right, the first known or taken to be wrong.

        Both count the agent's steps, which are the third.
        """
        steps = agent_steps(self.store.trajectory(run))
        low, high = -1, len(steps) - 1
        for probe in [*self.given, *([] if new is None else [new])]:
            if (probe.measure, probe.trajectory) == (ALREADY_WRONG, run) and probe.step in steps:
                at = steps.index(probe.step)
                low, high = (low, min(high, at)) if probe.label == "wrong" else (max(low, at), high)
        return low, high, steps

    def answer(self, given: GivenAnswer) -> None:
        """Store an answer durably; the same answer sent twice changes nothing.

        Raises:
            UsageError: the policy has changed since it was shown, there is no such answer, or
                another answer of this item is stored.
        """
        if given.policy != self.question.policy:
            raise UsageError(
                "the rubric has changed since this was shown: nothing was saved; start label again"
            )
        asked, known = self.ask(), given.place in self._done
        if not known and (asked is None or (asked.place, asked.step) != (given.place, given.step)):
            raise UsageError("this item is not asked now: nothing was saved; reload the page")
        held = self.store.hold_item(self.queue, given.place, self.annotator)
        if held is None or (self.question.unit != "decisive" and given.step != held.step):
            raise UsageError("this item is not asked now: nothing was saved; reload the page")
        chosen, seconds = self.question.answer(given.key), given.seconds
        if seconds is not None:  # what a page sends may be no number at all
            seconds = min(seconds, _LONGEST_SECONDS) if seconds >= 0 else None
        label = Label(
            trajectory=held.run,
            measure=self.question.measure,
            annotator=self.annotator,
            label=chosen.label,
            value=chosen.value,
            step=given.step,
            decided=chosen.key != "?",
            queue=self.draw.queue,
            probability=held.probability,
            round=self.draw.round,
            policy=given.policy,
            blind=self.blind and not self._compared,
            position=self.answered,
            seconds=seconds,
            expanded=given.expanded,
            given_at=time.time_ns(),
            repeat=ADJUDICATION_REPEAT if self.draw.queue == ADJUDICATION else 0,
            reason=given.note.strip(),
        )
        made = self._find_decisive(label) if self.question.unit == "decisive" else [label]
        self.store.append_labels(made, whole=True)
        if known:
            return
        self.given += made
        if made[-1].measure == self.question.measure:
            self._done.add(given.place)

    def _find_decisive(self, label: Label) -> list[Label]:
        """Return a probe of a halving, with the decisive step where that is settled by it."""
        if not label.decided:
            return [msgspec.structs.replace(label, step=None)]
        probe = msgspec.structs.replace(label, measure=ALREADY_WRONG, probability=None)
        low, high, steps = self._halve(label.trajectory, probe)
        if low >= len(steps) - 1:  # right to the end
            return [probe, msgspec.structs.replace(label, label=NO_STEP, step=None)]
        looked = label.step == steps[high] or high < len(steps) - 1
        if high - low > 1 or not looked:  # the last step is asked, too, before it is named
            return [probe]
        return [probe, msgspec.structs.replace(label, label="decisive_step", step=steps[high])]

    def skip(self, place: int) -> None:
        """Put an item off to the end."""
        asked = self.ask()
        if asked is None or asked.place != place:
            raise UsageError("this item is not asked now; reload the page")
        self._pass_over(place)
        self._skipped.append(place)

    def undo(self) -> bool:
        """Take back the last answer, and ask it again; return whether there was one."""
        if not self.given:
            return False
        taken = [self.given.pop()]
        # A decisive step and the probe that led to it were one press of a key.
        led = self.given[-1] if taken[0].measure == DECISIVE and self.given else None
        if led is not None and taken[0].decided and led.measure == ALREADY_WRONG:
            taken.append(self.given.pop())
        for one in taken:
            self.store.withdraw_label(one)
        place = self._place(taken[0])
        if place is not None:
            self._done.discard(place)
            self._skipped = [one for one in self._skipped if one != place]
            self._first.append(place)
        return True

    def summarise(self) -> list[str]:
        """Return what the labels so far say, and how many more would narrow it, in sentences."""
        labels = self.labels()
        people = len({one.annotator for one in labels})
        who = "" if people < 2 else f" of {people} annotators"
        said = [f"{format_count(len(labels), 'label')}{who} so far"]
        if self.draw.round:
            return [*said, f"norming round {self.draw.round}: kept apart from every figure"]
        if self.draw.queue == ADJUDICATION:
            return [*said, "each takes the place of the answers that differ, which are kept"]
        # One label an item, the own one where there is one: the same item twice is no new evidence.
        items = {(one.trajectory, one.step): self.question.speaks_against(one) for one in labels}
        decided = {item: against for item, against in items.items() if against is not None}
        if not decided or self.question.unit == "decisive":
            return said
        counts = f"{sum(decided.values())} of {format_count(len(decided), 'item')} "
        counts += "speaks" if sum(decided.values()) == 1 else "speak"
        counts += " against the agent"
        if self.draw.queue not in DRAWN_QUEUES or self.draw.queue == "active":
            kind = "chosen, not drawn: no rate is computed from them"
            if self.draw.queue == "active":
                kind = "drawn unequally: the rate is in stepscope report"
            return [*said, f"{counts}; {kind}"]
        tasks = [self._task_of.get(run, run) for run, _ in decided]
        rate = proportion(np.array([*decided.values()], np.float64), np.array(tasks))
        if isinstance(rate, Unmeasured) or rate.low is None or rate.high is None:
            return [*said, f"{counts}; no interval from so few tasks"]
        limits = f"{100 * rate.low:.0f}–{100 * rate.high:.0f}"
        lost = len(items) - len(decided)
        of = format_count(rate.n_tasks, "task") + (f"; {lost} cannot be decided" if lost else "")
        said.append(f"{counts}: {format_percent(rate.value)}, {limits}, {of}")
        # The interval narrows with the root of the labels, if tasks and rate stay as they are.
        more = ceil(len(decided) * ((rate.high - rate.low) / 2 / KNOWN_WITHIN) ** 2) - len(decided)
        if more > 0:
            within = f"± {100 * KNOWN_WITHIN:.0f} points"
            said.append(f"about {more} more labels would give the rate to {within}")
        return said

    def compare(self) -> tuple[str, int, int, list[tuple[str, int | None, str, str]]] | None:
        """Return who else has answered all that is shared, and where the two differ.

        Name, items that both answered, items on which they agree, and the others as run, step, own
        and their answer. None until both are done.
        """
        alive = np.isin(self._items.run, self.store.keys())
        shared = set(np.flatnonzero(self._items.shared & alive).tolist())
        if not shared or not shared <= self._done:
            return None
        said: dict[str, dict[int, Label]] = {}
        for label in self.labels():
            place = self._place(label)
            if place in shared:
                said.setdefault(label.annotator, {})[place] = label
        own = said.get(self.annotator, {})
        for name, theirs in sorted(said.items()):
            if name == self.annotator or not shared <= theirs.keys():
                continue
            differ = [
                (own[at].trajectory, own[at].step, _tell(own[at]), _tell(theirs[at]))
                for at in sorted(shared)
                if (own[at].label, own[at].value, own[at].step)
                != (theirs[at].label, theirs[at].value, theirs[at].step)
            ]
            self._compared = True
            return name, len(shared), len(shared) - len(differ), differ
        return None


def _item_codes(run: Ints, step: Ints) -> Ints:
    """Return one number for each item."""
    return run * np.int64(1 << 32) + step + 1


def _tell(label: Label) -> str:
    if label.measure == DECISIVE and label.step is not None:
        return f"step {label.step}"
    return label.label or ("cannot be decided" if label.value is None else f"{label.value:g}")
