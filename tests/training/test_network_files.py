"""A classifier as files that load as the network that was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.training.network_files import write_network
from tests.networks import images
from tests.training.conftest import CLASSES, SIZE, tiny


@pytest.mark.parametrize(
    "model",
    [
        tiny(),
        replace(tiny(), labels=("red", 'the "green" one', "blau\u00e4ugig"), exclude=("dense",)),
        replace(tiny(), preprocess=None),
    ],
)
def test_what_is_written_loads_as_it_was(model: Model, tmp_path: Path) -> None:
    found = load_model(
        write_network(model, CLASSES, tmp_path, "mine", 'on "photographs"', {"top1": 91.5, "origin": "a test"})
    )
    assert (found.name, found.input_shape, found.labels) == ("mine", model.input_shape, model.labels)
    assert (found.exclude, found.preprocess) == (model.exclude, model.preprocess)
    data = {"data": images(4, size=SIZE)}
    assert np.array_equal(run(found.graph, data)[0], run(model.graph, data)[0])
    assert found.graph.params.keys() == model.graph.params.keys()
