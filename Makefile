# Everything that one does with a checkout. Needs Python 3.11 or newer (with venv) and make.
# The virtual environment is .venv; every package in it is pinned and checked by hash.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
# A machine may forbid byte code, which doubles the time of every start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check unit test-servers bars bench bench-growth docs picture screenshots lock clean

help: ## say what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.demo ## score the bundled runs and print their report; no key, no network
	@$(BIN)/stepscope demo

test: check unit ## everything the project checks, in under ten minutes

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/cog --check docs/reference/*.md

unit: $(VENV)/.dev
	$(BIN)/pytest -n 2

test-servers: $(VENV)/.dev ## real Phoenix, MLflow and llama.cpp servers and SDKs for the tests (1.6 GB, two minutes)
	$(BIN)/python -m tests.backends.environments
	$(BIN)/python -m tests.llama.environment

bars: $(VENV)/.dev ## the same checks at full size (an hour); BAR=kills for one
	$(BIN)/python -m bars.run $(BAR)

bench: $(VENV)/.dev ## timings beside named peers; JOB=J2 for one
	$(BIN)/python -m benchmarks.run $(JOB)

bench-growth: $(VENV)/.dev ## time and memory against the number of runs and of steps
	$(BIN)/python -m benchmarks.growth

docs: $(VENV)/.dev ## build the documentation into site/
	$(BIN)/cog -r --verbosity=0 docs/reference/*.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

picture: $(VENV)/.dev ## put what the commands print today into the pages, the README and the picture
	$(BIN)/python -m docs.refresh

screenshots: $(VENV)/.dev ## take the pictures of every page into docs/img/pages; needs chromium
	$(BIN)/python -m docs.screens

lock: $(VENV)/.dev ## resolve the pinned requirements again
	$(BIN)/python requirements/lock.py

clean: ## remove what was built
	rm -rf $(VENV) site dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer with venv and ensurepip found; \
	install one (Debian: apt-get install python3-venv) or say make PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: requirements/run.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/run.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.demo
