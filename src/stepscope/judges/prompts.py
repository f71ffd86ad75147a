"""The system turn of each kind of question: a template file, and the rubric put into its marks.

Templates are files beside this module, with a version and a hash of their own: a judge that is told
otherwise is another judge. Marks are `[[question]]` and the like, and are replaced in one pass, so
that a mark within a rubric stays text; nothing is ever formatted by a template language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from stepscope.judges.rubric import Example, Kind, Rubric

FOLDER = Path(__file__).with_name("prompts")
# What every kind of judge is told of data and evidence; it stands at this mark of each template.
SHARED = b"[[shared]]"

_MARK = re.compile(r"\[\[(\w+)\]\]")


class Template(NamedTuple):
    """A template with what all of them share in its place, and 16 hex digits over those bytes."""

    text: str
    hash: str


@lru_cache
def prompt(kind: Kind) -> Template:
    """Return the template of a kind of question."""
    shared = (FOLDER / "shared.md").read_bytes().strip()
    data = (FOLDER / f"{kind}.md").read_bytes().replace(SHARED, shared)
    return Template(data.decode("utf-8").strip(), sha256(data).hexdigest()[:16])


def system(rubric: Rubric, template: Template | None = None) -> str:
    """Return the system turn that asks a rubric: its template, every mark replaced.

    Raises:
        KeyError: the template has a mark that nobody knows.
    """
    texts = {
        "rubric": f"{rubric.name}, version {rubric.version}",
        "question": rubric.question,
        "answers": _listed(rubric.answers),
        "in_scope": _listed(rubric.in_scope),
        "out_of_scope": _listed(
            f"{what} -> {whose}" for what, whose in rubric.out_of_scope.items()
        ),
        "body": rubric.body,
        "examples": "\n\n".join(
            _example(number, example) for number, example in enumerate(rubric.examples, 1)
        ),
    }
    text = (template or prompt(rubric.kind)).text
    return _MARK.sub(lambda mark: texts[mark[1]], text)


def prompt_hash(rubric: Rubric, template: Template, *modes: str) -> str:
    """Return 16 hex digits over all that is not the run: rubric, template, and modes in order.

    Modes are whatever else changes an answer: the schema, the narration, isolated or contextual.

    >>> from stepscope.judges.rubrics import rubric
    >>> one = rubric("axes.termination")
    >>> prompt_hash(one, prompt("axis"), "a", "b") == prompt_hash(one, prompt("axis"), "ab")
    False
    """
    parts = (rubric.hash, template.hash, *modes)
    # Lengths stand before the texts: no two lists of parts are the same bytes.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _example(number: int, example: Example) -> str:
    cites = f", citing {', '.join(map(str, example.cites))}" if example.cites else ""
    return (
        f"Example {number}. Answer: {example.answer}{cites}\n"
        f"{example.trace.strip()}\nWhy: {example.why.strip()}"
    )
