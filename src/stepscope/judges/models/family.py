"""Who trained a model: judges of one family are wrong together.

Told from the name, because a provider may serve anybody's weights. A name that fits no family, or
two, is not guessed: the setting to write is named instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from stepscope.errors import ConfigError

# Names of models as their makers and those who serve them write them, in lower case.
_FAMILIES: tuple[tuple[str, str], ...] = (
    ("ai21", r"jamba|jurassic"),
    ("allenai", r"olmo|tulu|molmo"),
    ("amazon", r"nova-(?:pro|lite|micro|premier)|titan-text"),
    ("anthropic", r"claude"),
    ("baidu", r"ernie"),
    ("bytedance", r"doubao|seed-(?:oss|1)"),
    ("cohere", r"(?:^|/)command(?:-(?:r|a|light|nightly|xlarge)|$)|(?:^|[/-])aya-|c4ai-"),
    ("deepseek", r"deepseek"),
    ("google", r"gemini|gemma|palm-[0-9]|learnlm"),
    ("ibm", r"granite"),
    ("meta", r"llama"),
    ("microsoft", r"(?:^|[/-])phi-?[0-9]|(?:^|/)mai-"),
    ("minimax", r"minimax|abab"),
    ("mistral", r"mistral|mixtral|ministral|codestral|devstral|magistral|pixtral"),
    ("moonshot", r"kimi|moonshot"),
    ("nvidia", r"nemotron"),
    ("openai", r"gpt-?[0-9]|gpt-oss|chatgpt|(?:^|[/:])o[1-9](?:$|[-:@])|davinci"),
    ("qwen", r"qwen|qwq|qvq"),
    ("reka", r"(?:^|/)reka"),
    ("tencent", r"hunyuan"),
    ("xai", r"grok"),
    ("yi", r"(?:^|/)yi-"),
    ("zhipu", r"(?:^|[/-])glm|chatglm"),
)
_PATTERNS = tuple((family, re.compile(pattern)) for family, pattern in _FAMILIES)
# Providers that serve nothing but what they trained themselves.
_MAKERS = frozenset({"ai21", "anthropic", "cohere", "deepseek", "mistral", "openai", "xai"})


def family(judge: str, overrides: Mapping[str, str]) -> str:
    """Return the family of a judge, as "anthropic" for "openrouter/anthropic/claude-opus-4".

    Args:
        judge: provider, slash, model.
        overrides: judge, or pattern with `*`, -> family; the exact name goes first, then the
            longest pattern that fits.

    Raises:
        ConfigError: the name fits no family, or several; what to write is said.

    >>> family("openai/gpt-5", {}), family("local/tiny", {"local/*": "qwen"})
    ('openai', 'qwen')
    """
    if judge in overrides:
        return overrides[judge]
    fitting = [pattern for pattern in overrides if fnmatchcase(judge, pattern)]
    if fitting:
        return overrides[max(fitting, key=len)]
    provider, _, model = judge.lower().partition("/")
    found = [name for name, pattern in _PATTERNS if pattern.search(model)]
    if len(found) == 1:
        return found[0]
    if not found and provider in _MAKERS:
        return provider
    problem = f"fits several: {', '.join(found)}" if found else "is unknown"
    raise ConfigError(
        f"the family of judge {judge!r} {problem}; write who trained it, as "
        f'[judges.families] "{judge}" = "NAME"'
    )


def agent_family(agent: str, overrides: Mapping[str, str] | None = None) -> str | None:
    """Return the family of the model that an agent is named by; None where its name tells none.

    >>> agent_family("gpt-4o"), agent_family("our agent")
    ('openai', None)
    """
    try:
        return family(f"agent/{agent}", overrides or {})
    except ConfigError:
        return None
