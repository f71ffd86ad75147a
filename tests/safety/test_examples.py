"""One plain example of each rule of what is decoded, hidden and printed."""

from __future__ import annotations

from stepscope.safety.json import (
    BracketScanner,
    Repair,
    decode,
    deepest_nesting,
    list_repairs,
    truncate_text,
)
from stepscope.safety.limits import Limits
from stepscope.safety.offline import accepted_hosts, is_loopback
from stepscope.safety.redact import (
    Redactor,
    SecretMatch,
    _merge_matches,
    joined_view,
    json_view,
    percent_view,
    redact_json,
    scrub_message,
)
from stepscope.safety.text import disarm_commands, escaped_json, inert, visible, visible_line


def test_brackets_in_strings_are_no_nesting() -> None:
    assert deepest_nesting(b'{"a": [[1], "[[[["]}') == 3


def test_repairs_are_listed_by_code() -> None:
    assert list_repairs({"nul": 2, "bom": 0}) == (
        Repair(code="nul", reason="2 text(s) with a NUL character kept with it escaped"),
    )


def test_a_cut_text_has_a_mark_and_its_length() -> None:
    assert (
        truncate_text("a" * 200, 100)[:61]
        == "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa[truncated: 200 bytes in all, s"
    )
    assert len(truncate_text("a" * 200, 100)) == 100


def test_nan_is_kept_as_text() -> None:
    assert decode(b'{"score": NaN}', limits=Limits()).value == {"score": "NaN"}


def test_brackets_are_scanned_across_chunks() -> None:
    index = BracketScanner()
    assert index.scan(b'[{"a]": "\\"}').at.tolist() == [0, 1]
    assert index.scan(b'"}]').depth.tolist() == [1, 0]


def test_loopback_is_this_machine_alone() -> None:
    assert [
        is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "example.org", "10.0.0.1")
    ] == [True, True, True, False, False]


def test_hosts_have_their_port_unless_it_is_80() -> None:
    assert sorted(accepted_hosts("127.0.0.1", 8000)) == ["127.0.0.1:8000", "localhost:8000"]
    assert sorted(accepted_hosts("::1", 80)) == ["[::1]", "[::1]:80", "localhost", "localhost:80"]


def test_json_escapes_are_seen_through() -> None:
    assert json_view(r"a\u002db") == ("a-b", [0, 1, 7, 8])


def test_percent_escapes_are_seen_through() -> None:
    assert percent_view("a%2Db") == ("a-b", [0, 1, 4, 5])


def test_characters_without_ink_are_seen_through() -> None:
    assert joined_view("a\u200bb") == ("ab", [0, 2, 3])


def test_overlapping_secrets_are_one() -> None:
    assert _merge_matches([SecretMatch(4, 8, "openai", "b"), SecretMatch(2, 6, "key", "a")]) == [
        SecretMatch(start=2, end=8, kind="openai", secret="b")
    ]


def test_a_value_without_secrets_stays() -> None:
    assert redact_json(Redactor(b"k"), {"n": [1, None, "ids stay"]}) == {"n": [1, None, "ids stay"]}


def test_ids_in_messages_stay() -> None:
    assert (
        scrub_message("no such run 'airline/11/2' (#W2575533)")
        == "no such run 'airline/11/2' (#W2575533)"
    )


def test_no_line_is_a_command() -> None:
    assert disarm_commands("::error::x") == ": :error::x"
    assert disarm_commands("a ##[add-mask]b") == "a # #[add-mask]b"
    assert disarm_commands("a::b") == "a::b"


def test_hidden_characters_are_spelt_out() -> None:
    assert visible("\x1b[2Jdone\u202e") == "\\x1b[2Jdone\\u202e"


def test_a_line_feed_is_spelt_out() -> None:
    assert visible_line("a\nb") == "a\\nb"


def test_an_inert_text_neither_hides_nor_commands() -> None:
    assert inert("##[add-mask]\u202ea\nb") == "# #[add-mask]\\u202ea\nb"


def test_json_escapes_what_hides() -> None:
    assert escaped_json('{"a": "\u202e##[b]"}') == '{"a": "\\u202e#\\u0023[b]"}'
