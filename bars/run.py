"""Run every bar, or the ones named, each in its own process, and print what held.

`python -m bars.run [NAME ...]`. A bar is a module of this folder with `main() -> int`: 0 it holds,
4 it could not be measured here (the real runs are absent), anything else it is missed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

VERDICTS = {0: "holds", 4: "not measured"}


def names() -> list[str]:
    """Return the bars of this folder, sorted."""
    here = Path(__file__).parent
    return sorted(p.stem for p in here.glob("[a-z]*.py") if p.stem != "run")


def main(chosen: list[str]) -> int:
    """Run the chosen bars (all when none is named); return 0 only when every one holds."""
    unknown = sorted(set(chosen) - set(names()))
    if unknown:
        print(f"error: no bar called {unknown[0]!r}; there are: {', '.join(names())}")
        return 2
    results: list[tuple[str, str, float]] = []
    for name in chosen or names():
        print(f"== {name}", flush=True)
        start = time.monotonic()
        code = subprocess.run([sys.executable, "-m", f"bars.{name}"], check=False).returncode
        results.append((name, VERDICTS.get(code, f"MISSED ({code})"), time.monotonic() - start))
    print()
    for name, verdict, seconds in results:
        print(f"{name:<24} {verdict:<14} {seconds:8.1f} s")
    return 0 if all(verdict == "holds" for _, verdict, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
