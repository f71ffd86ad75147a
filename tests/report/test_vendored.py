"""The chart scripts in the package are the builds that were fetched, with their licences."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import altair
import pytest

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "src/stepscope/report/render/static/vendor"
LOCK = ROOT / "requirements/vendor/package-lock.json"


def sums() -> dict[str, str]:
    lines = (VENDOR / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    return {name: value for value, name in (line.split("  ") for line in lines)}


def test_every_file_has_the_hash_it_was_fetched_with() -> None:
    there = {p.name: p.read_bytes() for p in VENDOR.iterdir() if p.name != "SHA256SUMS"}
    assert sums() == {name: hashlib.sha256(data).hexdigest() for name, data in there.items()}
    assert set(there) == {
        "LICENSES.txt",
        "vega.min.js",
        "vega-lite.min.js",
        "vega-embed.min.js",
    }


@pytest.mark.parametrize(
    "package", ["vega 6", "vega-lite 6", "vega-embed 7", "vega-interpreter 2", "d3-array 3"]
)
def test_what_is_built_in_brings_its_licence(package: str) -> None:
    text = (VENDOR / "LICENSES.txt").read_text(encoding="utf-8")
    assert f"\n{package}." in "\n" + text


def test_the_grammar_is_the_one_that_charts_are_written_in() -> None:
    packages = json.loads(LOCK.read_bytes())["packages"]
    locked = packages["node_modules/vega-lite"]["version"]
    assert f"v{locked}" == altair.SCHEMA_VERSION


def test_the_lock_has_hashes_and_names_no_index() -> None:
    text = LOCK.read_text(encoding="utf-8")
    packages = [p for name, p in json.loads(text)["packages"].items() if name]
    assert len(packages) > 50
    assert all(p["integrity"].startswith("sha512-") for p in packages)
    assert "resolved" not in text
    assert "://" not in text
