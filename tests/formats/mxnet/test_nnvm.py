from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.errors import ModelError
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import write_params
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.ir.graph import Graph, Tensor
from tests.networks import residual_v1, residual_v2


def same(first: Graph, second: Graph) -> bool:
    def values(graph: Graph) -> list[object]:
        return [
            (n.name, n.op, n.inputs, dict(n.attrs), n.body and (values(n.body), n.body.inputs, n.body.outputs))
            for n in graph.nodes
        ]

    return (values(first), first.inputs, first.outputs) == (values(second), second.inputs, second.outputs)


def test_round_trip() -> None:
    graph = residual_v2()
    again = nnvm.parse(nnvm.serialize(graph), graph.params)
    assert same(graph, again)
    assert set(again.params) == set(graph.params)


def test_one_line_says_the_same() -> None:
    graph = residual_v2()
    line = nnvm.serialize_on_one_line(graph, 10901)
    assert "\n" not in line
    assert json.loads(line) == json.loads(nnvm.serialize(graph, 10901))


def test_round_trip_of_fused_operators_with_bodies(engine: None) -> None:
    graph = float_graph(fuse(residual_v1(), (3, 16, 16)).graph)
    assert same(graph, nnvm.parse(nnvm.serialize(graph), graph.params))


def test_the_engine_writes_what_it_read(engine: None) -> None:
    from quantkit.backends.mxnet.symbols import symbol_of

    graph = residual_v2()
    assert same(graph, nnvm.parse(symbol_of(graph).tojson(), graph.params))


def test_attributes_of_old_releases() -> None:
    document = json.loads(nnvm.serialize(residual_v2()))
    for entry in document["nodes"]:
        if "attrs" in entry:
            entry["param"] = entry.pop("attrs")
    assert same(nnvm.parse(json.dumps(document), residual_v2().params), residual_v2())


def test_training_hints_are_left_out() -> None:
    document = json.loads(nnvm.serialize(residual_v2()))
    document["nodes"][-1]["attrs"]["__lr_mult__"] = "2"
    assert same(nnvm.parse(json.dumps(document), residual_v2().params), residual_v2())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"nodes": 3}', '{"nodes": [{}], "heads": [[0,0,0]]}', "null"])
def test_what_is_no_symbol_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="symbol"):
        nnvm.parse(text, {})


@pytest.mark.parametrize("key", ["name", "op"])
@pytest.mark.parametrize("text", ["", "a" * 1025, "a\n", 3])
def test_names_are_short_and_printable(key: str, text: Any) -> None:
    document = json.loads(nnvm.serialize(residual_v2()))
    document["nodes"][-1][key] = text
    with pytest.raises(ModelError, match=f"the {'name' if key == 'name' else 'operator'} is not a text of 1 to 1024"):
        nnvm.parse(json.dumps(document), residual_v2().params)


def test_a_cycle_is_refused() -> None:
    document = json.loads(nnvm.serialize(residual_v2()))
    document["nodes"][-1]["inputs"][0][0] = len(document["nodes"]) - 1
    with pytest.raises(ModelError, match="damaged"):
        nnvm.parse(json.dumps(document), residual_v2().params)


def test_operators_that_share_a_name_are_told_apart() -> None:
    document = json.loads(nnvm.serialize(residual_v2()))
    for entry in document["nodes"]:
        if entry["name"] in ("relu2", "relu3"):
            entry["name"] = "relu1"
    graph = nnvm.parse(json.dumps(document), residual_v2().params)
    assert [node.name for node in graph.nodes if node.op == "Activation"] == ["relu1", "relu1_1", "relu1_2"]
    assert [node.inputs[0].node for node in graph.nodes if node.op == "Convolution"] == ["bn0", "relu1", "relu1_1"]


def test_names_in_any_script_reach_the_engine_and_come_back(engine: None, tmp_path: Path) -> None:
    """Names of operators, parameters and the input: from a checkpoint they compute what the ASCII ones do."""
    from quantkit.backends.mxnet.checkpoint import read_checkpoint
    from quantkit.backends.mxnet.execute import run
    from quantkit.backends.mxnet.symbols import symbol_of

    def foreign(name: str) -> str:
        return f"{name} größe層\N{BUG}"

    plain = residual_v1()
    nodes = [
        replace(
            node, name=foreign(node.name), inputs=tuple(Tensor(foreign(each.node), each.index) for each in node.inputs)
        )
        for node in plain.nodes
    ]
    outputs = [Tensor(foreign(each.node), each.index) for each in plain.outputs]
    params = {foreign(name): value for name, value in plain.params.items()}
    graph = Graph(tuple(nodes), tuple(map(foreign, plain.inputs)), tuple(outputs), params)
    assert symbol_of(graph).list_outputs() == [f"{foreign(plain.outputs[0].node)}_output"]
    symbol, weights = tmp_path / "net-symbol.json", tmp_path / "net-0000.params"
    symbol.write_text(nnvm.serialize(graph), encoding="utf-8")
    with weights.open("wb") as file:
        write_params(file, {f"arg:{name}": value for name, value in params.items()})
    again = read_checkpoint(symbol, weights)
    assert same(graph, again) and again.params.keys() == params.keys()
    image = np.random.default_rng(0).normal(0, 1, (2, 3, 16, 16)).astype("float32")
    expected = run(plain, {plain.inputs[0]: image})[0]
    np.testing.assert_array_equal(run(again, {foreign(plain.inputs[0]): image})[0], expected)
