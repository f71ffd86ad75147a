"""The attack holds where it is quick: a few cases of every area, and how a miss is told."""

from __future__ import annotations

from collections import Counter

from bars.attack._cases import Case, Place
from bars.attack.attack import AREAS, all_cases, attack, summary

QUICK = {
    "failing runs in UTF-16",
    "words: a case that nobody has",
    "a baseline that is a pipe",
    "verdicts of others",
    "shapes of hostile runs in JSON",
    "a store: a trigger on what is read",
    "salvage onto a file of the user",
    "settings that are a pipe",
    "a file of a workflow: policy = /dev/zero",
    "usage below 0",
    "says a key twice",
    "queries: windows of a run",
    "a job summary that is a pipe",
}


def test_a_few_cases_of_every_area_hold() -> None:
    chosen = [case for case in all_cases() if case.name in QUICK]
    assert {case.area for case in chosen} == set(AREAS)
    found = attack(chosen, quiet=True)
    assert [(one.case.name, one.found) for one in found if one.found] == []


def test_every_area_has_its_cases_under_names_of_their_own() -> None:
    cases = all_cases()
    assert min(Counter(case.area for case in cases).values()) >= 25
    assert [name for name, n in Counter((c.area, c.name) for c in cases).items() if n > 1] == []


def test_a_case_that_fails_dies_or_shows_a_secret_is_a_miss() -> None:
    def dies(place: Place) -> str:
        raise SystemExit(7)

    def shows(place: Place) -> str:
        from bars.attack._cases import SECRET

        place.run("import", SECRET)
        return place.run("report", "--where", "nothing").err[:0] + "not as expected"

    made = [
        Case("settings", "dies", "", "low", dies),
        Case("settings", "shows", "", "low", shows),
    ]
    found = attack(made, quiet=True)
    assert [(one.severity, bool(one.found)) for one in found] == [("high", True), ("low", True)]
    assert "0 of   2 hold" in summary(found)[0]
