"""OpenVINO on the CPU; operators that the file does not have in integers run in FP32."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import Any, ClassVar, Optional

import numpy as np

from quantkit.backends.base import Backend, ExecutedLayer, Inputs, Session, Shape, arrays, session_threads
from quantkit.backends.registry import OPENVINO
from quantkit.errors import EngineError
from quantkit.host.process import OwnProcess

RECURRENT = "RNNSeq"

LAYERS = frozenset({"Convolution", "Deconvolution", "FullyConnected", "MatMul", RECURRENT})
"""The layers of the compiled network that multiply by weights."""

_RESHAPING = frozenset({"Reshape", "Transpose"})

INTEGERS = frozenset({"i8", "u8"})
"""The precisions of layers that compute in integers."""

_INFO = frozenset({"layerType", "originalLayersNames", "primitiveType", "runtimePrecision"})

# The suffixes that its conversion to integers adds to an operator's name.
_ADDED = re.compile(r"(/WithoutBiases|/DequantizationMultiply)+$")

# The line of an error that precedes a list of the operators that OpenVINO cannot convert.
_SUMMARY = "Summary:"

# Of the batches that are accepted, so many shapes are remembered.
_MOST_SHAPES = 64


class OpenVinoBackend(Backend[bytes]):
    """OpenVINO, which rewrites networks before it runs them."""

    rewrites: ClassVar[bool] = True
    has_streams: ClassVar[bool] = True

    def version(self) -> str:
        """See ``Backend``."""
        return OPENVINO.installed_version()

    def open_session(self, network: bytes, shapes: Optional[Mapping[str, Shape]] = None) -> OpenVinoSession:
        """Load an ONNX file's bytes; see ``Backend``."""
        return OpenVinoSession(_compiled(network, compiler_settings(session_threads())))

    def open_streams(self, network: bytes, number: int, threads: int) -> list[Session]:
        """See ``Backend``."""
        settings = {**compiler_settings(number * threads), "NUM_STREAMS": number}
        compiled = _compiled(network, settings)
        sessions: list[Session] = [OpenVinoSession(compiled) for _ in range(number)]
        return sessions

    def executed_layers(self, network: bytes, inputs: Inputs) -> tuple[ExecutedLayer, ...]:
        """The layers of OpenVINO's runtime model; see ``Backend``."""
        compiled = _compiled(network, compiler_settings(session_threads()))
        # Kernels are chosen for the shapes of the first run.
        OpenVinoSession(compiled).run(inputs)
        return tuple(_executed(compiled.get_runtime_model()))


class OpenVinoSession(Session):
    """A network in OpenVINO."""

    def __init__(self, compiled: Any) -> None:
        self._process = OwnProcess()
        with _errors("load the network"):
            self._shapes = {each.get_any_name(): each.partial_shape for each in compiled.inputs}
            self._request = compiled.create_infer_request()
        # What was accepted: asking OpenVINO each time takes a large share of the time of a small network.
        self._accepted: set[tuple[str, tuple[int, ...]]] = set()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""
        return tuple(self._shapes)

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        """See ``Session``."""
        self._process.check("the network")
        for name, shape in self._shapes.items():
            given = inputs[name].shape
            if (name, given) in self._accepted:
                continue
            # OpenVINO would run convolutions with the wrong number of channels.
            if not shape.compatible(OPENVINO.library().PartialShape(list(given))):
                raise EngineError(f"OpenVINO cannot run the network: {name!r} is {given}, not {shape}")
            if len(self._accepted) < _MOST_SHAPES:
                self._accepted.add((name, given))
        with _errors("run the network"):
            return arrays(self._request.infer(dict(inputs), share_inputs=True).to_tuple())


def _executed(model: Any) -> Iterator[ExecutedLayer]:
    for operator in model.get_ordered_ops():
        info = _info(operator)
        if info.get("layerType") in LAYERS:
            # Recurrent layers lose their names; what reshapes their results keeps its own.
            named = [operator, *(_reshaping(operator) if info["layerType"] == RECURRENT else ())]
            names = frozenset(_ADDED.sub("", name) for each in named for name in _original_names(each))
            precision = info.get("runtimePrecision", "")
            kernel = f"{info['layerType']} {info.get('primitiveType', '')}".strip()
            yield ExecutedLayer(names, kernel, "int8" if precision in INTEGERS else "fp32")


def _info(operator: Any) -> dict[str, str]:
    return {key: str(value.astype(str)) for key, value in operator.get_rt_info().items() if key in _INFO}


def _original_names(operator: Any) -> list[str]:
    return _info(operator).get("originalLayersNames", "").split(",")


def _reshaping(operator: Any) -> Iterator[Any]:
    """The operators that only reshape the first output of an operator, one after the other."""
    for read in operator.output(0).get_target_inputs():
        reader = read.get_node()
        if _info(reader).get("layerType") in _RESHAPING:
            yield reader
            yield from _reshaping(reader)


def compiler_settings(threads: int) -> dict[str, Any]:
    """OpenVINO's properties for one caller at a time; layers that are not INT8 run in FP32."""
    return {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}


def _compiled(content: bytes, settings: Mapping[str, Any]) -> Any:
    openvino = OPENVINO.library()
    _first_use().check("OpenVINO")
    with _errors("load the network"):
        core = openvino.Core()
        return core.compile_model(core.read_model(BytesIO(content)), "CPU", dict(settings))


@cache
def _first_use() -> OwnProcess:
    """The process that first used OpenVINO: all networks share its threads, which are gone in a fork."""
    return OwnProcess()


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        # Where operators cannot be converted, the summary names them first, and advice comes last.
        summary = lines[lines.index(_SUMMARY) :] if _SUMMARY in lines else []
        said = next((line.removeprefix("-- ") for line in summary if line.startswith("-- ")), lines[-1])
        raise EngineError(f"OpenVINO {OPENVINO.library().__version__} cannot {what}: {said}") from error
