from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs import airline, example_scores, picture, shape_pictures

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_picture_shows_what_the_report_prints() -> None:
    drawn = picture.PICTURE.read_text(encoding="utf-8")
    assert drawn == picture.drawing(picture.printed()), "run python -m docs.picture"


@pytest.mark.parametrize("name", sorted(shape_pictures.PICTURES))
def test_a_picture_of_shapes_shows_what_the_classifier_answers(name: str) -> None:
    drawn = (shape_pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn == shape_pictures.PICTURES[name](), "run python -m docs.shape_pictures"


@pytest.mark.parametrize("name", sorted(example_scores.FILES))
def test_the_example_scores_are_what_the_generator_draws(name: str) -> None:
    held = (example_scores.FOLDER / name).read_text(encoding="utf-8")
    assert held == example_scores.FILES[name](), "run python -m docs.example_scores"


@pytest.mark.shared_data
def test_the_readme_shows_the_report_of_the_200_airline_runs() -> None:
    assert airline.shown() == airline.report(airline.RUNS), "run python -m docs.airline"


def test_the_reference_pages_say_what_the_program_says() -> None:
    pages = sorted(str(page) for page in (ROOT / "docs" / "reference").glob("*.md"))
    ran = subprocess.run(
        [sys.executable, "-m", "cogapp", "--check", *pages],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"run make docs\n{ran.stdout}"
