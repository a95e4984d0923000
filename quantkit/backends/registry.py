"""The engines by name. No engine is imported before it is used."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quantkit.errors import EngineMissing, UserError

if TYPE_CHECKING:
    from quantkit.backends.base import Backend
    from quantkit.ir.graph import Graph

NetworkT = TypeVar("NetworkT")


@dataclass(frozen=True)
class Engine(Generic[NetworkT]):
    """The description of an engine, available without importing it; ``NetworkT`` is the form of its networks.

    Attributes:
        name: its name in options.
        title: its name in prose.
        package: the name to import.
        extras: quantkit's extras that install it, the preferred one first.
        home: the module and the class of its ``Backend``.
        deployed: whether it is for deployment and benchmarks, not only for checks.
    """

    name: str
    title: str
    package: str
    extras: tuple[str, ...]
    home: tuple[str, str]
    deployed: bool = True

    def backend(self) -> Backend[NetworkT]:
        """A backend of the engine."""
        module, name = self.home
        backend: Backend[NetworkT] = getattr(import_module(module), name)()
        return backend

    def library(self) -> Any:
        """Its package, imported.

        Raises:
            EngineMissing: it is not installed, or cannot be imported.
        """
        try:
            return import_module(self.package)
        except ImportError as error:
            raise EngineMissing(self._missing(str(error))) from error

    def installed_version(self) -> str:
        """The version of its package, which is imported only if its wheel has another name.

        Raises:
            EngineMissing: it is not installed.
        """
        if importlib.util.find_spec(self.package) is None:
            raise EngineMissing(self._missing(f"there is no package {self.package}"))
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:  # such as onnxruntime-gpu's
            return str(self.library().__version__)

    def _missing(self, reason: str) -> str:
        return f"{self.title} cannot be used here ({reason}); install it: pip install 'quantkit[{self.extras[0]}]'"


MXNET: Engine[Graph] = Engine(
    "mxnet", "MXNet", "mxnet", ("onednn", "mkl"), ("quantkit.backends.mxnet.backend", "MxnetBackend")
)  # fmt: skip
ONNXRUNTIME: Engine[bytes] = Engine(
    "onnxruntime", "ONNX Runtime", "onnxruntime", ("onnxruntime",),
    ("quantkit.backends.onnxruntime", "OnnxRuntimeBackend"),
)  # fmt: skip
OPENVINO: Engine[bytes] = Engine(
    "openvino", "OpenVINO", "openvino", ("openvino",), ("quantkit.backends.openvino", "OpenVinoBackend")
)  # fmt: skip
REFERENCE: Engine[bytes] = Engine(
    "reference", "ONNX's reference evaluator", "onnx", ("onnx",),
    ("quantkit.backends.reference", "ReferenceBackend"), deployed=False,
)  # fmt: skip

ONNX_ENGINES: Mapping[str, Engine[bytes]] = {engine.name: engine for engine in (ONNXRUNTIME, OPENVINO, REFERENCE)}
"""The engines that read ONNX files."""

ENGINES: Mapping[str, Engine[Any]] = {MXNET.name: MXNET, **ONNX_ENGINES}
"""All engines, the default first."""

DEPLOYED: Mapping[str, Engine[Any]] = {name: engine for name, engine in ENGINES.items() if engine.deployed}
"""The engines of deployment and benchmarks."""

DEPLOYED_ONNX: Mapping[str, Engine[bytes]] = {name: ONNX_ENGINES[name] for name in ONNX_ENGINES if name in DEPLOYED}
"""The engines of deployment and benchmarks that read ONNX files."""


def installed_versions(engines: Iterable[Engine[Any]]) -> dict[str, str]:
    """The versions of the installed engines, by name."""
    versions = {}
    for engine in engines:
        with suppress(EngineMissing):
            versions[engine.name] = engine.installed_version()
    return versions


def unknown_engine(name: str, choices: Iterable[str]) -> UserError:
    """The error for a name that is not one of the choices."""
    *most, last = choices
    return UserError(f"there is no engine {name!r}; choose one of {', '.join(most)} or {last}")
