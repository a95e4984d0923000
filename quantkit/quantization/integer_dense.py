"""Dense layers that hand on integers to the dense layers after them, instead of going through FP32.

MXNet 1.9.1 alone has a kernel for that. It keeps the weights in FP32 and rounds them channel by channel, as those of
convolutions are rounded.
"""

from __future__ import annotations

from collections.abc import Callable

from quantkit.backends.mxnet.capabilities import has_integer_dense
from quantkit.backends.mxnet.instructions import may_rule_out_vnni
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Node


def may_hand_on(graph: Graph) -> bool:
    """Whether dense layers of a fused network may hand on integers.

    Networks with convolutions stay readable by all releases, and small. Beside LSTM layers, which rule out VNNI, the
    kernel's sums would saturate: its weights have 8 bits.
    """
    layers = (fused_layer_of(node) for node in graph.nodes)
    has_convolutions = any(layer.is_convolution for layer in layers if layer)
    return not has_convolutions and not may_rule_out_vnni(graph) and has_integer_dense()


def hands_on_integers(graph: Graph, is_int8: Callable[[Node], bool], node: Node) -> bool:
    """Whether a node is an INT8 dense layer with nothing but INT8 dense layers that read its result."""
    layer = fused_layer_of(node)
    if not _is_dense(node) or not is_int8(node) or layer is None or layer.activation_kind not in (None, "relu"):
        return False
    readers = graph.consumers.get(node.output, ())
    return (
        bool(readers)
        and node.output not in graph.outputs
        and all(_is_dense(reader) and is_int8(reader) for reader in readers)
    )


def _is_dense(node: Node) -> bool:
    layer = fused_layer_of(node)
    return layer is not None and not layer.is_convolution and layer.addition is None
