"""Text of a trace as HTML: Markdown rendered, JSON indented, long texts folded.

No element, attribute, link or picture comes from a trace: HTML is shown as it was written, an
address is text that nothing follows, headings are lines in bold. What hides in a text is spelt out
first. Text nested deeper than can be shown is left as it was written. Source: CommonMark 0.31 and
the tables of GitHub Flavored Markdown, by markdown-it-py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup, escape

from stepscope.safety.text import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# Characters of a text that are seen before it is unfolded; what is hardly longer is not folded.
OPEN, LONG = 900, 1300
# Characters of the line that stands for folded JSON.
LINE = 110
# Markdown nested deeper than this is not rendered: its reader drops what is nested deeper still.
DEEPEST = 14
# What links to, embeds or passes on: a text shows these as they were written.
INERT = ("link", "image", "autolink", "entity", "html_inline", "html_block", "reference")
_MARKED = re.compile(r"[*_`#|]|^\s*(?:[-+>]|\d+[.)])\s|\n", re.MULTILINE)
_KEY = re.compile(r"^( *)(&#34;[^\n]*?&#34;)(?=: )", re.MULTILINE)


@cache
def _open_markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
    made.disable(list(INERT))
    plain = {"heading_open": "<p><b>", "heading_close": "</b></p>\n", "th_open": "<th>"}
    rules = {name: partial(_write, tag) for name, tag in {**plain, "td_open": "<td>"}.items()}
    made.renderer.rules.update({**rules, "fence": _write_fence})  # type: ignore[attr-defined]
    return made


def _write(tag: str, *_: object) -> str:
    """Write an element of ours, without attributes of the text."""
    return tag


def _write_fence(tokens: Sequence[Token], at: int, *_: object) -> str:
    """Write a block of code; what a text calls its language stands above it."""
    name = tokens[at].info.strip()
    kind = f'<span class="kind">{escape(name)}</span>' if name else ""
    return f"{kind}<pre>{escape(tokens[at].content)}</pre>\n"


def render_markdown(text: str) -> Markup:
    r"""Return a text of a trace as HTML of a few known elements without attributes.

    >>> render_markdown("**all** [x](http://a) <b>")
    Markup('<p><strong>all</strong> [x](http://a) &lt;b&gt;</p>\n')
    """
    shown = visible(text)
    if _MARKED.search(shown) is None:
        return Markup("<p>") + escape(shown) + Markup("</p>")
    markdown = _open_markdown()
    env: dict[str, Any] = {}
    tokens = markdown.parse(shown, env)
    if any(token.level > DEEPEST for token in tokens):
        return Markup('<div class="plain">') + escape(shown) + Markup("</div>")
    return Markup(markdown.renderer.render(tokens, markdown.options, env))


def indent_json(text: str) -> str | None:
    r"""Return JSON a line a member, its numbers as they were written; None where it is none.

    >>> indent_json('{"a":[1.50]}')
    '{\n "a": [\n  1.50\n ]\n}'
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.format(text.strip(), indent=1)
    except (msgspec.DecodeError, RecursionError):
        return None


def find_fold(text: str) -> int:
    """Return where a text is folded: behind a line or a word, never within a block of code."""
    if len(text) <= LONG:
        return len(text)
    at = text.rfind("\n", OPEN // 2, OPEN) + 1 or text.rfind(" ", OPEN // 2, OPEN) + 1 or OPEN
    if text.count("```", 0, at) % 2:
        end = text.find("```", at)
        at = len(text) if end < 0 else end + 3
    return at


def lay_out_message(text: str, clip: int | None) -> tuple[Markup, Markup, int]:
    """Return what is seen of a message, what is folded, and how many characters are left out."""
    kept = text[:clip]
    if indent_json(kept) is not None:
        return Markup(""), lay_out_data(kept, clip), len(text) - len(kept)
    at = find_fold(kept)
    folded = render_markdown(kept[at:]) if kept[at:].strip() else Markup("")
    return render_markdown(kept[:at]), folded, len(text) - len(kept)


def lay_out_data(text: str, clip: int | None) -> Markup:
    """Return what a call passed or gave: JSON indented, anything else as it was written."""
    made = indent_json(text)
    if made is None:
        return Markup("<pre>") + escape(visible(text[:clip])) + Markup("</pre>")
    # Keys are told from values.
    marked = _KEY.sub(r"\1<b>\2</b>", str(escape(visible(made[:clip]))))
    return Markup(f"<pre>{marked}</pre>")
