"""Files that are made for one batch size and name it: what keeps all images is read for any batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.formats.onnx.reading.network import import_network
from tests.formats.onnx.reading.files import Writer, save
from tests.formats.onnx.reading.hostile import refused

pytestmark = pytest.mark.usefixtures("engine")

KEPT: dict[str, tuple[Callable[[Writer], str], Callable[[np.ndarray], np.ndarray]]] = {
    "slice": (lambda w: w.op("Slice", "x", np.array([0, 1]), np.array([2, 3])), lambda x: x[:, 1:3]),
    "slice from the end": (
        lambda w: w.op("Slice", "x", np.array([-2, 0]), np.array([2**31, 2])), lambda x: x[:, :2]
    ),
    "expand": (
        lambda w: w.op("Expand", w.op("GlobalMaxPool", "x"), np.array([2, 3, 4, 1])),
        lambda x: np.repeat(x.max((2, 3), keepdims=True), 4, 2),
    ),
    "expand of new axes": (
        lambda w: w.op("Expand", "x", np.array([1, 2, 3, 8, 8])), lambda x: x[:, None]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_all_images_are_kept(name: str, tmp_path: Path) -> None:
    build, expected = KEPT[name]
    w = Writer(shape=(2, 3, 8, 8))
    graph = import_network(save(w.model(build(w)), tmp_path / "net.onnx")).graph
    images = np.random.default_rng(0).normal(size=(5, 3, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(run(graph, {"x": images})[0], expected(images))


@pytest.mark.parametrize(("start", "end"), [(0, 1), (1, 2), (-1, 2)])
def test_images_are_not_taken_out_of_a_batch(start: int, end: int, tmp_path: Path) -> None:
    w = Writer(shape=(2, 3, 8, 8))
    path = save(w.model(w.op("Slice", "x", np.array([start]), np.array([end]))), tmp_path / "net.onnx")
    assert "it takes images out of a batch" in refused(path)


def test_a_batch_is_not_repeated(tmp_path: Path) -> None:
    w = Writer(shape=(2, 3, 8, 8))
    path = save(w.model(w.op("Tile", "x", np.array([2, 1, 1, 1]))), tmp_path / "net.onnx")
    assert "it makes a larger batch of several" in refused(path)


@pytest.mark.parametrize("batch", [1, 2])
def test_steps_as_rows_belong_to_their_sequences(batch: int, tmp_path: Path) -> None:
    w = Writer(shape=(batch, 5, 4))
    rows = w.op("Tanh", w.op("Reshape", "x", np.array([-1, 4])))
    graph = import_network(save(w.model(w.op("Reshape", rows, np.array([batch, 5, 4]))), tmp_path / "net.onnx")).graph
    sequences = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    np.testing.assert_allclose(run(graph, {"x": sequences})[0], np.tanh(sequences), rtol=1e-6)


MIXED: dict[str, Callable[[Writer, str], str]] = {
    "all at once": lambda w, steps: w.op("Reshape", steps, np.array([1, -1])),
    "flattened": lambda w, steps: w.op("Transpose", w.op("Flatten", steps, axis=2), perm=[1, 0]),
    "by rows": lambda w, steps: w.op(
        "Reshape", w.op("Tanh", w.op("Reshape", steps, np.array([-1, 4]))), np.array([1, 5, 4])
    ),
    "two orders": lambda w, steps: w.op(
        "Reshape",
        w.op("Add", w.op("Reshape", steps, np.array([-1, 4])), w.op("Reshape", "x", np.array([-1, 4]))),
        np.array([1, 5, 4]),
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_what_would_mix_images_of_a_larger_batch_is_refused(name: str, tmp_path: Path) -> None:
    """Of one sequence, steps first is the same as batch first."""
    w = Writer(shape=(1, 5, 4))
    result = MIXED[name](w, w.op("Transpose", "x", perm=[1, 0, 2]))
    message = refused(save(w.model(result), tmp_path / "net.onnx"))
    assert "export the network with an open batch size" in message or "not the batch as its first axis" in message


@pytest.mark.parametrize("shape", [(1, 5, 4), (2, 5, 4)])
def test_steps_as_rows_with_the_steps_first(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Rows of steps first are steps again where their order is the one that they had."""
    w = Writer(shape=shape)
    rows = w.op("Reshape", w.op("Transpose", "x", perm=[1, 2, 0]), np.array([20, shape[0]]))
    back = w.op("Reshape", w.op("Tanh", rows), np.array([5, 4, shape[0]]))
    graph = import_network(
        save(w.model(w.op("Transpose", back, perm=[2, 0, 1])), tmp_path / "net.onnx"), steps_first=False
    ).graph
    sequences = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    np.testing.assert_allclose(run(graph, {"x": sequences})[0], np.tanh(sequences), rtol=1e-6)
