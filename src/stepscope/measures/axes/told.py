"""What the agent tells besides amounts: dates, addresses, names of things, lines of an output.

Each must come from what was said before the message: a user, the policy, a result, a call of the
agent's that was traced itself. An example ("such as ...") names nothing. A date may be counted from
one that was said. Only names are judged whose form the results use, so that a model number is no
reservation. A line of an output pairs one number with one label; telling a label with the number of
another line is a misreading.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise, permutations
from typing import NamedTuple, TypeAlias

from stepscope.measures.axes.evidence import Evidence
from stepscope.measures.axes.quantities import (
    MONTHS,
    is_identifier,
    names_in,
    ordinal,
    plain_number,
)
from stepscope.measures.completeness import gaps_of, hiding_gap
from stepscope.measures.rule import Fault, cached_by_text
from stepscope.model import Step, Trajectory

# So many days from a date that was said another one may be counted without saying how.
COUNTED_DAYS = 3
# Longer outputs are data, and labels in them are words by chance.
MOST_LINES = 60
# So many missing files are looked for: each time in the whole run.
MOST_NAMES = 50
# Longer words beside a command are about other things, too.
MOST_PROSE = 160
# Outputs with longer lines are pages.
LINE_CHARACTERS = 200
# More words are no name of a value; a part of a line that has one may be twice as long.
LABEL_WORDS = 4

_MONTH = "|".join(f"{name}|{name[:3]}" for name in MONTHS)
# The same without names of months: found in less time.
_DIGITS = re.compile(
    r"\b(?=\d)(?:(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)|(?P<us>\d{1,2}/\d{1,2}/\d{4})"
    r"(?P<month>)(?P<year>)(?P<year2>))(?![\w-])"
)
_DATE = re.compile(
    rf"(?i)\b(?=\d|[jfmasond][aepuco][nbrylgptvc])(?:"
    rf"(?P<y>\d{{4}})-(?P<m>\d\d)-(?P<d>\d\d)|(?P<us>\d{{1,2}}/\d{{1,2}}/\d{{4}})|"
    rf"(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<year>\d{{4}}))?|"
    rf"(?P<day2>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<month2>{_MONTH})\b(?:,? (?P<year2>\d{{4}}))?"
    r")(?![\w-])"
)
# What a text looks like with every digit a 0 and every capital an A.
_SHAPE = bytes.maketrans(b"123456789BCDEFGHIJKLMNOPQRSTUVWXYZ", b"0" * 9 + b"A" * 25)
# Beside a day the end of a month's name, or its begin; without both there is no date by words.
_BY_DAY = re.compile(
    r"(?i)\d(?:(?<=[aceilnoprsu][bceghlnprtvy] \d)|(?<=[aceilnoprsu][bceghlnprtvy]\. \d)|"
    r"(?=\d?(?:st|nd|rd|th)? (?:of )?[jfmasond][aepuco][nbrylgptvc]))"
)
_STARTS = tuple(name[:3] for one in MONTHS for name in (one.capitalize(), one))
_EMAIL = re.compile(r"[\w.+*-]+@[\w-]+(?:\.[\w-]+)+")
# A house number and a street: words that begin with a capital, the last of a kind of way.
_STREET = re.compile(
    r"\b(\d{1,5}) ((?:[A-Z][\w'.-]+ ){1,4})(?:St(?:reet)?|Ave(?:nue)?|R(?:oa)?d|Lane|Ln|Drive|Dr|"
    r"Court|Ct|Boulevard|Blvd|Way|Place|Pl|Terrace|Square|Sq|Parkway|Highway|Circle|Close|Crescent|"
    r"Row|Walk|Trail|Alley|Plaza)\b"
)
# The end of an address: a state and its postal code.
_POSTCODE = re.compile(r"\b[A-Z]{2},? (\d{5})\b(?:-\d{4})?")
# By what it is called: "the confirmation code is QX7-LPN".
_CALLED = re.compile(
    r"(?i)\b(?:reference|ref|confirmation|case|ticket|tracking|claim|receipt|number|code|id)\b"
    r"[^.!?\n\d]{0,30}$"
)
_EXAMPLE = re.compile(
    r"(?i)\b(?:e\.g|for example|for instance|such as|format|example|placeholder)\b[^.\n]*$|"
    r"\blike\W*$"
)
_COUNTED = re.compile(
    r"\b(?:business )?(?:days|weeks|months|years)\b|\b(?:week|month|year)\b", re.IGNORECASE
)


def find_untraced(
    text: str, before: int, evidence: Evidence, cites: tuple[int, ...], known: set[str]
) -> tuple[int, list[Fault]]:
    """Return how many dates, addresses and names a text of a step tells, and those without origin.

    `known` collects the dates that have one: they may be told again.
    """
    checked = 0
    faults: list[Fault] = []
    for what, said, sought, match in _traceable(text):
        if match is None:
            trace = evidence.trace if what == "name" else evidence.said
            is_traced = trace(sought, before) is not None
            if not is_traced and what == "name" and not _is_name(said, text, before, evidence):
                continue
        elif said in known or (told := _date_in(match)) is None:
            continue
        elif is_traced := _is_date_traced(told, match, before, evidence):
            known.add(said)
        checked += 1
        known_fault = any(said in one.reason for one in faults)
        if not (is_traced or known_fault or evidence.why_unknown(before)):
            at = text.find(said)
            line = text[text.rfind("\n", 0, at) + 1 : at]
            if not _EXAMPLE.search(line):
                why = f"tells the {what} {said}, which nothing before says"
                faults.append(Fault(before, why, cites))
    return checked, faults


# What may need an origin: its kind, itself, what is looked for, and of a date the match.
_Traceable: TypeAlias = tuple[str, str, str, re.Match[str] | None]


@cached_by_text
def _traceable(text: str) -> list[_Traceable]:
    found: list[_Traceable] = []
    if "@" in text:
        emails = dict.fromkeys([found.strip("*") for found in _EMAIL.findall(text)])
        # "m***01@example.com" hides what it says.
        found += [("e-mail address", x, x, None) for x in emails if "*" not in x]
    # Without certain pairs there is no name and no address, by far the cheaper to look for.
    shape = text.encode().translate(_SHAPE)
    if b"0" not in shape:
        return found
    if b"0 A" in shape:
        for x in _STREET.finditer(text):
            found.append(("street address", x[0], f"{x[1]} {x[2].strip()}", None))
    if b"AA 00000" in shape or b"AA, 00000" in shape:
        found += [("postal code", x[0], x[1], None) for x in _POSTCODE.finditer(text)]
    by_words = _BY_DAY.search(text) is not None and any([x in text for x in _STARTS])
    if by_words or b"0000-00" in shape or b"0/0" in shape:
        dates = {x[0]: x for x in (_DATE if by_words else _DIGITS).finditer(text)}
        found += [("date", said, "", x) for said, x in dates.items()]
    return found + [("name", x, x, None) for x in names_in(text)]


def _is_name(said: str, text: str, before: int, evidence: Evidence) -> bool:
    """True if a text is the name of one thing: by its form, or by what it is called."""
    digits = [sign for sign in said if sign.isdigit()]
    if len(digits) > 4 and len(set(digits)) == 1:
        return False  # #W0000000 is an example of the form
    return (
        is_identifier(said)
        or (len(said) > 4 and _CALLED.search(text[: text.find(said)]) is not None)
        or (not said.strip("#").isdigit() and evidence.says_form(form_of(said), before, _forms_in))
    )


def _forms_in(text: str) -> set[str]:
    return {form_of(name) for name in names_in(text) if 4 < len(name)}


def form_of(name: str) -> str:
    """Return what names of one kind have in common: their length, and the words before a number."""
    bare = name.removeprefix("#")
    return re.sub(r"\d", "9", bare) if "_" in bare else str(len(bare))


def _is_date_traced(told: date, match: re.Match[str], before: int, evidence: Evidence) -> bool:
    yearly = any(match[part] for part in ("y", "us", "year", "year2"))
    return (
        is_date_near(evidence, told, before, COUNTED_DAYS, yearly=yearly)
        or _COUNTED.search(_sentence(match)) is not None
        or is_day_said(evidence, told, before)
    )


def dates_in(text: str) -> set[str]:
    """Return month and day of the dates that a text says (MM-DD)."""
    found = map(_date_in, _DATE.finditer(text))
    return {one.isoformat()[5:] for one in found if one is not None}


def is_day_said(evidence: Evidence, told: date, before: int) -> bool:
    """True if somebody spoke of the day of the month alone: "the 6th"."""
    return evidence.said(f"the {told.day}{ordinal(told.day)}", before) is not None


def _sentence(match: re.Match[str]) -> str:
    text = match.string
    begin = max(text.rfind(sign, 0, match.start()) for sign in (". ", "\n", "! ", "? ")) + 1
    ends = [at for sign in (". ", "\n") if (at := text.find(sign, match.end())) >= 0]
    return text[begin : min(ends, default=len(text))]


def _date_in(match: re.Match[str]) -> date | None:
    """Return the date that a match says; without a year, in a leap year."""
    try:
        if match["y"]:
            return date(int(match["y"]), int(match["m"]), int(match["d"]))
        if match["us"]:
            month, day, year = map(int, match["us"].split("/"))
            return date(year, month, day) if month <= 12 else date(year, day, month)
        name = (match["month"] or match["month2"]).casefold()[:3]
        number = next(n for n, one in enumerate(MONTHS, 1) if one.startswith(name))
        day = int(match["day"] or match["day2"])
        return date(int(match["year"] or match["year2"] or 2000), number, day)
    except ValueError:
        return None


def is_date_near(
    evidence: Evidence, told: date, before: int, most: int, *, yearly: bool = True
) -> bool:
    """True if a date was said before a step, or one no more than `most` days from it."""
    for distance in range(most + 1):
        year = evidence.latest_year if distance and not yearly else ""
        for days in {distance, -distance}:
            try:
                near = told + timedelta(days=days)
            except OverflowError:
                continue
            iso = near.isoformat()
            # In the year that the run is about: a birthday is no day to count from.
            if not yearly and evidence.holds(year + iso[4:], before) is not None:
                return True
            if evidence.date(iso, before) is not None:
                return True
    return False


def says_dates(evidence: Evidence, before: int) -> bool:
    """True if any date was said before a step: without one, what others count from is unknown."""
    return any(_DATE.search(text) for text in evidence.texts(before))


def date_of(iso: str) -> date | None:
    """Return the date that a text is, None where the calendar has no such day."""
    try:
        return date.fromisoformat(iso[:10])
    except ValueError:
        return None


_PREFIX = re.compile(r"\A(?:\w+ output:\s*|[|\s]+|File |\d+[.)] +|[-*#]+ +)", re.IGNORECASE)
# A number or a version, with its unit: "1,204", "12.4ms", "88%", "2.31.0", "61-88", "1/3".
_NUMBER = re.compile(
    r"(?<![\w,.])(?<![a-z]/)(?!(?<=[A-Za-z]-)\d{1,3}(?![\d.]))[-+]?[$\u20ac]?(\d[\d,]*(?:\.\d+)*(?:[-\u2013/]\d+(?:\.\d+)*)*)"
    r"(?:%|[A-Za-z]{1,2}\b)?(?![\w-]|[.,:/]\w)"
)
# Columns of a table, and parts of a line that is none.
_COLUMNS = re.compile(r"\s{2,}|\t|\s*\|\s*|,(?! )")
_PARTS = re.compile(r"[,;.]\s+|\s{2,}|\t|\s*[|()\[\]]\s*")
_HEAD = re.compile(r"[A-Za-z_%][^\d:=]{0,40}")
_RULE = re.compile(r"[-+=|: ]*")
_LISTED = re.compile(r"[-dl][rwxst-]{9}\S* +\d+ +\S+ +\S+ +(\d\S*) (?:.* )?(\S+)")
# "valid: 31", "NODE_ENV=staging", "app.log:3", "a.py | 3": what is named stands before it.
_PAIR = re.compile(
    r"[\"'*]*([^\s:=\"'][^:=\"'|(]{0,59}?(?:\([^()]*\))?)[\"'*]*"
    r"\s*(?:[:|] |[:=](?![/: ])|= )\s*(\S.*)"
)
# "C,9", "Tue 12"; "No matches found"; "pass: 18" twice on a line; what one number is.
_NAME_NUMBER = re.compile(r"([A-Za-z]\w*)[, ](-?\d+(?:\.\d+)?)")
_NO_SUCH = re.compile(r"(?i)\A(?:no|0) (\w{4,})(?: (?:were|was|are))?(?: (?:found|left))?[.!]?\Z")
_DIGIT, _NUMBERED = re.compile(r"\d"), re.compile(r"\w: ?\d")
_ANSWERS = ("result", "answer", "output")
_ITEM = re.compile(r"[\"']([^\"{}:]{1,40})[\"']: ?[\"']?([^\"',{}\[\]]+)[\"']?(?=[,}])")
# "18 of 20 tests passed" is one value of two numbers.
_OUT_OF = re.compile(r"(?<=\d) (?:out )?of (?:the )?(?=\d)")
# "86 of 120": the second number is of them all.
_OF_ALL = re.compile(
    r"(?i)((?:\d|\b(?:all|any|few|half|many|most|no|none|one|out|quarter|some|third))\D{0,24}) "
    r"(?:of|among) (?:\w+ )?(\d[\d,]*)"
)
_ENDINGS = re.compile(r"(?:ions?|able|ings?|ed|e?s|ures?)$")
# What outputs and people call the same.
_SAME_STEMS = {"insert": "add", "delet": "remov", "succ": "pass", "success": "pass", "ok": "pass"}
_SAME_STEMS |= {"mismatch": "differ", "disagre": "differ", "match": "agr", "sam": "agr"}
_SAME_STEMS |= {"averag": "mean", "avg": "mean", "maximum": "max", "minimum": "min"}
_SAME_STEMS |= {"deviat": "std", "validat": "val", "destroy": "remov", "column": "col"}
_SAME_STEMS |= {f"{day}day": day[:3] for day in "mon tues wednes thurs fri satur sun".split()}
_SAME_STEMS |= {"second": "s", "sec": "s", "millisecond": "ms", "minut": "min", "took": "elaps"}
_COUNTS = {"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
           "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12"}  # fmt: skip
_COUNT = re.compile(rf"(?<!first )\b(?:{'|'.join(_COUNTS)})\b(?=\W+[a-z])", re.IGNORECASE)
# "With 12 hits, B leads": the number stands before what it is of.
_WITH = re.compile(r"(?im)(^|[.!?;] )(with|at|by) ([^,;.\n]*\d[^,;.\n]*), ")
# "is it not?", behind what is told.
_TAG = re.compile(r",\s*\w+n['\u2019]t\s+\w+(?=\?)")
# What is told of no output: code, the number of an entry.
_APART = re.compile(r"```.*?(?:```|\Z)|^\W*\d+[.)](?=\s)", re.DOTALL | re.MULTILINE)
_BESIDE = re.compile(r" \((\w+)\)")
_CLAUSE = re.compile(r"[.;!?](?:\s|$)|\n|, | while | whereas | but | and |[()]")
_COMPARES = re.compile(
    r"(?i)\b(?:more|fewer|less|not|than|minus|compared|difference|other|instead|if|would|should|"
    r"expected|without|except|total|together|both|step)\b|n['\u2019]t\b"
)
# What is meant to be done, was once, is not, or is told as about.
_PLANS = re.compile(
    r"(?i)\b(?:i|we|let|will|can|need\w*|about|around|roughly|nearly|almost|some|over|under|least|"
    r"approximately|most|no|none|never|had|before|until|once|when)\b|~"
)
# What a clause begins with that goes on with what was named last.
_GOES_ON = frozenset("it its that they their these this those which with at by hav has".split())
# What stands between a name and its number, and behind a number that is all.
_COPULA = frozenset("is are was as a an".split())
_LINKS = _COPULA | frozenset(
    "of to at set the now only has com cam back consist in by on up add it".split()
)
_UNITS = frozenset(
    "% percent lin second minut day byt kb mb gb ms tim point degre km m s min out".split()
)
_WORDS = re.compile(r"[^\W\d_]{3,}(?:[ -]\(?[^\W\d_]+\)?)*")
_KEY = re.compile(r"[^\s:,;()\[\]{}\"'`*|=]+")
_LABEL = re.compile(rf"(?!.*[+;{{}}<>\\]|error$)(?:\S+(?: \S+){{0,{LABEL_WORDS - 1}}})?", re.I)
_PIECE = re.compile(r"[^\W\d_]{3,}")
# Outputs before a message that it may tell of.
LATEST_OUTPUTS = 3


class Cell(NamedTuple):
    """A value of an output, and what it is of: the name of its line, and of its column."""

    row: str
    column: str
    value: str


class Sheet(NamedTuple):
    """The values of an output, with the stems that name one line, or one column, and no other.

    `signs` are the texts of which a message has one that says such a stem.
    """

    cells: list[Cell]
    rows: dict[str, str]
    columns: dict[str, str]
    numbers: set[str]
    signs: set[str]


@lru_cache(maxsize=64)
def _sheet_of(output: str) -> Sheet | None:
    """Return the values that an output names, None of data and of what names none."""
    if len(output) > LINE_CHARACTERS and "\n" not in output[:LINE_CHARACTERS]:
        return None
    lines = output.splitlines() if output[:2] not in ("[{", "{\n") else []
    if len(lines) > MOST_LINES or max(map(len, lines), default=0) > LINE_CHARACTERS:
        return None
    cells = [x for x in _cells_of(lines) if _LABEL.fullmatch(x.row) and _LABEL.fullmatch(x.column)]
    rows, columns = _keys_of([x.row for x in cells]), _keys_of([x.column for x in cells])
    numbers = {number for cell in cells for number in _numbers_in(cell.value)}
    stems = {key.partition(" ")[0] for key in (*rows, *columns)} - {""}
    signs = stems | {word for word, stem in (_SAME_STEMS | _COUNTS).items() if stem in stems}
    return Sheet(cells, rows, columns, numbers, signs) if rows or columns else None


def _cells_of(lines: list[str]) -> Iterator[Cell]:
    """Yield the values of a text: of tables below their heads, else of each line by itself."""
    heads: list[str] = []
    above = ""
    several = sum([line[:1] == "{" for line in lines]) > 1
    for line in lines:
        bare = _PREFIX.sub("", line.strip(" |"), count=1)
        if bare[:1] == "{":
            items = _ITEM.findall(bare) if not several else ()
            yield from (Cell(key.replace("_", " "), "", one.lower()) for key, one in items)
        elif not _RULE.fullmatch(bare):
            parts = [part for part in _COLUMNS.split(bare) if part]
            row = _row_of(heads, bare, parts) if heads else []
            if not row:
                heads = parts if len(parts) > 1 and all(map(_HEAD.fullmatch, parts)) else []
                single = [above] if above else _ANSWERS if len(lines) == 1 else []
                row = [Cell(one, "", bare) for one in single] if _NUMBER.fullmatch(bare) else []
                above = bare if _HEAD.fullmatch(bare) else ""
            yield from row or (_cells_in(bare) if not heads else ())


def _row_of(heads: list[str], line: str, parts: list[str]) -> list[Cell]:
    """Return the values of a line of a table: one for each head, or one more at its beginning."""
    if len(parts) not in (len(heads), len(heads) + 1):
        heads, parts = " ".join(heads).split(), line.split()
    extra = len(parts) - len(heads)
    name = next((part for part in parts if not part[0].isdigit()), "")
    if extra not in (-1, 0, 1) or not name:
        return []
    pairs = zip(heads, parts[max(extra, 0) :], strict=False)
    return [Cell(name, head, part.lower()) for head, part in pairs if part != name]


def _cells_in(line: str) -> Iterator[Cell]:
    """Yield the values of a line: pairs of a name and a value, "N things" and "thing N"."""
    line = _OUT_OF.sub("/", _LISTED.sub(r"\2: \1", line))
    if (one := _NAME_NUMBER.fullmatch(line)) is not None or (one := _NO_SUCH.search(line)):
        yield Cell(one[1], "", one[2] if one.lastindex == 2 else "0")
        return
    pair = _PAIR.fullmatch(line)
    several = pair is not None and line.count("=") > 1 and "=" in line[: pair.start(2)]
    several = several or len(_NUMBERED.findall(line)) > 1
    name, rest = ("", line) if pair is None or several else pair.groups()
    if name and (len(_numbers_in(rest)) == 1 or (len(rest.split()) < 4 and "=" not in rest)):
        yield Cell(name, "", rest.lower())
    else:
        parts = [part for part in _PARTS.split(rest) if _KEY.search(part)]
        if not name and parts and not _NUMBER.search(parts[0]):
            name = parts.pop(0)
            first, *last = name.split()
            if len(last) == 1 and not parts:
                yield Cell(first, "", last[0].lower())
            elif len(parts) == 1 and _WORDS.fullmatch(parts[0]):
                yield Cell(name, "", parts[0].lower())
        for part in parts:
            for label, number in _counts_in(part) if part.count(" ") < 2 * LABEL_WORDS else ():
                yield Cell(name or label, label if name else "", number)


def _counts_in(part: str) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a part of a line, each with the words that may be its name."""
    found = list(_NUMBER.finditer(part))
    ends = [0, *(one.end() for one in found)]
    starts = [*(one.start() for one in found), len(part)]
    names = [
        part[end:start].strip(" =:@.").split() for end, start in zip(ends, starts, strict=True)
    ]
    # Which number a word between two is of: by what the part begins or ends with.
    first = not names[-1] and all(len(words) == 1 for words in names[1:-1])
    for (before, behind), one in zip(pairwise(names), found, strict=True):
        left, right = [before[-LABEL_WORDS:]], [behind[:LABEL_WORDS]]
        for words in left if first else right if names[-1] else left + right:
            yield " ".join(words), one[0].lower()


def _keys_of(labels: list[str]) -> dict[str, str]:
    """Return the names that one of some labels has, and no other, with the label."""
    every = {(name, label) for label in labels for name in _names_of(label)}
    counts = Counter(name for name, _ in every)
    return {
        name: label for name, label in every if counts[name] == 1 or name == _stem(label.lower())
    }


@lru_cache(maxsize=4096)
def _names_of(label: str) -> set[str]:
    """Return the words, file names and pairs of words that a label may be called by."""
    words = [_stem(word) for word in _KEY.findall(label.casefold())]
    names = {f"{one} {two}" for one, two in pairwise(words)} or {*words}
    names.add(label.casefold().replace("_", " "))  # "sensor 1" is sensor_1
    for word in words:
        file = word.rpartition("/")[2]
        names |= {name for name in (word, file, file.partition(".")[0]) if len(name) > 2}
        names |= {_stem(name) for name in _PIECE.findall(file)}
    return names - _LINKS - _GOES_ON


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """Return a word without its ending, of words for one thing the same: "adds" is "add"."""
    word = word.rstrip(".!?").removesuffix("(+)").removesuffix("(-)")
    bare = _ENDINGS.sub("", word, count=1) if "." not in word else ""
    stem = (bare if len(bare) > 1 else word).rstrip("e")
    return _SAME_STEMS.get(stem, stem)


@lru_cache(maxsize=1024)
def _numbers_in(text: str) -> tuple[str, ...]:
    """Return the numbers and versions of a text, one text for each: "1,204.50" is "1204.5"."""
    found = [
        x for one in _NUMBER.findall(text) for x in re.split("[-\u2013/]", one.replace(",", ""))
    ]
    return tuple([x if x.count(".") > 1 or len(x) > 20 else plain_number(float(x)) for x in found])


def find_misread_lines(trajectory: Trajectory, evidence: Evidence) -> Iterator[Fault]:
    """Yield the values that the agent tells otherwise than the outputs before it.

    A clause is of the latest output that has a name in it. What it tells of one line, one column,
    or one line of a column must stand there; not so what is compared, calculated or denied.
    """
    sheets: list[tuple[int, Sheet]] = []
    for step in trajectory.steps:
        if step.actor == "agent" and sheets and step.text:
            yield from _misread_in(step, sheets, evidence)
        if step.results or step.actor == "environment":
            texts = [result.text for result in step.results] or [step.text]
            found = [(step.index, one) for text in texts if (one := _sheet_of(text)) is not None]
            sheets = [*reversed(found), *sheets][:LATEST_OUTPUTS]


def _misread_in(
    step: Step, sheets: Sequence[tuple[int, Sheet]], evidence: Evidence
) -> Iterator[Fault]:
    low = step.text.casefold()
    if not any([sign in low for _, one in sheets for sign in one.signs]):
        return
    text = _BESIDE.sub(r" \1 ", _APART.sub("", step.text))
    text = _COUNT.sub(lambda said: _COUNTS[said[0].lower()], text)
    nobody: tuple[list[Cell], set[str]] = ([], set())
    at, sheet, last = *sheets[0], nobody
    for clause in _CLAUSE.split(_WITH.sub(r"\1\2 \3 ", _TAG.sub("", text))):
        whole, part = _OF_ALL.search(clause), _OF_ALL.sub(r"\1", clause, count=1)
        words = [stem for word in _KEY.findall(part.casefold()) if (stem := _stem(word))]
        of = _numbers_in(whole[2]) if whole is not None else ()
        named = ((*one, _named(one[1], words, of)) for one in sheets)
        found = next((one for one in named if one[2][1]), None)
        if found is not None:
            at, sheet, (cells, keys) = found
        else:
            goes_on = words and (words[0] in _GOES_ON or (words[0][0].isdigit() and len(words) < 3))
            cells, keys = last if goes_on else nobody
        numbers = _numbers_in(part)
        told = [number for number in numbers if number not in keys]
        last = nobody if told else (cells, keys) if keys else last
        page = cells and "pag" in words and "pag" not in keys and "page" not in cells[0].value
        if (
            not cells
            or page
            or any(_stem(x) not in keys for x in _COMPARES.findall(clause.lower()))
        ):
            continue
        true = {number for cell in cells for number in _numbers_in(cell.value)}
        true -= {*of} if len(cells) == 1 and len(true) == 2 else set()
        known = [number for number in told if number in sheet.numbers]
        wrong = known[0] if len(known) == 1 and true and known[0] not in true else ""
        if not known and not _PLANS.search(clause):
            if not told:
                wrong = _other_word(sheet, cells, words, keys, clause.casefold().strip(" ."))
            elif len(told) == 1 == min(len(true), len(cells)) and _is_beside(told[0], words, cells):
                said_before = evidence.said(told[0], step.index) is not None
                wrong = "" if said_before or _follows(told[0], sheet) else told[0]
        if wrong:
            name = f"{cells[0].row} {cells[0].column}".strip()
            said = " and ".join(dict.fromkeys(cell.value for cell in cells))
            why = f"tells {wrong} for {name!r}, the output at {at} says {said}"
            yield Fault(step.index, why, (at,))


def _named(sheet: Sheet, words: list[str], of: tuple[str, ...]) -> tuple[list[Cell], set[str]]:
    """Return the values that words name, none where several lines, and the words that do.

    Of several lines the one is meant whose name stands right behind a number; never that of which
    all the others are a part.
    """
    pairs = [*pairwise(words)]
    names = [*words, *(f"{one} {two}" for one, two in pairs)]
    rows, columns = ({every[x] for x in names if x in every} for every in sheet[1:3])
    for labels in (rows, columns):  # "validation loss" is no "loss"
        pieces = {label: {*_PIECE.findall(label)} for label in labels if len(labels) > 1}
        labels -= {x for x in pieces if any(pieces[x] < other for other in pieces.values())}
    if of:
        of_it = [x for x in sheet.cells if of[0] in _numbers_in(x.value) and "/" not in x.value]
        rows -= {cell.row for cell in of_it}
    if len(rows) > 1:
        rows = rows & {sheet.rows.get(two, "") for one, two in pairs if one[0].isdigit()} or rows
    keys = {w for x in names if x in sheet.rows or x in sheet.columns for w in x.split()}
    if not rows | columns or max(len(rows), len(columns)) > 1:
        return [], keys if rows | columns else set()
    found = [cell for cell in sheet.cells if cell.row in (rows or [cell.row])]
    return [cell for cell in found if cell.column in (columns or [cell.column])], keys


def _other_word(
    sheet: Sheet, cells: list[Cell], words: list[str], keys: set[str], clause: str
) -> str:
    """Return a word that the same column says of another line, or that the value denies."""
    for cell in cells:
        own = set(map(_stem, _KEY.findall(cell.value)))
        if not own.isdisjoint(words):
            continue
        shape = "" if _NUMBER.fullmatch(cell.value) else _DIGIT.sub("9", cell.value)
        same = [x.value for x in sheet.cells if "9" in shape and _DIGIT.sub("9", x.value) == shape]
        for other in same if len(shape) > 3 else ():
            before, found, _ = f" {clause} ".partition(f" {other} ")
            if found and other != cell.value and before.rpartition(" ")[2] in _COPULA:
                return other
        if len(own) > 3 or not _WORDS.fullmatch(cell.value):
            continue
        column = [c.value for c in sheet.cells if c.column == cell.column]
        alike = cell.column or len(set(column)) < len(column)
        others = {_stem(w) for one in column for w in _KEY.findall(one) if _WORDS.fullmatch(w)}
        for word in words:
            if (alike and word in others - keys) or not own.isdisjoint([f"in{word}", f"un{word}"]):
                return word
    return ""


def _is_beside(told: str, words: list[str], cells: list[Cell]) -> bool:
    """True if a number stands beside a name of some values."""
    at = next((n for n, word in enumerate(words) if told in _numbers_in(word)), 0)
    before = [word for word in words[:at] if word not in _LINKS][-1:]
    names = {x for cell in cells for label in cell[:2] for x in _names_of(label)}
    named = not names.isdisjoint(before) and _UNITS.issuperset(words[at + 1 :])
    return named or not names.isdisjoint(words[at + 1 : at + 4])


def _follows(told: str, sheet: Sheet) -> bool:
    """True if a number follows from those of an output: a sum, a share, another unit."""
    terms = [float(number) for number in sheet.numbers if number.count(".") < 2]
    made = {x for a, b in permutations(terms, 2) for x in (a + b, a - b)} | {sum(terms)}
    parts = terms if len(terms) < 9 else [sum(terms), max(terms)]
    made |= {x for a in terms for b in parts if b for x in (a / b, 100 * a / b, 100 - 100 * a / b)}
    made |= {a * b for a in terms for b in (60, 1 / 60, 1e-3, 1000, 1 / 1024, 1024)}
    near = {round(x, n) for x in made for n in (0, 1, 2)} - {0}
    near |= {round(x, n) for x in terms for n in (1, 0, -1, -2, -3) if n >= 0 or round(x, n)}
    return told.count(".") < 2 and float(told) in near


# What an interpreter or a shell names in a line that says that something does not exist.
_ABSENT = re.compile(r"['\"`]([^'\"`\s]{4,})['\"`]|([\w-]*[./_][\w./-]+)")
_DENIAL = re.compile(r"\b[Nn]o |\bnot |nnot |n't |nable |issing ")
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)|\"(?:keystrokes|command)\":[^\n]*", re.DOTALL)
_RUNS = re.compile(
    r"(?:\b(?:python3?|node|bash|sh|source|from|import)\b|\./)((?:\"[^\"\n]*\"|[^\n;|&\"])*)"
)
# Who uses a thing and says so was given it: "the archive that was provided".
_PRIOR = re.compile(
    r"(?i)\b(?:previous|earlier|last|before|above|already|\w{3,}ed|made|given|written|built|shared)\b"
)
# Whoever says so looks for a thing, or makes it.
_SEEKS = re.compile(
    r"(?i)\b(?:check|whether|if|try|look(?:ing)? for|maybe|might|may|perhaps|should|probably|"
    r"exists?|see|find|search|creat\w+|writ\w+|add|will be|new|missing|save\w*)\b"
)


def find_absent_names(trajectory: Trajectory) -> Iterator[Fault]:
    """Yield the files and functions that the agent counts on and that exist nowhere.

    The refusal proves it. Looking whether something is there counts on nothing.
    """
    agent: Step | None = None
    sought: set[str] = set()
    for step in trajectory.steps:
        if step.actor == "agent":
            agent = step
        said = step.text if step.actor == "environment" else ""
        for result in step.results:
            text = result.text
            # An object is no message of a shell.
            said = said if text[:1] in ("{", "[") else f"{said}\n{text}"
        if agent is None or not _DENIAL.search(said):
            continue
        lines = [line for line in said.splitlines() if _DENIAL.search(line)]
        done = "\n".join([agent.text, *(str(call.arguments) for call in agent.calls)])
        for x, line in ((x, one) for one in lines for x in _ABSENT.findall(one)):
            name = (path := "".join(x)).rpartition("/")[2].partition(".")[0]
            if len(name) < 4 or name in sought or name not in done or len(sought) >= MOST_NAMES:
                continue
            # A package that is not installed; a word in capitals is a sign of the protocol.
            if name.isupper() or ("module" in line and "_" not in name):
                continue
            if not _is_counted_on(name, agent.text, done):
                continue
            sought.add(name)
            if not any(_mentions(one, name) for one in trajectory.steps[: agent.index]):
                why = f"counts on {path.rpartition('/')[2]}, which nothing before names"
                why = f"{why}; {step.index} says there is none"
                yield Fault(agent.index, why, (step.index,))
                break


def _is_counted_on(name: str, text: str, done: str) -> bool:
    if any(name in match[1] for match in _RUNS.finditer(done)):
        return True
    prose = _CODE_BLOCK.sub(" ", text)
    said = next((one for one in _SENTENCES.split(prose) if name in one), "")
    if not said and (len(prose) > MOST_PROSE or _PRIOR.search(prose) is None):
        return False
    return _SEEKS.search(said.partition(name)[0] if said else prose) is None


def _mentions(step: Step, name: str) -> bool:
    done = [*(call.arguments for call in step.calls), *(result.text for result in step.results)]
    return name in step.text or any(name in str(one) for one in done)


# A function, or a file of code or data: what stands before is its name.
_NAMED = re.compile(
    r"[(.`](?:(?<=\()\)|(?<=\w`)|(?<=\.)(?:py|js|ts|sh|sql|csv|tsv|json|ya?ml|toml|xml|txt|md|log|xlsx?|db|"
    r"ipynb|rst?|go|java|cfg|conf|ini|pdf|docx?|zip|tar|gz|parquet)\b)"
)
_BEFORE_DOT = re.compile(r"(?<![\w.])[A-Za-z_][\w-]{3,}$")
_SENTENCES = re.compile(r"(?<=[.!?])\s|\n")
# Who says so tells of something that is there.
_GIVEN = re.compile(
    r"(?i)\b(?:already|above|earlier|existing|defined|written|made|has|have|had|contains?|holds?|lists?|"
    r"follows?|exists?|in|from|is|are|was|were|as|like|same|returned|gave|takes|does)\b|"
    r"\b(?:the|this|that|your|our) (?:\w+ ){0,2}\W*\Z"
)


def find_told_nowhere(trajectory: Trajectory) -> Iterator[Fault]:
    """Yield the files and functions told of as given, not sought or written, that nothing names."""
    sought = 0
    done = [step.index for step in trajectory.steps if step.results]
    last = done[-1] if done else len(trajectory.steps)
    for step in trajectory.steps[1:]:
        text = step.text if step.actor == "agent" else ""
        if "```" in text or not _NAMED.search(text):
            continue
        found = ((said, one) for said in _SENTENCES.split(text) for one in _NAMED.finditer(said))
        for said, match in found:
            left = _BEFORE_DOT.search(said[: match.start()])
            if left is None or (match[0][0] in "(`" and "_" not in left[0]):
                continue
            before = said[: left.start()]
            asks = said.endswith("?") and not _TAG.search(said)
            if asks or 'File "' in before or _SEEKS.search(before):
                continue
            # A file in a row of the last report is there.
            row = step.index >= last and not any(map(str.isalpha, before.rpartition(" ")[0]))
            if not (row or _GIVEN.search(said) or _GIVEN.search(before)):
                continue
            name, sought = left[0], sought + 1
            others = (s for s in trajectory.steps if s.index < step.index or s.actor != "agent")
            if sought > MOST_NAMES or name in str([*step.calls, *step.results]):
                continue
            hidden = hiding_gap(gaps_of(trajectory), len(trajectory.steps))
            if not hidden and not any(_mentions(other, name) for other in others):
                why = f"tells of {name}{match[0]}, which nothing before or behind names"
                yield Fault(step.index, why)
