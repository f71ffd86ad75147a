"""Tools over what a run left behind: files, tables and commands.

Files and commands go through the sandbox, on a copy of the folder that the user named. Where the
sandbox does not hold they are off and the judge is told so; there is no way around it. Paths and
arguments are a judge's, and it has read the trace: none of them is an option, and none leads out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

from stepscope.errors import EnvironmentFault
from stepscope.judges.tools import LookupCall, LookupRefused, LookupTool, Toolbox, search_text
from stepscope.sandbox import tables
from stepscope.sandbox.check import check_sandbox, find_interpreter
from stepscope.sandbox.run import DEFAULT_LIMITS, MIB, FinishedCommand, SandboxLimits, run_command
from stepscope.sandbox.workspace import Workspace, copy_workspace

# A look is not worth more: replies of other judges wait meanwhile.
FILE_LIMITS = replace(DEFAULT_LIMITS, seconds=5.0, cpu_seconds=5, output_bytes=MIB)
# A query that takes longer is no look at a table.
TABLE_LIMITS = replace(FILE_LIMITS, seconds=2.0, cpu_seconds=2, memory_bytes=256 * MIB)
# Of a command that is a look, and not a program that a judge writes.
_ARGUMENTS = 32
_ARGUMENT_CHARACTERS = 1_000
_PATH_CHARACTERS = 500
FILE_TOOLS = ("list_files", "read_file", "grep", "query", "run")


@contextmanager
def add_file_tools(toolbox: Toolbox, folder: Path) -> Iterator[Toolbox]:
    """Give a toolbox the tools over a folder, which must exist, or say in it why they are off."""
    with copy_workspace(folder) as workspace:
        try:
            check_sandbox()
        except EnvironmentFault as e:
            yield toolbox.with_more((), off=dict.fromkeys(FILE_TOOLS, str(e)), state="no sandbox")
            return
        files = _FileTools(workspace)
        tools = (
            LookupTool("list_files", "files below the folder `path` (all: empty)", files.listed),
            LookupTool("read_file", "the file `path`, from line `start` on", files.read),
            LookupTool("grep", "lines that hold `text`, to the letter, below `path`", files.grep),
            LookupTool(
                "query", "rows of the SELECT in `text`, of the SQLite file `path`", files.query
            ),
            LookupTool(
                "run", "`command`, a program and its arguments; it can write nothing", files.run
            ),
        )
        yield toolbox.with_more(tools, off={}, state=workspace_hash(workspace))


def workspace_hash(workspace: Workspace) -> str:
    """Return a hash over the names and contents of all files of a workspace."""
    seen = sha256()
    for path in sorted(workspace.path.rglob("*")):
        seen.update(f"{path.relative_to(workspace.path)}\0".encode("utf-8", "surrogateescape"))
        if path.is_symlink():
            seen.update(str(path.readlink()).encode("utf-8", "surrogateescape"))
        elif path.is_file():
            with path.open("rb") as file:
                while piece := file.read(MIB):
                    seen.update(piece)
        seen.update(b"\0")
    return seen.hexdigest()


class _FileTools:
    """The tools over one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def listed(self, call: LookupCall) -> str:
        done = self._run("find", _path(call), "-mindepth", "1", "-printf", "%y %10s %p\\n")
        left = "".join(f"({n} left out: {why})\n" for why, n in self.workspace.dropped.items())
        return left + _sorted(done)

    def read(self, call: LookupCall) -> str:
        start = 1 if call.start is None else call.start
        if start < 1:
            raise LookupRefused(f"`start` is {start}; lines count from 1")
        return _shown(self._run("tail", "-n", f"+{start}", "--", _path(call)))

    def grep(self, call: LookupCall) -> str:
        wanted = search_text(call)
        if "\n" in wanted:
            raise LookupRefused("`text` has more than one line; grep looks for one")
        found = self._run("grep", "-rnIF", "--max-count=50", "-e", wanted, "--", _path(call))
        return _sorted(found) if found.out or found.code != 1 else "no line holds that text"

    def query(self, call: LookupCall) -> str:
        python, beside = find_interpreter()
        script = Path(tables.__file__).read_text("utf-8")
        command = (python, "-I", "-c", script, _path(call), search_text(call))
        done = self._run(*command, bounds=TABLE_LIMITS, beside=beside)
        if done.code == tables.REFUSED:
            raise LookupRefused(f"SQLite refuses: {done.err.decode('utf-8', 'replace')}")
        if done.late or done.cut or done.code:
            raise LookupRefused("the query takes too much time or memory")
        return done.out.decode("utf-8", "replace")

    def run(self, call: LookupCall) -> str:
        command = call.command
        if not command or not command[0]:
            raise LookupRefused("run needs `command`: a program and its arguments")
        if len(command) > _ARGUMENTS or max(map(len, command)) > _ARGUMENT_CHARACTERS:
            raise LookupRefused(
                f"at most {_ARGUMENTS} arguments of at most {_ARGUMENT_CHARACTERS} characters"
            )
        return _shown(self._run(*command))

    def _run(
        self, *command: str, bounds: SandboxLimits = FILE_LIMITS, beside: Sequence[Path] = ()
    ) -> FinishedCommand:
        if any("\0" in word for word in command):
            raise LookupRefused("an argument holds a NUL")
        return run_command(command, workspace=self.workspace.path, bounds=bounds, beside=beside)


def _path(call: LookupCall) -> str:
    """Return a path that starts with ./ and stays inside."""
    path = PurePosixPath(call.path or ".")
    if path.is_absolute() or ".." in path.parts or "\0" in call.path:
        raise LookupRefused("`path` stays within the workspace: no leading slash, no `..`")
    if len(call.path) > _PATH_CHARACTERS:
        raise LookupRefused(f"`path` has more than {_PATH_CHARACTERS} characters")
    return "." if path == PurePosixPath() else f"./{path}"


def _shown(done: FinishedCommand) -> str:
    text = done.out.decode("utf-8", "replace")
    errors = done.err.decode("utf-8", "replace")
    notes = [f"(it exited with {done.code})\n"] if done.code and not (done.cut or done.late) else []
    notes += ["(it wrote too much and was ended)\n"] if done.cut else []
    notes += ["(it took too long and was ended)\n"] if done.late else []
    return "".join(notes) + text + (f"\nerrors:\n{errors}" if errors else "")


def _sorted(done: FinishedCommand) -> str:
    if done.code or done.cut or done.late:
        return _shown(done)
    # Folders are listed in the order of the disk, which another copy does not have.
    return "\n".join(sorted(done.out.decode("utf-8", "replace").splitlines()))
