"""Fit and test the table that ranks the agent's steps of a failed run: `localise.json`.

`python -m bars.run fit_localise [FOLDER] [--write] [--seeds N]`; FOLDER defaults to the data kept
beside the repository; `--write` replaces the file in the package and the tables of
docs/explanation/localise.md. What is measured is the list that `report`, `show` and the pages print
(`report.suspects`), on labels that fitted nothing. Two candidates are compared by nested
out-of-fold log score:

(a) today's factors as a prior mean, and a prior of places learned from people's labels;
(b) the same, with small features of what the step says and what came before and after it.

Both are conditional logits over all steps of the agent: shared weights, and deviations by family of
runs, both drawn to their prior mean by a normal prior. Penalties are weighed inside the training
folds; a task is in one fold only. Planted faults are never read. Code 0: the bars hold, and the
file is the one that the data give; 3: one does not; 4: the runs are absent.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs
from scipy.stats import binomtest

from bars.measures._labelled_runs import (
    COLUMNS,
    SUBSETS,
    Example,
    Floats,
    Ints,
    Runs,
    hash_data,
    read_runs,
    tuned_on,
)
from bars.measures._localise_page import PAGE, refreshed_page
from bars.measures._step_model import (
    BY_FEATURES,
    BY_PLACE,
    INNER_FOLDS,
    OUTER_FOLDS,
    Penalty,
    Table,
    predict_nested,
    scales_of,
    train,
)
from bars.planted.planted import find_proofs, score_by_rules
from stepscope.measures import localise
from stepscope.measures.localise import LOCALISE_NAME, NOBODY_NAME
from stepscope.measures.step_features import FAMILIES, agent_steps
from stepscope.model import Record, Trajectory, Verdict
from stepscope.report.suspects import list_suspects

VERSION = 1
DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data"
TABLE: Final = Path(localise.__file__).with_name("localise.json")
# The family of runs that each set stands for.
FAMILY_OF_SUBSET: Final = ("dialogue", "search", "calls")
TITLES: Final = ("Who&When algorithm-generated", "Who&When hand-crafted", "AgentRx, the agent's")
# Where today's list, as printed before this table, put its first suspect: run -> step, or None.
PRINTED: Final = Path(__file__).with_name("printed_before.json")
SEEDS = 10


# --- The list that is printed -----------------------------------------------------------------


def print_list(run: Trajectory, records: Sequence[Record], predicted: Floats) -> Floats:
    """Return the probability that is printed at each step of the agent.

    Args:
        run: the run.
        records: as `score_by_rules` gives them.
        predicted: probabilities from a table that did not see the run, one a step of the agent.
    """
    nobody = 1.0 - float(predicted.sum())
    share = dict(zip(agent_steps(run), np.log(predicted / predicted.sum()).tolist(), strict=True))
    held = []
    for record in records:
        answer = record.answer
        if isinstance(answer, Verdict) and answer.measure == NOBODY_NAME:
            answer = structs.replace(answer, value=nobody)
        elif isinstance(answer, Verdict) and answer.measure == LOCALISE_NAME:
            if answer.step is not None:
                answer = structs.replace(answer, value=share[answer.step])
        held.append(structs.replace(record, answer=answer))
    shown = list_suspects(run, run.case, held).suspects
    printed = {one.first: one.share for one in shown if one.share is not None}
    assert list(printed.values()) == sorted(printed.values(), reverse=True)
    return np.array([printed[step] for step in agent_steps(run)])


# --- Figures --------------------------------------------------------------------------------------

TOP: Final = (1, 3, 5)


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Exact two-sided p of McNemar's test: only runs where the two differ count."""
    won = sum(a and not b for a, b in zip(first, second, strict=True))
    lost = sum(b and not a for a, b in zip(first, second, strict=True))
    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def ranks_of(runs: Runs, predicted: Sequence[Floats]) -> Ints:
    """Return the best rank of a labelled step, from 1; 0 where no step of the agent is named."""
    ranks = []
    for run, shares in enumerate(predicted):
        order = np.argsort(-shares, kind="stable")
        found = np.flatnonzero(runs.named[runs.span(run)][order])
        ranks.append(int(found[0]) + 1 if len(found) else 0)
    return np.array(ranks)


def own_named(example: Example) -> list[int]:
    """Return the named steps that a suspect may hit: of AgentRx, where users fail too, the agent's.

    In Who&When one label stands on the code executor: no suspect hits it, and it counts as missed.
    """
    steps = example.run.steps
    return [step for step in example.named if steps[step].actor in ("agent", "environment")]


def is_counted(runs: Runs, subset: int) -> npt.NDArray[np.bool_]:
    """Tell which runs a subset's figures count: of AgentRx those with a failure of the agent."""
    named = np.array([runs.has_agent_label(run) for run in range(runs.n)])
    return np.asarray((runs.subset == subset) & (named | (subset < 2)))


def top_of(runs: Runs, ranks: Ints) -> list[list[float]]:
    """Return by subset the share of runs with a labelled step among the first 1, 3 and 5."""
    sets = [is_counted(runs, subset) for subset in range(len(SUBSETS))]
    return [[float(((ranks[s] > 0) & (ranks[s] <= k)).mean()) for k in TOP] for s in sets]


def calibration_of(runs: Runs, predicted: Sequence[Floats]) -> tuple[float, float, float]:
    """Return slope, mean predicted and observed share of the first suspect, on both Who&When sets.

    Slope: of a logistic regression of hit on the logit of the probability (Cox 1958).
    """
    chosen = np.flatnonzero(runs.subset < 2)
    first = np.array([predicted[int(run)].max() for run in chosen])
    hit = (ranks_of(runs, predicted)[chosen] == 1).astype(np.float64)
    design = np.stack([np.ones(len(chosen)), np.log(first / (1 - first))], axis=1)
    beta = np.array([0.0, 1.0])
    for _ in range(30):
        mean = 1 / (1 + np.exp(-design @ beta))
        hessian = (design * (mean * (1 - mean))[:, None]).T @ design
        beta = beta + np.linalg.solve(hessian, design.T @ (hit - mean))
    return float(beta[1]), float(first.mean()), float(hit.mean())


class Figures(NamedTuple):
    """What one candidate reaches, a row a seed."""

    top: Floats  # seed, subset, first 1, 3, 5
    near: Floats  # seed, subset: the first suspect within three steps
    halves: Floats  # seed, subset: exact on the tasks whose texts nobody read
    scores: Floats  # seed, run: log score; nan where no step of the agent is named
    calibration: Floats  # seed: slope, predicted, observed
    p: Floats  # seed: McNemar against the list printed before
    first: Floats  # seed, run: 1 where the first suspect is a labelled step


def measure(runs: Runs, every: Sequence[Sequence[Floats]], before: Sequence[bool]) -> Figures:
    """Return the figures of the predictions of several seeds."""
    top, near, halves, scores, calibration, p, hits = [], [], [], [], [], [], []
    unread = np.array([not tuned_on(example.run) for example in runs.examples])
    for predicted in every:
        ranks = ranks_of(runs, predicted)
        close = np.array(
            [
                any(abs(named - agent_steps(e.run)[int(s.argmax())]) <= 3 for named in own_named(e))
                for e, s in zip(runs.examples, predicted, strict=True)
            ]
        )
        sets = [is_counted(runs, subset) for subset in range(3)]
        top.append(top_of(runs, ranks))
        near.append([close[s].mean() for s in sets])
        halves.append([(ranks[s & unread] == 1).mean() if s.any() else 0.0 for s in sets])
        scores.append(
            [
                np.log((shares * runs.named[runs.span(run)]).sum() / shares.sum())
                if runs.has_agent_label(run)
                else np.nan
                for run, shares in enumerate(predicted)
            ]
        )
        calibration.append(calibration_of(runs, predicted))
        hits.append(ranks == 1)
        talk = np.flatnonzero(runs.subset < 2)
        p.append(mcnemar(list(ranks[talk] == 1), [before[int(run)] for run in talk]))
    return Figures(
        *(np.array(x, np.float64) for x in (top, near, halves, scores, calibration, p, hits))
    )


def constant_orders(runs: Runs) -> dict[str, list[Floats]]:
    """Return what rules that do not read a run would print, learned from other tasks."""
    orders: dict[str, list[Floats]] = {}
    for run, example in enumerate(runs.examples):
        own = agent_steps(example.run)
        others = [
            e
            for at, e in enumerate(runs.examples)
            if runs.subset[at] == runs.subset[run] and e.run.task != example.run.task
        ]
        start = Counter(step for e in others for step in e.named)
        end = Counter(len(e.run.steps) - 1 - step for e in others for step in e.named)
        size = [len(example.run.steps[step].text) for step in own]
        last = len(example.run.steps) - 1
        for name, order in {
            "first step": [-float(step) for step in own],
            "last step": [float(step) for step in own],
            "commonest index": [start[step] - step * 1e-6 for step in own],
            "commonest from the end": [end[last - step] - (last - step) * 1e-6 for step in own],
            "longest step": [float(value) for value in size],
        }.items():
            orders.setdefault(name, []).append(np.array(order))
    return orders


def print_top(title: str, top: Floats) -> None:
    """Print a line of mean shares with their range over seeds."""
    cells = []
    for subset in range(3):
        for k in range(len(TOP)):
            values = top[:, subset, k]
            spread = f" [{values.min():.2f}, {values.max():.2f}]" if len(values) > 1 else ""
            cells.append(f"{values.mean():.3f}{spread}")
    print(f"| {title} | " + " | ".join(cells) + " |")


def compare_scores(a: Figures, b: Figures, runs: Runs) -> list[tuple[str, int, float, float]]:
    """Return by subset: runs, mean gain in log score of b over a, its paired standard error."""
    gain = (b.scores - a.scores).mean(axis=0)
    lines = []
    for subset, title in enumerate(TITLES):
        values = gain[(runs.subset == subset) & np.isfinite(gain)]
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
        lines.append((title, len(values), float(values.mean()), error))
    return lines


def check_bars(figures: Figures, agentrx_before: float) -> list[tuple[str, float, str, bool]]:
    """Return each bar: what, the figure, the bound, whether it holds."""
    top = figures.top.mean(axis=0)
    slope, predicted, observed = figures.calibration.mean(axis=0)
    bars = [
        (f"{TITLES[subset]}, first {k}", float(top[subset, at]), bound)
        for subset, bounds in enumerate(((0.45, 0.80, 0.90), (0.20, 0.43, 0.57)))
        for at, (k, bound) in enumerate(zip(TOP, bounds, strict=True))
    ]
    checked = [(name, value, f">= {bound:.2f}", value >= bound) for name, value, bound in bars]
    gap = abs(float(predicted - observed))
    worst = float(figures.p.max())
    hits = float(top[2, 0])
    return [
        *checked,
        ("AgentRx exact", hits, f">= {agentrx_before:.3f}", hits >= agentrx_before - 1e-9),
        ("calibration slope", float(slope), "0.75 to 1.25", 0.75 <= slope <= 1.25),
        ("|predicted - observed|", gap, "<= 0.08", gap <= 0.08),
        ("McNemar p, worst seed", worst, "< 0.01", worst < 0.01),
    ]


def beats(lines: Sequence[tuple[str, int, float, float]]) -> bool:
    """Tell whether (b) ships: a gain above one error in one family, no such loss in any other."""
    return any(gain > error for *_, gain, error in lines) and all(
        gain >= -error for *_, gain, error in lines
    )


def as_json(table: Table, runs: Runs, folder: Path, figures: dict[str, object]) -> dict[str, Any]:
    """Return the data file: numpy alone reads it."""
    scale = scales_of(runs, np.arange(runs.n))
    features = [
        {
            "name": name,
            "scale": round(float(scale[at]), 6),
            "shared": round(float(table.weights.shared[at] * scale[at]), 5),
            "weights": {
                family: round(float(table.weights.family[k, at] * scale[at]), 5)
                for k, family in enumerate(FAMILIES)
            },
        }
        for at, name in enumerate(COLUMNS)
        if np.isfinite(scale[at]) and np.abs(table.weights.family[:, at]).any()
    ]
    return {
        "version": VERSION,
        "reads": "share of a step = softmax over the agent's steps of temperature * sum(weight * "
        "feature / scale); times 1 - nobody",
        "features": features,
        "nobody": {
            family: {
                "probability": round(float(p), 5),
                "intercept": round(float(np.log(p / (1 - p))), 5),
            }
            for family, p in zip(FAMILIES, table.nobody, strict=True)
        },
        "temperature": round(table.temperature, 5),
        "penalties": [
            {**penalty._asdict(), "weighs": round(share, 4)}
            for penalty, share in table.penalties
            if share >= 0.001
        ],
        "data": {
            "sha256": hash_data(folder),
            "runs": {name: int((runs.subset == at).sum()) for at, name in enumerate(SUBSETS)},
        },
        "folds": {"by": "task", "outer": OUTER_FOLDS, "inner": INNER_FOLDS, "seeds": SEEDS},
        "figures": figures,
    }


class Measured(NamedTuple):
    """Both candidates and the list printed before, on the same runs."""

    a: Figures
    b: Figures
    before: list[bool]  # by run: the list printed before had a labelled step first
    runs: Runs

    @property
    def ships(self) -> str:
        """The candidate that ships."""
        return "b" if beats(compare_scores(self.a, self.b, self.runs)) else "a"


def print_tables(measured: Measured) -> None:
    """Print what each list reaches, beside the constant rules, and the comparison of scores."""
    a, b, before, runs = measured.a, measured.b, measured.before, measured.runs
    talk = np.flatnonzero(runs.subset < 2)
    rules = {"the list printed before": [before[int(run)] for run in talk]}
    heads = [f"{title} first {k}" for title in ("AG", "HC", "AgentRx") for k in TOP]
    print("| list | " + " | ".join(heads) + " |\n|" + "---|" * 10)
    print_top("(b) features", b.top)
    print_top("(a) factors and places", a.top)
    for name, order in constant_orders(runs).items():
        ranks = ranks_of(runs, order)
        print_top(name, np.array([top_of(runs, ranks)]))
        rules[name] = [bool(ranks[run] == 1) for run in talk]
    known = [sum(before[int(run)] for run in np.flatnonzero(is_counted(runs, s))) for s in range(3)]
    sizes = [int(is_counted(runs, s).sum()) for s in range(3)]
    print(f"\nprinted before, first: {known} of {sizes}")
    print("McNemar, exact step over both Who&When sets, p of the worst seed:")
    for name, hits in rules.items():
        worst = [max(mcnemar(list(row[talk] > 0), hits) for row in f.first) for f in (a, b)]
        print(f"  against {name}: (a) {worst[0]:.1e}, (b) {worst[1]:.1e}")
    for name, found in (("a", a), ("b", b)):
        slope, predicted, observed = found.calibration.mean(axis=0)
        low, high = found.calibration[:, 0].min(), found.calibration[:, 0].max()
        scores = [float(np.nanmean(found.scores[:, runs.subset == s])) for s in range(3)]
        print(
            f"({name}) first within 3 steps {np.round(found.near.mean(axis=0), 3)}, exact on tasks "
            f"not read {np.round(found.halves.mean(axis=0), 3)}, log score {np.round(scores, 3)}; "
            f"slope {slope:.2f} [{low:.2f}, {high:.2f}], predicted {predicted:.3f}, observed "
            f"{observed:.3f}"
        )
    for title, n, gain, error in compare_scores(a, b, runs):
        print(f"(b) - (a), log score a run: {title} (n {n}) {gain:+.3f}, error {error:.3f}")


def count_faults(runs: Runs, records: Sequence[Sequence[Record]]) -> dict[str, dict[str, int]]:
    """Return by family how many named and other steps of the agent an axis of the rules faults."""
    counts: dict[str, dict[str, int]] = {}
    for run, held in enumerate(records):
        if not runs.has_agent_label(run):
            continue
        own = agent_steps(runs.examples[run].run)
        named = runs.named[runs.span(run)] > 0
        at_fault = np.isin(own, [proof.step for proof in find_proofs(held)])
        of = counts.setdefault(
            FAMILIES[runs.family[run]],
            {"named": 0, "named at fault": 0, "other": 0, "other at fault": 0},
        )
        for name, steps in (("named", named), ("other", ~named)):
            of[name] += int(steps.sum())
            of[f"{name} at fault"] += int((steps & at_fault).sum())
    return counts


def figures_of(measured: Measured, faults: dict[str, dict[str, int]]) -> dict[str, object]:
    """Return the figures that stand in the data file: mean, least and most over seeds."""
    chosen = measured.b if measured.ships == "b" else measured.a
    by_family = {}
    for subset, family in enumerate(FAMILY_OF_SUBSET):
        columns = zip(("first", "three", "five"), chosen.top[:, subset].T, strict=True)
        by_family[family] = {
            "set": TITLES[subset],
            "runs": int(is_counted(measured.runs, subset).sum()),
            **{
                name: [round(float(x), 4) for x in (values.mean(), values.min(), values.max())]
                for name, values in columns
            },
        }
    slope, predicted, observed = np.round(chosen.calibration.mean(axis=0), 4).tolist()
    slopes = np.round([chosen.calibration[:, 0].min(), chosen.calibration[:, 0].max()], 2).tolist()
    runs, talk = measured.runs, np.flatnonzero(measured.runs.subset < 2)
    known = [measured.before[int(run)] for run in talk]
    orders = constant_orders(runs)
    index = ranks_of(runs, orders["commonest index"])[talk] == 1
    worst = [
        max(mcnemar(list(row[talk] > 0), hits) for row in chosen.first)
        for hits in (known, list(index))
    ]
    counted = [np.flatnonzero(is_counted(runs, subset)) for subset in range(3)]
    return {
        "candidate": measured.ships,
        "by_family": by_family,
        "before": [
            sum(measured.before[int(run)] for run in chosen_runs) for chosen_runs in counted
        ],
        "p": {"before": float(f"{worst[0]:.1e}"), "commonest index": float(f"{worst[1]:.1e}")},
        "rules": {
            name: np.round(top_of(runs, ranks_of(runs, order)), 4).tolist()
            for name, order in orders.items()
        },
        "faults": faults,
        "unread": {
            "runs": int(sum(not tuned_on(runs.examples[run].run) for run in counted[0])),
            "first": round(float(chosen.halves[:, 0].mean()), 4),
        },
        "calibration": {
            "slope": slope,
            "range": slopes,
            "predicted": predicted,
            "observed": observed,
        },
        "gain over (a)": {
            title: {"n": n, "mean": round(gain, 4), "error": round(error, 4)}
            for title, n, gain, error in compare_scores(measured.a, measured.b, measured.runs)
        },
    }


def main(arguments: Sequence[str]) -> int:
    """Fit, test, print and write; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args(arguments)
    if not (options.folder / "whowhen").is_dir():
        print(f"fit_localise: the runs are absent: no {options.folder / 'whowhen'}")
        return 4
    runs = read_runs(options.folder)
    printed = json.loads(PRINTED.read_text(encoding="utf-8"))
    before = [printed[example.run.name] in own_named(example) for example in runs.examples]
    records = [score_by_rules(example.run, None) for example in runs.examples]

    def printed_by(grid: Sequence[Penalty]) -> list[list[Floats]]:
        return [
            [
                print_list(example.run, held, shares)
                for example, held, shares in zip(
                    runs.examples, records, predict_nested(runs, grid, seed), strict=True
                )
            ]
            for seed in range(options.seeds)
        ]

    a, b = (measure(runs, printed_by(grid), before) for grid in (BY_PLACE, BY_FEATURES))
    measured = Measured(a, b, before, runs)
    print_tables(measured)
    faults = count_faults(runs, records)
    for family, of in faults.items():
        print(f"axes at fault in {family}: {of}")
    chosen = measured.b if measured.ships == "b" else measured.a
    counted = np.flatnonzero(is_counted(runs, 2))
    bars = check_bars(chosen, float(np.mean([before[int(run)] for run in counted])))
    print(f"\nships: ({measured.ships})")
    for name, value, bound, holds in bars:
        print(f"{'holds ' if holds else 'MISSED'} {name}: {value:.3g} {bound}")
    grid = BY_FEATURES if measured.ships == "b" else BY_PLACE
    table = train(runs, np.arange(runs.n), grid, 0)
    content = as_json(table, runs, options.folder, figures_of(measured, faults))
    text = format_table(content)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")
        PAGE.write_text(refreshed_page(content), encoding="utf-8")
    kept = json.loads(TABLE.read_text(encoding="utf-8"))
    same = weights_of(kept).keys() == weights_of(content).keys() and all(
        abs(value - weights_of(kept)[key]) < TOLERANCE for key, value in weights_of(content).items()
    )
    print(f"{'holds ' if same else 'MISSED'} the file of the package is what these data give")
    return 0 if same and all(holds for *_, holds in bars) else 3


# Weights of two fits of the same data differ by less, on any machine.
TOLERANCE = 2e-3


def weights_of(content: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return the weights of a data file by feature and family."""
    return {
        (feature["name"], family): float(weight)
        for feature in content["features"]
        for family, weight in feature["weights"].items()
    }


def format_table(content: dict[str, Any]) -> str:
    """Return a data file as text: a line a feature."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            inner = ",\n".join(f"  {json.dumps(one)}" for one in value)
            lines.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
