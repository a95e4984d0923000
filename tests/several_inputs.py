"""A network with three inputs, an image, measurements and words, and samples for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, save

from tests.formats.onnx.reading.files import Writer

SHAPES = {"picture": (3, 16, 16), "numbers": (6,), "words": (7,)}
VOCABULARY = 23
CLASSES = 10

Arrays = dict[str, np.ndarray]


def write_network(path: Path, batch: int | str = "N") -> None:
    """The ONNX file; ``words`` are int64."""
    w = Writer()
    pixels = w.op("Relu", w.conv("picture", 3, 12, strides=[2, 2], pads=[1] * 4))
    seen = w.op("Flatten", w.op("GlobalAveragePool", w.op("Relu", w.conv(pixels, 12, 16))))
    measured = w.op("Relu", w.op("Gemm", "numbers", w.normal(20, 6), w.normal(20), transB=1))
    read = w.op("ReduceMean", w.op("Gather", w.normal(VOCABULARY, 9), "words"), axes=[1], keepdims=0)
    joined = w.op("Concat", seen, measured, read, axis=1)
    hidden = w.op("Relu", w.op("Gemm", joined, w.normal(32, 45), w.normal(32), transB=1))
    model = w.model(w.op("Gemm", hidden, w.normal(CLASSES, 32), w.normal(CLASSES), transB=1))
    del model.graph.input[:]
    kinds = {"words": TensorProto.INT64}
    for name, shape in SHAPES.items():
        kind = kinds.get(name, TensorProto.FLOAT)
        model.graph.input.append(helper.make_tensor_value_info(name, kind, [batch, *shape]))
    save(model, path)


def samples(count: int, seed: int = 0) -> Arrays:
    """Arrays by the inputs' names; the values of each have a range of their own."""
    random = np.random.default_rng(seed)
    return {
        "picture": random.normal(size=(count, *SHAPES["picture"])).astype(np.float32),
        "numbers": (30 * random.normal(size=(count, *SHAPES["numbers"]))).astype(np.float32),
        "words": random.integers(0, VOCABULARY, (count, *SHAPES["words"])),
    }
