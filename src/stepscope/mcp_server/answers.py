"""What a tool answers: fenced blocks of at most 2,000 tokens, by one writer for all tools.

The fence is the judges' (`judges.transcript`): our lines say what a block is, in words of ours and
numbers; everything else stands on marked lines, without secrets, in plain characters. Names, tasks,
tags, modes and names of tools are the trace's words, and so are sentences and tables that quote
them: none of it ever stands on a line of ours. A table is lines of cells with tabs between them,
the first of which names the columns; no cell holds a tab or ends a line. What does not fit is left
out from the end and counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from stepscope.judges import transcript
from stepscope.report.document import Paragraph, Section, Table, TableCell
from stepscope.report.words import cut_words
from stepscope.safety.redact import Redactor

MOST_TOKENS = 2_000
# Characters of one cell, a sentence with its evidence, and tokens of one row.
CELL, ROW = 240, 400
TABLE = "table"
# Rows of a table that are looked at: more of the shortest do not fit.
MOST_ROWS = 120

# A word with the blank before it; what is longer, or has capitals inside, is hardly one.
_WORD = re.compile(r" ?(?<![A-Za-z])[A-Z]?[a-z]{1,16}(?![A-Za-z])")


def count_tokens(text: str) -> int:
    """Return how many tokens a text may cost: one for 2 letters of a word, one for each other byte.

    Real tokenizers take half as many for real runs (docs/design/coding-agents.md).

    >>> count_tokens("The refund of $12.50"), count_tokens("\u00a6"), count_tokens("aGVsbG8=")
    (13, 2, 8)
    """
    words = sum(-(-len(word.lstrip()) // 2) for word in _WORD.findall(text))
    return words + len(_WORD.sub("", text).encode("utf-8", "replace"))


@dataclass
class _Rows:
    """A table of which the last rows are left out where there is no room."""

    what: str  # ours
    columns: str
    lines: list[str]
    first: int  # the number of the first of them
    total: int
    onward: str  # the argument that asks for those left out; "" where none does

    def block(self) -> transcript.TranscriptBlock:
        end = self.first + len(self.lines)
        words = f"{self.what} {self.first} to {end - 1} of {self.total}"
        words = words if self.lines else f"{self.what}, none of {self.total}"
        if end < self.total:
            words += f"; {self.total - end} more"
            words += f", ask with {self.onward} {end}" if self.onward else ", left out"
        table = transcript.LabelledText(TABLE, "\n".join([self.columns, *self.lines]))
        return transcript.TranscriptBlock(words, (table,) if self.lines else ())


class Answer:
    """One answer while it is made; words and labels are ours, all else is taken for the trace's."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._parts: list[transcript.TranscriptBlock | _Rows] = []

    def block(self, words: str, *texts: tuple[str, str]) -> None:
        """Add a block: words of ours, then pairs of a label of ours and a text; "" is left out."""
        pieces = (transcript.LabelledText(label, self._hide(text)) for label, text in texts if text)
        self._parts.append(transcript.TranscriptBlock(words, tuple(pieces)))

    def rows(
        self, what: str, *table: Sequence[str], first: int = 0, total: int = 0, onward: str = ""
    ) -> None:
        """Add a table, columns first: `total` rows from number `first` on, the rest by `onward`."""
        columns, *lines = map(self._line, table[: MOST_ROWS + 1])
        total = max(total, first + len(table) - 1)
        self._parts.append(_Rows(what, columns, lines, first, total, onward))

    def section(self, words: str, section: Section) -> None:
        """Add a section of a document: its texts as one block, and each table."""
        texts: list[tuple[str, str]] = []
        for part in section:
            if isinstance(part, Table):
                texts += [("note", note) for note in (part.heading * (not part.rows), *part.notes)]
                if part.rows:
                    self.rows(words, *list_table(part))
            elif isinstance(part, Paragraph) and not part.terminal:
                head = f"{part.heading}: " if part.heading else ""
                texts.append(("text", head + part.lead + part.text))
        if texts:
            self.block(f"{words}, texts", *texts)

    def blocks(self, blocks: Sequence[transcript.TranscriptBlock]) -> None:
        """Add blocks of a `Transcript`, which are made for readers already."""
        self._parts += blocks

    def write(self, key: bytes, question: str) -> str:
        """Return the answer to a question as text; no trace knows the `key`."""
        # The nonce is one that no text has: all of them come out as they went in.
        texts = "".join(piece.text for block in self._blocks() for piece in block.pieces)
        nonces = (transcript.fence_nonce(key, question, str(turn)) for turn in count())
        fence = transcript.Fence(next(nonce for nonce in nonces if nonce not in texts))
        tables = [one for one in self._parts if isinstance(one, _Rows)]
        while (over := _cost(_render(self._blocks(), fence), fence) - MOST_TOKENS) > 0:
            if not (long := [one for one in tables if len(one.lines) > 1]):
                break
            longest = max(long, key=lambda one: sum(map(len, one.lines))).lines
            while over > 0 and len(longest) > 1:
                over -= count_tokens(longest.pop())
        return _fit(self._blocks(), fence)

    def _blocks(self) -> list[transcript.TranscriptBlock]:
        return [one.block() if isinstance(one, _Rows) else one for one in self._parts]

    def _hide(self, text: str) -> str:
        return transcript.redact_for_judge(text, self._redactor)

    def _line(self, cells: Sequence[str]) -> str:
        shown = [self._hide(one).replace("\n", "\\n").replace("\t", "\\t") for one in cells]
        width = CELL
        while sum(count_tokens(cell[:width]) for cell in shown) > ROW:
            width //= 2
        return "\t".join(cut_words(cell, width) for cell in shown)


def list_table(table: Table) -> list[list[str]]:
    """Return the columns of a table, then its rows; what stands below a row is its last cell."""
    columns = [" ".join(column.label.split()) for column in table.columns]
    columns[0] = columns[0] or table.corner
    below = any(row.below for row in table.rows)
    rows = [[*columns, "remarks"] if below else columns]
    for row in table.rows:
        # The last cell of a row that ends early belongs to no column but the last.
        *cells, last = map(_tell_cell, row.cells)
        cells += [""] * (len(columns) - len(cells) - 1)
        said = "; ".join(line.lead + line.text for line in row.below)
        rows.append([*cells, last, said] if below else [*cells, last])
    return rows


def _tell_cell(cell: TableCell) -> str:
    """Return a cell with what a page says beside it; of an absent or drawn one, what is behind."""
    if cell.title and not any(map(str.isalnum, cell.text)):
        return f"- ({cell.title})" if cell.text == "-" else cell.title
    return f"{cell.text} {cell.note}" if cell.note else cell.text


def _cost(text: str, fence: transcript.Fence) -> int:
    """Return the tokens of an answer at most: as many for each nonce, that the same rows fit."""
    return count_tokens(text.replace(fence.nonce, "0" * len(fence.nonce)))


def _render(blocks: Sequence[transcript.TranscriptBlock], fence: transcript.Fence) -> str:
    window = transcript.fit_blocks(blocks, fence=fence, room=1 << 40)
    assert window is not None
    return window.text


def _fit(blocks: list[transcript.TranscriptBlock], fence: transcript.Fence) -> str:
    room, left = len(_render(blocks, fence).encode()), 0
    while True:
        note = [transcript.TranscriptBlock(f"{left} texts or more, left out", ())] if left else []
        window = transcript.fit_blocks([*blocks, *note], fence=fence, room=room)
        tables = (piece.text for block in blocks for piece in block.pieces if piece.label == TABLE)
        # So many texts that none of them can be cut any more, or only within a row.
        if window is None or any(fence.data(text) not in window.text for text in tables):
            at = max(range(len(blocks)), key=lambda at: (len(blocks[at].pieces), at))
            pieces = blocks[at].pieces
            kept = pieces[: len(pieces) // 2]
            left += max(len(pieces) - len(kept), 1)
            blocks[at : at + 1] = [blocks[at]._replace(pieces=kept)] if pieces else []
            room = 1 << 40
        elif (cost := _cost(window.text, fence)) <= MOST_TOKENS:
            return window.text
        else:
            room = min(room, len(window.text.encode())) * MOST_TOKENS // cost - 1
