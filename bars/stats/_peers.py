"""What others print for the same labels: PPI++ with tuned lambda and Rogan-Gladen by truescore.

Written from the papers with the choices of truescore 0.7.4 (lambda over all verdicts, clipped to
[0, 1]; t limits where clusters are given; Wilson's half width where a class has fewer than five
labels; the delta method). `ask_truescore` runs truescore itself with a Python that has it.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from stepscope.stats.intervals import student_quantile, wilson
from stepscope.stats.sample import Bools, Floats, Ints

# Half the width of an interval that is not given.
NORMAL = 1.959963984540054


def clustered_variance(values: Floats, clusters: Ints) -> float:
    """Return the variance of a mean whose values come in clusters."""
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], values - values.mean())
    return float(len(sums) / (len(sums) - 1) * (sums**2).sum() / len(values) ** 2)


def ppi(
    judged: Floats, labelled: Bools, said: Floats, clusters: Ints | None = None
) -> tuple[float, float]:
    """Return the limits of PPI++ with tuned lambda, nominal 95 %."""
    n, seen, unseen = len(said), judged[labelled], judged[~labelled]
    spread = judged.var(ddof=1) * (1 + n / len(unseen))
    lam = float(np.cov(said, seen, ddof=0)[0, 1] / spread) if spread > 0 else 0.0
    lam = min(max(lam, 0.0), 1.0)
    rest = said - lam * seen
    value = lam * float(unseen.mean()) + float(rest.mean())
    if clusters is None:
        variance = rest.var(ddof=1) / n + lam**2 * unseen.var(ddof=1) / len(unseen)
        half = NORMAL * float(np.sqrt(variance))
    else:
        own, others = clusters[labelled], clusters[~labelled]
        variance = clustered_variance(rest, own) + lam**2 * clustered_variance(unseen, others)
        df = min(len(np.unique(own)), len(np.unique(others))) - 1
        half = float(student_quantile(df, 0.95)) * variance**0.5
    if set(np.unique(said)) <= {0.0, 1.0} and min(said.sum(), n - said.sum()) < 5:
        low, high = wilson(said.mean(), n, 0.95)
        half = max(half, float(high - low) / 2)
    return value - half, value + half


def rogan_gladen(judged: Floats, labelled: Bools, said: Floats) -> tuple[float, float] | None:
    """Return the limits of Rogan-Gladen by the delta method; None where it is refused."""
    seen, yes = judged[labelled], said == 1
    if yes.all() or not yes.any():
        return None
    sensitive, specific = float(seen[yes].mean()), float(1 - seen[~yes].mean())
    informed = sensitive + specific - 1
    if informed <= 0:
        return None
    rate, n = float(judged.mean()), len(said)
    value = (rate + specific - 1) / informed
    variance = rate * (1 - rate) / len(judged)
    variance += value**2 * sensitive * (1 - sensitive) / yes.sum()
    variance += (1 - value) ** 2 * specific * (1 - specific) / (n - yes.sum())
    half = NORMAL * float(np.sqrt(variance)) / informed
    return max(value - half, 0.0), min(value + half, 1.0)


SCRIPT = """
import sys, numpy as np
from truescore import ppi_estimate
given = np.load(sys.argv[1])
clusters = given["clusters"] if given["clusters"].size else None
found = []
for judged, said in zip(given["judged"], given["said"]):
    one = ppi_estimate(judged, said, np.arange(len(said)), clusters=clusters)
    found.append((one.low, one.high))
np.save(sys.argv[2], np.array(found))
"""


def ask_truescore(python: str, judged: Floats, said: Floats, clusters: Ints | None) -> Floats:
    """Return truescore's own limits, shape (samples, 2); the labelled runs come first."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npy")
        none = np.empty(0, np.int64)
        np.savez(given, judged=judged, said=said, clusters=none if clusters is None else clusters)
        subprocess.run([python, "-c", SCRIPT, str(given), str(found)], check=True)
        return np.asarray(np.load(found), np.float64)
