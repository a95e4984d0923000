"""Run a checkpoint twice, so that the engine's verbose output shows the kernels of a warmed-up run.

    verbose_run SYMBOL PARAMS 1,3,224,224

The first run compiles kernels and reorders weights; the second, after ``SECOND_RUN`` on standard output,
does only what every later run does.
"""

from __future__ import annotations

import ctypes
import sys

from quantkit.backends.mxnet.checkpoint import bind_checkpoint
from quantkit.backends.mxnet.compat import load_mxnet

SECOND_RUN = "quantkit: second run"


def main(symbol_file: str, params_file: str, shape: str) -> None:
    """Load, bind to inputs of ``shape``, see ``bind_checkpoint``, run twice."""
    mxnet, bound = load_mxnet(), bind_checkpoint(symbol_file, params_file, shape)
    for marker in (SECOND_RUN, ""):
        bound.forward(is_train=False)
        mxnet.nd.waitall()
        # The engine writes through C's buffer and Python through its own.
        ctypes.CDLL(None).fflush(None)
        print(marker, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
