"""What a judge is asked, versioned: a Markdown file with front matter, ours or the user's.

A rubric says its answers, what is in scope, what is out of scope and whose it is, and one worked
example or more for each answer. One without an example for an answer is refused: verbal scope alone
does not make judges agree.
"""

from __future__ import annotations

from typing import Literal

import msgspec

# What a rubric sees and in what form it answers.
#   axis: the whole run; one answer, cited, with a rationale and a confidence
#   labels: the whole run; a label, a score and an explanation for every step
#   score: one sub-goal and one step's output, nothing else; a score from 0 to 1
#   presence: the whole run; present or absent for every step
#   attribution: a run whose state check failed; which part failed, where, and whose failure it was
Kind = Literal["axis", "labels", "score", "presence", "attribution"]


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worked example: what is seen, what is answered, and why."""

    answer: str
    trace: str
    why: str
    cites: tuple[int, ...] = ()


class Rubric(msgspec.Struct, frozen=True, kw_only=True):
    """A rubric as it was read.

    Attributes:
        name: unique; a set, a dot and an aspect ("axes.termination"), or the set's name alone.
        kind: what it sees and in what form it answers.
        version: raised with every change that can change an answer.
        question: one sentence.
        answers: what may be answered; for "score" the names of its bands, worst first.
        in_scope: what counts.
        out_of_scope: what does not, and whose rubric it is.
        examples: at least one for each answer.
        body: the text of the file, which the judge reads whole.
        hash: sixteen hex digits over the bytes of the file.
        failing: the answers that speak against the agent ("incorrect", "ERROR").
    """

    name: str
    kind: Kind
    version: str
    question: str
    answers: tuple[str, ...]
    in_scope: tuple[str, ...]
    out_of_scope: dict[str, str]
    examples: tuple[Example, ...]
    body: str
    hash: str
    failing: tuple[str, ...] = ()

    @property
    def set(self) -> str:
        """The set that it belongs to: its name up to the first dot."""
        return self.name.partition(".")[0]
