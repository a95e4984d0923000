"""Run a checkpoint twice so that the engine, told to be verbose, prints the kernels of a settled run.

    python -m quantkit.engine.verbose_run SYMBOL PARAMS 1,3,224,224

The first run compiles kernels and reorders weights; the second, after ``SECOND_RUN`` on standard output,
does only what every later run does.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

from quantkit.engine.compat import load_mxnet
from quantkit.engine.execute import stock_fusion_off

SECOND_RUN = "quantkit: second run"


def main(symbol_file: str, params_file: str, shape: str) -> None:
    """Load, bind to one input of ``shape`` (numbers with commas, the batch first), run twice."""
    mxnet = load_mxnet()
    symbol = mxnet.sym.load(symbol_file)
    given = {name.partition(":")[2] or name: value for name, value in mxnet.nd.load(params_file).items()}
    names = [name for name in symbol.list_arguments() if name not in given]
    image = np.random.RandomState(0).uniform(0, 1, [int(size) for size in shape.split(",")])
    inputs = {name: mxnet.nd.array(image, dtype="float32") for name in names}
    auxiliary = {name: given[name] for name in symbol.list_auxiliary_states()}
    with stock_fusion_off():
        bound = symbol.bind(mxnet.cpu(), args={**given, **inputs}, aux_states=auxiliary, grad_req="null")
    for marker in (SECOND_RUN, ""):
        bound.forward(is_train=False)
        mxnet.nd.waitall()
        # The engine writes through C's buffer and Python through its own.
        ctypes.CDLL(None).fflush(None)
        print(marker, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
