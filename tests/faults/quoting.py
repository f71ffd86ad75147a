"""A model that reads the recording it is shown: it cites steps that are there, in their own words.

Its labels are chosen by the hash of what it was asked, so that two models disagree now and then;
its quotations are true, so that what it says is believed.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

from tests.faults.answers import Said, Shown

_BLOCK = re.compile(r"^\[\[\w+ step (\d+): ([^\]]*)\]\]$")
_ASKED = re.compile(r"these steps of the agent, once, in order: ([\d, ]+)\.|about step (\d+) and")
_MARK = "\u00a6"
_LONG_ENOUGH = 12
_CITED = 2
_MOST = 60
# The tool whose calls are detours.
PLANTED = "look_around"


def quoting(shown: Shown, *, exact: bool = False) -> Said:
    """An answer of the schema's kind that cites and quotes steps of the recording.

    `exact`: a step is a DETOUR where it calls `PLANTED`, and PROGRESS where it does not.
    """
    drawn = random.Random(shown.seed)
    fields = (shown.schema or {}).get("properties", {})
    text = "\n".join(shown.texts)
    words = _words(text)
    if "label" in fields:
        answer = _axis(drawn, words, fields["label"]["enum"])
    elif "part" in fields:
        answer = _attribution(drawn, words, fields)
    elif "steps" in fields:
        answer = _steps(drawn, text, fields["steps"]["items"]["properties"], words)
        for one in answer["steps"] if exact else ():
            one["label"] = "DETOUR" if PLANTED in _blocks(text).get(one["step"], "") else "PROGRESS"
    else:
        answer = {"score": drawn.choice((0.3, 0.7, 0.9)), "rationale": "as the bands say"}
    return Said(json.dumps(answer))


def _blocks(text: str) -> dict[int, str]:
    """Return the text of each step."""
    found: dict[int, str] = {}
    step = -1
    for line in text.split("\n"):
        block = _BLOCK.match(line)
        step = int(block[1]) if block is not None else step
        found[step] = found.get(step, "") + line
    return found


def _words(text: str) -> dict[int, str]:
    """Return a line of each step that is long enough to be recognised."""
    found: dict[int, str] = {}
    step = -1
    for line in text.split("\n"):
        block = _BLOCK.match(line)
        if block is not None:
            step = int(block[1])
        elif step >= 0 and line.startswith(_MARK):
            said = line.removeprefix(_MARK).split(_MARK)[0].strip()
            if len(said) >= _LONG_ENOUGH:
                found.setdefault(step, said[:_MOST])
    return found


def _evidence(drawn: random.Random, words: dict[int, str]) -> list[dict[str, Any]]:
    steps = sorted(drawn.sample(sorted(words), min(_CITED, len(words))))
    return [{"step": step, "quote": words[step]} for step in steps]


def _axis(drawn: random.Random, words: dict[int, str], labels: list[str]) -> dict[str, Any]:
    evidence = _evidence(drawn, words)
    return {
        "evidence": evidence,
        "cited_step_indices": [one["step"] for one in evidence],
        "rationale": "this is what these steps show",
        "label": drawn.choices(labels, [5, 3, 1, 1][: len(labels)])[0],
        "confidence": drawn.choice((0.6, 0.8, 0.9)),
    }


def _attribution(
    drawn: random.Random, words: dict[int, str], fields: dict[str, Any]
) -> dict[str, Any]:
    evidence = _evidence(drawn, words)
    return {
        "evidence": evidence,
        "rationale": "it failed here",
        "part": drawn.choice(fields["part"]["enum"]),
        "step": evidence[0]["step"],
        "whose": drawn.choice(fields["whose"]["enum"]),
        "confidence": 0.7,
    }


def _steps(
    drawn: random.Random, text: str, fields: dict[str, Any], words: dict[int, str]
) -> dict[str, Any]:
    listed, only = _ASKED.findall(text)[-1]
    asked = [int(at) for at in (listed or only).split(", ")]
    if "present" in fields:
        steps = [{"step": at, "quote": "", "present": False} for at in asked]
        return {"steps": steps, "rationale": "nothing of the kind"}
    menu = fields["label"]["enum"]
    labelled = []
    for at in asked:
        label = drawn.choices(menu, [8, 1, 1, 1])[0]
        if label == "ERROR" and at not in words:
            label = menu[0]
        labelled.append(
            {
                "step": at,
                "quote": words[at] if label == "ERROR" else "",
                "explanation": "by the digest before it",
                "label": label,
                "score": drawn.choice((0.5, 0.75, 1.0)),
                "addresses": None,
            }
        )
    return {"steps": labelled}
