# Everything is set up on demand: a virtual environment (.venv, or the active one), the tools from PyPI, the build folder.
#
#   make [build]          build the package           make test         C++ and Python tests
#   make install-python   install into the environment make demo         read a picture with a real network
#   make lint             all checks                  make format       format all sources
#   make bench            compare with other engines  make test-cuda    tests that need a GPU (test-emulated: without)
#   make bench-cuda       compare with PyTorch on a GPU       make wheels       fetch what SYSTEM=ON WHEELS=<folder> installs
#   make fuzz             fuzz with sanitizers (Clang)        make sanitize     tests with sanitizers
#   make test-avx512      kernels of AVX-512 without it       make test-torch   tests of the torch.compile backend (fetches PyTorch)
#   make docs             generated pages             make golden       list of the cases of the ONNX suite that pass
#   make reconfig         configure anew              make clean        remove build folders
#   make clean-log        remove logs
#
# Variables: TYPE=Debug|Release, CUDA=OFF|ON, WERROR=OFF|ON, JOBS=<n>, PYTHON=<interpreter that makes .venv>, VENV=<environment>;
# SYSTEM=ON: .venv shows the packages of the system, and only what is missing is installed; WHEELS=<folder>: from there, without network;
# of make test-cuda: GPU_TESTS=<processes>, TEST_SECONDS=<from the start of make, 0: no end>; of make bench: MODELS=<files, built-in ones if none>, BASELINE=<earlier bench.json>; of make bench-cuda: BENCH_CUDA=<arguments>;
# of make sanitize: SANITIZE=address|thread (address finds undefined behaviour, too), SANITIZE_TESTS=<Python tests>;
# of make fuzz: FUZZ_SECONDS=<for each target>, FUZZ_TARGETS=<some of them>, FUZZ_CXX=<a Clang with libFuzzer>.

TYPE ?= Release
CUDA ?= OFF
WERROR ?= OFF
SYSTEM ?= OFF
WHEELS ?=
PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# Processes that share a GPU: each takes half a GB of its memory.
GPU_TESTS ?= $(shell expr $(JOBS) / 2 \| 1)
SANITIZE ?= address
SANITIZE_TESTS ?= tests/test_api.py tests/test_attention.py tests/test_contradictions.py tests/test_control_flow.py tests/test_custom_ops.py \
	tests/test_dynamic.py tests/test_errors.py tests/test_external.py tests/test_group_attention.py tests/test_matrix.py tests/test_quantized_folding.py \
	tests/test_recurrent.py tests/test_states.py tests/test_threads.py tests/test_tuning.py tests/test_weights.py
FUZZ_SECONDS ?= 30
FUZZ_TARGETS ?= dim_expr ncnn onnx pnnx pnnx_term
FUZZ_CXX ?= $(firstword $(foreach name,clang++ clang++-19 clang++-18 clang++-16 clang++-15,$(notdir $(shell command -v $(name) 2>/dev/null))) clang++)

ifeq ($(filter $(TYPE),Debug Release),)
$(error TYPE is '$(TYPE)', expected Debug or Release)
endif
ifeq ($(filter $(CUDA),OFF ON),)
$(error CUDA is '$(CUDA)', expected OFF or ON)
endif

ifeq ($(filter $(SYSTEM),OFF ON),)
$(error SYSTEM is '$(SYSTEM)', expected OFF or ON)
endif

VENV := $(or $(VIRTUAL_ENV),$(CURDIR)/.venv)
PY := $(VENV)/bin/python
STAMPS := $(VENV)/.refactor_graph
BUILD := build/$(TYPE)
PIP := $(PY) -m pip --quiet --disable-pip-version-check
RUN := PYTHONPATH=$(CURDIR)/$(BUILD)/python $(PY)
# Found before the environment, which has a Python of the same name, comes first.
MAKER := $(shell command -v $(PYTHON) || echo $(PYTHON))
# Tools of the environment (cmake, ninja, clang-format ...) come before those of the system.
export PATH := $(VENV)/bin:$(PATH)

CCACHE := $(shell command -v ccache 2>/dev/null)
# Without GoogleTest, which only tests need, all else is built.
CMAKE_DEFINES = RG_BUILD_TESTS=$(shell test -e $(STAMPS)/gtest && echo ON || echo OFF) RG_CUDA=$(CUDA) RG_WERROR=$(WERROR) $(if $(CCACHE),CMAKE_CXX_COMPILER_LAUNCHER=$(CCACHE))
ifeq ($(CUDA),ON)
CMAKE_DEFINES += $(if $(CCACHE),CMAKE_CUDA_COMPILER_LAUNCHER=$(CCACHE))
endif
CONFIGURE = cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=$(TYPE) -DPython_EXECUTABLE=$(PY) \
	-DCMAKE_MAKE_PROGRAM=$$(command -v ninja) $(addprefix -D,$(CMAKE_DEFINES))

# clang-format and the checkers look at the same files.
CXX_FILES = git ls-files --cached --others --exclude-standard -- 'src/*.h' 'src/*.cc' 'src/*.cuh' 'src/*.cu' 'fuzz/*.h' 'fuzz/*.cc'

.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.PHONY: configure build build-tests install-python reconfig clean clean-log test test-cpp test-python test-torch test-emulated test-avx512 format lint lint-format lint-python lint-rules \
	lint-names lint-docs demo bench bench-cuda test-cuda wheels docs golden fuzz sanitize

configure: $(STAMPS)/build $(STAMPS)/gtest $(if $(filter ON,$(CUDA)),$(STAMPS)/cuda)
	@$(CONFIGURE) --log-level=WARNING

build: configure
	ninja -C $(BUILD) -j $(JOBS) python_package

build-tests: configure
	@test -e $(STAMPS)/gtest || { echo "the C++ tests need GoogleTest"; exit 1; }
	ninja -C $(BUILD) -j $(JOBS)

reconfig:
	rm -rf $(BUILD)/CMakeCache.txt $(BUILD)/CMakeFiles
	@$(MAKE) --no-print-directory configure

# Shares the build folder with `build`, so only what changed is compiled.
install-python: build $(STAMPS)/run
	$(PIP) install --no-build-isolation --no-deps --force-reinstall . \
		--config-settings=build-dir=$(BUILD) --config-settings=cmake.build-type=$(TYPE) \
		--config-settings=build.targets=python_package \
		$(addprefix --config-settings=cmake.define.,$(CMAKE_DEFINES) Python_EXECUTABLE=$(PY))

test: test-cpp test-python test-emulated

test-cpp: build-tests
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS)
	$(PY) tools/lint/isa_objects.py $(BUILD)

test-python: build $(STAMPS)/test
	$(RUN) -m pytest -m "not cuda"

# Not part of `test`: PyTorch is larger than all else together. It has to be there, so that nothing is skipped.
test-torch: build $(STAMPS)/torch
	$(RUN) -c "import onnxscript, torch, transformers"
	$(RUN) -m pytest tests/test_torch_backend.py tests/test_torch_options.py tests/test_benchmarks.py

# What needs a GPU, on one that is emulated: without cuDNN, and with it, as GPUs have it.
test-emulated: build-tests $(STAMPS)/test
	REFACTOR_GRAPH_PLUGIN_PATH=$(CURDIR)/$(BUILD)/emulator/librefactor_cuda_emulated.so $(RUN) -m pytest -m cuda
	REFACTOR_GRAPH_PLUGIN_PATH=$(CURDIR)/$(BUILD)/emulator/librefactor_cuda_emulated.so REFACTOR_GRAPH_EMULATED_DNN=1 $(RUN) -m pytest -m cuda

# What is compiled for AVX-512, on any processor with AVX2: a second build, in some minutes. Peak measures instructions that are not there.
EMULATED_AVX512 := build/emulated-avx512
test-avx512: $(STAMPS)/build $(STAMPS)/gtest
	@cmake -S . -B $(EMULATED_AVX512) -G Ninja -DCMAKE_BUILD_TYPE=Release -DRG_EMULATE_AVX512=ON -DRG_BUILD_TESTS=ON -DRG_BUILD_PYTHON=OFF \
		$(if $(CCACHE),-DCMAKE_CXX_COMPILER_LAUNCHER=$(CCACHE)) -DPython_EXECUTABLE=$(PY) \
		-DCMAKE_MAKE_PROGRAM=$$(command -v ninja) --log-level=WARNING
	ninja -C $(EMULATED_AVX512) -j $(JOBS) kernel_test
	$(EMULATED_AVX512)/src/04kernel/kernel_test --gtest_brief=1 --gtest_filter=-Cuda*:Peak.*

# What a GPU answers below a model, and why another kernel than the usual one computes it; what is wrong here explains the rest.
DOCTOR = -@REFACTOR_GRAPH_LOG=info timeout 100 env $(RUN) -m refactor_graph.cli doctor --device cuda 2>&1

# Ten minutes are meant from here, the build included.
STARTED := $(shell date +%s)
# A GPU may make a test hang; where tests skip or are emulated, nothing needs an end.
TEST_SECONDS ?= $(if $(REFACTOR_GRAPH_PLUGIN_PATH),0,$(if $(wildcard /dev/nvidiactl /dev/dxg),560,0))
# What is left of them, 0 if there is no end.
SECONDS_LEFT = $$(left=$$(($(STARTED) + $(TEST_SECONDS) - $$(date +%s))); echo $$(($(TEST_SECONDS) == 0 ? 0 : left > 1 ? left : 1)))

# Several processes: a test that loses the device or the process takes no other with it. Python first: it runs on the GPU, what ctest
# has to do only compiles for it. SIGINT leaves pytest its summary.
test-cuda: configure $(STAMPS)/test
	ninja -C $(BUILD) -j $(JOBS)
	$(DOCTOR)
	@status=0; \
	timeout --foreground -s INT -k 20 $(SECONDS_LEFT) env $(RUN) -m pytest -m cuda -n $(GPU_TESTS) --max-worker-restart 64 -o faulthandler_timeout=90 || status=$$?; \
	test $$status -ne 124 || echo "pytest was interrupted $(TEST_SECONDS) s after make began"; \
	ctest --test-dir $(BUILD) --output-on-failure $(if $(filter-out 0,$(TEST_SECONDS)),--timeout $(SECONDS_LEFT)) $(if $(filter ON,$(CUDA)),--no-tests=error) --label-regex cuda || status=$$?; \
	exit $$status

demo: install-python $(STAMPS)/demo
	$(PY) examples/demo.py

bench: install-python $(STAMPS)/bench
	@mkdir -p $(BUILD)
	$(PY) benchmarks/run.py --json $(BUILD)/bench.json --plot $(BUILD)/bench.svg $(if $(BASELINE),--baseline $(BASELINE)) $(MODELS)

bench-cuda: build $(STAMPS)/run
	$(DOCTOR)
	$(RUN) benchmarks/cuda.py --started $(STARTED) $(BENCH_CUDA)

# For the interpreter that this runs with: copy the folder to a machine without network. NVIDIA's libraries, which are large, are left out:
# PyTorch for CUDA 13 brings them.
wheels: | $(PY)
	$(PIP) download --dest $(or $(WHEELS),wheels) -r requirements/build.txt -r requirements/test.txt
	$(PY) tools/get_gtest.py --fetch $(or $(WHEELS),wheels)

# `make -k lint` goes on after a failure and shows all of them.
lint: lint-format lint-python lint-rules lint-names lint-docs

lint-format: $(STAMPS)/lint
	$(CXX_FILES) | xargs -r clang-format --dry-run --Werror

lint-python: $(STAMPS)/lint
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

lint-rules: $(STAMPS)/lint
	$(PY) tools/lint/run.py

lint-names: configure $(STAMPS)/lint
	$(PY) tools/lint/tidy.py $(BUILD) -j $(JOBS)

lint-docs: build $(STAMPS)/run
	$(RUN) tools/lint/supported_operators.py

docs: build $(STAMPS)/run
	$(RUN) tools/lint/supported_operators.py --update

golden: build $(STAMPS)/test
	$(RUN) -m tests.backend_suite --update

# Python and what it loads are not instrumented: the sanitizer comes in front of them, with the library whose exceptions it watches,
# and leaks of theirs are not looked for. Reports go past pytest, or they would end with the process.
# The thread sanitizer sees nothing of what onnxruntime and Python do to order their accesses, and refuses threads after a fork unless told so.
SANITIZER_OPTIONS := ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=die_after_fork=0:ignore_noninstrumented_modules=1
SANITIZED := build/sanitize-$(SANITIZE)
SANITIZER = $(foreach name,$(if $(filter thread,$(SANITIZE)),tsan,asan) stdc++,$(shell $(CXX) -print-file-name=lib$(name).so))
sanitize: $(STAMPS)/build $(STAMPS)/gtest $(STAMPS)/test
	@cmake -S . -B $(SANITIZED) -G Ninja -DCMAKE_BUILD_TYPE=Debug -DRG_SANITIZE=$(if $(filter thread,$(SANITIZE)),thread,address,undefined) -DRG_BUILD_TESTS=ON \
		$(if $(CCACHE),-DCMAKE_CXX_COMPILER_LAUNCHER=$(CCACHE)) -DPython_EXECUTABLE=$(PY) \
		-DCMAKE_MAKE_PROGRAM=$$(command -v ninja) --log-level=WARNING
	ninja -C $(SANITIZED) -j $(JOBS)
	ctest --test-dir $(SANITIZED) --output-on-failure --no-tests=error
	$(SANITIZER_OPTIONS) PYTHONPATH=$(CURDIR)/$(SANITIZED)/python LD_PRELOAD="$(SANITIZER)" \
		$(PY) -m pytest -q --capture=sys -m "not cuda" $(SANITIZE_TESTS)

# The corpus grows in build/fuzz/corpus; what ends a target is left in build/fuzz/findings.
fuzz: $(STAMPS)/build $(STAMPS)/run
	@cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=Debug -DRG_FUZZ=ON -DRG_BUILD_PYTHON=OFF \
		-DCMAKE_CXX_COMPILER=$(FUZZ_CXX) $(if $(CCACHE),-DCMAKE_CXX_COMPILER_LAUNCHER=$(CCACHE)) \
		-DPython_EXECUTABLE=$(PY) -DCMAKE_MAKE_PROGRAM=$$(command -v ninja) --log-level=WARNING
	ninja -C build/fuzz -j $(JOBS) $(addprefix fuzz_,$(FUZZ_TARGETS))
	@mkdir -p build/fuzz/findings $(addprefix build/fuzz/corpus/,$(FUZZ_TARGETS))
	$(PY) fuzz/make_corpus.py build/fuzz/corpus/onnx_models
	set -e; for target in $(FUZZ_TARGETS); do \
		build/fuzz/fuzz/fuzz_$$target -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=4096 -max_len=4096 \
			-print_final_stats=1 -artifact_prefix=build/fuzz/findings/$$target- build/fuzz/corpus/$$target fuzz/corpus/$$target \
			$$(test $$target != onnx || echo build/fuzz/corpus/onnx_models); \
	done

format: $(STAMPS)/lint
	$(CXX_FILES) | xargs -r clang-format -i
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

clean:
	rm -rf build

clean-log:
	rm -rf log

$(PY):
	@$(MAKER) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 10) else \
		"Python %d.%d is too old, 3.10 is needed: make PYTHON=<interpreter>" % v[:2])'
	@# What makes a pip (ensurepip) may not be installed; one of the system is seen by the environment.
	$(MAKER) -m venv $(if $(filter ON,$(SYSTEM)),--system-site-packages \
		$$(! $(MAKER) -m pip --version > /dev/null 2>&1 || echo --without-pip)) $(VENV) || { rm -f $(PY); exit 1; }
ifeq ($(SYSTEM),ON)
	@# An environment sees the packages of the interpreter at the bottom, not those of an environment that it is made from.
	$(MAKER) -c 'import site; print(*site.getsitepackages(), sep="\n")' \
		> $$($(PY) -c 'import site; print(site.getsitepackages()[0])')/system_packages.pth
endif

# One stamp for each requirements file, kept in the environment that it describes.
$(STAMPS)/gtest: requirements/gtest.txt tools/get_gtest.py | $(PY)
	@if $(PY) tools/get_gtest.py $(VENV) $(WHEELS); then mkdir -p $(STAMPS) && touch $@; \
		else echo "GoogleTest cannot be had: the C++ tests are not built"; fi

$(STAMPS)/%: requirements/%.txt requirements/run.txt | $(PY)
	$(PY) tools/install.py $< $(if $(filter ON,$(SYSTEM)),--missing) $(if $(WHEELS),--wheels $(WHEELS))
	@mkdir -p $(STAMPS) && touch $@
