# Two commands are all: `make demo` and `make test`. Each makes what it needs; only Python 3.10+ and make are taken
# for granted. Variables: PYTHON (interpreter for the environment), TORCH_VERSION, TORCH_INDEX (see
# scripts/make_environment.sh), TEST_ARGS (more arguments for pytest), BENCH_ARGS (arguments for the
# benchmark, that of cuda too), TREE and TREE_ARGS (the trees that zoo checks, and more arguments for that),
# MATRIX_ARGS (arguments for scripts/matrix.py, such as --only 3.12).

VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
export PYTHON TORCH_VERSION TORCH_INDEX

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit full checks conformance oracles cuda compose truth soundness fuzz variants zoo bench matrix clean

help: ## Say what there is
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(VENV)/.installed ## Instrument examples/mnist.py, run it, and show its trace and its page
	@rm -rf $(DEMO) && mkdir -p $(DEMO)
	@echo '$$ instrument examples/mnist.py -o $(DEMO)/instrumented_mnist.py'
	@$(BIN)/instrument examples/mnist.py -o $(DEMO)/instrumented_mnist.py
	@echo && echo '$$ cd $(DEMO) && python instrumented_mnist.py --epochs 1'
	@cd $(DEMO) && $(CURDIR)/$(BIN)/python instrumented_mnist.py --epochs 1
	@echo && echo '$$ instrument examples/mnist.py --diff'
	@$(BIN)/instrument examples/mnist.py --diff
	@echo && echo '$$ proxy-trace summary $(DEMO)/proxy_trace'
	@$(BIN)/proxy-trace summary $(DEMO)/proxy_trace
	@echo && echo '$$ proxy-trace report $(DEMO)/proxy_trace -o $(DEMO)/report.html'
	@$(BIN)/proxy-trace report $(DEMO)/proxy_trace -o $(DEMO)/report.html
	@echo && echo 'The page of the run: $(CURDIR)/$(DEMO)/report.html'

test: lint types unit ## Check style, types and behaviour

lint: $(VENV)/.installed-dev ## Check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.installed-dev ## Check types
	$(BIN)/mypy

checks: $(VENV)/.installed-dev ## Write docs/checks.md from the checks
	$(BIN)/python -c "from proxy_trace.checks.reference import reference; print(reference(), end='')" > docs/checks.md

# One thread for each worker's torch: more only make the workers wait for each other. With byte code, the hundreds of
# processes that the tests start need not compile the project anew.
unit: $(VENV)/.installed-dev ## Run the tests
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 $(TEST_ARGS)

full: $(VENV)/.installed-dev ## Run the tests with all cases of those of which `make test` runs a sample
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --all-cases $(TEST_ARGS)

conformance: $(VENV)/.installed-dev ## Run all of PyTorch's test databases, plain against traced (tens of minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/conformance --conformance-full -n 2 $(TEST_ARGS)

oracles: $(VENV)/.installed-dev ## Try libraries' own models and trainers: graphs, profiles, callbacks
	scripts/make_environment.sh $(VENV) dev,models,lightning,transformers
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/oracles tests/proxy_callbacks tests/proxy_views tests/seeds --all-cases -rs $(TEST_ARGS)

cuda: $(VENV)/.installed-dev ## Try what is promised on a CUDA device, and measure what tracing costs there (an hour)
	CUBLAS_WORKSPACE_CONFIG=:4096:8 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m cuda --all-cases -rs $(TEST_ARGS)
	$(BIN)/python benchmarks/runtime_overhead.py --device cuda $(BENCH_ARGS)

compose: $(VENV)/.installed-dev ## Run 1,000 random rows of programs, plain against traced (half an hour)
	PROXY_EXAMPLES=1000 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/proxy_wrapper/test_compositions.py $(TEST_ARGS)

truth: $(VENV)/.installed-dev ## Compare the traces of 200 random programs with what is counted independently
	PROXY_TRUTH_EXAMPLES=200 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/proxy_wrapper/truth --all-cases $(TEST_ARGS)

soundness: $(VENV)/.installed-dev ## Judge the analysis by 2,000 random programs (a quarter of an hour)
	INSTRUMENT_PROGRAMS=2000 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto tests/instrumentor/test_soundness.py -rA

fuzz: $(VENV)/.installed-dev ## Try 2,000 generated sources, and 2,000 files and traces made to do harm (half an hour)
	INSTRUMENT_EXAMPLES=2000 TRACE_EXAMPLES=2000 $(BIN)/python -m pytest -n auto \
		tests/instrumentor/test_generated_sources.py tests/instrumentor/test_hostile_files.py \
		tests/proxy_trace/test_hostile_traces.py

variants: $(VENV)/.installed-dev ## Write each pattern in every other way that is known (24,000 programs)
	INSTRUMENT_VARIANTS=all OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto tests/instrumentor/test_variants.py

zoo: $(VENV)/.installed ## Check on a whole tree of sources what is promised of any: make zoo TREE=site-packages/timm
	$(BIN)/python benchmarks/whole_tree.py $(TREE) $(TREE_ARGS)

bench: $(VENV)/.installed ## Measure what tracing costs
	$(BIN)/python benchmarks/runtime_overhead.py $(BENCH_ARGS)

# The environments are many: their tests run one environment after another, each by as many processes as `unit`.
matrix: ## Run the tests on each Python and torch that is supported (hours)
	$(or $(PYTHON),python3) scripts/matrix.py $(MATRIX_ARGS) -- -n auto --maxprocesses 4 $(TEST_ARGS)

clean: ## Remove the environment and everything built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What an installation compiles.
COMPILED := hatch_build.py scripts/compile_one_pass.py runtime/proxy_wrapper/values/native/one_pass.c

$(VENV)/.installed: pyproject.toml scripts/make_environment.sh $(COMPILED)
	@scripts/make_environment.sh $(VENV)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml scripts/make_environment.sh $(COMPILED)
	@scripts/make_environment.sh $(VENV) dev
	@touch $@ $(VENV)/.installed
