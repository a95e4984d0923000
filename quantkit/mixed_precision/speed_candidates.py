"""The groups of layers that may be faster in FP32 together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Node
from quantkit.ir.operators import integers
from quantkit.mixed_precision.candidates import Candidate, candidates
from quantkit.quantization.quantized_graph import QuantizedGraph


def speed_candidates(network: QuantizedGraph) -> tuple[Candidate, ...]:
    """All candidates of a network, the large ones first, each set of layers once.

    Besides those of ``candidates`` they are all layers of a kind, because a kernel is slow wherever it runs, and the
    network's layers in halves, quarters and so on, because conversions cost time only where INT8 ends.
    """
    layers = network.int8_weighted
    by_layers: dict[frozenset[str], Candidate] = {}
    names = [node.name for node in layers]
    for candidate in (*_kinds(layers), *_parts(names, 0, len(names)), *candidates(network)):
        by_layers.setdefault(candidate.layers, candidate)
    return tuple(sorted(by_layers.values(), key=lambda candidate: -len(candidate.layers)))


def _kinds(layers: Sequence[Node]) -> Iterator[Candidate]:
    kinds: dict[str, set[str]] = {}
    for node in layers:
        kinds.setdefault(_kind(node), set()).add(node.name)
    for kind, names in kinds.items():
        yield Candidate(f"every {kind}", frozenset(names))


def _kind(node: Node) -> str:
    layer = fused_layer_of(node)
    if layer is None:
        return "LSTM"
    if not layer.is_convolution:
        return layer.core.op
    size = "x".join(map(str, integers(layer.core, "kernel")))
    return f"{size} grouped Convolution" if layer.groups > 1 else f"{size} Convolution"


def _parts(names: Sequence[str], start: int, stop: int) -> Iterator[Candidate]:
    if stop - start < 2:
        return
    whole = "all layers" if stop - start == len(names) else f"layers {start + 1} to {stop} of {len(names)}"
    yield Candidate(whole, frozenset(names[start:stop]))
    middle = (start + stop) // 2
    yield from _parts(names, start, middle)
    yield from _parts(names, middle, stop)
