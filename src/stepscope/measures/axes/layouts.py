"""Outputs read into rows: of tables, of objects, of names with values, and of lines of any kind.

A row has its cells by column and the terms that name it: those of its line and of the headings that
it stands under. Rows of one kind are a group: only these can be compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import msgspec

from stepscope.measures.axes.quantities import Value, values_in
from stepscope.measures.axes.told import find_days
from stepscope.measures.language import stem_of, terms_in
from stepscope.measures.same_calls import FRAME
from stepscope.model import Json

# Longer outputs are data, longer lines are prose or pages.
MOST_ROWS, ROW_CHARACTERS = 60, 200
# More words are no name of a value, more columns no table that people read.
LABEL_WORDS, MOST_COLUMNS, MOST_PIECES, LONG_VALUE = 5, 24, 9, 80
# Objects within more others are data.
MOST_DEPTH = 6
# What lines have beside their names: these name none.
TOLD = frozenset(("level", "message", "number", "state"))

_decode = msgspec.json.Decoder().decode
_TAGS = re.compile(r".*</.*")
_ELEMENT = re.compile(r"(\s*)<([\w:-]+)>(.*)</[\w:-]+>\s*")
_TAG_OF = re.compile(r"</?[a-zA-Z][^<>]*>")
_ITEM = re.compile(r"[{,] ?(['\"])([^'\"{}:]{1,40})\1: ?['\"]?([^'\"{},]+)['\"]?(?=[,}])")
_RULE = re.compile(r"[-+=|:*_ \u2500-\u257f]*")
_BARS = re.compile(r"\s*\|\s*")
# Lines of a box: what runs down parts columns.
_BOX = {x: "|" for x in range(0x2500, 0x2580)} | dict.fromkeys(map(ord, "\u2500\u2501\u2550"), " ")
# Lines of a tree are no words.
_BRANCH = dict.fromkeys(range(0x2500, 0x2580), " ")
_BLANKS = re.compile(r"\s{2,}|\t")
_PAIR = re.compile(
    r"(?P<in>\s*)(?P<item>[-*\u2022] +)?(?P<key>[^\W\d_][^:=|{}<>\"]{0,40}?|\"[^\":]{1,40}\")"
    r"(?:\s*(?::\s+|:$|(?<![=!<>])=(?![=>]) *|\.{3,} *|\t)|(?<![\d\s]):(?=[\w\"'/+])(?!//))"
    r"(?P<value>.*)"
)
_ID_HEAD = re.compile(r"(?i)(?:\b|_)(?:id|no|nr|number|pid|key)\b|#")
KIND_HEAD = re.compile(
    r"(?i)\b(?:stat(?:us|e)|role|type|kind|level|health|phase|result|priority|severity|tier|env)"
)
_WORDED = re.compile(r"[\"'(<*/~.@_-]*[A-Za-z]|/\Z")
_NAME = re.compile(r"#|[A-Za-z_%\u03bc][^`\"<>:;=]*")
_LABEL_END = re.compile(
    r": |\s{2,}| - | \u2013 |\t| (?:(?:will|must|has to|can|could|should) (?:not )?be|is|was|are|"
    r"were|(?:has|have) been|has|have) "
)
_SPAN = re.compile(r"(?<![\w.])(?:\d+[dhm]){1,3}\d+[hms](?!\w)")
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_ISO = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_HEADING = re.compile(r"\s*(?:\[[^\[\]]{1,60}\]|#+ .{1,60}|[\w .:/()'-]{1,60}:)\s*")
CLOCK = re.compile(r"(?<![\d:.-])\d{1,2}:\d\d(?::\d\d)?(?![\d:])")
_CLOCKS = re.compile(r"\d{1,2}:\d\d(?: ?[-\u2013] ?\d{1,2}:\d\d)?\s*")
_ENTRY = re.compile(r"(?<![\w.,:/-])#?(?!(?:19|20)\d\d\b)(\d{3,9})(?![\w.,%]*\d|[\w%]|[-/]\d)")
_CHANGE = re.compile(r"\s*([-+])(?![-+])\s*(?P<key>[\w.-]+)\s*[:=]\s*(?P<value>.+)")
_SPACED = re.compile(r"(?P<key>[A-Za-z][\w .-]{0,40}?)\s{2,}(?P<value>.+)")
_ARROW = re.compile(r"(.+?)\s*(?:->|=>|\u2192)\s*(.+)")


def _states_by(text: str) -> dict[str, tuple[str, float]]:
    return {
        word: (axis[:-1], {"+": 1.0, "-": -1.0, "0": 0.0, "*": 2.0}[axis[-1]])
        for line in text.split("|")
        for axis, *words in [line.split()]
        for word in words
    }


# Words for states: of what can have the one state or the other.
STATES = _states_by(
    "end+ pass passed passes passing succeed succeeded succeeds success successful green ok|"
    "end- fail failed failing fails failure failures error errored broken red err|"
    "end0 skip skipped pending ignored xfail todo|"
    "life+ up running alive online|life- down stopped exited dead offline terminated crashed|"
    "edit+ added created add create|edit- removed destroyed deleted dropped destroy remove|"
    "edit0 changed updated modified|edit* replaced recreated replace recreate|"
    "life- crashloopbackoff inactive|life+ active|health+ healthy|health- unhealthy degraded|"
    "switch+ enabled on true yes|switch- disabled off false no"
)
SIGNS = {"\u2713": 1.0, "\u2714": 1.0, "\u2705": 1.0, "\u221a": 1.0}
SIGNS |= {"\u2717": -1.0, "\u2718": -1.0, "\u274c": -1.0, "\u2716": -1.0}
STATES["not ok"] = ("end", -1.0)
STATE = re.compile(
    r"(?i)(?<![\w.-])(?:"
    + "|".join(sorted(STATES, key=len, reverse=True))
    + r")(?![\w-]|\.\w| ?[=:] ?\d)|[\u2713\u2714\u2705\u221a\u2717\u2718\u274c\u2716]"
)
_LEVEL = re.compile(
    r"\b(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|CRITICAL|NOTICE|TRACE)\b|"
    r"(?:(?<=\A)|(?<=\d[: ]))\s*(?:error|warning|note|notice)\b(?=[:\[ ])"
)
# "app.py:14:5: E303 too many blank lines"
_PLACE = re.compile(r"(?P<name>[\w./-]+\.\w+):(?P<line>\d+)(?::\d+)?:? +(?P<rest>.+)")
_EDITS = {"+ ": "added", "- ": "removed", "~ ": "changed"}
_STAMP = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?|"
    r"\A\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?|\A[\[(]?\d+/\d+[\])]"
)
_LABELLED = re.compile(
    r"(?<![\w./])(?P<name>[A-Za-z_][\w.-]*?)(?:=| ?: | )(?P<value>[-+]?\d[\d.,]*\d|\d)"
    r"(?P<unit> ?(?:%|m?s|[KMGT]i?B?|B)\b|%)?(?![\w:]|\.\w|-\d)"
)
_LONE = re.compile(
    r"(?<![\w:.-])[-+]?(?P<value>\d[\d.,]*\d|\d)(?P<unit> ?(?:\u00b0?[A-Za-z]{1,4}|%)\b|%)?"
    r"(?![\w:/.-])"
)
_TOTALS = re.compile(r"\W*\d[\d,.]* \w+(?:, \d[\d,.]* \w+)*\W*")
_COUNTED = re.compile(
    r"(?<![=\w#:-])\d+ (?:to )?\w*(?:pass|fail|error|warning|skip|problem|test|add|change|destroy|"
    r"delet)|"
    r"\b(?:pass|fail|skip|error|warning|test|total|ok)\w*[ :]{1,3}\d+\W*\Z"
)


def terms_at(text: str) -> list[tuple[int, str]]:
    """Return the terms of a text with their places; days, times of day and numbers of things too.

    >>> [term for _, term in terms_at("shard=2 at 07:15")]
    ['shard', 'shard 2', '07:15']
    """
    text = text.replace("=", " ")
    found = terms_in(text)
    if any(map(str.isdigit, text)):
        found += [(start, day) for start, _, day in find_days(text)]
        found += [(x.start(), x[0].lstrip("0")) for x in CLOCK.finditer(text)]
        found += [(x.start(), x[1]) for x in _ENTRY.finditer(text)]
    return found


def _seconds(span: re.Match[str]) -> str:
    """Return "3h20m" in seconds."""
    parts = re.findall(r"(\d+)([dhms])", span[0])
    return f"{sum(int(n) * _UNITS[unit] for n, unit in parts)}s"


def values_of(text: str) -> list[Value]:
    """Return the numbers and states of a text; days and times of day have none."""
    for start, end, _ in find_days(text):
        text = f"{text[:start]}{'_' * (end - start)}{text[end:]}"
    return [*values_in(CLOCK.sub(lambda x: "_" * len(x[0]), text))]


class Row:
    """A line or a record of an output: its cells by column, and the headings that it is under."""

    def __init__(self, line: str, cells: dict[str, str], over: str = "") -> None:
        """Keep the line as it is printed, the cells, and the words of the headings."""
        self.line, self.cells, self.over = line.strip(), cells, over

    @cached_property
    def values(self) -> dict[str, list[Value]]:
        """The numbers and states of each column."""
        return {name: values_of(_SPAN.sub(_seconds, text)) for name, text in self.cells.items()}

    @cached_property
    def numbers(self) -> list[tuple[str, Value]]:
        """The numbers of the row, each with its column."""
        return [(c, x) for c, some in self.values.items() for x in some if x.kind != "state"]

    def states(self, column: str) -> list[tuple[str, float]]:
        """Return the states that a cell has: of what, and which."""
        text = self.cells.get(column, "")
        # "failed 0" is a number of them.
        words = [x[0].casefold() for x in STATE.finditer(text) if not text[-1:].isdigit()]
        return [STATES.get(x, ("end", SIGNS.get(x, 0.0))) for x in words]


class RowGroup:
    """Rows of one kind, of a table with names of columns or of lines alike."""

    def __init__(self, rows: Sequence[Row], counts: Iterable[str] = ()) -> None:
        """Keep the rows, and the numbers that lines beside them count."""
        self.rows, self.counts = rows, frozenset(counts)

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return [*dict.fromkeys(name for row in self.rows for name in row.cells)]

    @cached_property
    def heads(self) -> dict[str, set[str]]:
        """The columns that each term of their names is of."""
        found = defaultdict[str, set[str]](set)
        for name in self.columns:
            for _, term in terms_at(name.replace("_", " ").replace(".", " ")):
                found[term].add(name)
        return found

    @cached_property
    def holders(self) -> dict[str, dict[int, set[str]]]:
        """The rows that each term is in, with its columns; "" is what they stand under."""
        found = defaultdict[str, dict[int, set[str]]](dict)
        for n, row in enumerate(self.rows):
            for name, text in [*row.cells.items(), ("", row.over)]:
                for _, term in terms_at(text):
                    found[term].setdefault(n, set()).add(name)
        return found

    @cached_property
    def keys(self) -> set[str]:
        """The columns that name the rows: each has another word there."""
        found = {""}
        for name in self.columns:
            if name in TOLD or KIND_HEAD.search(name):
                continue
            texts = [row.cells.get(name, "") for row in self.rows]
            worded = sum(bool(_WORDED.match(x)) and x.count(" ") < LABEL_WORDS for x in texts)
            if len({*texts}) == len(texts) <= worded + 1 and not self.is_numeric(name):
                found.add(name)
            whole = _ID_HEAD.search(name) and len({*texts}) == len(texts)
            if whole and all(map(str.isdigit, texts)):
                found.add(name)
            if all(x == "" or re.fullmatch(rf"{re.escape(name)} \d{{1,3}}", x) for x in texts):
                found.add(name)
        # The first column names the rows, where two of them have one name too.
        first = (
            x for x in self.columns if not (self.is_numeric(x) or x in TOLD or KIND_HEAD.search(x))
        )
        return found | {next(first, "")}

    def days(self, column: str) -> dict[int, float]:
        """Return the days of a column by row, as figures that grow with time."""
        found = {n: _ISO.search(row.cells.get(column, "")) for n, row in enumerate(self.rows)}
        return {n: float("".join(x.groups())) for n, x in found.items() if x}

    def kind(self, column: str) -> str:
        """Return what the numbers of a column measure."""
        return next((x.kind for row in self.rows for x in row.values.get(column, ())), "")

    def sizes(self, column: str) -> dict[int, float]:
        """Return the number of each row in a column, of days in order; none where kinds differ."""
        found, kinds = self.days(column), set[str]()
        for n, row in enumerate(self.rows) if not found else ():
            some = [x for x in row.values.get(column, ()) if x.kind not in ("state", "version")]
            if some:
                negative = re.match(r"\s*[-\u2212]\d", row.cells[column])
                found[n] = -some[0].size if negative else some[0].size
                kinds.add(some[0].kind if some[0].size else "")
        return found if len(kinds - {""}) < 2 and len(found) > 1 else {}

    def is_numeric(self, column: str) -> bool:
        """True if most cells of a column are numbers."""
        cells = [row.cells.get(column, "") for row in self.rows if column != "message"]
        texts = [x for x in cells if x not in ("", "-", "|", "n/a", "<none>")]
        found = [is_number(x) or find_days(x) != [] or CLOCK.match(x) is not None for x in texts]
        return len(texts) > 0 and sum(found) > 0.6 * len(texts)


def ending_of(line: str) -> str:
    """Return the ending of the last name of a file in a line, "" without one."""
    return next(iter(re.findall(r"\.[a-z]\w*\b", line)[::-1]), "")


@lru_cache(maxsize=4096)
def is_number(text: str) -> bool:
    """True if a cell is a number with its unit, or some of them, and nothing else."""
    values = [x for x in values_in(text) if x.kind != "state"]
    rest = text
    for x in reversed(values):
        rest = rest[: x.start] + rest[x.end :]
    if values and any(map(str.isalpha, text[: values[0].start])):
        return False
    return bool(values) and sum(map(str.isalpha, rest)) < 3


def lines_of(output: str) -> list[str]:
    """Return the lines of an output; of an object a line for each of its values."""
    if (at := output.find("{")) < 0:
        parted = output if "</" not in output else _TAGS.sub(_untagged, output)
        return parted.splitlines()
    if (whole := _object_of(output[at:])) is not None:
        return [*output[:at].splitlines(), *_object_lines(whole, "")]
    lines = list[str]()
    for line in output.splitlines():
        one = _object_of(line) if line[:1] == "{" else None
        apart = line if "[{" in line else _ITEM.sub(r"\n\2: \3\n", line)
        lines += [_plain(one)] if one else apart.splitlines()
    return lines


def _untagged(line: re.Match[str]) -> str:
    """Return a line without tags: of one element, its name and what it holds."""
    if line[0].count("</") == 1 and (one := _ELEMENT.fullmatch(line[0])):
        return f"{one[1]}{one[2]}: {one[3]}"
    return _TAG_OF.sub("\t", line[0])


def _plain(value: dict[str, Json]) -> str:
    return ", ".join([f"{x}: {y}" for x, y in value.items() if not isinstance(y, dict | list)])


def _object_lines(value: dict[str, Json], indent: str) -> Iterator[str]:
    for key, held in value.items():
        if isinstance(held, dict):
            yield f"{indent}{key}:"
            yield from _object_lines(held, f"{indent}  ")
        elif isinstance(held, list):
            yield f"{indent}{key}:"
            yield from [f"{indent}  {_plain(x) if isinstance(x, dict) else x}" for x in held]
        else:
            said = str(held).lower() if isinstance(held, bool) else str(held)
            first, *rest = said.splitlines() or [""]
            yield f"{indent}{key}: {first}"
            yield from rest


def _object_of(text: str) -> dict[str, Json] | None:
    whole = _decoded(text)
    return whole if isinstance(whole, dict) else None


@lru_cache(maxsize=64)
def groups_of(output: str) -> tuple[RowGroup, ...]:
    """Return the groups of rows of an output, the tables first; none of data and of pages."""
    text = FRAME.sub("", output) if "exit" in output or "@" in output else output
    lines = [x.expandtabs(8) if "\t" in x and "|" in x else x for x in text.splitlines()]
    filled = [x for x in lines if x.strip()]
    if text[:6] == "Error:" or not 0 < len(filled):
        return ()
    start = next((n for n, x in enumerate(lines) if x[:1] in ("{", "[")), -1)
    if start >= 0 and (whole := _decoded("\n".join(lines[start:]))) is not None:
        return tuple(x for x in _json_groups(whole, "") if 0 < len(x.rows) <= MOST_ROWS)
    if len(filled) > MOST_ROWS or max(map(len, filled)) > ROW_CHARACTERS:
        return ()
    objects = [_decoded(x) for x in filled] if all(x[:1] == "{" for x in filled) else []
    if objects and all(isinstance(x, dict) for x in objects):
        return tuple(_json_groups(objects, ""))
    tables, rest = list[RowGroup](), list[str]()
    for block in _blocks_of(lines):
        found, left = _table_in(block)
        tables += found
        rest += [*left, ""]
    entries = [*_entries_of(rest)]
    return tuple([*tables, *_records_of(entries), *_alike_in(entries)])


def _decoded(text: str) -> Json:
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _flat(value: dict[str, Json], over: str = "") -> Iterator[tuple[str, str]]:
    for key, held in value.items():
        if isinstance(held, dict):
            yield from _flat(held, f"{over}{key}.") if over.count(".") < MOST_DEPTH else ()
        elif isinstance(held, list):
            plain = [str(x) for x in held if not isinstance(x, dict | list)]
            yield from [(f"{over}{key}", ", ".join(plain))] if len(plain) == len(held) else ()
        elif held is not None:
            yield f"{over}{key}", str(held).lower() if isinstance(held, bool) else str(held)


def _json_groups(value: Json, name: str) -> Iterator[RowGroup]:
    """Yield the lists and maps of objects as tables, and the values of an object as lines."""
    waiting = [(value, name, 0)]
    for here, over, depth in waiting:
        inner = list[tuple[str, Json]]()
        if isinstance(here, list):
            objects = [x for x in here if isinstance(x, dict)][: MOST_ROWS + 1]
            if len(objects) == len(here) > 0:
                yield RowGroup(
                    [Row(f"{over} {n}", dict(_flat(x)), over) for n, x in enumerate(objects, 1)]
                )
            inner = [(k, y) for x in objects for k, y in x.items() if isinstance(y, list)]
        elif isinstance(here, dict):
            maps = {k: x for k, x in here.items() if isinstance(x, dict)}
            alike = len(maps) > 1 and set.intersection(*({*x} for x in maps.values()))
            if alike:
                yield RowGroup(
                    [Row(k, {"name": k, **dict(_flat(x))}, over) for k, x in maps.items()]
                )
            pairs = _flat({k: x for k, x in here.items() if not (alike and k in maps)})
            named = [(re.sub(r"[._]", " ", k), x) for k, x in pairs if len(x) < LONG_VALUE]
            yield from _alike_in([Entry(f"{k}: {x}", (), k, x) for k, x in named])
            inner = [(k, x) for k, x in here.items() if isinstance(x, list | dict)]
            inner = [(k, x) for k, x in inner if isinstance(x, list) or not maps.keys() - {k}]
        if depth < MOST_DEPTH and len(waiting) < MOST_ROWS:
            waiting += [(x, k, depth + 1) for k, x in inner[:MOST_ROWS]]


def _blocks_of(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines between blank ones."""
    block = list[str]()
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def _table_in(block: list[str]) -> tuple[list[RowGroup], list[str]]:
    """Return the table of a block, also turned, and the lines that are none of it."""
    ruled = [n for n, x in enumerate(block) if _RULE.fullmatch(x) and len(x.strip()) > 2]
    boxed = [x if x.isascii() or "\u251c" in x else x.translate(_BOX) for x in block]
    lines = [(x, n - 1 in ruled or n + 1 in ruled) for n, x in enumerate(boxed) if n not in ruled]
    for at, (head, below) in enumerate(lines[:-1]):
        if not any(map(str.isalpha, head)) or _is_pair(head):
            continue
        cuts = (_by_bars, _by_commas, _by_places)
        tried = [cut([x for x, _ in lines[at:]]) for cut in cuts]
        tried = [x for x in tried if len(x) > 1 and _is_head(x[0], x[1:], ruled=below)]
        if rows := max(tried, key=len, default=[]):
            width = len(rows)
            cells = [dict(zip(rows[0], x, strict=False)) for x in rows[1:]]
            texts = [x for x, _ in lines[at + 1 : at + width]]
            made = [Row(x, y) for x, y in zip(texts, cells, strict=True)]
            # A last row of totals is none of the others.
            made = [x for x in made if stem_of(next(iter(x.cells.values()), "")) != "total"]
            left = [x for x, _ in [*lines[:at], *lines[at + width :]]]
            return [RowGroup(made)] if made else [], left
    return [], block


def _by_bars(lines: list[str]) -> list[list[str]]:
    if "|" not in lines[0]:
        return []
    return _even([_BARS.split(x.strip().strip("|").strip()) for x in lines])


def _by_commas(lines: list[str]) -> list[list[str]]:
    sign = next((x for x in "\t;," if x in lines[0]), ",")
    if sign == "," and ", " in lines[0]:
        return []
    return _even([[one.strip() for one in x.split(sign)] for x in lines])


def _even(rows: list[list[str]]) -> list[list[str]]:
    """Return the first rows that have as many parts as the head has."""
    n = next((n for n, x in enumerate(rows) if len(x) != len(rows[0])), len(rows))
    return rows[:n] if 1 < len(rows[0]) <= MOST_COLUMNS else []


def _by_places(lines: list[str]) -> list[list[str]]:
    """Return the cells of lines whose columns are apart by blanks that stand in all of them."""
    width = max(map(len, lines))
    filled = [x.ljust(width) for x in lines]
    blank = [all(x[n] == " " for x in filled) for n in range(width)] + [True]
    edges = [n + 1 for n in range(width) if blank[n] and not blank[n + 1]]
    edges = [*([0] if not blank[0] else []), *edges]
    # What has no name above it belongs to the column before it.
    starts = [a for a, b in pairwise([*edges, width]) if filled[0][a:b].strip() or a == edges[0]]
    apart = _BLANKS.search(lines[0].strip()) or lines[0].isupper()
    if not (apart and 1 < len(starts) <= MOST_COLUMNS):
        return []
    return [[x[a:b].strip() for a, b in pairwise([*starts, width])] for x in filled]


def _is_head(head: Sequence[str], rows: list[list[str]], *, ruled: bool) -> bool:
    """True if the first of some rows has the names of the columns."""
    named = [x for x in head if x]
    clocks = [x for row in rows for x in row[1:] if CLOCK.fullmatch(x)]
    if len({*named}) < max(len(head) - 1, 2) or any(len(x.split()) > 4 for x in named):
        return False
    if not all(map(_NAME.fullmatch, named)):
        return False
    upper = all(x == x.upper() for x in named)
    return ruled or upper or clocks != [] or any(is_number(x) for row in rows for x in row[1:])


def _is_pair(line: str) -> bool:
    pair = _PAIR.fullmatch(line)
    return pair is not None and ":" in line and len(pair["key"].split()) <= LABEL_WORDS


class Entry(NamedTuple):
    """A line with the headings that it stands under, its label and its value."""

    line: str
    over: tuple[str, ...]
    label: str
    value: str


def _entries_of(lines: list[str]) -> Iterator[Entry]:
    """Yield the lines, each below the less indented ones and the headings above it."""
    parents, first = list[tuple[float, str]](), True
    for line, below in pairwise([*lines, ""]):
        if not line.strip():
            parents, first = [x for x in parents if below[:1] == " "], True
            continue
        bare = f"  {line[2:]}" if line[:2] in ("* ", "> ") else line.translate(_BRANCH)
        indent = len(bare) - len(bare.lstrip())
        pair = _PAIR.fullmatch(bare)
        pair = pair if pair and len(pair["key"].split()) <= LABEL_WORDS else None
        deeper = len(below) - len(below.lstrip()) > indent and bool(below.strip())
        heading = _HEADING.fullmatch(bare) is not None
        heading |= first and not pair and bool(below.strip()) and _is_pair(below)
        level = indent - 0.5 if heading and not deeper else indent
        while parents and parents[-1][0] >= level:
            parents.pop()
        over = tuple(x for _, x in parents)
        if heading or deeper or bare.lstrip()[:2] in ("- ", "\u2022 "):
            parents.append((level, bare.strip(" []#:")))
        parts = _BLANKS.split(bare.strip())
        pairs = [x for x in map(_PAIR.fullmatch, parts) if x and _is_pair(x[0])]
        if len(pairs) > 1:
            yield from [Entry(line, over, x["key"].strip(), x["value"].strip()) for x in pairs]
        elif pair:
            yield Entry(line, over, pair["key"].strip('" '), pair["value"].strip())
        elif not heading or bare.lstrip()[:1] == "#":
            yield Entry(line, over, "", bare.strip())
        first = False


def _records_of(entries: list[Entry]) -> Iterator[RowGroup]:
    """Yield as tables what stands with the same labels under several headings."""
    under = defaultdict[tuple[str, ...], dict[str, str]](dict)
    for x in entries:
        if x.label and x.over:
            under[x.over].setdefault(x.label, x.value)
    alike = defaultdict[tuple[int, str], list[tuple[tuple[str, ...], dict[str, str]]]](list)
    for over, cells in under.items():
        alike[len(over), over[0] if len(over) > 1 else ""].append((over, cells))
    for some in alike.values():
        labels = Counter(x for _, cells in some for x in cells)
        if len(some) > 1 and max(labels.values()) > 1:
            rows = [Row(over[-1], {"name": over[-1], **cells}) for over, cells in some]
            yield RowGroup(rows)


def _alike_in(entries: list[Entry]) -> Iterator[RowGroup]:
    """Yield as a table the lines that have the same parts: a state, a level, labelled numbers."""
    edits = {x.line.lstrip()[:2] for x in entries} >= {"+ ", "- "}
    rows = [row for x in entries if (row := _row_of(x, edits=edits)) is not None]
    often = Counter(name for row in rows for name in row.cells if name not in ("name", "message"))
    some = [
        Row(r.line, {c: v for c, v in r.cells.items() if often.get(c, 2) > 1}, r.over)
        for r in rows
        if any(often.get(c, 0) > 1 for c in r.cells)
    ]
    if len(some) > 1:
        counts = [n for x in entries if _COUNTED.search(x.line) for n in re.findall(r"\d+", x.line)]
        yield RowGroup(some, counts)


def _row_of(entry: Entry, *, edits: bool) -> Row | None:
    """Return a line by its parts, None for one that counts others; signs before it are edits."""
    line, over, label, value = entry
    if _LEVEL.fullmatch(label.upper()):
        label, value = "", f"{label.upper()}  {value}"
    text = _STAMP.sub("", f"{label}: {value}" if label else value)
    if _COUNTED.search(text) or _TOTALS.fullmatch(text) or not any(map(str.isalpha, text)):
        return None
    cells, rest = _state_cells(line, text, edits=edits)
    for one in _LABELLED.finditer(value if label else _unspaced(rest)):
        whole = one["value"].isdigit() and len(one["value"]) < 4 and not one["unit"]
        number = one["value"] + (one["unit"] or "")
        cells.setdefault(one["name"], f"{one['name']} {number}" if whole else number)
    pieces = _BLANKS.split(line.strip()) if not (label or cells) else []
    if 1 < len(pieces) < MOST_PIECES and any(map(is_number, pieces[1:])):
        cells |= {f"column {n}": one for n, one in enumerate(pieces[1:], 2)}
        rest = pieces[0]
    lone = _LONE.search(_LABELLED.sub("", value if label else rest))
    if lone is not None and (lone["unit"] or len(rest.split()) < LABEL_WORDS):
        kind = next((v.kind for v in values_in(lone[0])), "")
        unit = (lone["unit"] or "").strip() or "number"
        cells[{"s": "time", "B": "size"}.get(kind, unit)] = lone[0].strip()
    if (clock := CLOCK.match(text.strip())) is not None:
        cells["clock"], rest = clock[0].lstrip("0"), _CLOCKS.sub("", rest.strip())
    cells.update([("date", day) for _, _, day in find_days(value)[:1]])
    cells.update([("after", x[2]) for x in [_ARROW.fullmatch(value)] if x])
    name, message = (label, value) if label else _named_in(_LABELLED.sub(" ", rest))
    if (place := _PLACE.match(line.strip())) is not None:
        name, message = place["name"], place["rest"]
        cells["line"] = f"line {place['line']}"
    message = "" if is_number(message) else message
    cells = {"name": name.strip(" .-*\u2022"), **cells, "message": message}
    return Row(line, cells, " ".join(over))


def _state_cells(line: str, text: str, *, edits: bool) -> tuple[dict[str, str], str]:
    """Return the state or the level of a line, and its text without that."""
    if edits and line.lstrip()[:2] in _EDITS:
        return {"state": _EDITS[line.lstrip()[:2]]}, text.lstrip("+-~ ")
    if (level := _LEVEL.search(text)) is not None:
        return {"level": level[0].strip()}, text.replace(level[0], "  ", 1)
    if (state := _state_of(text)) is not None:
        return {"state": state[0]}, f"{text[: state.start()]}  {text[state.end() :]}"
    return {}, text


def _unspaced(text: str) -> str:
    """Return a line without the numbers that stand in columns of their own."""
    return " ".join(x for x in _BLANKS.split(text.strip()) if not is_number(x))


def _named_in(text: str) -> tuple[str, str]:
    """Return what a line is about, and what it says of it."""
    end = _LABEL_END.search(text.strip())
    bare = text.strip()
    return (bare[: end.start()], bare[end.end() :]) if end else (bare, "")


def _state_of(text: str) -> re.Match[str] | None:
    """Return the word for a state of a line: a sign, in capitals, at an edge, or the only one."""
    found = [*STATE.finditer(text)]
    for clear in (
        [x for x in found if x[0] in SIGNS],
        [x for x in found if x[0].isupper() and len(x[0]) > 1],
        [x for x in found if not re.search(r"[\w]", text[x.end() :].split("(")[0])],
        found if len(text.split()) < 7 else [],
    ):
        if clear and len({STATES.get(x[0].casefold(), x[0]) for x in clear}) == 1:
            return clear[-1]
    return None


class Change(NamedTuple):
    """A value that an output shows as it was and as it is."""

    key: str
    old: str
    new: str


@lru_cache(maxsize=64)
def changes_of(output: str) -> tuple[Change, ...]:
    """Return the values that an output shows as changed: by lines of a diff, or an arrow."""
    gone, found = dict[str, str](), list[Change]()
    lines = output.splitlines() if "->" in output or "\n-" in output else []
    for line in lines[:MOST_ROWS]:
        if x := _CHANGE.fullmatch(line):
            if x[1] == "-":
                gone[x["key"]] = x["value"]
            elif x["key"] in gone:
                found.append(Change(x["key"], gone.pop(x["key"]), x["value"]))
        pair = _PAIR.fullmatch(line.lstrip("~+- ")) or _SPACED.fullmatch(line.lstrip("~+- "))
        if pair and (x := _ARROW.fullmatch(pair["value"].partition(" #")[0])):
            found.append(Change(pair["key"].strip(), x[1], x[2]))
    return tuple(found)
