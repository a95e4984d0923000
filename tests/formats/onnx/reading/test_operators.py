"""Every ONNX operator that is read, alone, in MXNet held against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from onnx import defs, version_converter

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.formats.onnx.reading.conversion import CONVERTERS
from quantkit.formats.onnx.reading.network import import_network
from quantkit.formats.onnx.reading.read import OPSETS as READ_OPSETS
from quantkit.formats.onnx.reading.recurrent import RECURRENT
from quantkit.formats.onnx.writing.model import OPSETS, onnx_model
from tests.formats.onnx.reading.cases import (
    activations,
    elementwise,
    layers,
    layout,
    normalization,
    pooling,
    reductions,
    resizing,
)
from tests.formats.onnx.reading.cases.build import Build
from tests.formats.onnx.reading.files import Writer, by_onnxruntime, save
from tests.requirements import requires

requires("onnxruntime")
pytestmark = pytest.mark.usefixtures("engine")

_READERS = (layers, normalization, pooling, reductions, elementwise, activations, layout, resizing)

# In opset 17.
CASES = {name: build for reader in _READERS for name, build in reader.CASES.items()}

# In the forms that older and newer opsets have.
OTHER_OPSETS = {name: case for reader in _READERS for name, case in reader.OTHER_OPSETS.items()}

_DEFORMABLE = [name for name in OTHER_OPSETS if name.startswith("deformable")]


def check(build: Build, opset: int, folder: Path) -> None:
    """Import the network, and hold its results, and the shapes that the import reckons with, against the engines'.

    Written as ONNX again it computes the same, too.
    """
    writer = Writer(opset, ("N", 6, 9, 14))
    result = build(writer)
    path = save(writer.model(result), folder / "one.onnx")
    found = import_network(path)
    data = np.random.default_rng(1).normal(size=(2, 6, 9, 14)).astype(np.float32)
    (expected,), (computed,) = by_onnxruntime(path, data), run(found.graph, {"x": data})
    assert computed.shape == expected.shape
    assert [str(tensor) for tensor in found.graph.outputs] == [result]
    assert float(np.abs(computed - expected).max()) <= 1e-5 * float(np.abs(expected).max())
    assert infer_shapes(found.graph, {"x": (3, 6, 9, 14)})[found.graph.outputs[0]] == (3, *expected.shape[1:])
    shapes = infer_shapes(found.graph, {"x": (1, 6, 9, 14)})
    (again,) = by_onnxruntime(save(onnx_model(found.graph, shapes, OPSETS[-1]), folder / "again.onnx"), data)
    assert float(np.abs(again - expected).max()) <= 1e-5 * float(np.abs(expected).max())


@pytest.mark.parametrize("name", CASES)
def test_computes_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    if name in ("linear", "linear, smaller"):
        requires("half-pixels")
    check(CASES[name], 17, tmp_path)


@pytest.mark.parametrize("name", OTHER_OPSETS)
def test_forms_of_other_opsets(name: str, tmp_path: Path) -> None:
    if name in _DEFORMABLE:
        requires("onednn")
    opset, build = OTHER_OPSETS[name]
    check(build, opset, tmp_path)


@pytest.mark.parametrize("name", [*(name for name in CASES if name.startswith("products")), *_DEFORMABLE])
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    if name in _DEFORMABLE:
        requires("onednn")
    opset, build = OTHER_OPSETS.get(name) or (17, CASES[name])
    writer = Writer(opset, ("N", 6, 9, 14))
    path = save(writer.model(build(writer)), tmp_path / "one.onnx")
    # More images than MXNet takes at once by itself.
    data = np.random.default_rng(1).normal(size=(65, 6, 9, 14)).astype(np.float32)
    (expected,) = by_onnxruntime(path, data)
    for _ in range(2):
        graph = import_network(path).graph
        (computed,) = run(graph, {"x": data})
        assert float(np.abs(computed - expected).max()) <= 1e-5 * float(np.abs(expected).max())
        path = save(onnx_model(graph, infer_shapes(graph, {"x": (1, 6, 9, 14)})), tmp_path / "again.onnx")


def test_no_case_hides_another() -> None:
    assert len(CASES) == sum(len(reader.CASES) for reader in _READERS)
    assert len(OTHER_OPSETS) == sum(len(reader.OTHER_OPSETS) for reader in _READERS)


def test_every_operator_has_a_case() -> None:
    def operators(builds: Iterable[tuple[int, Build]]) -> Iterable[str]:
        for opset, build in builds:
            writer = Writer(opset, ("N", 6, 9, 14))
            build(writer)
            yield from (node.op_type for node in writer.nodes)

    builds = [*((17, build) for build in CASES.values()), *OTHER_OPSETS.values()]
    # Recurrent layers read no images: see ``test_recurrent``.
    assert set(CONVERTERS) - set(operators(builds)) == set(RECURRENT)


@pytest.mark.parametrize("name", CASES)
def test_newest_opset(name: str, tmp_path: Path) -> None:
    """What ONNX's converter makes of the network for the newest opset, held against ONNX Runtime on the network."""
    if name in ("linear", "linear, smaller"):
        requires("half-pixels")
    writer = Writer(17, (2, 6, 9, 14))
    model = writer.model(CASES[name](writer))
    newest = version_converter.convert_version(model, READ_OPSETS[-1])
    data = np.random.default_rng(1).normal(size=(2, 6, 9, 14)).astype(np.float32)
    (expected,) = by_onnxruntime(save(model, tmp_path / "one.onnx"), data)
    (computed,) = run(import_network(save(newest, tmp_path / "newest.onnx")).graph, {"x": data})
    assert float(np.abs(computed - expected).max()) <= 1e-5 * float(np.abs(expected).max())


def test_the_newest_opset_is_the_newest_that_onnx_knows() -> None:
    assert READ_OPSETS[-1] == defs.onnx_opset_version()
