"""Every ONNX operator that is read, alone, in MXNet held against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.formats.onnx.reading.network import CONVERTERS, import_network
from quantkit.formats.onnx.reading.recurrent import RECURRENT
from quantkit.formats.onnx.writing.model import OPSETS, onnx_model
from tests.formats.onnx.reading.files import Writer, by_onnxruntime, save
from tests.requirements import requires

requires("onnxruntime")
pytestmark = pytest.mark.usefixtures("engine")

Build = Callable[[Writer], str]


def one(op: str, *more: Any, **attributes: Any) -> Build:
    """One operator of the input and constants."""
    return lambda w: w.op(op, "x", *more, **attributes)


def positive(op: str, *more: Any, **attributes: Any) -> Build:
    """One operator of a tensor without negative values."""
    return lambda w: w.op(op, w.op("Exp", "x"), *more, **attributes)


def typed(kind: int, build: Build) -> Build:
    """A network whose result is of another type than float32."""

    def built(w: Writer) -> str:
        w.kind = kind
        return build(w)

    return built


def conv(**attributes: Any) -> Build:
    return lambda w: w.conv("x", 6, 8, **attributes)


def windowed(op: str, **attributes: Any) -> Build:
    """A pooling of values far from zero, so that what it pads matters."""
    return lambda w: w.op(op, w.op("Sub", "x", 9.0), **{"kernel_shape": [3, 3], **attributes})


def transposed(groups: int = 1, kernel: int = 3, **attributes: Any) -> Build:
    return lambda w: w.op(
        "ConvTranspose", "x", w.normal(6, 4, kernel, kernel), w.normal(4 * groups), group=groups, **attributes
    )


def gemm(features: int = 6, units: int = 5, turned: bool = True, bias: Any = (5,), **attributes: Any) -> Build:
    def build(w: Writer) -> str:
        flat = w.op("Flatten", w.op("GlobalAveragePool", "x"))
        weight = w.normal(*((units, features) if turned else (features, units)))
        return w.op(
            "Gemm", flat, weight, *([] if bias is None else [w.normal(*bias)]), transB=int(turned), **attributes
        )

    return build


def product(bias: bool, first: bool = False) -> Build:
    def build(w: Writer) -> str:
        result = w.op("MatMul", "x", w.normal(14, 5))
        if not bias:
            return result
        return w.op("Add", w.normal(5), result) if first else w.op("Add", result, w.normal(5))

    return build


def channels(op: str, count: int, **attributes: Any) -> Build:
    """An operator with ``count`` parameters for each channel, positive ones."""
    return lambda w: w.op(op, "x", *(w.random.uniform(0.5, 1.5, 6) for _ in range(count)), **attributes)


def with_mean(op: str, turned: bool = False) -> Build:
    def build(w: Writer) -> str:
        mean = w.op("Exp", w.op("GlobalAveragePool", "x"))
        return w.op(op, mean, "x") if turned else w.op(op, "x", mean)

    return build


def resized(*, scales: Any = None, sizes: Any = None, **attributes: Any) -> Build:
    def build(w: Writer) -> str:
        if sizes is not None:
            return w.op("Resize", "x", "", "", np.array(sizes, np.int64), **attributes)
        return w.op("Resize", "x", "", np.array(scales, np.float32), **attributes)

    return build


def layer_norm(axis: int, shape: tuple[int, ...], bias: bool = True) -> Build:
    def build(w: Writer) -> str:
        return w.op("LayerNormalization", "x", *(w.normal(*shape) for _ in range(1 + bias)), axis=axis)

    return build


def split(sizes: list[int], axis: int = 1) -> Build:
    def build(w: Writer) -> str:
        parts = w.op("Split", "x", np.array(sizes), count=len(sizes), axis=axis)
        return w.op("Concat", *reversed(parts), axis=axis)

    return build


NEAREST = {"mode": "nearest"}
LINEAR = {"mode": "linear"}

# Each with the opsets that it is tried with; 17 where nothing is said.
CASES: dict[str, Build] = {
    "conv": conv(bias=False),
    "conv with everything": conv(groups=2, strides=[2, 1], dilations=[1, 2], pads=[1, 2, 1, 2], kernel=3),
    "conv, other padding behind": conv(pads=[0, 0, 1, 1], strides=[2, 2]),
    "conv, as TensorFlow": conv(auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv, same lower": conv(auto_pad="SAME_LOWER", kernel=2),
    "conv, valid": conv(auto_pad="VALID"),
    "conv after padding": lambda w: w.conv(w.op("Pad", "x", np.array([0, 0, 1, 1, 0, 0, 1, 1])), 6, 8),
    "conv after padding of ones": lambda w: w.conv(w.op("Pad", "x", np.array([0, 0, 1, 1, 0, 0, 1, 1]), 1.0), 6, 8),
    "conv after padding behind": lambda w: w.conv(
        w.op("Pad", "x", np.array([0, 0, 0, 0, 0, 0, 1, 1])), 6, 8, pads=[1, 1, 0, 0]
    ),
    "conv of one axis": lambda w: w.op(
        "Conv", w.op("Reshape", "x", np.array([0, 6, -1])), w.normal(4, 6, 5), pads=[2, 2]
    ),
    "conv of three axes": lambda w: w.op(
        "Conv", w.op("Reshape", "x", np.array([0, 3, 2, 9, 14])), w.normal(4, 3, 2, 3, 3)
    ),
    "conv and a constant": lambda w: w.op("Add", w.conv("x", 6, 8, bias=False), w.normal(1, 8, 1, 1)),
    "conv and a constant, read twice": lambda w: w.op(
        "Concat", (c := w.conv("x", 6, 8, bias=False)), w.op("Add", c, w.normal(8, 1, 1)), axis=1
    ),
    "conv and a constant image": lambda w: w.op("Add", w.conv("x", 6, 1, bias=False), w.normal(1, 1, 7, 12)),
    "transposed conv": transposed(),
    "transposed conv with everything": transposed(
        groups=2, strides=[2, 3], pads=[1, 0, 1, 0], output_padding=[1, 0], dilations=[1, 2]
    ),
    "transposed conv, other padding behind": transposed(strides=[2, 2], pads=[0, 0, 1, 1]),
    "transposed conv of a size": transposed(strides=[2, 2], output_shape=[18, 28]),
    "transposed conv, same": transposed(strides=[2, 2], auto_pad="SAME_UPPER"),
    "transposed conv and a constant": lambda w: w.op(
        "Add", w.op("ConvTranspose", "x", w.normal(6, 4, 2, 2)), w.normal(4, 1, 1)
    ),
    "gemm": gemm(),
    "gemm without bias": gemm(bias=None),
    "gemm with everything": gemm(turned=False, alpha=0.5, beta=2.0, bias=(1, 5)),
    "gemm with one bias": gemm(bias=(1,)),
    "gemm in a batch of one": lambda w: w.op(
        "Gemm", w.op("Flatten", w.op("GlobalMaxPool", "x")), w.normal(1, 6), w.normal(1), transB=1
    ),
    "product": product(False),
    "product and bias": product(True),
    "bias and product": product(True, first=True),
    "batch norm": channels("BatchNormalization", 4, epsilon=0.01),
    "batch norm of features": lambda w: w.op(
        "BatchNormalization", w.op("Flatten", w.op("GlobalMaxPool", "x")), *(w.random.uniform(1, 2, 6) for _ in "1234")
    ),
    "instance norm": channels("InstanceNormalization", 2, epsilon=0.01),
    "layer norm": layer_norm(-1, (14,)),
    "layer norm of images": layer_norm(1, (6, 9, 14), bias=False),
    "local response": one("LRN", size=5, alpha=0.3, beta=0.6, bias=1.5),
    "max": windowed("MaxPool", strides=[2, 2], pads=[1, 1, 1, 1]),
    "max, overhanging": windowed("MaxPool", strides=[2, 2], ceil_mode=1),
    "max, overhanging and padded": windowed("MaxPool", strides=[2, 3], ceil_mode=1, pads=[1, 0, 1, 0]),
    "max, window in the padding": windowed(
        "MaxPool", kernel_shape=[1, 2], strides=[4, 3], ceil_mode=1, pads=[0, 1, 0, 1]
    ),
    "max, other padding behind": windowed("MaxPool", strides=[2, 2], pads=[0, 0, 1, 2]),
    "max, other padding before": windowed("MaxPool", pads=[2, 1, 0, 1]),
    "max, as TensorFlow": windowed("MaxPool", strides=[2, 2], auto_pad="SAME_UPPER"),
    "max, same lower": windowed("MaxPool", kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
    "average": windowed("AveragePool", strides=[2, 2], pads=[1, 1, 1, 1]),
    "average with padding": windowed("AveragePool", pads=[1, 1, 1, 1], count_include_pad=1),
    "average, overhanging": windowed("AveragePool", strides=[2, 2], ceil_mode=1),
    "average, other padding behind": windowed("AveragePool", strides=[2, 2], pads=[0, 0, 1, 1]),
    "average with other padding behind": windowed(
        "AveragePool", strides=[2, 2], pads=[0, 1, 1, 1], count_include_pad=1
    ),
    "average, other padding before": windowed("AveragePool", pads=[2, 1, 0, 1]),
    "average, as TensorFlow": windowed("AveragePool", strides=[1, 2], auto_pad="SAME_UPPER"),
    "average, same lower": windowed("AveragePool", kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
    "global average": one("GlobalAveragePool"),
    "global max": one("GlobalMaxPool"),
    **{
        f"{op} {axes} {keep}": one(op, axes=axes, keepdims=keep)
        for op in ("ReduceMean", "ReduceMax", "ReduceMin")
        for axes, keep in (([2, 3], 1), ([2, 3], 0), ([-1], 0), ([1], 1))
    },
    "sum of axes": one("ReduceSum", np.array([2, -1]), keepdims=0),
    "sum of no axes": one("ReduceSum", noop_with_empty_axes=1),
    "greatest": typed(TensorProto.INT64, one("ArgMax", axis=1)),
    "greatest without its axis": typed(
        TensorProto.INT32, lambda w: w.op("Cast", w.op("ArgMax", "x", axis=-1, keepdims=0), to=TensorProto.INT32)
    ),
    "square": one("Pow", 2.0),
    "power": positive("Pow", 0.3),
    "power of a constant": lambda w: w.op("Pow", 1.5, "x"),
    **{f"{op} scalar": one(op, 1.5) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")},
    **{f"scalar {op}": lambda w, op=op: w.op(op, 1.5, w.op("Exp", "x")) for op in ("Sub", "Div", "Min")},
    **{f"{op} same": lambda w, op=op: w.op(op, "x", w.op("Exp", "x")) for op in ("Add", "Sub", "Mul", "Div", "Max")},
    **{f"{op} mean": with_mean(op) for op in ("Add", "Sub", "Mul", "Div", "Min")},
    **{f"mean {op}": with_mean(op, True) for op in ("Sub", "Div", "Pow")},
    "channels": lambda w: w.op("Mul", "x", w.normal(6, 1, 1)),
    "columns": lambda w: w.op("Sub", w.normal(14), "x"),
    "sum of many": lambda w: w.op("Sum", "x", w.op("Exp", "x"), w.op("GlobalMaxPool", "x"), "x"),
    "maximum of many": lambda w: w.op("Max", "x", w.op("Neg", "x"), 0.5),
    **{
        op: one(op)
        for op in (
            "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Exp", "Abs", "Neg", "Erf", "Floor", "Ceil", "LeakyRelu",
            "Elu", "Selu", "HardSigmoid", "HardSwish", "Identity", "Dropout", "Sin", "Cos",
        )
    },
    **{op: positive(op) for op in ("Log", "Sqrt", "Reciprocal")},
    "leaky with slope": one("LeakyRelu", alpha=0.3),
    "elu with slope": one("Elu", alpha=0.7),
    "hard sigmoid with slope": one("HardSigmoid", alpha=1 / 6, beta=0.4),
    "prelu of channels": lambda w: w.op("PRelu", "x", w.normal(6, 1, 1)),
    "prelu": lambda w: w.op("PRelu", "x", w.normal(1)),
    "clip": one("Clip", -0.5, 0.25),
    "clip from 0": one("Clip", 0.0),
    "clip from above": one("Clip", "", 0.25),
    "clip from below": one("Clip", -0.25),
    "no clip": one("Clip"),
    "cast": typed(TensorProto.DOUBLE, one("Cast", to=TensorProto.DOUBLE)),
    "concat": lambda w: w.op("Concat", "x", w.op("Neg", "x"), axis=-3),
    "flatten": one("Flatten"),
    "flatten behind": lambda w: w.op("Reshape", w.op("Flatten", "x", axis=2), np.array([-1, 6, 126])),
    "reshape": one("Reshape", np.array([0, 2, 3, -1, 7])),
    "reshape of the batch": one("Reshape", np.array([-1, 54, 14])),
    "squeeze": lambda w: w.op("Squeeze", w.op("GlobalMaxPool", "x"), np.array([2, -1])),
    "unsqueeze": one("Unsqueeze", np.array([1, -1])),
    "transpose": one("Transpose", perm=[0, 2, 3, 1]),
    "transpose with the batch": lambda w: w.op(
        "Transpose", w.op("Sigmoid", w.op("Transpose", "x", perm=[2, 0, 3, 1])), perm=[1, 0, 2, 3]
    ),
    "two transposes": lambda w: w.op("Transpose", w.op("Transpose", "x", perm=[0, 2, 3, 1]), perm=[0, 2, 3, 1]),
    "slice": one("Slice", np.array([1]), np.array([2**62]), np.array([3])),
    "slice in steps": one("Slice", np.array([0, 1]), np.array([9, -1]), np.array([2, 3]), np.array([2, 3])),
    "slice backwards": one("Slice", np.array([-1]), np.array([-(2**62)]), np.array([1]), np.array([-1])),
    "slice of all": one("Slice", np.array([0]), np.array([2**62]), np.array([0])),
    "split in equal parts": split([2, 2, 2]),
    "split in unequal parts": split([1, 3, 2]),
    "split by default": lambda w: w.op("Concat", *w.op("Split", "x", count=2, axis=3)[::-1], axis=1),
    "gather one": one("Gather", np.array(-1), axis=1),
    "gather": one("Gather", np.array([[3, 1], [0, -1]]), axis=1),
    "expand": lambda w: w.op("Expand", w.op("GlobalMaxPool", "x"), np.array([1, 1, 4, 1])),
    "pad": one("Pad", np.array([0, 0, 1, 0, 0, 0, 0, 2]), 0.5),
    "pad by mirroring": one("Pad", np.array([0, 0, 1, 0, 0, 0, 0, 2]), mode="reflect"),
    "pad by repeating": one("Pad", np.array([0, 0, 1, 0, 0, 0, 0, 2]), mode="edge"),
    "softmax": one("Softmax"),
    "softmax of channels": one("Softmax", axis=1),
    "log softmax": one("LogSoftmax", axis=1),
    "depth to space": lambda w: w.op("DepthToSpace", w.conv("x", 6, 8), blocksize=2),
    "depth to space, columns first": lambda w: w.op("DepthToSpace", w.conv("x", 6, 8), blocksize=2, mode="CRD"),
    "space to depth": lambda w: w.op("SpaceToDepth", w.op("Concat", "x", "x", axis=2), blocksize=2),
    "twice as large": resized(
        scales=[1, 1, 2, 2], **NEAREST, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    ),
    "three times as large": resized(scales=[1, 1, 3, 3], **NEAREST),
    "other size": resized(sizes=[2, 6, 13, 9], **NEAREST),
    **{
        f"nearest, {coordinates}, {rounding}": resized(
            scales=[1, 1, 1.6, 0.7], **NEAREST, coordinate_transformation_mode=coordinates, nearest_mode=rounding
        )
        for coordinates in ("asymmetric", "half_pixel", "align_corners")
        for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    },
    "linear": resized(sizes=[2, 6, 18, 21], **LINEAR),
    "linear, smaller": resized(sizes=[2, 6, 5, 6], **LINEAR, coordinate_transformation_mode="pytorch_half_pixel"),
    "linear, corners aligned": resized(scales=[1, 1, 2, 3], **LINEAR, coordinate_transformation_mode="align_corners"),
}  # fmt: skip

# Operators in the forms that older and newer opsets have.
OTHER_OPSETS: dict[str, tuple[int, Build]] = {
    "clip by attributes": (9, one("Clip", min=-0.5, max=0.25)),
    "dropout": (9, one("Dropout", ratio=0.3)),
    "pad by attributes": (9, one("Pad", pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.5)),
    "slice by attributes": (9, one("Slice", starts=[1, 2], ends=[-1, 100], axes=[2, 3])),
    "squeeze by attributes": (9, lambda w: w.op("Squeeze", w.op("GlobalMaxPool", "x"), axes=[2, 3])),
    "unsqueeze by attributes": (9, one("Unsqueeze", axes=[4])),
    "split by attributes": (9, lambda w: w.op("Split", "x", count=2, axis=1, split=[2, 4])[1]),
    "sum by attributes": (11, one("ReduceSum", axes=[1], keepdims=0)),
    "softmax over all behind": (9, one("Softmax", axis=2)),
    "softmax by default": (11, one("Softmax")),
    "softmax of one axis": (9, one("Softmax", axis=3)),
    "log softmax over all behind": (12, one("LogSoftmax", axis=1)),
    "upsample": (9, lambda w: w.op("Upsample", "x", np.array([1, 1, 2, 2], np.float32))),
    "resize": (10, lambda w: w.op("Resize", "x", np.array([1, 1, 2, 2.5], np.float32))),
    "resize 11": (
        11, lambda w: w.op("Resize", "x", np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32))
    ),
    "mean by axes as input": (18, one("ReduceMean", np.array([2, 3]), keepdims=0)),
    "max by axes as input": (20, one("ReduceMax", np.array([1]), keepdims=1)),
    "pad of axes": (18, one("Pad", np.array([1, 2]), "", np.array([3]))),
    "resize of axes": (18, lambda w: w.op("Resize", "x", "", "", np.array([18, 28]), axes=[2, 3], mode="nearest")),
    "gelu": (20, one("Gelu")),
    "gelu by tanh": (20, one("Gelu", approximate="tanh")),
    "mish": (18, one("Mish")),
    "average, overhanging and padded": (
        19, windowed("AveragePool", strides=[2, 2], ceil_mode=1, pads=[1, 1, 1, 1], count_include_pad=1)
    ),
    "split by number": (18, lambda w: w.op("Split", "x", count=3, axis=3, num_outputs=3)[2]),
}  # fmt: skip


def check(build: Build, opset: int, folder: Path) -> None:
    """Import the network, and hold its results, and the shapes that the import reckons with, against the engines'.

    Written as ONNX again it computes the same, too.
    """
    writer = Writer(opset, ("N", 6, 9, 14))
    result = build(writer)
    path = save(writer.model(result), folder / "one.onnx")
    found = import_network(path)
    data = np.random.default_rng(1).normal(size=(2, 6, 9, 14)).astype(np.float32)
    (expected,), (computed,) = by_onnxruntime(path, data), run(found.graph, {"x": data})
    assert computed.shape == expected.shape
    assert [str(tensor) for tensor in found.graph.outputs] == [result]
    assert float(np.abs(computed - expected).max()) <= 1e-5 * float(np.abs(expected).max())
    assert infer_shapes(found.graph, {"x": (3, 6, 9, 14)})[found.graph.outputs[0]] == (3, *expected.shape[1:])
    shapes = infer_shapes(found.graph, {"x": (1, 6, 9, 14)})
    (again,) = by_onnxruntime(save(onnx_model(found.graph, shapes, OPSETS[-1]), folder / "again.onnx"), data)
    assert float(np.abs(again - expected).max()) <= 1e-5 * float(np.abs(expected).max())


@pytest.mark.parametrize("name", CASES)
def test_computes_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    if name in ("linear", "linear, smaller"):
        requires("half-pixels")
    check(CASES[name], 17, tmp_path)


@pytest.mark.parametrize("name", OTHER_OPSETS)
def test_forms_of_other_opsets(name: str, tmp_path: Path) -> None:
    opset, build = OTHER_OPSETS[name]
    check(build, opset, tmp_path)


def test_every_operator_has_a_case() -> None:
    def operators(builds: Iterable[tuple[int, Build]]) -> Iterable[str]:
        for opset, build in builds:
            writer = Writer(opset, ("N", 6, 9, 14))
            build(writer)
            yield from (node.op_type for node in writer.nodes)

    builds = [*((17, build) for build in CASES.values()), *OTHER_OPSETS.values()]
    # Recurrent layers read no images: see ``test_recurrent``.
    assert set(CONVERTERS) - set(operators(builds)) == set(RECURRENT)
