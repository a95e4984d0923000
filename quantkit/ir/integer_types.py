"""Which tensors of an INT8 symbol hold integers of eight bits, as far as the symbol alone tells."""

from __future__ import annotations

from typing import Optional

import numpy as np

from quantkit.ir.allowed_operators import FUSED
from quantkit.ir.attribute_bounds import is_true
from quantkit.ir.graph import Graph, Node, Tensor

_NORMALIZATION = "_contrib_quantized_batch_norm"
_ALWAYS = frozenset({"_contrib_quantize", "_contrib_quantize_v2", "_contrib_requantize", _NORMALIZATION})
_AS_THEIR_INPUT = frozenset({"_contrib_quantized_act", "_contrib_quantized_pooling", "_contrib_quantized_flatten"})


def eight_bit_tensors(graph: Graph) -> frozenset[Tensor]:
    """The tensors that are int8 or uint8 for certain; of inputs of the network nothing is certain."""
    kept = {Tensor(name) for name, value in graph.params.items() if value.dtype in (np.int8, np.uint8)}
    for node in graph.nodes:
        if _makes_eight_bits(node) or (node.op in _AS_THEIR_INPUT and node.inputs[0] in kept):
            kept.add(node.output)
    return frozenset(kept)


def _makes_eight_bits(node: Node) -> bool:
    """Whether the first output is int8 or uint8 whatever the operator reads: others sum in 32 bits."""
    if node.op in FUSED:
        rounds = is_true(node.attrs, "quantized") and "min_calib_range" in node.attrs
        return rounds and not is_true(node.attrs, "enable_float_output")
    return node.op in _ALWAYS


def normalization_problem(graph: Graph) -> Optional[str]:
    """Which INT8 batch normalization may read something else than integers of eight bits; None if none does.

    MXNet 1.6 ends the process when it infers the types of such a network.
    """
    if all(node.op != _NORMALIZATION for node in graph.nodes):
        return None
    certain = eight_bit_tensors(graph)
    for node in graph.nodes:
        if node.op == _NORMALIZATION and node.inputs[0] not in certain:
            return (
                f"node {node.name!r} ({node.op}) must read integers of eight bits, which {node.inputs[0].node!r} need "
                "not be"
            )
    return None
