"""What a network loses against FP32 on the same images, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Optional

import numpy as np

from quantkit.extras import using

_NORMAL_975 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Drop:
    """The loss in percentage points: of top-1 accuracy if images are labelled, else of agreement with FP32.

    ``low`` to ``high`` is a 95 % interval. ``reference`` and ``other`` are the shares of images, from 0 to 1, for which
    each network is right; without labels FP32 counts as right.
    """

    images: int
    labelled: bool
    reference: float
    other: float
    points: float
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
        return Drop(images, False, 1.0, 1 - share, 100 * share, 100 * interval.low, 100 * interval.high)
    before, after = reference == labels, other == labels
    lost, won = int((before & ~after).sum()), int((after & ~before).sum())
    first, second = (lost + 1) / (images + 2), (won + 1) / (images + 2)
    width = _NORMAL_975 * sqrt((first + second - (first - second) ** 2) / (images + 2))
    low, high = first - second - width, first - second + width
    return Drop(
        images,
        True,
        float(before.mean()),
        float(after.mean()),
        100 * (lost - won) / images,
        100 * max(low, -1.0),
        100 * min(high, 1.0),
    )
