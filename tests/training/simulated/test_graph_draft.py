"""Graphs while they are built."""

from __future__ import annotations

import numpy as np

from quantkit.ir.graph import Node, Tensor
from quantkit.ir.names import Names
from quantkit.training.simulated.graph_draft import GraphDraft

X = Tensor("x")


def test_operators_get_free_names_and_attributes_as_texts() -> None:
    draft = GraphDraft(Names(["x"]))
    assert [draft.op("x", "clip", X, a_min=0.0), draft.op("y", "exp", X)] == [Tensor("x_1"), Tensor("y")]
    assert draft.nodes == [Node("x_1", "clip", (X,), {"a_min": "0.0"}), Node("y", "exp", (X,), {})]


def test_the_last_operator_can_take_a_name_that_is_reserved() -> None:
    draft = GraphDraft(Names(["x", "result"]))
    draft.op("result", "exp", X)
    assert draft.name_last("result") == Tensor("result")
    assert draft.nodes == [Node("result", "exp", (X,), {})]


def test_constants_are_shared_by_their_name() -> None:
    draft = GraphDraft(Names(["ones"]))
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    assert draft.add_constant("ones", ones, "a reason") == Tensor("ones_1")
    assert draft.shared_constant("zeros", zeros, "another") == draft.shared_constant("zeros", zeros, "another")
    assert draft.params == {"ones_1": ones, "zeros": zeros}
    assert draft.reasons == {"ones_1": "a reason", "zeros": "another"}
