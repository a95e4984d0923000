"""Which of the user's layers each operator of a network belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quantkit.ir.graph import Graph, Node

CONVERSIONS = frozenset(
    f"_contrib_{name}" for name in ("quantize", "quantize_asym", "quantize_v2", "requantize", "dequantize")
)

_PREFIX = "quantized_"
_MAIN = frozenset({"Convolution", "FullyConnected", "Deconvolution", "RNN"})

Original = tuple[str, str]


@dataclass(frozen=True)
class Layer:
    """One layer in the user's terms: the name and type of its main operator, and the names of all its originals.

    A conversion between FP32 and INT8 is a separate layer, named after the layer that its input comes from.
    """

    name: str
    operator: str
    originals: tuple[str, ...]


def layers_of(graph: Graph, originals: Mapping[str, Sequence[Original]]) -> dict[str, Layer]:
    """The layer of each node, by the node's name.

    Args:
        graph: the network as it runs.
        originals: the names and types of the user's operators that a fused node computes, by the node's name. The
            names of nodes that lowering derives from a fused node lead back to it.
    """
    layers: dict[str, Layer] = {}
    for node in graph.nodes:
        stem = _stem(node.name, originals)
        if node.op in CONVERSIONS:
            source = node.inputs[0].node
            converted = layers.get(source, Layer(source, "input", (source,)))
            operator = node.op.removeprefix("_contrib_").removesuffix("_v2").removesuffix("_asym")
            layers[node.name] = Layer(converted.name, operator, converted.originals)
        elif stem:
            layers[node.name] = _layer(originals[stem])
        else:
            layers[node.name] = _own(node)
    return layers


def _stem(name: str, known: Mapping[str, object]) -> str:
    """The longest known name that ``name`` is derived from; empty if there is none."""
    candidate = name[len(_PREFIX) :] if name.startswith(_PREFIX) and name not in known else name
    while candidate and candidate not in known:
        candidate = candidate.rpartition("_")[0]
    return candidate


def _layer(originals: Sequence[Original]) -> Layer:
    name, operator = next((each for each in originals if each[1] in _MAIN), originals[0])
    return Layer(name, operator, tuple(each[0] for each in originals))


def _own(node: Node) -> Layer:
    core = next((each.op for each in node.body.nodes if each.op in _MAIN), node.op) if node.body else node.op
    return Layer(node.name, core, (node.name,))
