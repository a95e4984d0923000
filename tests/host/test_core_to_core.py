"""Core-to-core latency."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quantkit.host import core_to_core as core_to_core_file
from quantkit.host.core_to_core import core_to_core
from tests.requirements import requires

CPUS = sorted(os.sched_getaffinity(0))


@pytest.mark.timing
def test_two_hardware_threads_answer_each_other_within_microseconds() -> None:
    requires("two-cpus")
    # A system call or a wait for the scheduler takes longer.
    assert 20 < core_to_core(CPUS[0], CPUS[-1]) < 20_000


@pytest.mark.timing
def test_where_neither_answers_both_end_within_their_second() -> None:
    """A process that keeps its hardware thread to itself is as good as one that waits for itself."""
    program = Path(str(core_to_core_file.__file__)).read_text()
    begun = time.monotonic()
    with pytest.raises(subprocess.CalledProcessError) as ended:
        subprocess.run([sys.executable, "-c", program, str(CPUS[0]), str(CPUS[0])], capture_output=True, check=True)
    # Both hold the pipe that is read to its end.
    assert time.monotonic() - begun < 1.8
    assert ended.value.returncode == -signal.SIGALRM


def test_a_hardware_thread_has_no_latency_to_itself() -> None:
    assert core_to_core(CPUS[0], CPUS[0]) is None


def test_hardware_threads_that_are_not_there() -> None:
    assert core_to_core(CPUS[0], 4095) is None
