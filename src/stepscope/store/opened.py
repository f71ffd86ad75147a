"""A store that is open: its file, its connection, and what every transaction of it does."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

from stepscope.safety.redact import Redactor
from stepscope.safety.secrets.form import Form
from stepscope.sqlite import MEMORY, connect, faults, transaction
from stepscope.store import reading
from stepscope.store.columns import Runs
from stepscope.store.migrations import bring_up
from stepscope.store.records import Names


class OpenStore:
    """The file and the connection under a `Store`."""

    def __init__(self, path: str) -> None:
        """Open the store at `path`; `Store.open` is the door that takes any path."""
        self.path = path
        self._db = connect(path)
        self._names = Names()
        self._aligned: tuple[Runs, reading.Places] | None = None
        # What is kept of reasons, sent or filed passes through the first; what is shown of runs
        # through the second, which is None where they are shown as they are.
        self.redactor: Redactor
        self.shown: Redactor | None
        with ExitStack() as unless_ready:
            unless_ready.callback(self._db.close)
            bring_up(self._db, path)
            self.redact()
            unless_ready.pop_all()

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a store, making it where there is none; ":memory:" lives as long as the object.

        Raises:
            StoreError: no store, or of a newer version.
            EnvironmentFault: it cannot be opened or made durable.
        """
        return cls(str(path))

    def redact(self, own: Iterable[Form] = (), *, shown: bool = True) -> None:
        """Hide `own` forms of secrets, too, in what is kept of reasons and shown of runs.

        `shown` False shows runs as they are. Placeholders have the key of the store, so they stay
        the same for its life.
        """
        with faults(self.path):
            found = self._db.execute("SELECT body FROM keys WHERE name = 'redaction'").fetchone()
        self.redactor = Redactor(found[0], own)
        self.shown = self.redactor if shown else None

    def secret(self, purpose: str) -> bytes:
        """Return 32 bytes that only this store knows, others for each purpose, for all its life."""
        with faults(self.path):
            found = self._db.execute("SELECT body FROM keys WHERE name = 'redaction'").fetchone()
        return hmac.new(found[0], purpose.encode(), sha256).digest()

    def close(self) -> None:
        """Close the file; a second close does nothing."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def blobs(self) -> Path | None:
        """The folder of images, audio and files; None in memory, where they stay in the run."""
        return None if self.path == MEMORY else Path(self.path + ".blobs")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with ExitStack() as unless_written:
            unless_written.callback(self._names.forget)
            with transaction(self._db, self.path):
                yield
            unless_written.pop_all()
