"""What the worker needs of ONNX Runtime; see ``worker.py``, which loads this file in the interpreter of a build."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

# The operators that multiply by weights, as the optimized network calls them.
_INT8 = {
    "ConvInteger", "DynamicQuantizeLSTM", "MatMulInteger", "MatMulIntegerToFloat", "QGemm", "QLinearConv",
    "QLinearMatMul",
}  # fmt: skip
_FLOAT = {
    "Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "GRU", "Gemm", "LSTM", "MatMul", "NhwcFusedConv",
    "RNN",
}  # fmt: skip


def facts() -> dict[str, Any]:
    """The build's version, library and execution providers; it always has INT8 convolutions."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state

    return {
        "version": onnxruntime.__version__,
        "library": onnxruntime_pybind11_state.__file__,
        "features": onnxruntime.get_available_providers(),
        "int8": True,
    }


def convolution(data: Any, weight: Any) -> Any:
    """A convolution without bias or padding of float32 arrays (batch, in, height, width) and (out, in, 3, 3)."""
    return _session(_convolution_model(), _options(1)).run(None, {"x": data, "w": weight})[0]


def _convolution_model() -> bytes:
    """``y = Conv(x, w)`` as its protobuf schema, onnx.proto, has it; builds lack the package that would write it."""
    float32 = _field(1, _field(1, 1))
    x, w, y = (_field(1, name) + _field(2, float32) for name in (b"x", b"w", b"y"))
    node = _field(1, b"x") + _field(1, b"w") + _field(2, b"y") + _field(4, b"Conv")
    graph = _field(1, node) + _field(2, b"probe") + _field(11, x) + _field(11, w) + _field(12, y)
    ir_version, opset = _field(1, 8), _field(8, _field(2, 13))
    return ir_version + _field(7, graph) + opset


def _field(number: int, value: Any) -> bytes:
    """A protobuf field: an integer, or bytes, either below 128."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + bytes(value)


def _options(threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return options


def _session(model: Any, options: Any) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Network:
    """An ONNX file: ``files`` has it as ``onnx``. Its threads run wherever the process may."""

    def __init__(self, files: dict[str, str], threads: int) -> None:
        self._path, self._threads = files["onnx"], threads
        options = _options(threads)
        self._session = _session(self._path, options)
        self.settings = {
            "intra_op_num_threads": options.intra_op_num_threads,
            "inter_op_num_threads": options.inter_op_num_threads,
            "execution_mode": options.execution_mode.name,
            "graph_optimization_level": options.graph_optimization_level.name,
        }

    def bind(self, name: str, data: Any) -> None:
        """Take an array as the input of that name."""
        import onnxruntime

        # What shares an array's memory does not keep it.
        self._input = {name: data}
        self._binding = self._session.io_binding()
        self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(data))
        for output in self._session.get_outputs():
            self._binding.bind_output(output.name)

    def run(self) -> None:
        """Run once, to the end."""
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[Any]:
        """The outputs of the last run, in the network's order."""
        return list(self._binding.copy_outputs_to_cpu())

    def kernels(self) -> dict[str, int]:
        """How many convolutions, dense and recurrent layers ran in INT8, of how many: a profile of one more run."""
        with tempfile.TemporaryDirectory() as folder:
            options = _options(self._threads)
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(folder, "profile")
            session = _session(self._path, options)
            session.run(None, self._input)
            with open(session.end_profiling()) as file:
                events = json.load(file)
        ran = [event["args"]["op_name"] for event in events if event["name"].endswith("_kernel_time")]
        int8 = sum(name in _INT8 for name in ran)
        return {"int8": int8, "of": int8 + sum(name in _FLOAT for name in ran)}
