"""Inception-BN against figure 5 of the paper: output sizes, and the totals that follow from them."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.fusion.fuse import fuse
from quantkit.ir.graph import Graph
from quantkit.models.load import load_model
from quantkit.models.model import Model

# What leaves each row of the figure, without the batch axis.
SIZES = {
    "pool0_fwd": (64, 56, 56),
    "pool1_fwd": (192, 28, 28),
    "inception3a_concat0": (256, 28, 28),
    "inception3b_concat0": (320, 28, 28),
    "inception3c_concat0": (576, 14, 14),
    "inception4a_concat0": (576, 14, 14),
    "inception4b_concat0": (576, 14, 14),
    "inception4c_concat0": (576, 14, 14),
    "inception4d_concat0": (576, 14, 14),
    "inception4e_concat0": (1024, 7, 7),
    "inception5a_concat0": (1024, 7, 7),
    "inception5b_concat0": (1024, 7, 7),
    "pool2_fwd": (1024, 1, 1),
}


@pytest.fixture(scope="module")
def model(engine: None) -> Model:
    return load_model("inception_bn", weights="random")


def shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    found = infer_shapes(graph, {"data": (1, 3, 224, 224)})
    return {node.name: found[node.output][1:] for node in graph.nodes}


def test_the_sizes_are_those_of_the_figure(model: Model) -> None:
    found = shapes(model.graph)
    assert {name: found[f"inceptionbn_{name}"] for name in SIZES} == SIZES


def test_it_has_eleven_million_weights_and_two_billion_multiplications(model: Model) -> None:
    found, params = shapes(model.graph), model.graph.params
    weighted = [node for node in model.graph.nodes if node.op in ("Convolution", "FullyConnected")]
    weights = {node.name: params[node.inputs[1].node].size for node in weighted}
    # Modules with stride 2 have no 1x1 branch and no projection.
    assert len(weighted) == 3 + 8 * 7 + 2 * 5 + 1
    assert sum(weights.values()) == pytest.approx(11.2e6, rel=0.01)
    assert sum(weights[name] * int(np.prod(found[name][1:])) for name in weights) == pytest.approx(2.0e9, rel=0.02)


def test_every_convolution_is_followed_by_batch_norm_and_relu_and_fused_with_them(model: Model) -> None:
    operators = [node.op for node in model.graph.nodes]
    assert operators.count("Convolution") == operators.count("BatchNorm") == operators.count("Activation") == 69
    fused = fuse(model.graph, model.input_shape)
    assert fused.rejected == ()
    assert {node.op for node in fused.graph.nodes} & {"BatchNorm", "Activation"} == set()
