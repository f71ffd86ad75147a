"""Read OpenAI Responses items, bare or as requests and responses, with what answers continue.

One run is: a file that is a list of items (or one item a line); a record that is such a list; a
response, with its request where it was recorded. A response that names an earlier one of the file
(`previous_response_id`) continues that one's run; one that names another is a run of its own, and
says so. Steps are turns, as chat messages are. Items carry no flag of a tool's failure but the
provider's own: whether any other output is an error is guessed from its text and marked so.
Format: OpenAI API reference; OpenAI Python SDK 3.54.0.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.beliefs import judge_text
from stepscope.formats.building import Ordinals, finish, text_at
from stepscope.formats.chat import Reading
from stepscope.formats.dialects import is_message
from stepscope.formats.envelope import tool_defs
from stepscope.formats.item_turns import placed, turns
from stepscope.formats.items import is_item, item_step
from stepscope.formats.opening import Opening
from stepscope.formats.pieced import Pieced
from stepscope.formats.plain import Found, PlainFormat, found, quarantine
from stepscope.formats.provider_items import offered
from stepscope.formats.response_chains import Chains, Held
from stepscope.formats.response_records import NAME, items_of, told
from stepscope.formats.tokens import total
from stepscope.model import Json, Quarantined, Source, Step, Stream, Trajectory

_WHOLE = frozenset({"input", "output", "messages", "request", "response", "body"})
# What backends' exports with an `input` and an `output` say beside them.
_OTHERS = frozenset("run_type traceId trace_id observations span_data spans".split())


def _likeness(opening: Opening) -> float:
    if not opening.records:
        return 0.0
    first = opening.records[0]
    if opening.shape in {"array", "lines"} and (is_message(first) or is_item(first)):
        return 0.9 if any(is_item(record) for record in opening.records) else 0.0
    if isinstance(first, list):
        return 0.9 if any(map(is_item, first)) else 0.0
    return _body_likeness(first) if isinstance(first, dict) else 0.0


def _body_likeness(record: dict[str, Json]) -> float:
    if text_at(record, "object") == "response":
        return 0.95
    body = record.get("body")
    if isinstance(body, str) and "status" in record:
        return 0.95 if '"object":"response"' in body.replace('": "', '":"') else 0.0
    for key in ("response", "request", "body"):
        inner = record.get(key)
        if isinstance(inner, str):
            return 0.95 if '"object":"response"' in inner.replace('": "', '":"') else 0.0
        if isinstance(inner, dict):
            return _body_likeness(inner)
    if record.keys() & _OTHERS:
        return 0.0
    given, made = record.get("input", record.get("messages")), record.get("output")
    if isinstance(made, list) and made and all(is_item(item) for item in made):
        return 0.9
    if isinstance(given, list) and all(is_item(item) or is_message(item) for item in given):
        asked = any(map(is_item, given)) or ("input" in record and "model" in record)
        return 0.9 if asked and "output" not in record else 0.0
    return 0.0


def _is_part(record: Json) -> bool:
    """Say whether a record is one item of the file's run rather than a run of its own."""
    if isinstance(record, dict):
        return "role" in record or is_item(record) or not record.keys() & _WHOLE
    return not isinstance(record, list)


class _Loose(Pieced):
    """Items that stand by themselves in a file: together they are one run."""

    def __init__(self) -> None:
        super().__init__()
        self.tools: list[Json] = []

    def take(self, record: Found) -> None:
        """Take the next item.

        Raises:
            TraceError: it is none.
        """
        reading = Reading(judge_text, record.limits)
        self.add(item_step(record.value, self.count, reading), record)
        self.tools += offered(record.value)

    def run(self, ordinals: Ordinals) -> Trajectory | None:
        """Return the run, None where no item stood by itself.

        Raises:
            TraceError: it has more steps than the limit, or cannot be written.
        """
        if self.first is None:
            return None
        steps, gaps = self.joined(turns)
        draft = _bare(steps, self.first, self.tools)
        draft = msgspec.structs.replace(draft, warnings=tuple(gaps))
        return finish(draft, ordinals, limits=self.first.limits, repairs=self.repairs)


def _bare(steps: list[Step], first: Found, tools: list[Json]) -> Trajectory:
    listed = placed(steps)
    return Trajectory(
        id="",
        name="",
        steps=listed,
        source=Source(format=NAME, uri=first.uri, offset=first.offset),
        workflow=NAME,
        tools=tool_defs(tools) or None,
        usage=total(listed),
    )


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals, loose, chains = Ordinals(), _Loose(), Chains()
    for record in found(stream):
        if isinstance(record, Quarantined):
            loose.lost()
            yield record
            continue
        try:
            if _is_part(record.value):
                loose.take(record)
            elif isinstance(record.value, list):
                steps, tools = items_of(record.value, record)
                run = msgspec.structs.replace(_bare(steps, record, []), tools=tools or None)
                yield finish(run, ordinals, limits=record.limits, repairs=record.repairs)
            else:
                yield from _finished(chains.take(told(record), record), ordinals)
        except (TraceError, msgspec.ValidationError) as e:
            if _is_part(record.value):
                loose.lost()
            yield quarantine(record, e)
    yield from _finished(chains.rest(), ordinals)
    try:
        run_of_items = loose.run(ordinals)
    except TraceError as e:
        assert loose.first is not None
        yield quarantine(loose.first, e)
    else:
        if run_of_items is not None:
            yield run_of_items


def _finished(held: list[Held], ordinals: Ordinals) -> Iterator[Trajectory | Quarantined]:
    for one in held:
        try:
            yield finish(one.draft, ordinals, limits=one.first.limits, repairs=one.repairs)
        except TraceError as e:
            yield quarantine(one.first._replace(raw=b"\n".join(one.raws)), e)


FORMAT = PlainFormat(NAME, _likeness, _read)
