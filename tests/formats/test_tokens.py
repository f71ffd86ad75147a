from __future__ import annotations

import pytest

from stepscope.formats.fields import anthropic_usage, openai_usage, total_usage
from stepscope.model import Json, Step, Usage


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Usage(input_total=100, cache_read=60, cache_write=10, output_total=20, reasoning=5),
        ),
        ({"input_tokens": 7, "output_tokens": 0}, Usage(input_total=7, output_total=0)),
        ({"prompt_tokens": None, "prompt_tokens_details": None}, None),
        ({"prompt_tokens": "7", "completion_tokens": True, "input_tokens": -1}, None),
        ({}, None),
        ("7", None),
    ],
)
def test_openai_input_already_includes_its_cache(usage: Json, expected: Usage | None) -> None:
    assert openai_usage(usage) == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "input_tokens": 3,
                "cache_read_input_tokens": 40,
                "cache_creation_input_tokens": 500,
                "output_tokens": 9,
                "output_tokens_details": {"thinking_tokens": 2},
            },
            Usage(input_total=543, cache_read=40, cache_write=500, output_total=9, reasoning=2),
        ),
        ({"input_tokens": 3}, Usage(input_total=3)),
        # Cache counts alone do not make a total.
        ({"cache_read_input_tokens": 40}, Usage(cache_read=40)),
        ({"input_tokens": None}, None),
        (None, None),
    ],
)
def test_anthropic_input_excludes_its_cache_so_both_counts_are_added(
    usage: Json, expected: Usage | None
) -> None:
    assert anthropic_usage(usage) == expected


def test_a_total_sums_what_is_known_and_leaves_the_rest_none() -> None:
    steps = [
        Step(index=0, actor="agent", usage=Usage(input_total=1, output_total=2)),
        Step(index=1, actor="user"),
        Step(index=2, actor="agent", usage=Usage(input_total=10, cache_read=0)),
    ]
    assert total_usage(steps) == Usage(input_total=11, cache_read=0, output_total=2)
    assert total_usage(steps[1:2]) is None
