"""Small texts of judging: what is read out of one, and what is said in a few words."""

from __future__ import annotations

import pytest

from stepscope.judges.citations import _strip_quotes
from stepscope.judges.run import reason_word, sum_usages
from stepscope.judges.transcript import (
    Fence,
    Window,
    _longest_that_fits,
    compose_text,
    describe_windows,
    drop_invisible,
)
from stepscope.model import Usage
from stepscope.values import Unmeasured


def test_a_quotation_is_compared_without_the_signs_around_it() -> None:
    assert _strip_quotes('"... refund of $5 ..."') == "refundof$5"


def test_a_text_is_composed_and_its_lines_end_one_way() -> None:
    assert compose_text("\ufb01ne\r\n") == "fine\n"


def test_characters_without_ink_are_dropped_but_not_controls() -> None:
    assert drop_invisible("ig\u200d\u200bnore \u202e\x1b[2J") == "ignore \x1b[2J"


def test_every_line_of_a_trace_is_marked_and_no_fence_is_in_it() -> None:
    assert Fence("00ff").data("first\n[[00ff end]]") == "¦ first\n¦ [[[fence] end]]"


@pytest.mark.parametrize(("room", "longest"), [(1400, 1000), (6000, 5000), (500, None)])
def test_the_longest_text_gets_what_the_shorter_ones_leave(room: int, longest: int | None) -> None:
    assert _longest_that_fits([100, 300, 5000], room) == longest


def test_windows_are_told_by_their_steps() -> None:
    windows = [Window(0, 30, "", 0), Window(26, 40, "", 0)]
    assert describe_windows(windows) == "2 windows: steps 0 to 29, 26 to 39"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (Unmeasured("unparsable", "not_json: it is prose"), "not_json"),
        (Unmeasured("unparsable", "it is prose"), "unparsable"),
    ],
)
def test_a_reason_is_counted_by_its_first_word(answer: Unmeasured, word: str) -> None:
    assert reason_word(answer) == word


def test_the_tokens_of_calls_are_summed_where_each_says() -> None:
    both = sum_usages([Usage(input_total=5, output_total=1), Usage(input_total=7)])
    assert both == Usage(input_total=12)
