"""Every error this package raises on purpose, and the exit code each one means.

StepscopeError             code 2: the user can fix it; the CLI prints one line
├── UsageError             a command, filter or argument that makes no sense
├── ConfigError            a setting, policy file or plugin name is wrong
├── TraceError             a trace does not say what its format promises
│   └── LimitError         a trace is larger, deeper or denser than a limit allows
├── DataError              too little data, or the wrong kind, for the statistic asked
├── StoreError             a store is of a newer version, not a store, or of mixed versions
└── EnvironmentFault       code 5: disk, network or budget; the input is not at fault
    └── ModelError         a judge model gave nothing usable

Vocabulary: a bad *record* in a readable file is not an error but a `Quarantined` row; a measure
that cannot answer is not an error but an `Unmeasured` verdict. An exception of any other type is a
bug in stepscope (code 1). A name that is unknown is answered by the nearest one that is known.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class StepscopeError(Exception):
    """Something the user can fix; the message is one line: where, found, expected, what to do."""

    exit_code = 2


class UsageError(StepscopeError):
    """A command, filter or argument makes no sense."""


class ConfigError(StepscopeError):
    """A setting, policy file or plugin name is wrong."""


class TraceError(StepscopeError):
    """A trace does not say what its format promises."""

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        """Keep the byte `offset` of the bad record in its file, where it is known."""
        super().__init__(message)
        self.offset = offset


class LimitError(TraceError):
    """A trace is larger, deeper or denser than a limit allows."""


class DataError(StepscopeError):
    """Too little data, or the wrong kind, for the statistic asked."""


class StoreError(StepscopeError):
    """A store is of a newer version, is no store, or mixes versions that may not be mixed."""


class EnvironmentFault(StepscopeError):
    """Disk, network or budget gave out; the input is not at fault."""

    exit_code = 5


class ModelError(EnvironmentFault):
    """A judge model gave nothing usable: no answer, an error, or one past a limit."""

    def __init__(
        self,
        message: str,
        *,
        again: bool,
        after: float | None = None,
        status: int | None = None,
        reached: bool = True,
    ) -> None:
        """Say whether asking `again` may help, `after` how many seconds, and the HTTP status.

        `reached` is False only where no connection was made: then nothing can have been paid.
        """
        super().__init__(message)
        self.again = again
        self.after = after
        self.status = status
        self.reached = reached


def suggest_name(word: str, known: Iterable[str]) -> str:
    """Return the words that a message ends with: the nearest known name, or all of them.

    >>> suggest_name("outcom", ["outcome", "errors"])
    "did you mean 'outcome'?"
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}"
