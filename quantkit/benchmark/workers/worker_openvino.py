"""What the worker needs of OpenVINO; see ``worker.py``, which loads this file in the interpreter of a build."""

from __future__ import annotations

from typing import Any

# The layers that multiply by weights, as the compiled network calls them.
_LAYERS = {"Convolution", "Deconvolution", "FullyConnected", "MatMul", "RNNSeq"}
_INT8 = {"i8", "u8"}


def facts() -> dict[str, Any]:
    """The build's version, library and the types that it computes in on this processor."""
    import openvino
    from openvino import _pyopenvino

    features = sorted(openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"))
    return {
        "version": openvino.__version__.partition("-")[0],
        "library": _pyopenvino.__file__,
        "features": features,
        "int8": "INT8" in features,
    }


def convolution(data: Any, weight: Any) -> Any:
    """A convolution without bias or padding of float32 arrays (batch, in, height, width) and (out, in, 3, 3)."""
    import openvino
    from openvino import opset8

    x = opset8.parameter(data.shape, data.dtype)
    y = opset8.convolution(x, opset8.constant(weight), [1, 1], [0, 0], [0, 0], [1, 1])
    compiled = openvino.Core().compile_model(openvino.Model([y], [x]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled([data])[0]


def _settings(threads: int) -> dict[str, Any]:
    return {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
        # Otherwise it takes one hardware thread of each core, whatever the number of threads.
        "ENABLE_HYPER_THREADING": True,
        "INFERENCE_PRECISION_HINT": "f32",
    }


def _read_onnx(core: Any, file: str) -> Any:
    import openvino

    # Unlike Core.read_model, it leaves no batch normalization for the compiler to find among quantized tensors.
    model = openvino.convert_model(file)
    # But of LSTM layers it folds the rounded states of a fixed batch, after which these layers run in FP32.
    has_lstm = any(operator.get_type_name() == "LSTMSequence" for operator in model.get_ops())
    return core.read_model(file) if has_lstm else model


class Network:
    """A network: ``files`` has it as ``onnx``, or as ``xml`` and ``bin`` in OpenVINO's own format.

    Its threads run wherever the process may.
    """

    def __init__(self, files: dict[str, str], threads: int) -> None:
        import openvino

        self._core, self._threads = openvino.Core(), threads
        self._model = _read_onnx(self._core, files["onnx"]) if "onnx" in files else self._core.read_model(files["xml"])
        self.settings = _settings(threads)

    def bind(self, name: str, data: Any) -> None:
        """Take an array as the input of that name."""
        import openvino

        self._model.reshape({name: data.shape})
        self._compiled = self._core.compile_model(self._model, "CPU", self.settings)
        used = self._compiled.get_property("INFERENCE_NUM_THREADS")
        if used != self._threads:
            raise RuntimeError(f"OpenVINO would use {used} threads, not {self._threads}")
        self._request = self._compiled.create_infer_request()
        # A tensor that shares an array's memory does not keep it.
        self._data = data
        self._request.set_tensor(name, openvino.Tensor(data, shared_memory=True))

    def run(self) -> None:
        """Run once, to the end."""
        self._request.infer(share_outputs=True)

    def outputs(self) -> list[Any]:
        """The outputs of the last run, in the network's order."""
        return [tensor.data for tensor in self._request.output_tensors]

    def kernels(self) -> dict[str, int]:
        """How many convolutions, dense and recurrent layers run in INT8, of how many: of the compiled network."""
        infos = [node.get_rt_info() for node in self._compiled.get_runtime_model().get_ops()]
        types = [info["runtimePrecision"] for info in infos if info["layerType"] in _LAYERS]
        return {"int8": sum(each in _INT8 for each in types), "of": len(types)}
