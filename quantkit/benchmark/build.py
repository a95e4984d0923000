"""A build: an interpreter with an engine of its own, and what the engine is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MXNET = "mxnet"

# The engines that the worker knows, by the names of their modules, and what they call themselves.
ENGINES: Mapping[str, str] = {MXNET: "MXNet", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


@dataclass(frozen=True)
class Build:
    """An interpreter that can run the worker.

    ``python`` is the interpreter's path, ``version`` the engine's, ``library`` the path of the engine's library,
    ``features`` what it can do (of MXNet the build's switches that are on); ``int8`` tells whether it has INT8
    convolutions, ``engine`` is one of ``ENGINES``.
    """

    name: str
    python: str
    python_version: str
    numpy: str
    version: str
    library: str
    features: tuple[str, ...]
    int8: bool
    engine: str = MXNET

    @property
    def mkldnn(self) -> bool:
        """Whether MKL-DNN, which is called oneDNN today, is inside; a build of MXNet without is a native one."""
        return "MKLDNN" in self.features
