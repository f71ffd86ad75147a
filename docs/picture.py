"""Draw `docs/img/report.svg`: the report of the bundled airline runs, as a terminal shows it.

    python -m docs.picture            draw it anew
    python -m docs.picture --check    say whether the drawing is what the report prints now

The text is the report's own, unchanged; the drawing names no font that would have to be fetched.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import stepscope

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "examples" / "airline" / "runs.json"
PICTURE = ROOT / "docs" / "img" / "report.svg"
# Pixels; a monospaced letter is about .6 of its size wide.
SIZE, LEADING, MARGIN = 13, 18, 16
LETTER = 0.602 * SIZE


def printed() -> list[str]:
    """Return the lines of the report of the bundled runs."""
    with stepscope.open(":memory:") as store:
        store.add(RUNS, agent="gpt-4o")
        store.score(workers=1)
        text = store.report().text(100)
    return [line.rstrip() for line in text.rstrip("\n").split("\n")]


def drawing(lines: list[str]) -> str:
    """Return the lines as SVG, the command that printed them above."""
    shown = ["$ stepscope report", *lines]
    width = round(2 * MARGIN + LETTER * max(map(len, shown)))
    height = 2 * MARGIN + LEADING * len(shown)
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + LEADING * (at + 1) - 5}">{escape(line)}</text>'
        for at, line in enumerate(shown)
        if line
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" '
        f'width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="what stepscope report prints">\n'
        f"<style>text{{white-space:pre;font:{SIZE}px ui-monospace,Menlo,Consolas,"
        "'DejaVu Sans Mono',monospace;fill:#d6deeb}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#111827"/>\n{rows}\n</svg>\n'
    )


def main() -> int:
    """Draw or check; return 1 where the drawing is not what the report prints."""
    new = drawing(printed())
    if "--check" in sys.argv[1:]:
        same = PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == new
        sys.stdout.write("the picture is current\n" if same else "run python -m docs.picture\n")
        return 0 if same else 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
