"""A checkpoint's files bound by MXNet itself, as an application would, for processes that watch it run."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantkit.engine.compat import load_mxnet
from quantkit.engine.execute import stock_fusion_off


def bind_checkpoint(symbol_file: str, params_file: str, shape: str) -> Any:
    """MXNet's executor of a checkpoint, bound to one random input.

    Args:
        symbol_file: the symbol.
        params_file: its parameters.
        shape: of the input: numbers with commas, the batch first.
    """
    mxnet = load_mxnet()
    symbol = mxnet.sym.load(symbol_file)
    given = {name.partition(":")[2] or name: value for name, value in mxnet.nd.load(params_file).items()}
    image = np.random.RandomState(0).uniform(0, 1, [int(size) for size in shape.split(",")])
    names = [name for name in symbol.list_arguments() if name not in given]
    inputs = {name: mxnet.nd.array(image, dtype="float32") for name in names}
    auxiliary = {name: given[name] for name in symbol.list_auxiliary_states()}
    with stock_fusion_off():
        return symbol.bind(mxnet.cpu(), args={**given, **inputs}, aux_states=auxiliary, grad_req="null")
