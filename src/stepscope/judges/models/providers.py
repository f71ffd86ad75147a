"""Providers that are known by name: where they are, what opens them, which hosts are theirs.

A key of a provider goes to that provider's hosts and nowhere else, whatever the settings say. Any
other provider needs a `base_url` in the settings.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.model import Structure


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider of models.

    Attributes:
        protocol: how it is spoken to.
        base_url: where it is.
        keys: variables that may hold its key, in the order they are looked for.
        hosts: hosts that its key may be sent to; one with a dot before it stands for all below.
        prices: its name in the table of prices.
        structure: how structured output is asked for, where that is known; None finds out.
        batch: share of the price that a batch costs.
    """

    protocol: str
    base_url: str
    keys: tuple[str, ...]
    hosts: tuple[str, ...]
    prices: str
    structure: Structure | None = None
    batch: float = 1.0

    def owns(self, host: str) -> bool:
        """Whether a host is this provider's."""
        return any(
            host == own or (own.startswith(".") and host.endswith(own)) for own in self.hosts
        )


PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(
        protocol="anthropic",
        base_url="https://api.anthropic.com",
        keys=("ANTHROPIC_API_KEY",),
        hosts=("api.anthropic.com",),
        prices="anthropic",
        batch=0.5,
    ),
    "deepseek": Provider(
        protocol="openai",
        base_url="https://api.deepseek.com",
        keys=("DEEPSEEK_API_KEY",),
        hosts=("api.deepseek.com",),
        prices="deepseek",
        structure="forced_tool",  # its json_object takes no schema
    ),
    "google": Provider(
        protocol="openai",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        hosts=("generativelanguage.googleapis.com",),
        prices="google",
    ),
    "mistral": Provider(
        protocol="openai",
        base_url="https://api.mistral.ai/v1",
        keys=("MISTRAL_API_KEY",),
        hosts=("api.mistral.ai",),
        prices="mistral",
    ),
    "openai": Provider(
        protocol="openai",
        base_url="https://api.openai.com/v1",
        keys=("OPENAI_API_KEY",),
        hosts=("api.openai.com", ".api.openai.com"),
        prices="openai",
        batch=0.5,
    ),
    "openrouter": Provider(
        protocol="openai",
        base_url="https://openrouter.ai/api/v1",
        keys=("OPENROUTER_API_KEY",),
        hosts=("openrouter.ai",),
        prices="openrouter",
    ),
}
# Variables that hold what opens something else; no judge is ever given one.
FOREIGN = frozenset(
    {"GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"}
)


def owner(variable: str) -> Provider | None:
    """Return the provider whose key a variable holds by its name; None for the user's own."""
    for provider in PROVIDERS.values():
        if variable in provider.keys:
            return provider
    return None
