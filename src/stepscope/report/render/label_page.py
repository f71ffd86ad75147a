"""The page on which people label: one question about one exchange, and as much around it as needed.

Nothing that anybody said about the run stands on it before the answer, and no outcome; a session
that is not blind shows the judges' verdicts, and its labels say so. What is shown of a step is what
was recorded, without the sentences and marks of other pages, which are made by rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from markupsafe import Markup

from stepscope.calibrate.judges import describe_labels
from stepscope.labels.session import AskedItem, LabelSession
from stepscope.model import Step, Trajectory
from stepscope.report import words
from stepscope.report.render.pages import Page, lay_out
from stepscope.report.render.run_page import WHO, lay_out_data, lay_out_part, lay_out_results
from stepscope.safety.text import visible_line
from stepscope.values import format_count

# Steps before the one in question: at first, and after one and two presses of the key for more.
BEFORE = (2, 20, 400)
# Steps of a whole run that are shown at first, from its beginning and from its end.
HEAD, TAIL = 10, 40
# Characters of one text of a step.
CLIP = 20_000
# What was opened, as labels keep it: by how often more was asked for.
EXPANDED = ("", "before", "run")


def choose_steps(run: Trajectory, step: int | None, wide: int) -> tuple[list[int], set[int]]:
    """Return the steps to show, and which of them the question is about."""
    count = len(run.steps)
    if step is None:
        most = BEFORE[2] if wide else HEAD + TAIL
        if count <= most:
            return list(range(count)), set()
        return [*range(HEAD), *range(count - (most - HEAD), count)], set()
    end = step + 1
    while end < count and run.steps[end].actor == "environment":
        end += 1
    first = max(step - BEFORE[wide], 0)
    last = count if wide == len(BEFORE) - 1 else end
    return list(range(first, min(last, step + BEFORE[2]))), set(range(step, end))


def lay_out_label(
    session: LabelSession,
    asked: AskedItem,
    run: Trajectory,
    *,
    wide: int = 0,  # how often more was asked for
    verdicts: Iterable[str] = (),  # what judges said; of a session that is not blind
) -> Markup:
    """Return the question that is asked now, with the steps around it."""
    question = session.question
    shown, about = choose_steps(run, asked.step, wide)
    opening = next((step for step in run.steps if step.actor == "user"), None)
    steps = []
    if opening is not None and opening.index not in shown:
        steps.append(_step(opening, focus=False))
    before = -1 if opening is None or opening.index in shown else opening.index
    for index in shown:
        if index > before + 1:
            steps.append(lay_out("label_gap", said=format_count(index - before - 1, "step")))
        steps.append(_step(run.steps[index], focus=index in about))
        before = index
    left = len(run.steps) - before - 1
    if left and asked.step is None:
        steps.append(lay_out("label_gap", said=format_count(left, "step")))
    more = wide < len(BEFORE) - 1 and len(shown) < len(run.steps)
    more = more and (asked.step is not None or not wide)
    return lay_out(
        "label", question=question, asked=asked, steps=steps, wide=wide, more=more,
        opened=[one for one in EXPANDED[1 : wide + 1]], verdicts=list(map(visible_line, verdicts)),
        answered=session.answered, size=session.size, done=_share(session),
        place=_about(session, asked), summary=session.summarise(), decide=_decide(session),
    )  # fmt: skip


def _decide(session: LabelSession) -> list[str]:
    """Return what the labels can decide so far, as `stepscope calibrate labels` says it."""
    labels = [] if session.differing else session.labels()
    return [one.strip() for one in describe_labels(labels)][1:]


def _about(session: LabelSession, asked: AskedItem) -> str:
    """Return what is labelled, under the bar of progress."""
    kind = f"norming round {session.draw.round}" if session.draw.round else session.draw.queue
    said = [session.question.name, f"{kind.replace('_', ' ')} queue"]
    hidden = "answers shown without names" if session.differing else "blind"
    said.append(hidden if session.blind else "not blind: verdicts are shown")
    if asked.left:
        said.append(f"at most {format_count(asked.left, 'question')} about this run")
    return " · ".join(said)


def _share(session: LabelSession) -> int:
    return 100 if not session.size else min(100 * session.answered // session.size, 100)


def _step(step: Step, *, focus: bool) -> Markup:
    parts = [lay_out_part(part, CLIP, step) for part in step.parts]
    return lay_out(
        "label_step", number=step.index, who=step.agent or WHO[step.actor], focus=focus,
        parts=parts, calls=list(_calls(step)),
        results=list(lay_out_results(step, step.index, None, CLIP)) if step.results else [],
        error=step.error or "",
    )  # fmt: skip


def _calls(step: Step) -> Iterator[Markup]:
    for call in step.calls:
        given = (call.raw or "") if call.arguments is None else words.format_json(call.arguments)
        yield lay_out(
            "call", call=call, words=visible_line(words.describe_call(call, None)),
            arguments=lay_out_data(given, CLIP), expected=[], same=0, answer_step=None,
            answer_href=None,
        )  # fmt: skip


def lay_out_end(session: LabelSession, names: dict[str, str]) -> Markup:
    """Return what there is to say when nothing is left: the figures, and what others said."""
    gone = [f"{n} whose run is {why}" for why, n in sorted(session.gone.items())]
    said = session.compare()
    rows, line = [], ""
    if said is not None:
        other, n, same, differ = said
        line = f"{other} answered the same {format_count(n, 'item')}: {same} alike."
        rows = [
            (names.get(run, run) + ("" if step is None else f", step {step}"), own, theirs)
            for run, step, own, theirs in differ
        ]
    return lay_out(
        "label_end", answered=session.answered, size=session.size, done=_share(session),
        gone=gone, summary=session.summarise(), decide=_decide(session), line=line, rows=rows,
        other=said[0] if said is not None else "", annotator=session.annotator,
        waiting=bool(session.draw.overlap) and said is None,
    )  # fmt: skip


def make_label_page(body: Markup) -> Page:
    """Return the page that holds a question, or the end."""
    return Page(name="label", title="Label", body=lay_out("label_page", body=body))
