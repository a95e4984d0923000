"""Core-to-core latency."""

from __future__ import annotations

import os
import time

import pytest

from quantkit.host.core_to_core import core_to_core

CPUS = sorted(os.sched_getaffinity(0))


@pytest.mark.timing
@pytest.mark.skipif(len(CPUS) < 2, reason="one hardware thread")
def test_two_hardware_threads_answer_each_other_within_microseconds() -> None:
    # A system call or a wait for the scheduler takes longer.
    assert 20 < core_to_core(CPUS[0], CPUS[-1]) < 20_000


def test_a_hardware_thread_does_not_answer_itself_and_leaves_nothing_running() -> None:
    begun = time.monotonic()
    assert core_to_core(CPUS[0], CPUS[0]) is None
    assert time.monotonic() - begun < 3


def test_hardware_threads_that_are_not_there() -> None:
    assert core_to_core(CPUS[0], 4095) is None
