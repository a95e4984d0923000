"""An emitted INT8 symbol read back as a fused network and its plan: the inverse of ``mxnet_int8``.

Names come back where emission kept them: a tensor that something reads in FP32, a layer's weights, and every
layer whose emitted name is its own behind the usual prefix. Three things of the fused network are gone for good,
and come back in the form that computes the same integers: a clip that saturation does is a ReLU, a dense layer's
weights are those that its integers stand for, and weights that the engine could not have quantized are the safe ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Optional

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.emission.layers import CONVOLUTION, DENSE, with_core_attrs
from quantkit.emission.mxnet_int8 import BEFORE_SUM, PREFIX, UNIT_STEP_RANGE
from quantkit.errors import ModelError, UserError
from quantkit.fusion.unit import FUSED, Unit, extended, unit_of
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.graph.operators import activation_kind, flag, integer, integers, number
from quantkit.quantization.arithmetic import DType, QuantParams, activation_params
from quantkit.quantization.plan import Activation, Decision, Plan, Precision, operator_name

_FLOAT_REASON = "it runs in FP32 in the INT8 network"


def read_int8(graph: Graph) -> tuple[Graph, Plan]:
    """The fused network and the plan of which ``int8_graph`` makes the same network again.

    Args:
        graph: what ``int8_graph`` emitted, perhaps written to files and parsed again.

    Raises:
        ModelError: a node is not of the form that ``int8_graph`` emits.
    """
    reading = _read(graph)
    outputs = tuple(map(reading.fused, graph.outputs))
    params = {**graph.params, **reading.params}
    network = Graph(tuple(reading.nodes), graph.inputs, outputs, params).pruned()
    return network, Plan(reading.decisions, reading.activations, before_sums=reading.before_sums)


@dataclass(frozen=True)
class StoredIntegers:
    """Where an emitted network has the integers of a tensor, and what they mean."""

    tensor: Tensor
    params: QuantParams


def stored_integers(graph: Graph) -> Mapping[Tensor, StoredIntegers]:
    """For each tensor of the fused network (see ``read_int8``) that has integers, where ``graph`` has them.

    Raises:
        ModelError: a node is not of the form that ``int8_graph`` emits.
    """
    reading = _read(graph)
    found = {}
    for emitted, form in reading.forms.items():
        tensor = reading.fused(emitted)
        # Of an unsigned tensor there may be a signed copy, for a layer that adds it.
        if form == reading.activations[tensor]:
            node = graph.by_name[emitted.node]
            own = _calibrated(node, form.dtype) if "max_calib_range" in node.attrs else form
            found[tensor] = StoredIntegers(emitted, activation_params(own.range, own.dtype))
    return found


def _read(graph: Graph) -> _Reading:
    reading = _Reading(graph)
    for node in graph.nodes:
        if node.name not in reading.taken:
            _READERS.get(node.op, _read_float)(reading, node)
    return reading


@dataclass
class _Reading:
    """What has been read so far.

    ``tensors`` has the fused network's tensor for each emitted one that stands for it, ``forms`` what the emitted
    integers are; ``taken`` are nodes that were read together with an earlier one.
    """

    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    params: dict[str, np.ndarray] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    activations: dict[Tensor, Activation] = field(default_factory=dict)
    before_sums: dict[Tensor, Range] = field(default_factory=dict)
    forms: dict[Tensor, Activation] = field(default_factory=dict)
    tensors: dict[Tensor, Tensor] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def fused(self, tensor: Tensor) -> Tensor:
        """The fused network's tensor that an emitted one stands for."""
        return self.tensors.get(tensor, tensor)

    def add(self, node: Node, precision: Precision) -> None:
        """Add a node of the fused network."""
        self.nodes.append(node)
        reason = "" if precision == "int8" else _FLOAT_REASON
        self.decisions[node.name] = Decision(node.name, operator_name(node), node.origin, precision, reason)

    def add_int8(self, emitted: Node, node: Node, form: Activation) -> None:
        """Add a node whose integers are those of ``emitted``."""
        self.tensors[emitted.output] = node.output
        self.forms[emitted.output] = self.activations[node.output] = form
        self.add(node, "int8")

    def add_param(self, wanted: str, value: np.ndarray) -> Tensor:
        """Add a parameter under a name that nothing emitted has."""
        name = self.graph.free_name(wanted)
        self.params[name] = value
        return Tensor(name)

    def name_of(self, emitted: Node) -> str:
        """What the fused node was called for which ``emitted`` computes integers."""
        readers = self.graph.consumers.get(emitted.output, ())
        back = next((reader.name for reader in readers if reader.op == "_contrib_dequantize"), None)
        return back or _without_prefix(self.graph, emitted)

    def form(self, tensor: Tensor, reader: Node) -> Activation:
        """The form of the integers that ``reader`` takes."""
        if tensor not in self.forms:
            raise _unknown(reader, f"{str(tensor)!r} comes to it in no integer form")
        return self.forms[tensor]


def _without_prefix(graph: Graph, emitted: Node) -> str:
    name = emitted.name[len(PREFIX) :] if emitted.name.startswith(PREFIX) else emitted.name
    return name if name not in graph.by_name and name not in graph.params else emitted.name


def _unknown(node: Node, reason: str) -> ModelError:
    return ModelError(
        f"node {node.name!r} ({node.op}) cannot be read back: {reason}; give an INT8 network that quantkit emitted"
    )


def _read_float(reading: _Reading, node: Node) -> None:
    """An operator in FP32; the engine's fused layers become fused layers again."""
    if node.op.startswith("_contrib_quantized") or node.op.startswith("_sg_mkldnn"):
        raise _unknown(node, "quantkit emits no such operator")
    reading.add(replace(node, inputs=tuple(map(reading.fused, node.inputs))), "fp32")


def _read_quantize(reading: _Reading, node: Node) -> None:
    tensor = reading.fused(node.inputs[0])
    form = _calibrated(node, node.attrs.get("out_type", ""))
    reading.tensors[node.output] = tensor
    reading.forms[node.output] = form
    # What is unsigned may be quantized as a signed addend besides.
    if tensor not in reading.activations or form.dtype == "uint8":
        reading.activations[tensor] = form


def _read_dequantize(reading: _Reading, node: Node) -> None:
    reading.tensors[node.output] = reading.fused(node.inputs[0])


def _calibrated(node: Node, dtype: str, factor: float = 1.0) -> Activation:
    if dtype not in ("int8", "uint8"):
        raise _unknown(node, f"its integers are of type {dtype!r}")
    if "max_calib_range" not in node.attrs:
        raise _unknown(node, "it has no calibrated range")
    peak = number(node, "max_calib_range", 0.0) / factor
    return Activation(Range(0.0 if dtype == "uint8" else -peak, peak), "uint8" if dtype == "uint8" else "int8")


def _range(node: Node, name: str) -> Range:
    try:
        low, high = map(float, node.attrs[name].strip("()").split(","))
        return Range(low, high)
    except (ValueError, UserError) as error:
        raise _unknown(node, f"{name}={node.attrs[name]!r} is no range") from error


def _read_layer(reading: _Reading, node: Node) -> None:
    if not flag(node, "quantized"):
        core = _core(node)
        inputs = tuple(map(reading.fused, node.inputs))
        reading.add(_layer(node, node.name, inputs, core), "fp32")
    elif node.op == CONVOLUTION:
        _read_convolution(reading, node)
    else:
        _read_dense(reading, node)


def _core(node: Node) -> Node:
    """The convolution or dense layer inside of the engine's fused operator."""
    core = node.body.nodes[0] if node.body is not None and node.body.nodes else None
    if core is None or core.op not in FUSED:
        raise _unknown(node, "there is no convolution or dense layer inside")
    return core


def _layer(node: Node, name: str, inputs: tuple[Tensor, ...], core: Node) -> Node:
    """A layer of the fused network: the core itself, or the fused operator where more is inside."""
    if node.body is None or len(node.body.nodes) == 1:
        return Node(name, core.op, inputs, core.attrs, node.origin)
    return Node(name, FUSED[core.op], inputs, {}, node.origin, node.body)


def _read_convolution(reading: _Reading, node: Node) -> None:
    core = _core(node)
    biased, adds = not flag(core, "no_bias"), flag(node, "with_sum")
    count = 2 + biased + adds
    if len(node.inputs) != count + 2 + 2 * adds:
        raise _unknown(node, f"it has {len(node.inputs)} inputs")
    name = reading.name_of(node)
    inputs = tuple(map(reading.fused, node.inputs[:count]))
    unit = unit_of(_layer(node, name, inputs, core))
    if unit is None or (unit.addend is not None) != adds:
        raise _unknown(node, "its flags and what is inside of it differ")
    if unit.weight.node not in reading.graph.params:
        raise _unknown(node, "its weights are no parameter")
    dtype: DType = "uint8" if unit.is_non_negative else "int8"
    # Unsigned results in place of signed addends have twice the range in half of the integers.
    halved = adds and dtype == "uint8" and reading.form(node.inputs[count - 1], node).dtype == "int8"
    if reading.form(node.inputs[0], node).dtype == "uint8":
        unit = _narrowed(reading, unit)
    reading.add_int8(node, unit.node, _calibrated(node, dtype, 2.0 if halved else 1.0))
    if BEFORE_SUM in node.attrs:
        reading.before_sums[unit.node.output] = _range(node, BEFORE_SUM)


def _narrowed(reading: _Reading, unit: Unit) -> Unit:
    """A 3x3 depthwise convolution that is zero around its centre as the 1x1 one that it was made from."""
    weight = reading.graph.params[unit.weight.node]
    pad = integers(unit.core, "pad")
    depthwise = weight.shape[1:] == (1, 3, 3) and integer(unit.core, "num_group", 1) == len(weight)
    if not depthwise or len(pad) != 2 or min(pad) < 1 or np.delete(weight.reshape(-1, 9), 4, axis=1).any():
        return unit
    centre = reading.add_param(f"{unit.node.name}_pointwise_weight", weight[:, :, 1:2, 1:2].copy())
    narrow = with_core_attrs(unit, {"kernel": "(1, 1)", "pad": f"({pad[0] - 1}, {pad[1] - 1})"})
    node = narrow.core if narrow.node.body is None else narrow.node
    return replace(narrow, node=replace(node, inputs=(unit.data, centre, *unit.node.inputs[2:])))


def _read_dense(reading: _Reading, node: Node) -> None:
    """A product with a float result and the scale, bias and activation per channel that follow it."""
    if not flag(node, "enable_float_output") or len(node.inputs) != 6:
        raise _unknown(node, "it does not put out floats")
    data, stored, _, _, low, high = node.inputs
    graph = reading.graph
    bounds = [graph.params.get(bound.node) for bound in (low, high)]
    integer_weight = graph.params.get(stored.node)
    if integer_weight is None or any(bound is None or abs(bound.item()) != UNIT_STEP_RANGE for bound in bounds):
        raise _unknown(node, "one step of its weights is not 1")
    own = _without_prefix_of_dense(node)
    scaled = _follower(reading, node, own, lambda reader: reader.op == "broadcast_mul")
    if scaled is None:
        raise _unknown(node, "no scale for each channel follows it")
    scale = _constant(reading, scaled)
    biased = _follower(reading, scaled, own, lambda reader: reader.op == "broadcast_add")
    last = biased or scaled
    activation = _follower(reading, last, own, lambda reader: activation_kind(reader) in ("relu", "relu6"))
    last = activation or last
    name = last.name
    weight = reading.add_param(f"{name}_weight", np.asarray(integer_weight * scale[:, None], np.float32))
    inputs = [reading.fused(data), weight]
    if biased is not None:
        inputs.append(reading.add_param(f"{name}_bias", _constant(reading, biased)))
    core = _core(node)
    dense = Node(name, core.op, tuple(inputs), {**core.attrs, "no_bias": str(biased is None)}, node.origin)
    if activation is not None:
        unit = unit_of(replace(dense, name=f"{name}_dense"))
        if unit is None:
            raise _unknown(node, "there is no dense layer inside")
        dense = replace(extended(unit, activation), origin=node.origin)
    reading.form(data, node)
    reading.add(dense, "int8")


def _without_prefix_of_dense(node: Node) -> str:
    return node.name[len(PREFIX) :] if node.name.startswith(PREFIX) else ""


def _follower(reading: _Reading, node: Node, own: str, fits: Callable[[Node], bool]) -> Optional[Node]:
    """The next step of a dense layer; none after the node that bears the layer's ``own`` name."""
    reader = reading.graph.sole_consumer(node.output)
    if node.name == own or reader is None or not fits(reader):
        return None
    reading.taken.add(reader.name)
    return reader


def _constant(reading: _Reading, node: Node) -> np.ndarray:
    """The row that a step of a dense layer multiplies with or adds, (channels,)."""
    row: Mapping[str, np.ndarray] = reading.graph.params
    if len(node.inputs) != 2 or node.inputs[1].node not in row:
        raise _unknown(node, "what it takes for each channel is no parameter")
    return row[node.inputs[1].node].reshape(-1)


def _read_following(reading: _Reading, node: Node) -> None:
    """Pooling and flattening: the integers keep their range."""
    op = {"_contrib_quantized_pooling": "Pooling"}.get(node.op, "Flatten")
    made = Node(reading.name_of(node), op, (reading.fused(node.inputs[0]),), node.attrs, node.origin)
    reading.add_int8(node, made, reading.form(node.inputs[0], node))


def _read_concat(reading: _Reading, node: Node) -> None:
    sources = node.inputs[: len(node.inputs) // 3]
    forms = [reading.form(tensor, node) for tensor in sources]
    low, high = min(form.range.low for form in forms), max(form.range.high for form in forms)
    dtype: DType = "int8" if any(form.dtype == "int8" for form in forms) else "uint8"
    made = Node(reading.name_of(node), "Concat", tuple(map(reading.fused, sources)), node.attrs, node.origin)
    reading.add_int8(node, made, Activation(Range(low, high), dtype))


def _read_addition(reading: _Reading, node: Node) -> None:
    sources = node.inputs[:2]
    first, second = (reading.form(tensor, node).dtype for tensor in sources)
    made = Node(reading.name_of(node), "elemwise_add", tuple(map(reading.fused, sources)), {}, node.origin)
    reading.add_int8(node, made, _calibrated(node, first if first == second else "int8"))


_Reader = Callable[[_Reading, Node], None]
_READERS: dict[str, _Reader] = {
    CONVOLUTION: _read_layer,
    DENSE: _read_layer,
    "_contrib_quantize_v2": _read_quantize,
    "_contrib_dequantize": _read_dequantize,
    "_contrib_quantized_pooling": _read_following,
    "_contrib_quantized_flatten": _read_following,
    "_contrib_quantized_concat": _read_concat,
    "_contrib_quantized_elemwise_add": _read_addition,
}
