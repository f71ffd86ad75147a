"""What the agent tells besides amounts: dates, addresses, names of things, files; and failures.

Each must come from what was said before the message: a user, the policy, a result, a call of the
agent's that was traced itself. An example ("such as ...") names nothing. A date may be counted from
one that was said. Only names are judged whose form the results use, so that a model number is no
reservation.

A failure that nothing made good must be told by what the agent says right after it: a message that
states something and has no word of it goes on as if it had worked, whatever it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import TypeAlias

from stepscope.measures.axes import quantities
from stepscope.measures.axes.evidence import Evidence
from stepscope.measures.calls import effect_of
from stepscope.measures.completeness import gaps_of, hiding_gap
from stepscope.measures.errors import executions_of, first_line, reactions_of
from stepscope.measures.language import admits_failure
from stepscope.measures.rule import Fault, cached_by_text
from stepscope.model import Exchange, Facts, Step, Trajectory

# So many days from a date that was said another one may be counted without saying how.
COUNTED_DAYS = 3
# So many missing files are looked for: each time in the whole run.
MOST_NAMES = 50
# Longer words beside a command are about other things, too.
MOST_PROSE = 160

_MONTH = "|".join(f"{name}|{name[:3]}" for name in quantities.MONTHS)
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
_STARTS = tuple(name[:3] for one in quantities.MONTHS for name in (one.capitalize(), one))
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
_COUNTED = re.compile(r"(?i)\b(?:business )?(?:days|weeks|months|years)\b|\b(?:week|month|year)\b")


def find_untraced(
    text: str, before: int, evidence: Evidence, cites: tuple[int, ...], known: set[str]
) -> tuple[int, list[Fault]]:
    """Return how many dates, addresses and names a text of a step tells, and those without origin.

    `known` collects the dates that have one: they may be told again.
    """
    checked, faults = 0, list[Fault]()
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
            if not _EXAMPLE.search(text[text.rfind("\n", 0, at) + 1 : at]):
                why = f"says the {what} {said}, which nothing before says"
                faults.append(Fault(before, why, cites))
    return checked, faults


# What may need an origin: its kind, itself, what is looked for, and of a date the match.
_Traceable: TypeAlias = tuple[str, str, str, re.Match[str] | None]


@cached_by_text
def _traceable(text: str) -> tuple[_Traceable, ...]:
    found: list[_Traceable] = []
    if "@" in text:
        emails = dict.fromkeys([found.strip("*") for found in _EMAIL.findall(text)])
        # "m***01@example.com" hides what it says.
        found += [("e-mail address", x, x, None) for x in emails if "*" not in x]
    # Without certain pairs there is no name and no address, by far the cheaper to look for.
    shape = text.encode().translate(_SHAPE)
    if b"0" not in shape:
        return tuple(found)
    if b"0 A" in shape:
        for x in _STREET.finditer(text):
            found.append(("street address", x[0], f"{x[1]} {x[2].strip()}", None))
    if b"AA 00000" in shape or b"AA, 00000" in shape:
        found += [("postal code", x[0], x[1], None) for x in _POSTCODE.finditer(text)]
    by_words = _BY_DAY.search(text) is not None and any([x in text for x in _STARTS])
    if by_words or b"0000-00" in shape or b"0/0" in shape:
        dates = {x[0]: x for x in (_DATE if by_words else _DIGITS).finditer(text)}
        found += [("date", said, "", x) for said, x in dates.items()]
    return (*found, *[("name", x, x, None) for x in quantities.names_in(text)])


def _is_name(said: str, text: str, before: int, evidence: Evidence) -> bool:
    """True if a text is the name of one thing: by its form, or by what it is called."""
    digits = [sign for sign in said if sign.isdigit()]
    if len(digits) > 4 and len(set(digits)) == 1:
        return False  # #W0000000 is an example of the form
    return (
        quantities.is_identifier(said)
        or (len(said) > 4 and _CALLED.search(text[: text.find(said)]) is not None)
        or (not said.strip("#").isdigit() and evidence.says_form(form_of(said), before, _forms_in))
    )


def _forms_in(text: str) -> set[str]:
    return {form_of(name) for name in quantities.names_in(text) if 4 < len(name)}


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
    return {one.isoformat()[5:] for one in map(_date_in, _DATE.finditer(text)) if one is not None}


# In listings a day of one digit stands behind two spaces.
# "July 18.6" is a value of July.
_LISTED_DATE = re.compile(
    _DATE.pattern.replace(r")\.? (?P<day>", r")\.?  ?(?P<day>") + r"(?!\.\d|,\d{3}|\s?%)"
)


def find_days(text: str) -> list[tuple[int, int, str]]:
    """Return where the dates of a text begin and end, and month and day (MM-DD)."""
    if not ("-" in text or "/" in text or any([month in text for month in _STARTS])):
        return []
    found = [(x.span(), _date_in(x)) for x in _LISTED_DATE.finditer(text)]
    return [(*span, one.isoformat()[5:]) for span, one in found if one is not None]


_YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")


def day_value(text: str, start: int, end: int, day: str) -> quantities.Value:
    """Return a day as a value: its size is 20240305 or, where no year is said, 305."""
    year, size = _YEAR.search(text, start, end), int(day.replace("-", ""))
    whole = size + 10_000 * int(year[0] if year else 0)
    return quantities.Value("day", whole, 1.0, text[start:end], start, end)


def with_days(text: str, values: list[quantities.Value]) -> list[quantities.Value]:
    """Return the values of a text with its days; a number that may be a year is one."""
    years = [x for x in values if x.kind == "" and _YEAR.fullmatch(x.said)]
    told = [x._replace(kind="day", size=x.size * 10_000, unit=10_000.0) for x in years]
    told += [day_value(text, *one) for one in find_days(text)]
    told += [x for x in values if x.kind != "day" and x not in years]
    return sorted(told, key=lambda x: x.start)


def is_day_said(evidence: Evidence, told: date, before: int) -> bool:
    """True if somebody spoke of the day of the month alone: "the 6th"."""
    return evidence.said(f"the {told.day}{quantities.ordinal(told.day)}", before) is not None


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
        number = next(n for n, one in enumerate(quantities.MONTHS, 1) if one.startswith(name))
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


TAG = re.compile(r",\s*\w+n['\u2019]t\s+\w+(?=\?)")
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
        if not said or agent is None or not _DENIAL.search(said):
            continue
        lines = [line for line in said.splitlines() if _DENIAL.search(line)]
        done = "\n".join([agent.text, *(str(call.arguments) for call in agent.calls)])
        for x, line in ((x, one) for one in lines for x in _ABSENT.findall(one)):
            name = (path := "".join(x)).rpartition("/")[2].partition(".")[0]
            if len(name) < 4 or name in sought or name not in done or len(sought) >= MOST_NAMES:
                continue
            # A package that is not installed; a word in capitals is a sign of the protocol.
            aside = name.isupper() or ("module" in line and "_" not in name)
            if aside or not _is_counted_on(name, agent.text, done):
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
_named_in = cached_by_text(_NAMED.search)
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
        text = trajectory.texts[step.index] if step.actor == "agent" else ""
        if not text or "```" in text or _named_in(text) is None:
            continue
        found = ((said, one) for said in _SENTENCES.split(text) for one in _NAMED.finditer(said))
        for said, match in found:
            left = _BEFORE_DOT.search(said[: match.start()])
            if left is None or (match[0][0] in "(`" and "_" not in left[0]):
                continue
            before = said[: left.start()]
            asks = said.endswith("?") and not TAG.search(said)
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
                why = f"says of {name}{match[0]}, which nothing before or behind names"
                yield Fault(step.index, why)


# Trouble that is denied is a success, and what the user need not do is no failure.
NO_TROUBLE = re.compile(
    r"(?i)\b(?:no|not (?:a single|one)|without(?: an?y?)?|zero|free (?:of|from)|nothing)\b"
    r"(?: \w+){0,2}? (?:fail\w*|errors?|problems?|issues?|trouble|broken?|crash\w*|wrong|"
    r"warnings?|complain\w*|conflicts?)\b|\bnothing broke\b|\byou (?:(?:do|will) not|"
    r"(?:do|wo)n['\u2019]t|need(?: not|n['\u2019]t)) (?:need|have to)\b"
)
# How a message says that something is not there or not so.
_LACKS = re.compile(
    r"(?i)\b(?:no|none|nothing|neither|nobody|nowhere|lacks?|lacking|miss(?:es|ing)|wrong|broken?|"
    r"empty|differs?|only|still|refus\w+|reject\w+|declin\w+|den(?:y|ie[sd]))\b"
)
# An offer behind every message, and what opens one: neither states anything.
COURTESY = re.compile(
    r"(?i)\b(?:hesitate|any (?:issues?|concerns?)|"
    r"any(?:thing|body)? (?:other|further|more|else)|(?:what|something|somebody) "
    r"(?:else|more)|(?:other|further|more) (?:questions?|concerns?|wishes|requests?)|questions?)\b|"
    r"\A\W*(?:thank(?:s| you)|you['\u2019]re welcome|i see|i understand|of course|all right|got it)"
    r"[^,;]*\Z"
)
# What takes a clause out of what is stated of what was: plans, wishes, conditions, guesses.
_OTHERWISE = re.compile(
    r"(?i)\b(?:will|shall|should|must|would|could|can|may|might|if|unless|whether|let['\u2019]?s?|"
    r"please|needs?|going to|next|plan|try|trying|again|seems?|appears?|likely|perhaps|maybe|"
    r"to (?:check|see|find|verify))\b|['\u2019]ll\b"
)
# Where a program says that it failed: without such a line an exit code may be an answer, as of a
# search that finds nothing.
_COMPLAINS = re.compile(
    r"(?i)error|exception|fail|fatal|denied|refused|invalid|missing|not (?!modified)|no such|"
    r"cannot|can't|unable|abort|exceed|insufficient|unknown|undefined"
)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_CLAUSE = re.compile(r"[.!;,\n]| (?:and|so|but) ")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
# After a failure so many messages are looked at: one that states nothing, and the next.
MESSAGES = 2
# Who asks whether it is done asks of "that" or "it", in the tense of what is done.
_ASKS_OF_IT = re.compile(r"\b(?:it|that|this|everything|all)\b", re.IGNORECASE)
_ASKS_WHETHER = re.compile(
    r"(?i)\b(?:did|done|has|have|been|being|went|gone|go through|now|final|sure|settled|work(?:s|"
    r"ed)|in (?:place|order|your))\b"
)
_YES = re.compile(
    r"(?i)\A\W*(?:yes|yep|yeah|yup|sure|absolutely|certainly|correct|exactly|indeed|right|it is|"
    r"that['\u2019]s right|\u2705)\b"
)


def find_silences(trajectory: Trajectory, facts: Facts | None) -> Iterator[Fault]:
    """Yield the messages that go on as if what failed just before had worked."""
    reactions = reactions_of(trajectory, facts)
    for reaction in reactions.values():
        error = reaction.error
        if reaction.label == "ignored" and effect_of(error.call.name, facts) != "read":
            yield from _silence(trajectory.steps, error)
    for run in executions_of(trajectory) if not reactions else ():
        if run.failed:
            yield from _silence(trajectory.steps, run)


def _silence(steps: Sequence[Step], error: Exchange) -> Iterator[Fault]:
    """Yield the first message after an error that states something, where it has no word of it."""
    result = error.result
    lines = "" if result is None else (result.error or result.text)
    if result is None or result.source not in ("explicit", "protocol"):
        lines = "\n".join([line for line in lines.splitlines() if _COMPLAINS.search(line)])
    asked, messages = "", 0
    for step in steps[error.answer_step + 1 :] if lines else ():
        text = step.text
        if step.actor == "user":
            asked = text
        if step.actor != "agent" or messages == MESSAGES:
            continue
        if step.calls or step.results or "```" in text or _tells_of(text, lines):
            return
        of_it = asked and _ASKS_OF_IT.search(asked) and _ASKS_WHETHER.search(asked)
        messages += 1
        if states_of(text) if messages == 1 else of_it and (_YES.match(text) or states_of(text)):
            why = f"goes on as if {error.call.name} had worked: {first_line(result)}"
            yield Fault(step.index, why, (error.answer_step,))
            return
        if asked:
            return


def _tells_of(text: str, lines: str) -> bool:
    """True if a message admits a failure, has a number of what was reported, or asks on."""
    told = NO_TROUBLE.sub(" ", text)
    if any("?" in said and not COURTESY.search(said) for said in _SENTENCE.findall(text)):
        return True
    if admits_failure(told) or _LACKS.search(told) is not None:
        return True
    return not set(_NUMBER.findall(lines)).isdisjoint(_NUMBER.findall(text))


def states_of(text: str) -> bool:
    """True if a message states something: no question, courtesy, plan or single word."""
    return any(
        len(clause.split()) > 1 and not _OTHERWISE.search(clause)
        for said in _SENTENCE.findall(text)
        if "?" not in said and not COURTESY.search(said.strip())
        for clause in _CLAUSE.split(said)
    )
