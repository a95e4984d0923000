"""An INT8 symbol while it is lowered: its operators so far, and where each tensor's integers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Optional

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.quantization.arithmetic import DType
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph


@dataclass(frozen=True)
class StoredIntegers:
    """Where a lowered network has the integers of a tensor, and the range that they stand for.

    The range differs from the planned one where the kernel requires it: see ``lowering.mxnet_int8``.
    """

    tensor: Tensor
    form: TensorQuantization


@dataclass(frozen=True)
class StoredWeight:
    """The lowered network's parameters for a weight of the fused network: integers, and one scale per channel."""

    integers: str
    scales: str


@dataclass(frozen=True, eq=False)
class LoweredLstm:
    """The lowered network's parameter for the weights of an INT8 LSTM layer.

    It has the integers of the first ``features`` columns and of those of the state times each row's ``scale``, float32
    (rows,).
    """

    parameters: str
    features: int
    scale: np.ndarray


@dataclass
class Int8Draft:
    """The operators lowered so far, and the forms that each tensor of the fused network has among them.

    ``network`` is the one that is lowered, and ``names`` reserves all names, those of ``nodes`` and ``params`` too.
    ``native`` has the nodes that compute a tensor's integers, ``integers`` those that have them in each type. What the
    symbol stores as integers is in ``stored``, ``weights`` and ``lstms``.
    """

    network: QuantizedGraph
    names: Names
    nodes: list[Node] = field(default_factory=list)
    params: dict[str, np.ndarray] = field(default_factory=dict)
    integers: dict[tuple[Tensor, DType], str] = field(default_factory=dict)
    stored: dict[Tensor, StoredIntegers] = field(default_factory=dict)
    weights: dict[str, StoredWeight] = field(default_factory=dict)
    lstms: dict[str, LoweredLstm] = field(default_factory=dict)
    native: dict[Tensor, str] = field(default_factory=dict)
    dequantized: set[Tensor] = field(default_factory=set)

    @property
    def graph(self) -> Graph:
        return self.network.graph

    def add(self, node: Node) -> Tensor:
        self.nodes.append(node)
        return node.output

    def add_beside(
        self, node: Node, name: str, op: str, inputs: tuple[Tensor, ...], attrs: Mapping[str, str]
    ) -> Tensor:
        """Add an operator that another one needs."""
        return self.add(Node(self.names.take(f"{node.name}_{name}"), op, inputs, attrs, node.origin))

    def add_int8(self, node: Node, stands_for: Tensor, values: Range) -> None:
        """Add a node whose integers stand for a tensor of the fused graph, with the range ``values``."""
        self.native[stands_for] = self.add(replace(node, name=self.names.take(node.name))).node
        self.store(stands_for, self.native[stands_for], TensorQuantization(values, self.network.form(stands_for).dtype))

    def store(self, tensor: Tensor, node: str, form: TensorQuantization) -> None:
        """Record that a node has a tensor's integers in this form."""
        self.integers[tensor, form.dtype] = node
        if form.dtype == self.network.form(tensor).dtype:
            self.stored[tensor] = StoredIntegers(Tensor(node), form)

    def add_param(self, name: str, value: np.ndarray) -> Tensor:
        free = self.names.take(name)
        self.params[free] = value
        return Tensor(free)

    def as_float(self, tensor: Tensor) -> Tensor:
        """The tensor in FP32, dequantized if only integers exist."""
        native = self.native.get(tensor)
        if native is not None and tensor not in self.dequantized:
            self.dequantized.add(tensor)
            origin = self.graph.by_name[tensor.node].origin
            self.add(Node(tensor.node, "_contrib_dequantize", triple(native), {}, origin))
        return tensor

    def as_int8(self, tensor: Tensor, dtype: Optional[DType] = None) -> tuple[Tensor, Tensor, Tensor]:
        """The tensor as integers of ``dtype`` (None: as planned), quantized if it exists in FP32 only."""
        form = self.network.form(tensor)
        wanted: DType = dtype or form.dtype
        if (tensor, wanted) not in self.integers:
            self._quantize(tensor, replace(form, dtype=wanted))
        return triple(self.integers[tensor, wanted])

    def _quantize(self, tensor: Tensor, form: TensorQuantization) -> None:
        name = self.names.take(f"{tensor.stem}_{form.dtype}")
        values = calibrated_range(form)
        attrs = {"out_type": form.dtype, **range_attributes(values)}
        producer = self.graph.producer(tensor)
        self.add(
            Node(name, "_contrib_quantize_v2", (self.as_float(tensor),), attrs, producer.origin if producer else ())
        )
        self.store(tensor, name, replace(form, range=values))


def triple(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs of a node that puts out integers: these, and the low and the high end of their range."""
    return Tensor(name, 0), Tensor(name, 1), Tensor(name, 2)


def calibrated_range(form: TensorQuantization, factor: float = 1.0) -> Range:
    """The range that MXNet is given for a tensor, ``factor`` times as wide: its scale follows from the peak alone."""
    peak = float(np.float32(form.range.largest * factor))
    return Range(0.0 if form.dtype == "uint8" else -peak, peak)


def range_attributes(values: Range) -> dict[str, str]:
    """The range attributes in full precision: with MXNet's own six decimals, small ranges become 0."""
    return {"min_calib_range": repr(values.low), "max_calib_range": repr(values.high)}
