"""What a command costs grows with what it is given, not with its square.

`python -m bars.growth [SHAPE ...]`: runs of many steps, of identical failed calls, of many claims,
of many spans; many runs in a file, many files, many members of an archive. Each command that reads
a trace or a store runs at a size and at three doublings of it, five times each, in a process of its
own; its cost is the median processor time, without that of a start. The shape `fleet` is 100,000
runs as one HTML file. Code 0: no doubling costs more than 2.3 times what the size before did, and
the fleet at most 30 s; 3: not so.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

DOUBLINGS, TIMES, LIMIT = 3, 5, 2.3
# Processor seconds below which a cost is noise, and is not judged.
LEAST = 0.15
FLEET, FLEET_SECONDS = 100_000, 30.0
COMMAND = str(Path(sys.executable).with_name("stepscope"))


class Shape(NamedTuple):
    """What grows: the smallest size, and a writer of its traces into a folder."""

    size: int
    write: Callable[[Path, int], None]


def _call(at: int, tool: str, answer: str, **arguments: object) -> Iterator[dict[str, object]]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    calls = [{"id": f"c{at}", "type": "function", "function": function}]
    yield {"role": "assistant", "content": f"step {at}", "tool_calls": calls}
    yield {"role": "tool", "tool_call_id": f"c{at}", "content": answer}


def _chat(turns: Iterator[dict[str, object]], **fields: object) -> str:
    first = {"role": "user", "content": "please cancel all of them"}
    last = {"role": "assistant", "content": "All is done."}
    return json.dumps({"messages": [first, *turns, last], **fields})


def _steps(folder: Path, size: int) -> None:
    turns = (
        turn
        for at in range(size // 2)
        for turn in _call(at, f"get_{at % 7}", "Error: no" if at % 9 == 0 else f"ok {at}", id=at)
    )
    (folder / "a.json").write_text(_chat(turns), encoding="utf-8")


def _failed(folder: Path, size: int) -> None:
    turns = (turn for at in range(size) for turn in _call(at, "get", "Error: not found", id=1))
    (folder / "a.json").write_text(_chat(turns), encoding="utf-8")


def _claims(folder: Path, size: int) -> None:
    def turns() -> Iterator[dict[str, object]]:
        for at in range(size):
            said = f"I have cancelled W{at}; $1{at} will be refunded."
            yield from _call(at, "cancel_order", f'{{"id": "W{at}", "ok": true}}', id=f"W{at}")
            yield {"role": "assistant", "content": said}
            yield {"role": "user", "content": "Now the next one, please"}

    (folder / "a.json").write_text(_chat(turns()), encoding="utf-8")


def _small(at: int) -> str:
    made = (turn for k in range(3) for turn in _call(k, "get", f"ok {at}", id=at + k))
    return _chat(made, id=f"run{at}")


def _runs(folder: Path, size: int) -> None:
    (folder / "a.jsonl").write_text("\n".join(map(_small, range(size))), encoding="utf-8")


def _files(folder: Path, size: int) -> None:
    for at in range(size):
        (folder / f"{at}.json").write_text(_small(at), encoding="utf-8")


def _members(folder: Path, size: int) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for at in range(size):
            archive.writestr(f"{at}.json", _small(at))


def _spans(folder: Path, size: int) -> None:
    def span(at: int) -> dict[str, object]:
        names = ["gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id"]
        values = ["execute_tool", f"get_{at % 5}", f"c{at}"]
        return {
            "traceId": "0" * 31 + "1",
            "spanId": f"{at + 2:016x}",
            "parentSpanId": "" if at == 0 else f"{2:016x}",
            "name": f"execute_tool get_{at % 5}",
            "startTimeUnixNano": str(10**18 + at * 1000),
            "endTimeUnixNano": str(10**18 + at * 1000 + 500),
            "attributes": [
                {"key": key, "value": {"stringValue": value}}
                for key, value in zip(names, values, strict=True)
            ],
        }

    scope = {"scopeSpans": [{"spans": [span(at) for at in range(size)]}]}
    (folder / "a.json").write_text(json.dumps({"resourceSpans": [scope]}), encoding="utf-8")


SHAPES = {
    "steps": Shape(4_000, _steps),
    "failed": Shape(2_000, _failed),
    "claims": Shape(1_000, _claims),
    "spans": Shape(2_000, _spans),
    "runs": Shape(1_000, _runs),
    "files": Shape(500, _files),
    "members": Shape(1_000, _members),
}
# After `import` and `score`; SHOWN is a run of the store.
READERS = (
    "report", "report --html out.html", "report --json", "report --junit", "show SHOWN",
    "export out.jsonl --force", "doctor",
)  # fmt: skip


def _cost(words: list[str], folder: Path) -> float:
    """Return the processor seconds of a command in a folder."""
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen([COMMAND, *words], cwd=folder, stdout=log, stderr=log)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3, 4):
        said = (folder / "log.txt").read_text("utf-8")
        raise RuntimeError(f"{words} gave {process.returncode}: {said[-200:]}")
    return used.ru_utime + used.ru_stime


def _median(words: list[str], folder: Path, *, anew: str = "") -> float:
    """Return the median cost; with `anew` the store begins each time as that file, or as none."""
    costs = []
    for _ in range(TIMES):
        if anew:
            for path in folder.glob("stepscope.db*"):
                path.unlink()
            if (folder / anew).exists():
                shutil.copy(folder / anew, folder / "stepscope.db")
        costs.append(_cost(words, folder))
    return statistics.median(costs)


def _measure(shape: Shape, size: int, folder: Path) -> dict[str, float]:
    """Return the cost of every command at a size, without that of a start."""
    (folder / "traces").mkdir(parents=True)
    shape.write(folder / "traces", size)
    start = _median(["--version"], folder)
    costs = {"import": _median(["import", "traces"], folder, anew="none.db")}
    shutil.copy(folder / "stepscope.db", folder / "read.db")
    costs["score"] = _median(["score"], folder, anew="read.db")
    listed = subprocess.run(
        [COMMAND, "export", "-"], cwd=folder, capture_output=True, check=True
    ).stdout
    shown = json.loads(listed.splitlines()[1])["id"]
    for reader in READERS:
        words = [shown if word == "SHOWN" else word for word in reader.split()]
        costs[reader] = _median(words, folder)
    return {name: cost - start for name, cost in costs.items()}


def _fleet_seconds() -> float:
    """Return what the HTML of many runs costs, at the median."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "traces").mkdir()
        _runs(folder / "traces", FLEET)
        for words in ("import", "traces"), ("score",):
            _cost(list(words), folder)
        return _median(["report", "--html", "out.html"], folder)


def main(arguments: list[str]) -> int:
    """Print cost and growth of every command over every shape; return whether all hold."""
    missed = 0
    chosen = arguments or [*SHAPES, "fleet"]
    if "fleet" in chosen:
        chosen.remove("fleet")
        whole = _fleet_seconds()
        missed += whole > FLEET_SECONDS
        print(f"fleet: {FLEET:,} runs as HTML in {whole:.1f} s, at most {FLEET_SECONDS:.0f}")
    for name in chosen:
        shape = SHAPES[name]
        sizes = [shape.size << doubling for doubling in range(DOUBLINGS + 1)]
        with tempfile.TemporaryDirectory() as folder:
            costs = [_measure(shape, size, Path(folder) / str(size)) for size in sizes]
        print(f"\n{name}: {', '.join(f'{size:,}' for size in sizes)}", flush=True)
        for command in costs[0]:
            seconds = [cost[command] for cost in costs]
            growth = [b / a for a, b in pairwise(seconds) if a >= LEAST]
            worst = max(growth, default=0.0)
            missed += worst > LIMIT
            shown = "  ".join(f"{s:8.2f}" for s in seconds)
            said = f"x{worst:.2f}" if growth else "too cheap to judge"
            print(f"  {command:<24}{shown} s   {said}{' MISSED' if worst > LIMIT else ''}")
    return 3 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
