# make demo   five decoders on the bundled models: one table, one plot
# make report-demo   the five decoders over branches and thresholds, with traces: a full report in demo/report
# make test   all tests, in two processes; make test JOBS=4 in four
# make lint   formatting, lint rules, docstrings, types
# Each makes the virtual environment that it needs, in .venv.

PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
TYPES := .cache/types
INSTALLED := .venv/.installed
TOOLS := .venv/.installed-tools
PACKAGES := cli decoders harness models results tasks

.PHONY: demo report-demo test lint format wheel clean

demo: $(INSTALLED)
	$(BIN)/lopa-bench demo

report-demo: $(INSTALLED)
	$(BIN)/lopa-bench sweep benchmarks/report-demo.yaml --runs-dir demo/runs
	$(BIN)/lopa-bench report --sweep report-demo --runs-dir demo/runs --out demo/report --published \
		--title "LoPA and four other decoders on the bundled models"

test: $(TOOLS)
	$(BIN)/pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

lint: $(TOOLS) $(TYPES)/lopa_bench
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	MYPYPATH=$(TYPES) $(BIN)/mypy $(addprefix -p lopa_bench.,$(PACKAGES)) -m lopa_bench.errors

format: $(TOOLS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(TOOLS)
	rm -rf build dist
	$(BIN)/python -m build --wheel --outdir dist .

clean:
	rm -rf .venv .cache build dist *.egg-info

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(TOOLS): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The folders stand at the top level but are imported as lopa_bench.<folder>; mypy follows this link to see them so.
$(TYPES)/lopa_bench:
	mkdir -p $(TYPES)
	ln -sfn ../.. $@
