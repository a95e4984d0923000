"""Dense layers that read feature maps of one pixel, as the last convolution of a LeNet-5 puts out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.fusion.rules.dense_of_one_pixel import DENSE_OF_ONE_PIXEL
from quantkit.ir.graph import Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned


def one_pixel(b: Builder, channels: int, name: str = "conv") -> Tensor:
    """A convolution as large as its input, with ReLU."""
    weight = b.param(f"{name}_weight", b.random.normal(size=(channels, 3, 16, 16)) / 28)
    conv = b.op("Convolution", name, DATA, weight, kernel=(16, 16), num_filter=channels, no_bias=True)
    return b.relu(f"{name}_relu", conv)


def pooled(b: Builder, channels: int, kind: str) -> Tensor:
    return b.op("Pooling", kind, one_pixel(b, channels), pool_type=kind, global_pool=True, kernel=(1, 1))


Last = Callable[[Builder, int], Tensor]
FLATTENED: dict[str, Last] = {
    "convolution": one_pixel,
    "sum": lambda b, n: b.op("elemwise_add", "sum", one_pixel(b, n, "left"), one_pixel(b, n, "right")),
    "1x1 convolution": lambda b, n: b.conv("pointwise", one_pixel(b, n), n, n, kernel=1),
    "concatenation": lambda b, n: b.op(
        "Concat", "concat", one_pixel(b, n // 2, "left"), one_pixel(b, n // 2, "right"), dim=1, num_args=2
    ),
    "reshape": lambda b, n: b.op("Reshape", "reshape", one_pixel(b, n), shape=(0, -1, 1, 1)),
}
AS_THEY_ARE: dict[str, Last] = {
    "maximum": lambda b, n: pooled(b, n, "max"),
    "average": lambda b, n: pooled(b, n, "avg"),
    "rows": lambda b, n: b.op("Reshape", "reshape", one_pixel(b, n), shape=(0, -1)),
    "squeeze": lambda b, n: b.op("squeeze", "squeeze", one_pixel(b, n), axis=(2, 3)),
    "flatten": lambda b, n: b.op("Flatten", "flatten", one_pixel(b, n)),
}


@pytest.mark.requires("onednn", "vnni")
@pytest.mark.parametrize("channels", [16, 10])
@pytest.mark.parametrize("name", [*FLATTENED, *AS_THEY_ARE])
def test_they_compute_the_same_run_after_run(name: str, channels: int) -> None:
    b = Builder()
    graph, data = b.graph(b.dense("dense", (FLATTENED | AS_THEY_ARE)[name](b, channels), channels, 10)), images(4)
    fused, plan = planned(graph, data)
    assert (DENSE_OF_ONE_PIXEL.name in {each.rule for each in fused.applied}) == (name in FLATTENED)
    (expected,) = next(iter(outputs_of(graph, [data], len(data))))
    for form, tolerance in ((float_graph(fused.graph), 1e-5), (int8_graph(QuantizedGraph(fused.graph, plan)), 0.1)):
        for (computed,) in outputs_of(form, [data] * 3, len(data)):
            np.testing.assert_allclose(computed, expected, atol=tolerance * np.abs(expected).max())


def test_larger_maps_stay_as_they_are(engine: None) -> None:
    b = Builder()
    graph = b.graph(b.dense("dense", b.conv("conv", DATA, 3, 8), 8 * 256, 10))
    assert not fuse(graph, (3, 16, 16), (DENSE_OF_ONE_PIXEL,)).applied
