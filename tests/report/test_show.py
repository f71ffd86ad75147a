from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import msgspec
import pytest

from stepscope.errors import UsageError
from stepscope.report.views.show import show_run_json
from stepscope.score import score_runs
from stepscope.store import Store
from tests.factories import did, run, user
from tests.report.literal import HOSTILE, call, result, said, show_run, trajectory


@pytest.fixture
def store() -> Iterator[Store]:
    run = trajectory(
        *(said(at, "agent", f"word {at}") for at in range(20)),
        call(20, "book", to=HOSTILE, seats=3),
        result(21, "Error: full", error=True),
        said(22, "agent", "Sorry. " + "It is full. " * 40),
    )
    with Store.open(":memory:") as opened:
        opened.put([run])
        score_runs(opened)
        yield opened


def steps_of(text: str) -> list[int]:
    lines = text.splitlines()[1:]
    ends = next(at for at, line in enumerate(lines) if not line.startswith(" ")) if lines else 0
    return [int(line[2:6]) for line in lines[:ends] if line[2:6].strip().isdigit()]


def test_what_precedes_the_first_mark_is_folded(store: Store) -> None:
    text = show_run(store, "airline/11/2")
    assert "0-17  folded: words only" in text
    assert "--steps 0:18 shows them" in text
    assert steps_of(text) == [18, 19, 20, 21, 22]


def test_steps_are_shown_as_asked(store: Store) -> None:
    assert steps_of(show_run(store, "airline/11/2", steps=(3, 6))) == [3, 4, 5]
    assert steps_of(show_run(store, "airline/11/2", steps=(21, 1 << 62))) == [21, 22]


def test_around_shows_the_neighbours_and_the_step_whole(store: Store) -> None:
    text = show_run(store, "airline/11/2", around=22)
    assert steps_of(text) == [16, 17, 18, 19, 20, 21, 22]
    assert "It is full. " * 39 in text.split("Step 22 of airline/11/2: agent message")[1]


@pytest.mark.parametrize(
    ("around", "steps", "message"),
    [
        (23, None, "has no step 23; its steps are 0 to 22"),
        (-1, None, "has no step -1"),
        (None, (30, 40), "no step of 'airline/11/2' is in 30:40"),
        (None, (5, 5), "no step of 'airline/11/2' is in 5:5"),
    ],
)
def test_a_step_that_is_not_there_is_an_error(
    store: Store, around: int | None, steps: tuple[int, int] | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        show_run(store, "airline/11/2", around=around, steps=steps)


def test_no_hostile_text_acts_in_any_view(store: Store) -> None:
    for text in (show_run(store, "airline/11/2"), show_run(store, "airline/11/2", around=20)):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_run_that_was_not_scored_says_so() -> None:
    with Store.open(":memory:") as opened:
        opened.put([trajectory(said(0, "user", "hello"))])
        assert "Verdicts  none yet: run `stepscope score`" in show_run(opened, "airline/11/2")


def test_json_holds_the_run_its_records_and_its_suspects(store: Store) -> None:
    shown = msgspec.json.decode(show_run_json(store, "airline/11/2"))
    assert sorted(shown) == [
        *("agents", "because", "case", "curve", "nobody", "records"),
        *("reliability", "run", "suspects"),
    ]
    assert any(one["evidence"].startswith("book fails") for one in shown["suspects"])
    shares = [one["share"] for one in shown["suspects"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) + shown["nobody"] == pytest.approx(1)
    assert show_run_json(store, "airline/11/2") == show_run_json(store, "airline/11/2")


def count_shown_lines_of_code(n: int) -> int:
    """Return how many lines of our views run to show a run of so many calls."""
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count if "views" in frame.f_code.co_filename else None

    with Store.open(":memory:") as opened:
        opened.put([run(user("hi"), *(s for at in range(n) for s in did("get", "x", id=at)))])
        before = sys.gettrace()
        sys.settrace(count)
        try:
            show_run(opened, "shop/1/0")
        finally:
            sys.settrace(before)
    return lines


def test_the_work_of_showing_a_run_grows_with_its_steps() -> None:
    assert count_shown_lines_of_code(400) <= 2.3 * count_shown_lines_of_code(200)
