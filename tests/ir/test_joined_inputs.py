"""Inputs in one vector and apart again: the same network."""

from __future__ import annotations

import numpy as np

from quantkit.ir.deployed_form import DeployedForm
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.handed_states import HandedState
from quantkit.ir.joined_inputs import apart, free_name, taken_from, with_inputs_apart, with_inputs_joined
from tests.networks import Builder

SHAPES = {"picture": (2, 3, 3), "numbers": (4,)}


def graph() -> Graph:
    """The sum of all values of two inputs."""
    b = Builder()
    total = b.op("sum", "picture_sum", Tensor("picture"), axis=(1, 2, 3))
    other = b.op("sum", "number_sum", Tensor("numbers"), axis=1)
    whole = b.op("elemwise_add", "all", total, other)
    return Graph(tuple(b.nodes), tuple(SHAPES), (whole,), {})


def test_joined_and_apart_again() -> None:
    joined = with_inputs_joined(graph(), "inputs", SHAPES)
    assert joined.inputs == ("inputs",)
    assert [(node.name, node.op) for node in joined.nodes[:3]] == [
        ("inputs_picture", "slice_axis"),
        ("picture", "Reshape"),
        ("numbers", "slice_axis"),
    ]
    back = with_inputs_apart(joined, SHAPES)
    assert (back.inputs, back.nodes, back.outputs) == (graph().inputs, graph().nodes, graph().outputs)


def test_the_vector_gets_a_free_name() -> None:
    assert free_name({"data"}, SHAPES) == "inputs"
    assert free_name({"inputs"}, SHAPES) == "inputs1"
    assert free_name({"inputs_picture"}, SHAPES) == "inputs1"
    assert free_name({"data"}, {"a": (2, 2), "inputs_a": (3,)}) == "inputs1"


def test_parts_of_an_input_have_places() -> None:
    joined = with_inputs_joined(graph(), "inputs", SHAPES)
    assert taken_from(joined, "inputs") == {Tensor("inputs_picture"): slice(0, 18), Tensor("numbers"): slice(18, 22)}
    assert taken_from(joined.with_outputs([*joined.outputs, Tensor("inputs")]), "inputs") == {}
    assert taken_from(graph(), "numbers") == {}


def test_other_slices_have_no_places() -> None:
    for attrs in ({"axis": 2}, {"begin": -3}, {"end": "None"}, {"begin": 3, "end": 1}):
        b = Builder()
        out = b.op("slice_axis", "part", Tensor("data"), **{"axis": 1, "begin": 0, "end": 2, **attrs})
        assert taken_from(Graph(tuple(b.nodes), ("data",), (out,), {}), "data") == {}


def test_values_are_those_of_the_vector() -> None:
    vectors = np.arange(44, dtype=np.float32).reshape(2, 22)
    values = apart(vectors, SHAPES)
    np.testing.assert_array_equal(values["picture"], vectors[:, :18].reshape(2, 2, 3, 3))
    np.testing.assert_array_equal(values["numbers"], vectors[:, 18:])


def test_a_deployed_network_reads_states_after_its_inputs() -> None:
    deployed = DeployedForm((HandedState("state", 1, (2, 5)),), SHAPES)
    assert deployed.inputs("inputs") == ("picture", "numbers", "state")
    assert deployed.shapes("inputs", (22,)) == {"picture": (1, 2, 3, 3), "numbers": (1, 4), "state": (1, 2, 5)}
    values = deployed.values("inputs", np.ones((3, 22), np.float32))
    assert {name: value.shape for name, value in values.items()} == {
        "picture": (3, 2, 3, 3),
        "numbers": (3, 4),
        "state": (3, 2, 5),
    }
    assert DeployedForm().inputs("data") == ("data",)
