"""Requests as exporters send them; the outside oracle is the library that exporters use."""

from __future__ import annotations

import json
import random
import struct
from importlib import import_module
from typing import Any

import pytest

from stepscope.errors import LimitError, TraceError
from stepscope.formats.otlp.protobuf import MAX_VALUES, ProtobufReader
from stepscope.formats.otlp.request import JSON, PROTOBUF, ReceivedSpan, read_request
from stepscope.formats.otlp.values import decode_span, iter_request_spans
from stepscope.formats.spans.span import RawSpan
from stepscope.safety.limits import Limits

LIMITS = Limits()
# Untyped: their names are made when they are imported.
json_format: Any = import_module("google.protobuf.json_format")
messages: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
common: Any = import_module("opentelemetry.proto.common.v1.common_pb2")


def value(rng: random.Random, depth: int = 0) -> Any:
    made = common.AnyValue()
    match rng.randrange(5 if depth > 2 else 7):
        case 0:
            made.string_value = rng.choice(["", "a", "Ünïcode \N{PILE OF POO}", "x" * 300])
        case 1:
            made.bool_value = rng.random() < 0.5
        case 2:
            made.int_value = rng.choice([0, 1, -1, 2**63 - 1, -(2**63), 300])
        case 3:
            made.double_value = rng.choice([0.0, -0.5, 1e300])
        case 4:
            made.bytes_value = rng.randbytes(rng.randrange(4))
        case 5:
            made.array_value.values.extend(value(rng, depth + 1) for _ in range(rng.randrange(3)))
            made.array_value.SetInParent()
        case 6:
            for key in "ab"[: rng.randrange(3)]:
                made.kvlist_value.values.add(key=key).value.CopyFrom(value(rng, depth + 1))
            made.kvlist_value.SetInParent()
    return made


def attributes(rng: random.Random, onto: Any) -> None:
    for at in range(rng.randrange(4)):
        onto.attributes.add(key=f"key.{at}").value.CopyFrom(value(rng))


def request(rng: random.Random) -> Any:
    made = messages.ExportTraceServiceRequest()
    for _ in range(rng.randrange(1, 3)):
        group = made.resource_spans.add(schema_url=rng.choice(["", "https://example.org/1"]))
        attributes(rng, group.resource)
        group.resource.dropped_attributes_count = rng.choice([0, 3])
        for _ in range(rng.randrange(1, 3)):
            scoped = group.scope_spans.add(schema_url=rng.choice(["", "https://example.org/2"]))
            scoped.scope.name, scoped.scope.version = rng.choice([("", ""), ("a", ""), ("b", "2")])
            scoped.scope.attributes.add(key="k").value.int_value = 5
            for _ in range(rng.randrange(3)):
                span = scoped.spans.add(
                    trace_id=rng.randbytes(16),
                    span_id=rng.randbytes(8),
                    parent_span_id=rng.choice([b"", rng.randbytes(8)]),
                    name=rng.choice(["", "chat"]),
                    kind=rng.randrange(6),
                    start_time_unix_nano=rng.choice([0, 1544712660000000000]),
                    end_time_unix_nano=rng.choice([0, 1544712661000000000]),
                    trace_state=rng.choice(["", "a=b"]),
                    flags=rng.choice([0, 257]),
                    dropped_attributes_count=rng.choice([0, 1]),
                    dropped_events_count=rng.choice([0, 2]),
                    dropped_links_count=rng.choice([0, 200]),
                )
                attributes(rng, span)
                span.status.code = rng.randrange(3)
                span.status.message = rng.choice(["", "gone"])
                for _ in range(rng.randrange(2)):
                    event = span.events.add(name="e", time_unix_nano=rng.choice([0, 7]))
                    event.dropped_attributes_count = rng.choice([0, 9])
                    attributes(rng, event)
                    link = span.links.add(trace_id=rng.randbytes(16), span_id=rng.randbytes(8))
                    link.trace_state, link.flags = rng.choice([("", 0), ("c=d", 256)])
                    attributes(rng, link)
    return made


def as_otlp_json(made: Any) -> dict[str, Any]:
    """The request as the library's own JSON, with ids in hex as OTLP's JSON has them."""
    body: dict[str, Any] = json_format.MessageToDict(made)
    spans = [
        (span, theirs)
        for group, mine in zip(body["resourceSpans"], made.resource_spans, strict=True)
        for scoped, own in zip(group["scopeSpans"], mine.scope_spans, strict=True)
        for span, theirs in zip(scoped.get("spans", []), own.spans, strict=True)
    ]
    for span, theirs in spans:
        for record, of in [
            (span, theirs),
            *zip(span.get("links", []), theirs.links, strict=True),
        ]:
            for key, name in (
                ("traceId", "trace_id"),
                ("spanId", "span_id"),
                ("parentSpanId", "parent_span_id"),
            ):
                if key in record:
                    record[key] = getattr(of, name).hex()
    return body


def spans(body: bytes, kind: str, limits: Limits = LIMITS) -> list[RawSpan]:
    found = list(read_request(body, kind, limits))
    assert all(isinstance(item, ReceivedSpan) for item in found), found
    return [item.span for item in found if isinstance(item, ReceivedSpan)]


def test_protobuf_and_json_give_what_the_librarys_own_json_says() -> None:
    seen = 0
    for seed in range(150):
        made = request(random.Random(seed))
        body = as_otlp_json(made)
        expected = [decode_span(member) for member in iter_request_spans(body)]
        assert spans(made.SerializeToString(), PROTOBUF) == expected, seed
        assert spans(json.dumps(body).encode(), JSON) == expected, seed
        seen += len(expected)
    assert seen > 300


def one(**fields: Any) -> Any:
    made = messages.ExportTraceServiceRequest()
    given: dict[str, Any] = {"trace_id": b"t" * 16, "span_id": b"s" * 8, "name": "chat", **fields}
    made.resource_spans.add().scope_spans.add().spans.add(**given)
    return made


def test_a_span_that_is_none_is_refused_alone() -> None:
    made = one()
    made.resource_spans[0].scope_spans[0].spans.add(name="no id")
    good, bad = read_request(made.SerializeToString(), PROTOBUF, LIMITS)
    assert isinstance(good, ReceivedSpan)
    assert str(bad) == "a span needs a `spanId`; found none"
    body = as_otlp_json(made)
    good, bad = read_request(json.dumps(body).encode(), JSON, LIMITS)
    assert isinstance(good, ReceivedSpan)
    assert isinstance(bad, TraceError)
    assert "`spanId`" in str(bad)


def test_a_request_cut_at_any_byte_is_an_error_or_whole_spans_never_a_crash() -> None:
    whole = request(random.Random(4)).SerializeToString()
    expected = spans(whole, PROTOBUF)
    outcomes = set()
    for end in range(len(whole)):
        try:
            found = [
                i.span
                for i in read_request(whole[:end], PROTOBUF, LIMITS)
                if isinstance(i, ReceivedSpan)
            ]
        except TraceError as e:
            outcomes.add(str(e).partition(":")[0])
        else:
            outcomes.add("read")
            assert all(span in expected for span in found)
    assert outcomes == {"read", "not protobuf"}


def test_random_bytes_are_a_typed_error_or_spans() -> None:
    rng = random.Random(0)
    whole = request(random.Random(4)).SerializeToString()
    read = refused = 0
    for _ in range(3_000):
        spoilt = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        try:
            read += len(list(read_request(bytes(spoilt), PROTOBUF, LIMITS))) > 0
        except TraceError:
            refused += 1
    assert min(read, refused) > 100


def test_texts_and_numbers_are_made_fit_to_be_stored_and_told() -> None:
    made = one()
    span = made.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="long").value.string_value = "a" * 300
    span.attributes.add(key="nul").value.string_value = "a\0b"
    span.attributes.add(key="odd").value.double_value = float("nan")
    (item,) = read_request(made.SerializeToString(), PROTOBUF, Limits(text_bytes=100))
    assert isinstance(item, ReceivedSpan)
    about = item.span.attributes
    assert [repair.code for repair in item.repairs] == ["non_finite", "nul", "truncated"]
    assert about["long"].startswith("a" * 30 + "[truncated: 300 bytes in all, sha256 ")
    assert len(about["long"]) == 100
    assert (about["nul"], about["odd"]) == ("a\\u0000b", "NaN")


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_more_attributes_than_allowed_leave_the_first_with_a_mark(kind: str) -> None:
    made = one()
    for at in range(5):
        made.resource_spans[0].scope_spans[0].spans[0].attributes.add(key=str(at))
    as_json = json.dumps(as_otlp_json(made)).encode()
    body = made.SerializeToString() if kind == PROTOBUF else as_json
    (item,) = read_request(body, kind, Limits(attributes=3))
    assert isinstance(item, ReceivedSpan)
    assert list(item.span.attributes) == ["0", "1", "2"]
    left = (item.span.extra or {})["attributes_left_out"]
    assert (left["count"], len(left["sha256"])) == (2, 64)
    assert [repair.code for repair in item.repairs] == ["attributes_cut"]
    (near,) = read_request(body, kind, Limits(attributes=5))
    assert isinstance(near, ReceivedSpan)
    assert near.repairs == ()


def nested(depth: int) -> bytes:
    held = common.AnyValue(string_value="x")
    for _ in range(depth):
        outer = common.AnyValue()
        outer.array_value.values.append(held)
        held = outer
    made = one()
    made.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="k").value.CopyFrom(held)
    raw: bytes = made.SerializeToString()
    return raw


def test_values_nest_as_deep_as_allowed_and_no_deeper() -> None:
    assert len(spans(nested(8), PROTOBUF, Limits(depth=8))) == 1
    with pytest.raises(LimitError, match=r"limits\.depth, 7"):
        list(read_request(nested(8), PROTOBUF, Limits(depth=7)))


def test_a_request_of_half_a_million_values_is_refused_before_they_are_made() -> None:
    body = b'{"resourceSpans": [{"scopeSpans": [{"spans": [' + b"{}," * MAX_VALUES + b"{}]}]}]}"
    with pytest.raises(LimitError, match="500,000 values"):
        list(read_request(body, JSON, LIMITS))
    made = one()
    for _ in range(20):  # a key and a value each, and the span itself
        made.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="k").value.int_value = 1
    raw = made.SerializeToString()
    reader = ProtobufReader(raw, LIMITS, values=41)
    assert [reader.span(place).attributes for place in reader.places()] == [{"k": 1}]
    reader = ProtobufReader(raw, LIMITS, values=40)
    with pytest.raises(LimitError, match="values"):
        [reader.span(place) for place in reader.places()]


def test_more_empty_spans_than_allowed_are_not_even_listed() -> None:
    empty = b"\x12\x00" * 200_000
    scoped = b"\x12" + _varint(len(empty)) + empty
    with pytest.raises(LimitError, match=r"limits\.spans"):
        list(read_request(b"\x0a" + _varint(len(scoped)) + scoped, PROTOBUF, LIMITS))


def _varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_a_request_of_more_spans_than_a_trace_may_have_is_refused(kind: str) -> None:
    made = one()
    made.resource_spans[0].scope_spans[0].spans.add(trace_id=b"t" * 16, span_id=b"u" * 8)
    as_json = json.dumps(as_otlp_json(made)).encode()
    body = made.SerializeToString() if kind == PROTOBUF else as_json
    assert len(list(read_request(body, kind, Limits(spans=2)))) == 2
    with pytest.raises(LimitError, match=r"limits\.spans"):
        list(read_request(body, kind, Limits(spans=1)))


def test_fields_that_the_protocol_did_not_have_are_kept_by_number() -> None:
    raw = one().SerializeToString()
    span_size = raw[5]
    more = (
        b"\xf8\x07\x07" + b"\xfd\x07" + struct.pack("<I", 1)
    )  # field 127: a number, then four bytes
    spoilt = bytearray(raw + more)
    for at in (1, 3, 5):
        spoilt[at] += len(more)
    assert span_size == raw[5]
    (span,) = spans(bytes(spoilt), PROTOBUF)
    assert span.extra == {"unknown_fields": {"127": "AQAAAA=="}}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "Expected `object`"),
        (b"{", "not JSON"),
        (b'{"spans": []}', "needs `resourceSpans`"),
        (b'{"resourceSpans": 3}', "needs lists"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": {}}]}]}', "needs lists"),
        (b"\xff", "not UTF-8"),
        (b"[" * 2_000, "containers inside each other"),
        (b'{"resourceSpans": ' + b"[" * 2_000, "containers inside each other"),
    ],
)
def test_json_that_is_no_request_is_refused_whole(body: bytes, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        list(read_request(body, JSON, LIMITS))


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"resourceSpans": []}', b'{"resourceSpans": null}', b'{"resourceSpans": [{}]}'],
)
def test_an_empty_request_has_no_spans(body: bytes) -> None:
    assert list(read_request(body, JSON, LIMITS)) == []
    assert list(read_request(b"", PROTOBUF, LIMITS)) == []
