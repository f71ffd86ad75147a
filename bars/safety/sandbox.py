"""Nothing that a sandboxed command tries gets out, as root and as an unprivileged user.

`python -m bars.safety.sandbox [ROUNDS]`. The list of probes is tried in every round, by this user
and, where that is root, by nobody too; so are floods and endless commands at their full bounds.
Bar: 0 of at least 20 probes succeed. Code 0: it holds; 3: it does not; 4: there is no bubblewrap
here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import stepscope

NOBODY = 65534
FEWEST = 20
PROBE = """
import json
from stepscope.sandbox.check import probe_sandbox
print(json.dumps(probe_sandbox()))
"""
FLOOD = """
import json, tempfile
from pathlib import Path
from stepscope.sandbox.run import run_command
from stepscope.sandbox.workspace import copy_workspace
with tempfile.TemporaryDirectory() as folder, copy_workspace(Path(folder)) as copy:
    flood = run_command(["yes"], workspace=copy.path)
    print(json.dumps([flood.cut, len(flood.out), flood.seconds]))
"""


def asked(code: str, user: int, package: Path) -> object:
    """Return what a new Python of a user prints, as JSON."""
    interpreter = sys.executable if user == os.geteuid() else "/usr/bin/python3"
    done = subprocess.run(
        [interpreter, "-c", code],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(package), "HOME": "/root", "KEY": "s3cr3t"},
        user=user if user != os.geteuid() else None,
        group=user if user != os.geteuid() else None,
        extra_groups=[] if user != os.geteuid() else None,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return json.loads(done.stdout)


def main() -> int:
    """Print the table; return 0 when every probe is held."""
    if shutil.which("bwrap") is None:
        print("not measured: there is no bubblewrap here")
        return 4
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    users = [os.geteuid()] + ([NOBODY] if os.geteuid() == 0 else [])
    holds = len(users) == 2
    if not holds:
        print("this user is not root: only one of the two is measured")
    with tempfile.TemporaryDirectory() as folder:
        # Where everybody can read it, unlike a checkout in somebody's home.
        Path(folder).chmod(0o755)
        shutil.copytree(Path(stepscope.__file__).parent, Path(folder) / "stepscope")
        found: dict[str, dict[int, list[str]]] = {}
        for _ in range(rounds):
            for user in users:
                results = asked(PROBE, user, Path(folder))
                assert isinstance(results, dict)
                for name, said in results.items():
                    found.setdefault(name, {}).setdefault(user, []).append(said)
        floods = {user: asked(FLOOD, user, Path(folder)) for user in users}
    names = {user: "root" if user == 0 else f"uid {user}" for user in users}
    print(f"{'probe':<24}" + "".join(f"{f'as {names[user]}':>16}" for user in users))
    for name, by_user in found.items():
        got_out = [sum(map(bool, by_user[user])) for user in users]
        print(f"{name:<24}" + "".join(f"{f'{n} of {rounds}':>16}" for n in got_out))
        holds &= not any(got_out)
    for user, flood in floods.items():
        assert isinstance(flood, list)
        print(
            f"flood of `yes` as {names[user]}: cut {flood[0]}, {flood[1]:,} bytes, {flood[2]:.3f} s"
        )
        holds &= flood[0] and flood[1] == 10 * 1024 * 1024
    print(f"{len(found)} probes, {rounds} rounds each")
    holds &= len(found) >= FEWEST
    print("holds" if holds else "MISSED")
    return 0 if holds else (3 if len(users) == 2 else 4)


if __name__ == "__main__":
    sys.exit(main())
