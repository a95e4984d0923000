"""LSTM layers that return to FP32 after algorithms have rounded their weights."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision.measurements import with_layers_in_fp32
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.ptq_config import preset
from tests.quantization.recurrent_networks import quantized
from tests.sequences import sequence_network, sequences


def test_layers_have_the_weights_they_had(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    data = sequences(8, tokens=False)
    fused, network = quantized(monkeypatch, sequence_network("NTC"), data)
    adjusted = apply_algorithms(network, fused.original, [data], "minmax", preset("balanced"), silent)
    layers = [node.name for node in network.int8_weighted]
    mixed = with_layers_in_fp32(adjusted, layers).network
    assert not mixed.int8_lstms
    (exact,), (adapted,) = (run(float_graph(each), {"data": data}) for each in (fused.graph, adjusted.network.graph))
    (returned,) = run(int8_graph(mixed), {"data": data})
    assert np.abs(adapted - exact).max() > 1e-3
    np.testing.assert_allclose(returned, exact, rtol=1e-5, atol=1e-5)
