"""Which of the user's layers each operator of a network works for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quantkit.ir.graph import Graph, Node

CONVERSIONS = frozenset({"_contrib_quantize", "_contrib_quantize_v2", "_contrib_dequantize", "_contrib_requantize"})

_PREFIX = "quantized_"
_MAIN = frozenset({"Convolution", "FullyConnected", "Deconvolution", "RNN"})

Original = tuple[str, str]


@dataclass(frozen=True)
class Layer:
    """One layer by the user's names: that of its main operator and that operator's type, and all that it stands for.

    A conversion between FP32 and INT8 is a layer of its own, of the name of the layer whose result it converts.
    """

    name: str
    operator: str
    originals: tuple[str, ...]


def layers_of(graph: Graph, originals: Mapping[str, Sequence[Original]]) -> dict[str, Layer]:
    """The layer of each node, by the node's name.

    Args:
        graph: the network as it runs.
        originals: by name of a fused node, the names and types of the user's operators that it computes.
            Nodes that quantkit's lowering has derived from it are found by their names.
    """
    found: dict[str, Layer] = {}
    for node in graph.nodes:
        stem = _stem(node.name, originals)
        if node.op in CONVERSIONS:
            source = node.inputs[0].node
            converted = found.get(source, Layer(source, "input", (source,)))
            operator = node.op.replace("_contrib_", "").replace("_v2", "")
            found[node.name] = Layer(converted.name, operator, converted.originals)
        elif stem:
            found[node.name] = _layer(originals[stem])
        else:
            found[node.name] = _own(node)
    return found


def _stem(name: str, known: Mapping[str, object]) -> str:
    """The longest known name that ``name`` is derived from; empty where there is none."""
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
