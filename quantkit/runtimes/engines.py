"""The engines that run ONNX files, by name."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from quantkit.runtimes import onnx_runtime, open_vino, reference
from quantkit.runtimes.session import ExecutedLayer, Inputs, Session


@dataclass(frozen=True)
class OnnxEngine:
    """An engine that runs ONNX files.

    ``package`` is what it is imported and installed as. ``open_session`` loads a file's bytes, ``executed_layers`` runs
    it once and tells which kernels computed its layers; None where the engine computes operator by operator in NumPy
    what the file says. The others rewrite networks before they run them.
    """

    title: str
    package: str
    open_session: Callable[[bytes], Session]
    executed_layers: Optional[Callable[[bytes, Inputs], tuple[ExecutedLayer, ...]]] = None

    @property
    def is_installed(self) -> bool:
        """Whether the package is there; it is not imported."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def version(self) -> str:
        """The version of the installed package."""
        return importlib.metadata.version(self.package)


ONNX_ENGINES = {
    "onnxruntime": OnnxEngine("ONNX Runtime", "onnxruntime", onnx_runtime.open_session, onnx_runtime.executed_layers),
    "openvino": OnnxEngine("OpenVINO", "openvino", open_vino.open_session, open_vino.executed_layers),
    "reference": OnnxEngine("ONNX's reference", "onnx", reference.open_session),
}
"""``reference`` is for checking; the others are for deployment too."""
