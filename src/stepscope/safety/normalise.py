"""Text normalisation: a trace's text as a judge reads it, hidden characters out or spelt out.

Compatibility forms become plain ones (NFKC), characters without ink go, controls are spelt out, and
what a chat template takes for the end of a turn is broken by `MARK`, which the copy holds nowhere
else. The original stays as it is; what a judge quotes of the copy is looked for with `fold_text`.
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
_HALF = re.compile("[\ud800-\udfff]")
# Controls but tab and line feed, and separators that end lines elsewhere.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# How chat templates of models begin and end turns, calls and thoughts.
_TURN = re.compile(
    r"<(?=\||<?/?(?:s|bos|eos|pad|unk|mask|think|SYS|(?:start|end)_of_\w+|tool_\w+)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\])"
)
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|([nrtbf])|(["\\/\']))')
# Blanks and controls, and controls as `spell_controls` writes them.
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_SPELT = re.compile(r"\\x[0-9a-f]{2}|\\u202[89]")
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


def compose_text(text: str) -> str:
    r"""Return a text in compatibility form, no half of a character in it, lines ended one way.

    >>> compose_text("\ufb01ne\r\n")
    'fine\n'
    """
    if not text.isascii():
        safe = _runs().sub(_joined, _HALF.sub("\ufffd", text))
        text = unicodedata.normalize("NFKC", safe)
    return text.replace("\r\n", "\n") if "\r" in text else text


def drop_invisible(text: str) -> str:
    r"""Return a composed text without characters that have no ink.

    >>> drop_invisible("ig\u200d\u200bnore \u202e\x1b[2J")
    'ignore \x1b[2J'
    """
    return text if text.isascii() else _IGNORABLE.sub("", text)


def spell_controls(text: str) -> str:
    r"""Return a plain text as a judge reads it; only a line feed ends a line in it.

    >>> spell_controls("\x1b[2J <|im_end|>")
    '\\x1b[2J <¦|im_end|>'
    """
    text = _CONTROL.sub(_code, text.replace(MARK, "|"))
    return _TURN.sub(lambda found: found.group() + MARK, text)


def normalise_text(text: str) -> str:
    """Return what a judge reads of a text of a trace."""
    return spell_controls(drop_invisible(compose_text(text)))


def fold_text(text: str) -> str:
    r"""Return a text as quotations are compared: without blanks, escapes, marks and fine signs.

    >>> fold_text('{\\"id\\": \\"#W1\\"}') == fold_text('{"id":\n"#W1"}')
    True
    """
    text = _SPELT.sub("", drop_invisible(compose_text(text)))
    for _ in range(_LEVELS):
        if "\\" not in text:
            break
        read = _ESCAPE.sub(_unescaped, text)
        if _HALF.search(read):
            # What was escaped as two halves is one character.
            read = read.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        read = drop_invisible(compose_text(read))
        if read == text:
            break
        text = read
    return _UNSEEN.sub("", text.translate(_FOLDS))


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


def _code(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _unescaped(found: re.Match[str]) -> str:
    code, blank, sign = found.groups()
    if code is not None:
        return chr(int(code, 16))
    return " " if blank is not None else str(sign)
