"""The names of a bundle's files, which of them a bundle must hold, and which it may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quantkit.backends.registry import ONNXRUNTIME
from quantkit.files.bundles import MANIFEST
from quantkit.files.folders import Kind

if TYPE_CHECKING:
    from quantkit.lowering.onnx_lstm import LstmForm

SYMBOL = "model-symbol.json"
PARAMS = "model-0000.params"
CARD = "card.toml"
LABELS = "labels.txt"
SAMPLE = "sample.npz"
OPERATORS = "operators.json"
TABLE = "calibration.json"
ONNX = "model.onnx"
CONFIG = "config.toml"
FUSED_SYMBOL = "fused-symbol.json"
FUSED_PARAMS = "fused-0000.params"
QUANTIZATION = "quantization.json"
SIGNALS = "signals.npz"
TRAINING = "training.json"

ONNX_FILES: Mapping[LstmForm, str] = {"qdq": ONNX, "dynamic": "model-dynamic.onnx"}
"""The network's ONNX files by the form of their INT8 LSTM layers; without such layers there is one file."""

REQUIRED = frozenset({SYMBOL, PARAMS, CARD, SAMPLE, OPERATORS})
"""The files that every bundle holds besides the manifest."""

REQUIRED_INT8 = REQUIRED | {TABLE, CONFIG, FUSED_SYMBOL, FUSED_PARAMS, QUANTIZATION}
"""The files that every INT8 bundle holds besides the manifest.

The fused network takes its parameters from ``PARAMS``, and those that are not there from ``FUSED_PARAMS``.
"""

KNOWN = REQUIRED_INT8 | {MANIFEST, LABELS, SIGNALS, TRAINING, *ONNX_FILES.values()}
"""The files that a bundle may hold."""

BUNDLE = Kind("a bundle", MANIFEST, KNOWN)
"""The kind of folder that a bundle is."""


def lstm_form(engine: str) -> LstmForm:
    """The form of INT8 LSTM layers that an engine for ONNX files runs in INT8; see ``lowering.onnx_lstm``."""
    return "dynamic" if engine == ONNXRUNTIME.name else "qdq"
