"""What raters agree on, as values: who said what how often, figures with intervals, a decision.

Raters are judges, the rules, people, and judges whose verdicts were imported. Nothing is computed
here. What a rater could not or would not answer is counted beside its labels, never dropped.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.errors import UsageError
from stepscope.model.records import Figure
from stepscope.values import Decision, Unmeasured

# What is rated: whole runs, or single steps of them.
Unit = Literal["runs", "steps"]


class Rater(msgspec.Struct, frozen=True, kw_only=True):
    """Who rated, how often, and what of it is not part of the table."""

    name: str  # the judge without its snapshot, the person, or "rules"
    family: str  # who trained it; "rules", "human", "imported"
    labels: dict[str, int]  # how often each label was given; for scores their bands
    unmeasured: dict[str, int] = {}  # verdicts that there are not, by kind
    silent: int = 0  # how often the rules' checks ran and proved nothing; they have then not rated
    # of the rubric whose verdicts these are, the latest one; "" where none is known
    version: str = ""
    snapshots: tuple[str, ...] = ()  # of the model that answered, as its provider names them
    prompts: int = 1  # how many prompts these verdicts were given under
    # verdicts that are not rated here, by why: repeats, other versions, variants
    left_out: dict[str, int] = {}

    @property
    def rated(self) -> int:
        """How many items have a label of this rater."""
        return sum(self.labels.values())


class GroupAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far some raters agree."""

    raters: tuple[str, ...]  # their names; two for a pair, two families for a pair of families
    of: Literal["raters", "families", "all"]  # what `raters` names
    n: int  # items that two of them or more rated
    # "raw", "kappa" of two raters, "fleiss" of more, "alpha", "gwet", "pabak"; for scores weighted
    # ones beside them ("kappa.linear", "kappa.quadratic", "gwet.quadratic", "alpha.ordinal",
    # "alpha.interval"); "jaccard" of the steps that both cite; "first_bad", the share of runs on
    # which two name the same first bad step, "first_bad.within_one" the same or its neighbour;
    # "weighted", the agreement expected of calibrated confidences
    figures: dict[str, Figure]
    # share of the commonest label above the mean share of the others, 0 to 1
    prevalence: float | None = None
    # share of ratings by which the two use labels differently, 0 to 1; None but for pairs
    bias: float | None = None
    # how often two raters would name the same first bad step by chance, beside "first_bad"
    first_bad_by_chance: float | None = None
    # what to know before the figures are read; "" where they speak for themselves
    sentence: str = ""

    def __getitem__(self, figure: str) -> Figure:
        """Return one figure; a `UsageError` lists them where there is none of this name."""
        if figure not in self.figures:
            known = ", ".join(self.figures)
            raise UsageError(f"no figure {figure!r} of agreement; expected one of {known}")
        return self.figures[figure]


class RaterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one rater said of one item, with the confidence that it gave itself."""

    rater: str
    family: str
    label: str
    value: float | None = None
    confidence: float | None = None
    cites: tuple[int, ...] = ()
    reason: str = ""


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A run or step on which raters of different families disagree."""

    aspect: str  # name of the rubric
    run: str  # id of the run
    name: str  # the source's own name for it
    step: int | None  # index of the step; None for the whole run
    answers: tuple[RaterAnswer, ...]  # what each rater said, in the order of the raters
    apart: float  # share of the pairs of families that disagree
    # labels on it serve to tune a rubric, never to test one: it was chosen
    use: Literal["tuning"] = "tuning"


class ConfidenceBin(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts of one judge with confidences alike: how many of them people found right."""

    low: float
    high: float
    confidence: float
    right: Figure
    probability: float


class CalibrationCurve(msgspec.Struct, frozen=True, kw_only=True):
    """How often a judge is right when it says how sure it is; of one judge, never pooled."""

    judge: str
    family: str
    n: int
    bins: tuple[ConfidenceBin, ...] | Unmeasured


class RubricChange(msgspec.Struct, frozen=True, kw_only=True):
    """One judge on the same items under two versions of a rubric."""

    judge: str  # who judged
    before: str  # version of the rubric
    after: str  # the later version
    n: int  # items judged under both
    kept: Figure  # share of verdicts that stayed
    confidence: Figure  # mean change of the judge's own confidence
    cites: Figure  # mean overlap of the steps cited, as Jaccard's index


class ProofAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules prove beside what one other rater says: they say fault, or nothing."""

    rater: str
    precision: Figure  # share of the rules' proofs that the rater gives the same label
    recall: Figure  # share of the rater's such labels that the rules prove


class RubricAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """The agreement on one rubric at one granularity."""

    name: str  # of the rubric ("axes.termination")
    unit: Unit  # what is rated
    items: int  # how many were rated by anybody
    runs: int  # how many runs these are of
    labels: tuple[str, ...]  # the labels in use; chance agreement is reckoned over them
    raters: tuple[Rater, ...]  # who rated
    together: GroupAgreement  # all raters at once, without the rules
    pairs: tuple[GroupAgreement, ...]  # every pair of raters that can say yes and no: no rules
    families: tuple[GroupAgreement, ...]  # every pair of families with more than one pair of raters
    proofs: tuple[ProofAgreement, ...] = ()  # the rules beside each other rater
    decision: Decision  # whether the rubric is sharp enough to be automated
    decided_on: str  # figure and raters that the decision rests on
    judges: dict[str, Decision] = {}  # for each judge whether it reads the rubric as people do
    disputed: tuple[Dispute, ...]  # the five items to look at first
    curves: tuple[CalibrationCurve, ...] = ()  # calibration of each judge, where people labelled
    # each judge before and after a new version of the rubric
    changes: tuple[RubricChange, ...] = ()
    notes: tuple[str, ...] = ()  # what else to know: which answers enter, what was mixed

    def pair(self, first: str, second: str) -> GroupAgreement:
        """Return two raters, in either order; a `UsageError` lists the raters."""
        for pair in self.pairs:
            if set(pair.raters) == {first, second}:
                return pair
        known = ", ".join(rater.name for rater in self.raters)
        raise UsageError(f"no pair {first!r}, {second!r} rated {self.name}; raters: {known}")

    @property
    def raw(self) -> Figure:
        """The share of pairs of ratings that agree."""
        return self.together["raw"]

    @property
    def kappa(self) -> Figure:
        """Cohen's kappa of two raters; unmeasured for more."""
        return self.together["kappa"]

    @property
    def fleiss(self) -> Figure:
        """Fleiss' kappa."""
        return self.together["fleiss"]

    @property
    def alpha(self) -> Figure:
        """Krippendorff's alpha."""
        return self.together["alpha"]

    @property
    def ac1(self) -> Figure:
        """Gwet's AC1."""
        return self.together["gwet"]

    @property
    def pabak(self) -> Figure:
        """Kappa as if every label were as common as the others and raters used them alike."""
        return self.together["pabak"]


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """The agreement of some runs' raters on every rubric asked for."""

    # the field and value that these runs share; empty for all runs
    group: dict[str, str | None] = {}
    aspects: tuple[RubricAgreement, ...] = ()  # one a rubric and granularity
    seed: int = 0  # where random draws started
    threshold: float = 0.5  # the kappa that decisions compare with

    def __getitem__(self, name: str) -> RubricAgreement:
        """Return one aspect by its name, or by the end of it; a `UsageError` lists the names."""
        exact = [found for found in self.aspects if found.name == name]
        named = exact or [found for found in self.aspects if found.name.endswith(f".{name}")]
        # Of one rubric rated whole and by step, the whole is what its bare name means.
        if len({found.name for found in named}) == 1:
            return named[0]
        known = ", ".join(dict.fromkeys(found.name for found in self.aspects)) or "none"
        raise UsageError(f"{len(named)} rubrics are called {name!r}; rated rubrics: {known}")
