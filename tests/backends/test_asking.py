from __future__ import annotations

import pytest

from stepscope.backends.client import Client, read_access
from stepscope.backends.types import PullNotes, PullQuery, assemble_runs, list_objects, next_cursor
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
    seen = set[str]()
    assert next_cursor(Decoded({"next": "a"}), "next", seen, asked()) == "a"
    assert next_cursor(Decoded({"next": ""}), "next", seen, asked()) is None
    with pytest.raises(EnvironmentFault, match="the same page twice"):
        next_cursor(Decoded({"next": "a"}), "next", seen, asked())
