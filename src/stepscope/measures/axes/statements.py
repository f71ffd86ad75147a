"""What sentences say of the rows of an output, held against these rows.

A sentence is read in parts, each about what it names: a row has a value or a state, is the first by
some value, has more of it than another, is one of so many, is a share of all, was changed from one
value to another. A part is a fault where the rows clearly say otherwise: what is denied, supposed,
compared in words of its own or told of several things at once is none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise, permutations

from stepscope.measures.axes.evidence import NUMBERS
from stepscope.measures.axes.layouts import (
    CLOCK,
    KIND_HEAD,
    SIGNS,
    STATE,
    STATES,
    Change,
    Row,
    RowGroup,
    changes_of,
    ending_of,
    groups_of,
    terms_at,
    values_of,
)
from stepscope.measures.axes.quantities import Value, is_same
from stepscope.measures.language import (
    ALL_BUT,
    BOUND,
    CLAUSE_ENDS,
    DENIES,
    DERIVED,
    EMPTY,
    GOES_ON,
    HEDGED,
    NOT_YET,
    OTHERS,
    OWN_SUBJECT,
    RELATES,
    TOKEN,
    split_stated,
)

_COMPARES = re.compile(r"(?i)\b(?:than|between|against|compared|instead|days?|weeks?|not)\b")
_NO_TROUBLE = re.compile(
    r"(?i)\b(?:with no|without(?: any)?) (?:problems?|errors?|issues?|trouble|warnings?|hiccups?)\b"
)
_SAYS = re.compile(r"(?i)\b(?:is|are|was|were|has|have|had)\b")
_NUMBER_WORD = re.compile(
    rf"(?i)(?<![\w-])(?:{'|'.join(NUMBERS[1:])}|twice(?! (?:as|the))|(?:(?<=\A)|(?<=only )|"
    r"(?<=just )|(?<=and )|(?<=has )|(?<=have )|(?<=with )|(?<=are )|(?<=is ))"
    r"one(?= (?!of|is|has|was|are|that|which|with|in|on|to)\w))(?![\w'-])"
)
# More words are a paragraph, more rows named are a story of them.
MOST_WORDS = 60
# Of so many words a cell is a text, in a column of states.
KIND_WORDS, STATE_WORDS = 4, 9


# In a sentence these are other words, unless it says that something is so.
_SO = re.compile(r"(?i)\b(?:is|are|was|were|be|been|being|turned|switched|set(?: to)?|\w+ly) \Z")
_ONLY_SO = frozenset("on off up down no yes open ok true false".split())

_MOST = re.compile(
    r"(?i)\b(?:(?P<big>most(?! \w+(?:ive|ful|[ai]ble|ous|[ae]nt|ic|ing|ed)\b)|largest|biggest|"
    r"highest|longest|slowest|greatest|heaviest|busiest|hottest|fullest)|(?P<small>smallest|lowest|fewest|"
    r"least|shortest|fastest|quickest|coolest|lightest)|(?P<old>oldest|earliest)|(?P<new>newest|"
    r"youngest|latest)|(?P<end>best|worst|strongest|weakest|cheapest|dearest|on top|leads|tops))\b"
    r"(?! of all| likely| part)"
)
_BAD = re.compile(r"(?i)worst|weakest|cheapest")
# Of these more is better, of those less.
_GOOD_HEAD = re.compile(
    r"(?i)uptime|acc|\bf1|score|point|pts|ratio|cover|sales|revenue|through|hit|pass|margin|profit|"
    r"q[1-4]\b|total|growth|rating|votes|availab"
)
_POOR_HEAD = re.compile(
    r"(?i)latency|(?<!up)time|cost|price|loss|err|fail|restart|miss|p\d\d|duration|median|mean|\bms\b|lag"
)
_LIMIT = re.compile(r"[;()]|,(?!\d)|:(?=\s)|\b(?:but|while|whereas|though|although)\b")
_OWN_MOST = re.compile(r"(?i)\b(?:its|their|his|her|own|whose|per) \Z")
_LESS_MOST = re.compile(
    r"(?i)\b(?:second|third|fourth|fifth|next|among|one of|runner-up|other|after|most of|"
    r"at (?:the )?(?:most|least|best|worst))\b"
)
_MORE = re.compile(
    r"(?i)\b(?:(?P<big>more|higher|larger|bigger|longer|slower|greater|heavier|busier|hotter|fuller|"
    r"further|taller|farther)|(?P<small>less|fewer|lower|smaller|shorter|faster|quicker|cooler|"
    r"lighter|cheaper)|(?P<old>older|earlier)|(?P<new>newer|younger|later))\b(?P<of>[^.;,]*?)\bthan\b"
)
_TIMES = re.compile(r"(?i)slow|fast|quick|long|short")
_SIZES = re.compile(r"(?i)larg|big|small|heav|light")
_TIME_HEAD = re.compile(
    r"(?i)time|dur|latency|elapsed|took|(?:\b|_|\()m?s\b|sec|p\d\d|mean|median|avg"
)
_ID_HEAD = re.compile(r"(?i)(?:\b|_)(?:id|no|nr|pid|port|sku|zip|code|line)\b|#")
_AGE_HEAD = re.compile(
    r"(?i)(?:\b|_)(?:age|\w*date[ds]?|created|since|last|start(?:ed)?|modified|uptime|born|founded|year)\b"
)
_ALL = re.compile(
    r"(?i)(?<!in )(?<!at )(?<!of )(?<!after )(?<!above )\b(?:all(?! in all| told| of)|every|each|"
    r"everything|both)\b(?! but\b)"
)
_NEARLY = re.compile(
    r"(?i)\b(?:not|almost|nearly|but|except|besides|apart|of all|most|first|than)\b"
)
_NONE = re.compile(r"(?i)\b(?:none|no|neither|not (?:one|any|a single))\b")
_NOT_COUNTED = re.compile(
    r"(?i)(?:\b(?:other|another|remaining|next|last|first|further|additional|at least|more than|"
    r"over|up to|than|by|after|within|than|about|around|of(?: the| all| these| its| our)?|line|"
    r"step|number|no|#|version|port|for|to|from|every|per|times|code|status|level|or|rest)\W*\Z)"
)
_INDEXED = re.compile(
    r"(?i)\b(?:test|step|job|case|row|line|task|shard|core|epoch|number|node|run|build|stage|part|"
    r"group|level|phase|worker|batch|item|port|code|page)s? \Z"
)
_WORD = re.compile(rf"{TOKEN.pattern}|\d[\d:.,-]*\d|\d")
_UNIT = re.compile(r"(?<=\d )(?:m?s|sec|min|[kKMGT]i?B|B|h|d)\b")
_FRACTION = re.compile(r"(?i)\b(?:half|third|quarter|fifth|tenth)s?\b")
_OF = re.compile(r"(?i)\b(?:of|among)(?: the| all| our| its| these)? \Z")
_RANGE = re.compile(r"\d\S* (?:to|and|or) \Z")
_RISES = re.compile(
    r"(?i)\b(?:rais\w+|ris\w+|rose|increas\w+|gr[eo]w\w*|(?<!-)up|higher|lengthen\w*)\b"
)
_FALLS = re.compile(
    r"(?i)\b(?:lower\w*|reduc\w+|decreas\w+|fell|fall\w*|dropp?\w*|cut|shorten\w*|(?<!-)down|shorter)\b"
)
_GROWS = re.compile(
    rf"{_RISES.pattern}|(?i:\b(?:more|bigger|larger|longer|greater|heavier|went up|added)\b)"
)
_SHRINKS = re.compile(
    rf"{_FALLS.pattern}|(?i:\b(?:fewer|less|smaller|lower|lighter|shr[aiu]nk\w*|went down)\b)"
)
_FROM_TO = re.compile(r"(?i)\bfrom (\S+?)(?: \w+)? to (\S+?)(?=[\s,;.)]|\Z)")
_FAILS = re.compile(
    r"(?m)^\W*(?:\S+ ){0,3}(?:ERROR|FATAL|CRITICAL)\b.*|^\s*(?:error|fatal|Traceback)\b.*|"
    r"^.*\bFAILED\b.*"
)
_WARNS = re.compile(r"(?m)^\W*(?:\S+ ){0,3}WARN(?:ING)?\b.*|^\s*warning\b.*")
_FREE = re.compile(
    r"(?i)\b(?:no|without(?: any| a)?|zero|free of|not a single) (?:\w+ )?(?P<what>errors?|"
    r"warnings?|failures?|problems?|issues?|complaints?)\b"
)


_WILL = re.compile(r"(?i)\bplan\b|\b(?:will|would|is going to|are going to)(?: be)?\b")


class StatementPart:
    """A part of a sentence with what it names among the rows of a group."""

    def __init__(self, text: str, group: RowGroup) -> None:
        """Look for the terms, columns, numbers and states of the text."""
        self.text, self.group = text, group
        self.heads = list[tuple[int, set[str]]]()
        self.hits = list[tuple[int, int, frozenset[int], frozenset[str]]]()
        size, places = len(group.rows), dict[int, list[str]]()
        for at, term in terms_at(text):
            places.setdefault(at, []).append(term)
        ends = {x.start(): x.end() for x in _WORD.finditer(text)}
        units = {x.start() for x in _UNIT.finditer(text)}
        for at, terms in sorted((x, y) for x, y in places.items() if x not in units):
            word = text[at : ends.get(at, at)].casefold()
            columns = [group.heads[x] for x in terms if x in group.heads]
            if len(word) > 4:
                # "Memory" is what "mem" is short for.
                short = [x for x in group.heads if 2 < len(x) < len(word) and word.startswith(x)]
                columns += [group.heads[x] for x in short]
            found = [group.holders[x] for x in (*terms, word) if x in group.holders]
            whole = group.holders.get(word) if len(terms) > 1 else None
            found = [whole] if whole else found
            if columns and not any(group.keys & {*c} for x in found for c in x.values()):
                self._head(at, set[str]().union(*columns))
                continue
            same = set.intersection(*({*x} for x in found)) if found else set()
            rows = same or {n for x in found for n in x}
            if columns and not rows:
                self._head(at, set[str]().union(*columns))
            if 0 < len(rows) < size or (rows and size == 1):
                cells = frozenset(
                    c for x in found for n, some in x.items() if n in rows for c in some
                )
                self._add(at, ends.get(at, at + 1), frozenset(rows), cells)

    def _head(self, at: int, columns: set[str]) -> None:
        """Keep the columns that a word is of; words of one name behind each other are one."""
        last = self.heads[-1] if self.heads else (0, set[str]())
        if last[1] & columns and len(self.text[last[0] : at].split()) < 2:
            self.heads[-1] = last[0], last[1] & columns
        else:
            self.heads.append((at, columns))

    def _add(self, at: int, end: int, rows: frozenset[int], cells: frozenset[str]) -> None:
        """Keep a term; words of one name behind each other are one."""
        if self.hits:
            start, last, before, columns = self.hits[-1]
            if not self.text[last:at].strip(" -_/'") and before & rows and columns & cells:
                self.hits[-1] = start, end, before & rows, columns & cells
                return
        self.hits.append((at, end, rows, cells))

    @cached_property
    def named(self) -> frozenset[int]:
        """The rows that are named: by all names together, else by one of them."""
        keys = self.group.keys
        told = {at for at, *_ in self.states}
        some = [rows for at, _, rows, cells in self.hits if cells & keys and at not in told]
        found = Counter(n for rows in some for n in rows)
        best = max(found.values(), default=0)
        return frozenset(n for n, hits in found.items() if hits == best or best < 2)

    @cached_property
    def numbers(self) -> list[Value]:
        """The numbers that are told, without those of names."""
        spans = [(at, end) for at, end, _, cells in self.hits if cells & self.group.keys]
        return [
            x
            for x in values_of(self.text)
            if x.kind != "state" and not any(a <= x.start < b for a, b in spans)
        ]

    @cached_property
    def states(self) -> list[tuple[int, str, str, float]]:
        """The states that are told: place, word, what they are of, and which."""
        found = list[tuple[int, str, str, float]]()
        for x in STATE.finditer(self.text):
            word = x[0].casefold()
            if word in _ONLY_SO and not _SO.search(self.text[: x.start()]):
                continue
            axis, sign = STATES.get(word, ("end", SIGNS.get(word, 0.0)))
            found.append((x.start(), word, axis, sign))
        return found

    def is_said(self) -> bool:
        """True if something is told of what is named."""
        return bool(
            self.numbers or self.states or self.heads or _FRACTION.search(self.text)
        ) or any(not cells & self.group.keys for *_, cells in self.hits)


def find_misstated(sentences: Sequence[str], output: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences that say otherwise than an output, each with what this says."""
    groups = groups_of(output)
    for n, sentence in enumerate(sentences if groups else ()):
        if len(sentence.split()) > MOST_WORDS or sentence.rstrip()[-1:] == "?":
            continue
        told = _NUMBER_WORD.sub(_figure, sentence)
        before = sentences[n - 1] if n else ""
        for why in _misstated(told, before, output, groups):
            yield sentence, why
            break


def _figure(word: re.Match[str]) -> str:
    if word[0].lower() == "twice":
        return "2 times"
    return str(NUMBERS.index(word[0].lower()) + 1)


def _misstated(
    sentence: str, before: str, output: str, groups: Sequence[RowGroup]
) -> Iterator[str]:
    if ALL_BUT.search(sentence):
        return
    stated, open_ = split_stated(sentence)
    yield from _wrong_changes(stated, changes_of(output))
    yield from _not_free(stated, output, groups)
    for group in groups:
        if len(group.rows) < 2:
            continue
        if any(a == "edit" for row in group.rows for a, _ in row.states("state")):
            stated, open_ = split_stated(_WILL.sub("", sentence))
        stated = _NO_TROUBLE.sub("", stated)
        if GOES_ON.search(stated) and not StatementPart(stated, group).named:
            name = _name_in(StatementPart(open_, group)) or _name_in(StatementPart(before, group))
            stated = f"{name}: {stated}" if name else stated
        whole = StatementPart(stated, group)
        yield from _wrong_extreme(whole)
        yield from _wrong_comparison(stated, group)
        for text in _parts_of(stated, group):
            part = StatementPart(text, group)
            yield from _wrong_count(part)
            yield from _wrong_join(part)
            yield from _wrong_state(part)
            yield from _wrong_value(part)


def _parts_of(sentence: str, group: RowGroup) -> list[str]:
    """Return the parts of a sentence, each with what it names and all that it says of that."""
    cuts = [0, *(x.start() for x in CLAUSE_ENDS.finditer(sentence) if x.start()), len(sentence)]
    clauses = [sentence[a:b] for a, b in pairwise(cuts)]
    found = list[str]()
    named = said = False
    for clause in clauses:
        part = StatementPart(clause, group)
        names, says, apart = bool(part.named), part.is_said(), OTHERS.search(clause) is not None
        own = OWN_SUBJECT.match(clause) is not None or apart
        starts = (names and says) or (says and own and not names)
        says = says or (names and _SAYS.search(clause) is not None)
        if found and not (names or says):
            found[-1] += ", "
            continue
        # "Only one is down, namely auth": what is told stands before its name.
        starts = starts or (names and not named and len(clause.split()) > 5)
        if found and not (said and starts):
            found[-1] += clause
            named, said = named or names, said or says
        else:
            if found and named and GOES_ON.search(clause):
                clause = f"{_name_in(StatementPart(found[-1], group))}: {clause}"
            found.append(clause)
            named, said = names, says
    return found


def _name_in(part: StatementPart) -> str:
    """Return the only name of a part, "" where it has none or several."""
    names = [x for x in part.hits if x[3] & part.group.keys]
    return part.text[names[0][0] : names[0][1]] if len({x[2] for x in names}) == 1 else ""


def _row(group: RowGroup, n: int) -> str:
    return repr(group.rows[n].line[:60])


def _wrong_join(part: StatementPart) -> Iterator[str]:
    """Yield what is told of a row and stands in others only, or is denied and stands in it."""
    group, text = part.group, part.text
    for at, _, rows, cells in part.hits:
        # "Has not been paid", of one that has.
        denied = NOT_YET.search(text[:at]) is not None and len(part.named) == 1
        for column in cells - group.keys - {"message"} if denied and part.named <= rows else ():
            if not group.is_numeric(column):
                n = min(part.named)
                yield f"{column} of {_row(group, n)} is {group.rows[n].cells[column]!r}"
                return
    under, alone = dict[str, set[int]](), {c for x in part.hits if len(x[3]) == 1 for c in x[3]}
    for *_, rows, cells in part.hits:
        own = cells - alone if len(cells) > 1 else cells
        for column in own & group.keys or own or cells:
            under.setdefault(column, set()).update(rows)
    for (name, mine), (column, others) in permutations(under.items(), 2):
        if name not in group.keys or mine & others or column in ("", "name"):
            continue
        if any(x[2] & others and x[2] & mine for x in part.hits) or DENIES.search(text):
            continue
        clocks = [x for x in part.hits if x[2] & others and CLOCK.fullmatch(text[x[0] : x[1]])]
        timed = clocks or column == "date" or not others.isdisjoint(group.days(column))
        held = [group.rows[n].cells.get(column, "") for n in mine]
        if column == "message":
            clear = all(held) and _is_quoted(part, others) and _is_named(part, mine)
        else:
            clear = (timed or not group.is_numeric(column)) and _is_kind(column, held)
        begin = min(x[0] for x in part.hits if x[2] & (mine | others))
        end = max(x[1] for x in part.hits if x[2] & (mine | others))
        if clear and not (_COMPARES if timed else RELATES).search(text[begin:end]):
            yield f"{column} of {_row(group, min(mine))} is {held[0]!r}"
            return


def _is_kind(column: str, cells: Sequence[str]) -> bool:
    """True if cells say of what kind a thing is: a few words, no text and no address."""
    most = STATE_WORDS if KIND_HEAD.search(column) else KIND_WORDS
    known = [x for x in cells if x not in ("-", "<none>") and "://" not in x]
    return len(known) == len(cells) and all(0 < len(x.split()) < most for x in known)


def _is_in_quotes(said: str, rows: set[int], group: RowGroup) -> bool:
    """True if some words stand in quotes in a row, as a name does."""
    return any(f"{sign}{said}{sign}" in group.rows[n].line for n in rows for sign in "\"'`")


def _is_named(part: StatementPart, rows: set[int]) -> bool:
    """True if rows are named by a name as programs write one, or by all words of theirs."""
    said = {part.text[x[0] : x[1]].casefold() for x in part.hits if x[3] & part.group.keys}
    names = {part.group.rows[n].cells.get("name", "").casefold() for n in rows}
    spoken = {part.text[x[0] : x[1]] for x in part.hits if x[2] & rows}
    if any(_is_in_quotes(x, rows, part.group) for x in spoken):
        return True
    return bool(said & names) or any(re.search(r"\w[._/:-]\w|\d", x) for x in said)


def _is_quoted(part: StatementPart, rows: set[int]) -> bool:
    """True if some words, or a name, of the message of a row are said."""
    said = [part.text[x[0] : x[1]] for x in part.hits if x[3] == {"message"} and x[2] <= rows]
    short = any(0 < len(part.group.rows[n].cells["message"].split()) < 3 for n in rows)
    if any(_is_in_quotes(x, rows, part.group) for x in said):
        return True
    return sum(len(x.split()) for x in said) > (not short) or any(
        re.search(r"\w[._/]\w|[a-z][A-Z]", x) for x in said
    )


def _wrong_state(part: StatementPart) -> Iterator[str]:
    """Yield a state that is told of a row that has another one."""
    group = part.group
    if not part.named or DENIES.search(part.text):
        return
    for _, word, axis, sign in part.states:
        said = [columns for _, columns in part.heads]
        near = {
            c for some in said for c in some if any(group.rows[n].states(c) for n in part.named)
        }
        for column in near or group.columns:
            has = [group.rows[n].states(column) for n in part.named]
            has = [x for x in has if x] or has
            flag = all(x and x[0][0] == "switch" for x in has)
            alike = [{s for a, s in x if a == axis or flag} for x in has]
            if flag and not near:
                continue
            if all(alike) and not any(sign in x for x in alike):
                n = min(part.named)
                if word not in group.rows[n].cells[column].casefold().split():
                    yield f"{column} of {_row(group, n)} is {group.rows[n].cells[column]!r}"
                    return


def _wrong_value(part: StatementPart) -> Iterator[str]:
    """Yield a number that is told of one row and is another one's, or far from its own."""
    group = part.group
    if len(part.named) != 1 or not part.numbers:
        return
    (n,) = part.named
    row = group.rows[n]
    own = [x for _, x in row.numbers]
    for told in part.numbers:
        if any(_equals(told, x) for x in own):
            continue
        before, behind = part.text[: told.start], part.text[told.end :]
        bound = BOUND.search(before)
        bare = before[: bound.start()] if bound else before
        clause = f"{CLAUSE_ENDS.split(bare)[-1]} {CLAUSE_ENDS.split(behind)[0]}"
        if before.rstrip().endswith((" of", "Of", "among", "out of")) or _RANGE.search(before):
            continue
        if DERIVED.search(clause) or DENIES.search(clause) or _is_derived(told, part, row):
            continue
        hedged = HEDGED.search(before[-24:]) is not None
        for column, true in _own_values(part, told, row):
            if _is_off(told, true, bound, hedged=hedged):
                yield f"{column or 'it'} of {_row(group, n)} is {true.said}"
                return
        other = _other_holder(told, row, group) if not bound else None
        if other is not None:
            yield f"{told.said} is of {other.line[:60]!r}, not of {row.line[:60]!r}"
            return


def _other_holder(told: Value, row: Row, group: RowGroup) -> Row | None:
    """Return another row that has a number where a row has one of the same kind."""
    if told.kind == "" and len(told.said.strip("0.,")) < 3 and "." not in told.said:
        return None
    for other in group.rows:
        for column, held in other.numbers if other is not row else ():
            mine = [x for x in row.values.get(column, ()) if x.kind == held.kind]
            alike = held.unit == told.unit or "" in (held.kind, told.kind)
            same = held.said == told.said and alike
            same = same or (held.kind == told.kind and len(told.said) > 2 and is_same(told, held))
            if same and len(mine) == 1 and column not in ("number", "message"):
                return other
    return None


def _equals(told: Value, true: Value) -> bool:
    """True if a number is the other one: of its unit, or of none as it is or in thousandths."""
    if told.kind in ("s", "B") and true.kind == "":
        sizes = (true.size, true.size / 1000, true.size * told.unit)
        return any(is_same(told, true._replace(kind=told.kind, size=x, said="")) for x in sizes)
    return is_same(told, true) or is_same(true, told)


def _own_values(part: StatementPart, told: Value, row: Row) -> Iterator[tuple[str, Value]]:
    """Yield the values of a row that a number may be told for: of its column, alone of its kind."""
    for column, x in row.numbers:
        # The same in another unit.
        if x.said == told.said and x.kind == told.kind != "" and x.unit != told.unit:
            yield column, x
            return
    near = [
        columns
        for at, columns in part.heads
        if not part.text[told.end : at].strip(" \n") or told.end <= at < told.end + 2
    ]
    near = near or [c for at, c in part.heads if at < told.start and told.kind == ""][-1:]
    for column in set[str]().union(*near) - part.group.keys:
        some = [x for x in row.values.get(column, ()) if x.kind in (told.kind, "")]
        if len(some) == 1 and (some[0].kind == told.kind or told.kind in ("%", "s")):
            if some[0].kind == told.kind:
                yield column, some[0]
    if told.kind in ("s", "B"):
        alone = [(c, x) for c, x in row.numbers if x.kind == told.kind]
        if len(alone) == 1:
            yield alone[0]


def _is_off(told: Value, true: Value, bound: re.Match[str] | None, *, hedged: bool) -> bool:
    """True if a told number is clearly not a value, nor about it, nor a bound of it."""
    if bound:
        over = bound["over"] is not None
        return true.size < 0.9 * told.size if over else true.size > 1.1 * told.size
    low, high = sorted((abs(told.size), abs(true.size)))
    return high > (1.5 if hedged else 1.2) * low and (low > 0 or high >= 1)


def _is_derived(told: Value, part: StatementPart, row: Row) -> bool:
    """True if a number is a sum, difference, ratio or share of those that are told of."""
    said = {x for _, columns in part.heads for x in columns}
    own = [x.size for c, x in row.numbers if c in said or (x.kind == told.kind != "")]
    others = [x.size for x in part.numbers if x is not told and x.kind in ("", told.kind)]
    sizes = [*dict.fromkeys([*own, *others])][:12]
    made = {y for a, b in permutations(sizes, 2) for y in (a - b, a + b)}
    for a, b in permutations(sizes, 2):
        made |= (
            {a / b, 100 * a / b, a * b} if b and (told.kind in ("", "%") or b in others) else set()
        )
    return any(is_same(told, told._replace(size=x, said="")) for x in made if x > 0)


def _columns_of(
    part: StatementPart, most: re.Match[str], numbers: Sequence[Value], named: frozenset[int]
) -> list[str]:
    """Return the columns that rows may be compared by: named, of a told number, or of the kind."""
    group = part.group
    ranks = [float(n) for n in range(1, len(group.rows) + 1)]
    sized = {
        c: [*x.values()] for c in group.columns if group.is_numeric(c) and (x := group.sizes(c))
    }
    numeric = [c for c, x in sized.items() if x != ranks and not _ID_HEAD.search(c)]
    for _, columns in sorted(part.heads, key=lambda x: abs(x[0] - most.end())):
        if len(some := [c for c in columns if c in numeric]) == 1:
            return some
    for told in numbers:
        held = {
            c
            for n in named
            for c in numeric
            if any(
                is_same(told, x) and x.kind == told.kind for x in group.rows[n].values.get(c, ())
            )
        }
        if len(held) == 1:
            return [*held]
    if most.re is _MOST and most["end"]:
        return []
    if most["old"] or most["new"]:
        return [c for c in numeric if _AGE_HEAD.search(c) or group.days(c)]
    if _TIMES.match(most[0]):
        some = [c for c in numeric if _TIME_HEAD.search(c) or group.kind(c) == "s"]
        return [c for c in some if not _AGE_HEAD.search(c)] or some
    if _SIZES.match(most[0]):
        return [c for c in numeric if group.kind(c) == "B"] or numeric
    return numeric if len(numeric) < 5 else []


def _wrong_extreme(part: StatementPart) -> Iterator[str]:
    """Yield a row that is told to be the first by some value, and is not."""
    group, text = part.group, part.text
    for most in _MOST.finditer(text):
        cuts = [0, *(x.start() for x in _LIMIT.finditer(text)), len(text)]
        begin = max(x for x in cuts if x <= most.start())
        clause = text[begin : min(x for x in cuts if x >= most.end())]
        if any(most[0].lower() in row.line.lower() for row in group.rows):
            continue
        local = StatementPart(clause, group)
        named = local.named or part.named
        if (
            _OWN_MOST.search(text[: most.start()])
            or _LESS_MOST.search(clause)
            or DENIES.search(clause)
        ):
            continue
        kinds = [
            rows
            for *_, rows, cells in part.hits
            if not (cells & group.keys or any(map(group.is_numeric, cells)))
        ]
        named = named.intersection(*kinds) or named
        if len(named) != 1:
            continue
        (n,), place = named, _MOST.search(clause)
        columns = [*{x for _, some in local.heads for x in some}] if most["end"] else []
        if place and not columns:
            columns = _columns_of(local, place, local.numbers or part.numbers, named)
        wrong = list[bool]()
        for one in columns:
            sizes = group.sizes(one) if group.is_numeric(one) else {}
            for scope in (set(sizes), set(sizes).intersection(*kinds), *_siblings(group, n)):
                scope &= set(sizes)
                if n in scope and len(scope) > 1:
                    top, low = max(sizes[x] for x in scope), min(sizes[x] for x in scope)
                    firsts = [top if _is_big(most, group, one) else low]
                    if most["end"] and bool(_GOOD_HEAD.search(one)) is bool(_POOR_HEAD.search(one)):
                        firsts = [top, low]
                    wrong.append(sizes[n] not in firsts)
        if wrong and (any(wrong) if most["end"] and not kinds else all(wrong)):
            yield f"by {' and '.join(columns)}, {_row(group, n)} is not the {most[0]}"


def _siblings(group: RowGroup, n: int) -> Iterator[set[int]]:
    """Yield the rows under the heading of a row, and those whose names end as its does."""
    yield {m for m, row in enumerate(group.rows) if row.over == group.rows[n].over}
    ends = [ending_of(row.line) for row in group.rows]
    yield {m for m, x in enumerate(ends) if x and x == ends[n]}


def _is_big(most: re.Match[str], group: RowGroup, column: str) -> bool:
    """True if the first by a comparing word has the largest number: the newest the latest day."""
    days = bool(group.days(column))
    if most.re is _MOST and most["end"]:
        good = _POOR_HEAD.search(column) is None
        return most[0].lower() == "dearest" or good is (_BAD.search(most[0]) is None)
    return bool(most["big"]) or (bool(most["old"]) and not days) or (bool(most["new"]) and days)


def _wrong_comparison(sentence: str, group: RowGroup) -> Iterator[str]:
    """Yield a row that is told to have more than another one, and has less."""
    more = _MORE.search(sentence)
    if not more or DENIES.search(sentence):
        return
    ends = [x.start() for x in CLAUSE_ENDS.finditer(sentence, more.end())]
    starts = [x.end() for x in CLAUSE_ENDS.finditer(sentence, 0, more.start())]
    end, start = min(ends, default=len(sentence)), max(starts, default=0)
    one = StatementPart(sentence[start : more.start()] + (more["of"] or ""), group)
    other = StatementPart(sentence[more.end() : end], group)
    here, there = _picked(one, other), _picked(other, one)
    if len(here) != 1 or len(there) != 1 or here == there:
        return
    (a,), (b,) = here, there
    wrong = list[bool]()
    columns = _columns_of(StatementPart(sentence[start:end], group), more, (), frozenset())
    for column in columns:
        sizes = group.sizes(column)
        if a in sizes and b in sizes:
            big = _is_big(more, group, column)
            wrong.append(sizes[a] < sizes[b] if big else sizes[a] > sizes[b])
    if wrong and all(wrong):
        what = f"{more[0].split()[0]} than {_row(group, b)}"
        yield f"by {' and '.join(columns)}, {_row(group, a)} is not {what}"


def _picked(part: StatementPart, other: StatementPart) -> set[int]:
    """Return the rows that have all that a part names, and what the other names of other kinds."""
    own, found = {c for x in part.hits for c in x[3]}, [x[2] for x in part.hits]
    found += [x[2] for x in other.hits if x[3].isdisjoint(own)] if found else []
    return set(found[0]).intersection(*found) if found else set()


def _wrong_count(part: StatementPart) -> Iterator[str]:
    """Yield how many rows are told to be so, where others are."""
    group, text = part.group, part.text
    for word, rows, against in _counted(part):
        if not rows and not against:
            continue
        whole = rows | against
        none, at = _NONE.search(text), text.find(word)
        close = none is not None and not re.search(r"[,:;.]", text[none.end() : at])
        if (
            none
            and len(text[: none.start()].split()) < 4
            and none.end() <= at
            and close
            and len(DENIES.findall(text)) == 1
        ):
            wanted = rows & part.named if part.named else rows
            if wanted and not part.numbers:
                yield f"{_row(group, min(wanted))} is {word}"
                return
        if _ALL.search(text) and not _NEARLY.search(text) and not DENIES.search(text):
            wanted = whole & part.named if len(part.named) > 1 else whole
            pair = re.search(r"(?i)\bboth\b", text) is not None
            if len(wanted) < 2 or len(part.named) == 1 or (pair and len(wanted) != 2):
                continue
            if against & wanted:
                yield f"{_row(group, min(against & wanted))} is not {word}"
                return
        yield from _miscounted(part, word, rows, whole)


def _miscounted(part: StatementPart, word: str, rows: set[int], whole: set[int]) -> Iterator[str]:
    text, group = part.text, part.group
    if DENIES.search(text):
        return
    rows = rows & part.named if part.named else rows
    if not rows or (part.named and len(whole & part.named) < 2):
        return
    told = [
        x for x in part.numbers if x.kind == "" and x.said.isdigit() and x.size <= len(group.rows)
    ]
    told = [x for x in told if not _INDEXED.search(text[: x.start]) and x.said not in group.counts]
    told = [x for x in told if not _OF.search(text[: x.start])]
    at = next((x.start() for x in re.finditer(re.escape(word), text, re.I)), -1)
    near = [x for x in told if not _NOT_COUNTED.search(text[: x.start])]
    if len(told) != 1 or not near or at < near[0].end:
        return
    between = text[near[0].end : at].split()
    if re.search(r"[,;]| one\b", text[near[0].end : at]):
        return
    if (
        len(between) < 5
        and near[0].size != len(rows)
        and text[near[0].end : near[0].end + 1] != "/"
    ):
        yield f"{len(rows)} of {len(whole)} rows are {word}"


def _counted(part: StatementPart) -> Iterator[tuple[str, set[int], set[int]]]:
    """Yield the words by which rows are counted, the rows that have them, and those that do not."""
    group = part.group
    for at, end, rows, cells in part.hits:
        for column in cells - group.keys:
            texts = [x.cells.get(column, "") for x in group.rows]
            phrase = column == "message" and len(part.text[at:end].split()) > 1
            short = column != "message" and all(len(x.split()) < 4 for x in texts)
            if phrase or (short and not group.is_numeric(column)):
                yield part.text[at:end], {*rows}, {n for n, x in enumerate(texts) if x} - rows
    for _, word, axis, sign in part.states:
        for column in group.columns:
            has = [x.states(column) for x in group.rows]
            flags = all(x and x[0][0] == "switch" for x in has)
            if flags and not any(column in c for _, c in part.heads):
                continue
            mine = {
                n
                for n, x in enumerate(has)
                if any((a == axis or flags) and s == sign for a, s in x)
            }
            other = {
                n
                for n, x in enumerate(has)
                if any((a == axis or flags) and s != sign for a, s in x)
            }
            if mine or other:
                yield word, mine - other, other - mine


def _wrong_changes(sentence: str, changes: Sequence[Change]) -> Iterator[str]:
    """Yield a change that is told the other way round."""
    if not changes or DENIES.search(sentence):
        return
    told = [tuple(map(_bare, x)) for x in _FROM_TO.findall(sentence)]
    for change in changes:
        old, new = _bare(change.old), _bare(change.new)
        why = f"{change.key} was changed from {change.old} to {change.new}"
        if (new, old) in told and old != new:
            yield why
            continue
        terms = {x for _, x in terms_at(change.key.replace("_", " "))} - EMPTY
        parts = re.split(r"[,;:]\s|\b(?:and|but|while)\b", sentence)
        said = [len(terms & {x for _, x in terms_at(part)}) for part in parts]
        part = parts[said.index(max(said))] if max(said) else ""
        states = {
            STATES[x[0].casefold()] for x in STATE.finditer(part) if x[0].casefold() in STATES
        }
        state = STATES.get(change.new.casefold())
        if state and state[0] == "switch" and "from" not in part:
            if {s for a, s in states if a == "switch"} == {-state[1]}:
                yield why
        sizes = [[x for x in values_of(y) if x.kind != "state"] for y in (change.old, change.new)]
        if not (part and all(len(x) == 1 for x in sizes) and sizes[0][0].kind == sizes[1][0].kind):
            continue
        up, down = _GROWS.search(part), _SHRINKS.search(part)
        if sizes[0][0].kind == "s":
            up, down = up or re.search(r"\bslower\b", part), down or re.search(r"\bfaster\b", part)
        grown = sizes[1][0].size > sizes[0][0].size
        if (up is None) is not (down is None) and (up is not None) is not grown:
            yield why


def _bare(text: str) -> str:
    """Return a number without its unit, another text as it is."""
    found = re.match(r"[^\d]{0,2}(\d[\d.,]*)", text)
    return found[1].rstrip(".,") if found else text


def _not_free(stated: str, output: str, groups: Sequence[RowGroup]) -> Iterator[str]:
    """Yield what is told to be without errors or warnings, where a line of the output has one."""
    free = _FREE.search(stated)
    rest = f"{stated[: free.start()]}{stated[free.end() :]}" if free else ""
    if not free or re.search(r"(?i)\b(?:fail|error|warn|but|except)", rest):
        return
    wanted = _WARNS if free["what"].lower().startswith("warn") else _FAILS
    line = wanted.search(output)
    if line and not any(StatementPart(rest, group).named for group in groups):
        yield f"there is {line[0].strip()[:60]!r}"
