# Every target installs what it needs first: a fresh machine needs Python 3.11, make and pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: setup browser demo test lint format bench clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		--build-constraint constraints.txt --editable ".[demo,datasets,diffusion,distributed,encoders,fid,onnx,tensorboard]" --group dev
	touch $(INSTALLED)

# For the tests that look at pages; without it they are skipped.
browser:
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

demo: setup
	$(BIN)/privet demo --out privet-demo --force

# One worker for each core, with one thread each: two threads of a small test wait for each other.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto --dist loadfile

lint: setup
	$(BIN)/ruff check --no-cache
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup
	for script in calibration startup clipped_sum step_overhead crash_ledger paper_preset \
		step_cost; do \
		$(BIN)/python benchmarks/$$script.py || exit 1; done
	$(BIN)/python benchmarks/render_tables.py

clean:
	rm -rf $(VENV) privet-demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
