"""Check that a format plugin keeps what formats promise, on its own files.

    from stepscope.testing import check_format
    check_format("acme.py:FORMAT", "tests/runs.log")

In pytest or anywhere: what is broken is one `FormatFault` with a line for every rule, saying where
and what to do. The rules are the functions of `format_rules` and `format_spoils`; here stand those
about telling formats apart. Nothing is written and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from stepscope import registry
from stepscope.errors import UsageError
from stepscope.formats.detect import HEAD_BYTES, MARGIN, SURE
from stepscope.model import Format
from stepscope.safety.text import visible_line
from stepscope.testing import format_rules as rules
from stepscope.testing import format_spoils as spoils
from stepscope.testing.format_subject import Subject

SAMPLES = Path(__file__).with_name("samples")
# As sure as a format may be of a file of another.
_UNSURE = 0.2
# Lines of one rule that are told; the rest is counted.
_TOLD = 3

Rule = Callable[[Subject], Iterator[str]]


class FormatFault(AssertionError):
    """A format does not keep what formats promise; one line for every rule that is broken."""


class FormatChecked(NamedTuple):
    """What was checked: print it."""

    format: str
    files: int
    runs: int
    rules: int

    def __str__(self) -> str:
        """One line."""
        return f"{self.format}: {self.rules} rules hold on {self.files} files with {self.runs} runs"


def check_format(format: Format | str, *files: str | Path) -> FormatChecked:
    """Check a format on files of its own, at least one of them with a run in it.

    Args:
        format: the format itself, its installed name, or `FILE.py:NAME`.
        files: files that it reads; small ones do, since each is read some hundred times.

    Raises:
        FormatFault: rules are broken; the message has a line for each.
        UsageError: no file is given.
        ConfigError: no such format.
    """
    form = registry.format(format) if isinstance(format, str) else format
    if not files:
        raise UsageError(f"check_format({form.name!r}) needs a file that the format reads")
    subjects = [Subject(form, str(path), Path(path).read_bytes()) for path in files]
    faults = [line for subject in subjects for rule in RULES for line in _broken(subject, rule)]
    if faults:
        raise FormatFault("\n".join(faults))
    return FormatChecked(
        form.name, len(subjects), sum([len(subject.runs) for subject in subjects]), len(RULES)
    )


def _broken(subject: Subject, rule: Rule) -> Iterator[str]:
    """Yield the first ways in which a file breaks a rule, each as one line."""
    found = rule(subject)
    for line in islice(found, _TOLD):
        place = f"{subject.form.name}, {subject.uri}"
        yield visible_line(f"{place}: {rule.__name__}: {line}")
    more = sum(1 for _ in found)
    if more:
        yield visible_line(f"{subject.form.name}, {subject.uri}: {rule.__name__}: {more} more")


def knows_its_own(subject: Subject) -> Iterator[str]:
    """The first bytes of its own files make it sure, and surer than any installed format."""
    head = subject.content[:HEAD_BYTES]
    sure = subject.form.sniff(head)
    if not SURE <= sure <= 1:
        yield f"sniff gives {sure!r} for its own file; expected {SURE} to 1"
        return
    if subject.form.sniff(head) != sure:
        yield "sniff gives another answer when it is asked again"
    others = [form for form in registry.formats() if form.name != subject.form.name]
    for other in others:
        theirs = other.sniff(head)
        if theirs > sure - MARGIN:
            yield f"{other.name} is as sure of the file: {theirs} against {sure}"


def leaves_others_alone(subject: Subject) -> Iterator[str]:
    """It is not sure of files of other formats."""
    for sample in samples():
        if sample.stem == subject.form.name:
            continue
        sure = subject.form.sniff(sample.read_bytes()[:HEAD_BYTES])
        if sure > _UNSURE:
            yield f"sniff gives {sure} for a file of {sample.stem}; look at keys that it lacks"


def samples() -> list[Path]:
    """Return the small files that come with this package, one of each format."""
    return sorted(path for path in SAMPLES.iterdir() if path.is_file())


RULES: tuple[Rule, ...] = (
    knows_its_own,
    leaves_others_alone,
    rules.reads_its_own,
    rules.yields_typed,
    rules.same_every_time,
    rules.name_is_nothing,
    rules.key_order_is_nothing,
    rules.ids_are_content,
    rules.steps_are_numbered,
    rules.calls_and_results_are_told,
    rules.beliefs_have_sources,
    rules.counts_are_counts,
    rules.absence_is_none,
    rules.comes_back_from_ours,
    spoils.unknown_keys_are_kept,
    spoils.bad_records_are_counted,
    spoils.cut_files_are_told,
    spoils.hostile_bytes_are_told,
    spoils.hostile_values_are_told,
    spoils.lines_are_streamed,
)
