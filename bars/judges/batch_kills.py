"""Bar: a run of batches killed after every one of its commits buys nothing twice, loses nothing.

Both providers' protocols over their SDKs at a scripted server, whose append-only file says what
was asked. Each run is killed by SIGKILL after its n-th commit to the ledger, for n from 1 until it
lives to its end, and once right after its batch was made, before anybody knows its name; a second
run goes on. Held when every ask was answered once, no reply is lost, none is of unknown outcome.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.faults.providers import started
from tests.faults.script import Batches, Script

ROOT = Path(__file__).resolve().parents[2]
PROTOCOLS = ("openai", "anthropic")
JUDGEMENTS = 3


class Round(NamedTuple):
    """One kill, and what the run after it found.

    Attributes:
        judgements: whose records were made.
        unknown: asks of unknown outcome.
        most_paid: how often the provider answered an ask at most.
        least_paid: and at least.
    """

    judgements: int
    unknown: int
    most_paid: int
    least_paid: int


def rounds(folder: Path, protocol: str, *, stride: int = 1) -> list[Round]:
    """Kill after every `stride`-th commit; return what came of each."""
    with started(folder, Script(batches=Batches(polls=1)), sync=False) as provider:
        command = ["-m", "tests.judges.batch_crashes", provider.base, protocol, str(stride)]
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
        asked = [entry.custom for entry in provider.entries() if entry.event == "received"]
    paid = Counter(asked)
    found = []
    for line in done.stdout.splitlines():
        held = json.loads(line)
        times = [paid[key] for key in held["keys"]]
        found.append(Round(held["judgements"], held["unknown"], max(times), min(times)))
    return found


def main() -> int:
    """Print what every kill did; return 3 when an ask was paid twice or lost."""
    bad = 0
    for protocol in PROTOCOLS:
        with tempfile.TemporaryDirectory() as name:
            found = rounds(Path(name), protocol)
        wrong = [at for at, held in enumerate(found) if held != Round(JUDGEMENTS, 0, 1, 1)]
        bad += len(wrong)
        twice = sum(held.most_paid > 1 for held in found)
        lost = sum(held.judgements < JUDGEMENTS for held in found)
        print(f"{protocol}: {len(found)} kills; paid twice {twice}, lost {lost}, at {wrong or '-'}")
    return 3 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
