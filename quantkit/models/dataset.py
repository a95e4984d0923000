"""Sample data as the stages share it: one dataset, read in batches of one size."""

from __future__ import annotations

from typing import Union

from quantkit.data.dataset import CalibrationDataset
from quantkit.data.sources import DataSource
from quantkit.models.model import Model

CalibrationData = Union[CalibrationDataset, DataSource]
"""What stages take sample data as: anything that ``load_data`` takes, or a dataset made of it for this network."""

# Small enough to hold every tensor of a batch at once, and to let Ctrl-C through within a second.
BATCH_SIZE = 4


def dataset(model: Model, data: CalibrationData) -> CalibrationDataset:
    """Anything that ``load_data`` takes as the model reads it; a dataset comes back as it is.

    Raises:
        UserError: the dataset was made for a model that reads other inputs.
    """
    if not isinstance(data, CalibrationDataset):
        return CalibrationDataset(data, model.preprocess, model.input_shape)
    data.check_form(model.preprocess, model.input_shape, model.name)
    return data


def steps(chosen: CalibrationDataset) -> int:
    """How many batches the progress display is to expect; 0 where nobody knows."""
    return 0 if chosen.size is None else -(-chosen.size // BATCH_SIZE)
