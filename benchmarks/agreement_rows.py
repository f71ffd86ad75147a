"""J5: kappa and alpha of 100,000 items, beside scikit-learn's and the krippendorff package's.

Three raters of five categories, one rating in twenty missing for alpha. A kappa interval of 2,000
resamples in a loop takes minutes, so the peer's loop runs 20 and is counted a hundredfold. Rows
where the coefficients themselves differ are refused.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import Absent, peer
from benchmarks.rounds import Row, Samples, Worker, workers

ITEMS = 100_000
ROUNDS = 7
# A loop of 20 resamples stands for one of 2,000.
WHOLE = 100
ALPHA_SECONDS = 0.05
PEERS = {"scikit-learn": "sklearn_kappa", "krippendorff": "krippendorff_alpha"}
PLAN = (
    ("ours", "kappa"), ("scikit-learn", "kappa"),
    ("ours", "kappa with interval"), ("scikit-learn", "20 draws"),
    ("ours", "alpha"), ("krippendorff", "alpha"),
    ("ours", "alpha with interval"),
)  # fmt: skip

Answers = dict[str, list[dict[str, Any]]]


def ratings() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the ratings, shape (items, 3), -1 where one is missing; kappa's two are whole."""
    rng = np.random.default_rng(1)
    hidden = rng.integers(0, 5, ITEMS)
    able = rng.random((ITEMS, 3)) < 0.7
    given = np.where(able, hidden[:, None], rng.integers(0, 5, (ITEMS, 3)))
    given[rng.random(ITEMS) < 0.05, 2] = -1
    return given


def in_turn(rounds: int = ROUNDS) -> tuple[Answers, list[Absent]]:
    """Run everybody in turn; return what each answered, and who is missing."""
    here = {name: peer(name) for name in PEERS}
    absent = [found for found in here.values() if isinstance(found, Absent)]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "ratings.npy"
        np.save(data, ratings())
        made = {"ours": Worker(Path(sys.executable), "ours_agreement", [data])}
        for name, found in here.items():
            if not isinstance(found, Absent):
                made[name] = Worker(found.python, PEERS[name], [data])
        plan = [(who, work) for who, work in PLAN if who in made]
        answers: Answers = {f"{who} {work}": [] for who, work in plan}
        with workers(made):
            for number in range(rounds + 1):
                for who, work in plan:
                    answer = made[who].round(work)
                    if number:  # the first round warms up
                        answers[f"{who} {work}"].append(answer)
    return answers, absent


def rows(answers: Answers) -> list[Row]:
    """Compare with the limits.

    Raises:
        RuntimeError: a peer's coefficient is another than ours.
    """
    found = []
    for work, theirs, times, limit in (
        ("kappa", "scikit-learn kappa", 1, 0.0),
        ("kappa with interval", "scikit-learn 20 draws", WHOLE, 1_000.0),
        ("alpha", "krippendorff alpha", 1, 0.0),
    ):
        if theirs in answers:
            _same(answers[f"ours {work}"], answers[theirs])
            found.append(_beside(work, answers, theirs, times, limit))
    alone = _seconds(answers["ours alpha with interval"], 1)
    found.append(
        Row(
            work=f"alpha with interval, {ITEMS:,} x 3",
            ours=f"{1e3 * alone.median:.1f} ms",
            peer="-",
            reached=alone.median,
            limit=ALPHA_SECONDS,
            at_least=False,
            unit="s",
            spread=f"{alone.spread:.0%}",
        )
    )
    return found


def _beside(work: str, answers: Answers, theirs: str, times: int, limit: float) -> Row:
    ours, peers = _seconds(answers[f"ours {work}"], 1), _seconds(answers[theirs], times)
    return Row(
        work=f"{work}, {ITEMS:,} items",
        ours=f"{1e3 * ours.median:.2f} ms",
        peer=f"{1e3 * peers.median:,.0f} ms",
        reached=peers.median / ours.median,
        limit=limit,
        at_least=True,
        spread=f"{ours.spread:.0%}, peer {peers.spread:.0%}",
    )


def _seconds(answers: list[dict[str, Any]], times: int) -> Samples:
    return Samples(tuple(times * answer["seconds"] for answer in answers))


def _same(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    told = {answer["millionths"] for answer in theirs if "millionths" in answer}
    if told - {answer["millionths"] for answer in ours}:
        raise RuntimeError(f"the coefficients differ: ours {ours[0]['millionths']}, peer's {told}")
