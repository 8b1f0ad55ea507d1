# Every target installs what it needs first: a fresh machine needs Python 3.11, make and pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
EXTRAS := demo,datasets,diffusion,distributed,encoders,fid,onnx,tensorboard

.PHONY: setup browser demo test coverage lint format bench dist check-installed clean

setup: $(INSTALLED)

# Every file must have a hash that constraints.txt lists, but for what a build of PyTorch may need
# besides, such as libraries for GPUs, which the last step adds. PyTorch comes first and by itself: pip ranks
# a build that lies in a folder, such as the one for processors alone, behind what an index hashes.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	sed -n '/^pip==/,/[^\\]$$/p' constraints.txt | \
		$(BIN)/python -m pip install --quiet --require-hashes --requirement /dev/stdin
	$(BIN)/python -m pip download --quiet --no-deps --dest $(VENV)/torch \
		"$$(grep -o '^torch==[^ ]*' constraints.txt)"
	grep -qE "sha256:$$(sha256sum $(VENV)/torch/*.whl | cut -d ' ' -f 1)( |$$)" constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps $(VENV)/torch/*.whl
	rm -r $(VENV)/torch
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement constraints.txt
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[$(EXTRAS)]" --group dev
	touch $(INSTALLED)

# For the tests that look at pages; without it they are skipped.
browser:
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

demo: setup
	$(BIN)/privet demo --out privet-demo --force

# One worker for each core, with one thread each: two threads of a small test wait for each other.
# Tests start many processes, which need not compile the package each time, whatever the shell says.
test: export PYTHONDONTWRITEBYTECODE =
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto --dist loadfile --no-loadscope-reorder

# Every line and branch of the hedge, and nine in ten of the package.
coverage: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto --dist loadfile --no-loadscope-reorder \
		--cov=privet --cov-branch --cov-report=
	$(BIN)/coverage report --include='src/privet/hedge/*' --fail-under=100
	$(BIN)/coverage report --fail-under=90

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

# What is shipped: a wheel that anyone can build again to the byte, and a list of what it was tested with.
dist: setup check-installed
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist
	$(BIN)/python scripts/sbom.py dist/privet.cdx.json
	cd dist && sha256sum * > SHA256SUMS

check-installed: setup
	$(BIN)/python -m pip check
	$(BIN)/python scripts/check_installed.py

clean:
	rm -rf $(VENV) privet-demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
