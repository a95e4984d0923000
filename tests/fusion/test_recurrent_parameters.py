"""Parameters of recurrent layers, put together at every run: one vector, where they are constant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.benchmark.workloads.recurrent import recurrent_graph
from quantkit.benchmark.workloads.recurrent import sequences as steps_first
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.fusion.rewriting.rule import apply_rule
from quantkit.fusion.rules.recurrent_parameters import RECURRENT_PARAMETERS
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import RECURRENT
from tests import recurrent
from tests.sequences import FEATURES, STACK

pytestmark = pytest.mark.usefixtures("engine")


def gluon_parameters() -> Graph:
    """The stack with each of its parameters by itself, put together at every run, as Gluon exports it."""
    graph = recurrent_graph(STACK)
    (flat,) = graph.params.values()
    parts = np.split(flat, [5, 50])
    made = Node("made", "_rnn_param_concat", tuple(Tensor(f"flat{i}") for i in range(3)), {"dim": "0", "num_args": "3"})
    shaped = [Node(f"flat{i}", "Reshape", (Tensor(f"part{i}"),), {"shape": "-1"}) for i in range(3)]
    rnn = next(node for node in graph.nodes if node.op == "RNN")
    params = {f"part{i}": part.reshape(-1, 1 if i == 0 else part.size) for i, part in enumerate(parts)}
    nodes = [each for each in graph.nodes if each is not rnn]
    reading = replace(rnn, inputs=(rnn.inputs[0], made.output, *rnn.inputs[2:]))
    return Graph((*shaped, made, *nodes, reading), graph.inputs, graph.outputs, params)


def test_parameters_become_one_vector() -> None:
    graph = gluon_parameters()
    fused = fuse(graph, (2, FEATURES))
    assert [node.op for node in fused.graph.nodes].count(RECURRENT) == STACK.layers
    data = steps_first(STACK, 2)
    (result,) = run(float_graph(fused.graph), {"data": data})
    (flat,) = recurrent_graph(STACK).params.values()
    np.testing.assert_allclose(result, recurrent.outputs(STACK, flat, data), rtol=1e-5, atol=1e-5)


def test_parameters_put_together_of_computed_ones_stay() -> None:
    graph = gluon_parameters()
    doubled = Node("doubled", "_mul_scalar", (Tensor("part2"),), {"scalar": "2"})
    nodes = [replace(node, inputs=(doubled.output,)) if node.name == "flat2" else node for node in graph.nodes]
    _, applied, rejected = apply_rule(replace(graph, nodes=(doubled, *nodes)), RECURRENT_PARAMETERS, {})
    assert not applied
    assert not rejected
