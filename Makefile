# Targets for everyday work; CI runs the same.
#
#   make demo       watch four ranks stop, and sit in the PuDB of one of them
#   make test       unit tests and smoke tests of the whole product: Python is enough
#   make e2e        live tests; as root it installs Debian packages (Open MPI, NATS, tmux, Chromium, ...), and torch
#   make check      linters, formatter, types, import fences, the documentation, the package, known holes
#   make test-all   everything, in about an hour: all launchers, Pythons, attacks, hosts, a soak, fuzzers; as root
#   make messages   rewrite the approved sentences and screens that the unit tests compare
#   make docs       build the documentation into site/, checking its links
#   make fuzz       look for bytes that a reader fails at (SECONDS=60 for each target; TARGETS="control audit")
#   make soak       live for half an hour among 200 ranks, and print what has grown (MINUTES=30)
#   make bench      measure (ROWS='keystroke storm': these alone), in at most ten minutes
#   make bench-check   name each figure of that run that is worse than the published one by a third
#   make clean      remove all that these verbs have made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Stages of one environment: the product; what the first tier of tests needs; all tools; what only the last tier needs.
RUN := $(VENV)/.run-ready
TEST := $(VENV)/.test-ready
DEV := $(VENV)/.dev-ready
FRAMEWORKS := $(VENV)/.frameworks-ready

.PHONY: demo test e2e test-all messages torch frameworks venv check lint types fences docs package audit fuzz soak bench bench-check clean

venv: $(DEV)

$(RUN): pyproject.toml scripts/make-venv
	@scripts/make-venv "$(PYTHON)" $(VENV) run

$(TEST): $(RUN)
	@scripts/make-venv "$(PYTHON)" $(VENV) test

$(DEV): $(TEST)
	@scripts/make-venv "$(PYTHON)" $(VENV) dev

$(FRAMEWORKS): $(DEV)
	@scripts/make-venv "$(PYTHON)" $(VENV) frameworks

demo: $(RUN)
	@$(BIN)/python examples/demo.py

test: $(TEST)
	@scripts/run-tests $(BIN)/python test

e2e: $(DEV) torch
	@scripts/install-system-packages
	@scripts/check-javascript ready
	@scripts/run-tests $(BIN)/python e2e

test-all: $(FRAMEWORKS) torch
	@scripts/install-system-packages
	@scripts/check-javascript ready
	@scripts/sum-tests scripts/run-tests $(BIN)/python all

messages: $(DEV)
	@rm -f tests/unit/*/messages.txt
	@$(BIN)/python -m pytest -q --approve tests/unit tests/e2e

torch: $(DEV)
	@scripts/install-torch $(BIN)/python

frameworks: $(FRAMEWORKS)

# With --jobs its parts run side by side.
check: types lint fences docs package audit

# Known holes in what we ask for; a line, and no failure, where no index or database of them can be reached.
audit: $(DEV)
	@scripts/audit-packages $(BIN)/python

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell agent benchmarks broker client deploy docs examples scripts tests wire *.md
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/unit/project/test_style.py
	@scripts/check-javascript lint

types: $(DEV)
	$(BIN)/mypy
	@scripts/check-javascript types

fences: $(DEV)
	$(BIN)/lint-imports

# The variable silences an advertisement of the theme's authors on each build.
docs: $(DEV)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

package: $(DEV)
	@scripts/check-package $(BIN)/python

fuzz: $(DEV)
	@$(BIN)/python -m tests.fuzz --seconds "$(or $(SECONDS),60)" $(TARGETS)

soak: $(DEV)
	@$(BIN)/python -m tests.full.soak --minutes "$(or $(MINUTES),30)"

bench: $(DEV)
	@scripts/run-benchmarks $(BIN)/python $(ROWS)

build/benchmarks.json:
	@$(MAKE) bench

bench-check: $(DEV) build/benchmarks.json
	@$(BIN)/python -m benchmarks.check

clean:
	rm -rf $(VENV) .venvs build dist logs site scripts/javascript/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
