"""Generators of step scores with planted truth: the shape, and the step at which it broke.

A classifier tested on data shaped like itself is not tested. `article` and `reconstruction` belong
to the articles; `smooth`, `walk`, `agent` and `holdout` differ in form from every template that the
classifier has, and from each other. Nothing is tuned on `holdout`.
"""

from __future__ import annotations

from stepscope.lab.curves_agent import AGENT
from stepscope.lab.curves_article import ARTICLE, EXAMPLES, RECONSTRUCTION, base
from stepscope.lab.curves_compound import COMPOUND, Compound, gradual_recovery
from stepscope.lab.curves_holdout import HOLDOUT
from stepscope.lab.curves_smooth import SMOOTH
from stepscope.lab.curves_walk import WALK
from stepscope.lab.noise import NOISES, Noise, noisy
from stepscope.lab.planted import NO_BREAK, Generator, Planted

GENERATORS: dict[str, Generator] = {
    made.name: made for made in (ARTICLE, RECONSTRUCTION, SMOOTH, WALK, AGENT, HOLDOUT)
}

__all__ = [
    "COMPOUND",
    "EXAMPLES",
    "GENERATORS",
    "NOISES",
    "NO_BREAK",
    "Compound",
    "Generator",
    "Noise",
    "Planted",
    "base",
    "gradual_recovery",
    "noisy",
]
