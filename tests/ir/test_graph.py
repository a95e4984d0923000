from __future__ import annotations

import numpy as np
import pytest

from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor


def chain() -> Graph:
    return Graph(
        (Node("a", "relu", (Tensor("data"),)), Node("b", "relu", (Tensor("a"),)), Node("c", "relu", (Tensor("a"),))),
        ("data",),
        (Tensor("b"),),
        {"unused": np.ones(1)},
    )


def test_consumers_and_producer() -> None:
    graph = chain()
    assert [node.name for node in graph.consumers[Tensor("a")]] == ["b", "c"]
    assert graph.producer(Tensor("b")) is graph.by_name["b"]
    assert graph.producer(Tensor("data")) is None


def test_names_are_those_of_nodes_inputs_and_parameters() -> None:
    assert chain().names == {"a", "b", "c", "data", "unused"}


def test_pruned_keeps_what_the_outputs_need() -> None:
    pruned = chain().pruned()
    assert [node.name for node in pruned.nodes] == ["a", "b"]
    assert not pruned.params
    assert pruned.inputs == ("data",)


@pytest.mark.parametrize(
    ("nodes", "outputs", "match"),
    [
        ((Node("a", "relu", (Tensor("ghost"),)),), (Tensor("a"),), "'ghost'"),
        ((Node("a", "relu", (Tensor("data"),)), Node("a", "relu", (Tensor("data"),))), (Tensor("a"),), "occurs twice"),
        ((Node("a", "relu", (Tensor("b"),)), Node("b", "relu", (Tensor("a"),))), (Tensor("b"),), "'b'"),
        ((Node("a", "relu", (Tensor("data"),)),), (Tensor("ghost"),), "output 'ghost'; export the network with"),
    ],
)
def test_impossible_graphs_are_refused(nodes: tuple[Node, ...], outputs: tuple[Tensor, ...], match: str) -> None:
    with pytest.raises(ModelError, match=match):
        Graph(nodes, ("data",), outputs)


def test_input_dependence_in_a_network_deeper_than_python_recurses() -> None:
    constant = Node("constant", "_mul_scalar", (Tensor("weight"),))
    chain_of_many = [Node(f"n{i}", "relu", (Tensor(f"n{i - 1}" if i else "data"),)) for i in range(3000)]
    graph = Graph((constant, *chain_of_many), ("data",), (Tensor("n2999"),), {"weight": np.ones(1)})
    assert graph.input_dependent == {"data", *(node.name for node in chain_of_many)}


def test_a_repr_is_one_line_without_values() -> None:
    graph = Graph(
        (Node("many", "Concat", tuple(Tensor("data", index) for index in range(9))), Node("none", "_zeros", ())),
        ("data",),
        (Tensor("many"), Tensor("none")),
        {"w": np.ones(1000, np.float32), "v": np.ones(250_000, np.float32)},
    )
    assert repr(graph) == "Graph(2 nodes from data to many, none, 2 parameters of 1.0 MB)"
    assert repr(graph.nodes) == (
        "(Node('many': Concat of data, data[1], data[2], ... (9 in all)), Node('none': _zeros of nothing))"
    )
