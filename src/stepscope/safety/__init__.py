"""What stands between hostile text and everything else: limits, visible text, secrets.

A name is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.safety.limits import Limits as Limits
    from stepscope.safety.redact import OwnSecret as OwnSecret
    from stepscope.safety.redact import Redactor as Redactor
    from stepscope.safety.redact import scrub_message as scrub_message
    from stepscope.safety.redact import scrub_value as scrub_value

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {".limits": ("Limits",), ".redact": ("OwnSecret", "Redactor", "scrub_message", "scrub_value")},
)
