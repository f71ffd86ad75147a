"""Calls against a reference trajectory: how many pair up, and in which of five senses they match.

Modes: `strict` (same calls, same order), `unordered` (same calls), `in_order` (every reference call
in order, others between), `superset` (every reference call, others too), `subset` (nothing beyond
the reference). `exact` is `strict` and `any_order` is `superset`, as other tools name them.
Partial credit: precision and recall of a largest matching, F1, longest common subsequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from stepscope.errors import UsageError
from stepscope.measures.assignment import assign, contains, longest_common, same
from stepscope.measures.calls import agent_calls
from stepscope.measures.rule import Rule
from stepscope.model import (
    Answer,
    Case,
    Facts,
    Json,
    ReferenceCall,
    Scale,
    ToolCall,
    Trajectory,
    Verdict,
)
from stepscope.values import Unmeasured

Mode = Literal["strict", "unordered", "in_order", "superset", "subset", "exact", "any_order"]
ArgumentMode = Literal["exact", "ignore", "subset", "superset"]
MODES: tuple[str, ...] = get_args(Mode)
ARGUMENT_MODES: tuple[str, ...] = get_args(ArgumentMode)
ALIASES: dict[str, Mode] = {"exact": "strict", "any_order": "superset"}
SENSES: tuple[Mode, ...] = ("strict", "unordered", "in_order", "superset", "subset")
_YES = {mode: Verdict(f"match.{mode}", 1.0, "match") for mode in SENSES}
_NO = {mode: Verdict(f"match.{mode}", 0.0, "no_match") for mode in SENSES}
_NO_REFERENCE = tuple(
    Unmeasured("not_applicable", "the case has no reference calls", name)
    for name in (
        "match",
        *(f"match.{aspect}" for aspect in ("precision", "recall", "f1", "lcs", *SENSES)),
    )
)


class Comparison(NamedTuple):
    """A run's calls beside the reference.

    Attributes:
        mode: the sense of `matched`.
        pairs: for each call the index of its reference call, or None.
        n_paired: calls that have a reference call of their own.
        n_reference: calls of the reference.
        common: length of the longest common subsequence, in calls.
        aligned: each call matches the reference call at its own position.
    """

    mode: Mode
    pairs: tuple[int | None, ...]
    n_paired: int
    n_reference: int
    common: int
    aligned: bool

    @property
    def matched(self) -> bool:
        """Whether they match in the mode asked for."""
        return self.holds(self.mode)

    @property
    def missed(self) -> tuple[int, ...]:
        """Reference calls that no call answers to, by index."""
        return tuple(at for at in range(self.n_reference) if at not in self.pairs)

    def holds(self, mode: Mode) -> bool:
        """Tell whether the calls match the reference in this sense."""
        n_calls = len(self.pairs)
        match ALIASES.get(mode, mode):
            case "strict":
                return self.aligned and n_calls == self.n_reference
            case "in_order":
                return self.common == self.n_reference
            case "superset":
                return self.n_paired == self.n_reference
            case "subset":
                return self.n_paired == n_calls
            case _:
                return self.n_paired == n_calls == self.n_reference


def compare(
    calls: Sequence[ToolCall],
    reference: Sequence[ReferenceCall],
    *,
    mode: Mode = "in_order",
    arguments: ArgumentMode = "exact",
    overrides: Mapping[str, ArgumentMode | Sequence[str]] | None = None,
    tolerance: float = 0.0,
) -> Comparison:
    """Return how `calls` compare with `reference`; permuting either changes no count of pairs.

    Args:
        calls: what the agent did, in order.
        reference: what it should have done.
        mode: the sense of `matched`.
        arguments: `exact`; `ignore`; `subset`: the call says nothing beyond the reference;
            `superset`: the call says at least what the reference says.
        overrides: tool -> another argument mode for it, or the names of the arguments that count.
        tolerance: how far numbers may differ, relative or absolute (`assignment.same`).

    Raises:
        UsageError: a mode that does not exist, or a negative tolerance.
    """
    overrides = overrides or {}
    _check(mode, (arguments, *overrides.values()), tolerance)
    by_name: dict[str, list[int]] = {}
    for at, wanted in enumerate(reference):
        by_name.setdefault(wanted.name, []).append(at)
    candidates: list[Sequence[int]] = []
    for call in calls:
        named = by_name.get(call.name)
        if named is None:
            candidates.append(())
            continue
        rule = overrides.get(call.name, arguments)
        candidates.append(
            [at for at in named if _fits(call, reference[at].arguments, rule, tolerance)]
        )
    pairs = tuple(assign(candidates))
    return Comparison(
        mode=mode,
        pairs=pairs,
        n_paired=len(pairs) - pairs.count(None),
        n_reference=len(reference),
        common=longest_common(candidates),
        aligned=all(at in options for at, options in enumerate(candidates)),
    )


def _check(mode: str, rules: Sequence[str | Sequence[str]], tolerance: float) -> None:
    if mode not in MODES:
        raise UsageError(f"match mode {mode!r}; expected one of {', '.join(MODES)}")
    for rule in rules:
        if isinstance(rule, str) and rule not in ARGUMENT_MODES:
            raise UsageError(f"argument mode {rule!r}; expected one of {', '.join(ARGUMENT_MODES)}")
    if not tolerance >= 0:
        raise UsageError(f"tolerance is {tolerance!r}; expected 0 or more")


def _fits(
    call: ToolCall, wanted: dict[str, Json], rule: str | Sequence[str], tolerance: float
) -> bool:
    if rule == "ignore":
        return True
    made = call.arguments
    if made is None and call.parse_error is None:
        made = {}  # a call without arguments
    if not isinstance(made, dict):
        return False
    if rule == "exact":
        return same(made, wanted, tolerance)
    if rule == "superset":
        return contains(made, wanted, tolerance)
    if rule == "subset":
        return contains(wanted, made, tolerance)
    return all(
        (key in made) == (key in wanted) and same(made.get(key), wanted.get(key), tolerance)
        for key in rule
    )


_NO_CALLS = Unmeasured("undefined", "the agent made no calls", "match.precision")
_NEITHER = Unmeasured("undefined", "no calls made and none expected", "match.f1")
_EMPTY_RECALL = Unmeasured("undefined", "the reference is empty", "match.recall")
_EMPTY_LCS = Unmeasured("undefined", "the reference is empty", "match.lcs")


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    if case is None or case.reference is None:
        return _NO_REFERENCE
    exchanges = agent_calls(trajectory)
    found = compare([x.call for x in exchanges], case.reference)
    cites = tuple(
        sorted({x.step for x, pair in zip(exchanges, found.pairs, strict=True) if pair is not None})
    )
    senses = [_YES[mode] if found.holds(mode) else _NO[mode] for mode in SENSES]
    return (*_credit(found, cites), *senses)


def _credit(found: Comparison, cites: tuple[int, ...]) -> tuple[Answer, ...]:
    """Return the whole answer, citing the calls that pair up, and the four shares."""
    paired, n_calls, n_reference = found.n_paired, len(found.pairs), found.n_reference
    whole = Verdict(
        "match",
        label="match" if found.matched else "no_match",
        cites=cites,
        reason=f"in order: {found.common} of {n_reference} reference calls, {n_calls} made",
    )
    if not n_reference:
        precision = Verdict("match.precision", 0.0) if n_calls else _NO_CALLS
        f1 = Verdict("match.f1", 0.0) if n_calls else _NEITHER
        return (whole, precision, _EMPTY_RECALL, f1, _EMPTY_LCS)
    return (
        whole,
        Verdict("match.precision", paired / n_calls) if n_calls else _NO_CALLS,
        Verdict("match.recall", paired / n_reference),
        Verdict("match.f1", 2 * paired / (n_calls + n_reference)),
        Verdict("match.lcs", found.common / n_reference),
    )


MEASURE = Rule("match", "1", Scale(0.0, 1.0, ("match", "no_match")), (), _run)
