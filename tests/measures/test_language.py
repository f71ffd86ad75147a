"""What a sentence intends, and what it is about: by its form, in words that no list has."""

from __future__ import annotations

import pytest

from stepscope.measures.language import content_stems, find_intentions


@pytest.mark.parametrize(
    ("text", "verbs"),
    [
        ("I'll forward your complaint to the depot.", ["forward"]),
        ("We are going to recheck the stock at once.", ["recheck"]),
        ("One last thing I am going to do is to repaint the logo.", ["repaint"]),
        ("Let me now also raise a ticket with billing.", ["raise"]),
        ("Once we are through, I will look up the terms.", ["look"]),
        ("I shall go ahead and rebook it before I close this.", ["rebook"]),
        ("I will rerun it once before we finish.", ["rerun"]),
        ("Let me also find out when the sale starts.", ["find"]),
        ("Sure, give me a moment to repaint it.", ["repaint"]),
        ("I'm on my way to repaint it.", ["repaint"]),
        ("Once you have decided, I will rebook it.", []),
        ("If that suits you, I'll rebook it.", []),
        ("Should the depot object, I'll rebook it.", []),
        ("Shall I rebook it?", []),
        ("I'll be glad to hear from you.", []),
        ("I will need your number.", []),
        ("Let me ask you this first.", []),
        ("I will change the following:", []),
        ("The depot will rebook it.", []),
        ("", []),
    ],
)
def test_an_act_is_intended_by_its_speaker_and_on_no_condition(text: str, verbs: list[str]) -> None:
    assert [one.verb for one in find_intentions(text)] == verbs


def test_a_thing_is_known_by_what_is_not_said_of_everything() -> None:
    about = content_stems("Your order has the insurance that I mentioned")
    assert about == content_stems("insured mentions")
    assert not content_stems("I will update your account details now")
