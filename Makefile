# stepprof_lab. Everything is installed into .venv, nothing outside it.
#
#   make demo                         the whole way of working on a small real training loop
#   make test                         the fast tests
#   make site | serve                 the course's pages: built into site/, or shown on this machine
#   make PYTHON=/path/to/python ...   builds on that Python and keeps the torch that it has
#   make TORCH_INDEX=URL ...          takes torch from that package index (a ROCm build, say)

PYTHON ?=
TORCH_INDEX ?=
ARGS ?=
# -I: the files beside the script must not hide modules of the standard library.
BOOT := $(or $(PYTHON),python3)
SETUP = $(BOOT) -I stepprof_lab/setup_env.py --python "$(PYTHON)" --torch-index "$(TORCH_INDEX)"
RUN := .venv/bin/python
ROOT := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help demo test slow cluster hardware labs site serve lint format types clean

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))
	@echo "make slow | cluster | hardware | labs | lint | format | types"

demo:
	@$(SETUP) demo
	@$(RUN) -m stepprof_lab demo $(ARGS)

test:
	@$(SETUP) dev
	$(RUN) -m pytest -m "not slow and not hardware" $(ARGS)

slow:
	@$(SETUP) dev
	$(RUN) -m pytest -m "slow and not hardware" $(ARGS)

# On a machine with a GPU: every GPU path, with the evidence kept under evidence/. Without one: exit 3 and the reason.
hardware:
	@$(SETUP) dev
	$(RUN) -m stepprof_lab doctor --require gpu
	$(RUN) -m pytest tests/hardware -m hardware $(ARGS)

# Grading on a Slurm and a PostgreSQL of its own. Needs root, and the packages that tests/marking/slurm_cluster.py names.
cluster:
	@$(SETUP) dev
	@trap '$(ROOT) $(RUN) tests/marking/slurm_cluster.py stop' EXIT; \
	$(ROOT) $(RUN) tests/marking/slurm_cluster.py start --nodes 2 && \
	STEPPROF_SLURM=1 STEPPROF_POSTGRESQL=1 \
	$(RUN) -m pytest tests/marking/test_executors.py tests/marking/test_postgresql.py $(ARGS)

# From solutions/ to exercises/ and the instructors' notebooks.
labs:
	@$(SETUP) dev
	$(RUN) -m stepprof_lab.grading.build

# The course's site, to be read from disk or put on a web server.
site:
	@$(SETUP) site
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "site/index.html"

serve:
	@$(SETUP) site
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs serve --quiet

lint:
	@$(SETUP) dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

format:
	@$(SETUP) dev
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

types:
	@$(SETUP) dev
	$(RUN) -m mypy

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
