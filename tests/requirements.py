"""What some tests need of the machine. Where it is missing they are skipped, or fail if QUANTKIT_REQUIRE names it.

``requires("onnxruntime")`` in a test, a fixture or at the top of a module, or the marker ``requires("onnxruntime")``,
is the only way to skip. QUANTKIT_REQUIRE is a list of names of ``OBSTACLES``, separated by commas.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from subprocess import CalledProcessError
from tempfile import TemporaryDirectory
from typing import Any, Optional

import pytest

from quantkit.backends.registry import ONNX_ENGINES

REAL_DATA = Path(os.environ.get("QUANTKIT_REAL_DATA") or Path(__file__).parents[2] / "shared" / "data").absolute()

EMULATED = "QUANTKIT_EMULATED" in os.environ
"""Whether these tests run on an emulated processor (`make test-mkl-emulated`); /proc/cpuinfo shows the real one."""

Obstacle = Callable[[], Optional[str]]


def _package(name: str) -> Obstacle:
    return lambda: None if find_spec(name) else f"the package {name} is not installed beside this Python"


def _program(name: str, package: str) -> Obstacle:
    return lambda: None if shutil.which(name) else f"there is no {name}; install {package}"


def _engine() -> Optional[str]:
    from quantkit.backends.mxnet.compat import load_mxnet
    from quantkit.errors import EngineMissing

    try:
        load_mxnet()
    except EngineMissing as error:
        return str(error)
    return None


def _onednn() -> Optional[str]:
    from tests.skips import installed_engine

    return None if installed_engine() == "onednn" else "mxnet 1.9.1 is not installed"


def _int8() -> Optional[str]:
    from quantkit.backends.mxnet.support import int8_obstacle

    return _engine() or int8_obstacle()


def _half_pixels() -> Optional[str]:
    from quantkit.backends.mxnet.compat import load_mxnet

    version = str(load_mxnet().__version__)
    old = tuple(map(int, version.split(".")[:2])) < (1, 7)
    return f"mxnet {version} interpolates with aligned corners only" if old else None


def _vnni() -> Optional[str]:
    from quantkit.host.cpu import read_cpu

    if not EMULATED and read_cpu().has_vnni:
        return None
    return "this processor has no VNNI; sums saturate in 16 bits"


def _exact_sums() -> Optional[str]:
    """Like ``_vnni``, but for mxnet-mkl 1.6, whose kernels without VNNI do not saturate in the tests that ask."""
    return None if _onednn() else _vnni()


def _two_cpus() -> Optional[str]:
    return None if len(os.sched_getaffinity(0)) > 1 else "one hardware thread: every placement is right"


def _gomp() -> Optional[str]:
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        return "libgomp is not installed"
    return None


@cache
def _namespaces() -> Optional[str]:
    from tests.cluster.hosts import network

    try:
        with TemporaryDirectory() as folder, network(("one", "two"), Path(folder)):
            return None
    except (OSError, CalledProcessError) as error:
        return f"this process may not make hosts of its own, or lacks unshare, nsenter or ip ({error})"


@cache
def _seccomp() -> Optional[str]:
    from tests.connections import watched

    try:
        with TemporaryDirectory() as folder:
            watched(["true"], {}, Path(folder))
    except OSError as error:
        return f"this kernel lets nobody watch system calls ({error.strerror or error})"
    return None


OBSTACLES: Mapping[str, Obstacle] = {
    "engine": _engine,
    "int8": _int8,
    "onednn": _onednn,
    **{engine.package: _package(engine.package) for engine in ONNX_ENGINES.values()},
    "loadgen": _package("mlperf_loadgen"),
    "cluster": _package("distributed"),
    "object-store": _package("moto"),
    "ray": _package("ray"),
    "horovod": _package("horovod"),
    "pycocotools": _package("pycocotools"),
    "tritonclient": _package("tritonclient"),
    "hey": _program("hey", "hey"),
    "real-data": lambda: None if REAL_DATA.is_dir() else f"no real data at {REAL_DATA}; set QUANTKIT_REAL_DATA",
    "half-pixels": _half_pixels,
    "vnni": _vnni,
    "exact-sums": _exact_sums,
    "two-cpus": _two_cpus,
    "libgomp": _gomp,
    "git": _program("git", "git"),
    "gcc": _program("gcc", "gcc and libc6-dev"),
    "hwloc": _program("lstopo-no-graphics", "hwloc-nox"),
    "qemu": _program("qemu-x86_64", "qemu-user"),
    "seccomp": _seccomp,
    "namespaces": _namespaces,
    "user": lambda: None if os.geteuid() else "the super-user may read and write everywhere",
    "hatchling": _package("hatchling"),
    "lean": lambda: None if os.environ.get("QUANTKIT_LEAN") else "makes environments; `make test-lean` does it",
    "kernel": lambda: None if os.environ.get("QUANTKIT_NUMA_KERNEL") else "starts a machine; `make test-numa` does it",
}
"""What keeps tests from running here, by what they need; None where nothing does."""


def demanded(variable: str) -> frozenset[str]:
    """The names in QUANTKIT_REQUIRE.

    Raises:
        pytest.UsageError: one is unknown.
    """
    names = frozenset(filter(None, (name.strip() for name in variable.split(","))))
    if unknown := names - set(OBSTACLES):
        raise pytest.UsageError(
            f"QUANTKIT_REQUIRE names {', '.join(sorted(unknown))}; known are {', '.join(OBSTACLES)}"
        )
    return names


def requires(*names: str) -> None:
    """Skip the test, or the module, where one of these is missing; fail if that one is demanded."""
    for name in names:
        obstacle = OBSTACLES[name]()
        if obstacle and name in demanded(os.environ.get("QUANTKIT_REQUIRE", "")):
            pytest.fail(f"QUANTKIT_REQUIRE names {name}, but {obstacle}", pytrace=False)
        if obstacle:
            pytest.skip(f"needs {name}: {obstacle}", allow_module_level=True)


def package(name: str) -> Any:
    """The package that is required, imported."""
    requires(name)
    return import_module(name)
