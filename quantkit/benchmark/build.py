"""A build: an interpreter with an engine of its own, and what the engine is."""

from __future__ import annotations

from dataclasses import dataclass

from quantkit.backends.registry import MXNET


@dataclass(frozen=True)
class Build:
    """An interpreter that can run the worker.

    ``python`` is the interpreter's path, ``version`` the engine's, ``library`` the path of the engine's library,
    ``features`` what it can do (of MXNet the build's switches that are on); ``int8`` tells whether it has INT8
    convolutions, ``engine`` is one of the ``DEPLOYED`` engines.
    """

    name: str
    python: str
    python_version: str
    numpy: str
    version: str
    library: str
    features: tuple[str, ...]
    int8: bool
    engine: str = MXNET.name

    @property
    def mkldnn(self) -> bool:
        """Whether MKL-DNN, which is called oneDNN today, is inside; a build of MXNet without is a native one."""
        return "MKLDNN" in self.features
