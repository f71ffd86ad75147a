"""J4, judging: our whole path beside the openai SDK alone, Inspect and DeepEval.

A scripted server of our tests answers after 50, 100 and 200 ms, 200 calls in flight. Everybody asks
the same questions (the five axes of the bundled runs) with the same schema over the openai SDK.
Ours has a ledger on disk, a budget, retries, limits, validation and records; the SDK has none of
it. Bare aiohttp says what is attainable here: a core is the client's, the other the server's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.judging_prompts import planned, write
from benchmarks.peers import Absent, Peer, peer
from benchmarks.rounds import Row, Samples, Worker, table, workers
from tests.faults.providers import started
from tests.faults.script import Fault, Script

# Milliseconds until the server answers.
DELAYS = (50, 100, 200)
IN_FLIGHT = 200
ROUNDS = 3
# Calls a round; slower peers make fewer, which does them no harm: a rate is compared.
CALLS = {"inspect": 400, "deepeval": 100}
MOST_CALLS = 1_000
OF_SDK, OF_INSPECT, OF_DEEPEVAL = 0.8, 2.0, 10.0
CPU_MS = 1.0

Answers = dict[tuple[str, int], list[dict[str, Any]]]


@contextmanager
def servers(folder: Path) -> Iterator[list[str]]:
    """Serve with every delay; yield NAME=URL of each."""
    with ExitStack() as stack:
        found = []
        for delay in DELAYS:
            script = Script(always=Fault(delay=delay / 1000), remember=True)
            place = folder / str(delay)
            place.mkdir()
            provider = stack.enter_context(started(place, script, ledger=False))
            found.append(f"{delay}={provider.base}")
        yield found


def competitors(prompts: Path, addresses: list[str]) -> tuple[dict[str, Worker], list[Absent]]:
    """Start everybody; return those that could not be installed beside."""
    mine = Path(sys.executable)

    def given(name: str) -> list[Any]:
        return [prompts, CALLS.get(name, MOST_CALLS), IN_FLIGHT, *addresses]

    made = {
        "bare": Worker(mine, "aiohttp_judging", given("bare")),
        "ours": Worker(mine, "ours_judging", given("ours")),
        "sdk, aiohttp": Worker(mine, "openai_judging", [Path("aiohttp"), *given("sdk")]),
        "sdk, httpx": Worker(mine, "openai_judging", [Path("httpx"), *given("sdk")]),
    }
    absent = []
    for name, module in (("inspect-ai", "inspect"), ("deepeval", "deepeval")):
        found: Peer | Absent = peer(name)
        if isinstance(found, Absent):
            absent.append(found)
        else:
            made[module] = Worker(found.python, f"{module}_judging", given(module))
    return made, absent


def in_turn(rounds: int = ROUNDS) -> tuple[Answers, list[Absent]]:
    """Run all rounds in turn; return what each answered."""
    answers: Answers = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prompts = folder / "prompts.jsonl"
        write(prompts, planned())
        with servers(folder) as addresses:
            made, absent = competitors(prompts, addresses)
            with workers(made):
                for number in range(rounds + 1):
                    for delay in DELAYS:
                        for who, worker in made.items():
                            answer = worker.round(str(delay))
                            if answer["answered"] != CALLS.get(who, MOST_CALLS):
                                raise RuntimeError(f"{who} left calls without an answer: {answer}")
                            if number:  # the first round warms up
                                answers.setdefault((who, delay), []).append(answer)
    return answers, absent


def rows(answers: Answers) -> list[Row]:
    """Turn the rounds into comparisons with the limits."""
    found = []
    for delay in DELAYS:
        for who, limit in (
            ("sdk, aiohttp", OF_SDK),
            ("sdk, httpx", OF_SDK),
            ("inspect", OF_INSPECT),
            ("deepeval", OF_DEEPEVAL),
        ):
            if (who, delay) in answers:
                found.append(_beside(answers, who, delay, limit))
        found.append(_cpu(answers, delay))
    if ("inspect", DELAYS[0]) in answers:
        found.append(_memory(answers))
    return found


def _rates(answers: Answers, who: str, delay: int) -> Samples:
    return Samples(tuple(a["answered"] / a["seconds"] for a in answers[who, delay]))


def _cpus(answers: Answers, who: str, delay: int) -> Samples:
    return Samples(tuple(1000 * a["cpu"] / a["answered"] for a in answers[who, delay]))


def _beside(answers: Answers, who: str, delay: int, limit: float) -> Row:
    ours, theirs = (_rates(answers, one, delay) for one in ("ours", who))
    return Row(
        work=f"{delay} ms, beside {who}",
        ours=f"{ours.median:,.0f} calls/s",
        peer=f"{theirs.median:,.0f} calls/s",
        reached=ours.median / theirs.median,
        limit=limit,
        at_least=True,
        spread=f"{ours.spread:.0%}, peer {theirs.spread:.0%}",
    )


def _cpu(answers: Answers, delay: int) -> Row:
    ours, theirs = (_cpus(answers, one, delay) for one in ("ours", "sdk, aiohttp"))
    return Row(
        work=f"{delay} ms, CPU a call over the SDK's",
        ours=f"{ours.median:.2f} ms",
        peer=f"{theirs.median:.2f} ms",
        reached=ours.median - theirs.median,
        limit=CPU_MS,
        at_least=False,
        spread=f"{ours.spread:.0%}, peer {theirs.spread:.0%}",
        unit="ms",
    )


def _memory(answers: Answers) -> Row:
    ours, theirs = (
        max(a["rss"] for delay in DELAYS for a in answers[who, delay]) / 1024
        for who in ("ours", "inspect")
    )
    return Row(
        work="resident memory, beside inspect",
        ours=f"{ours:.0f} MiB",
        peer=f"{theirs:.0f} MiB",
        reached=ours / theirs,
        limit=1.0,
        at_least=False,
    )


def main() -> int:
    """Print the table; return 1 when a limit is missed."""
    answers, absent = in_turn()
    found = rows(answers)
    print(table(found))
    for delay in DELAYS:
        bare = _rates(answers, "bare", delay)
        print(f"attainable at {delay} ms, {IN_FLIGHT} in flight: {bare.median:,.0f} calls/s")
    for one in absent:
        print(f"not compared: {one.name} cannot be installed here: {one.reason}")
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
