"""What is read off operators' parameters."""

from __future__ import annotations

from typing import Optional

import pytest

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import scores_kind


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        (Node("last", "softmax", (Tensor("data"),), {"axis": "-1"}), "softmax"),
        (Node("last", "SoftmaxActivation", (Tensor("data"),)), "softmax"),
        (Node("last", "sigmoid", (Tensor("data"),)), "sigmoid"),
        (Node("last", "Activation", (Tensor("data"),), {"act_type": "sigmoid"}), "sigmoid"),
        (Node("last", "Activation", (Tensor("data"),), {"act_type": "tanh"}), None),
        (Node("last", "log_softmax", (Tensor("data"),)), None),
    ],
)
@pytest.mark.parametrize("after", [None, "Flatten", "squeeze", "Cast"])
def test_scores_are_told_by_the_last_operator_that_computes(
    last: Node, kind: Optional[str], after: Optional[str]
) -> None:
    nodes = (last,) if after is None else (last, Node("after", after, (Tensor("last"),)))
    output = Tensor(nodes[-1].name)
    assert scores_kind(Graph(nodes, ("data",), (output,), {}), output) == kind


def test_an_input_is_no_scores() -> None:
    assert scores_kind(Graph((), ("data",), (Tensor("data"),), {}), Tensor("data")) is None
