"""Quantization-aware training: an INT8 network learns what FP32 computes, with its own rounding in the loop.

The forward pass has the INT8 network's arithmetic, see ``simulated.training_graph``; gradients pass roundings straight
through, and ranges are learned. What is learned are the scores of the FP32 network, so that samples need no labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Optional, Union

import numpy as np

from quantkit.bundle.quantized_model import QuantizedModel, measure_agreement
from quantkit.data.samples import Samples, skipping, unlabelled
from quantkit.data.sources import DataSource, load_data
from quantkit.errors import UserError
from quantkit.kinds import of_kind
from quantkit.models.dataset import CalibrationData
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.quantization.algorithms.apply import AdjustedNetwork
from quantkit.quantization.algorithms.stage import with_pre_add_ranges
from quantkit.training.augmentation import NONE
from quantkit.training.checkpoint import claimed, read_checkpoint
from quantkit.training.class_folders import check_order
from quantkit.training.config import TrainingConfig
from quantkit.training.data_parallel import DataParallel
from quantkit.training.feed import readable_in_any_order
from quantkit.training.feed_workers import feed_workers
from quantkit.training.head import classes_of
from quantkit.training.launch import KVStoreName
from quantkit.training.loop import EpochCallback, ignore_epoch
from quantkit.training.loop_inputs import LoopInputs
from quantkit.training.machines import Machines
from quantkit.training.simulated.trained_form import TrainedForm, trained_form
from quantkit.training.simulated.training_graph import SimulatedTraining, training_graph
from quantkit.training.teacher import Teacher
from quantkit.training.trainable import Trainable, before_softmax
from quantkit.training.trained_int8 import TrainedInt8, with_record
from quantkit.training.validation import validated

QUANTIZATION_AWARE = TrainingConfig(epochs=6, optimizer="adam", weight_decay=0.0, warmup_epochs=0.0, augmentation=NONE)
"""The default: images as for inference. Steps change weights by shares of their channel's magnitude."""


def train_quantized(
    quantized: QuantizedModel,
    train_data: DataSource,
    validation_data: Optional[CalibrationData] = None,
    *,
    config: TrainingConfig = QUANTIZATION_AWARE,
    distill: bool = True,
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
) -> TrainedInt8:
    """Train an INT8 network with its rounding in the loop, towards the scores of its FP32 original.

    What is learned are weights, biases and ranges. Scales of weights follow from the weights, batch normalization is
    folded. The result is an ordinary INT8 network, which computes the integers that were trained.

    Args:
        quantized: the network, a classifier; best one of the preset ``best``.
        train_data: samples: anything that ``load_data`` takes. They need no labels if they are to ``distill``.
        validation_data: other samples: the epoch after which most of them have the class that FP32 sees is the result,
            and the network as it was where no epoch is better. None: the last epoch is.
        config: how to train. ``freeze`` names parameters: weights, biases, and ``*_log_range``.
        distill: learn the scores of FP32; else the labels.
        workers: threads that decode and vary images, 0 to 256; None: as ``finetune``.
        skip_bad: how many training samples, and how many validation samples, may be left out that cannot be read or
            used.
        checkpoint: a file for the state after each epoch, from which an interrupted training goes on.
        restart: begin anew, even if there is a checkpoint.
        instances: train in several processes, as ``finetune`` does.
        machines: those that train together.
        kvstore: through what instances add up gradients.
        compress: with ``horovod``, send gradients as float16.
        progress: wraps the steps of each epoch.
        on_epoch: is given each epoch when it is done.

    Raises:
        ModelError: the network is no classifier, or has INT8 layers that cannot be trained.
        DataError: the samples cannot be used, or are fewer than a batch.
        UserError: an argument is impossible, folders of classes permute the labels, or the checkpoint is damaged, of
            another training, or in use.
        ExtraMissing: Horovod is not installed.
        TrainingError: the loss is no longer a number, or instances are lost again and again.
        QuantkitError: the checkpoint cannot be written.
    """
    of_kind("quantized", quantized, QuantizedModel, "which quantize() returns")
    of_kind("config", config, TrainingConfig, "such as TrainingConfig(epochs=2, optimizer='adam')")
    if distill and config.label_smoothing:
        raise UserError(
            "--label-smoothing (label_smoothing) is for labels; leave it out, or give --no-distill (distill=False)"
        )
    if distill and compress:
        raise UserError(
            "what scores of FP32 teach is too small for float16; leave --compress (compress) out, or learn labels "
            "(--no-distill, distill=False)"
        )
    parallel = DataParallel(instances, machines, kvstore, compress, workers)
    model, path = quantized.source.model, None if checkpoint is None else Path(checkpoint)
    classes = classes_of(model)
    if not distill:
        check_order(train_data, model.labels)
    simulated = training_graph(quantized.network, model.input_shape)
    form, network = trainable_of(simulated, config.freeze)
    loaded = skipping(load_data(train_data), skip_bad)
    threads = feed_workers(workers, loaded, model.input_shape)
    samples = parallel.training_samples(loaded)
    validation = parallel.validation_samples(model, validation_data, skip_bad)
    inputs = LoopInputs(samples, validation, config, threads.number, path)
    loop = inputs.loop(model, network, teacher_of(model), distill)
    loop = replace(loop, identity=parallel.identity(loop))
    parallel.check(loop)
    before = None
    with claimed(path):
        begun = None if path is None or restart else read_checkpoint(path, loop.identity)
        if validation is not None:
            unchanged = network.graph, network.graph.params
            before = validated(*unchanged, validation, config.batch_size, classes, loop.teacher)
        reached = parallel.run(loop, begun, progress, on_epoch)
    # Instances have read them in any order, with some left out; so must this process now.
    samples = samples if samples.independent else readable_in_any_order(samples)
    judged = reached.epochs[reached.best_epoch - 1].validated
    better = before is None or judged is None or judged.better_than(before)
    result = _trained(quantized, simulated, form.values(reached.best), samples) if better else quantized
    if result.agreement is None:
        result = measure_agreement(result, unlabelled(samples))
    trained = TrainedInt8(
        result,
        config,
        distill,
        reached.epochs,
        reached.best_epoch if better else 0,
        before,
        (samples.name, validation.name if validation is not None else None),
        *reached.unused,
        len(begun.epochs) if begun else 0,
        threads if parallel.alone or workers is not None else None,
    )
    return with_record(trained)


def teacher_of(model: Model) -> Teacher:
    """The FP32 original as the one that an INT8 network learns from."""
    scores = before_softmax(model.graph, model.graph.outputs[0])
    return Teacher(model.graph.with_outputs([scores]).pruned())


def trainable_of(simulated: SimulatedTraining, freeze: Sequence[str]) -> tuple[TrainedForm, Trainable]:
    """A simulated network in the form in which it is trained, and what is trained of it.

    Args:
        simulated: the network.
        freeze: globs over the names of parameters that stay as they are.

    Raises:
        UserError: nothing is called so, or nothing is left to learn.
    """
    learned = dict(simulated.trained)
    for pattern in freeze:
        frozen = [name for name in simulated.graph.params if fnmatchcase(name, pattern)]
        if not frozen:
            raise UserError(
                f"nothing to freeze is called {pattern!r}; the network has parameters such as "
                f"{next(iter(simulated.trained), '')!r}"
            )
        for name in frozen:
            learned.pop(name, None)
    if not learned:
        raise UserError("all parameters are frozen; leave some to be trained")
    form = trained_form(simulated.graph, {name: each for name, each in learned.items() if each.kind != "range"})
    scores = before_softmax(form.graph, form.graph.outputs[0])
    names = frozenset(form.in_units.get(name, name) for name in learned)
    return form, Trainable(form.graph.with_outputs([scores]).pruned(), names)


def _trained(
    quantized: QuantizedModel,
    simulated: SimulatedTraining,
    params: Mapping[str, np.ndarray],
    samples: Samples,
) -> QuantizedModel:
    """The INT8 network with trained parameters; its agreement is to be measured anew."""
    source, network = quantized.source, simulated.quantized_graph(params)
    adjusted = AdjustedNetwork(network, quantized.algorithms, network.graph)
    complete = with_pre_add_ranges(source, quantized.table, adjusted, unlabelled(samples))
    note = f"trained with its quantization on {samples.name}"
    model = replace(source.model, notes=(*source.model.notes, note))
    # What a goal or timings have chosen was chosen for the network before.
    return replace(
        quantized,
        source=replace(source, model=model),
        network=complete.network,
        config=replace(quantized.config, goal=None, never_slower=False, speed_batch=1),
        agreement=None,
        drift=None,
        mixed=None,
        speed=None,
    )
