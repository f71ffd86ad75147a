"""`stepscope gate` and `baseline update`: decide gates on recorded runs; the exit code says it."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Option

from stepscope.cli import options, terminal
from stepscope.errors import UsageError
from stepscope.safety.text import visible_line

if TYPE_CHECKING:
    from stepscope.settings import Settings


Workflows = Annotated[
    list[str] | None, Option(metavar="NAME", help="Only this workflow; repeatable.")
]
Commit = Annotated[
    str | None,
    Option(
        metavar="SHA",
        help="The commit that these runs test. Runs from earlier checks of the same commit "
        "count, too.",
    ),
]
Config = Annotated[
    Path | None, Option(metavar="PATH", help="stepscope.toml, or its folder. Default: this folder.")
]


def gate(
    *,
    workflow: Workflows = None,
    runs: list[str] | None = Option(
        None, metavar="PATHS", help="Check the gates on these traces, without a store; repeatable."
    ),
    baseline: str | None = Option(
        None, metavar="FILE", help="Compare with this file, not with the one in the settings."
    ),
    trials: int | None = Option(
        None,
        min=1,
        max=1000,
        help="How many times each case must have been run. Default: as in the baseline.",
    ),
    cases: list[str] | None = Option(
        None, metavar="CASE", help="This case must have been run; repeatable. Default: all."
    ),
    tier: str | None = Option(
        None,
        metavar="SOURCES",
        help="Check only gates whose verdicts come from these sources, such as rules,step_labels. "
        "Default: from the settings.",
    ),
    fail_on: Literal["soft", "hard"] = Option(
        "hard", help="The command fails if a gate of at least this severity fails."
    ),
    undecided: Literal["pass", "fail"] | None = Option(
        None,
        help="How to count gates that are undecided because of too few runs. Default: exit code 4.",
    ),
    max_minutes: float | None = Option(
        None,
        min=0,
        help="Stop after this time; gates that are not decided by then give exit code 4.",
    ),
    commit: Commit = None,
    attempt: int = Option(
        1, min=1, help="How many times this commit was checked, this time included."
    ),
    where: options.WhereText = None,
    seed: options.Seed = None,
    selftest: bool = Option(
        False,
        "--selftest",
        help="Estimate how often these gates are wrong, on runs drawn at random from baselines. Do "
        "not combine it with --runs, --store, --where, --commit, --attempt, --fail-on, "
        "--undecided, --write or JUnit.",
    ),
    drop: float | None = Option(
        None, metavar="SHARE", help="With --selftest: the drop to simulate. Default: 0.1."
    ),
    config: Config = None,
    markdown: options.Markdown = False,
    junit: options.Junit = False,
    write: Path | None = Option(
        None,
        metavar="DIR",
        help="Also write gate.json, gate.xml and comments/ (one file for each workflow) to this "
        "folder.",
    ),
    out: options.Out = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Check recorded runs against the gates of stepscope.toml.

    Exit code 0: all gates passed; 3: a gate failed; 4: a gate is undecided or could not be
    measured. The command also writes the job summary to the file that $GITHUB_STEP_SUMMARY names.

    Example: stepscope gate --runs traces/ --baseline baselines/refunds.json --workflow refunds
    """
    start = time.monotonic()
    form = options.choose_form(as_json, markdown, junit, out)
    if runs and store is not None:
        raise UsageError("--runs needs no store: leave --store or --runs out")

    from stepscope.api import gating
    from stepscope.gates.baseline import replace_file
    from stepscope.gates.settings import DROP
    from stepscope.store.where import combine_filters

    settings = settings_at(config)
    policies = gating.choose_policies(
        settings, workflow or (), baseline=baseline, trials=trials, cases=cases or (), tier=tier
    )
    if selftest or drop is not None:
        if not selftest:
            raise UsageError("--drop is of --selftest; say --selftest, or leave it out")
        unread = {
            "runs": runs,
            "where": where,
            "commit": commit,
            "attempt": attempt != 1,
            "fail-on": fail_on != "hard",
            "undecided": undecided,
            "write": write,
            "store": store,
            "junit": junit,
            f"out {out}": form == "junit",
        }
        options.refuse_given(unread, "is not for --selftest, which reads the baselines alone")
        found = gating.selftest_policies(
            policies,
            drop=DROP if drop is None else drop,
            seed=settings.seed if seed is None else seed,
            enough=lambda: max_minutes is not None and time.monotonic() - start >= 60 * max_minutes,
        )
        if form or out is not None:
            terminal.deliver(getattr(found, form or "text")(), out)
        else:
            terminal.print_guarded(found.text(terminal.terminal_width()))
        terminal.print_note(f"took {(time.monotonic() - start) / 60:.1f} minutes")
        return 0 if all(one.invocations for one in found.value) else 4
    request = gating.GateOptions(
        where=combine_filters(where),
        commit=commit,
        attempt=attempt,
        log=gating.find_look_log(settings),
        seed=seed,
        enough=lambda: max_minutes is not None and time.monotonic() - start >= 60 * max_minutes,
    )
    said: list[str] = []
    if runs:
        report, said = gating.gate_files(runs, settings, policies, request)
    else:
        with options.open_existing(store, settings) as notebook:
            report = gating.gate_store(notebook, policies, request)
    view = gating.GateView(report, remarks=said, fail_on=fail_on, undecided=undecided)
    terminal.write_job_summary(view.markdown())
    if form:
        terminal.deliver(getattr(view, form)(), out)
    elif out is None:
        terminal.print_guarded(view.text(terminal.terminal_width()))
    else:
        terminal.deliver(view.text(), out)
    if write is not None:
        comments = write / "comments"
        texts = {write / "gate.json": view.json(), write / "gate.xml": view.junit()}
        for number, text in enumerate(view.comments().values(), 1):
            texts[comments / f"{number:03}.md"] = text
        for old in comments.glob("[0-9][0-9][0-9].md"):
            old.unlink()
        for path, text in texts.items():
            replace_file(path, text.encode("utf-8", "backslashreplace"))
    return view.exit_code


def settings_at(config: Path | None) -> Settings:
    """Return the settings of a file or folder; those of the working directory when left out."""
    from stepscope.settings import FILE, load_settings

    if config is None or config.is_dir():
        return load_settings(config or ".")
    if config.name not in (FILE, "pyproject.toml"):
        raise UsageError(f"--config {str(config)!r}: expected a folder, {FILE} or pyproject.toml")
    if not config.is_file():
        raise UsageError(f"--config {str(config)!r}: there is no such file")
    return load_settings(config.parent)


def update(
    *,
    workflow: Workflows = None,
    where: options.WhereText = None,
    commit: Commit = None,
    yes: bool = Option(False, "--yes", help="Write without asking."),
    config: Config = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    """Make the chosen runs the baseline of their workflow.

    The command prints the changes, asks for a yes, and writes each file whole or not at all. It
    refuses runs if their values come from different versions of one measure.

    Example: stepscope baseline update --workflow refunds --where "agent_version = 'v7'"
    """
    from stepscope.api import gating
    from stepscope.gates import baseline
    from stepscope.store.where import combine_filters

    settings = settings_at(config)
    policies = gating.choose_policies(settings, workflow or ())
    for policy in policies:
        if policy.baseline is None:
            raise UsageError(
                f"[workflow.{policy.workflow}] names no baseline; add "
                f'baseline = "baselines/{policy.workflow}.json"'
            )
    with options.open_existing(store, settings) as notebook:
        make = partial(baseline.make_baseline, notebook.store, where=combine_filters(where))
        made = [(one, make(one, commit=commit)) for one in policies]
    changes = [
        baseline.diff_baselines(baseline.load_baseline(one.baseline, one.workflow), new)
        for one, new in made
    ]
    if as_json:
        terminal.print_json([{"lines": lines} for lines in changes])
    else:
        terminal.print_guarded("\n\n".join(map("\n".join, changes)))
    paths = ", ".join(str(policy.baseline) for policy in policies)
    if not (yes or (sys.stdin.isatty() and typer.confirm(f"Write {paths}?", err=True))):
        raise UsageError("nothing was written; say --yes to write the baseline")
    for policy, new in made:
        assert policy.baseline is not None
        baseline.write_baseline(new, policy.baseline)
        terminal.print_note(f"wrote {policy.baseline}")


CorpusPath = Annotated[Path, typer.Argument(metavar="CORPUS", help="A file or folder of cases.")]
OfWorkflow = Annotated[str, Option(metavar="NAME", help="The workflow for cases that name none.")]


def check(corpus: CorpusPath, *, workflow: OfWorkflow = "", as_json: options.Json = False) -> None:
    """Check a file or folder of cases.

    The command refuses cases that make no sense. If the split is frozen, it also refuses held-out
    (test) cases that were edited. It warns if there are too few cases to see a difference, and if
    the same request is in the held-out part and also in the rest.

    Example: stepscope case check cases
    """
    from stepscope.cases.files import load_cases
    from stepscope.cases.split import check_corpus

    terminal.print_result(check_corpus(corpus, load_cases(corpus, workflow)), as_json=as_json)


def split(
    corpus: CorpusPath,
    *,
    held_out: float = Option(
        0.2, "--held-out", metavar="SHARE", help="Share of the cases to hold out."
    ),
    by: str = Option(
        "",
        metavar="FIELD,...",
        help="Stratify the draw by these: difficulty, workflow, or keys of tags.",
    ),
    workflow: OfWorkflow = "",
    seed: int = Option(0, min=0, help="Seed of the draw."),
    freeze: bool = Option(
        False,
        "--freeze",
        help="Write the split to a file beside the cases. Without --freeze, it is only shown.",
    ),
    as_json: options.Json = False,
) -> None:
    """Set a part of the cases aside (hold it out) as a test set.

    Nothing may be tuned on the held-out part. With --freeze, the split and its hash are written to
    a file beside the cases; commit this file. From then on, every command that reads the cases
    refuses held-out cases that were edited, and stepscope calibrate gap compares the held-out part
    with the rest.

    Example: stepscope case split cases --held-out .2 --by type,difficulty --freeze
    """
    from stepscope.cases import split as splits
    from stepscope.cases.files import load_cases

    names = [name.strip() for name in by.split(",") if name.strip()]
    found = splits.draw_split(load_cases(corpus, workflow), share=held_out, by=names, seed=seed)
    if freeze:
        terminal.print_note(f"wrote {splits.freeze(found, corpus)}")
    elif splits.load_split(corpus) is not None:
        raise UsageError(f"{corpus} is frozen; stepscope case check {corpus} shows its split")
    if as_json:
        return terminal.print_json(found)
    lines = [str(found), *(f"  {name}/{task}" for name, task in sorted(found.tasks("held_out")))]
    terminal.print_text("\n".join(visible_line(line) for line in lines))
