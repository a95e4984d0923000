"""Gluon blocks as symbols with named and shaped parameters."""

from __future__ import annotations

from collections.abc import Mapping
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

INPUT = "data"


def parameter_shapes(
    graph: Graph, input_name: str, input_shape: tuple[int, ...], known: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """The shapes of all other variables of a network, given that of its image input (channels, height, width).

    ``known`` are shapes that the network states for variables; most follow from the input.

    Raises:
        ModelError: the network does not accept the shape, leaves a parameter's shape open, or has too many parameters.
    """
    arguments, _, auxiliary = symbol_shapes(symbol_of(graph), "the network", input_shape, input_name, known)
    shapes = {**arguments, **auxiliary}
    count = sum(map(prod, shapes.values()))
    if count > MOST_VALUES:
        raise ModelError(f"the network's parameters would have {count} values, more than {MOST_VALUES}")
    return shapes


def block_network(
    block: Any, input_shape: tuple[int, ...], time_major: bool = False
) -> tuple[str, dict[str, np.ndarray]]:
    """The symbol JSON and the parameters of an initialised gluon ``HybridBlock`` with one input.

    ``input_shape`` is without the batch, which is the first axis of the input, the second if it is ``time_major``.

    Raises:
        ModelError: the block cannot be traced, does not accept the shape, or has parameters without values.
    """
    mxnet = load_mxnet()
    with mxnet.name.NameManager():
        symbol = block_symbol(block)
    at = 1 if time_major else 0
    arguments, _, auxiliary = symbol_shapes(symbol, block.name, input_shape, batch_axis=at)
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


def block_symbol(block: Any) -> Any:
    """The symbol that a gluon ``HybridBlock`` makes of the one input ``data``.

    Raises:
        ModelError: the block cannot be traced.
    """
    mxnet = load_mxnet()
    try:
        with traceable_blocks():
            outputs = block(mxnet.sym.var(INPUT))
    except (mxnet.base.MXNetError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise ModelError(
            f"block {block.name!r} cannot be traced with one symbolic input: {_first_line(error)}; "
            "make it a HybridBlock whose hybrid_forward takes one batch"
        ) from error
    return mxnet.sym.Group(list(outputs)) if isinstance(outputs, (list, tuple)) else outputs


def symbol_shapes(
    symbol: Any,
    name: str,
    input_shape: tuple[int, ...],
    input_name: str = INPUT,
    known: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    batch_axis: int = 0,
) -> tuple[dict[str, tuple[int, ...]], list[tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Shapes of the parameters, outputs and auxiliary states of a symbol for a batch of one.

    Args:
        symbol: an ``mx.sym.Symbol``.
        name: what messages call the network.
        input_shape: of its input, without the batch.
        input_name: of the variable that takes the input.
        known: shapes that the network states for other variables.
        batch_axis: of the input.

    Raises:
        ModelError: the network does not accept the shape, or leaves shapes open.
    """
    try:
        given = {key: shape for key, shape in known.items() if key in symbol.list_arguments()}
        inferred = shapes_of(symbol, {**given, input_name: (*input_shape[:batch_axis], 1, *input_shape[batch_axis:])})
    except failures() as error:
        raise ModelError(
            f"{name} does not accept input of shape {input_shape}: {_first_line(error)}; "
            "give the input shape it was made for"
        ) from error
    if inferred is None:
        raise ModelError(f"{name}: the shapes of its parameters do not follow from input {input_shape}")
    arguments, outputs, auxiliary = inferred
    named = dict(zip(symbol.list_arguments(), arguments))
    named.pop(input_name, None)
    return named, list(outputs), dict(zip(symbol.list_auxiliary_states(), auxiliary))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Error in operator" in line or "Check failed" in line]
    return (causes or lines or [type(error).__name__])[0]
