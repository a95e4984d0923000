"""Outputs that an operator may leave out: they matter only where something reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.formats.onnx.reading.network import import_network
from tests.formats.onnx.reading.files import Writer, by_onnxruntime, save
from tests.formats.onnx.reading.hostile import refused

STATISTICS = (np.ones(3), np.zeros(3), np.zeros(3), np.ones(3))

OPTIONAL: dict[str, tuple[int, str, tuple[Any, ...], dict[str, Any], str]] = {
    "mask": (17, "Dropout", (), {}, "its mask is read"),
    "mask of a ratio": (12, "Dropout", (0.5,), {}, "its mask is read"),
    "indices": (17, "MaxPool", (), {"kernel_shape": [2, 2]}, "puts out indices"),
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_only_outputs_that_are_read_matter(name: str, tmp_path: Path) -> None:
    opset, op, more, attributes, told = OPTIONAL[name]
    w = Writer(opset)
    first, second = w.op(op, "x", *more, count=2, **attributes)
    result = w.op("Relu", first)
    graph = import_network(save(w.model(result), tmp_path / "unread.onnx")).graph
    assert [str(tensor) for tensor in graph.outputs] == [result]
    assert told in refused(save(w.model(result, second), tmp_path / "read.onnx"))


@pytest.mark.parametrize("opset", [9, 13])
def test_a_normalization_of_five_outputs_trains_until_opset_13(opset: int, tmp_path: Path) -> None:
    w = Writer(opset)
    result = w.op("BatchNormalization", "x", *STATISTICS, count=5)[0]
    assert "it is in training mode" in refused(save(w.model(result), tmp_path / "net.onnx"))


@pytest.mark.parametrize(("ratio", "drops"), [(0.5, True), (0.0, False)])
def test_training_that_drops_nothing(ratio: float, drops: bool, tmp_path: Path) -> None:
    w = Writer()
    result = w.op("Relu", w.op("Dropout", "x", ratio, np.array(True)))
    path = save(w.model(result), tmp_path / "net.onnx")
    if drops:
        assert "it drops values at inference too" in refused(path)
    else:
        assert [node.op for node in import_network(path).graph.nodes] == ["Activation"]


@pytest.mark.parametrize("axis", [1, -1])
def test_statistics_of_a_layer_normalization(axis: int, engine: None, tmp_path: Path) -> None:
    w = Writer(17, ("N", 3, 5, 4))
    scale = w.normal(*(3, 5, 4)[axis - 1 if axis > 0 else axis :])
    path = save(w.model(*w.op("LayerNormalization", "x", scale, count=3, axis=axis)), tmp_path / "net.onnx")
    images = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype(np.float32)
    computed, expected = run(import_network(path).graph, {"x": images}), by_onnxruntime(path, images)
    for one, other in zip(computed, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
