"""A network's outputs from MXNet and from another engine, image by image."""

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
from quantkit.extras import using
from quantkit.ir.graph import Graph

STEPS = 127
"""Steps of 8 bits from 0 to an output's largest value."""

LEAST_COSINE = 0.998
"""Of the outputs of the two engines, on average, or as much as MXNet's INT8 network has with FP32, where that is less.

Engines round to the same integers, but for values that lie between two of them, and where tensors are added. Both is
noise of the size of a step, as quantization itself is; an engine may add as much as that did to an output, not more.
"""

MOST_CHANGED = 0.05
"""The share of images whose top-1 the other engine may change, or as many as INT8 itself does, where these are more."""

SIGNIFICANCE = 0.01
"""How unlikely a count of changed images must be, were that share of all images changed, to fail.

So with ``MOST_CHANGED`` 1 changed image is never enough; of 4 it takes 3, of 32 it takes 6, of 100 it takes 12.
"""


@dataclass(frozen=True)
class Demand:
    """What an engine's outputs must keep: the mean cosine, and all top-1s but a share ``changed``."""

    cosine: float = LEAST_COSINE
    changed: float = MOST_CHANGED


@dataclass(frozen=True)
class OutputParity:
    """How an engine's outputs compare with MXNet's.

    ``same`` is the number of images with the same top-1, None where outputs are no class scores; ``cosine`` the
    mean cosine of the output that has the lowest, ``steps`` the largest deviation of any output, in 127ths of the
    image's largest value of that output.
    """

    images: int
    same: Optional[int]
    cosine: float
    steps: float
    demand: Demand = Demand()

    @property
    def ok(self) -> bool:
        """Whether the engine computes the same network: by cosine, and by top-1 as far as so few images can tell."""
        with using("benchmark", "tests of outputs"):
            from scipy.stats import binom

        changed = 0 if self.same is None else self.images - self.same
        likelihood = float(binom.sf(changed - 1, self.images, self.demand.changed))
        return self.cosine >= self.demand.cosine and likelihood >= SIGNIFICANCE


def output_parity(
    graph: Graph,
    session: Session,
    batches: Iterable[np.ndarray],
    batch_size: int,
    class_scores: bool,
    demand: Demand = Demand(),
) -> OutputParity:
    """Run both over batches of at most ``batch_size`` images, and compare their outputs.

    Args:
        graph: the bundle's network, as MXNet runs it.
        session: its ONNX file in another engine.
        batches: the network's input, float32.
        batch_size: of the largest batch.
        class_scores: whether the first output is a row of class scores.
        demand: what is asked for.

    Raises:
        EngineError: an engine cannot run the network.
    """
    name = sole_input(session)
    read, copied = tee(batches)
    pairs = zip(read, outputs_of(graph, copied, batch_size))
    return parity_of(((expected, session.run({name: batch})) for batch, expected in pairs), class_scores, demand)


def parity_of(pairs: Iterable[tuple[Outputs, Outputs]], class_scores: bool, demand: Demand = Demand()) -> OutputParity:
    """Compare outputs, given batch by batch as (MXNet's, the engine's); see ``output_parity``.

    Raises:
        EngineError: the engine's have another shape, or are not finite.
    """
    images, same, steps = 0, 0, 0.0
    totals: list[float] = []
    rows: list[int] = []
    for expected, found in pairs:
        if len(found) != len(expected):
            raise EngineError(
                f"the ONNX file has {len(found)} outputs where MXNet has {len(expected)}; export it again"
            )
        totals, rows = totals or [0.0] * len(expected), rows or [0] * len(expected)
        for index, (wanted, values) in enumerate(zip(expected, found)):
            if values.shape != wanted.shape or not np.isfinite(values).all():
                raise EngineError(
                    f"the ONNX file puts out {_described(values)} where MXNet puts out {_described(wanted)}; "
                    "export it again"
                )
            totals[index] += float(cosines(wanted, values).sum())
            rows[index] += len(wanted)
            steps = max(steps, largest_steps(wanted, values))
        images += len(expected[0])
        same += int(same_top1(expected[0], found[0]).sum())
    cosine = min(total / count for total, count in zip(totals, rows))
    return OutputParity(images, same if class_scores else None, cosine, steps, demand)


def largest_steps(expected: np.ndarray, found: np.ndarray) -> float:
    """The largest deviation of finite outputs, in 127ths of the largest absolute output of its image."""
    deviation = np.abs(expected - found).reshape(len(expected), -1).max(axis=1)
    largest = np.abs(expected).reshape(len(expected), -1).max(axis=1)
    return float((deviation / np.where(largest > 0, largest, 1.0)).max() * STEPS)


def _described(output: np.ndarray) -> str:
    finite = "" if np.isfinite(output).all() else ", some of them NaN or infinite"
    return f"values of shape {output.shape}{finite}"
