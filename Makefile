# What a newcomer and a contributor do, by name. Each target sets up what it needs; `make` alone lists them.

# The first interpreter that is new enough; `make PYTHON=...` chooses another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

VENV := .venv
BIN := $(VENV)/bin
ENVIRONMENTS := $(patsubst %/pyproject.toml,%,$(wildcard envs/*/pyproject.toml))
# Its package index has a part of reasoning-gym as C only. Where that can't be compiled, everything else does without.
COMPILED := envs/reasoning_gym_env
MANIFESTS := pyproject.toml constraints.txt $(addsuffix /pyproject.toml,$(ENVIRONMENTS))
# With uv, which is several times as fast as pip, or else with pip.
INSTALL := $(BIN)/python -m tests.support.install --constraint constraints.txt

# Handed on to the command behind the target: make test ARGS="-k echo"
ARGS ?=
# The levels of tests to run, of those in tests/support/levels.py: make test LEVEL=memory,files,socket
LEVEL ?=
# What a change is seen against: make check BASE=HEAD~3
BASE ?=
# What runs the tests; tests.support.rerun gives those that failed a second try, alone, and lets none be skipped.
RUNNER ?= pytest

.DEFAULT_GOAL := help
.PHONY: help check nearest demo demo-llm test test-bare chaos lint docs bench vendor clean clean-all

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.compiled ## Train a tiny language model on Catch, from random weights to solved, in two minutes
	@$(BIN)/openenv train catch --model tiny $(ARGS)

demo-llm: $(VENV)/.compiled ## Train a real language model, SmolLM2 of 135M parameters, on a CPU, in ten minutes
	@$(BIN)/openenv train examples/one_word.py --config examples/one_word.yaml $(ARGS)

check: $(VENV)/.ready-dev $(VENV)/.compiled ## Check a change in two minutes: style, types, imports, the nearest tests
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint nearest

nearest: $(VENV)/.ready-dev $(VENV)/.compiled ## Run the tests nearest to what changed
	@$(BIN)/python -m tests.support.nearest $(if $(BASE),--base $(BASE)) -- $(ARGS)

# More processes than cores: about half of a test's time is waiting, for servers, containers and browsers.
test: $(VENV)/.collected ## Run every test, several files at once
	-@$(BIN)/python -m benchmarks.public_package
	@$(BIN)/python -m $(RUNNER) --numprocesses=$$($(BIN)/python -c 'import os; print(2 * os.cpu_count() + 1)') --maxprocesses=6 --dist=loadfile --no-loadscope-reorder $(if $(LEVEL),--level=$(LEVEL)) $(ARGS)

test-bare: $(VENV)/.ready ## Make a machine with Python and make only, and run make test there (root, an hour)
	@$(BIN)/python -m tests.support.bare_machine $(ARGS)

chaos: $(VENV)/.ready-dev ## Cut, kill, flood and hang real servers; counts of what was harmed
	@$(BIN)/python -m tests.chaos $(ARGS)

lint: $(VENV)/.ready-dev $(VENV)/.compiled ## Check style, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy src envs tests benchmarks docs conftest.py
	@$(BIN)/lint-imports --no-logo

docs: $(VENV)/.ready-dev $(VENV)/.compiled ## Build the site into docs/_build/html
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder html docs docs/_build/html
	@echo "Built docs/_build/html/index.html"

bench: $(VENV)/.ready-dev ## Measure ours beside the public package and a bare echo server
	@$(BIN)/python -m benchmarks $(ARGS)

vendor: $(VENV)/.ready-dev ## Fetch the libraries of the page from npm again; status 1 if any of them changed
	@$(BIN)/python -m tests.support.vendored

clean: ## Remove what builds, checks and tests leave behind; keep .venv and runs/
	@rm -rf build dist docs/_build .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +

clean-all: clean ## Remove .venv and .cache as well
	@rm -rf $(VENV) .cache

# The stamps are younger than what they were made from as long as the installation is up to date.

$(VENV)/.ready: $(MANIFESTS) | $(VENV)/bin/python
	@echo "Installing OpenEnv, its environments and the trainer into $(VENV) (a minute or two the first time) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check 'pip>=25.1'
	@$(INSTALL) --editable '.[train]' $(addprefix --editable ,$(filter-out $(COMPILED),$(ENVIRONMENTS)))
	@touch $@

$(VENV)/.compiled: $(VENV)/.ready
	@if $(INSTALL) $(addprefix --editable ,$(COMPILED)) >$(VENV)/compiled.log 2>&1; then touch $@; else \
		echo "Left out: $(COMPILED), which needs a C compiler (sudo apt-get install gcc python3-dev; see $(VENV)/compiled.log)."; fi

$(VENV)/.ready-dev: $(VENV)/.ready
	@echo "Installing what tests, checks and docs need ..."
	@$(INSTALL) --group test --group lint --group docs --group bench
	@touch $@

# The processes of make test each collect all tests, at the same time. Once, and alone, everything that they import is
# compiled here: on a new machine each would else spend twice the time. What is wrong with a test is for make test to say.
$(VENV)/.collected: $(VENV)/.ready-dev $(VENV)/.compiled
	@echo "Compiling the tests and what they import (half a minute) ..."
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --collect-only -qq >$(VENV)/collected.log 2>&1 || true
	@touch $@

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "OpenEnv needs Python 3.11 or newer; none was found. Try: make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
