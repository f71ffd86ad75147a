"""Tables of the documentation that a bar prints: written between marks, never by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def fill_page(text: str, blocks: Mapping[str, str]) -> str:
    r"""Return a page with the text between `<!-- NAME -->` and `<!-- end -->` replaced.

    Raises:
        KeyError: the page has a mark that no block is for.

    >>> fill_page("<!-- a -->\nold\n<!-- end -->", {"a": "new"})
    '<!-- a -->\nnew\n<!-- end -->'
    """
    marks = re.compile(r"(<!-- (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}{blocks[found[2]]}{found[3]}", text)


def format_share(share: float) -> str:
    """Return a share as the pages print it.

    >>> format_share(0.0675), format_share(1.0)
    ('.068', '1.000')
    """
    return f"{share:.3f}".removeprefix("0") if share < 1 else f"{share:.3f}"
