"""An INT8 layer's sums against those of 64-bit integers, however large they are."""

from __future__ import annotations

from typing import Optional

import numpy as np
import pytest

from quantkit.ir.fused_layer import FusedLayer, layer_of
from quantkit.ir.graph import Node, Tensor
from quantkit.quantization.algorithms.patches import windows
from quantkit.quantization.arithmetic import QuantParams
from quantkit.quantization.simulation.integer_sums import IntegerWeights, exact_parts, integer_layer

UNSIGNED = QuantParams(2.0**-6, "uint8")


def convolution(channels: int, groups: int = 1, kernel: int = 3) -> FusedLayer:
    attrs = {"num_filter": str(channels), "num_group": str(groups), "kernel": f"({kernel}, {kernel})", "pad": "(1, 1)"}
    return layer_of(Node("conv", "Convolution", (Tensor("data"), Tensor("w")), {**attrs, "no_bias": "True"}))


def dense(channels: int) -> FusedLayer:
    attrs = {"num_hidden": str(channels), "no_bias": "True"}
    return layer_of(Node("dense", "FullyConnected", (Tensor("data"), Tensor("w")), attrs))


def oracle(layer: FusedLayer, integers: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The layer's sums, int64."""
    wide = weight.astype(np.int64)
    if not layer.is_convolution:
        return np.asarray(integers.reshape(len(integers), -1) @ wide.T)
    seen = windows(layer, integers)
    grouped = seen.reshape(len(seen), layer.groups, -1, *seen.shape[2:])
    kernels = wide.reshape(layer.groups, -1, *wide.shape[1:])
    sums = np.einsum("ngchwij,gocij->ngohw", grouped, kernels, optimize=True)
    return np.asarray(sums.reshape(len(sums), -1, *sums.shape[3:]))


def found(layer: FusedLayer, integers: np.ndarray, weight: np.ndarray, bias: Optional[np.ndarray] = None) -> np.ndarray:
    """The layer's result in steps that are powers of two, so that they change no digit."""
    weights = IntegerWeights(weight, np.full(len(weight), 0.5, np.float32))
    return integer_layer(layer, (integers * UNSIGNED.scale).astype(np.float32), UNSIGNED, weights, bias)


def large(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Weights near the largest, mostly of one sign: sums far above 2^24, and odd ones."""
    random = np.random.default_rng(seed)
    return (random.integers(60, 128, shape) * random.choice([1, 1, 1, 1, 1, 1, 1, -1], shape)).astype(np.int8)


LAYERS = {
    "one part": (convolution(5), (5, 4, 3, 3), (9, 4, 6, 6)),
    "parts": (convolution(3), (3, 512, 3, 3), (2, 512, 4, 4)),
    "groups in parts": (convolution(4, groups=2), (4, 300, 3, 3), (2, 600, 4, 4)),
    "one channel in parts": (convolution(2, kernel=43), (2, 1, 43, 43), (1, 1, 44, 44)),
    "dense in parts": (dense(3), (3, 4096), (3, 256, 4, 4)),
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", LAYERS)
def test_sums_are_those_of_integers(name: str) -> None:
    layer, weight_shape, data_shape = LAYERS[name]
    weight = large(weight_shape)
    integers = np.random.default_rng(1).integers(1, 256, data_shape)
    wanted = oracle(layer, integers, weight)
    if "parts" in name:
        # Odd sums that float32 does not have: what it would add up would end elsewhere.
        assert np.abs(wanted).max() > 2**24
        assert np.any(wanted.astype(np.float32).astype(np.int64) != wanted)
    np.testing.assert_array_equal(found(layer, integers, weight), wanted.astype(np.float32) * 0.5 * UNSIGNED.scale)


@pytest.mark.usefixtures("engine")
def test_the_bias_is_real() -> None:
    layer, weight_shape, data_shape = LAYERS["one part"]
    weight, integers = large(weight_shape), np.random.default_rng(1).integers(0, 256, data_shape)
    bias = np.arange(5, dtype=np.float32) / 7
    plain = found(layer, integers, weight)
    np.testing.assert_array_equal(found(layer, integers, weight, bias), plain + bias[:, None, None])


@pytest.mark.parametrize("shape", [(5, 4, 3, 3), (3, 512, 3, 3), (2, 1, 43, 43), (7, 3000)])
@pytest.mark.parametrize("largest", [127, 255])
def test_parts_make_up_the_weights_and_stay_small(shape: tuple[int, ...], largest: int) -> None:
    weight = large(shape)
    whole = np.zeros(shape, np.int64)
    parts = list(exact_parts(weight, largest))
    held = sum((part.weight if part.weight.base is None else part.weight.base).nbytes for part in parts)
    # Only a channel that is cut is held twice.
    assert held <= 4 * weight.nbytes * (1 if shape[1] > 1 else len(parts))
    for part in parts:
        assert np.abs(part.weight).reshape(len(weight), -1).sum(axis=1).max() * largest < 2**24
        whole[:, part.channels] += part.weight.astype(np.int64)
    np.testing.assert_array_equal(whole, weight)
    least = np.abs(weight.astype(np.int64)).reshape(len(weight), -1).sum(axis=1).max() * largest / 2**24
    assert least < len(parts) <= 2 * least + 1
