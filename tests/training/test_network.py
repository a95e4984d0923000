"""Steps of training, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from quantkit.training.communication import Alone
from quantkit.training.config import OptimizerName, TrainingConfig
from quantkit.training.network import TrainedNetwork, parameters_digest
from quantkit.training.trainable import Trainable, trainable
from tests.networks import DATA, Builder
from tests.training.conftest import tiny

FEATURES, CLASSES, BATCH, STEPS = 5, 3, 8, 6
Arrays = dict[str, np.ndarray]
Update = Callable[[Arrays, Arrays, int], None]


def linear() -> Trainable:
    b = Builder()
    return trainable(b.graph(b.dense("dense", DATA, FEATURES, CLASSES)), "dense", ())


def batches(seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(seed)
    data = random.normal(size=(STEPS, BATCH, FEATURES)).astype(np.float32)
    targets = random.dirichlet(np.ones(CLASSES), (STEPS, BATCH)).astype(np.float32)
    return list(zip(data, targets))


def config(optimizer: OptimizerName = "sgd", **options: float) -> TrainingConfig:
    return TrainingConfig(
        epochs=2,
        batch_size=BATCH,
        optimizer=optimizer,
        learning_rate=0.5,
        warmup_epochs=0,
        schedule="constant",
        **options,
    )  # type: ignore[arg-type]


def sgd(rate: float, momentum: float, decay: float) -> Update:
    """Sutskever et al. 2013, with the decay in the gradient."""
    speed: Arrays = {}

    def update(params: Arrays, gradients: Arrays, step: int) -> None:
        for name, gradient in gradients.items():
            gradient = gradient + (decay * params[name] if params[name].ndim > 1 else 0)
            speed[name] = momentum * speed.get(name, 0) - rate * gradient
            params[name] = params[name] + speed[name]

    return update


def adam(rate: float, largest: bool) -> Update:
    """Kingma and Ba 2015, algorithms 1 and 2 (``largest``), without a decay."""
    first: Arrays = {}
    second: Arrays = {}

    def update(params: Arrays, gradients: Arrays, step: int) -> None:
        for name, gradient in gradients.items():
            first[name] = 0.9 * first.get(name, 0) + 0.1 * gradient
            if largest:
                second[name] = np.maximum(0.999 * second.get(name, 0), np.abs(gradient))
                params[name] = params[name] - rate / (1 - 0.9**step) * first[name] / (second[name] + 1e-8)
                continue
            second[name] = 0.999 * second.get(name, 0) + 0.001 * gradient**2
            by = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            params[name] = params[name] - by * first[name] / (np.sqrt(second[name]) + 1e-8)

    return update


@pytest.mark.parametrize(
    ("settings", "update"),
    [
        (config(momentum=0.0, weight_decay=0.0), sgd(0.5 / 32, 0.0, 0.0)),
        (config(momentum=0.9, weight_decay=0.01), sgd(0.5 / 32, 0.9, 0.01)),
        (config("adam", weight_decay=0.0), adam(0.5 / 32**0.5, largest=False)),
        (config("adamax", weight_decay=0.0), adam(0.5 / 32**0.5, largest=True)),
    ],
    ids=["sgd", "momentum and decay", "adam", "adamax"],
)
def test_steps_follow_the_formulas(settings: TrainingConfig, update: Update) -> None:
    network = linear()
    params = {name: value.astype(np.float64) for name, value in network.graph.params.items()}
    trained = TrainedNetwork(network, settings, STEPS, Alone())
    for step, (data, targets) in enumerate(batches(), 1):
        scores = data @ params["dense_weight"].T + params["dense_bias"]
        exponentials = np.exp(scores - scores.max(1, keepdims=True))
        chances = exponentials / exponentials.sum(1, keepdims=True)
        assert trained.step(data, targets) == pytest.approx(-(targets * np.log(chances)).sum(1).mean(), rel=1e-5)
        slope = (chances - targets) / BATCH
        update(params, {"dense_weight": slope.T @ data, "dense_bias": slope.sum(0)}, step)
    for name, value in trained.params().items():
        # Adam divides by the root of a small mean of squares, in float32.
        assert value == pytest.approx(params[name], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamax"])
def test_what_has_no_gradient_stays(optimizer: OptimizerName) -> None:
    network = linear()
    trained = TrainedNetwork(network, config(optimizer, weight_decay=0.0), STEPS, Alone())
    for data, targets in batches():
        data[:, 0] = 0
        trained.step(data, targets)
    found, before = trained.params()["dense_weight"], network.graph.params["dense_weight"]
    assert np.array_equal(found[:, 0], before[:, 0]) and not np.array_equal(found[:, 1], before[:, 1])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamax"])
def test_a_training_goes_on_bit_for_bit(optimizer: OptimizerName) -> None:
    settings = replace(config(optimizer), schedule="cosine", warmup_epochs=0.5)
    steps = batches()
    whole = TrainedNetwork(linear(), settings, STEPS, Alone())
    for data, targets in steps:
        whole.step(data, targets)
    half = TrainedNetwork(linear(), settings, STEPS, Alone())
    for data, targets in steps[:3]:
        half.step(data, targets)
    resumed = TrainedNetwork(linear(), settings, STEPS, Alone())
    resumed.restore(half.state(half.params()))
    for data, targets in steps[3:]:
        resumed.step(data, targets)
    expected, found = (each.state(each.params()) for each in (whole, resumed))
    assert expected.keys() == found.keys()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
    assert whole.rate == resumed.rate


def test_a_state_of_another_network_is_refused() -> None:
    trained = TrainedNetwork(linear(), config(), STEPS, Alone())
    state = trained.state(trained.params())
    with pytest.raises(ValueError, match=r"param/dense_weight has shape \(2, 5\) where \(3, 5\) is needed"):
        trained.restore({**state, "param/dense_weight": np.zeros((2, 5), np.float32)})
    with pytest.raises(KeyError):
        trained.restore({})


def test_frozen_parameters_and_their_statistics_stay() -> None:
    graph = tiny().graph
    trained = TrainedNetwork(trainable(graph, "dense", ("body",)), config(), STEPS, Alone())
    random = np.random.default_rng(0)
    data = random.normal(size=(BATCH, 3, 8, 8)).astype(np.float32)
    trained.step(data, np.eye(3, dtype=np.float32)[np.arange(BATCH) % 3])
    for name, value in trained.params().items():
        assert np.array_equal(value, graph.params[name]) == (not name.startswith("dense"))


def test_moving_statistics_follow_the_samples() -> None:
    """MXNet keeps 0.9 of the old statistics by default; its variance is that of the batch itself, not an estimate."""
    graph = tiny().graph
    trained = TrainedNetwork(trainable(graph, "dense", ()), config(), STEPS, Alone())
    data = np.random.default_rng(0).normal(size=(BATCH, 3, 8, 8)).astype(np.float32)
    trained.step(data, np.eye(3, dtype=np.float32)[np.arange(BATCH) % 3])
    from quantkit.backends.mxnet.execute import run

    first = run(graph.with_outputs([graph.by_name["first"].output]).pruned(), {"data": data})[0]
    mean = 0.9 * graph.params["normal_moving_mean"] + 0.1 * first.mean(axis=(0, 2, 3))
    assert trained.params()["normal_moving_mean"] == pytest.approx(mean, abs=1e-5)


def test_statistics_become_the_mean_over_instances() -> None:
    """Of this one, and of one that has three times its values."""

    class Beside(Alone):
        instances = 2

        def all_reduce(self, values: np.ndarray) -> np.ndarray:
            return values + 3 * values

    graph = tiny().graph
    trained = TrainedNetwork(trainable(graph, "dense", ()), config(), STEPS, Beside())
    before = trained.params()
    after = trained.share_statistics(before)
    for name, value in trained.params().items():
        assert np.array_equal(after[name], value)
        assert np.array_equal(value, before[name] * (2 if "moving" in name else 1))
    assert not np.array_equal(after["normal_moving_var"], before["normal_moving_var"])


def test_a_digest_is_that_of_every_parameter() -> None:
    params = dict(tiny().graph.params)
    changed = [{**params, name: np.nextafter(value, np.float32(9))} for name, value in params.items()]
    assert len({parameters_digest(each) for each in (params, *changed)}) == 1 + len(params)
    assert parameters_digest(dict(reversed(params.items()))) == parameters_digest(params)


def test_scores_are_learned_by_the_mean_square_of_their_difference() -> None:
    network, (data, _), random = linear(), batches()[0], np.random.default_rng(3)
    wanted = random.normal(size=(BATCH, CLASSES)).astype(np.float32)
    weight, bias = network.graph.params["dense_weight"], network.graph.params["dense_bias"]
    trained = TrainedNetwork(network, config(momentum=0.0, weight_decay=0.0), STEPS, Alone(), "scores")
    difference = data @ weight.T + bias - wanted
    assert trained.step(data, wanted) == pytest.approx(np.square(difference).mean() / 2, rel=1e-5)
    expected = weight - 0.5 / 32 * difference.T @ data / (BATCH * CLASSES)
    assert trained.params()["dense_weight"] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_small_gradients_of_scores_move_adam_as_large_ones_do() -> None:
    """A network that is nearly right has gradients below the number that keeps Adam from dividing by 0."""
    network, (data, _) = linear(), batches()[0]
    weight, bias = network.graph.params["dense_weight"], network.graph.params["dense_bias"]
    trained = TrainedNetwork(network, config("adam", weight_decay=0.0), STEPS, Alone(), "scores")
    trained.step(data, data @ weight.T + bias - np.float32(1e-6))
    moved = np.abs(trained.params()["dense_bias"] - bias)
    assert moved == pytest.approx(np.full(CLASSES, 0.5 / 32**0.5), rel=0.05)
