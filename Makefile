# Targets for everyday work; CI runs the same.
#
#   make demo    watch four ranks stop, and sit in the PuDB of one of them
#   make test    install what the tests need and run them (WITH_TORCH=1: those that need torch too)
#   make check   linters, formatter, types, import fences
#   make bench   measure
#   make clean   remove all that these verbs have made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check bench clean venv

venv: $(READY)

$(READY): pyproject.toml scripts/make-venv
	scripts/make-venv "$(PYTHON)" $(VENV)
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/demo.py

test: $(READY)
	@scripts/install-system-packages
	@scripts/install-torch $(BIN)/python
	@scripts/run-tests $(BIN)/python
	@scripts/test-pythons $(BIN)/python

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	@scripts/run-benchmarks $(BIN)/python

clean:
	rm -rf $(VENV) .venvs build dist logs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
