"""Errors of providers as one line: what was said, never a secret, never a whole body."""

from __future__ import annotations

import pytest

from stepscope.model import Endpoint, Structure
from stepscope.models.retry import error_line, read_error_body, rejects_structure, status_error

KEY = "a-key-in-no-known-form"
PLACE = Endpoint(name="acme/one", base_url="https://gpu.example/v1", key=KEY)


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (b'{"error": {"message": "m", "code": "c", "type": "t"}}', "m", "c"),
        (b'{"error": {"message": "m", "code": null, "type": "t"}}', "m", "t"),
        (
            b'{"type": "error", "error": {"type": "overloaded_error", "message": "m"}}',
            "m",
            "overloaded_error",
        ),
        (b'{"detail": "m"}', "m", ""),
        (b'{"detail": [{"loc": ["body"]}]}', "[{'loc': ['body']}]", ""),
        (b'{"error": "m"}', "m", ""),
        (b'{"message": "m", "code": 42}', "m", "42"),
        (b"upstream timed out", "upstream timed out", ""),
        (b"\xff", "\ufffd", ""),
        (b"", "", ""),
        (b"[" * 100_000, "[" * 1200, ""),
    ],
)
def test_the_words_of_an_error_are_found_in_every_form(
    body: bytes, message: str, code: str
) -> None:
    assert read_error_body(body) == (message, code)


def test_a_message_is_one_short_line_without_secrets() -> None:
    known = "sk-ant-api03-" + "a1B2c3D4" * 12 + "-AAAAAAAA"
    text = error_line(PLACE, f"wrong key {KEY}, or {known}\n\x1b[2J" + "long " * 200)
    assert KEY not in text
    assert known not in text
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 400
    assert error_line(PLACE, " ") == "no reason given"


def test_a_secret_does_not_show_where_the_message_is_cut() -> None:
    text = error_line(PLACE, "x" * 295 + KEY)
    assert "a-key" not in text


@pytest.mark.parametrize(
    ("structure", "status", "message", "expected"),
    [
        ("json_schema", 400, "Unknown parameter: 'response_format'", True),
        ("json_schema", 422, "output_config: Extra inputs are not permitted", True),
        ("json_schema", 500, "Input should be 'text' or 'json_object'", True),
        ("json_schema", 400, "failed to parse grammar", True),
        ("json_schema", 401, "response_format", False),
        ("json_schema", 429, "json_schema", False),
        ("json_schema", 400, "model not found", False),
        ("json_schema", 400, "context length exceeded by schema", False),
        ("json_object_schema", 400, "response_format.schema is not permitted", True),
        ("json_object_schema", 400, "tools", False),
        ("forced_tool", 400, "model does not support tools", True),
        ("forced_tool", 400, "Function calling is not enabled", True),
        ("forced_tool", 400, "response_format", False),
        ("prompt_only", 400, "schema tool response_format", False),
    ],
)
def test_an_error_about_the_form_is_told_from_others(
    structure: Structure, status: int, message: str, expected: bool
) -> None:
    assert rejects_structure(structure, status, message) is expected


def test_the_advice_fits_the_status() -> None:
    def text(status: int, body: bytes = b"{}") -> str:
        return str(status_error(PLACE, status, {}, body))

    assert text(302).endswith("set base_url to where it is")
    assert text(403).endswith("check the key of this provider")
    assert text(402).endswith("the account has no credit left")
    assert text(500, b'{"error": "broken"}') == "acme/one: 500: broken"
