"""A build: an interpreter with its own engine."""

from __future__ import annotations

from dataclasses import dataclass

from quantkit.backends.registry import MXNET


@dataclass(frozen=True)
class Build:
    """An interpreter that can run the worker.

    ``python`` is the interpreter's path, ``version`` the engine's version, ``library`` the path of its library,
    ``features`` are its features (for MXNet those that are enabled); ``int8`` is whether it has INT8
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
        """Whether it contains MKL-DNN, today called oneDNN; a build of MXNet without it is a native one."""
        return "MKLDNN" in self.features
