"""The money ledger: each call is paid once, is on disk before it is used, and keeps to a budget.

A name is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.ledger.budget import Budget as Budget
    from stepscope.ledger.calls import CallClients as CallClients
    from stepscope.ledger.calls import Failed as Failed
    from stepscope.ledger.calls import LedgerCalls as LedgerCalls
    from stepscope.ledger.ledger import Ledger as Ledger
    from stepscope.ledger.ledger import ledger_path as ledger_path
    from stepscope.ledger.states import Paid as Paid

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".budget": ("Budget",),
        ".calls": ("CallClients", "Failed", "LedgerCalls"),
        ".ledger": ("Ledger", "ledger_path"),
        ".states": ("Paid",),
    },
)
