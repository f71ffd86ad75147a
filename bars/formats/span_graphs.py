"""Bad span graphs stay analysable: every planted fault is flagged, nothing recorded is changed.

`python -m bars.formats.span_graphs [SPANS]`, 100,000 unless given. One trace, well formed but for
faults planted at random places: missing parents, circles, ids given twice, children that begin
before their parent or after its end. Time is of the processor, because others may use the machine.
Code 0: every span planted is named in a warning of its kind, no other span is, the spans are as
they were, and reading takes at most 5 s; 3: not so.
"""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

import msgspec
import numpy as np

from stepscope.formats.spans.assemble import assemble
from stepscope.formats.spans.span import RawSpan
from stepscope.model import Source
from stepscope.safety.limits import Limits

SECONDS = 5.0
_SEED = 20261122
# Spans are a microsecond apart; each lasts until all below it are done.
_GAP_NS = 1_000
_BEGIN_NS = 1_760_000_000_000_000_000
_KINDS = ("chat", "execute_tool", "invoke_agent", "unknown")
CODES = ("orphan_span", "span_cycle", "duplicate_span_id", "clock_skew")


class Tally(NamedTuple):
    """Of one kind of fault: spans planted, found, and flagged without being planted."""

    planted: int
    flagged: int
    wrong: int


class Outcome(NamedTuple):
    """What came of one trace."""

    tallies: dict[str, Tally]
    unchanged: bool
    steps: int
    seconds: float


def planted(count: int) -> tuple[list[RawSpan], dict[str, set[str]]]:
    """Return the spans of a trace, and by kind of fault the ids of spans that have it."""
    rng = np.random.default_rng(_SEED)
    spans = [_span(at, count) for at in range(count)]
    faults: dict[str, set[str]] = {code: set() for code in CODES}
    # The last third has no children, so that a fault stays with the span that it is planted in.
    leaves = rng.permutation(np.arange(2 * count // 3, count))
    share = max(2, count // 100)
    orphans, circles, doubles, early, late = (
        leaves[at * share : (at + 1) * share].tolist() for at in range(5)
    )
    for at in orphans:
        spans[at] = msgspec.structs.replace(spans[at], parent_id=f"gone-{at}")
        faults["orphan_span"].add(spans[at].span_id)
    for at, other in zip(circles[::2], circles[1::2], strict=False):
        for one, above in ((at, other), (other, at)):
            same = {"start_ns": _BEGIN_NS, "end_ns": _BEGIN_NS}
            spans[one] = msgspec.structs.replace(spans[one], parent_id=_id(above), **same)
            faults["span_cycle"].add(spans[one].span_id)
    for at in doubles:
        twin = spans[at - 2 * count // 3]
        spans.append(msgspec.structs.replace(twin, name="another"))
        faults["duplicate_span_id"].add(twin.span_id)
    for at, shift in [*((at, -1) for at in early), *((at, 1) for at in late)]:
        moved = spans[at].start_ns or 0
        start = moved + shift * 4 * count * _GAP_NS
        spans[at] = msgspec.structs.replace(spans[at], start_ns=start, end_ns=start + 1)
        faults["clock_skew"].add(spans[at].span_id)
    order = rng.permutation(len(spans)).tolist()
    return [spans[at] for at in order], faults


def _span(at: int, count: int) -> RawSpan:
    kind = _KINDS[at % len(_KINDS)]
    said = '[{"role": "assistant", "parts": [{"type": "text", "content": "done"}]}]'
    return RawSpan(
        trace_id="trace",
        span_id=_id(at),
        parent_id=_id((at - 1) // 3) if at else None,
        name=f"{kind} {at}",
        start_ns=_BEGIN_NS + at * _GAP_NS,
        end_ns=_BEGIN_NS + 2 * count * _GAP_NS,
        attributes={
            "gen_ai.operation.name": kind,
            **({"gen_ai.output.messages": said} if kind == "chat" else {}),
            **({"gen_ai.tool.name": "look"} if kind == "execute_tool" else {}),
        },
    )


def _id(at: int) -> str:
    return f"{at:016x}"


def outcome(count: int) -> Outcome:
    """Read a trace of `count` spans and compare what is flagged with what was planted."""
    spans, faults = planted(count)
    before = msgspec.json.encode(spans)
    begin = time.process_time()
    # Ids given twice are planted beside the others.
    limits = Limits(spans=len(spans))
    (run,) = assemble(spans, source=Source(format="spans", uri="planted"), limits=limits)
    seconds = time.process_time() - begin
    flagged: dict[str, set[str]] = {code: set() for code in CODES}
    for warning in run.warnings:
        if warning.code in flagged:
            flagged[warning.code].add(warning.reason.split("'")[1])
    tallies = {
        code: Tally(
            len(faults[code]),
            len(faults[code] & flagged[code]),
            len(flagged[code] - faults[code]),
        )
        for code in CODES
    }
    kept = [(node.id, node.parent, node.start_ns, node.attributes) for node in run.spans]
    given = [(span.span_id, span.parent_id, span.start_ns, span.attributes) for span in spans]
    unchanged = before == msgspec.json.encode(spans) and kept == given
    return Outcome(tallies, unchanged, len(run.steps), seconds)


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    found = outcome(count)
    print(f"{'fault':<20} {'planted':>8} {'flagged':>8} {'wrongly':>8}")
    for code, tally in found.tallies.items():
        print(f"{code:<20} {tally.planted:>8,} {tally.flagged:>8,} {tally.wrong:>8,}")
    print(f"spans as recorded: {found.unchanged}; {found.steps:,} steps")
    print(f"{count:,} spans in {found.seconds:.2f} s of the processor, at most {SECONDS:g}")
    exact = all(t.planted == t.flagged and not t.wrong for t in found.tallies.values())
    fast = found.seconds <= SECONDS * max(1.0, count / 100_000)
    return 0 if exact and found.unchanged and fast else 3


if __name__ == "__main__":
    sys.exit(main())
