"""Libraries that replace a process's allocator, or the OpenMP runtime of its engine, when they are preloaded."""

from __future__ import annotations

from collections.abc import Iterable
from ctypes.util import find_library
from pathlib import Path
from typing import Literal, Optional, get_args

from quantkit.errors import UserError

OpenMP = Literal["gnu", "intel"]
Allocator = Literal["system", "jemalloc", "tcmalloc"]

OPENMP: tuple[OpenMP, ...] = get_args(OpenMP)
ALLOCATORS: tuple[Allocator, ...] = get_args(Allocator)
SYSTEM: Allocator = "system"

# The libraries of each allocator, the best first, and the Debian package of one.
_ALLOCATORS = {
    "jemalloc": (("jemalloc",), "libjemalloc2"),
    "tcmalloc": (("tcmalloc_minimal", "tcmalloc"), "libtcmalloc-minimal4"),
}


def allocator_library(name: str) -> Optional[str]:
    """What to preload for an allocator; None for the system's own.

    Raises:
        UserError: it is not installed.
    """
    if name == SYSTEM:
        return None
    libraries, package = _ALLOCATORS[name]
    library = next(filter(None, map(find_library, libraries)), None)
    if library is None:
        raise UserError(f"the allocator {name} is not installed (Debian, Ubuntu: apt-get install {package})")
    return library


def intel_openmp(folders: Iterable[Path]) -> Optional[str]:
    """The path of Intel's OpenMP runtime in the first of the folders that has it; None if none has."""
    files = (folder / "libiomp5.so" for folder in folders)
    return next((str(file) for file in files if file.is_file()), None)
