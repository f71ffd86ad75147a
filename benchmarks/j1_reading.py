"""J1: reading runs into complete trajectories, beside pydantic's bare decode and Inspect's reader.

Ours gives ids, warnings, usage and everything kept; the peer decodes into typed models and stops
there. Ratios of one process are of CPU time, which others on the machine move less; those of all
cores are of the clock. A difference under 1.5 x is a tie, so the limit beside pydantic is 1 / 1.5.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import j1_inspect, reading_files
from benchmarks.peers import Absent, peer
from benchmarks.rounds import Row, Samples, Worker, table, workers

ROUNDS = 7
TIE = 1 / 1.5
OTLP = 3.0
MEMORY_MIB = 512.0


class Pairing(NamedTuple):
    """One of our rounds beside one of the peer's; `limit` 0 where performance.md sets none."""

    work: str
    ours: str
    theirs: str
    limit: float
    clock: str = "cpu"


PAIRINGS = (
    Pairing("tau-bench, a JSON array", "array", "array", TIE),
    Pairing("the same, its collector off", "array", "array without collector", TIE),
    Pairing("the same as JSON lines", "lines", "lines", TIE),
    Pairing("as JSON lines, all cores", "rows lines", "lines", TIE, "seconds"),
    Pairing("chat messages, JSON lines", "messages", "messages", TIE),
    Pairing("chat messages, all cores", "rows messages", "messages", TIE, "seconds"),
    Pairing("OTLP, messages within", "otlp", "otlp", OTLP),
    Pairing("OTLP, the peer spans only", "otlp", "otlp spans", 0.0),
)

Answers = dict[str, list[dict[str, Any]]]


def in_turn(files: list[Path], rounds: int = ROUNDS) -> tuple[Answers, Absent | None]:
    """Run all rounds in turn; return what each answered, and who is missing."""
    found = peer("pydantic-evals")  # its environment holds pydantic
    made = {"ours": Worker(Path(sys.executable), "ours_reading", files)}
    plan = [("ours", name) for name in dict.fromkeys(p.ours for p in PAIRINGS)]
    if not isinstance(found, Absent):
        made["pydantic"] = Worker(found.python, "pydantic_reading", files)
        plan += [("pydantic", name) for name in dict.fromkeys(p.theirs for p in PAIRINGS)]
    answers: Answers = {f"{who} {work}": [] for who, work in plan}
    with workers(made):
        for number in range(rounds + 1):
            for who, work in plan:
                answer = made[who].round(work)
                if number:  # the first round warms up
                    answers[f"{who} {work}"].append(answer)
    return answers, found if isinstance(found, Absent) else None


def rows(answers: Answers) -> list[Row]:
    """Turn the rounds into comparisons with the limits."""
    found = [
        _beside(pairing, answers) for pairing in PAIRINGS if f"pydantic {pairing.theirs}" in answers
    ]
    single = [name for name in answers if name.startswith("ours ") and " rows " not in name]
    peak = max(answer["peak_kib"] for name in single for answer in answers[name]) / 1024
    return [
        *found,
        Row("memory of one process", f"{peak:.0f} MiB", "-", peak, MEMORY_MIB, False, unit="MiB"),
    ]


def _beside(pairing: Pairing, answers: Answers) -> Row:
    ours, theirs = (
        Samples(tuple(a["runs"] / a[pairing.clock] for a in answers[name]))
        for name in (f"ours {pairing.ours}", f"pydantic {pairing.theirs}")
    )
    return Row(
        work=pairing.work,
        ours=f"{ours.median:,.0f} runs/s",
        peer=f"{theirs.median:,.0f} runs/s",
        reached=ours.median / theirs.median,
        limit=pairing.limit,
        at_least=True,
        spread=f"{ours.spread:.0%}, peer {theirs.spread:.0%}",
    )


def main() -> int:
    """Print the table; return 1 when a limit is missed."""
    files = reading_files.files()
    answers, absent = in_turn(files)
    logs, no_inspect = j1_inspect.in_turn()
    found = [*rows(answers), *j1_inspect.rows(logs)]
    print(table(found))
    print(f"medians of {ROUNDS} rounds in turn after one to warm up; peers: pydantic, Inspect")
    for path in files[-3:]:
        print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB")
    for missing in (absent, no_inspect):
        if missing is not None:
            print(f"not compared: {missing.name} cannot be installed here: {missing.reason}")
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
