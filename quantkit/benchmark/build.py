"""A build: an interpreter with an engine of its own, and what the engine is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Build:
    """An interpreter that can run the worker.

    ``python`` is the interpreter's path, ``mxnet`` the engine's version, ``library`` the path of libmxnet.so,
    ``features`` the build's switches that are on; ``int8`` tells whether it has INT8 convolutions.
    """

    name: str
    python: str
    python_version: str
    numpy: str
    mxnet: str
    library: str
    features: tuple[str, ...]
    int8: bool

    @property
    def mkldnn(self) -> bool:
        """Whether MKL-DNN, which is called oneDNN today, is inside; a build without is a native one."""
        return "MKLDNN" in self.features
