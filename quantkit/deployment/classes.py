"""What a deployment reads from class scores: the best classes, by their names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quantkit.bundle.manifest import Manifest
from quantkit.data.sample_noun import SampleNoun
from quantkit.errors import UserError
from quantkit.models.class_scores import is_row


def check_class_scores(manifest: Manifest, noun: SampleNoun) -> None:
    """Check that a network puts out class scores for each sample, which is called ``noun``.

    Raises:
        UserError: it does not, as its manifest says.
    """
    if not manifest.class_scores:
        outputs = ", ".join(f"{output.name!r} of shape {output.shape}" for output in manifest.outputs)
        advice = ", or, if the first is a row of class scores, quantize it again with --classes (class_scores=True)"
        raise UserError(
            f"the network {manifest.name!r} puts out no class scores but {outputs} for each {noun}; call predict()"
            + (advice if is_row(manifest.outputs[0].shape) else "")
        )


def best_classes(
    outputs: np.ndarray, are_scores: bool, labels: Sequence[str], top: int
) -> list[list[tuple[str, float]]]:
    """The classes with the largest scores, best first.

    Args:
        outputs: float32 (samples, classes, ...).
        are_scores: whether they are scores from 0 to 1; otherwise their softmax is.
        labels: the classes' names; empty: they are called by their indices.
        top: how many.
    """
    scores = outputs.reshape(len(outputs), -1) if len(outputs) else np.empty((0, 1), np.float32)
    if not are_scores:
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
    ranked = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return [
        [(labels[index] if labels else str(index), float(row[index])) for index in best]
        for row, best in zip(scores, ranked)
    ]
