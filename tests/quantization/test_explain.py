"""What is said of recurrent layers that were taken apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.fusion.fuse import fuse
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.quantization.explain import explain
from quantkit.quantization.plan import float_plan
from tests.quantization.recurrent_networks import quantized
from tests.sequences import sequence_network, sequences

DATA = sequences(4, tokens=False)


def test_each_layer_of_an_lstm_is_told_with_its_own_reason(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, network = quantized(monkeypatch, sequence_network("NTC"), DATA, zero=["lstm_fused_0"])
    rows = explain(fused, network.plan)
    told = [(row.into, row.precision, row.reason) for row in rows if row.node == "lstm"]
    assert told == [
        ("lstm_fused_0", "fp32", "its result is 0 in every sample"),
        ("lstm_fused", "fp32", "its input is 0 in every sample"),
    ]
    assert {row.operator for row in rows if row.node == "lstm"} == {"RNN"}


def test_reshapes_around_a_dense_layer_are_not_told(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, network = quantized(monkeypatch, sequence_network("NTC"), DATA)
    rows = explain(fused, network.plan)
    assert [row.into for row in rows if row.node == "dense"] == ["dense_dense"]
    assert list(dict.fromkeys(row.node for row in rows)) == [node.name for node in fused.original.nodes]


def test_what_was_not_fused_is_said_once(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, network = quantized(monkeypatch, sequence_network("NTC", "ones"), DATA)
    (row,) = (row for row in explain(fused, network.plan) if row.node == "lstm")
    assert (row.into, row.precision) == ("lstm", "fp32")
    assert row.rejections == ("recurrent layers batch first: its initial states are constants other than zero",)


def gluon_network() -> Graph:
    """A network whose LSTM's parameters are put together at every run, as Gluon exports it; its dense weight is too."""
    graph = sequence_network("NTC")
    parts = dict(zip(("part0", "part1"), np.split(graph.params["parameters"], [5])))
    flat = [Node(f"flat_{part}", "Reshape", (Tensor(part),), {"shape": "(-1,)"}, (f"flat_{part}",)) for part in parts]
    attrs = {"dim": "0", "num_args": str(len(flat))}
    made = Node("made", "_rnn_param_concat", tuple(each.output for each in flat), attrs, ("made",))
    doubled = Node("doubled", "_mul_scalar", (Tensor("dense_weight"),), {"scalar": "2"}, ("doubled",))
    computed = {"parameters": made.output, "dense_weight": doubled.output}
    nodes = (
        replace(node, inputs=tuple(computed.get(tensor.node, tensor) for tensor in node.inputs)) for node in graph.nodes
    )
    kept = {name: value for name, value in graph.params.items() if name != "parameters"}
    return replace(graph, nodes=(*flat, made, doubled, *nodes), params={**kept, **parts})


def test_what_put_parameters_together_is_not_told_once_it_is_gone(engine: None) -> None:
    graph = gluon_network()
    fused = fuse(graph, DATA.shape[1:])
    told = {row.node: row.precision for row in explain(fused, float_plan(fused.graph))}
    assert list(told) == [node.name for node in graph.nodes if node.name not in ("flat_part0", "flat_part1", "made")]
    assert (told["lstm"], told["doubled"]) == ("fp32", "fp32")
