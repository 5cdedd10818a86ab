# Two commands matter: `make demo` sets everything up, prints a table and makes a page of it; `make test` runs all tests.
PYTHON ?= python3
BIN := .venv/bin
# Tests that measure times have the machine to themselves; all others share its cores, four on two since many wait.
TOGETHER := -n 4 --dist worksteal -m "not alone"
ONE_AT_A_TIME := -m alone
FAST := -n 2 --dist worksteal -m "not (real or browser or alone or slow)"
# Tests start programs many hundreds of times: these are compiled once, also where Python is told to keep nothing.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-fast check docs format clean

demo: .venv/installed
	$(BIN)/paceline run demo
	$(BIN)/paceline report --suite demo -o report.html

test: .venv/dev
	$(BIN)/paceline install all
	$(BIN)/pytest $(TOGETHER)
	$(BIN)/pytest $(ONE_AT_A_TIME)

test-fast: .venv/dev
	$(BIN)/pytest $(FAST)

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/dev
	$(BIN)/python -m paceline.cli.reference > docs/cli.md.new && mv docs/cli.md.new docs/cli.md
	$(BIN)/python -m paceline.report.published_page > docs/published-commands.md.new && mv docs/published-commands.md.new docs/published-commands.md
	$(BIN)/python -m paceline.report.fields_page docs/fields.md
	$(BIN)/python -m tests.docs.rooms > docs/rooms.svg.new && mv docs/rooms.svg.new docs/rooms.svg
	$(BIN)/python -m benchmarks.audit --write

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/dev: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
