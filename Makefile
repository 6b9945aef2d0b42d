# make run    the window; whatever it needs is installed first (ARGS="check --json" runs another command)
# make test   lint, formatting, types, import contracts, tests
SHELL := bash
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP_INSTALL = $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e
# pyright's Node.js knows a company's certificates only by this name
export NODE_EXTRA_CA_CERTS ?= $(SSL_CERT_FILE)

.PHONY: run test lint test-gpu test-tritons goldens format pins clean

run: .venv/run-ready
	@$(BIN)/flashscope $(ARGS)

test: .venv/test-ready lint
	$(BIN)/pytest -q -n auto --maxprocesses 4 $(ARGS)

lint: .venv/test-ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

format: .venv/test-ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test-gpu: .venv/test-ready
	$(BIN)/pytest -q -m gpu $(ARGS)

test-tritons: .venv/test-ready
	tools/test_tritons.sh $(TRITONS)

.venv/bin/pip:
	@[ -n "$(PYTHON)" ] || { echo "FlashScope needs Python 3.11 or newer; install it, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@PYTHON=$(PYTHON) tools/system_packages.sh run
	$(PYTHON) -m venv .venv

.venv/run-ready: pyproject.toml constraints.txt tools/system_packages.sh | .venv/bin/pip
	@PYTHON=$(BIN)/python tools/system_packages.sh run
	$(PIP_INSTALL) .
	@touch $@

.venv/test-ready: pyproject.toml constraints.txt tools/system_packages.sh | .venv/bin/pip
	@PYTHON=$(BIN)/python tools/system_packages.sh test
	$(PIP_INSTALL) '.[dev]'
	@touch $@ .venv/run-ready

# the panels' pictures, drawn anew: look at those that git says have changed
goldens: .venv/test-ready
	$(BIN)/pytest -q tests/app/test_goldens.py --update-goldens=all

# writes down the versions that are installed now
pins:
	@{ echo "# Every version that the tests ran with; \`make pins\` writes this file"; \
	  $(BIN)/pip freeze --exclude-editable --exclude pip --exclude setuptools | sed 's/+cpu$$//'; } > constraints.txt

clean:
	rm -rf .venv .venv-tritons .cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
