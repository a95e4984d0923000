"""What the INT8 network computes, in floating point, exactly but for the last bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Optional, Union

import numpy as np

from quantkit.engine.execute import Executor
from quantkit.fusion.unit import Unit
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.quantization.arithmetic import QuantParams, dequantize, quantize
from quantkit.quantization.plan import Activation
from quantkit.quantization.weights import engine_integers, per_channel_int8

_BATCH = 8
_HIGHEST_SIGNED = 127


def rounded(values: np.ndarray, form: Activation) -> np.ndarray:
    """The values after their way through integers of ``form``, float32."""
    return through(values, form.params)


def through(values: np.ndarray, params: QuantParams) -> np.ndarray:
    """The values after their way through integers, float32."""
    return dequantize(quantize(values, params), params)


def rounded_sum(values: np.ndarray, form: Activation, addend: Activation) -> np.ndarray:
    """The result of a convolution that adds ``addend`` in place; see ``emission.mxnet_int8``."""
    if (form.dtype, addend.dtype) != ("uint8", "int8"):
        return rounded(values, form)
    coarse = replace(form.params, scale=2 * form.params.scale)
    return np.minimum(through(values, coarse), np.float32(_HIGHEST_SIGNED * coarse.scale))


def engine_rounded(unit: Unit, weight: np.ndarray) -> np.ndarray:
    """The weights that the emitted layer multiplies by, float32."""
    integers, scale = layer_integers(unit, weight)
    return np.asarray(integers * scale.reshape(-1, *(1,) * (weight.ndim - 1)), np.float32)


def layer_integers(unit: Unit, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integers that the emitted layer multiplies by, int8, and the scale of each channel, float32."""
    return engine_integers(weight) if unit.is_convolution else per_channel_int8(weight)


def linear(unit: Unit, inputs: np.ndarray, weight: np.ndarray, bias: Optional[np.ndarray]) -> np.ndarray:
    """The layer's convolution or product with these weights, without what is fused into it."""
    core = replace(unit.core, attrs={**unit.core.attrs, "no_bias": str(bias is None)})
    params = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    return operator_results(core, (inputs, *params), params, 1)[0]


def activated(unit: Unit, values: np.ndarray) -> np.ndarray:
    """The values after the activation that is fused into the layer."""
    if unit.activation is None:
        return values
    if unit.activation_kind == "relu":
        return np.maximum(values, 0)
    return operator_results(unit.activation, (values,), {}, 1)[0]


def operator_results(
    node: Node, inputs: Sequence[Union[np.ndarray, str]], params: Mapping[str, np.ndarray], outputs: int
) -> list[np.ndarray]:
    """Run one operator over all images.

    Args:
        node: the operator; what its inputs are called does not matter.
        inputs: for each of them an array with the images as its first axis, or the name of a parameter.
        params: the parameters.
        outputs: how many of its results are wanted.
    """
    names = [name if isinstance(name, str) else f"data{index}" for index, name in enumerate(inputs)]
    arrays = {name: array for name, array in zip(names, inputs) if not isinstance(array, str)}
    alone = replace(node, name="result", inputs=tuple(map(Tensor, names)), origin=())
    used = {name: params[name] for name in names if name not in arrays}
    graph = Graph((alone,), tuple(arrays), tuple(Tensor("result", index) for index in range(outputs)), used)
    images = len(next(iter(arrays.values())))
    executor = Executor(graph, {name: (_BATCH, *array.shape[1:]) for name, array in arrays.items()})
    results = []
    for start in range(0, images, _BATCH):
        results.append(executor.run({name: array[start : start + _BATCH] for name, array in arrays.items()}))
    return [np.concatenate(parts) for parts in zip(*results)]
