# Needs only Python 3.11–3.13 and make. Every target installs what it needs into .venv first.
# Tests run on two workers of one thread each; small tensors gain nothing from more.
PYTHON ?= python3
LAB_FLAGS ?=
BIN := .venv/bin
STAMP := .venv/installed
RECIPE := requirements.lock pyproject.toml

TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses=2 --dist=loadscope

.PHONY: lab test lint unit notebooks test-browser rebuild bench reproduce report site slides install clean

lab: install
	$(BIN)/jupyter lab $(LAB_FLAGS) notebooks/00_start_here.ipynb

test: lint unit notebooks

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

unit: install
	$(TEST) tests --ignore=tests/browser

notebooks: install
	$(TEST) --nbval --nbval-current-env --nbval-cell-timeout=180 \
	    --nbval-sanitize-with tests/nbval_sanitize.cfg notebooks

test-browser: install
	$(BIN)/python -m pytest -q -rs tests/browser

rebuild: install
	$(BIN)/python -m bdl_lessons rebuild

bench: install
	$(BIN)/python -m bdl_lessons bench

# make reproduce NAME=co2_mc_dropout runs what is not yet recorded of one experiment
reproduce: install
	$(BIN)/python -m bdl_lessons reproduce $(NAME)

report: install
	$(BIN)/python -m bdl_lessons report

site: install
	$(BIN)/jupyter nbconvert --to html --output-dir site notebooks/*.ipynb

slides: install
	$(BIN)/jupyter nbconvert --to slides --output-dir slides notebooks/*.ipynb

# The stamp holds what was installed; it is written last, so a broken install is repeated.
install:
	@cat $(RECIPE) | cmp -s - $(STAMP) || $(MAKE) --no-print-directory $(STAMP)-anew

.PHONY: $(STAMP)-anew
$(STAMP)-anew:
	@$(PYTHON) -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))" || \
	    { echo "Python 3.11, 3.12 or 3.13 is needed, found: $$($(PYTHON) --version 2>&1)."; \
	      echo "Install one and name it: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@cat $(RECIPE) > $(STAMP)

clean:
	rm -rf .venv build site slides
