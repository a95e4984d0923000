"""The last layer, and a new one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.errors import ModelError, UserError
from quantkit.ir.graph import Graph
from quantkit.models.model import Model
from quantkit.training.head import classes_of, last_layer, with_classes
from tests.networks import DATA, Builder, images
from tests.training.conftest import SIZE, tiny


def squeezed() -> Graph:
    """As SqueezeNet ends: a convolution, ReLU, pooling, flattening."""
    b = Builder()
    scores = b.relu("relu", b.conv("classes", DATA, 3, 5, kernel=1))
    pooled = b.op("Pooling", "pool", scores, global_pool=True, pool_type="avg", kernel=(1, 1))
    return b.graph(b.op("Flatten", "flat", pooled))


def model_of(graph: Graph) -> Model:
    return replace(tiny(), graph=graph, preprocess=None)


def test_dense_layers_and_convolutions_are_found_before_what_follows_them() -> None:
    assert last_layer(tiny().graph, "tiny").name == "dense"
    assert last_layer(squeezed(), "squeezed").name == "classes"
    assert classes_of(tiny()) == 3 and classes_of(model_of(squeezed())) == 5


@pytest.mark.parametrize(("model", "layer", "inputs"), [(tiny(), "dense", 8), (model_of(squeezed()), "classes", 3)])
def test_a_new_layer_has_new_weights_and_all_else_stays(model: Model, layer: str, inputs: int) -> None:
    new = with_classes(model, 11, 0)
    assert classes_of(new) == 11 and new.labels == ()
    weight = new.graph.params[f"{layer}_weight"]
    assert weight.shape[:2] == (11, inputs) and weight.dtype == np.float32
    bound = 1 / math.sqrt(inputs)
    assert 0.5 * bound < np.abs(weight).max() <= bound
    assert not new.graph.params[f"{layer}_bias"].any()
    kept = new.graph.params.keys() - {f"{layer}_weight", f"{layer}_bias"}
    assert all(new.graph.params[name] is model.graph.params[name] for name in kept)
    assert run(new.graph, {"data": images(2, size=SIZE)})[0].shape == (2, 11)
    again, other = with_classes(model, 11, 0), with_classes(model, 11, 1)
    assert np.array_equal(weight, again.graph.params[f"{layer}_weight"])
    assert not np.array_equal(weight, other.graph.params[f"{layer}_weight"])


def test_other_networks_are_refused_with_the_reason() -> None:
    b = Builder()
    maps = model_of(b.graph(b.conv("conv", DATA, 3, 4)))
    with pytest.raises(ModelError, match=r"puts out \(4, 8, 8\) for each sample, no row of class scores"):
        classes_of(maps)
    b = Builder()
    first = b.dense("first", DATA, 3 * SIZE * SIZE, 4)
    several = model_of(b.graph(first, b.dense("second", first, 4, 4)))
    with pytest.raises(ModelError, match="is for several outputs; only classifiers"):
        classes_of(several)
    with pytest.raises(ModelError, match="is for detection; only classifiers"):
        classes_of(replace(tiny(), task="detection"))
    b = Builder()
    scores = b.dense("dense", DATA, 3 * SIZE * SIZE, 4)
    squared = model_of(b.graph(b.op("elemwise_mul", "square", scores, scores)))
    with pytest.raises(ModelError, match=r"does not end with a dense layer .* but with elemwise_mul 'square'"):
        last_layer(squared.graph, "squared")
    with pytest.raises(UserError, match="has nothing to tell apart; give at least 2"):
        with_classes(tiny(), 1, 0)
    b = Builder()
    flat = b.op("Reshape", "reshape", b.dense("dense", DATA, 3 * SIZE * SIZE, 4), shape=(-1, 4))
    with pytest.raises(ModelError, match="does not fit another number of classes; export the network with a Flatten"):
        with_classes(model_of(b.graph(flat)), 6, 0)
