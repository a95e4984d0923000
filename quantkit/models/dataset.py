"""Sample data as the stages share it: one dataset, read in batches of one size."""

from __future__ import annotations

from typing import Any

from quantkit.data.dataset import CalibrationDataset
from quantkit.models.model import Model

# Small enough to hold every tensor of a batch at once, and to let Ctrl-C through within a second.
BATCH_SIZE = 4


def dataset(model: Model, samples: Any) -> CalibrationDataset:
    """Anything that ``open_samples`` takes as the model reads it; a dataset comes back as it is.

    Raises:
        UserError: the dataset was made for a model that reads other inputs.
    """
    if not isinstance(samples, CalibrationDataset):
        return CalibrationDataset(samples, model.preprocess, model.input_shape)
    samples.check_form(model.preprocess, model.input_shape, model.name)
    return samples


def steps(chosen: CalibrationDataset) -> int:
    """How many batches the progress display is to expect; 0 where nobody knows."""
    return 0 if chosen.size is None else -(-chosen.size // BATCH_SIZE)
