# Targets for everyday work; CI runs the same.
#
#   make demo    watch four ranks stop, and sit in the PuDB of one of them
#   make test    install what the tests need and run them (WITH_TORCH=1: those that need torch too)
#   make check   linters, formatter, types, import fences, the documentation, the package on each Python, known holes
#   make docs    build the documentation into site/, checking its links
#   make fuzz    look for bytes that a reader fails at (SECONDS=60 for each target; TARGETS="control audit")
#   make soak    live for half an hour among 200 ranks, and print what has grown (MINUTES=30)
#   make bench   measure (ROWS='keystroke storm': these alone), in at most ten minutes
#   make clean   remove all that these verbs have made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready

.PHONY: demo test torch bytecode pythons check lint types fences docs package audit fuzz soak bench clean venv messages

venv: $(READY)

$(READY): pyproject.toml scripts/make-venv
	scripts/make-venv "$(PYTHON)" $(VENV)
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/demo.py

test: $(READY) torch
	@scripts/install-system-packages
	@scripts/check-javascript ready
	@scripts/run-tests $(BIN)/python

# In CI the documentation's packages come first: two pips at once in one environment would overwrite each other's files.
torch: $(READY) $(if $(CI),$(DOCS_READY))
	@scripts/install-torch $(BIN)/python

# Without bytecode of the tests each process that runs them would compile them all, which takes ten seconds.
bytecode: torch
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null

pythons:
	@scripts/make-pythons "$(PYTHON)"

# With --jobs its parts run side by side.
check: lint types fences docs package audit

# Known holes in what we ask for; a line, and no failure, where no index or database of them can be reached.
audit: $(DOCS_READY)
	@scripts/audit-packages $(BIN)/python

lint: $(DOCS_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@scripts/check-javascript lint

types: $(DOCS_READY)
	$(BIN)/mypy
	@scripts/check-javascript types

fences: $(DOCS_READY)
	$(BIN)/lint-imports

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

# The variable silences an advertisement of the theme's authors on each build.
docs: $(DOCS_READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

package: $(DOCS_READY) pythons
	@scripts/check-package $(BIN)/python

fuzz: $(READY)
	@$(BIN)/python -m tests.fuzz --seconds "$(or $(SECONDS),60)" $(TARGETS)

soak: $(READY)
	@$(BIN)/python -m tests.full.soak --minutes "$(or $(MINUTES),30)"

bench: $(READY)
	@scripts/run-benchmarks $(BIN)/python $(ROWS)

clean:
	rm -rf $(VENV) .venvs build dist logs site scripts/javascript/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The product's sentences as the tests see them; look at the difference before you commit it.
messages: $(READY)
	@rm -f tests/unit/*/messages.txt
	@$(BIN)/python -m pytest -q tests/unit --approve
