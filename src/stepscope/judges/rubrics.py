"""Read rubrics: Markdown files with TOML front matter between two lines of `+++`, ours or a user's.

Strict, because a slip in a rubric is a slip in every verdict: an unknown key, an answer without an
example, an example of an answer that is not on the menu and a name that is taken are refused, with
the file and what is wrong in it. TOML has no aliases and no tags, and the file's size and its lines
are capped before they are parsed, so that no file can expand into more than it is.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import msgspec

from stepscope.errors import ConfigError
from stepscope.judges.rubric import Example, Kind, Rubric

FOLDER = Path(__file__).with_name("rubrics")
FENCE = "+++"
# A rubric is read by a judge whole, before each run: ours have under 12 KiB.
MOST_BYTES = 256 * 1024
# A dotted key of TOML costs the square of its parts, and none of a sensible one is so long.
MOST_LINE_CHARACTERS = 2_000
KINDS: tuple[Kind, ...] = get_args(Kind)
# The rubrics of each set in the order in which they are asked; a set of one has its rubric's name.
SETS: dict[str, tuple[str, ...]] = {
    "axes": (
        "axes.tool_selection",
        "axes.argument_validity",
        "axes.sequencing",
        "axes.result_interpretation",
        "axes.termination",
    ),
    "step_labels": ("step_labels",),
    "quality": (
        "quality.plan",
        "quality.tool_selection",
        "quality.argument_grounding",
        "quality.error_recovery",
        "quality.final_answer",
    ),
    "behaviour": ("behaviour.sycophancy", "behaviour.policy_evasion"),
    "attribution": ("attribution",),
    "no_look": ("no_look",),
}
BUILT_IN = tuple(name for names in SETS.values() for name in names)
# What each kind may answer. An axis may do without the last two; a score names its own bands.
MENUS: dict[Kind, tuple[str, ...]] = {
    "axis": ("correct", "incorrect", "uncertain", "not_applicable"),
    "labels": ("PROGRESS", "REDUNDANT", "DETOUR", "ERROR"),
    "presence": ("present", "absent"),
    "attribution": ("plan", "tool_selection", "argument", "recovery"),
    "score": (),
}
OPTIONAL = ("uncertain", "not_applicable")

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}(?:\.[a-z][a-z0-9_]{0,39})?")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}")


class Front(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The front matter of a rubric file.

    Attributes:
        name: unique; a set, a dot and an aspect ("axes.tone"), or one word.
        kind: what the judge sees and in what form it answers.
        version: digits; raised with every change that can change an answer.
        question: one sentence, put to the judge.
        answers: what may be answered; for a score the names of its bands, worst first.
        in_scope: what counts, one sentence each.
        out_of_scope: what does not count -> the rubric or measure whose it is.
        examples: worked examples, one or more for each answer.
        failing: the answers that speak against the agent.
    """

    name: str
    kind: Kind
    version: str
    question: str
    answers: tuple[str, ...]
    in_scope: tuple[str, ...]
    out_of_scope: dict[str, str]
    examples: tuple[Example, ...]
    failing: tuple[str, ...] = ()


def rubric(name: str) -> Rubric:
    """Return one rubric: a built-in by its name, a user's by the path of its file.

    Raises:
        ConfigError: nothing is called so, or the file is no rubric; the message says where and why.
    """
    if _is_path(name):
        return _own(Path(name))
    if name not in BUILT_IN:
        raise ConfigError(_unknown(name))
    return _built_in(name)


def rubric_set(name: str) -> tuple[Rubric, ...]:
    """Return the rubrics of a set in the order in which they are asked, or the one of a name.

    Raises:
        ConfigError: as `rubric` does.
    """
    return tuple(rubric(one) for one in SETS.get(name, (name,)))


def rubrics(names: Iterable[str]) -> tuple[Rubric, ...]:
    """Return the rubrics of several sets, names and paths, each once, in the order given.

    Raises:
        ConfigError: as `rubric` does, or two different files have one name.
    """
    chosen: dict[str, tuple[Rubric, str]] = {}
    for name in names:
        for one in rubric_set(name):
            before = chosen.setdefault(one.name, (one, name))
            if before[0].hash != one.hash:
                raise ConfigError(
                    f"{name}: its name {one.name!r} is taken by {before[1]}; rename one of them"
                )
    return tuple(one for one, _ in chosen.values())


def read(data: bytes, where: str) -> Rubric:
    """Return the rubric that the bytes of a file hold; `where` is its place in messages.

    Raises:
        ConfigError: too large, not UTF-8, no front matter, a key unknown, missing or of the wrong
            type, an answer off the menu or without an example.
    """
    text = _text(data, where)
    front, body = _parts(text, where)
    _refuse_senseless(front, body, where)
    return Rubric(
        **{name: getattr(front, name) for name in front.__struct_fields__},
        body=body,
        hash=sha256(data).hexdigest()[:16],
    )


def _is_path(name: str) -> bool:
    return name.endswith(".md") or "/" in name or "\\" in name


def _unknown(name: str) -> str:
    known = (*SETS, *(one for one in BUILT_IN if one not in SETS))
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"no rubric called {name!r}; {hint} A rubric of your own is a path that ends in .md"


@lru_cache(maxsize=len(BUILT_IN))
def _built_in(name: str) -> Rubric:
    path = FOLDER / f"{name}.md"
    found = read(path.read_bytes(), str(path))
    if found.name != name:
        raise ConfigError(f"{path}: the rubric calls itself {found.name!r}; expected {name!r}")
    return found


def _own(path: Path) -> Rubric:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as e:
        raise ConfigError(f"{path}: cannot be read ({e.strerror})") from e
    found = read(data, str(path))
    alone = [name for name, members in SETS.items() if members == (name,)]
    if found.name in BUILT_IN or found.name in SETS or found.set in alone:
        raise ConfigError(
            f"{path}: name {found.name!r} belongs to a built-in rubric; choose a name of your own"
        )
    return found


def _text(data: bytes, where: str) -> str:
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{where}: larger than {MOST_BYTES} bytes; a judge reads a rubric whole")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise ConfigError(f"{where}, line {line}: not UTF-8; save the file as UTF-8") from e


def _parts(text: str, where: str) -> tuple[Front, str]:
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        raise ConfigError(
            f"{where}, line 1: found {lines[0][:40]!r}; expected {FENCE} and front matter in TOML"
        )
    ends = (at for at, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE)
    end = next(ends, None)
    if end is None:
        raise ConfigError(f"{where}: the front matter has no closing line of {FENCE}")
    for number, line in enumerate(lines[1:end], 2):
        if len(line) > MOST_LINE_CHARACTERS:
            raise ConfigError(
                f"{where}, line {number}: longer than {MOST_LINE_CHARACTERS} characters; wrap it"
            )
    table = _toml(lines[1:end], where)
    for key in table:
        if key not in Front.__struct_fields__:
            raise ConfigError(f"{where}: {_unknown_key(key, Front.__struct_fields__)}")
    try:
        front = msgspec.convert(table, Front)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where}: {_one_line(e)}") from e
    return front, "\n".join(lines[end + 1 :]).strip()


def _toml(lines: list[str], where: str) -> Mapping[str, Any]:
    try:
        # An empty line before them, so that the parser counts lines as the file does.
        return tomllib.loads("\n".join(["", *lines, ""]))
    except ValueError as e:
        raise ConfigError(f"{where}: front matter is not TOML: {_one_line(e)}") from e
    except RecursionError as e:
        raise ConfigError(f"{where}: front matter is nested too deep") from e


def _unknown_key(key: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return f"unknown key {key[:40]!r}; {hint}"


def _refuse_senseless(front: Front, body: str, where: str) -> None:
    for wrong in _complaints(front, body):
        raise ConfigError(f"{where}: {wrong}")


def _complaints(front: Front, body: str) -> Iterable[str]:
    """Yield what is wrong with a rubric, the first thing first."""
    if not _NAME.fullmatch(front.name):
        yield f"name is {front.name!r}; expected lower-case words, at most one dot: set.aspect"
    if not _VERSION.fullmatch(front.version):
        yield f'version is {front.version!r}; expected digits, such as "1"'
    for key in ("question", "in_scope", "out_of_scope"):
        value = getattr(front, key)
        texts = (value,) if isinstance(value, str) else (*value,)
        if not texts or not all(text.strip() for text in texts):
            yield f"{key} is empty; a judge cannot guess what counts"
    for what, whose in front.out_of_scope.items():
        if not whose.strip():
            yield f"out_of_scope {what!r} does not say whose it is"
    if not body:
        yield "nothing follows the front matter; say there how to judge"
    yield from _off_menu(front)
    yield from _bad_examples(front)


def _off_menu(front: Front) -> Iterable[str]:
    answers, menu = front.answers, MENUS[front.kind]
    doubled = [answer for answer in answers if answers.count(answer) > 1]
    if doubled:
        yield f"answers have {doubled[0]!r} twice"
    unknown = [answer for answer in answers if menu and answer not in menu]
    if unknown:
        yield f"answers have {unknown[0]!r}; kind {front.kind!r} answers {', '.join(menu)}"
    missing = [answer for answer in menu if answer not in answers and answer not in OPTIONAL]
    if missing:
        yield f"answers lack {missing[0]!r}; kind {front.kind!r} answers {', '.join(menu)}"
    if len(answers) < 2 or not all(answer.strip() for answer in answers):
        yield "answers need two or more, none of them empty"
    strange = [answer for answer in front.failing if answer not in answers]
    if strange:
        yield f"failing has {strange[0]!r}, which is no answer of this rubric"


def _bad_examples(front: Front) -> Iterable[str]:
    for number, example in enumerate(front.examples, 1):
        if example.answer not in front.answers:
            yield f"example {number} answers {example.answer!r}, which is not among the answers"
        if not example.trace.strip() or not example.why.strip():
            yield f"example {number} needs a trace and a why"
        if any(cite < 0 for cite in example.cites):
            yield f"example {number} cites a step below 0"
    shown = {example.answer for example in front.examples}
    without = [answer for answer in front.answers if answer not in shown]
    if without:
        yield f"answer {without[0]!r} has no example; judges agree by examples, not by scope"


def _one_line(error: Exception) -> str:
    return str(error).replace("\n", " ")[:200]
