"""The ONNX operators and constants that converters write, as plain values, without the ``onnx`` package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Union

import numpy as np

from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.ir.operators import integers

WRITTEN_OPERATORS = frozenset([
    "Abs", "Add", "ArgMax", "AveragePool", "BatchNormalization", "Cast", "Ceil", "Clip", "Concat", "Conv",
    "ConvTranspose", "Cos", "CumSum", "DeformConv", "DepthToSpace", "DequantizeLinear", "Div", "Elu", "Equal",
    "Erf", "Exp", "Expand", "Flatten", "Floor", "GRU", "Gather", "GatherND", "Gemm", "GlobalAveragePool",
    "GlobalMaxPool", "Greater", "GreaterOrEqual", "GridSample", "HardSigmoid", "Identity", "InstanceNormalization",
    "LRN", "LSTM", "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "MatMul", "Max",
    "MaxPool", "Min", "Mul", "Neg", "NonMaxSuppression", "PRelu", "Pad", "Pow", "QuantizeLinear", "RNN", "Range",
    "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Reshape", "Resize", "ScatterND",
    "Selu", "Shape", "Sigmoid", "Sin", "Slice", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt",
    "Squeeze", "Sub", "Sum", "Tanh", "Tile", "TopK", "Transpose", "Unique", "Unsqueeze", "Where",
])  # fmt: skip
"""The operators that converters may write, and bundles may hold."""

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

DYNAMIC_QUANTIZE_LSTM = "DynamicQuantizeLSTM"
"""ONNX Runtime's LSTM in integers, of that domain."""

ENGINE_OPERATORS = frozenset({(MICROSOFT, DYNAMIC_QUANTIZE_LSTM)})
"""Domain and name of the operators of engines that converters may write, and bundles may hold."""

FLOAT, INT64, BOOL = 1, 7, 9
"""The numbers of the types float32, int64 and bool in ONNX."""

END = 2**63 - 1
"""The end of an axis, of whatever extent, for ``Slice``."""

Attribute = Union[int, float, str, Sequence[int], Sequence[str]]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operator:
    """One operator, of ONNX's own if ``domain`` is empty. Inputs and outputs are names of tensors."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    domain: str = ""


@dataclass
class Conversion:
    """The ONNX operators and constants for the nodes converted so far.

    ``shapes`` are those of the graph's tensors for a batch of one; ``opset`` is the version of ONNX's operators.
    """

    graph: Graph
    shapes: Mapping[Tensor, Shape]
    opset: int
    operators: list[Operator] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        self.names = Names(self.graph.names)

    @cached_property
    def batched(self) -> frozenset[str]:
        """The inputs, and the nodes whose values depend on theirs, not on sizes alone."""
        names = set(self.graph.inputs)
        for node in self.graph.nodes:
            if node.op == "shape_array":
                continue
            cut = integers(node, "axes") if node.op == "slice_like" else ()
            read = node.inputs[:1] if cut and 0 not in cut else node.inputs
            if any(tensor.node in names for tensor in read):
                names.add(node.name)
        return frozenset(names)

    def read(self, tensor: Tensor) -> str:
        """The name of a tensor of the graph; parameters become constants when they are first read."""
        if tensor.node in self.graph.params:
            self.constants.setdefault(tensor.node, self.graph.params[tensor.node])
        return name_of(tensor)

    def shape(self, tensor: Tensor) -> Shape:
        """The shape of a tensor of the graph, for a batch of one."""
        return self.shapes[tensor]

    def constant(self, node: Node, what: str, values: np.ndarray) -> str:
        """Add a constant that the graph does not have."""
        name = self.names.take(f"{node.name}_{what}")
        self.constants[name] = values
        return name

    def floats(self, node: Node, what: str, value: float) -> str:
        """Add a float32 scalar."""
        return self.constant(node, what, np.array(value, np.float32))

    def integers(self, node: Node, what: str, values: Sequence[int]) -> str:
        """Add a vector of int64, as shapes and axes are given."""
        return self.constant(node, what, np.array(values, np.int64))

    def finish(self, node: Node, op: str, *inputs: str, **attributes: Attribute) -> None:
        """Add the operator that computes the node's only output."""
        self.add(Operator(op, node.name, inputs, (name_of(node.output),), attributes))

    def step(self, node: Node, what: str, op: str, *inputs: str, **attributes: Attribute) -> str:
        """Add an intermediate operator; returns the name of its result."""
        name = self.names.take(f"{node.name}_{what}")
        self.add(Operator(op, name, inputs, (name,), attributes))
        return name

    def add(self, operator: Operator) -> None:
        """Add an operator.

        Raises:
            ValueError: it is neither in ``WRITTEN_OPERATORS`` nor in ``ENGINE_OPERATORS``.
        """
        if (operator.domain, operator.op) not in ENGINE_OPERATORS and operator.op not in WRITTEN_OPERATORS:
            raise ValueError(f"the operator {operator.op} is not listed in WRITTEN_OPERATORS")
        self.operators.append(operator)
        self.names.add(operator.outputs)


Converter = Callable[[Conversion, Node], None]


def name_of(tensor: Tensor) -> str:
    """The ONNX name of a tensor of the graph."""
    return tensor.node if tensor.index == 0 else f"{tensor.node}_output{tensor.index}"


class OpsetTooOld(ModelError):
    """A node has an ONNX form in newer opsets only, from ``opset`` on."""

    def __init__(self, node: Node, what: str, opset: int) -> None:
        super().__init__(
            f"node {node.name!r} ({node.op}) cannot be written as ONNX: {what} from opset {opset} on only "
            f"(--opset {opset}); end the network before it, or replace it by operators that ONNX has"
        )
        self.opset = opset


def refused(node: Node, what: str) -> ModelError:
    """The error for a node that has no ONNX form."""
    return ModelError(
        f"node {node.name!r} ({node.op}) cannot be written as ONNX: {what}; "
        "end the network before it, or replace it by operators that ONNX has"
    )
