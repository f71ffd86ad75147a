from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from stepscope.errors import UsageError
from stepscope.model import Instant, Record, Verdict
from stepscope.store import Store
from stepscope.store.where import parse_where, started_since, stored_before
from tests.factories import FAILED, PASSED, did, failed, run, user


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        opened.put(
            [
                run(user("a"), id="a", name="shop/1/0", agent="gpt-4o", outcome=PASSED),
                run(user("b"), *did("x"), id="b", name="shop/2/0", task="2", outcome=FAILED),
                run(
                    user("c"), id="c", name="it's", agent="o'brien", tags={"set": "dev", "a b": "1"}
                ),
                run(user("d"), id="d", name="nul\0l", agent="GPT-4o", tags={"set": "test"}),
            ]
        )
        yield opened


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("agent = 'gpt-4o'", "a"),
        ("agent == 'gpt-4o'", "a"),
        ("agent != 'gpt-4o'", "bcd"),  # an absent agent is not gpt-4o
        ("not agent = 'gpt-4o'", "bcd"),
        ("agent <> 'gpt-4o' and agent != null", "cd"),
        ("agent = null", "b"),
        ("agent like 'gpt%'", "ad"),  # like SQL's: letters of either case
        ("agent not like 'gpt%'", "bc"),
        ("agent in ('gpt-4o', \"o'brien\")", "ac"),
        ("agent not in ('gpt-4o')", "bcd"),
        ("agent < 'b'", "d"),
        ("not agent < 'b'", "abc"),  # a comparison with an absent agent is false, not unknown
        ("not agent like 'gpt%'", "bc"),
        ("not agent in ('gpt-4o')", "bcd"),
        ("name = 'it''s'", "c"),
        ("name = 'nul'", ""),
        ("name = 'nul\0l'", "d"),
        ("outcome = 'pass' or outcome = 'fail' and calls > 0", "ab"),
        ("(outcome = 'pass' or outcome = 'fail') and calls > 0", "b"),
        ("steps >= 3", "b"),
        ("steps < 2.5", "acd"),
        ("steps > 99999999999999999999", ""),
        ("task = 2", "b"),
        ("tag.set = 'dev'", "c"),
        ("tag.set != 'dev'", "abd"),
        ("tag.'a b' = 1", "c"),
        ("tag.nothing = null", "abcd"),
        ("NOT (format = 'test')", ""),
        ("workflow = 'shop' and id in ('a', 'zz')", "a"),
        ("not not not calls = 0", "b"),
    ],
)
def test_a_filter_chooses(store: Store, text: str, ids: str) -> None:
    assert "".join(sorted(store.runs(parse_where(text)).id)) == ids


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "character 1: 'the end'; expected a field"),
        ("agnt = 'x'", "character 1: 'agnt'; expected a field; did you mean 'agent'?"),
        ("agent = gpt", "character 9: 'gpt'; expected a value"),
        ("agent 'x'", "character 7: \"'x'\"; expected one of"),
        ("agent = 'x", 'character 9: "\'x"; put texts in quotes'),
        ("agent = 'x' agent = 'y'", "character 13: 'agent'; expected 'and', 'or' or the end"),
        ("(agent = 'x'", "character 13: 'the end'; expected ')'"),
        ("agent in 'x'", "character 10: \"'x'\"; expected '('"),
        ("agent in ('x' 'y')", "character 15: \"'y'\"; expected ','"),
        ("agent in (null)", "character 11: 'null'; null is allowed"),
        ("agent not = 'x'", "character 11: '='; expected one of"),
        ("steps > 'x'", "character 9: \"'x'\"; steps is compared with a number"),
        ("outcome = 'passed'", "character 11: \"'passed'\"; an outcome is one of"),
        ("steps = 3abc", "character 9: '3abc'; put texts"),
        ("tag = 'x'", "character 1: 'tag'; expected a field"),
        ("purged_ns = 1", "character 1: 'purged_ns'; expected a field"),
        ("not " * 60 + "steps = 1", "nested deeper than 50"),
        ("(" * 60 + "steps = 1" + ")" * 60, "nested deeper than 50"),
        ("steps in (" + "1," * 300 + "1)", "more than 200 values"),
        (" or ".join(["steps = 1"] * 300), "more than 200 values"),
        ("a" * 10_001, "at most 10000"),
        (
            "axis.sequncing = 'incorrect'",
            "character 1: 'axis.sequncing'; expected an axis; did you",
        ),
        ("axis.sequencing = 'wrong'", "character 19: \"'wrong'\"; an axis is one of incorrect"),
        ("text = 'x'", "character 6: '='; a text is searched"),
        ("error 'x'", "character 7: \"'x'\"; expected one of"),
        ("tool ~ book", "character 8: 'book'; expected a value"),
    ],
)
def test_a_filter_that_says_nothing_names_the_character(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_where(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "1 = 1",
        "agent = 'x'; DROP TABLE runs",
        "agent = 'x' -- ",
        "agent = (SELECT body FROM cases)",
        "agent = 'x' UNION SELECT 1",
        "tag.x'; DROP TABLE runs; -- = 'y'",
        "runs.agent = 'x'",
        "agent || 'x' = 'y'",
        "agent = ?",
        "agent = 'x' /* */",
        "lower(agent) = 'x'",
        "agent = 'x\\' or 1=1 --'y'",
    ],
)
def test_sql_does_not_get_through(text: str) -> None:
    with pytest.raises(UsageError):
        parse_where(text)


@pytest.mark.parametrize("nasty", ["'; DROP TABLE runs; --", "%", "\\", "{}", "?1", "runs.id"])
def test_what_a_user_wrote_travels_as_a_parameter(store: Store, nasty: str) -> None:
    quoted = nasty.replace("'", "''")
    for text in (f"agent = '{quoted}'", f"tag.'{quoted}' = 'x'", f"agent in ('{quoted}')"):
        where = parse_where(text)
        assert nasty in where.parameters
        assert len(store.runs(where)) == 0
    assert len(store.runs()) == 4


def test_conditions_join_without_leaking_into_each_other(store: Store) -> None:
    both = parse_where("agent = 'gpt-4o' or steps = 3") & parse_where("outcome = 'fail'")
    assert list(store.runs(both).id) == ["b"]
    assert both.text == "agent = 'gpt-4o' or steps = 3 and outcome = 'fail'"


NOW = datetime(2026, 1, 8, 12, tzinfo=UTC)
DAY = 86_400_000_000_000
EIGHTH = 20_461 * DAY  # 2026-01-08, counted from 1970


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-01-08", EIGHTH),
        ("2026-01-08T12:00", EIGHTH + DAY // 2),
        ("2026-01-08T12:00:00+02:00", EIGHTH + DAY // 24 * 10),
        ("2026-01-08T12:00:00Z", EIGHTH + DAY // 2),
        ("7d", EIGHTH + DAY // 2 - 7 * DAY),
        ("12h", EIGHTH),
        ("30m", EIGHTH + DAY // 2 - DAY // 48),
        ("9999-12-31", 2**63 - 1),
        ("0001-01-01", 1 - 2**63),
        ("1w", EIGHTH + DAY // 2 - 7 * DAY),
    ],
)
def test_since_takes_dates_and_durations(text: str, nanoseconds: int) -> None:
    assert started_since(text, now=NOW).parameters == (nanoseconds,)


@pytest.mark.parametrize(
    "text", ["", "d", "7", "7 d", "-7d", "7y", "\u0663d", "yesterday", "2026-13-01", "9" * 9 + "w"]
)
def test_since_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="expected a date such as 2026-01-31"):
        started_since(text, now=NOW)


def test_a_run_counts_from_its_start_and_without_one_from_its_import() -> None:
    old = Instant(EIGHTH, "2026-01-08")
    with Store.open(":memory:") as store:
        store.put([run(user("a"), id="timed", start=old), run(user("b"), id="timeless")])
        assert list(store.runs(started_since("2026-01-09")).id) == ["timeless"]
        assert list(store.runs(started_since("2026-01-08")).id) == ["timed", "timeless"]
        assert list(store.runs(stored_before("2026-01-09")).id) == []
        assert list(store.runs(stored_before("2999-01-01")).id) == ["timed", "timeless"]


HOSTILE = "x' OR 1=1 --\"[]{}$[0]\u202e</script>"


@pytest.fixture(scope="module")
def calling() -> Iterator[Store]:
    book, fly = "book_reservation", "find_flight"
    with Store.open(":memory:") as opened:
        opened.put(
            [
                run(user("refund me"), *failed(book, "sold out"), *did(fly), id="a", name="a"),
                run(user("b"), *did(book), *failed(fly, "timeout"), id="b", name="b"),
                run(user("c"), *did(fly), id="c", name="c"),
                run(user("no call"), id="d", name="d"),
                run(user(HOSTILE), *failed(HOSTILE, HOSTILE), id="e", name="e"),
            ]
        )
        yield opened


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("tool = 'book_reservation' and error", "a"),  # one call that is both; b has one of each
        ("error and tool = 'book_reservation'", "a"),
        ("(tool = 'book_reservation') and (error)", "a"),
        ("tool = 'book_reservation' and not error", "b"),
        ("tool != 'book_reservation' and error", "be"),
        ("tool in ('book_reservation', 'find_flight') and error", "ab"),
        ("(tool = 'find_flight' or tool = 'book_reservation') and error", "ab"),
        ("tool = 'book_reservation' and tool = 'find_flight'", "ab"),  # the second is another call
        ("tool = 'book_reservation' and error and tool = 'find_flight' and error", ""),
        ("tool = 'book_reservation' and error and tool = 'find_flight'", "a"),
        ("tool like 'book%' and tool ~ 'RESERV' and error", "a"),  # neither names another
        ("error", "abe"),
        ("not error", "cd"),
        ("error != null", "abe"),
        ("tool != null", "abce"),
        ("not (tool = 'book_reservation' and error)", "bcde"),
        ("tool != 'find_flight'", "de"),  # no call is so
        ("tool not in ('find_flight', 'book_reservation')", "de"),
        ("not not error", "abe"),
        ("error ~ 'Sold'", "a"),
        ("error = null and calls > 1", "ab"),
        ("error or steps = 1", "abde"),
        ("not error or tool = 'book_reservation'", "abcd"),
        ("name = 'a' and error and tool = 'find_flight'", ""),  # its search did not fail
        ("text ~ 'REFUND ME'", "a"),
        ("text ~ 'sold out'", "a"),
        ("text ~ 'find_flight'", "abc"),  # the name of a tool is text, too
        ("not text ~ 'refund'", "bcde"),
        ("text ~ 'actor'", ""),  # what the store calls things is none
        ("name ~ 'A' or workflow ~ 'nowhere'", "a"),
        ("tool = '" + HOSTILE.replace("'", "''") + "' and error", "e"),
        ("text ~ '" + HOSTILE.replace("'", "''") + "'", "e"),
        ("error ~ '" + HOSTILE.replace("'", "''") + "'", "e"),
    ],
)
def test_conditions_on_calls_that_and_joins_are_of_one_call(
    calling: Store, text: str, ids: str
) -> None:
    assert "".join(sorted(calling.runs(parse_where(text)).id)) == ids


def test_of_purged_runs_nothing_is_said_about_calls_or_texts() -> None:
    with Store.open(":memory:") as opened:
        opened.put([run(user("a"), *did("x"), id="a")])
        assert len(opened.runs(parse_where("not error"))) == 1
        opened.purge()
        for text in (
            "not error", "error", "tool = 'x'", "tool != 'y'", "text ~ 'a'", "not text ~ 'z'",
            "not (error or steps > 99)", "mode = null", "mode != 'x'", "not mode = 'x'",
        ):  # fmt: skip
            assert len(opened.runs(parse_where(text))) == 0, text


def test_an_axis_is_chosen_by_what_the_rules_said_of_it() -> None:
    with Store.open(":memory:") as opened:
        opened.put([run(user(name), id=name) for name in "abc"])
        opened.append(
            [
                Record(trajectory=name, answer=Verdict(f"axes.{axis}", label=label), version="1")
                for name, axis, label in (
                    ("a", "sequencing", "incorrect"),
                    ("b", "sequencing", "uncertain"),
                    ("c", "termination", "incorrect"),
                )
            ]
        )
        for text, ids in (
            ("axis.sequencing = 'incorrect'", ["a"]),
            ("axis.sequencing != 'incorrect'", ["b", "c"]),
            ("axis.sequencing = null", ["c"]),
            ("axis.sequencing in ('incorrect', 'uncertain') and not id = 'b'", ["a"]),
        ):
            assert sorted(opened.runs(parse_where(text)).id) == ids


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agent = 'gpt4o'", "no run has agent 'gpt4o' (did you mean 'gpt-4o'?)"),
        ("task = '7' and agent = 'gpt-4o'", "no run has task '7' (known: 1, 2)"),
        ("agent = 'gpt-4o' and steps > 400", "the store has 4 runs"),
        ("tag.set = 'tset'", "no run has tag.set 'tset' (did you mean 'test'?)"),
        ("tool = 'xx'", "no run has tool 'xx' (did you mean 'x'?)"),
        ("agent in ('gpt-4o', 'nobody') and calls = 9", "no run has agent 'nobody'"),
    ],
)
def test_a_filter_that_matches_nothing_names_what_is_near(
    store: Store, text: str, said: str
) -> None:
    found = store.explain_no_match(parse_where(text))
    assert found.startswith(f"no run matches {text}: ")
    assert said in found
    with Store.open(":memory:") as empty:
        assert "the store has no runs" in empty.explain_no_match(parse_where(text))
