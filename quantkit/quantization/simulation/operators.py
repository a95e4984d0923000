"""Single operators and parts of layers, run by the engine over all images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Optional, Union

import numpy as np

from quantkit.backends.base import Shape
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import flag, number
from quantkit.ir.recurrent_layer import batch_first_cell, part_names, recurrent_layer_of, time_major
from quantkit.quantization.threads import in_threads

BATCH = 8
"""How many images are run at once."""

# These may make one axis of the images and the next one, or two of the first.
_MERGING = frozenset({"Reshape"})


def linear(layer: FusedLayer, inputs: np.ndarray, weight: np.ndarray, bias: Optional[np.ndarray]) -> np.ndarray:
    """The layer's convolution or product with these weights, without what is fused into it."""
    core = replace(layer.core, attrs={**layer.core.attrs, "no_bias": str(bias is None)})
    params = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    over_last_axis = not layer.is_convolution and not flag(layer.core, "flatten", default=True)
    return operator_results(core, (inputs, *params), params, 1, at_once=over_last_axis)[0]


def activated(layer: FusedLayer, values: np.ndarray, out: Optional[np.ndarray] = None) -> np.ndarray:
    """The values after the activation that is fused into the layer; ``out``, which may be ``values``, may be used."""
    if layer.activation is None:
        return values
    if layer.activation_kind not in ("relu", "relu6"):
        return operator_results(layer.activation, (values,), {}, 1)[0]
    highest = np.float32(number(layer.activation, "a_max", np.inf))
    result = np.empty_like(values) if out is None else out

    def image(index: int) -> None:
        here = slice(index, index + 1)
        np.maximum(values[here], 0, out=result[here])
        if np.isfinite(highest):
            np.minimum(result[here], highest, out=result[here])

    in_threads(image, len(values))
    return result


def operator_results(
    node: Node,
    inputs: Sequence[Union[np.ndarray, str]],
    params: Mapping[str, np.ndarray],
    outputs: int,
    constants: Sequence[Node] = (),
    at_once: bool = False,
) -> list[np.ndarray]:
    """Run one operator over all images.

    Args:
        node: the operator; what its inputs are called does not matter.
        inputs: for each of them an array with the images as its first axis, or the name of a parameter or a constant.
        params: the parameters.
        outputs: how many of its results are wanted.
        constants: operators without inputs that it reads.
        at_once: whether all images are run at once, because they are not along the first axis everywhere.
    """
    names = [name if isinstance(name, str) else f"data{index}" for index, name in enumerate(inputs)]
    arrays = {name: array for name, array in zip(names, inputs) if not isinstance(array, str)}
    images = len(next(iter(arrays.values())))
    used = {name: params[name] for name in names if name in params and name not in arrays}
    if at_once or node.op in _MERGING:
        shapes = {name: array.shape for name, array in arrays.items()}
        return operator_session(node, names, shapes, used, outputs, constants).run(arrays)
    shapes = {name: (BATCH, *array.shape[1:]) for name, array in arrays.items()}
    session = operator_session(node, names, shapes, used, outputs, constants)
    results: list[np.ndarray] = []
    for start in range(0, images, BATCH):
        stop = min(start + BATCH, images)
        found = session.run({name: array[start:stop] for name, array in arrays.items()})
        if not results:
            results = [np.empty((images, *result.shape[1:]), result.dtype) for result in found]
        for whole, part in zip(results, found):
            whole[start:stop] = part
    return results


def operator_session(
    node: Node,
    names: Sequence[str],
    shapes: Mapping[str, Shape],
    params: Mapping[str, np.ndarray],
    outputs: int = 1,
    constants: Sequence[Node] = (),
) -> MxnetSession:
    """One operator, bound to the shapes of its inputs.

    Args:
        node: the operator; what its inputs are called does not matter.
        names: what they are to be called.
        shapes: of those that are no parameters.
        params: the others.
        outputs: how many of its results are wanted.
        constants: operators without inputs that it reads.
    """
    alone = replace(node, name="result", inputs=tuple(map(Tensor, names)), origin=())
    nodes, results = _with_results(alone, outputs)
    return MxnetSession(Graph((*constants, *nodes), tuple(shapes), results, params), shapes)


def _with_results(node: Node, outputs: int) -> tuple[tuple[Node, ...], tuple[Tensor, ...]]:
    """An operator in the engine's form, and the tensors that are its first outputs."""
    recurrent = recurrent_layer_of(node)
    if recurrent is None:
        return (node,), tuple(Tensor(node.name, index) for index in range(outputs))
    nodes = tuple(time_major(recurrent))
    if outputs == 1:
        return nodes, (node.output,)
    cell = batch_first_cell(f"{node.name}_cell", part_names(node.name)[-1])
    return (*nodes, cell), (node.output, cell.output)
