"""Put the report of the 200 airline runs into README.md; they are not part of the repository.

    python -m docs.airline [PATH]            write the report into README.md
    python -m docs.airline [PATH] --check    say whether README.md shows today's report

PATH is tau-bench's `gpt-4o-airline.json`; without it, the copy kept beside the repository.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import stepscope

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RUNS = ROOT.parent / "shared" / "data" / "taubench" / "airline" / "runs.json"
MARK = "<!-- report of the 200 airline runs: python -m docs.airline -->\n"
BLOCK = re.compile(rf"(?<={re.escape(MARK)})```text\n.*?```", re.DOTALL)


def report(path: Path) -> str:
    """Return the report of the runs at `path`, as the terminal shows it."""
    with stepscope.open(":memory:") as store:
        store.add(path, agent="gpt-4o")
        store.score(workers=1)
        return store.report().text(100)


def shown() -> str:
    """Return the report that README.md shows.

    Raises:
        LookupError: README.md has no place for it.
    """
    found = BLOCK.search(README.read_text(encoding="utf-8"))
    if found is None:
        raise LookupError("README.md has no block for the airline report")
    return found[0].removeprefix("```text\n").removesuffix("```")


def main() -> int:
    """Write or check; return 1 where README.md differs, 4 where the runs are not there."""
    names = [argument for argument in sys.argv[1:] if argument != "--check"]
    path = Path(names[0]) if names else RUNS
    if not path.is_file():
        sys.stderr.write(f"the airline runs are not at {path}\n")
        return 4
    text = report(path)
    if "--check" in sys.argv[1:]:
        same = shown() == text
        sys.stdout.write("README.md is current\n" if same else "run python -m docs.airline\n")
        return 0 if same else 1
    page = README.read_text(encoding="utf-8")
    README.write_text(BLOCK.sub(lambda _: f"```text\n{text}```", page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
