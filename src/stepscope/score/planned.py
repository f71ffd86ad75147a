"""What judges are asked about the runs of a store, in an order that never varies.

Run by run, judge by judge, rubric by rubric: what shares a beginning stands together, so that
providers read it from their cache. What cannot be asked is counted, and kept where it is about the
run itself.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from stepscope.judges.agentic import agentic, may_look, reserved
from stepscope.judges.canaries import canaries
from stepscope.judges.judgement import Judge, Judgement
from stepscope.judges.planning import Options, measure_of, plan, prompt_of, settled
from stepscope.judges.rubric import Rubric
from stepscope.judges.running_tally import word_of
from stepscope.model import Record, Trajectory
from stepscope.score.looking import Tools
from stepscope.store import Store
from stepscope.store.where import Where
from stepscope.values import Unmeasured

NARRATION_OFF = "+narration-off"
_AS_IT_IS = Options()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Which runs judges are asked about, by which rubrics, how often.

    Attributes:
        rubrics: each is asked of every run.
        judges: each is asked by every rubric, whatever the others said.
        where: which runs; None for all.
        repeats: how often each question is asked, to see the judge's own noise.
        options: how; its `repeat` and `beside` are set here.
        drawn: rubric -> ids of the runs that it is asked of; a rubric without an entry, of all.
        tools: whether judges may look things up before they answer.
        workspace: folder that they may look at, besides the run.
        canaries: whether runs with known answers are asked about before the others.
    """

    rubrics: tuple[Rubric, ...]
    judges: tuple[Judge, ...]
    where: Where | None = None
    repeats: int = 1
    options: Options = _AS_IT_IS
    drawn: Mapping[str, Container[str]] = field(default_factory=dict)
    tools: bool = False
    workspace: Path | None = None
    canaries: bool = False


@dataclass(slots=True)
class Seen:
    """What a plan has met so far: runs, and what could not be asked, by the first word of why."""

    runs: int = 0
    unasked: Counter[str] = field(default_factory=Counter)


class Plan:
    """Judgements of the runs of a store, made a few at a time; nothing else is held."""

    def __init__(self, store: Store, asking: Asking, tools: Tools | None = None) -> None:
        """Plan nothing yet; `tools` are those of judges that may look things up."""
        self.seen = Seen()
        self._tools = tools
        self._store = store
        self._asking = asking
        self._key = store.secret("fence")
        self._keys = store.keys(asking.where)
        self._absent: list[Record] = []
        self._planned = self._all()

    @property
    def purged(self) -> int:
        """Runs that are chosen and whose texts are erased."""
        return len(self._store.runs(self._asking.where)) - len(self._keys)

    @property
    def absent(self) -> int:
        """How many records `take` has to give."""
        return len(self._absent)

    def next(self, count: int) -> list[Judgement]:
        """Return the next judgements, at most so many; none at the end."""
        return [judgement for judgement, _ in islice(self._planned, count)]

    def with_steps(self) -> Iterator[tuple[Judgement, int]]:
        """Yield the judgements with the number of steps of their run."""
        return self._planned

    def take(self) -> list[Record]:
        """Return the records of what could not be asked since the last call."""
        taken, self._absent = self._absent, []
        return taken

    def _all(self) -> Iterator[tuple[Judgement, int]]:
        for key in self._keys:
            # One run at a time, and its rows read to the end: the store is written to meanwhile.
            for stored in list(self._store.stored([key])):
                self.seen.runs += 1
                trajectory = stored.trajectory
                if self._asking.options.send_media:
                    trajectory = self._store.with_media(trajectory)
                steps = len(trajectory.steps)
                for judge in self._asking.judges:
                    for judgement in self._of(trajectory, judge):
                        yield judgement, steps

    def _of(self, trajectory: Trajectory, judge: Judge) -> Iterator[Judgement]:
        asking = self._asking
        for rubric in asking.rubrics:
            drawn = asking.drawn.get(rubric.name)
            if drawn is not None and trajectory.id not in drawn:
                continue
            for repeat in range(asking.repeats):
                options = settled(rubric, judge, self.options(rubric, repeat))
                for item in self._planned_of(trajectory, judge, rubric, options):
                    if isinstance(item, Unmeasured):
                        self._note(item, trajectory, judge, rubric, options)
                    else:
                        yield dataclasses.replace(item, version=version_of(rubric, options))

    def _planned_of(
        self, trajectory: Trajectory, judge: Judge, rubric: Rubric, options: Options
    ) -> Iterator[Judgement | Unmeasured]:
        tools = self._tools if may_look(rubric, options) else None
        planned = plan(
            trajectory,
            trajectory.case,
            rubric=rubric,
            judge=judge if tools is None else reserved(judge),
            options=options,
            key=self._key,
            redactor=self._store.redactor,
        )
        if tools is None:
            yield from planned
            return
        toolbox = tools.of(trajectory, options)
        for item in planned:
            if isinstance(item, Unmeasured):
                yield item
            else:
                yield agentic(item, toolbox, judge=judge, key=self._key)

    def canaries(self) -> list[Judgement]:
        """Return the judgements of runs with known answers; they never enter the store."""
        if not self._asking.canaries:
            return []
        return [
            dataclasses.replace(item, version=version_of(rubric, options))
            for judge in self._asking.judges
            for rubric in self._asking.rubrics
            for one in canaries(rubric)
            for options in (dataclasses.replace(self.options(rubric, 0), goals=one.goals),)
            for item in self._planned_of(one.trajectory, judge, rubric, options)
            if not isinstance(item, Unmeasured)
        ]

    def options(self, rubric: Rubric, repeat: int) -> Options:
        """Return how a rubric is asked: with those of its set that are asked, one beginning."""
        beside = tuple(one for one in self._asking.rubrics if one.set == rubric.set)
        return dataclasses.replace(self._asking.options, repeat=repeat, beside=beside)

    def _note(
        self,
        absent: Unmeasured,
        trajectory: Trajectory,
        judge: Judge,
        rubric: Rubric,
        options: Options,
    ) -> None:
        self.seen.unasked[word_of(absent)] += 1
        # A run without sub-goals has no scores, and a curve of none; it is no scored run.
        if rubric.kind == "score" and absent.step is None:
            return
        self._absent.append(
            Record(
                trajectory=trajectory.id,
                answer=Unmeasured(
                    absent.kind, absent.reason, measure_of(rubric, options.mode), absent.step
                ),
                version=version_of(rubric, options),
                family=judge.family,
                judge=judge.name,
                rubric=rubric.name,
                prompt=prompt_of(rubric, options),
                repeat=options.repeat,
            )
        )


def version_of(rubric: Rubric, options: Options) -> str:
    """Return the version that records carry: without narration it is another question."""
    return rubric.version + (NARRATION_OFF if options.narration == "off" else "")
