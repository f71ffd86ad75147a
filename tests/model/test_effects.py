"""The verbs of a tool's name, and where they stop saying anything."""

from __future__ import annotations

import pytest

from stepscope.model import Effect
from stepscope.model.effects import infer_effect


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("get_user_details", "read"),
        ("list_all_product_types", "read"),
        ("calculate", "read"),
        ("think", "read"),
        ("WebSearch", "read"),
        ("getURL", "read"),
        ("order-status", "read"),
        ("book_reservation", "write"),
        ("exchange_delivered_order_items", "write"),
        ("send_certificate", "write"),
        ("TodoWrite", "write"),
        ("mcp__github__create_issue", "write"),
        ("shop.refund", "write"),
        ("get_exchange_rate", "read"),
        ("update_search_index", "write"),
        ("find_or_create_user", "write"),
        ("search_and_rescue", "read"),
        ("delete_get_cache", "write"),
        ("settings", "unknown"),
        ("transfer_to_human_agents", "unknown"),
        ("bash", "unknown"),
        ("create.status", "read"),
        ("", "unknown"),
        ("取消", "unknown"),
    ],
)
def test_the_first_verb_of_the_tools_own_name_decides(name: str, effect: Effect) -> None:
    assert infer_effect(name) == effect
