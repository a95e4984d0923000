"""OpenVINO on the CPU, computing in FP32 what the file does not say in integers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np

from quantkit.errors import EngineError, EngineMissing
from quantkit.extras import using
from quantkit.host.process import OwnProcess
from quantkit.runtimes.session import ExecutedLayer, Inputs, session_threads

_LAYERS = frozenset({"Convolution", "Deconvolution", "FullyConnected", "MatMul"})
_INTEGERS = frozenset({"i8", "u8"})
_INFO = frozenset({"layerType", "originalLayersNames", "primitiveType", "runtimePrecision"})

# What its rewriting to integers adds to an operator's name.
_ADDED = re.compile(r"(/WithoutBiases|/DequantizationMultiply)+$")


def open_session(content: bytes) -> OpenVinoSession:
    """Load an ONNX file's bytes.

    Raises:
        EngineMissing: the package openvino is not installed.
        EngineError: OpenVINO refuses the network.
        ForkError: this process is a fork of one that has used OpenVINO.
    """
    return OpenVinoSession(_compiled(content))


class OpenVinoSession:
    """A ``session.Session`` of OpenVINO."""

    def __init__(self, compiled: Any) -> None:
        self._process = OwnProcess()
        with _errors("load the network"):
            self._shapes = {each.get_any_name(): each.partial_shape for each in compiled.inputs}
            self._request = compiled.create_infer_request()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""
        return tuple(self._shapes)

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        """See ``session.Session``."""
        self._process.check("the network")
        for name, shape in self._shapes.items():
            # Convolutions of another number of channels would be computed all the same.
            if not shape.compatible(_library().PartialShape(list(inputs[name].shape))):
                raise EngineError(f"OpenVINO cannot run the network: {name!r} is {inputs[name].shape}, not {shape}")
        with _errors("run the network"):
            return list(self._request.infer(dict(inputs)).to_tuple())


def executed_layers(content: bytes, inputs: Inputs) -> tuple[ExecutedLayer, ...]:
    """Run the network once and read off OpenVINO's runtime model which kernels computed its layers.

    Raises:
        EngineMissing, EngineError: see ``open_session`` and ``session.Session``.
    """
    compiled = _compiled(content)
    # Kernels are chosen for the shapes of the first run.
    OpenVinoSession(compiled).run(inputs)
    return tuple(_executed(compiled.get_runtime_model()))


def _executed(model: Any) -> Iterator[ExecutedLayer]:
    for operator in model.get_ordered_ops():
        info = {key: str(value.astype(str)) for key, value in operator.get_rt_info().items() if key in _INFO}
        if info.get("layerType") in _LAYERS:
            names = frozenset(_ADDED.sub("", name) for name in info.get("originalLayersNames", "").split(","))
            precision = info.get("runtimePrecision", "")
            kernel = f"{info['layerType']} {info.get('primitiveType', '')}".strip()
            yield ExecutedLayer(names, kernel, "int8" if precision in _INTEGERS else "fp32")


def _compiled(content: bytes) -> Any:
    openvino = _library()
    _first_use().check("OpenVINO")
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": session_threads(),
    }
    with _errors("load the network"):
        core = openvino.Core()
        return core.compile_model(core.read_model(BytesIO(content)), "CPU", settings)


@cache
def _first_use() -> OwnProcess:
    """The process that OpenVINO was first used in: its threads are the same for all networks, and gone in a fork."""
    return OwnProcess()


def _library() -> Any:
    with using("openvino", "networks in OpenVINO", EngineMissing):
        import openvino
    return openvino


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise EngineError(f"OpenVINO {_library().__version__} cannot {what}: {lines[-1]}") from error
