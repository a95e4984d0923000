"""Measuring a suite of accuracy: all forms of a network over the same images, here or on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from math import prod
from typing import Optional, Union

import numpy as np

from quantkit.benchmark.accuracy.forms import FUSED, UNFUSED, Form, Unmade, quantized_forms, stock_forms
from quantkit.benchmark.accuracy.rows import PerImage, Row
from quantkit.benchmark.accuracy.suite import AccuracySuite, JudgedNetwork, configurations
from quantkit.bundle.network import network_of
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.batch_stream import BatchStream
from quantkit.data.sources import load_data
from quantkit.errors import DataError, EngineError, UserError
from quantkit.evaluation.evaluate import BATCH_SIZE
from quantkit.evaluation.joint_run import JointResult, JointRun, Role
from quantkit.evaluation.network import Network
from quantkit.fusion.fused_model import fuse_model
from quantkit.models.dataset import dataset
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.units import counted

_AnyForm = Union[Form, Unmade]

# What the parameters of forms that run side by side may hold, in bytes: each worker has them.
_TOGETHER = 2**29

# Each has a batch's activations besides.
_MOST_FORMS = 8


def opened(network: JudgedNetwork, suite: AccuracySuite) -> Model:
    """A network of a suite, loaded.

    Raises:
        QuantkitError: see ``load_model``.
        UserError: it has no trained weights, and so no accuracy, or its outputs are not one row of class scores.
    """
    model = load_model(
        network.model,
        weights=network.weights,
        input_shape=network.input_shape,
        preprocess=suite.steps(network),
        quiet=True,
    )
    if model.source.weights == "random":
        raise UserError(
            f"{network.model} has no trained weights here, and so no accuracy; give weights = 'FILE' in the suite"
        )
    fp32 = network_of(model)
    scores = fp32.class_scores(labelled=True)
    if not scores.yes or fp32.step_scores(labelled=True) is not None:
        why = "every step has a row of them" if scores.yes else scores.why
        raise UserError(
            f"the outputs of {network.model} are not one row of class scores ({why}); use quantkit evaluate for it"
        )
    return model


def network_rows(
    model: Model,
    network: JudgedNetwork,
    suite: AccuracySuite,
    progress: Progress = silent,
    executor: Executor = in_this_process,
) -> Iterator[Row]:
    """Measure a network of a suite in all forms.

    Args:
        model: the network, from ``opened``.
        network: its entry in the suite.
        suite: the suite.
        progress: wraps streams of batches.
        executor: where to run networks over many samples: in this process, or elsewhere.

    Raises:
        DataError: the samples cannot be used, or those that the network is judged on have no labels.
        QuantkitError: the network cannot be quantized.
    """
    fp32, samples = network_of(model), load_data(suite.data[network.data].test)
    stream = BatchStream(
        samples, fp32.preparation, fp32.input_shape, BATCH_SIZE, suite.images, prod(fp32.output_shapes[0])
    )
    if next(iter(replace(stream, limit=1))).labels is None:
        raise DataError(f"the samples of {stream.name} have no labels; give them in labels.csv, or as y in the .npz")
    for group in _groups(_forms(model, network, suite, progress, executor)):
        yield from _measured(fp32, group, stream, progress, executor)


def _forms(
    model: Model, network: JudgedNetwork, suite: AccuracySuite, progress: Progress, executor: Executor
) -> Iterator[_AnyForm]:
    """All forms, of which the first is FP32 as it is."""
    data = suite.data[network.data]
    calibration = dataset(model, data.calibration)
    yield Form(UNFUSED, model.graph)
    source = fuse_model(model, calibration)
    yield Form(FUSED, source.graph)
    chosen = configurations(suite.presets, suite.algorithms)
    for count in data.calibration_samples:
        samples = calibration.subset(count)
        yield from quantized_forms(source, samples, suite.methods, chosen, progress, executor)
        yield from stock_forms(source, samples, suite.stock_modes)


def _groups(forms: Iterable[_AnyForm]) -> Iterator[list[_AnyForm]]:
    """Forms in their order, as many together as may run side by side."""
    group: list[_AnyForm] = []
    held = 0
    for form in forms:
        size = sum(value.nbytes for value in form.graph.params.values()) if isinstance(form, Form) else 0
        if group and (held + size > _TOGETHER or len(group) == _MOST_FORMS):
            yield group
            group, held = [], 0
        group.append(form)
        held += size
    if group:
        yield group


def _measured(
    fp32: Network, forms: Sequence[_AnyForm], stream: BatchStream, progress: Progress, executor: Executor
) -> Iterator[Row]:
    """The rows of some forms, which run over the images beside FP32: all at once, or one by one where one fails."""
    runnable = [form for form in forms if isinstance(form, Form)]
    failure: Optional[str] = None
    images: Iterator[Optional[PerImage]]
    try:
        images = iter(_run(fp32, runnable, stream, progress, executor))
    except EngineError as error:
        if len(runnable) > 1:
            for form in forms:
                yield from _measured(fp32, [form], stream, progress, executor)
            return
        images, failure = repeat(None), str(error)
    for form in forms:
        if isinstance(form, Form):
            count, seconds = form.calibration_samples, form.seconds
            yield Row(fp32.name, form.name, count, next(images), seconds, failure=failure)
        else:
            yield Row(fp32.name, form.name, form.calibration_samples, failure=form.failure)


def _run(
    fp32: Network, forms: Sequence[Form], stream: BatchStream, progress: Progress, executor: Executor
) -> list[PerImage]:
    """What each image says of each of the forms."""
    # FP32 itself is there anyway, unless it is alone.
    others = [form for form in forms if form.name != UNFUSED] or forms
    if not others:
        return []
    roles: dict[Role, Form] = {f"form{number}" if number else "network": form for number, form in enumerate(others)}
    networks = {role: replace(fp32, name=form.name, graph=form.graph) for role, form in roles.items()}
    run = JointRun({**networks, "reference": fp32}, stream.batch_size, stream.name)
    found = executor(run, stream, progress, f"{fp32.name}: {counted(len(others), 'form')} on {stream.name}")
    same = np.ones(found.images, bool)
    own = PerImage(found.values["reference", "top1"], found.values["reference", "top5"], same, same.astype(np.float64))
    measured = iter([_per_image(found, role) for role in roles])
    return [own if form.name == UNFUSED else next(measured) for form in forms]


def _per_image(found: JointResult, role: Role) -> PerImage:
    values = found.values
    return PerImage(values[role, "top1"], values[role, "top5"], values[role, "same"], values[role, "cosine"])
