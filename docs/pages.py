"""What the reference pages say, taken from the program itself; cog puts it into the pages.

Run `cog -r docs/reference/*.md` from the root of the repository after a change; `make check` fails
where a page and the program differ.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import cleandoc, getsource
from pathlib import Path
from types import ModuleType

import msgspec
from msgspec.inspect import Field, type_info

ROOT = Path(__file__).resolve().parent.parent


def commands() -> str:
    """Every command's own `--help`, in the order of `stepscope --help`."""
    import typer

    from stepscope.cli.main import app

    os.environ["COLUMNS"] = "100"
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    parts = [_text(_help([]))]
    for name, command in commands.items():
        for words in [[name, sub] for sub in getattr(command, "commands", ())] or [[name]]:
            parts.append(f"## {' '.join(words)}\n\n{_text(_help(words))}")
    return "\n".join(parts)


def formats() -> str:
    """Every installed format: what it reads, and whether it writes."""
    rows = []
    for point in sorted(entry_points(group="stepscope.formats"), key=lambda point: point.name):
        module = _module(point)
        room = module.__name__.rpartition(".")[0]
        writes = hasattr(module, "write") or (room != point.module and find_spec(f"{room}.write"))
        rows.append((f"`{point.name}`", _summary(module.__doc__), "yes" if writes else "no"))
    return _table(("format", "reads", "writes"), rows)


def _module(point: EntryPoint) -> ModuleType:
    """The module of a format, whose entry point names it through the face of its room."""
    form = point.load()
    holders = [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("stepscope.formats.") and not hasattr(module, "__path__")
        if any(value is form for value in vars(module).values())
    ]
    return min(holders, key=lambda module: not _makes(module, form))


def _makes(module: ModuleType, form: object) -> bool:
    """Whether a module makes a format, rather than importing it."""
    names = [name for name, value in vars(module).items() if value is form]
    text = Path(str(module.__file__)).read_text("utf-8")
    return any(re.search(rf"^{name}(?:: \w+)? = ", text, re.MULTILINE) for name in names)


def format_details() -> str:
    """Every installed format: its traps in the words of its module, and what its sample gives."""
    from stepscope.formats import read_files
    from stepscope.testing.format_check import sample_files

    found = {path.stem: path for path in sample_files()}
    parts = []
    for point in sorted(entry_points(group="stepscope.formats"), key=lambda point: point.name):
        module = _module(point)
        parts.append(f"## {point.name}\n\n{_prose(module.__doc__)}\n")
        if point.name in found:
            for reading in read_files([str(found[point.name])], format_name=point.name):
                for _ in reading:
                    pass
                kept = ", ".join([f"`{key}`" for key in reading.account.kept_in_extra])
            parts.append(f"Of the sample that comes with it, `extra` holds: {kept or 'nothing'}.\n")
    return "\n".join(parts)


def format_rules() -> str:
    """Every rule of `check_format`, by its name and in the words of its docstring."""
    from stepscope.testing.format_check import RULES

    return "\n".join([f"- `{rule.__name__}`: {rule.__doc__}" for rule in RULES])


def measures() -> str:
    """Every installed measure: its version, the scale of its values, what it learns, its rules."""
    parts = []
    for point in sorted(entry_points(group="stepscope.measures"), key=lambda point: point.name):
        measure = point.load()
        scale = ", ".join(f"`{label}`" for label in measure.scale.labels)
        scale = scale or f"{measure.scale.low:g} to {measure.scale.high:g}"
        learns = ", ".join(measure.learns) or "nothing"
        head = f"Version {measure.version}. Scale: {scale}. Learns from a fleet: {learns}."
        parts.append(f"## {point.name}\n\n{head}\n\n{_prose(measure.run.__doc__)}\n")
    return "\n".join(parts)


def rubrics() -> str:
    """Every built-in rubric: what it asks, what counts, what does not and whose that is."""
    from stepscope.judges import RUBRIC_SETS, load_rubric_set

    parts = []
    for names in RUBRIC_SETS.values():
        for one in (rubric for name in names for rubric in load_rubric_set(name)):
            answers = ", ".join(
                f"`{answer}` ({sum(example.answer == answer for example in one.examples)})"
                for answer in one.answers
            )
            head = f"Version {one.version}, `{one.hash}`. Kind: {one.kind}. Answers: {answers}."
            scope = "\n".join(f"- {what}" for what in one.in_scope)
            others = _table(("not here", "but"), one.out_of_scope.items())
            parts.append(f"## {one.name}\n\n{one.question}\n\n{head}\n\n{scope}\n\n{others}")
    return "\n".join(parts)


def fields(types: Iterable[type]) -> str:
    """Every field of published structs, with the words of their docstrings."""
    return "\n".join(_fields(kind) for kind in types)


def sample(path: str) -> str:
    """A TOML file of the repository, in full."""
    return f"```toml\n{(ROOT / path).read_text(encoding='utf-8').rstrip()}\n```\n"


def _help(command: Sequence[str]) -> str:
    from stepscope.cli.main import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main([*command, "--help"])
    return printed.getvalue()


def _text(printed: str) -> str:
    lines = [line.rstrip() for line in printed.strip().split("\n")]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def _summary(doc: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    first = " ".join((doc or "").strip().split("\n\n")[0].split())
    return first.replace("|", "\\|").rstrip(".")


def _prose(doc: str | None) -> str:
    return cleandoc(doc or "")


def _fields(kind: type) -> str:
    prose, _, listed = cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    said = _said(listed) or _beside(kind)
    rows = [
        (
            f"`{field.encode_name}`",
            f"`{_type_name(kind, field.name)}`",
            _default(field),
            said.get(field.name, ""),
        )
        for field in type_info(kind).fields  # type: ignore[attr-defined]
    ]
    columns = 4 if said else 3
    table = _table(("field", "type", "default", "")[:columns], [row[:columns] for row in rows])
    return f"## {kind.__name__}\n\n{prose.strip()}\n\n{table}"


def _default(field: Field) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return "empty"
    return "" if field.default is msgspec.NODEFAULT else f"`{field.default!r}`"


def _said(listed: str) -> dict[str, str]:
    """Take the lines below `Attributes:` apart: name -> words."""
    said: dict[str, str] = {}
    name = ""
    for line in listed.split("\n"):
        if not line.strip():
            break
        begins = re.match(r"^ {4}(\w+): (.*)$", line)
        if begins:
            name = begins[1]
            said[name] = begins[2].strip()
        elif name:
            said[name] += " " + line.strip()
    return {key: words.replace("|", "\\|") for key, words in said.items()}


def _beside(kind: type) -> dict[str, str]:
    """Take the comments beside the fields of a class, on their line or above it."""
    said: dict[str, str] = {}
    above: list[str] = []
    for line in getsource(kind).split("\n"):
        begins = re.match(r"^ {4}(\w+): [^#]*(?:# (.*))?$", line)
        if begins:
            words = " ".join([*above, begins[2] or ""]).strip()
            said |= {begins[1]: words.replace("|", "\\|")} if words else {}
        above = [*above, line.strip()[2:]] if line.startswith("    # ") else []
    return said


def _type_name(kind: type, field: str) -> str:
    for owner in kind.__mro__:
        if field in vars(owner).get("__annotations__", {}):
            return str(owner.__annotations__[field]).replace("|", "\\|")
    raise LookupError(f"{kind.__name__} has no field {field!r}")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
