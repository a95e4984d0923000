"""FusedLayer: a convolution or dense layer together with the sum and the activation that are fused into it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import ADDITIONS, activation_kind, flag, integer

FUSED = {"Convolution": "fused_convolution", "FullyConnected": "fused_dense"}
CORES = frozenset(FUSED) | frozenset(FUSED.values())


@dataclass(frozen=True)
class FusedLayer:
    """``core`` (Convolution or FullyConnected), then ``addition``, then ``activation``, as one operator.

    ``data``, ``weight``, ``bias`` and ``addend`` are tensors of the surrounding graph. ``node`` is the
    node that stands for the whole in the graph: the core itself as long as nothing is fused into it.
    """

    node: Node
    core: Node
    addition: Optional[Node] = None
    activation: Optional[Node] = None

    @property
    def is_convolution(self) -> bool:
        return self.core.op == "Convolution"

    @property
    def data(self) -> Tensor:
        return self.node.inputs[0]

    @property
    def weight(self) -> Tensor:
        return self.node.inputs[1]

    @property
    def bias(self) -> Optional[Tensor]:
        return None if flag(self.core, "no_bias") else self.node.inputs[2]

    @property
    def addend(self) -> Optional[Tensor]:
        return self.node.inputs[-1] if self.addition is not None else None

    @property
    def activation_kind(self) -> Optional[str]:
        return activation_kind(self.activation) if self.activation is not None else None

    @property
    def groups(self) -> int:
        """The number of groups that its channels fall into; 1 for dense layers."""
        return integer(self.core, "num_group", 1) if self.is_convolution else 1

    @property
    def is_non_negative(self) -> bool:
        """Whether the activation guarantees a result of at least 0."""
        return self.activation_kind in {"relu", "relu6"}


def fused_layer_of(node: Optional[Node]) -> Optional[FusedLayer]:
    """Read a node as a layer; None if it is neither convolution nor dense, fused or not."""
    if node is None or node.op not in CORES:
        return None
    if node.body is None:
        return FusedLayer(node, node)
    core, *rest = node.body.nodes
    addition = next((inner for inner in rest if inner.op in ADDITIONS), None)
    activation = next((inner for inner in rest if activation_kind(inner)), None)
    return FusedLayer(node, core, addition, activation)


def layer_of(node: Node) -> FusedLayer:
    """The layer that a node is known to be.

    Raises:
        TypeError: the node is not a layer.
    """
    layer = fused_layer_of(node)
    if layer is None:
        raise TypeError(f"{node.name} is not a layer")
    return layer


def has_constant_weights(params: Container[str], layer: FusedLayer) -> bool:
    """Whether weight and bias are parameters: the engine's fused layers cache the values of the first run."""
    return layer.weight.node in params and (layer.bias is None or layer.bias.node in params)


def form_problem(layer: FusedLayer) -> Optional[str]:
    """Why a layer from a file is not of the form that ``extended`` gives layers; None if it is.

    Engines disagree on what other forms compute.
    """
    core, body = layer.core, layer.node.body
    count = 2 if flag(core, "no_bias") else 3
    if len(core.inputs) != count:
        return f"has {len(core.inputs)} inputs and needs {count}"
    if body is None:
        return None
    names = tuple(map(Tensor, body.inputs))
    result, chain = core.output, [core.inputs == names[:count]]
    if layer.addition is not None:
        chain.append(layer.addition.inputs == (result, names[-1]))
        result = layer.addition.output
    if layer.activation is not None:
        chain.append(layer.activation.inputs == (result,))
        result = layer.activation.output
    wanted = tuple(filter(None, (core, layer.addition, layer.activation)))
    whole = body.nodes == wanted and body.outputs == (result,) and len(names) == count + (layer.addition is not None)
    if not (whole and all(chain) and len(layer.node.inputs) == len(names)):
        return "is not a layer, then a sum, then an activation, as quantkit fuses them"
    return None


def extended(layer: FusedLayer, last: Node, addend: Optional[Tensor] = None) -> Node:
    """The layer with one more operator at its end: an activation, or an addition of ``addend``.

    The new node takes the name and the place of ``last``, the operator that is fused in.
    """
    body_inputs = list(layer.node.body.inputs if layer.node.body else _input_names(layer.core))
    nodes = list(layer.node.body.nodes) if layer.node.body else [_renamed_inputs(layer.core, body_inputs)]
    result = nodes[-1].output
    inputs = layer.node.inputs
    if addend is None:
        nodes.append(replace(last, inputs=(result,)))
    else:
        body_inputs.append("addend")
        nodes.append(replace(last, op="elemwise_add", attrs={}, inputs=(result, Tensor("addend"))))
        inputs = (*inputs, addend)
    body = Graph(tuple(nodes), tuple(body_inputs), (nodes[-1].output,))
    return Node(last.name, FUSED[layer.core.op], inputs, {}, layer.node.origin + last.origin, body)


def unrolled(node: Node, inputs: Sequence[Tensor], last: str, free_name: Callable[[str], str]) -> tuple[Node, ...]:
    """The separate operators that a node stands for.

    Args:
        node: a layer with what is fused into it, or any other node, which stands for itself.
        inputs: the tensors that replace its inputs.
        last: the name of the last operator.
        free_name: makes the names of the others from those they have in the layer.
    """
    if node.body is None:
        return (replace(node, name=last, inputs=tuple(inputs)),)
    outside = dict(zip(map(Tensor, node.body.inputs), inputs))
    nodes: list[Node] = []
    for inner in node.body.nodes:
        name = last if inner is node.body.nodes[-1] else free_name(inner.name)
        nodes.append(replace(inner, name=name, inputs=tuple(outside[tensor] for tensor in inner.inputs)))
        outside[inner.output] = nodes[-1].output
    return tuple(nodes)


def _input_names(core: Node) -> tuple[str, ...]:
    return ("data", "weight", "bias")[: len(core.inputs)]


def _renamed_inputs(core: Node, names: list[str]) -> Node:
    return replace(core, inputs=tuple(Tensor(name) for name in names))


def with_core_attrs(layer: FusedLayer, attrs: Mapping[str, str]) -> FusedLayer:
    """The layer with some attributes of its convolution or dense operator replaced."""
    core = replace(layer.core, attrs={**layer.core.attrs, **attrs})
    if layer.node.body is None:
        return replace(layer, core=core)
    nodes = tuple(core if inner is layer.core else inner for inner in layer.node.body.nodes)
    return replace(layer, core=core, node=replace(layer.node, body=replace(layer.node.body, nodes=nodes)))


def with_relu_only(layer: FusedLayer) -> FusedLayer:
    """The layer with a clipping activation replaced by plain ReLU.

    For INT8 results whose range ends at or below the clip, saturation does the clipping.
    """
    if layer.activation_kind != "relu6" or layer.node.body is None or layer.activation is None:
        return layer
    relu = replace(layer.activation, op="Activation", attrs={"act_type": "relu"})
    nodes = tuple(relu if inner is layer.activation else inner for inner in layer.node.body.nodes)
    return replace(layer, node=replace(layer.node, body=replace(layer.node.body, nodes=nodes)), activation=relu)
