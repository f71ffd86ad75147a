"""Families by name, however a provider writes it; none is guessed."""

from __future__ import annotations

import pytest

from stepscope.errors import ConfigError
from stepscope.models.opening import agent_family, model_family


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        ("anthropic/claude-opus-4-8", "anthropic"),
        ("openrouter/anthropic/claude-sonnet-4.5", "anthropic"),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic"),
        ("openai/gpt-5", "openai"),
        ("openai/o3-mini", "openai"),
        ("openai/ft:gpt-4o-mini:acme::abc", "openai"),
        ("openrouter/openai/gpt-oss-120b", "openai"),
        ("azure/chatgpt-4o-latest", "openai"),
        ("google/gemini-2.5-pro", "google"),
        ("local/gemma-3-27b-it", "google"),
        ("groq/llama-3.3-70b-versatile", "meta"),
        ("together/meta-llama/Llama-4-Maverick", "meta"),
        ("mistral/mistral-large-latest", "mistral"),
        ("local/Mixtral-8x7B-Instruct", "mistral"),
        ("mistral/magistral-medium", "mistral"),
        ("local/Qwen2.5-7B-Instruct", "qwen"),
        ("local/QwQ-32B", "qwen"),
        ("deepseek/deepseek-chat", "deepseek"),
        ("openrouter/x-ai/grok-4", "xai"),
        ("cohere/command-r-plus", "cohere"),
        ("openrouter/moonshotai/kimi-k2", "moonshot"),
        ("openrouter/z-ai/glm-4.6", "zhipu"),
        ("local/phi-4", "microsoft"),
        ("bedrock/amazon.nova-pro-v1:0", "amazon"),
        ("openai/some-new-name", "openai"),
        ("anthropic/next", "anthropic"),
    ],
)
def test_a_family_is_told_from_the_name(judge: str, expected: str) -> None:
    assert model_family(judge, {}) == expected


@pytest.mark.parametrize(
    "judge",
    [
        "local/tiny",
        "openrouter/some-new-name",  # it serves everybody's models
        "local/solo3",  # no o3
        "local/command-center",
        "local/maya-8b",
        "local/eureka",
        "local/palm-beach",
        "local/gmai-1",
        "deepseek/deepseek-r1-distill-llama-70b",  # of two families
        "local/llama-3.1-nemotron-70b",
    ],
)
def test_a_name_of_no_family_or_two_asks_for_the_setting(judge: str) -> None:
    with pytest.raises(ConfigError, match=r"\[judges\.families\]") as raised:
        model_family(judge, {})
    assert f'"{judge}" = "NAME"' in str(raised.value)


def test_what_the_user_says_goes_before_the_name_and_the_longest_pattern_wins() -> None:
    overrides = {
        "local/*": "mistral",
        "local/qwen-*": "acme",
        "local/qwen-7b": "qwen",
        "*": "unknown",
    }
    names = ("local/qwen-7b", "local/qwen-14b", "local/tiny", "openai/gpt-5")
    assert [model_family(name, overrides) for name in names] == [
        "qwen",
        "acme",
        "mistral",
        "unknown",
    ]


def test_an_agent_is_of_a_family_that_its_name_tells() -> None:
    assert agent_family("gpt-4o") == "openai"
    assert agent_family("our agent") is None
