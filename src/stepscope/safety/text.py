r"""Make text from a trace fit to be printed: what hides or moves other text becomes visible.

Control characters, terminal escape sequences, bidirectional overrides, zero-width characters,
Unicode tag characters, lone surrogates and the line separators that are not line feeds come out as
`\x1b`, `\u202e`, `\U000e0041`. Line feeds and tabs stay. The joiners U+200C and U+200D stay too:
Persian, the Indic scripts and emoji are misspelt without them.
Source: Trojan Source (CVE-2021-42574) for the bidirectional set; Unicode 16, table 23-6 for tags.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and line feed; carriage return is one
    "\u00ad\u061c\u180e\u200b\u200e\u200f"  # soft hyphen, marks of direction, zero width space
    "\u2028-\u202e\u2060-\u206f"  # separators, overrides, isolates, invisible operators
    "\ufeff\ufff9-\ufffb"  # byte order mark, interlinear annotation
    "\ud800-\udfff"  # half a character cannot be encoded at all
    "\U000e0000-\U000e0fff"  # tags and supplementary variation selectors: text without ink
    "]"
)


def visible(text: str) -> str:
    r"""Return the text with every hidden or moving character spelt out.

    >>> visible("\x1b[2Jdone\u202e")
    '\\x1b[2Jdone\\u202e'
    """
    return _HIDDEN.sub(_spelt, text)


def visible_line(text: str) -> str:
    r"""Return the same on one line: line feeds and tabs are spelt out too.

    >>> visible_line("a\nb")
    'a\\nb'
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def escaped_json(text: str) -> str:
    r"""Return JSON text in which such characters are escapes, which mean the same.

    >>> escaped_json('{"a": "\u202e"}')
    '{"a": "\\u202e"}'
    """
    return _HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
