"""Operators that files call by other names than MXNet's own."""

from __future__ import annotations

import ctypes
import json

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_mxnet, operator_names
from quantkit.backends.mxnet.execute import run
from quantkit.formats.mxnet import nnvm
from quantkit.ir.aliases import CANONICAL_NAMES, canonical
from quantkit.ir.allowed_operators import OPERATORS
from quantkit.models.random_weights import random_weights
from quantkit.quantization.exclude import excluded_nodes
from tests.networks import fire, images
from tests.quantization.algorithms.networks import planned

# MXNet's own name is of its NumPy operators, which networks may not have; both have been the same from 1.6 on.
_OF_NUMPY = {"cumsum": "_np_cumsum"}


def written(*operators: tuple[str, dict[str, str]]) -> str:
    """The JSON of a network of one input in which each operator reads the one before, in all its inputs."""
    nodes = [{"op": "null", "name": "data", "inputs": []}]
    for position, (op, attrs) in enumerate(operators):
        inputs = [[position, 0, 0]] * max(1, OPERATORS[op].fewest)
        nodes.append({"op": op, "name": f"node{position}", "attrs": attrs, "inputs": inputs})
    return json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[len(operators), 0, 0]]})


def own_name(name: str) -> str:
    """What MXNet itself calls the operator."""
    library = load_mxnet().base._LIB
    handle, found, count = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_uint()
    texts, rest = ctypes.c_char_p(), [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
    assert library.NNGetOpHandle(name.encode(), ctypes.byref(handle)) == 0
    arguments = (found, texts, count, *rest, ctypes.c_char_p())
    assert library.NNGetOpInfo(handle, *map(ctypes.byref, arguments)) == 0
    assert found.value is not None
    return found.value.decode()


def test_the_canonical_names_are_mxnets_own(engine: None) -> None:
    here = OPERATORS.keys() & operator_names(load_mxnet())
    assert len(here) > 300
    named = {name: own_name(name) for name in here}
    assert {name: own for name, own in named.items() if own != CANONICAL_NAMES.get(name, name)} == _OF_NUMPY


def test_every_canonical_name_is_allowed_and_its_own() -> None:
    for alias, name in CANONICAL_NAMES.items():
        assert OPERATORS[alias] == OPERATORS[name], alias
        assert canonical(name, {}) == (name, {})


def test_a_parsed_network_has_no_aliases(engine: None) -> None:
    text = written(
        ("_Plus", {}), ("relu", {}), ("identity", {}), ("concat", {"num_args": "1", "dim": "1"}), ("flatten", {})
    )
    graph = nnvm.parse(text, {})
    assert [node.op for node in graph.nodes] == ["elemwise_add", "Activation", "_copy", "Concat", "Flatten"]
    assert graph.by_name["node1"].attrs == {"act_type": "relu"}
    data = images()
    np.testing.assert_array_equal(run(graph, {"data": data})[0], np.maximum(2 * data, 0).reshape(len(data), -1))


def test_normalization_across_devices_is_that_of_one(engine: None) -> None:
    """At inference it reads moving averages, of which there is one copy."""
    text = written(("_contrib_SyncBatchNorm", {"eps": "0.01", "fix_gamma": "False", "key": "x", "ndev": "4"}))
    (node,) = nnvm.parse(text, {}).nodes
    assert (node.op, node.attrs) == ("BatchNorm", {"eps": "0.01", "fix_gamma": "False"})


def test_a_network_that_mxnet_wrote_back_is_the_same(engine: None) -> None:
    """Its files have the names that MXNet calls operators by, quantkit's too."""
    graph = nnvm.parse(written(("_minus", {}), ("relu", {}), ("concat", {"num_args": "1"})), {})
    again = load_mxnet().sym.load_json(nnvm.serialize(graph)).tojson()
    assert nnvm.serialize(nnvm.parse(again, {})) == nnvm.serialize(graph)


@pytest.mark.parametrize(("own", "alias"), [("Concat", "concat"), ("Flatten", "flatten")])
def test_aliases_change_no_random_weights_and_no_plan(engine: None, own: str, alias: str) -> None:
    graph = fire()
    text = nnvm.serialize(graph)
    renamed = text.replace(f'"op": "{own}"', f'"op": "{alias}"')
    assert renamed != text
    found = nnvm.parse(renamed, graph.params)
    shapes = {name: value.shape for name, value in graph.params.items()}
    for name, value in random_weights(nnvm.parse(text, {}), shapes).items():
        np.testing.assert_array_equal(random_weights(nnvm.parse(renamed, {}), shapes)[name], value)
    assert vars(planned(found, images())[1]) == vars(planned(graph, images())[1])


def test_exclusions_go_by_any_name(engine: None) -> None:
    # It has the name of the pooling, which moved before it.
    fused, _ = planned(fire(), images())
    assert excluded_nodes(fused, ["concat"]) == {"max": "concat"}
    assert excluded_nodes(fused, ["Concat"]) == {"max": "Concat"}
