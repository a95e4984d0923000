"""Networks that read vectors instead of images, from loading to prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.bundle.read import read_bundle
from quantkit.data.preprocess import Preprocess
from quantkit.errors import DataError, ModelError
from quantkit.evaluation.agreement import cosines
from quantkit.ir.graph import Graph, Tensor
from tests.networks import Builder

FEATURES = 24


@pytest.fixture(scope="module")
def network() -> Graph:
    """Three dense layers with ReLU between."""
    b = Builder()
    data = Tensor("data")
    for number, (features, units) in enumerate(((FEATURES, 48), (48, 32))):
        data = b.relu(f"relu{number}", b.dense(f"dense{number}", data, features, units))
    out = b.dense("dense2", data, 32, 6)
    return Graph(tuple(b.nodes), ("data",), (out,), b.params)


@pytest.fixture(scope="module")
def model(engine: None, network: Graph) -> quantkit.Model:
    return quantkit.load_model(symbol_of(network), params=network.params, input_shape=(FEATURES,))


def vectors(count: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, FEATURES)).astype(np.float32)


@pytest.mark.requires("vnni")
@pytest.mark.usefixtures("int8_engine")
def test_vectors_are_quantized_deployed_and_exported(network: Graph, model: quantkit.Model, tmp_path: Path) -> None:
    quantized = quantkit.quantize(model, vectors(64))
    directory = quantized.save(tmp_path / "int8", formats=("mxnet", "onnx"))
    assert quantkit.verify(directory).ok
    fresh = vectors(50, seed=4)
    (expected,) = run(network, {"data": fresh})
    for engine in ("mxnet", "onnxruntime"):
        predictor = quantkit.load(directory, engine=engine)
        scores = predictor.predict(fresh)
        assert cosines(expected, scores).mean() > 0.999
        np.testing.assert_array_equal(predictor.predict(fresh[0]), scores[:1])
    dense = [row for row in read_bundle(directory).operators if row.operator == "FullyConnected"]
    assert [row.precision for row in dense] == ["int8"] * 3


def test_an_onnx_file_of_vectors_is_read_as_it_was_written(
    network: Graph, model: quantkit.Model, tmp_path: Path
) -> None:
    quantkit.export_onnx(model, tmp_path / "net.onnx")
    read = quantkit.load_model(tmp_path / "net.onnx")
    assert read.input_shape == (FEATURES,)
    data = vectors(5)
    (ours,), (theirs,) = run(network, {"data": data}), run(read.graph, {read.graph.inputs[0]: data})
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-6)


def test_what_is_for_images_is_refused_by_name(network: Graph, model: quantkit.Model) -> None:
    with pytest.raises(ModelError, match=r"inputs of shape \(24,\), no images; leave out the preprocessing"):
        quantkit.load_model(symbol_of(network), params=network.params, input_shape=(FEATURES,), preprocess=Preprocess())
    with pytest.raises(
        DataError, match=r"reads inputs of shape \(24,\) \(layout NC\), no images such as .*--calib-data"
    ):
        quantkit.quantize(model)
    with pytest.raises(DataError, match=r"has shape \(25,\), but the network reads \(24,\); give samples of that"):
        quantkit.quantize(model, np.zeros((4, 25), np.float32))


@pytest.mark.parametrize("shape", [(), (0,), (-24,), (24.0,), (True,), (1,) * 5, "24"])
def test_shapes_that_are_none_are_refused(network: Graph, shape: object) -> None:
    with pytest.raises(ModelError, match="not that of one input"):
        quantkit.load_model(symbol_of(network), params=network.params, input_shape=shape)  # type: ignore[arg-type]
