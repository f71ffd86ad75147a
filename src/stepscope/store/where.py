"""The filter of `--where` and `--since`: a small SQL-like language, compiled to SQL parameters.

    agent = 'gpt-4o' and (outcome = 'fail' or steps > 40) and not tag.experiment in ('a', 'b')

Fields: id name workflow task trial agent agent_version outcome steps calls format tag.KEY, and
mode, which is true of any of a run's signatures (`mode != 'x'`: none of them is x).
Operators: = != < <= > >= like in, and or not, parentheses; `null` after = and != is absence. Logic
has two values: a comparison with an absent field is false (`!=` true). What a user wrote never
becomes SQL: fields are looked up in a table of constants, values travel as parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from stepscope.errors import UsageError

Value = str | int | float | None

NUMBERS = frozenset({"steps", "calls"})
# Constant fragments: the only SQL that a filter can put into a query.
FIELDS = {
    name: "runs." + name
    for name in (
        "id", "name", "workflow", "task", "trial", "agent", "agent_version", "outcome", "steps",
        "calls", "format",
    )
}  # fmt: skip
MODE = "mode"
_MODE = "EXISTS (SELECT 1 FROM json_each(signatures(runs.seq)) AS signed WHERE {})"
_TAG = "(SELECT tags.value FROM tags WHERE tags.run = runs.seq AND tags.key = ?)"
_WHEN = "coalesce(runs.start_ns, runs.imported_ns)"
_OUTCOMES = ("pass", "fail", "unknown")
# A filter is written by a person; SQLite refuses expressions deeper than 1000 terms.
_MAX_CHARACTERS = 10_000
_MAX_DEPTH = 50
_MAX_TERMS = 200
_MAX_INTEGER = 2**63 - 1  # SQLite's
_COMPARE = {
    "=": "{} IS ?", "==": "{} IS ?", "!=": "{} IS NOT ?", "<>": "{} IS NOT ?",
    "<": "coalesce({} < ?, 0)", "<=": "coalesce({} <= ?, 0)",
    ">": "coalesce({} > ?, 0)", ">=": "coalesce({} >= ?, 0)",
    "like": "coalesce({} LIKE ?, 0)",
}  # fmt: skip

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])"
    r"|(?P<operator>==|!=|<>|<=|>=|=|<|>)"
    r"|(?P<mark>[(),])"
    r"|(?P<tag>tag\.(?:[\w.\-]+|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"))"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<end>\Z))"
)


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on runs: SQL made of constants only, and the parameters it takes.

    `text` is what the user wrote, for reports.
    """

    sql: str
    parameters: tuple[Value, ...] = ()
    text: str = ""

    def __and__(self, other: Where) -> Where:
        """Return the condition that both hold."""
        text = " and ".join(part for part in (self.text, other.text) if part)
        return Where(
            "(" + self.sql + ") AND (" + other.sql + ")", self.parameters + other.parameters, text
        )


def parse_where(text: str) -> Where:
    """Return the condition that `text` says.

    Raises:
        UsageError: it says none; the message gives the character, counted from 1.

    >>> parse_where("agent = 'gpt-4o' and steps > 40").parameters
    ('gpt-4o', 40)
    """
    if len(text) > _MAX_CHARACTERS:
        raise UsageError(f"where: {len(text)} characters; at most {_MAX_CHARACTERS} make a filter")
    return _Parser(text).where()


def started_since(text: str, *, now: datetime | None = None) -> Where:
    """Return the condition that a run started at `text` or later.

    A run whose trace has no time counts from when it was first imported. The text is an ISO date or
    time (UTC unless it says otherwise), or a duration before `now` as 30m, 12h, 7d or 2w.

    Raises:
        UsageError: `text` is neither.
    """
    return Where(_WHEN + " >= ?", (parse_moment("since", text, now=now),), f"since {text}")


def stored_before(text: str, *, now: datetime | None = None) -> Where:
    """Return the condition that a run was first imported before `text`; see `started_since`."""
    when = parse_moment("before", text, now=now)
    return Where("runs.imported_ns < ?", (when,), f"stored before {text}")


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


class _Parser:
    """Recursive descent over the tokens; collects parameters in the order of their marks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0
        self._terms = 0
        self._parameters: list[Value] = []

    def where(self) -> Where:
        sql = self._either(0)
        if (token := self._peek()).lastgroup != "end":
            self._fail(token, "expected 'and', 'or' or the end")
        return Where(sql, tuple(self._parameters), self._text.strip())

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
        if token.lastgroup in ("word", "mark") and _text(token).lower() == word:
            self._next += 1
            return True
        return False

    def _fail(self, token: re.Match[str], expected: str) -> NoReturn:
        raise _refusal(token.start(str(token.lastgroup)), _text(token), expected)

    def _either(self, depth: int) -> str:
        return self._joined(depth, "or", lambda depth: self._joined(depth, "and", self._one))

    def _joined(self, depth: int, word: str, term: Callable[[int], str]) -> str:
        sql = term(depth)
        while self._takes(word):
            sql = "(" + sql + " " + word.upper() + " " + term(depth) + ")"
        return sql

    def _one(self, depth: int) -> str:
        token = self._peek()
        if depth > _MAX_DEPTH:
            self._fail(token, f"nested deeper than {_MAX_DEPTH}")
        if self._takes("not"):
            return "NOT " + self._one(depth + 1)
        if self._takes("("):
            sql = self._either(depth + 1)
            if not self._takes(")"):
                self._fail(self._peek(), "expected ')'")
            return "(" + sql + ")"
        self._terms += 1
        token = self._take()
        if self._terms > _MAX_TERMS:
            self._fail(token, f"more than {_MAX_TERMS} values")
        if token.lastgroup == "tag":
            field, sql = "", _TAG
            self._parameters.append(_unquote(_text(token).removeprefix("tag.")))
        elif token.lastgroup == "word" and _text(token) in FIELDS:
            field, sql = _text(token), FIELDS[_text(token)]
        elif token.lastgroup == "word" and _text(token) == MODE:
            return self._mode()
        else:
            self._fail(token, f"expected a field: {', '.join(FIELDS)}, {MODE}, tag.KEY")
        return self._comparison(field, sql)

    def _mode(self) -> str:
        """Read what is said of the signatures of a run; `null` is to have none."""
        negated, token = self._takes("not"), self._take()
        operator, said = _text(token).lower(), "1"
        if operator == "in":
            said = "signed.value IN (" + self._list(MODE) + ")"
        elif operator == "like" or (operator in ("=", "==", "!=", "<>") and not negated):
            value = self._value(MODE, operator)
            negated = negated or (operator in ("!=", "<>")) != (value is None)
            if value is not None:
                self._parameters.append(value)
                said = "signed.value LIKE ?" if operator == "like" else "signed.value = ?"
        else:
            self._fail(token, "expected one of = != like in")
        return ("NOT " if negated else "") + _MODE.format(said)

    def _comparison(self, field: str, sql: str) -> str:
        negated = self._takes("not")
        operator = self._take()
        if _text(operator).lower() == "in" and operator.lastgroup == "word":
            found = "coalesce(" + sql + " IN (" + self._list(field) + "), 0)"
        elif operator.lastgroup == "operator" and not negated:
            found = _COMPARE[_text(operator)].format(sql)
            self._parameters.append(self._value(field, _text(operator)))
        elif _text(operator).lower() == "like" and operator.lastgroup == "word":
            found = _COMPARE["like"].format(sql)
            self._parameters.append(self._value(field, "like"))
        else:
            self._fail(operator, "expected one of = != < <= > >= like in")
        return "(NOT " + found + ")" if negated else found

    def _list(self, field: str) -> str:
        if not self._takes("("):
            self._fail(self._peek(), "expected '(' and values, as task in ('1', '2')")
        marks = []
        while True:
            self._terms += 1
            if self._terms > _MAX_TERMS:
                self._fail(self._peek(), f"more than {_MAX_TERMS} values")
            self._parameters.append(self._value(field, "in"))
            marks.append("?")
            if self._takes(")"):
                return ", ".join(marks)
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
        if field == "outcome" and operator != "like" and text not in _OUTCOMES:
            self._fail(token, f"an outcome is one of {', '.join(_OUTCOMES)}")
        return text


def _refusal(at: int, found: str, expected: str) -> UsageError:
    return UsageError(f"where, character {at + 1}: {found!r}; {expected}")


def _unquote(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0]) if text[:1] in ("'", '"') else text
