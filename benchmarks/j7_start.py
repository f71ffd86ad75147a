"""J7: how long a user waits for `--help`, and for `report` on the bundled runs.

Peers: Inspect and DeepEval, each by its own `--help`. A whole process is timed, from its start to
its end, byte code cached; `PYTHONDONTWRITEBYTECODE` is unset, since it would double every import.
Imported and scored beforehand, `report` reads a store of the runs under `examples/airline`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import Absent, clean_environment, peer
from benchmarks.rounds import ROOT, Row, Samples, table

ROUNDS = 9
HELP_SECONDS = 0.25
TIMES_FASTER = 8.0
REPORT_SECONDS = 1.0
OURS = Path(sys.executable).parent / "stepscope"
EXAMPLES = ROOT / "examples" / "airline"


def seconds(command: Sequence[str], folder: Path) -> float:
    """Return the wall time of one run of `command`.

    Raises:
        RuntimeError: it failed, with the last line that it said.
    """
    start = time.perf_counter()
    ran = subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False
    )
    elapsed = time.perf_counter() - start
    if ran.returncode != 0:
        said = (ran.stderr or ran.stdout).strip().splitlines() or ["nothing"]
        raise RuntimeError(f"{' '.join(command)} gave {ran.returncode}: {said[-1]}")
    return elapsed


def measured(rounds: int = ROUNDS) -> tuple[dict[str, Samples], list[Absent]]:
    """Time every command in turn; return seconds by name, and the peers that are missing."""
    commands = {"python": [sys.executable, "-c", "pass"], "help": [str(OURS), "--help"]}
    absent = []
    for name, program in (("inspect-ai", "inspect"), ("deepeval", "deepeval")):
        found = peer(name)
        if isinstance(found, Absent):
            absent.append(found)
        else:
            commands[f"{program} {found.version}"] = [str(found.bin / program), "--help"]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        seconds([str(OURS), "import", str(EXAMPLES)], here)
        seconds([str(OURS), "score"], here)
        commands["report"] = [str(OURS), "report"]
        for command in commands.values():
            seconds(command, here)  # the first run of each writes its byte code
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                taken[name].append(seconds(command, here))
    return {name: Samples(tuple(values)) for name, values in taken.items()}, absent


def rows(taken: dict[str, Samples]) -> list[Row]:
    """Turn seconds into comparisons with the limits."""
    ours, report = taken["help"], taken["report"]
    found = [_against_limit("--help", ours, HELP_SECONDS)]
    for name, peer_taken in taken.items():
        if name in {"python", "help", "report"}:
            continue
        found.append(
            Row(
                work=f"--help against {name}",
                ours=f"{ours.median:.3f} s",
                peer=f"{peer_taken.median:.3f} s",
                reached=peer_taken.median / ours.median,
                # The limit is put on Inspect; DeepEval stands beside it, held to the same.
                limit=TIMES_FASTER,
                at_least=True,
                spread=f"{ours.spread:.0%}, peer {peer_taken.spread:.0%}",
            )
        )
    found.append(_against_limit("report on the bundled runs", report, REPORT_SECONDS))
    return found


def _against_limit(work: str, ours: Samples, limit: float) -> Row:
    return Row(
        work=work,
        ours=f"{ours.median:.3f} s",
        peer="-",
        reached=ours.median,
        limit=limit,
        at_least=False,
        spread=f"{ours.spread:.0%}",
        unit="s",
    )


def main() -> int:
    """Print the table; return 1 when a limit is missed."""
    taken, absent = measured()
    found = rows(taken)
    print(table(found))
    print(f"python alone: {taken['python'].median:.3f} s; medians of {ROUNDS} rounds in turn")
    for missing in absent:
        print(f"not compared: {missing.name} cannot be installed here: {missing.reason}")
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
