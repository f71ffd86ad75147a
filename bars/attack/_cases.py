"""Cases of the attack: what is done, what is expected of it, and a process of its own for each.

A case runs in a fork of this process, in a folder of its own, and is ended after `SECONDS`. What
holds of every command, whatever the case, is checked here: no traceback, no "bug in stepscope", no
hang, and none of the secrets that were planted.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

Severity = Literal["high", "medium", "low"]
Area = Literal["gates", "outputs", "stores", "settings", "replies", "view", "texts"]
Do = Callable[["Place"], str]

# Seconds after which a case is ended, and a command is said to hang.
SECONDS, HANGS = 20.0, 10.0
# Parts of every secret that is planted, as no output may have them.
SECRET = "sk-proj-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 2
SECRETS = (SECRET[:24], SECRET[-20:])
ENVIRONMENT = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY")


class Case(NamedTuple):
    """One attack: `do` returns what was found where it is not what was expected, else nothing."""

    area: Area
    name: str
    expected: str
    severity: Severity
    do: Do
    round: int = 1


class Found(NamedTuple):
    """What came of a case; nothing in `found` where it holds."""

    case: Case
    found: str
    severity: Severity
    seconds: float


class Done(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """All that it printed."""
        return self.out + self.err


class Broken(Exception):
    """A promise that holds of every command was broken: always of high severity."""


class Place:
    """A folder in which a case runs commands."""

    def __init__(self, folder: Path, *, checked: bool = True) -> None:
        """Be this folder; what is only prepared is not `checked`."""
        self.folder = folder
        self._checks = checked

    def run(self, *words: str) -> Done:
        """Run a command in this process.

        Raises:
            Broken: it hung, crashed, said that it is a bug, or showed a planted secret.
        """
        from stepscope.cli.main import main

        began = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        held = os.dup(1), os.dup(2)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            try:
                code = main(list(words))
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os.dup2(held[0], 1)
                os.dup2(held[1], 2)
                os.close(held[0])
                os.close(held[1])
            out.seek(0)
            err.seek(0)
            done = Done(code, _text(out.read()), _text(err.read()))
        return self._checked(words, done, time.monotonic() - began)

    def spawn(
        self,
        *words: str,
        shell: str = "",
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        """Run a command in a process of its own; `shell` stands before it, as `ulimit -v 1;`."""
        command = [str(Path(sys.executable).with_name("stepscope")), *words]
        if shell:
            command = ["bash", "-c", f'{shell} exec "$@"', "bash", *command]
        began = time.monotonic()
        made = subprocess.run(
            command, input=stdin, capture_output=True, check=False, timeout=SECONDS,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
        done = Done(made.returncode, _text(made.stdout), _text(made.stderr))
        return self._checked(words, done, time.monotonic() - began)

    def _checked(self, words: Iterable[str], done: Done, seconds: float) -> Done:
        command = " ".join(words)[:80]
        if not self._checks:
            return done
        if seconds > HANGS:
            raise Broken(f"{command!r} took {seconds:.0f} s")
        if done.code == 1 or "Traceback" in done.said or "bug in stepscope" in done.said:
            raise Broken(f"{command!r}: code {done.code}, {_last(done.said)}")
        shown = [secret for secret in SECRETS if secret in done.said]
        if shown and words and "export" not in words:
            raise Broken(f"{command!r} shows a secret: {_around(done.said, shown[0])!r}")
        return done

    def must(self, *words: str) -> Done:
        """Run a command that prepares a case.

        Raises:
            AssertionError: it did not end with 0.
        """
        done = self.run(*words)
        assert done.code == 0, f"{words}: {done.code}, {_last(done.said)}"
        return done

    def write(self, name: str, text: str | bytes | Iterable[str]) -> Path:
        """Write a file of a text, bytes or lines, and its folders."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            joined = text if isinstance(text, str) else "\n".join(text)
            path.write_bytes(joined.encode("utf-8", "surrogatepass"))
        return path


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _last(said: str) -> str:
    lines = said.strip().splitlines() or [""]
    return lines[-1][:300]


def _around(said: str, part: str) -> str:
    at = said.index(part)
    return said[max(0, at - 40) : at + 12]


def coded(done: Done, codes: Collection[int], *, says: str = "", lacks: str = "") -> str:
    """Return what is wrong with a command that should end so, and say (regular expressions) so."""
    if done.code not in codes:
        return f"code {done.code}, {_last(done.err or done.out)!r}"
    if says and not re.search(says, done.said):
        return f"code {done.code} as expected, but {says!r} is not said: {_last(done.said)!r}"
    if lacks and re.search(lacks, done.said):
        return f"code {done.code} as expected, but {lacks!r} is said: {_last(done.said)!r}"
    return ""


def one_line(done: Done, codes: Collection[int] = (2,), says: str = "") -> str:
    """Return what is wrong with an error: it is one line on standard error, with its code."""
    wrong = coded(done, codes, says=says)
    told = [line for line in done.err.splitlines() if line.startswith("error: ")]
    if not wrong and done.code and len(told) != 1:
        return f"code {done.code}, and no one line of an error: {done.err[-300:]!r}"
    return wrong


def attempt(case: Case, base: Path) -> Found:
    """Run a case in a process of its own, on a copy of a folder."""
    folder = Path(tempfile.mkdtemp(prefix="attack-"))
    began = time.monotonic()
    try:
        work = folder / "work"
        shutil.copytree(base, work)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            _child(case, work, write, folder / "trouble")
        os.close(write)
        raw = _waited(pid, read)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - began
    if raw is None:
        return Found(case, f"did not end in {SECONDS:g} s", "high", seconds)
    if not raw:
        return Found(case, "its process died", "high", seconds)
    found, severity = pickle.loads(raw)  # our own child's
    return Found(case, found, severity or case.severity, seconds)


def _child(case: Case, work: Path, write: int, trouble: Path) -> None:
    """Run a case, tell what was found, and end."""
    found, severity = "", ""
    try:
        os.setsid()
        os.chdir(work)
        for name in ENVIRONMENT:
            os.environ.pop(name, None)
        with trouble.open("wb", buffering=0) as log:
            faulthandler.enable(log)
            devnull = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(devnull, stream)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", encoding="utf-8") for n in (1, 2))
            found = case.do(Place(work))
    except Broken as e:
        found, severity = str(e), "high"
    except BaseException as e:  # noqa: BLE001
        found, severity = f"{type(e).__name__}: {str(e)[:300]}", "high"
    with contextlib.suppress(OSError):
        os.write(write, pickle.dumps((found[:2000], severity)))
    os._exit(0)


def _waited(pid: int, read: int) -> bytes | None:
    """Return what the child wrote; None where it did not end."""
    import select

    end, raw, late = time.monotonic() + SECONDS, b"", False
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            late = True
            break
        part = os.read(read, 65536)
        if not part:
            break
        raw += part
    os.close(read)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None if late else raw
