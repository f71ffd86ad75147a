"""Text from a trace made fit to be printed: hidden characters visible, log commands disarmed.

What hides or moves other text is spelt out. No line of it is a command to a CI system, which reads
commands out of what is printed.
"""

from __future__ import annotations

import re

_COMMAND = re.compile(r"##(?=\w*\[)|^(\s*):(?=:)", re.MULTILINE)


def disarm_commands(text: str) -> str:
    """Return text in which no line is a command to a CI system."""
    return _COMMAND.sub(lambda hit: f"{hit[1]}: " if hit[1] is not None else "# #", text)


_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and line feed; carriage return is one
    "\u00ad\u061c\u180e\u200b\u200e\u200f"  # soft hyphen, marks of direction, zero width space
    "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # grapheme joiner, fillers: letters without ink
    "\u2028-\u202e\u2060-\u206f"  # separators, overrides, isolates, invisible operators
    "\ufeff\ufff9-\ufffb"  # byte order mark, interlinear annotation
    "\ud800-\udfff"  # half a character cannot be encoded at all
    "\U000e0000-\U000e0fff"  # tags and supplementary variation selectors: text without ink
    "]"
    # Joiners make emoji and letters of some scripts; beside ASCII they only hide.
    "|(?<=[!-~])[\u200c\u200d]|[\u200c\u200d](?=[!-~])"
)


def visible(text: str) -> str:
    """Return the text with every hidden or moving character spelt out."""
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(_spelt, text)


def visible_line(text: str) -> str:
    """Return the same on one line: line feeds and tabs are spelt out too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def inert(text: str) -> str:
    """Return text for a terminal or a log: hidden characters spelt out, no line a command."""
    return disarm_commands(visible(text))


def escaped_json(text: str) -> str:
    """Return JSON text in which such characters, and `##[` of a CI command, are escapes."""
    return re.sub(r"##(?=\w*\[)", r"#\\u0023", _HIDDEN.sub(_escape, text))


def render_json(value: object) -> str:
    """Return any model value as indented JSON that is inert in a log; ends in a line break."""
    import msgspec

    raw = msgspec.json.encode(value, order="deterministic")
    return escaped_json(msgspec.json.format(raw, indent=2).decode()) + "\n"


def _escape(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Signs that begin a formula, a command (DDE) or a macro in some spreadsheet, full-width ones too.
_FORMULA = tuple("=+-@|%\t\r\n\uff1d\uff0b\uff0d\uff20\uff5c\uff05")


def unescape_formula(cell: str) -> str:
    """Return the text of a cell that `escape_formula` may have written."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(_FORMULA) else cell


def escape_formula(cell: object) -> object:
    """Return a cell of CSV that no spreadsheet takes for a formula, hidden characters spelt out.

    >>> escape_formula("=1+1"), escape_formula(-1)
    ("'=1+1", -1)
    """
    if not isinstance(cell, str):
        return cell
    text = visible(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text
