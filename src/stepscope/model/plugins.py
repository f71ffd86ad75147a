"""What a plugin promises: trace formats and measures, and what they read and give back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Protocol

import msgspec

from stepscope.model.answer import Answer, Scale
from stepscope.model.case import Case, Facts
from stepscope.model.trajectory import Trajectory
from stepscope.safety.limits import Limits


class Quarantined(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A record that could not be read: where it stands, why, and its bytes (all of them)."""

    reason: str
    offset: int
    raw: bytes
    uri: str = ""


class Stream(msgspec.Struct, frozen=True):
    """What a format reads from: an open binary file, what to call it in messages, the limits."""

    file: BinaryIO
    uri: str
    limits: Limits = Limits()


class Format(Protocol):
    """A trace format: `sniff` the first bytes, `read` runs; see `stepscope.formats`."""

    @property
    def name(self) -> str:
        """The name that `--format` takes."""

    def sniff(self, head: bytes) -> float:
        """Confidence, 0 to 1, that a file starting with `head` is of this format."""

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file; what cannot be read comes out as `Quarantined`."""


class Measure(Protocol):
    """Anything that reads a run and answers; pure.

    `learns` names the tables of `Facts` that it uses. For each of its aspects it gives exactly one
    answer about the whole run, and any number about steps.
    """

    @property
    def name(self) -> str:
        """The name that records carry."""

    @property
    def version(self) -> str:
        """Raised with every change that can change an answer."""

    @property
    def scale(self) -> Scale:
        """The values that its answers may take."""

    @property
    def learns(self) -> tuple[str, ...]:
        """The tables of `Facts` that it uses."""

    def __call__(
        self, trajectory: Trajectory, case: Case | None, facts: Facts | None
    ) -> Iterable[Answer]:
        """Answer about one run."""
