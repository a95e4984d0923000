"""The tensors that the numeric check compares: what saturates or is sorted does not stand for itself."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.errors import FusionError
from quantkit.fusion.compared import compared, sorted_within
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.fusion.numeric_check import check_fusion
from quantkit.ir.graph import Graph, Tensor
from tests.networks import DATA, Builder, images


def detector(softmax: bool = False, kernel: int = 3) -> Graph:
    """A convolution puts out a class, a score and a box for each place; non-maximum suppression sorts them by score."""
    b = Builder()
    conv = b.conv("conv", DATA, 3, 6, kernel)
    rows = b.op("Reshape", "rows", b.op("transpose", "last", conv, axes=(0, 2, 3, 1)), shape=(0, -1, 6))
    sorted_rows = b.op("_contrib_box_nms", "nms", rows, id_index=0, score_index=1, coord_start=2, overlap_thresh=0.5)
    ids = b.op("slice_axis", "ids", sorted_rows, axis=2, begin=0, end=1)
    boxes = b.op("slice_axis", "boxes", sorted_rows, axis=2, begin=2, end=6)
    return b.graph(ids, boxes, *((b.op("softmax", "scores", conv, axis=1),) if softmax else ()))


def names(graph: Graph) -> list[str]:
    return [str(tensor) for tensor in graph.outputs]


def test_what_is_sorted_is_compared_before() -> None:
    original, fused = compared(detector(), detector())
    assert names(original) == names(fused) == ["rows"]


def test_a_softmax_is_compared_before_beside_it() -> None:
    original, _ = compared(detector(softmax=True), detector(softmax=True))
    assert names(original) == ["conv", "rows"]


def test_other_outputs_are_compared_as_they_are() -> None:
    b = Builder()
    conv = b.conv("conv", DATA, 3, 6)
    graph = b.graph(b.relu("relu", conv), conv)
    assert names(compared(graph, graph)[0]) == ["relu", "conv"]


def test_what_follows_the_best_is_compared_and_shapes_are_not() -> None:
    """As in CenterNet: places of the strongest values, sizes read there, and the width of the map."""
    b = Builder()
    heat, size = b.conv("heat", DATA, 3, 2), b.conv("size", DATA, 3, 1)
    flat = b.op("Reshape", "flat", heat, shape=(0, -1))
    best = b.op("topk", "best", flat, k=3, ret_typ="indices")
    width = b.op("slice_axis", "width", b.op("Cast", "extents", b.op("shape_array", "shape", heat), dtype="float32"),
                 axis=0, begin=3, end=4)  # fmt: skip
    row = b.op("broadcast_div", "row", best, width)
    sizes = b.op("Reshape", "sizes", size, shape=(0, -1))
    picked = b.op("pick", "picked", sizes, b.op("slice_axis", "first", row, axis=1, begin=0, end=1), keepdims=True)
    graph = b.graph(row, picked)
    assert names(compared(graph, graph)[0]) == ["flat", "sizes"]


def test_networks_with_other_tensors_to_compare_keep_their_outputs() -> None:
    graph = detector()
    other = graph.with_outputs([Tensor("rows"), Tensor("last")])
    assert names(compared(graph, other)[0]) == ["ids", "boxes"]


@pytest.mark.usefixtures("engine")
def test_scores_that_are_nearly_the_same_do_not_fail_the_check() -> None:
    """A millionth of change sorts the boxes anew: the score reads a channel that is 1 everywhere, boxes the others."""
    graph = detector(kernel=1)
    weights = graph.params["conv_weight"].copy()
    weights[1], weights[2:, 0] = np.array([1, 0, 0])[:, None, None], 0
    even = Graph(graph.nodes, graph.inputs, graph.outputs, {**graph.params, "conv_weight": weights})
    data = images()
    data[:, 0] = 1
    assert check_fusion(even, float_graph(fuse(even, (3, 16, 16)).graph), [data], 4).difference <= 1e-5


@pytest.mark.usefixtures("engine")
def test_a_wrong_layer_before_the_sorting_is_noticed() -> None:
    graph = detector()
    wrong = {**graph.params, "conv_weight": graph.params["conv_weight"] * np.float32(1.01)}
    with pytest.raises(FusionError, match="'conv'"):
        check_fusion(graph, Graph(graph.nodes, graph.inputs, graph.outputs, wrong), [images()], 4)


def test_what_layers_follow_is_no_selection() -> None:
    """A mask inside of the network: its layers after that are compared, too."""
    b = Builder()
    first = b.conv("first", DATA, 3, 6)
    masked = b.op("elemwise_mul", "masked", first, b.op("_greater_scalar", "mask", first, scalar=0.0))
    graph = b.graph(b.conv("second", masked, 6, 4))
    assert names(compared(graph, graph)[0]) == ["second"]


def two_stages(kernel: int = 3) -> Graph:
    """As a detector of two stages: a dense layer reads the boxes of the highest scores."""
    b = Builder()
    conv = b.conv("conv", DATA, 3, 6, kernel)
    rows = b.op("Reshape", "rows", b.op("transpose", "last", conv, axes=(0, 2, 3, 1)), shape=(0, -1, 6))
    sorted_rows = b.op("_contrib_box_nms", "nms", rows, id_index=0, score_index=1, coord_start=2, overlap_thresh=0.5)
    best = b.op("slice_axis", "best", sorted_rows, axis=1, begin=0, end=20)
    return b.graph(b.dense("dense", best, 20 * 6, 5))


def test_what_is_sorted_within_is_compared_before_and_after() -> None:
    assert names(compared(two_stages(), two_stages())[0]) == ["dense", "rows"]
    assert sorted_within(two_stages()) == (Tensor("nms"),)
    assert sorted_within(detector()) == ()


@pytest.mark.usefixtures("engine")
def test_layers_after_the_sorting_read_the_same_boxes() -> None:
    """See above: the same scores everywhere, so that the unfused network itself sorts slightly other input anew."""
    graph = two_stages(kernel=1)
    weights = graph.params["conv_weight"].copy()
    weights[1], weights[2:, 0] = np.array([1, 0, 0])[:, None, None], 0
    even = Graph(graph.nodes, graph.inputs, graph.outputs, {**graph.params, "conv_weight": weights})
    data = images()
    data[:, 0] = 1
    check = check_fusion(even, float_graph(fuse(even, (3, 16, 16)).graph), [data], 4)
    assert check.difference <= 1e-5 and check.allowed < 1e-3


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("layer", ["conv", "dense"])
def test_a_wrong_layer_before_or_after_the_sorting_is_noticed(layer: str) -> None:
    graph = two_stages()
    wrong = {**graph.params, f"{layer}_weight": graph.params[f"{layer}_weight"] * np.float32(1.01)}
    with pytest.raises(FusionError, match=f"'{layer}'"):
        check_fusion(graph, Graph(graph.nodes, graph.inputs, graph.outputs, wrong), [images()], 4)
