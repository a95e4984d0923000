"""Random networks of the operators that quantkit knows, for properties that must hold of all of them.

Small ones: a few operators over a few channels, with tensors that several read, sums, concatenations, splits and layers
of every kind. Hypothesis shrinks them to the fewest operators that still show what is wrong, and prints these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from quantkit.ir.graph import Graph, Tensor
from tests.networks import DATA, Builder

Draw = Callable[[st.SearchStrategy], object]
Shape = tuple[int, ...]

_MOST_STEPS = 8
_MOST_CHANNELS = 8
_SAMPLES = 4


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A network, and input of shape (samples, channels, height, width) that it reads."""

    graph: Graph
    data: np.ndarray

    @property
    def image(self) -> Shape:
        """The shape of one input."""
        return self.data.shape[1:]

    def __repr__(self) -> str:
        lines = [
            f"  {node.name} = {node.op}({', '.join(map(str, node.inputs))}) {dict(node.attrs)}"
            for node in self.graph.nodes
        ]
        return "\n".join(
            [f"network of data {self.data.shape}", *lines, f"  -> {', '.join(map(str, self.graph.outputs))}"]
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis prints."""
        printer.text(repr(self))


class _Growing:
    """A network while operators are added: the tensors so far with their shapes, without the batch."""

    def __init__(self, draw: Draw, shape: Shape, seed: int) -> None:
        self.draw = draw
        self.builder = Builder(seed)
        self.tensors: dict[Tensor, Shape] = {DATA: shape}
        self._count = 0

    def pick(self, *rank: int) -> tuple[Tensor, Shape]:
        """A tensor, the newest first when Hypothesis shrinks; of one of these numbers of axes where any are given."""
        fitting = [item for item in reversed(self.tensors.items()) if not rank or len(item[1]) in rank]
        return self.draw(st.sampled_from(fitting))  # type: ignore[return-value]

    def like(self, shape: Shape, axes: slice) -> list[Tensor]:
        """The tensors that have the same shape along these axes, the newest first."""
        return [
            t for t, other in reversed(self.tensors.items()) if len(other) == len(shape) and other[axes] == shape[axes]
        ]

    def one_of(self, *choices: object) -> object:
        return self.draw(st.sampled_from(choices))

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def add(self, tensor: Tensor, shape: Shape) -> None:
        self.tensors[tensor] = shape


def _convolution(g: _Growing) -> None:
    data, (channels, *size) = g.pick(3)
    kernel, stride, dilate, pad = [], [], [], []
    for length in size:
        k = min(g.one_of(1, 3, 2), length)
        s, d = g.one_of(1, 2), g.one_of(1, 1, 2)
        d = d if d * (k - 1) + 1 <= length else 1
        kernel.append(k), stride.append(s), dilate.append(d), pad.append(g.one_of(0, k // 2))
    groups = g.one_of(*[each for each in range(1, channels + 1) if channels % each == 0])
    filters = groups * g.one_of(*range(1, _MOST_CHANNELS // groups + 1)) if groups < channels else channels
    b, name = g.builder, g.name("conv")
    shape = (filters, channels // groups, *kernel)
    weight = b.param(f"{name}_weight", b.random.normal(size=shape) / np.sqrt(np.prod(shape[1:])))
    with_bias = g.draw(st.booleans())
    bias = [b.param(f"{name}_bias", b.random.normal(size=filters) * 0.3)] if with_bias else []
    attrs = {"kernel": tuple(kernel), "stride": tuple(stride), "dilate": tuple(dilate), "pad": tuple(pad)}
    out = b.op(
        "Convolution", name, data, weight, *bias, num_filter=filters, num_group=groups, no_bias=not with_bias, **attrs
    )
    after = [
        (length + 2 * p - d * (k - 1) - 1) // s + 1 for length, k, s, d, p in zip(size, kernel, stride, dilate, pad)
    ]
    g.add(out, (filters, *after))


def _dense(g: _Growing) -> None:
    data, shape = g.pick()
    units, with_bias = g.one_of(5, 1, 8), g.draw(st.booleans())
    b, name = g.builder, g.name("dense")
    if len(shape) == 3 and g.draw(st.booleans()):
        data = b.op("Flatten", f"{name}_flatten", data)
    features = int(np.prod(shape))
    weight = b.param(f"{name}_weight", b.random.normal(size=(units, features)) / np.sqrt(features))
    bias = [b.param(f"{name}_bias", b.random.normal(size=units) * 0.3)] if with_bias else []
    out = b.op("FullyConnected", name, data, weight, *bias, num_hidden=units, no_bias=not with_bias)
    g.add(out, (units,))


def _batch_norm(g: _Growing) -> None:
    data, shape = g.pick()
    fixed, eps = g.draw(st.booleans()), g.one_of(1e-5, 1e-3)
    g.add(g.builder.batch_norm(g.name("bn"), data, shape[0], fix_gamma=fixed, eps=eps), shape)


_POINTWISE = (
    ("Activation", {"act_type": "relu"}),
    ("relu", {}),
    ("clip", {"a_min": 0.0, "a_max": 0.8}),
    ("clip", {"a_min": -0.5, "a_max": 0.7}),
    ("Activation", {"act_type": "sigmoid"}),
    ("Activation", {"act_type": "tanh"}),
    ("Activation", {"act_type": "softrelu"}),
    ("sigmoid", {}),
    ("tanh", {}),
    ("LeakyReLU", {"act_type": "leaky", "slope": 0.1}),
    ("LeakyReLU", {"act_type": "elu", "slope": 0.7}),
    ("abs", {}),
    ("square", {}),
    ("_mul_scalar", {"scalar": 0.7}),
    ("_plus_scalar", {"scalar": -0.3}),
    ("Dropout", {"p": 0.5}),
    ("identity", {}),
)


def _pointwise(g: _Growing) -> None:
    data, shape = g.pick()
    op, attrs = g.one_of(*_POINTWISE)
    g.add(g.builder.op(op, g.name(op.strip("_").lower()), data, **attrs), shape)


def _sum(g: _Growing) -> None:
    data, shape = g.pick()
    other = g.one_of(*g.like(shape, slice(None)))
    op = g.one_of("elemwise_add", "broadcast_add", "_plus", "elemwise_mul", "elemwise_sub")
    inputs = (data, other) if g.draw(st.booleans()) else (other, data)
    g.add(g.builder.op(op, g.name("sum"), *inputs), shape)


def _concat(g: _Growing) -> None:
    data, shape = g.pick()
    fitting = g.like(shape, slice(1, None))
    parts = [data, *(g.one_of(*fitting) for _ in range(g.one_of(1, 2)))]
    channels = sum(g.tensors[part][0] for part in parts)
    if channels <= 2 * _MOST_CHANNELS:
        out = g.builder.op("Concat", g.name("concat"), *parts, dim=1, num_args=len(parts))
        g.add(out, (channels, *shape[1:]))


def _split(g: _Growing) -> None:
    data, shape = g.pick(3)
    if shape[0] % 2 == 0:
        parts = g.builder.op("SliceChannel", g.name("split"), data, num_outputs=2, axis=1)
        for index in (0, 1):
            g.add(Tensor(parts.node, index), (shape[0] // 2, *shape[1:]))


def _pooling(g: _Growing) -> None:
    data, (channels, *size) = g.pick(3)
    kind = g.one_of("max", "avg")
    if g.draw(st.booleans()):
        attrs = {"kernel": (1, 1), "global_pool": True, "pool_type": kind}
        g.add(g.builder.op("Pooling", g.name("pool"), data, **attrs), (channels, 1, 1))
        return
    kernel = tuple(min(g.one_of(2, 3), length) for length in size)
    stride, pad = g.one_of(1, 2), tuple(g.one_of(0, k // 2) for k in kernel)
    full, count = g.draw(st.booleans()), g.draw(st.booleans())
    if min(kernel) == 1:
        full, pad = False, (0, 0)
    if any(-(-(length + 2 * p - k) // stride) * stride >= length + p for length, k, p in zip(size, kernel, pad)):
        full = False  # else the last window would hold nothing but padding
    attrs = {
        "kernel": kernel, "stride": (stride, stride), "pad": pad, "pool_type": kind, "count_include_pad": count,
        "pooling_convention": "full" if full else "valid",
    }  # fmt: skip
    spans = [length + 2 * p - k for length, k, p in zip(size, kernel, pad)]
    after = [(-(-span // stride) if full else span // stride) + 1 for span in spans]
    g.add(g.builder.op("Pooling", g.name("pool"), data, **attrs), (channels, *after))


_STEPS = (
    _convolution, _pointwise, _split, _batch_norm, _sum, _convolution, _dense, _concat, _pooling, _split, _sum,
)  # fmt: skip


@st.composite
def networks(draw: Draw, most: int = _MOST_STEPS) -> Network:
    """Networks of at most so many operators, and input for them."""
    shape = (draw(st.sampled_from([4, 3, 2])), draw(st.integers(5, 9)), draw(st.integers(5, 9)))
    seed = draw(st.integers(0, 2**16))
    g = _Growing(draw, shape, seed)
    for _ in range(draw(st.integers(1, most))):
        draw(st.sampled_from(_STEPS))(g)
    read = {tensor for node in g.builder.nodes for tensor in node.inputs}
    made = [tensor for tensor in g.tensors if tensor != DATA]
    if not made:
        _convolution(g)
        made = [tensor for tensor in g.tensors if tensor != DATA]
    loose = [tensor for tensor in made if tensor not in read]
    # Sometimes what others read leaves the network, too.
    more = [tensor for tensor in made if tensor in read and draw(st.integers(0, 9)) == 9]
    graph = g.builder.graph(*loose, *more).pruned()
    data = np.random.default_rng(seed).normal(size=(_SAMPLES, *shape)).astype(np.float32)
    return Network(graph, data)
