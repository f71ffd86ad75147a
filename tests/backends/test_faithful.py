"""The scripted servers answer the real SDKs as those expect it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stepscope.backends.langsmith import _run_id
from tests.backends import environments
from tests.backends.langfuse_server import PUBLIC, SECRET, Langfuse, agent
from tests.backends.langsmith_server import KEY, Langsmith, run_id
from tests.backends.langsmith_server import agent as langsmith_agent
from tests.backends.scripted import served

WORKERS = Path(__file__).parent / "workers"


def said(name: str, *arguments: str) -> Any:
    bin = environments.ready(name)
    assert bin is not None
    done = subprocess.run(
        [str(bin / "python"), str(WORKERS / f"{name}_calls.py"), *arguments],
        env=environments.variables(LANGSMITH_TRACING="false"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(environments.ready("langfuse") is None, reason=environments.missing("langfuse"))
def test_the_scripted_langfuse_is_one_to_its_sdk() -> None:
    with served(Langfuse(*agent("t1"))) as server:
        told = said("langfuse", server.base, PUBLIC, SECRET)
    assert told == {
        "observations": ["t1-3", "t1-2", "t1-1", "t1-root"],
        "end": None,
        "scores": [["s1", "ok", 0.5, "trace"]],
    }


@pytest.mark.slow
@pytest.mark.skipif(
    environments.ready("langsmith") is None, reason=environments.missing("langsmith")
)
def test_the_scripted_langsmith_is_one_to_its_sdk() -> None:
    langsmith = Langsmith(*langsmith_agent(1), page=3)
    with served(langsmith) as server:
        told = said("langsmith", server.base, KEY)
    assert told["runs"] == [run_id(1, place) for place in (3, 2, 1, 0)]
    assert list(langsmith.feedback) == [told["feedback"]]
    assert told["run_id"] == _run_id("00f067aa0ba902b7")
