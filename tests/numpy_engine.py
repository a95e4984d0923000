"""Networks in NumPy: a second opinion on the engine, and a stand-in for it where starting it takes too long.

With QUANTKIT_TEST_ENGINE=numpy the fixture ``engine`` puts it in the engine's place, for FP32 networks of the operators
below. ``tests/mutation/measure.py`` does so, as it runs the tests of a package anew for every mutant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np
import pytest
from scipy.special import erf

from quantkit.errors import EngineError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import flag, integer, integers, number

Arrays = Sequence[np.ndarray]
Shape = tuple[int, ...]


class MxnetSession:
    """Like ``quantkit.backends.mxnet.execute.MxnetSession``."""

    def __init__(self, graph: Graph, shapes: Optional[Mapping[str, Shape]] = None) -> None:
        self._graph = graph
        self._shapes = shapes

    @property
    def inputs(self) -> tuple[str, ...]:
        return self._graph.inputs

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Compute the network's outputs for a batch of any size."""
        shapes = self._shapes or {name: value.shape for name, value in inputs.items()}
        if wrong := [name for name, value in inputs.items() if value.shape[1:] != tuple(shapes[name])[1:]]:
            raise EngineError(f"{wrong[0]} has shape {inputs[wrong[0]].shape}, bound to {shapes[wrong[0]]}")
        found = tensors(self._graph, inputs)
        return [found[tensor].copy() for tensor in self._graph.outputs]


def run(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Like ``quantkit.backends.mxnet.execute.run``."""
    return MxnetSession(graph).run(inputs)


def infer_shapes(graph: Graph, shapes: Mapping[str, Shape]) -> dict[Tensor, Shape]:
    """Like ``quantkit.backends.mxnet.shapes.infer_shapes``."""
    found = tensors(graph, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    return {tensor: value.shape for tensor, value in found.items()}


def tensors(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[Tensor, np.ndarray]:
    """Every tensor of a network, parameters included, float32."""
    found = {Tensor(name): np.asarray(value, np.float32) for name, value in {**graph.params, **inputs}.items()}
    for node in graph.nodes:
        with np.errstate(all="ignore"):
            results = _results(node, [found[tensor] for tensor in node.inputs])
        for index, result in enumerate(results):
            found[Tensor(node.name, index)] = np.asarray(result, np.float32)
    return found


def _results(node: Node, inputs: list[np.ndarray]) -> Arrays:
    if node.body is not None:
        inner = tensors(node.body, dict(zip(node.body.inputs, inputs)))
        return [inner[tensor] for tensor in node.body.outputs]
    if node.op not in _OPERATORS:
        raise EngineError(f"there is no {node.op} in NumPy")
    try:
        found = _OPERATORS[node.op](node, *inputs)
    except ValueError as error:
        raise EngineError(f"{node.name}: {error}") from error
    return found if isinstance(found, list) else [found]


def _convolution(node: Node, data: np.ndarray, weight: np.ndarray, bias: Any = None) -> np.ndarray:
    kernel, groups = integers(node, "kernel"), integer(node, "num_group", 1)
    axes = len(kernel)
    stride, pad, dilate = (
        integers(node, name) or (default,) * axes for name, default in (("stride", 1), ("pad", 0), ("dilate", 1))
    )
    padded = np.pad(data, ((0, 0), (0, 0), *((size, size) for size in pad)))
    sizes = [
        (padded.shape[2 + axis] - (kernel[axis] - 1) * dilate[axis] - 1) // stride[axis] + 1 for axis in range(axes)
    ]
    grouped = padded.reshape(len(data), groups, -1, *padded.shape[2:])
    filters = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
    total = np.zeros((len(data), groups, filters.shape[1], *sizes), np.float32)
    for place in np.ndindex(*kernel):
        seen = tuple(
            slice(place[axis] * dilate[axis], place[axis] * dilate[axis] + (sizes[axis] - 1) * stride[axis] + 1,
                  stride[axis]) for axis in range(axes)
        )  # fmt: skip
        part = grouped[(slice(None), slice(None), slice(None), *seen)].reshape(*grouped.shape[:3], -1)
        total += (filters[(slice(None), slice(None), slice(None), *place)] @ part).reshape(total.shape)
    result = total.reshape(len(data), len(weight), *sizes)
    return result if flag(node, "no_bias") else result + bias.reshape(-1, *(1,) * axes)


def _dense(node: Node, data: np.ndarray, weight: np.ndarray, bias: Any = None) -> np.ndarray:
    rows = data.reshape(len(data), -1) if flag(node, "flatten", default=True) else data
    product: np.ndarray = rows @ weight.T
    return product if flag(node, "no_bias") else product + bias


def _batch_norm(node: Node, data: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
    axis = integer(node, "axis", 1) % data.ndim
    gamma, beta, mean, variance = (
        each.reshape(*(1,) * axis, -1, *(1,) * (data.ndim - axis - 1)) for each in parameters
    )
    scaled = (data - mean) / np.sqrt(variance + number(node, "eps", 1e-3))
    return np.asarray((scaled if flag(node, "fix_gamma", default=True) else gamma * scaled) + beta)


def _activation(node: Node, data: np.ndarray) -> np.ndarray:
    kinds: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "relu": lambda x: np.maximum(x, 0),
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "tanh": np.tanh,
        "softrelu": lambda x: np.log1p(np.exp(x)),
        "softsign": lambda x: x / (1 + np.abs(x)),
    }
    return kinds[node.attrs["act_type"]](data)


def _leaky(node: Node, data: np.ndarray) -> np.ndarray:
    slope = number(node, "slope", 0.25)
    kinds: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "leaky": lambda x: np.where(x > 0, x, slope * x),
        "elu": lambda x: np.where(x > 0, x, slope * np.expm1(x)),
        "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    }
    return kinds[node.attrs.get("act_type", "leaky")](data)


def _pooling(node: Node, data: np.ndarray) -> np.ndarray:
    reduced = np.max if node.attrs.get("pool_type", "max") == "max" else np.mean
    if flag(node, "global_pool"):
        return np.asarray(reduced(data, axis=tuple(range(2, data.ndim)), keepdims=True))
    kernel = integers(node, "kernel")
    if any(integers(node, "pad")):
        raise EngineError("there is no padded pooling in NumPy")
    stride = integers(node, "stride") or (1,) * len(kernel)
    axes = tuple(range(2, data.ndim))
    views = np.lib.stride_tricks.sliding_window_view(data, kernel, axes)  # type: ignore[call-overload]
    views = views[(slice(None), slice(None), *(slice(None, None, step) for step in stride))]
    return np.asarray(reduced(views, axis=tuple(range(data.ndim, views.ndim))))


def _softmax(node: Node, data: np.ndarray) -> np.ndarray:
    powers = np.exp(data - data.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _dropout(node: Node, data: np.ndarray) -> np.ndarray:
    if node.attrs.get("mode", "training") != "always":
        return data
    keep = 1 - number(node, "p", 0.5)
    return data * (np.random.default_rng().random(data.shape) < keep) / keep


def _reshape(node: Node, data: np.ndarray) -> np.ndarray:
    wanted = integers(node, "shape")
    return data.reshape([data.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)])


def _slices(node: Node, data: np.ndarray) -> list[np.ndarray]:
    return list(np.split(data, integer(node, "num_outputs", 1), integer(node, "axis", 1)))


def _same(node: Node, data: np.ndarray) -> np.ndarray:
    return data


def _sum(node: Node, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first + second


_OPERATORS: dict[str, Callable[..., Any]] = {
    "Convolution": _convolution,
    "FullyConnected": _dense,
    "BatchNorm": _batch_norm,
    "Activation": _activation,
    "LeakyReLU": _leaky,
    "Pooling": _pooling,
    "Dropout": _dropout,
    "Reshape": _reshape,
    "SliceChannel": _slices,
    **dict.fromkeys(("softmax", "SoftmaxActivation"), _softmax),
    "log_softmax": lambda node, data: np.log(_softmax(node, data)),
    **dict.fromkeys(("_copy", "BlockGrad"), _same),
    **dict.fromkeys(("elemwise_add", "broadcast_add"), _sum),
    "clip": lambda node, data: np.clip(data, number(node, "a_min", 0), number(node, "a_max", 0)),
    "elemwise_mul": lambda node, first, second: first * second,
    "_mul_scalar": lambda node, data: data * np.float32(number(node, "scalar", 0)),
    "_plus_scalar": lambda node, data: data + np.float32(number(node, "scalar", 0)),
    "_ones": lambda node: np.ones(integers(node, "shape"), np.float32),
    "Concat": lambda node, *parts: np.concatenate(parts, integer(node, "dim", 1)),
    "Flatten": lambda node, data: data.reshape(len(data), -1),
    "exp": lambda node, data: np.exp(data),
    "abs": lambda node, data: np.abs(data),
    "sqrt": lambda node, data: np.sqrt(data),
    "square": lambda node, data: np.square(data),
    "tanh": lambda node, data: np.tanh(data),
    "sigmoid": lambda node, data: 1 / (1 + np.exp(-data)),
}


@contextmanager
def in_place() -> Iterator[None]:
    """NumPy in the engine's place, in all that runs FP32 networks."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("execute", "stream"):
            patch.setattr(f"quantkit.backends.mxnet.{module}.MxnetSession", MxnetSession)
        patch.setattr("quantkit.backends.mxnet.shapes.infer_shapes", infer_shapes)
        patch.setattr("quantkit.fusion.fuse.infer_shapes", infer_shapes)
        patch.setattr("quantkit.quantization.simulation.operators.MxnetSession", MxnetSession)
        yield
