"""Sample data as all stages share it: one dataset, read in batches of one size."""

from __future__ import annotations

from typing import Union

from quantkit.data.dataset import CACHE_BYTES, CalibrationDataset
from quantkit.data.sources import DataSource, load_data
from quantkit.errors import DataError
from quantkit.models.model import Model

CalibrationData = Union[CalibrationDataset, DataSource]
"""The sample data that stages take: anything that ``load_data`` takes, or a dataset made from it for this network."""

# Small enough to hold every tensor of a batch at once, and to react to Ctrl-C within a second.
BATCH_SIZE = 4

_IMAGE_AXES = 3


def dataset(
    model: Model, data: CalibrationData, skip_bad: int = 0, cache_bytes: int = CACHE_BYTES
) -> CalibrationDataset:
    """Sample data, preprocessed for a model.

    Args:
        model: the model that reads the samples.
        data: anything that ``load_data`` takes, or a dataset, which is returned as it is.
        skip_bad: how many samples may be left out that cannot be read or used; 0: as many as a dataset says itself.
        cache_bytes: the size of the cache of preprocessed samples; a dataset has its own.

    Raises:
        UserError: the dataset is preprocessed for other inputs than the model's, or ``skip_bad`` is no whole number.
        DataError: the data cannot be opened, or are built-in images for a network that reads none.
    """
    if not isinstance(data, CalibrationDataset):
        samples = load_data(data)
        if samples.builtin and len(model.input_shape) != _IMAGE_AXES:
            read = str(model.joined) if model.joined else f"inputs of shape {model.input_shape} (layout {model.layout})"
            raise DataError(
                f"{model.name} reads {read}, no images such as {samples.name}; give samples of its own kind, .npz, "
                ".npy or arrays (--calib-data, calibration_data)"
            )
        data = CalibrationDataset(samples, model.preparation, model.input_shape, cache_bytes)
    data.check_form(model.preparation, model.input_shape, model.name)
    return data if skip_bad == 0 else data.skipping(skip_bad)


def batch_size_of(chosen: CalibrationDataset) -> int:
    """The batch size that a network is bound to for these samples: no more than there are, as memory grows with it."""
    return BATCH_SIZE if chosen.size is None else min(BATCH_SIZE, chosen.size)


def steps(chosen: CalibrationDataset) -> int:
    """The number of batches for the progress display; 0 if unknown."""
    return 0 if chosen.size is None else -(-chosen.size // BATCH_SIZE)
