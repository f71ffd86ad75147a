from __future__ import annotations

import pytest

from stepscope.formats.fields import infer_text_status


@pytest.mark.parametrize(
    "text",
    [
        "Error: no such user",
        "error executing tool: timeout",
        "ERROR: disk full",
        "Traceback (most recent call last):\n  File ...\nValueError: x",
        "output\nTraceback (most recent call last):\n  ...",
        "ValueError: invalid literal",
        "requests.exceptions.HTTPError: 500",
        "exitcode: 1 (execution failed)\nCode output: ...",
        "Process exited with exit code 127",
        "Exit code: -9",
        "HTTP/1.1 404 Not Found",
        "HTTP 503",
        "status code: 429",
        '{"error": "no such file"}',
        '{"error": {"code": 3}}',
        '{"success": false, "rows": []}',
        '{"isError": true}',
        '{"returncode": 2, "output": ""}',
        '{"status": "failed"}',
        '{"status_code": 500}',
    ],
)
def test_an_errors_own_words_are_an_error(text: str) -> None:
    judged = infer_text_status(text)
    assert (judged.status, judged.source) == ("error", "heuristic")
    assert judged.error == text.strip()[:200]


@pytest.mark.parametrize(
    "text",
    [
        "exitcode: 0 (execution succeeded)\nCode output: Error: unsupported language",
        "HTTP/1.1 200 OK",
        '{"error": null, "rows": []}',
        '{"success": true}',
        '{"exit_code": 0, "output": "ValueError: as asked"}',
        '{"status": "ok"}',
    ],
)
def test_a_clean_exit_is_ok_whatever_the_output_says(text: str) -> None:
    judged = infer_text_status(text)
    assert (judged.status, judged.source, judged.error) == ("ok", "heuristic", None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The error rate: 5 %",
        "Errors are rare",
        "No errors found",
        "The user saw Error: 404 on the page",
        "404 seats left",
        "terrorerror: a word",
        '{"status": "delivered"}',
        '{"errors_total": 3}',
        '["error"]',
        '{"error": ',
        "def f():\n    raise ValueError('x')",
    ],
)
def test_a_text_that_only_mentions_errors_decides_nothing(text: str) -> None:
    judged = infer_text_status(text)
    assert (judged.status, judged.source, judged.error) == ("unknown", "none", None)
