"""From a fused network to the ranges of its tensors."""

from __future__ import annotations

from typing import Any, Optional

from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.table import CalibrationTable
from quantkit.data.batches import check_not_constant
from quantkit.fusion.fused_model import FusedModel
from quantkit.models.dataset import BATCH_SIZE, dataset, steps
from quantkit.progress import Progress, silent
from quantkit.quantization.plan import calibration_targets

DEFAULT_METHOD = "mse"
DEFAULT_SAMPLES = 32


def calibrate(
    source: FusedModel,
    samples: Any = "builtin",
    count: Optional[int] = None,
    method: str = DEFAULT_METHOD,
    progress: Progress = silent,
) -> CalibrationTable:
    """Measure the ranges of the fused network's tensors.

    Args:
        source: the fused model.
        samples: anything that ``open_samples`` takes.
        count: how many samples; None: ``DEFAULT_SAMPLES``, or all where there are fewer.
        method: ``minmax``, ``percentile``, ``entropy`` or ``mse``, with a number after a colon where it takes one.
        progress: wraps the stream of batches.

    Raises:
        DataError: too few samples, or some that cannot be used.
    """
    wanted = DEFAULT_SAMPLES if count is None else count
    chosen = dataset(source.model, samples).subset(wanted, at_most=count is None)
    stream = check_not_constant(chosen.batches(BATCH_SIZE), chosen.name)
    shown = progress(stream, steps(chosen), f"calibrating ({method})")
    targets = calibration_targets(source.fused.graph)
    ranges = collect_ranges(source.graph, targets, (batch.data for batch in shown), BATCH_SIZE, method)
    return CalibrationTable(method, len(chosen), chosen.name, ranges, source.sha256, chosen.sha256)
