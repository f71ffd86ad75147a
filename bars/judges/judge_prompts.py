"""What judges are sent of recorded runs: marks, quotations, windows, size and price.

`python -m bars.judges.judge_prompts [RUNS]`, over the airline runs of tau-bench and the retail runs
of AgentRx, all of them unless a number is given:

- marks inside of a token of a recorded text. Bar: 0.
- every call of the agent, quoted as JSON with and without blanks, as a function with named
  arguments and with an object, and as rubrics write it; then with another value in it. Bar: 0 true
  quotations refused, 0 false ones believed.
- windows of `step_labels` for a judge that reads 128,000 tokens. Bar: one for each run.
- bytes, tokens and price of the five axes of the median airline run, in requests as they are sent,
  beside those of the prompts of version 1. Tokens are bytes over four, answers 300 tokens; prices
  are Claude Sonnet 4.5's, with no cache, and with one that holds all that requests share. Bar: no
  more bytes, and no higher price without a cache; the other price is printed, without a bar.

Code 0: all bars hold; 3: one is missed; 4: the runs are absent.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from stepscope.formats.reading import read_files
from stepscope.judges.citations import CitationChecker, InvalidReply
from stepscope.judges.judgement import Judge, Judgement, JudgingOptions
from stepscope.judges.plan import plan_judgements
from stepscope.judges.rubrics import RUBRIC_SETS, load_rubric
from stepscope.judges.transcript import MARK, Fence, fence_nonce, make_transcript
from stepscope.model import Json, Request, ToolCall, Trajectory, Usage
from stepscope.models.configured import JudgesTable
from stepscope.models.prices import Prices
from stepscope.safety.redact import Redactor

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = ("taubench/airline", "agentrx-retail")
KEY = b"bar"
REDACTOR = Redactor(KEY)
JUDGE = Judge(name="anthropic/claude-sonnet-4-5", family="anthropic")
# Of an answer of one axis, in tokens.
WRITTEN = 300
BYTES_PER_TOKEN = 4


class Size(NamedTuple):
    """Five axes of one run: bytes sent, tokens, and USD without and with a provider's cache."""

    bytes: float
    tokens: float
    usd: float
    cached_usd: float


# The median of the same 200 runs with the prompts of version 1 (commit 2101988), by this function.
BEFORE = Size(266_766.5, 66_691, 0.2226, 0.0563)


def recorded(name: str, most: int | None = None) -> list[Trajectory]:
    """Return the runs of a set, none where it is absent."""
    if not (DATA / name).exists():
        return []
    readings = read_files([str(DATA / name)])
    found = [run for one in readings for run in one if isinstance(run, Trajectory) and run.steps]
    return found[:most]


def asked(run: Trajectory, name: str) -> Judgement | None:
    """Return what one judge is asked of a run by a rubric."""
    (made,) = plan_judgements(run, rubric=load_rubric(name), judge=JUDGE,
                              options=JudgingOptions(), key=KEY, redactor=REDACTOR)  # fmt: skip
    return made if isinstance(made, Judgement) else None


def broken_tokens(text: str) -> list[str]:
    """Return the places where a mark within a line parts a token: what is left and right of it."""
    found: list[str] = []
    for line in text.split("\n"):
        if not line.startswith(MARK):
            continue
        for left, right in pairwise(line[1:].split(MARK)):
            first, last = left.rsplit(None, 1)[-1:], right.split(None, 1)[:1]
            if not first or not last or left[-1:].isspace() or right[:1].isspace():
                continue
            end, start = left[-1], right[0]
            number = end in ",:" and left[-2:-1].isdigit() and start.isdigit()
            # `<` and `[` are parted from what a chat template takes for a turn, on purpose.
            if number or end not in ",:}<[":
                found.append(f"{left[-12:]}{MARK}{right[:12]}")
    return found


def notations(call: ToolCall) -> Iterator[tuple[str, str]]:
    """Yield a call in every notation in which judges quote one."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    named = ", ".join(f"{name}={json.dumps(v, ensure_ascii=False)}" for name, v in given.items())
    compact = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    spaced = json.dumps(given, ensure_ascii=False)
    yield "JSON", f"{call.name} {compact}"
    yield "JSON with blanks", f"{call.name} {spaced}"
    yield "function", f"{call.name}({named})"
    yield "function of an object", f"{call.name}({spaced})"
    yield "as in rubrics", f"agent calls {call.name} {compact}"
    yield "as a function in rubrics", f"agent calls {call.name}({named})"


def false_call(call: ToolCall) -> ToolCall:
    """Return a call with another value in it, or of another name where it has none."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    if not given:
        return ToolCall(f"{call.name}_all", {})
    first = next(iter(given))
    changed: dict[str, Json] = {**given, first: "another value"}
    return ToolCall(call.name, changed)


def quoted(runs: Sequence[Trajectory]) -> tuple[int, list[str], list[str]]:
    """Return how many true quotations were tried, those refused, and the false ones believed."""
    tried, refused, believed = 0, [], []
    for run in runs:
        copy = make_transcript(run, redactor=REDACTOR, narration="on")
        witness = CitationChecker(copy, Fence(fence_nonce(KEY, run.id, JUDGE.name)))
        for step in run.steps:
            for call in step.calls:
                if call.parse_error is not None:
                    continue
                for name, quote in notations(call):
                    tried += 1
                    if not stands(witness, step.index, quote):
                        refused.append(f"{name}: {quote[:120]}")
                for name, quote in notations(false_call(call)):
                    if stands(witness, step.index, quote):
                        believed.append(f"{name}: {quote[:120]}")
    return tried, refused, believed


def stands(witness: CitationChecker, step: int, quote: str) -> bool:
    """Tell whether a quotation is believed."""
    try:
        return witness.quoted(step, quote)
    except InvalidReply:
        return False


def size(run: Trajectory, prices: Prices) -> Size:
    """Return what five axes of a run take."""
    made = [asked(run, name) for name in RUBRIC_SETS["axes"]]
    requests = [one.asks[0].request for one in made if one is not None]
    sent = sum(len(text.encode()) for one in requests for text in texts(one))
    usd = cached = 0.0
    for number, request in enumerate(requests):
        system, context, question = (len(t.encode()) // BYTES_PER_TOKEN for t in texts(request))
        read = system + context + question
        # Other runs brought the system turn, the first axis of this run brings its context.
        held = system + (context if number else 0)
        plain = Usage(input_total=read, output_total=WRITTEN)
        shared = Usage(input_total=read, cache_read=held, cache_write=read - question - held,
                       output_total=WRITTEN)  # fmt: skip
        usd += prices.cost(JUDGE.name, plain) or 0.0
        cached += prices.cost(JUDGE.name, shared) or 0.0
    return Size(sent, sent / BYTES_PER_TOKEN, usd, cached)


def texts(request: Request) -> tuple[str, str, str]:
    """Return the texts of a request in the order in which they are sent."""
    return request.system, request.context, request.question


def main() -> int:
    """Print the figures; return 0 when the bars hold."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else None
    sets = {name: recorded(name, most) for name in SETS}
    runs = [run for found in sets.values() for run in found]
    if not all(sets.values()):
        print(f"not measured: {DATA} is absent")
        return 4
    shown = [(run, one) for run in runs if (one := asked(run, "step_labels")) is not None]
    contexts = [(run, ask.request.context) for run, one in shown for ask in one.asks]
    marks = sum(text.count(MARK) - text.count(f"\n{MARK}") for _, text in contexts)
    broken = [place for _, text in contexts for place in broken_tokens(text)]
    chance = sum(f"[{'fence'}]" in text for _, text in contexts)
    print(f"{len(runs)} runs: {marks:,} marks within lines, {len(broken)} inside of a token; the "
          f"nonce stands by chance in {chance} runs")  # fmt: skip
    tried, refused, believed = quoted(runs)
    print(f"{tried:,} true quotations of calls, {len(refused)} refused; {len(believed)} false ones "
          "believed")  # fmt: skip
    split = [run.name for run, one in shown if len(one.asks) != 1]
    longest = max(len(text) for _, text in contexts)
    print(f"windows: {len(split)} runs in more than one; the longest has {longest:,} characters")
    for place in (*broken[:3], *refused[:3], *believed[:3], *split[:3]):
        print(f"  {place}")
    prices = Prices(JudgesTable())
    sizes = [size(run, prices) for run in sets[SETS[0]]]
    after = Size(*(statistics.median(column) for column in zip(*sizes, strict=True)))
    print(f"five axes of the median of {len(sizes)} airline runs:")
    print(f"  {'prompts':<10}{'bytes':>10}{'tokens':>9}{'USD':>9}{'USD, cached':>13}")
    for version, of in (("version 1", BEFORE), ("version 2", after)):
        print(f"  {version:<10}{of.bytes:>10,.0f}{of.tokens:>9,.0f}{of.usd:>9.4f}"
              f"{of.cached_usd:>13.4f}")  # fmt: skip
    cheaper = after.bytes <= BEFORE.bytes and after.usd <= BEFORE.usd
    return 0 if not (broken or refused or believed or split) and cheaper else 3


if __name__ == "__main__":
    sys.exit(main())
