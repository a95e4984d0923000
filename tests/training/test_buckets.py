"""Gradients side by side, against gradients apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.training.buckets import gradient_buckets, trainer_through
from quantkit.training.communication import Alone, Communication
from quantkit.training.config import OptimizerName, TrainingConfig
from quantkit.training.head import last_layer
from quantkit.training.network import TrainedNetwork
from quantkit.training.trainable import trainable
from tests.training.conftest import CLASSES, SIZE, tiny


def parameters(**sizes: int) -> dict[str, Any]:
    mxnet = load_mxnet()
    found = {name: mxnet.gluon.Parameter(name, shape=(size,)) for name, size in sizes.items()}
    for param in found.values():
        param.initialize()
    return found


class SideBySide(Alone):
    """One instance, whose gradients lie in buckets."""

    added_up = 0

    def trainer(self, params: Mapping[str, Any], optimizer: str, options: Mapping[str, Any]) -> Any:
        def add_up() -> None:
            self.added_up += 1

        assert len(gradient_buckets(params)) > 1
        return trainer_through(add_up, params, optimizer, options)


def test_a_megabyte_is_the_most_that_gradients_share() -> None:
    sizes = {"c": 250_000, "a": 1, "b": 249_999, "e": 300_000, "d": 1, "f": 7}
    assert [bucket.size for bucket in gradient_buckets(parameters(**sizes))] == [250_000, 250_000, 1, 300_000, 7]


def test_gradients_lie_in_the_order_of_names() -> None:
    mxnet = load_mxnet()
    params = parameters(b=3, a=2)
    (bucket,) = gradient_buckets(params)
    with mxnet.autograd.record():
        loss = (params["a"].data() * mxnet.nd.array([1, 2])).sum() + (params["b"].data() * 3).sum()
    loss.backward()
    assert bucket.asnumpy().tolist() == [1, 2, 3, 3, 3]
    bucket[:] = 5
    assert params["b"].grad().asnumpy().tolist() == [5, 5, 5]


@pytest.mark.parametrize("optimizer", get_args(OptimizerName))
def test_steps_are_those_of_gradients_apart(optimizer: OptimizerName, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.training.buckets._LARGEST", 100)
    config = TrainingConfig(epochs=1, batch_size=8, optimizer=optimizer, learning_rate=0.5, warmup_epochs=0)
    graph = tiny().graph
    network = trainable(graph, last_layer(graph, "tiny").name, ())
    random = np.random.default_rng(0)
    data = random.normal(size=(4, 8, 3, SIZE, SIZE)).astype(np.float32)
    targets = random.dirichlet(np.ones(CLASSES), (4, 8)).astype(np.float32)

    def after_steps(communication: Communication) -> Mapping[str, np.ndarray]:
        trained = TrainedNetwork(network, config, len(data), communication)
        for own, wanted in zip(data, targets):
            trained.step(own, wanted)
        return trained.params()

    side_by_side = SideBySide()
    there, apart = after_steps(side_by_side), after_steps(Alone())
    assert all(np.array_equal(there[name], value) for name, value in apart.items())
    assert side_by_side.added_up == len(data)
