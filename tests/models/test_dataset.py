"""Sample data for a network: how many samples the network is bound to at once."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.models.dataset import BATCH_SIZE, batch_size_of, dataset
from quantkit.models.load import load_model


@pytest.mark.parametrize(("samples", "bound"), [(1, 1), (3, 3), (BATCH_SIZE, BATCH_SIZE), (9, BATCH_SIZE)])
def test_a_network_is_bound_to_no_more_samples_than_there_are(samples: int, bound: int, engine: None) -> None:
    model = load_model("digits_resnet20_v1")
    images = np.zeros((samples, *model.input_shape), np.float32)
    assert batch_size_of(dataset(model, images)) == bound


def test_of_a_stream_the_number_is_unknown(engine: None) -> None:
    model = load_model("digits_resnet20_v1")
    images = iter([np.zeros((1, *model.input_shape), np.float32)])
    assert batch_size_of(dataset(model, images)) == BATCH_SIZE
