"""What an address asks for, decoded once and checked: filters, a window of steps, two sides."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import QueryParams

from stepscope.errors import UsageError
from stepscope.report.pages.runs import RunQuery
from stepscope.store.where import Where, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which runs a page speaks of, and how they are grouped: the same words as on the command line.

    Attributes:
        where: a filter, "" for all.
        since: a date or an age, "" for all.
        by: the field that makes groups, "" for the agents of each workflow.
    """

    where: str = ""
    since: str = ""
    by: str = ""

    @property
    def condition(self) -> Where | None:
        """The filter as the store reads it.

        Raises:
            UsageError: it makes no sense.
        """
        return parse(self.where) if self.where else None


def choice(query: QueryParams) -> Choice:
    """Return what an address chooses."""
    return Choice(
        where=query.get("where", ""), since=query.get("since", ""), by=query.get("by", "")
    )


def kept(query: QueryParams) -> dict[str, str]:
    """Return what every other address of the page keeps of this one."""
    return {key: query[key] for key in ("where", "since", "by") if query.get(key)}


def run_query(query: QueryParams) -> RunQuery:
    """Return which runs the table of an address shows, and how ordered."""
    return RunQuery(
        text=query.get("q", ""),
        outcome=query.get("outcome", ""),
        agent=query.get("agent", ""),
        workflow=query.get("workflow", ""),
        sort=query.get("sort", ""),
        descending=query.get("desc") == "1",
        page=number(query, "page") or 0,
    )


def number(query: QueryParams, name: str) -> int | None:
    """Return a whole number from 0 of an address; None where it says none.

    Raises:
        UsageError: what it says is no such number.
    """
    text = query.get(name)
    if text is None or text == "":
        return None
    # More digits than any step or page has; Python refuses thousands of them itself.
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise UsageError(f"{name}={text!r} in the address: expected a whole number from 0")
    return int(text)
