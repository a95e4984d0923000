"""Cross-entropy and perplexity of class scores at every step of a sequence, as of language models."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from quantkit.errors import DataError
from quantkit.evaluation.paired import Verdict, interval_verdict, paired_means
from quantkit.ir.graph import Graph
from quantkit.ir.operators import computing
from quantkit.units import percent

Scale = Literal["logits", "probabilities", "log probabilities"]
"""What scores are: the operator that ends the network tells, or their values."""

_SCALES: dict[str, Scale] = {
    "softmax": "probabilities",
    "SoftmaxActivation": "probabilities",
    "SoftmaxOutput": "probabilities",
    "log_softmax": "log probabilities",
}
# The exponential of more is beyond float64.
_MOST_NATS = 700.0

# How far the sum of probabilities may be from 1.
_NEAR_ONE = 1e-3


@dataclass(frozen=True)
class StepAccuracy:
    """How well a network predicts the class of every step.

    Attributes:
        samples: the number of sequences.
        steps: of each.
        cross_entropy: the mean over steps of the negative logarithm of the right class's probability, in nats.
        top1: the share of steps, from 0 to 1, whose class has the highest score.
        scale: what the scores are; see ``scale_of``.
    """

    samples: int
    steps: int
    cross_entropy: float
    top1: float
    scale: Scale

    @property
    def perplexity(self) -> float:
        """The exponential of the cross-entropy: as uncertain as among so many equally likely classes."""
        return _exponential(self.cross_entropy)

    @property
    def text(self) -> str:
        """The measures in words."""
        return (
            f"perplexity {self.perplexity:.4g}, cross-entropy {self.cross_entropy:.4f} nats a step, top-1 "
            f"{percent(self.top1)} of steps"
        )

    @property
    def document(self) -> dict[str, Any]:
        """The measures as JSON values."""
        return {
            "cross_entropy": self.cross_entropy,
            "perplexity": self.perplexity,
            "top1": self.top1,
            "steps": self.steps,
            "scale": self.scale,
        }


@dataclass(frozen=True)
class PerplexityChange:
    """The change of perplexity from another network's in percent, and its 95 % interval; less is better."""

    change: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """Where the first network stands: ``ahead`` or ``behind`` if the interval does not contain 0."""
        return interval_verdict(-self.high, -self.low)

    @property
    def text(self) -> str:
        """The change and its interval in words."""
        return f"{self.change:+.2f} % [{self.low:+.2f}, {self.high:+.2f}]"


@dataclass(frozen=True)
class PerplexityAgreement:
    """The perplexity of a reference and of another network on the same sequences, and the change."""

    reference: float
    network: float
    change: PerplexityChange

    @property
    def text(self) -> str:
        """The measures in words."""
        return f"perplexity {self.network:.4g}, the reference's {self.reference:.4g}: {self.change.text}"

    @property
    def document(self) -> dict[str, float]:
        """The measures as JSON values; the change in percent."""
        return {"reference": self.reference, "network": self.network, **asdict(self.change)}


def scale_of(graph: Graph, scores: np.ndarray) -> Scale:
    """What the first output's scores are: of softmax probabilities, of log_softmax their logarithms, else logits.

    Scores of which none is negative, and whose sum is 1 at every step, are probabilities whatever has computed them.

    Args:
        graph: the network.
        scores: those of a batch, of shape (samples, steps, classes).
    """
    node = computing(graph, graph.outputs[0])
    scale = "logits" if node is None else _SCALES.get(node.op, "logits")
    if scale == "logits" and scores.min() >= 0 and np.abs(scores.sum(axis=-1) - 1).max() < _NEAR_ONE:
        return "probabilities"
    return scale


def cross_entropies(scores: np.ndarray, labels: np.ndarray, scale: Scale) -> np.ndarray:
    """The cross-entropy of each sequence in nats per step, float64 of shape (samples,).

    Args:
        scores: of shape (samples, steps, classes).
        labels: the classes, integers of shape (samples, steps).
        scale: what the scores are.
    """
    values = np.asarray(scores, np.float64)
    if scale == "probabilities":
        values = np.log(np.maximum(values, np.finfo(np.float32).tiny))
    # Logarithms of probabilities, too, are brought to a sum of one, which changes their rounding only.
    largest = values.max(axis=-1, keepdims=True)
    total = largest[..., 0] + np.log(np.exp(values - largest).sum(axis=-1))
    right = np.take_along_axis(values, labels[..., None], axis=-1)[..., 0]
    entropies: np.ndarray = (total - right).mean(axis=-1)
    return entropies


def step_hits(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The share of each sequence's steps whose class has the highest score, float64 of shape (samples,)."""
    shares: np.ndarray = (scores.argmax(axis=-1) == labels).mean(axis=-1)
    return shares


def perplexity_change(first: np.ndarray, other: np.ndarray) -> PerplexityChange:
    """Compare two networks sequence by sequence.

    The ratio of two perplexities is the exponential of the difference of mean cross-entropies; its interval is the
    percentile bootstrap's over sequences (Efron 1979), the same ones for both networks.

    Args:
        first: cross-entropies of shape (samples,), see ``cross_entropies``.
        other: those of the other network for the same sequences.

    Raises:
        DataError: there are no sequences, or their numbers differ.
    """
    means = paired_means(first, other)
    change, low, high = (100 * (_exponential(each) - 1) for each in (means.difference, means.low, means.high))
    return PerplexityChange(change, low, high)


def perplexity_agreement(network: np.ndarray, reference: np.ndarray) -> PerplexityAgreement:
    """Compare a network's perplexity with its reference's; the arguments are those of ``perplexity_change``."""
    change = perplexity_change(network, reference)
    expected, computed = (_exponential(float(each.mean())) for each in (reference, network))
    return PerplexityAgreement(expected, computed, change)


def check_step_labels(labels: np.ndarray, per_step: bool, name: str) -> None:
    """Check that labels are of samples or of steps, as the scores of the network ``name`` are.

    Raises:
        DataError: they are not.
    """
    if per_step and labels.ndim == 1:
        raise DataError(
            f"{name} puts out scores for every step, and the data have one label for each sample; give y of shape "
            "(samples, steps), such as the next tokens"
        )
    if not per_step and labels.ndim == 2:
        raise DataError(
            f"the data have a label for every step, and the first output of {name} has no row of scores for every "
            "step; give one label for each sample"
        )


def _exponential(value: float) -> float:
    return math.exp(min(value, _MOST_NATS))
