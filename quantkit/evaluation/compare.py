"""Comparing two forms of a network by their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import tee

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.data.batches import Batch
from quantkit.evaluation.agreement import Agreement, Outputs, agreement
from quantkit.evaluation.perplexity import cross_entropies, perplexity_agreement, scale_of
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.models.dataset import BATCH_SIZE, CalibrationData, batch_size_of, dataset, steps
from quantkit.progress import Progress, silent


def compare(
    source: FusedModel,
    other: Graph,
    samples: CalibrationData,
    progress: Progress = silent,
    watch: Callable[[np.ndarray, Outputs, Outputs], object] = lambda data, expected, computed: None,
) -> Agreement:
    """Run the original network and another form of it over samples and compare their outputs.

    Where every step of a sequence has class scores and a label, their perplexities are compared, too. ``watch`` is
    shown each batch and the outputs of both for it.
    """
    reference, scores = source.model.graph, source.step_scores
    chosen = dataset(source.model, samples)
    classes = source.fused.shapes[reference.outputs[0]][-1] if scores is not None else None
    entropies: list[tuple[np.ndarray, np.ndarray]] = []
    size = batch_size_of(chosen)

    def pairs() -> Iterator[tuple[Outputs, Outputs]]:
        stream: Iterator[Batch] = iter(
            progress(chosen.batches(BATCH_SIZE, classes), steps(chosen), "comparing with FP32")
        )
        kept, *copies = tee(stream, 3)
        first, second = ((batch.data for batch in copy) for copy in copies)
        runs = zip(kept, outputs_of(reference, first, size), outputs_of(other, second, size))
        for batch, expected, computed in runs:
            if scores is not None and batch.labels is not None and batch.labels.ndim > 1:
                scale, labels = scale_of(reference, expected[0]), batch.labels
                entropies.append(
                    (cross_entropies(computed[0], labels, scale), cross_entropies(expected[0], labels, scale))
                )
            watch(batch.data, expected, computed)
            yield expected, computed

    is_scores = source.class_scores.yes or (scores is not None and scores.yes)
    names = list(map(str, reference.outputs))
    measured = agreement(pairs(), names, is_scores, source.model.input_shape[0] if scores is not None else 0)
    if not entropies:
        return measured
    return replace(measured, perplexity=perplexity_agreement(*map(np.concatenate, zip(*entropies))))
