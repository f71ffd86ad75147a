"""Stores and parsed pages for tests of the pages: a hostile run, and what a browser would see."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from stepscope.model import (
    Instant,
    Outcome,
    Part,
    Record,
    Source,
    Step,
    ToolCall,
    ToolResult,
    TraceLabel,
    Trajectory,
    Usage,
    Verdict,
    Warn,
)
from stepscope.report.build import build_report
from stepscope.report.render.html import Embed, write_html
from stepscope.report.rows import read_table
from stepscope.report.views.runs import RunListRow, make_run_rows
from stepscope.store import Store
from stepscope.values import Unmeasured

# One text with everything that a page must not take for its own.
HOSTILE = (
    "</script><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>"
    "\"'><svg/onload=alert(3)>{{ 7*7 }}{% raw %}[a](javascript:alert(4))![b](http://evil.example)"
    "<!-- --><style>*{}</style></textarea></title>=cmd|'/c calc'!A1 \x1b[2J\u202e\u2066\x00\u2028"
)
VOID = {"meta", "link", "input", "br", "img", "col", "circle", "path"}


def hostile_run(id: str = "a" * 32, outcome: str = "fail") -> Trajectory:
    bad = HOSTILE
    call = ToolCall(bad, {bad: [bad, {bad: bad}]}, id=bad, raw=bad)
    broken = ToolCall(bad, None, raw=bad, parse_error=bad)
    answer = ToolResult(
        call_id=bad, name=bad, parts=(Part("text", bad),), status="error", error=bad
    )
    moment = Instant(1_000, bad)
    steps = (
        Step(index=0, actor="system", parts=(Part("text", bad),)),
        Step(
            index=1, actor="user", parts=(Part("text", bad), Part("image", media_type=bad, uri=bad))
        ),
        Step(
            index=2,
            actor="agent",
            kind="call",
            parts=(Part("reasoning", bad),),
            calls=(call, broken),
            agent=bad,
            model=bad,
            usage=Usage(input_total=3, output_total=4),
            cost_usd=0.1,
            start=moment,
            end=moment,
            finish_reason=bad,
            error=bad,
            extra={bad: bad},
        ),
        Step(index=3, actor="environment", kind="result", results=(answer,)),
        Step(index=4, actor="agent", parts=(Part("text", bad * 40),)),
    )
    return Trajectory(
        id=id,
        name=f"{bad}/{id[:1]}",
        steps=steps,
        source=Source(format=bad, uri=bad),
        workflow=bad,
        task=bad,
        trial=bad,
        agent=bad,
        agent_version=bad,
        tags={bad: bad},
        termination=bad,
        outcome=Outcome(outcome, "label", None, bad),  # type: ignore[arg-type]
        labels=(
            TraceLabel(kind="decisive_step", step=2, category=bad, reason=bad, annotator=bad),
            TraceLabel(kind="note", reason=bad, annotator=bad),
        ),
        warnings=(Warn(bad, bad, 1),),
        extra={bad: bad},
    )


def hostile_records(run: str) -> list[Record]:
    bad = HOSTILE
    said = [
        Verdict("axes.termination", label="incorrect", step=2, cites=(1, 2), reason=bad),
        Verdict("policy", label=bad, step=3, reason=bad),
        Verdict("localise", 0.7, label=bad, step=2, cites=(2, 3), reason=bad),
    ]
    rules = [Record(trajectory=run, answer=answer, version="1") for answer in said]
    judge = Record(
        trajectory=run,
        answer=Verdict("step_labels", label="ERROR", step=4, reason=bad),
        version="1",
        family=bad,
        judge=bad,
        prompt="p",
    )
    lost = Record(trajectory=run, answer=Unmeasured("error", bad, "grounding"), version="1")
    return [*rules, judge, lost]


def hostile_store() -> Store:
    store = Store.open(":memory:")
    runs = [hostile_run(), hostile_run("b" * 32, "pass")]
    store.put(runs)
    store.append([record for run in runs for record in hostile_records(run.id)])
    return store


def read_runs(store: Store) -> tuple[RunListRow, ...]:
    return make_run_rows(read_table(store, None), store.shown)


def file_of(store: Store, folder: Path, *, embed: Embed = 25) -> str:
    path = folder / "r.html"
    write_html(store, build_report(store), path, embed=embed)
    return path.read_text("utf-8")


@dataclass(slots=True)
class Element:
    tag: str
    attributes: dict[str, str | None]
    text: str = ""


class Seen(HTMLParser):
    """Every element of a document, with the text directly in it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.unbalanced: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1].tag != tag:
            self.unbalanced.append(tag)
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]


def seen(text: str) -> Seen:
    found = Seen()
    found.feed(text)
    found.close()
    return found
