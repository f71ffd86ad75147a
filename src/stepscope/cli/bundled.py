"""Where the bundled examples are: inside the installed package, or at the root of a checkout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from stepscope.errors import EnvironmentFault


def bundled(*names: str) -> Path:
    """Return the path of a bundled file or folder, as `bundled("airline", "runs.json")`.

    Raises:
        EnvironmentFault: the installation lacks its examples.
    """
    package = Path(str(resources.files("stepscope")))
    for root in (package / "examples", package.parents[1] / "examples"):
        path = root.joinpath(*names)
        if path.exists():
            return path
    raise EnvironmentFault(
        f"the bundled {'/'.join(names)} is missing beside {package}; install stepscope again"
    )
