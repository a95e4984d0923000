"""Small networks as values, for the tests of every package."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantkit.ir.aliases import canonical
from quantkit.ir.graph import Graph, Node, Tensor


class Builder:
    """Adds one operator after the other; every method returns the new tensor."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.params: dict[str, np.ndarray] = {}

    def op(self, op: str, name: str, *inputs: Tensor, **attrs: Any) -> Tensor:
        """Add an operator, as reading a symbol would."""
        known_as, texts = canonical(op, {key: str(value) for key, value in attrs.items()})
        self.nodes.append(Node(name, known_as, inputs, texts, (name,)))
        return Tensor(name)

    def param(self, name: str, value: np.ndarray) -> Tensor:
        self.params[name] = value.astype(np.float32)
        return Tensor(name)

    def conv(
        self, name: str, data: Tensor, channels: int, filters: int, kernel: int = 3, bias: bool = True, groups: int = 1
    ) -> Tensor:
        shape = (filters, channels // groups, kernel, kernel)
        weight = self.param(f"{name}_weight", self.random.normal(size=shape) / np.sqrt(np.prod(shape[1:])))
        biases = [self.param(f"{name}_bias", self.random.normal(size=filters) * 0.1)] if bias else []
        pad = kernel // 2
        return self.op(
            "Convolution", name, data, weight, *biases, kernel=(kernel, kernel), pad=(pad, pad), num_filter=filters,
            num_group=groups, no_bias=not bias,
        )  # fmt: skip

    def dense(self, name: str, data: Tensor, features: int, units: int) -> Tensor:
        weight = self.param(f"{name}_weight", self.random.normal(size=(units, features)) / np.sqrt(features))
        bias = self.param(f"{name}_bias", self.random.normal(size=units) * 0.1)
        return self.op("FullyConnected", name, data, weight, bias, num_hidden=units)

    def batch_norm(self, name: str, data: Tensor, channels: int, **attrs: Any) -> Tensor:
        statistics = {
            "gamma": self.random.uniform(0.5, 1.5, channels),
            "beta": self.random.normal(size=channels) * 0.2,
            "moving_mean": self.random.normal(size=channels) * 0.2,
            "moving_var": self.random.uniform(0.5, 1.5, channels),
        }
        params = [self.param(f"{name}_{key}", value) for key, value in statistics.items()]
        return self.op("BatchNorm", name, data, *params, **{"fix_gamma": False, "eps": 1e-5, **attrs})

    def relu(self, name: str, data: Tensor) -> Tensor:
        return self.op("Activation", name, data, act_type="relu")

    def graph(self, *outputs: Tensor) -> Graph:
        return Graph(tuple(self.nodes), ("data",), outputs, dict(self.params))


DATA = Tensor("data")


def images(count: int = 4, channels: int = 3, size: int = 16, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, channels, size, size)).astype(np.float32)


def residual_v1(signed_shortcut: bool = False) -> Graph:
    """conv-bn-relu, then a block conv-bn-relu-conv-bn + shortcut, relu, mean, dense."""
    b = Builder()
    stem = b.relu("relu0", b.batch_norm("bn0", b.conv("conv0", DATA, 3, 16, bias=False), 16))
    body = b.relu("relu1", b.batch_norm("bn1", b.conv("conv1", stem, 16, 16, bias=False), 16))
    body = b.batch_norm("bn2", b.conv("conv2", body, 16, 16, bias=False), 16)
    shortcut = b.batch_norm("bn3", b.conv("conv3", stem, 16, 16, kernel=1), 16) if signed_shortcut else stem
    out = b.relu("relu2", b.op("elemwise_add", "add", body, shortcut))
    pooled = b.op("Pooling", "pool", out, global_pool=True, pool_type="avg", kernel=(1, 1))
    return b.graph(b.dense("dense", b.op("Flatten", "flatten", pooled), 16, 10))


def inverted_residual() -> Graph:
    """MobileNet v2's block: expanded, depthwise, projected without activation, added; clipped at 6 elsewhere."""
    b = Builder()

    def clipped(name: str, data: Tensor) -> Tensor:
        return b.op("clip", f"{name}_clip", b.batch_norm(f"{name}_bn", data, 24), a_min=0.0, a_max=6.0)

    data = b.batch_norm("project_bn", b.conv("project", clipped("stem", b.conv("stem", DATA, 3, 24)), 24, 8, 1), 8)
    inner = clipped(
        "depthwise", b.conv("depthwise", clipped("expand", b.conv("expand", data, 8, 24, 1)), 24, 24, groups=24)
    )
    total = b.op("elemwise_add", "add", data, b.batch_norm("narrow_bn", b.conv("narrow", inner, 24, 8, 1), 8))
    pooled = b.op(
        "Pooling",
        "pool",
        clipped("last", b.conv("last", total, 8, 24, 1)),
        global_pool=True,
        pool_type="avg",
        kernel=(1, 1),
    )
    return b.graph(b.dense("dense", b.op("Flatten", "flatten", pooled), 24, 10))


def residual_v2() -> Graph:
    """The pre-activation block on which stock MXNet's fusion is wrong: conv0 is read by bn1 and by the sum."""
    b = Builder()
    stem = b.conv("conv0", b.batch_norm("bn0", DATA, 3), 3, 16, bias=False)
    body = b.conv("conv1", b.relu("relu1", b.batch_norm("bn1", stem, 16)), 16, 16, bias=False)
    body = b.conv("conv2", b.relu("relu2", b.batch_norm("bn2", body, 16)), 16, 16, bias=False)
    total = b.op("elemwise_add", "add", body, stem)
    out = b.relu("relu3", b.batch_norm("bn3", total, 16))
    pooled = b.op("Pooling", "pool", out, global_pool=True, pool_type="avg", kernel=(1, 1))
    return b.graph(b.dense("dense", b.op("Flatten", "flatten", pooled), 16, 10))


def fire() -> Graph:
    """SqueezeNet's module: squeezed, then two expansions side by side, pooled."""
    b = Builder()
    squeezed = b.relu("squeeze_relu", b.conv("squeeze", DATA, 3, 8, 1))
    left = b.relu("left_relu", b.conv("left", squeezed, 8, 8, 1))
    right = b.relu("right_relu", b.conv("right", squeezed, 8, 8))
    both = b.op("Concat", "both", left, right, num_args=2, dim=1)
    pooled = b.op("Pooling", "max", both, kernel=(2, 2), stride=(2, 2), pool_type="max")
    last = b.relu("last_relu", b.conv("last", pooled, 16, 8))
    mean = b.op("Pooling", "mean", last, global_pool=True, pool_type="avg", kernel=(1, 1))
    return b.graph(b.dense("dense", b.op("Flatten", "flatten", mean), 8, 5))
