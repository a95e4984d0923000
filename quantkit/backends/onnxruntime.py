"""ONNX Runtime on the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Optional

import numpy as np

from quantkit.backends.base import Backend, ExecutedLayer, Inputs, Session, Shape, arrays, session_threads
from quantkit.backends.registry import ONNXRUNTIME
from quantkit.errors import EngineError
from quantkit.files.folders import scratch_folder
from quantkit.files.text import MEBIBYTE, read_json
from quantkit.host.process import OwnProcess

INT8 = frozenset({
    "ConvInteger", "DynamicQuantizeLSTM", "MatMulInteger", "MatMulIntegerToFloat", "QGemm", "QLinearConv",
    "QLinearMatMul",
})  # fmt: skip
"""The operators of the optimized network that multiply by weights in integers."""

FP32 = frozenset({
    "Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "GRU", "Gemm", "LSTM", "MatMul", "NhwcFusedConv",
    "RNN",
})  # fmt: skip
"""Its operators that multiply by weights in FP32."""

_ONLY_ERRORS = 3
_TOKENS = "tensor(int64)"
_LARGEST_PROFILE = 1024 * MEBIBYTE

# The suffix that its layout transformation adds to an operator's name.
_ADDED = re.compile(r"_token_\d+$")


class OnnxRuntimeBackend(Backend[bytes]):
    """ONNX Runtime, which rewrites networks before it runs them."""

    rewrites: ClassVar[bool] = True
    has_streams: ClassVar[bool] = True

    def version(self) -> str:
        """See ``Backend``."""
        return ONNXRUNTIME.installed_version()

    def open_session(self, network: bytes, shapes: Optional[Mapping[str, Shape]] = None) -> OnnxRuntimeSession:
        """Load an ONNX file's bytes; see ``Backend``."""
        return OnnxRuntimeSession(_load(network, session_options(session_threads())))

    def open_streams(self, network: bytes, number: int, threads: int) -> list[Session]:
        """See ``Backend``; weights are shared by streams of one thread, which runs in its caller's."""
        if threads == 1:
            shared = _load(network, session_options(1))
            return [OnnxRuntimeSession(shared) for _ in range(number)]
        return [OnnxRuntimeSession(_load(network, session_options(threads))) for _ in range(number)]

    def executed_layers(self, network: bytes, inputs: Inputs) -> tuple[ExecutedLayer, ...]:
        """The layers in ONNX Runtime's profile; see ``Backend``."""
        with scratch_folder() as folder:
            options = session_options(session_threads())
            options.enable_profiling = True
            options.profile_file_prefix = str(folder / "profile")
            session = _load(network, options)
            OnnxRuntimeSession(session).run(inputs)
            with _errors("tell which operators it ran"):
                events = read_json(Path(session.end_profiling()), _LARGEST_PROFILE)
                return tuple(_executed(events))


class OnnxRuntimeSession(Session):
    """A network in ONNX Runtime."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._tokens = frozenset(each.name for each in session.get_inputs() if each.type == _TOKENS)
        self._process = OwnProcess()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""
        return tuple(each.name for each in self._session.get_inputs())

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        """See ``Session``."""
        self._process.check("the network")
        with _errors("run the network"):
            given = {name: value.astype(np.int64) if name in self._tokens else value for name, value in inputs.items()}
            outputs = self._session.run(None, given)
        return arrays(outputs)


def _executed(events: list[dict[str, Any]]) -> Iterator[ExecutedLayer]:
    end = "_kernel_time"
    for event in events:
        name, operator = event.get("name", ""), event.get("args", {}).get("op_name")
        if event.get("cat") == "Node" and name.endswith(end) and operator in INT8 | FP32:
            own = name[: -len(end)]
            yield ExecutedLayer(frozenset({own, _ADDED.sub("", own)}), operator, "int8" if operator in INT8 else "fp32")


def session_options(threads: int) -> Any:
    """ONNX Runtime's ``SessionOptions`` for one caller at a time.

    Raises:
        EngineMissing: the package onnxruntime is not installed.
    """
    options = ONNXRUNTIME.library().SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ONLY_ERRORS
    return options


def _load(content: bytes, options: Any) -> Any:
    with _errors("load the network"):
        return ONNXRUNTIME.library().InferenceSession(content, options, providers=["CPUExecutionProvider"])


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its errors have no common class
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise EngineError(f"ONNX Runtime {ONNXRUNTIME.library().__version__} cannot {what}: {lines[0]}") from error
