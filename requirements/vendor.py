"""Put the browser's chart scripts into the package: vega, vega-lite and vega-embed, minified.

`python requirements/vendor.py` installs what `vendor/package-lock.json` pins, by its integrity
hashes, and copies the builds as they are, their licences, and a list of sha256 sums. With
`--update` the lock is resolved again first, for the versions of `vendor/package.json`; that of
vega-lite is the one which altair writes. vega-embed brings vega-interpreter inside, which runs
charts without `unsafe-eval`. Needs npm. No address of an index enters the lock.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent / "vendor"
TARGET = Path(__file__).resolve().parents[1] / "src/stepscope/report/render/static/vendor"
BUILDS = (
    "vega/build/vega.min.js",
    "vega-lite/build/vega-lite.min.js",
    "vega-embed/build/vega-embed.min.js",
)
# Needed by vega-lite's command line and by type checkers, not part of any build.
NOT_BUILT_IN = ("yargs", "@types")
QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def update() -> None:
    """Resolve the lock again; what it says of addresses and sponsors is left out."""
    lock = HERE / "package-lock.json"
    lock.unlink(missing_ok=True)
    _npm(HERE, "install", "--package-lock-only", "--omit-lockfile-registry-resolved")
    found = json.loads(lock.read_bytes())
    for package in found["packages"].values():
        package.pop("funding", None)
        package.pop("resolved", None)
    lock.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def fill(target: Path) -> None:
    """Replace what is in `target` with the builds that the lock pins."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, work / name)
        _npm(work, "ci")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        modules = work / "node_modules"
        for build in BUILDS:
            shutil.copy(modules / build, target / Path(build).name)
        (target / "LICENSES.txt").write_text("\n".join(_licences(modules)), encoding="utf-8")
    sums = [f"{_sha256(file)}  {file.name}\n" for file in sorted(target.iterdir())]
    (target / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def _licences(modules: Path) -> Iterator[str]:
    """Yield the licence of every package that is part of a build, under its name and version."""
    pending = [Path(build).parts[0] for build in BUILDS]
    known: set[str] = set()
    while pending:
        name = pending.pop()
        if name in known or name.startswith(NOT_BUILT_IN):
            continue
        known.add(name)
        pending += json.loads((modules / name / "package.json").read_bytes()).get(
            "dependencies", {}
        )
    for name in sorted(known):
        package = json.loads((modules / name / "package.json").read_bytes())
        texts = sorted((modules / name).glob("[Ll][Ii][Cc][Ee][Nn]*"))
        if not texts:
            raise SystemExit(f"error: {name} has no licence file; do not ship it")
        title = f"{name} {package['version']} ({package['license']})"
        body = texts[0].read_text(encoding="utf-8").replace("\r\n", "\n").strip()
        yield f"{title}\n{'=' * len(title)}\n\n{body}\n\n"


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _npm(folder: Path, command: str, *options: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("error: npm is not on the PATH; install Node.js and run this again")
    subprocess.run([npm, command, *options, *QUIET], cwd=folder, check=True)


if __name__ == "__main__":
    if "--update" in sys.argv[1:]:
        update()
    fill(TARGET)
