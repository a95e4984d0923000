"""Gluon blocks as symbols with named and shaped parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from quantkit.backends.mxnet.calls import failures
from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.backends.mxnet.shapes import shapes_of
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.backends.mxnet.traceable import traceable_blocks
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph
from quantkit.ir.tensor_bounds import MOST_VALUES
from quantkit.units import counted

INPUT = "data"


def parameter_shapes(
    graph: Graph, input_name: str, input_shape: tuple[int, ...], known: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """The shapes of all other variables of a network, given that of its image input (channels, height, width).

    ``known`` are shapes that the network states for variables; most follow from the input.

    Raises:
        ModelError: the network does not accept the shape, leaves a parameter's shape open, or has too many parameters.
    """
    inputs = {input_name: (1, *input_shape)}
    arguments, _, auxiliary = symbol_shapes(symbol_of(graph), "the network", inputs, known)
    shapes = {**arguments, **auxiliary}
    count = sum(map(prod, shapes.values()))
    if count > MOST_VALUES:
        raise ModelError(f"the network's parameters would have {count} values, more than {MOST_VALUES}")
    return shapes


def block_network(block: Any, inputs: Mapping[str, tuple[int, ...]]) -> tuple[str, dict[str, np.ndarray]]:
    """The symbol JSON and the parameters of an initialised gluon ``HybridBlock``.

    ``inputs`` are the shapes of what the block is called with, in this order, for a batch of one, and the names that
    they get.

    Raises:
        ModelError: the block cannot be traced, does not accept the shape, or has parameters without values.
    """
    mxnet = load_mxnet()
    with mxnet.name.NameManager():
        symbol = block_symbol(block, tuple(inputs))
    arguments, _, auxiliary = symbol_shapes(symbol, block.name, inputs)
    shapes = {**arguments, **auxiliary}
    try:
        params = {
            name: _allocated(parameter, shapes[name])
            for name, parameter in block.collect_params().items()
            if name in shapes
        }
    except (mxnet.base.MXNetError, RuntimeError) as error:
        raise ModelError(
            f"block {block.name!r} has parameters without values ({_first_line(error)}); "
            "call initialize() or load_parameters() first"
        ) from error
    return symbol.tojson(), arrays({name: params[name] for name in shapes if name in params})


def _allocated(parameter: Any, shape: tuple[int, ...]) -> Any:
    """The values of a gluon parameter, which are initialised now if its shape was open.

    A forward pass would do so, too, but oneDNN chooses its instructions in it; see ``instructions``.
    """
    parameter.shape = shape
    parameter._finish_deferred_init()
    return parameter.data()


def arrays(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """NDArrays (or NumPy arrays) by name as NumPy arrays."""
    return {name: value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value) for name, value in values.items()}


def imagenet_names() -> tuple[str, ...]:
    """GluonCV's names of ImageNet's 1000 classes."""
    load_gluoncv()
    from gluoncv.data.imagenet.classification import ImageNet1kAttr

    return tuple(ImageNet1kAttr().classes)


def block_symbol(block: Any, inputs: Sequence[str] = (INPUT,)) -> Any:
    """The symbol that a gluon ``HybridBlock`` makes of inputs of these names.

    Raises:
        ModelError: the block cannot be traced.
    """
    mxnet = load_mxnet()
    try:
        with traceable_blocks():
            outputs = block(*map(mxnet.sym.var, inputs))
    except (mxnet.base.MXNetError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise ModelError(
            f"block {block.name!r} cannot be traced with {counted(len(inputs), 'symbolic input')}: "
            f"{_first_line(error)}; make it a HybridBlock. If its hybrid_forward takes several inputs, give the shapes "
            "of all by names, in their order: input_shape={'left': (3, 32, 32), 'right': (5,)}"
        ) from error
    return mxnet.sym.Group(list(outputs)) if isinstance(outputs, (list, tuple)) else outputs


def symbol_shapes(
    symbol: Any,
    name: str,
    inputs: Mapping[str, tuple[int, ...]],
    known: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
) -> tuple[dict[str, tuple[int, ...]], list[tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Shapes of the parameters, outputs and auxiliary states of a symbol for a batch of one.

    Args:
        symbol: an ``mx.sym.Symbol``.
        name: what messages call the network.
        inputs: the shapes of its inputs, with the batch, by the names of their variables.
        known: shapes that the network states for other variables.

    Raises:
        ModelError: the network does not accept the shapes, or leaves shapes open.
    """
    try:
        given = {key: shape for key, shape in known.items() if key in symbol.list_arguments()}
        inferred = shapes_of(symbol, {**given, **inputs})
    except failures() as error:
        raise ModelError(
            f"{name} does not accept input of shape {_shown(inputs)}: {_first_line(error)}; "
            "give the input shape it was made for"
        ) from error
    if inferred is None:
        raise ModelError(
            f"{name}: the shapes of its parameters do not follow from input {_shown(inputs)}; if it has other inputs, "
            "give the shapes of all by their names (--input-shape left=3,32,32 --input-shape right=5)"
        )
    arguments, outputs, auxiliary = inferred
    named = dict(zip(symbol.list_arguments(), arguments))
    named = {key: shape for key, shape in named.items() if key not in inputs}
    return named, list(outputs), dict(zip(symbol.list_auxiliary_states(), auxiliary))


def _shown(inputs: Mapping[str, tuple[int, ...]]) -> str:
    """Shapes of inputs without the batch of one, which is the first or the second axis."""
    return " and ".join(str(shape[1:] if shape[0] == 1 else (shape[0], *shape[2:])) for shape in inputs.values())


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Error in operator" in line or "Check failed" in line]
    return (causes or lines or [type(error).__name__])[0]
