"""Deciding which operators of a fused network run in INT8, and the integer form of what they read and write.

A decider returns why an operator stays FP32; None for INT8.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from typing import Optional

from quantkit.backends.mxnet.instructions import int8_lstm_obstacle
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.errors import ModelError, UserError
from quantkit.fusion.fuse import Fused
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of, layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import ADDITIONS, flag, integer
from quantkit.ir.recurrent_layer import RECURRENT, lstm_matrices, recurrent_layer_of
from quantkit.quantization.arithmetic import SMALLEST_PEAK, DType
from quantkit.quantization.exclude import excluded_nodes
from quantkit.quantization.integer_dense import may_hand_on
from quantkit.quantization.obstacles import convolution_obstacle, pooling_obstacle
from quantkit.quantization.plan import (
    Decision,
    Precision,
    QuantizationPlan,
    TensorDtype,
    TensorQuantization,
    check_dtype,
    operator_name,
)


def calibration_targets(graph: Graph) -> tuple[Tensor, ...]:
    """The tensors of a fused graph whose ranges a plan may ask for, in topological order."""
    wanted: dict[Tensor, None] = {}
    for node in graph.nodes:
        if _kind(node) in ("layer", "addition", "Concat", RECURRENT):
            operands = _operands(node)
            wanted.update(dict.fromkeys(tensor for tensor in operands if tensor.node not in graph.params))
            wanted[node.output] = None
    return tuple(wanted)


def _operands(node: Node) -> tuple[Tensor, ...]:
    recurrent = recurrent_layer_of(node)
    if recurrent is not None:
        return (recurrent.data, *recurrent.states[:1])
    return (node.inputs[0], node.inputs[-1]) if fused_layer_of(node) else node.inputs


def make_plan(
    fused: Fused,
    table: CalibrationTable,
    exclude: Sequence[str] = (),
    dtype: TensorDtype = "auto",
) -> QuantizationPlan:
    """Decide for each operator whether it runs in INT8.

    Args:
        fused: the fused network.
        table: calibrated ranges of (at least) ``calibration_targets``.
        exclude: what stays FP32: original node names, globs over them, or operator types.
        dtype: the type of tensors that are quantized from FP32: ``auto`` takes uint8 where the
            range has no negative values. Results of a fused ReLU are uint8 in the engine's kernels always.

    Raises:
        UserError: the type is unknown, an exclusion matches nothing, or uint8 is asked for a tensor with
            negative values.
        ModelError: the table lacks a range: it is of another network.
    """
    check_dtype(dtype)
    excluded = excluded_nodes(fused, exclude)
    state = _Planning(fused, table, dtype, excluded)
    decisions: dict[str, Decision] = {}
    for node in fused.graph.nodes:
        if node.name in excluded:
            reason: Optional[str] = f"excluded by {excluded[node.name]!r}"
        else:
            reason = _DECIDERS.get(_kind(node), _no_kernel)(state, node)
        precision: Precision = "int8" if reason is None else "fp32"
        decisions[node.name] = Decision(node.name, operator_name(node), node.origin, precision, reason or "")
    _share_concat_scales(state, decisions)
    plan = QuantizationPlan(decisions, state.tensors, tuple(exclude), dtype, integer_dense=may_hand_on(fused.graph))
    for node in fused.graph.nodes:
        if plan.hands_on_integers(fused.graph, node):
            # The kernel's type follows from its activation, not from the values seen.
            unsigned = layer_of(node).is_non_negative
            state.produce(node, state.range_of(node.output), "uint8" if unsigned else "int8")
    return plan


class _Planning:
    """What is known while the nodes are walked: the integer forms chosen so far."""

    def __init__(self, fused: Fused, table: CalibrationTable, dtype: TensorDtype, excluded: Container[str]) -> None:
        self.fused = fused
        self.graph = fused.graph
        self.tensors: dict[Tensor, TensorQuantization] = {}
        self.native: set[Tensor] = set()
        self._table = table
        self._wanted = dtype
        self._excluded = excluded

    def range_of(self, tensor: Tensor) -> Range:
        try:
            return self._table.ranges[str(tensor)]
        except KeyError:
            raise ModelError(
                f"the calibration table has no range for {str(tensor)!r}: it was made for another network; "
                "calibrate again"
            ) from None

    @cached_property
    def runs_convolutions(self) -> bool:
        """Whether a convolution of the network runs in INT8."""
        layers = (fused_layer_of(node) for node in self.graph.nodes if node.name not in self._excluded)
        return any(layer.is_convolution and _layer_obstacle(self, layer) is None for layer in layers if layer)

    def produce(self, node: Node, values: Range, dtype: DType) -> None:
        """The node puts out integers."""
        self.tensors[node.output] = TensorQuantization(values, dtype)
        self.native.add(node.output)

    def consume(self, tensor: Tensor) -> None:
        """Some node needs the tensor as integers: if nothing produces them, it is quantized."""
        if tensor in self.tensors:
            return
        values = self.range_of(tensor)
        if self._wanted == "uint8" and values.low < 0:
            raise UserError(
                f"uint8 activations were asked for, but {str(tensor)!r} has values down to {values.low:g}; "
                "use auto or int8"
            )
        self.tensors[tensor] = TensorQuantization(values, self.dtype_of(tensor))

    def dtype_of(self, tensor: Tensor) -> DType:
        """The type of the integers that a tensor has, or would have if it were quantized."""
        if tensor in self.tensors:
            return self.tensors[tensor].dtype
        return "uint8" if self.range_of(tensor).low >= 0 and self._wanted != "int8" else "int8"


def _decide_layer(state: _Planning, node: Node) -> Optional[str]:
    layer = layer_of(node)
    if obstacle := _layer_obstacle(state, layer):
        return obstacle
    if layer.is_convolution:
        state.produce(node, state.range_of(node.output), "uint8" if layer.is_non_negative else "int8")
    state.consume(layer.data)
    if layer.addend is not None:
        state.consume(layer.addend)
    return None


def _layer_obstacle(state: _Planning, layer: FusedLayer) -> Optional[str]:
    """Why a convolution or a dense layer cannot run in INT8."""
    if layer.weight.node not in state.graph.params:
        return "its weights are computed, not constant"
    if layer.bias is not None and layer.bias.node not in state.graph.params:
        return "its bias is computed, not constant"
    filters = len(state.graph.params[layer.weight.node])
    if layer.is_convolution and (obstacle := convolution_obstacle(layer, filters, state.dtype_of(layer.data))):
        return obstacle
    if not layer.is_convolution and not flag(layer.core, "flatten", default=True):
        return "a dense layer over the last axis only has no INT8 form here"
    if not layer.is_convolution and layer.activation_kind not in (None, "relu", "relu6"):
        return "its activation has no INT8 kernel"
    if _vanishes(state.range_of(layer.data)):
        return "its input is 0 in every sample"
    if layer.is_convolution and _vanishes(state.range_of(layer.node.output)):
        return "its result is 0 in every sample"
    if layer.is_convolution and layer.addend is not None and _vanishes(state.range_of(layer.addend)):
        return "what it adds is 0 in every sample"
    return None


_LSTM_ALONE = "the engine has an INT8 kernel for LSTM layers only"


def _decide_recurrent(state: _Planning, node: Node) -> Optional[str]:
    layer = recurrent_layer_of(node)
    if layer is None or layer.mode != "lstm":
        return _LSTM_ALONE
    if lstm_matrices(state.graph.params, layer) is None:
        return "its weights are computed, or do not fit"
    if state.runs_convolutions:
        return (
            "the engine's INT8 LSTM rules out VNNI for the whole process, and the network's INT8 convolutions need it"
        )
    if obstacle := int8_lstm_obstacle():
        return obstacle
    if _vanishes(state.range_of(layer.data)):
        return "its input is 0 in every sample"
    values = state.range_of(node.output)
    if _vanishes(values):
        return "its result is 0 in every sample"
    state.consume(layer.data)
    # The kernel rounds the initial state, the others and the result alike; the result is FP32.
    alike = [values, *map(state.range_of, layer.states[:1])]
    values = Range(min(each.low for each in alike), max(each.high for each in alike))
    state.tensors[node.output] = TensorQuantization(values, "int8")
    return None


def _explain_unfused_recurrent(state: _Planning, node: Node) -> Optional[str]:
    if node.attrs.get("mode") != "lstm":
        return _LSTM_ALONE
    reasons = (rejection.reason for rejection in state.fused.rejected if rejection.node == node.name)
    return next(reasons, _no_kernel(state, node))


def _vanishes(values: Range) -> bool:
    """Whether a tensor is 0 in every sample, or so close that no scale of float32 tells its values apart."""
    return values.largest <= SMALLEST_PEAK


def _decide_pooling(state: _Planning, node: Node) -> Optional[str]:
    return pooling_obstacle(node, _shape_of_pooled(state, node)) or _follow(state, node)


def _shape_of_pooled(state: _Planning, node: Node) -> tuple[int, ...]:
    """The shape of its result; of a maximum that fusion has made, of which the axes matter alone, that of an input."""
    tensor, shapes = node.output, state.fused.shapes
    while tensor not in shapes and (pooling := state.graph.producer(tensor)) is not None:
        tensor = pooling.inputs[0]
    return shapes[tensor]


def _decide_flatten(state: _Planning, node: Node) -> Optional[str]:
    if not any(fused_layer_of(reader) for reader in state.graph.consumers.get(node.output, ())):
        return "no INT8 layer reads its result"
    return _follow(state, node)


def _follow(state: _Planning, node: Node) -> Optional[str]:
    """INT8 where the input is INT8 already; the values, so the range and the type, stay what they are."""
    source = node.inputs[0]
    if source not in state.native:
        return "its input is FP32"
    state.produce(node, state.tensors[source].range, state.tensors[source].dtype)
    return None


def _decide_concat(state: _Planning, node: Node) -> Optional[str]:
    if not any(tensor in state.native for tensor in node.inputs):
        return "all its inputs are FP32"
    if any(tensor.node in state.graph.params for tensor in node.inputs):
        return "one of its inputs is a parameter"
    if integer(node, "dim", 1) != 1:
        return "the engine's INT8 concatenation is tested along the channels only"
    if _vanishes(state.range_of(node.output)):
        return "its result is 0 in every sample"
    if any(_vanishes(state.range_of(tensor)) for tensor in node.inputs if tensor not in state.native):
        return "one of its inputs is 0 in every sample"
    for tensor in node.inputs:
        state.consume(tensor)
    forms = [state.tensors[tensor] for tensor in node.inputs]
    values = Range(min(form.range.low for form in forms), max(form.range.high for form in forms))
    state.produce(node, values, "int8" if any(form.dtype == "int8" for form in forms) else "uint8")
    return None


def _share_concat_scales(state: _Planning, decisions: Mapping[str, Decision]) -> None:
    """Let convolutions that only feed a concatenation round to its scale at once, instead of once more there."""
    for node in state.graph.nodes:
        if not decisions[node.name].is_int8 or _kind(node) != "Concat":
            continue
        whole = state.tensors[node.output]
        for tensor in node.inputs:
            unpooled = _unpooled(state, tensor)
            producer = fused_layer_of(state.graph.producer(unpooled[-1]))
            # A clip is done by saturation at the tensor's own range, so that must stay.
            if producer is None or not producer.is_convolution or producer.activation_kind == "relu6":
                continue
            same_type = state.tensors[tensor].dtype == whole.dtype
            if same_type and all(map(state.graph.sole_consumer, unpooled)):
                state.tensors.update(dict.fromkeys(unpooled, whole))


def _unpooled(state: _Planning, tensor: Tensor) -> list[Tensor]:
    """A tensor, and what it was before maxima were taken: rounding before or after a maximum gives the same."""
    found = [tensor]
    while (node := state.graph.producer(found[-1])) is not None and node.op == "Pooling":
        if node.output not in state.native or node.attrs.get("pool_type", "max") != "max":
            break
        found.append(node.inputs[0])
    return found


def _decide_addition(state: _Planning, node: Node) -> Optional[str]:
    if any(tensor not in state.native for tensor in node.inputs):
        return "one of its inputs is FP32"
    if len({state.fused.shapes.get(tensor) for tensor in node.inputs}) != 1:
        return "the engine's INT8 addition does not broadcast"
    values = state.range_of(node.output)
    if _vanishes(values):
        return "its result is 0 in every sample"
    first, second = (state.tensors[tensor].dtype for tensor in node.inputs)
    state.produce(node, values, first if first == second else "int8")
    return None


def _no_kernel(state: _Planning, node: Node) -> Optional[str]:
    if node.op == "BatchNorm" and node.inputs[0].node in state.graph.inputs:
        return "it normalises the network's input, before there are integers"
    return f"{node.op} has no INT8 kernel"


_Decider = Callable[[_Planning, Node], Optional[str]]
_DECIDERS: dict[str, _Decider] = {
    "layer": _decide_layer,
    "Pooling": _decide_pooling,
    "Flatten": _decide_flatten,
    "Concat": _decide_concat,
    "addition": _decide_addition,
    RECURRENT: _decide_recurrent,
    "RNN": _explain_unfused_recurrent,
}


def _kind(node: Node) -> str:
    if fused_layer_of(node) is not None:
        return "layer"
    return "addition" if node.op in ADDITIONS else node.op
