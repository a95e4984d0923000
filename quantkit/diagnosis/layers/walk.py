"""Running the FP32 and the INT8 network side by side, operator by operator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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


class Comparison:
    """Runs both networks over batches of images and sums up how they differ; memory holds one batch.

    The INT8 network is simulated in exact integers, so the result is that of processors with VNNI.

    Tensors that channel shift moved by a constant per channel are compared after subtracting each channel's shift. The
    rule of ``algorithms.channel_shift`` decides which tensors these may be; the constants are the channels' mean
    differences from FP32 in the first batch.

    Attributes:
        layers: the sums of each INT8 layer, by its name.
        tensors: the watch of each tensor that becomes integers.
        shifts: the estimated constants, each of a shape that can be added to its tensor.
    """

    def __init__(self, reference: Graph, network: Int8Network, with_channel_shift: bool) -> None:
        """Start with nothing seen; ``with_channel_shift``: whether channel shift may have moved tensors.

        Raises:
            ModelError: the networks have different operators.
        """
        reference = with_constants_folded(reference)
        folded = replace(network.network, graph=with_constants_folded(network.graph))
        network = replace(network, network=folded)
        self._reference, self._network = reference, network
        names = [{node.name for node in graph.nodes} for graph in (reference, network.graph)]
        if names[0] != names[1]:
            name = min(names[0] ^ names[1])
            where = "INT8 network" if name in names[0] else "reference"
            raise ModelError(
                f"the reference is another network: the {where} has no operator {name!r}; "
                "give the FP32 network that the bundle was made from"
            )
        self.layers = {
            node.name: LayerSums(fused_layer_of(node) is not None or recurrent_layer_of(node) is not None)
            for node in network.graph.nodes
            if network.is_layer(node)
        }
        self.tensors = {
            tensor: TensorWatch(grid(form, network.has_seven_bits(tensor)))
            for tensor, form in network.network.plan.tensors.items()
        }
        self._shiftable = {
            node.output
            for node in reference.nodes
            if with_channel_shift and can_shift(QuantizedGraph(reference, network.network.plan), node)
        }
        self.shifts: dict[Tensor, np.ndarray] = {}

    def add(self, images: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Add a batch of the networks' input; return the outputs of the FP32 and of the INT8 network."""
        (name,) = self._reference.inputs
        self._watch(Tensor(name), images)
        both = SideBySide(self._reference, self._network, images)
        exact, quantized = both.exact, both.quantized
        for node in both.run():
            if node.output in self._shiftable and node.output not in self.shifts:
                difference = quantized[node.output] - exact[node.output]
                self.shifts[node.output] = difference.mean(axis=(0, *range(2, difference.ndim)), keepdims=True)
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
