"""The one-line reprs of models and of what fusion makes of them."""

from __future__ import annotations

import numpy as np

from quantkit.fusion.fuse import Fused
from quantkit.fusion.fused_model import FusedModel
from quantkit.fusion.numeric_check import FusionCheck
from quantkit.fusion.rewriting.rule import Applied, Replacement
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.models.model import Model, Source
from quantkit.models.weights import Weights

GRAPH = Graph(
    tuple(Node(f"n{i}", "relu", (Tensor(f"n{i - 1}" if i else "data"),)) for i in range(3)),
    ("data",),
    (Tensor("n2"),),
    {"w": np.ones(1000, np.float32)},
)
MODEL = Model("tiny", GRAPH, (3, 224, 224), None, Source("tiny", "random"), labels=("cat",) * 1000)


def test_models_are_shown_by_what_tells_them_apart() -> None:
    assert repr(MODEL) == "Model('tiny', 3 nodes, input 3x224x224, random weights)"


def test_fused_models_are_shown_by_what_fusion_did() -> None:
    shapes = {Tensor("data"): (1, 3, 224, 224)}
    fused = Fused(
        GRAPH, GRAPH.with_outputs([Tensor("n0")]).pruned(), shapes, (Applied("rule", "n0", ("n0",)),) * 99, ()
    )
    shown = repr(FusedModel(MODEL, fused, FusionCheck(4, 0.0, 1e-5, 0), np.zeros((1, 3, 224, 224), np.float32)))
    assert shown == "FusedModel('tiny', 3 nodes fused to 1)"
    assert "Applied" not in repr(fused)
    assert "224" not in repr(fused)


def test_arrays_by_name_are_not_shown() -> None:
    for value in (Replacement(GRAPH.nodes, GRAPH.params), Weights(dict(GRAPH.params), MODEL.source)):
        assert "array" not in repr(value)
