from __future__ import annotations

import pytest

from stepscope.backends.client import Client, TooLarge, read_access
from stepscope.backends.types import PullNotes, PullQuery, assemble_runs, iter_pages, list_objects
from stepscope.errors import EnvironmentFault
from stepscope.formats.spans.span import RawSpan
from stepscope.model import Json, Trajectory
from stepscope.safety.json import Decoded
from stepscope.safety.limits import Limits


def asked() -> PullQuery:
    client = Client(read_access("phoenix", {}), Limits())
    return PullQuery(client, "shop", "phoenix:shop", None, None, Limits(), PullNotes())


def span(own: str, parent: str | None, start: int, trace: str = "t") -> RawSpan:
    return RawSpan(trace_id=trace, span_id=own, parent_id=parent, name=own, start_ns=start)


def test_spans_of_any_order_make_the_same_runs_and_missing_parents_are_counted() -> None:
    listed = [span("c", "gone", 3), span("b", "a", 2), span("a", None, 1), span("d", "a", 4, "u")]
    one, other = asked(), asked()
    there = [found for found in assemble_runs(listed, one, format="phoenix")]
    back = [found for found in assemble_runs(listed[::-1], other, format="phoenix")]
    assert there == back
    assert [run.name for run in there if isinstance(run, Trajectory)] == ["t", "u"]
    assert one.told.withheld == {"spans referenced and not returned": 2}


@pytest.mark.parametrize("value", [None, [], {"data": {}}, {"data": [1]}, "x"])
def test_what_is_no_list_of_objects_is_no_backend(value: Json) -> None:
    with pytest.raises(EnvironmentFault, match="is PHOENIX_HOST its address"):
        list_objects(Decoded(value), "data", asked())


def test_a_backend_that_gives_the_same_page_again_is_left() -> None:
    sent: list[tuple[int, dict[str, str]]] = []

    def ask(length: int, cursor: dict[str, str]) -> Decoded:
        sent.append((length, cursor))
        return Decoded({"about": {"next": "a"}})

    pages = iter_pages(ask, 5, asked(), "about", "next", name="after")
    assert (next(pages), next(pages)) == (Decoded({"about": {"next": "a"}}),) * 2
    with pytest.raises(EnvironmentFault, match="the same page twice"):
        next(pages)
    assert sent == [(5, {}), (5, {"after": "a"})]


@pytest.mark.parametrize("end", [{"next": ""}, {"next": None}, {}, [], None])
def test_a_page_without_a_cursor_is_the_last(end: Json) -> None:
    assert [*iter_pages(lambda *_: Decoded(end), 5, asked(), "next")] == [Decoded(end)]


def test_a_page_that_is_too_large_is_asked_for_in_parts() -> None:
    def ask(length: int, cursor: dict[str, str]) -> Decoded:
        if length > most:
            raise TooLarge("over the cap")
        return Decoded({"next": "" if cursor else "b", "length": length})

    most = 2
    pages = iter_pages(ask, 100, asked(), "next")
    assert [page.value["length"] for page in pages] == [1, 1]
    most = 0
    with pytest.raises(TooLarge):
        next(iter_pages(ask, 100, asked(), "next"))
