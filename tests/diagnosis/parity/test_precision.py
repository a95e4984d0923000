from __future__ import annotations

import pytest

from quantkit.backends.base import ExecutedLayer
from quantkit.backends.registry import ONNX_ENGINES
from quantkit.diagnosis.parity.onnx_file import OnnxFile, parse
from quantkit.diagnosis.parity.precision import PrecisionParity, precision_parity
from quantkit.ir.graph import Graph
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.backends.networks import int8_file, quantized
from tests.networks import DATA, Builder, images, inverted_residual, residual_v1, residual_v2
from tests.requirements import requires

requires("onnx")
pytestmark = pytest.mark.usefixtures("int8_engine")


def ran(int8: QuantizedGraph, name: str) -> PrecisionParity:
    chosen = ONNX_ENGINES[name]
    requires(chosen.package)
    content = int8_file(int8)
    return precision_parity(parse(content), chosen.backend().executed_layers(content, {"data": images(1)}))


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("network", [residual_v1, residual_v2, inverted_residual])
def test_every_layer_runs_in_integers(name: str, network: object) -> None:
    parity = ran(quantized(network(), images(4)), name)  # type: ignore[operator]
    assert parity.ok
    assert (parity.left, parity.planned) == ((), ())
    assert sum(parity.kernels.values()) >= 4


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_layers_that_the_plan_leaves_in_fp32_are_named_and_allowed(name: str) -> None:
    parity = ran(quantized(residual_v1(), images(4), "dense"), name)
    assert parity.ok
    assert parity.planned == ("dense",)


def test_a_layer_that_ran_in_fp32_all_the_same_is_named() -> None:
    file: OnnxFile = parse(int8_file(quantized(residual_v1(), images(4))))
    layers = [ExecutedLayer(frozenset({name}), "QLinearConv", "int8") for name in file.layers]
    assert precision_parity(file, layers).ok
    slow = [ExecutedLayer(layers[1].names, "Conv", "fp32")]
    parity = precision_parity(file, [layers[0], *slow, *layers[2:]])
    assert not parity.ok
    assert {*parity.left} == layers[1].names
    assert parity.kernels == {"QLinearConv": len(layers) - 1}


def reshaped_at_the_end() -> Graph:
    """As MobileNetV2 ends: a dense layer whose result gets axes of one and loses them again."""
    b = Builder()
    pooled = b.op("Pooling", "pool", b.relu("relu", b.conv("conv", DATA, 3, 8)), global_pool=True, pool_type="avg")
    dense = b.dense("dense", b.op("Flatten", "flat", pooled), 8, 10)
    return b.graph(b.op("Flatten", "last", b.op("Reshape", "maps", dense, shape=(0, -1, 1, 1))))


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_layer_goes_by_the_name_of_what_only_reshapes_it_too(name: str) -> None:
    assert ran(quantized(reshaped_at_the_end(), images(4)), name).ok
