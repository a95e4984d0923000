"""How far a network's outputs are from FP32's, on a finer scale than a count of predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quantkit.extras import using


def log_probabilities(outputs: np.ndarray) -> np.ndarray:
    """The logarithms of the classes' probabilities, float64 of shape (images, classes).

    Args:
        outputs: logits of shape (images, ...), or probabilities if none is negative and each image's sum to 1.
    """
    with using("benchmark", "divergences"):
        from scipy.special import log_softmax

    flat = np.asarray(outputs, np.float64).reshape(len(outputs), -1)
    if (flat >= 0).all() and np.allclose(flat.sum(axis=1), 1, atol=1e-3):
        flat = np.log(np.maximum(flat, np.finfo(np.float32).tiny))
    return np.asarray(log_softmax(flat, axis=1))


def divergences(reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The Kullback-Leibler divergence of ``other`` from ``reference`` for each image, in nats, float64 (images,).

    Both are log probabilities of shape (images, classes).
    """
    return np.asarray((np.exp(reference) * (reference - other)).sum(axis=1))


def divergence(reference: np.ndarray, other: np.ndarray) -> float:
    """The mean over images of ``divergences``, in nats."""
    return float(divergences(reference, other).mean())


def noise_shares(reference: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> tuple[float, ...]:
    """The noise in each output of ``other`` as a share of the signal: E[(x - q)^2] / E[x^2].

    Outputs may have any kind and shape. An output that is 0 throughout counts as if its signal were 1.
    """
    shares = []
    for expected, actual in zip(reference, other, strict=True):
        signal, noise = np.asarray(expected, np.float64), np.asarray(expected, np.float64) - actual
        shares.append(float((noise**2).sum()) / (float((signal**2).sum()) or 1.0))
    return tuple(shares)


def balanced_noise(shares: Sequence[float], usual: Sequence[float]) -> float:
    """The mean over outputs of the noise in each, measured in the noise that is usual there.

    An output with much noise, such as a position in pixels beside a score, then does not hide what becomes of others.

    Args:
        shares: see ``noise_shares``.
        usual: those of the network all in INT8; an output without noise there counts as it is.
    """
    return float(np.mean([share / (own or 1.0) for share, own in zip(shares, usual, strict=True)]))
