"""One plain example of each small rule of the backends."""

from __future__ import annotations

from stepscope.backends.client import _retry_after, parse_target
from stepscope.backends.langsmith import _run_id


def test_a_target_is_a_backend_and_a_place() -> None:
    assert parse_target("mlflow:agents") == ("mlflow", "agents")


def test_seconds_to_wait_are_a_number_or_nothing() -> None:
    assert _retry_after("7") == 7.0
    assert _retry_after("") is None
    assert _retry_after("soon") is None


def test_a_span_id_becomes_a_uuid() -> None:
    assert _run_id("00f067aa0ba902b7") == "00000000-0000-0000-00f0-67aa0ba902b7"
