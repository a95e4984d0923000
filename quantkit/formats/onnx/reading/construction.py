"""The graph under construction, to which the converters of ONNX's operators add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Optional, Union

import numpy as np

from quantkit.formats.mxnet.symbol_entries import MOST_NODES
from quantkit.formats.onnx.reading.values import (
    BATCH,
    MOST_ELEMENTS,
    ONLY_IMAGES,
    Budget,
    Computed,
    Constant,
    OnnxNode,
    Refused,
    Shape,
    Value,
    elements,
    in_batch,
    shown,
)
from quantkit.formats.repeated import repeats_one
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.names import Names

Attr = Union[str, int, float, tuple[int, ...]]

# Shapes, axes, limits, and the parts of what is split.
_MOST_INTEGERS = 2**16


@dataclass
class Construction:
    """MXNet's operators and parameters for the ONNX operators converted so far.

    ``values`` is what each ONNX tensor has become. ``fixed`` is the batch size that the file is made for, None if it
    is open. ``names`` holds the names added so far, and reserves those of inputs, outputs and operators. ``budget`` is
    the memory that parameters and folded constants may take; ``filled`` what parameters that repeat one number may take
    once the network runs. ``shapes`` are those of the operators' first outputs. ``orders`` are kept where the file has
    a batch size of its own: for each operator whose result has the batch and other extents as one axis, how many times
    the batch comes around on it, 1 where the values of an image lie together.
    """

    opset: int
    inputs: frozenset[str]
    outputs: frozenset[str]
    names: Names
    budget: Budget
    filled: Budget
    fixed: Optional[int] = None
    values: dict[str, Value] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    params: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    orders: dict[str, int] = field(default_factory=dict)

    def value(self, node: OnnxNode, position: int) -> Optional[Value]:
        """An input, or None if the operator leaves it out."""
        name = node.inputs[position] if position < len(node.inputs) else ""
        return self.values[name] if name else None

    def computed(self, node: OnnxNode, position: int = 0) -> Computed:
        """An input that depends on the image.

        Raises:
            Refused: it is missing or constant.
        """
        value = self.value(node, position)
        if not isinstance(value, Computed):
            raise Refused(f"its input {position} is not computed from the image")
        return value

    def constant(self, node: OnnxNode, position: int) -> Optional[Constant]:
        """An input that has to be constant, or None if the operator leaves it out.

        Raises:
            Refused: it depends on the image, or has the batch as an axis.
        """
        value = self.value(node, position)
        if isinstance(value, Computed):
            raise Refused(f"its input {node.inputs[position]!r} has to be constant, but depends on the image")
        if value is not None and any(map(in_batch, value.shape)):
            raise Refused(f"it reads a constant of shape {shown(value.shape)}; {ONLY_IMAGES}")
        return value

    def weights(self, node: OnnxNode, position: int) -> Constant:
        """A constant input that must be there.

        Raises:
            Refused: it is missing, depends on the image, or is empty.
        """
        value = self.constant(node, position)
        if value is None or value.array.size == 0:
            raise Refused(f"its input {position} is missing or empty")
        return value

    def integers(self, node: OnnxNode, position: int, attribute: str = "") -> Optional[tuple[int, ...]]:
        """A list of integers from an input, or from an attribute in older opsets; None if there is neither."""
        value = self.constant(node, position)
        if value is None:
            return node.integers(attribute) if attribute else None
        if value.array.dtype.kind not in "iu" or value.array.ndim > 1 or value.array.size > _MOST_INTEGERS:
            raise Refused(f"its input {node.inputs[position]!r} is not a list of integers")
        return tuple(int(each) for each in value.array.reshape(-1))

    def parameter(self, wanted: str, array: np.ndarray) -> Tensor:
        """Add a parameter under the wanted name, or a free one like it; one number repeated takes no memory.

        Raises:
            Refused: its budget is used up, or the array has the batch as an axis.
        """
        if any(map(in_batch, array.shape)):
            raise Refused(f"it reads a constant of shape {shown(array.shape)}; {ONLY_IMAGES}")
        name = self.names.take(wanted)
        # MXNet has neither scalars nor read-only arrays of other types.
        shape = array.shape or (1,)
        if repeats_one(array):
            self.filled.take(4 * array.size)
            self.params[name] = np.broadcast_to(array.flat[0].astype(np.float32), shape)
        else:
            self.budget.take(4 * array.size)
            self.params[name] = np.ascontiguousarray(array, np.float32).reshape(shape)
        return Tensor(name)

    def step(
        self, node: OnnxNode, what: str, op: str, inputs: Iterable[Tensor], shape: Shape, /, **attrs: Attr
    ) -> Computed:
        """Add an intermediate operator."""
        return self._add(self.names.take(f"{node.name}_{what}"), node, op, inputs, shape, attrs)

    def layer(self, node: OnnxNode, op: str, inputs: Iterable[Tensor], shape: Shape, /, **attrs: Attr) -> Computed:
        """Add the operator that does the node's work, where others make its outputs of it: it takes the node's name."""
        taken = node.name in self.outputs or node.name in self.inputs
        return self._add(self.names.take(node.name) if taken else node.name, node, op, inputs, shape, attrs)

    def finish(self, node: OnnxNode, op: str, inputs: Iterable[Tensor], shape: Shape, /, **attrs: Attr) -> Computed:
        """Add the operator that computes the result, the first output."""
        return self.part(node, 0, op, inputs, shape, **attrs)

    def part(
        self, node: OnnxNode, output: int, op: str, inputs: Iterable[Tensor], shape: Shape, /, **attrs: Attr
    ) -> Computed:
        """Add the operator that computes one of several outputs.

        The first takes the operator's name, but outputs of the network keep their own.
        """
        name = node.name
        if node.outputs[output] in self.outputs:
            name = node.outputs[output]
        elif output > 0 or name in self.outputs or name in self.inputs:
            name = self.names.take(f"{name}_{output}")
        result = self._add(name, node, op, inputs, shape, attrs)
        self.values[node.outputs[output]] = result
        return result

    def alias(self, node: OnnxNode, value: Computed) -> None:
        """Make the first output another name for an existing tensor."""
        if node.outputs[0] in self.outputs:
            self.finish(node, "_copy", [value.tensor], value.shape)
        else:
            self.values[node.outputs[0]] = value

    def check(self, shape: Shape) -> None:
        """Check that a tensor can have a shape.

        Raises:
            Refused: it is empty, or larger than any tensor of a network, or has two axes of images.
        """
        if any(extent <= 0 for extent in shape):
            raise Refused(f"its result would have the shape {shown(shape)}; the input is too small for the network")
        if sum(map(in_batch, shape)) > 1:
            raise Refused(f"its result would have the shape {shown(shape)}, which pairs the images of a batch")
        if elements(shape) > MOST_ELEMENTS:
            raise Refused(f"its result would have the shape {shown(shape)}, which is beyond all memory")

    def _add(
        self, name: str, node: OnnxNode, op: str, inputs: Iterable[Tensor], shape: Shape, attrs: dict[str, Attr]
    ) -> Computed:
        self.check(shape)
        if len(self.nodes) >= MOST_NODES:
            raise Refused(f"with it the network has more than {MOST_NODES} operators of the engine")
        inputs = tuple(inputs)
        texts = {key: value if isinstance(value, str) else repr(value) for key, value in attrs.items()}
        self.shapes[name] = shape
        self._keep_order(name, inputs)
        # The node's own name first: reports of the original network use it.
        self.nodes[name] = Node(name, op, inputs, texts, tuple(dict.fromkeys((name, node.name))))
        return Computed(Tensor(name), shape)

    def _keep_order(self, name: str, inputs: Sequence[Tensor]) -> None:
        """Give the result the order that its inputs have."""
        found = {self.orders[tensor.node] for tensor in inputs if tensor.node in self.orders}
        if len(found) > 1:
            raise Refused("it combines values of different images; export the network with an open batch size")
        for order in found:
            self.orders[name] = order


Converter = Callable[[Construction, OnnxNode], None]


def reshaped(state: Construction, node: OnnxNode, value: Computed, shape: Sequence[int], what: str = "") -> Computed:
    """The same values in another shape, as the operator's result or, if ``what`` names it, as an intermediate step.

    Raises:
        Refused: the shapes hold different numbers of values, or the batch would be mixed with another axis.
    """
    target = tuple(shape)
    order = None
    if elements(target) == elements(value.shape) and sum(map(in_batch, target)) == 1:
        order = _order(state, value, target)
    if order is None:
        raise Refused(
            f"it reshapes {shown(value.shape)} to {shown(target)}, which mixes images of a batch or fits one batch "
            "size only; export the network with an open batch size"
        )
    before = state.nodes.get(value.tensor.node)
    if before is not None and before.op == "Reshape" and state.shapes.get(before.inputs[0].node) == target:
        # It undoes the one before, such as the axis of a recurrent layer's only direction.
        value = Computed(before.inputs[0], target)
    if target == value.shape:
        if not what:
            state.alias(node, value)
        return value
    if value.shape[0] == BATCH and target == (BATCH, elements(target)):
        return _result(state, node, what, "Flatten", value.tensor, target)
    codes = tuple(
        0 if position == 0 and extent == value.shape[0] else -1 if in_batch(extent) else extent
        for position, extent in enumerate(target)
    )
    result = _result(state, node, what, "Reshape", value.tensor, target, shape=codes)
    state.orders.pop(result.tensor.node, None)
    if state.fixed is not None and BATCH not in target:
        state.orders[result.tensor.node] = order
    return result


def _order(state: Construction, value: Computed, target: Shape) -> Optional[int]:
    """How many times the batch comes around on the axis of ``target`` that has it; None if it would be mixed.

    Reshaping leaves the values in their order: so often as the batch comes around in all, it does so still.
    """
    if state.fixed is None:
        # A network for batches of any size means what it does.
        return 1
    place = _place_of_batch(target)
    order, left = divmod(turns(state, value), prod(target[:place]))
    return None if left or target[place] // BATCH % order else order


def turns(state: Construction, value: Computed) -> int:
    """How many times the batch comes around in a tensor of a network for one batch size, in the order of its values."""
    return prod(value.shape[: _place_of_batch(value.shape)]) * state.orders.get(value.tensor.node, 1)


def _place_of_batch(shape: Shape) -> int:
    return [in_batch(extent) for extent in shape].index(True)


def transposed(state: Construction, node: OnnxNode, value: Computed, axes: Sequence[int], what: str = "") -> Computed:
    """The same values with their axes in another order; successive transpositions become one, or none."""
    before = state.nodes.get(value.tensor.node)
    if before is not None and before.op == "transpose" and before.name not in state.outputs:
        first = tuple(int(axis) for axis in before.attrs["axes"].strip("()").split(",") if axis)
        shape = [0] * len(first)
        for position, axis in enumerate(first):
            shape[axis] = value.shape[position]
        value = Computed(before.inputs[0], tuple(shape))
        axes = [first[axis] for axis in axes]
    axes = tuple(axes)
    if axes == tuple(range(len(axes))):
        if not what:
            state.alias(node, value)
        return value
    target = tuple(value.shape[axis] for axis in axes)
    return _result(state, node, what, "transpose", value.tensor, target, axes=axes)


def _result(
    state: Construction, node: OnnxNode, what: str, op: str, data: Tensor, shape: Shape, /, **attrs: Attr
) -> Computed:
    if what:
        return state.step(node, what, op, [data], shape, **attrs)
    return state.finish(node, op, [data], shape, **attrs)
