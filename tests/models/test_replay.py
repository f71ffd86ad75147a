"""Recorded replies answer again, without key or network."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from stepscope.errors import ModelError, UsageError
from stepscope.judges import run as judging
from stepscope.ledger.budget import Budget
from stepscope.ledger.calls import CallClients
from stepscope.ledger.ledger import Ledger
from stepscope.model import Model, Record, Reply, Request, Usage
from stepscope.models.dialect import request_hash
from stepscope.models.replay import ReplayModel, read_replies, write_replies
from tests.faults.providers import serving
from tests.judges import asked
from tests.judges.asked import Answering, judgements, patience
from tests.models.scripted import REQUEST, ask, model_at

NAME = "local/claude-tiny"
OTHER = msgspec.structs.replace(REQUEST, question="And did it call a tool?")


def reply(text: str) -> Reply:
    return Reply(
        text=text,
        stop="end",
        structure="json_schema",
        usage=Usage(input_total=3, output_total=1),
        raw=b"\x00\xff raw",
        headers={"date": "now"},
    )


def said(model: ReplayModel, *requests: Request) -> list[str]:
    async def texts() -> list[str]:
        return [(await model.complete(request)).text for request in requests]

    return asyncio.run(texts())


def test_a_request_has_the_replies_recorded_for_it_in_their_order() -> None:
    key, other = request_hash(NAME, REQUEST), request_hash(NAME, OTHER)
    model = ReplayModel(NAME, [(key, reply("a")), (other, reply("x")), (key, reply("b"))])
    assert model.name == NAME
    assert said(model, REQUEST, OTHER, REQUEST, REQUEST) == ["a", "x", "b", "a"]


@pytest.mark.parametrize(
    "asked",
    [
        OTHER,
        msgspec.structs.replace(REQUEST, system=REQUEST.system + " "),
        msgspec.structs.replace(REQUEST, temperature=0.5),
    ],
)
def test_a_request_that_was_not_recorded_has_no_answer(asked: Request) -> None:
    model = ReplayModel(NAME, [(request_hash(NAME, REQUEST), reply("a"))])
    with pytest.raises(ModelError, match=request_hash(NAME, asked)[:16]) as raised:
        said(model, asked)
    assert (raised.value.again, raised.value.reached) == (False, False)


def test_another_judge_s_replies_are_not_given() -> None:
    model = ReplayModel("local/other", [(request_hash(NAME, REQUEST), reply("a"))])
    with pytest.raises(ModelError, match="no reply is recorded"):
        said(model, REQUEST)


def test_what_was_written_is_read_byte_for_byte(tmp_path: Path) -> None:
    pairs = [("a" * 64, reply("one")), ("b" * 64, reply("two\u2028\ud7ff"))]
    path = tmp_path / "replies.jsonl"
    assert write_replies(path, pairs) == 2
    assert list(read_replies(path)) == pairs


def test_what_a_provider_said_is_said_again_without_it(tmp_path: Path) -> None:
    with serving() as provider:
        came = ask(model_at(provider, "openai"))
    path = tmp_path / "replies.jsonl"
    write_replies(path, [(request_hash(NAME, REQUEST), came)])
    assert said(ReplayModel(NAME, read_replies(path)), REQUEST) == [came.text]


@pytest.mark.parametrize("line", ["{", "[]", '{"request": "a"}', "\udcff"])
def test_a_line_that_is_no_reply_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "replies.jsonl"
    good = msgspec.json.encode({"request": "a", "reply": reply("a")})
    path.write_bytes(good + b"\n\n" + line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(UsageError, match="line 3"):
        list(read_replies(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        list(read_replies(tmp_path / "none.jsonl"))


def test_a_run_of_judges_is_played_back_from_its_ledger_with_the_same_records(
    tmp_path: Path,
) -> None:
    def judged(model: Model, ledger: Ledger) -> list[Record]:
        kept: list[Record] = []
        ran = asyncio.run(
            judging.run_judgements(
                judgements(6),
                CallClients(
                    models={model.name: model},
                    retry=patience(tries=1),
                    ledger=ledger,
                    prices=asked.Prices(),
                    budget=Budget(limit_usd=100.0),
                ),
                keep=kept.extend,
            )
        )
        assert ran.failed == {}
        return sorted(kept, key=msgspec.json.encode)

    labels = ("correct", "incorrect", "uncertain")
    live = Answering(lambda number, request: asked.reply(labels[number % 3]))
    path = tmp_path / "replies.jsonl"
    with Ledger(":memory:") as ledger:
        records = judged(live, ledger)
        assert write_replies(path, ledger.replies()) == 12
    with Ledger(":memory:") as other:
        assert judged(ReplayModel("local/tiny", read_replies(path)), other) == records
    assert len({record.answer for record in records}) > 2
