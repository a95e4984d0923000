"""Networks that have no ONNX form: the error names the node, the reason and the remedy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import ExtraMissing, ModelError, UserError
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.ir.graph import Graph, Tensor
from tests.lowering.operators.build import SHAPE, Build, one
from tests.lowering.operators.layers import convolved, normalized, pooled, transposed
from tests.networks import DATA, Builder, residual_v1
from tests.requirements import package

onnx = package("onnx")
pytestmark = pytest.mark.usefixtures("engine")


def written(graph: Graph, shape: tuple[int, ...], opset: int = 13) -> Any:
    return onnx_model(graph, infer_shapes(graph, {"data": (1, *shape)}), opset)


REFUSED: dict[str, tuple[Build, str]] = {
    "channels last": (convolved(6, layout="NHWC"), "the layout NHWC, where ONNX has channels first"),
    "transposed channels last": (transposed(5, layout="NHWC"), "the layout NHWC, where ONNX has channels first"),
    "pooled channels last": (pooled(layout="NHWC"), "the layout NHWC, where ONNX has channels first"),
    "batch norm of the last axis": (
        lambda b: b.batch_norm("one", DATA, 14, axis=3), "it normalizes axis 3, ONNX only axis 1"
    ),
    "sum pooling": (pooled(pool_type="sum"), "pooling of type 'sum'"),
    "same pooling": (pooled(pooling_convention="same"), "the pooling convention 'same'"),
    "activation": (one("Activation", act_type="log_sigmoid"), "the activation 'log_sigmoid'"),
    "no activation": (one("Activation"), "the activation ''"),
    "random activation": (one("LeakyReLU", act_type="rrelu"), "the activation 'rrelu'"),
    "dropout at inference": (one("Dropout", mode="always"), "it drops values at inference too"),
    "reshaped batch": (
        one("Reshape", shape=(-4, 1, -1, -2)),
        "shape=(-4, 1, -1, -2), which does not keep the batch as its first axis",
    ),
    "batch behind others": (
        one("Reshape", shape=(6, -1)), "shape=(6, -1), which does not keep the batch as its first axis"
    ),
    "like another's first axes": (
        lambda b: b.op("reshape_like", "one", b.op("square", "squares", DATA), DATA, lhs_begin=0, lhs_end=2, rhs_end=2),
        "the shape of some of the axes, and the batch may be among them",
    ),
    "codes from the end": (
        one("Reshape", shape=(0, -1), reverse=True), "shape=(0, -1), which does not keep the batch as its first axis"
    ),
    "squeezed batch": (one("squeeze"), "it names no axis, so that a batch of one would lose its own"),
    "axes squeezed at will": (
        one("squeeze", axis="()"), "it names no axis, so that a batch of one would lose its own"
    ),
    "temperature": (one("softmax", temperature=2.0), "a softmax with lengths or a temperature"),
    "softmax with lengths": (one("softmax", use_length=True), "a softmax with lengths or a temperature"),
    "softmax of several axes": (one("SoftmaxActivation"), "a softmax over several axes"),
    "target shape": (
        transposed(5, target_shape=(20, 30)), "a target shape, which decides on the padding"
    ),
    "norm of the channels": (normalized("LayerNorm", 6, axis=1), "it normalizes axis 1, not the last"),
    "norm with statistics": (normalized("LayerNorm", 14, output_mean_var=True), "it puts out its statistics"),
    "place among all": (one("argmax"), "it names no axis, so that it would search all images of a batch"),
    "computed choice": (one("take", "data", "exp"), "a choice that is computed, or that wraps around"),
    "wrapped choice": (
        lambda b: b.op("take", "one", DATA, b.param("p", np.zeros(2)), mode="wrap"),
        "a choice that is computed, or that wraps around",
    ),
    "linear by scale": (
        one("_contrib_BilinearResize2D", mode="odd_scale", scale_height=2),
        "a size that follows from another tensor, or a scale",
    ),
    "single axes of another": (
        one("broadcast_like", "data", "exp", lhs_axes=(0,), rhs_axes=(0,)), "it takes single axes from the other tensor"
    ),
    "size of another tensor": (
        one("_contrib_BilinearResize2D", "data", "exp"), "a size that follows from another tensor, or a scale"
    ),
    "two enlarged": (
        one("UpSampling", "data", "exp", scale=2, sample_type="nearest", num_args=2),
        "an enlargement other than of one tensor by repeating its values",
    ),
    "smooth enlargement": (
        one("UpSampling", scale=2, sample_type="bilinear", num_args=1),
        "an enlargement other than of one tensor by repeating its values",
    ),
    "whole numbers": (
        lambda b: b.op("_arange", "one", start=0, stop=5, dtype="int32"), "numbers of the type int32"
    ),
    "as whole numbers": (one("Cast", dtype="int32"), "numbers of the type int32"),
    "smallest values": (
        one("topk", k=2, is_ascend=True), "other than the largest values and their indices as float32"
    ),
    "repeated images": (one("repeat", repeats=2, axis=0), "it repeats the images of a batch, or names no axis"),
    "boxes by their centres": (
        one("_contrib_box_nms", in_format="center"), "other suppression than of corners in rows of images"
    ),
    "boxes of any score": (one("_contrib_box_nms", valid_thresh=-1), "scores or overlaps below zero"),
    "boxes without overlap": (one("_contrib_box_nms", overlap_thresh=-1), "scores or overlaps below zero"),
    "numbers without an axis": (one("_contrib_arange_like"), "numbers other than 0, 1, 2, ... along one axis"),
    "numbers from one on": (
        one("_contrib_arange_like", axis=1, start=1), "numbers other than 0, 1, 2, ... along one axis"
    ),
    "order of images": (
        one("argsort", axis=0), "other than indices as float32, or an order of all images of a batch"
    ),
    "order of all": (
        one("argsort", axis=None), "other than indices as float32, or an order of all images of a batch"
    ),
    "order as whole numbers": (
        one("argsort", dtype="int32"), "other than indices as float32, or an order of all images of a batch"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_onnx_form_is_refused_by_name(case: str) -> None:
    build, told = REFUSED[case]
    b = Builder()
    graph = b.graph(build(b)).pruned()
    # Shapes only of what the engine can run.
    with pytest.raises(ModelError) as error:
        onnx_model(graph, {DATA: (1, *SHAPE), **{node.output: (1, *SHAPE) for node in graph.nodes}})
    assert str(error.value) == (
        f"node 'one' ({graph.by_name['one'].op}) cannot be written as ONNX: {told}; "
        "end the network before it, or replace it by operators that ONNX has"
    )


def test_unknown_operators_are_refused_by_name() -> None:
    b = Builder()
    graph = b.graph(one("arccosh", "exp")(b))
    with pytest.raises(ModelError) as error:
        written(graph, SHAPE)
    assert str(error.value) == (
        "node 'one' cannot be written as ONNX: there is no converter for the operator arccosh; "
        "end the network before it, or add a converter to quantkit/formats/onnx/writing"
    )


def test_outputs_without_the_batch_are_refused() -> None:
    """On the way, images and regions may be one axis."""
    b = Builder()
    regions = b.op("Reshape", "regions", DATA, shape=(-3, 0, 0))
    split = b.op("Reshape", "split", regions, shape=(-4, -1, 6, 0, 0))
    written(b.graph(split), SHAPE)
    with pytest.raises(
        ModelError,
        match=r"^node 'regions' \(Reshape\) cannot be written as ONNX: as an output it has 6 rows for 1 in the input; ",
    ):
        written(b.graph(split, regions), SHAPE)


def test_unknown_opsets_are_refused() -> None:
    for opset in (12, 22):
        with pytest.raises(UserError, match=f"^ONNX opset {opset} cannot be written; choose one from 13 to 21$"):
            written(residual_v1(), (3, 16, 16), opset)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows_wholly_in_the_padding_are_refused(kind: str) -> None:
    """Rows: of 9, padded to 11, the sixth window of two begins at the eleventh; MXNet has it, ONNX leaves it out."""
    b = Builder()
    attrs = {"pooling_convention": "full", "pool_type": kind}
    graph = b.graph(b.op("Pooling", "pool", DATA, kernel=(2, 2), stride=(2, 2), pad=(1, 0), **attrs))
    shapes = infer_shapes(graph, {"data": (1, *SHAPE)})
    assert shapes[Tensor("pool")][2] == 6
    with pytest.raises(ModelError, match="its last window lies wholly in the padding, where ONNX has no window; end"):
        onnx_model(graph, shapes, 19)


def test_shapes_that_onnx_infers_otherwise_are_refused() -> None:
    graph = residual_v1()
    shapes = infer_shapes(graph, {"data": (1, 3, 16, 16)})
    with pytest.raises(onnx.shape_inference.InferenceError, match=r"dimension 1: \(10\) vs \(11\)"):
        onnx_model(graph, {**shapes, Tensor("dense"): (1, 11)})


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        ExtraMissing, match=r"^ONNX files need the package onnx \(.*\); install it: pip install 'quantkit\[onnx\]'$"
    ):
        written(residual_v1(), (3, 16, 16))


def test_parameters_beyond_what_a_file_holds_are_refused() -> None:
    graph = residual_v1()
    huge = np.broadcast_to(np.float32(0), (2**29,))
    graph = Graph(graph.nodes, graph.inputs, graph.outputs, {**graph.params, "dense_bias": huge})
    shapes = infer_shapes(residual_v1(), {"data": (1, 3, 16, 16)})
    # Gammas are not fixed, so all parameters are read.
    size = sum(value.nbytes for value in graph.params.values())
    with pytest.raises(
        ModelError, match=f"^the network's {size} bytes of parameters do not fit in one ONNX file, which holds 2 GB$"
    ):
        onnx_model(graph, shapes)
