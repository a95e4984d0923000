"""What opset 6 says by attributes, and later ones by shapes or not at all; the expected values by NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.formats.onnx.reading.network import import_network
from tests.formats.onnx.reading.files import Writer, save
from tests.formats.onnx.reading.hostile import refused

pytestmark = pytest.mark.usefixtures("engine")

CHANNELS = np.array([0.5, -1.5, 2.0], np.float32)
ROW = np.linspace(-1, 1, 14, dtype=np.float32)
IMAGES = np.random.default_rng(0).normal(size=(2, 3, 9, 14)).astype(np.float32)
STATISTICS = (CHANNELS, CHANNELS + 1, CHANNELS - 1, CHANNELS**2)

Build = Callable[[Writer], str]


def by_channel(values: np.ndarray) -> np.ndarray:
    return values[..., None, None]


def normalized(images: np.ndarray) -> np.ndarray:
    scale, shift, mean, variance = map(by_channel, STATISTICS)
    return (images - mean) / np.sqrt(variance + np.float32(0.01)) * scale + shift


READ: dict[str, tuple[Build, Callable[[np.ndarray], np.ndarray]]] = {
    "along an axis": (
        lambda w: w.op("Add", "x", CHANNELS, broadcast=1, axis=1), lambda x: x + by_channel(CHANNELS)
    ),
    "along a negative axis": (
        lambda w: w.op("Mul", "x", CHANNELS, broadcast=1, axis=-3), lambda x: x * by_channel(CHANNELS)
    ),
    "computed, along an axis": (
        lambda w: w.op("Sub", "x", w.op("ReduceMean", "x", axes=[2, 3], keepdims=0), broadcast=1, axis=0),
        lambda x: x - x.mean((2, 3), keepdims=True),
    ),
    "along the last axes": (lambda w: w.op("Div", "x", ROW + 3, broadcast=1), lambda x: x / (ROW + 3)),
    "slopes": (lambda w: w.op("PRelu", "x", CHANNELS), lambda x: np.where(x < 0, x * by_channel(CHANNELS), x)),
    "dropout": (lambda w: w.op("Dropout", "x", is_test=1), lambda x: x),
    "batch norm": (lambda w: w.op("BatchNormalization", "x", *STATISTICS, is_test=1, epsilon=0.01), normalized),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_opset_6(name: str, tmp_path: Path) -> None:
    build, expected = READ[name]
    w = Writer(6)
    graph = import_network(save(w.model(build(w)), tmp_path / "net.onnx")).graph
    np.testing.assert_allclose(run(graph, {"x": IMAGES})[0], expected(IMAGES), rtol=1e-5, atol=1e-5)


REFUSED: dict[str, tuple[int, Build, str]] = {
    "dropout": (6, lambda w: w.op("Dropout", "x"), "it drops values at inference too"),
    "batch norm": (6, lambda w: w.op("BatchNormalization", "x", *STATISTICS), "it is in training mode"),
    "statistics of places": (
        7, lambda w: w.op("BatchNormalization", "x", *STATISTICS, spatial=0), r"\(spatial=0\)",
    ),
    "too many axes": (6, lambda w: w.op("Add", "x", CHANNELS, broadcast=1, axis=4), "names axis 4 of a tensor with 4"),
    "axes behind the last": (
        6, lambda w: w.op("Add", "x", np.ones((3, 3)), broadcast=1, axis=3), r"it puts \(3, 3\) at axis 3 of \(N, 3"
    ),
    "folded": (
        6, lambda w: w.op("Add", "x", w.op("Mul", np.ones((3, 3)), CHANNELS, broadcast=1, axis=0), broadcast=1, axis=1),
        "it broadcasts constants as opset 6 does",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_old_opsets_say_otherwise_is_refused(name: str, tmp_path: Path) -> None:
    opset, build, told = REFUSED[name]
    w = Writer(opset)
    path = save(w.model(build(w)), tmp_path / "net.onnx")
    assert re.search(told, refused(path))
