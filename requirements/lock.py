"""Resolve `run.txt` and `dev.txt` for every supported Python and system, with hashes.

Needs `uv` on the PATH. No index address enters the files: a lock that names an index installs from
it wherever it is used.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMON = (
    "pip",
    "compile",
    "pyproject.toml",
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-header",
    "--quiet",
)
LOCKS = {
    "run.txt": ("--group=build",),
    "dev.txt": (
        "--extra=anthropic",
        "--extra=mcp",
        "--extra=openai",
        "--extra=parquet",
        "--extra=plots",
        "--extra=zstd",
        "--group=dev",
    ),
}


def main() -> int:
    """Write the lock files; return the exit code."""
    uv = shutil.which("uv")
    if uv is None:
        sys.stderr.write("error: uv is not on the PATH; install it and run make lock again\n")
        return 2
    for name, choice in LOCKS.items():
        target = HERE / name
        command = [uv, *COMMON, *choice, f"--output-file={target}"]
        subprocess.run(command, cwd=HERE.parent, check=True)
        if "://" in target.read_text(encoding="utf-8"):
            sys.stderr.write(f"error: {name} names an address; remove it before committing\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
