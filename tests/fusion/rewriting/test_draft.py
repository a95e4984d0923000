"""Drafts against networks that are made anew, as a whole, for each change."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from quantkit.fusion.fuse import RULES
from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Rejection, apply_rule, why_not_fusible
from quantkit.ir.graph import Graph, Node, Tensor
from tests.networks import DATA


def random_graph(random: np.random.Generator, count: int = 24) -> Graph:
    """Operators of one or two outputs that read any inputs, parameters and results before them, some twice."""
    params = {f"w{index}": np.zeros(1, np.float32) for index in range(count)}
    tensors = [Tensor("data"), Tensor("other"), *map(Tensor, params)]
    nodes = []
    for index in range(count):
        inputs = tuple(tensors[int(random.triangular(0, len(tensors) - 1, len(tensors)))] for _ in range(1 + index % 3))
        nodes.append(Node(f"n{index}", "op", inputs, {}, (f"n{index}",)))
        tensors += [Tensor(f"n{index}", output) for output in range(1 + index % 2)]
    outputs = (nodes[-1].output, *(nodes[each].output for each in random.integers(0, count, 3)))
    return Graph(tuple(nodes), ("data", "other"), outputs, params)


def replaced(graph: Graph, new: tuple[Node, ...], params: dict[str, np.ndarray]) -> Graph:
    nodes = [each for node in graph.nodes for each in (new if node.name == new[-1].name else (node,))]
    return Graph(tuple(nodes), graph.inputs, graph.outputs, {**graph.params, **params}).pruned()


def bypassed(graph: Graph, name: str, tensor: Tensor) -> Graph:
    def moved(old: Tensor) -> Tensor:
        return tensor if old == Tensor(name) else old

    nodes = [replace(node, inputs=tuple(map(moved, node.inputs))) for node in graph.nodes if node.name != name]
    return Graph(tuple(nodes), graph.inputs, tuple(map(moved, graph.outputs)), graph.params).pruned()


def assert_tells(draft: Draft, graph: Graph) -> None:
    found = draft.graph()
    assert (found.nodes, found.inputs, found.outputs) == (graph.nodes, graph.inputs, graph.outputs)
    assert list(found.params) == list(graph.params)
    for node in graph.nodes:
        assert draft.node(node.name) == draft.producer(node.output) == node
        for tensor in (node.output, *node.inputs):
            assert draft.readers(tensor) == Counter(reader.name for reader in graph.consumers.get(tensor, ()))
            assert draft.is_output(tensor) == (tensor in graph.outputs)
            assert draft.depends_on_input(tensor) == (tensor.node in graph.input_dependent)
    assert all(draft.free_name(name) not in (*draft.names, *graph.by_name, *graph.params) for name in ("n0", "w0"))


@pytest.mark.parametrize("seed", range(60))
def test_changes_of_random_networks(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = random_graph(random).pruned()
    draft = Draft(graph)
    assert_tells(draft, graph)
    for name in (*draft.names, *draft.names):
        node = draft.node(name)
        assert (node is None) == (name not in graph.by_name)
        # What has a second output may be read by it.
        readable = node is not None and Tensor(name, 1) not in {*graph.consumers, *graph.outputs}
        # No rewrite takes from a result that it depends on the network's input.
        dependent = (each for each in node.inputs if each.node in graph.input_dependent) if node is not None else ()
        kept = next(iter(dependent), node.inputs[0] if node is not None else DATA)
        match random.integers(0, 4) if readable else None:
            case 0:
                draft.bypass(name, kept)
                graph = bypassed(graph, name, kept)
            case 1 | 2:
                own, params = draft.free_name(name), {draft.free_name("w0"): np.ones(1, np.float32)}
                first = Node(own, "new", (kept, *map(Tensor, params)), {}, (own,))
                last = replace(node, op="last", inputs=(first.output, *node.inputs[1:2]))
                new = (first, last) if random.integers(2) else (replace(node, inputs=(kept,)),)
                params = params if len(new) > 1 else {}
                draft.replace(new, params)
                graph = replaced(graph, new, params)
        assert_tells(draft, graph)


def chain(count: int) -> Graph:
    """Operators after each other, a sum of all their results, and the second's result."""
    nodes = [Node(f"n{index}", "op", (Tensor(f"n{index - 1}" if index else "data"),)) for index in range(count)]
    total = Node("sum", "op", tuple(node.output for node in nodes))
    return Graph((*nodes, total), ("data",), (total.output, Tensor("n1")))


def test_one_operator_takes_the_place_of_many() -> None:
    draft = Draft(chain(4))
    whole = Node("n0", "whole", (Tensor("data"),))
    draft.replace((whole,), {}, {Tensor(f"n{index}"): Tensor("n0", index) for index in range(1, 4)})
    total = Node("sum", "op", tuple(Tensor("n0", index) for index in range(4)))
    assert_tells(draft, Graph((whole, total), ("data",), (total.output, Tensor("n0", 1))))


def test_a_reader_changes_once_however_many_tensors_move(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[Node] = []

    def counted(node: Node, **fields: tuple[Tensor, ...]) -> Node:
        changed.append(node)
        return replace(node, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr("quantkit.fusion.rewriting.draft.replace", counted)
    moved = {Tensor(f"n{index}"): Tensor("n0", index) for index in range(1, 100)}
    Draft(chain(100)).replace((Node("n0", "whole", (Tensor("data"),)),), {}, moved)
    assert [node.name for node in changed].count("sum") == 1


def test_what_nothing_reads_is_left_out_from_the_start() -> None:
    nodes = (Node("dead", "op", (Tensor("data"),)), Node("alive", "op", (Tensor("data"),)))
    draft = Draft(Graph(nodes, ("data",), (Tensor("alive"),)))
    assert draft.names == ("alive",)
    assert draft.readers(Tensor("data")) == {"alive": 1}


def test_places_are_in_order() -> None:
    draft = Draft(random_graph(np.random.default_rng(0)))
    places = [draft.place(node) for node in draft.graph().nodes]
    assert places == sorted(set(places))


def read_by(*readers: Node) -> Draft:
    """A network of an operator ``c`` and these that read it."""
    nodes = (Node("c", "op", (Tensor("data"),)), *readers)
    return Draft(Graph(nodes, ("data",), tuple(reader.output for reader in readers)))


@pytest.mark.parametrize(("number", "others"), [(8, ""), (9, " and 1 others"), (1000, " and 992 others")])
def test_rejections_name_eight_readers(number: int, others: str) -> None:
    draft = read_by(*(Node(f"r{index}", "op", (Tensor("c"),)) for index in range(number)))
    named = ", ".join(f"r{index}" for index in range(8))
    assert why_not_fusible(draft, Tensor("c")) == f"the result of c has {number} readers: {named}{others}"


def test_rejections_count_readers_and_of_a_single_one_how_often_it_reads() -> None:
    twice = Node("sum", "op", (Tensor("c"), Tensor("c")))
    assert why_not_fusible(read_by(twice), Tensor("c")) == "the result of c has 2 readers: sum"
    draft = read_by(twice, Node("relu", "op", (Tensor("c"),)))
    assert why_not_fusible(draft, Tensor("c")) == "the result of c has 2 readers: relu, sum"
    assert why_not_fusible(read_by(Node("relu", "op", (Tensor("c"),))), Tensor("c")) is None


def test_a_layer_stands_for_a_hundred_operators_at_most() -> None:
    params = {name: np.ones(3, np.float32) for name in ("gamma", "beta", "mean", "var")}
    nodes = [Node("conv", "Convolution", (Tensor("data"), Tensor("w")), {"no_bias": "True"}, ("conv",))]
    for index in range(150):
        inputs = (nodes[-1].output, *map(Tensor, params))
        nodes.append(Node(f"bn{index}", "BatchNorm", inputs, {}, (f"bn{index}",)))
    graph = Graph(tuple(nodes), ("data",), (nodes[-1].output,), {**params, "w": np.ones((3, 3, 1, 1), np.float32)})
    fold = next(rule for rule in RULES if "fold" in rule.name)
    found, applied, rejected = apply_rule(graph, fold, {})
    assert [len(node.origin) for node in found.nodes] == [100, *[1] * 51]
    assert len(applied) == 99
    assert rejected == (Rejection(fold.name, "bn99", "bn98 stands for 100 operators already"),)
