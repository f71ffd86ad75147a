"""The command line: parse, call the library, print, exit code. No command computes a number.

Commands import what they need when they run, so that `--help` starts in a tenth of a second. Exit
codes: 0 done, 1 a bug in stepscope, 2 something the user can fix, 3 a gate failed, 4 undecided or
unmeasured, 5 disk, network or budget, 130 stopped by the user.
"""

from __future__ import annotations

import errno
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from stepscope import safety
from stepscope.cli import calibrate, gate, importing, judge, lab, label, report, runs, setup
from stepscope.cli.options import Version
from stepscope.errors import EnvironmentFault, StepscopeError, UsageError
from stepscope.runtime.signals import interrupt_on_stops
from stepscope.safety.text import disarm_commands, visible_line

if TYPE_CHECKING:
    from typer._click.core import Context
    from typer._click.formatting import HelpFormatter

Function: TypeAlias = "Callable[..., object]"
Member: TypeAlias = "Function | tuple[str, str, str, tuple[Function, ...]]"

# What typer raises for a command line it cannot read, whether it brings its own click or not.
_BadCommandLine: type[Exception] = typer.BadParameter.__mro__[2]

# What a shell gives a command that Ctrl-C ended.
STOPPED = 130

# Address space that numpy and scipy take for granted; a report of 20 runs needs 450 MB.
LEAST_BYTES = 512 << 20
# Half of it does for every command here.
LEAST_STACK_BYTES = 1 << 20
_DISK_GAVE_OUT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}

# In the order of `stepscope --help`: a command, or a name with what it is for, an example, and the
# commands below it.
COMMANDS: dict[str, tuple[Member, ...]] = {
    "Start": (setup.demo, setup.init, setup.doctor),
    "Read": (
        importing.import_,
        runs.score,
        runs.list_,
        runs.show,
        report.report,
        runs.diff,
        report.compare,
        report.view,
        report.mcp,
        runs.export,
        runs.purge,
    ),
    "Judge": (
        judge.judge,
        calibrate.agree,
        label.label,
        (
            "calibrate",
            "Measure how far judges and lists of suspects can be trusted.",
            "stepscope calibrate sigma scores.csv",
            calibrate.COMMANDS,
        ),
        (
            "rubric",
            "Lock rubrics, trace their versions, adopt another judge.",
            "stepscope rubric lock axes",
            (judge.list_, judge.lock, judge.history, judge.adopt),
        ),
    ),
    "Gate": (
        gate.gate,
        (
            "baseline",
            "Save runs as the baseline that gates compare with.",
            "stepscope baseline update --yes",
            (gate.update,),
        ),
        (
            "case",
            "Check cases, set test cases aside, make cases from failing runs.",
            "stepscope case check cases",
            (gate.check, gate.split, runs.promote),
        ),
    ),
    "Experts": (
        (
            "lab",
            "Measure stepscope's accuracy on runs with known faults.",
            "stepscope lab envelope --n 10 --sigma 0.06",
            (lab.envelope, lab.redteam),
        ),
        report.shape,
    ),
}


class Group(TyperGroup):
    """A command of commands; the first of all lists them in groups."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write a section for each group, all in the same columns."""
        if ctx.parent is not None:
            return super().format_commands(ctx, formatter)
        wide = max(map(len, self.commands))
        for title, members in COMMANDS.items():
            named = [(name, self.commands[name]) for name in map(_name, members)]
            with formatter.section(title):
                rows = [(name.ljust(wide), one.get_short_help_str(100)) for name, one in named]
                formatter.write_dl(rows)


class Command(TyperCommand):
    """A command that refuses an option twice, of which it would heed only the last."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the options; raises UsageError where one of a single value is given twice."""
        if not ctx.resilient_parsing:
            for one in (given := self.make_parser(ctx).parse_args(args=list(args))[2]):
                alone = isinstance(one, TyperOption) and not (one.multiple or one.is_flag)
                if alone and given.count(one) > 1:
                    raise UsageError(f"{one.opts[0]} is given twice; it takes one value")
        return super().parse_args(ctx, args)


def _name(member: Member) -> str:
    return member[0] if isinstance(member, tuple) else member.__name__.rstrip("_")


def _make_app(**options: Any) -> typer.Typer:
    return typer.Typer(cls=Group, rich_markup_mode=None, **options)


app = _make_app(
    name="stepscope",
    help="stepscope reads recorded runs of AI agents and reports what broke, and where.",
    epilog="Start with: stepscope demo, or stepscope report YOUR_TRACES/",
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def _root(context: typer.Context, version: Version = False) -> None:
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def _add(to: typer.Typer, member: Member) -> None:
    if isinstance(member, tuple):
        name, text, example, members = member
        group = _make_app(help=text)
        for one in members:
            _add(group, one)
        return to.add_typer(group, name=name, epilog=f"Example: {example}")
    text, _, example = (member.__doc__ or "").partition("Example:")
    to.command(
        _name(member),
        cls=Command,
        help=inspect.cleandoc(text),
        epilog=f"Example: {example.strip()}",
    )(member)


for _member in chain.from_iterable(COMMANDS.values()):
    _add(app, _member)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; what is left uncaught is a bug."""
    if arguments is None:
        # Open what the caller closed of the standard streams, onto nothing: else the next file that
        # is opened, a store for one, would stand where output is written to.
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            try:
                os.fstat(number)
            except OSError:
                opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
                mode = "w" if number else "r"
                setattr(sys, name, open(opened, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if arguments is None:
        sys.excepthook = _bug
        sys.unraisablehook = stop_again
        interrupt_on_stops()
        arguments = sys.argv[1:]
    try:
        return _run(arguments)
    except BrokenPipeError:
        _close_quietly(sys.stdout)
        return 0
    except MemoryError:
        return _complain("out of memory; close other programs", EnvironmentFault.exit_code)
    except ImportError as e:
        if (e.name or "stepscope").partition(".")[0] == "stepscope":
            raise
        said = str(e.__cause__ or e).strip().rpartition("\n")[2]
        return _complain(
            f"{e.name} cannot be loaded ({said}); is it installed whole, and is there memory?",
            EnvironmentFault.exit_code,
        )


def _run(arguments: Sequence[str]) -> int:
    try:
        _refuse_little_memory(arguments)
        command = typer.main.get_command(app)
        result = command.main(list(arguments), prog_name="stepscope", standalone_mode=False)
        # What is still buffered must not meet a full disk at exit, where nobody can tell of it.
        sys.stdout.flush()
    except StepscopeError as e:
        return _complain(str(e), e.exit_code)
    except _BadCommandLine as e:
        context = getattr(e, "ctx", None)
        path = context.command_path if context else "stepscope"
        text = getattr(e, "format_message", e.__str__)()
        return _complain(f"{text.rstrip('.')}; see {path} --help", 2)
    except (KeyboardInterrupt, typer.Abort):
        result = STOPPED
    except BrokenPipeError:
        raise
    except OSError as e:
        if isinstance(e, FileNotFoundError) and e.filename is None:  # of `os.getcwd` alone
            return _complain("the working directory no longer exists; change into another", 5)
        if e.errno in _DISK_GAVE_OUT:
            try:
                sys.stdout.flush()
            except OSError:
                _close_quietly(sys.stdout)
            where = f"{e.filename}: " if e.filename else ""
            return _complain(f"{where}{e.strerror}; free some space", EnvironmentFault.exit_code)
        if e.filename is None:
            raise
        return _complain(f"{e.filename}: {e.strerror}", 2)
    except SystemExit:
        # typer's answer to a closed pipe, which it takes for itself, and to a shell that completes.
        raise BrokenPipeError from None
    if result == STOPPED:
        return _complain("stopped; finished work is kept", STOPPED)
    return result if isinstance(result, int) else 0


def _refuse_little_memory(arguments: Sequence[str]) -> None:
    """Refuse to compute where limits leave too little: libraries in C end without a word.

    Raises:
        EnvironmentFault: the address space or the stack is limited to less than is needed.
    """
    import resource

    if not {"-h", "--help", "--version"}.isdisjoint(arguments) or not arguments:
        return
    for kind, what, flag, least in (
        (resource.RLIMIT_AS, "memory", "v", LEAST_BYTES),
        (resource.RLIMIT_STACK, "stack", "s", LEAST_STACK_BYTES),
    ):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY and limit < least:
            raise EnvironmentFault(
                f"this process may have {limit >> 10:,} KiB of {what} and needs {least >> 10:,}; "
                f"raise the limit (ulimit -{flag} {least >> 10})"
            )


def stop_again(ignored: sys.UnraisableHookArgs) -> None:
    """Hear a Ctrl-C once more that came where Python can raise nothing, in a finaliser, say."""
    if ignored.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(ignored)
        return
    import signal
    import threading

    # Later and from elsewhere: an exception in this very hook would be ignored, too. To the thread
    # that hears it, so that what it waits for is cut short.
    threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()


def _complain(message: str, code: int) -> int:
    try:
        sys.stderr.write(f"error: {disarm_commands(visible_line(safety.scrub_message(message)))}\n")
    except OSError:
        _close_quietly(sys.stderr)
    return code


def _close_quietly(stream: TextIO) -> None:
    # The reader has gone (`| head`, a terminal that hung up): what is still buffered must not
    # complain at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    import tempfile
    import traceback

    text = safety.scrub_message("".join(traceback.format_exception(kind, error, trace)))
    if os.environ.get("STEPSCOPE_DEBUG") == "1":
        sys.stderr.write(text)
        return
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="stepscope-bug-", suffix=".txt", delete=False
    ) as file:
        file.write(text)
    sys.stderr.write(
        f"error: a bug in stepscope ({kind.__name__}), not in your input: please report it with "
        f"{file.name} (it may quote your traces; STEPSCOPE_DEBUG=1 prints it instead)\n"
    )
