"""ONNX Runtime on the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from quantkit.errors import EngineError, EngineMissing
from quantkit.extras import using
from quantkit.folders import scratch_folder
from quantkit.host.process import OwnProcess
from quantkit.runtimes.session import ExecutedLayer, Inputs, arrays, session_threads
from quantkit.text_files import MEBIBYTE, read_json

_INT8 = frozenset({"QLinearConv", "QGemm", "QLinearMatMul", "ConvInteger", "MatMulInteger", "MatMulIntegerToFloat"})
_FP32 = frozenset({"Conv", "FusedConv", "NhwcFusedConv", "ConvTranspose", "Gemm", "FusedGemm", "MatMul", "FusedMatMul"})
_ONLY_ERRORS = 3
_LARGEST_PROFILE = 1024 * MEBIBYTE

# What its change of layout adds to an operator's name.
_ADDED = re.compile(r"_token_\d+$")


def open_session(content: bytes) -> OnnxRuntimeSession:
    """Load an ONNX file's bytes.

    Raises:
        EngineMissing: the package onnxruntime is not installed.
        EngineError: ONNX Runtime refuses the network.
    """
    return OnnxRuntimeSession(_load(content, _options()))


class OnnxRuntimeSession:
    """A ``session.Session`` of ONNX Runtime."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._process = OwnProcess()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""
        return tuple(each.name for each in self._session.get_inputs())

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        """See ``session.Session``."""
        self._process.check("the network")
        with _errors("run the network"):
            outputs = self._session.run(None, dict(inputs))
        return arrays(outputs)


def executed_layers(content: bytes, inputs: Inputs) -> tuple[ExecutedLayer, ...]:
    """Run the network once and read off ONNX Runtime's own profile which operators computed its layers.

    Raises:
        EngineMissing, EngineError: see ``open_session`` and ``session.Session``.
    """
    with scratch_folder() as folder:
        options = _options()
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "profile")
        session = _load(content, options)
        OnnxRuntimeSession(session).run(inputs)
        with _errors("tell which operators it ran"):
            events = read_json(Path(session.end_profiling()), _LARGEST_PROFILE)
            return tuple(_executed(events))


def _executed(events: list[dict[str, Any]]) -> Iterator[ExecutedLayer]:
    end = "_kernel_time"
    for event in events:
        name, operator = event.get("name", ""), event.get("args", {}).get("op_name")
        if event.get("cat") == "Node" and name.endswith(end) and operator in _INT8 | _FP32:
            own = name[: -len(end)]
            yield ExecutedLayer(
                frozenset({own, _ADDED.sub("", own)}), operator, "int8" if operator in _INT8 else "fp32"
            )


def _options() -> Any:
    onnxruntime = _library()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = session_threads()
    options.log_severity_level = _ONLY_ERRORS
    return options


def _load(content: bytes, options: Any) -> Any:
    with _errors("load the network"):
        return _library().InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _library() -> Any:
    with using("onnxruntime", "networks in ONNX Runtime", EngineMissing):
        import onnxruntime
    return onnxruntime


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its errors have no class in common
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise EngineError(f"ONNX Runtime {_library().__version__} cannot {what}: {lines[0]}") from error
