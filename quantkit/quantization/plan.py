"""The plan: for every operator INT8 or FP32 and why, for every INT8 tensor its type and range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Optional, get_args

from quantkit.calibration.ranges import Range
from quantkit.errors import UserError
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import ADDITIONS
from quantkit.ir.recurrent_layer import reported_name
from quantkit.quantization.arithmetic import DType, QuantParams, activation_params
from quantkit.quantization.integer_dense import hands_on_integers

Precision = Literal["int8", "fp32"]
TensorDtype = Literal["auto", "int8", "uint8"]
"""The type of quantized inputs; ``auto`` takes uint8 where nothing is negative."""


@dataclass(frozen=True)
class TensorQuantization:
    """The integer form of a tensor: values in ``range`` as ``dtype``."""

    range: Range
    dtype: DType

    @property
    def params(self) -> QuantParams:
        """The rounding that it means."""
        return activation_params(self.range, self.dtype)


@dataclass(frozen=True)
class Decision:
    """What becomes of one operator of the fused network. ``reason`` says why it stays FP32; empty for INT8."""

    node: str
    operator: str
    origin: tuple[str, ...]
    precision: Precision
    reason: str = ""

    @property
    def is_int8(self) -> bool:
        """Whether it runs in INT8."""
        return self.precision == "int8"


@dataclass(frozen=True, eq=False)
class QuantizationPlan:
    """Decisions by node name in topological order, and the integer form of every tensor that has one.

    With ``integer_dense``, dense layers that only INT8 dense layers read hand on integers, see ``integer_dense``.
    ``exclude`` and ``dtype`` are what was asked for, as in ``make_plan``. ``pre_add_ranges`` has, by the tensor
    that a layer with a sum puts out, the range of the layer's result before the sum, where it was measured.
    """

    decisions: Mapping[str, Decision]
    tensors: Mapping[Tensor, TensorQuantization]
    exclude: tuple[str, ...] = ()
    dtype: TensorDtype = "auto"
    pre_add_ranges: Mapping[Tensor, Range] = field(default_factory=dict)
    integer_dense: bool = False

    def is_int8(self, node: Node) -> bool:
        """Whether a node of the fused network runs in INT8."""
        return self.decisions[node.name].is_int8

    def hands_on_integers(self, graph: Graph, node: Node) -> bool:
        """Whether a node of the fused network is a dense layer that puts out integers."""
        return self.integer_dense and hands_on_integers(graph, self.is_int8, node)


def check_dtype(dtype: str) -> None:
    """Make sure that tensors can be asked to have this type.

    Raises:
        UserError: they cannot.
    """
    if dtype not in get_args(TensorDtype):
        raise UserError(f"unknown type of quantized inputs {dtype!r}; choose one of {', '.join(get_args(TensorDtype))}")


WITHOUT_WEIGHTS = frozenset({"Pooling", "Flatten", "Concat"}) | ADDITIONS
"""The operators besides convolutions and dense layers that may run in INT8."""


def float_plan(graph: Graph) -> QuantizationPlan:
    """The plan that leaves everything of a fused network in FP32."""
    reason = "the network was fused, not quantized"
    return QuantizationPlan(
        {node.name: Decision(node.name, operator_name(node), node.origin, "fp32", reason) for node in graph.nodes}, {}
    )


def operator_name(node: Node) -> str:
    """What an operator is called in reports: ``Convolution+sum+relu`` for a fused one."""
    layer: Optional[FusedLayer] = fused_layer_of(node)
    if layer is None:
        return reported_name(node) or node.op
    parts = [layer.core.op, "sum" if layer.addition is not None else None, layer.activation_kind]
    return "+".join(part for part in parts if part)
