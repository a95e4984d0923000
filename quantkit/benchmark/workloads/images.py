"""Images to run networks on."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantkit.data.batches import batches
from quantkit.data.preparation import Preparation
from quantkit.data.samples import take
from quantkit.data.sources import load_data


def image_batch(data: Any, preparation: Preparation, input_shape: tuple[int, ...], batch: int) -> np.ndarray:
    """Images as a network reads them, float32 of shape (batch, *input_shape); where there are fewer, they repeat.

    Args:
        data: anything that ``load_data`` takes.
        preparation: the network's.
        input_shape: of one sample.
        batch: how many.

    Raises:
        DataError: the samples cannot be used.
    """
    samples = load_data(data)
    if samples.size is not None or samples.positions is not None:
        samples = take(samples, min(batch, len(samples)))
    images = next(batches(samples, preparation, input_shape, batch)).data
    repeated: np.ndarray = images[np.arange(batch) % len(images)]
    return repeated
