"""The number of threads that the engine starts, and the environment that decides it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from time import monotonic
from typing import Any, Optional

from quantkit.errors import UserError
from quantkit.host.cpu import Cpu, affinity_of_process
from quantkit.host.limits import Limits, read_limits
from quantkit.kinds import whole_number

# The variables that OpenMP, oneDNN and MXNet read at run time, and users may set.
_PREFIXES = ("OMP_", "GOMP_", "KMP_", "MXNET_", "MKLDNN_", "DNNL_", "ONEDNN_")
_NAMES = ("LD_PRELOAD",)

# More worker threads would mostly wait for each other: each needs Python's interpreter lock for part of its time.
MOST_WORKERS = 16

MOST_DECODERS = 256
"""More threads that decode images cannot be asked for; each of them holds an image."""

# Seconds for which a reading of the quota stands: it seldom changes, and takes longer to read than some pieces of work.
_QUOTA_STANDS = 60.0


@dataclass(frozen=True)
class Threads:
    """The variables that are set (by name, sorted) and whether the GNU OpenMP library can be loaded."""

    environment: Mapping[str, str]
    libgomp: bool

    @property
    def intel_openmp(self) -> bool:
        """Whether Intel's OpenMP library is loaded in place of GNU's; only then do KMP_ variables have an effect."""
        return "libiomp5" in self.environment.get("LD_PRELOAD", "")

    @property
    def asked(self) -> Optional[int]:
        """The first number in OMP_NUM_THREADS; None if it is unset or not a number."""
        return _asked(self.environment)


def read_threads(
    environment: Mapping[str, str] = os.environ, load_library: Callable[[str], Any] = ctypes.CDLL
) -> Threads:
    """Read the environment and try to load libgomp."""
    chosen = {name: value for name, value in environment.items() if name.startswith(_PREFIXES) or name in _NAMES}
    return Threads(dict(sorted(chosen.items())), _loads("libgomp.so.1", load_library))


def default_threads(cpu: Cpu) -> int:
    """The number that MXNet takes if OMP_NUM_THREADS is unset.

    It is half of the usable hardware threads, since MXNet assumes that every x86 core has two of them.
    """
    return max(1, len(cpu.usable) // 2)


def recommended_threads(cpu: Cpu, limits: Limits) -> int:
    """One thread for each usable physical core, but no more than the control group's quota can keep running."""
    quota = cpu.usable_cores if limits.cpu_quota is None else int(limits.cpu_quota)
    return max(1, min(cpu.usable_cores, quota))


@cache
def threads_asked() -> Optional[int]:
    """The first number in OMP_NUM_THREADS as the user set it; None if it was unset or not a number.

    As libgomp does, this reads it once: where it is unset, quantkit sets it before MXNet is loaded, to the number of
    cores, which need not bound work that is not the engine's.
    """
    return _asked(os.environ)


def worker_threads(most: int = MOST_WORKERS) -> int:
    """How many threads share quantkit's own work in Python and NumPy, from 1 to ``most``.

    One for each hardware thread that this process may use at the moment, but no more than the control group's quota can
    keep running, nor than OMP_NUM_THREADS where the user set it.
    """
    quota = _quota(int(monotonic() // _QUOTA_STANDS))
    bounds = (most, len(affinity_of_process()), None if quota is None else int(quota), threads_asked())
    return max(1, min(bound for bound in bounds if bound is not None))


def decoders_asked(workers: object, least: int) -> int:
    """The number of threads for which a user asks to decode images.

    Raises:
        UserError: it is no whole number from ``least`` to ``MOST_DECODERS``.
    """
    found = whole_number("workers", workers, least, 4)
    if found > MOST_DECODERS:
        raise UserError(f"workers is {found}; give at most {MOST_DECODERS}")
    return found


@lru_cache(maxsize=1)
def _quota(period: int) -> Optional[float]:
    """The processor time that the control groups allow, in cores, as read once in each period; None if unlimited."""
    return read_limits().cpu_quota


def _asked(environment: Mapping[str, str]) -> Optional[int]:
    first = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdigit() and int(first) > 0 else None


def _loads(name: str, load_library: Callable[[str], Any]) -> bool:
    try:
        load_library(name)
    except OSError:
        return False
    return True
