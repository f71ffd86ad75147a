"""The money ledger: each call is paid once, is on disk before it is used, and keeps to a budget.

A name is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.ledger.calls import CallClients as CallClients
    from stepscope.ledger.calls import Failed as Failed
    from stepscope.ledger.calls import LedgerCalls as LedgerCalls
    from stepscope.ledger.calls import Paid as Paid
    from stepscope.ledger.ledger import Budget as Budget
    from stepscope.ledger.ledger import Ledger as Ledger
    from stepscope.ledger.ledger import ledger_path as ledger_path

_HOMES = {
    "Budget": "ledger",
    "CallClients": "calls",
    "Failed": "calls",
    "Ledger": "ledger",
    "LedgerCalls": "calls",
    "Paid": "calls",
    "ledger_path": "ledger",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"stepscope.ledger.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
