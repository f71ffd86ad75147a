"""The page on which people label: one question about one exchange, and as much around it as needed.

Nothing that anybody said about the run stands on it before the answer, and no outcome; a session
that is not blind shows the judges' verdicts, and its labels say so. What is shown of a step is what
was recorded, without the sentences and marks of other pages, which are made by rules.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from stepscope.calibrate.judges import describe_labels
from stepscope.labels.session import AskedItem, LabelSession
from stepscope.model import Step, Trajectory
from stepscope.report import words
from stepscope.report.render.pages import lay_out
from stepscope.report.render.run_page import WHO, lay_out_call, lay_out_part, lay_out_results
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
    said, opened = list(map(visible_line, verdicts)), list(EXPANDED[1 : wide + 1])
    told = {"place": _about(session, asked), "verdicts": said, "opened": opened}
    made = {"steps": steps, "wide": wide, "more": more, **_progress(session)}
    return lay_out("label", question, asked, **made, **told)


def _progress(session: LabelSession) -> dict[str, object]:
    """Return how far a session is, and what its labels can decide so far."""
    labels = [] if session.differing else session.labels()
    answered, size = session.answered, session.size
    return {
        "answered": answered,
        "size": size,
        "done": min(100 * answered // size, 100) if size else 100,
        "summary": session.summarise(),
        # As `stepscope calibrate labels` says it.
        "decide": [one.strip() for one in describe_labels(labels)][1:],
    }


def _about(session: LabelSession, asked: AskedItem) -> str:
    """Return what is labelled, under the bar of progress."""
    kind = f"norming round {session.draw.round}" if session.draw.round else session.draw.queue
    said = [session.question.name, f"{kind.replace('_', ' ')} queue"]
    hidden = "answers shown without names" if session.differing else "blind"
    said.append(hidden if session.blind else "not blind: verdicts are shown")
    if asked.left:
        said.append(f"at most {format_count(asked.left, 'question')} about this run")
    return " · ".join(said)


def _step(step: Step, *, focus: bool) -> Markup:
    parts = [lay_out_part(part, CLIP, step) for part in step.parts]
    said = [visible_line(words.describe_call(call)) for call in step.calls]
    calls = [lay_out_call(*each, CLIP) for each in zip(step.calls, said, strict=True)]
    results = list(lay_out_results(step, step.index, None, CLIP)) if step.results else []
    who, error = step.agent or WHO[step.actor], step.error or ""
    return lay_out("label_step", step.index, who, focus, parts, calls, results, error)


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
    waiting, other = bool(session.draw.overlap) and said is None, said[0] if said else ""
    who = {"other": other, "annotator": session.annotator, "waiting": waiting}
    return lay_out("label_end", gone=gone, line=line, rows=rows, **who, **_progress(session))
