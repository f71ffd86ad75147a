"""`stepscope label`: draw a queue, or go on with one, and open its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from typer import Option

from stepscope.cli import options, terminal
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api.notebook import Notebook
    from stepscope.labels.drawing import QueueDraw
    from stepscope.labels.questions import LabelQuestion
    from stepscope.store.where import Where

# `model.Queue` without what comes from files.
QueueName = Literal[
    "uniform",
    "active",
    "shape",
    "unresolved",
    "disagreement",
    "look_first",
    "norming",
    "adjudication",
]
_ASKED = "outcome, quality.overall, shape, decisive_step, a rubric of judges, or your own .md file."
# Items that both annotators are asked, of a queue of this size or larger.
OVERLAP = 20
SAMPLE = 60


def label(
    rubric: str = Option("outcome", metavar="NAME", help=_ASKED),
    *,
    annotator: str | None = Option(
        None, metavar="NAME", help="The person who labels. Default: your user name."
    ),
    queue: QueueName = Option("uniform", help="How items are chosen."),
    sample: int | None = Option(
        None, min=1, help=f"How many items to label. Default: {SAMPLE}, or all if fewer."
    ),
    overlap: int | None = Option(
        None, min=0, help=f"How many items every annotator labels. Default: {OVERLAP}."
    ),
    steps: bool = Option(
        False, "--steps", help="Label single steps on an axis, instead of whole runs."
    ),
    norming: int = Option(
        1, "--round", min=1, metavar="N", help="The round of a norming (practice) queue."
    ),
    new: bool = Option(False, "--new", help="Draw another queue; the old one is kept."),
    show_verdicts: bool = Option(
        False, "--show-verdicts", help="Show what judges said; the labels are then no longer blind."
    ),
    port: int | None = Option(None, min=1, max=65535, help="The port. Default: a free one."),
    no_open: bool = Option(False, "--no-open", help="Do not open the browser."),
    draw_only: bool = Option(
        False, "--draw", help="Choose the items of the queue, then stop; serve no page."
    ),
    status: bool = Option(False, "--status", help="List the queues, then stop; serve no page."),
    where: options.WhereText = None,
    since: options.Since = None,
    seed: options.Seed = None,
    store: options.StorePath = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> int:
    """Label runs or steps in the browser, by keyboard.

    One key press gives the answer, saves it to disk and moves to the next question. Run the same
    command again to continue an unfinished queue. With another --annotator, a second person labels
    other items of the same queue, and also the --overlap items, which everybody labels. When both
    people are done, --queue adjudication asks once more about the items that they answered
    differently.

    Example: stepscope label --rubric outcome --sample 20 --annotator ann
    """
    from stepscope.settings import load_settings

    settings = load_settings()
    who = _user_name() if annotator is None else annotator
    if not who.strip() or who != who.strip():
        raise UsageError(f"--annotator {who!r}: expected a name, without spaces around it")
    if status:
        with options.open_existing(store, settings) as notebook:
            _print_status(notebook, as_json=as_json)
        return 0
    from stepscope.labels.drawing import list_differing
    from stepscope.labels.questions import load_question
    from stepscope.store.where import combine_filters

    question = load_question(rubric, steps=steps)
    with options.open_existing(store, settings) as notebook:
        decisive = question.unit == "decisive" and where is None
        chosen = combine_filters("outcome = 'fail'" if decisive else where, since)
        if queue == "adjudication" and question.unit == "decisive":
            raise UsageError("--queue adjudication: halving finds a decisive step, nobody chooses")
        if queue == "adjudication" and who in list_differing(notebook.store, question)[1]:
            raise UsageError(f"{who} has not answered everything shared, and would see the answers")
        number, draw = _open_queue(
            notebook,
            question,
            queue,
            sample=sample,
            overlap=overlap,
            where=chosen,
            new=new,
            norming=norming if queue == "norming" else 0,
            seed=seed,
        )
        path = notebook.store.path
    shown = [
        f"Queue {number}: {draw.size:,} of {draw.population:,} items, {draw.overlap} of them for "
        f"every annotator; {draw.queue.replace('_', ' ')}. Annotator: {who}",
        *([draw.remark] if draw.remark else []),
    ]
    if draw_only:
        terminal.print_json(draw) if as_json else terminal.print_text("\n".join(shown))
        return 0
    from urllib.parse import urlencode

    from stepscope.cli.report import serve_app
    from stepscope.web.app import new_token
    from stepscope.web.guard import LOOPBACK
    from stepscope.web.label import LabelTask, make_label_app
    from stepscope.web.serve import open_socket, socket_url

    task = LabelTask(path, rubric, steps, number, who, not show_verdicts)
    listening = open_socket(LOOPBACK, port or 0)
    token = new_token()
    app = make_label_app(task, token=token, port=listening.getsockname()[1], settings=settings)
    address = f"{socket_url(listening)}/?{urlencode({'token': token})}"
    told = {"url": address, "queue": number, "annotator": who, "store": path}
    said = "\n".join([*shown, f"Label at\n  {address}\nCtrl-C ends."])
    serve_app(app, listening, address, told, said, no_open=no_open, as_json=as_json)
    return 0


def _open_queue(
    notebook: Notebook,
    question: LabelQuestion,
    queue: QueueName,
    *,
    sample: int | None,
    overlap: int | None,
    where: Where | None,
    new: bool,
    norming: int,
    seed: int | None,
) -> tuple[int, QueueDraw]:
    """Return the number of the queue that goes on, or of a new one, and what it was drawn as."""
    from stepscope.api.labelling import draw_labels
    from stepscope.labels.drawing import find_queue, read_draws

    number = find_queue(notebook.store, question, queue, where=where, norming=norming)
    begun = number is not None and not new
    if number is None or new:
        number = draw_labels(
            notebook,
            question,
            queue=queue,
            n=sample or SAMPLE,
            where=where,
            norming=norming,
            seed=seed,
            overlap=OVERLAP if overlap is None else overlap,
        )
    draw = read_draws(notebook.store)[number]
    if begun and (sample not in (None, draw.size) or overlap not in (None, draw.overlap)):
        raise UsageError(
            f"queue {number} of {draw.size} items, {draw.overlap} for every annotator, is "
            "begun; leave --sample and --overlap out to go on, or draw another with --new"
        )
    return number, draw


def _user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError) as e:  # no such user on this machine
        raise UsageError("who labels? say --annotator NAME") from e


def _print_status(notebook: Notebook, *, as_json: bool) -> None:
    from stepscope.api.labelling import list_queues

    found = list_queues(notebook.store)
    if as_json:
        return terminal.print_json(found)
    for one in found:
        names = ", ".join(f"{who} {n:,}" for who, n in one["labels"].items()) or "nobody yet"
        turn = f" round {one['round']}" if one["round"] else ""
        terminal.print_text(
            f"queue {one['number']}  {one['measure']}  {one['queue'].replace('_', ' ')}{turn}  "
            f"{one['size']:,} of {one['population']:,} items, {one['overlap']} shared  "
            f"labels: {names}"
        )
    return None if found else terminal.print_text("no queue was drawn; stepscope label draws one")
