"""Serves a model by llama.cpp on a free port of loopback; prints its address on the first line.

Runs in the environment of the server until its input ends, so that it ends with whoever started it.
"""

from __future__ import annotations

import os
import sys

import xllamacpp  # type: ignore[import-not-found]

# Tokens of context for each slot.
CONTEXT = 98_304


def main() -> None:
    """Serve until the input ends."""
    made = xllamacpp.CommonParams()
    made.model.path = sys.argv[1]
    made.model_alias = {"tiny"}
    made.n_ctx = CONTEXT * int(sys.argv[3])
    made.n_parallel = int(sys.argv[3])
    made.hostnames = ["127.0.0.1"]
    made.port = int(sys.argv[2])
    # More threads wait for each other by spinning, which takes minutes where cores are busy.
    made.cpuparams.n_threads = 1
    made.cpuparams_batch.n_threads = 1
    made.use_jinja = True
    made.warmup = False
    server = xllamacpp.Server(made)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
