"""The loop of a training: what instances compare, what they add up, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Optional

import numpy as np
import pytest

from quantkit.data.arrays import arrays
from quantkit.data.left_out import LeftOut
from quantkit.data.samples import Sample
from quantkit.errors import DataError, TrainingError, UserError
from quantkit.models.dataset import dataset
from quantkit.progress import T, silent
from quantkit.training.augmentation import NONE
from quantkit.training.communication import Alone
from quantkit.training.config import TrainingConfig
from quantkit.training.data_parallel import DataParallel
from quantkit.training.epoch import Epoch
from quantkit.training.finetune import trainable_classifier
from quantkit.training.loop import Loop, ignore_epoch
from quantkit.training.loop_inputs import LoopInputs
from quantkit.training.network import TrainedNetwork, parameters_digest
from quantkit.training.unused import Unused
from quantkit.training.validation import Validated
from tests.training.conftest import CLASSES, SIZE, coloured, tiny

CONFIG = TrainingConfig(epochs=2, batch_size=16, learning_rate=1.0, augmentation=NONE)

Changed = Callable[[np.ndarray], np.ndarray]


class Twin(Alone):
    """An instance beside one that has the same values, but for one exchange, counted from 0."""

    instances = 2

    def __init__(self, odd: Optional[int] = None, changed: Changed = lambda values: values + 1) -> None:
        self._odd, self._changed, self._exchanges = odd, changed, 0

    def all_reduce(self, values: np.ndarray) -> np.ndarray:
        other = self._changed(values) if self._exchanges == self._odd else values
        self._exchanges += 1
        return values + other


def loop(
    communication: Alone,
    config: TrainingConfig = CONFIG,
    checkpoint: Optional[Path] = None,
    normalized: bool = True,
) -> Loop:
    model = tiny(normalized=normalized)
    inputs = LoopInputs(coloured(48), dataset(model, coloured(30, 1)), config, 0, checkpoint, communication)
    return inputs.loop(model, trainable_classifier(model, config))


def run(training: Loop) -> list[Epoch]:
    told: list[Epoch] = []
    training.run(None, silent, told.append)
    return told


# The exchanges: what decides the training and the epochs before, then of each epoch: statistics, parameters, figures,
# validation, what was left out.
ALL, BEFORE, _, PARAMETERS, FIGURES, JUDGED = range(6)


@pytest.mark.parametrize(
    ("odd", "error", "words"),
    [
        (
            ALL,
            DataError,
            "samples such as those of coloured are not the same on all instances; give all the same files",
        ),
        (BEFORE, DataError, "do not go on after the same epoch, here after 0; copy the newest checkpoint to all"),
        (
            PARAMETERS,
            TrainingError,
            "the instances have different parameters after epoch 1: their memory or what",
        ),
    ],
)
def test_instances_that_differ_end_the_training(odd: int, error: type[Exception], words: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(error, match=words):
        run(loop(Twin(odd), checkpoint=checkpoint))
    assert not checkpoint.exists()


def test_figures_are_means_over_instances() -> None:
    own: list[np.ndarray] = []

    def of_the_other(values: np.ndarray) -> np.ndarray:
        own.append(values)
        return 3 * values

    first = run(loop(Twin(FIGURES, of_the_other)))[0]
    # Over three steps, losses of 1 and 3.
    assert first.loss == pytest.approx(2 * float(own[0][0]) / 3, rel=1e-6)
    assert first.seconds == pytest.approx(2 * float(own[0][1]), rel=1e-6)
    assert first.samples == 48


def test_the_clock_runs_when_all_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other is an hour late for each epoch."""
    now = 0.0

    class Late(Twin):
        def barrier(self) -> None:
            nonlocal now
            now += 3600

    monkeypatch.setattr("quantkit.training.loop.perf_counter", lambda: now)
    assert [epoch.seconds for epoch in run(loop(Late()))] == [0, 0]
    assert now == 2 * 3600


def test_the_clock_runs_until_the_last_step_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine works for another hour when the last step has returned."""
    now = 0.0

    def read(network: TrainedNetwork) -> dict[str, np.ndarray]:
        nonlocal now
        now += 3600
        return of_network(network)

    of_network = TrainedNetwork.params
    monkeypatch.setattr("quantkit.training.loop.perf_counter", lambda: now)
    monkeypatch.setattr(TrainedNetwork, "params", read)
    assert [epoch.seconds for epoch in run(loop(Alone()))] == [3600, 3600]


def test_parameters_are_read_once_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large networks have hundreds of megabytes."""
    read, compared = list[dict[str, np.ndarray]](), list[np.ndarray]()

    def of_the_other(values: np.ndarray) -> np.ndarray:
        compared.append(values)
        return values

    def noted(network: TrainedNetwork) -> dict[str, np.ndarray]:
        read.append(of_network(network))
        return read[-1]

    of_network = TrainedNetwork.params
    monkeypatch.setattr(TrainedNetwork, "params", noted)
    training = loop(Twin(PARAMETERS, of_the_other), checkpoint=tmp_path / "checkpoint")
    reached = training.run(None, silent, ignore_epoch)
    assert len(read) == len(reached.epochs) == 2
    assert compared[0].tolist() == [*parameters_digest(read[0])[:16]]
    assert all(np.array_equal(reached.state[f"param/{name}"], value) for name, value in read[-1].items())


def test_validation_is_that_of_all_samples() -> None:
    one = run(loop(Twin(JUDGED, lambda values: np.array([10, 4, 5], np.float32))))[0].validated
    same = run(loop(Twin()))[0].validated
    assert one is not None and same is not None
    alone = Validated(same.samples // 2, same.correct // 2, same.loss)
    assert (one.samples, one.correct) == (alone.samples + 10, alone.correct + 4)
    assert one.loss == pytest.approx((alone.samples * alone.loss + 5) / (alone.samples + 10), rel=1e-6)


def test_each_epoch_is_told_when_its_checkpoint_is_there(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    seen: list[bytes] = []
    training = loop(Alone(), checkpoint=path)
    reached = training.run(None, silent, lambda epoch: seen.append(path.read_bytes()))
    assert len(seen) == len(reached.epochs) == 2 and len({*seen}) == 2


def test_a_checkpoint_of_a_training_that_is_done_fits_its_network() -> None:
    training, parallel = loop(Alone()), DataParallel(None, None, "dist_sync", compress=False, workers=None)
    reached = training.run(None, silent, ignore_epoch)
    assert parallel.run(training, reached, silent, ignore_epoch) is reached
    with pytest.raises(UserError, match=r"its parameter 'dense_bias' is not the network's; begin anew with --restart"):
        parallel.run(training, replace(reached, best={}), silent, ignore_epoch)


def test_patience_counts_from_the_best_epoch() -> None:
    """A rate this small changes no parameter, so that the first epoch stays the best."""
    config = replace(CONFIG, epochs=9, patience=3, learning_rate=1e-30)
    assert [epoch.number for epoch in run(loop(Alone(), config, normalized=False))] == [1, 2, 3, 4]


def test_what_is_left_out_in_an_epoch_that_is_not_the_best_is_kept_too() -> None:
    training = loop(Alone(), replace(CONFIG, learning_rate=1e-30), normalized=False)
    late = LeftOut(7, "7.png", "cannot read 7.png")

    def leave_out(epoch: Epoch) -> None:
        training.feed.left_out[7] = late

    reached = training.run(None, silent, leave_out)
    assert reached.best_epoch == 1 and reached.unused == Unused((late,), ())


def test_what_was_left_out_before_counts_on(tmp_path: Path) -> None:
    training, again = replace(loop(Alone()), checkpoint=tmp_path / "checkpoint"), loop(Alone())
    early = LeftOut(7, "7.png", "cannot read 7.png")
    begun = training.run(None, silent, ignore_epoch)
    again.run(replace(begun, epochs=begun.epochs[:1], best_epoch=1, unused=Unused((early,), ())), silent, ignore_epoch)
    assert again.feed.left_out == {7: early}


def test_validation_samples_are_read_before_the_first_step() -> None:
    """The last of them has a class that the network has not."""
    model = tiny()
    held = arrays(np.zeros((9, SIZE, SIZE, 3), np.uint8), np.array([0] * 8 + [CLASSES]), "held")
    inputs = LoopInputs(coloured(48), dataset(model, held), CONFIG, 0, None)

    def fail(stream: Iterable[T], total: int, title: str) -> Iterable[T]:
        raise AssertionError("a step was made")

    with pytest.raises(DataError, match=r"has label 3, but the network has 3 classes .*; correct the labels, or take"):
        inputs.loop(model, trainable_classifier(model, CONFIG)).run(None, fail, ignore_epoch)


def test_a_validation_loss_that_is_no_number_ends_the_training(tmp_path: Path) -> None:
    """Finite parameters, but what they make of these samples is not."""
    checkpoint, model = tmp_path / "checkpoint", replace(tiny(), preprocess=None)
    images = np.stack([sample.image for sample in coloured(48)]).transpose(0, 3, 1, 2).astype(np.float32)
    train, held = (arrays(images * scale, np.arange(48) % 3, "scaled") for scale in (1 / 255, 1e36))
    inputs = LoopInputs(train, dataset(model, held), CONFIG, 0, checkpoint)
    with pytest.raises(
        TrainingError, match=r"the loss on validation samples is (nan|inf) at the end of epoch 1, at a learning"
    ):
        inputs.loop(model, trainable_classifier(model, CONFIG)).run(None, silent, ignore_epoch)
    assert not checkpoint.exists()


@pytest.mark.parametrize("compress", [True, False])
def test_a_training_that_diverges_with_compressed_gradients_names_them(compress: bool) -> None:
    """They end at 65504."""
    twin = Twin()
    twin.compress = compress
    with pytest.raises(TrainingError, match="the training diverges; give a smaller --learning-rate") as caught:
        run(loop(twin, replace(CONFIG, learning_rate=1e12, warmup_epochs=0)))
    assert ("or leave --compress (compress) out" in str(caught.value)) == compress
    # What a checkpoint may hold is of an older training.
    assert "--restart" not in str(caught.value)


def test_validation_samples_of_unknown_number() -> None:
    model, samples = tiny(), coloured(30, 1)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        return samples.read(takewhile(lambda position: position < 30, positions))

    held = replace(samples, read=read, size=None, independent=False)
    inputs = LoopInputs(coloured(48), dataset(model, held), CONFIG, 0, None)
    reached = inputs.loop(model, trainable_classifier(model, CONFIG)).run(None, silent, ignore_epoch)
    assert [epoch.validated.samples for epoch in reached.epochs if epoch.validated] == [30, 30]
