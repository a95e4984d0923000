"""The numeric gate: a fused network must compute what the unfused one does, on real input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from quantkit.engine.stream import outputs_of
from quantkit.errors import FusionError
from quantkit.graph.graph import Graph, Tensor

# Reordered FP32 sums differ by some 1e-6 of a tensor's largest value; a wrong rewrite by 1e-2 and more.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class FusionCheck:
    """What the comparison found: ``difference`` is the largest deviation over the largest value of any output."""

    samples: int
    difference: float
    changed_predictions: int


def check_fusion(original: Graph, fused: Graph, batches: Sequence[np.ndarray], batch_size: int) -> FusionCheck:
    """Run both networks and compare every output.

    Args:
        original: the unfused network.
        fused: the fused one in the form that the engine runs.
        batches: real input, float32.
        batch_size: of the largest batch.

    Raises:
        FusionError: an output deviates by more than ``TOLERANCE``, or a prediction changes; the message
            names the first tensor that is wrong.
    """
    difference, changed, samples = 0.0, 0, 0
    pairs = zip(outputs_of(original, batches, batch_size), outputs_of(fused, batches, batch_size))
    for expected, found in pairs:
        samples += len(expected[0])
        changed += int((predictions(expected[0]) != predictions(found[0])).sum())
        difference = max(difference, *(relative_difference(a, b) for a, b in zip(expected, found)))
    if difference > TOLERANCE or changed:
        raise FusionError(
            f"the fused network deviates from the unfused one by {difference:.2g} of the largest value and changes "
            f"{changed} of {samples} predictions; the first wrong tensor is {_first_wrong(original, fused, batches[0])!r}. "
            "Exclude nothing and report it: no INT8 network is made from a wrong FP32 one"
        )
    return FusionCheck(samples, difference, changed)


def predictions(output: np.ndarray) -> np.ndarray:
    """The index of the largest value of each sample's output, flattened."""
    return output.reshape(len(output), -1).argmax(axis=1)


def relative_difference(expected: np.ndarray, found: np.ndarray) -> float:
    """The largest absolute deviation over the largest absolute value; infinite where a value is NaN."""
    scale = float(np.abs(expected).max()) or 1.0
    deviation = float(np.abs(expected - found).max()) / scale
    return deviation if np.isfinite(deviation) else float("inf")


def _first_wrong(original: Graph, fused: Graph, batch: np.ndarray) -> str:
    common: Iterable[Tensor] = [node.output for node in fused.nodes if node.name in original.by_name]
    for tensor in common:
        expected, found = (
            next(outputs_of(graph.with_outputs([tensor]).pruned(), [batch], len(batch)))[0] for graph in (original, fused)
        )
        if relative_difference(expected, found) > TOLERANCE:
            return str(tensor)
    return str(original.outputs[0])
