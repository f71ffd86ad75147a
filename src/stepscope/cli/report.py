"""`stepscope report`, `compare`, `shape` and `view`: what is printed or shown of many runs."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from stepscope import api, safety
from stepscope.cli import importing, options, terminal
from stepscope.errors import UsageError
from stepscope.safety.text import escaped_json, inert

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

    from stepscope.api import Added, ReportView


def compare(
    a: str = Argument(
        ..., metavar="A", help="The first agent, or the first value of the --by field."
    ),
    b: str = Argument(
        ..., metavar="B", help="The second agent, or the second value of the --by field."
    ),
    *,
    by: str = Option("agent", metavar="FIELD", help="The field whose values A and B are compared."),
    where: options.WhereText = None,
    since: options.Since = None,
    seed: options.Seed = None,
    markdown: options.Markdown = False,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Compare two agents, paired by task.

    Every difference has its interval; the p values are adjusted for the number of differences.

    Example: stepscope compare gpt-4o gpt-4o-v2
    """
    with options.open_existing(store) as notebook:
        compared = notebook.compare(a, b, by=by, where=where, since=since, seed=seed)
    if markdown and not as_json:
        terminal.print_text(compared.markdown())
    else:
        terminal.print_view(compared, as_json=as_json)


# Runs whose steps are in the page unless it is said otherwise.
EMBED = 25

# What people call the one number that does not exist.
ONE_NUMBER = {"score", "total", "overall", "quality", "grade", "rating", "vector"}

Gates = Annotated[
    list[Path] | None,
    Option(
        metavar="FILE",
        help="Also show this file, written by gate --json; repeatable, the newest last.",
    ),
]


def report(
    paths: list[str] | None = Argument(
        None,
        metavar="[PATHS]...",
        help="Read, score and report only these traces: files, folders, globs, zips, -.",
    ),
    *,
    where: options.WhereText = None,
    since: options.Since = None,
    by: options.By = None,
    seed: options.Seed = None,
    rubric_version: options.RubricVersion = None,
    look_first: int = Option(
        10, min=0, metavar="N", help="How many runs to list under Look first."
    ),
    get: str | None = Option(
        None,
        metavar="FIGURE",
        help="Print one figure with its interval, such as outcome.pass. The exit code is 4 "
        "if this figure is unmeasured.",
    ),
    markdown: options.Markdown = False,
    junit: options.Junit = False,
    html: Path | None = Option(
        None, metavar="FILE", help="Write all pages to one file, which needs no server."
    ),
    embed: str | None = Option(
        None, metavar="N", help="With --html: include the steps of N runs (or: all). Default: 25."
    ),
    gates: Gates = None,
    plots: Path | None = Option(None, metavar="DIR", help="Write the charts as PNG and SVG."),
    out: options.Out = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Print the outcome and the path of the runs, with intervals.

    Every figure has its interval, its n (how many values it comes from), and the number of runs
    that could not be measured. With PATHS, these traces are read into the store and scored, and the
    report covers only these traces. Without PATHS, the report covers the runs of the store. --store
    may also name a folder written by "export --verdicts only --format parquet"; individual runs in
    this folder cannot be shown. --by step_agent makes one group for each agent that is named in the
    steps.

    Example: stepscope report traces/

    Example: stepscope report --where "agent = 'gpt-4o'" --html report.html
    """
    form = options.choose_form(as_json, markdown, junit, out)
    if out is not None and out.suffix.lower() == ".html" and not (form or html or plots or get):
        html = out
    if html is None and (embed is not None or gates):
        raise UsageError("--embed and --gates are about the page: say --html FILE as well")
    located = "" if store is None or as_json else f"--store {shlex.quote(str(store))}"
    most = None if junit else look_first
    chosen = {"where": where, "since": since, "by": by, "rubric_version": rubric_version}
    again = " ".join(map(shlex.quote, paths or ()))
    lost: list[str] = []
    with _view(paths, lost, store, seed=seed, look_first=most, **chosen) as found:
        view = found.located(located, again) if located or again else found
        if html is not None or plots is not None:
            if html is not None:
                page = view.html(html, embed=_embed(embed), gates=gates or ())
                terminal.print_note(f"wrote {page}")
            for path in () if plots is None else view.plots(plots):
                terminal.print_note(f"wrote {path}")
            return importing.exit_code_of_import(lost)
    if get is not None:
        from stepscope.values import Unmeasured

        if get.lower() in ONE_NUMBER:
            terminal.print_text(view.text(terminal.terminal_width()))
            raise UsageError(
                f"--get {get!r}: there is no single number; one would hide the path behind the "
                "outcome or the outcome behind the path. The report table is above; --get one of "
                "its figures"
            )
        figure = view[get]
        if as_json:
            terminal.print_json(figure)
        else:
            terminal.print_text(view.line(get))
        unmeasured = options.UNMEASURED if isinstance(figure, Unmeasured) else 0
        return importing.exit_code_of_import(lost) or unmeasured
    terminal.deliver(getattr(view, form)() if form else view.text(terminal.terminal_width()), out)
    return importing.exit_code_of_import(lost)


@contextmanager
def _view(
    paths: list[str] | None,
    lost: list[str],
    store: Path | None,
    *,
    seed: int | None,
    look_first: int | None,
    **chosen: Any,
) -> Iterator[ReportView]:
    """Give the report over traces, a store or a folder of exported verdicts, while it is open.

    Files of which nothing could be read are added to `lost`; `chosen` is what `report` takes.
    """
    from stepscope.settings import load_settings

    def tell(added: Added) -> None:
        told = added.lines(one for one in added.files if one.unread or not one.runs + one.scores)
        terminal.print_note(inert(told))
        lost.extend(added.failed)

    settings = load_settings()
    if store is not None and store.is_dir():
        if paths:
            raise UsageError(f"--store {str(store)!r} is a folder of verdicts; no trace goes there")
        from stepscope.api.views import report_folder

        yield report_folder(store, seed=settings.seed if seed is None else seed, **chosen)
    elif paths:
        with (
            api.open(store, settings=settings) as notebook,
            terminal.show_progress("reading and scoring") as step,
        ):
            reading = {"progress": step, "tell": tell, **chosen}
            yield notebook.report(paths, seed=seed, look_first=look_first, **reading)
    else:
        with options.open_existing(store, settings) as notebook:
            yield notebook.report(seed=seed, look_first=look_first, **chosen)


def _embed(text: str | None) -> int | Literal["all"]:
    if text is None:
        return EMBED
    if text == "all":
        return "all"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"--embed {text!r}: expected a number from 0, or all")
    return int(text)


def shape(
    scores: str = Argument(
        ..., metavar="SCORES", help="A file of scores, CSV or JSON lines; - means stdin."
    ),
    *,
    sigma: float | None = Option(
        None, help="Noise of one score. Default: the measured value, or unknown."
    ),
    quantum: options.Quantum = None,
    weights: str | None = Option(
        None,
        metavar="1,2,3",
        help="Weights of the steps, or a TOML file with the weights for each run.",
    ),
    runs: int = Option(40, min=0, metavar="N", help="Number of curves to print."),
    seed: options.Seed = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Classify the score curves of a file by shape.

    The command prints one line for each curve (shape, probability, break) and, below, the shares of
    all shapes. The file has the columns run, step, score (0 to 1) and, optionally, repeat, judge,
    latency, cost, weight, task. Without --sigma, the command uses the noise measured by stepscope
    calibrate sigma.

    Example: stepscope shape scores.csv --sigma 0.05
    """
    own = None if weights is None else _parse_weights(weights)
    classify = partial(api.shapes, sigma=sigma, quantum=quantum, weights=own, store=store)
    with (
        terminal.show_progress("classifying curves") as step,
        classify(scores, seed=seed, progress=step) as found,
    ):
        if as_json:
            import msgspec

            # Curve by curve, so that a million need no more memory than a few.
            encode = msgspec.json.Encoder(order="deterministic").encode
            lead = '{"runs": [\n'
            for run in found:
                terminal.print_text(lead + escaped_json(encode(safety.scrub_value(run)).decode()))
                lead = ","
            whole = escaped_json(encode(safety.scrub_value(found.fleet())).decode())
            end = "]," if lead == "," else f"{lead}],"
            terminal.print_text(f'{end}\n"fleet": {whole}}}')
        else:
            width = terminal.terminal_width()
            from stepscope.api import score_files

            printed = total = open_ = 0
            for part in found.batches():
                total += len(part)
                for at in range(min(len(part), runs - printed)):
                    if not printed:
                        terminal.print_text(score_files.HEAD)
                    run = safety.scrub_value(found.shape_of(part, at))
                    terminal.print_text(score_files.curve_line(run, width))
                    printed += 1
                    open_ += run.shape == "unresolved" and not run.unmodelled
            if total > printed:
                terminal.print_text(
                    f"... {total - printed:,} more: --runs {total} prints all, --json has all"
                )
            terminal.print_text(f"{score_files.UNRESOLVED_LINE}\n" if open_ else "")
            fleet = safety.scrub_value(found.fleet())
            terminal.print_text("\n".join(score_files.fleet_lines(fleet, width)))
        if found.unweighed:
            terminal.print_note(
                f"not weighed: {found.unweighed:,} curves, of whose length no weights are said"
            )


def _parse_weights(text: str) -> dict[str, tuple[float, ...]]:
    """Return weights as said: a list for every run, or a file of lists by name of a run or task."""
    from stepscope.settings import read_weights_file

    if Path(text).is_file():
        return read_weights_file(Path(text))
    try:
        return {"*": tuple(float(weight) for weight in text.split(","))}
    except ValueError as e:
        why = f"--weights {text!r}: no such file, and no list of weights such as 1,2,3"
        raise UsageError(why) from e


# A secret of the user's own, without which nothing is served to other machines.
TOKEN_VARIABLE = "STEPSCOPE_VIEW_TOKEN"


def view(
    *,
    port: int | None = Option(
        None, min=1, max=65535, help="The port. Default: 7357, or a free one."
    ),
    host: str = Option(
        "127.0.0.1", help=f"The host. Any other than loopback needs a secret in {TOKEN_VARIABLE}."
    ),
    gates: Gates = None,
    no_open: bool = Option(False, "--no-open", help="Do not open the browser."),
    where: options.WhereText = None,
    since: options.Since = None,
    by: options.By = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Show the store in the browser; nothing is written.

    The printed address works in any browser on this machine until the server stops.

    Example: stepscope view --store runs.db
    """
    from urllib.parse import urlencode

    from stepscope.report.render.data import read_gate_reports
    from stepscope.report.rows import choose_fields
    from stepscope.settings import load_settings
    from stepscope.store.where import combine_filters
    from stepscope.web.app import make_web_app, new_token
    from stepscope.web.guard import check_address
    from stepscope.web.serve import open_socket, socket_url

    own = os.environ.get(TOKEN_VARIABLE)
    host = check_address(host, own)
    chosen = {"where": where, "since": since, "by": by}
    combine_filters(where, since)
    choose_fields(by)
    settings = load_settings()
    read_gate_reports(gates or ())
    with options.open_existing(store, settings) as notebook:
        path = notebook.store.path
    token = own or new_token()
    listening = open_socket(host, port)
    port = listening.getsockname()[1]
    app = make_web_app(
        path, token=token, host=host, port=port, settings=settings, gates=gates or ()
    )
    query = {"token": token} | {key: value for key, value in chosen.items() if value}
    opened = f"{socket_url(listening)}/?{urlencode(query)}"
    # The user's own secret is not printed.
    shown = opened if own is None else opened.replace(urlencode({"token": own}), "token=...")
    serve_app(
        app,
        listening,
        opened,
        {"url": shown, "store": path},
        f"Showing {path} at\n  {shown}\nCtrl-C ends.",
        no_open=no_open,
        as_json=as_json,
    )
    return 0


def serve_app(
    app: ASGIApp,
    listening: socket.socket,
    address: str,
    told: Mapping[str, object],
    said: str,
    *,
    no_open: bool,
    as_json: bool,
) -> None:
    """Print where an application is, open the browser there, and serve until it is stopped."""
    from stepscope.web.serve import serve_until_stopped

    terminal.print_json(told) if as_json else terminal.print_text(said)
    sys.stdout.flush()  # also into a pipe: it serves until it is stopped
    if not no_open:
        _open(address)
    try:
        serve_until_stopped(app, listening)
    except KeyboardInterrupt:
        # How one ends it, and nothing was under way: no error, and no other code than 0.
        terminal.print_note("")


def _open(url: str) -> None:
    """Open the browser beside the server, which answers as soon as it runs."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def mcp(
    *,
    gates: Gates = None,
    skill: bool = Option(False, "--skill", help="Print SKILL.md for coding agents."),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Let a coding agent read the store (MCP).

    The command serves eight tools over the Model Context Protocol, on standard input and output,
    until the client disconnects. The tools only read, spend no money and open no connection. --json
    prints the list of tools.

    Example: stepscope mcp --store runs.db
    """
    if skill:
        from importlib.resources import files

        text = files("stepscope.mcp_server").joinpath("SKILL.md").read_text(encoding="utf-8")
        return terminal.print_text(text)
    from stepscope.mcp_server.serve import serve_tools
    from stepscope.mcp_server.tools import describe_tools
    from stepscope.settings import load_settings

    if as_json:
        return terminal.print_json(describe_tools())
    settings = load_settings()
    serve_tools(options.find_store(store, settings), settings=settings, gates=gates or ())
