"""Sample data as all stages share it: one dataset, read in batches of one size."""

from __future__ import annotations

from typing import Union

from quantkit.data.dataset import CalibrationDataset
from quantkit.data.sources import DataSource
from quantkit.models.model import Model

CalibrationData = Union[CalibrationDataset, DataSource]
"""The sample data that stages take: anything that ``load_data`` takes, or a dataset made from it for this network."""

# Small enough to hold every tensor of a batch at once, and to react to Ctrl-C within a second.
BATCH_SIZE = 4


def dataset(model: Model, data: CalibrationData) -> CalibrationDataset:
    """Sample data, preprocessed for a model.

    Args:
        model: the model that reads the samples.
        data: anything that ``load_data`` takes, or a dataset, which is returned as it is.

    Raises:
        UserError: the dataset is preprocessed for other inputs than the model's.
    """
    if not isinstance(data, CalibrationDataset):
        return CalibrationDataset(data, model.preprocess, model.input_shape)
    data.check_form(model.preprocess, model.input_shape, model.name)
    return data


def steps(chosen: CalibrationDataset) -> int:
    """The number of batches for the progress display; 0 if unknown."""
    return 0 if chosen.size is None else -(-chosen.size // BATCH_SIZE)
