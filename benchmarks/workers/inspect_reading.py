"""Times Inspect's own reader: every sample of the logs in full, its attachments put back."""

from __future__ import annotations

import sys

from inspect_ai.log import read_eval_log  # type: ignore[import-not-found]

from benchmarks.workers.serve import serve


def read_all(paths: list[str]) -> dict[str, int]:
    """Read every sample."""
    runs = steps = 0
    for path in paths:
        for sample in read_eval_log(path, resolve_attachments=True).samples or ():
            runs += 1
            steps += len(sample.messages)
    return {"runs": runs, "messages": steps}


if __name__ == "__main__":
    files = sys.argv[1:]
    serve({"read": lambda: read_all(files)})
