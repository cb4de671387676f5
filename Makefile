# Every target sets itself up: a fresh machine needs Python >= 3.11, git and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-slow test-faults lint types imports bench docs docs-pictures format clean
help:                 ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/: .*##/ —/'

$(VENV)/.use: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[report]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.use

demo: $(VENV)/.use    ## the main job, on this machine, in minutes
	$(BIN)/rankwise demo

lint: $(VENV)/.dev    ## ruff, lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev   ## mypy strict
	$(BIN)/mypy

imports: $(VENV)/.dev ## the one way data flows
	$(BIN)/lint-imports --no-cache

test: $(VENV)/.dev lint types imports ## everything that must pass
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test-slow: $(VENV)/.dev ## the tests that take minutes
	$(BIN)/pytest -m slow

test-faults: $(VENV)/.dev ## kills, corruption, fuzzing for a quarter of an hour; writes docs/reliability.md
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "faults or not faults" tests/faults tests/sweep/engines --junitxml=build/faults.xml
	$(BIN)/python -m benchmarks.reliability build/faults.xml

bench: $(VENV)/.dev   ## ratios against peers, measured in one run
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev    ## the site, in build/site; a warning or a broken link is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -d build/doctrees docs build/site
	@echo build/site/index.html

docs-pictures: $(VENV)/.dev ## follow the tutorial and keep what it draws in docs/pictures
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.tools.pictures

format: $(VENV)/.dev  ## write what ruff wants
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:                ## forget the environment
	rm -rf $(VENV)
