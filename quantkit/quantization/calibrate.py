"""From a fused network to the ranges of its tensors."""

from __future__ import annotations

from typing import Any, Optional

from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.recipes import Recipe, find_recipe
from quantkit.calibration.table import CalibrationTable
from quantkit.data.batches import check_not_constant
from quantkit.data.default_samples import warn_if_unlike
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

    Warns with ``DefaultSamplesWarning`` where the built-in photographs cannot stand for what the network reads.

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
    if source.model.source.weights != "random":
        warn_if_unlike(chosen.name, source.model.input_shape)
    stream = check_not_constant(chosen.batches(BATCH_SIZE), chosen.name)
    shown = progress(stream, steps(chosen), f"calibrating ({method})")
    targets = calibration_targets(source.fused.graph)
    ranges = collect_ranges(source.graph, targets, (batch.data for batch in shown), BATCH_SIZE, method)
    return CalibrationTable(method, len(chosen), chosen.name, ranges, source.sha256, chosen.sha256)


def shipped_recipe(source: FusedModel, method: str = DEFAULT_METHOD) -> Optional[Recipe]:
    """The calibration table that ships for just this fused network and its weights, with how it was made.

    Its ``samples`` are what ``apply_algorithms`` and ``evaluate`` are then to look at. None where no such table ships.
    """
    return find_recipe(source.sha256, method)
