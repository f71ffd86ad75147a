"""When two calls are the same call: to each other, and to the calls of a reference.

Within a run two calls are the same when tool and canonical arguments are equal (`Exchange.key`,
made by `model.trajectory.call_key`): on that rest redundant calls and loops. Against the
letter of a reference arguments are compared by a mode, with a tolerance (`compare_calls`); whether
a call does what a sub-goal asks for, or what a call of another trial does, `fits_reference` says.
Calls pair up by a largest matching: a greedy pairing depends on the order in which it looks, a
largest matching does not.

Source: augmenting paths, Berge (1957), Two theorems in graph theory; longest common subsequence
over matching pairs, Hunt and Szymanski (1977), A fast algorithm for computing longest common
subsequences.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf, isclose
from typing import Literal, NamedTuple, get_args

from stepscope.errors import UsageError
from stepscope.measures.calls import agent_calls, effect_of, no_calls
from stepscope.measures.rule import RuleMeasure, absences, cached_on_run
from stepscope.model import (
    Answer,
    Case,
    Exchange,
    Facts,
    Json,
    ReferenceCall,
    Scale,
    SubGoal,
    ToolCall,
    ToolDef,
    Trajectory,
    Verdict,
)
from stepscope.model.effects import words_of
from stepscope.values import Unmeasured

Candidates = Sequence[Sequence[int]]


def equal_json(a: Json, b: Json, tolerance: float = 0.0) -> bool:
    """True if two JSON values say the same: 1 is 1.0, but True is not 1.

    Numbers may differ by `tolerance`, relative to the larger or absolute, whichever allows more.
    """
    if tolerance:
        return _close(a, b, tolerance)
    return bool(a == b) and _no_mixup(a, b)


def _no_mixup(a: Json, b: Json) -> bool:
    """Tell, of two values that Python calls equal, whether no True stands against a 1."""
    kind = type(a)
    if kind is dict:
        for key, value in a.items():
            if type(value) is not str and not _no_mixup(value, b[key]):
                return False
        return True
    if kind is list:
        for x, y in zip(a, b, strict=True):
            if type(x) is not str and not _no_mixup(x, y):
                return False
        return True
    return (kind is bool) is (type(b) is bool)


def _close(a: Json, b: Json, tolerance: float) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(k in b and _close(a[k], b[k], tolerance) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_close(x, y, tolerance) for x, y in zip(a, b, strict=False))
    return bool(a == b)


def contains_json(whole: Json, part: dict[str, Json], tolerance: float = 0.0) -> bool:
    """True if `whole` is an object that has every member of `part`."""
    if not isinstance(whole, dict):
        return False
    for key, wanted in part.items():
        if key not in whole or not equal_json(whole[key], wanted, tolerance):
            return False
    return True


# Words in the name of an argument whose list is read in order: run, said or walked one by one.
IN_ORDER = frozenset("argv args arguments cmd command commands messages path route steps".split())
# What the name of an argument adds to that of the one whose things it replaces.
REPLACING = frozenset({"new", "target", "to", "updated"})
# Longer lists are data, compared as they are.
MOST_ITEMS = 200


def fits_reference(made: Json, wanted: Mapping[str, Json], tool: ToolDef | None = None) -> bool:
    """True if a call does what a reference asks for, however it is worded.

    It may say more, also inside of records; what it leaves out has the default of the tool's
    schema; lists of things are in any order, those that go together by their places
    (`item_ids`, `new_item_ids`) as pairs, and a thing that is replaced by itself does not count.
    Lists of numbers, and of what is run one by one, keep their order.

    >>> fits_reference({"ids": ["b", "a"]}, {"ids": ["a", "b"]})
    True
    >>> fits_reference({"ids": ["a", "b"], "new_ids": ["x", "b"]}, {"ids": ["a"], "new_ids": ["x"]})
    True
    >>> fits_reference({"ids": ["a", "b"], "new_ids": ["y", "x"]},
    ...                {"ids": ["a", "b"], "new_ids": ["x", "y"]})
    False
    """
    if not isinstance(made, dict):
        return False
    return contains_json(made, dict(wanted)) or _record_fits(_defaults(tool) | made, wanted)


def same_arguments(one: Json, other: Json, tool: ToolDef | None = None) -> bool:
    """True if two calls do the same: the same arguments by name, each as `fits_reference` says."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return equal_json(one, other)
    one, other = _defaults(tool) | one, _defaults(tool) | other
    return one.keys() == other.keys() and (_record_fits(one, other) or _record_fits(other, one))


def tool_called(trajectory: Trajectory, name: str) -> ToolDef | None:
    """Return the first declared tool of a name."""
    return next((tool for tool in trajectory.tools or () if tool.name == name), None)


def _defaults(tool: ToolDef | None) -> dict[str, Json]:
    declared = (tool.schema or {}).get("properties") if tool is not None else None
    if not isinstance(declared, dict):
        return {}
    return {k: v["default"] for k, v in declared.items() if isinstance(v, dict) and "default" in v}


def _record_fits(made: Mapping[str, Json], wanted: Mapping[str, Json]) -> bool:
    lists = [key for key, value in wanted.items() if _is_set(key, value)]
    if any(not _value_fits(made.get(k), v) for k, v in wanted.items() if k not in lists):
        return False
    groups: list[list[str]] = []
    for key in sorted(lists, key=lambda name: len(words_of(name))):
        named = [group for group in groups if set(words_of(group[0])) <= set(words_of(key))]
        if named:
            named[0].append(key)
        else:
            groups.append([key])
    return all(_lists_fit(made, wanted, group) for group in groups)


def _is_set(key: str, value: Json) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= MOST_ITEMS
        and all(isinstance(item, str | dict) for item in value)
        and IN_ORDER.isdisjoint(words_of(key))
    )


def _value_fits(made: Json, wanted: Json) -> bool:
    if isinstance(wanted, dict):
        return isinstance(made, dict) and _record_fits(made, wanted)
    if isinstance(wanted, list) and isinstance(made, list) and len(made) == len(wanted):
        return all(_value_fits(a, b) for a, b in zip(made, wanted, strict=True))
    return equal_json(made, wanted)


def _lists_fit(made: Mapping[str, Json], wanted: Mapping[str, Json], group: list[str]) -> bool:
    """True if lists that go together hold the same rows, in any order."""
    given = [one for one in map(made.get, group) if isinstance(one, list)]
    if len(given) < len(group) or any(len(one) > MOST_ITEMS for one in given):
        return False
    asked = [wanted[key] for key in group]
    if len({len(one) for one in asked}) > 1 or len({len(one) for one in given}) > 1:
        return all(_lists_fit(made, wanted, [key]) for key in group) if len(group) > 1 else False
    rows, goals = list(zip(*given, strict=True)), list(zip(*asked, strict=True))
    first = set(words_of(group[0]))
    if any(set(words_of(key)) - first <= REPLACING for key in group[1:]):
        rows = [row for row in rows if row[0] != row[1]]
        goals = [row for row in goals if row[0] != row[1]]
    if len(rows) != len(goals):
        return False
    options = [
        [at for at, row in enumerate(rows) if all(map(_value_fits, row, goal))] for goal in goals
    ]
    return None not in largest_matching(options)


def excludes(one: SubGoal, other: SubGoal) -> bool:
    """True if a reference asks for one thing twice where it can be done but once.

    Two tools with the same arguments (one of them fits the state that is found), or one tool on the
    same list of things, with one other argument that differs (two ways to pay).
    """
    a, b = one.arguments, other.arguments
    if a.keys() != b.keys() or len(a) < 2:
        return False
    if one.tool != other.tool:
        return equal_json(a, b)
    listed = [key for key in a if isinstance(a[key], list) and a[key]]
    apart = [key for key in a if not equal_json(a[key], b[key])] if listed else []
    single = len(apart) == 1 and not isinstance(a[apart[0]], list | dict | float | int)
    return single and listed != apart


def overlaps(arguments: Json, other: Json) -> bool:
    """True if at least half of `arguments` (and at least one) recur in `other`.

    Two calls that share as much speak of the same object: the same order with another item, the
    same booking with another price.
    """
    if not isinstance(arguments, dict) or not isinstance(other, dict) or not arguments:
        return False
    shared = sum(key in other and equal_json(arguments[key], other[key]) for key in arguments)
    return shared * 2 >= len(arguments)


# Arguments that hold a program's text: what a shell or an interpreter is to run.
PROGRAMS = ("command", "cmd", "code", "script", "keystrokes")
# What is said of a command beside it: two calls that differ in these alone run the same.
COMMENTS = frozenset(
    "description explanation thought thoughts reason security_risk timeout".split()
)
_STARTS = re.compile(r"^\s*(?:(?:cd|export|set|source|sudo|env|timeout)\b[^&;|\n]*(?:&&|;|\n)\s*)*")


def program_of(call: ToolCall) -> str | None:
    """Return the text that a call hands to a shell or an interpreter; None for other calls."""
    given = call.arguments
    if not isinstance(given, dict):
        return None
    named = next((name for name in PROGRAMS if isinstance(given.get(name), str)), None)
    # An editor's `command` is one of a few words, beside a path and a text.
    if named is None or any(name not in COMMENTS and name != named for name in given):
        return None
    text = given[named]
    return text if isinstance(text, str) else None


# Longer outputs, and those of more lines, answer no one question; more words are no name.
ANSWER_CHARACTERS, ANSWER_LINES, OWN_WORDS, SHARED_WORDS = 400, 3, 2, 4
# What a shell prints around an output: the line with the command, and how it ended.
FRAME = re.compile(
    r"(?im)\A\s*(?:exitcode:.*\s+)?(?:\w+ ){1,3}output:|^[^\s#$]*[@~][^\s#$]*[#$] .*$|"
    r"^\W*(?:[\w ]*\b)?(?:exit|return)(?:ed)?[ _]?(?:code|status)?[ :=]+\d+\W*$"
)
_ECHO = re.compile(r"(?m)^[^\s#$]*[@~][^\s#$]*[#$] (.+)$")
_SHELL_BLOCK = re.compile(r"```\w*\n([^\n]{1,200})\n```")
_ASKED = re.compile(r"(?!\d)[\w./@+-]*\w")


def is_short(output: str) -> bool:
    """True if an output may be the answer to one question."""
    return len(output) < ANSWER_CHARACTERS and output[:6] != "Error:" and output[:1] != "["


def joined_answers(
    outputs: Sequence[tuple[int, str]], trajectory: Trajectory, lines_of: Callable[[str], list[str]]
) -> list[tuple[int, str]]:
    """Return outputs with the short ones of commands alike as one, each below what it is of."""
    found = list[tuple[int, list[str], list[str]]]()
    for at, text in outputs:
        lines = lines_of(FRAME.sub("", text)) if is_short(text) else []
        if 0 < len(said := [x.strip() for x in lines if x.strip()]) <= ANSWER_LINES:
            asked = dict.fromkeys(_ASKED.findall(_command_of(at, text, trajectory)))
            found.append((at, [*asked], said))
    for group in (found, found[:2]) if len(found) > 1 else ():
        shared = set(group[0][1]).intersection(*(words for _, words, _ in group))
        owns = [[x for x in words if x not in shared] for _, words, _ in group]
        if shared and all(0 < len(own) <= OWN_WORDS for own in owns):
            lines = [f"{' '.join([x for x in group[0][1] if x in shared][:SHARED_WORDS])}:"]
            for own, (_, _, said) in zip(owns[::-1], group[::-1], strict=True):
                start = "\n    " if len(said) > 1 else " "
                name = " ".join(x.lstrip("./-") for x in own)
                lines.append(start.join([f"  {name}:", *said]))
            rest = [x for x in outputs if x[0] not in [at for at, _, _ in group]]
            return sorted([*rest, (group[0][0], "\n".join(lines))], reverse=True)
    return [*outputs]


@cached_on_run
def _answers_of(trajectory: Trajectory) -> dict[int, list[Exchange]]:
    found: dict[int, list[Exchange]] = {}
    for exchange in trajectory.exchanges:
        found.setdefault(exchange.answer_step, []).append(exchange)
    return found


def _command_of(at: int, text: str, trajectory: Trajectory) -> str:
    """Return what an output answers, a short command or the arguments of a call; else nothing."""
    if (echo := _ECHO.search(text)) is not None:
        return echo[1]
    answered = _answers_of(trajectory).get(at, ())
    call = next((x.call for x in answered if x.result and x.result.text == text), None)
    if call is None:
        found = _SHELL_BLOCK.search(trajectory.steps[at - 1].text) if at else None
        return found[1] if found else ""
    given = program_of(call) or call.arguments
    return " ".join(map(str, given.values())) if isinstance(given, dict) else str(given or "")


def same_key(exchange: Exchange) -> str:
    """Return what two calls have in common that ask the same thing, comments of commands aside."""
    program = program_of(exchange.call)
    return exchange.key if program is None else f"{exchange.call.name}\0{program.strip()}"


def is_same_purpose(call: ToolCall, other: ToolCall) -> bool:
    """True if a call of the same tool is about what another was: in a shell, the same program."""
    if call.name != other.name:
        return False
    one, two = program_of(call), program_of(other)
    return one is None or two is None or _first_word(one) == _first_word(two)


def _first_word(program: str) -> str:
    words = _STARTS.sub("", program).split(None, 1)
    return words[0].rsplit("/", 1)[-1] if words else ""


def largest_matching(candidates: Candidates) -> list[int | None]:
    """Return a largest matching: for each left item its right item, each right used once."""
    owner: dict[int, int] = {}
    pairs: list[int | None] = []
    for left, options in enumerate(candidates):
        pairs.append(None)
        for right in options:
            if right not in owner:
                owner[right] = left
                pairs[left] = right
                break
        else:
            if options:
                _augment(left, candidates, owner, pairs)
    return pairs


def _augment(start: int, fits: Candidates, owner: dict[int, int], pairs: list[int | None]) -> None:
    """Free a right item for `start` along an alternating path, where there is one."""
    reached_from: dict[int, int] = {}
    queue = [start]
    for left in queue:
        for right in fits[left]:
            if right in reached_from:
                continue
            reached_from[right] = left
            if right in owner:
                queue.append(owner[right])
                continue
            free: int | None = right
            while free is not None:
                taker = reached_from[free]
                owner[free] = taker
                pairs[taker], free = free, pairs[taker]
            return


def longest_common_subsequence(candidates: Candidates) -> int:
    """Return how many left items match right items in the same order on both sides.

    Candidates must be ascending.
    """
    tails: list[int] = []
    for options in candidates:
        for right in reversed(options):
            at = bisect_left(tails, right)
            tails[at : at + 1] = [right]
    return len(tails)


MatchMode = Literal["strict", "unordered", "in_order", "superset", "subset", "exact", "any_order"]
ArgumentMode = Literal["exact", "ignore", "subset", "superset"]
MODES: tuple[str, ...] = get_args(MatchMode)
ARGUMENT_MODES: tuple[str, ...] = get_args(ArgumentMode)
ALIASES: dict[str, MatchMode] = {"exact": "strict", "any_order": "superset"}
SENSES: tuple[MatchMode, ...] = ("strict", "unordered", "in_order", "superset", "subset")
_YES = {mode: Verdict(f"match.{mode}", 1.0, "match") for mode in SENSES}
_NO = {mode: Verdict(f"match.{mode}", 0.0, "no_match") for mode in SENSES}
_ASPECTS = [f"match.{aspect}" for aspect in ("precision", "recall", "f1", "lcs", *SENSES)]
_WITHOUT_CALLS = "the case has no reference calls"
_NO_REFERENCE = absences("not_applicable", _WITHOUT_CALLS, "match", *_ASPECTS)


class CallComparison(NamedTuple):
    """A run's calls beside the reference."""

    mode: MatchMode  # the sense of `matched`
    pairs: tuple[int | None, ...]  # for each call the index of its reference call, or None
    n_paired: int  # calls that have a reference call of their own
    n_reference: int  # calls of the reference
    common: int  # length of the longest common subsequence, in calls
    aligned: bool  # each call matches the reference call at its own position

    @property
    def matched(self) -> bool:
        """Whether they match in the mode asked for."""
        return self.holds(self.mode)

    @property
    def missed(self) -> tuple[int, ...]:
        """Reference calls that no call answers to, by index."""
        return tuple(at for at in range(self.n_reference) if at not in self.pairs)

    @property
    def senses(self) -> dict[str, bool]:
        """In which senses they match."""
        n_calls, n_paired, n_reference = len(self.pairs), self.n_paired, self.n_reference
        return {
            "strict": self.aligned and n_calls == n_reference,
            "unordered": n_paired == n_calls == n_reference,
            "in_order": self.common == n_reference,
            "superset": n_paired == n_reference,
            "subset": n_paired == n_calls,
        }

    def holds(self, mode: MatchMode) -> bool:
        """True if the calls match the reference in this sense."""
        return self.senses[ALIASES.get(mode, mode)]


def compare_calls(
    calls: Sequence[ToolCall],
    reference: Sequence[ReferenceCall],
    *,
    mode: MatchMode = "in_order",
    arguments: ArgumentMode = "exact",
    overrides: Mapping[str, ArgumentMode | Sequence[str]] | None = None,
    tolerance: float = 0.0,
) -> CallComparison:
    """Return how `calls` compare with `reference`; permuting either changes no count of pairs.

    Args:
        mode: the sense of `matched`.
        arguments: `exact`; `ignore`; `subset`: the call says nothing beyond the reference;
            `superset`: the call says at least what the reference says.
        overrides: tool -> another argument mode for it, or the names of the arguments that count.
        tolerance: how far numbers may differ, see `equal_json`; not negative.
    """
    overrides = overrides or {}
    _check(mode, (arguments, *overrides.values()), tolerance)
    by_name: dict[str, list[int]] = {}
    for at, wanted in enumerate(reference):
        by_name.setdefault(wanted.name, []).append(at)
    candidates: list[Sequence[int]] = []
    for call in calls:
        named = by_name.get(call.name, ())
        rule = overrides.get(call.name, arguments)
        candidates.append([at for at in named if _fits(call, reference[at], rule, tolerance)])
    pairs = tuple(largest_matching(candidates))
    n_paired, common = len(pairs) - pairs.count(None), longest_common_subsequence(candidates)
    aligned = all(at in options for at, options in enumerate(candidates))
    return CallComparison(mode, pairs, n_paired, len(reference), common, aligned)


def _check(mode: str, rules: Sequence[str | Sequence[str]], tolerance: float) -> None:
    if mode not in MODES:
        raise UsageError(f"match mode {mode!r}; expected one of {', '.join(MODES)}")
    for rule in rules:
        if isinstance(rule, str) and rule not in ARGUMENT_MODES:
            raise UsageError(f"argument mode {rule!r}; expected one of {', '.join(ARGUMENT_MODES)}")
    if not tolerance >= 0:
        raise UsageError(f"tolerance is {tolerance!r}; expected 0 or more")


def _fits(call: ToolCall, wanted: ReferenceCall, rule: str | Sequence[str], within: float) -> bool:
    if rule == "ignore" or wanted.any_arguments:
        return True
    made, goal = call.arguments, wanted.arguments
    if made is None and call.parse_error is None:
        made = {}  # a call without arguments
    if not isinstance(made, dict):
        return False
    if rule == "exact":
        return equal_json(made, goal, within)
    if rule == "superset":
        return contains_json(made, goal, within)
    if rule == "subset":
        return contains_json(goal, made, within)
    return all(
        (key in made) == (key in goal) and equal_json(made.get(key), goal.get(key), within)
        for key in rule
    )


_PRECISION_OF_NO_CALLS = Unmeasured("undefined", "the agent made no calls", "match.precision")
_NEITHER = Unmeasured("undefined", "no calls made and none expected", "match.f1")
_EMPTY_RECALL = Unmeasured("undefined", "the reference is empty", "match.recall")
_EMPTY_LCS = Unmeasured("undefined", "the reference is empty", "match.lcs")


def _match(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Calls against a reference: how many pair up, and in which of five senses they match.

    Modes: `strict` (same calls, same order), `unordered` (same calls), `in_order` (every reference
    call in order, others between), `superset` (every reference call, others too), `subset` (nothing
    beyond the reference). `exact` is `strict` and `any_order` is `superset`, as other tools name
    them. Partial credit: precision and recall of a largest matching, F1, longest common
    subsequence.
    """
    if case is None or case.reference is None:
        return _NO_REFERENCE
    exchanges = agent_calls(trajectory)
    found = compare_calls([x.call for x in exchanges], case.reference)
    paired = zip(exchanges, found.pairs, strict=True)
    cites = tuple(sorted({x.step for x, pair in paired if pair is not None}))
    held = found.senses
    return (*_credit(found, cites), *[(_YES if held[mode] else _NO)[mode] for mode in SENSES])


def _credit(found: CallComparison, cites: tuple[int, ...]) -> tuple[Answer, ...]:
    """Return the whole answer, citing the calls that pair up, and the four shares."""
    paired, n_calls, n_reference = found.n_paired, len(found.pairs), found.n_reference
    label = "match" if found.matched else "no_match"
    said = f"in order: {found.common} of {n_reference} reference calls, {n_calls} made"
    whole = Verdict("match", label=label, cites=cites, reason=said)
    if not n_reference:
        precision = Verdict("match.precision", 0.0) if n_calls else _PRECISION_OF_NO_CALLS
        f1 = Verdict("match.f1", 0.0) if n_calls else _NEITHER
        return (whole, precision, _EMPTY_RECALL, f1, _EMPTY_LCS)
    return (
        whole,
        Verdict("match.precision", paired / n_calls) if n_calls else _PRECISION_OF_NO_CALLS,
        Verdict("match.recall", paired / n_reference),
        Verdict("match.f1", 2 * paired / (n_calls + n_reference)),
        Verdict("match.lcs", found.common / n_reference),
    )


MATCH = RuleMeasure("match", "1", Scale(0.0, 1.0, ("match", "no_match")), (), _match)


# Cycles longer than this many calls are a plan carried out again, not an agent going round; the
# bound also keeps the cost linear in the number of calls.
LONGEST_CYCLE_CALLS = 32

_LOOPS_OF_NO_CALLS = (no_calls("loops"),)
_NONE = (Verdict("loops", 0.0),)


def longest_cycle(keys: Sequence[str]) -> tuple[int, int, int]:
    """Return start, length and period of the longest repeated cycle; length 0 where none is.

    Of equally long ones the first, with its shortest period.
    """
    best = (0, 0, 0)
    for period in range(1, min(LONGEST_CYCLE_CALLS, len(keys) // 2) + 1):
        echoes = 0  # calls in a row that equal the one a period before
        for at in range(period, len(keys)):
            echoes = echoes + 1 if keys[at] == keys[at - period] else 0
            if echoes >= period and echoes + period > best[1]:
                best = (at + 1 - echoes - period, echoes + period, period)
    return best


def _loops(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """The longest cycle of calls that went round at least twice, cited.

    The value is the number of calls in it: `a b a b` is 4, `a a` is 2, no cycle is 0. A call is its
    tool and its arguments; what came back does not count, so polling shows up as well.
    """
    made = agent_calls(trajectory)
    if not made:
        return _LOOPS_OF_NO_CALLS
    keys = [exchange.key for exchange in made]
    if len(set(keys)) == len(keys):
        return _NONE
    start, length, period = longest_cycle(keys)
    if not length:
        return _NONE
    cycle = made[start : start + length]
    said = f"{length} calls go round: {', '.join(x.call.name for x in cycle[:period])}"
    cites = tuple(exchange.step for exchange in cycle)
    return (Verdict("loops", float(length), cites=cites, reason=said),)


LOOPS = RuleMeasure("loops", "1", Scale(0.0, inf), (), _loops)


# Shorter answers ("ok", "[]", "375.0", "true") coincide by chance: they are no sign of repetition.
NEAR_MIN_CHARACTERS = 32

_COUNTED = ("count", "identical", "back_to_back", "near")
_NO_COUNTS = tuple(Verdict(f"redundant_calls.{aspect}", 0.0) for aspect in _COUNTED)
_REDUNDANCY_OF_NO_CALLS: tuple[Answer, ...] = (no_calls("redundant_calls"), *_NO_COUNTS)
_CLEAN = (Verdict("redundant_calls", 0.0), *_NO_COUNTS[:3])


def _redundancy(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Calls that ask again what is already known.

    A call is redundant when an earlier call of the same tool with the same arguments has an answer
    that still holds: it was no error (a retry is not redundant), and nothing in between may have
    changed the world. A call that writes asks nothing: done twice, it is a fault of tool_selection.
    A tool of unknown effect may have (declare it in `stepscope.toml`).

    Aspects: `redundant_calls` share of calls; `.count`; `.identical` the same tool and arguments as
    any earlier call, before those two rules; `.back_to_back` as the call just before (the
    definition of trajectory-vs-outcome); `.near` a new question that brought an answer already had.
    """
    exchanges = trajectory.exchanges
    made = agent_calls(trajectory)
    if not made:
        return _REDUNDANCY_OF_NO_CALLS
    near = _count("near", near_duplicates(made, facts))
    if len({exchange.key for exchange in made}) == len(made):
        return (*_CLEAN, near)
    redundant = redundant_calls(exchanges, facts)
    first = {exchange.key: exchange for exchange in reversed(made)}
    identical = [exchange for exchange in made if first[exchange.key] is not exchange]
    adjacent = [b for a, b in pairwise(made) if a.key == b.key]
    cites = tuple(repeat.step for repeat, _ in redundant)
    said = ", ".join(f"{again.step} repeats {before.step}" for again, before in redundant)
    return (
        Verdict("redundant_calls", len(redundant) / len(made), cites=cites, reason=said),
        _count("count", [repeat for repeat, _ in redundant]),
        _count("identical", identical),
        _count("back_to_back", adjacent),
        near,
    )


def redundant_calls(
    exchanges: Sequence[Exchange], facts: Facts | None
) -> list[tuple[Exchange, Exchange]]:
    """Return the agent's redundant calls, each with the earlier call whose answer still holds."""
    if len({exchange.key for exchange in exchanges}) == len(exchanges):
        return []
    valid: dict[str, Exchange] = {}
    found: list[tuple[Exchange, Exchange]] = []
    for exchange in exchanges:
        earlier = valid.get(exchange.key)
        if earlier is not None and exchange.call.requestor == "agent":
            found.append((exchange, earlier))
        if exchange.failed:
            continue
        effect = effect_of(exchange.call.name, facts)
        if effect != "read" and valid:
            valid.clear()
        # What was done is done twice, not asked twice: that is `axes.tool_selection`'s.
        if exchange.result is not None and effect != "write":
            valid[exchange.key] = exchange
    return found


def near_duplicates(exchanges: Iterable[Exchange], facts: Facts | None) -> list[Exchange]:
    """Return reads with new arguments whose answer is, word for word, one the tool gave before."""
    answers: dict[tuple[str, str], set[str]] = {}
    found: list[Exchange] = []
    for exchange in exchanges:
        result = exchange.result
        if result is None or result.status == "error" or len(result.parts) != 1:
            continue
        text = result.parts[0].text
        if text is None or len(text) < NEAR_MIN_CHARACTERS:
            continue
        name = exchange.call.name
        questions = answers.get((name, text))
        if questions is None:
            answers[name, text] = {exchange.key}
        elif exchange.key not in questions:
            questions.add(exchange.key)
            if effect_of(name, facts) != "write":
                found.append(exchange)
    return found


def _count(aspect: str, exchanges: list[Exchange]) -> Verdict:
    cites = tuple(exchange.step for exchange in exchanges)
    return Verdict(f"redundant_calls.{aspect}", float(len(exchanges)), cites=cites)


REDUNDANT_CALLS = RuleMeasure("redundant_calls", "2", Scale(0.0, inf), ("effects",), _redundancy)
