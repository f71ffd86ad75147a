"""Put what the commands print today into the pages, the README and the picture.

    python -m docs.refresh            all that is generated but the reference (cog)
    python -m docs.refresh README.md  the `console` blocks of one page

A command whose shown output has a line `...` is left as it is. Read the difference before you
commit it: this makes the pages true, not the program right.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import tempfile
from pathlib import Path

from docs import airline, picture, shape_pictures
from tests.docs.blocks import Block, agrees, blocks, commands, shell

ROOT = Path(__file__).resolve().parent.parent


def refresh(page: Path, name: str) -> bool:
    """Bring one page up to date; return whether it changed."""
    lines = page.read_text(encoding="utf-8").split("\n")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(ROOT / "examples", folder / "examples")
        names: dict[str, object] = {"__name__": "__main__"}
        new = [(block, _new_text(block, folder, names)) for block in blocks(page, name)]
    for block, text in reversed(new):
        length = block.text.count("\n")
        if text != block.text:
            indent = lines[block.line - 1][: len(lines[block.line - 1].lstrip()) * -1 or None]
            shown = [f"{indent}{line}".rstrip() for line in text.rstrip("\n").split("\n")]
            lines[block.line : block.line + length] = shown
    text = "\n".join(lines)
    changed = text != page.read_text(encoding="utf-8")
    if changed:
        page.write_text(text, encoding="utf-8")
    return changed


def _new_text(block: Block, folder: Path, names: dict[str, object]) -> str:
    if block.title is not None:
        (folder / block.title).write_text(block.text, encoding="utf-8")
    if block.language == "bash":
        shell(f"set -euo pipefail\n{block.text}", folder)
    if block.language == "python" and block.title is None:
        with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block.text, block.where, "exec"), names)
    if block.language != "console":
        return block.text
    shown = []
    for command in commands(block):
        printed = shell(command.text, folder).stdout
        keep = "..." in command.printed or agrees(command.printed, printed)
        first, *more = command.text.split("\n")
        shown += [f"$ {first}", *(f"> {line}" for line in more)]
        shown += command.printed if keep else printed.rstrip("\n").split("\n")
    return "\n".join(shown) + "\n"


def main() -> int:
    """Refresh the pages named, or all; print those that changed."""
    chosen = [ROOT / name for name in sys.argv[1:]]
    for page in chosen or sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        name = str(page.relative_to(ROOT))
        if "```console" in page.read_text(encoding="utf-8") and refresh(page, name):
            sys.stdout.write(f"changed: {name}\n")
    if chosen:
        return 0
    picture.PICTURE.write_text(picture.drawing(picture.printed()), encoding="utf-8")
    shape_pictures.draw()
    if airline.main() == 4:
        sys.stdout.write("left as it is: the report of the 200 airline runs in README.md\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
