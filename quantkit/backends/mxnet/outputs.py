"""Reading what the engine has computed without taking its processors away."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from quantkit.backends.base import session_threads
from quantkit.backends.mxnet.compat import load_mxnet


def values_of(outputs: Sequence[Any]) -> list[np.ndarray]:
    """The values of MXNet's arrays, when they are computed.

    The thread that reads an array in a layout of oneDNN's reorders it with OpenMP. Its team and the engine's are more
    threads than processors: from then on libgomp has threads sleep after each operator, which takes longer than most
    operators. So the thread works alone here; afterwards it has as many threads as a session.

    Raises:
        mxnet.base.MXNetError: an operator failed.
    """
    for output in outputs:
        output.wait_to_read()
    # Of the thread that calls it, in the OpenMP runtime that MXNet is bound to; there is nothing to ask for the number.
    set_threads = load_mxnet().base._LIB.MXSetNumOMPThreads
    set_threads(1)
    try:
        return [output.asnumpy() for output in outputs]
    finally:
        set_threads(_threads())


@cache
def _threads() -> int:
    """That of sessions; the OpenMP runtime reads its variable once, too."""
    return session_threads()
