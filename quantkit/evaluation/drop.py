"""What a network loses against FP32 on the same images, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Optional

import numpy as np

from quantkit.evaluation.perplexity import perplexity_agreement
from quantkit.extras import using

_NORMAL_975 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Drop:
    """What a network loses against a reference.

    Attributes:
        images: the number of images, or sequences.
        measure: what the loss is of: top-1 accuracy where images have labels, else agreement with FP32; perplexity
            where every step of a sequence has a label; of a task, such as detection, its first score.
        reference: the share of images, from 0 to 1, for which the reference is right, as it is for all without labels;
            or its perplexity, or its score.
        other: the same of the network.
        loss: in percentage points; of perplexity, its rise in percent.
        low: the lower end of the 95 % interval of ``loss``.
        high: the upper end.
    """

    images: int
    measure: str
    reference: float
    other: float
    loss: float
    low: float
    high: float


def measure_drop(reference: np.ndarray, other: np.ndarray, labels: Optional[np.ndarray]) -> Drop:
    """Compare predicted classes, integers of shape (images,), image by image.

    With labels, the interval is that of Bonett and Price for a difference of paired proportions ("Adjusted Wald
    confidence intervals for a difference of binomial proportions based on paired data", Journal of Educational and
    Behavioral Statistics 37, 2012), which has a width even if no image changed. Without labels, it is the exact
    interval of Clopper and Pearson for a proportion (Biometrika 26, 1934).
    """
    images = len(reference)
    if labels is None:
        changed = int((reference != other).sum())
        with using("benchmark", "intervals of proportions"):
            from scipy.stats import binomtest

        interval = binomtest(changed, images).proportion_ci()
        share = changed / images
        return Drop(images, "agreement", 1.0, 1 - share, 100 * share, 100 * interval.low, 100 * interval.high)
    before, after = reference == labels, other == labels
    lost, won = int((before & ~after).sum()), int((after & ~before).sum())
    first, second = (lost + 1) / (images + 2), (won + 1) / (images + 2)
    width = _NORMAL_975 * sqrt((first + second - (first - second) ** 2) / (images + 2))
    low, high = first - second - width, first - second + width
    return Drop(
        images,
        "top-1",
        float(before.mean()),
        float(after.mean()),
        100 * (lost - won) / images,
        100 * max(low, -1.0),
        100 * min(high, 1.0),
    )


def measure_rise(reference: np.ndarray, other: np.ndarray) -> Drop:
    """Compare the perplexities of two networks on the same sequences.

    Args:
        reference: cross-entropies in nats a step, float64 of shape (sequences,); see ``perplexity.cross_entropies``.
        other: those of the other network.

    Raises:
        DataError: there are no sequences, or their numbers differ.
    """
    compared = perplexity_agreement(other, reference)
    change = compared.change
    return Drop(
        len(reference), "perplexity", compared.reference, compared.network, change.change, change.low, change.high
    )
