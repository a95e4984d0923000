"""The training graph of a quantized network, and the quantized network that training leaves.

The forward pass computes what the INT8 network computes, in FP32 tensors of whole numbers, and gradients pass its
roundings straight through: the scheme of Jacob et al., "Quantization and training of neural networks for efficient
integer-arithmetic-only inference" (CVPR 2018, arXiv:1712.05877). Batch normalization is folded into weights before, so
its statistics are frozen, as they are towards the end of training in Krishnamoorthi, "Quantizing deep convolutional
networks for efficient inference" (2018, arXiv:1806.08342), section 3.2.2. One that could not be folded keeps to its
statistics, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import ModelError, UserError
from quantkit.fusion.float_symbol import float_graph, float_nodes
from quantkit.ir.fused_layer import unrolled
from quantkit.ir.graph import Graph, Node
from quantkit.ir.names import Names
from quantkit.ir.recurrent_layer import hands_on_cell_of, recurrent_layer_of
from quantkit.quantization.quantized_graph import QuantizedGraph, check_quantized
from quantkit.training.simulated.draft import TrainingDraft
from quantkit.training.simulated.operators import add_int8
from quantkit.training.simulated.parameters import TrainedParameter, frozen_parameters, trained_parameters
from quantkit.training.simulated.ranges import RangeGroup, initial_logarithms, range_groups, with_ranges
from quantkit.training.simulated.weights import without_derived_scales


@dataclass(frozen=True, eq=False)
class SimulatedTraining:
    """An FP32 network that computes what an INT8 network computes, and can be trained.

    Attributes:
        network: the quantized network.
        graph: the training graph, of operators of MXNet, with the network's inputs and outputs under their names. Its
            parameters are those of the fused network, under their names, and further ones.
        trained: the parameters to train, by name.
        frozen: why the others keep their values, by name.
        groups: the tensors that share a learnable range.
    """

    network: QuantizedGraph
    graph: Graph
    trained: Mapping[str, TrainedParameter] = field(repr=False)
    frozen: Mapping[str, str] = field(repr=False)
    groups: tuple[RangeGroup, ...] = field(repr=False)

    def quantized_graph(self, params: Mapping[str, np.ndarray]) -> QuantizedGraph:
        """The quantized network with trained weights, biases and ranges, to be lowered as any other.

        With the graph's own parameters it is the network as it was. Pre-add ranges follow from the weights: where
        anything has changed they are left out, to be measured anew (``algorithms.stage.with_pre_add_ranges``).

        Args:
            params: the parameters of the training graph, float32, by name; those that are not trained are not read.

        Raises:
            UserError: a parameter is missing, has another shape, or holds NaN or infinite values; or a range has
                become infinite, or counts as 0.
        """
        for name in self.trained:
            _check(name, params, self.graph.params[name].shape)
        plan, old = self.network.plan, self.network.graph.params
        new = {name: np.asarray(params[name], np.float32) for name in self.trained if name in old}
        ranged = with_ranges(plan, self.groups, {**self.graph.params, **params})
        if ranged.tensors != plan.tensors or any(not np.array_equal(old[name], new[name]) for name in new):
            ranged = replace(ranged, pre_add_ranges={})
        return replace(self.network, graph=replace(self.network.graph, params={**old, **new}), plan=ranged)


def training_graph(network: QuantizedGraph, input_shape: Sequence[int]) -> SimulatedTraining:
    """The training graph of a quantized network.

    Args:
        network: the quantized network.
        input_shape: that of a sample, such as (channels, height, width).

    Raises:
        ModelError: a recurrent layer runs in INT8; or network and plan do not belong together.
        EngineError: the network does not accept the shape.
    """
    check_quantized(network)
    network = without_derived_scales(network)
    if network.int8_lstms:
        node = network.int8_lstms[0].node
        raise ModelError(
            f"the LSTM layer {node.name!r} runs in INT8, which training does not simulate; keep it in FP32 "
            f"(--exclude {(*node.origin, node.name)[0]}), or use the network as it is"
        )
    graph, names = network.graph, Names(network.graph.names)
    shapes = infer_shapes(float_graph(graph), dict.fromkeys(graph.inputs, (1, *input_shape)))
    groups = range_groups(network, shapes, names)
    growth = {tensor: group.factor for group in groups for tensor in group.tensors}
    nodes = [node for group in groups for node in group.nodes]
    draft = TrainingDraft(names, nodes, network=network, shapes=shapes, growth=growth)
    for node in graph.nodes:
        if network.is_int8(node):
            add_int8(draft, node)
        else:
            _add_float(draft, node)
    outputs = tuple(map(draft.as_float, graph.outputs))
    params = {**graph.params, **initial_logarithms(groups), **draft.params}
    made = Graph(tuple(draft.nodes), graph.inputs, outputs, params).pruned()
    trained = trained_parameters(network, made, [group.parameter for group in groups])
    return SimulatedTraining(network, made, trained, frozen_parameters(network, made, trained, draft.reasons), groups)


def _add_float(draft: TrainingDraft, node: Node) -> None:
    """Add a node that stays in FP32, operator by operator."""
    for tensor in node.inputs:
        draft.as_float(tensor)
    if recurrent_layer_of(node) is not None or hands_on_cell_of(draft.graph, node) is not None:
        draft.nodes += float_nodes(draft.graph, node)
        return
    for each in unrolled(node, node.inputs, node.name, lambda wanted: draft.names.take(f"{node.name}_{wanted}")):
        frozen = {"use_global_stats": "True"} if each.op == "BatchNorm" else {}
        draft.add(replace(each, attrs={**each.attrs, **frozen}))


def _check(name: str, params: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> None:
    if name not in params:
        raise UserError(f"the trained parameters lack {name!r}; give all of the training graph")
    if params[name].shape != shape:
        raise UserError(
            f"the trained parameter {name!r} has shape {params[name].shape} and needs {shape}; give those of this "
            "training graph"
        )
    if not np.isfinite(params[name]).all():
        raise UserError(f"training has left NaN or infinite values in {name!r}; train with a smaller learning rate")
