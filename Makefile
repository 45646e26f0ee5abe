# Needs only Python 3.11–3.13 and make. Every target installs what it needs into .venv first.
PYTHON ?= python3
LAB_FLAGS ?=
VENV := .venv
BIN := $(VENV)/bin

# Each lock includes the one before it: what lessons need; tests, slides, site and reproductions;
# and nbgrader, which puts its buttons into JupyterLab.
LESSONS := requirements.lock
WORKSHOP := requirements-workshop.lock
CLASSROOM := requirements-classroom.lock

# Tests run on two workers of one thread each; small tensors gain nothing from more.
WORKERS := 2
THREADS := 1
KERNEL :=
TEST = OMP_NUM_THREADS=$(THREADS) $(KERNEL) $(BIN)/python -m pytest -q --numprocesses=$(WORKERS) --dist=loadscope
UNIT := tests bdl_lessons -m 'not classroom and not slow and not twice' --doctest-modules --ignore=tests/browser --ignore=tests/device/lessons
NOTEBOOKS := --nbval --nbval-current-env --nbval-cell-timeout=600 \
    --nbval-sanitize-with tests/nbval_sanitize.cfg notebooks/[0-9][0-9]_*.ipynb

.PHONY: lab test lint unit notebooks test-arrays test-twice test-browser test-classroom test-device test-gpu rebuild bench reproduce report site slides pdf assignments release install workshop classroom clean

lab: install
	@$(BIN)/python -m tools.lab $(LAB_FLAGS)

test: lint unit notebooks

lint: workshop
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

unit: workshop
	$(TEST) $(UNIT)

notebooks: workshop
	BDL_CHECK_FIGURES=tools.figure_rules PYTHONPATH="$(CURDIR)" $(TEST) $(NOTEBOOKS)

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

kernel-none kernel-avx2 kernel-one-thread kernel-two-threads: workshop
	@OMP_NUM_THREADS=$(THREADS) $(KERNEL) $(BIN)/python -c "import torch; \
	    print('$@:', torch.backends.cpu.get_cpu_capability(), torch.get_num_threads(), 'thread(s)')"
	$(TEST) $(UNIT)
	BDL_CHECK_FIGURES=tools.figure_rules PYTHONPATH="$(CURDIR)" $(TEST) $(NOTEBOOKS)

# The tests with other versions, each in an environment of its own (some GB) in build/versions, which
# is kept: torch-X is the lock with PyTorch X, or with the newest there is; pythonX the lock with
# this Python; oldest what pyproject.toml names as the lower bounds. One line tells how each ended.
# make test-versions VERSIONS="oldest torch-2.11.0" runs some of them.
VERSIONS ?= oldest torch-2.11.0 torch-newest python3.12 python3.13
PINS = sed '/^-r /d' $(LESSONS) $(WORKSHOP)
WANTED = $(PINS)
version-torch-%: WANTED = $(PINS) | sed 's/^torch==.*/torch==$(@:version-torch-%=%)/'
version-torch-newest: WANTED = $(PINS) | sed 's/^torch==.*/torch/'
version-python%: override PYTHON = $(@:version-%=%)
version-oldest: override PYTHON = python3.11
version-oldest: WANTED = sed -n 's/^ *"\([a-z0-9-]*\)>=\([0-9.]*\)",$$/\1==\2.*/p' pyproject.toml

ABOUT_THE_LOCK := test_what_is_installed_is_what_is_locked \
    test_a_learner_installs_what_lessons_need_and_no_more

.PHONY: test-versions $(VERSIONS:%=version-%)
test-versions:
	@$(MAKE) --no-print-directory --keep-going $(VERSIONS:%=version-%)

$(VERSIONS:%=version-%): version-%:
	@mkdir -p build/versions
	@$(WANTED) | sort -u > build/versions/$*.lock
	@$(MAKE) --no-print-directory unit notebooks test-device PYTHON=$(PYTHON) \
	    VENV=build/versions/$* WORKSHOP=build/versions/$*.lock \
	    UNIT="$(UNIT) $(ABOUT_THE_LOCK:%=--deselect=tests/test_packaging.py::%)" \
	    > build/versions/$*.log 2>&1 && echo "$*: passed" || \
	    { echo "$*: FAILED, see build/versions/$*.log"; exit 1; }

# Every lesson on a simulated GPU (the package's part is among the unit tests), and everything on a
# real one. make test-gpu GPU_PYTHON=python3 takes an interpreter that has PyTorch and the packages
# of the lock, in whichever versions; it fails where there is no CUDA.
test-device: workshop
	$(TEST) --dist=load tests/device/lessons

# What panels show of trained networks is what training gives.
test-arrays: workshop
	$(TEST) --dist=load -m slow tests/reproductions

# Lessons as a reader uses them: every cell twice in a row, and the printed solutions pasted.
test-twice: workshop
	$(TEST) --dist=load -m "twice or slow" tests/test_cells_twice.py tests/exercises

# An assignment from its source to grades and feedback, by nbgrader.
test-classroom: classroom
	$(TEST) -m classroom tests/tools/test_assignments.py

GPU_PYTHON ?= $(BIN)/python
GPU_FLAGS ?=
ifeq ($(GPU_PYTHON),$(BIN)/python)
test-gpu: workshop
endif
test-gpu:
	PYTHONPATH="$(CURDIR):$$PYTHONPATH" $(GPU_PYTHON) -m tests.gpu.run $(GPU_FLAGS)

test-browser: workshop
	$(BIN)/python -m pytest -q -rs tests/browser

rebuild: workshop
	$(BIN)/python -m tools rebuild

bench: workshop
	$(BIN)/python -m reproductions bench

# make reproduce NAME=co2_mc_dropout runs what is not yet recorded of one experiment
reproduce: workshop
	$(BIN)/python -m reproductions run $(NAME)

report: workshop
	$(BIN)/python -m reproductions report

site: workshop
	$(BIN)/python -m tools site

# The site on paper, in site/pdf: needs Chromium.
pdf: site
	$(BIN)/python -m tools pdf

slides: workshop
	$(BIN)/python -m tools slides

# make assignments LESSONS="05 06" writes their exercises for nbgrader into classroom/
assignments: classroom
	$(BIN)/python -m tools assignments $(LESSONS)

# Everything of a release in build/release: the wheel, tried alone in a new environment with three
# lessons beside it, and the site with slides and the whole course as one file, in which every lesson
# is looked for and every link is followed. Nothing is uploaded.
RELEASE := build/release
release: workshop
	rm -rf $(RELEASE)
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(RELEASE) .
	$(PYTHON) -m venv $(RELEASE)/new
	$(PINS) > $(RELEASE)/pins
	$(RELEASE)/new/bin/python -m pip install --quiet --constraint $(RELEASE)/pins $(RELEASE)/*.whl nbval
	cp notebooks/0[056]_*.ipynb tests/nbval_sanitize.cfg $(RELEASE)
	cd $(RELEASE) && TQDM_DISABLE=1 new/bin/python -m pytest -q --nbval --nbval-current-env \
	    --nbval-sanitize-with nbval_sanitize.cfg *.ipynb
	$(BIN)/python -m tools site --folder $(RELEASE)/site
	BDL_SITE=$(RELEASE)/site $(BIN)/python -m pytest -q tests/browser/test_site.py -k "arrives or archive"
	rm -rf $(RELEASE)/new $(RELEASE)/pins $(RELEASE)/*.ipynb $(RELEASE)/*.cfg
	@ls $(RELEASE)

install:
	@$(PYTHON) tools/install.py $(VENV) $(LESSONS)

workshop:
	@$(PYTHON) tools/install.py $(VENV) $(WORKSHOP)

classroom:
	@$(PYTHON) tools/install.py $(VENV) $(CLASSROOM)

clean:
	rm -rf .venv build site slides
