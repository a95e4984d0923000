"""Recurrent layers of ONNX files that the engine lacks, or that contradict themselves, are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantkit.errors import ModelError
from quantkit.formats.onnx.reading.network import import_network
from tests.formats.onnx.reading.files import Writer, save
from tests.formats.onnx.reading.test_recurrent import (
    BATCH_FIRST,
    FEATURES,
    STEPS,
    STEPS_FIRST,
    UNITS,
    check,
    layer,
    opened,
    pytorch,
)

pytestmark = pytest.mark.usefixtures("engine")


def refused(w: Writer, *outputs: str, folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        opened(w, *outputs, folder=folder)
    return str(caught.value)


REFUSED = {
    "clip": ("LSTM", {"clip": 3.0}, "LSTM 'LSTM_0': it clips what goes into its activations"),
    "coupled": ("LSTM", {"input_forget": 1}, "couples its input and forget gates"),
    "reset first": ("GRU", {"linear_before_reset": 0}, r"linear_before_reset=0\), and the engine resets the product"),
    "activation": ("RNN", {"activations": ["Affine"]}, "its activations are Affine; the engine has Tanh or Relu in"),
    "mixed": (
        "RNN", {"activations": ["Tanh", "Relu"], "direction": "bidirectional"}, "activations are Tanh, Relu; the engine"
    ),
    "direction": ("GRU", {"direction": "sideways"}, "its direction is 'sideways'; ONNX has forward, reverse, bidir"),
    "units": ("GRU", {"hidden_size": 5}, "its hidden_size is 5, and its weights are for 4 units"),
    "features": ("GRU", {"features": 2}, r"its W has shape \(1, 12, 2\) where \(1, 12, 3\) is expected for 3 features"),
    "layout": ("GRU", {"layout": 1}, "where the batch is not the axis that its layout says"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_engine_lacks_is_refused_by_name(case: str, tmp_path: Path) -> None:
    op, attrs, told = REFUSED[case]
    # The last needs a batch that is the second axis for certain.
    w = Writer(17, STEPS_FIRST)
    data = "x" if case != "layout" else pytorch(w, "RNN", "x", 1)
    features = attrs.get("features", UNITS if case == "layout" else FEATURES)
    outputs = layer(w, op, data, **{**attrs, "features": features})
    with pytest.raises(ModelError, match=told):
        opened(w, outputs[0], folder=tmp_path)


def test_peepholes(tmp_path: Path) -> None:
    w = Writer(17, STEPS_FIRST)
    outputs = layer(w, "LSTM", "x", "", "", "", np.zeros((1, 3 * UNITS)))
    check(w, *outputs, folder=tmp_path)
    w = Writer(17, STEPS_FIRST)
    outputs = layer(w, "LSTM", "x", "", "", "", np.ones((1, 3 * UNITS)))
    assert "it has peepholes, which the engine lacks; train it without" in refused(w, *outputs, folder=tmp_path)


def test_weights_that_do_not_fit_each_other(tmp_path: Path) -> None:
    w = Writer(17, STEPS_FIRST)
    outputs = w.op("LSTM", "x", w.normal(1, 16, 3), w.normal(1, 16, 5), count=3, hidden_size=5)
    assert "its W has shape (1, 16, 3) where (1, 20, 3) is expected" in refused(w, outputs[0], folder=tmp_path)


def test_lengths_of_their_own(tmp_path: Path) -> None:
    w = Writer(17, (STEPS, 2, FEATURES))
    outputs = layer(w, "GRU", "x", np.array([5, 4], np.int32))
    assert "its sequences have lengths of their own" in refused(w, outputs[0], folder=tmp_path)


def test_states_that_do_not_fit(tmp_path: Path) -> None:
    w = Writer(17, (STEPS, 2, FEATURES))
    outputs = layer(w, "GRU", "x", "", np.zeros((1, 2, 5)))
    assert "its initial state has shape (1, 2, 5) where (1, N, 4) is expected" in refused(
        w, outputs[0], folder=tmp_path
    )
    w = Writer(17, (STEPS, 2, FEATURES))
    outputs = layer(w, "GRU", "x", "", w.random.normal(size=(1, 2, UNITS)))
    assert "is not the same for every sequence" in refused(w, outputs[0], folder=tmp_path)


def test_layers_that_read_the_input_both_ways(tmp_path: Path) -> None:
    w = Writer(17, ("A", "B", FEATURES))
    turned = w.op("Transpose", "x", perm=[1, 0, 2])
    one, other = (layer(w, "GRU", data)[1] for data in ("x", turned))
    path = save(w.model(one, other), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="its recurrent layers do not agree on which axis of the input 'x' is the bat"):
        import_network(path, (STEPS, FEATURES))


def test_tokens_that_are_no_integers(tmp_path: Path) -> None:
    w = Writer(17, ("N", STEPS))
    result = w.op("Gather", w.normal(11, FEATURES), "x")
    assert "it chooses by floating-point numbers" in refused(w, result, folder=tmp_path)


@pytest.mark.parametrize("op", ["Add", "PRelu"])
def test_constants_for_an_open_batch_are_only_states(op: str, tmp_path: Path) -> None:
    w = Writer(17, BATCH_FIRST)
    zeros = w.op("ConstantOfShape", w.op("Shape", "x"))
    message = refused(w, w.op(op, "x", zeros), folder=tmp_path)
    assert "a constant of shape (N, 5, 3); only images may have the batch as an axis" in message
