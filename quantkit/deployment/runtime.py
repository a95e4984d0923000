"""What an instance's process is started with: the OpenMP runtime, its spinning, the allocator, huge pages."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from quantkit.backends.registry import MXNET
from quantkit.benchmark.measuring.binding import threads_bound
from quantkit.benchmark.placement.placement import Placement
from quantkit.errors import UserError
from quantkit.host.preloaded import ALLOCATORS, OPENMP, SYSTEM, Allocator, OpenMP, allocator_library, intel_openmp
from quantkit.kinds import whole_number

# glibc's and jemalloc's settings that ask for transparent huge pages where the system leaves that to programs.
_HUGE = {
    "system": ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
    "jemalloc": ("MALLOC_CONF", "thp:always"),
}


@dataclass(frozen=True)
class Runtime:
    """What an instance's process is started with, beside its engine and its cores.

    Attributes:
        openmp: MXNet's OpenMP runtime: ``gnu``, the one that it is linked with (in mxnet-mkl it is Intel's), or
            ``intel``, which replaces it; other engines have threads of their own.
        blocktime: for how many milliseconds MXNet's threads spin when they have nothing to do, before they sleep; None:
            as long as the runtime does by itself. GNU's takes only 0.
        allocator: ``system``, ``jemalloc`` or ``tcmalloc``.
        huge_pages: whether memory, that of weights above all, is in huge pages where the system allows it.
    """

    openmp: OpenMP = "gnu"
    blocktime: Optional[int] = None
    allocator: Allocator = SYSTEM
    huge_pages: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: one cannot be used, or one that the others do not allow.
        """
        for name, choices in (("openmp", OPENMP), ("allocator", ALLOCATORS)):
            if getattr(self, name) not in choices:
                raise UserError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(choices)}")
        if self.blocktime is not None and whole_number("blocktime", self.blocktime, 0, 200) and self.openmp == "gnu":
            raise UserError(f"blocktime is {self.blocktime}, and GNU's OpenMP takes only 0; give openmp='intel', too")
        if not isinstance(self.huge_pages, bool):
            raise UserError(f"huge_pages is {self.huge_pages!r}; give True or False")
        if self.huge_pages and self.allocator not in _HUGE:
            raise UserError(f"the allocator {self.allocator} has no setting for huge pages; choose another")

    def variables(self, engine: str, placement: Placement) -> dict[str, str]:
        """The variables of a process that runs an engine in a place.

        Raises:
            UserError: the OpenMP runtime or the allocator is not installed.
        """
        in_mxnet = engine == MXNET.name
        runtime = _intel_openmp() if in_mxnet and self.openmp == "intel" else None
        preloaded = ":".join(filter(None, (runtime, allocator_library(self.allocator))))
        return {
            "OMP_NUM_THREADS": str(placement.threads),
            **threads_bound(placement, self.openmp if in_mxnet else "gnu"),
            **(self._spinning() if in_mxnet and self.blocktime is not None else {}),
            **dict([_HUGE[self.allocator]] if self.huge_pages else []),
            **({"LD_PRELOAD": preloaded} if preloaded else {}),
        }

    def _spinning(self) -> dict[str, str]:
        if self.openmp == "intel":
            return {"KMP_BLOCKTIME": str(self.blocktime)}
        return {"OMP_WAIT_POLICY": "passive"}


DEFAULT_RUNTIME = Runtime()


def _intel_openmp() -> str:
    library = intel_openmp((_mxnet_folder(), Path(sys.prefix) / "lib"))
    if library is None:
        raise UserError("Intel's OpenMP (libiomp5.so) is not installed; install it: pip install intel-openmp")
    return library


def _mxnet_folder() -> Path:
    spec = importlib.util.find_spec(MXNET.package)
    return Path(sys.prefix) if spec is None or spec.origin is None else Path(spec.origin).parent
