"""Keys of providers by the name of their variable, which alone is ever shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# Ends the name of the variable that says which host a key of the user's own opens.
HOST = "_HOST"


class Keys(Mapping[str, str]):
    """Variables of the environment and of `.env`; its `repr` holds no value and no name.

    The environment goes before the file, and the host of a key is believed only where the key
    stands: a file that others may change cannot send a key of the environment elsewhere.
    """

    def __init__(self, environment: Mapping[str, str], file: Mapping[str, str]) -> None:
        """Take the variables of the environment, and those of `.env`."""
        self._values = {**environment}
        for name, value in file.items():
            if name in environment or name.removesuffix(HOST) in environment:
                continue
            self._values[name] = value

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<{len(self)} variables>"
