"""The command that binds an instance to its place, and the environment that controls its threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from quantkit.backends.registry import MXNET
from quantkit.benchmark.build import Build
from quantkit.benchmark.builds.foreign import foreign_environment
from quantkit.benchmark.measuring.team import Launch
from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.results.results import DEFAULT_SETTINGS, Settings
from quantkit.benchmark.variants import STOCK
from quantkit.benchmark.workers.instance import WORKER
from quantkit.errors import UserError
from quantkit.host.cpu import read_cpu
from quantkit.host.preloaded import allocator_library, intel_openmp
from quantkit.host.threads import default_threads

# Prefixes of variables that OpenMP runtimes, math libraries, allocators and engines read; the user's settings for
# other programs must not affect a measurement.
_STEERING = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "MKLDNN_", "DNNL_", "ONEDNN_", "OPENBLAS_", "GOTO_", "MXNET_", "DMLC_"),
    *("ORT_", "OV_", "OPENVINO_", "TBB_"),
    *("MALLOC_", "TCMALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD"),
)

# Where several threads copy arrays, libgomp has those of operators sleep in between. MXNet 1.5 has the first name.
_COPIED_BY_ONE_THREAD = dict.fromkeys(("MXNET_CPU_PARALLEL_COPY_SIZE", "MXNET_CPU_PARALLEL_SIZE"), str(2**31 - 1))


def launch(
    build: Build,
    variant: str,
    placement: Placement,
    openmp: str = "gnu",
    allocator: str = "system",
    settings: Settings = DEFAULT_SETTINGS,
) -> Launch:
    """How to start an instance: bound by numactl if that works, otherwise by the worker itself.

    If the system does not allow binding memory (containers often do not), memory stays unbound; the pages
    of a pinned instance are then where it first touches them, on the nearest node.

    Raises:
        UserError: the OpenMP runtime or the allocator is not installed.
    """
    placement = _with_threads(placement, settings)
    variables = environment(build, variant, placement, openmp, allocator, settings)
    if placement.cpus is None:
        return Launch((build.python,), variables, placement, engine=build.engine)
    prefix = _numactl(placement)
    if prefix and _succeeds((*prefix, "true")):
        return Launch((*prefix, build.python), variables, placement, engine=build.engine)
    nodes = placement.nodes if placement.nodes and _succeeds(_binding_memory(placement.nodes)) else None
    return Launch((build.python,), variables, placement, placement.cpus, nodes, engine=build.engine)


def environment(
    build: Build,
    variant: str,
    placement: Placement,
    openmp: str = "gnu",
    allocator: str = "system",
    settings: Settings = DEFAULT_SETTINGS,
    inherited: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The whole environment of an instance; an unpinned one of MXNet is not bound.

    Other engines get their settings from the worker, not from variables.

    Args:
        build: the interpreter and its engine.
        variant: for those of stock MXNet it fuses by itself; all others run unchanged.
        placement: where it runs.
        openmp: MXNet's runtime: ``gnu``, the one that it is linked with (in mxnet-mkl 1.5 it is Intel's), or
            ``intel``, which replaces it.
        allocator: ``system``, ``jemalloc`` or ``tcmalloc``.
        settings: the contestant's, which come before the others.
        inherited: the base environment.

    Raises:
        UserError: the OpenMP runtime or the allocator is not installed.
    """
    openmp = settings.openmp or openmp
    base = {name: value for name, value in foreign_environment(inherited).items() if not name.startswith(_STEERING)}
    runtime = _intel_openmp(build) if openmp == "intel" and build.engine == MXNET.name else None
    preloaded = ":".join(filter(None, (runtime, allocator_library(allocator))))
    libraries = {"LD_PRELOAD": preloaded} if preloaded else {}
    if build.engine != MXNET.name:
        return {**base, **libraries}
    return {
        **base,
        **libraries,
        "MXNET_SUBGRAPH_BACKEND": "MKLDNN" if variant in STOCK else "default",
        **({} if settings.threads == "unset" else {"OMP_NUM_THREADS": str(placement.threads)}),
        # Intel's runtime, which mxnet-mkl 1.5 is linked with, would spin 200 ms into the next contestant's turn.
        "KMP_BLOCKTIME": str(1 if settings.blocktime is None else settings.blocktime),
        **({} if settings.copies == "parallel" else _COPIED_BY_ONE_THREAD),
        **threads_bound(placement, openmp),
        **({"KMP_AFFINITY": settings.affinity} if settings.affinity else {}),
    }


def _with_threads(placement: Placement, settings: Settings) -> Placement:
    """The placement with the number of OpenMP threads that the settings ask for."""
    cpu = read_cpu()
    usable = len(cpu.usable)
    counts = {"all": usable, "half": max(1, usable // 2), "one": 1, "unset": default_threads(cpu)}
    return replace(placement, threads=counts.get(settings.threads, placement.threads))


def threads_bound(placement: Placement, openmp: str) -> dict[str, str]:
    """The variables that bind each OpenMP thread to a separate hardware thread."""
    if placement.cpus is None:
        return {}
    if openmp == "intel":
        return {"KMP_AFFINITY": "granularity=fine,compact,1,0"}
    return {"OMP_PROC_BIND": "close", "OMP_PLACES": ",".join(f"{{{cpu}}}" for cpu in placement.cpus)}


def _intel_openmp(build: Build) -> str:
    """The path of the library, in the mxnet-mkl wheel or from the package intel-openmp in the build's environment."""
    library = intel_openmp((Path(build.library).parent, Path(build.python).parent.parent / "lib"))
    if library is None:
        raise UserError(
            f"build {build.name} has no Intel OpenMP (libiomp5.so); use a build of mxnet-mkl, "
            f"or `{build.python} -m pip install intel-openmp`"
        )
    return library


def _numactl(placement: Placement) -> tuple[str, ...]:
    """The command prefix that binds a process; empty if numactl is not installed."""
    program = shutil.which("numactl")
    if program is None:
        return ()
    memory = ("-m", _list(placement.nodes)) if placement.nodes else ()
    # --all: this process's own affinity, which an OpenMP runtime may have narrowed, does not matter.
    return (program, "--all", "-C", _list(placement.cpus or ()), *memory, "--")


def _binding_memory(nodes: tuple[int, ...]) -> tuple[str, ...]:
    """A command that fails if the worker would fail to bind memory."""
    code = f"import runpy; runpy.run_path({str(WORKER)!r})['bind'](None, {list(nodes)})"
    return (sys.executable, "-I", "-S", "-c", code)


@cache
def _succeeds(command: tuple[str, ...]) -> bool:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))
