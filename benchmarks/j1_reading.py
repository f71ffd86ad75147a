"""J1: reading runs into complete trajectories, beside the readers that a user would take instead.

Ours gives ids, warnings, usage and everything kept. Limits are held against MLflow and Phoenix,
into their objects with all attributes decoded, and against Inspect's reader. Pydantic decodes into
typed models and interprets nothing; nobody can take that instead of a reader, so it is printed
without a limit, to show how far from a bare decode we are. Ratios of one process are of CPU time,
which others on the machine move less; those of all cores are of the clock.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import j1_inspect, reading_files
from benchmarks.peers import Absent, peer
from benchmarks.rounds import Row, Samples, Worker, table, workers

ROUNDS = 7
TIMES_FASTER = 3.0
MEMORY_MIB = 512.0


class Competitor(NamedTuple):
    """A peer's name in the table, the environment that holds it, its worker."""

    name: str
    environment: str
    worker: str


COMPETITORS = (
    Competitor("pydantic", "pydantic-evals", "pydantic_reading"),
    Competitor("MLflow", "mlflow-tracing", "mlflow_reading"),
    Competitor("Phoenix", "arize-phoenix", "phoenix_reading"),
)


class Pairing(NamedTuple):
    """One of our rounds beside one of a peer's; `limit` 0 where performance.md sets none."""

    work: str
    ours: str
    peer: str
    theirs: str
    limit: float = 0.0
    clock: str = "cpu"


PAIRINGS = (
    Pairing("tau-bench, a JSON array", "array", "pydantic", "array"),
    Pairing("the same, its collector off", "array", "pydantic", "array without collector"),
    Pairing("the same as JSON lines", "lines", "pydantic", "lines"),
    Pairing("as JSON lines, all cores", "rows lines", "pydantic", "lines", clock="seconds"),
    Pairing("chat messages, JSON lines", "messages", "pydantic", "messages"),
    Pairing("chat messages, all cores", "rows messages", "pydantic", "messages", clock="seconds"),
    Pairing("OTLP, messages within", "otlp", "pydantic", "otlp"),
    Pairing("OTLP, the peer spans only", "otlp", "pydantic", "otlp spans"),
    Pairing("OTLP", "otlp", "MLflow", "otlp", TIMES_FASTER),
    Pairing("OTLP", "otlp", "Phoenix", "otlp", TIMES_FASTER),
    Pairing("MLflow's traces", "mlflow", "MLflow", "traces", TIMES_FASTER),
    Pairing("Phoenix's spans", "phoenix", "Phoenix", "spans", TIMES_FASTER),
    Pairing("the same, the peer's keys flat", "phoenix", "Phoenix", "spans flat"),
)

Answers = dict[str, list[dict[str, Any]]]


def in_turn(files: list[Path], rounds: int = ROUNDS) -> tuple[Answers, list[Absent]]:
    """Run all rounds in turn; return what each answered, and who is missing."""
    absent: list[Absent] = []
    made = {"ours": Worker(Path(sys.executable), "ours_reading", files)}
    plan = [("ours", name) for name in dict.fromkeys(p.ours for p in PAIRINGS)]
    for competitor in COMPETITORS:
        found = peer(competitor.environment)
        if isinstance(found, Absent):
            absent.append(found)
            continue
        made[competitor.name] = Worker(found.python, competitor.worker, files)
        theirs = [pairing.theirs for pairing in PAIRINGS if pairing.peer == competitor.name]
        plan += [(competitor.name, name) for name in dict.fromkeys(theirs)]
    answers: Answers = {f"{who} {work}": [] for who, work in plan}
    with workers(made):
        for number in range(rounds + 1):
            for who, work in plan:
                answer = made[who].round(work)
                if number:  # the first round warms up
                    answers[f"{who} {work}"].append(answer)
    return answers, absent


def rows(answers: Answers) -> list[Row]:
    """Turn the rounds into comparisons with the limits."""
    found = [
        _beside(pairing, answers)
        for pairing in PAIRINGS
        if f"{pairing.peer} {pairing.theirs}" in answers
    ]
    single = [name for name in answers if name.startswith("ours ") and " rows " not in name]
    peak = max(answer["peak_kib"] for name in single for answer in answers[name]) / 1024
    return [
        *found,
        Row("memory of one process", f"{peak:.0f} MiB", "-", peak, MEMORY_MIB, False, unit="MiB"),
    ]


def _beside(pairing: Pairing, answers: Answers) -> Row:
    both = answers[f"ours {pairing.ours}"], answers[f"{pairing.peer} {pairing.theirs}"]
    counted = [sorted({answer["runs"] for answer in found}) for found in both]
    if counted[0] != counted[1]:
        raise RuntimeError(f"{pairing.work}: ours read {counted[0]} runs, the peer {counted[1]}")
    ours, theirs = (Samples(tuple(a["runs"] / a[pairing.clock] for a in found)) for found in both)
    return Row(
        work=pairing.work,
        ours=f"{ours.median:,.0f} runs/s",
        peer=f"{pairing.peer} {theirs.median:,.0f} runs/s",
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
    print(f"medians of {ROUNDS} rounds in turn after one to warm up; Inspect: {j1_inspect.ROUNDS}")
    for path in files:
        if path.suffix == ".jsonl":
            print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB")
    for missing in (*absent, *([] if no_inspect is None else [no_inspect])):
        print(f"not compared: {missing.name} cannot be installed here: {missing.reason}")
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
