"""quantkit: INT8 quantization and operator fusion for MXNet/GluonCV networks.

Importing it is cheap: each public name is loaded, with the libraries that it needs, when it is first used. It turns
off the telemetry of the engines that are imported afterwards.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quantkit.host.telemetry import turn_off

if TYPE_CHECKING:
    from quantkit import errors as errors
    from quantkit.analysis.analysis import Analysis as Analysis
    from quantkit.analysis.analyze import analyze as analyze
    from quantkit.data.dataset import CalibrationDataset as CalibrationDataset
    from quantkit.data.sources import open_samples as images
    from quantkit.loading import load as load
    from quantkit.measurement import Conditions as Conditions
    from quantkit.measurement import run_benchmark as run_benchmark
    from quantkit.models.model import Model as Model
    from quantkit.pipeline import QuantizedModel as QuantizedModel
    from quantkit.pipeline import emit as emit
    from quantkit.pipeline import evaluate as evaluate
    from quantkit.pipeline import quantize as quantize
    from quantkit.predict import Predictor as Predictor
    from quantkit.quantization.goal import Goal as Goal
    from quantkit.recovery.preset import Recovery as Recovery
    from quantkit.search.search import mixed_precision as mixed_precision
    from quantkit.stages.calibrate import calibrate as calibrate
    from quantkit.stages.fuse import FusedModel as FusedModel
    from quantkit.stages.fuse import fuse_model as fuse
    from quantkit.stages.recover import plan as plan
    from quantkit.stages.recover import recover as recover

__version__ = "0.1.0"

__all__ = [
    "Analysis",
    "CalibrationDataset",
    "Conditions",
    "FusedModel",
    "Goal",
    "Model",
    "Predictor",
    "QuantizedModel",
    "Recovery",
    "__version__",
    "analyze",
    "calibrate",
    "emit",
    "errors",
    "evaluate",
    "fuse",
    "images",
    "load",
    "mixed_precision",
    "plan",
    "quantize",
    "recover",
    "run_benchmark",
]

# Where each public name is defined: its module, and its name there (empty: the module itself).
_HOMES = {
    "Analysis": ("quantkit.analysis.analysis", "Analysis"),
    "CalibrationDataset": ("quantkit.data.dataset", "CalibrationDataset"),
    "Conditions": ("quantkit.measurement", "Conditions"),
    "FusedModel": ("quantkit.stages.fuse", "FusedModel"),
    "Goal": ("quantkit.quantization.goal", "Goal"),
    "Model": ("quantkit.models.model", "Model"),
    "Predictor": ("quantkit.predict", "Predictor"),
    "QuantizedModel": ("quantkit.pipeline", "QuantizedModel"),
    "Recovery": ("quantkit.recovery.preset", "Recovery"),
    "analyze": ("quantkit.analysis.analyze", "analyze"),
    "calibrate": ("quantkit.stages.calibrate", "calibrate"),
    "emit": ("quantkit.pipeline", "emit"),
    "errors": ("quantkit.errors", ""),
    "evaluate": ("quantkit.pipeline", "evaluate"),
    "fuse": ("quantkit.stages.fuse", "fuse_model"),
    "images": ("quantkit.data.sources", "open_samples"),
    "load": ("quantkit.loading", "load"),
    "mixed_precision": ("quantkit.search.search", "mixed_precision"),
    "plan": ("quantkit.stages.recover", "plan"),
    "quantize": ("quantkit.pipeline", "quantize"),
    "recover": ("quantkit.stages.recover", "recover"),
    "run_benchmark": ("quantkit.measurement", "run_benchmark"),
}

turn_off()


def __getattr__(name: str) -> Any:
    """Load a public name at its first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
