"""The real servers that backends are tested against, each in a throw-away environment of its own.

`python -m tests.backends.environments` builds them under `.envs` from hash-locked requirements (a
minute or two, 1.3 GB); tests skip where they are absent. `lock` resolves the requirements anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements"
ENVIRONMENTS = HERE / ".envs"
NAMES = ("arize-phoenix", "langfuse", "langsmith", "mlflow")
# Seconds; the largest has 160 packages.
_INSTALL_TIMEOUT = 1200


def ready(name: str) -> Path | None:
    """Return the folder of executables of an environment, None where it is not built."""
    folder = ENVIRONMENTS / name
    done = folder / "built-from.txt"
    if done.is_file() and done.read_text(encoding="utf-8") == _digest(name):
        return folder / "bin"
    return None


def missing(name: str) -> str:
    """Return why the tests of an environment are skipped, and what to do."""
    return f"{name} is not installed: run make test-servers"


def variables(**more: str) -> dict[str, str]:
    """Return the environment of a server: none of ours, byte code kept, nothing sent home."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {
        **kept,
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PHOENIX_TELEMETRY_ENABLED": "false",
        **more,
    }


def _digest(name: str) -> str:
    return sha256((REQUIREMENTS / f"{name}.txt").read_bytes()).hexdigest()


def _built(name: str) -> str | None:
    """Build an environment where that is not done; return what went wrong."""
    if ready(name) is not None:
        return None
    folder = ENVIRONMENTS / name
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True, symlinks=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    # Byte code is made of what a server really loads, when it first does.
    how = ["--require-hashes", "--only-binary=:all:", "--no-compile"]
    installed = subprocess.run(
        [*pip, *how, f"--requirement={REQUIREMENTS / f'{name}.txt'}"],
        env=variables(),
        capture_output=True,
        text=True,
        timeout=_INSTALL_TIMEOUT,
        check=False,
    )
    if installed.returncode:
        errors = [line for line in installed.stderr.splitlines() if line.startswith("ERROR")]
        return (errors or installed.stderr.splitlines() or ["pip failed without a word"])[0]
    (folder / "built-from.txt").write_text(_digest(name), encoding="utf-8")
    return None


def lock() -> int:
    """Resolve every environment anew with `uv`; return the exit code."""
    uv = shutil.which("uv")
    if uv is None:
        sys.stderr.write("error: uv is not on the PATH\n")
        return 2
    how = ("--universal", "--python-version=3.11", "--generate-hashes", "--no-header", "--quiet")
    for name in NAMES:
        target = REQUIREMENTS / f"{name}.txt"
        command = [uv, "pip", "compile", "-", *how, "--no-emit-index-url"]
        subprocess.run([*command, f"--output-file={target}"], input=name.encode(), check=True)
        if "://" in target.read_text(encoding="utf-8"):
            sys.stderr.write(f"error: {target.name} names an address\n")
            return 1
    return 0


def main() -> int:
    """Build every environment, two at a time; return 1 when one is missing."""
    if sys.argv[1:] == ["lock"]:
        return lock()
    with ThreadPoolExecutor(2) as pool:
        problems = dict(zip(NAMES, pool.map(_built, NAMES), strict=True))
    for name, problem in problems.items():
        sys.stdout.write(f"{name:15} {problem or 'ready'}\n")
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
