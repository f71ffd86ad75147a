"""What the agent tells besides amounts: dates, addresses, names of things, lines of an output.

Each must come from what was said before the message: a user, the policy, a result, a call of the
agent's that was traced itself. An example ("such as ...") names nothing. A date may be counted from
one that was said. Only names are judged whose form the results use, so that a model number is no
reservation. A line of an output pairs one number with one label; telling a label with the number of
another line is a misreading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise

from stepscope.measures.axes.evidence import Evidence
from stepscope.measures.axes.quantities import (
    MONTHS,
    is_identifier,
    names_in,
    ordinal,
    plain_number,
)
from stepscope.measures.completeness import gaps_of, hiding_gap
from stepscope.measures.rule import Fault
from stepscope.model import Step, Trajectory

# So many days from a date that was said another one may be counted without saying how.
COUNTED_DAYS = 3
# Longer outputs are data, and labels in them are words by chance.
MOST_LINES = 60
# So many missing files are looked for: each time in the whole run.
MOST_NAMES = 50
# Longer words beside a command are about other things, too.
MOST_PROSE = 160
# Longer ones are sentences.
LABEL_CHARACTERS = 60

_MONTH = "|".join(f"{name}|{name[:3]}" for name in MONTHS)
# The same without names of months: found in less time.
_DIGITS = re.compile(
    r"\b(?=\d)(?:(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)|(?P<us>\d{1,2}/\d{1,2}/\d{4})"
    r"(?P<month>)(?P<year>)(?P<year2>))(?![\w-])"
)
_DATE = re.compile(
    rf"\b(?=\d|[jfmasond][aepuco][nbrylgptvc])(?:"
    rf"(?P<y>\d{{4}})-(?P<m>\d\d)-(?P<d>\d\d)|(?P<us>\d{{1,2}}/\d{{1,2}}/\d{{4}})|"
    rf"(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<year>\d{{4}}))?|"
    rf"(?P<day2>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<month2>{_MONTH})\b(?:,? (?P<year2>\d{{4}}))?"
    r")(?![\w-])",
    re.IGNORECASE,
)
# What a text looks like with every digit a 0 and every capital an A: without certain pairs there is
# no name and no address, by far the cheaper to look for.
_SHAPE = bytes.maketrans(b"123456789BCDEFGHIJKLMNOPQRSTUVWXYZ", b"0" * 9 + b"A" * 25)
_MIXED = (b"A0", b"0A", b"_0", b"#0", b"-0", b"00000")
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
    r"\b(?:reference|ref|confirmation|case|ticket|tracking|claim|receipt|number|code|id)\b"
    r"[^.!?\n\d]{0,30}$",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"\b(?:e\.g|for example|for instance|such as|format|example|placeholder)\b[^.\n]*$|\blike\W*$",
    re.IGNORECASE,
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
    for what, said, is_traced in _told(text, before, evidence, known):
        checked += 1
        known_fault = any(said in one.reason for one in faults)
        if not (is_traced or known_fault or evidence.why_unknown(before)):
            at = text.find(said)
            line = text[text.rfind("\n", 0, at) + 1 : at]
            if not _EXAMPLE.search(line):
                why = f"tells the {what} {said}, which nothing before says"
                faults.append(Fault(before, why, cites))
    return checked, faults


def _told(
    text: str, before: int, evidence: Evidence, known: set[str]
) -> Iterator[tuple[str, str, bool]]:
    if "@" in text:
        for said in dict.fromkeys(found.strip("*") for found in _EMAIL.findall(text)):
            if "*" not in said:  # "m***01@example.com" hides what it says
                yield "e-mail address", said, evidence.said(said, before) is not None
    shape = text.encode().translate(_SHAPE)
    if b"0" not in shape:
        return
    if b"0 A" in shape:
        for match in _STREET.finditer(text):
            street = f"{match[1]} {match[2].strip()}"
            yield "street address", match[0], evidence.said(street, before) is not None
    if b"AA 00000" in shape or b"AA, 00000" in shape:
        for match in _POSTCODE.finditer(text):
            yield "postal code", match[0], evidence.said(match[1], before) is not None
    if b"0000-00" in shape or b"0/0" in shape or any([month in text for month in _STARTS]):
        yield from _dates(text, before, evidence, known)
    if any(pair in shape for pair in _MIXED):
        yield from _names(text, before, evidence)


def _names(text: str, before: int, evidence: Evidence) -> Iterator[tuple[str, str, bool]]:
    for said in names_in(text):
        traced = evidence.said(said, before) is not None or (
            evidence.trace(said, before) is not None
        )
        if traced or _is_name(said, text, before, evidence):
            yield "name", said, traced


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
    """Return what names of one kind have in common: their length, and the words before a number.

    >>> form_of("HAT284"), form_of("M05KNL"), form_of("gift_card_6941833")
    ('6', '6', 'gift_card_9999999')
    """
    bare = name.removeprefix("#")
    return re.sub(r"\d", "9", bare) if "_" in bare else str(len(bare))


def _dates(
    text: str, before: int, evidence: Evidence, known: set[str]
) -> Iterator[tuple[str, str, bool]]:
    pattern = _DATE if any([month in text for month in _STARTS]) else _DIGITS
    found = {match[0]: match for match in pattern.finditer(text)}
    for said, match in found.items():
        told = None if said in known else _date_in(match)
        if told is None:
            continue
        yearly = any(match[part] for part in ("y", "us", "year", "year2"))
        if (
            is_date_near(evidence, told, before, COUNTED_DAYS, yearly=yearly)
            or _COUNTED.search(_sentence(text, match)) is not None
            or is_day_said(evidence, told, before)
        ):
            known.add(said)
        yield "date", said, said in known


def dates_in(text: str) -> set[str]:
    """Return month and day of the dates that a text says (MM-DD)."""
    found = map(_date_in, _DATE.finditer(text))
    return {one.isoformat()[5:] for one in found if one is not None}


def is_day_said(evidence: Evidence, told: date, before: int) -> bool:
    """True if somebody spoke of the day of the month alone: "the 6th"."""
    return evidence.said(f"the {told.day}{ordinal(told.day)}", before) is not None


def _sentence(text: str, match: re.Match[str]) -> str:
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


_PREFIX = re.compile(r"\A\w+ output:\s*", re.IGNORECASE)
# "12 a.txt", "484 data", "app.log:3", "query A: 46 hits"; no other line pairs one with the other.
_LINE = re.compile(
    r"\s*(?:(?P<first>\d[\d,]*(?:\.\d+)?)[\s:=]+(?P<label>[^\d\s][^\n]*)|"
    r"(?P<label2>[^\n=]*[^\n:=\s])\s*[:=\s]\s*(?P<last>\d[\d,]*(?:\.\d+)?)"
    r"(?:%|(?: [a-z]{1,12}\.?)?))\s*"
)
# A row of a table: "Rovers  17  29".
_ROW = re.compile(
    r"\W*([A-Za-z][^\d|]{0,29}?)((?:(?:\s\s+|\s*[\t|;]\s*)\d[\d,]*(?:\.\d+)?%?){2,})\W*"
)
_PAIR = re.compile(r"[\"'](\w[\w -]*)[\"']: ?(-?\d+(?:\.\d+)?)(?=[,}])")
# One of several on a line: "14 insertions(+)", "failed: 2", "5 passed in 0.4s".
_CELL = re.compile(
    r"\s*(?:(?P<first>\d[\d,]*(?:\.\d+)?)\s+(?P<label>[^\d\s][^\d]*)|"
    r"(?P<label2>[^\d:=]*[^\d\s:=])\s*[:=\s]\s*(?P<last>\d[\d,]*(?:\.\d+)?)).*"
)
_CELLS = re.compile(r"[,;|\t]\s+|\s{2,}")
# "86 of 120": the second number is of them all.
_OF_ALL = re.compile(
    r"((?:\d|\b(?:all|any|few|half|many|most|none|one|out|quarter|some|third))\D{0,24}) of "
    r"(?:\w+ )?(\d[\d,]*)",
    re.IGNORECASE,
)
_ENDINGS = re.compile(r"(?:ions?|able|ings?|e?d|e?s|ures?)$")
# What outputs and people call the same.
_SAME_STEMS = {"insert": "add", "delet": "remov", "succ": "pass", "success": "pass", "ok": "pass"}
_SAME_STEMS |= {"mismatch": "differ", "disagre": "differ", "match": "agr", "sam": "agr"}
_SAME_STEMS |= {"averag": "mean", "avg": "mean", "maximum": "max", "minimum": "min"}
_COUNTS = {"three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
           "nine": "9", "ten": "10", "eleven": "11", "twelve": "12"}  # fmt: skip
_COUNT = re.compile(rf"\b(?:{'|'.join(_COUNTS)})\b(?=\W+[a-z])", re.IGNORECASE)
# "With 12 hits, B leads": the number stands before what it is of.
_WITH = re.compile(r"\b(with|at|by) ([^,;.\n]*\d[^,;.\n]*), ", re.IGNORECASE)
# Several on a line without a sign between them: "pass=62 fail=5", "Size 98G  Used 71G".
_RUN = re.compile(r"(?:[A-Z]\w+ )?(?:[A-Za-z]+[ =]\d[\d.,]*[A-Za-z%]{0,3}(?:\s+|\Z)){2,}")
_RUN_CELL = re.compile(r"([A-Za-z]+)[ =](\d[\d,]*(?:\.\d+)?)")
# "chapter 3: pages 61-88".
_SPAN = re.compile(r"([A-Za-z][^:]{1,29}): (?:\w+ )?(\d+) ?[-\u2013] ?(\d+)")
# The digit first, what stands before it then: so the engine skips to digits at C speed.
_NUMBER = re.compile(r"\d(?<![\w.,/-]\d)[\d,]*(?:\.\d+)?(?![\w/-]|[.,]\d)")
_CLAUSE = re.compile(r"[.;!?](?:\s|$)|\n|, | while | whereas | but | and ")
_COMPARES = re.compile(
    r"\b(?:more|fewer|less|not|than|minus|compared|difference|other|instead|if|would|should|"
    r"expected|without|except|total|together|both|line|page|step)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
# "is it not?", behind what is told.
_TAG = re.compile(r",\s*\w+n['\u2019]t\s+\w+(?=\?)")
_PRONOUNS = frozenset("it its that they their these this those which".split())
_KEY = re.compile(r"[^\s:,;()\[\]{}\"'`*|=]+")


def find_misread_lines(step: Step, at: int, output: str) -> Iterator[Fault]:
    """Yield the labels of the output at a step that a message tells with another line's number."""
    text, lower = step.text, step.text.lower()
    if any([count in lower for count in _COUNTS]):
        text = _COUNT.sub(lambda said: _COUNTS[said[0].lower()], text)
    lines = _numbered_lines(output) if _NUMBER.search(text) else []
    if len(lines) < 2:
        return
    # An output about pages is told by pages.
    text = text.replace(" page ", " ") if "page" in output else text
    keys = _own_keys([label for label, _ in lines])
    values = {number for _, row in lines for number in row}
    last: list[int] = []
    for clause in _CLAUSE.split(_WITH.sub(r"\1 \2 ", _TAG.sub("", text))):
        whole = _OF_ALL.search(clause)
        told = [_value(n) for n in _NUMBER.findall(_OF_ALL.sub(r"\1", clause, count=1))]
        told = [n for n in told if n in values]
        words = _KEY.findall(clause.casefold())
        lower = f" {' '.join(map(_stem, words))} "
        meant = [n for n, own in enumerate(keys) if any(f" {key} " in lower for key in own)]
        if not meant and words[:1] and words[0] in _PRONOUNS:
            meant = last
        last = meant if meant and not told else last if not told else []
        if whole is not None:
            meant = [n for n in meant if _value(whole[2]) not in lines[n][1]]
        if len(told) == 1 and len(meant) == 1 and not _COMPARES.search(clause):
            label, true = lines[meant[0]]
            if told[0] not in true:
                said = " and ".join(map(plain_number, true))
                why = f"tells {plain_number(told[0])} for {label!r}, the output at {at} says {said}"
                yield Fault(step.index, why, (at,))


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _numbered_lines(output: str) -> list[tuple[str, tuple[float, ...]]]:
    """Return label and numbers of the lines of an output that have one label."""
    lines = output.splitlines() if output[:1] != "[" else []
    found: list[tuple[str, tuple[float, ...]]] = []
    for line in lines if len(lines) <= MOST_LINES else ():
        bare = _PREFIX.sub("", line).strip()
        if bare[:1] in ("{", "["):
            pairs = _PAIR.findall(bare) if output.count("{") == 1 else ()
            found += [(key.replace("_", " "), (float(value),)) for key, value in pairs]
            continue
        if (span := _SPAN.fullmatch(bare)) is not None:
            found.append((span[1], (float(span[2]), float(span[3]))))
            continue
        if _RUN.fullmatch(bare) is not None:
            found += [(label, (_value(number),)) for label, number in _RUN_CELL.findall(bare)]
            continue
        cells = [_CELL.fullmatch(cell) for cell in _CELLS.split(bare)]
        if (row := _ROW.fullmatch(bare)) is not None:
            found.append((row[1], tuple(map(_value, _NUMBER.findall(row[2])))))
            continue
        if len(cells) < 2 or not all(cells):
            cells = [_LINE.fullmatch(bare.replace(" | ", ": ").rstrip(" +-"))]
        for cell in cells:
            label = (cell["label"] or cell["label2"]).strip() if cell is not None else ""
            most = LABEL_CHARACTERS // len(cells)
            if cell is not None and len(label) <= most and any(map(str.isalpha, label)):
                found.append((label, (_value(cell["first"] or cell["last"]),)))
    return found


def _own_keys(labels: list[str]) -> list[set[str]]:
    """Return for each label the words, file names and pairs of words that no other label has."""
    every = []
    for label in labels:
        words = [_stem(word) for word in _KEY.findall(label.casefold())]
        keys = {" ".join(words)}
        for word in words:
            pieces = {word, word.rpartition("/")[2], word.rpartition("/")[2].partition(".")[0]}
            keys |= {piece for piece in pieces if len(piece) > 2}
        keys |= {f"{one} {two}" for one, two in pairwise(words)}
        every.append(keys)
    return [keys - set().union(*(other for other in every if other is not keys)) for keys in every]


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """Return a word without its ending, of words for one thing the same.

    >>> _stem("reachable"), _stem("reached"), _stem("insertions(+)"), _stem("adds")
    ('reach', 'reach', 'add', 'add')
    """
    bare = _ENDINGS.sub("", word.removesuffix("(+)").removesuffix("(-)"), count=1)
    stem = (bare if len(bare) > 2 and "." not in word else word).rstrip("e")
    return _SAME_STEMS.get(stem, stem)


# How an interpreter or a shell says that something does not exist.
_ABSENT = re.compile(
    r"(?:an(?:no|')t|ould not|nable to) (?:\w+ ){1,3}(?:'([^'\n]+)'|([\w/-]+\.\w+))|"
    r"[Nn]o such file or directory: '?([^'\s]+)|"
    r"([\w./-]+): No such file or directory|has no attribute '(\w+)'|not found: ([\w./-]+)"
)
_DENIALS = ("o such file", "annot ", "an't ", "ould not ", "nable to ", "ot found: ", " no attr")
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)|\"(?:keystrokes|command)\":[^\n]*", re.DOTALL)
_RUNS = re.compile(
    r"(?:\b(?:python3?|node|bash|sh|source|from|import)\b|\./)((?:\"[^\"\n]*\"|[^\n;|&\"])*)"
)
# Who uses a thing and says so was given it: "the archive that was provided".
_PRIOR = re.compile(
    r"\b(?:previous|earlier|last|before|above|already|\w{3,}ed|made|given|written|built|shared)\b",
    re.IGNORECASE,
)
# Whoever says so looks for a thing, or makes it.
_SEEKS = re.compile(
    r"\b(?:check|whether|if|try|look(?:ing)? for|maybe|might|may|perhaps|should|probably|exists?|"
    r"see|find|search|creat\w+|writ\w+|add|will be|new|missing|save\w*)\b",
    re.IGNORECASE,
)


def find_absent_names(trajectory: Trajectory) -> Iterator[Fault]:
    """Yield the files and functions that the agent counts on and that exist nowhere.

    Proved by the refusal, where nothing before names them: the agent runs or imports one, or tells
    of it as given. Looking whether something is there counts on nothing.
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
        if agent is None or not said or not any(denial in said for denial in _DENIALS):
            continue
        done = "\n".join([agent.text, *(str(call.arguments) for call in agent.calls)])
        for match in _ABSENT.finditer(said):
            path = next(group for group in match.groups() if group)
            name = path.rpartition("/")[2].partition(".")[0]
            if len(name) < 4 or name in sought or name not in done or len(sought) >= MOST_NAMES:
                continue
            if not _is_counted_on(name, agent.text, done):
                continue
            sought.add(name)
            if not any(_mentions(one, name) for one in trajectory.steps[: agent.index]):
                file = path.rpartition("/")[2]
                why = (
                    f"counts on {file}, which nothing before names; {step.index} says there is none"
                )
                yield Fault(agent.index, why, (step.index,))
                break


def _is_counted_on(name: str, text: str, done: str) -> bool:
    if any(name in match[1] for match in _RUNS.finditer(done)):
        return True
    prose = _CODE_BLOCK.sub(" ", text)
    at = prose.find(name)
    if at < 0:
        few = prose[:MOST_PROSE]
        return prose == few and _PRIOR.search(few) is not None and _SEEKS.search(few) is None
    begin = max(prose.rfind(sign, 0, at) for sign in (". ", "\n", "! ", "? ")) + 1
    return _SEEKS.search(prose[begin:at]) is None


def _mentions(step: Step, name: str) -> bool:
    return (
        name in step.text
        or any(name in result.text for result in step.results)
        or any(name in str(call.arguments) for call in step.calls)
    )


# A function, or a file of code or data: what stands before is its name.
_NAMED = re.compile(
    r"[(.](?:(?<=\()\)|(?<=\.)(?:py|js|ts|sh|sql|csv|tsv|json|ya?ml|toml|xml|txt|md|log|xlsx?|db|"
    r"ipynb|rs|go|java|cfg|conf|ini|pdf|docx?|zip|tar|gz|parquet)\b)"
)
_BEFORE_DOT = re.compile(r"(?<![\w.])[A-Za-z_][\w-]{3,}$")
_AFTER = re.compile(r"[^.!?\n]*[.!?\n]?")
# Who says so tells of something that is there.
_GIVEN = re.compile(
    r"\b(?:already|above|earlier|existing|defined|written|made|has|have|had|contains?|holds?|lists?|"
    r"follows?|exists?|in|from|is|are|was|were|as|like|same|returned|gave|takes|does)\b|"
    r"\b(?:the|this|that|your|our) (?:\w+ ){0,2}\W*\Z",
    re.IGNORECASE,
)


def find_told_nowhere(trajectory: Trajectory) -> Iterator[Fault]:
    """Yield the files and functions that the agent tells of as given and that nothing else names.

    What it looks for, plans, or writes itself, in a call or a block of code, may be new.
    """
    sought = 0
    done = [step.index for step in trajectory.steps if step.results]
    last = done[-1] if done else len(trajectory.steps)
    for step in trajectory.steps[1:]:
        text = step.text if step.actor == "agent" else ""
        if "```" in text:
            continue
        for match in _NAMED.finditer(text):
            left = _BEFORE_DOT.search(
                text[max(0, match.start() - LABEL_CHARACTERS) : match.start()]
            )
            if left is None or (match[0] == "()" and "_" not in left[0]):
                continue
            begin = max(text.rfind(sign, 0, match.start()) for sign in (". ", "\n", "! ", "? ")) + 1
            before = text[begin : match.start() - len(left[0])]
            behind = _AFTER.match(text, match.end())
            sentence = before + behind[0] if behind else before
            asks = sentence.endswith("?") and not _TAG.search(sentence)
            if asks or 'File "' in before or _SEEKS.search(before):
                continue
            # A file in a row of the last report is there.
            row = step.index >= last and not any(map(str.isalpha, before.rpartition(" ")[0]))
            if not (row or _GIVEN.search(sentence) or _GIVEN.search(before)):
                continue
            name, sought = left[0], sought + 1
            others = (s for s in trajectory.steps if s.index < step.index or s.actor != "agent")
            if sought > MOST_NAMES or name in str([*step.calls, *step.results]):
                continue
            hidden = hiding_gap(gaps_of(trajectory), len(trajectory.steps))
            if not hidden and not any(_mentions(other, name) for other in others):
                why = f"tells of {name}{match[0]}, which nothing before or behind names"
                yield Fault(step.index, why)
