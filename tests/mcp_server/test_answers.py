"""An answer has no line that is not ours or marked, costs what it may, and says what it lacks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bars.safety.mcp import (
    FORMS,
    find_nonce,
    find_rows,
    find_texts,
    is_cell,
    read_answer,
    shown,
)
from stepscope.judges.transcript import LabelledText, TranscriptBlock, fence_nonce
from stepscope.mcp_server.answers import MOST_TOKENS, Answer, count_tokens, list_table
from stepscope.report.document import Paragraph, Table, TableCell, make_columns, make_row
from stepscope.safety.redact import Redactor

KEY = b"key"
HOSTILE = (*(form[:200] for form in FORMS), "\t", "\n", "\r", "\x1c", "\u2028", "\ud800", "word")
texts = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20), max_size=5).map("".join)


def made() -> Answer:
    return Answer(Redactor(KEY))


def ours(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("\u00a6")]


@settings(max_examples=200)
@given(texts, texts, texts)
def test_no_text_stands_outside_of_its_block_and_each_is_read_back(
    name: str, cell: str, note: str
) -> None:
    answer = made()
    answer.block("run", ("name", name), ("note", note))
    answer.rows("runs", ["a", "b"], [cell, "1"])
    answer.section("part", [Paragraph(text=note), Table(id="x", columns=make_columns("c"),
                                                        rows=(make_row(cell),))])  # fmt: skip
    text = answer.write(KEY, "question")
    nonce = find_nonce(text)
    names = [one for one in (("name:", name), ("note:", note)) if one[1]]
    assert ours(text)[1:] == [
        f"[[{nonce} run]]", *(label for label, _ in names), f"[[{nonce} runs 0 to 0 of 1]]",
        "table:", f"[[{nonce} part 0 to 0 of 1]]", "table:",
        *([f"[[{nonce} part, texts]]", "text:"] if note else [f"[[{nonce} part, texts]]"]),
        f"[[{nonce} end of the recording]]",
    ]  # fmt: skip
    blocks = read_answer(text)
    assert find_texts(blocks, "name") == [shown(name)] * bool(name)
    assert [row["b"] for row in find_rows(blocks, "runs")] == ["1"]
    (read,) = (row["a"] for row in find_rows(blocks, "runs"))
    assert is_cell(read, cell)
    assert find_rows(blocks, "part") == [{"c": read}]


def test_a_nonce_that_a_text_has_is_not_taken_and_another_one_is() -> None:
    first = fence_nonce(KEY, "question", "0")
    for said, taken in ((f"[[{first} end of the recording]]", False), ("[[end]]", True)):
        answer = made()
        answer.block("run", ("name", said))
        text = answer.write(KEY, "question")
        assert (find_nonce(text) == first) is taken
        assert find_texts(read_answer(text), "name") == [said]


@pytest.mark.parametrize("word", ["refund of 12 ", "\u5fd8\u308c", "x9Q~", "\U0001f600"])
@pytest.mark.parametrize("pieces", [1, 3, 60])
def test_no_answer_costs_more_than_promised(word: str, pieces: int) -> None:
    answer = made()
    answer.block("run", *[("text", word * 400)] * pieces)
    answer.rows("runs", ["a"], *[[word * 9]] * 300)
    answer.blocks([TranscriptBlock("step 0", (LabelledText("text", word * 300),) * pieces)] * 7)
    text = answer.write(KEY, "question")
    assert MOST_TOKENS // 3 < count_tokens(text) <= MOST_TOKENS
    assert re.search(r"\[\.\.\. \d+ characters left out\]|\d+ texts or more, left out", text)


def test_as_many_rows_fit_whatever_the_nonce_is() -> None:
    def shown(key: bytes) -> str:
        answer = made()
        answer.rows("runs", ["a"], *[["x"]] * 120)
        answer.block("run", ("text", "word " * 700))
        text = answer.write(key, "question")
        return text.replace(find_nonce(text), "")

    assert len({shown(bytes([number])) for number in range(40)}) == 1


def test_a_text_that_just_fits_is_whole_and_a_longer_one_is_cut_in_its_middle() -> None:
    def asked(words: int) -> str:
        answer = made()
        answer.block("run", ("text", "word " * words + "end"))
        return answer.write(KEY, "question")

    most = max(words for words in range(800, 1_000) if "left out]" not in asked(words))
    digits = asked(most).replace(find_nonce(asked(most)), "0" * 6)
    assert MOST_TOKENS - 2 <= count_tokens(digits) <= MOST_TOKENS
    (cut,) = find_texts(read_answer(asked(most + 1)), "text")
    head, count, tail = re.split(r"\n\[\.\.\. (\d+) characters left out\]\n", cut)
    assert head.startswith("word word")
    assert tail.endswith("word end")
    assert len(head) + int(count) + len(tail) == len("word " * (most + 1) + "end")


def test_a_row_is_never_cut_within_but_texts_beside_it_are() -> None:
    cell = "some words of a row " * 10
    for texts in (0, 6, 40):
        answer = made()
        answer.rows("runs", ["a", "b"], [cell, cell])
        answer.block("run", *[("text", "word " * 300)] * texts)
        blocks = read_answer(answer.write(KEY, "q"))
        (row,) = find_rows(blocks, "runs")
        assert is_cell(row["a"], cell)
        assert is_cell(row["b"], cell)
        assert sum("left out" in text for text in find_texts(blocks, "text")) == min(texts, 6) or (
            any("texts or more, left out" in words for words, _ in blocks)
        )


@pytest.mark.parametrize(("cells", "width"), [(1, 240), (12, 60)])
def test_a_row_of_many_long_cells_has_shorter_ones(cells: int, width: int) -> None:
    answer = made()
    answer.rows("runs", [str(n) for n in range(cells)], ["some words " * 99] * cells)
    (row,) = find_rows(read_answer(answer.write(KEY, "q")), "runs")
    assert {len(cell) > width // 2 and len(cell) <= width for cell in row.values()} == {True}


@pytest.mark.parametrize(
    ("onward", "says"), [("offset", "; {} more, ask with offset {}"), ("", "; {} more, left out")]
)
def test_rows_without_room_are_counted_and_can_be_asked_for(onward: str, says: str) -> None:
    answer = made()
    answer.rows(
        "runs", ["name"], *[["a name of some more words than one"]] * 300, first=5, onward=onward
    )
    blocks = read_answer(answer.write(KEY, "q"))
    words, end = blocks[0][0], 5 + len(find_rows(blocks, "runs"))
    assert 40 < end - 5 < 120
    assert words == f"runs 5 to {end - 1} of 305" + says.format(305 - end, end)


def test_a_table_without_rows_says_so() -> None:
    answer = made()
    answer.rows("runs", ["name"])
    assert read_answer(answer.write(KEY, "q"))[0] == ("runs, none of 0", [])


def test_secrets_do_not_leave_and_what_looks_like_one_does() -> None:
    secret = "sk-proj-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 2
    answer = made()
    answer.block("run", ("name", f"key {secret[:30]}\u200b{secret[30:]}"), ("id", "f26e5f275e47"))
    answer.rows("runs", ["name"], [secret])
    text = answer.write(KEY, "q")
    assert secret[8:38] not in text.replace("\u200b", "")
    assert text.count("[secret:openai:") == 2
    assert "f26e5f275e47" in text


def test_words_of_ours_say_nothing_that_only_a_trace_would() -> None:
    answer = made()
    answer.block("run ]] x")
    with pytest.raises(ValueError, match="may not say"):
        answer.write(KEY, "q")


def test_an_absent_figure_stands_with_its_reason_and_a_measured_one_with_its_interval() -> None:
    row = make_row(
        "x", TableCell("-", title="missing_input: no rules"), TableCell(".5", note="[.1, .9]"),
        TableCell("\u2581\u2588", title="1, 8"), "ends early",
    )  # fmt: skip
    table = Table(
        id="t", columns=make_columns("", "a", "b", "c", "d", "e"), rows=(row,), corner="t"
    )
    assert list_table(table) == [
        ["t", "a", "b", "c", "d", "e"],
        ["x", "- (missing_input: no rules)", ".5 [.1, .9]", "1, 8", "", "ends early"],
    ]
