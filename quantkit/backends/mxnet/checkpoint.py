"""Writing, reading and binding MXNet's checkpoints, a symbol and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from quantkit.backends.mxnet.calls import stock_fusion_off
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import bound
from quantkit.backends.mxnet.instructions import prepare_instructions
from quantkit.backends.mxnet.shapes import check_tensors
from quantkit.backends.mxnet.symbols import auxiliary_params, symbol_of
from quantkit.files.text import read_text
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import plain_names, read_params, write_params
from quantkit.ir.graph import Graph


def read_checkpoint(symbol: Path, params: Path) -> Graph:
    """The network of a checkpoint's two files.

    Raises:
        ModelError: they are not a network, see ``nnvm.parse`` and ``read_params``.
        OSError: the symbol's file cannot be read.
        ValueError: the symbol's file is not text.
    """
    return nnvm.parse(read_text(symbol, nnvm.LARGEST_SYMBOL), plain_names(read_params(params), params.name))


def write_checkpoint(graph: Graph, symbol: IO[bytes], params: IO[bytes]) -> None:
    """Write a network for MXNet's own loaders; the same network gives the same bytes.

    Raises:
        ModelError: see ``auxiliary_params``.
    """
    symbol.write(nnvm.serialize(graph).encode())
    write_params(params, {stored: graph.params[name] for name, stored in sorted(stored_names(graph).items())})


def stored_names(graph: Graph) -> Mapping[str, str]:
    """The names of a network's parameters in a checkpoint: prefixed with ``arg:`` or ``aux:``.

    Raises:
        ModelError: see ``auxiliary_params``.
    """
    auxiliary = auxiliary_params(graph)
    return {name: f"{'aux' if name in auxiliary else 'arg'}:{name}" for name in graph.params}


def bind_checkpoint(symbol_file: str, params_file: str, shape: str) -> Any:
    """MXNet's executor of a checkpoint, bound to random inputs.

    Args:
        symbol_file: the symbol.
        params_file: its parameters.
        shape: of every input: comma-separated numbers, the batch first; or of each, in their order, between semicolons.
    """
    mxnet = load_mxnet()
    graph = read_checkpoint(Path(symbol_file), Path(params_file))
    prepare_instructions(graph)
    symbol, auxiliary = symbol_of(graph), auxiliary_params(graph)
    shapes = [[int(size) for size in each.split(",")] for each in shape.split(";")]
    shapes = shapes if len(shapes) > 1 else shapes * len(graph.inputs)
    given = {name: mxnet.nd.array(value, dtype=value.dtype) for name, value in graph.params.items()}
    values = (np.random.RandomState(0).uniform(0, 1, each) for each in shapes)
    inputs = {name: mxnet.nd.array(value, dtype="float32") for name, value in zip(graph.inputs, values)}
    with stock_fusion_off():
        check_tensors(graph, symbol, {name: value.shape for name, value in {**given, **inputs}.items()})
        states = {name: given.pop(name) for name in auxiliary}
        return bound(symbol, {**given, **inputs}, states)
