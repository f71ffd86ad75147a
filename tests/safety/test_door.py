"""JSON by the letter, JSON as recorders write it, and nothing else raised whatever the bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.errors import LimitError, TraceError
from stepscope.model import Json
from stepscope.safety.json import decode, decode_strict
from stepscope.safety.limits import Limits

LIMITS = Limits()
# What broken JSON is made of.
ODDITIES = '[]{}",:\\u0019eNa\ud800'

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('a:\\"b'), inner, max_size=4)
    ),
    max_leaves=12,
)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(
    ("raw", "value", "repairs"),
    [
        (b'{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}, []),
        (b"[NaN, Infinity, -Infinity]", ["NaN", "Infinity", "-Infinity"], ["non_finite"]),
        (b"[1e400, 1e308]", ["1e400", 1e308], ["huge_number"]),
        (b"[18446744073709551615]", [18446744073709551615], []),
        (b"[18446744073709551616]", ["18446744073709551616"], ["huge_number"]),
        (b"[-9223372036854775808]", [-9223372036854775808], []),
        (b"[-9223372036854775809]", ["-9223372036854775809"], ["huge_number"]),
        (b"[" + b"9" * 5000 + b"]", ["9" * 5000], ["huge_number"]),
        (rb'["\ud800"]', ["\\ud800"], ["lone_surrogate"]),
        (rb'{"\udfff": 1}', {"\\udfff": 1}, ["lone_surrogate"]),
        (rb'["\ud83d\ude00"]', ["\U0001f600"], []),
        (rb'["a\u0000b"]', ["a\\u0000b"], ["nul"]),
        (rb'["a\\u0000b"]', ["a\\u0000b"], []),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}, ["bom"]),
        (b'{"a": 1, "a": 2}', {"a": 2}, ["duplicate_key"]),
        (b'[{"b": {"a": 1, "b": 2, "a": 1}}]', [{"b": {"a": 1, "b": 2}}], ["duplicate_key"]),
        (rb'{"a": 1, "a": "\u003a"}', {"a": ":"}, ["duplicate_key"]),
        (rb'{"a": "\u003A", "b": ":"}', {"a": ":", "b": ":"}, []),
        (b'{"a" : 1, "b":{"a":2}}', {"a": 1, "b": {"a": 2}}, []),
        (rb'{"\u0000": 1, "\\u0000": 2}', {"\\u0000": 2}, ["duplicate_key", "nul"]),
    ],
)
def test_what_recorders_write_is_kept_and_each_repair_counted(
    raw: bytes, value: Json, repairs: list[str]
) -> None:
    decoded = decode(raw, limits=LIMITS)
    assert decoded.value == value
    assert [repair.code for repair in decoded.repairs] == repairs


@pytest.mark.parametrize(
    ("raw", "offset"),
    [
        (b"", 0),
        (b"{", 1),
        (b'{"a": tru}', 6),
        (b"[1] 2", 4),
        (b"['a']", 1),
        (b'["\xff"]', 2),
        (b'\xef\xbb\xbf["\xff"]', 5),
        ('["é", x]'.encode(), 7),
        (b"\xef\xbb\xbf\xef\xbb\xbf1", 3),
        (b'["a\nb"]', 3),
        (b"[1,]", 3),
        (b"[.5]", 1),
        (b"\x00", 0),
    ],
)
def test_what_is_no_json_even_so_is_refused_with_its_offset(raw: bytes, offset: int) -> None:
    with pytest.raises(TraceError) as refused:
        decode(raw, limits=LIMITS)
    assert refused.value.offset == offset
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("door", [decode, decode_strict])
def test_nesting_is_refused_one_beyond_the_limit_and_not_at_it(door: object) -> None:
    assert callable(door)
    at_limit = b"[" * 128 + b"]" * 128
    assert door(at_limit, limits=LIMITS).repairs == ()
    assert door(b'{"a":' * 128 + b"1" + b"}" * 128, limits=LIMITS).repairs == ()
    assert door(b'"' + b"[" * 5000 + b'"', limits=LIMITS).value == "[" * 5000
    for raw in (b"[" + at_limit + b"]", b"[" * 100_000, b'[{"":' * 50_000):
        with pytest.raises(LimitError, match=r"limits\.depth is 128"):
            door(raw, limits=LIMITS)


@pytest.mark.parametrize("levels", [0, 1, 7, 8, 9, 60])
@pytest.mark.parametrize(
    ("number", "kept"),
    [
        ("-9223372036854775808", -9223372036854775808),
        ("-9223372036854775809", "-9223372036854775809"),
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", 9223372036854775808),
        ("18446744073709551615", 18446744073709551615),
        ("18446744073709551616", "18446744073709551616"),
    ],
)
def test_a_number_beyond_64_bits_is_kept_as_text_however_deep(
    levels: int, number: str, kept: int | str
) -> None:
    raw = '{"a": [' * levels + number + "]}" * levels
    value, repairs = decode(raw.encode(), limits=Limits())
    for _ in range(levels):
        (value,) = value["a"]
    assert value == kept
    assert type(value) is type(kept)
    assert [repair.code for repair in repairs] == ["huge_number"] * isinstance(kept, str)


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 10])
def test_a_low_limit_of_depth_holds(depth: int) -> None:
    limits = Limits(depth=depth)
    assert decode(b"[" * depth + b"]" * depth, limits=limits).repairs == ()
    with pytest.raises(LimitError, match=rf"limits\.depth is {depth}"):
        decode(b"[" * (depth + 1) + b"]" * (depth + 1), limits=limits)


def test_a_depth_limit_beyond_what_the_machine_can_do_is_still_one_line() -> None:
    with pytest.raises(LimitError, match=r"lower limits\.depth"):
        decode(b"[" * 50_000 + b"]" * 50_000, limits=Limits(depth=10**6))


def test_text_over_the_limit_is_cut_with_mark_and_hash_and_not_cut_again() -> None:
    limits = Limits(text_bytes=200)
    raw = json.dumps({"a": "é" * 101, "b": "é" * 100}, ensure_ascii=False).encode()
    value, repairs = decode(raw, limits=limits)
    assert [repair.code for repair in repairs] == ["truncated"]
    assert value["b"] == "é" * 100
    assert len(value["a"].encode()) <= 200
    assert value["a"].startswith("éééé")
    assert "[truncated: 202 bytes in all, sha256 " in value["a"]
    assert decode(json.dumps(value).encode(), limits=limits) == (value, ())


@pytest.mark.parametrize("depth", [0, 12])
@pytest.mark.parametrize("text", [b"%s", b'{"k": %s}', b"{%s: 1}", b"[1, %s]"])
def test_a_long_record_of_short_texts_is_kept_and_one_long_text_in_it_is_cut(
    text: bytes, depth: int
) -> None:
    limits = Limits(text_bytes=1000)
    nested = b"[" * depth + text + b"]" * depth
    record = b'["short", ' + nested + b", " + b", ".join([b'"%d"' % n for n in range(900)]) + b"]"
    for length, codes in ((1000, []), (1001, ["truncated"])):
        repairs = decode(record % (b'"' + b"a" * length + b'"'), limits=limits).repairs
        assert [repair.code for repair in repairs] == codes


@pytest.mark.parametrize(
    "raw",
    [b"NaN", b"[Infinity]", rb'"\ud800"', b"[1e400]", b"[18446744073709551616]", b"\xef\xbb\xbf1"],
)
def test_the_strict_door_repairs_nothing(raw: bytes) -> None:
    with pytest.raises(TraceError):
        decode_strict(raw, limits=LIMITS)


@pytest.mark.parametrize(
    "raw", [b'{"pass": false, "pass": true}', rb'{"pass": false, "pass": "\u003a"}']
)
def test_the_strict_door_tells_of_a_key_that_came_twice(raw: bytes) -> None:
    decoded = decode_strict(raw, limits=LIMITS)
    assert [repair.code for repair in decoded.repairs] == ["duplicate_key"]


@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_valid_json_comes_through_unrepaired(
    value: Json, ensure_ascii: bool, indent: int | None
) -> None:
    raw = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent).encode()
    assert decode(raw, limits=LIMITS) == (value, ())
    assert decode_strict(raw, limits=LIMITS) == (value, ())


@given(st.binary() | st.text(ODDITIES, max_size=40).map(_encoded))
def test_any_bytes_give_a_value_that_can_be_stored_or_a_trace_error(raw: bytes) -> None:
    try:
        value, _ = decode(raw, limits=LIMITS)
    except TraceError:
        return
    stored = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    assert decode(stored, limits=LIMITS) == (value, ())


@pytest.mark.shared_data
def test_every_json_parser_case_is_judged_as_the_suite_says(shared: Path) -> None:
    wrong, seen = [], {"y": 0, "n": 0, "i": 0}
    for case in sorted((shared / "hostile" / "test_parsing").iterdir()):
        seen[case.name[0]] += 1
        try:
            decode_strict(case.read_bytes(), limits=LIMITS)
            accepted = True
        except TraceError:
            accepted = False
        if case.name[0] != "i" and accepted != (case.name[0] == "y"):
            wrong.append(case.name)
    assert (wrong, seen) == ([], {"y": 95, "n": 188, "i": 35})
