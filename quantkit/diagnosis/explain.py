"""Explaining what would become of a network's operators, by quantizing it in memory with a few samples."""

from __future__ import annotations

from collections.abc import Sequence

from quantkit.fusion.fused_model import fuse_model
from quantkit.models.dataset import CalibrationData, dataset
from quantkit.models.model import Model
from quantkit.progress import Progress, Tell, silent, untold
from quantkit.quantization.algorithms.stage import plan
from quantkit.quantization.calibrate import calibrate
from quantkit.quantization.exclude import excluded_nodes
from quantkit.quantization.explain import Explanation, explain
from quantkit.quantization.plan import TensorDtype

# The ranges hardly affect what becomes of an operator, as long as they are not empty.
_SAMPLES = 4


def explain_model(
    model: Model,
    calibration_data: CalibrationData = "builtin",
    exclude: Sequence[str] = (),
    dtype: TensorDtype = "auto",
    tell: Tell = untold,
    progress: Progress = silent,
) -> tuple[Explanation, ...]:
    """Say what becomes of each operator of a model when it is quantized, and why.

    Args:
        model: the FP32 network.
        calibration_data: anything that ``load_data`` takes; only a few of the samples are used.
        exclude: what stays in FP32: operator names, globs over them, or operator types.
        dtype: the type of quantized tensors: ``auto``, ``uint8`` or ``int8``.
        tell: receives a line as each stage begins.
        progress: wraps the stream of batches.

    Raises:
        FusionError: the fused network computes something else.
        ModelError: the network computes NaN or infinite values for a sample.
        UserError: an exclusion matches nothing.
        DataError: the samples cannot be used.
    """
    tell("fusing operators and comparing with the original")
    images = dataset(model, calibration_data)
    source = fuse_model(model, images)
    # Before calibration, which takes longer.
    excluded_nodes(source.fused, exclude)
    table = calibrate(source, images.subset(_SAMPLES, at_most=True), None, "minmax", progress)
    return explain(source.fused, plan(source, table, exclude, dtype), source.model.standing_for_inputs)
