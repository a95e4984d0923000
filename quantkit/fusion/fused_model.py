"""From a model to its fused network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quantkit.formats.mxnet import nnvm
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.fusion.numeric_check import FusionCheck, check_fusion
from quantkit.ir.graph import Graph
from quantkit.models.class_scores import ClassScores, class_scores
from quantkit.models.dataset import BATCH_SIZE, CalibrationData, dataset
from quantkit.models.model import Model

_CHECKED_SAMPLES = 4


@dataclass(frozen=True, eq=False)
class FusedModel:
    """A model with its fused network, which passed the numeric check.

    ``sample`` is one input of the comparison, float32 of shape (1, channels, height, width); ``builtin`` is the name of
    the built-in samples that it is one of, empty where it is the user's own.
    """

    model: Model
    fused: Fused
    check: FusionCheck
    sample: np.ndarray
    builtin: str = ""

    @cached_property
    def graph(self) -> Graph:
        """The fused FP32 network in the form that stock MXNet runs."""
        return float_graph(self.fused.graph)

    @cached_property
    def class_scores(self) -> ClassScores:
        """Whether the network's outputs are class scores."""
        outputs = self.fused.original.outputs
        shapes = [self.fused.shapes[output][1:] for output in outputs]
        return class_scores(self.model.graph, shapes, self.model.labels, self.model.class_scores)

    @cached_property
    def sha256(self) -> str:
        """What identifies the fused network, structure and weights."""
        return nnvm.sha256_of(self.graph)


def fuse_model(model: Model, calibration_data: CalibrationData = "builtin") -> FusedModel:
    """Fuse a model's operators and compare the result with the original on a few samples.

    Args:
        model: the network.
        calibration_data: what to compare on: the first four samples.

    Raises:
        FusionError: the fused network computes something else.
        ModelError: the network puts out NaN or infinite values for a sample.
        DataError: the samples cannot be used.
    """
    fused = fuse(model.graph, model.input_shape)
    chosen = dataset(model, calibration_data).subset(_CHECKED_SAMPLES, at_most=True)
    batched = list(chosen.batches(BATCH_SIZE))
    few, names = [batch.data for batch in batched], [name for batch in batched for name in batch.names]
    check = check_fusion(model.graph, float_graph(fused.graph), few, BATCH_SIZE, names)
    return FusedModel(model, fused, check, few[0][:1], chosen.name if chosen.builtin else "")
