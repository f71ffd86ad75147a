"""Run every bar, or the ones named, each in its own process, and print what held.

`python -m bars.run [NAME ...] [OPTION ...]`: the first word that begins with `-` or is a path, and
all behind it, goes to the bars named. A bar is a module of this folder, or of one of its rooms,
with `main() -> int`: 0 it holds, 4 it could not be measured here (the real runs are absent),
anything else it is missed. Names of bars are those of their modules, without the room.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

VERDICTS = {0: "holds", 4: "not measured"}


def find_bars() -> dict[str, str]:
    """Return the module of each bar by its name, sorted."""
    here = Path(__file__).parent
    modules = {
        path.stem: ".".join(("bars", *path.relative_to(here).with_suffix("").parts))
        for path in here.rglob("[a-z]*.py")
    }
    del modules["run"]
    return dict(sorted(modules.items()))


def main(arguments: list[str]) -> int:
    """Run the chosen bars (all when none is named); return 0 only when every one holds."""
    bars = find_bars()
    if not {"-h", "--help"}.isdisjoint(arguments):
        print(__doc__, "\nBars:", ", ".join(bars))
        return 0
    given = (i for i, one in enumerate(arguments) if one.startswith("-") or "/" in one)
    named = next(given, len(arguments))
    chosen, options = arguments[:named], arguments[named:]
    unknown = sorted(set(chosen) - set(bars))
    if unknown:
        print(f"error: no bar called {unknown[0]!r}; there are: {', '.join(bars)}")
        return 2
    results: list[tuple[str, str, float]] = []
    for name in chosen or bars:
        print(f"== {name}", flush=True)
        start = time.monotonic()
        code = subprocess.run([sys.executable, "-m", bars[name], *options], check=False).returncode
        results.append((name, VERDICTS.get(code, f"MISSED ({code})"), time.monotonic() - start))
    print()
    for name, verdict, seconds in results:
        print(f"{name:<24} {verdict:<14} {seconds:8.1f} s")
    return 0 if all(verdict == "holds" for _, verdict, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
