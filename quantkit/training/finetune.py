"""Fine-tuning: a trained network learns other classes, or its own ones better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, Union

from quantkit.data.left_out import LeftOut
from quantkit.data.samples import are_labelled, skipping
from quantkit.data.sources import DataSource, load_data
from quantkit.errors import DataError, UserError
from quantkit.kinds import of_kind, whole_number
from quantkit.models.dataset import CalibrationData
from quantkit.models.model import Model, Source
from quantkit.progress import Progress, silent
from quantkit.training.checkpoint import Checkpoint, claimed, read_checkpoint
from quantkit.training.class_folders import check_order, folder_labels
from quantkit.training.config import TrainingConfig
from quantkit.training.data_parallel import DataParallel
from quantkit.training.epoch import Epoch
from quantkit.training.feed_workers import FeedWorkers, feed_workers
from quantkit.training.head import classes_of, last_layer, with_classes
from quantkit.training.launch import KVStoreName
from quantkit.training.loop import EpochCallback, Loop, ignore_epoch
from quantkit.training.loop_inputs import LoopInputs
from quantkit.training.machines import Machines
from quantkit.training.spinning import load_for_training
from quantkit.training.trainable import Trainable, trainable


@dataclass(frozen=True, eq=False)
class FineTuned:
    """A network that was trained.

    Attributes:
        model: the network after its best epoch, to be quantized.
        config: how it was trained.
        epochs: what each epoch brought.
        best: the number of the best one.
        classes: the number of its classes.
        base: the name of the network that it began as.
        base_source: where that network and its weights came from.
        data: the names of the training and, if any, of the validation samples.
        left_out: the training samples that could not be used.
        validation_left_out: the validation samples that could not be used.
        resumed: how many epochs an earlier run had done.
        workers: the threads that prepared samples; None where instances had a number of their own.
    """

    model: Model
    config: TrainingConfig
    epochs: Sequence[Epoch]
    best: int
    classes: int
    base: str
    base_source: Source
    data: tuple[str, Optional[str]]
    left_out: tuple[LeftOut, ...] = ()
    validation_left_out: tuple[LeftOut, ...] = ()
    resumed: int = 0
    workers: Optional[FeedWorkers] = None

    @property
    def stopped_early(self) -> bool:
        """Whether it ended before all its epochs, as nothing became better."""
        return len(self.epochs) < self.config.epochs


def finetune(
    model: Model,
    train_data: DataSource,
    validation_data: Optional[CalibrationData] = None,
    *,
    classes: Optional[int] = None,
    labels: Sequence[str] = (),
    config: Optional[TrainingConfig] = None,
    workers: Optional[int] = None,
    skip_bad: int = 0,
    checkpoint: Union[str, Path, None] = None,
    restart: bool = False,
    instances: Union[str, int, None] = None,
    machines: Optional[Machines] = None,
    kvstore: KVStoreName = "dist_sync",
    compress: bool = False,
    progress: Progress = silent,
    on_epoch: EpochCallback = ignore_epoch,
) -> FineTuned:
    """Train a classifier on labelled samples.

    It runs on MXNet's own training: its automatic gradients and its optimizers. The result is the network after the
    epoch with the best accuracy on the validation samples; without these, after the last one.

    Args:
        model: a classifier, see ``load_model``.
        train_data: labelled samples: anything that ``load_data`` takes, such as a folder with a folder per class, a
            ``.rec`` or an ``.npz`` file. Those that can only be read one after another are held in memory.
        validation_data: labelled samples of the same classes.
        classes: how many classes the samples have: the network gets a new last layer. None: it keeps its own.
        labels: the names of the classes; if none are given, those of the folders, where each class has one.
        config: how to train; None: ``TrainingConfig()``.
        workers: threads that decode and vary images, 0 to 256; None: one for each processor that may be used, at
            most 16; one alone for images in arrays of which the network reads fewer than 128 x 128 pixels.
        skip_bad: how many training samples, and how many validation samples, may be left out that cannot be read or
            used.
        checkpoint: a file for the state after each epoch. If it is there, the training goes on from it, exactly as if
            it had never stopped (on the same processor, with the same number of threads and of processors to run on).
        restart: begin anew, even if there is a checkpoint.
        instances: train in several processes, each bound to cores of its own: ``core``, one on each core, ``node``, one
            on each memory node, a number of them, or another placement of ``quantkit benchmark``. They share each
            batch, and add up their gradients. Samples are then given by name. None: this process trains.
        machines: those that train together; each runs as many ``instances``, by default one on all its cores.
        kvstore: through what instances add up gradients: ``dist_sync``, MXNet's parameter server, or ``horovod``.
        compress: with ``horovod``, send gradients as float16, which halves what goes over the network and rounds them.
        progress: wraps the steps of each epoch.
        on_epoch: is given each epoch when it is done.

    Raises:
        ModelError: the network is no classifier that can be trained.
        DataError: the samples cannot be used, are fewer than a batch, or their labels do not fit the classes.
        UserError: an argument is impossible, folders of classes permute the labels, or the checkpoint is damaged, of
            another training, or in use.
        ExtraMissing: Horovod is not installed.
        TrainingError: the loss is no longer a number, or instances are lost again and again.
        QuantkitError: the checkpoint cannot be written.
    """
    config = config or TrainingConfig()
    of_kind("model", model, Model, "which load_model() returns")
    of_kind("config", config, TrainingConfig, "such as TrainingConfig(epochs=5)")
    if classes is not None:
        classes = whole_number("classes", classes, 1, 10)
    parallel = DataParallel(instances, machines, kvstore, compress, workers)
    checkpoint = None if checkpoint is None else Path(checkpoint)
    load_for_training(train_data)
    names = folder_labels(train_data, validation_data, classes, classes_of(model))
    base = with_new_classes(model, classes, labels or names, config.seed)
    for data in (train_data, validation_data):
        check_order(data, base.labels)
    loaded = skipping(load_data(train_data), skip_bad)
    threads = feed_workers(workers, loaded, base.input_shape)
    samples = parallel.training_samples(loaded)
    validation = parallel.validation_samples(base, validation_data, skip_bad)
    if validation is not None and not are_labelled(validation.samples):
        raise DataError(f"{validation.name} has no class for each sample; give labelled samples (--val)")
    inputs = LoopInputs(samples, validation, config, threads.number, checkpoint)
    loop = inputs.loop(base, trainable_classifier(base, config))
    loop = replace(loop, identity=parallel.identity(loop))
    with claimed(checkpoint):
        begun = None if checkpoint is None or restart else read_checkpoint(checkpoint, loop.identity)
        reached = parallel.run(loop, begun, progress, on_epoch)
    result = result_of(model, base, loop, begun, reached)
    return replace(result, workers=threads if parallel.alone or workers is not None else None)


def with_new_classes(model: Model, classes: Optional[int], labels: Sequence[str], seed: int) -> Model:
    """The network that a training begins with; for the arguments see ``finetune``.

    Raises:
        ModelError: it is no classifier that can be trained.
        UserError: the labels are a text, or not as many as the classes.
    """
    own = classes_of(model)
    if isinstance(labels, str):
        raise UserError(f"labels is the text {labels!r}; give a list with a name for each class")
    if labels and len(labels) != (classes or own):
        raise UserError(f"{len(labels)} labels were given for {classes or own} classes; give one for each")
    base = model if classes is None else with_classes(model, classes, seed)
    return replace(base, labels=tuple(labels) or base.labels)


def trainable_classifier(model: Model, config: TrainingConfig) -> Trainable:
    """A classifier with what is trained of it.

    Raises:
        ModelError: it does not end with class scores.
        UserError: something to be frozen is not there, or nothing is left to learn.
    """
    return trainable(model.graph, last_layer(model.graph, model.name).name, config.freeze)


def result_of(
    model: Model,
    base: Model,
    loop: Loop,
    begun: Optional[Checkpoint],
    reached: Checkpoint,
) -> FineTuned:
    """What a training has made of a network.

    Args:
        model: the network as it was given.
        base: what the training began with.
        loop: the training.
        begun: where it went on from.
        reached: its last checkpoint.
    """
    params = {name: reached.best.get(name, value) for name, value in base.graph.params.items()}
    source = Source(base.source.network, "given", f"fine-tuned on {loop.feed.samples.name}")
    return FineTuned(
        replace(base, graph=replace(base.graph, params=params), source=source),
        loop.config,
        reached.epochs,
        reached.best_epoch,
        loop.feed.classes,
        model.name,
        model.source,
        (loop.feed.samples.name, loop.validation.name if loop.validation is not None else None),
        *reached.unused,
        len(begun.epochs) if begun else 0,
    )
