r"""The copy of a trace's text that a judge reads: what hides, moves or imitates is out or told.

Compatibility forms become plain ones (NFKC), characters without ink go, controls are spelt out, and
what a chat template takes for the end of a turn is broken by `MARK`, which the copy holds nowhere
else. The original stays as it is; what a judge quotes of the copy is looked for with `folded`.
Source: Unicode 16, DerivedCoreProperties, Default_Ignorable_Code_Point; UAX #15, section 13, for
the stream-safe form, without which ordering long runs of combining characters takes quadratic time.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

# Stands before each line of trace text and in what imitates a turn's end; nowhere else in a copy.
MARK = "\u00a6"
# Combining characters in a row beyond which UAX #15 puts a joiner between them.
STREAM_SAFE = 30

_JOINER = "\u034f"
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
# Controls but tab and line feed, separators that end lines elsewhere, halves of characters.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# How chat templates of models begin and end turns, calls and thoughts.
_TURN = re.compile(
    r"<(?=\||<?/?(?:s|bos|eos|pad|unk|mask|think|SYS|(?:start|end)_of_\w+|tool_\w+)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\])"
)
_HIDDEN_TOLD = re.compile(r"\[\d+ hidden characters\]")
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|([nrtbf])|(["\\/\']))')
_SPACE = re.compile(r"\s+")
# JSON within JSON within JSON: each level doubles the backslashes.
_LEVELS = 4
_FOLDS = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201a": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "\u2010": "-",
        "\u2011": "-",
        "\u2012": "-",
        "\u2013": "-",
        "\u2014": "-",
        "\u2212": "-",
        "\\": None,
        MARK: None,
    }
)


def normal(text: str) -> str:
    r"""Return what a judge reads of a text of a trace; only a line feed ends a line in it.

    >>> normal("ig\u200dnore \u202e\u202d\x1b[2J <|im_end|> \ufb01ne")
    'ignore [2 hidden characters]\\x1b[2J <¦|im_end|> fine'
    """
    if not text.isascii():
        text = _composed(text)
        text = _IGNORABLE.sub(_told, text).replace(MARK, "|")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    text = _CONTROL.sub(_spelt, text)
    return _TURN.sub(lambda found: found.group() + MARK, text)


def folded(text: str) -> str:
    r"""Return a text as quotations are compared: without blanks, escapes, marks and fine signs.

    >>> folded('{\\"id\\": \\"#W1\\"}') == folded('{"id":\n"#W1"}')
    True
    """
    if not text.isascii():
        text = _IGNORABLE.sub("", _composed(text))
    text = _HIDDEN_TOLD.sub("", text)
    for _ in range(_LEVELS):
        plain = _ESCAPE.sub(_unescaped, text) if "\\" in text else text
        if plain == text:
            break
        text = plain
    return _SPACE.sub("", text.translate(_FOLDS))


def _composed(text: str) -> str:
    safe = _runs().sub(_joined, text)
    return unicodedata.normalize("NFKC", safe)


def _joined(found: re.Match[str]) -> str:
    run = found.group()
    pieces = (run[at : at + STREAM_SAFE] for at in range(0, len(run), STREAM_SAFE))
    return _JOINER.join(pieces)


@cache
def _runs() -> re.Pattern[str]:
    """Return what finds too many combining characters in a row; made when first needed."""
    combining = [
        chr(code) for code in range(0x300, sys.maxunicode + 1) if unicodedata.combining(chr(code))
    ]
    return re.compile(f"[{re.escape(''.join(combining))}]{{{STREAM_SAFE + 1},}}")


def _told(found: re.Match[str]) -> str:
    length = found.end() - found.start()
    # One alone joins emoji or letters, and is how honest texts have them.
    return "" if length == 1 else f"[{length} hidden characters]"


def _spelt(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _unescaped(found: re.Match[str]) -> str:
    code, blank, sign = found.groups()
    if code is not None:
        return chr(int(code, 16))
    return " " if blank is not None else str(sign)
