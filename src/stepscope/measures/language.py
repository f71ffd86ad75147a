"""What an English sentence says of acts: intended, done, or only spoken of, and of which thing.

Sentences are read by their form: who speaks, tense, voice, and what takes a clause out of what is
stated (a question, a condition, an offer, a denial). Verbs of knowing, saying and being are no
acts. There is no list of phrases to add to, and other languages are not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from stepscope.measures.rule import cached_by_text
from stepscope.model.effects import READS, WRITES

# What stands between two sentences, then one: it ends before a space, a quote or a line break.
_SENTENCE = re.compile(r"(?:(?<=[.!?])[\s\"*]+|\n*)([^.!?\n]*(?:[.!?](?![\s\"*])[^.!?\n]*)*[.!?]?)")
_WORD = re.compile(r"[a-z]{3,}")
# So much of a word is compared: "baggages" is "bag", "insured" is "insurance".
STEM_CHARACTERS = 5
# Words that stand in every message of a service, or beside every act.
_EVERYWHERE = frozenset(
    "about account accounts additional again all also amount and any anything are available away "
    "back been before being best booking bookings both but can care change changes charge charges "
    "code confirm confirmation cost costs could customer customers detail details did difference "
    "does done email every everything file first flight flights follow following for from get "
    "give going had has have help here hold how information into issue item items its just know "
    "last later latest let like made mail make may method methods minute moment more need new "
    "next not now one only order orders original other our out over own payment payments please "
    "price process profile profiles provide question ready refund refunds request requested "
    "reservation reservations result results right same say second see set should show some step "
    "successful successfully such sure system take task tell thank that the their them then there "
    "these they thing things think this those through ticket tickets time today too total update "
    "updated user using want was well were what when where whether which who will with within "
    "would yes you your".split()
)


@cached_by_text
def sentences(text: str) -> Sequence[str]:
    """Return the sentences of a message; a line break ends one too."""
    return [said for said in _SENTENCE.findall(text) if said]


@cached_by_text
def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words that say what a text is about."""
    words = _WORD.findall(text.lower())
    return frozenset([one.rstrip("s")[:STEM_CHARACTERS] for one in words if one not in _EVERYWHERE])


# One thing more than what a message is about.
ADDS = re.compile(
    r"(?i)\b(?:also|as well|too|meantime|meanwhile|additionally|in addition|besides|one more|"
    r"another thing|then)\b|\A\W*(?:and|when (?:that|this|it))\b"
)
# Adverbs, and what introduces the act itself: "I will also go ahead and cancel it".
_ADVERBS = (
    r"(?:(?:now|just|first|also|then|next|still|even|both|all|gladly|please|right away|instead|"
    r"go(?:ne)? ahead and|went ahead and|(?:proceed(?:ed)?|try|make sure|be able) (?:to|and)|\w+ly)"
    r" )*"
)
_INTENDS = re.compile(
    r"\b(?:(?:i|we)(?:['\u2019]ll| will| shall| (?:plan|intend|promise) to|"
    r"(?:['\u2019](?:m|re)| am| are) (?:\w+ )?(?:going|about) to(?: do(?: now)? is(?: to)?)?)|"
    r"(?:i['\u2019]m|we['\u2019]re|i am|we are) (?:on (?:my|our) way|ready) to|(?:give|allow) me "
    r"(?:a|one|some) (?:\w+ )?(?:to|while i)|let me|allow me to|next step is to) "
    rf"{_ADVERBS}(?!be\b)(\w[\w-]*)\b(.*)",
    re.IGNORECASE | re.DOTALL,
)
# "I'm putting the list together", "it will be passed on by me", "you'll get it from me here".
_DOING = re.compile(
    rf"\b(?:i['\u2019]m|we['\u2019]re|i am|we are) {_ADVERBS}(\w{{2,}}ing)\b(?! to\b)(.*)",
    re.IGNORECASE | re.DOTALL,
)
_BY_ME = re.compile(r"\bwill be (?:\w+ly )?(\w+ed)\b.* by (?:me|us)\b", re.IGNORECASE)
_FROM_ME = re.compile(
    r"(?i)\byou(?:['\u2019]ll| will) (?:get|have|receive|hear)\b(.*\b(?:from (?:me|us)|here|"
    r"in (?:this|the) chat)\b)"
)
# Where a sentence of lower case may intend: forms found some ten times faster than the patterns.
_FORMS = (
    re.compile(
        r"(?:i|we)(?:['\u2019]ll | (?:will|shall|plan|intend|promise) |"
        rf"(?:['\u2019](?:m|re)| am| are) {_ADVERBS}(?:\w+ )?(?:\w+ing|about|on|ready)\b)"
    ),
    re.compile(r" me (?<=let me |low me |ive me )(?!know\b)"),
    re.compile(r"you(?:['\u2019]ll| will) (?:get|have|receive|hear)\b"),
    re.compile(r"step is to "),
    re.compile(r" by (?:me|us)\b"),
)
# What is on a condition, offered or asked is not intended yet.
_CONDITIONS = re.compile(
    r"(?i)\?|\b(?:if|unless|whether|once(?= (?!before|again|more)\w)|when(?:ever)?|after|before|"
    r"until|as soon as|in case|provided|would you|shall i|please (?:provide|confirm|let)|"
    r"let me know|say the word|upon your|"
    r"with your [\w-]+ i(?:['\u2019]ll| will)|your (?:yes|ok|go-ahead|approval) is)\b|"
    r"(?:\A|[\"\u201c:]\s?)\W*(?:should|had|were) \w+"
)
# "Once we are through" and "before I close this" are times and no conditions.
_TIMES = re.compile(
    r"(?i)\bbefore (?:we|i) \w+|"
    r"\b(?:once|when|after|before|as soon as|until) (?:(?:we|i|this|that|it|all of (?:it|this))\b)?"
    r"(?:['\u2019](?:m|re|s)| am| are| is)?(?: \w+)?? ?"
    r"(?:done|through|finish\w*|end|close|complete\w*|conclude|wrap|hang|this|that)\b|"
    r"\b(?:ask|check|see|find out|look up)\b[^.;,]{0,60}?\b(?:whether|when|if)\b"
)
_CLAUSE = re.compile(r"[,;:]|\b(?:and|which|so that|because|since)\b")
# Verbs after which nothing is left to be done once the sentence is said.
_NO_ACTS = frozenset(
    "answer appreciate assist assume await be begin believe break clarify close consider continue "
    "describe end expect explain finish give have help hope keep know leave let like list love "
    "make mention need need outline present provide recommend remain remember respond say see show "
    "stay stop suggest summarise summarize start suppose tell think try wait walk wish".split()
)
# The verbs by which an act is known where nothing but words is recorded.
_MORE = "arrange complete handle initiate look make proceed process start transfer verify".split()
ACTS = READS | WRITES | frozenset(_MORE)
# How a wish is said, and an order.
WANTS = re.compile(
    r"(?i)\b(?:(?:can|could|would|will) you|please|i(?:['\u2019]d| would) (?:like|love|prefer|"
    r"rather)|i (?:want|need)|let(?:['\u2019]s (?!keep|not|leave)| me know)|"
    r"i(?:['\u2019]ll| will) (?:take|go|only)|(?:tell|give|show|send) me)\b|"
    r"\A\W*(?:(?:and|also|now|then|next|ok(?:ay)?|great|thanks?|"
    rf"when [^,]*)[ ,]+)*(?:{'|'.join(sorted(ACTS - {'is', 'has'}))})\b"
)


# How an English message admits that something did not work; a message without any of these after
# an error speaks of something else.
ADMITS = re.compile(
    r"(?i)\b(not(?! hesitate)|cannot|unable|error|issue|problem|trouble|mistake|fail\w*|sorry|"
    r"apolog\w*|unfortunately|however|instead|insufficient|invalid|unavailable|discrepancy|mismatch|"
    r"exceed\w*|incorrect|unsuccessful)\b|n['\u2019]t\b(?! hesitate)"
)
# Every admission holds one of these: plain search finds several times faster that none is there.
_ADMISSIONS = (
    "not unable error issue problem trouble mistake fail sorry apolog unfortunately however "
    "instead insufficient invalid unavailable discrepancy mismatch exceed incorrect unsuccessful "
    "n't n\u2019t"
).split()


@cached_by_text
def admits_failure(text: str) -> bool:
    """True if a message says that something did not work."""
    lower = text.lower()
    return any([word in lower for word in _ADMISSIONS]) and ADMITS.search(text) is not None


class Intention(NamedTuple):
    """An act that a speaker says to be about to do."""

    verb: str
    object: str  # the rest of the sentence
    said: str  # the sentence


@cached_by_text
def find_intentions(text: str) -> Sequence[Intention]:
    """Return the acts that a message says its speaker will do, without condition.

    >>> [one.verb for one in find_intentions("Once we are done, I'll cancel it. I will if asked.")]
    ['cancel']
    """
    lower = text.lower()
    forms = [form for form in _FORMS if form.search(lower) is not None]
    intentions: list[Intention] = []
    for said in sentences(text) if forms else ():
        folded = said.lower()
        found = _intended(said) if any([form.search(folded) for form in forms]) else None
        if found is not None and found[0] not in _NO_ACTS:
            verb, rest = found
            # "I will cancel it: ..." is done by what follows, "let me ask you" by the question.
            asks = verb == "ask" and re.match(r"\W*you\b", rest) is not None
            apart = said.rstrip(" *").endswith(":") or asks
            if not apart and not _CONDITIONS.search(_TIMES.sub(" .", said)):
                intentions.append(Intention(verb, _CLAUSE.split(rest, 1)[0], said.strip()))
    return intentions


def _intended(said: str) -> tuple[str, str] | None:
    """Return the verb of what a sentence intends, as far as its form tells, and its object."""
    if (match := _INTENDS.search(said)) is not None:
        return match[1].lower(), match[2]
    if (match := _DOING.search(said)) is not None:
        verb = match[1].lower().removesuffix("ing")
        bare = verb[:-1] if verb[-1:] == verb[-2:-1] else verb
        return next((x for x in (verb, bare, f"{verb}e") if x in _NO_ACTS), verb), match[2]
    if (match := _BY_ME.search(said)) is not None:
        return match[1].lower(), said[: match.start()]
    match = _FROM_ME.search(said)
    return ("report", match[1]) if match is not None else None


_ENDINGS = re.compile(r"(?:ions?|able|ings?|ed|e?s|ures?|ly)$")
# What outputs and people call the same.
SAME_STEMS = {"insert": "add", "delet": "remov", "destroy": "remov", "built": "build"}
SAME_STEMS |= {"disagre": "differ", "match": "agr", "averag": "mean", "avg": "mean"}
SAME_STEMS |= {"maximum": "max", "minimum": "min", "deviat": "std", "validat": "val"}
SAME_STEMS |= {"column": "col", "success": "pas", "succeed": "pas"}
SAME_STEMS |= dict.fromkeys("took elaps real durat".split(), "tim")
_DAYS = (
    "monday tuesday wednesday thursday friday saturday sunday january february march april june "
)
_DAYS += "july august september october november december"
SAME_STEMS |= {day: day[:3] for day in _DAYS.split()} | {"tu": "tue", "thur": "thu", "sept": "sep"}
SAME_STEMS |= {"kilometer": "km", "kilometre": "km", "kilogram": "kg", "celsiu": "c"}
SAME_STEMS |= dict.fromkeys("answer respond return".split(), "http")
# Words that name nothing.
EMPTY = frozenset(
    "the a an of in on to for with by at from and or it its this that these those there is are was "
    "were be been has have had do does did so as than then but if which who what when how where "
    "any each every only also just now still already yet very more most less you your we our i my "
    "me he she they their them can could will would should may must let here ago out into over get "
    "after about per via one amounts amounted comes came got gets made see says said show shows "
    "need needs".split()
)
TOKEN = re.compile(r"(?:\.{0,2}/)?[^\W\d_](?:[\w./@+-]*\w)?")
_TERM = re.compile(rf"((?<![^\W_]){TOKEN.pattern})|\d[\d.,]*")
_PIECES = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=8192)
def stem_of(word: str) -> str:
    """Return a word without its ending, of words for one thing the same: "adds" is "add"."""
    word = word.casefold()
    word = f"{word[:-3]}y" if word.endswith("ies") else word
    bare = _ENDINGS.sub("", word, count=1) if len(word) > 3 else word
    stem = (bare if len(bare) > 1 else word).rstrip("e")
    stem = stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem
    return SAME_STEMS.get(stem, stem)[:STEM_CHARACTERS]


@lru_cache(maxsize=8192)
def terms_of(token: str) -> tuple[str, ...]:
    """Return what a word may be called by: its stem; a file's name; "x_1" is "x 1"."""
    low = token.casefold()
    if low.isalpha() and token[1:] in (low[1:], low[1:].upper()):
        named = low not in EMPTY or (len(token) == 1 and token.isupper() and token != "I")
        return (stem_of(low), "http")[: 1 + (low in ("status", "code"))] if named else ()
    pieces = [one for one in _PIECES.split(token) if one]
    names = {stem_of(x) for x in pieces if len(x) > 1 and not x.isdigit()} - EMPTY
    names |= {f"{stem_of(x)} {y}" for x, y in pairwise(pieces) if y.isdigit()}
    return tuple(names | {low, low.rpartition("/")[2]})


def terms_in(text: str) -> list[tuple[int, str]]:
    """Return the terms of a text, each with its place; "group 2" and "query B" are one."""
    found, before, end = [], "", 0
    for match in _TERM.finditer(text):
        said, at = match[0].rstrip(".,"), match.start()
        if (said.isdigit() or (len(said) == 1 and said.isupper())) and before:
            found += [(at, f"{before} {said.casefold()}")] * (not text[end:at].strip(" #_-"))
        found += [(at, term) for term in terms_of(said)] if match[1] else []
        before = stem_of(said) if said.isalpha() and said.casefold() not in EMPTY else ""
        end = match.end()
    return found
