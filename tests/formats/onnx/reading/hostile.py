"""A sound network to be damaged, and how files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto

from quantkit.errors import ModelError
from quantkit.formats.onnx.reading.network import import_network
from tests.formats.onnx.reading.files import Writer


def network() -> ModelProto:
    w = Writer(shape=("N", 3, 8, 8))
    data = w.op("Relu", w.conv("x", 3, 4), name="relu")
    return w.model(w.op("Gemm", w.op("Flatten", data), w.normal(5, 144), w.normal(5), transB=1))


def initialiser(model: ModelProto, index: int = 1) -> TensorProto:
    """The weight of the convolution, or with 0 its bias."""
    return model.graph.initializer[index]


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        import_network(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def field(number: int, content: bytes) -> bytes:
    """A field of protobuf's with a length."""
    size, length = len(content), b""
    while size > 127:
        size, length = size >> 7, length + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + length + bytes([size]) + content
