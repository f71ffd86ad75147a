"""The trail of a rubric: what judges answered about the same runs under every pair of its versions.

Where one run is known under two versions the facts are shown (labels, confidences, cited steps and
their overlap) and no average; from two runs on the shares and means with intervals stand before the
facts. Confidences are compared within one judge alone. The diff is of what a judge is told; a
version whose text is not given has none, and that is said.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import combinations

import msgspec

from stepscope.calibrate.confidence import compare_versions, overlap_cites
from stepscope.calibrate.ratings import Item, label_of, rater_answer
from stepscope.calibrate.types import RaterAnswer, RubricChange
from stepscope.model import Answer, Verdict
from stepscope.safety.text import visible_line
from stepscope.store.judged import MODE, judge_version_order
from stepscope.values import format_count, format_estimate

# Facts that are printed of each pair of versions; the JSON has all.
MOST_FACTS = 5
# Judge, version, prompt -> what it answered about runs and steps.
AnswersByVersion = Mapping[tuple[str, str, str], Mapping[Item, Answer]]


class AnswerPair(msgspec.Struct, frozen=True, kw_only=True):
    """What one judge answered about one run, or step, under two versions."""

    run: str  # the run's name
    step: int | None
    before: RaterAnswer
    after: RaterAnswer
    overlap: float | None  # of the cited steps, 0 to 1; None where none is cited


class VersionPair(msgspec.Struct, frozen=True, kw_only=True):
    """One judge under two versions of a rubric."""

    judge: str
    before: str
    after: str
    runs: int  # that it judged under both
    facts: tuple[AnswerPair, ...]  # those whose label changed first
    change: RubricChange | None  # None where one run is known: no average of one


class JudgesAgreement(msgspec.Struct, frozen=True):
    """How often two judges gave the same label under one version."""

    judges: tuple[str, str]
    version: str
    same: int
    of: int


class RubricHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The trail of one rubric, oldest first."""

    rubric: str
    versions: tuple[str, ...]
    pairs: tuple[VersionPair, ...]
    agreement: tuple[JudgesAgreement, ...]
    diffs: dict[str, str]  # "1 -> 2": the changed lines of what a judge is told
    missing: tuple[str, ...] = ()  # versions without a text to compare

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def trace_rubric(
    rubric: str, answers: AnswersByVersion, names: Mapping[str, str], texts: Mapping[str, str]
) -> RubricHistory:
    """Return the trail of a rubric: every pair of its versions, judge by judge.

    `names` are those of runs, by id, `texts` what a judge is told under a version.
    """
    prompts: dict[str, set[str]] = {}
    for _, version, prompt in answers:
        prompts.setdefault(version, set()).add(prompt)

    def name(version: str, prompt: str) -> str:
        return version if len(prompts[version]) == 1 else f"{version} ({prompt[:6]})"

    order = sorted(answers, key=lambda key: (key[0], judge_version_order(key[1]), key[2]))
    pairs, agreement = list[VersionPair](), list[JudgesAgreement]()
    for first, second in combinations(order, 2):
        if first[0] == second[0]:
            labels = (name(*first[1:]), name(*second[1:]))
            pairs += _pair(first[0], labels, answers[first], answers[second], names)
        if first[1:] == second[1:]:
            both = [
                label_of(a) == label_of(b)
                for item, a in answers[first].items()
                if isinstance(a, Verdict) and isinstance(b := answers[second].get(item), Verdict)
            ]
            judges = first[0], second[0]
            one = JudgesAgreement(judges, name(*first[1:]), sum(both), len(both))
            agreement += [one] if both else []
    agreement.sort(key=lambda one: (one.judges, judge_version_order(one.version)))
    known = sorted({version for _, version, _ in answers} | set(texts), key=judge_version_order)
    diffs = {}
    for old, new in combinations([one for one in known if one in texts], 2):
        before, after = texts[old].splitlines(), texts[new].splitlines()
        titles = f"version {old}", f"version {new}"
        lines = difflib.unified_diff(before, after, *titles, n=1, lineterm="")
        diffs[f"{old} -> {new}"] = "\n".join(lines)
    return RubricHistory(
        rubric=rubric,
        versions=tuple(known),
        pairs=tuple(pairs),
        agreement=tuple(agreement),
        diffs=diffs,
        missing=tuple(x for x in known if x.partition(MODE)[0] not in texts),
    )


def _pair(
    judge: str,
    versions: tuple[str, str],
    before: Mapping[Item, Answer],
    after: Mapping[Item, Answer],
    names: Mapping[str, str],
) -> Iterator[VersionPair]:
    both = [
        (item, a, b)
        for item, a in sorted(before.items(), key=lambda one: (names[one[0][0]], one[0][1] or 0))
        if isinstance(a, Verdict) and isinstance(b := after.get(item), Verdict)
    ]
    if not both:
        return
    made = []
    for (run, step), a, b in both:
        old, new, overlap = *(rater_answer(judge, "", one) for one in (a, b)), overlap_cites(a, b)
        made.append(AnswerPair(run=names[run], step=step, overlap=overlap, before=old, after=new))
    facts = tuple(sorted(made, key=lambda one: one.before.label == one.after.label))
    runs, (was, now) = len({run for (run, _), _, _ in both}), versions
    change = None if runs == 1 else compare_versions(judge, versions, both)
    yield VersionPair(judge=judge, before=was, after=now, runs=runs, facts=facts, change=change)


def _lines(found: RubricHistory) -> Iterator[str]:
    yield f"{found.rubric}: versions {', '.join(found.versions) or 'none'}"
    for pair in found.pairs:
        yield f"{pair.judge}: {pair.before} -> {pair.after}, {format_count(pair.runs, 'run')}"
        if pair.change is not None:
            figures = (pair.change.kept, pair.change.confidence, pair.change.cites)
            kept, sure, cites = map(format_estimate, figures)
            yield f"  kept {kept}; confidence changed by {sure}; cited steps overlap {cites}"
        for one in pair.facts[:MOST_FACTS]:
            at = "" if one.step is None else f" step {one.step}"
            shared = "-" if one.overlap is None else f"{one.overlap:.2f}"
            answers = f"{_say(one.before)} -> {_say(one.after)}"
            yield visible_line(f"  {one.run}{at}: {answers}; overlap {shared}")
        if len(pair.facts) > MOST_FACTS:
            yield f"  and {len(pair.facts) - MOST_FACTS:,} more"
    for two in found.agreement:
        judges = f"{' and '.join(two.judges)}, version {two.version}"
        yield f"{judges}: the same label in {two.same} of {two.of}"
    for diff in found.diffs.values():
        yield from (visible_line(line) for line in diff.splitlines())
    if found.missing:
        missing = ", ".join(found.missing)
        yield f"no text of version {missing} is at hand: give its file with --text"


def _say(answer: RaterAnswer) -> str:
    sure = "" if answer.confidence is None else f" {answer.confidence:.2f}"
    cites = ", ".join(map(str, answer.cites))
    return f"{answer.label}{sure} citing {cites or 'nothing'}"
