# Needs only Python 3.11–3.13 and make. Every target installs what it needs into .venv first.
PYTHON ?= python3
LAB_FLAGS ?=
VENV := .venv
LOCK := requirements.lock
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
RECIPE := $(LOCK) pyproject.toml setup.py

# Tests run on two workers of one thread each; small tensors gain nothing from more.
WORKERS := 2
THREADS := 1
KERNEL :=
TEST = OMP_NUM_THREADS=$(THREADS) $(KERNEL) $(BIN)/python -m pytest -q --numprocesses=$(WORKERS) --dist=loadscope
UNIT := tests bdl_lessons -m 'not classroom and not slow' --doctest-modules --ignore=tests/browser --ignore=tests/device/lessons
NOTEBOOKS := --nbval --nbval-current-env --nbval-cell-timeout=600 \
    --nbval-sanitize-with tests/nbval_sanitize.cfg notebooks/[0-9][0-9]_*.ipynb

.PHONY: lab test lint unit notebooks test-arrays test-browser test-classroom test-device test-gpu rebuild bench reproduce report site slides assignments release install clean

lab: install
	$(BIN)/jupyter lab $(LAB_FLAGS) notebooks/00_start_here.ipynb

test: lint unit notebooks

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

unit: install
	$(TEST) $(UNIT)

notebooks: install
	BDL_CHECK_FIGURES=tools.figure_rules PYTHONPATH=$(CURDIR) $(TEST) $(NOTEBOOKS)

# Another processor or number of threads adds floats in another order, so that their last bits
# differ. test-kernels repeats unit tests and notebooks with other kernels: without vector
# extensions, with AVX2 at most, and with all this machine has on one and on two threads. The
# variables are those of PyTorch, MKL and oneDNN; the kernels of the notebooks inherit them.
# make test-kernels KERNELS="none avx2" runs some of them.
KERNELS ?= none avx2 one-thread two-threads
kernel-none: KERNEL := ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41
kernel-avx2: KERNEL := ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2
kernel-two-threads: THREADS := 2
kernel-two-threads: WORKERS := 1

.PHONY: test-kernels kernel-none kernel-avx2 kernel-one-thread kernel-two-threads
test-kernels: $(KERNELS:%=kernel-%)

kernel-none kernel-avx2 kernel-one-thread kernel-two-threads: install
	@OMP_NUM_THREADS=$(THREADS) $(KERNEL) $(BIN)/python -c "import torch; \
	    print('$@:', torch.backends.cpu.get_cpu_capability(), torch.get_num_threads(), 'thread(s)')"
	$(TEST) $(UNIT)
	BDL_CHECK_FIGURES=tools.figure_rules PYTHONPATH=$(CURDIR) $(TEST) $(NOTEBOOKS)

# The tests with other versions, each in an environment of its own (some GB) in build/versions, which
# is kept: torch-X is the lock with PyTorch X, or with the newest there is; pythonX the lock with
# this Python; oldest what pyproject.toml names as the lower bounds. One line tells how each ended.
# make test-versions VERSIONS="oldest torch-2.11.0" runs some of them.
VERSIONS ?= oldest torch-2.11.0 torch-newest python3.12 python3.13
WANTED = cat requirements.lock
version-torch-%: WANTED = sed 's/^torch==.*/torch==$(@:version-torch-%=%)/' requirements.lock
version-torch-newest: WANTED = sed 's/^torch==.*/torch/' requirements.lock
version-python%: override PYTHON = $(@:version-%=%)
version-oldest: override PYTHON = python3.11
version-oldest: WANTED = sed -n 's/^ *"\([a-z0-9-]*\)>=\([0-9.]*\)",$$/\1==\2.*/p' pyproject.toml

.PHONY: test-versions $(VERSIONS:%=version-%)
test-versions:
	@$(MAKE) --no-print-directory --keep-going $(VERSIONS:%=version-%)

$(VERSIONS:%=version-%): version-%:
	@mkdir -p build/versions
	@$(WANTED) | sort -u > build/versions/$*.lock
	@$(MAKE) --no-print-directory unit notebooks test-device PYTHON=$(PYTHON) \
	    VENV=build/versions/$* LOCK=build/versions/$*.lock \
	    UNIT="$(UNIT) --deselect=tests/test_packaging.py::test_what_is_installed_is_what_is_locked" \
	    > build/versions/$*.log 2>&1 && echo "$*: passed" || \
	    { echo "$*: FAILED, see build/versions/$*.log"; exit 1; }

# Every lesson on a simulated GPU (the package's part is among the unit tests), and everything on a
# real one. make test-gpu GPU_PYTHON=python3 takes an interpreter that has PyTorch and the packages
# of the lock, in whichever versions; it fails where there is no CUDA.
test-device: install
	$(TEST) --dist=load tests/device/lessons

# What panels show of trained networks is what training gives; and each lesson in a kernel, with
# its printed solutions pasted, gets all points.
test-arrays: install
	$(TEST) --dist=load -m slow tests/reproductions tests/exercises

# An assignment from its source to grades and feedback, by nbgrader.
test-classroom: install
	$(TEST) -m classroom tests/tools/test_assignments.py

GPU_PYTHON ?= $(BIN)/python
GPU_FLAGS ?=
ifeq ($(GPU_PYTHON),$(BIN)/python)
test-gpu: install
endif
test-gpu:
	PYTHONPATH="$(CURDIR):$$PYTHONPATH" $(GPU_PYTHON) -m tests.gpu.run $(GPU_FLAGS)

test-browser: install
	$(BIN)/python -m pytest -q -rs tests/browser

rebuild: install
	$(BIN)/python -m tools rebuild

bench: install
	$(BIN)/python -m reproductions bench

# make reproduce NAME=co2_mc_dropout runs what is not yet recorded of one experiment
reproduce: install
	$(BIN)/python -m reproductions run $(NAME)

report: install
	$(BIN)/python -m reproductions report

site: install
	$(BIN)/python -m tools site

slides: install
	$(BIN)/python -m tools slides

# make assignments LESSONS="05 06" writes their exercises for nbgrader into classroom/
assignments: install
	$(BIN)/python -m tools assignments $(LESSONS)

# Everything of a release in build/release: the wheel, tried alone in a new environment with three
# lessons beside it, and the site with slides and the whole course as one file, in which every lesson
# is looked for and every link is followed. Nothing is uploaded.
RELEASE := build/release
release: install
	rm -rf $(RELEASE)
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(RELEASE) .
	$(PYTHON) -m venv $(RELEASE)/new
	$(RELEASE)/new/bin/python -m pip install --quiet --constraint $(LOCK) $(RELEASE)/*.whl nbval
	cp notebooks/0[056]_*.ipynb tests/nbval_sanitize.cfg $(RELEASE)
	cd $(RELEASE) && TQDM_DISABLE=1 new/bin/python -m pytest -q --nbval --nbval-current-env \
	    --nbval-sanitize-with nbval_sanitize.cfg *.ipynb
	$(BIN)/python -m tools site --folder $(RELEASE)/site
	BDL_SITE=$(RELEASE)/site $(BIN)/python -m pytest -q tests/browser/test_site.py -k "arrives or archive"
	rm -rf $(RELEASE)/new $(RELEASE)/*.ipynb $(RELEASE)/*.cfg
	@ls $(RELEASE)

# The stamp holds where and what was installed; it is written last, so a broken install is repeated.
# A copied folder brings an environment that belongs to the old place: it is made again.
NOW_INSTALLED = { echo "$(CURDIR)"; cat $(RECIPE); }
install:
	@{ $(NOW_INSTALLED) | cmp -s - $(STAMP) && $(BIN)/python -c "" 2> /dev/null; } || \
	    $(MAKE) --no-print-directory $(STAMP)-again

.PHONY: $(STAMP)-again
$(STAMP)-again:
	@$(PYTHON) -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))" || \
	    { echo "Python 3.11, 3.12 or 3.13 is needed, found: $$($(PYTHON) --version 2>&1)."; \
	      echo "Install one and name it: make PYTHON=python3.12 ..."; exit 1; }
	@test "$$(head -n 1 $(STAMP) 2> /dev/null)" = "$(CURDIR)" || rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(NOW_INSTALLED) > $(STAMP)

clean:
	rm -rf .venv build site slides
