"""Text of a trace as HTML: nothing in it becomes an element, a link or a picture of its own."""

from __future__ import annotations

import re

import pytest

from stepscope.report.render.run_page import (
    find_fold,
    indent_json,
    lay_out_data,
    lay_out_message,
    render_markdown,
)
from tests.report.made_pages import HOSTILE, seen


def elements(html: str) -> set[str]:
    found = seen(html)
    assert not found.unbalanced
    assert all(not e.attributes for e in found.elements if e.tag not in ("span", "div", "ol"))
    return {e.tag for e in found.elements}


def test_markdown_is_rendered_with_elements_that_have_no_attributes() -> None:
    text = (
        "# Head\n\n**bold** *it* `code`\n\n- a\n- b\n\n1. c\n\n| x | y |\n|:-|-:|\n| 1 | 2 |\n\n> q"
    )
    html = render_markdown(text)
    assert elements(html) == {
        "p", "b", "strong", "em", "code", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th",
        "td", "blockquote",
    }  # fmt: skip
    assert "<p><b>Head</b></p>" in html
    linked = "<p><strong>all</strong> [x](http://a) &lt;b&gt;</p>\n"
    assert render_markdown("**all** [x](http://a) <b>") == linked


@pytest.mark.parametrize(
    "text",
    [
        "[a](http://evil.example)", "![a](http://evil.example/x.png)", "<http://evil.example>",
        "[a]: http://evil.example\n\n[a]", "<b onclick=x>", "<script>alert(1)</script>",
        "&lt;script&gt; &#x202e;",
    ],
)  # fmt: skip
def test_addresses_pictures_and_html_are_text_as_they_were_written(text: str) -> None:
    html = render_markdown(f"* {text}")
    assert elements(html) <= {"ul", "li", "p"}
    shown = "".join(e.text for e in seen(html).elements)
    assert text.replace("\n\n", "") in shown.replace("\n", "")


def test_a_block_of_code_keeps_its_text_and_its_language_is_no_attribute() -> None:
    html = render_markdown('```py" onload=x\n<b>1</b>\n```')
    assert elements(html) == {"span", "pre"}
    assert "&lt;b&gt;1&lt;/b&gt;" in html
    assert "py&#34; onload=x</span>" in html


def test_what_is_nested_deeper_than_can_be_shown_is_left_as_it_was_written() -> None:
    html = render_markdown("> " * 100 + "the end")
    assert elements(html) == {"div"}
    assert "the end" in html


def test_hidden_characters_are_spelt_out_before_they_are_rendered() -> None:
    assert "\\u202e" in render_markdown("**a\u202eb**")
    assert "\\u202e" in lay_out_data('{"a\u202e": 1}', None)


def test_no_hostile_text_makes_an_element() -> None:
    for html in (render_markdown(HOSTILE), *lay_out_message(HOSTILE * 9, None)[:2],
                 lay_out_data(HOSTILE, None)):  # fmt: skip
        assert elements(str(html)) <= {"p", "br", "code", "div", "pre", "em", "strong"}


def test_json_is_indented_with_its_numbers_and_its_keys_told_apart() -> None:
    assert indent_json('{"a": 1.50, "b": [1e400]}') == '{\n "a": 1.50,\n "b": [\n  1e400\n ]\n}'
    assert indent_json("{'a': 1}") is None
    assert indent_json("12") is None
    html = lay_out_data('{"a": "x: <b>", "b": {"c": null}}', None)
    assert re.findall(r"<b>&#34;(\w)&#34;</b>", html) == ["a", "b", "c"]
    assert elements(html) == {"pre", "b"}


def test_a_long_text_is_folded_and_what_a_file_leaves_out_is_counted() -> None:
    text = "word " * 1000
    assert 450 < find_fold(text) <= 900
    assert find_fold("a" * 1300) == 1300
    shown, folded, left = lay_out_message(text, 2000)
    assert left == 3000
    assert len(shown) + len(folded) == 2000 + 2 * len("<p></p>")


def test_a_fold_is_never_within_a_block_of_code() -> None:
    text = "```\n" + "x = 1\n" * 300 + "```\nafter " + "word " * 300
    at = find_fold(text)
    assert text[:at].count("```") == 2
