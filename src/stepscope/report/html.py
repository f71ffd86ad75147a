"""A report as one HTML file: every page of the local server, readable without it.

Nothing is fetched and nothing but its own scripts runs: a policy in the file allows them by their
hashes. The same rows give the same bytes. Refused: a script whose text would end its own element.
Source: Content Security Policy Level 3 (W3C), hash sources and the meta element.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Literal
from uuid import uuid4

from markupsafe import Markup

from stepscope.errors import StoreError
from stepscope.gates.kept import Kept
from stepscope.report import pages
from stepscope.report.build import both
from stepscope.report.compare import compare
from stepscope.report.gate_json import GateDocument
from stepscope.report.pages.page import Page
from stepscope.report.pages.rendering import NAVIGATION, Shell, body, environment, specs
from stepscope.report.pages.runs import RunRow
from stepscope.report.types import Report
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.where import Where

Embed = int | Literal["all"]

# Runs whose steps are in the file unless it is said otherwise.
EMBED = 25
# Characters of one text in the file; `stepscope show` has the rest.
CLIP = 6_000
# Pairs of runs side by side.
PAIRS = 10
CHART_SCRIPTS = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-embed.min.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a file is about besides its report: which runs, and what gates said of them.

    Attributes:
        where: the choice that the report was built with.
        since: the same.
        gates: reports that `gate --json` wrote, the latest last.
        kept: baselines and looks, by workflow.
    """

    where: Where | None = None
    since: str | None = None
    gates: Sequence[GateDocument] = ()
    kept: Sequence[Kept] = ()


def write(
    store: Rows,
    report: Report,
    file: str | Path,
    *,
    embed: Embed = EMBED,
    chosen: Chosen | None = None,
) -> None:
    """Write a report with the steps of the runs to look at first to one HTML file.

    The file is written beside its place and put there in one move: whatever goes wrong before the
    end, what was there stands, and nothing unfinished is left.

    Args:
        store: where the rows are; runs are opened only in a `Store`.
        report: what `build` made of them.
        file: where to; what is there is replaced.
        embed: of how many runs the steps are in it.
        chosen: which runs, as the report was built.

    Raises:
        OSError: the disk does not take it; the file as it was asked for is named.
    """
    # What a link leads to is replaced, not the link.
    place = Path(file).resolve()
    part = place.with_name(f".{uuid4().hex}.part")
    pieces = parts(store, report, embed=embed, chosen=chosen or Chosen())
    if place.exists() and not place.is_file():
        # A pipe or a device takes what comes, and cannot be replaced.
        _written(pieces, place)
        return
    try:
        _written(pieces, part)
        part.replace(place)
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(file)) from e
    finally:
        part.unlink(missing_ok=True)


def _written(pieces: Iterator[str], place: Path) -> None:
    with place.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(pieces)


def parts(store: Rows, report: Report, *, embed: Embed, chosen: Chosen) -> Iterator[str]:
    """Yield the file piece by piece: no more than a few runs are in memory at a time."""
    style = _asset("app.css")
    scripts = [_asset(name) for name in (*CHART_SCRIPTS, "app.js")]
    used: list[str] = []

    def bodies() -> Iterator[Markup]:
        for page in _pages(store, report, embed, chosen):
            used.extend(chart.spec for chart in page.charts)
            yield Markup(body(page))

    shell = Shell(
        title=f"{report.whole.title or 'stepscope'} · stepscope",
        mode="file",
        navigation=tuple((f"#{name}", label, name == "overview") for name, label in NAVIGATION),
        about=f"stepscope {version('stepscope')}, seed {report.provenance.seed}",
    )
    yield from (
        environment()
        .get_template("file.html")
        .generate(
            shell=shell,
            bodies=bodies(),
            specs=lambda: specs(used),
            policy=policy([style], scripts),
            style=Markup(style),
            scripts=[Markup(script) for script in scripts],
        )
    )


def policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return a policy that allows these styles and scripts by their hashes, and nothing else.

    >>> policy(["a"], [])[:74]
    "default-src 'none'; script-src 'none'; style-src 'sha256-ypeBEsobvcr6wjGzm"
    """
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: Sequence[str]) -> str:
    found = [b64encode(sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in found) or "'none'"


def _asset(name: str) -> str:
    """Return a script or style of the package as it stands between its tags."""
    text = files("stepscope.report").joinpath("static", *name.split("/")).read_text("utf-8")
    for end in ("</script", "</style", "<!--", "\r", "\0"):
        if end in text:
            raise ValueError(f"{name} holds {end!r}, which would not stand inside its element")
    return text


def _pages(store: Rows, report: Report, embed: Embed, chosen: Chosen) -> Iterator[Page]:
    runs = pages.read_runs(store, where=chosen.where, since=chosen.since)
    inside = _embedded(store, report, runs, embed)
    pairs = _pairs(runs, set(inside))[:PAIRS]
    groups = _two(runs)
    links = pages.FileLinks(inside, pairs, groups=groups is not None)
    last = chosen.gates[-1].report if chosen.gates else None
    yield pages.overview(report, runs, links=links, gates=last)
    yield pages.no_run(report, links=links)
    yield _choice(runs, pairs, groups, links)
    yield pages.profile(report, links=links)
    yield pages.gates(chosen.gates, links=links, kept=chosen.kept)
    if groups is not None:
        where = both(chosen.where, chosen.since)
        seed = report.provenance.seed
        yield pages.compare_groups(
            compare(store, *groups, by="agent", where=where, seed=seed), links=links
        )
    if not isinstance(store, Store):
        return
    of_task = _by_task(runs)
    rows = {row.id: row for row in runs}
    for id_ in inside:
        row = rows[id_]
        others = of_task.get((row.workflow, row.task), ())
        data = pages.read_run(store, id_)
        yield pages.run(data, links=links, clip=CLIP, others=others)
    for first, second in pairs:
        yield pages.compare_runs(
            pages.read_run(store, first), pages.read_run(store, second), links=links
        )


def _embedded(store: Rows, report: Report, runs: Sequence[RunRow], embed: Embed) -> tuple[str, ...]:
    """Return the runs whose steps are in the file: those to look at first, then by weight."""
    if not isinstance(store, Store):
        return ()
    order = dict.fromkeys([*(run.id for run in report.look_first), *(row.id for row in runs)])
    most = len(order) if embed == "all" else embed
    kept: list[str] = []
    for id_ in order:
        if len(kept) >= most:
            break
        if _readable(store, id_):
            kept.append(id_)
    return tuple(kept)


def _readable(store: Store, run: str) -> bool:
    """Tell whether a run's texts are there: a purged run is in the figures and in no page."""
    try:
        store.trajectory(run)
    except StoreError:
        return False
    return True


def _by_task(runs: Sequence[RunRow]) -> dict[tuple[str, str], list[RunRow]]:
    found: dict[tuple[str, str], list[RunRow]] = {}
    for row in runs:
        if row.task:
            found.setdefault((row.workflow, row.task), []).append(row)
    return found


def _pairs(runs: Sequence[RunRow], inside: Collection[str]) -> list[tuple[str, str]]:
    """Return a failing run of the file with a passing one of the same task beside it."""
    found = []
    for held in _by_task(runs).values():
        failed = [row.id for row in held if row.outcome == "fail" and row.id in inside]
        passed = [row.id for row in held if row.outcome == "pass"]
        passed.sort(key=lambda id_: id_ not in inside)
        if failed and passed:
            found.append((failed[0], passed[0]))
    return found


def _two(runs: Sequence[RunRow]) -> tuple[str, str] | None:
    """Return the two agents that share most tasks, by name; None where no two share any."""
    of_task: dict[tuple[str, str], set[str]] = {}
    for row in runs:
        if row.agent and row.task:
            of_task.setdefault((row.workflow, row.task), set()).add(row.agent)
    shared = Counter(
        pair for agents in of_task.values() for pair in combinations(sorted(agents), 2)
    )
    return max(shared, key=lambda pair: (shared[pair], pair)) if shared else None


def _choice(
    runs: Sequence[RunRow],
    pairs: Sequence[tuple[str, str]],
    groups: tuple[str, str] | None,
    links: pages.Links,
) -> Page:
    names = {row.id: row.name for row in runs}
    addresses = [
        (f"{names[first]} (fail) and {names[second]} (pass)", address)
        for first, second in pairs
        if (address := links.pair(first, second)) is not None
    ]
    several = []
    if groups is not None and (address := links.groups("agent", *groups)) is not None:
        several = [(f"{groups[0]} and {groups[1]}", address)]
    return pages.compare_choice(links=links, pairs=addresses, groups=several)
