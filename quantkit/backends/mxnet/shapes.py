"""The shapes of a network's tensors, and whether the installed engine survives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from quantkit.backends.base import Shape
from quantkit.backends.mxnet.calls import engine_calls
from quantkit.backends.mxnet.capabilities import release
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.errors import EngineError
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.integer_types import normalization_problem
from quantkit.ir.stand_ins import float_stand_in, integer_problem
from quantkit.ir.tensor_bounds import is_delicate, size_problem, tensor_problem


def infer_shapes(graph: Graph, shapes: Mapping[str, Shape]) -> dict[Tensor, Shape]:
    """The shape of every tensor, given the shapes of the inputs; of outputs that nothing reads only the first.

    Raises:
        EngineError: the shapes do not fit the network.
    """
    read = (tensor for node in graph.nodes for tensor in node.inputs)
    own = (node.output for node in graph.nodes)
    tensors = [tensor for tensor in dict.fromkeys((*own, *read, *graph.outputs)) if tensor.node in graph.by_name]
    with engine_calls(f"fit input {dict(shapes)} to the network"):
        known = {**{name: value.shape for name, value in graph.params.items()}, **shapes}
        symbol = symbol_of(graph.with_outputs(tensors))
        wanted = set(symbol.list_arguments())
        if problem := size_problem(known):
            raise _must_not_run(problem)
        _check_integers(graph, known)
        inferred = shapes_of(symbol, {name: shape for name, shape in known.items() if name in wanted})
    if inferred is None:
        raise EngineError(
            f"input {dict(shapes)} leaves shapes of the network open; give the input shape it was made for"
        )
    return {**dict(zip(tensors, inferred[1])), **{Tensor(name): shape for name, shape in known.items()}}


def shape_if_known(graph: Graph, tensor: Tensor, shapes: Mapping[str, Shape]) -> Optional[Shape]:
    """The shape of a tensor, given the shapes of some inputs and parameters; None if it does not follow from them.

    Raises:
        EngineError: the shapes do not fit the network.
    """
    with engine_calls("infer a shape"):
        symbol = symbol_of(graph.with_outputs((tensor,)).pruned())
        names = set(symbol.list_arguments())
        _, outputs, _ = symbol.infer_shape_partial(**{name: each for name, each in shapes.items() if name in names})
    return outputs[0] if outputs and outputs[0] and min(outputs[0]) > 0 else None


def check_runs(graph: Graph, shapes: Mapping[str, Shape]) -> None:
    """Make sure that the engine survives a network with these shapes of its inputs, without running it.

    Raises:
        EngineError: see ``check_tensors``, or the shapes do not fit the network.
    """
    with engine_calls("bind the network"):
        known = {**{name: value.shape for name, value in graph.params.items()}, **shapes}
        check_tensors(graph, symbol_of(graph), known)


def check_tensors(graph: Graph, symbol: Any, known: Mapping[str, Shape]) -> None:
    """Make sure that the engine survives a network with these shapes of its variables.

    ``symbol`` is the graph's. The types of parameters are those of their arrays. Inputs count as
    float32; integers may take the place only of those that are quantized before all else reads them.

    Raises:
        EngineError: a tensor would be too large, or an operator would read or write beyond one.
        mxnet.base.MXNetError: the shapes do not fit the network.
    """
    graph, internals = graph.pruned(), symbol.get_internals()
    if problem := normalization_problem(graph):
        raise _must_not_run(problem)
    _check_integers(graph, known)
    names = set(internals.list_arguments())
    _, found, _ = internals.infer_shape_partial(**{name: shape for name, shape in known.items() if name in names})
    complete = {name: shape for name, shape in zip(internals.list_outputs(), found) if shape and all(shape)}
    problem = size_problem({**complete, **known})
    delicate = tuple(node for node in graph.nodes if is_delicate(node.op))
    if problem is None and delicate:
        tensors = (each for node in delicate for each in (*node.inputs, node.output))
        # The batch of zeros that an operator reads may follow from what reads its result.
        inner = [tensor for tensor in dict.fromkeys((*tensors, *graph.outputs)) if tensor.node in graph.by_name]
        part = symbol_of(graph.with_outputs(inner))
        names = set(part.list_arguments())
        inferred = shapes_of(part, {name: shape for name, shape in known.items() if name in names})
        dtypes = {name: value.dtype for name, value in graph.params.items()} | dict.fromkeys(graph.inputs, np.float32)
        # See ``shapes_of``.
        _, types, _ = part.infer_type_partial(**{name: dtype for name, dtype in dtypes.items() if name in names})
        if inferred is None or None in types:
            raise EngineError("the inputs leave shapes or types of the network open; give the shape it was made for")
        problem = tensor_problem(
            delicate,
            {**{Tensor(name): shape for name, shape in known.items()}, **dict(zip(inner, inferred[1]))},
            {
                **{Tensor(name): np.dtype(dtype) for name, dtype in dtypes.items()},
                **dict(zip(inner, map(np.dtype, types))),
            },
        )
    if problem is not None:
        raise _must_not_run(problem)


def _check_integers(graph: Graph, known: Mapping[str, Shape]) -> None:
    """Keep from MXNet 1.6 what would end the process while shapes are inferred."""
    stand_in = float_stand_in(graph) if release() < (1, 9, 0) else None
    if stand_in is None:
        return
    symbol = symbol_of(stand_in)
    names = set(symbol.list_arguments())
    _, found, _ = symbol.infer_shape_partial(**{name: shape for name, shape in known.items() if name in names})
    if problem := integer_problem(graph, dict(zip(stand_in.outputs, found))):
        raise _must_not_run(problem)


def _must_not_run(problem: str) -> EngineError:
    return EngineError(f"MXNet must not run the network: {problem}; give other shapes, or change the network")


def shapes_of(symbol: Any, known: Mapping[str, Shape]) -> Optional[tuple[list[Shape], list[Shape], list[Shape]]]:
    """The shapes of a symbol's arguments, outputs and auxiliary states; None where those known leave some open.

    ``Symbol.infer_shape`` does the same, but prints on standard output what it cannot do.

    Raises:
        mxnet.base.MXNetError: the shapes do not fit the network.
    """
    arguments, outputs, states = symbol.infer_shape_partial(**known)
    complete = all(shape and min(shape) > 0 for shape in (*arguments, *outputs, *states))
    return (arguments, outputs, states) if complete else None
