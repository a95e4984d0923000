"""Untrained detectors take most boxes for the background."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.benchmark.workloads.images import image_batch
from quantkit.ir.graph import Graph, Tensor
from quantkit.models.background import background_biases
from quantkit.models.load import load_model
from tests.networks import DATA, Builder

SHAPES = {"w1": (10, 6, 1, 1), "b1": (10,), "w2": (5, 6, 1, 1), "b2": (5,), "w3": (8, 6, 1, 1), "b3": (8,)}


def detector(begin: int = 1, axis: int = -1, no_bias: bool = False) -> Graph:
    """Scores of four classes and a background at two boxes and at one; the third layer predicts boxes."""
    b = Builder()
    flat = []
    for number, outputs in ((1, 10), (2, 5), (3, 8)):
        inputs = (Tensor(f"w{number}"), *([] if no_bias else [Tensor(f"b{number}")]))
        attrs = {"kernel": (1, 1), "num_filter": outputs, "no_bias": no_bias}
        layer = b.op("Convolution", f"conv{number}", DATA, *inputs, **attrs)
        flat.append(b.op("Flatten", f"flat{number}", b.op("transpose", f"turned{number}", layer, axes=(0, 2, 3, 1))))
    logits = b.op("Reshape", "logits", b.op("Concat", "all", *flat[:2], dim=1, num_args=2), shape=(0, -1, 5))
    scores = b.op("softmax", "scores", logits, axis=axis)
    objects = b.op("slice_axis", "objects", scores, axis=-1, begin=begin, end="None")
    return Graph(tuple(b.nodes), ("data", *SHAPES), (objects, flat[2]))


def test_the_biases_of_the_background_are_those_of_a_hundredth_of_objects() -> None:
    biases = background_biases(detector(), SHAPES)
    assert set(biases) == {"b1", "b2"}
    logits = np.random.default_rng(0).standard_normal((100_000, 5)) + biases["b2"]
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    # Of means: where the background's logit is low by chance there are more.
    assert scores[:, 1:].sum(axis=1).mean() == pytest.approx(0.01, rel=0.8)
    np.testing.assert_array_equal(biases["b1"].reshape(2, 5), np.stack([biases["b2"]] * 2))
    assert not biases["b2"][1:].any()


@pytest.mark.parametrize("graph", [detector(begin=0), detector(axis=1), detector(no_bias=True)])
def test_other_softmax_layers_have_none(graph: Graph) -> None:
    assert background_biases(graph, SHAPES) == {}


def test_layers_that_many_paths_lead_to_are_found_in_time() -> None:
    b = Builder()
    logits = b.op("Convolution", "conv", DATA, Tensor("w2"), Tensor("b2"), kernel=(1, 1), num_filter=5, no_bias=False)
    for number in range(2000):
        sides = (b.op("Flatten", f"{side}{number}", logits) for side in ("left", "right"))
        logits = b.op("Concat", f"both{number}", *sides, dim=1, num_args=2)
    scores = b.op("softmax", "scores", logits, axis=-1)
    objects = b.op("slice_axis", "objects", scores, axis=-1, begin=1, end="None")
    assert set(background_biases(Graph(tuple(b.nodes), ("data", *SHAPES), (objects,)), SHAPES)) == {"b2"}


def test_untrained_detectors_see_about_as_much_as_trained_ones(engine: None) -> None:
    model = load_model("ssd_300_vgg16_atrous_voc", weights="random")
    (scores,) = [node.output for node in model.graph.nodes if node.op == "softmax"]
    layers = [node.output for node in model.graph.nodes if node.op == "Convolution"]
    images = image_batch("builtin", model.preparation, model.input_shape, 1)
    graph = model.graph.with_outputs((scores, *layers)).pruned()
    found, *results = run(graph, {graph.inputs[0]: images})
    assert 1e-4 < (found[..., 1:] > 0.01).mean() < 0.1
    # Its first operator multiplies pixels by 255 times their deviation.
    deviations = [each.std() for each in results]
    assert min(deviations) > 0.05
    assert max(deviations) < 20
