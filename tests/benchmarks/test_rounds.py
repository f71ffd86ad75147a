from __future__ import annotations

from benchmarks import run
from benchmarks.rounds import Row, Samples, table


def row(reached: float, limit: float, *, at_least: bool) -> Row:
    return Row(
        work="w", ours="1", peer="2", reached=reached, limit=limit, at_least=at_least, spread="3 %"
    )


def test_a_limit_is_kept_at_exactly_the_limit_and_missed_just_beyond() -> None:
    assert row(10.0, 10.0, at_least=True).met
    assert not row(9.99, 10.0, at_least=True).met
    assert row(10.0, 10.0, at_least=False).met
    assert not row(10.01, 10.0, at_least=False).met


def test_the_share_says_how_much_of_the_limit_is_used_up() -> None:
    assert row(20.0, 10.0, at_least=True).share == 0.5
    assert row(5.0, 10.0, at_least=False).share == 0.5
    assert row(0.0, 10.0, at_least=True).share == float("inf")


def test_the_spread_is_over_the_median() -> None:
    assert Samples((1.0, 2.0, 4.0)).spread == 1.5


def test_the_table_names_every_missed_limit() -> None:
    text = table([row(9.0, 10.0, at_least=True), row(9.0, 10.0, at_least=False)])
    assert [("MISSED" in line) for line in text.splitlines()] == [False, True, False]


def test_a_row_without_a_limit_is_neither_kept_nor_missed() -> None:
    line = table([row(9.0, 0.0, at_least=True)]).splitlines()[1]
    assert line.split() == ["w", "1", "2", "9", "x", "none", "3", "%"]
    assert row(0.5, 0.0, at_least=True).met


def test_the_page_keeps_the_sections_of_jobs_that_did_not_run() -> None:
    page = (
        run.INTRO
        + "\n"
        + "\n".join([run.section("J2", 0, "two", 0.0), run.section("J7", 1, "seven", 0.0)])
    )
    parts = run.sections(page)
    assert list(parts) == ["J2", "J7"]
    assert "two" in parts["J2"]
    assert "a limit was missed" in parts["J7"]


def test_every_job_of_the_folder_is_found_by_its_number() -> None:
    assert {"J2", "J7"} <= set(run.jobs())
