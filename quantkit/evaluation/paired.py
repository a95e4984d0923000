"""Testing whether two networks differ by more than chance on the same images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from quantkit.errors import DataError
from quantkit.extras import using

Verdict = Literal["ahead", "behind", "not distinguishable"]
"""Where the first of two networks stands; neither is ahead where the difference is not significant."""

_SIGNIFICANCE = 0.05
_RESAMPLES = 10_000
_MEANS = 2_000
_DRAWN_TOGETHER = 1 << 16


@dataclass(frozen=True)
class Paired:
    """Two networks on the same images, each right or wrong about each of them.

    Attributes:
        images: the number of images.
        first_only: the number of images that only the first network is right about.
        other_only: the number of images that only the other network is right about.
        difference: the first network's share of correct images less the other's, from -1 to 1.
        low: the lower end of the difference's 95 % interval.
        high: the upper end.
        p_value: if both networks were equally good, the probability of a split between ``first_only`` and
            ``other_only`` at least as uneven as this one.
    """

    images: int
    first_only: int
    other_only: int
    difference: float
    low: float
    high: float
    p_value: float

    @property
    def verdict(self) -> Verdict:
        """Where the first network stands: ``ahead`` or ``behind`` if the difference is significant at 5 %."""
        if self.p_value >= _SIGNIFICANCE:
            return "not distinguishable"
        return "ahead" if self.difference > 0 else "behind"


def paired(first: np.ndarray, other: np.ndarray) -> Paired:
    """Compare two networks image by image.

    Only images that exactly one network is right about tell them apart. The p-value is that of McNemar's test in its
    exact, binomial form (McNemar 1947, "Note on the Sampling Error of the Difference Between Correlated Proportions
    or Percentages"). The interval is the percentile bootstrap's over images (Efron 1979, "Bootstrap Methods: Another
    Look at the Jackknife"). Only the counts of each kind of image in a resample matter, so they are drawn directly from
    the multinomial distribution. The interval is too narrow if few images tell the networks apart; the verdict
    therefore follows the test.

    Args:
        first: booleans of shape (images,): whether the first network is right about each image.
        other: the same for the other network, with the images in the same order.

    Raises:
        DataError: there are no images, or the numbers of images differ.
    """
    _check_same_images(first, other, "boolean")
    with using("benchmark", "tests of paired predictions"):
        from scipy.stats import binomtest

    images = len(first)
    won, lost = int(np.sum(first & ~other)), int(np.sum(other & ~first))
    p_value = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
    shares = np.array([won, lost, images - won - lost]) / images
    drawn = np.random.default_rng(0).multinomial(images, shares, _RESAMPLES)
    low, high = np.quantile((drawn[:, 0] - drawn[:, 1]) / images, [0.025, 0.975])
    return Paired(images, won, lost, (won - lost) / images, float(low), float(high), p_value)


def interval_verdict(low: float, high: float) -> Verdict:
    """Where a network stands by the interval of what it gains: nowhere if that contains 0."""
    if low > 0:
        return "ahead"
    return "behind" if high < 0 else "not distinguishable"


@dataclass(frozen=True)
class PairedMeans:
    """The mean difference of two networks' values for each image, first less other, and its 95 % interval."""

    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """Where the first network stands: ``ahead`` or ``behind`` if the interval does not contain 0."""
        return interval_verdict(self.low, self.high)


def paired_means(first: np.ndarray, other: np.ndarray) -> PairedMeans:
    """Compare two networks by a value of each image, such as the cosine with FP32's outputs.

    The interval is the percentile bootstrap's over images (Efron 1979).

    Args:
        first: real numbers of shape (images,); larger is better.
        other: the same for the other network, with the images in the same order.

    Raises:
        DataError: there are no images, or the numbers of images differ.
    """
    _check_same_images(first, other, "value")
    difference = np.asarray(first, np.float64) - other
    random = np.random.default_rng(0)
    size = len(difference)
    together = max(1, _DRAWN_TOGETHER // size)
    shapes = [(min(together, _MEANS - done), size) for done in range(0, _MEANS, together)]
    means = np.concatenate([difference[random.integers(0, size, shape)].mean(axis=1) for shape in shapes])
    low, high = np.quantile(means, [0.025, 0.975])
    return PairedMeans(float(difference.mean()), float(low), float(high))


def _check_same_images(first: np.ndarray, other: np.ndarray, what: str) -> None:
    if first.shape != other.shape or first.ndim != 1 or not first.size:
        raise DataError(
            f"one {what} an image is needed of both networks, not arrays of {first.shape} and {other.shape}; "
            "run both over the same images"
        )
