"""ONNX files of sequences with steps first: what tells it, and what is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.errors import ModelError
from tests.requirements import package

package("onnxruntime")

from tests.formats.onnx.reading.files import Extent, Writer, by_onnxruntime, save  # noqa: E402

pytestmark = pytest.mark.usefixtures("engine")

STEPS, FEATURES, UNITS, CLASSES = 5, 3, 4, 7
STEPS_FIRST: tuple[Extent, ...] = (STEPS, "N", FEATURES)
BATCH_FIRST: tuple[Extent, ...] = ("N", STEPS, FEATURES)
NOTE = "reads batches first, as do its outputs; its own layout is TNC"


def network(path: Path, shape: tuple[Extent, ...], recurrent: bool = True) -> Path:
    """Scores of every step: an LSTM (which reads steps first) and a dense layer, or that layer alone."""
    w = Writer(17, shape)
    data, features = "x", FEATURES
    if recurrent:
        if shape == BATCH_FIRST:
            data = w.op("Transpose", data, perm=[1, 0, 2])
        weights = w.normal(1, 4 * UNITS, FEATURES), w.normal(1, 4 * UNITS, UNITS), w.normal(1, 8 * UNITS)
        data = w.op("Squeeze", w.op("LSTM", data, *weights, hidden_size=UNITS), np.array([1]))
        features = UNITS
        if shape == BATCH_FIRST:
            data = w.op("Transpose", data, perm=[1, 0, 2])
    return save(w.model(w.op("Add", w.op("MatMul", data, w.normal(features, CLASSES)), w.normal(CLASSES))), path)


def sequences(count: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(count, STEPS, FEATURES)).astype(np.float32)


def expected(path: Path, data: np.ndarray) -> np.ndarray:
    return by_onnxruntime(path, np.ascontiguousarray(data.swapaxes(0, 1)))[0].swapaxes(0, 1)


@pytest.mark.parametrize("layout", [None, "TNC"])
def test_recurrent_layers_tell_it_and_the_layout_may_be_given(layout: Optional[str], tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", STEPS_FIRST)
    model = quantkit.load_model(path, layout=layout)
    assert (model.input_shape, model.layout, model.notes) == ((STEPS, FEATURES), "NTC", (NOTE,))
    (scores,) = run(model.graph, {model.graph.inputs[0]: sequences(3)})
    np.testing.assert_allclose(scores, expected(path, sequences(3)), rtol=0, atol=1e-5)


def test_without_recurrent_layers_the_layout_tells_it(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", STEPS_FIRST, recurrent=False)
    model = quantkit.load_model(path, layout="TNC")
    assert (model.input_shape, model.notes) == ((STEPS, FEATURES), (NOTE,))
    (scores,) = run(model.graph, {model.graph.inputs[0]: sequences(3)})
    np.testing.assert_allclose(scores, expected(path, sequences(3)), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("shape", "layout"), [(STEPS_FIRST, "NTC"), (BATCH_FIRST, "TNC")])
def test_a_layout_that_the_layers_contradict_is_refused(shape: tuple[Extent, ...], layout: str, tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", shape)
    with pytest.raises(ModelError, match="would take the samples of a batch for steps with that layout; leave the"):
        quantkit.load_model(path, layout=layout, input_shape=(STEPS, FEATURES))


def test_batches_first_are_as_they_were(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", BATCH_FIRST)
    for layout in (None, "NTC"):
        assert quantkit.load_model(path, layout=layout).notes == ()


@pytest.mark.parametrize(
    ("layout", "shape", "told"),
    [
        ("NCT", None, "layout 'NCT' is unknown; give NTC or NT"),
        ("TN", None, r"layout TN is for inputs of shape \(steps,\) without the batch, not \(5, 3\)"),
        ("TNC", (3, 8, 8), r"layout TNC is for inputs of shape \(steps, features\) without the batch, not \(3, 8, 8\)"),
    ],
)
def test_layouts_of_other_inputs(layout: str, shape: Optional[tuple[int, ...]], told: str, tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", STEPS_FIRST)
    with pytest.raises(ModelError, match=told):
        quantkit.load_model(path, layout=layout, input_shape=shape)


def test_a_layout_is_refused_for_images(tmp_path: Path) -> None:
    w = Writer()
    path = save(w.model(w.conv("x", 3, 4)), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="layout TNC is for inputs of shape"):
        quantkit.load_model(path, layout="TNC")


@pytest.mark.usefixtures("int8_engine")
def test_it_is_quantized_evaluated_and_deployed(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", STEPS_FIRST)
    model = quantkit.load_model(path)
    data = sequences(32)
    labels = expected(path, data).argmax(axis=-1)
    config = quantkit.QuantizationConfig(preset="none")
    directory = quantkit.quantize(model, (data, labels), config).save(tmp_path / "int8")
    assert quantkit.evaluate(directory, (data, labels), reference=model).step_accuracy["network"].top1 > 0.95
    np.testing.assert_allclose(quantkit.load(directory).predict(data), expected(path, data), rtol=0, atol=0.3)
