"""A real server of llama.cpp for the judges' tests, in a throw-away environment of its own.

`python -m tests.llama.environment` builds it under `.envs` from hash-locked requirements (a minute,
200 MB); tests skip where it is absent. `lock` resolves the requirements anew.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from hashlib import sha256
from pathlib import Path

from tests.backends.environments import variables

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements" / "llama.txt"
FOLDER = HERE / ".envs" / "llama"
WORKERS = HERE / "workers"
MISSING = "xllamacpp is not installed: run make test-servers"
# xllamacpp embeds the server of llama.cpp; gguf writes its models.
_WANTED = "xllamacpp==2026.10.11549\ngguf==0.19.0\n"
# Seconds; the wheel has 100 MB.
_INSTALL_TIMEOUT = 1200


def python() -> Path | None:
    """Return the interpreter of the environment, None where it is not built."""
    done = FOLDER / "built-from.txt"
    if done.is_file() and done.read_text(encoding="utf-8") == _digest():
        return FOLDER / "bin" / "python"
    return None


def _digest() -> str:
    return sha256(REQUIREMENTS.read_bytes()).hexdigest()


def build() -> str | None:
    """Build the environment where that is not done; return what went wrong."""
    if python() is not None:
        return None
    shutil.rmtree(FOLDER, ignore_errors=True)
    venv.create(FOLDER, with_pip=True, symlinks=True)
    pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    how = ["--require-hashes", "--only-binary=:all:", "--no-compile"]
    installed = subprocess.run(
        [*pip, *how, f"--requirement={REQUIREMENTS}"],
        env=variables(),
        capture_output=True,
        text=True,
        timeout=_INSTALL_TIMEOUT,
        check=False,
    )
    if installed.returncode:
        errors = [line for line in installed.stderr.splitlines() if line.startswith("ERROR")]
        return (errors or installed.stderr.splitlines() or ["pip failed without a word"])[0]
    (FOLDER / "built-from.txt").write_text(_digest(), encoding="utf-8")
    return None


def lock() -> int:
    """Resolve the environment anew with `uv`; return the exit code."""
    uv = shutil.which("uv")
    if uv is None:
        sys.stderr.write("error: uv is not on the PATH\n")
        return 2
    how = ("--universal", "--python-version=3.11", "--generate-hashes", "--no-header", "--quiet")
    command = [uv, "pip", "compile", "-", *how, "--no-emit-index-url"]
    subprocess.run([*command, f"--output-file={REQUIREMENTS}"], input=_WANTED.encode(), check=True)
    return 1 if "://" in REQUIREMENTS.read_text(encoding="utf-8") else 0


def main() -> int:
    """Build the environment; return 1 when it is missing."""
    if sys.argv[1:] == ["lock"]:
        return lock()
    problem = build()
    sys.stdout.write(f"{'llama.cpp':15} {problem or 'ready'}\n")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
