"""J2: reading and deterministic scoring, beside agentevals, DeepEval and pydantic-evals.

Every competitor parses the same JSON with its usual parser, builds its own objects and matches each
run's calls with its reference calls, names and arguments. Then: what all our measures cost beside
reading alone, and one whole pass of 20,000 runs through the commands, with all cores.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from benchmarks import generate
from benchmarks.growth import both
from benchmarks.peers import Absent, peer
from benchmarks.rounds import Row, Samples, Worker, table, workers

RUNS = 2_000
ROUNDS = 7
WHOLE_RUNS = 20_000
WHOLE_SECONDS = 60.0
# A share of all cores' time while the 20,000 runs pass; under it, a core stood idle.
BUSY = 0.75
PEERS = {
    # name: (module, at least so many times faster; 1 where performance.md sets no limit)
    "agentevals": ("agentevals_match", 10.0),
    "deepeval": ("deepeval_tools", 5.0),
    "pydantic-evals": ("pydantic_evals_equals", 1.0),
}

Answers = dict[str, list[dict[str, Any]]]


def in_turn(files: list[Path], rounds: int = ROUNDS) -> tuple[Answers, list[Absent]]:
    """Run every competitor's rounds in turn; return what each answered, and who is missing."""
    made = {"ours": Worker(Path(sys.executable), "ours", files)}
    absent = []
    for name, (module, _) in PEERS.items():
        found = peer(name)
        if isinstance(found, Absent):
            absent.append(found)
        else:
            made[name] = Worker(found.python, module, files)
    plan = [("ours", "match"), *((n, "match") for n in made if n != "ours")]
    plan += [("ours", work) for work in ("whole", "read", "vector", "score")]
    answers: Answers = {f"{name} {work}": [] for name, work in plan}
    with workers(made):
        for number in range(rounds + 1):
            for name, work in plan:
                answer = made[name].round(work)
                if number:  # the first round warms up
                    answers[f"{name} {work}"].append(answer)
    return answers, absent


def rates(answers: list[dict[str, Any]]) -> Samples:
    """Return runs a second, one value a round."""
    return Samples(tuple(a["runs"] / a["seconds"] for a in answers))


def cpu(answers: list[dict[str, Any]]) -> float:
    """Return CPU seconds a run, the median round: less moved than the clock by a busy machine."""
    return Samples(tuple(a["cpu"] / a["runs"] for a in answers)).median


def rows(answers: Answers) -> list[Row]:
    """Turn the rounds into comparisons with the limits."""
    ours = rates(answers["ours match"])
    found = []
    for name, (_, limit) in PEERS.items():
        if f"{name} match" not in answers:
            continue
        theirs = rates(answers[f"{name} match"])
        found.append(
            Row(
                work=f"parse + match against {name}",
                ours=f"{ours.median:,.0f} runs/s",
                peer=f"{theirs.median:,.0f} runs/s",
                reached=ours.median / theirs.median,
                limit=limit,
                at_least=True,
                spread=f"{ours.spread:.0%}, peer {theirs.spread:.0%}",
            )
        )
    return [
        *found,
        _whole(answers),
        _measures(answers, "vector", "vector's measures over reading"),
        _milliseconds(answers, "score", "the same and evidence judge, ms a run"),
    ]


def _whole(answers: Answers) -> Row:
    """Complete trajectories (id, warnings, everything kept) and the match, beside the match alone.

    performance.md sets no limit on it; it says what reading whole costs.
    """
    lean, full = rates(answers["ours match"]), rates(answers["ours whole"])
    return Row(
        work="match over complete trajectories",
        ours=f"{full.median:,.0f} runs/s",
        peer=f"messages {lean.median:,.0f} runs/s",
        reached=full.median / lean.median,
        limit=0.0,
        at_least=True,
        spread=f"{full.spread:.0%}, messages {lean.spread:.0%}",
    )


def _measures(answers: Answers, asked: str, work: str) -> Row:
    """Measures beside reading, in CPU time: both are ours, and a busy machine moves it less."""
    read = Samples(tuple(a["cpu"] for a in answers["ours read"]))
    score = Samples(tuple(a["cpu"] for a in answers[f"ours {asked}"]))
    runs = answers["ours read"][0]["runs"]
    return Row(
        work=work,
        ours=f"{1e6 * (score.median - read.median) / runs:.0f} us a run",
        peer=f"reading {1e6 * read.median / runs:.0f} us",
        reached=(score.median - read.median) / read.median,
        limit=1.0,
        at_least=False,
        spread=f"{score.spread:.0%}, reading {read.spread:.0%}",
    )


def _milliseconds(answers: Answers, asked: str, work: str) -> Row:
    """Measures that read every word, in CPU milliseconds a run: performance.md allows one."""
    each = 1e3 * (cpu(answers[f"ours {asked}"]) - cpu(answers["ours read"]))
    score = Samples(tuple(a["cpu"] for a in answers[f"ours {asked}"]))
    return Row(
        work=work,
        ours=f"{1e3 * each:.0f} us a run",
        peer="-",
        reached=each,
        limit=1.0,
        at_least=False,
        spread=f"{score.spread:.0%}",
    )


def whole() -> tuple[list[Row], str]:
    """Import and score 20,000 runs with the commands; return rows and a line of detail."""
    files = generate.files(WHOLE_RUNS)
    read, scored, stored = both(files)
    wall = read.wall + scored.wall
    cores = len(os.sched_getaffinity(0))
    busy = (read.cpu + scored.cpu) / wall / cores
    work = f"{WHOLE_RUNS:,} runs read, scored, stored"
    found = [
        Row(
            work=work,
            ours=f"{wall:.1f} s",
            peer="-",
            reached=wall,
            limit=WHOLE_SECONDS,
            at_least=False,
            unit="s",
        ),
        Row(
            work=f"share of {cores} cores in use meanwhile",
            ours=f"{busy:.2f}",
            peer="-",
            reached=busy,
            limit=BUSY,
            at_least=True,
            unit="",
        ),
    ]
    size = sum(path.stat().st_size for path in files) / 1e6
    detail = (
        f"{size:.0f} MB of JSON: import {read.wall:.1f} s (CPU {read.cpu:.1f}), score "
        f"{scored.wall:.1f} s (CPU {scored.cpu:.1f}), store {stored:.0f} MB, peak "
        f"{read.peak_mib:.0f} and {scored.peak_mib:.0f} MiB a process"
    )
    return found, detail


def main() -> int:
    """Print the table; return 1 when a limit is missed."""
    answers, absent = in_turn(generate.files(RUNS))
    found = rows(answers)
    last, detail = whole()
    found += last
    print(table(found))
    print(f"{RUNS} runs a round, medians of {ROUNDS} rounds in turn after one to warm up")
    print(detail)
    ours = cpu(answers["ours match"])
    for name, rounds in answers.items():
        if name.endswith(" match"):
            print(
                f"{name}: {rounds[0]['matched']} of {rounds[0]['runs']} runs match; "
                f"{1e6 * cpu(rounds):.0f} us of CPU a run, {cpu(rounds) / ours:.2f} x ours"
            )
    for missing in absent:
        print(f"not compared: {missing.name} cannot be installed here: {missing.reason}")
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
