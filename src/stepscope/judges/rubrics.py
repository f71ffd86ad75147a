"""Rubrics: what a judge is asked, with the system prompt and the answer schema of each kind.

A rubric is a Markdown file with TOML front matter between two lines of `+++`, ours or a user's. A
prompt is a template file with the rubric put into its marks. Refuses a rubric whose examples answer
off its menu, unknown keys, and files that are too large.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from stepscope.errors import ConfigError, suggest_name
from stepscope.model import Json
from stepscope.model.records import NEUTRAL
from stepscope.safety.limits import read_file

# What a rubric sees and in what form it answers.
#   axis: the whole run; one answer, cited, with a rationale and a confidence
#   labels: the whole run; a label, a score and an explanation for every step of the agent
#   score: one sub-goal and one exchange, nothing else; a score from 0 to 1
#   presence: the whole run; present or absent for every step of the agent
#   attribution: a run whose state check failed; which part failed, where, and whose failure it was
RubricKind = Literal["axis", "labels", "score", "presence", "attribution"]


class RubricExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worked example: what is seen, what is answered, and why."""

    answer: str
    trace: str
    why: str
    cites: tuple[int, ...] = ()
    reply: str = ""  # the whole answer as JSON, quotations included; one example of ours has it


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The front matter of a rubric file."""

    name: str  # unique; a set, a dot and an aspect ("axes.tone"), or one word.
    kind: RubricKind  # what the judge sees and in what form it answers.
    version: str  # digits; raised with every change that can change an answer.
    question: str  # one sentence, put to the judge.
    # what may be answered; for a score the names of its bands, worst first.
    answers: tuple[str, ...]
    in_scope: tuple[str, ...]  # what counts, one sentence each.
    out_of_scope: dict[str, str]  # what does not count -> the rubric or measure whose it is.
    examples: tuple[RubricExample, ...]  # worked examples, one or more for each answer.
    failing: tuple[str, ...] = ()  # the answers that speak against the agent.
    # whether the evidence is what the agent says: not asked where its words are left out.
    needs_narration: bool = False


class Rubric(FrontMatter, frozen=True, kw_only=True):
    """A rubric as it was read."""

    body: str  # the text of the file, which the judge reads whole
    hash: str  # sixteen hex digits over the bytes of the file

    @property
    def set(self) -> str:
        """The set that it belongs to: its name up to the first dot."""
        return self.name.partition(".")[0]


PROMPTS_FOLDER = Path(__file__).with_name("prompts")
# What every kind of judge is told of data and evidence; it stands at this mark of each template.
SHARED_PROMPT = b"[[shared]]"
# Where the recording is shown. What stands behind it in a template is asked after the recording, so
# that all rubrics of a kind have one beginning, which providers cache.
RECORDING = "[[recording]]"

_MARK = re.compile(r"\[\[(\w+)\]\]")


class PromptTemplate(NamedTuple):
    """A template with what all of them share in its place, and 16 hex digits over those bytes."""

    text: str
    hash: str


@lru_cache
def load_prompt(kind: RubricKind) -> PromptTemplate:
    """Return the template of a kind of question."""
    shared = (PROMPTS_FOLDER / "shared.md").read_bytes().strip()
    data = (PROMPTS_FOLDER / f"{kind}.md").read_bytes().replace(SHARED_PROMPT, shared)
    return PromptTemplate(data.decode("utf-8").strip(), sha256(data).hexdigest()[:16])


def system_prompt(rubric: Rubric, template: PromptTemplate | None = None) -> str:
    """Return all that a judge is told by a rubric, and where in it the recording stands."""
    return "\n\n(The recording is shown here.)\n\n".join(prompt_parts(rubric, template))


def prompt_parts(rubric: Rubric, template: PromptTemplate | None = None) -> list[str]:
    """Return the system turn, and what is told after the recording where a template has that."""
    texts = {
        "rubric": f"{rubric.name}, version {rubric.version}",
        "question": rubric.question,
        "answers": _bullet_list(rubric.answers),
        "in_scope": _bullet_list(rubric.in_scope),
        "out_of_scope": _bullet_list(" -> ".join(pair) for pair in rubric.out_of_scope.items()),
        "body": rubric.body,
        "examples": "\n\n".join(map(_example_text, count(1), rubric.examples)),
    }
    parts = (template or load_prompt(rubric.kind)).text.split(RECORDING)
    return [_MARK.sub(lambda mark: texts[mark[1]], part).strip() for part in parts]


def prompt_hash(rubric: Rubric, template: PromptTemplate, *modes: str) -> str:
    """Return 16 hex digits over all that is not the run: rubric, template, and modes in order.

    Modes are whatever else changes an answer: the schema, the narration, isolated or contextual.
    """
    # Lengths stand before the texts: no two lists of parts are the same bytes.
    text = "".join(f"{len(part)}:{part}" for part in (rubric.hash, template.hash, *modes))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _bullet_list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _example_text(number: int, example: RubricExample) -> str:
    cites = f", citing {', '.join(map(str, example.cites))}" if example.cites else ""
    whole = f"\nThe whole answer:\n{example.reply.strip()}" if example.reply else ""
    return (
        f"Example {number}. Answer: {example.answer}{cites}\n"
        f"{example.trace.strip()}\nWhy: {example.why.strip()}{whole}"
    )


RUBRICS_FOLDER = Path(__file__).with_name("rubrics")
FRONT_MATTER_FENCE = "+++"
# A rubric is read by a judge whole, before each run: ours have under 12 KiB.
MOST_RUBRIC_BYTES = 256 * 1024
# A dotted key of TOML costs the square of its parts, and none of a sensible one is so long.
MOST_LINE_CHARACTERS = 2_000
RUBRIC_KINDS: tuple[RubricKind, ...] = get_args(RubricKind)
# The rubrics of each set in the order in which they are asked; a set of one has its rubric's name.
RUBRIC_SETS: dict[str, tuple[str, ...]] = {
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
BUILT_IN_RUBRICS = tuple(name for names in RUBRIC_SETS.values() for name in names)
# What each kind may answer. An axis may do without the last two; a score names its own bands.
ANSWER_MENUS: dict[RubricKind, tuple[str, ...]] = {
    "axis": ("correct", "incorrect", "uncertain", "not_applicable"),
    "labels": ("PROGRESS", "REDUNDANT", "DETOUR", "ERROR"),
    "presence": ("present", "absent"),
    "attribution": ("plan", "tool_selection", "argument", "recovery"),
    "score": (),
}

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}(?:\.[a-z][a-z0-9_]{0,39})?")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}")


def load_rubric(name: str) -> Rubric:
    """Return one rubric: a built-in by its name, a user's by the path of its file.

    The `ConfigError` where there is none says where and why.
    """
    if name.endswith(".md") or "/" in name or "\\" in name:
        return _load_file(Path(name))
    if name not in BUILT_IN_RUBRICS:
        known = (*RUBRIC_SETS, *(one for one in BUILT_IN_RUBRICS if one not in RUBRIC_SETS))
        own = "your own rubric is a path that ends in .md"
        raise ConfigError(f"no rubric called {name!r}; {suggest_name(name, known)}; {own}")
    return _load_built_in(name)


def load_rubric_set(name: str) -> tuple[Rubric, ...]:
    """Return the rubrics of a set, or the one of a name, as asked; errors as of `load_rubric`."""
    return tuple(load_rubric(one) for one in RUBRIC_SETS.get(name, (name,)))


def load_rubrics(names: Iterable[str]) -> tuple[Rubric, ...]:
    """Return the rubrics of several sets, names and paths, each once, in the order given.

    `ConfigError` as of `load_rubric`, and where two different files have one name.
    """
    chosen: dict[str, tuple[Rubric, str]] = {}
    for name in names:
        for one in load_rubric_set(name):
            before = chosen.setdefault(one.name, (one, name))
            if before[0].hash != one.hash:
                said = f"its name {one.name!r} is taken by {before[1]}; rename one of them"
                raise ConfigError(f"{name}: {said}")
    return tuple(one for one, _ in chosen.values())


def read_rubric(data: bytes, where: str) -> Rubric:
    """Return the rubric that the bytes of a file hold; `where` is its place in messages.

    `ConfigError` where it is too large, not UTF-8, without front matter, a key is unknown, missing
    or of the wrong type, an answer off the menu or without an example.
    """
    front, body = _split_front_matter(_decode_text(data, where), where)
    for wrong in _complaints(front, body):
        raise ConfigError(f"{where}: {wrong}")
    return Rubric(
        **{name: getattr(front, name) for name in front.__struct_fields__},
        body=body,
        hash=sha256(data).hexdigest()[:16],
    )


@lru_cache(maxsize=len(BUILT_IN_RUBRICS))
def _load_built_in(name: str) -> Rubric:
    path = RUBRICS_FOLDER / f"{name}.md"
    found = read_rubric(path.read_bytes(), str(path))
    if found.name != name:
        raise ConfigError(f"{path}: the rubric calls itself {found.name!r}; expected {name!r}")
    return found


def _load_file(path: Path) -> Rubric:
    try:
        data = read_file(path, MOST_RUBRIC_BYTES + 1)
    except OSError as e:
        raise ConfigError(f"{path}: cannot be read ({e.strerror})") from e
    found = read_rubric(data, str(path))
    alone = [name for name, members in RUBRIC_SETS.items() if members == (name,)]
    if found.name in BUILT_IN_RUBRICS or found.name in RUBRIC_SETS or found.set in alone:
        taken = f"name {found.name!r} belongs to a built-in rubric"
        raise ConfigError(f"{path}: {taken}; choose a name of your own")
    return found


def _decode_text(data: bytes, where: str) -> str:
    if len(data) > MOST_RUBRIC_BYTES:
        larger = f"larger than {MOST_RUBRIC_BYTES} bytes; a judge reads a rubric whole"
        raise ConfigError(f"{where}: {larger}")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise ConfigError(f"{where}, line {line}: not UTF-8; save the file as UTF-8") from e


def _split_front_matter(text: str, where: str) -> tuple[FrontMatter, str]:
    lines = text.split("\n")
    if lines[0].rstrip() != FRONT_MATTER_FENCE:
        expected = f"expected {FRONT_MATTER_FENCE} and front matter in TOML"
        raise ConfigError(f"{where}, line 1: found {lines[0][:40]!r}; {expected}")
    ends = (at for at, line in enumerate(lines[1:], 1) if line.rstrip() == FRONT_MATTER_FENCE)
    end = next(ends, None)
    if end is None:
        raise ConfigError(f"{where}: the front matter has no closing line of {FRONT_MATTER_FENCE}")
    for number, line in enumerate(lines[1:end], 2):
        if len(line) > MOST_LINE_CHARACTERS:
            longer = f"longer than {MOST_LINE_CHARACTERS} characters; wrap it"
            raise ConfigError(f"{where}, line {number}: {longer}")
    table = _toml(lines[1:end], where)
    known = FrontMatter.__struct_fields__
    for key in table:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key[:40]!r}; {suggest_name(key, known)}")
    try:
        front = msgspec.convert(table, FrontMatter)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where}: {one_line(e)}") from e
    return front, "\n".join(lines[end + 1 :]).strip()


def _toml(lines: list[str], where: str) -> Mapping[str, Any]:
    try:
        # An empty line before them, so that the parser counts lines as the file does.
        return tomllib.loads("\n".join(["", *lines, ""]))
    except ValueError as e:
        raise ConfigError(f"{where}: front matter is not TOML: {one_line(e)}") from e
    except RecursionError as e:
        raise ConfigError(f"{where}: front matter is nested too deep") from e


def _complaints(front: FrontMatter, body: str) -> Iterable[str]:
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
            yield f"out_of_scope {what!r} does not name its rubric"
    if not body:
        yield "nothing follows the front matter; say there how to judge"
    yield from _off_menu(front)
    yield from _bad_examples(front)


def _off_menu(front: FrontMatter) -> Iterable[str]:
    answers, menu = front.answers, ANSWER_MENUS[front.kind]
    doubled = [answer for answer in answers if answers.count(answer) > 1]
    if doubled:
        yield f"answers have {doubled[0]!r} twice"
    unknown = [answer for answer in answers if menu and answer not in menu]
    if unknown:
        yield f"answers have {unknown[0]!r}; kind {front.kind!r} answers {', '.join(menu)}"
    missing = [answer for answer in menu if answer not in answers and answer not in NEUTRAL]
    if missing:
        yield f"answers lack {missing[0]!r}; kind {front.kind!r} answers {', '.join(menu)}"
    if len(answers) < 2 or not all(answer.strip() for answer in answers):
        yield "answers need two or more, none of them empty"
    strange = [answer for answer in front.failing if answer not in answers]
    if strange:
        yield f"failing has {strange[0]!r}, which is no answer of this rubric"


def _bad_examples(front: FrontMatter) -> Iterable[str]:
    for number, example in enumerate(front.examples, 1):
        if example.answer not in front.answers:
            yield f"example {number} answers {example.answer!r}, which is not among the answers"
        if not example.trace.strip() or not example.why.strip():
            yield f"example {number} needs a trace and a why"
        if any(cite < 0 for cite in example.cites):
            yield f"example {number} cites a step below 0"
        if example.reply and (wrong := _unlike_schema(example.reply, front)):
            yield f"the reply of example {number} {wrong}"
    shown = {example.answer for example in front.examples}
    without = [answer for answer in front.answers if answer not in shown]
    if without:
        yield f"answer {without[0]!r} has no example; judges agree by examples, not by scope"


def _unlike_schema(reply: str, front: FrontMatter) -> str:
    """Return in words why a reply is no answer of a rubric's kind, "" where it is one."""
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError) as e:
        return f"is not JSON: {one_line(e)}"
    wanted = list(_SCHEMAS[front.kind](front.answers))
    if not isinstance(value, dict) or list(value) != wanted:
        return f"has other fields than {', '.join(wanted)}, in this order"
    return ""


def one_line(error: Exception) -> str:
    """Return what an error says, on one line."""
    return str(error).replace("\n", " ")[:200]


AnswerSchema = dict[str, Json]

# Whose failure it was: not the rubric's to choose.
FAULT_OWNERS = ("agent", "user", "environment")


def answer_schema(rubric: Rubric) -> AnswerSchema:
    """Return the schema of the answers to a rubric."""
    return object_schema(_SCHEMAS[rubric.kind](rubric.answers))


def schema_name(kind: RubricKind) -> str:
    """Return what the schema is called where a provider wants a name."""
    return f"{kind}_answer"


def _axis_schema(answers: Sequence[str]) -> AnswerSchema:
    return {
        "evidence": _evidence_schema(),
        "cited_step_indices": _list_schema(
            {"type": "integer"}, "steps that decide the answer; never empty for an answer against"
        ),
        "rationale": _text_schema("why, in one to three sentences"),
        "label": {"type": "string", "enum": list(answers)},
        "confidence": _number_schema("0 to 1"),
    }


def _labels_schema(answers: Sequence[str]) -> AnswerSchema:
    step = {
        "step": {"type": "integer", "description": "which step is labelled"},
        "quote": _text_schema(
            "for a label against the agent, words of that step or of what its calls returned, "
            "copied exactly; else empty"
        ),
        "explanation": _text_schema("why, in one sentence"),
        "label": {"type": "string", "enum": list(answers)},
        "score": _number_schema("0 to 1, how well the step does within its label"),
        "addresses": {
            "anyOf": [{"type": "integer"}, {"type": "null"}],
            "description": "the earlier step whose error this one repairs, else null",
        },
    }
    return {"steps": _list_schema(object_schema(step), "one for each step asked about, in order")}


def _score_schema(_: Sequence[str]) -> AnswerSchema:
    return {"rationale": _text_schema("why, in one sentence"), "score": _number_schema("0 to 1")}


def _presence_schema(_: Sequence[str]) -> AnswerSchema:
    step = {
        "step": {"type": "integer", "description": "which step is looked at"},
        "quote": _text_schema(
            "words of that step that show it, copied exactly; empty where absent"
        ),
        "present": {"type": "boolean"},
    }
    return {
        "steps": _list_schema(object_schema(step), "one for each step asked about, in order"),
        "rationale": _text_schema("what was found, in one to three sentences"),
    }


def _attribution_schema(answers: Sequence[str]) -> AnswerSchema:
    return {
        "evidence": _evidence_schema(),
        "rationale": _text_schema("why, in one to three sentences"),
        "part": {"type": "string", "enum": list(answers)},
        "step": {"type": "integer", "description": "where it failed"},
        "whose": {"type": "string", "enum": list(FAULT_OWNERS)},
        "confidence": _number_schema("0 to 1"),
    }


def object_schema(properties: AnswerSchema) -> AnswerSchema:
    """Return the schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list_schema(items: AnswerSchema, description: str) -> AnswerSchema:
    return {"type": "array", "items": items, "description": description}


def _evidence_schema() -> AnswerSchema:
    item = {
        "step": {"type": "integer", "description": "whose words"},
        "quote": _text_schema("words of that step, copied exactly"),
    }
    return _list_schema(
        object_schema(item), "observations that bear the answer, results before claims"
    )


def _text_schema(description: str) -> AnswerSchema:
    return {"type": "string", "description": description}


def _number_schema(description: str) -> AnswerSchema:
    return {"type": "number", "description": description}


_SCHEMAS = {
    "axis": _axis_schema,
    "labels": _labels_schema,
    "score": _score_schema,
    "presence": _presence_schema,
    "attribution": _attribution_schema,
}
