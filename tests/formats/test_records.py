"""Every byte of a file is in a record, in the quarantine, or is a separator; offsets are exact."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.formats.records import (
    ElementSplitter,
    RawRecord,
    split_plain_array,
    split_records,
)
from stepscope.model import Quarantined, Stream
from stepscope.safety.limits import Limits

# Two words that records may hold and that look like structure.
LINE_SEPARATOR = "\u2028"


def split(data: bytes, limits: Limits | None = None) -> list[RawRecord | Quarantined]:
    found = list(split_records(Stream(io.BytesIO(data), "f", limits or Limits())))
    for record in found:
        assert data[record.offset :].startswith(record.raw)
    return found


def good(data: bytes) -> list[bytes]:
    return [record.raw for record in split(data) if isinstance(record, RawRecord)]


def bad(data: bytes) -> list[tuple[int, bytes, str]]:
    return [(q.offset, q.raw, q.reason) for q in split(data) if isinstance(q, Quarantined)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"[]", []),
        (b" \n", []),
        (b'[{"a": "]}"}, {"b": []}]', [b'{"a": "]}"}', b'{"b": []}']),
        (b'\xef\xbb\xbf [\n {"a": 1},\n [2] ]\n', [b'{"a": 1}', b"[2]"]),
        (b'[{"a": "\\\\"}, {"b": "\\""}]', [b'{"a": "\\\\"}', b'{"b": "\\""}']),
        (b'{"a": 1}', [b'{"a": 1}']),
        (b'{"a": 1}\n\n{"b": 2}\r\n', [b'{"a": 1}', b'{"b": 2}\r']),
        (b'[{"a": 1}]\n[{"a": 2}]\n', [b'[{"a": 1}]', b'[{"a": 2}]']),
        (b'{\n "a": 1\n}', [b'{\n "a": 1\n}']),
        (b'{\n "a": 1\n}\n{\n "b": 2\n}\n', [b'{\n "a": 1\n}', b'{\n "b": 2\n}']),
        (b'{"a": "x\n{"b": 1}\n', [b'{"a": "x', b'{"b": 1}']),
        # One object whose elements stand at the beginning of lines, and lines of which one is cut.
        (b'{"a": [\n{"b": 1},\n{"b": 2}\n]}\n', [b'{"a": [\n{"b": 1},\n{"b": 2}\n]}']),
        (
            b'{"a": [\n{"b": 1}\n], "c": [\n{"d": 1}\n]}',
            [b'{"a": [\n{"b": 1}\n], "c": [\n{"d": 1}\n]}'],
        ),
        (b'{"a": \n{"b": 1}\n}', [b'{"a": \n{"b": 1}\n}']),
        (b'{"a": [1,\n{"b": 1}\n{"b": 2}\n', [b'{"a": [1,', b'{"b": 1}', b'{"b": 2}']),
        (b'{"a": [1,\n{"b": 1}\n', [b'{"a": [1,', b'{"b": 1}']),
        (
            f'{{"a": "x{LINE_SEPARATOR}y\x85z\x0b"}}\n{{"b": 1}}'.encode(),
            [f'{{"a": "x{LINE_SEPARATOR}y\x85z\x0b"}}'.encode(), b'{"b": 1}'],
        ),
        (b"no json", [b"no json"]),
    ],
)
def test_a_file_is_one_object_an_array_or_lines(data: bytes, expected: list[bytes]) -> None:
    assert good(data) == expected
    assert bad(data) == []


@pytest.mark.parametrize(
    ("data", "kept", "offset", "raw", "reason"),
    [
        (b'[{"a": tru}, {"b": 1}', 2, 21, b"", "the file ends before its array does"),
        (b'[{"a": 1}, {"b": [2', 1, 11, b'{"b": [2', "the file ends inside this record"),
        (b'[{"a": 1}, {"b": "]', 1, 11, b'{"b": "]', "the file ends inside this record"),
        (b'{\n"a": [1,\n2', 0, 0, b'{\n"a": [1,\n2', "the file ends inside this record"),
        (b'[{"a": 1} {"b": 2}]', 2, 9, b" ", "between records: b''; expected one comma"),
        (b'[{"a": 1},,{"b": 2}]', 2, 9, b",,", "between records: b',,'; expected one comma"),
        (
            b'[{"a": 1}, 2, {"b": 2}]',
            2,
            9,
            b", 2, ",
            "between records: b', 2,'; expected one comma",
        ),
        (b'[{"a": 1}, ]', 1, 9, b", ", "between records: b','; expected nothing"),
        (b'["a", "b"]', 0, 1, b'"a", "b"', 'between records: b\'"a", "b"\'; expected nothing'),
        (b'[{"a": 1}] x [{', 1, 10, b" x [{", "bytes behind the end of the records"),
        (b'[{"a": 1}}, {"b": 1}]', 1, 9, b'}, {"b": 1}]', "bytes behind the end of the records"),
        (b'{\n"a": 1\n}\nrest\n', 1, 10, b"\nrest\n", "between records: b'rest'; expected nothing"),
    ],
)
def test_what_is_no_record_is_quarantined_with_its_bytes_and_the_rest_is_read(
    data: bytes, kept: int, offset: int, raw: bytes, reason: str
) -> None:
    assert len(good(data)) == kept
    assert bad(data) == [(offset, raw, reason)]


@pytest.mark.parametrize(
    ("data", "kept", "offset", "size"),
    [
        (b'[{"a": "%s"}, {"b": 1}]' % (b"x" * 200), [b'{"b": 1}'], 1, 209),
        (b'{"a": "%s"}\n{"b": 1}' % (b"x" * 200), [b'{"b": 1}'], 0, 209),
        (b'{\n"a": "%s"}\n{\n"b": 1}' % (b"x" * 199), [b'{\n"b": 1}'], 0, 209),
        (b'[{"a": "%s"}, {"b": 1}]' % (b"x" * 600_000), [b'{"b": 1}'], 1, 600_009),
        (b'{"a": "%s"}\n{"b": 1}' % (b"x" * 3_000_000), [b'{"b": 1}'], 0, 3_000_009),
        (b'[{"a": "%s' % (b"x" * 3_000_000), [], 1, 3_000_007),
    ],
)
def test_a_record_over_the_limit_keeps_its_first_bytes_and_says_how_many_are_left(
    data: bytes, kept: list[bytes], offset: int, size: int
) -> None:
    found = split(data, Limits(line_bytes=100))
    assert [record.raw for record in found if isinstance(record, RawRecord)] == kept
    (lost,) = [q for q in found if isinstance(q, Quarantined)]
    assert (lost.offset, len(lost.raw)) == (offset, 100)
    assert lost.reason.endswith(
        f": {size} bytes; raise limits.line_bytes, now 100; the last {size - 100} bytes are kept "
        f"only in the file, from byte {offset + 100} on"
    )


def test_a_record_of_exactly_the_limit_is_read() -> None:
    assert [type(r) for r in split(b'[{"a": 12}]', Limits(line_bytes=9))] == [RawRecord]
    assert [type(r) for r in split(b'{"a": 12}\n', Limits(line_bytes=9))] == [RawRecord]
    assert [type(r) for r in split(b'{"a": 123}\n', Limits(line_bytes=9))] == [Quarantined]


def test_what_is_beyond_the_limit_is_not_taken_for_blank() -> None:
    found = split(b"{}\n" + b" " * 100 + b"x\n{}", Limits(line_bytes=50))
    assert [(type(r), r.offset) for r in found] == [
        (RawRecord, 0),
        (Quarantined, 3),
        (RawRecord, 105),
    ]


def test_arrays_on_lines_are_told_however_far_the_second_is() -> None:
    assert good(b"[[1]]\n" + b" " * 2_000_000 + b"\n[[2]]\n") == [b"[[1]]", b"[[2]]"]


class Endless(io.RawIOBase):
    """One line that goes on for `size` bytes, made as it is read."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.left = size
        self.largest = 0

    def read(self, size: int = -1) -> bytes:
        size = min(size, self.left)
        self.largest = max(self.largest, size)
        self.left -= size
        return b"x" * size


def test_a_line_of_any_length_is_never_held_in_memory() -> None:
    endless = Endless(200_000_000)
    stream = Stream(cast(BinaryIO, endless), "f", Limits(line_bytes=1000))
    (lost,) = split_records(stream)
    assert isinstance(lost, Quarantined)
    assert len(lost.raw) == 1000
    assert "the last 199999000 bytes" in lost.reason
    assert endless.largest <= 2**20


objects = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none() | st.integers() | st.text('a"\\{}[]\n\u2028é', max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
        max_leaves=6,
    ),
    min_size=1,
    max_size=4,
)


@given(
    st.lists(objects, min_size=1, max_size=5),
    st.sampled_from([None, 1]),
    st.sampled_from(["array", "lines", "objects"]),
)
def test_records_are_the_elements_that_a_parser_sees(
    values: list[dict[str, object]], indent: int | None, shape: str
) -> None:
    if shape == "array":
        data = json.dumps(values, indent=indent).encode()
    else:
        texts = [json.dumps(v, indent=1 if shape == "objects" else None) for v in values]
        data = "\n".join(texts).encode()
    assert [json.loads(raw) for raw in good(data)] == values
    assert bad(data) == []


@given(st.lists(objects, min_size=1, max_size=3), st.data())
def test_cut_anywhere_an_array_loses_nothing_but_what_was_cut(
    values: list[dict[str, object]], data: st.DataObject
) -> None:
    text = json.dumps(values).encode()
    cut = data.draw(st.integers(1, len(text) - 1))
    found = split(text[:cut])
    complete = [json.loads(r.raw) for r in found if isinstance(r, RawRecord)]
    assert complete == values[: len(complete)]
    assert isinstance(found[-1], Quarantined)
    assert sum(isinstance(r, Quarantined) for r in found) == 1


alike = st.lists(
    objects.map(lambda value: {"id": 1, **value}) | st.integers(0, 1), min_size=2, max_size=9
)


@given(alike, st.sampled_from([None, 1]), st.integers(5, 200), st.data())
def test_the_fast_way_through_an_array_sees_what_the_brackets_say(
    values: list[object], indent: int | None, size: int, data: st.DataObject
) -> None:
    text = json.dumps([{"id": 1}, *values], indent=indent).encode()[1:]
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from([b",", b"]", b"}", b'"', b"NaN"])) + text[at:]
    stream = Stream(io.BytesIO(), "f", Limits(line_bytes=data.draw(st.sampled_from([20, 10**6]))))
    parts = [text[start : start + size] for start in range(0, len(text), size)]

    def by_brackets(offset: int, parts: Iterable[bytes]) -> Iterator[RawRecord | Quarantined]:
        elements = ElementSplitter(stream, "array", offset)
        for part in parts:
            yield from elements.feed(part)
        yield from elements.end()

    def fast() -> Iterator[RawRecord | Quarantined]:
        rest, offset = yield from split_plain_array(left, stream, 1)
        yield from by_brackets(offset, [rest, *left])

    left = iter(parts)
    assert list(fast()) == list(by_brackets(1, parts))


def test_a_plain_array_never_takes_the_slow_way_but_for_its_last_element() -> None:
    text = json.dumps([{"id": n, "steps": [{"id": n}] * (n % 3)} for n in range(100)]).encode()
    left: list[tuple[bytes, int]] = []

    def fast() -> Iterator[RawRecord | Quarantined]:
        left.append((yield from split_plain_array(iter([text[1:700], text[700:]]), stream, 1)))

    stream = Stream(io.BytesIO(), "f")
    assert len(list(fast())) == 99
    assert left == [(b'{"id": 99, "steps": []}]', len(text) - 24)]


@given(st.binary(max_size=80) | st.text('[]{}",\\\n 1a', max_size=60).map(str.encode))
def test_of_any_bytes_only_separators_are_in_no_record(data: bytes) -> None:
    at, skipped = 0, b""
    for record in split(data):
        assert record.offset >= at
        skipped += data[at : record.offset]
        at = record.offset + len(record.raw)
    skipped += data[at:]
    skipped = skipped.removeprefix(b"\xef\xbb\xbf")
    assert not skipped.strip(b" \t\r\n,[]")
