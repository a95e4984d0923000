"""Comparing a network's outputs in MXNet and in another engine, image by image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import tee
from typing import Optional

import numpy as np

from quantkit.backends.base import Session, sole_input
from quantkit.backends.mxnet.stream import outputs_of
from quantkit.errors import EngineError
from quantkit.evaluation.agreement import Outputs, cosines, same_top1
from quantkit.evaluation.measure import Score
from quantkit.extras import using
from quantkit.ir.graph import Graph
from quantkit.tasks.agreement import TaskAgreement
from quantkit.tasks.box_agreement import BoxAgreement

STEPS = 127
"""Steps of 8 bits from 0 to an output's largest value."""

LEAST_COSINE = 0.998
"""The mean cosine that the outputs of two engines need, or that of MXNet's INT8 network with FP32 if it is lower.

Engines round to the same integers, except for values halfway between two of them and where tensors are added. Both
differences are noise of the size of a step, like quantization itself. An engine may add as much noise to an output as
quantization did, but no more.
"""

MOST_CHANGED = 0.05
"""The share of images whose top-1 the other engine may change, or the share that INT8 changes if that is larger."""

LEAST_SCORE = 0.95
"""The score of a task that the predictions of the other engine need, or that of INT8 with FP32 if it is lower."""

MEAN_OVERLAP = 0.9
"""The mean overlap that the boxes of the other engine need with those of MXNet.

mAP takes boxes for the same from an overlap of one half on: alone it would pass boxes that are decoded wrongly.
"""

SIGNIFICANCE = 0.01
"""The check fails if a count of changed images at least as large is less probable than this at the allowed share.

With ``MOST_CHANGED``, 1 changed image never fails; of 4 images it takes 3, of 32 it takes 6, of 100 it takes 12.
"""


@dataclass(frozen=True)
class Demand:
    """What an engine's outputs must keep: the mean cosine, and the top-1 of all images but a share ``changed``.

    Of a task it is the ``score`` of its predictions against MXNet's, and of boxes the mean ``overlap``, too.
    """

    cosine: float = LEAST_COSINE
    changed: float = MOST_CHANGED
    score: float = LEAST_SCORE
    overlap: float = MEAN_OVERLAP


@dataclass(frozen=True)
class OutputParity:
    """How an engine's outputs compare with MXNet's.

    ``same`` is the number of images with the same top-1, None if the outputs are not class scores. ``cosine`` is the
    lowest mean cosine of any output. ``steps`` is the largest deviation of any output, in 127ths of the image's largest
    value of that output. ``score`` is that of the task, None without one; ``unordered`` says that outputs are lists of
    predictions, whose order may differ. ``boxes`` is how MXNet's detections lie in the engine, None where it has none.
    """

    images: int
    same: Optional[int]
    cosine: float
    steps: float
    demand: Demand = Demand()
    score: Optional[Score] = None
    unordered: bool = False
    boxes: Optional[BoxAgreement] = None

    @property
    def judged_by_score(self) -> bool:
        """Whether outputs are lists of predictions that the score of the task tells more of than their values."""
        return self.unordered and self.score is not None and self.score.high is not None

    @property
    def ok(self) -> bool:
        """Whether the engine computes the same network.

        By cosine, and by top-1 or the score of the task as far as the images can tell; where there is a score, lists of
        predictions need no cosine. Boxes need an overlap as well.
        """
        with using("benchmark", "tests of outputs"):
            from scipy.stats import binom

        changed = 0 if self.same is None else self.images - self.same
        likelihood = float(binom.sf(changed - 1, self.images, self.demand.changed))
        most = None if self.score is None else self.score.high
        overlap = None if self.boxes is None else self.boxes.overlap
        return (
            (self.cosine >= self.demand.cosine or self.judged_by_score)
            and likelihood >= SIGNIFICANCE
            and (most is None or most >= self.demand.score)
            and (overlap is None or overlap >= self.demand.overlap)
        )


def output_parity(
    graph: Graph,
    session: Session,
    batches: Iterable[np.ndarray],
    batch_size: int,
    class_scores: bool,
    demand: Demand = Demand(),
    task: Optional[TaskAgreement] = None,
) -> OutputParity:
    """Run both engines over batches of at most ``batch_size`` images and compare their outputs.

    Args:
        graph: the bundle's network, as MXNet runs it.
        session: its ONNX file in another engine.
        batches: the network's input, float32.
        batch_size: the size of the largest batch.
        class_scores: whether the first output is a row of class scores.
        demand: what the outputs must keep.
        task: what compares the predictions; None without a task.

    Raises:
        EngineError: an engine cannot run the network.
    """
    name = sole_input(session)
    read, copied = tee(batches)
    pairs = zip(read, outputs_of(graph, copied, batch_size))
    return parity_of(((expected, session.run({name: batch})) for batch, expected in pairs), class_scores, demand, task)


def parity_of(
    pairs: Iterable[tuple[Outputs, Outputs]],
    class_scores: bool,
    demand: Demand = Demand(),
    task: Optional[TaskAgreement] = None,
) -> OutputParity:
    """Compare pairs (MXNet's outputs, the engine's outputs), one for each batch; see ``output_parity``.

    Raises:
        EngineError: the engine's outputs have another shape or are not finite.
    """
    images, same, steps = 0, 0, 0.0
    totals: list[float] = []
    rows: list[int] = []
    for expected, actual in pairs:
        if len(actual) != len(expected):
            raise EngineError(
                f"the ONNX file has {len(actual)} outputs where MXNet has {len(expected)}; export it again"
            )
        totals, rows = totals or [0.0] * len(expected), rows or [0] * len(expected)
        for index, (wanted, values) in enumerate(zip(expected, actual)):
            if values.shape != wanted.shape or not np.isfinite(values).all():
                raise EngineError(
                    f"the ONNX file computes {_described(values)} where MXNet computes {_described(wanted)}; "
                    "export it again"
                )
            totals[index] += float(cosines(wanted, values).sum())
            rows[index] += len(wanted)
            steps = max(steps, largest_steps(wanted, values))
        if task is not None:
            task.add(expected, actual)
        images += len(expected[0])
        same += int(same_top1(expected[0], actual[0]).sum())
    cosine = min(total / count for total, count in zip(totals, rows))
    first = None if task is None else task.scores[0]
    unordered = task is not None and task.unordered
    boxes = None if task is None else task.boxes
    return OutputParity(images, same if class_scores else None, cosine, steps, demand, first, unordered, boxes)


def largest_steps(expected: np.ndarray, actual: np.ndarray) -> float:
    """The largest deviation of finite outputs, in 127ths of the largest absolute output of its image."""
    deviation = np.abs(expected - actual).reshape(len(expected), -1).max(axis=1)
    largest = np.abs(expected).reshape(len(expected), -1).max(axis=1)
    return float((deviation / np.where(largest > 0, largest, 1.0)).max() * STEPS)


def _described(output: np.ndarray) -> str:
    finite = "" if np.isfinite(output).all() else ", some of them NaN or infinite"
    return f"values of shape {output.shape}{finite}"
