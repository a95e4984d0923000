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
    from quantkit.api import quantize as quantize
    from quantkit.benchmark.measuring.measurement import Conditions as Conditions
    from quantkit.benchmark.measuring.measurement import run_benchmark as run_benchmark
    from quantkit.bundle.quantized_model import QuantizedModel as QuantizedModel
    from quantkit.bundle.quantized_model import evaluate as evaluate
    from quantkit.bundle.quantized_model import lower as lower
    from quantkit.data.dataset import CalibrationDataset as CalibrationDataset
    from quantkit.data.sources import open_samples as images
    from quantkit.deployment.loading import load as load
    from quantkit.deployment.predictor import Predictor as Predictor
    from quantkit.diagnosis.layers.analysis import Analysis as Analysis
    from quantkit.diagnosis.layers.analyze import analyze as analyze
    from quantkit.fusion.fused_model import FusedModel as FusedModel
    from quantkit.fusion.fused_model import fuse_model as fuse
    from quantkit.mixed_precision.search import search_mixed_precision as search_mixed_precision
    from quantkit.models.model import Model as Model
    from quantkit.quantization.algorithms.config import PTQConfig as PTQConfig
    from quantkit.quantization.algorithms.stage import apply_algorithms as apply_algorithms
    from quantkit.quantization.algorithms.stage import plan as plan
    from quantkit.quantization.calibrate import calibrate as calibrate
    from quantkit.quantization.goal import Goal as Goal

__version__ = "0.1.0"

__all__ = [
    "Analysis",
    "CalibrationDataset",
    "Conditions",
    "FusedModel",
    "Goal",
    "Model",
    "PTQConfig",
    "Predictor",
    "QuantizedModel",
    "__version__",
    "analyze",
    "apply_algorithms",
    "calibrate",
    "errors",
    "evaluate",
    "fuse",
    "images",
    "load",
    "lower",
    "plan",
    "quantize",
    "run_benchmark",
    "search_mixed_precision",
]

# Where each public name is defined: its module, and its name there (empty: the module itself).
_HOMES = {
    "Analysis": ("quantkit.diagnosis.layers.analysis", "Analysis"),
    "CalibrationDataset": ("quantkit.data.dataset", "CalibrationDataset"),
    "Conditions": ("quantkit.benchmark.measuring.measurement", "Conditions"),
    "FusedModel": ("quantkit.fusion.fused_model", "FusedModel"),
    "Goal": ("quantkit.quantization.goal", "Goal"),
    "Model": ("quantkit.models.model", "Model"),
    "Predictor": ("quantkit.deployment.predictor", "Predictor"),
    "QuantizedModel": ("quantkit.bundle.quantized_model", "QuantizedModel"),
    "PTQConfig": ("quantkit.quantization.algorithms.config", "PTQConfig"),
    "analyze": ("quantkit.diagnosis.layers.analyze", "analyze"),
    "calibrate": ("quantkit.quantization.calibrate", "calibrate"),
    "lower": ("quantkit.bundle.quantized_model", "lower"),
    "errors": ("quantkit.errors", ""),
    "evaluate": ("quantkit.bundle.quantized_model", "evaluate"),
    "fuse": ("quantkit.fusion.fused_model", "fuse_model"),
    "images": ("quantkit.data.sources", "open_samples"),
    "load": ("quantkit.deployment.loading", "load"),
    "search_mixed_precision": ("quantkit.mixed_precision.search", "search_mixed_precision"),
    "plan": ("quantkit.quantization.algorithms.stage", "plan"),
    "quantize": ("quantkit.api", "quantize"),
    "apply_algorithms": ("quantkit.quantization.algorithms.stage", "apply_algorithms"),
    "run_benchmark": ("quantkit.benchmark.measuring.measurement", "run_benchmark"),
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
