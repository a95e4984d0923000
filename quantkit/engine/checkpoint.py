"""A checkpoint's files bound as an application would, for processes that watch the engine run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from quantkit.engine.compat import load_mxnet
from quantkit.engine.execute import auxiliary_params, bound, check_tensors, stock_fusion_off, symbol_of
from quantkit.graph import nnvm
from quantkit.graph.graph import Graph
from quantkit.graph.params import plain_names, read_params
from quantkit.text_files import read_text


def read_checkpoint(symbol: Path, params: Path) -> Graph:
    """The network of a checkpoint's two files.

    Raises:
        ModelError: they are not a network, see ``nnvm.parse`` and ``read_params``.
        OSError: the symbol's file cannot be read.
        ValueError: it is not text.
    """
    return nnvm.parse(read_text(symbol, nnvm.LARGEST_SYMBOL), plain_names(read_params(params), params.name))


def bind_checkpoint(symbol_file: str, params_file: str, shape: str) -> Any:
    """MXNet's executor of a checkpoint, bound to one random input.

    Args:
        symbol_file: the symbol.
        params_file: its parameters.
        shape: of the input: numbers with commas, the batch first.
    """
    mxnet = load_mxnet()
    graph = read_checkpoint(Path(symbol_file), Path(params_file))
    symbol, auxiliary = symbol_of(graph), auxiliary_params(graph)
    image = np.random.RandomState(0).uniform(0, 1, [int(size) for size in shape.split(",")])
    given = {name: mxnet.nd.array(value, dtype=value.dtype) for name, value in graph.params.items()}
    inputs = {name: mxnet.nd.array(image, dtype="float32") for name in graph.inputs}
    with stock_fusion_off():
        check_tensors(graph, symbol, {name: value.shape for name, value in {**given, **inputs}.items()})
        states = {name: given.pop(name) for name in auxiliary}
        return bound(symbol, {**given, **inputs}, states)
