"""The filter of `--where` and `--since`: a small SQL-like language, compiled to SQL parameters.

    agent = 'gpt-4o' and (outcome = 'fail' or steps > 40) and not tag.experiment in ('a', 'b')
    tool = 'book_reservation' and error and text ~ 'refund'

Fields: id name workflow task trial agent agent_version outcome steps calls format tag.KEY; mode,
which is true of any of a run's signatures (`mode != 'x'`: none of them is x), and annotator, of any
who labelled it; axis.NAME, the label
that the rules gave; tool and error, of a call; text, of the whole run. Conditions on calls that
`and` joins speak of one call, up to the next `tool`; one that is negated alone says that no call is
so. Operators: = != < <= > >= ~ like in, and or not, parentheses; `null` after = and != is absence.
A comparison with an absent field is false (`!=` true). What cannot be known (calls and texts of
erased runs, signatures of runs that rules did not see) is neither true nor false, with `not` or
without. What a user wrote never becomes SQL: fields are looked up in a table of constants, values
travel as parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import chain
from operator import and_
from typing import NamedTuple, NoReturn

from stepscope.errors import UsageError, suggest_name

Value = str | int | float | None

NUMBERS = frozenset({"steps", "calls"})
# Constant fragments: the only SQL that a filter can put into a query.
_NAMES = "id name workflow task trial agent agent_version outcome steps calls format".split()
FIELDS = {name: "runs." + name for name in _NAMES}
# What is known of one call: its tool, and what it said where it failed.
CALL_FIELDS = {
    "tool": "json_extract(call.value, '$[0]')",
    "error": "json_extract(call.value, '$[1]')",
}
MODE, ANNOTATOR, TEXT = "mode", "annotator", "text"
# Fields of which a run may have several values: the function that gives them.
_SEVERAL = {MODE: "signatures", ANNOTATOR: "annotators"}
AXES = ("tool_selection", "argument_validity", "sequencing", "result_interpretation", "termination")
_AXIS_LABELS = ("incorrect", "uncertain")
# NULL where nothing can be known: of runs that rules did not see, and of erased ones.
_ANY = (
    "CASE WHEN {0}(runs.seq) IS NOT NULL THEN EXISTS (SELECT 1 FROM "
    "json_each({0}(runs.seq)) AS held WHERE {1}) END"
)
_NOT_ERASED = "CASE WHEN runs.purged_ns IS NULL THEN {} END"
_CALL = _NOT_ERASED.format("EXISTS (SELECT 1 FROM json_each(calls_of(runs.seq)) AS call WHERE {})")
_NO_CALL = "(NOT " + _CALL.format("NOT {}") + ")"
_MENTIONS = _NOT_ERASED.format("mentions(runs.seq, ?)")
_AXIS = "axis(runs.seq, ?)"
_TAG = "(SELECT tags.value FROM tags WHERE tags.run = runs.seq AND tags.key = ?)"
_WHEN = "coalesce(runs.start_ns, runs.imported_ns)"
_OUTCOMES = ("pass", "fail", "unknown")
# A filter is written by a person; SQLite refuses expressions deeper than 1000 terms.
_MAX_CHARACTERS = 10_000
_MAX_DEPTH = 50
_MAX_TERMS = 200
_MAX_INTEGER = 2**63 - 1  # SQLite's
_COMPARE = {
    "=": "{} IS ?",
    "==": "{} IS ?",
    "!=": "{} IS NOT ?",
    "<>": "{} IS NOT ?",
    "<": "coalesce({} < ?, 0)",
    "<=": "coalesce({} <= ?, 0)",
    ">": "coalesce({} > ?, 0)",
    ">=": "coalesce({} >= ?, 0)",
    "like": "coalesce({} LIKE ?, 0)",
    "~": "coalesce(instr(lower({}), lower(?)) > 0, 0)",
}

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])"
    r"|(?P<operator>==|!=|<>|<=|>=|=|<|>|~)"
    r"|(?P<mark>[(),])"
    r"|(?P<tag>(?:tag|axis)\.(?:[\w.\-]+|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"))"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<end>\Z))"
)


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on runs: SQL made of constants only, and the parameters it takes.

    `text` is what the user wrote, for reports. `values` are texts that a field is to equal, each
    after the field.
    """

    sql: str
    parameters: tuple[Value, ...] = ()
    text: str = ""
    values: tuple[tuple[str, str], ...] = ()

    def __and__(self, other: Where) -> Where:
        """Return the condition that both hold."""
        text = " and ".join(part for part in (self.text, other.text) if part)
        sql = "(" + self.sql + ") AND (" + other.sql + ")"
        return Where(sql, self.parameters + other.parameters, text, (*self.values, *other.values))

    @property
    def reads_traces(self) -> bool:
        """Whether it looks into the steps of runs, which an export of verdicts does not hold."""
        return "calls_of(" in self.sql or "mentions(" in self.sql


def parse_where(text: str) -> Where:
    """Return the condition that `text` says; a `UsageError` gives the character, counted from 1.

    >>> parse_where("agent = 'gpt-4o' and steps > 40").parameters
    ('gpt-4o', 40)
    """
    if len(text) > _MAX_CHARACTERS:
        raise UsageError(f"where: {len(text)} characters; at most {_MAX_CHARACTERS} make a filter")
    return _Parser(text).where()


def started_since(text: str, *, now: datetime | None = None) -> Where:
    """Return the condition that a run started at `text` or later.

    A run whose trace has no time counts from when it was first imported. The text is an ISO date or
    time (UTC unless it says otherwise), or a duration before `now` as 30m, 12h, 7d or 2w; any other
    is a `UsageError`.
    """
    return Where(_WHEN + " >= ?", (parse_moment("since", text, now=now),), f"since {text}")


def stored_before(text: str, *, now: datetime | None = None) -> Where:
    """Return the condition that a run was first imported before `text`; see `started_since`."""
    when = parse_moment("before", text, now=now)
    return Where("runs.imported_ns < ?", (when,), f"stored before {text}")


def combine_filters(
    text: str | Where | None, after: str | None = None, *, older_than: str | None = None
) -> Where | None:
    """Return one filter of a text, a date or age `after` and `older_than`; UsageError if wrong."""
    chosen = parse_where(text) if isinstance(text, str) else text
    dated = ((started_since, after), (stored_before, older_than))
    given = [chosen, *(make(when) for make, when in dated if when is not None)]
    conditions = [one for one in given if one is not None]
    return reduce(and_, conditions) if conditions else None


def parse_moment(option: str, text: str, *, now: datetime | None = None) -> int:
    """Return a date, a time or an age as nanoseconds since 1970; `option` is for the message."""
    units = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
    try:
        if match := re.fullmatch(r"([0-9]{1,9})([mhdw])", text.strip()):
            when = (now or datetime.now(UTC)) - timedelta(seconds=int(match[1]) * units[match[2]])
        else:
            when = datetime.fromisoformat(text.strip())
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
        found = (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    except (ValueError, OverflowError) as e:
        raise UsageError(
            f"{option}: {text!r} is not a time; expected a date such as 2026-01-31, a time such "
            "as 2026-01-31T12:00, or a duration such as 30m, 12h, 7d, 2w"
        ) from e
    # 64 bits of nanoseconds end in 2262; a run is not from after that.
    return max(-_MAX_INTEGER, min(found, _MAX_INTEGER))


def _text(token: re.Match[str]) -> str:
    return token[str(token.lastgroup)] or "the end"


class _Condition(NamedTuple):
    """A part of a filter: SQL and what it takes, in order, of a run or of one of its calls."""

    sql: str
    parameters: tuple[Value, ...] = ()
    of_call: bool = False
    negated: bool = False  # what it says of a call is what that is not
    names: bool = False  # it says which tool was called

    def of_run(self) -> _Condition:
        """Return what it says of a run: some call is so, or no call is what is negated."""
        if not self.of_call:
            return self
        return _Condition((_NO_CALL if self.negated else _CALL).format(self.sql), self.parameters)


def _join(word: str, parts: Sequence[_Condition]) -> _Condition:
    """Return conditions joined by `and` or `or`; they are all of a run, or all of one call."""
    if len(parts) == 1:
        return parts[0]
    sql = "(" + (" " + word.upper() + " ").join(part.sql for part in parts) + ")"
    values = tuple(chain.from_iterable(part.parameters for part in parts))
    negated, names = all(part.negated for part in parts), any(part.names for part in parts)
    return _Condition(sql, values, parts[0].of_call, negated, names)


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0
        self._terms = 0
        self._values: list[tuple[str, str]] = []

    def where(self) -> Where:
        found = self._either(0).of_run()
        if (token := self._peek()).lastgroup != "end":
            self._fail(token, "expected 'and', 'or' or the end")
        return Where(found.sql, found.parameters, self._text.strip(), tuple(self._values))

    def _split(self) -> Iterator[re.Match[str]]:
        at, end = 0, len(self._text.rstrip())
        while True:
            match = _TOKEN.match(self._text, at, end)
            if match is None:
                start = at + len(self._text[at:]) - len(self._text[at:].lstrip())
                expected = "put texts in quotes, such as agent = 'gpt-4o'"
                raise _refusal(start, self._text[start : start + 20], expected)
            yield match
            if match.lastgroup == "end":
                return
            at = match.end()

    def _peek(self) -> re.Match[str]:
        return self._tokens[self._next]

    def _take(self) -> re.Match[str]:
        token = self._peek()
        self._next += token.lastgroup != "end"
        return token

    def _takes(self, word: str) -> bool:
        token = self._peek()
        if token.lastgroup in ("word", "mark", "operator") and _text(token).lower() == word:
            self._next += 1
            return True
        return False

    def _fail(self, token: re.Match[str], expected: str) -> NoReturn:
        raise _refusal(token.start(str(token.lastgroup)), _text(token), expected)

    def _either(self, depth: int) -> _Condition:
        parts = self._several(depth, "or", self._both)
        # What holds of one or the other: of one call where each part says what it is.
        if len(parts) > 1 and not all(part.of_call and not part.negated for part in parts):
            parts = [part.of_run() for part in parts]
        return _join("or", parts)

    def _both(self, depth: int) -> _Condition:
        """Read what holds together: conditions on calls are of one call, up to the next tool."""
        parts = self._several(depth, "and", self._one)
        calls: list[list[_Condition]] = []
        for one in parts:
            if one.of_call and not (calls and not (one.names and any(x.names for x in calls[-1]))):
                calls.append([])
            if one.of_call:
                calls[-1].append(one)
        made = [_join("and", group) for group in calls]
        runs = [one for one in parts if not one.of_call]
        if len(made) == 1 and not runs:
            return made[0]
        return _join("and", [*runs, *(group.of_run() for group in made)])

    def _several(self, depth: int, op: str, term: Callable[[int], _Condition]) -> list[_Condition]:
        found = [term(depth)]
        while self._takes(op):
            found.append(term(depth))
        return found

    def _one(self, depth: int) -> _Condition:
        token = self._peek()
        if depth > _MAX_DEPTH:
            self._fail(token, f"nested deeper than {_MAX_DEPTH}")
        if self._takes("not"):
            found = self._one(depth + 1)
            negated = found.of_call and not found.negated
            return found._replace(sql="NOT " + found.sql, negated=negated, names=False)
        if self._takes("("):
            found = self._either(depth + 1)
            if not self._takes(")"):
                self._fail(self._peek(), "expected ')'")
            return found._replace(sql="(" + found.sql + ")")
        self._count(token)
        token = self._take()
        name = _text(token)
        if token.lastgroup == "tag":
            return self._keyed(token)
        if token.lastgroup == "word" and name in FIELDS:
            return self._comparison(name, FIELDS[name])
        if token.lastgroup == "word" and name in CALL_FIELDS:
            return self._of_call(name, CALL_FIELDS[name])
        if token.lastgroup == "word" and name in _SEVERAL:
            return self._several_values(name)
        if token.lastgroup == "word" and name == TEXT:
            if not self._takes("~"):
                self._fail(self._peek(), "a text is searched, as text ~ 'refund'")
            return _Condition(_MENTIONS, (self._value(TEXT, "~"),))
        names = (*FIELDS, *CALL_FIELDS, TEXT, *_SEVERAL, "tag.KEY", "axis.NAME")
        self._fail(token, f"expected a field; {suggest_name(name, names)}")

    def _count(self, token: re.Match[str]) -> None:
        self._terms += 1
        if self._terms > _MAX_TERMS:
            self._fail(token, f"more than {_MAX_TERMS} values")

    def _keyed(self, token: re.Match[str]) -> _Condition:
        """Read what is said of a tag, or of the label of an axis."""
        kind, _, key = _text(token).partition(".")
        key = _unquote(key)
        if kind == "axis" and key not in AXES:
            self._fail(token, f"expected an axis; {suggest_name(key, AXES)}")
        found = self._comparison(f"{kind}.{key}", _AXIS if kind == "axis" else _TAG)
        return found._replace(parameters=(key, *found.parameters))

    def _of_call(self, field: str, sql: str) -> _Condition:
        """Read what is said of a call; `error` alone is that it failed."""
        token = self._peek()
        alone = token.lastgroup == "end" or _text(token).lower() in ("and", "or", ")")
        if field == "error" and alone:
            return _Condition(sql + " IS NOT NULL", of_call=True)
        operator = _text(token).lower()
        found = self._comparison(field, sql)
        negated = operator in ("not", "!=", "<>") and found.parameters != (None,)
        names = field == "tool" and operator in ("=", "==", "in")
        return found._replace(of_call=True, negated=negated, names=names)

    def _several_values(self, field: str) -> _Condition:
        """Read what is said of a field with several values; `null` is to have none."""
        negated, token = self._takes("not"), self._take()
        operator, said = _text(token).lower(), "1"
        given: tuple[Value, ...] = ()
        if operator == "in":
            given = self._list(field)
            said = "held.value IN (" + _marks(given) + ")"
        elif operator in ("like", "~") or (operator in ("=", "==", "!=", "<>") and not negated):
            value = self._value(field, operator)
            negated = negated or (operator in ("!=", "<>")) != (value is None)
            if value is not None:
                given = (value,)
                said = _COMPARE[operator if operator in ("like", "~") else "="]
                said = said.format("held.value")
        else:
            self._fail(token, "expected one of = != ~ like in")
        return _Condition(("NOT " if negated else "") + _ANY.format(_SEVERAL[field], said), given)

    def _comparison(self, field: str, sql: str) -> _Condition:
        negated = self._takes("not")
        sign = self._take()
        name = _text(sign).lower()
        if name == "in" and sign.lastgroup == "word":
            parameters = self._list(field)
            found = "coalesce(" + sql + " IN (" + _marks(parameters) + "), 0)"
        elif name in _COMPARE and not (negated and sign.lastgroup == "operator" and name != "~"):
            parameters = (self._value(field, name),)
            found = _COMPARE[name].format(sql)
        else:
            self._fail(sign, "expected one of = != < <= > >= ~ like in")
        return _Condition("(NOT " + found + ")" if negated else found, parameters)

    def _list(self, field: str) -> tuple[Value, ...]:
        if not self._takes("("):
            self._fail(self._peek(), "expected '(' and values, as task in ('1', '2')")
        values: list[Value] = []
        while True:
            self._count(self._peek())
            values.append(self._value(field, "in"))
            if self._takes(")"):
                return tuple(values)
            if not self._takes(","):
                self._fail(self._peek(), "expected ',' or ')'")

    def _value(self, field: str, operator: str) -> Value:
        token = self._take()
        if token.lastgroup == "word" and _text(token).lower() == "null":
            if operator in ("=", "==", "!=", "<>"):
                return None
            self._fail(token, "null is allowed only after = and !=")
        if token.lastgroup == "number":
            if field in NUMBERS:
                # Beyond 64 bits SQLite takes no integer; no count gets there.
                number = float(_text(token)) if "." in _text(token) else int(_text(token))
                return number if abs(number) <= _MAX_INTEGER else float(number)
            return _text(token)
        if token.lastgroup != "text":
            self._fail(token, "expected a value: a text in quotes or a number")
        text = _unquote(_text(token))
        if field in NUMBERS:
            self._fail(token, f"{field} is compared with a number")
        closed = _AXIS_LABELS if field.startswith("axis.") else _OUTCOMES
        is_closed = field == "outcome" or field.startswith("axis.")
        if is_closed and operator not in ("like", "~") and text not in closed:
            kind = "an outcome" if field == "outcome" else "an axis"
            self._fail(token, f"{kind} is one of {', '.join(closed)}")
        if operator in ("=", "==", "in"):
            self._values.append((field, text))
        return text


def _marks(values: Sequence[Value]) -> str:
    return ", ".join("?" * len(values))


def _refusal(at: int, found: str, expected: str) -> UsageError:
    return UsageError(f"where, character {at + 1}: {found!r}; {expected}")


def _unquote(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0]) if text[:1] in ("'", '"') else text
