"""What every test may use: the real runs kept beside the repository, where they are there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every process, and none is too slow on a busy machine.
settings.register_profile(
    "same",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same")

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_configure() -> None:
    # A shell without job control starts what runs in its background with Ctrl-C ignored, and every
    # process that a test starts would inherit that. nohup does the same with a hang-up.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SHARED.is_dir():
        return
    skip = pytest.mark.skip(reason="shared_data: the real runs are not beside this clone")
    for item in items:
        if item.get_closest_marker("shared_data"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real runs; only tests marked `shared_data` may ask for it."""
    return SHARED


@contextmanager
def without_privilege() -> Iterator[None]:
    """Root reads every file: step down to nobody where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
