"""Whether a tool changes the world, guessed from its name: what `Facts.effects` does not declare.

A guess is shown to the user (`stepscope init` asks about each tool inferred to write) and refuses
to guess where the name holds no known verb: `transfer_to_human_agents`, `bash` are "unknown", and
an unknown tool counts neither as a read nor as a write.
"""

from __future__ import annotations

import re
from functools import lru_cache

from stepscope.model import Effect

READS = frozenset(
    "browse calculate cat check compare compute count describe diff estimate explain fetch find "
    "get glob grep has head inspect is list load look lookup ls peek preview query read recall "
    "retrieve search select show stat status summarise summarize tail think validate verify "
    "view".split()
)
WRITES = frozenset(
    "add append apply approve archive assign book buy cancel charge close commit copy create "
    "decline delete deploy disable drop edit enable exchange grant insert install issue kill merge "
    "modify move overwrite patch pay place post publish purchase push put refund reject remove "
    "rename replace reply reserve reset return revoke save schedule send set ship store submit "
    "subscribe truncate uninstall unsubscribe update upload upsert withdraw write".split()
)

# camelCase, snake_case, kebab-case and digits: one word a match.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Servers and namespaces stand before the tool's own name: mcp__github__create_issue, shop.refund.
_NAMESPACE = re.compile(r".*(?:__|[.:/])")


@lru_cache(maxsize=8192)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a tool's own name, in lower case, without servers and namespaces."""
    return tuple([word.lower() for word in _WORD.findall(_NAMESPACE.sub("", name))])


@lru_cache(maxsize=4096)
def infer_effect(name: str) -> Effect:
    """Return what the verbs of a tool's name promise.

    The first known verb decides; a writing verb joined to it by `and` or `or` makes it a write.
    """
    words = words_of(name)
    for at, word in enumerate(words):
        if word in WRITES:
            return "write"
        if word in READS:
            joined = zip(words[at + 1 :], words[at + 2 :], strict=False)
            writes = any(link in {"and", "or"} and verb in WRITES for link, verb in joined)
            return "write" if writes else "read"
    return "unknown"
