# Every target makes what it needs, inside this folder: the environment in .venv, results in out.
#
#   make demo    compare features on the digits data: a table, a recommendation, out/demo.html
#   make test    the whole test suite, with the compiled kernels and without them
#   make lint    ruff and mypy
#   make bench   speed against portable code and other libraries (see docs/performance.md; OPTIONS=--cpu)
#   make reproduce  experiments of the paper (see docs/reproduction.md; OPTIONS='fig5 --quick')
#   make docs    the documentation: out/docs/index.html
#   make clean   remove everything that was made

PYTHON ?= python3
OPTIONS ?=

# One known version of torch, of which plain pip finds a CPU build; the tests need no more.
TORCH := torch==2.13.0

VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --upgrade-strategy only-if-needed
FAST_SOURCES := $(wildcard src/dotsketch/_backends/cpp/*.cpp src/dotsketch/_backends/cpp/*.h)
BUILT_FROM := pyproject.toml CMakeLists.txt $(FAST_SOURCES)

# Caches stay inside the folder, too.
export PIP_NO_CACHE_DIR := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/matplotlib
export TORCHINDUCTOR_CACHE_DIR := $(CURDIR)/$(VENV)/torchinductor

.PHONY: demo test lint bench reproduce docs clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	mkdir -p out
	$(VENV)/bin/dotsketch compare digits --components 500 --report out/demo.html

# Tests of what the compiled kernels do not change, and of these kernels themselves: one run is enough.
ONCE := tests/cli tests/experiments tests/rows tests/test_datasets.py tests/test_distribution.py \
    tests/test_docs.py tests/test_examples.py tests/_backends/test_kernels.py \
    tests/_backends/test_kernel_pair_sums.py \
    tests/test_imports.py tests/kernels/test_kernels.py tests/test_metrics.py \
    tests/test_attacks.py tests/test_fuzz_bytes.py tests/test_pairs.py tests/test_persistence.py \
    tests/test_persistence_attacks.py tests/test_persistence_damage.py tests/test_second_reader.py \
    tests/features/test_spherical_density.py tests/laws/test_formulas.py \
    tests/laws/test_estimators_state.py tests/laws/test_refusals_of_processes.py \
    tests/gp/test_classification.py tests/gp/test_contract.py tests/gp/test_evidence.py \
    tests/gp/test_exact.py tests/gp/test_functions.py tests/gp/test_ill_conditioned.py \
    tests/gp/test_leave_one_out.py tests/gp/test_linear_gaussian.py tests/gp/test_merge.py \
    tests/gp/test_noise.py tests/gp/test_packed.py tests/gp/test_regression.py \
    tests/gp/test_rows_of_estimators.py tests/gp/test_search.py tests/gp/test_vanishing_features.py

# The tests run side by side, so that each process needs one thread only. Both halves always run.
test: export OMP_NUM_THREADS := 1
test: export OPENBLAS_NUM_THREADS := 1
test: $(VENV)/.development
	@compiled=passed; portable=passed; \
	$(RUN) -m pytest --numprocesses auto || compiled=FAILED; \
	DOTSKETCH_FAST=0 $(RUN) -m pytest --numprocesses auto $(ONCE:%=--ignore=%) || portable=FAILED; \
	echo "Tests with the compiled kernels: $$compiled; with portable code: $$portable."; \
	test "$$compiled $$portable" = "passed passed"

lint: $(VENV)/.development
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: $(VENV)/.development
	$(RUN) -m benchmarks.ratios $(OPTIONS)

# Without OPTIONS: the names of the experiments.
reproduce: $(VENV)/.development
	$(RUN) -m experiments $(or $(OPTIONS),list)

# Warnings are errors, and all of them are shown.
docs: $(VENV)/.docs
	$(RUN) -m sphinx -W --keep-going -d out/docs-cache docs out/docs

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples attacks benchmarks experiments docs -name __pycache__ -prune -exec rm -rf {} +

# Without the system's venv package (Debian's python3-venv) the environment gets its pip from the system's.
$(VENV)/.created:
	$(PYTHON) -m venv --clear $(VENV) || { \
	    $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	    $(PYTHON) -m pip --python $(RUN) install --quiet pip; }
	touch $@

# The package is installed in place: changes of Python files need nothing, others a new build.
$(VENV)/.demo: $(VENV)/.created $(BUILT_FROM)
	$(INSTALL) --editable '.[cli]'
	touch $@

$(VENV)/.docs: $(VENV)/.created $(BUILT_FROM)
	$(INSTALL) '$(TORCH)'
	$(INSTALL) --editable '.[docs]'
	touch $@

# An environment for development is enough for the demo and the documentation as well.
$(VENV)/.development: $(VENV)/.created $(BUILT_FROM)
	$(INSTALL) '$(TORCH)'
	$(INSTALL) --editable '.[dev]'
	touch $(VENV)/.demo $(VENV)/.docs $@
