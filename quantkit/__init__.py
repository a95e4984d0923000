"""quantkit: INT8 quantization and operator fusion for MXNet/GluonCV networks.

Importing it is cheap: each public name is loaded, with the libraries that it needs, when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantkit import errors as errors
    from quantkit.images.sources import open_samples as images
    from quantkit.loading import load as load
    from quantkit.models.model import Model as Model
    from quantkit.pipeline import FusedModel as FusedModel
    from quantkit.pipeline import QuantizedModel as QuantizedModel
    from quantkit.pipeline import calibrate as calibrate
    from quantkit.pipeline import emit as emit
    from quantkit.pipeline import fuse_model as fuse
    from quantkit.pipeline import plan as plan
    from quantkit.pipeline import quantize as quantize
    from quantkit.predict import Predictor as Predictor

__version__ = "0.1.0"

__all__ = [
    "FusedModel",
    "Model",
    "Predictor",
    "QuantizedModel",
    "__version__",
    "calibrate",
    "emit",
    "errors",
    "fuse",
    "images",
    "load",
    "plan",
    "quantize",
]

# Where each public name is defined: its module, and its name there (empty: the module itself).
_HOMES = {
    "FusedModel": ("quantkit.pipeline", "FusedModel"),
    "Model": ("quantkit.models.model", "Model"),
    "Predictor": ("quantkit.predict", "Predictor"),
    "QuantizedModel": ("quantkit.pipeline", "QuantizedModel"),
    "calibrate": ("quantkit.pipeline", "calibrate"),
    "emit": ("quantkit.pipeline", "emit"),
    "errors": ("quantkit.errors", ""),
    "fuse": ("quantkit.pipeline", "fuse_model"),
    "images": ("quantkit.images.sources", "open_samples"),
    "load": ("quantkit.loading", "load"),
    "plan": ("quantkit.pipeline", "plan"),
    "quantize": ("quantkit.pipeline", "quantize"),
}


def _public(name: str) -> Any:
    module, attribute = _HOMES[name]
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __getattr__(name: str) -> Any:
    """Load a public name at its first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _public(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Stage(ModuleType):
    """A subpackage that shares its name with a public function, and can be called as that function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _public(self.__name__.rpartition(".")[2])(*args, **options)


class _Package(ModuleType):
    """quantkit itself: Python binds a subpackage here when it is first imported, and hides the function of its name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("emit", "images") and type(value) is ModuleType:
            value.__class__ = _Stage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
