"""What the walk over the layers makes of one, against the same in NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.ir.graph import Tensor
from quantkit.progress import silent
from quantkit.quantization.algorithms.reconstruction import reconstruct
from quantkit.quantization.arithmetic import activation_params, dequantize, quantize
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.weights import engine_integers
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned
from tests.quantization.algorithms.test_bias_correction import of_one_channel

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("rectified", [True, False])
def test_biases_take_up_the_mean_error_where_the_activation_lets_them(rectified: bool) -> None:
    """Of a 1x1 convolution: what is silent with a ReLU counts without one."""
    b = Builder()
    layer = b.conv("conv", DATA, 3, 8, kernel=1)
    graph = b.graph(b.relu("relu", layer) if rectified else layer)
    data = images(16, seed=2)
    weight = graph.params["conv_weight"] * np.linspace(0.3, 3, 8, dtype=np.float32)[:, None, None, None]
    # Channels that are active often and seldom.
    bias = np.linspace(-2, 1, 8, dtype=np.float32)
    fused, plan = planned(replace(graph, params={"conv_weight": weight, "conv_bias": bias}), data)
    found = reconstruct(QuantizedGraph(fused.graph, plan), data, PTQConfig(bias=True), silent).graph

    form = plan.tensors[Tensor("data")]
    params = activation_params(form.range, form.dtype)
    integers, scale = engine_integers(weight)
    rounded = (integers[:, :, 0, 0] * scale[:, None]).astype(np.float64)
    seen = dequantize(quantize(data, params), params).astype(np.float64)
    shape = bias[:, None, None]
    exact = np.einsum("oc,nchw->nohw", weight[:, :, 0, 0].astype(np.float64), data) + shape
    quantized = np.einsum("oc,nchw->nohw", rounded, seen) + shape
    channels = zip(exact.swapaxes(0, 1), quantized.swapaxes(0, 1))
    wanted = np.array([of_one_channel(*channel, rectified) for channel in channels])
    change = found.params["conv_bias"] - bias
    np.testing.assert_array_equal(change != 0, wanted != 0)
    assert 3 <= np.count_nonzero(wanted) < len(wanted)
    # Biases of up to 2 hold the change as float32 does.
    np.testing.assert_allclose(change, wanted, rtol=1e-5, atol=np.spacing(np.float32(2)))
