"""Analysing a bundle: comparing the INT8 and the FP32 network on images, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Optional, Union

import numpy as np

from quantkit.bundle import Bundle, read_bundle
from quantkit.calibration.table import CalibrationTable
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.sample_noun import sample_noun
from quantkit.diagnosis.layers.analysis import Analysis, LayerError
from quantkit.diagnosis.layers.calibration import audit, calibration_digests
from quantkit.diagnosis.layers.comparison_run import ComparisonRun
from quantkit.diagnosis.layers.findings import findings
from quantkit.diagnosis.layers.reference import calibration_of, fused_reference
from quantkit.diagnosis.layers.tensor import TensorUse
from quantkit.diagnosis.layers.walk import Comparison, channel_shifts
from quantkit.errors import UserError
from quantkit.ir.graph import Graph, Tensor
from quantkit.models.dataset import CalibrationData, dataset
from quantkit.models.load import NetworkSpec
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.quantization.plan import operator_name
from quantkit.quantization.ptq_config import NO_ALGORITHMS
from quantkit.quantization.simulation.simulator import int8_network
from quantkit.tasks.agreement import agreement_of

DEFAULT_IMAGES = 100

# A batch holds the pixels of at most 8 images of 224 x 224. Its number of images is even, since halves are compared.
_PIXELS = 8 * 224 * 224
_LARGEST_BATCH = 64


def analyze(
    bundle: Union[Bundle, str, Path],
    evaluation_data: CalibrationData,
    reference: Union[Model, NetworkSpec, None] = None,
    num_samples: Optional[int] = None,
    progress: Progress = silent,
    executor: Executor = in_this_process,
) -> Analysis:
    """Analyse as ``api.analyze`` does, wherever networks run.

    Args:
        bundle: see ``api.analyze``, as the next four.
        evaluation_data: what to compare on.
        reference: the FP32 network.
        num_samples: the number of samples to use.
        progress: wraps the stream of batches.
        executor: where to run the networks: in this process, or elsewhere.

    Raises:
        QuantkitError: see ``api.analyze``.
    """
    opened = bundle if isinstance(bundle, Bundle) else read_bundle(bundle)
    table = calibration_of(opened)
    settings, shape = opened.manifest.settings, opened.manifest.input.shape
    algorithms = NO_ALGORITHMS if settings is None else settings.algorithms
    if algorithms.equalize:
        raise UserError(
            f"the tensors of {opened.directory} were scaled by equalization, so they cannot be compared with FP32's; "
            "analyse the network quantized without it"
        )
    if not opened.network.int8_weighted:
        raise UserError(
            f"no layer of {opened.directory} runs in INT8, so it does what FP32 does; `quantkit explain` says why"
        )
    every = dataset(opened.model, evaluation_data)
    number = DEFAULT_IMAGES if num_samples is None else num_samples
    chosen = every.subset(number, at_most=num_samples is None)
    source = fused_reference(opened, reference, every)
    stream = chosen.stream(max(2, min(_LARGEST_BATCH, _PIXELS // prod(shape[1:]) // 2 * 2)))
    shifts: dict[Tensor, np.ndarray] = {}
    if algorithms.channel_shift:
        first = next(chosen.batches(stream.batch_size))
        shifts = channel_shifts(source.fused.graph, int8_network(opened.network), first.data)
    run = ComparisonRun(
        source.fused.graph,
        opened.network,
        shifts,
        opened.manifest.input.layout,
        tuple(str(output) for output in source.model.graph.outputs),
        opened.manifest.class_scores or opened.manifest.step_scores,
        0 if source.step_scores is None else shape[0],
        agreement_of(opened.model),
    )
    found = executor(run, stream, progress, "comparing layer by layer")
    comparison, agreed = found.comparison, found.agreement
    uses = _uses(comparison, table)
    layers = tuple(_layer(source.fused.graph, comparison, name, uses) for name in comparison.layers)
    tensors = tuple(uses.values())
    noun = sample_noun(shape)
    audited = audit(table, tensors, found.input, calibration_digests(table, every))
    return Analysis(
        network=opened.manifest.name,
        data=every.name,
        images=agreed.images,
        noun=noun,
        agreement=agreed,
        layers=layers,
        tensors=tensors,
        calibration=audited,
        findings=findings(layers, tensors, audited, agreed.images, algorithms.refit or algorithms.rounding, noun),
    )


def _uses(comparison: Comparison, table: CalibrationTable) -> dict[str, TensorUse]:
    """How each tensor fits into its integers, by name."""
    uses = {}
    for tensor, watch in comparison.tensors.items():
        name = str(tensor)
        known = None if tensor in comparison.shifts else table.ranges.get(name)
        uses[name] = watch.use(name, table.method, None if known is None else known.largest)
    return uses


def _layer(graph: Graph, comparison: Comparison, name: str, uses: Mapping[str, TensorUse]) -> LayerError:
    sums = comparison.layers[name]
    return LayerError(
        name=name,
        operator=operator_name(graph.by_name[name]),
        accumulated=sums.accumulated.result(),
        own=sums.own.result(),
        weights=None if sums.weights is None else sums.weights.result(),
        tensors=sums.tensors.result(),
        without_vnni=sums.without_vnni.result(),
        overflow=sums.overflow.result(),
        shifted=Tensor(name) in comparison.shifts,
        output=uses.get(name),
    )
