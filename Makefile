# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
CONTRACTS ?= tests/contracts
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test shared check lint types layers bench clean

$(STAMP): pyproject.toml
	@echo "== Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@echo "== Installing RefDesk and what its tests need; the first time this takes a few minutes"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	@echo "== Indexing this repository, then asking the MCP server as an agent would"
	@$(BIN)/python examples/demo.py
	@echo "== Done. The library is in .refdesk: try $(BIN)/refdesk search \"how are retries configured\""

test: $(STAMP)
	@echo "== Looking for Node and the protocol's own test suite, which judge the server"
	@$(BIN)/python tests/server/node_tools.py
	@echo "== Looking for Postgres and Qdrant, which a shared library runs on"
	@$(BIN)/python -m tests.scale.servers || true
	@echo "== Looking for a Neo4j server, which playbooks are tested on; the first time this takes minutes"
	@$(BIN)/python tests/ports/neo4j_server.py
	@echo "== Running the tests in 3 processes; beside other work this takes a quarter of an hour or more"
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -rs

shared: $(STAMP)
	@echo "== Contracts once more, on Postgres and Qdrant"
	@$(BIN)/python -m tests.scale.servers || true
	@$(BIN)/python -m pytest -n 3 --dist loadfile --shared -rs $(CONTRACTS)

check: lint types layers

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/mypy --config-file= --ignore-missing-imports --check-untyped-defs training

layers: $(STAMP)
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m bench.speed
	$(BIN)/python -m bench.quality

clean:
	rm -rf $(VENV) .refdesk dist build bench/results
