"""Many runs from a few real ones, by perturbation: the input of every benchmark.

A generated run keeps the shape of a real tau-bench run (its policy text, its dialogue, its tool
results) and differs in call ids, numbers, order of calls, repeated, dropped and failed calls,
outcome and trial, so that no two have the same identity and every measure has something to find.
It is material for timing: no claim about agents may rest on it.

The same seed gives the same bytes, and the first n of N runs are the same for every N. Sources are
the airline and retail runs kept beside the repository where they are present, else the bundled
examples.
"""

from __future__ import annotations

import copy
import json
import random
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).resolve().parent / ".data"
SHARED = (
    ROOT.parent / "shared/data/taubench/airline/runs.json",
    ROOT.parent / "shared/data/agentrx-retail/runs.json",
)
BUNDLED = ROOT / "examples" / "airline"
VERSION = 1  # raised with every change of what is generated; part of the folder name
# Prices, flight numbers, house numbers; 2024 stays, so that dates remain in one year.
NUMBER = re.compile(r"(?<![\w.-])(?!2024)[1-9]\d{2,4}(?![\w.-])")

Run = dict[str, Any]  # tau-bench JSON as it is; read here as any tool reads it
Message = dict[str, Any]


def sources(preferred: Sequence[Path] = SHARED) -> list[Run]:
    """Return the real runs to start from, in file order: of `preferred`, else the bundled ones.

    Raises:
        FileNotFoundError: neither the shared runs nor the bundled ones are there.
    """
    files = [path for path in preferred if path.is_file()] or sorted(BUNDLED.glob("*.json"))
    found = [run for path in files for run in _tau_runs(path)]
    if not found:
        raise FileNotFoundError(f"no tau-bench runs in {BUNDLED} nor beside the repository")
    return found


def runs(
    count: int, originals: Sequence[Run], *, seed: int = 0, steps: int | None = None
) -> Iterator[Run]:
    """Yield `count` perturbed copies; with `steps`, each of about that many messages."""
    for index in range(count):
        rng = random.Random(f"{seed}:{index}")
        copies, at = divmod(index, len(originals))
        run = _with_other_numbers(originals[at], rng)
        # A trial of its own for every copy: ten is above any trial number of the sources.
        run["trial"] = run["trial"] + 10 * (copies + 1)
        if steps is not None:
            run["traj"] = _of_length(run["traj"], steps, rng)
        _perturb_calls(run["traj"], rng)
        _perturb_outcome(run, rng)
        _rename_calls(run["traj"], rng)
        yield run


def files(
    count: int,
    *,
    seed: int = 0,
    steps: int | None = None,
    data: Path = DATA,
    runs_a_file: int = 1000,
) -> list[Path]:
    """Return files under `data` that hold `count` runs, written when they are not there yet."""
    origin = "shared" if any(path.is_file() for path in SHARED) else "bundled"
    length = "" if steps is None else f"-steps{steps}"
    folder = data / f"v{VERSION}-{origin}-{count}-seed{seed}{length}"
    done = folder / "complete"
    if not done.is_file():
        sys.stderr.write(f"generating {count} runs into {folder.name} (once)\n")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _write(runs(count, sources(), seed=seed, steps=steps), folder, runs_a_file)
        done.touch()
    return sorted(folder.glob("*.json"))


def _tau_runs(path: Path) -> list[Run]:
    found = json.loads(path.read_bytes())
    entries = found if isinstance(found, list) else [found]
    return [e for e in entries if isinstance(e, dict) and "traj" in e and "reward" in e]


def _write(stream: Iterator[Run], folder: Path, runs_a_file: int) -> None:
    part = 0
    pending = next(stream, None)
    while pending is not None:
        with (folder / f"part-{part:04}.json").open("w", encoding="utf-8") as out:
            out.write("[")
            for at in range(runs_a_file):
                out.write((",\n" if at else "") + json.dumps(pending, separators=(",", ":")))
                pending = next(stream, None)
                if pending is None:
                    break
            out.write("]\n")
        part += 1


def _with_other_numbers(original: Run, rng: random.Random) -> Run:
    """Return a copy in which a few numbers are others, the same everywhere in the run."""
    text = json.dumps([original["traj"], original["info"]])
    tokens = sorted(set(NUMBER.findall(text)))
    chosen = rng.sample(tokens, min(8, len(tokens)))
    other = {t: str(rng.randint(10 ** (len(t) - 1), 10 ** len(t) - 1)) for t in chosen}
    traj, info = json.loads(NUMBER.sub(lambda m: other.get(m[0], m[0]), text))
    return {**original, "traj": traj, "info": info}


def _exchanges(traj: list[Message]) -> list[int]:
    """Positions of calls whose result is the next message, so that both move together."""
    return [
        at
        for at in range(len(traj) - 1)
        if traj[at].get("tool_calls") and traj[at + 1]["role"] == "tool"
    ]


def _perturb_calls(traj: list[Message], rng: random.Random) -> None:
    if rng.random() < 0.2:
        _move_one(traj, rng)
    if rng.random() < 0.25:
        _repeat_one(traj, rng)
    if rng.random() < 0.2 and (found := _exchanges(traj)):
        at = rng.choice(found)
        del traj[at : at + 2]
    if rng.random() < 0.02 and (found := _exchanges(traj)):
        del traj[rng.choice(found) + 1]  # a call whose result was never recorded
    if rng.random() < 0.15 and (found := _exchanges(traj)):
        result = traj[rng.choice(found) + 1]
        result["content"] = f"Error: request {rng.randint(1000, 9999)} was refused"


def _move_one(traj: list[Message], rng: random.Random) -> None:
    found = _exchanges(traj)
    if len(found) > 1:
        source, target = rng.sample(found, 2)
        pair = traj[source : source + 2]
        del traj[source : source + 2]
        at = target if target < source else target - 2
        traj[at:at] = pair


def _repeat_one(traj: list[Message], rng: random.Random) -> None:
    found = _exchanges(traj)
    if found:
        source, target = rng.choice(found), rng.choice(found)
        traj[target + 2 : target + 2] = copy.deepcopy(traj[source : source + 2])


def _of_length(traj: list[Message], steps: int, rng: random.Random) -> list[Message]:
    """Cut a dialogue short, or prolong it with its own messages, in their order, over again."""
    if len(traj) >= steps:
        return traj[:steps]
    longer = list(traj)
    while len(longer) < steps:
        start = rng.randrange(1, len(traj))
        longer.extend(copy.deepcopy(traj[start:]))
    return longer[:steps]


def _perturb_outcome(run: Run, rng: random.Random) -> None:
    if rng.random() < 0.1:
        run["reward"] = 1.0 - run["reward"]
        if isinstance(run["info"].get("reward_info"), dict):
            run["info"]["reward_info"]["reward"] = run["reward"]


def _rename_calls(traj: list[Message], rng: random.Random) -> None:
    current: dict[str, str] = {}
    for message in traj:
        for call in message.get("tool_calls") or ():
            current[call["id"]] = fresh = f"call_{rng.getrandbits(96):024x}"
            call["id"] = fresh
        if message.get("tool_call_id") in current:
            message["tool_call_id"] = current[message["tool_call_id"]]


def main() -> int:
    """Write the runs named on the command line (default 20,000); print where and how large."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    written = files(count)
    size = sum(path.stat().st_size for path in written)
    sys.stdout.write(
        f"{count} runs, {len(written)} files, {size / 1e6:.0f} MB in {written[0].parent}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
