"""Weights in other files: only beside the network, and no byte is read twice."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from quantkit.formats.onnx.reading.network import import_network
from tests.formats.onnx.reading.files import Writer, save
from tests.formats.onnx.reading.hostile import initialiser, network, refused

pytestmark = pytest.mark.usefixtures("little_memory")


def outside(model: ModelProto, **entries: str) -> None:
    """Have the first weight lie in another file."""
    tensor = initialiser(model)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def two_outside(model: ModelProto, first: str, second: str) -> None:
    """The weights and the bias of the convolution at the beginning of two files."""
    outside(model, location=first)
    bias = initialiser(model, 0)
    bias.ClearField("raw_data")
    bias.data_location = TensorProto.EXTERNAL
    bias.external_data.add(key="location", value=second)


def test_weights_beside_the_file(tmp_path: Path) -> None:
    model = network()
    inside = import_network(save(model, tmp_path / "inside.onnx"))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(b"1234" + initialiser(model).raw_data)
    outside(model, location="weights/w.bin", offset="4", length="432")
    found = import_network(save(model, tmp_path / "net.onnx"))
    np.testing.assert_array_equal(found.graph.params["c1"], inside.graph.params["c1"])
    first = found.sha256
    (tmp_path / "weights" / "w.bin").write_bytes(b"1234" + bytes(432))
    assert import_network(tmp_path / "net.onnx").sha256 != first


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"location": "/etc/passwd"}, "only files in the network's own folder"),
        ({"location": "../w.bin"}, "only files in the network's own folder"),
        ({"location": "a/../../w.bin"}, "only files in the network's own folder"),
        ({"location": "folder/../w.bin"}, "only files in the network's own folder"),
        ({"location": "link.bin"}, "a link out of the network's folder"),
        ({"location": "folder/w.bin"}, "a link out of the network's folder"),
        ({"location": "gone.bin"}, "missing; put it beside"),
        ({"location": "."}, "missing; put it beside"),
        ({}, "only files in the network's own folder"),
        ({"location": "w.bin", "offset": "8"}, "432 bytes from byte 8 on are not in"),
        ({"location": "w.bin", "offset": "-8"}, "from byte -8 on are not in"),
        ({"location": "w.bin", "length": "431"}, "needs 432 bytes and names 431"),
        ({"location": "w.bin", "offset": "many"}, "the file is damaged"),
    ],
)
def test_weights_elsewhere(entries: dict[str, str], told: str, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    for path in (tmp_path / "w.bin", folder / "w.bin"):
        path.write_bytes(bytes(432))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "folder").symlink_to(tmp_path)
    model = network()
    outside(model, **entries)
    assert told in refused(save(model, folder / "net.onnx"))


@pytest.mark.parametrize("other", ["w.bin", "./w.bin", ".//w.bin", "soft.bin", "hard.bin"])
def test_one_file_is_not_read_again_and_again_by_any_name(other: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(440))
    (tmp_path / "soft.bin").symlink_to("w.bin")
    (tmp_path / "hard.bin").hardlink_to(tmp_path / "w.bin")
    model = network()
    two_outside(model, "w.bin", other)
    assert "tensors overlap" in refused(save(model, tmp_path / "n.onnx"))


def test_tensors_at_the_same_place_share_their_values(tmp_path: Path) -> None:
    """Also where their type has to be converted: a small file cannot become large by naming its bytes often."""
    (tmp_path / "w.bin").write_bytes(np.ones(2**20, np.float16).tobytes())
    w = Writer(shape=("N", 3, 8, 8))
    data = w.op("Relu", w.conv("x", 3, 4))
    for _ in range(400):
        data = w.op("Add", data, w.op("Squeeze", np.zeros(1, np.float32)))
    model = w.model(data)
    for tensor in model.graph.initializer:
        if tensor.dims == [1]:
            tensor.ClearField("raw_data")
            tensor.dims[:], tensor.data_type = [2**20], TensorProto.FLOAT16
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="w.bin")
    tracemalloc.start()
    refused(save(model, tmp_path / "net.onnx"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 2**20


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "w.bin").symlink_to("w.bin")
    model = network()
    outside(model, location="w.bin")
    assert "missing" in refused(save(model, tmp_path / "net.onnx"))
