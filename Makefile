# On a machine with Python 3.11 or newer, pip and make:
#   make demo   a synthetic table of real people, from start to finish
#   make test   lint, types and tests
# With LOCKED=1, all libraries are those of requirements/dev.lock instead of the newest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME
unexport PYTHONDONTWRITEBYTECODE # each worker, and each process that a test starts, would compile everything anew
WORKERS := OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive # there is one for each core: threads of BLAS in each spin while they wait for one another
LOCK := requirements/dev.lock
OURS := $(if $(LOCKED),--no-build-isolation) -e # the lock has what builds us, too (hatchling, editables)
EXTRAS := browser dev docs excel mutants postgres sklearn spark sql studio # what the lock is of

.DEFAULT_GOAL := help
.PHONY: help demo test quick lint types slow spark test-browser docs bench figures refute faults judges judges-tables rivals results peers mutants package newest lock clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/base: pyproject.toml src/sfumato/version.py
	@echo "Setting up $(VENV) (the first time takes a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "sfumato needs Python 3.11 or newer: make PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@$(if $(LOCKED),$(PIP) install --require-hashes --no-deps -r $(LOCK))
	@$(PIP) install $(OURS) .
	@touch $@

$(VENV)/dev: $(VENV)/base
	@$(PIP) install $(OURS) '.[dev]'
	@touch $@

.venv-bench/done: pyproject.toml # of its own: the peers need older libraries than we do
	@echo "Setting up .venv-bench"
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip --disable-pip-version-check --quiet --quiet install -e '.[bench]'
	@touch $@

.venv-peers/done: # of its own: six gigabytes
	@echo "Setting up .venv-peers"
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip --disable-pip-version-check --quiet --quiet install 'smartnoise-synth>=1.0.8'
	@touch $@

.venv-judges-jax/done: pyproject.toml # of its own, as is the next: judges bring libraries that we do not need
	@echo "Setting up .venv-judges-jax"
	@$(PYTHON) -m venv .venv-judges-jax
	@.venv-judges-jax/bin/python -m pip --disable-pip-version-check --quiet --quiet install -e . 'jax-privacy>=2.0'
	@touch $@

.venv-judges-prv/done: pyproject.toml
	@echo "Setting up .venv-judges-prv"
	@$(PYTHON) -m venv .venv-judges-prv
	@.venv-judges-prv/bin/python -m pip --disable-pip-version-check --quiet --quiet install -e . 'prv-accountant>=0.2'
	@touch $@

.venv-judges-sdnist/done: # the judges and rivals of tables, each of its own: sdnist pins libraries of 2023, which need Python 3.11
	@echo "Setting up .venv-judges-sdnist"
	@$(PYTHON) -m venv .venv-judges-sdnist
	@.venv-judges-sdnist/bin/python -m pip --disable-pip-version-check --quiet --quiet install 'sdnist==2.4'
	@touch $@

.venv-judges-sdmetrics/done:
	@echo "Setting up .venv-judges-sdmetrics"
	@$(PYTHON) -m venv .venv-judges-sdmetrics
	@.venv-judges-sdmetrics/bin/python -m pip --disable-pip-version-check --quiet --quiet install 'sdmetrics>=0.32' 'pyarrow>=15'
	@touch $@

PRIVATE_PGM ?= https://github.com/ryan112358/private-pgm
.venv-judges-mbi/done: # AIM and MST are not in the package mbi, only in its repository; its code of 2025 needs libraries of that year
	@echo "Setting up .venv-judges-mbi"
	@$(PYTHON) -m venv .venv-judges-mbi
	@git clone --quiet $(PRIVATE_PGM) .venv-judges-mbi/private-pgm
	@git -C .venv-judges-mbi/private-pgm checkout --quiet 4d2b3c566b148da3ef800ce76e6189c548f2da22
	@.venv-judges-mbi/bin/python -m pip --disable-pip-version-check --quiet --quiet install ./.venv-judges-mbi/private-pgm \
		'jax==0.7.0' 'jaxlib==0.7.0' 'pandas==2.3.*' 'numpy<2.4' 'chex<0.1.91' 'optax<0.2.6' 'matplotlib>=3.8'
	@touch $@

.venv-questions/done: # OpenDP and diffprivlib, which needs that scikit-learn
	@echo "Setting up .venv-questions"
	@$(PYTHON) -m venv .venv-questions
	@.venv-questions/bin/python -m pip --disable-pip-version-check --quiet --quiet install 'opendp[polars]>=0.16' 'diffprivlib>=0.6.6' 'scikit-learn<1.6'
	@touch $@

.venv-questions-sql/done: # of its own: SmartNoise SQL needs an older OpenDP
	@echo "Setting up .venv-questions-sql"
	@$(PYTHON) -m venv .venv-questions-sql
	@.venv-questions-sql/bin/python -m pip --disable-pip-version-check --quiet --quiet install 'smartnoise-sql>=1.0.10'
	@touch $@

demo: $(VENV)/base ## a synthetic table of 32,561 people, from the schema to the report, in half a minute
	@$(BIN)/python examples/demo.py

lint: $(VENV)/dev ## ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/dev ## mypy, strict
	@$(BIN)/mypy

test: lint types ## lint, types and tests, on all cores
	@$(WORKERS) $(BIN)/python -m pytest -n auto

quick: $(VENV)/dev ## lint, types, and tests that enter every module, in a minute (RECORD=1: run all tests and note which are slower)
ifdef RECORD
	@rm -rf .quick && mkdir .quick && SFUMATO_TEST_COSTS=.quick $(WORKERS) $(BIN)/python -m pytest -n auto && $(BIN)/python tests/support/quick.py .quick && rm -rf .quick
else
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy & types=$$!; $(WORKERS) $(BIN)/python -m pytest -n auto --quick; tests=$$?; wait $$types && exit $$tests
endif

slow: $(VENV)/dev ## the tests that take minutes
	@$(BIN)/python -m pytest -m slow

$(VENV)/spark: $(VENV)/dev
	@command -v java > /dev/null || { echo "Spark needs Java: apt-get install default-jre-headless" >&2; exit 2; }
	@$(PIP) install $(OURS) '.[dev,spark]'
	@touch $@

spark: $(VENV)/spark ## the tests of the Spark engine; needs Java (Debian: default-jre-headless)
	@SFUMATO_NEEDS_SPARK=1 $(BIN)/python -m pytest -m spark tests/engines/test_spark.py

$(VENV)/docs: $(VENV)/base
	@$(PIP) install $(OURS) '.[docs]'
	@touch $@

docs: $(VENV)/docs ## the documentation as a static site, in site/; open site/index.html
	@$(BIN)/python -m sphinx -q -W --keep-going -E -d $(VENV)/doctrees -c docs . site
	@echo "site/index.html"

$(VENV)/browser: $(VENV)/dev
	@command -v chromium > /dev/null || [ "$$(id -u)" != 0 ] || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium; }
	@command -v chromium > /dev/null || { echo "the tests of the studio need a browser: sudo apt-get install chromium" >&2; exit 2; }
	@$(PIP) install $(OURS) '.[dev,studio,browser]'
	@touch $@

test-browser: $(VENV)/browser ## the tests of the studio in a real browser; needs Chromium (Debian: chromium)
	@SFUMATO_NEEDS_BROWSER=1 $(BIN)/python -m pytest -m browser tests/studio/test_browser.py

bench: .venv-bench/done ## speed against peers and limits, to benchmarks/results.md; ONLY="sketch growth" for some
	@.venv-bench/bin/python benchmarks/suite.py $(ONLY)

figures: $(VENV)/dev ## the figures that the documents quote, to benchmarks/figures.md; ONLY="computed audits" for some, DATA=folder of the data sets
	@$(BIN)/python benchmarks/figures.py $(ONLY) $(if $(DATA),--data $(DATA))

refute: $(VENV)/dev ## search neighbours that lose more than is claimed (SECONDS=120, SEED=1, ONLY=line; RECORD=1: to docs/refute.md)
	@$(BIN)/python -m refute --seconds $(or $(SECONDS),120) --seed $(or $(SEED),1) $(if $(ONLY),--only "$(ONLY)") $(if $(RECORD),--record)

results: $(VENV)/dev .venv-bench/done ## every table and figure of the papers (under 3 hours; NAME=all, QUICK=1, DATA=folder of the data sets)
	@$(BIN)/sfumato reproduce $(or $(NAME),all) $(if $(QUICK),--quick) $(if $(DATA),--data $(DATA))

peers: .venv-peers/done ## SmartNoise, six gigabytes with its libraries, for its lines in the tables of `make results`

judges: .venv-judges-jax/done .venv-judges-prv/done ## judges that others wrote: jax-privacy on canaries, prv-accountant on ledgers (RECORD=1: to docs/judges-results.md)
	@.venv-judges-jax/bin/python judges/canaries.py $(if $(RECORD),--record)
	@.venv-judges-prv/bin/python judges/accountant.py $(if $(RECORD),--record)

judges-tables: .venv-judges-sdnist/done .venv-judges-sdmetrics/done .venv-judges-mbi/done ## judges and rivals of synthetic tables, for `make results NAME=tables`: NIST's scorer, sdmetrics, and AIM and MST with mbi

rivals: $(VENV)/dev .venv-questions/done .venv-questions-sql/done ## the questions of `make results NAME=questions` to OpenDP, diffprivlib and SmartNoise SQL, about an hour (DATA=folder of the data sets, ONLY=part of a question)
	@for rival in opendp diffprivlib smartnoise; do $(if $(DATA),SFUMATO_DATA=$(DATA)) $(BIN)/python experiments/question_rivals.py $$rival $(if $(ONLY),--only "$(ONLY)") || exit 1; done

faults: $(VENV)/dev ## kills, stops, full disks, failing syncs and rolled-back ledgers; streams that are killed (SECONDS=600 KILLS=100 SEED=1 DATABASE=sqlite|postgresql|both RECORD=1)
	@$(BIN)/python -m faults --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) --database $(or $(DATABASE),both) $(if $(RECORD),--record)
	@$(BIN)/python -m faults.streams --kills $(or $(KILLS),100) $(if $(SEED),--seed $(SEED))

$(VENV)/mutants: $(VENV)/dev
	@$(PIP) install $(OURS) '.[dev,mutants]'
	@touch $@

mutants: $(VENV)/mutants ## whether tests notice small wrong changes of the code that carries privacy (MINUTES=60, COUNT=300, SEED=22, ONLY="noise loss", RECORD=1, FRESH=1)
	@nice $(BIN)/python mutants/run.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(ONLY),--only $(ONLY)) $(if $(RECORD),--record) $(if $(FRESH),--fresh)

package: $(VENV)/dev ## build wheel and sdist, install the wheel in a clean environment and release with it (PYTHONS="python3.12 python3.13", PIPX=1; RECORD=1: sizes to docs/install.md)
	@$(BIN)/python benchmarks/package.py $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(PIPX),--pipx) $(if $(RECORD),--record)

newest: ## the tests of `make quick` with the newest version of every library, in an environment of its own
	@rm -rf .venv-newest
	@$(MAKE) --no-print-directory LOCKED= VENV=.venv-newest .venv-newest/dev
	@$(WORKERS) .venv-newest/bin/python -m pytest -n auto --quick

.venv-lock/done:
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip --disable-pip-version-check --quiet --quiet install 'uv>=0.5'
	@touch $@

lock: .venv-lock/done ## write requirements/dev.lock anew: the newest version of every library, with the digests of its files
	@.venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		$(EXTRAS:%=--extra %) pyproject.toml --output-file $(LOCK)

clean: ## remove everything that make made
	@rm -rf $(VENV) .venv-bench .venv-lock .venv-newest .venv-peers .venv-judges-* .venv-questions .venv-questions-sql demo-output playground site .mypy_cache .ruff_cache .mutants
