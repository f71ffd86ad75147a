"""`stepscope judge` and `rubric`: panels of models within a budget; what they are asked, locked."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from stepscope import safety
from stepscope.cli import options, terminal
from stepscope.errors import ConfigError, UsageError
from stepscope.safety.text import visible_line

if TYPE_CHECKING:
    from stepscope.api import Notebook, RejudgeResult
    from stepscope.api.judging import JudgeFinding
    from stepscope.judges.judgement import JudgingOptions
    from stepscope.score.judges import JudgingResult
    from stepscope.settings import Settings


Judges = Annotated[
    list[str] | None,
    Option(
        metavar="PROVIDER/MODEL",
        help="A judge; repeat the option for more judges, preferably of other families.",
    ),
]
Budget = Annotated[
    float | None,
    Option(
        min=0,
        metavar="USD",
        help="Spend at most this many dollars. Default: from the settings, or else 5.",
    ),
]
Narration = Literal["on", "off", "both"]
STOPPED = 130
BUDGET = 5


def judge(
    runs: list[str] | None = Argument(
        None,
        metavar="[RUN]...",
        autocompletion=options.complete_run,
        help="Only these runs: the name or id of each, or a prefix that matches only one run.",
    ),
    *,
    judge: Judges = None,
    rubric: list[str] | None = Option(
        None,
        metavar="NAME",
        help="A rubric, a set of rubrics, or your own file; repeatable. Default: axes.",
    ),
    where: options.WhereText = None,
    since: options.Since = None,
    budget: Budget = None,
    budget_name: str = Option(
        "", metavar="NAME", help="Commands with the same budget name spend from one budget."
    ),
    dry_run: bool = Option(
        False, "--dry-run", help="Print calls, tokens, prices and what is missing; send nothing."
    ),
    show_prompt: str | None = Option(None, metavar="RUN", help="Print the request for this run."),
    again: bool = Option(
        False,
        "--again",
        help="Judge again the runs that were judged before, with the current rubrics and models, "
        "and print the verdicts that changed. Without --judge, the same judges are asked.",
    ),
    sample: int | None = Option(
        None, min=1, metavar="N", help="For each rubric, judge N runs drawn at random."
    ),
    repeat: int = Option(1, min=1, max=1000, metavar="N", help="Ask each question N times."),
    narration: Narration = Option(
        "on",
        help="off: hide the agent's own words; both: judge with and without these words, and mark "
        "verdicts that differ.",
    ),
    mode: Literal["contextual", "isolated", "prefix"] = Option(
        "contextual",
        help="contextual: judge each exchange with the whole run in view; isolated: judge it "
        "alone; prefix: judge it with all steps before it.",
    ),
    goals: Path | None = Option(
        None,
        metavar="FILE",
        help="A file of sub-goals that you have confirmed. It is for --rubric no_look: there, "
        "judges see one output and its sub-goal, but not the run.",
    ),
    propose_goals: Path | None = Option(
        None, metavar="FILE", help="Write a draft of sub-goals to this file; judge nothing."
    ),
    canaries: bool = Option(
        False, "--canaries", help="Check judges on runs whose answers are known."
    ),
    send_media: bool = Option(
        False, "--send-media", help="Also send images; secrets in images are not hidden."
    ),
    tools: bool = Option(
        False, "--tools", help="Let judges read more of the run before they answer."
    ),
    workspace: Path | None = Option(
        None, metavar="DIR", help="A folder that judges may also read."
    ),
    batch: bool = Option(
        False,
        "--batch",
        help="Ask in a batch, at half the price. The command waits for the answers, up to a day; "
        "if it is stopped, run it again.",
    ),
    strict_families: bool = Option(
        False, "--strict-families", help="Refuse a judge of the same model family as the agent."
    ),
    allow_unlocked: bool = Option(
        False,
        "--allow-unlocked",
        help="Judge evaluation sets even under rubrics that are not locked.",
    ),
    drift: int | None = Option(
        None,
        min=20,
        metavar="N",
        help="Ask again about N fixed runs, to see whether the answers of a judge have shifted.",
    ),
    bias: int | None = Option(
        None,
        min=20,
        metavar="N",
        help="Ask again about N judged runs, each time with one change: every text repeated, the "
        "rubric's answers reversed, or its examples reversed.",
    ),
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Judge runs with models; this costs money.

    Judges answer independently and must cite steps. Answered questions are not asked again, so you
    can run a stopped command again to continue. --again judges the runs once more and keeps the old
    verdicts; a question that did not change is answered from the ledger (the kept replies) and
    costs nothing. To see the verdicts, use stepscope report, agree and show. The exit code is 5 if
    the budget ran out, and 4 if no judge answered.

    Example: stepscope judge --judge anthropic/claude-sonnet-4-5 --judge openai/gpt-5 --dry-run

    Example: stepscope judge --again --rubric axes --judge openai/gpt-5.1
    """
    import secrets

    from msgspec.structs import replace

    from stepscope.api import RejudgeResult
    from stepscope.judges.judgement import JudgingOptions

    with options.open_existing(store, load_judge_settings(offline)) as notebook:
        chosen = combine_run_filter(notebook, runs, where)
        if propose_goals is not None:
            return _write_goals(notebook, propose_goals, chosen, since)
        repeats = again and show_prompt is None
        judges = judge or []
        if not judges and not repeats:
            raise UsageError(
                "name a judge: --judge PROVIDER/MODEL, such as --judge openai/gpt-5; "
                "stepscope score runs the free rules"
            )
        how = JudgingOptions(
            repeats=repeat,
            mode=mode,
            goals=goals,
            sample=sample,
            canaries=canaries,
            send_media=send_media,
            tools=tools,
            workspace=workspace,
            batch=batch,
            strict_families=strict_families,
            allow_unlocked=allow_unlocked,
            again=again,
        )
        each = ("on", "off") if narration == "both" else (narration,)
        plans = [replace(how, narration=one) for one in each]
        rubrics = rubric or ["axes"]
        if n := bias or drift:
            from stepscope.api.rubrics import choose_fixed_runs
            from stepscope.model.records import CHANGES

            given = {"again": again, "sample": sample, "narration": len(plans) > 1}
            given |= {"drift": drift if bias else None, "repeat": repeat > 1}
            options.refuse_given(given, "chooses runs or questions; --drift and --bias fix them")
            plans = choose_fixed_runs(
                notebook.store,
                notebook.settings,
                rubrics,
                judges=judges,
                n=n,
                how=plans[0],
                changes=CHANGES if bias else (),
            )
        if show_prompt is not None:
            asked = partial(notebook.judge_requests, rubrics, judges=judges, run=show_prompt)
            shown = [request for one in plans for request in asked(how=one)]
            if not shown:
                why = f"stepscope judge {shlex.quote(show_prompt)} --dry-run says why"
                raise UsageError(f"nothing would be sent about {show_prompt!r}; {why}")
            return _print_all(shown, as_json=as_json)
        if dry_run:
            price = partial(notebook.judge_cost, rubrics, judges=judges, where=chosen, since=since)
            with terminal.show_progress("planning"):
                costs = [price(how=one, budget_usd=budget, again=again) for one in plans]
            return _print_all(costs, as_json=as_json)
        try:
            shared = budget_name or secrets.token_hex(16)
            found: list[JudgingResult | RejudgeResult] = []
            done: list[JudgingResult] = []
            for how in plans:
                ask = _judge_again if repeats else judge_within_budget
                result = ask(
                    notebook,
                    judges,
                    rubrics,
                    where=chosen,
                    since=since,
                    how=how,
                    budget_usd=budget,
                    budget=shared,
                )
                found.append(result)
                done.append(result.judged if isinstance(result, RejudgeResult) else result)
                if done[-1].ran.stopped:
                    break
        except ConfigError as e:
            if not as_json:
                _what_rules_found(notebook, chosen)
            raise ConfigError(f"nothing was sent: {e}") from e
        _print_all(found, as_json=as_json)
        acknowledge_calls(notebook, done)
        if not as_json:
            _tell_findings(notebook, notebook.judge_findings(rubrics, where=chosen, since=since))
        return exit_code_of_judging(done)


def _tell_findings(notebook: Notebook, faults: Sequence[JudgeFinding]) -> None:
    """Print what judges found, and the first run to look at whose name can be typed."""
    for line in [str(one) for one in faults if one.judged]:
        terminal.print_text(visible_line(safety.scrub_message(line)))
    names = [one.first for one in faults if one.faulted]
    worst = next((one for one in names if visible_line(safety.scrub_message(one)) == one), "")
    hint = f"stepscope show {shlex.quote(worst)}" if worst else "stepscope report"
    terminal.print_hint(hint, Path(notebook.store.path))


def _judge_again(
    notebook: Notebook, judges: Sequence[str], rubrics: Sequence[str], **asked: Any
) -> RejudgeResult:
    """Judge what was judged before; return what was done, and what turned."""
    with terminal.show_progress("judging") as step:
        return notebook.rejudge(
            rubrics,
            judges=judges,
            progress=lambda at, usd: step(at, 0),
            stopping=say_stopping,
            **asked,
        )


def _print_all(found: Sequence[object], *, as_json: bool) -> int:
    if as_json:
        terminal.print_json(found)
    else:
        terminal.print_text("\n".join(map(str, found)))
    return 0


def judge_within_budget(
    notebook: Notebook,
    judges: Sequence[str],
    rubrics: Sequence[str],
    *,
    where: str | None,
    since: str | None = None,
    how: JudgingOptions | None = None,
    budget_usd: float | None,
    budget: str = "",
) -> JudgingResult:
    """Judge once, after saying what it may cost; return what was done."""
    expected = notebook.judge_cost(
        rubrics, judges=judges, where=where, since=since, how=how, budget_usd=budget_usd
    )
    terminal.print_note(f"asking {', '.join(judges)}: {expected.line()}")
    with terminal.show_progress("judging") as step:
        return notebook.judge(
            rubrics,
            judges=judges,
            where=where,
            since=since,
            how=how,
            budget_usd=budget_usd,
            budget=budget,
            progress=lambda at, usd: step(at, 0),
            stopping=say_stopping,
        )


def exit_code_of_judging(done: Sequence[JudgingResult]) -> int:
    """Return the exit code of what was done."""
    if done[-1].ran.stopped:
        return STOPPED
    if any(one.ran.failed.get("budget") for one in done):
        return BUDGET
    return 0 if any(one.ran.records for one in done) else options.UNMEASURED


def acknowledge_calls(notebook: Notebook, done: Sequence[JudgingResult]) -> None:
    """Note that calls of unknown outcome were printed; what was not is printed by the next run."""
    sys.stdout.flush()
    notebook.ledger.acknowledge(call for one in done for call in one.ran.unknown)


def say_stopping() -> None:
    """Say that calls in flight are waited for."""
    terminal.print_note("stopping: waiting for calls in flight; press Ctrl-C again to exit at once")


def _what_rules_found(notebook: Notebook, where: str | None) -> None:
    """Print what the evidence judge says: it needs no key, and is one family of the panel."""
    from stepscope.report.render.text import lay_out_table
    from stepscope.report.views.profile import tabulate_axes

    with terminal.show_progress("scoring runs") as step:
        notebook.score(where=where, progress=step)
    table = tabulate_axes(notebook.report(where=where).value.profiles)
    lines = [] if table is None else lay_out_table(table, terminal.terminal_width())
    terminal.print_text("\n".join(["Findings of the rules, without a model:", "", *lines]))


def _write_goals(notebook: Notebook, path: Path, where: str | None, since: str | None) -> int:
    from stepscope.safety.limits import open_output

    if path.exists():
        raise UsageError(f"{path} already exists; name another file, or move it")
    draft = notebook.propose_goals(where=where, since=since)
    with open_output(path) as file:
        file.write(draft.text.encode())
    terminal.print_text(
        f"{draft}\nRead {path}, edit it, set confirmed = true, then:\n"
        f"  stepscope judge --rubric no_look --goals {path} --judge PROVIDER/MODEL"
    )
    return 0 if draft.tasks else options.UNMEASURED


def load_judge_settings(offline: bool) -> Settings:
    """Return the settings that hold, with what the command line says of the network."""
    import msgspec

    from stepscope.settings import load_settings

    held = load_settings()
    return msgspec.structs.replace(held, offline=True) if offline else held


def combine_run_filter(
    notebook: Notebook, runs: Sequence[str] | None, where: str | None
) -> str | None:
    """Return the filter of the runs that were named, and of `--where`."""
    if not runs:
        return where
    ids = ", ".join(f"'{notebook.store.find(run)}'" for run in runs)
    return f"id in ({ids})" + (f" and ({where})" if where else "")


OneRubric = Annotated[str, Argument(metavar="NAME", help="A rubric, or your own file.")]


def list_(
    names: list[str] | None = Argument(
        None, metavar="[NAME]...", help="Rubrics, sets of rubrics, or files."
    ),
    *,
    as_json: options.Json = False,
) -> None:
    """List rubrics, and whether they are locked.

    The list also names the runs and test sets on which each rubric was tried.

    Example: stepscope rubric list axes
    """
    from stepscope.api.rubrics import list_rubrics

    _print_all(list_rubrics(names or ()), as_json=as_json)


def lock(
    names: list[str] = Argument(..., metavar="NAME...", help="Rubrics, sets of rubrics, or files."),
    *,
    where: options.WhereText = None,
    store: options.StorePath = None,
    as_json: options.Json = False,
) -> None:
    """Lock rubrics as they are, before an evaluation set is judged.

    The command writes the file rubrics.lock. It contains hashes of each rubric and of its prompt
    template. If there is a store, the file also contains the judges with their snapshots, the
    development runs (limit them with --where) and the agreement reached. Commit the file. Only
    locked rubrics may judge an evaluation set: held-out cases of a frozen corpus, or runs that have
    a tag named "evaluation".

    Example: stepscope rubric lock axes --where "tag.set = 'tuning'"
    """
    from stepscope.api.rubrics import lock_rubrics
    from stepscope.settings import load_settings
    from stepscope.store.where import combine_filters
    from stepscope.values import format_count

    settings = load_settings()
    if store is None and where is None and not Path(settings.store).exists():
        locked = lock_rubrics(None, settings, names)
    else:
        with options.open_existing(store, settings) as notebook:
            locked = lock_rubrics(notebook.store, settings, names, combine_filters(where))
    if as_json:
        return terminal.print_json(locked)
    lines = [
        f"locked {x.name}, version {x.version}; tuned on {format_count(len(x.development), 'run')}"
        for x in locked
    ]
    terminal.print_text("\n".join([*lines, "rubrics.lock written; commit it"]))


def history(
    name: OneRubric,
    *,
    text: list[str] | None = Option(
        None, metavar="FILE", help="The file of another version, for the diff; repeatable."
    ),
    where: options.WhereText = None,
    store: options.StorePath = None,
    as_json: options.Json = False,
) -> int:
    """Show how answers changed between versions of a rubric.

    For every pair of versions and each judge, the command prints: labels, confidences and cited
    steps on the same runs (for two runs or more, also shares and means); whether the judges agree;
    and the diff of the two texts.

    Example: stepscope rubric history rubrics/tone.md --text rubrics/tone-1.md
    """
    from stepscope.api.rubrics import read_history
    from stepscope.store.where import combine_filters

    with options.open_existing(store) as notebook:
        found = read_history(notebook.store, name, text or (), combine_filters(where))
    terminal.print_result(found, as_json=as_json)
    return 0 if found.pairs else options.UNMEASURED


def adopt(
    name: OneRubric,
    *,
    old: str = Option(..., metavar="JUDGE[@SNAPSHOT]", help="The judge in use (the old judge)."),
    new: str = Option(
        ..., metavar="JUDGE[@SNAPSHOT]", help="The judge to replace it with (the new judge)."
    ),
    old_version: str | None = Option(
        None, metavar="V", help="The rubric version that the old judge used."
    ),
    new_version: str | None = Option(
        None, metavar="V", help="The rubric version that the new judge used."
    ),
    margin: float = Option(
        0.05,
        metavar="SHARE",
        help="How far the new judge's share of right verdicts may be below the old one's.",
    ),
    where: options.WhereText = None,
    seed: options.Seed = None,
    store: options.StorePath = None,
    as_json: options.Json = False,
) -> int:
    """Test whether another judge may replace the one in use.

    The other judge can also be another snapshot or rubric version of the same judge. Both must have
    judged runs that people labelled. The command prints how many labels are needed, and then the
    decision: adopt, refuse (exit code 3) or undecided (exit code 4). You may repeat the test after
    every label. Labels of runs on which the rubric was tuned are left out.

    Example: stepscope rubric adopt axes.termination --old openai/gpt-5 --new openai/gpt-5.1
    """
    from stepscope.api.rubrics import adopt_judge
    from stepscope.store.where import combine_filters

    with options.open_existing(store) as notebook:
        found = adopt_judge(
            notebook.store,
            name,
            judges=(old, new),
            versions=(old_version, new_version),
            margin=margin,
            where=combine_filters(where),
            seed=notebook.settings.seed if seed is None else seed,
        )
    terminal.print_result(found, as_json=as_json)
    codes = {"pass": 0, "fail": options.GATE_FAILED, "undecided": options.UNMEASURED}
    return codes[found.decision.outcome]
