"""Core-to-core latency: how long hardware threads take to pass a cache line to each other.

It tells where a hypervisor has put the processors of a virtual machine: next to each other, or on different chips.
This file is also the program that measures.
"""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from typing import Optional

# The fastest of these groups of round trips counts: the others may have been interrupted.
_GROUPS, _TRIPS = 20, 2_000

_SECONDS = 1


def core_to_core(first: int, second: int) -> Optional[float]:
    """The ns from one hardware thread to another and back, as programs in Python measure it; takes some 30 ms.

    One of them writes a byte for which the other waits, and the other way round; the interpreter's own part is some
    60 ns. None if they are the same, or are too busy to answer each other within a second.
    """
    if first == second:
        return None
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__), str(first), str(second)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=2 * _SECONDS, check=True)
        return float(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _measure(first: int, second: int) -> float:
    byte = memoryview(mmap.mmap(-1, mmap.PAGESIZE))
    child = os.fork()
    # Neither waits for ever if the other ends, or never gets to run, whatever they inherit.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.alarm(_SECONDS)
    if child == 0:
        os.sched_setaffinity(0, {second})
        for _ in range(_GROUPS * _TRIPS):
            while byte[0] != 1:
                pass
            byte[0] = 0
        os._exit(0)
    os.sched_setaffinity(0, {first})
    groups = []
    for _ in range(_GROUPS):
        begun = time.perf_counter_ns()
        for _ in range(_TRIPS):
            byte[0] = 1
            while byte[0] != 0:
                pass
        groups.append(time.perf_counter_ns() - begun)
    return min(groups) / _TRIPS


if __name__ == "__main__":
    print(_measure(int(sys.argv[1]), int(sys.argv[2])))
