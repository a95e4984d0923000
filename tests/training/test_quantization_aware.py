"""Quantization-aware training from end to end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.api import evaluate, quantize
from quantkit.backends.mxnet.execute import run
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.bundle.read import read_bundle
from quantkit.bundle.reopened import reopened
from quantkit.bundle.verify import verify_bundle
from quantkit.data.arrays import arrays
from quantkit.data.batches import prepare
from quantkit.data.samples import Sample, Samples, take
from quantkit.errors import DataError, SampleError, UserError
from quantkit.quantization.config import QuantizationConfig
from quantkit.quantization.goal import Goal
from quantkit.training.augmentation import NONE
from quantkit.training.config import OptimizerName
from quantkit.training.epoch import Epoch
from quantkit.training.quantization_aware import QUANTIZATION_AWARE, train_quantized, trainable_of
from quantkit.training.simulated.training_graph import training_graph
from quantkit.training.trained_int8 import TrainedInt8
from tests.training.conftest import SIZE, coloured, stored, tiny
from tests.training.test_class_folders import folders

pytestmark = pytest.mark.usefixtures("int8_engine")

CONFIG = replace(QUANTIZATION_AWARE, epochs=2, batch_size=16, learning_rate=1e-2, augmentation=NONE)


def without_labels(samples: Samples) -> Samples:
    return arrays(np.stack([sample.image for sample in samples]), name=samples.name)


def trained(network: QuantizedModel, **options: Any) -> TrainedInt8:
    return train_quantized(
        network,
        without_labels(coloured(96)),
        without_labels(coloured(300, 1)),
        workers=0,
        **{"config": CONFIG, **options},
    )


def test_a_network_comes_nearer_to_fp32(spoiled: QuantizedModel) -> None:
    result = trained(spoiled)
    assert result.before is not None and result.best > 0
    after = result.epochs[result.best - 1].validated
    assert after is not None and after.loss < result.before.loss
    agreement = evaluate(result.network, coloured(300, 2), tiny(normalized=False), against=spoiled).agreement
    assert agreement["network"].top1 >= agreement["against"].top1
    assert agreement["network"].cosine > agreement["against"].cosine


@pytest.mark.requires("vnni")
def test_the_integers_are_those_that_were_trained(spoiled: QuantizedModel, tmp_path: Path) -> None:
    result = trained(spoiled)
    data = np.random.default_rng(0).normal(size=(8, 3, SIZE, SIZE)).astype(np.float32)
    simulated = training_graph(result.network.network, (3, SIZE, SIZE)).graph
    expected = run(result.network.graph, {"data": data})[0]
    # The sums of the last layer are integers; what scales them is FP32, in another order of products.
    assert run(simulated, {"data": data})[0] == pytest.approx(expected, rel=0, abs=2 * np.finfo(np.float32).eps)
    bundle = result.network.save(tmp_path / "trained")
    assert np.array_equal(run(read_bundle(bundle).graph, {"data": data})[0], expected)
    assert verify_bundle(bundle).ok
    opened = read_bundle(bundle)
    assert opened.manifest.notes == ("trained with its quantization on coloured",)
    assert opened.training is not None and opened.training["best_epoch"] == result.best
    assert opened.training["distill"] is True and opened.training["config"]["learning_rate"] == 1e-2
    assert [epoch["validated"]["correct"] for epoch in opened.training["epochs"]] == [
        epoch.validated.correct for epoch in result.epochs if epoch.validated
    ]


def test_what_does_not_become_better_stays_as_it_was(spoiled: QuantizedModel) -> None:
    result = trained(spoiled, config=replace(CONFIG, learning_rate=1e-30, epochs=1))
    assert result.best == 0 and result.network.network is spoiled.network
    assert result.network.training is not None and result.network.training["best_epoch"] == 0
    # A rate that destroys the network does not reach the result either.
    destroyed = trained(spoiled, config=replace(CONFIG, learning_rate=30.0, epochs=1, warmup_epochs=0))
    assert destroyed.best == 0 and destroyed.network.network is spoiled.network


class Interrupted(Exception):
    """What a test raises in place of a signal."""


def test_an_interrupted_training_ends_as_if_it_had_never_stopped(spoiled: QuantizedModel, tmp_path: Path) -> None:
    def stop(epoch: Epoch) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        trained(spoiled, checkpoint=tmp_path / "checkpoint", on_epoch=stop)
    resumed, whole = trained(spoiled, checkpoint=tmp_path / "checkpoint"), trained(spoiled)
    assert resumed.resumed == 1
    first, second = (result.network.network.graph.params for result in (resumed, whole))
    assert all(np.array_equal(first[name], value) for name, value in second.items())
    assert resumed.network.training == whole.network.training is not None


@pytest.mark.requires("two-cpus")
def test_two_instances_train_what_one_does(spoiled: QuantizedModel, tmp_path: Path) -> None:
    train, held = stored(tmp_path / "train.npz", 96), stored(tmp_path / "held.npz", 60)
    one, two = (
        train_quantized(spoiled, train, held, config=CONFIG, workers=1, instances=instances)
        for instances in (None, "2x1:smt")
    )
    assert one.best == two.best > 0
    for first, second in zip(one.epochs, two.epochs):
        assert second.loss == pytest.approx(first.loss, rel=1e-5)
        assert second.validated is not None and second.validated.samples == 60
    of_one, of_two = (each.network.network.graph.params for each in (one, two))
    for name, value in of_one.items():
        # Sums of float32 in another order, over twelve steps; other samples would move weights by 1e-3.
        assert of_two[name] == pytest.approx(value, rel=1e-5, abs=1e-5)
    with pytest.raises(UserError, match="coloured is not the whole of a folder or a file; give one, or no instances"):
        trained(spoiled, instances=2)


@pytest.mark.long
@pytest.mark.requires("two-cpus")
def test_what_instances_leave_out_is_left_out_of_what_follows(spoiled: QuantizedModel, tmp_path: Path) -> None:
    path = tmp_path / "normalized.npz"
    x = np.stack([prepare(each, tiny().preparation, (3, SIZE, SIZE)).image for each in coloured(96)])
    # One of those that ranges before sums, and the agreement with FP32, are measured on.
    chosen = take(arrays(x), spoiled.table.samples).positions or ()
    x[chosen[0]] = np.nan
    np.savez(path, x=x)
    options: Any = {"config": replace(CONFIG, epochs=1), "instances": "2x1:smt", "workers": 1}
    result = train_quantized(spoiled, str(path), skip_bad=1, **options)
    assert [each.position for each in result.left_out] == [chosen[0]]
    assert result.network.agreement is not None and result.network.agreement.images == spoiled.table.samples - 1


@pytest.mark.requires("vnni")
def test_labels_count_where_they_are_asked_for(spoiled: QuantizedModel) -> None:
    with pytest.raises(DataError, match="has no label; give a class for each sample"):
        trained(spoiled, distill=False)
    one = replace(CONFIG, epochs=1, learning_rate=1e-30)
    result = train_quantized(spoiled, coloured(96), config=one, distill=False, workers=0)
    model = tiny(normalized=False)
    data = np.stack([prepare(sample, model.preparation, model.input_shape, None).image for sample in coloured(96)])
    chances = run(spoiled.graph, {"data": data})[0]
    labels = [sample.label for sample in coloured(96)]
    assert result.epochs[0].loss == pytest.approx(-np.log(chances[np.arange(96), labels]).mean(), rel=1e-4)


def test_parameters_can_be_frozen(spoiled: QuantizedModel) -> None:
    simulated = training_graph(spoiled.network, (3, SIZE, SIZE))
    ranges = {name for name, each in simulated.trained.items() if each.kind == "range"}
    assert ranges and not ranges & trainable_of(simulated, ("*_log_range",))[1].learned
    with pytest.raises(UserError, match="nothing to freeze is called 'stage'"):
        trainable_of(simulated, ("stage",))
    with pytest.raises(UserError, match="all parameters are frozen"):
        trainable_of(simulated, ("*",))


@pytest.mark.parametrize("optimizer", ["sgd", "adamax"])
def test_other_optimizers_train_it(spoiled: QuantizedModel, optimizer: OptimizerName) -> None:
    result = trained(spoiled, config=replace(CONFIG, optimizer=optimizer))
    after = result.epochs[-1].validated
    assert result.before is not None and after is not None and after.loss < result.before.loss


@pytest.mark.long
@pytest.mark.parametrize("chosen", [{"never_slower": True, "speed_batch": 2}, {"goal": Goal(max_drop=90.0)}])
def test_what_was_chosen_for_the_network_before_is_no_claim_of_the_trained_one(
    spoiled: QuantizedModel, chosen: dict[str, Any], tmp_path: Path
) -> None:
    config = QuantizationConfig(num_samples=24, preset="none", **chosen)
    judged = coloured(60, 1) if config.goal else None
    before = quantize(tiny(normalized=False), coloured(24), config, evaluation_data=judged)
    assert before.speed is not None or before.mixed is not None
    # With what was found, whatever that is on this machine, but all of its layers in INT8.
    claimed = replace(spoiled, config=config, speed=before.speed, mixed=before.mixed)
    result = trained(claimed).network
    assert result.speed is None and result.mixed is None
    bundle = result.save(tmp_path / "trained")
    assert verify_bundle(bundle).ok
    assert trained(reopened(read_bundle(bundle), tiny(normalized=False), coloured(24))).network.save(tmp_path / "again")


def test_bad_validation_samples_are_left_out(spoiled: QuantizedModel) -> None:
    samples = without_labels(coloured(60, 1))

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            if position == 7:
                raise SampleError("image 7 is damaged", "image 7")
            yield from samples.read((position,))

    bad = replace(samples, read=read, independent=True)
    result = train_quantized(spoiled, without_labels(coloured(96)), bad, config=CONFIG, skip_bad=1, workers=0)
    assert [each.position for each in result.validation_left_out] == [7] and not result.left_out
    assert [epoch.validated.samples for epoch in result.epochs if epoch.validated] == [59, 59]


def test_a_bundle_is_trained_as_the_network_that_it_was_made_from(spoiled: QuantizedModel, tmp_path: Path) -> None:
    bundle = read_bundle(spoiled.save(tmp_path / "bundle"))
    opened = reopened(bundle, tiny(normalized=False), coloured(24))
    found, wanted = (training_graph(each.network, (3, SIZE, SIZE)) for each in (opened, spoiled))
    assert found.trained.keys() == wanted.trained.keys() and "dense_weight" in found.trained
    assert found.frozen == wanted.frozen


def test_what_stays_as_it_was_has_its_notes_and_its_agreement(spoiled: QuantizedModel, tmp_path: Path) -> None:
    bundle = read_bundle(trained(spoiled).network.save(tmp_path / "trained"))
    opened = reopened(bundle, tiny(normalized=False), coloured(24))
    result = trained(opened, config=replace(CONFIG, learning_rate=1e-30, epochs=1))
    assert result.best == 0 and result.network.agreement is not None and result.network.drift is not None
    assert result.network.source.model.notes == ("trained with its quantization on coloured",)
    assert result.network.training is not None and result.network.training["earlier"] == bundle.training


def test_samples_of_which_some_have_labels_are_learned_from(spoiled: QuantizedModel) -> None:
    samples = coloured(96)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            (sample,) = samples.read((position,))
            yield replace(sample, label=sample.label if position % 2 else None)

    some = replace(samples, read=read)
    assert len({sample.label is None for sample in some}) == 2
    assert train_quantized(spoiled, some, config=CONFIG, workers=2).best == 2


def test_bad_samples_are_left_out(spoiled: QuantizedModel) -> None:
    samples = without_labels(coloured(96))

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            if position == 5:
                raise SampleError("image 5 is damaged", "image 5")
            yield from samples.read((position,))

    bad = replace(samples, read=read, independent=True)
    result = train_quantized(spoiled, bad, config=CONFIG, skip_bad=1, workers=2)
    assert [each.position for each in result.left_out] == [5]


def test_wrong_arguments_are_told(spoiled: QuantizedModel) -> None:
    with pytest.raises(UserError, match="config is of type dict"):
        trained(spoiled, config={"epochs": 3})
    with pytest.raises(UserError, match="workers is -1"):
        train_quantized(spoiled, coloured(96), workers=-1)
    with pytest.raises(UserError, match="workers is 257; give at most 256"):
        train_quantized(spoiled, coloured(96), workers=257)
    with pytest.raises(UserError, match="quantized is of type str"):
        train_quantized("net-int8", coloured(96))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="fewer than a batch of 1000"):
        trained(spoiled, config=replace(CONFIG, batch_size=1000))


def test_labels_that_folders_permute_are_not_learned(spoiled: QuantizedModel, tmp_path: Path) -> None:
    path = folders(tmp_path, "blue", "green", "red")
    model = replace(spoiled.source.model, labels=("red", "green", "blue"))
    network = replace(spoiled, source=replace(spoiled.source, model=model))
    config = replace(CONFIG, epochs=1, batch_size=8)
    with pytest.raises(UserError, match="have the names of the labels in another order"):
        train_quantized(network, path, config=config, distill=False, workers=0)
    # Scores need no labels.
    assert len(train_quantized(network, path, config=config, workers=0).epochs) == 1


def test_what_scores_cannot_be_learned_with_is_refused(spoiled: QuantizedModel) -> None:
    with pytest.raises(UserError, match="is for labels; leave it out, or give --no-distill"):
        trained(spoiled, config=replace(CONFIG, label_smoothing=0.1))
    with pytest.raises(UserError, match="what scores of FP32 teach is too small for float16; leave --compress"):
        trained(spoiled, compress=True, kvstore="horovod", instances=2)
