"""Experiments with known truth: planted curves, planted faults, attacks on judges.

A name is loaded when it is first asked for: most need numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.lab.curves import EXAMPLES as EXAMPLES
    from stepscope.lab.curves import article_curve as article_curve
    from stepscope.lab.curves import draw_curves as draw_curves
    from stepscope.lab.envelope import CLASSIFIERS as CLASSIFIERS
    from stepscope.lab.envelope import Classifications as Classifications
    from stepscope.lab.envelope import choose_classifiers as choose_classifiers
    from stepscope.lab.envelope import measure_envelope as measure_envelope
    from stepscope.lab.planted import add_noise as add_noise

_HOMES = {
    "CLASSIFIERS": "envelope",
    "Classifications": "envelope",
    "EXAMPLES": "curves",
    "add_noise": "planted",
    "article_curve": "curves",
    "choose_classifiers": "envelope",
    "draw_curves": "curves",
    "measure_envelope": "envelope",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"stepscope.lab.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
