"""Take `docs/img/pages/*.png`: every page, light and dark, wide and narrow, in a real browser.

    python -m docs.screens            take them anew into docs/img/pages/
    python -m docs.screens FOLDER     take them into another folder, to look at

The pages are those that `stepscope demo` shows of its airline runs. Needs a Chromium, found by
playwright or as `chromium`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import stepscope
from stepscope.api import Notebook, gating
from stepscope.gates import baseline
from stepscope.settings import load_settings
from stepscope.store.where import parse_where

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "examples" / "airline" / "runs.json"
PICTURES = ROOT / "docs" / "img" / "pages"
WIDTHS = {"wide": (1440, 900), "narrow": (390, 844)}
THEMES = ("light", "dark")


def page(folder: Path) -> Path:
    """Write the HTML report of the bundled runs; return its path."""
    shutil.copy(ROOT / "examples" / "gate" / "stepscope.toml", folder)
    with stepscope.open(folder / "runs.db", settings=load_settings(folder)) as store:
        store.add(RUNS, agent="gpt-4o")
        store.score(workers=1)
        return store.report().html(folder / "report.html", gates=list(gated(store, folder)))


def gated(store: Notebook, folder: Path) -> Iterator[Path]:
    """Gate one trial of each task, then two, against the other two; yield the reports."""
    (policy,) = gating.choose_policies(store.settings)
    where = parse_where("trial in ('0', '3')")
    made = baseline.make_baseline(store.store, policy, where=where, commit="5f1c2a7")
    assert policy.baseline is not None
    baseline.write_baseline(made, policy.baseline)
    for commit, trials in (("9d40be1", "('1')"), ("c27a9f3", "('1', '2')")):
        asked = gating.GateOptions(
            where=parse_where(f"trial in {trials}"),
            commit=commit,
            log=gating.find_look_log(store.settings),
        )
        report = folder / f"gate-{commit}.json"
        view = gating.GateView(gating.gate_store(store, [policy], asked))
        report.write_text(view.json(), encoding="utf-8")
        yield report


def addresses(text: str) -> dict[str, str]:
    """Return the anchor of each page to be taken, from the file itself."""
    first = text.index('<section class="page run"')
    run = text[text.index('id="', first) + 4 :].partition('"')[0]
    second = text.index('<section class="page compare"')
    pair = text[text.index('id="', second) + 4 :].partition('"')[0] + "-d"
    return {
        "overview": "overview",
        "run": run,
        "step": f"{run}-s44",
        "compare": pair,
        "profile": "profile",
        "gates": "gates",
    }


def take(file: Path, folder: Path) -> list[Path]:
    """Take every picture; return the files."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, anchor in addresses(file.read_text(encoding="utf-8")).items():
            for theme in THEMES:
                for size, (width, height) in WIDTHS.items():
                    context = browser.new_context(
                        viewport={"width": width, "height": height},
                        color_scheme="dark" if theme == "dark" else "light",
                    )
                    shown = context.new_page()
                    shown.goto(f"{file.as_uri()}#{anchor}")
                    shown.wait_for_timeout(800)
                    taken.append(folder / f"{name}-{theme}-{size}.png")
                    shown.screenshot(path=taken[-1])
                    context.close()
        browser.close()
    return taken


def take_labelling(store: Path, folder: Path) -> list[Path]:
    """Take the page on which people label a step, from a server of its own."""
    from playwright.sync_api import sync_playwright

    command = "import sys; from stepscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
    asked = ["label", "--rubric", "step_labels", "--annotator", "ann", "--no-open", "--json"]
    server = subprocess.Popen(
        [sys.executable, "-c", command, *asked, "--store", store.name], cwd=store.parent,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    said = ""
    while not said.rstrip().endswith("}"):
        said += server.stdout.readline()
    taken = []
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            shown = browser.new_page()
            shown.goto(json.loads(said)["url"])
            for theme in THEMES:
                shown.emulate_media(color_scheme="dark" if theme == "dark" else "light")
                for size, (width, height) in WIDTHS.items():
                    shown.set_viewport_size({"width": width, "height": height})
                    shown.reload()
                    taken.append(folder / f"label-{theme}-{size}.png")
                    shown.screenshot(path=taken[-1])
            browser.close()
    finally:
        server.terminate()
        server.wait()
    return taken


def main() -> int:
    """Take the pictures into the folder named, or into the documentation."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    with tempfile.TemporaryDirectory() as place:
        taken = take(page(Path(place)), folder)
        taken += take_labelling(Path(place) / "runs.db", folder)
        sys.stdout.write("".join(f"{path}\n" for path in taken))
    return 0


if __name__ == "__main__":
    sys.exit(main())
