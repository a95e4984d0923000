from __future__ import annotations

import numpy as np
import pytest

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.macs import macs


def counted(node: Node, shapes: dict[Tensor, tuple[int, ...]]) -> int:
    inputs = tuple(tensor.node for tensor in node.inputs)
    return sum(macs(Graph((node,), inputs, (node.output,), {}), shapes).values())


def node(op: str, inputs: int = 2, **attrs: object) -> Node:
    tensors = tuple(Tensor(name) for name in ("data", "weight", "third", "fourth")[:inputs])
    return Node("layer", op, tensors, {key: str(value) for key, value in attrs.items()}, ("layer",))


def shapes(**given: tuple[int, ...]) -> dict[Tensor, tuple[int, ...]]:
    return {Tensor(name): shape for name, shape in given.items()}


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_convolution_counts_the_products_that_a_loop_makes(groups: int) -> None:
    batch, channels, filters, size, kernel = 2, 4, 8, 6, 3
    out = size - kernel + 1
    products = 0
    for _ in np.ndindex(batch, filters, out, out):
        for _ in np.ndindex(channels // groups, kernel, kernel):
            products += 1
    convolution = node("Convolution", num_filter=filters, num_group=groups)
    given = shapes(
        data=(batch, channels, size, size),
        weight=(filters, channels // groups, kernel, kernel),
        layer=(batch, filters, out, out),
    )
    assert counted(convolution, given) == products


def test_a_deconvolution_counts_from_its_input() -> None:
    products = sum(1 for _ in np.ndindex(2, 4, 3, 3) for _ in np.ndindex(8, 2, 2))
    given = shapes(data=(2, 4, 3, 3), weight=(4, 8, 2, 2), layer=(2, 8, 6, 6))
    assert counted(node("Deconvolution"), given) == products


def test_a_dense_layer_is_a_matrix_product() -> None:
    assert counted(node("FullyConnected"), shapes(data=(5, 7), weight=(3, 7), layer=(5, 3))) == 5 * 7 * 3


@pytest.mark.parametrize(("mode", "gates"), [("lstm", 4), ("gru", 3), ("rnn_tanh", 1)])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers_multiply_input_and_state_at_every_step(mode: str, gates: int, bidirectional: bool) -> None:
    steps, batch, width, hidden, layers = 5, 2, 3, 4, 2
    products = 0
    for _ in range(2 if bidirectional else 1):
        reads = width
        for _ in range(layers):
            products += steps * batch * gates * hidden * (reads + hidden)
            reads = hidden * (2 if bidirectional else 1)
    layer = node("RNN", 3, mode=mode, state_size=hidden, num_layers=layers, bidirectional=bidirectional)
    assert counted(layer, shapes(data=(steps, batch, width), weight=(1,), third=(1,), layer=(1,))) == products


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Convolution", {}),
        ("FullyConnected", {}),
        ("RNN", {"mode": "lstm", "state_size": 4, "num_layers": 1}),
    ],
)
def test_stock_int8_operators_count_like_their_float_forms(op: str, attrs: dict[str, object]) -> None:
    int8 = {"Convolution": "conv", "FullyConnected": "fully_connected", "RNN": "rnn"}[op]
    given = shapes(data=(5, 2, 3), weight=(4, 3), third=(1,), layer=(5, 4))
    expected = counted(node(op, 3, **attrs), given)
    assert counted(node(f"_contrib_quantized_{int8}", 3, **attrs), given) == expected > 0


def test_other_operators_multiply_nothing() -> None:
    assert counted(node("Activation", 1), shapes(data=(1, 8), layer=(1, 8))) == 0


def test_all_forms_of_a_network_count_alike(digits_int8) -> None:  # type: ignore[no-untyped-def]
    from quantkit.backends.mxnet.shapes import infer_shapes

    source = digits_int8.source
    totals = {
        sum(macs(graph, infer_shapes(graph, {graph.inputs[0]: (1, *source.model.input_shape)})).values())
        for graph in (source.model.graph, source.graph, digits_int8.graph)
    }
    assert len(totals) == 1 and totals != {0}


def test_resnet50_is_as_published(engine: None) -> None:
    from quantkit.backends.mxnet.shapes import infer_shapes
    from quantkit.models.load import load_model

    graph = load_model("resnet50_v1", weights="random", quiet=True).graph
    total = sum(macs(graph, infer_shapes(graph, {graph.inputs[0]: (1, 3, 224, 224)})).values())
    # He et al. 2015, table 1: 3.8 billion, with the strides of the first paper's bottlenecks.
    assert total == pytest.approx(3.8e9, rel=0.03)
