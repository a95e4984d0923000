"""What instances' processes are started with."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.placement.placement import Placement
from quantkit.deployment import runtime
from quantkit.deployment.instances import Instances
from quantkit.deployment.loading import load
from quantkit.deployment.pool import Pool
from quantkit.deployment.runtime import Runtime
from quantkit.errors import UserError
from quantkit.host import preloaded

PINNED = Placement((0, 2), (1,), 2)
BOUND = {"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "close", "OMP_PLACES": "{0},{2}"}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with both allocators and Intel's OpenMP; the path of the latter."""
    monkeypatch.setattr(preloaded, "find_library", {"jemalloc": "libj.so", "tcmalloc_minimal": "libt.so"}.get)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    # Where mxnet-mkl has its own.
    monkeypatch.setattr(runtime, "_mxnet_folder", lambda: tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libiomp5.so").touch()
    return tmp_path / "lib/libiomp5.so"


@pytest.mark.parametrize(
    ("given", "variables"),
    [
        (Runtime(), {}),
        (Runtime(blocktime=0), {"OMP_WAIT_POLICY": "passive"}),
        (Runtime(allocator="jemalloc"), {"LD_PRELOAD": "libj.so"}),
        (Runtime(allocator="tcmalloc"), {"LD_PRELOAD": "libt.so"}),
        (Runtime(huge_pages=True), {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
        (Runtime(allocator="jemalloc", huge_pages=True), {"LD_PRELOAD": "libj.so", "MALLOC_CONF": "thp:always"}),
    ],
)
def test_variables(given: Runtime, variables: dict[str, str], installed: Path) -> None:
    assert given.variables("mxnet", PINNED) == {**BOUND, **variables}


def test_intels_openmp_replaces_that_of_mxnet_alone(installed: Path) -> None:
    given = Runtime("intel", blocktime=1, allocator="jemalloc")
    assert given.variables("mxnet", PINNED) == {
        "OMP_NUM_THREADS": "2",
        "KMP_AFFINITY": "granularity=fine,compact,1,0",
        "KMP_BLOCKTIME": "1",
        "LD_PRELOAD": f"{installed}:libj.so",
    }
    assert given.variables("openvino", PINNED) == {**BOUND, "LD_PRELOAD": "libj.so"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"openmp": "llvm"}, "openmp is 'llvm'; choose one of gnu, intel"),
        ({"allocator": "mine"}, "allocator is 'mine'; choose one of system, jemalloc, tcmalloc"),
        ({"blocktime": -1}, "blocktime is -1"),
        ({"blocktime": 200}, "GNU's OpenMP takes only 0"),
        ({"huge_pages": "yes"}, "huge_pages is 'yes'; give True or False"),
        ({"allocator": "tcmalloc", "huge_pages": True}, "tcmalloc has no setting for huge pages"),
    ],
)
def test_values_that_cannot_be_used(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Runtime(**values)


def test_instances_take_a_runtime_alone() -> None:
    with pytest.raises(UserError, match="runtime is of type str; give a Runtime"):
        Instances(1, runtime="jemalloc")  # type: ignore[arg-type]


def test_instances_are_started_with_it(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("OMP_SCHEDULE", "static"), ("KMP_AFFINITY", "disabled"), ("GOMP_SPINCOUNT", "7")):
        monkeypatch.setenv(name, value)
    with load(directory, instances=Instances(1, runtime=Runtime(blocktime=0, huge_pages=True))) as predictor:
        assert isinstance(predictor._runner, Pool)
        [pid] = predictor._runner.pids()
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert {b"OMP_WAIT_POLICY=passive", b"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"} <= set(variables)
    # Those of this process are not theirs.
    assert not [each for each in variables if each.startswith((b"OMP_SCHEDULE", b"KMP_AFFINITY", b"GOMP_SPIN"))]


def test_what_is_not_installed_is_told_before_anything_starts(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preloaded, "find_library", lambda name: None)
    before = set(os.listdir("/proc"))
    with pytest.raises(UserError, match=r"jemalloc is not installed .*apt-get install libjemalloc2"):
        load(directory, instances=Instances(1, runtime=Runtime(allocator="jemalloc")))
    assert not [pid for pid in set(os.listdir("/proc")) - before if pid.isdigit() and _is_instance(pid)]


def _is_instance(pid: str) -> bool:
    try:
        return b"instance_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
