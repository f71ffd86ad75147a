"""The signature of a fault: what rules say of one run, without the values that only this run has.

A signature is one sentence: the tool, the kind of error or the check that failed, with `*` where
ids, numbers, dates, paths and quotations stood. It is formed from one answer of one rule about one
run, whatever its outcome; the versions of the measures decide what they say, nothing else does. Two
runs with the same fault have the same signature, so it is what faults are counted, named, filtered
and compared by. Refused: answers of judges and people, whose words are free.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

from stepscope.model.records import STEP_LABELS_NAME

# What rules write where they compare a run with what its outcome is judged by, or with runs that
# passed.
EXPECTED_CALL = "(the case's expected call)"
OF_PASSING_RUNS = " passing runs"
# What stands between the tool and its message where a step is labelled an error.
IS_ERROR = " failed: "
# How signatures begin that are formed of that: of runs that fail they say so, not why.
OF_OUTCOME = MISSING, UNEXPECTED, OTHERWISE, UNLIKE, UNTOLD = (
    "expected call missing: ",
    "unexpected write: ",
    "not as expected: ",
    "unlike passing runs: ",
    "never says what the case asks for",
)
# What says of steps what is wrong, besides the axes, and of runs.
_OF_STEPS = frozenset({STEP_LABELS_NAME, "errors", "policy"})
_OF_RUNS = frozenset({"loops", "subgoals", "subgoals.other_writes", "subgoals.outputs"})
SHORTEST_LOOP = 3  # a cycle of two calls is a repeat
MOST_CHARACTERS = 140


def sign_step(measure: str, words: str) -> str:
    """Return the signature of what a rule says of a step; "" where it finds nothing wrong.

    `words` are its reason, or the label of `policy`, the name of the rule that was broken.
    """
    # Most reasons differ in digits alone, and only a tool or a status keeps its own.
    plain = words.encode("utf-8", "surrogatepass").translate(_ZEROS)
    said = _sign(measure, plain.decode("utf-8", "surrogatepass"))
    return _sign(measure, words) if "0" in said else said


@lru_cache(1 << 14)
def _sign(measure: str, words: str) -> str:
    if measure == STEP_LABELS_NAME:
        tool, failed, said = words.partition(IS_ERROR)
        return f"{tool} fails: {generalise(said)}" if failed else "asks again what it was told"
    if measure == "errors":
        return f"a call fails: {generalise(words)}"
    if measure == "policy":
        return f"breaks the rule {words!r}"
    # What breaks a declared rule is said by `policy`.
    if words.startswith("policy '"):
        return ""
    if EXPECTED_CALL in words and (found := _ARGUMENT.match(words)):
        return f"{OTHERWISE}{found[2]} of {found[1]}"
    first, space, rest = words.partition(" ")
    # The first word is a verb, or a tool whose name may hold digits.
    said = f"{first} {generalise(rest)}" if space and first[:1] not in "'\"" else generalise(words)
    return UNLIKE + said if OF_PASSING_RUNS in words else said


@lru_cache(1 << 14)
def sign_run(measure: str, reason: str) -> tuple[tuple[str, int], ...]:
    """Return the signatures of what a rule says of a whole run, each with its step, -1 for none."""
    if measure == "loops":
        count, _, names = reason.partition(" calls go round: ")
        long = count.isdecimal() and int(count) >= SHORTEST_LOOP
        return ((f"calls go round in a circle: {names}", -1),) if long else ()
    if measure == "subgoals":
        missed = _MISSED.search(reason)
        # The second call of a tool that is expected twice has its number behind the name.
        goals = [re.sub(r" \d+$", "", x) for x in missed[1].split(", ")] if missed else ()
        return tuple([(MISSING + goal, -1) for goal in goals])
    if measure == "subgoals.other_writes":
        return tuple([(UNEXPECTED + x[1], int(x[2])) for x in _WRITE.finditer(reason)])
    if measure == "subgoals.outputs":
        return ((UNTOLD, -1),) if reason else ()
    return ()


def signature_code(signature: str) -> str:
    """Return six hex digits that stand for a signature where it is typed."""
    return blake2b(signature.encode("utf-8", "replace"), digest_size=3).hexdigest()


def is_signed(measure: str) -> bool:
    """True if answers of a measure can have a signature."""
    return is_of_steps(measure) or measure in _OF_RUNS


def is_of_steps(measure: str) -> bool:
    """True if it is the answers about steps that have a signature, not those about the run."""
    return measure.startswith("axes.") or measure in _OF_STEPS


def reads_outcome(signature: str) -> bool:
    """True if a signature says of a run what its outcome is judged by."""
    return signature.startswith(OF_OUTCOME)


_MISSED = re.compile(r"; (?:missed|reached another way, as the passed check says:) (.+)")
_WRITE = re.compile(r"(\S+) at (\d+)")
_ARGUMENT = re.compile(r"(\S+): (\S+)")

# What is kept, then what differs from run to run: quotations, addresses, paths, words with digits.
# Words are looked at where they begin, so that a long one is read once.
_WORD = r"[^\s,;()=\[\]{}'\"]"
_VALUES = re.compile(
    r"(?i)(?P<kept>\b(?:http(?:/\d(?:\.\d)?)?|status(?: code)?|code|errno|exit)[ :=]{0,2}\d{1,3}\b)"
    r"|(?<!\w)(?:'.*?'(?!\w)|\".*?\"|\u201c.*?\u201d|['\"\u201c].*$)"
    rf"|(?<!{_WORD})(?:\w+://\S+|(?:~|\.\.?)?/\w{_WORD}*|(?={_WORD}*?[\d@]){_WORD}+)(?<![.:!?])"
)
_ASIDE = re.compile(r"\s*\([^()]*\)")
_SEVERAL = re.compile(r"\*(?:\s*[-+/x,]?\s*\*)+")
_ERROR = re.compile(r"(?i)\berror: ")
_READ_CHARACTERS = 400
# Of bytes, which takes a tenth of the time of characters.
_ZEROS = bytes.maketrans(b"123456789", b"000000000")


def generalise(text: str) -> str:
    """Return the first clause of what a rule says, with `*` for every value."""
    said = _ASIDE.sub("", text[:_READ_CHARACTERS].partition("; ")[0])
    said = _VALUES.sub(lambda found: found["kept"] or "*", _ERROR.sub("", said))
    said = " ".join(_SEVERAL.sub("*", said).split())
    if len(said) > MOST_CHARACTERS:
        said = said[:MOST_CHARACTERS].rpartition(" ")[0] or said[:MOST_CHARACTERS]
    return said.rstrip(" .,:;")
