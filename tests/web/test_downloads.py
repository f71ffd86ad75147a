"""What can be taken away is complete, is never a page, and cannot run in a spreadsheet."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import httpx2
import pytest

from stepscope.store import Store
from tests.factories import FAILED, run, user
from tests.web.conftest import Client, opened


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/api/runs.csv", "runs.csv"),
        ("/api/runs.json", "runs.json"),
        ("/api/figures.csv", "figures.csv"),
        ("/api/report.json", "report.json"),
        ("/api/run/9854ff4a", "run.json"),
    ],
)
def test_every_download_is_an_attachment_under_a_name_of_ours(
    inside: httpx2.Client, address: str, name: str
) -> None:
    answer = inside.get(address)
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'


def test_all_chosen_runs_are_in_the_table(inside: httpx2.Client) -> None:
    rows = list(csv.DictReader(io.StringIO(inside.get("/api/runs.csv").text)))
    assert len(rows) == 20
    failed = inside.get("/api/runs.csv", params={"where": "outcome = 'fail'"}).text
    rows = list(csv.DictReader(io.StringIO(failed)))
    assert (len(rows), {row["outcome"] for row in rows}) == (12, {"fail"})


def test_every_figure_has_its_interval_and_what_was_not_measured_its_reason(
    inside: httpx2.Client,
) -> None:
    rows = list(csv.DictReader(io.StringIO(inside.get("/api/figures.csv").text)))
    found = {row["figure"]: row for row in rows if row["group"] == "all"}
    outcome = found["outcome.pass"]
    assert (outcome["value"], outcome["n"], outcome["n_tasks"]) == ("0.4", "20", "5")
    assert 0 < float(outcome["low"]) < 0.4 < float(outcome["high"]) < 1
    absent = [row for row in rows if row["kind"]]
    assert absent
    assert all(row["value"] == "" and row["reason"] for row in absent)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t="])
def test_a_name_that_a_spreadsheet_would_run_is_text(
    tmp_path: Path, stranger: Client, start: str
) -> None:
    name = f'{start}HYPERLINK("http://evil.example")'
    with Store.open(tmp_path / "runs.db") as store:
        store.put([run(user("hello"), id="a1", name=name, outcome=FAILED)])
    text = opened(stranger(tmp_path / "runs.db")).get("/api/runs.csv").text
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["name"] == f"'{name}"


def test_what_hides_in_a_text_is_an_escape_in_the_record(tmp_path: Path, stranger: Client) -> None:
    with Store.open(tmp_path / "runs.db") as store:
        store.put([run(user("a\u202eb\U000e0041c</script>"), id="a1")])
    answer = opened(stranger(tmp_path / "runs.db")).get("/run/a1/raw", params={"step": "0"})
    assert answer.headers["content-type"] == "application/json"
    assert "a\\u202eb\\udb40\\udc41c</script>" in answer.text
    assert answer.json()["parts"][0]["text"] == "a\u202eb\U000e0041c</script>"


@pytest.mark.parametrize("step", ["", "1", "-1", "x", "1e3", "٣", "9" * 5000])
def test_a_step_that_is_not_there_is_none(tmp_path: Path, stranger: Client, step: str) -> None:
    with Store.open(tmp_path / "runs.db") as store:
        store.put([run(user("hello"), id="a1")])
    answer = opened(stranger(tmp_path / "runs.db")).get("/run/a1/raw", params={"step": step})
    assert answer.status_code in (400, 404)


def test_a_blob_is_bytes_under_an_opaque_name(tmp_path: Path, stranger: Client) -> None:
    import base64
    from hashlib import sha256

    import msgspec

    from stepscope.model import Part

    content = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    part = Part("image", media_type="image/svg+xml", data=base64.b64encode(content).decode())
    step = msgspec.structs.replace(user(""), parts=(part,))
    with Store.open(tmp_path / "runs.db") as store:
        store.put([run(step, id="a1")])
    client = opened(stranger(tmp_path / "runs.db"))
    name = sha256(content).hexdigest()
    answer = client.get(f"/api/blob/{name}")
    assert answer.content == content
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name[:16]}.bin"'
    (tmp_path / "runs.db.blobs" / name).write_bytes(b"changed")
    assert client.get(f"/api/blob/{name}").status_code == 400
    assert client.get("/api/blob/" + "0" * 64).status_code == 404
