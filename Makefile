# make demo: quantize ResNet-50 and the trained network that ships. make test: the linters, and all tests of both engines.
PYTHON ?= python3.11
ENGINE ?= onednn
VENV := .venv-$(ENGINE)
BIN := $(VENV)/bin
OUT := demo
# Modules are compiled when they are first imported: most never are.
INSTALL := pip install --quiet --no-compile --editable

.PHONY: demo smoke soak train-bench onnx-conformance zoo docs test lint tables coverage test-onednn test-mkl test-mkl-emulated test-mkl-emulated-all test-numa \
	test-faults test-lean test-horovod properties mutate fuzz crash-search clean

demo: $(VENV)/installed
	mkdir -p $(OUT)
	$(BIN)/quantkit quantize resnet50 --calib 10 --out $(OUT)/resnet50-int8 --force
	$(BIN)/quantkit quantize digits_resnet20_v2 --calib-data digits:train --calib 100 --out $(OUT)/digits-int8 --force
	$(BIN)/quantkit evaluate $(OUT)/digits-int8 --data digits:test --reference digits_resnet20_v2
	$(BIN)/quantkit verify $(OUT)/digits-int8

# Native MXNet against oneDNN on two small networks, and a page of the results.
smoke: $(VENV)/installed
	$(BIN)/quantkit benchmark smoke --out $(OUT)/smoke --force
	$(BIN)/quantkit report $(OUT)/smoke --out $(OUT)/smoke-report

# 100,000 predictions in each engine: memory, descriptors and threads may not grow.
soak: $(VENV)/installed
	mkdir -p $(OUT)
	$(BIN)/python benchmarks/soak.py --out $(OUT)/soak

# Fine-tuned networks, INT8 networks trained with their rounding, the efficiency of instances, and images trained and
# prepared per second; nothing else may run.
train-bench: $(VENV)/installed
	mkdir -p $(OUT)
	$(BIN)/python benchmarks/finetuning.py --out $(OUT)/finetuning
	$(BIN)/python benchmarks/quantization_aware.py --out $(OUT)/quantization-aware
	$(BIN)/python benchmarks/resuming.py --out $(OUT)/resuming
	$(BIN)/python benchmarks/convergence.py --out $(OUT)/convergence
	$(BIN)/python benchmarks/training_scaling.py --out $(OUT)/training-scaling
	$(BIN)/python benchmarks/kvstore.py --out $(OUT)/kvstore
	$(BIN)/python benchmarks/input_bound.py --out $(OUT)/input-bound
	$(BIN)/python benchmarks/training_score.py --out $(OUT)/training-score
	$(BIN)/python benchmarks/training_feed.py --out $(OUT)/training-feed
ifeq ($(ENGINE),horovod)
	$(BIN)/python benchmarks/horovod_cycle.py --out $(OUT)/horovod-cycle
endif

# Every network of GluonCV's zoo, through all stages and engines; hours, so that the data lie where `make clean` leaves
# them. What zoo.json has already is kept. SHARE=2/4 takes every fourth network from the second on, into the same file;
# of shares of other machines, `benchmarks/zoo.py --known` takes over the rows.
SHARE ?= 1/1
zoo: $(VENV)/installed
	$(BIN)/python benchmarks/zoo.py --share $(SHARE) --out benchmarks/results/zoo

test: lint test-onednn coverage test-mkl

lint: .venv-onednn/installed
	.venv-onednn/bin/ruff check .
	.venv-onednn/bin/ruff format --check .
	.venv-onednn/bin/mypy

# ONNX's backend test cases through the importer: each right, or refused with a reason.
onnx-conformance: $(VENV)/installed
	mkdir -p $(OUT)
	$(BIN)/python benchmarks/onnx_conformance.py --out $(OUT)/onnx-conformance

# All tables of figures, from the data in benchmarks/results.
tables: .venv-onednn/installed
	.venv-onednn/bin/python benchmarks/tables.py

# The site, in build/site; ends with an error where a link or an anchor leads nowhere.
docs: .venv-docs/installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --config-file docs/mkdocs.yml

.venv-docs/installed: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m $(INSTALL) '.[docs,report]'
	touch $@

# Tests that measure time or load run alone, the others in three processes, of which one often waits for what it has
# started, all in an order that is shuffled anew each time; `--randomly-seed` and the number that is printed at the end
# repeat it.
# A file's tests run in one process, for their fixtures; the pages of docs/, together the longest file, are shared out.
PARALLEL := -m 'not timing' -n 3 --dist loadfile
# CI has in turns: the tests with the marker `long`; the files of the packages that stand on all others, of those that
# measure time or load, and with mxnet-mkl.
TURN ?= 1/1
IN_TURNS := tests/cluster tests/deployment tests/suites
# The tests that measure the coverage of the core packages. Measuring slows them by a quarter, so the others do without.
COVERING := tests/benchmark tests/bundle tests/calibration tests/evaluation tests/fusion tests/ir tests/lowering tests/quantization \
	$(wildcard tests/test_*.py)
TIMING = $(shell grep -rl --include='test_*.py' 'mark\.timing' tests)
test-onednn: .venv-onednn/installed
	.venv-onednn/bin/python -m pytest $(PARALLEL) --cov --cov-report= $(COVERING)
	.venv-onednn/bin/python -m pytest $(PARALLEL) --long $(TURN) $(patsubst %,--ignore %,$(COVERING) $(IN_TURNS) tests/docs)
	.venv-onednn/bin/python -m pytest $(PARALLEL) --part $(TURN) $(IN_TURNS)
	.venv-onednn/bin/python -m pytest -n 3 --long $(TURN) tests/docs
	.venv-onednn/bin/python -m pytest -m timing --part $(TURN) $(TIMING)

# With mxnet-mkl, what meets the engine's kernels: networks are rewritten, quantized, stored, run and deployed. What is
# made of the results, what serves them, and commands, are the same with either wheel.
WITH_mkl := tests/backends/mxnet tests/fusion tests/quantization tests/lowering tests/ir tests/formats/mxnet \
	tests/bundle tests/models tests/deployment tests/accuracy tests/cli/test_verify.py tests/cli/test_profile.py \
	tests/benchmark/workers/test_worker.py \
	$(patsubst %,tests/test_%.py,api cells properties sequences vectors)
LEFT_OUT_mkl := tests/bundle/test_export.py tests/models/test_onnx_fuzz.py tests/models/test_scene_networks.py tests/models/test_recurrent.py \
	$(addprefix tests/deployment/,serving tuning watching)
TESTS_mkl := $(WITH_mkl) $(patsubst %,--ignore %,$(LEFT_OUT_mkl))
test-mkl: .venv-mkl/installed
	.venv-mkl/bin/python -m pytest $(PARALLEL) --part $(TURN) $(TESTS_mkl)
	.venv-mkl/bin/python -m pytest -m timing --part $(TURN) $(TESTS_mkl)

# How much of each core package its tests with mxnet 1.9.1 run.
coverage: test-onednn
	.venv-onednn/bin/python tests/branch_coverage.py

# MKL-DNN 1.0 aborts in INT8 convolutions on AMD processors with AVX-512. There, the tests that run INT8 networks on
# mxnet-mkl are skipped, and run here instead, on an emulated Intel processor, with all the processes that they start.
# All of them take hours, so test-mkl-emulated runs those of the files where INT8 networks are made.
PROCESSOR := Haswell,-pcid,-x2apic,-tsc-deadline,-hle,-invpcid,-rtm
EMULATED := tests/lowering/test_mxnet_int8.py tests/lowering/test_grouped_convolutions.py tests/lowering/test_poolings.py
EMULATE = QUANTKIT_REQUIRE=engine,int8 .venv-mkl/bin/emulated-python -m pytest -m int8 --timeout 3600
test-mkl-emulated: .venv-mkl/bin/emulated-python
	$(EMULATE) $(EMULATED)
test-mkl-emulated-all: .venv-mkl/bin/emulated-python
	$(EMULATE) $(TESTS_mkl)

# Python takes this file for itself, so that the processes that it starts are emulated, too.
.venv-mkl/bin/emulated-python: .venv-mkl/installed Makefile
	printf '#!/bin/sh\nQUANTKIT_EMULATED=1 exec qemu-x86_64 -cpu %s -0 "$$0" "%s" "$$@"\n' \
		'$(PROCESSOR)' '$(CURDIR)/.venv-mkl/bin/python' > $@
	chmod +x $@

# The properties of random networks, on a thousand new ones each; what is found is printed with how to repeat it.
properties: .venv-onednn/installed
	HYPOTHESIS_PROFILE=long .venv-onednn/bin/python -m pytest tests/test_properties.py

# Every write of every command fails once and is killed once; `make test` tries a few.
test-faults: .venv-onednn/installed
	QUANTKIT_FAULTS=all .venv-onednn/bin/python -m pytest tests/faults -rP

# Deployments without MXNet: the wheel with NumPy 2, Pillow, pydantic and ONNX Runtime alone, on every Python there is.
test-lean: .venv-onednn/installed
	.venv-onednn/bin/python tests/lean/prepare.py build/lean
	QUANTKIT_LEAN=build/lean .venv-onednn/bin/python -m pytest tests/lean -rP

# Trainings through Horovod.
test-horovod: .venv-horovod/installed
	QUANTKIT_REQUIRE=horovod .venv-horovod/bin/python -m pytest tests/training/test_horovod.py tests/training/test_launch.py

# Placement on two NUMA nodes, in a virtual machine.
test-numa: .venv-onednn/installed
	tests/numa/prepare build/numa
	QUANTKIT_NUMA_KERNEL=build/numa/vmlinuz .venv-onednn/bin/python -m pytest tests/numa

# Every loader is given damaged files, two loaders at a time, guided by coverage; KEEP=--keep adds to tests/fuzz/corpora.
SECONDS ?= 600
KEEP ?=
fuzz: .venv-onednn/fuzz
	.venv-onednn/bin/python -m tests.fuzz --seconds $(SECONDS) $(KEEP)

.venv-onednn/fuzz: .venv-onednn/installed
	.venv-onednn/bin/python -m $(INSTALL) '.[fuzz]'
	touch $@

# Where several `make` run at once, each environment is still built once: the stamp is written last.
.venv-%/installed: pyproject.toml
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m $(INSTALL) '.[$*,test,lint]'
	touch $@

# Horovod comes as source alone. It builds where MXNet can be imported as it is, which takes a NumPy before 1.24; minutes,
# with CMake and a C++ compiler.
BUILD_HOROVOD := HOROVOD_WITH_MXNET=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITHOUT_PYTORCH=1 \
	HOROVOD_WITHOUT_TENSORFLOW=1 CMAKE_POLICY_VERSION_MINIMUM=3.5
.venv-horovod/installed: pyproject.toml
	$(PYTHON) -m venv build/horovod
	build/horovod/bin/python -m pip install --quiet 'setuptools<81' wheel mxnet==1.9.1 numpy==1.23.5
	$(BUILD_HOROVOD) build/horovod/bin/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/horovod/wheels \
		horovod==0.28.1
	$(PYTHON) -m venv .venv-horovod
	.venv-horovod/bin/python -m pip install --quiet --find-links build/horovod/wheels --editable '.[onednn,horovod,test,lint]'
	touch $@

.PRECIOUS: .venv-%/installed

# How many small faults in the core packages make a test or the type checker fail; hours on two cores. PACKAGES="fusion bundle" for some.
mutate: .venv-onednn/installed
	.venv-onednn/bin/python -m $(INSTALL) '.[onednn,test,lint,mutation]'
	.venv-onednn/bin/python tests/mutation/measure.py $(PACKAGES)

# Every operator that may stand in a symbol file with every hostile value, in child processes; a few minutes.
crash-search: $(VENV)/installed
	$(BIN)/python -W ignore -m tests.backends.mxnet.crash_search

clean:
	rm -rf .venv-* $(OUT) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
