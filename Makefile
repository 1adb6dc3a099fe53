# Targets for everyday work. CI runs some of them.
#
#   make demo         attach to one of four stopped ranks
#   make test         unit tests and smoke tests of the whole product; needs only Python
#   make e2e          live tests; as root it installs Debian packages (Open MPI, NATS, tmux, Chromium, ...), and torch
#   make check        linters, formatter, types, import rules, documentation, package, known vulnerabilities
#   make test-all     everything, in about an hour: launchers, Pythons, attacks, hosts, a soak test, fuzzers; as root
#   make messages     rewrite the approved messages and screens that tests compare
#   make docs         build the documentation into site/ and check its links
#   make fuzz         search for inputs that crash a parser (SECONDS=60 for each target; TARGETS="control audit")
#   make soak         run for half an hour among 200 ranks, and report what has grown (MINUTES=30)
#   make bench        measure for at most ten minutes (ROWS='keystroke storm': only these rows)
#   make bench-check  list the figures of that run that are worse than the published ones by more than a third
#   make clean        remove all files that these targets have created

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Stages of one environment: the product; the requirements of `make test`; all tools; packages only for `make test-all`.
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

# With --jobs its parts run in parallel.
check: types lint fences docs package audit

# Known vulnerabilities in our dependencies. If no database of them can be reached, it prints a line and does not fail.
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

# The variable disables an advertisement that the theme's authors print in each build.
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
