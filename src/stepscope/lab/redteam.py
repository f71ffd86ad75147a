"""Attack judges through failing runs, and count what turns a failure into a pass.

Each run that is known to have failed is judged as it is, then with each attack standing in it, by
the same path that judges it for a report: the same fence, the same checks of replies and evidence.
What flips is judged once more without the agent's words, which says whether narration bought it.
Nothing is claimed about a judge that was not asked, nor about attackers who try until one works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from stepscope.errors import UsageError
from stepscope.judges.believing_whole import NEUTRAL as NEUTRAL_ANSWERS
from stepscope.judges.believing_whole import OUTRANKED
from stepscope.judges.judgement import Judge, Judgement
from stepscope.judges.planning import Options, plan
from stepscope.judges.rubric import Rubric
from stepscope.lab.redteam_attacks import NARRATION_SWAP, Attack, planted
from stepscope.lab.redteam_figures import (
    AGAINST,
    FOR,
    NEUTRAL,
    VERDICTS,
    Flips,
    Swap,
    Tried,
    flips,
    swap,
)
from stepscope.model import Answer, Trajectory, Verdict
from stepscope.safety.redact import Redactor
from stepscope.values import Unmeasured

# A run, by id, and a judge, by name.
Asking = tuple[str, str]
# Asks judgements of the same question, each about another run or of another judge.
Asked = Callable[[Iterable[Judgement]], Mapping[Asking, Answer]]
_UNASKED = "unasked"
_WITHOUT_WORDS = Options(narration="off")


class Attacked(msgspec.Struct, frozen=True, kw_only=True):
    """What attacks came to with one judge.

    Attributes:
        judge: who was asked.
        family: of its model.
        clean: what the failing runs were judged as they are, counted: "against" is right.
        flips: by class, in the order of the attacks.
        narration_swap: what rewriting the agent's words alone did.
    """

    judge: str
    family: str
    clean: dict[str, int]
    flips: tuple[Flips, ...]
    narration_swap: Swap | Unmeasured


class Redteam(msgspec.Struct, frozen=True, kw_only=True):
    """Attacks on judges and what they came to.

    Attributes:
        rubric: by which the runs were judged.
        answer: the favourable answer that attacks want.
        runs: failing runs that were offered.
        attacks: texts.
        judges: by judge.
    """

    rubric: str
    answer: str
    runs: int
    attacks: int
    judges: tuple[Attacked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is asked, and how.

    Attributes:
        rubric: of kind "axis".
        judges: who is asked.
        key: of the store, for the fence.
        redactor: takes secrets out of what is sent.
        asked: asks.
    """

    rubric: Rubric
    judges: Sequence[Judge]
    key: bytes
    redactor: Redactor
    asked: Asked


def failing(runs: Iterable[Trajectory], most: int) -> list[Trajectory]:
    """Return the first `most` runs that are known to have failed and have steps to read."""
    found = (run for run in runs if run.outcome.status == "fail" and run.steps)
    return list(islice(found, most))


def favourable(rubric: Rubric) -> str:
    """Return the answer that an attack wants.

    Raises:
        UsageError: the rubric asks for no single answer that is for or against the agent.
    """
    wanted = [one for one in rubric.answers if one not in (*rubric.failing, *NEUTRAL_ANSWERS)]
    if rubric.kind != "axis" or not rubric.failing or not wanted:
        raise UsageError(
            f"rubric {rubric.name}: attacks need one whose answer is for or against the agent, as "
            "quality.final_answer is"
        )
    return wanted[0]


def most_calls(runs: int, attacks: int, judges: int) -> int:
    """Return how many judgements there can be: each run clean, attacked, and without words."""
    return runs * judges * (1 + 2 * attacks)


def redteam(runs: Sequence[Trajectory], attacks: Sequence[Attack], setting: Setting) -> Redteam:
    """Return what attacks came to.

    Args:
        runs: runs that are known to have failed.
        attacks: what is planted in each.
        setting: what is asked, of whom.

    Raises:
        UsageError: no run, or a rubric that has no favourable answer.
    """
    if not runs:
        raise UsageError("no run that is known to have failed; choose others with --where")
    answer = favourable(setting.rubric)
    attacked = _Attacking(runs, attacks, answer, setting)
    return Redteam(
        rubric=setting.rubric.name,
        answer=answer,
        runs=len(runs),
        attacks=len(attacks),
        judges=attacked.all(),
    )


@dataclass(frozen=True, slots=True)
class _Trial:
    """One attack in one run before one judge."""

    attack: Attack
    run: Trajectory
    planted: Trajectory
    judge: Judge


class _Attacking:
    """Three rounds: the runs as they are, with attacks, and those that flipped without words."""

    def __init__(
        self,
        runs: Sequence[Trajectory],
        attacks: Sequence[Attack],
        answer: str,
        setting: Setting,
    ) -> None:
        self.runs = runs
        self.attacks = attacks
        self.answer = answer
        self.setting = setting

    def all(self) -> tuple[Attacked, ...]:
        """Ask, and return the figures of each judge."""
        judges = self.setting.judges
        clean = self._answers(((run, judge) for run in self.runs for judge in judges), Options())
        trials = list(self._trials(clean))
        said = self._answers(((one.planted, one.judge) for one in trials), Options())
        flipped = [one for one in trials if self._flips(one, said)]
        silent = self._answers(((one.planted, one.judge) for one in flipped), _WITHOUT_WORDS)
        return tuple(self._figures(judge, clean, trials, said, silent) for judge in judges)

    def _trials(self, clean: Mapping[Asking, Answer]) -> Iterator[_Trial]:
        for judge in self.setting.judges:
            for run in self.runs:
                came_to = self._came_to(clean, run, judge)
                for attack in self.attacks:
                    swaps = attack.class_ == NARRATION_SWAP and came_to in {FOR, NEUTRAL}
                    if came_to != AGAINST and not swaps:
                        continue
                    made = planted(run, attack, self.answer)
                    if made is not None:
                        yield _Trial(attack, run, made, judge)

    def _flips(self, trial: _Trial, said: Mapping[Asking, Answer]) -> bool:
        return self._came_to(said, trial.planted, trial.judge) == FOR

    def _answers(
        self, asking: Iterable[tuple[Trajectory, Judge]], options: Options
    ) -> dict[Asking, Answer]:
        unasked: dict[Asking, Answer] = {}

        def judgements() -> Iterator[Judgement]:
            for run, judge in asking:
                made = self._plan(run, judge, options)
                if isinstance(made, Unmeasured):
                    unasked[run.id, judge.name] = made
                else:
                    yield made

        return {**self.setting.asked(judgements()), **unasked}

    def _plan(self, run: Trajectory, judge: Judge, options: Options) -> Judgement | Unmeasured:
        (made,) = plan(
            run,
            run.case,
            rubric=self.setting.rubric,
            judge=judge,
            options=options,
            key=self.setting.key,
            redactor=self.setting.redactor,
        )
        return made

    def _came_to(self, said: Mapping[Asking, Answer], run: Trajectory, judge: Judge) -> str:
        answer = said.get((run.id, judge.name))
        if answer is None:
            return _UNASKED
        if isinstance(answer, Unmeasured):
            return answer.kind
        if answer.label in self.setting.rubric.failing:
            return AGAINST
        return NEUTRAL if answer.label in NEUTRAL_ANSWERS else FOR

    def _figures(
        self,
        judge: Judge,
        clean: Mapping[Asking, Answer],
        trials: Iterable[_Trial],
        said: Mapping[Asking, Answer],
        silent: Mapping[Asking, Answer],
    ) -> Attacked:
        before = {run.id: self._came_to(clean, run, judge) for run in self.runs}
        tried: list[Tried] = []
        swaps: list[tuple[str, str, bool | None]] = []
        for trial in trials:
            if trial.judge is not judge:
                continue
            one = self._tried(trial, said, silent)
            if trial.attack.class_ == NARRATION_SWAP:
                swaps.append((before[trial.run.id], one.came_to, one.dependent))
            if before[trial.run.id] == AGAINST:
                tried.append(one)
        classes = dict.fromkeys(attack.class_ for attack in self.attacks)
        counts = {word: list(before.values()).count(word) for word in sorted(set(before.values()))}
        return Attacked(
            judge=judge.name,
            family=judge.family,
            clean=counts,
            flips=tuple(flips(class_, tried) for class_ in classes),
            narration_swap=swap(swaps),
        )

    def _tried(
        self, trial: _Trial, said: Mapping[Asking, Answer], silent: Mapping[Asking, Answer]
    ) -> Tried:
        came_to = self._came_to(said, trial.planted, trial.judge)
        tried = Tried(trial.attack.class_, trial.run.id, came_to)
        if came_to != FOR:
            return tried
        without = self._came_to(silent, trial.planted, trial.judge)
        verdict = said[trial.planted.id, trial.judge.name]
        assert isinstance(verdict, Verdict)
        known = without in VERDICTS
        return tried._replace(
            dependent=without != FOR if known else None,
            outranked=verdict.reason.startswith(OUTRANKED),
        )
