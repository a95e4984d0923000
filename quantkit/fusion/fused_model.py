"""FusedModel: a model with its fused network, numerically checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Optional

import numpy as np

from quantkit.formats.mxnet import nnvm
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.fusion.numeric_check import FusionCheck, check_fusion
from quantkit.ir.graph import Graph
from quantkit.kinds import of_kind
from quantkit.models.class_scores import ClassScores, class_scores
from quantkit.models.dataset import BATCH_SIZE, CalibrationData, dataset
from quantkit.models.model import Model
from quantkit.models.step_scores import step_scores

_CHECKED_SAMPLES = 4


@dataclass(frozen=True, eq=False)
class FusedModel:
    """A model with its fused network, which passed the numeric check.

    ``sample`` is one input of the comparison, float32 of shape (1, channels, height, width). ``builtin`` names the
    built-in samples that it belongs to; empty for the user's data.
    """

    model: Model
    fused: Fused
    check: FusionCheck
    sample: np.ndarray
    builtin: str = ""

    def __repr__(self) -> str:
        nodes, fused = len(self.model.graph.nodes), len(self.fused.graph.nodes)
        return f"FusedModel({self.model.name!r}, {nodes} nodes fused to {fused})"

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
    def step_scores(self) -> Optional[ClassScores]:
        """Whether every step of a sequence has class scores; None if the first output has no row for every step."""
        model, outputs = self.model, self.fused.original.outputs
        shapes = [self.fused.shapes[output][1:] for output in outputs]
        tokens = model.vocabulary is not None
        return step_scores(model.graph, shapes, model.input_shape, tokens, model.labels, model.class_scores)

    @cached_property
    def sha256(self) -> str:
        """The hash of the fused network's structure and weights."""
        return nnvm.sha256_of(self.graph)


def fuse_model(model: Model, calibration_data: CalibrationData = "builtin") -> FusedModel:
    """Fuse a model's operators and compare the result with the original on a few samples.

    Args:
        model: the network.
        calibration_data: what to compare on: the first four samples.

    Raises:
        UserError: ``model`` is something else, such as a name.
        FusionError: the fused network computes different results.
        ModelError: the network's output holds NaN or infinite values for a sample.
        DataError: the samples cannot be used.
    """
    of_kind("model", model, Model, "which load_model() returns")
    fused = fuse(model.graph, model.input_shape)
    chosen = dataset(model, calibration_data).subset(_CHECKED_SAMPLES, at_most=True)
    batches = list(chosen.batches(BATCH_SIZE))
    arrays, names = [batch.data for batch in batches], [name for batch in batches for name in batch.names]
    check = check_fusion(model.graph, float_graph(fused.graph), arrays, len(arrays[0]), names)
    return FusedModel(model, fused, check, arrays[0][:1], chosen.name if chosen.builtin else "")
