"""Sound ONNX files: what those that damage files begin with."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def onnx_model() -> Any:
    """A small network with a shape that is computed, so that constants are folded, and with quantkit's metadata."""
    from onnx import helper

    from tests.formats.onnx.reading.files import Writer

    w = Writer(13, ("N", 3, 4, 4))
    data = w.op("Relu", w.conv("x", 3, 2))
    batch = w.op("Unsqueeze", w.op("Gather", w.op("Shape", data), np.array(0), axis=0), np.array([0]))
    shape = w.op("Concat", batch, np.array([-1]), axis=0)
    model = w.model(w.op("Gemm", w.op("Reshape", data, shape), w.normal(3, 8), w.normal(3), transB=1))
    preprocess = {"resize": 5, "crop": 4, "mean": [0.5] * 3, "std": [0.25] * 3, "scale": 255.0, "rotate180": False}
    told = {"preprocess": json.dumps(preprocess), "labels": json.dumps(["cat", "dog", "cow"])}
    helper.set_model_props(model, told)
    return model


def onnx_inside() -> bytes:
    content: bytes = onnx_model().SerializeToString()
    return content


def onnx_recurrent() -> bytes:
    """A small network of tokens, with a layer in both directions and its states made for the batch."""
    from onnx import TensorProto

    from tests.formats.onnx.reading.files import Writer

    w = Writer(14, ("N", 3))
    data = w.op("Gather", w.normal(4, 2), w.op("Transpose", "x", perm=[1, 0]))
    batch = w.op("Slice", w.op("Shape", data), np.array([1]), np.array([2]))
    zeros = w.op("ConstantOfShape", w.op("Concat", np.array([2]), batch, np.array([2]), axis=0))
    weights = w.normal(2, 8, 2), w.normal(2, 8, 2), w.normal(2, 16)
    sides = {"hidden_size": 2, "direction": "bidirectional"}
    steps, _, _ = w.op("LSTM", data, *weights, "", zeros, zeros, count=3, **sides)
    model = w.model(w.op("Reshape", w.op("Transpose", steps, perm=[2, 0, 1, 3]), np.array([0, 0, -1])))
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    content: bytes = model.SerializeToString()
    return content


def onnx_attending() -> bytes:
    """A small network with products of computed matrices, and a deformable convolution with a mask of one number."""
    from tests.formats.onnx.reading.files import Writer

    w = Writer(19, ("N", 2, 4, 4))
    rows = w.op("Reshape", "x", np.array([0, 2, 2, 8]))
    likeness = w.op("Softmax", w.op("MatMul", rows, w.op("Transpose", rows, perm=[0, 1, 3, 2])))
    attended = w.op("Reshape", w.op("MatMul", likeness, rows), np.array([0, 2, 4, 4]))
    places = w.conv(attended, 2, 8, kernel=1)
    mask = w.op("Expand", 0.5, w.op("Shape", w.op("Slice", places, np.array([0]), np.array([4]), np.array([1]))))
    result = w.op("DeformConv", attended, w.normal(3, 2, 2, 2), places, w.normal(3), mask, pads=[0, 0, 1, 1])
    content: bytes = w.model(result).SerializeToString()
    return content


def onnx_outside() -> tuple[bytes, bytes]:
    """The same network with its weights in another file, and that file."""
    from onnx import TensorProto

    model, weights = onnx_model(), b""
    for tensor in model.graph.initializer:
        tensor.data_location = TensorProto.EXTERNAL
        places = {"location": "w.bin", "offset": len(weights), "length": len(tensor.raw_data)}
        for key, value in places.items():
            tensor.external_data.add(key=key, value=str(value))
        weights += tensor.raw_data
        tensor.ClearField("raw_data")
    return model.SerializeToString(), weights


def written_onnx() -> Any:
    """A small network, as ``lowering.onnx_model`` writes them."""
    from onnx import helper, numpy_helper

    shapes = [helper.make_tensor_value_info(name, 1, ["N", 3, 8, 8]) for name in ("x", "y")]
    conv = helper.make_node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[1, 1], pads=[0, 0, 0, 0], group=1)
    clip = helper.make_node("LeakyRelu", ["c"], ["y"], "leaky", alpha=0.25)
    weight = numpy_helper.from_array(np.ones((3, 3, 1, 1), np.float32), "w")
    made = helper.make_model(
        helper.make_graph([conv, clip], "network", shapes[:1], shapes[1:], [weight]),
        producer_name="quantkit", opset_imports=[helper.make_opsetid("", 17)],
    )  # fmt: skip
    helper.set_model_props(made, {"labels": '["é"]'})
    return made


UNITS, FEATURES = 2, 3


def lstm_onnx(inputs: str = "x w r b . . . . s z s z", **changed: Any) -> bytes:
    """A network of one integer LSTM layer; a dot stands for an input that is left out."""
    from onnx import helper, numpy_helper

    rows = 4 * UNITS
    constants: dict[str, Any] = {
        "w": np.zeros((1, FEATURES, rows), np.int8),
        "r": np.zeros((1, UNITS, rows), np.int8),
        "b": np.zeros((1, 2 * rows), np.float32),
        "s": np.ones((1, rows), np.float32),
        "z": np.zeros((1, rows), np.int8),
    }
    attributes = {"hidden_size": UNITS, **changed.pop("attributes", {})}
    names = [name.replace(".", "") for name in inputs.split()]
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y"], "lstm", domain="com.microsoft", **attributes)
    tensors = [numpy_helper.from_array(value, name) for name, value in {**constants, **changed}.items()]
    ends = [helper.make_tensor_value_info(name, 1, [None] * rank) for name, rank in (("x", 3), ("y", 4))]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "network", ends[:1], ends[1:], tensors)
    return bytes(helper.make_model(graph, producer_name="quantkit", opset_imports=opsets).SerializeToString())
