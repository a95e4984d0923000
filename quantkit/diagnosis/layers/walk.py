"""Running the FP32 and the INT8 network side by side, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from quantkit.data.aggregation import under
from quantkit.diagnosis.layers.layer import parts
from quantkit.diagnosis.layers.overflow import OverflowSums
from quantkit.diagnosis.layers.tensor import TensorWatch, grid
from quantkit.errors import ModelError
from quantkit.evaluation.deviation import DeviationSums
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import recurrent_layer_of
from quantkit.quantization.algorithms.channel_shift import can_shift
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.constants import with_constants_folded
from quantkit.quantization.simulation.simulator import Int8Network, SideBySide, Values


class LayerSums:
    """Running sums of one layer's errors; see ``analysis.LayerError``."""

    def __init__(self, has_weights: bool) -> None:
        """Start with nothing seen."""
        self.accumulated, self.own, self.tensors = DeviationSums(), DeviationSums(), DeviationSums()
        self.weights = DeviationSums() if has_weights else None
        self.without_vnni, self.overflow = DeviationSums(), OverflowSums()

    def state(self) -> dict[str, np.ndarray]:
        """The sums by name."""
        return {**{name: each.state for name, each in self._deviations().items()}, **self.overflow.state()}

    def merge(self, state: Mapping[str, np.ndarray]) -> None:
        """Add the ``state`` of the same layer's other sums."""
        for name, each in self._deviations().items():
            each.merge(state[name])
        self.overflow.merge(state)

    def _deviations(self) -> dict[str, DeviationSums]:
        known = {"accumulated": self.accumulated, "own": self.own, "tensors": self.tensors}
        weights = {} if self.weights is None else {"weights": self.weights}
        return {**known, **weights, "without VNNI": self.without_vnni}


class Comparison:
    """Runs both networks over batches of images and sums up how they differ; memory holds one batch.

    The INT8 network is simulated in exact integers, so the result is that of processors with VNNI.

    Tensors that channel shift moved by a constant per channel are compared after subtracting each channel's shift.

    Attributes:
        layers: the sums of each INT8 layer, by its name.
        tensors: the watch of each tensor that becomes integers.
        shifts: the constants, each of a shape that can be added to its tensor.
    """

    def __init__(self, reference: Graph, network: Int8Network, shifts: Values = MappingProxyType({})) -> None:
        """Start with nothing seen; ``shifts`` are those of ``channel_shifts``.

        Raises:
            ModelError: the networks have different operators.
        """
        reference, network = _alike(reference, network)
        self._reference, self._network, self.shifts = reference, network, shifts
        self.layers = {
            node.name: LayerSums(fused_layer_of(node) is not None or recurrent_layer_of(node) is not None)
            for node in network.graph.nodes
            if network.is_layer(node)
        }
        self.tensors = {
            tensor: TensorWatch(grid(form, network.has_seven_bits(tensor)))
            for tensor, form in network.network.plan.tensors.items()
        }

    def state(self) -> dict[str, np.ndarray]:
        """All that has been seen, by name."""
        watched: dict[str, dict[str, np.ndarray]] = {
            **{f"layers/{number}/": each.state() for number, each in enumerate(self.layers.values())},
            **{f"tensors/{number}/": each.state() for number, each in enumerate(self.tensors.values())},
        }
        return {prefix + name: values for prefix, state in watched.items() for name, values in state.items()}

    def merge(self, state: Mapping[str, np.ndarray]) -> None:
        """Add the ``state`` of another comparison of these networks."""
        for number, sums in enumerate(self.layers.values()):
            sums.merge(under(f"layers/{number}/", state))
        for number, watch in enumerate(self.tensors.values()):
            watch.merge(under(f"tensors/{number}/", state))

    def add(self, images: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Add a batch of the networks' input; return the outputs of the FP32 and of the INT8 network."""
        (name,) = self._reference.inputs
        self._watch(Tensor(name), images)
        both = SideBySide(self._reference, self._network, images)
        exact, quantized = both.exact, both.quantized
        for node in both.run():
            for tensor in [tensor for tensor in exact if tensor.node == node.name]:
                self._watch(tensor, exact[tensor])
            if node.name in self.layers:
                self._compare(node, exact, quantized)
        outputs = self._reference.outputs
        return [exact[output] for output in outputs], [quantized[output] for output in outputs]

    def _watch(self, tensor: Tensor, values: np.ndarray) -> None:
        if tensor in self.tensors:
            self.tensors[tensor].add(values + self.shifts[tensor] if tensor in self.shifts else values)

    def _compare(self, node: Node, exact: Values, quantized: Values) -> None:
        wanted, sums = exact[node.output], self.layers[node.name]
        alone = parts(self._network, self._reference, node, exact, self.shifts)
        sums.accumulated.add(wanted, quantized[node.output] - self.shifts.get(node.output, np.float32(0.0)))
        sums.own.add(wanted, alone.own)
        sums.tensors.add(wanted, alone.tensors)
        sums.without_vnni.add(wanted, alone.without_vnni)
        if alone.saturating is not None:
            sums.overflow.add(alone.saturating)
        if sums.weights is not None and alone.weights is not None:
            sums.weights.add(wanted, alone.weights)


def channel_shifts(reference: Graph, network: Int8Network, images: np.ndarray) -> dict[Tensor, np.ndarray]:
    """By how much channel shift has moved tensors: the mean difference of each channel from FP32 in a batch.

    The rule of ``algorithms.channel_shift`` decides which tensors these may be.

    Args:
        reference: the FP32 network.
        network: the INT8 network.
        images: the networks' input.

    Returns:
        Constants of a shape that can be added to their tensors.

    Raises:
        ModelError: the networks have different operators.
    """
    reference, network = _alike(reference, network)
    plan = QuantizedGraph(reference, network.network.plan)
    shiftable = {node.name for node in reference.nodes if can_shift(plan, node)}
    if not shiftable:
        return {}
    both = SideBySide(reference, network, images)
    shifts = {}
    for node in both.run():
        if node.name in shiftable:
            difference = both.quantized[node.output] - both.exact[node.output]
            shifts[node.output] = difference.mean(axis=(0, *range(2, difference.ndim)), keepdims=True)
    return shifts


def _alike(reference: Graph, network: Int8Network) -> tuple[Graph, Int8Network]:
    """Both networks with their constants folded, and the same operators."""
    reference = with_constants_folded(reference)
    folded = replace(network.network, graph=with_constants_folded(network.graph))
    network = replace(network, network=folded)
    names = [{node.name for node in graph.nodes} for graph in (reference, network.graph)]
    if names[0] != names[1]:
        name = min(names[0] ^ names[1])
        where = "INT8 network" if name in names[0] else "reference"
        raise ModelError(
            f"the reference is another network: the {where} has no operator {name!r}; "
            "give the FP32 network that the bundle was made from"
        )
    return reference, network
