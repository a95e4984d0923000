from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.registry import ONNX_ENGINES
from quantkit.diagnosis.parity.layers import LayerParity, first_diverging, layer_parity
from quantkit.diagnosis.parity.onnx_file import OnnxFile, parse
from quantkit.errors import ModelError
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.backends.networks import int8_file, quantized
from tests.diagnosis.parity.changed_file import with_changed
from tests.lowering.networks import NETWORKS
from tests.lowering.networks import quantized as quantized_there
from tests.networks import fire, images, residual_v1
from tests.requirements import requires

requires("onnx")
pytestmark = pytest.mark.usefixtures("int8_engine")


def compared(int8: QuantizedGraph, file: OnnxFile, name: str = "reference") -> list[LayerParity]:
    requires(ONNX_ENGINES[name].package)
    return layer_parity(int8, file, ONNX_ENGINES[name], images(2))


@pytest.mark.requires("vnni")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", ONNX_ENGINES)
def test_every_layer_computes_what_it_does_in_mxnet(network: str, name: str) -> None:
    int8 = quantized_there(network, "balanced")
    layers = compared(int8, parse(int8_file(int8)), name)
    assert {layer.tensor for layer in layers} >= {str(tensor) for tensor in int8.plan.tensors}
    assert {layer.tensor: layer.alone for layer in layers if not layer.ok} == {}
    assert min(layer.cosine for layer in layers) > 0.998


@pytest.mark.requires("vnni")
def test_a_layer_with_other_weights_is_named_and_those_after_it_are_not() -> None:
    int8 = quantized(residual_v1(), images(4))
    file = parse(int8_file(int8))
    layers = compared(int8, with_changed(file, "bn1_weight_integers", lambda weight: np.roll(weight, 1, axis=0)))
    wrong = [layer for layer in layers if not layer.ok]
    assert [layer.tensor for layer in wrong] == ["relu1"] == [first_diverging(layers)]
    after = next(layer for layer in layers if layer.tensor == "relu2")
    assert after.beyond > 0.05
    assert after.alone < 0.01


def test_another_network_s_file_is_refused() -> None:
    int8 = quantized(residual_v1(), images(4))
    other = parse(int8_file(quantized(fire(), images(4))))
    with pytest.raises(ModelError, match="does not round the tensor 'relu0'"):
        compared(int8, other)
