"""Who answers to whom: equality of JSON values, largest matchings, longest common subsequences.

Calls and reference calls form a bipartite graph. A greedy pairing depends on the order in which it
looks; a largest matching does not, so permuting either side changes nothing.

Source: augmenting paths, Berge (1957), Two theorems in graph theory; longest common subsequence
over matching pairs, Hunt and Szymanski (1977), A fast algorithm for computing longest common
subsequences.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import isclose

from stepscope.model import Json

Candidates = Sequence[Sequence[int]]


def same(a: Json, b: Json, tolerance: float = 0.0) -> bool:
    """Tell whether two JSON values say the same: 1 is 1.0, but True is not 1.

    Numbers may differ by `tolerance`, relative to the larger or absolute, whichever allows more.

    >>> same({"x": [1, 2]}, {"x": [1.0, 2]}), same(True, 1), same(100, 101, tolerance=0.01)
    (True, False, True)
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
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(_close(x, y, tolerance) for x, y in pairs)
    return bool(a == b)


def contains(whole: Json, part: dict[str, Json], tolerance: float = 0.0) -> bool:
    """Tell whether `whole` is an object that has every member of `part`."""
    if not isinstance(whole, dict):
        return False
    for key, wanted in part.items():
        if key not in whole or not same(whole[key], wanted, tolerance):
            return False
    return True


def alike(arguments: Json, other: Json) -> bool:
    """Tell whether at least half of `arguments` (and at least one) recur in `other`.

    Two calls that share as much speak of the same object: the same order with another item, the
    same booking with another price.
    """
    if not isinstance(arguments, dict) or not isinstance(other, dict) or not arguments:
        return False
    shared = sum(key in other and same(arguments[key], other[key]) for key in arguments)
    return shared * 2 >= len(arguments)


def assign(candidates: Candidates) -> list[int | None]:
    """Return a largest matching: for each left item its right item, each right used once.

    >>> assign([[0, 1], [0]])
    [1, 0]
    """
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


def _augment(
    start: int, candidates: Candidates, owner: dict[int, int], pairs: list[int | None]
) -> None:
    """Free a right item for `start` along an alternating path, where there is one."""
    reached_from: dict[int, int] = {}
    queue = [start]
    for left in queue:
        for right in candidates[left]:
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


def longest_common(candidates: Candidates) -> int:
    """Return how many left items match right items in the same order on both sides.

    Candidates must be ascending.

    >>> longest_common([[1], [0], [2]])
    2
    """
    tails: list[int] = []
    for options in candidates:
        for right in reversed(options):
            at = bisect_left(tails, right)
            tails[at : at + 1] = [right]
    return len(tails)
