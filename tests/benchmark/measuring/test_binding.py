"""Commands and environments of instances."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.build import Build
from quantkit.benchmark.measuring import binding
from quantkit.benchmark.measuring.binding import environment, launch
from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.results.results import Settings
from quantkit.errors import UserError
from quantkit.host import preloaded

PINNED = Placement((0, 2), (1,), 2)
UNPINNED = Placement(None, None, 2)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """A build in a folder of its own, without Intel's OpenMP."""
    (tmp_path / "mxnet").mkdir()
    return Build("mine", str(tmp_path / "bin/python"), "3", "1", "1", str(tmp_path / "mxnet/libmxnet.so"), (), True)


def test_what_the_user_has_set_for_others_does_not_count(build: Build) -> None:
    inherited = {
        "PATH": "/bin",
        "HOME": "/root",
        "OMP_NUM_THREADS": "99",
        "OMP_SCHEDULE": "dynamic",
        "GOMP_SPINCOUNT": "0",
        "KMP_AFFINITY": "none",
        "MKL_NUM_THREADS": "99",
        "MKLDNN_VERBOSE": "1",
        "DNNL_VERBOSE": "1",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_NUM_THREADS": "1",
        "MXNET_ENGINE_TYPE": "NaiveEngine",
        "DMLC_ROLE": "server",
        "MALLOC_CONF": "stats_print:true",
        "LD_PRELOAD": "spy.so",
        "PYTHONPATH": "/elsewhere",
        "PYTHONHOME": "/elsewhere",
    }
    assert environment(build, "fp32", PINNED, inherited=inherited) == {
        "PATH": "/bin",
        "HOME": "/root",
        "PYTHONNOUSERSITE": "1",
        "MXNET_SUBGRAPH_BACKEND": "default",
        "OMP_NUM_THREADS": "2",
        "KMP_BLOCKTIME": "1",
        "MXNET_CPU_PARALLEL_COPY_SIZE": "2147483647",
        "MXNET_CPU_PARALLEL_SIZE": "2147483647",
        "OMP_PROC_BIND": "close",
        "OMP_PLACES": "{0},{2}",
    }


def test_an_unpinned_instance_gets_threads_and_no_places(build: Build) -> None:
    assert environment(build, "int8", UNPINNED, inherited={}) == {
        "PYTHONNOUSERSITE": "1",
        "MXNET_SUBGRAPH_BACKEND": "default",
        "OMP_NUM_THREADS": "2",
        "KMP_BLOCKTIME": "1",
        "MXNET_CPU_PARALLEL_COPY_SIZE": "2147483647",
        "MXNET_CPU_PARALLEL_SIZE": "2147483647",
    }


@pytest.mark.parametrize(("variant", "backend"), [("fp32", "default"), ("fused", "default"), ("stock", "MKLDNN")])
def test_only_stock_networks_are_fused_by_mxnet(build: Build, variant: str, backend: str) -> None:
    assert environment(build, variant, PINNED, inherited={})["MXNET_SUBGRAPH_BACKEND"] == backend


def test_other_engines_are_told_by_the_worker(build: Build) -> None:
    other = replace(build, engine="onnxruntime")
    inherited = {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "9",
        "ORT_SPIN": "1",
        "OV_CPU": "1",
        "OPENVINO_LOG": "3",
        "TBB_X": "1",
    }
    assert environment(other, "int8", PINNED, "intel", inherited=inherited) == {"PATH": "/bin", "PYTHONNOUSERSITE": "1"}
    assert (launch(other, "int8", UNPINNED).engine, launch(build, "int8", PINNED).engine) == ("onnxruntime", "mxnet")


@pytest.mark.parametrize("place", ["mxnet/libiomp5.so", "lib/libiomp5.so"])
def test_intel_openmp(build: Build, tmp_path: Path, place: str) -> None:
    library = tmp_path / place
    library.parent.mkdir(exist_ok=True)
    library.touch()
    variables = environment(build, "fp32", PINNED, openmp="intel", inherited={})
    assert variables["LD_PRELOAD"] == str(library)
    assert variables["KMP_AFFINITY"] == "granularity=fine,compact,1,0"
    assert "OMP_PLACES" not in variables and "OMP_PROC_BIND" not in variables
    assert "KMP_AFFINITY" not in environment(build, "fp32", UNPINNED, openmp="intel", inherited={})


@pytest.mark.parametrize(
    ("threads", "count"), [("placed", "2"), ("all", "7"), ("half", "3"), ("one", "1"), ("unset", None)]
)
def test_a_contestant_has_a_number_of_threads_of_its_own(
    build: Build, monkeypatch: pytest.MonkeyPatch, threads: Any, count: str | None
) -> None:
    class Cpu:
        usable = range(7)

    monkeypatch.setattr(binding, "read_cpu", Cpu)
    given = launch(build, "fp32", UNPINNED, settings=Settings(threads=threads))
    assert given.environment.get("OMP_NUM_THREADS") == count
    # MXNet itself takes half of the hardware threads.
    assert given.placement.threads == int(count or 3)


def test_settings_of_a_contestant_come_before_those_of_the_run(build: Build, tmp_path: Path) -> None:
    (tmp_path / "mxnet/libiomp5.so").touch()
    settings = Settings("intel", affinity="granularity=fine,scatter", blocktime=0)
    variables = environment(build, "fp32", PINNED, "gnu", settings=settings, inherited={})
    assert variables["LD_PRELOAD"].endswith("libiomp5.so")
    assert (variables["KMP_AFFINITY"], variables["KMP_BLOCKTIME"]) == ("granularity=fine,scatter", "0")
    assert "LD_PRELOAD" not in environment(build, "fp32", PINNED, "gnu", settings=Settings("gnu"), inherited={})
    parallel = environment(build, "fp32", PINNED, settings=Settings(copies="parallel"), inherited={})
    assert not [name for name in parallel if name.startswith("MXNET_CPU_PARALLEL")]


def test_no_intel_openmp(build: Build) -> None:
    with pytest.raises(UserError, match=r"build mine has no Intel OpenMP.*pip install intel-openmp"):
        environment(build, "fp32", PINNED, openmp="intel", inherited={})


@pytest.mark.parametrize(("allocator", "library"), [("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc.so.4")])
def test_allocators(build: Build, monkeypatch: pytest.MonkeyPatch, allocator: str, library: str) -> None:
    installed = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc.so.4"}
    monkeypatch.setattr(preloaded, "find_library", installed.get)
    assert environment(build, "fp32", PINNED, allocator=allocator, inherited={})["LD_PRELOAD"] == library


@pytest.mark.parametrize(("allocator", "package"), [("jemalloc", "libjemalloc2"), ("tcmalloc", "libtcmalloc-minimal4")])
def test_allocators_that_are_missing(
    build: Build, monkeypatch: pytest.MonkeyPatch, allocator: str, package: str
) -> None:
    monkeypatch.setattr(preloaded, "find_library", lambda name: None)
    with pytest.raises(UserError, match=package):
        environment(build, "fp32", PINNED, allocator=allocator, inherited={})


@pytest.fixture
def numactl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A numactl that succeeds, alone on PATH."""
    program = tmp_path / "programs" / "numactl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    binding._succeeds.cache_clear()
    return program


def test_numactl_binds(build: Build, numactl: Path) -> None:
    launched = launch(build, "fp32", PINNED)
    assert launched.command == (str(numactl), "--all", "-C", "0,2", "-m", "1", "--", build.python)
    assert (launched.cpus, launched.nodes, launched.placement) == (None, None, PINNED)


def test_numactl_binds_no_memory_where_nothing_is_known_of_nodes(build: Build, numactl: Path) -> None:
    launched = launch(build, "fp32", replace(PINNED, nodes=None))
    assert launched.command == (str(numactl), "--all", "-C", "0,2", "--", build.python)


def test_an_unpinned_instance_is_not_bound(build: Build, numactl: Path) -> None:
    launched = launch(build, "fp32", UNPINNED)
    assert (launched.command, launched.cpus, launched.nodes) == ((build.python,), None, None)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("memory", [False, True])
def test_without_numactl_the_worker_binds_itself(
    build: Build, numactl: Path, missing: bool, memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    numactl.unlink() if missing else numactl.write_text("#!/bin/sh\nexit 1\n")
    # Whether a process may choose its memory nodes depends on the machine.
    permission = (sys.executable, "-I", "-S", "-c", "" if memory else "raise SystemExit(1)")
    monkeypatch.setattr(binding, "_binding_memory", lambda nodes: permission)
    launched = launch(build, "fp32", PINNED)
    assert (launched.command, launched.cpus) == ((build.python,), (0, 2))
    assert launched.nodes == ((1,) if memory else None)


def test_binding_memory_fails_where_the_worker_would() -> None:
    binding._succeeds.cache_clear()
    assert not binding._succeeds(binding._binding_memory((4000,)))
