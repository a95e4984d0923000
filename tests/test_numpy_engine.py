"""The stand-in for the engine computes what the engine does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import EngineError
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.ir.graph import Graph
from tests import numpy_engine
from tests.networks import DATA, Builder, fire, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import computed_weights

pytestmark = pytest.mark.usefixtures("engine")


def pointwise() -> Graph:
    """Every pointwise operator that the stand-in knows, side by side."""
    b = Builder()
    kinds = [("Activation", kind) for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")]
    kinds += [("LeakyReLU", kind) for kind in ("leaky", "elu", "selu", "gelu")]
    outputs = [b.op(op, f"{op}{kind}", DATA, act_type=kind) for op, kind in kinds]
    names = ("relu", "exp", "abs", "square", "tanh", "sigmoid", "softmax", "log_softmax", "identity", "BlockGrad")
    outputs += [b.op(name, f"{name}_", DATA) for name in names]
    outputs.append(b.op("sqrt", "sqrt_", outputs[0]))
    outputs.append(b.op("clip", "clip_", DATA, a_min=-0.3, a_max=0.4))
    outputs.append(b.op("_mul_scalar", "times", DATA, scalar=0.7))
    outputs.append(b.op("elemwise_mul", "product", DATA, outputs[0]))
    outputs.append(b.op("Pooling", "pooled", DATA, kernel=(3, 2), stride=(2, 3), pool_type="avg"))
    weight = b.param("w", b.random.normal(size=(4, 16)))
    outputs.append(b.op("FullyConnected", "rows", DATA, weight, num_hidden=4, no_bias=True, flatten=False))
    parts = [b.param(f"bn{name}", b.random.uniform(0.5, 1, 16)) for name in ("gamma", "beta", "mean", "var")]
    outputs.append(b.op("BatchNorm", "bn", DATA, *parts, axis=2))
    return b.graph(*outputs)


@pytest.mark.parametrize(
    "build", [residual_v1, residual_v2, inverted_residual, fire, computed_weights, pointwise], ids=lambda b: b.__name__
)
def test_the_same_results_and_shapes(build: Callable[[], Graph]) -> None:
    graph = build()
    for form in (graph, float_graph(fuse(graph, (3, 16, 16)).graph)):
        inputs = {"data": images()}
        for tensor, wanted, found in zip(form.outputs, run(form, inputs), numpy_engine.run(form, inputs)):
            np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max(), err_msg=str(tensor))
    shapes = infer_shapes(graph, {"data": (2, 3, 16, 16)})
    found_shapes = numpy_engine.infer_shapes(graph, {"data": (2, 3, 16, 16)})
    assert {tensor: found_shapes[tensor] for tensor in shapes} == shapes


def test_what_does_not_fit_is_an_engine_error() -> None:
    b = Builder()
    with pytest.raises(EngineError, match="no erfinv"):
        numpy_engine.run(b.graph(b.op("erfinv", "node", DATA)), {"data": images()})
    with pytest.raises(EngineError, match="bound to"):
        numpy_engine.MxnetSession(b.graph(DATA), {"data": (1, 2)}).run({"data": images()})
