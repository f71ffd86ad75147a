"""What does an outsider find who has read the documentation, and not the code?

`python -m bars.run attack [--area AREA] [--only WORDS] [--round N] [--list]`. Cases of seven
areas (gates, outputs, stores, settings, replies of judges, pages that are served, texts for a
forge), each with what is expected of it by the documentation, written down before it was first
run, and a process and folder of its own.

A miss is *high* where it is a false green, a reply lost or paid twice, a secret shown, a hang over
10 s, a traceback or "a bug in stepscope"; *medium* where a finding or a reason is missing or an
exit code is wrong; *low* where words are. Code 0: no case is missed; 3: one is.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType

import stepscope
from bars.attack import (
    _eighth,
    _eighth_outputs,
    _eighth_replies,
    _eighth_settings,
    _eighth_stores,
    _fifth,
    _fifth_outputs,
    _fifth_replies,
    _fifth_settings,
    _fifth_stores,
    _fourth,
    _fourth_outputs,
    _fourth_replies,
    _fourth_settings,
    _fourth_stores,
    _gates,
    _outputs,
    _replies,
    _second,
    _settings,
    _seventh,
    _seventh_outputs,
    _seventh_replies,
    _seventh_settings,
    _seventh_stores,
    _sixth,
    _sixth_outputs,
    _sixth_replies,
    _sixth_settings,
    _sixth_stores,
    _stores,
    _third,
    _third_replies,
    _third_texts,
    _third_view,
    _third_world,
)
from bars.attack._cases import Case, Found, Place, attempt

AREAS: dict[str, ModuleType] = {
    "gates": _gates,
    "outputs": _outputs,
    "stores": _stores,
    "settings": _settings,
    "replies": _replies,
    "view": _outputs,
    "texts": _gates,
}
LATER = (_second, _third, _third_texts, _third_world, _third_replies, _third_view, _fourth,
         _fourth_outputs, _fourth_stores, _fourth_settings, _fourth_replies, _fifth, _fifth_outputs,
         _fifth_stores, _fifth_settings, _fifth_replies, _sixth, _sixth_outputs, _sixth_stores,
         _sixth_settings, _sixth_replies, _seventh, _seventh_outputs, _seventh_stores,
         _seventh_settings, _seventh_replies, _eighth, _eighth_outputs, _eighth_stores,
         _eighth_settings, _eighth_replies)  # fmt: skip
# Loaded before cases are forked, so that each does not load them again.
LOADED = ("numpy", "scipy.stats", "openai", "anthropic", "aiohttp", "genai_prices", "rich.console",
          "tests.factories")  # fmt: skip


def all_cases() -> list[Case]:
    """Return the cases of every area."""
    return [case for part in (*list(AREAS.values())[:5], *LATER) for case in part.cases()]


def prepared(area: str, folder: Path) -> Path:
    """Return a folder in which an area's cases begin, made in a process of its own."""
    base = folder / area
    base.mkdir()
    case = Case("gates", "preparing", "", "high", _preparing(area, base))
    empty = folder / f"{area}-empty"
    empty.mkdir()
    found = attempt(case, empty)
    if found.found:
        raise RuntimeError(f"{area} could not be prepared: {found.found}")
    return base


def _preparing(area: str, base: Path):  # type: ignore[no-untyped-def]
    import os

    def do(place: Place) -> str:
        os.chdir(base)
        AREAS[area].prepare(Place(base, checked=False))
        return ""

    return do


def attack(cases: list[Case], *, quiet: bool = False) -> list[Found]:
    """Run cases, and return what came of each."""
    modules = (one.name for one in pkgutil.walk_packages(stepscope.__path__, "stepscope."))
    for name in (*LOADED, *modules):
        importlib.import_module(name)
    found = []
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        bases: dict[str, Path] = {}
        for case in cases:
            if case.area not in bases:
                bases[case.area] = prepared(case.area, Path(folder))
            one = attempt(case, bases[case.area])
            found.append(one)
            if one.found and not quiet:
                print(f"MISSED {case.area}: {case.name} ({one.severity}, {one.seconds:.1f} s)\n"
                      f"  expected: {case.expected}\n  found: {one.found}", flush=True)  # fmt: skip
    return found


def summary(found: list[Found]) -> list[str]:
    """Return a line an area and round: how many cases held, and misses by severity."""
    lines = []
    for number in sorted({one.case.round for one in found}):
        for area in AREAS:
            of = [one for one in found if one.case.area == area and one.case.round == number]
            missed = Counter(one.severity for one in of if one.found)
            told = ", ".join(f"{missed[s]} {s}" for s in ("high", "medium", "low") if missed[s])
            seconds = sum(one.seconds for one in of)
            if of:
                lines.append(f"round {number}  {area:<9} {len(of) - missed.total():>3} of "
                             f"{len(of):>3} hold  {seconds:6.1f} s  {told}")  # fmt: skip
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Run the bar; print each miss, then the counts."""
    parser = argparse.ArgumentParser(prog="python -m bars.attack.attack")
    parser.add_argument("--area", choices=AREAS)
    parser.add_argument("--only", default="")
    parser.add_argument("--round", type=int)
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    cases = [
        case
        for case in all_cases()
        if (not chosen.area or case.area == chosen.area)
        and chosen.only in case.name
        and (not chosen.round or case.round == chosen.round)
    ]
    if chosen.list:
        for case in cases:
            print(f"{case.area}\t{case.round}\t{case.severity}\t{case.name}\t{case.expected}")
        return 0
    found = attack(cases)
    print("\n".join(summary(found)))
    missed = sum(bool(one.found) for one in found)
    print(f"{len(found) - missed} of {len(found)} cases hold; no miss is allowed")
    return 3 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
