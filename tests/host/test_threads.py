"""The OpenMP environment."""

from __future__ import annotations

from typing import Optional

import pytest

from quantkit.host.cpu import Cpu
from quantkit.host.limits import Limits
from quantkit.host.threads import Threads, default_threads, read_threads, recommended_threads


def _cpu(usable: int, cores: int) -> Cpu:
    return Cpu("", "", usable, cores, tuple(range(usable)), cores, ())


def test_only_what_decides_threads_and_kernels_is_kept() -> None:
    environment = {"OMP_NUM_THREADS": "4", "HOME": "/root", "KMP_AFFINITY": "compact", "LD_PRELOAD": "/l/libiomp5.so"}
    threads = read_threads(environment, load_library=lambda name: None)
    assert list(threads.environment) == ["KMP_AFFINITY", "LD_PRELOAD", "OMP_NUM_THREADS"]
    assert threads.libgomp
    assert threads.intel_openmp


def test_a_library_that_cannot_be_loaded() -> None:
    def refuse(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    threads = read_threads({}, refuse)
    assert not threads.libgomp
    assert not threads.intel_openmp


@pytest.mark.parametrize(
    ("value", "asked"), [("4", 4), ("4,2", 4), (" 2 ", 2), ("0", None), ("-1", None), ("many", None), ("", None)]
)
def test_what_is_asked_for(value: str, asked: Optional[int]) -> None:
    assert Threads({"OMP_NUM_THREADS": value}, True).asked == asked


@pytest.mark.parametrize(
    ("usable", "cores", "quota", "default", "recommended"),
    [
        (8, 4, None, 4, 4),
        (2, 2, None, 1, 2),
        (1, 1, None, 1, 1),
        (8, 4, 2.5, 4, 2),
        (8, 4, 0.5, 4, 1),
        (4, 4, 16.0, 2, 4),
    ],
)
def test_number_of_threads(usable: int, cores: int, quota: Optional[float], default: int, recommended: int) -> None:
    assert default_threads(_cpu(usable, cores)) == default
    assert recommended_threads(_cpu(usable, cores), Limits(quota)) == recommended
