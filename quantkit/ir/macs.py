"""Multiply-accumulates of a network's layers, from shapes alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import flag
from quantkit.ir.recurrent_layer import GATES

Shape = tuple[int, ...]


def macs(graph: Graph, shapes: Mapping[Tensor, Shape]) -> dict[str, int]:
    """The multiply-accumulates of each convolution, dense and recurrent layer by the name of its node.

    Fused and INT8 layers count as the layer inside; what is added or activated after it does not count.

    Args:
        graph: the network.
        shapes: of every tensor, inputs and parameters included; the batch counts as it stands in them.
    """
    counts = {node.name: _macs(node, shapes) for node in graph.nodes}
    return {name: count for name, count in counts.items() if count}


def _macs(node: Node, shapes: Mapping[Tensor, Shape]) -> int:
    core = node if node.body is None else next((each for each in node.body.nodes if each.op in _COUNTERS), node)
    op = _FLOAT_FORMS.get(core.op, core.op)
    if op == "RNN":
        return _recurrent(core, shapes)
    if op not in _COUNTERS:
        return 0
    weight = shapes[node.inputs[1]]
    tensor = node.inputs[0] if op == "Deconvolution" else node.output
    # Each value of the output (of a deconvolution: of the input) meets one row of the weight.
    return prod(shapes[tensor]) * prod(weight[1:])


_COUNTERS = frozenset({"Convolution", "FullyConnected", "Deconvolution", "RNN"})

_FLOAT_FORMS = {
    "_contrib_quantized_conv": "Convolution",
    "_contrib_quantized_fully_connected": "FullyConnected",
    "_contrib_quantized_rnn": "RNN",
}


def _recurrent(node: Node, shapes: Mapping[Tensor, Shape]) -> int:
    steps, batch, width = shapes[node.inputs[0]]
    hidden, layers = int(node.attrs["state_size"]), int(node.attrs["num_layers"])
    directions = 2 if flag(node, "bidirectional") else 1
    widths = [width] + [hidden * directions] * (layers - 1)
    gates = GATES[node.attrs["mode"]]
    return steps * batch * directions * sum(gates * hidden * (each + hidden) for each in widths)
