"""Reading what the engine has computed without taking its processors away."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from quantkit.backends.mxnet.compat import load_mxnet


def values_of(outputs: Sequence[Any]) -> list[np.ndarray]:
    """The values of MXNet's arrays, when they are computed.

    The thread that reads an array in a layout of oneDNN's reorders it with OpenMP. Its team and the engine's are more
    threads than processors: from then on libgomp has threads sleep after each operator, which takes longer than most
    operators. So the thread works alone here.

    Raises:
        mxnet.base.MXNetError: an operator failed.
    """
    for output in outputs:
        output.wait_to_read()
    with _alone():
        return [output.asnumpy() for output in outputs]


@contextmanager
def _alone() -> Iterator[None]:
    runtime = openmp()
    threads = runtime.omp_get_max_threads()
    runtime.omp_set_num_threads(1)
    try:
        yield
    finally:
        runtime.omp_set_num_threads(threads)


@cache
def openmp() -> ctypes.CDLL:
    """The OpenMP runtime that the engine uses: one that was preloaded, or its own."""
    preloaded, own = ctypes.CDLL(None), load_mxnet().base._LIB
    return preloaded if hasattr(preloaded, "omp_set_num_threads") else own
