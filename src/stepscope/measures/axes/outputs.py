"""Values of outputs that the agent tells otherwise, in whatever form an output is printed.

A value has the words beside it, above it and over its line as its names: telling another value
beside these names is a misreading, unless it follows from the output's or was said before. A state
is told as it stands, and what is told as the largest has the largest value.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, permutations
from typing import NamedTuple

import msgspec

from stepscope.measures.axes.evidence import NUMBERS, Evidence
from stepscope.measures.axes.quantities import (
    Value,
    is_same,
    is_similar,
    may_have_values,
    values_in,
)
from stepscope.measures.axes.told import TAG, day_value, find_days, with_days
from stepscope.measures.language import EMPTY, SAME_STEMS, TOKEN, stem_of, terms_in, terms_of
from stepscope.measures.rule import Fault
from stepscope.measures.same_calls import FRAME, is_short, joined_answers
from stepscope.model import Json, Step, Trajectory

# Longer outputs are data, and labels in them are words by chance.
MOST_LINES = 60
# Outputs with longer lines are pages.
LINE_CHARACTERS = 200
# More words are no name of a value.
LABEL_WORDS = 4
# Outputs before a message that it may tell of.
LATEST_OUTPUTS = 3
# Longer outputs and messages are documents.
MOST_CHARACTERS = 12_000
# More values in a sentence or in an output are data.
MOST_TOLD, MOST_CELLS = 16, 400

_decode = msgspec.json.Decoder(dict[str, Json]).decode
# Columns of a table, and parts of a line that is none.
_COLUMNS = re.compile(r"\s{2,}|\t|\s*[|\u2502]\s*|,(?! )")
_HEAD = re.compile(r"(?:\d{1,3}(?=[A-Za-z]))?[A-Za-z_%#/](?:[^\d:=]|(?<=\w)\d){0,40}")
_PART = re.compile(r"\S+(?: \S+)*")
_NUMBER = re.compile(r"(?<![\w.,])\d[\d.,]*\b")
_TAGS = re.compile(r".*</.*")
_ELEMENT = re.compile(r"(\s*)<([\w:-]+)>(.*)</[\w:-]+>\s*")
_TAG_OF = re.compile(r"</?[a-zA-Z][^<>]*>")
# What stands over the lines behind it, though these are no further in.
_SECTION = re.compile(r"\s*(?:\[[^\[\]]{1,40}\]|#+ .{1,40}|[^:]{1,40}:)\s*")
# A number that names a line, as a year does, before another one.
_KEY = re.compile(r"\W*(?:(\d{3,4}) ?[:=|]|((?:1\d|20)\d\d)[\s,]+(?=[-+$]?\d))(?=.*\d)")
_ORDINAL = re.compile(r"(?:\w+ output: *)?\s*\d{1,2}[.)]\s+(?=[^\W\d])")
_RULE = re.compile(r"[-+=|: \u2500-\u257f]*|.*(?:\\|://).*")
_EDGES = re.compile(r"(?i)\A[\s|\u2502*#]*(?:\w+ output:|exitcode:.*)? *|[\s|\u2502]+\Z")
_BOUND = re.compile(
    r"[,;()\[\]{}|\u2502]|(?<!=)\"|\s{2,}|\t|: | [-\u2013\u2014] |\. |\s(?=[\w.-]+=(?!=))"
)
_ITEM = re.compile(r"[{,] ?(['\"])([^'\"{}:]{1,40})\1: ?['\"]?([^'\"{},]+)['\"]?(?=[,}])")
# "no errors": 0 of them; "all pass": 0 fail.
_NONE = re.compile(
    r"(?i)\b(?:no|none(?: of (?:them|the \w+))?|without(?: any)?|zero) "
    r"(?=\w{4,}(?: (?:we|is|a|f)\w+| ?[.,;:!]|$))"
)
_ALL_WELL = re.compile(r"(?i)\b(?:all|every\w*)\b[^.;]*?\b(?:pass\w*|green|succe\w+)")
_COUNT = re.compile(
    rf"(?i)(?<!first )(?<![\w/.-])(?:{'|'.join(NUMBERS[1:])}|(?<=only )one|(?<=just )one)"
    r"(?=[\s-]+[a-z]|[.,;)])"
)
# What is told of no output: code, the number of an entry.
_APART = re.compile(r"(?ms)```.*?(?:```|\Z)|^[^\w\n]*\d+[.)](?=\s)|\bStep \d+|\*\*|`")
_SAID_END = re.compile(r"(?<=[.!?;])[\s\")]+(?=\S)|\n+")
_CUT = re.compile(
    r"(?<!\d)[,;]|[,;](?!\d)|[()\u2013\u2014]|\s-\s|\b(?:and|but|while|whereas|with|although|"
    r"against|vs|than|then|so|at)\b"
)
_EQUALS = re.compile(r" [=\u2248] ")
_OF_ALL = re.compile(
    r"(?i)(?:(?<![\w.-])(\d[\d,.]*)|\b(?:all|few|half|many|most|no|none|one|out|quarter|some|third))"
    r"%?(?: (?!an? |the )[^\W\d][\w-]*){0,3}? ?(?:of|among) (?:\w+ )?(\d[\d,]*)"
)
_CONDITION = re.compile(
    r"(?i)\A\W*(?:to|net)\b|\b(?:if|unless|until|before|when|once|instead|default|usual\w*|goal|"
    r"target|threshold|assum\w*|supports|supported|compatible)\b"
)
_SUPPOSED = re.compile(
    r"(?i)\b(?:would|should|could|can|may|might|must|will|let|plan\w*|suggest\w*|recommend\w*|"
    r"expect\w*|ideal\w*|limit|need|want\w*|upgrad\w*)\b|['\u2019](?:ll|d)\b|\b(?:i|we)"
    r"(?:['\u2019]ve| have)? (?:set|chang|updat|add|rais|lower|increas|reduc|us|tri|turn|switch|"
    r"start|stop|restart|fix|ma[dk]|put|\w+abl)\w*"
)
_DENY = re.compile(r"(?i)\b(?:not|never|except|unlike|without|fail\w* to|lack\w*)\b|n['\u2019]t\b")
_DERIVES = re.compile(
    r"(?i)\b(?:(than|more|fewer|less|(?:per|(?<=[\w ] )an?) (?:second|minute|hour|day|week|month|"
    r"year))|(about|around|roughly|nearly|almost|approx\w*|over|under|below|above|least|within|"
    r"(?<!add )up to|between|another|further|additional|times (?:as|the|\w+er)|twice|(?:fast|slow|"
    r"larg|small|bigg|high|low|young|old|long|short|cheap|clos|near|tall|heavi|light|lat|earli|"
    r"wid|deep|warm|cold|hott|quick|broad|great|steep|strong|weak|farth)er|ahead|behind|apart|"
    r"difference|chang\w*|gap|spread|left|leav\w*|remain\w*|unused|rest|short of|missing|halv\w*|"
    r"doubl\w*|tripl\w*|(?:still|yet) to)|so|half|third|quarter|total|(?:al)?together|sum|both|"
    r"combined|all|average|points?|gain\w*|gr[eo]w\w*|share|drop\w*|fell|rose|(?:in|de)creas\w*|"
    r"reduc\w*|sav\w*|ratio|per|each|lead\w*|others?|balance|margin)\b|([~<>\u2248]|\d x\b)"
)
# "A 404" is a name, and "by 3" is how much more.
_NO_COUNT = re.compile(
    r"(?i)\b(?:an?|(?:\w+er|up|down|ahead|rose|fell|gr[eo]wn?|won|lost|(?:in|de)creas\w*|\w+ove[sd]?|"
    r"reduc\w*|drop\w*|lead\w*|wins?) by|(?<!dates )(?<!is )from|after|before|since|until|till|"
    r"rather than|instead of|compared (?:to|with)|(?:\A|\d,?) (?:and|or)) (?:the )?\Z"
)
# "All but two", "everything except the build"
_ALL_BUT = re.compile(r"(?i)\b(?:all|every\w*|any\w*|none?)\b[^;]*\b(?:but|except|besides|apart)\b")
# "Of 1,204 users 318 are active"
_PART_OF = re.compile(
    r"(?i)(?:\A|[:;,(\"\u201c] ?|\b(?:and|but|that|then) )(?:out )?of "
    r"(?:(?:the|these|all|our|its) )?"
    r"(\d[\d,]*)"
)
_MOST = re.compile(
    r"(?i)\b(?:(largest|biggest|highest|most|longest|slowest|greatest)|smallest|lowest|fewest|"
    r"least|shortest|fastest|weakest|cheapest)\b(?! of\b| likely| recent)"
)
_NOT_FIRST = re.compile(r"(?i)\b(?:second|third|fourth|next|among|than|at|others?|one of)\b|\?")
_NEW = re.compile(r"(?i)\bnew\b")
_LISTS = (", ", " and ", ", and ")
_SCALED = ("s", "B", "%")
_MEASURED = re.compile(r"\d ?(?:%|[kKMGT]i?B?\b|m?s\b|sec|min)|\.\d+\.")


class Cell(NamedTuple):
    """A value of an output, the terms beside or above it, and the others of its line."""

    value: Value
    label: frozenset[str]
    row: frozenset[str]
    head: str


class Head(NamedTuple):
    """The names of the columns of a table, and where their line stands."""

    line: str = ""
    parts: Sequence[str] = ()
    indent: int = 0


class Sheet(NamedTuple):
    """The values of an output, its other numbers, what names values how well, and longer names."""

    cells: list[Cell]
    others: frozenset[str]
    names: dict[str, float]
    longer: dict[frozenset[str], frozenset[str]]
    keys: frozenset[str]
    single: frozenset[str]


def _values_in(text: str) -> list[Value]:
    bare, days = text, find_days(text)
    for start, end, _ in days:
        bare = bare[:start] + "_" * (end - start) + bare[end:]
    # The year behind a day is no number.
    found = [x for x in values_in(bare) if bare == text or x.kind or not 1900 < x.size < 2100]
    for n, (one, other) in reversed([*enumerate(pairwise(found))] if "/" in text else []):
        # "12/34 ms"
        if one.kind == "" and bare[one.end : other.start] == "/" and found[n + 1].kind in _SCALED:
            unit, kind = found[n + 1].unit, found[n + 1].kind
            found[n] = one._replace(kind=kind, size=one.size * unit, unit=unit)
    # Beside numbers a day is the name of a line.
    return found or [day_value(text, *one) for one in days[:1]]


def _terms(text: str) -> list[tuple[int, str]]:
    """Return the terms of a text, each with its place; a day is one however it is written."""
    return [*terms_in(text), *[(start, day) for start, _, day in find_days(text)]]


@lru_cache(maxsize=64)
def _sheet_of(output: str) -> Sheet | None:
    """Return the values that an output names, None of data and of what names none."""
    # Lists are records, what a service refuses has no value, numbers besides a count no names.
    refused = output[:6] == "Error:" or (output[:1] == "[" and output.rstrip()[-1:] == "]")
    if "exit" in output or "@" in output:
        output = FRAME.sub("", output)
    unworded = output.lower() == output.upper()
    if refused or (unworded and "\n" not in output and not output.strip().isdigit()):
        return None
    lines = _lines_of(output)
    if len(lines) > MOST_LINES or max(map(len, lines), default=0) > LINE_CHARACTERS:
        return None
    keys = _keys_of(lines)
    if unworded and not (keys or output.strip().isdigit()):
        return None
    cells = [*_cells_of(lines, keys)]
    names = Counter(term for label in {x.label for x in cells} for term in label)
    held = Counter(term for _, term in {(x.head, term) for x in cells for term in x.label})
    common = {term for term in names if held[term] > 1}
    # Beside what other lines name as well, the words that this line alone has are its name.
    cells = [
        x._replace(row=x.row.difference(x.label, common if x.label & common else names))
        for x in cells
    ]
    names.update(term for _, row in {(x.head, x.row) for x in cells} for term in row)
    weights = {x: n**-0.5 for x, n in names.items()}
    held = Counter(x.value.said for x in cells)
    others = frozenset(Counter(_NUMBER.findall(output)) - held)
    labels = list({x.label for x in cells if x.label})[:MOST_LINES]
    longer = {y: y - x for x in labels for y in labels if x < y}
    owned = Counter(term for _, term in {(x.head, t) for x in cells for t in x.label | x.row})
    single = frozenset(term for term, n in owned.items() if n == 1)
    sheet = Sheet(cells, others, weights, longer, keys, single)
    return sheet if 0 < len(cells) < MOST_CELLS else None


def _keys_of(lines: list[str]) -> frozenset[str]:
    """Return the numbers that name lines: each another one, before a value."""
    if not any([x.lstrip(" |")[:1].isdigit() for x in lines]):
        return frozenset()
    found = [key[1] or key[2] for x in lines if (key := _KEY.match(_EDGES.sub("", x)))]
    numbered = sum(not x.isalpha() and any(map(str.isdigit, x)) for x in lines)
    alone = 1 < len(found) == len({*found}) and len(found) >= numbered - 1
    return frozenset(found) if alone else frozenset()


def _lines_of(output: str) -> list[str]:
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


def _object_of(text: str) -> dict[str, Json] | None:
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


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


def _cells_of(lines: list[str], keys: frozenset[str]) -> Iterator[Cell]:
    """Yield the values of each line: of tables below their heads, else by itself."""
    head, above, parents = Head(), list[str](), list[tuple[float, set[str]]]()
    if sum(_ORDINAL.match(x) is not None for x in lines) > 1:
        lines = [_ORDINAL.sub("", x) for x in lines]
    bares = [(len(x) - len(x.lstrip(" |")), _EDGES.sub("", x), x) for x in lines]
    bares = [one for one in bares if not _RULE.fullmatch(one[1])]
    for (indent, line, full), (_, below, _) in pairwise([*bares, (0, "", "")]):
        section = _SECTION.fullmatch(full) is not None
        while parents and parents[-1][0] >= indent - section / 2:
            parents.pop()
        terms = {term for _, term in _terms(line)}
        row = _table_row(head, line, indent)
        if (key := _KEY.match(line) if keys else None) is not None:
            terms.add(key[1] or key[2])
            if not row:
                line, above = " " * key.end() + line[key.end() :], [key[1] or key[2]]
        if row:
            terms |= {term for _, term in _terms(" ".join(row[0]))}
            found = [(TOKEN.findall(name), x) for name, part in row for x in _values_in(part)[:2]]
        else:
            head = _head_of(line, below, indent)
            values = _values_in(line)
            prose = len(line.split()) > 6 * (1 + len(values))
            found = [] if head.parts or prose else [*_line_cells(_NONE.sub("0 ", line), above)]
            above = above if found or key else TOKEN.findall(line)[:LABEL_WORDS]
            terms -= {x for x in terms for _, one in found if x.endswith(f" {one.said}")}
        worded = line.lstrip("<\"'-*+ ")[:1].isalpha()
        over = set[str]().union(*(x for _, x in parents)) if worded else ()
        if not (row or head.parts) and (section or worded):
            own = {x for label, _ in found[:1] for word in label for x in terms_of(word)} or terms
            parents += [(indent - section / 2, own)] * (len(line.split()) <= 2 * LABEL_WORDS)
        terms -= {stem_of(x.said) for _, x in found if x.kind == "state"}
        for words, value in found:
            label = frozenset(term for word in words for term in terms_of(word))
            beside = frozenset(x for x in terms.union(over) if not x.endswith(f" {value.said}"))
            if value.kind == "day":
                beside -= {day for _, _, day in find_days(value.said)}
            yield Cell(value, label, beside, full.strip() if key else line)


def _head_of(line: str, below: str, indent: int) -> Head:
    """Return what a line has as the names of columns, nothing if it has values."""
    parts = [part for part in _COLUMNS.split(line) if part]
    if line.isupper() and len(parts) < 3:
        parts = line.split()
    is_head = len(parts) > 1 and all(map(_HEAD.fullmatch, parts))
    # A line of states is one of values, unless numbers stand below them.
    if is_head and _values_in(line):
        is_head = len([x for x in _values_in(below) if x.kind != "state"]) > 1
    return Head(line, parts, indent) if is_head else Head()


def _table_row(head: Head, line: str, indent: int) -> list[tuple[str, str]]:
    """Return the parts of a line with the heads they stand below, none where they do not fit."""
    heads, indexed = head.parts, head.indent > indent
    if not heads:
        return []
    parts = [part for part in _COLUMNS.split(line) if part]
    if len(parts) not in (len(heads), len(heads) + indexed):
        if row := _aligned(head, line, indent):
            return row
        heads, parts = " ".join(heads).split(), line.split()
    heads = ["", *heads] if indexed and len(parts) > len(heads) else heads
    parts = line.split(None, len(heads) - 1) if len(parts) > len(heads) else parts
    return list(zip(heads, parts, strict=False)) if len(heads) - len(parts) in (0, 1) else []


def _aligned(head: Head, line: str, indent: int) -> list[tuple[str, str]]:
    """Return the parts of a line with the heads that begin or end where they do."""
    above = [*_PART.finditer(head.line)]
    row = [
        (x[0], part[0], part.start())
        for part in _PART.finditer(line)
        for x in above
        if abs(x.start() + head.indent - part.start() - indent) < 2
        or abs(x.end() + head.indent - part.end() - indent) < 2
    ]
    rest = line[: row[0][2]].strip() if row else ""
    fits = len(row) > 1 and len(row) + bool(rest) == len(_PART.findall(line))
    return [("", rest), *((name, part) for name, part, _ in row)] if fits else []


def _line_cells(line: str, above: list[str]) -> Iterator[tuple[list[str], Value]]:
    """Yield the values of a line, each with the words beside it, else with those before them."""
    values, key, last, used = _values_in(line), list[str](), list[str](), False
    bounds = {0, *(one.end() for one in _BOUND.finditer(line)), len(line) + 1}
    for start, end in pairwise(sorted(bounds)):
        words, ends_key = TOKEN.findall(line[start:end]), line[end - 2 : end] == ": "
        # "group 2: 9.7"
        part = [] if ends_key and words else [x for x in values if start <= x.start < end]
        edges = [start, *(at for one in part for at in (one.start, one.end)), end]
        gaps = [line[one:other].split() for one, other in zip(edges[::2], edges[1::2], strict=True)]
        # "total 7951 used 2210": each name stands before its number.
        left = gaps[0] and not gaps[-1] and part[1:] and part[-1].kind in ("", "version")
        for n, one in enumerate(part):
            behind = [] if left else _names_beside(gaps[n + 1])
            before = _names_beside(gaps[n][::-1])[::-1]
            before = before if n == 0 or one.kind or not behind else []
            last = before[-LABEL_WORDS:] + behind[:3] or (n > 0 and last) or key or above
            yield last, one
        used |= bool(part) and last is key
        if words and not part and (ends_key or not key or (used and line[end - 1 : end] in "\t|")):
            key, used = words[:LABEL_WORDS], False


def _names_beside(words: list[str]) -> list[str]:
    """Return the first of some words, up to one that names nothing."""
    at = next((n for n, x in enumerate(words) if n and x.casefold() in EMPTY), len(words))
    return [token for word in words[:at] for token in TOKEN.findall(word)]


def find_misread_lines(trajectory: Trajectory, evidence: Evidence) -> Iterator[Fault]:
    """Yield the values that the agent tells otherwise than the outputs before it.

    A fault is one of the output that is not named beside it, or one that follows from nothing.
    """
    outputs: list[tuple[int, str]] = []
    for step in trajectory.steps:
        text = trajectory.texts[step.index] if step.actor == "agent" and outputs else ""
        told_of = [x for x in outputs if x[1]] if 0 < len(text) < MOST_CHARACTERS else []
        if len(told_of) > 1 and is_short(told_of[0][1]) and is_short(told_of[1][1]):
            told_of = joined_answers(told_of, trajectory, _lines_of)
        sheets = [(at, one) for at, output in told_of if (one := _sheet_of(output)) is not None]
        for why, at, told in _misreads(text, sheets) if sheets else ():
            known = told is None and at != outputs[0][0]
            if told and not (known := evidence.said(told, sheets[-1][0]) is not None):
                known = _is_argument(told, trajectory.steps[: step.index + 1])
            if not known:
                yield Fault(step.index, why, (at,))
        if step.results or step.actor == "environment":
            for text in [result.text for result in step.results] or [step.text]:
                # A page, or data: it is no sheet, and needs no key of the cache.
                page = len(text) > MOST_CHARACTERS or "\n" not in text[: LINE_CHARACTERS + 1]
                page = page and len(text) > LINE_CHARACTERS
                outputs = [(step.index, "" if page else text), *outputs[: LATEST_OUTPUTS - 1]]


def _is_argument(told: str, steps: Sequence[Step]) -> bool:
    """True if an act says a value: what it has changed since an output is told rightly."""
    word = re.compile(rf"(?<![\w.]){re.escape(told)}(?!\w)")
    return any(word.search(str(call.arguments)) for one in steps for call in one.calls)


def _misreads(text: str, sheets: list[tuple[int, Sheet]]) -> Iterator[tuple[str, int, str | None]]:
    """Yield what is told otherwise, of which output, and what is told that no output says.

    None stands for a state, and for what is the most: true until something is done.
    """
    text = _APART.sub("", TAG.sub("", text))
    text = _COUNT.sub(lambda x: str(NUMBERS.index(x[0].lower()) + 1), text)
    if not any([stem_of(word) in ("fail", "error") for word in TOKEN.findall(text)]):
        text = _ALL_WELL.sub(r"\g<0>, 0 fail,", text)
    signs = {x for _, one in sheets for x in one.names}
    signs |= {x for x, stem in SAME_STEMS.items() if stem in signs}
    unnamed = not all([x.names for _, x in sheets])
    before = ""
    for said in _SAID_END.split(text):
        low = said.casefold()
        if said.rstrip()[-1:] != "?" and may_have_values(low):
            goes_on = said.startswith(("It ", "They "))
            named = goes_on or unnamed or _MEASURED.search(said) or _ALL_WELL.search(said)
            if named or any([sign in low for sign in signs]):
                yield from _misread_sentence(_NONE.sub("0 ", said), (before, goes_on), sheets)
        before = said


def _misread_sentence(
    sentence: str, before: tuple[str, bool], sheets: list[tuple[int, Sheet]]
) -> Iterator[tuple[str, int, str | None]]:
    """Yield the same of a sentence behind another one, which it may go on from."""
    days = any([x.value.kind == "day" for _, sheet in sheets for x in sheet.cells])
    values = with_days(sentence, _values_in(sentence)) if days else _values_in(sentence)
    values, low = values[:MOST_TOLD], sentence.casefold()
    most = _MOST.search(sentence)
    if not (values or most or "all" in low or "every" in low):
        return
    terms = _terms(sentence)
    ends = [x for x in _CUT.finditer(sentence) if x.start()]
    joins = {x.start(): x[0][0].isalpha() for x in ends}
    joins |= {x.start(): False for x in _EQUALS.finditer(sentence)}
    wholes = {one.start(2): one.start(1) for one in _OF_ALL.finditer(sentence)}
    keyed = {x.start: x.said for x in values for _, one in sheets if x.said in one.keys}
    names = {at for at, term in terms for _, x in sheets if " " in term and term in x.names}
    names |= keyed.keys()
    terms += keyed.items()
    parted = {one.start(1) for one in _PART_OF.finditer(sentence)} if "f " in low else set[int]()
    marks = [x for x in values if x.start not in wholes.keys() | names]
    cuts = [0, *(x.start() for x in ends), len(sentence) + 1]
    single = set[str]().union(*(sheet.single for _, sheet in sheets))
    earlier = dict.fromkeys([x for _, x in _terms(before[0])] if marks else (), 0.3)
    # "8, 11 and 10 are gold, silver and bronze"
    numbers = [x for x in marks if x.kind == ""] if " and " in sentence else []
    pairs = [x for x in pairwise(numbers) if sentence[x[0].end : x[1].start] in _LISTS]
    listed = {x.start for pair in pairs[1:] and pairs for x in pair}
    groups = {x.start: x.kind if x.kind in ("state", "day") else "" for x in marks}
    for told in marks:
        state = told.kind == "state"
        alike = [x for x in groups if x not in parted and groups[x] == groups[told.start]]
        near = {x: 0.9 if before[1] else n for x, n in earlier.items()}
        # What another thing is told of behind a value is none of its names.
        begin = cuts[bisect_right(cuts, told.start) - 1]
        own = min([x for x, term in terms if x >= begin and term in single], default=len(sentence))
        end = cuts[bisect_right(cuts, max(own, told.start))]
        near |= {x: 0.4 for at, x in terms if at >= end}
        near |= _nearness(told, [x for x in terms if x[0] < end], alike, joins)
        whole = [x for x in values if wholes.get(x.start) == told.start]
        whole += [x for x in values if x.start in parted and x.end < told.start] or [told]
        n = bisect_right(cuts, told.start)
        around = sentence[cuts[n - 1] : told.start], sentence[told.end : cuts[n]]
        denied = (state and _ALL_BUT.search(sentence)) or told.start in listed
        if not (denied or _CONDITION.search(sentence[: told.start + 1])):
            yield from _misread([told, whole[0], *values], near, around, sheets)
    if not any(x.search(sentence) for x in (_NOT_FIRST, _CONDITION, _SUPPOSED, _DENY)):
        if most:
            yield from _wrong_extreme(most, {x for _, x in terms}, sheets)
        elif (well := _ALL_WELL.search(sentence)) and not _ALL_BUT.search(sentence):
            yield from _not_well(well[0], sheets[0])


def _nearness(
    told: Value, terms: list[tuple[int, str]], places: list[int], cuts: dict[int, bool]
) -> dict[str, float]:
    """Return how near each term stands: 1 in the part of a sentence that tells a value."""
    begins = [0, *cuts] if told.kind == "state" else [0]
    for one, other in pairwise(places) if told.kind != "state" else ():
        # Between two values a word that joins parts them, else the last sign does.
        parts = [x for x in cuts if one < x <= other]
        begins += [x for x in parts if cuts[x]][:1] or parts[-1:]
    near: dict[str, float] = {}
    for at, term in terms:
        away = bisect_right(begins, told.start) - bisect_right(begins, at)
        between = any(min(at, told.start) < x < max(at, told.start) for x in places)
        weight = 0.2 if away not in (0, 1) else 0.5 if away or between else 1.0
        weight += 0.2 * (told.kind == "" and 0 <= at - told.end < 2)
        if not told.start <= at < told.end or told.kind == "state":
            near[term] = max(weight, near.get(term, 0.0))
    return near


def _scored(told: Value, near: dict[str, float], sheet: Sheet) -> Iterator[tuple[float, Cell]]:
    """Yield the values that a told one may be, each with how well it is named."""
    kind = told.kind if any([x.value.kind == told.kind for x in sheet.cells]) else ""
    names = sheet.names
    if told.kind == "state":
        held = [x for x in sheet.cells if x.value.kind == kind]
        states = Counter(t for _, t in {(x.head, t) for x in held for t in x.label | x.row})
        kind, names = "state", {x: n**-0.5 for x, n in states.items()}
    weights = {term: n * names[term] for term, n in near.items() if n and term in names}
    said = frozenset(weights)
    for x in sheet.cells:
        alike = x.value.kind == kind and (kind or told.kind != "%" or x.value.size < 1)
        if alike or (x.value.kind == "version" and kind == "" and "." in told.said):
            label = max([weights[t] for t in x.label & said], default=0.0)
            row = max([weights[t] for t in x.row & said], default=0.0)
            if label:
                row += 0.2 * all([near.get(t, 0) > 0.8 for t in x.label if t.isalpha()])
                row -= 0.7 * _is_longer(x, near, sheet)
            yield label + row, x


def _says(pattern: re.Pattern[str], text: str, sheet: Sheet) -> bool:
    """True if a text has a word of a pattern that is no name of an output's values."""
    return any(
        all(x not in sheet.names for word in found[0].split() for x in terms_of(word))
        for found in pattern.finditer(text)
    )


def _is_known(behind: str, sheet: Sheet) -> bool:
    """True if what is counted, the words behind a number, has a value in an output."""
    words = _names_beside(behind.split()[:3])
    return not words or any(x in sheet.names for word in words for x in terms_of(word))


def _is_longer(cell: Cell, near: dict[str, float], sheet: Sheet) -> bool:
    """True if a name says more than is said: "replicas" is not what "maxReplicas" names."""
    extra = sheet.longer.get(cell.label)
    return extra is not None and near.keys().isdisjoint(extra)


def _misread(
    values: list[Value],
    near: dict[str, float],
    around: tuple[str, str],
    sheets: list[tuple[int, Sheet]],
) -> Iterator[tuple[str, int, str | None]]:
    """Yield why the first of some values is none of those of outputs that are named beside it."""
    told, whole, *_ = values
    scored = [(n, at, one, x) for at, one in sheets for n, x in _scored(told, near, one)]
    best, at, sheet, _ = max(scored, key=lambda x: x[0], default=(0.0, *sheets[0], None))
    cells = [x for n, place, _, x in scored if n > best - 0.25 and place == at]
    # The whole of "3 of 9" is told beside; "line 4" is one of "10 lines".
    cells = [x for x in cells if whole is told or not is_same(whole, x.value)]
    cells = [x for x in cells if not (around[0].endswith("line ") and "lines" in x.head)]
    if len(cells) > 1:
        # What has all the names of another value, and more that are said, is meant.
        loud = {term for term, n in near.items() if n > 0.8}
        labels = [(x.label, x.row & loud) for x in cells]
        less = [
            any((a == x and b < y) or (a < x and not loud.isdisjoint(x - a)) for x, y in labels)
            for a, b in labels
        ]
        cells = [x for x, fewer in zip(cells, less, strict=True) if not fewer]
    part = " ".join(around)
    state = told.kind == "state"
    if not cells or any(is_same(told, x.value) for x in cells):
        return
    # "It ended in a 500."
    apart = _DENY.search(part) or _NO_COUNT.search(around[0]) or _says(_NEW, part, sheet)
    if apart and not state:
        return
    names, heads = [x.label for x in cells], {x.head for x in sheet.cells}
    holders = [(place, x) for _, place, _, x in scored if is_same(told, x.value)][:9]
    if state:
        bad = best >= 1 and len({x.head for x in cells}) == 1
        bad = bad and not _says(_SUPPOSED, told.said.join(around), sheet)
    elif len(cells) > 1 and told.kind == "" and told.size in range(1, len(heads) + 1):
        bad = False  # so many lines may be what it counts
    elif holders and (told.size or _is_known(around[1], sheet)):
        # Several things may be told at once: "4 of 5 pass; test 3 fails".
        one = len({x.head for x in cells}) == 1 or bool(names[0].intersection(*names[1:]))
        bad = one and at in dict(holders) and not any(x[1] for x in _DERIVES.finditer(part))
        bad = bad and all(any(_is_named(near, x, y, sheet) for x in cells[:9]) for _, y in holders)
    else:
        like = any(is_similar(told.said, x.value.said) for x in cells)
        # The other part of a whole that is told with its name is no part that follows.
        named = [x for x in cells if all(near.get(t, 0) > 0.8 for t in x.label if t.isalpha())]
        wholes = [x for x in sheet.cells if whole is not told and is_same(whole, x.value)]
        of_wholes = {(x.head, x.value.kind) for x in wholes}
        part_of = any((x.head, x.value.kind) in of_wholes for x in named)
        alone = told.kind == cells[0].value.kind != "" or not sheet.names
        bad = best >= 0.9 or (like and (best > 0.5 or alone))
        bad = bad and told.kind != "day" and not _says(_SUPPOSED, part, sheet)
        bad = bad and (part_of or _foreign(values, around, sheet, cells))
    if bad:
        true = " and ".join(dict.fromkeys(x.value.said for x in cells))
        true, other_unit = ("it in another unit", True) if true == told.said else (true, False)
        why = f"says {told.said} for {cells[0].head[:60]!r}, the output at {at} says {true}"
        yield why, at, None if state else "" if holders or other_unit else told.said


def _is_named(near: dict[str, float], cell: Cell, holder: Cell, sheet: Sheet) -> bool:
    """True if the words of a value are said beside a told one, and not those of its holder."""
    for_it = against = 0.0
    apart = cell.head != holder.head
    same = cell.value.kind == holder.value.kind and holder.label | holder.row
    if _is_longer(holder, near, sheet):
        holder = holder._replace(label=frozenset())
    for term, weight in near.items():
        mine, theirs = (2 * (term in x.label) or apart * (term in x.row) for x in (cell, holder))
        for_it = max(for_it, weight) if mine > theirs else for_it
        against = max(against, weight) if theirs > mine else against
    return for_it >= 0.9 and against < for_it / 2 and bool(same)


def _foreign(values: list[Value], around: tuple[str, str], sheet: Sheet, cells: list[Cell]) -> bool:
    """True if a told value is clearly of some of an output's, and follows from none of them."""
    told, true = values[0], [x.value for x in cells]
    names = {term for x in cells for term in (*x.label, *x.row)}
    nouns = {x for word in _names_beside(around[1].split()[:3]) for x in terms_of(word)}
    beside = any(not nouns.isdisjoint(x.label) for x in cells)
    ahead = [x for x in TOKEN.findall(around[0]) if x.casefold() not in EMPTY][-2:]
    named = any(not names.isdisjoint(terms_of(word)) for word in ahead)
    similar = any(is_similar(told.said, x.said) for x in true)
    if told.kind == true[0].kind == "" and told.size:
        # Of one form and size; what is counted must be what the output counts.
        form = [x for x in true if "." in told.said or x.size % 1 == 0]
        known = beside or (named and not nouns)
        # Years are similar by chance: the word before one says of what.
        dated = beside or not names or not names.isdisjoint(terms_of("".join(ahead[-1:])))
        if around[0].endswith(" in ") and not dated:
            return False
        if not form or not (similar or (known and not 1900 < told.size < 2100)):
            return False
    elif told.kind == true[0].kind == "" and not (beside or (named and not nouns)):
        return False
    free = beside or similar or told.size == 0
    derived = (x for x in _DERIVES.finditer(" ".join(around)) if x.lastindex or not free)
    if any(names.isdisjoint(terms_of(x[0])) for x in derived):
        return False
    if told.size and told.said in sheet.others:
        return False
    return not _follows(values, sheet, cells, free=free)


def _follows(values: list[Value], sheet: Sheet, cells: list[Cell], *, free: bool) -> bool:
    """True if a told value is a sum, difference, share or multiple of what is beside it."""
    told, _, *others = values
    alike = [x for x in sheet.cells if x.value.kind == cells[0].value.kind]
    few = alike if len(alike) < 9 and (told.kind or "." in told.said) else []
    terms = few or [
        x for x in alike if any(x.head == y.head or x.label == y.label for y in cells[:9])
    ]
    sizes = [*dict.fromkeys([x.value.size for x in terms])][: 0 if free else 30]
    said = [x.size for x in others if x is not told and x.kind in ("", told.kind)]
    made = {a * b for a, b in permutations(said, 2)} | {sum(x.value.size for x in cells)}
    named = {term for x in cells[:9] for term in x.label}
    made |= {sum(x.value.size for x in alike if term in x.label) for term in named}
    made |= {100 - x.value.size for x in terms if told.kind == "%"}
    line = [x.value.size for x in alike if x.head == cells[0].head and x.label <= cells[0].label]
    made |= {a - b for a, b in permutations(line, 2) if len(line) < 4}
    for a, b in permutations([*said, *sizes], 2) if sizes else ():
        made |= {a + b, a - b} | {a * b + x for x in sizes[:12] if a in said and a % 1 == 0}
        if b and (told.kind == "" or told.kind != cells[0].value.kind):
            made |= {a * b, a / b, 100 * a / b, 100 - 100 * a / b}
    return any(is_same(told, told._replace(size=x, said="")) for x in made if x > 0)


def _wrong_extreme(
    most: re.Match[str], near: set[str], sheets: list[tuple[int, Sheet]]
) -> Iterator[tuple[str, int, str | None]]:
    """Yield what is told to have the largest or smallest value of a column, and has not."""
    for at, sheet in sheets:
        cells = [x for x in sheet.cells if x.value.kind in ("", "s", "B", "%")]
        lines = [{x.head for x in cells if term in x.row | x.label} for term in near]
        named = set().union(*(x for x in lines if len(x) == 1))
        own = [x for x in cells if {x.head} == named]
        best = max([len(near & x.label) for x in own], default=0)
        own = [x for x in own if best and len(near & x.label) == best] if len(own) > 1 else own
        if len(own) == 1 and stem_of(most[0]) not in sheet.names:
            column = [x for x in cells if x.label == own[0].label]
            if len(column) == 1 and len(cells) == len({x.head for x in cells}):
                column = [x for x in cells if x.value.kind == own[0].value.kind]
            sizes = [x.value.size for x in column if "total" not in x.row | x.label]
            if own[0].value.size != (max if most[1] else min)(sizes, default=own[0].value.size):
                name = f"{own[0].head[:60]!r} as the {most[0]}"
                yield f"says {name}, the output at {at} has another", at, None
            return


def _not_well(told: str, output: tuple[int, Sheet]) -> Iterator[tuple[str, int, str | None]]:
    """Yield that all is told to be well where the latest output says that one of several is not."""
    at, sheet = output
    states = [x for x in sheet.cells if x.value.kind == "state"]
    failed = [x for x in states if x.value.said.casefold().startswith("fail")]
    if failed and len({x.head for x in states}) > 1:
        yield f"says {told!r}, the output at {at} says {failed[0].head[:60]!r}", at, None
