"""Long runs are judged in parts that overlap, and each part is told what was done before it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.judges.transcript import (
    Fence,
    LabelledText,
    Transcript,
    TranscriptBlock,
    Window,
    digest_steps,
    split_windows,
)

FENCE = Fence("0123456789abcdef")
TASK = TranscriptBlock("task as given, no tool list was recorded", ())


def copy(sizes: list[int]) -> Transcript:
    return Transcript(
        TASK,
        tuple(
            TranscriptBlock(
                f"step {at}: agent, call",
                (
                    LabelledText("text", f"thinking {at}"),
                    LabelledText("call 0", f"tool{at} " + "x" * size),
                ),
                at,
                "agent",
            )
            for at, size in enumerate(sizes)
        ),
    )


def planned(sizes: list[int], room: int, most: int = 1_000) -> tuple[Window, ...]:
    made = split_windows(copy(sizes), fence=FENCE, room=room, most_steps=most)
    assert made is not None
    return made


def ranges(made: tuple[Window, ...]) -> list[tuple[int, int]]:
    return [(window.first, window.end) for window in made]


def test_a_run_that_fits_is_one_window() -> None:
    made = planned([100] * 10, 100_000)
    assert ranges(made) == [(0, 10)]
    assert "digest" not in made[0].text


def test_a_run_is_divided_where_the_judge_reads_no_more() -> None:
    made = planned([500] * 40, 12_000)
    assert ranges(made) == [(0, 20), (16, 31), (27, 40)]
    assert all(window.left_out == 0 for window in made)


def test_a_run_is_divided_where_the_judge_answers_no_more() -> None:
    assert ranges(planned([10] * 25, 100_000, most=12)) == [(0, 12), (8, 20), (16, 25)]


def test_a_window_is_told_what_was_done_before_it() -> None:
    text = planned([10] * 25, 100_000, most=12)[1].text
    assert "digest of steps 0 to 7]]" in text
    assert "step 3, call 0:\n\u00a6 tool3 xxxxxxxxxx\n" in text
    assert "thinking 3" not in text
    assert "thinking 8" in text


def test_a_digest_drops_the_oldest_and_counts_them() -> None:
    (block,) = digest_steps(copy([400] * 30), 30, 2_400, FENCE)
    assert block.words == "digest of steps 0 to 29, long texts cut, 20 earlier texts left out"
    assert [piece.label for piece in block.pieces] == [f"step {at}, call 0" for at in range(20, 30)]
    assert all(len(piece.text) <= 160 for piece in block.pieces)


def test_no_text_of_a_digest_is_cut_while_there_is_room() -> None:
    (block,) = digest_steps(copy([100, 700, 100]), 3, 2_400, FENCE)
    assert block.words == "digest of steps 0 to 2"
    assert [len(piece.text) for piece in block.pieces] == [106, 706, 106]
    (block,) = digest_steps(copy([100, 7_000, 100]), 3, 2_400, FENCE)
    assert block.words == "digest of steps 0 to 2, long texts cut"
    short, long, last = block.pieces
    assert (len(short.text), len(last.text)) == (106, 106)
    assert 1_800 <= len(long.text) <= 1_960


def test_a_digest_of_many_short_texts_keeps_as_many_as_there_is_room_for() -> None:
    (block,) = digest_steps(copy([10] * 100), 100, 2_000, FENCE)
    # Each has 17 or 18 bytes with its name, 2 of its mark, and 80 around it.
    assert len(block.pieces) == 20
    assert block.words == "digest of steps 0 to 99, 80 earlier texts left out"


def test_a_digest_takes_the_room_that_the_steps_leave() -> None:
    window = planned([3_000] + [10] * 24, 12_000, most=12)[1]
    assert "tool0 " + "x" * 3_000 in window.text
    assert window.left_out == 0


def test_every_window_has_the_task() -> None:
    told = copy([500] * 40)
    request = LabelledText("request", "Find the leak.")
    told.task = TranscriptBlock("task as given, tools offered: 0", (request,))
    made = split_windows(told, fence=FENCE, room=12_000, most_steps=1_000)
    assert made is not None
    assert len(made) > 2
    for window in made:
        assert "task as given, tools offered: 0]]\nrequest:\n\u00a6 Find the leak." in window.text


def test_windows_are_over_the_agents_steps_and_hold_what_lies_between() -> None:
    blocks = tuple(
        TranscriptBlock(
            f"step {at}: {who}, message", (LabelledText("text", f"said {at}"),), at, who
        )
        for at, who in enumerate(("system", "user", *("agent", "environment", "user") * 9))
    )
    made = split_windows(Transcript(TASK, blocks), fence=FENCE, room=100_000, most_steps=6)
    assert made is not None
    assert [window.asked for window in made] == [
        (2, 5, 8, 11, 14, 17),
        (8, 11, 14, 17, 20, 23),
        (14, 17, 20, 23, 26),
    ]
    assert ranges(made) == [(0, 20), (8, 26), (14, 29)]


def test_a_digest_keeps_every_text_on_one_line() -> None:
    hostile = Transcript(
        TASK,
        (
            TranscriptBlock(
                "step 0: user, message", (LabelledText("text", "a\nb\n\nc"),), 0, "user"
            ),
        ),
    )
    (block,) = digest_steps(hostile, 1, 1_000, FENCE)
    assert block.pieces == (LabelledText("step 0, text", "a b c"),)


def test_a_step_too_long_for_any_window_is_cut_in_it() -> None:
    made = planned([100] * 12 + [200_000] + [100] * 12, 9_000)
    assert sum(window.left_out > 0 for window in made) >= 1
    assert all(len(window.text.encode()) <= 9_000 for window in made)


def test_a_judge_that_reads_nearly_nothing_is_not_asked() -> None:
    assert split_windows(copy([500] * 40), fence=FENCE, room=1_000, most_steps=100) is None
    assert split_windows(copy([500] * 40), fence=FENCE, room=-5, most_steps=100) is None


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 3_000), min_size=1, max_size=60),
    st.integers(6_000, 60_000),
    st.integers(1, 40),
)
def test_windows_hold_every_step_in_order_and_overlap(
    sizes: list[int], room: int, most: int
) -> None:
    made = split_windows(copy(sizes), fence=FENCE, room=room, most_steps=most)
    assert made is not None
    assert made[0].first == 0
    assert made[-1].end == len(sizes)
    for before, after in pairwise(made):
        assert before.end - after.first == 4
        assert after.end > before.end
    for window in made:
        assert window.end - window.first <= max(most, 5)
        assert len(window.text.encode()) <= room
        for step in range(window.first, window.end):
            assert f" step {step}: agent, call]]" in window.text


def test_an_edge_that_is_an_end_of_the_run_is_no_edge() -> None:
    (first, last) = planned([10] * 16, 100_000, most=12)
    assert (first.first, first.end, last.first, last.end) == (0, 12, 8, 16)
    assert [first.inside(step, 16) for step in (0, 8, 11)] == [11, 3, 0]
    assert [last.inside(step, 16) for step in (8, 11, 15)] == [0, 3, 7]
