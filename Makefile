# Every target sets up what it needs. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON := .venv/bin/python
# The tests start hundreds of Python processes. Without bytecode, each compiles windowpane, and pytest every test, again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Create .venv from requirements.lock (the other targets do this by themselves)
	@scripts/setup

.PHONY: test
test: test-fast test-spark ## Run all tests

.PHONY: test-fast
test-fast: setup ## Run the quick tests, which need no Spark and no Java (under a minute)
	$(PYTHON) -m pytest -m "not spark and not slow and not cluster and not kafka and not postgres and not s3 and not hdfs" -n auto

.PHONY: search
SEARCH ?= 20
search: setup ## Look SEARCH times as long for counterexamples: oracle, properties, mutated queries, layouts of the stages, the corpus as streams
	SEARCH=$(SEARCH) $(PYTHON) -m pytest -m "not spark and not cluster and not kafka and not postgres and not s3 and not hdfs" -n auto \
		tests/oracle tests/sql/test_fuzz.py tests/core tests/config/test_any_input.py tests/spark/test_stages.py
	@scripts/java
	SEARCH=$(SEARCH) $(PYTHON) -m pytest -n 0 tests/spark/test_corpus_streams.py

.PHONY: tools
tools: setup ## Bring what test-spark needs: Java, Kafka, PostgreSQL, Redis, Hadoop, Chromium, readers of tables
	@scripts/java
	@scripts/kafka-jars || echo "Without Kafka: the tests that need it are skipped, or fail where CI is set." >&2
	@scripts/postgres-bin >/dev/null || echo "Without PostgreSQL: likewise." >&2
	@scripts/redis-bin >/dev/null || echo "Without Redis: likewise." >&2
	@scripts/duckdb-reader >/dev/null || echo "Without DuckDB's readers of Delta and Iceberg: likewise." >&2
	@scripts/hadoop-jars || echo "Without Hadoop's S3A and HDFS: likewise." >&2
	@scripts/chromium >/dev/null || echo "Without Chromium: likewise." >&2
	$(PYTHON) -m scripts.java_archive

.PHONY: test-spark
test-spark: tools ## Run the others: those that start Spark, Kafka, PostgreSQL, an S3 server or HDFS (needs Java 17+)
	$(PYTHON) -m pytest -m "(spark or slow or kafka or postgres or s3 or hdfs) and not long" -n 2 --dist loadfile --durations 30

.PHONY: test-long
test-long: setup ## Run the tests that take minutes: executors killed, large state killed while it is merged, HDFS killed and asked
	@scripts/java
	@scripts/hadoop-jars
	$(PYTHON) -m scripts.java_archive
	$(PYTHON) -m pytest -m long -n 0 --durations 10

.PHONY: test-cluster
test-cluster: setup ## Run a pipeline on a Spark cluster whose machines are lost one by one (root on Linux: network and mount namespaces)
	@scripts/java
	@scripts/yarn-jars
	$(PYTHON) -m pytest -n 0 tests/cluster --durations 10

.PHONY: check-deploy
check-deploy: ## Check deploy/ with linters and the schemas of Kubernetes
	@scripts/check-deploy

.PHONY: lint
lint: setup ## Check style, formatting, types and layers
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	.venv/bin/lint-imports --no-logo

.PHONY: format
format: setup ## Format the code and mend what ruff can mend
	$(PYTHON) -m ruff check --fix-only
	$(PYTHON) -m ruff format

.PHONY: lock
lock: ## Resolve pyproject.toml into requirements.lock (ARGS=--upgrade for newer versions)
	scripts/lock $(ARGS)

.PHONY: demo
demo: setup ## Run a pipeline over a stream with late, duplicate and corrupt rows, on local Spark (needs Java 17+)
	@scripts/java
	@$(PYTHON) examples/demo/demo.py

.PHONY: demo-ui
PORT ?= 8484
demo-ui: setup ## Run a pipeline over a stream that never ends, with its live page at http://127.0.0.1:PORT/ (needs Java 17+)
	@scripts/java
	@$(PYTHON) examples/live/live.py $(PORT)

.PHONY: demo-kafka
demo-kafka: setup ## Run a pipeline from Kafka into PostgreSQL, with both servers started for it (needs Java 17+)
	@scripts/kafka-jars
	@scripts/postgres-bin >/dev/null
	@$(PYTHON) examples/kafka/demo.py

.PHONY: docs
docs: setup ## Build the documentation as a site in out/site; warnings are errors
	@scripts/uv pip install --quiet --python $(PYTHON) --require-hashes --requirement docs/requirements.lock
	@$(PYTHON) scripts/pictures.py --check
	@$(PYTHON) scripts/check_prose.py
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --quiet
	@if grep -rlE '<(script|link|img)[^>]* (src|href)="https?:' out/site --include='*.html'; then \
		echo "These pages load something from elsewhere." >&2; exit 1; fi
	@echo "Open out/site/index.html, or run 'make docs-serve' for a page with search."

.PHONY: docs-serve
docs-serve: docs ## Serve the documentation at http://127.0.0.1:8000 while you edit it
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs serve

.PHONY: pictures
pictures: setup ## Draw the pictures of the docs anew
	@$(PYTHON) scripts/pictures.py

.PHONY: demo-recording
demo-recording: setup ## Run the demo and record its output in docs/demo.md (needs Java 17+)
	@scripts/java
	@$(PYTHON) scripts/record_demo.py

.PHONY: bench-core
bench-core: setup ## Measure the core's kernels
	$(PYTHON) bench/core.py

.PHONY: bench-spark
bench-spark: setup ## Measure against Spark's own windows, on the same files (ARGS="--rows 8000000 --cases hop")
	@scripts/java
	$(PYTHON) -m bench.spark $(ARGS)

.PHONY: bench-state
bench-state: setup ## Measure micro-batches beside a large state, against Spark and Flink (ARGS="--groups 10000,1000000 --cases session")
	@scripts/java
	$(PYTHON) -m bench.state $(ARGS)

.PHONY: bench-fixed
bench-fixed: setup ## Measure what a micro-batch of a few rows costs as a query warms up, against Spark (ARGS="--batches 800")
	@scripts/java
	$(PYTHON) -m bench.fixed_cost $(ARGS)

.PHONY: bench-spread
bench-spread: setup ## Measure how dedupe, quotas and busy keys spread over shards (ARGS="--cases skew")
	@scripts/java
	$(PYTHON) -m bench.spread $(ARGS)

.PHONY: bench-nexmark
bench-nexmark: setup ## Measure against Spark and Flink: rates, latency, cost as work grows (ARGS="compare --rows 4000000")
	@scripts/java
	@scripts/uv pip install --quiet --python $(PYTHON) --require-hashes --requirement bench/requirements.lock
	@$(PYTHON) -m bench.nexmark $(ARGS)

.PHONY: bench-sliding
bench-sliding: setup ## Measure sliding windows against the unfused path, Spark's RANGE and Flink's OVER (ARGS="--engines windowpane")
	@scripts/java
	$(PYTHON) -m bench.sliding $(ARGS)

.PHONY: bench-rollup
bench-rollup: setup ## Measure 1 s to 1 min to 1 h in one query against the 1 s query alone (ARGS="--rows 40000000 --batch 2")
	@scripts/java
	$(PYTHON) -m bench.rollup $(ARGS)

.PHONY: bench-backfill
bench-backfill: setup ## Measure a backfill against the stream and Spark's own batch query (ARGS="--rows 40000000")
	@scripts/java
	$(PYTHON) -m bench.backfill $(ARGS)

.PHONY: bench-jobs
bench-jobs: setup ## Measure ten transforms in one job against the most expensive one alone, and ten jobs (ARGS="--rows 20000000")
	@scripts/java
	$(PYTHON) -m bench.jobs $(ARGS)

.PHONY: bench-wide
bench-wide: setup ## Measure micro-batches with as many tasks and shards as a cluster has (ARGS="--widths 8,64")
	@scripts/java
	$(PYTHON) -m bench.wide $(ARGS)

.PHONY: bench-scale
bench-scale: setup ## Measure the constants of docs/scale.md and what they predict, in 5 minutes (ARGS=--record fills in the page)
	@scripts/java
	$(PYTHON) -m bench.scale $(ARGS)

.PHONY: bench-ui
bench-ui: setup ## Measure how much of a core the live page needs in Chromium, with 1,000 windows and 100 partitions
	@scripts/chromium >/dev/null
	$(PYTHON) -m bench.ui $(ARGS)

KILLS ?= 10
SOURCE ?= files
STORE ?= folder
.PHONY: torture
torture: setup ## Kill a pipeline KILLS times at random points, and compare its output (SOURCE=kafka, STORE=s3 or hdfs, PAUSE=1 stops it for a while too, SAVEPOINTS=1 goes back to a savepoint after each kill, AWAY=20 takes its sinks away for up to 20 s, SEED= repeats a failure)
	@scripts/java
	@if [ "$(SOURCE)" = kafka ]; then scripts/kafka-jars; fi
	@if [ "$(STORE)" != folder ]; then scripts/hadoop-jars; fi
	$(PYTHON) -m bench.torture --kills $(KILLS) --source $(SOURCE) --store $(STORE) $(if $(PAUSE),--pause) $(if $(SAVEPOINTS),--savepoints) $(if $(AWAY),--away $(AWAY)) $(if $(SEED),--seed $(SEED))

GROUPS ?= 1000000
.PHONY: torture-state
torture-state: setup ## Kill a pipeline while it merges state and closes a window of GROUPS groups, its cache of state damaged all the time
	@scripts/java
	$(PYTHON) -m bench.torture_state --groups $(GROUPS) $(if $(SEED),--seed $(SEED))

.PHONY: torture-evolve
torture-evolve: setup ## Change a query five times while rows flow and its process is killed, and compare with an oracle (SEED= repeats a failure)
	@scripts/java
	$(PYTHON) -m bench.torture_evolve $(if $(SEED),--seed $(SEED))

.PHONY: clean
clean: ## Remove the environment, the caches and what runs have written
	rm -rf .venv .tools .tools-deploy .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache out state spark-warehouse \
		examples/*/out examples/*/state examples/demo/data examples/live/data
