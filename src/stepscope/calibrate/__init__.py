"""Can the instrument be trusted: agreement of raters, and the noise of judges.

A name is loaded when it is first asked for: most need numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.calibrate.agreement import measure_agreement as measure_agreement
    from stepscope.calibrate.modes import compare_modes as compare_modes
    from stepscope.calibrate.types import Agreement as Agreement
    from stepscope.calibrate.types import RubricAgreement as RubricAgreement

_HOMES = {
    "Agreement": "types",
    "RubricAgreement": "types",
    "compare_modes": "modes",
    "measure_agreement": "agreement",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"stepscope.calibrate.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
