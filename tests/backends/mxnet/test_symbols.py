from __future__ import annotations

from dataclasses import replace

import pytest

from quantkit.backends.mxnet import symbols
from quantkit.backends.mxnet.execute import run
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor
from tests.networks import DATA, images, residual_v2

pytestmark = pytest.mark.usefixtures("engine")


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ModelError, match="frobnicate"):
        run(Graph((Node("x", "frobnicate", (DATA,)),), ("data",), (Tensor("x"),)), {"data": images()})


@pytest.mark.parametrize("position", [3, 4])
@pytest.mark.parametrize("other", ["data", "conv1"])
def test_statistics_that_are_no_parameters_are_refused(position: int, other: str) -> None:
    graph = residual_v2()
    norm = graph.by_name["bn3"]
    inputs = (*norm.inputs[:position], Tensor(other), *norm.inputs[position + 1 :])
    nodes = tuple(replace(node, inputs=inputs) if node is norm else node for node in graph.nodes)
    with pytest.raises(ModelError, match=f"BatchNorm 'bn3' takes its moving mean or variance from '{other}', which is"):
        run(replace(graph, nodes=nodes), {"data": images()})


@pytest.mark.parametrize("op", ["gather_nd", "_contrib_ModulatedDeformableConvolution"])
def test_what_older_engines_must_not_be_given_has_a_remedy(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "release", lambda: (1, 6, 0))
    with pytest.raises(ModelError, match=r"quantkit\[onednn\]"):
        run(Graph((Node("x", op, (DATA,)),), ("data",), (Tensor("x"),)), {"data": images()})
