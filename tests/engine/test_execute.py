from __future__ import annotations

import numpy as np
import pytest

from quantkit.engine.execute import Executor, infer_shapes, run
from quantkit.engine.stream import outputs_of
from quantkit.errors import EngineError, ModelError
from quantkit.graph.graph import Graph, Node, Tensor
from tests.networks import DATA, Builder, images, residual_v1

pytestmark = pytest.mark.usefixtures("engine")


def test_a_dense_layer_against_numpy() -> None:
    b = Builder()
    graph = b.graph(b.dense("dense", DATA, 768, 10))
    data = images()
    expected = data.reshape(4, -1) @ graph.params["dense_weight"].T + graph.params["dense_bias"]
    np.testing.assert_allclose(run(graph, {"data": data})[0], expected, rtol=1e-4, atol=1e-5)


def test_the_users_environment_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(residual_v1(), {"data": images()})[0]
    monkeypatch.setenv("MXNET_SUBGRAPH_BACKEND", "MKLDNN")
    np.testing.assert_array_equal(run(residual_v1(), {"data": images()})[0], expected)
    import os

    assert os.environ["MXNET_SUBGRAPH_BACKEND"] == "MKLDNN"


def test_shapes() -> None:
    shapes = infer_shapes(residual_v1(), {"data": (2, 3, 16, 16)})
    assert shapes[Tensor("pool")] == (2, 16, 1, 1)
    assert shapes[Tensor("dense")] == (2, 10)
    assert shapes[Tensor("conv0_weight")] == (16, 3, 3, 3)


def test_another_shape_than_bound_is_refused() -> None:
    executor = Executor(residual_v1(), {"data": (4, 3, 16, 16)})
    with pytest.raises(EngineError, match="shape"):
        executor.run({"data": images(2)})


def test_a_shape_that_does_not_fit_is_refused_in_one_line() -> None:
    with pytest.raises(EngineError) as caught:
        infer_shapes(residual_v1(), {"data": (1, 5, 16, 16)})
    assert "\n" not in str(caught.value)


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ModelError, match="frobnicate"):
        run(Graph((Node("x", "frobnicate", (DATA,)),), ("data",), (Tensor("x"),)), {"data": images()})


def test_a_smaller_last_batch_gives_the_same_results() -> None:
    data = images(5)
    whole = run(residual_v1(), {"data": data})[0]
    parts = [outputs[0] for outputs in outputs_of(residual_v1(), [data[:4], data[4:]], 4)]
    assert [len(part) for part in parts] == [4, 1]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-4, atol=1e-5)


def test_a_larger_batch_than_agreed_is_refused() -> None:
    with pytest.raises(EngineError, match="at most 2"):
        list(outputs_of(residual_v1(), [images(3)], 2))
