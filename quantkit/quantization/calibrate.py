"""From a fused network to the ranges of its tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from quantkit.calibration.collect import RangeCollection
from quantkit.calibration.methods import DEFAULT_METHOD, observer
from quantkit.calibration.recipes import Recipe, find_recipe
from quantkit.calibration.table import CalibrationTable
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.default_samples import warn_if_unlike
from quantkit.data.preprocess import Preprocess
from quantkit.fusion.fused_model import FusedModel
from quantkit.kinds import of_kind
from quantkit.models.card import Card, find_card
from quantkit.models.dataset import BATCH_SIZE, CalibrationData, batch_size_of, dataset
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.quantization.planning import calibration_targets

DEFAULT_SAMPLES = 32


def calibrate(
    source: FusedModel,
    calibration_data: CalibrationData = "builtin",
    num_samples: Optional[int] = None,
    method: str = DEFAULT_METHOD,
    progress: Progress = silent,
    executor: Executor = in_this_process,
) -> CalibrationTable:
    """Measure the ranges of the fused network's tensors.

    Warns with ``DefaultSamplesWarning`` if the built-in photographs cannot stand in for what the network reads.

    Args:
        source: the fused model.
        calibration_data: what to measure them on.
        num_samples: how many samples; None: 32, or all if there are fewer.
        method: ``minmax``, ``percentile``, ``entropy`` or ``mse``, with a number after a colon where it takes one.
        progress: wraps the stream of batches.
        executor: where to run the network: in this process, or elsewhere.

    Raises:
        UserError: there is no such method, ``num_samples`` is no whole number, or ``source`` is something else.
        DataError: too few samples, or some that cannot be used.
    """
    of_kind("source", source, FusedModel, "which fuse() returns")
    observer(method)
    wanted = DEFAULT_SAMPLES if num_samples is None else num_samples
    chosen = dataset(source.model, calibration_data).subset(wanted, at_most=num_samples is None)
    if source.model.source.weights != "random":
        warn_if_unlike(chosen.name, source.model.input_shape)
    targets = calibration_targets(source.fused.graph)
    collection = RangeCollection(source.graph, targets, batch_size_of(chosen), method, chosen.name)
    found = executor(collection, chosen.stream(BATCH_SIZE), progress, f"calibrating ({method})")
    return CalibrationTable(
        method,
        found.samples,
        chosen.name,
        found.ranges,
        source.sha256,
        found.data_sha256,
        len(chosen.left_out),
    )


def shipped_recipe(source: FusedModel, method: str = DEFAULT_METHOD) -> Optional[Recipe]:
    """The calibration table that ships for just this fused network and its weights, with how it was made.

    Its ``samples`` are what ``apply_algorithms`` and ``measure_agreement`` are then to look at. None where no such
    table ships, or where the model reads images of another size or with other values than the network's card says.
    """
    recipe = find_recipe(source.sha256, method)
    return recipe if recipe is not None and _reads_as_card(source.model, find_card(recipe.network)) else None


def _reads_as_card(model: Model, card: Optional[Card]) -> bool:
    if card is None or model.input_shape != card.input_shape:
        return False
    return _values(model.preprocess) == _values(card.preprocess)


def _values(preprocess: Optional[Preprocess]) -> Optional[Preprocess]:
    # Scaling and cutting decide which part of an image is read, not with which values.
    return None if preprocess is None else replace(preprocess, resize=None, crop=None)
