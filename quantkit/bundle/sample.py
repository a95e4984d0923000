"""The sample that a bundle stores, so that another machine can check that it computes the same outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

from quantkit.bundle.manifest import SampleOrigin
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.data.batches import batches
from quantkit.data.builtin import photographs
from quantkit.data.joined_inputs import JoinedInput
from quantkit.fusion.fused_model import FusedModel

_CHANNELS = 3
_USUAL = Range(-1.0, 1.0)


@dataclass(frozen=True, eq=False)
class StoredSample:
    """One input of a network, float32 with a batch axis of 1, and its origin as the manifest states it."""

    input: np.ndarray
    origin: Optional[SampleOrigin]


def stored_sample(source: FusedModel, table: Optional[CalibrationTable], keep: bool) -> StoredSample:
    """Choose the sample to store: none of the user's images, unless ``keep`` is set.

    The sample is the image that the fused network was compared on if that is built in, else a built-in photograph if
    the network reads images, random tokens for inputs that read tokens, else noise over the input's calibrated range.

    Args:
        source: the fused model.
        table: its calibration; None in FP32 bundles.
        keep: whether to store the image that the fused network was compared on, even if it is the user's.

    Raises:
        DataError: the built-in photographs are not installed.
    """
    model = source.model
    if source.builtin:
        said = table is not None and table.data_name == source.builtin
        return StoredSample(source.sample, None if said else "built-in")
    if keep:
        return StoredSample(source.sample, "own")
    if model.preprocess is not None and model.input_shape[0] == _CHANNELS:
        # Where images come in the size of the input, photographs do not.
        sized = model.preprocess.crop or model.preprocess.fit
        preprocess = model.preprocess if sized else replace(model.preprocess, resize=None, fit="stretch")
        photograph = next(batches(photographs(), preprocess, model.input_shape, 1, 1, workers=0))
        return StoredSample(photograph.data, "built-in")
    # This generator's stream never changes, so the same network always gives the same bundle.
    random = np.random.RandomState(0)
    ranges = {} if table is None else table.ranges
    (name,) = model.graph.inputs
    inputs = model.joined.inputs if model.joined else (JoinedInput(name, model.input_shape, model.vocabulary),)
    drawn = [_drawn(each, ranges.get(each.name, _USUAL), random) for each in inputs]
    values = np.concatenate([each.reshape(-1) for each in drawn]).reshape(1, *model.input_shape)
    return StoredSample(values, "generated")


def _drawn(wanted: JoinedInput, bounds: Range, random: np.random.RandomState) -> np.ndarray:
    """Random values of an input, float32 of its shape: tokens if it reads these, else noise within the bounds."""
    if wanted.vocabulary is not None:
        return random.randint(0, wanted.vocabulary.size, wanted.shape).astype(np.float32)
    return random.uniform(bounds.low, bounds.high, wanted.shape).astype(np.float32)
