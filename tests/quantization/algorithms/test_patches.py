"""Rows times weights is what the layer computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.ir.fused_layer import FusedLayer, fused_layer_of
from quantkit.ir.graph import Node, Tensor
from quantkit.quantization.algorithms.patches import channel_sums, layer_rows, windows
from quantkit.quantization.simulation.operators import linear

pytestmark = pytest.mark.usefixtures("engine")

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _the_same_numbers_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RANDOM", np.random.default_rng(0))


def fused_layer(op: str, **attrs: Any) -> FusedLayer:
    found = fused_layer_of(Node("layer", op, (Tensor("x"), Tensor("w")), {k: str(v) for k, v in attrs.items()}))
    assert found is not None
    return found


LAYERS = {
    "1x1": ({"kernel": (1, 1)}, (5, 6, 1, 1), (7, 7)),
    "padded": ({"kernel": (3, 3), "pad": (1, 1)}, (5, 6, 3, 3), (7, 7)),
    "strided": ({"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}, (5, 6, 3, 3), (8, 7)),
    "uneven": ({"kernel": (1, 7), "pad": (0, 3)}, (5, 6, 1, 7), (7, 9)),
    "dilated": ({"kernel": (3, 3), "dilate": (2, 2), "pad": (2, 2)}, (5, 6, 3, 3), (7, 7)),
    "depthwise": ({"kernel": (3, 3), "pad": (1, 1), "num_group": 6}, (6, 1, 3, 3), (7, 7)),
    "grouped": ({"kernel": (3, 3), "num_group": 2}, (4, 3, 3, 3), (7, 7)),
    "3-D": ({"kernel": (3, 3, 3), "pad": (1, 0, 1)}, (5, 6, 3, 3, 3), (4, 5, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_convolutions(name: str) -> None:
    attrs, shape, size = LAYERS[name]
    layer = fused_layer("Convolution", num_filter=shape[0], **attrs)
    check(layer, RANDOM.normal(size=(3, 6, *size)).astype(np.float32), RANDOM.normal(size=shape).astype(np.float32))


def test_dense_layers() -> None:
    inputs = RANDOM.normal(size=(3, 4, 2, 2)).astype(np.float32)
    check(fused_layer("FullyConnected", num_hidden=5), inputs, RANDOM.normal(size=(5, 16)).astype(np.float32))


def check(layer: FusedLayer, inputs: np.ndarray, weight: np.ndarray) -> None:
    result = linear(layer, inputs, weight, None)
    positions = result.size // result.shape[1]
    chosen = np.sort(RANDOM.choice(positions, max(1, positions // 2), replace=False))
    seen, wanted = layer_rows(layer, inputs, result, chosen)
    grouped = weight.reshape(layer.groups, -1, seen.shape[2])
    np.testing.assert_allclose(seen @ grouped.swapaxes(1, 2), wanted, atol=1e-4)


@pytest.mark.parametrize("name", LAYERS)
def test_an_input_of_one_value_per_channel(name: str) -> None:
    """Where nothing of the padding is seen, the layer puts out the sums."""
    attrs, shape, size = LAYERS[name]
    layer = fused_layer("Convolution", num_filter=shape[0], **{**attrs, "pad": (0,) * len(size)})
    weight = RANDOM.normal(size=shape).astype(np.float32)
    values = RANDOM.normal(size=6)
    data = np.broadcast_to(values.reshape(1, 6, *(1,) * len(size)), (1, 6, *size)).astype(np.float32)
    result = linear(layer, data, weight, None)
    wanted = np.broadcast_to(channel_sums(layer, weight, values).reshape(1, -1, *(1,) * len(size)), result.shape)
    np.testing.assert_allclose(result, wanted, atol=1e-4)


def test_dense_layers_have_no_groups() -> None:
    layer = fused_layer("FullyConnected", num_hidden=5, num_group=2)
    weight, values = RANDOM.normal(size=(5, 4)), RANDOM.normal(size=4)
    assert layer.groups == 1
    np.testing.assert_allclose(channel_sums(layer, weight, values), weight @ values)


def test_geometry_that_is_not_given_has_the_engines_defaults() -> None:
    layer = fused_layer("Convolution", kernel=(2, 3))
    found = windows(layer, np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5))
    assert found.shape == (2, 3, 3, 3, 2, 3)
    assert found[1, 2, 2, 1].tolist() == [[111, 112, 113], [116, 117, 118]]


def test_sums_of_a_channel_do_not_lose_small_weights_among_large_ones() -> None:
    weight = np.array([1e8, 1, -1e8], np.float32).reshape(1, 1, 3, 1)
    np.testing.assert_array_equal(
        channel_sums(fused_layer("Convolution", kernel=(3, 1)), weight, np.ones(1, np.float32)), [1]
    )
