"""The tiny model's server, one for all tests; nothing in `workers` is ours to import."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.llama import environment, server

collect_ignore_glob = ["workers/*"]


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real llama.cpp server."""
    python = environment.python()
    assert python is not None, environment.MISSING
    with server.serving(python, tmp_path_factory.mktemp("llama")) as base:
        yield base
