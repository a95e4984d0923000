"""How many threads the libraries of linear algebra take that NumPy and SciPy bring along."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import product
from threading import Lock
from typing import Any, Optional

# A module that is linked with the library: in it the library's own functions can be called.
_LINKED = ("numpy.linalg._umath_linalg", "scipy.linalg._flapack")

# Wheels rename OpenBLAS's functions, so that several copies get along.
_SPELLINGS = tuple(product(("", "scipy_"), ("", "64_")))


_LOCK = Lock()
_inside: list[None] = []
_before: list[int] = []
"""The numbers of threads before the first came in."""


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep products and factorizations of matrices in the thread that asks for them.

    So several threads of Python's can share the work, and results do not depend on the number of processors. OpenBLAS's
    own threads wait for each other in a loop, in every small product. It holds for the whole process, until the last
    of those that asked for it at once leaves. Other libraries than OpenBLAS stay as they are.
    """
    with _LOCK:
        if not _inside:
            _before.extend(get() for get, _ in _libraries())
            for _, put in _libraries():
                put(1)
        _inside.append(None)
    try:
        yield
    finally:
        with _LOCK:
            _inside.pop()
            if not _inside:
                for (_, put), count in zip(_libraries(), _before):
                    put(count)
                _before.clear()


def _libraries() -> list[tuple[Callable[[], int], Callable[[int], Any]]]:
    return [library for library in map(_library, _LINKED) if library is not None]


@cache
def _library(module: str) -> Optional[tuple[Callable[[], int], Callable[[int], Any]]]:
    """What gets and sets the number of threads of the library that a module uses, if it is there and is OpenBLAS."""
    try:
        path = import_module(module).__file__
    except ImportError:
        return None
    linked = ctypes.CDLL(path)
    for prefix, suffix in _SPELLINGS:
        names = [f"{prefix}openblas_{verb}_num_threads{suffix}" for verb in ("get", "set")]
        if all(hasattr(linked, name) for name in names):
            get, put = (getattr(linked, name) for name in names)
            return get, put
    return None
