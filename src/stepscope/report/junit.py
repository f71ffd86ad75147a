"""A report as JUnit XML for CI: one test case a run, and one for each figure of the vector.

A failing run is a failure with its suspects as evidence; a run whose outcome nobody recorded is
skipped, and so is a figure that was not measured: absence is neither a pass nor a fail. A figure
never fails here (that is a gate's business); its value stands in its output.
Format: the JUnit schema that Jenkins, GitHub and GitLab read (testsuites, testsuite, testcase).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from stepscope.report import lines
from stepscope.report.types import LookFirst, Profile, Report
from stepscope.safety.text import visible, visible_line
from stepscope.values import Unmeasured

# What XML 1.0 cannot hold even as a character reference (section 2.2).
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """Return the report as JUnit XML; build it with `look_first=None` to have every run in it."""
    suites = [suite("runs", [_run(run) for run in report.look_first])]
    suites += [
        suite(f"figures {profile.title}".strip(), list(_figures(profile)))
        for profile in report.profiles
    ]
    body = "\n".join(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{body}\n</testsuites>\n'


def suite(name: str, cases: Sequence[str]) -> str:
    """Return a test suite of these cases, each written out; failures and the like are counted."""
    failures, errors, skipped = (
        sum(f"<{kind} message=" in case for case in cases)
        for kind in ("failure", "error", "skipped")
    )
    head = f'<testsuite name={attribute(name)} tests="{len(cases)}" failures="{failures}"'
    return "\n".join([f'{head} errors="{errors}" skipped="{skipped}">', *cases, "</testsuite>"])


def _run(run: LookFirst) -> str:
    head = f'<testcase classname="runs" name={attribute(run.name)}>'
    said = "\n".join(f"step {s.where}: {visible_line(s.evidence)}" for s in run.suspects)
    said = (said or run.verdict) + f"\n{visible_line(run.command)}"
    if run.outcome == "fail":
        first = run.suspects[0].evidence if run.suspects else run.verdict
        body = f"<failure message={attribute(first)}>{text(said)}</failure>"
    elif run.outcome == "unknown":
        body = '<skipped message="no outcome was recorded for this run"/>'
    else:
        body = f"<system-out>{text(said)}</system-out>" if run.suspects else ""
    return f"{head}{body}</testcase>"


def _figures(profile: Profile) -> Iterator[str]:
    for key, figure in profile.figures.items():
        head = f"<testcase classname={attribute(profile.title or 'all')} name={attribute(key)}>"
        if isinstance(figure, Unmeasured):
            body = f"<skipped message={attribute(f'{figure.kind}: {figure.reason}')}/>"
        else:
            item = lines.line(key, figure, note=profile.notes.get(key, ""))
            said = f"{item.value} {item.interval} n={item.n}, unmeasured {item.unmeasured}"
            body = f"<system-out>{text(said)}</system-out>"
        yield f"{head}{body}</testcase>"


def text(said: str) -> str:
    """Return what XML can hold of a text, line by line visible."""
    return escape(_ILLEGAL.sub("\ufffd", visible(said)))


def attribute(said: str) -> str:
    """Return a text on one line as a quoted attribute."""
    return quoteattr(_ILLEGAL.sub("\ufffd", visible_line(said)))
