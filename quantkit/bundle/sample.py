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
    the network reads images, random tokens if it reads tokens, else noise over the input's calibrated range.

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
    if model.vocabulary is not None:
        ids = random.randint(0, model.vocabulary.size, (1, *model.input_shape))
        return StoredSample(ids.astype(np.float32), "generated")
    (name,) = model.graph.inputs
    bounds = _USUAL if table is None else table.ranges.get(name, _USUAL)
    noise = random.uniform(bounds.low, bounds.high, (1, *model.input_shape))
    return StoredSample(noise.astype(np.float32), "generated")
