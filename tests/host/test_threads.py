"""The OpenMP environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Optional

import pytest

from quantkit.errors import UserError
from quantkit.host import threads
from quantkit.host.cpu import Cpu
from quantkit.host.limits import Limits
from quantkit.host.threads import (
    MOST_DECODERS,
    Threads,
    decoders_asked,
    default_threads,
    read_threads,
    recommended_threads,
    threads_asked,
    worker_threads,
)


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


Host = Callable[[int, Optional[float], Optional[str]], None]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """Sets how many hardware threads, which quota and which OMP_NUM_THREADS this process seems to have begun with."""

    def pretend(usable: int, quota: Optional[float], asked: Optional[str]) -> None:
        monkeypatch.setattr(threads, "affinity_of_process", lambda: range(usable))
        monkeypatch.setattr(threads, "read_limits", lambda: Limits(quota))
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        if asked is not None:
            monkeypatch.setenv("OMP_NUM_THREADS", asked)
        threads._quota.cache_clear()
        threads_asked.cache_clear()

    yield pretend
    monkeypatch.undo()
    threads._quota.cache_clear()
    threads_asked.cache_clear()


@pytest.mark.parametrize(
    ("usable", "quota", "asked", "most", "workers"),
    [
        (8, None, None, 16, 8),
        (64, None, None, 16, 16),
        (8, 2.9, None, 16, 2),
        (8, 0.5, None, 16, 1),
        (8, 16.0, None, 16, 8),
        (8, None, "3", 16, 3),
        (8, None, "99", 16, 8),
        (8, 2.0, "3", 16, 2),
        (8, None, "many", 16, 8),
        (8, None, None, 5, 5),
        (8, None, None, 0, 1),
    ],
)
def test_number_of_workers(
    usable: int, quota: Optional[float], asked: Optional[str], most: int, workers: int, host: Host
) -> None:
    host(usable, quota, asked)
    assert worker_threads(most) == workers


def test_what_is_set_for_the_engine_does_not_bound_workers(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host(8, None, None)
    assert threads_asked() is None
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert worker_threads() == 8


def test_workers_follow_the_affinity_at_once_and_the_quota_by_the_minute(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host(8, 6.0, None)
    reads = 0

    def limits() -> Limits:
        nonlocal reads
        reads += 1
        return Limits(6.0 / reads)

    monkeypatch.setattr(threads, "read_limits", limits)
    monkeypatch.setattr(threads, "monotonic", lambda: 600.0)
    assert [worker_threads() for _ in range(3)] == [6, 6, 6]
    monkeypatch.setattr(threads, "affinity_of_process", lambda: {1, 3})
    assert worker_threads() == 2
    assert reads == 1
    monkeypatch.setattr(threads, "affinity_of_process", lambda: range(8))
    monkeypatch.setattr(threads, "monotonic", lambda: 661.0)
    assert worker_threads() == 3


def test_as_many_decoders_can_be_asked_for_as_each_holds_an_image() -> None:
    assert decoders_asked(0, 0) == 0 and decoders_asked(MOST_DECODERS, 1) == 256
    with pytest.raises(UserError, match="workers is 0; give a whole number from 1 up, such as 4"):
        decoders_asked(0, 1)
    with pytest.raises(UserError, match="workers is 257; give at most 256"):
        decoders_asked(257, 0)
