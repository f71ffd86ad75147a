"""The tools we are compared with, each in a throw-away environment of its own.

An environment is made on first use under `.envs` from a hash-locked requirements file and is never
shared with ours. A peer that cannot be installed is reported as such, not left out in silence.
`python -m benchmarks.peers` builds them all; `python -m benchmarks.peers lock` resolves them anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements"
ENVIRONMENTS = HERE / ".envs"
PEERS = (
    "agentevals",
    "arize-phoenix",
    "deepeval",
    "inspect-ai",
    "krippendorff",
    "mlflow-tracing",
    "pydantic-evals",
    "scikit-learn",
)
# What a peer needs beside it to ask a model of OpenAI's.
WITH = {"inspect-ai": ("openai",)}
# Seconds; the largest peer has some hundred packages.
INSTALL_TIMEOUT = 1800


class Peer(NamedTuple):
    """An installed peer: its name, its version, the folder of its executables."""

    name: str
    version: str
    bin: Path

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.bin / "python"


class Absent(NamedTuple):
    """A peer that could not be installed, and why in one line."""

    name: str
    reason: str


def peer(name: str) -> Peer | Absent:
    """Return the peer called `name`, building its environment where that is not done yet."""
    requirements = REQUIREMENTS / f"{name}.txt"
    digest = sha256(requirements.read_bytes()).hexdigest()
    folder = ENVIRONMENTS / name
    done = folder / "built-from.txt"
    if not done.is_file() or done.read_text(encoding="utf-8") != digest:
        sys.stderr.write(f"building the environment of {name} (once, may take minutes)\n")
        problem = _build(folder, requirements)
        if problem is not None:
            return Absent(name, problem)
        done.write_text(digest, encoding="utf-8")
    return Peer(name, pinned_version(name), folder / "bin")


def pinned_version(name: str) -> str:
    """Return the version that the requirements file of `name` pins."""
    for line in (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}=="):
            return line.removeprefix(f"{name}==").split()[0]
    raise LookupError(f"requirements/{name}.txt does not pin {name}")


def clean_environment() -> dict[str, str]:
    """Return the environment variables for a timed process.

    Without `PYTHONDONTWRITEBYTECODE`, which would double every import, and with the peers' own
    reporting home switched off.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return kept | {
        "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
        "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
        "DO_NOT_TRACK": "true",
        "LANGSMITH_TRACING": "false",
        "LOGFIRE_SEND_TO_LOGFIRE": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "OPENAI_API_KEY": "not-a-key",  # some constructors ask for one; nothing is ever sent
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }


def lock() -> int:
    """Resolve every peer anew with `uv`; return the exit code."""
    uv = shutil.which("uv")
    if uv is None:
        sys.stderr.write("error: uv is not on the PATH\n")
        return 2
    options = ("--universal", "--python-version=3.11", "--generate-hashes", "--no-header")
    for name in PEERS:
        target = REQUIREMENTS / f"{name}.txt"
        command = [uv, "pip", "compile", "-", *options, "--no-emit-index-url", "--quiet"]
        wanted = "\n".join((name, *WITH.get(name, ())))
        subprocess.run([*command, f"--output-file={target}"], input=wanted.encode(), check=True)
        if "://" in target.read_text(encoding="utf-8"):
            sys.stderr.write(f"error: {target.name} names an address\n")
            return 1
    return 0


def _build(folder: Path, requirements: Path) -> str | None:
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True, symlinks=True)
    # The file names all that is needed. With hashes pip's resolver refuses what is asked for with
    # extras (`fastmcp-slim[client]`), because uv pins it without them.
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    try:
        built = subprocess.run(
            [*pip, "--require-hashes", "--only-binary=:all:", f"--requirement={requirements}"],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"pip did not finish in {INSTALL_TIMEOUT} s"
    if built.returncode == 0:
        return None
    errors = [line for line in built.stderr.splitlines() if line.startswith("ERROR")]
    return (errors or built.stderr.splitlines() or ["pip failed without a word"])[0]


def main() -> int:
    """Build every environment; print one line each; return 1 when one is missing."""
    if sys.argv[1:] == ["lock"]:
        return lock()
    missing = 0
    for name in PEERS:
        found = peer(name)
        missing += isinstance(found, Absent)
        line = found.reason if isinstance(found, Absent) else f"{found.version} ready"
        sys.stdout.write(f"{name:15} {line}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
