"""Fine-tuning from end to end: what is learned, kept, resumed and refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import IO, Any, Optional

import numpy as np
import pytest

from quantkit.data.arrays import arrays
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError, ModelError, QuantkitError, SampleError, TrainingError, UserError
from quantkit.ir.graph import Node
from quantkit.models.load import load_model
from quantkit.training.augmentation import NONE
from quantkit.training.checkpoint import claimed
from quantkit.training.config import TrainingConfig
from quantkit.training.epoch import Epoch
from quantkit.training.finetune import FineTuned, finetune
from quantkit.training.save import save_trained
from tests.training.conftest import DIVERGING, SIZE, coloured, tiny

CONFIG = TrainingConfig(epochs=3, batch_size=16, learning_rate=2.0, augmentation=NONE)


def trained(config: TrainingConfig = CONFIG, validation: Optional[Samples] = None, **options: Any) -> FineTuned:
    validation = coloured(60, 1) if validation is None else validation
    return finetune(tiny(), coloured(96), validation, config=config, workers=0, **options)


def same(first: FineTuned, second: FineTuned) -> bool:
    one, other = first.model.graph.params, second.model.graph.params
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_a_network_learns() -> None:
    result = trained()
    first, last = result.epochs[0], result.epochs[-1]
    assert last.loss < first.loss
    assert last.validated is not None and last.validated.top1 > 0.9
    assert [epoch.number for epoch in result.epochs] == [1, 2, 3]
    assert [epoch.samples for epoch in result.epochs] == [96] * 3
    assert result.data == ("coloured", "coloured") and result.base == "tiny"
    # The network for inference still ends in its softmax.
    assert result.model.graph.outputs[0].node == "probabilities"
    assert result.model.source.weights == "given"


def test_a_new_layer_learns_other_classes(tmp_path: Path) -> None:
    labels = ("red", "green", "blue")
    result = finetune(
        tiny(classes=7), coloured(96), coloured(60, 1), classes=3, labels=labels, config=CONFIG, workers=0
    )
    assert result.classes == 3 and result.model.labels == labels
    assert result.epochs[-1].validated is not None and result.epochs[-1].validated.top1 > 0.9


def test_the_accuracy_told_is_that_of_what_is_written(tmp_path: Path) -> None:
    from quantkit.api import evaluate

    result = trained()
    card = save_trained(result, tmp_path / "out", "mine")
    loaded = load_model(card)
    best = result.epochs[result.best - 1].validated
    assert best is not None
    accuracy = evaluate(loaded, coloured(60, 1)).accuracy["network"]
    assert accuracy.top1 == best.top1 and best.samples == 60
    assert all(np.array_equal(loaded.graph.params[name], value) for name, value in result.model.graph.params.items())


def test_the_same_seed_gives_the_same_network() -> None:
    first, again, other = trained(), trained(), trained(replace(CONFIG, seed=1))
    assert same(first, again) and not same(first, other)


class Interrupted(Exception):
    """What a test raises in place of a signal."""


def interrupted_after(number: int) -> Any:
    def told(epoch: Epoch) -> None:
        if epoch.number == number:
            raise Interrupted

    return told


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_interrupted_training_ends_as_if_it_had_never_stopped(tmp_path: Path, optimizer: Any) -> None:
    config = replace(CONFIG, optimizer=optimizer, learning_rate=0.2, mixup=0.2, label_smoothing=0.1)
    whole, path = trained(config), tmp_path / "checkpoint"
    with pytest.raises(Interrupted):
        trained(config, checkpoint=path, on_epoch=interrupted_after(1))
    resumed = trained(config, checkpoint=path)
    assert resumed.resumed == 1 and same(whole, resumed)
    assert [epoch.loss for epoch in whole.epochs] == [epoch.loss for epoch in resumed.epochs]
    assert resumed.best == whole.best
    # Once more, all is done.
    assert trained(config, checkpoint=path).resumed == 3
    anew = trained(config, checkpoint=path, restart=True)
    assert anew.resumed == 0 and same(whole, anew)


def test_two_trainings_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with claimed(path), pytest.raises(UserError, match="another process trains with the checkpoint"):
        trained(checkpoint=path)
    assert not path.exists()


def damaged(samples: Samples, position: int, repaired: Event) -> Samples:
    """Samples of which one cannot be read until it is repaired."""

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for place in positions:
            if place == position and not repaired.is_set():
                raise SampleError(f"sample {place} is damaged", f"sample {place}")
            yield from samples.read((place,))

    return replace(samples, read=read, independent=True)


def test_a_training_that_goes_on_tells_all_samples_that_were_left_out(tmp_path: Path) -> None:
    # These positions are none of those by which the sets are told apart.
    repaired, path = Event(), tmp_path / "checkpoint"
    train, held = damaged(coloured(96), 5, repaired), damaged(coloured(60, 1), 8, repaired)
    options: Any = {"config": CONFIG, "workers": 0, "skip_bad": 1, "checkpoint": path}
    with pytest.raises(Interrupted):
        finetune(tiny(), train, held, on_epoch=interrupted_after(1), **options)
    repaired.set()
    # The last time, all is done.
    for resumed in (1, 3):
        result = finetune(tiny(), train, held, **options)
        assert result.resumed == resumed
        assert [each.position for each in result.left_out] == [5]
        assert [each.name for each in result.validation_left_out] == ["sample 8"]


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    trained(replace(CONFIG, epochs=1), checkpoint=path)
    for changed in (replace(CONFIG, epochs=1, seed=3), replace(CONFIG, epochs=1, freeze=("body",))):
        with pytest.raises(UserError, match="with other samples, options or another network; give the same again"):
            trained(changed, checkpoint=path)
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"PK no archive", content.replace(b'"version"', b'"vorsion"')):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"cannot go on from .*begin anew with --restart"):
            trained(replace(CONFIG, epochs=1), checkpoint=path)


def unsynced(descriptor: int) -> None:
    raise OSError(28, os.strerror(28))


def full(*_: object, **__: object) -> IO[bytes]:
    return Path("/dev/full").open("wb")


@pytest.mark.parametrize(("call", "failing"), [("open", full), ("os.fsync", unsynced)])
def test_a_full_disk_leaves_the_last_checkpoint(
    call: str, failing: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(Interrupted):
        trained(checkpoint=path, on_epoch=interrupted_after(1))
    before = path.read_bytes()
    with monkeypatch.context() as patched, pytest.raises(QuantkitError, match="No space left on device; free space"):
        patched.setattr(f"quantkit.files.files.{call}", failing, raising=False)
        trained(checkpoint=path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    assert same(trained(), trained(checkpoint=path))


def test_a_training_ends_early_and_gives_the_best_network() -> None:
    """Labels that mean nothing: nothing becomes better for long."""
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (64, SIZE, SIZE, 3), np.uint8)
    noise = arrays(x, random.integers(0, 3, 64), "noise")
    config = replace(CONFIG, epochs=20, patience=2)
    result = finetune(tiny(), coloured(96), noise, config=config, workers=0)
    assert result.stopped_early and len(result.epochs) == result.best + 2
    alone = finetune(tiny(), coloured(96), noise, config=replace(config, patience=None), workers=0)
    assert len(alone.epochs) == 20
    best = result.epochs[result.best - 1]
    assert all(not epoch.better_than(best) for epoch in result.epochs if epoch.number != result.best)


def test_without_validation_the_last_network_is_the_result() -> None:
    result = finetune(tiny(), coloured(96), config=CONFIG, workers=0)
    assert result.best == 3 and result.epochs[-1].validated is None


def test_a_diverging_training_stops_at_once() -> None:
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf) at step \d+ of epoch 1, .*smaller --learning-rate"):
        trained(replace(CONFIG, learning_rate=1e12, warmup_epochs=0))


def test_a_training_that_diverges_later_says_how_to_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(TrainingError, match=r"of epoch 2, .*, with --restart \(restart=True\) if there is"):
        trained(DIVERGING, checkpoint=path)
    smaller = replace(DIVERGING, learning_rate=1e-5)
    with pytest.raises(UserError, match="with other samples, options or another network"):
        trained(smaller, checkpoint=path)
    assert len(trained(smaller, checkpoint=path, restart=True).epochs) == 3


def test_what_does_not_fit_is_told_before_anything_runs() -> None:
    with pytest.raises(DataError, match=r"coloured has 96 samples, fewer than a batch of 128; give more, or a smaller"):
        trained(replace(CONFIG, batch_size=128))
    with pytest.raises(UserError, match="stopping early needs validation samples"):
        finetune(tiny(), coloured(96), config=replace(CONFIG, patience=2))
    with pytest.raises(UserError, match="2 labels were given for 3 classes; give one for each"):
        trained(labels=("a", "b"))
    with pytest.raises(UserError, match="labels is the text 'abc'; give a list with a name for each class"):
        trained(labels="abc")
    with pytest.raises(DataError, match="has label 2, but the network has 2 classes"):
        trained(classes=2)
    with pytest.raises(ModelError, match="only classifiers can be fine-tuned"):
        finetune(replace(tiny(), task="segmentation"), coloured(96))
    with pytest.raises(UserError, match=r"--kvstore and --compress .* are for instances; give --instances"):
        trained(kvstore="horovod")
    with pytest.raises(DataError, match="has no class for each sample; give labelled samples"):
        trained(validation=arrays(np.zeros((4, SIZE, SIZE, 3), np.uint8)))


def test_augmented_networks_learn_with_workers_as_without() -> None:
    config = TrainingConfig(epochs=1, batch_size=16, learning_rate=2.0, mixup=0.2)
    results = [finetune(tiny(), coloured(96), config=config, workers=workers) for workers in (0, 3)]
    assert same(*results)


def test_networks_with_dropout_go_on_exactly(tmp_path: Path) -> None:
    graph = tiny().graph
    flat = graph.by_name["flat"]
    dropped = Node("dropped", "Dropout", (flat.output,), {"p": "0.5"}, ("dropped",))
    nodes = [
        replace(node, inputs=(dropped.output, *node.inputs[1:])) if node.name == "dense" else node
        for each in graph.nodes
        for node in ((each, dropped) if each is flat else (each,))
    ]
    model = replace(tiny(), graph=replace(graph, nodes=tuple(nodes)))

    def run(**options: Any) -> FineTuned:
        return finetune(model, coloured(96), coloured(60, 1), config=CONFIG, workers=0, **options)

    whole, again, path = run(), run(), tmp_path / "checkpoint"
    with pytest.raises(Interrupted):
        run(checkpoint=path, on_epoch=interrupted_after(2))
    assert same(whole, again) and same(whole, run(checkpoint=path))
    assert not same(whole, trained())


@pytest.mark.parametrize(
    "other",
    [
        lambda: finetune(tiny(), coloured(96, seed=7), coloured(60, 1), config=CONFIG, workers=0),
        lambda: trained(validation=coloured(63, 1)),
        lambda: trained(validation=coloured(60, 2)),
    ],
)
def test_other_samples_of_the_same_name_are_another_training(
    tmp_path: Path, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "checkpoint"
    trained(checkpoint=path)
    monkeypatch.setitem(finetune.__kwdefaults__, "checkpoint", path)
    with pytest.raises(UserError, match="with other samples, options or another network"):
        other()


def test_other_preprocessing_is_another_training(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    trained(checkpoint=path)
    model = replace(tiny(), preprocess=Preprocess(mean=(0.4, 0.5, 0.5), std=(0.25, 0.25, 0.25)))
    with pytest.raises(UserError, match="with other samples, options or another network"):
        finetune(model, coloured(96), coloured(60, 1), config=CONFIG, workers=0, checkpoint=path)


def test_arguments_of_other_kinds_are_told() -> None:
    with pytest.raises(UserError, match="model is of type str; give a Model"):
        finetune("resnet50", coloured(96))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="config is of type dict"):
        trained({"epochs": 3})  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"classes is 2\.5; give a whole number"):
        trained(classes=2.5)
    with pytest.raises(UserError, match="workers is -1; give a whole number from 0 up"):
        finetune(tiny(), coloured(96), workers=-1)
    with pytest.raises(UserError, match="workers is 257; give at most 256"):
        finetune(tiny(), coloured(96), workers=257)


def test_labels_of_numpy_are_labels() -> None:
    source = coloured(96)
    samples = replace(source, read=lambda at: (replace(each, label=np.int64(each.label)) for each in source.read(at)))
    result = finetune(tiny(), samples, coloured(60, 1), config=CONFIG, workers=0)
    assert same(result, trained())
