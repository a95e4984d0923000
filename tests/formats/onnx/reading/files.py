"""Small ONNX networks as exporters write them, and what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

Extent = Union[int, str]


class Writer:
    """Adds one operator after the other to an ONNX network with the input ``x``; methods return names of tensors."""

    def __init__(self, opset: int = 17, shape: Sequence[Extent] = ("N", 3, 9, 14), seed: int = 0) -> None:
        self.opset = opset
        self.shape = shape
        self.random = np.random.default_rng(seed)
        self.kind: int = TensorProto.FLOAT
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def op(self, op: str, *inputs: Any, name: str = "", count: int = 1, **attributes: Any) -> Any:
        """An operator; inputs that are arrays or numbers become initialisers. With ``count`` several outputs' names."""
        number = len(self.nodes)
        read = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        outputs = [f"t{number}"] if count == 1 else [f"t{number}_{index}" for index in range(count)]
        self.nodes.append(helper.make_node(op, read, outputs, name or f"{op}_{number}", **attributes))
        return outputs[0] if count == 1 else outputs

    def constant(self, values: Any) -> str:
        array = np.asarray(values)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def normal(self, *shape: int) -> str:
        return self.constant(self.random.normal(size=shape).astype(np.float32))

    def conv(self, data: str, channels: int, filters: int, kernel: int = 3, groups: int = 1, **attributes: Any) -> str:
        bias = attributes.pop("bias", True)
        weight = self.random.normal(size=(filters, channels // groups, kernel, kernel)) / (kernel * channels**0.5)
        biases = [self.normal(filters)] if bias else []
        return self.op("Conv", data, weight, *biases, group=groups, **attributes)

    def model(self, *outputs: str) -> ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(self.shape))],
            [helper.make_tensor_value_info(name, self.kind, None) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        # Initialisers that are no inputs came with format 4.
        version = max(4, helper.find_min_ir_version_for(opsets))
        return helper.make_model(graph, opset_imports=opsets, ir_version=version)


def save(model: ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def by_onnxruntime(path: Path, data: np.ndarray) -> list[np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, {session.get_inputs()[0].name: data})
    return found
