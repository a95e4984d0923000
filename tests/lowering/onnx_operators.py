"""Operators as ONNX files have them, one by one: the networks that the tests of writing them look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quantkit.ir.graph import Tensor
from tests.networks import DATA, Builder

Build = Callable[[Builder], Tensor]

# Channels, height and width of the input, all different.
SHAPE = (6, 9, 14)


def one(op: str, *more: str, **attrs: Any) -> Build:
    """One operator of the input; ``more`` are further inputs: ``exp`` is a positive tensor of the input's shape."""

    def build(b: Builder) -> Tensor:
        positive = b.op("exp", "exp", b.op("_mul_scalar", "half", DATA, scalar=0.5))
        inputs = [positive if name == "exp" else DATA for name in more] if more else [DATA]
        return b.op(op, "one", *inputs, **attrs)

    return build


def pooled(**attrs: Any) -> Build:
    return one("Pooling", **{"kernel": (3, 3), "stride": (2, 2), **attrs})


def convolved(channels: int, **attrs: Any) -> Build:
    def build(b: Builder) -> Tensor:
        kernel = attrs.get("kernel", (3, 3))
        weight = b.param("w", b.random.normal(size=(12, channels, *kernel)))
        biases = [] if attrs.get("no_bias") else [b.param("b", b.random.normal(size=12))]
        return b.op("Convolution", "one", DATA, weight, *biases, **{"kernel": kernel, "num_filter": 12, **attrs})

    return build


def dense(flatten: bool, bias: bool, features: int) -> Build:
    def build(b: Builder) -> Tensor:
        parts = [b.param("w", b.random.normal(size=(5, features)))]
        parts += [b.param("b", b.random.normal(size=5))] if bias else []
        return b.op("FullyConnected", "one", DATA, *parts, num_hidden=5, flatten=flatten, no_bias=not bias)

    return build


def transposed(filters: int, **attrs: Any) -> Build:
    """Of ``filters`` channels for each group."""

    def build(b: Builder) -> Tensor:
        count = filters * attrs.get("num_group", 1)
        weight = b.param("w", b.random.normal(size=(6, filters, 3, 2)))
        biases = [] if attrs.get("no_bias") else [b.param("b", b.random.normal(size=count))]
        return b.op(
            "Deconvolution",
            "one",
            DATA,
            weight,
            *biases,
            **{"kernel": (3, 2), "num_filter": count, "no_bias": False, **attrs},
        )

    return build


def normalized(op: str, size: int, **attrs: Any) -> Build:
    def build(b: Builder) -> Tensor:
        params = [b.param(name, b.random.normal(size=size)) for name in ("scale", "shift")]
        return b.op(op, "one", DATA, *params, **attrs)

    return build


def split(squeeze: bool) -> Build:
    def build(b: Builder) -> Tensor:
        b.op("SliceChannel", "parts", DATA, num_outputs=6 if squeeze else 3, axis=1, squeeze_axis=squeeze)
        return b.op("elemwise_sub", "one", Tensor("parts", 2), Tensor("parts", 0))

    return build


def prelu(count: int) -> Build:
    return lambda b: b.op("LeakyReLU", "one", DATA, b.param("slope", b.random.uniform(0.1, 1, count)), act_type="prelu")


def broadcast(op: str) -> Build:
    return lambda b: b.op(op, "one", DATA, b.op("mean", "mean", DATA, axis=(2, 3), keepdims=True))


def batch_norm_by_default(b: Builder) -> Tensor:
    params = [b.param(name, b.random.uniform(0.1, 0.2, 6)) for name in ("gamma", "beta", "mean", "variance")]
    return b.op("BatchNorm", "one", DATA, *params)


def chosen_row(b: Builder) -> Tensor:
    rows, place = b.param("rows", b.random.normal(size=(4, 6, 1, 1))), b.param("place", np.array([-2]))
    return b.op("broadcast_add", "one", DATA, b.op("take", "row", rows, place))


def volumes(b: Builder) -> Tensor:
    weight = b.param("w", b.random.normal(size=(4, 6, 1, 3, 2)))
    data = b.op("expand_dims", "volumes", DATA, axis=2)
    attrs = {"kernel": (1, 3, 2), "num_filter": 4, "no_bias": True, "layout": "NCDHW"}
    return b.op("Convolution", "one", data, weight, **attrs)


def rows_of_numbers(b: Builder) -> Tensor:
    """Numbers that no image decides about have no batch."""
    numbers = b.op("_arange", "numbers", start=3, stop=10, step=0.5)
    return b.op("broadcast_mul", "one", DATA, b.op("Reshape", "row", numbers, shape=(1, 1, 1, -1)))


def cut_like(b: Builder) -> Tensor:
    """Of constants, as anchors are, by the size of a map."""
    constant = b.param("constant", b.random.normal(size=(1, 1, 20, 20)))
    return b.op("broadcast_add", "one", DATA, b.op("slice_like", "cut", constant, DATA, axes=(2, 3)))


def repeated(*reps: int) -> Build:
    """Of a tensor with as many axes, or with one less; then the batch comes second until it is moved."""

    def build(b: Builder) -> Tensor:
        tiled = b.op("tile", "one", DATA, reps=reps)
        return b.op("transpose", "turned", tiled, axes=(1, 0, 2, 3, 4)) if len(reps) > 4 else tiled

    return build


def decoded(**attrs: Any) -> Build:
    def build(b: Builder) -> Tensor:
        offsets = b.op("Reshape", "offsets", DATA, shape=(0, -1, 4))
        anchors = b.random.uniform(1, 5, size=(1, 189, 4)) + np.array([0, 0, 5, 5])
        stds = {f"std{column}": 0.1 + 0.1 * column for column in range(4)}
        return b.op("_contrib_box_decode", "one", offsets, b.param("anchors", anchors), **stds, **attrs)

    return build


def suppressed(numbers: str = "whole", lists: int = 1, **attrs: Any) -> Build:
    """Of 126 boxes for each image, of three classes, with scores of both signs.

    The numbers of the classes are whole, fractions, or whole ones of both signs. Boxes are one list, or several.
    """

    def build(b: Builder) -> Tensor:
        rows = b.op("Reshape", "rows", DATA, shape=(0, -1, 6) if lists == 1 else (0, lists, -1, 6))

        def columns(begin: int, end: int) -> Tensor:
            return b.op("slice_axis", f"from{begin}", rows, axis=-1, begin=begin, end=end)

        ids = columns(0, 1) if numbers == "signed" else b.op("abs", "positive", columns(0, 1))
        ids = b.op("clip", "classes", ids, a_min=-2, a_max=2)
        ids = ids if numbers == "fractions" else b.op("floor", "ids", ids)
        first = b.op("_mul_scalar", "first", columns(2, 4), scalar=3.0)
        size = b.op("_plus_scalar", "size", b.op("abs", "extent", columns(4, 6)), scalar=2.0)
        parts = (ids, columns(1, 2), first, b.op("broadcast_add", "last", first, size))
        boxes = b.op("Concat", "boxes", *parts, num_args=4, dim=-1)
        given = {"id_index": 0, "overlap_thresh": 0.2, "valid_thresh": 0.01, **attrs}
        return b.op("_contrib_box_nms", "one", boxes, **given)

    return build


def largest_of_both(b: Builder) -> Tensor:
    b.op("topk", "best", DATA, k=4, ret_typ="both", axis=2)
    return b.op("elemwise_add", "one", Tensor("best"), Tensor("best", 1))


def by_index(b: Builder) -> Tensor:
    """As in CenterNet: of each image the values at its largest ones."""
    numbers = b.op("slice_like", "numbers", b.op("_arange", "many", start=0, stop=256), DATA, axes=(0,))
    images = b.op("tile", "images", b.op("expand_dims", "column", numbers, axis=1), reps=(1, 5))
    flat = b.op("Reshape", "flat", DATA, shape=(0, -1))
    where = b.op("stack", "where", images, b.op("topk", "best", flat, k=5), num_args=2, axis=0)
    return b.op("gather_nd", "one", flat, where)


def by_order(b: Builder) -> Tensor:
    """As in Mask R-CNN: of each image the largest values, by an order of all."""
    flat = b.op("Reshape", "flat", DATA, shape=(0, -1))
    best = b.op("slice_axis", "best", b.op("argsort", "order", flat, axis=1, is_ascend=False), axis=1, begin=0, end=5)
    numbers = b.op("_contrib_arange_like", "numbers", best, axis=0)
    images = b.op("tile", "images", b.op("expand_dims", "column", numbers, axis=1), reps=(1, 5))
    return b.op("gather_nd", "one", flat, b.op("stack", "where", images, best, num_args=2, axis=0))


def rows_of_all(b: Builder) -> Tensor:
    """As dense layers of Gluon read sequences."""
    rows = b.op("Reshape", "rows", DATA, shape=(-1, 14))
    return b.op("Reshape", "one", rows, shape=(-4, -1, 54, 0))


def by_size(reshaped: bool) -> Build:
    def build(b: Builder) -> Tensor:
        sizes = b.op("Cast", "sizes", b.op("shape_array", "shape", DATA), dtype="float32")
        width = b.op("slice_axis", "width", sizes, axis=0, begin=3, end=4)
        width = b.op("Reshape", "turned", width, shape=(1, 1, 1)) if reshaped else width
        return b.op("broadcast_mul", "one", DATA, width)

    return build


def in_one_row(b: Builder) -> Tensor:
    """As in R-CNN: regions of all images, after each other and apart again."""
    rows = b.op("Reshape", "rows", DATA, shape=(-3, 0, 0))
    squares = b.op("square", "squares", b.op("Reshape", "flat", rows, shape=(0, -1)))
    return b.op("Reshape", "one", squares, shape=(-4, -1, 6, 0))


_RELATIONS = ("equal", "greater", "greater_equal", "lesser", "lesser_equal")

CASES: dict[str, Build] = {
    "convolution": convolved(6, no_bias=True),
    "convolution with everything": convolved(
        2, num_group=3, dilate=(2, 1), stride=(1, 2), pad=(2, 0), kernel=(3, 1), layout="NCHW"
    ),
    "dense": dense(True, True, 6 * 9 * 14),
    "dense without bias": dense(True, False, 6 * 9 * 14),
    "dense of the last axis": dense(False, True, 14),
    "dense of the last axis without bias": dense(False, False, 14),
    "batch norm": lambda b: b.batch_norm("one", DATA, 6),
    "batch norm without scale": lambda b: b.batch_norm("one", DATA, 6, fix_gamma=True, eps=0.01),
    "max": pooled(pad=(1, 1)),
    "max with an overhang": pooled(pooling_convention="full"),
    "max with an overhang and padding": pooled(pooling_convention="full", pad=(1, 1)),
    "average": pooled(pool_type="avg", pad=(1, 1)),
    "average without padding": pooled(pool_type="avg", pad=(1, 1), count_include_pad=False),
    "average without an overhang": pooled(pool_type="avg", pooling_convention="full", kernel=(3, 2)),
    "average without an overhang, in threes": pooled(
        pool_type="avg", pooling_convention="full", kernel=(2, 4), stride=(3, 3), pad=(1, 1)
    ),
    "global average": pooled(pool_type="avg", global_pool=True),
    "global max": pooled(pool_type="max", global_pool=True),
    "adaptive average": one("_contrib_AdaptiveAvgPooling2D", output_size=1),
    "adaptive average of windows that overlap": one("_contrib_AdaptiveAvgPooling2D", output_size=(4, 6)),
    "adaptive average of more than one": one("_contrib_AdaptiveAvgPooling2D", output_size=3),
    "relu6": one("clip", a_min=0, a_max=6),
    "clip": one("clip", a_min=-0.5, a_max=0.25),
    "dropout": one("Dropout", p=0.5),
    "prelu of channels": prelu(6),
    "prelu": prelu(1),
    **{
        f"activation {kind}": one("Activation", act_type=kind)
        for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    },
    "leaky": one("LeakyReLU", slope=0.1),
    "leaky by default": one("LeakyReLU"),
    "elu": one("LeakyReLU", act_type="elu", slope=0.7),
    "selu": one("LeakyReLU", act_type="selu"),
    "gelu": one("LeakyReLU", act_type="gelu"),
    **{
        op: one(op, "data", "exp")
        for op in ("elemwise_add", "_plus", "elemwise_sub", "elemwise_mul", "elemwise_div", "_maximum", "_minimum")
    },
    **{op: broadcast(op) for op in ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_maximum")},
    "add_n": one("add_n", "data", "exp", "data", num_args=3),
    **{
        op: one(op, scalar=1.5)
        for op in (
            "_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "_maximum_scalar",
            "_minimum_scalar",
        )
    },
    "_rdiv_scalar": one("_rdiv_scalar", "exp", scalar=1.5),
    "_power_scalar": one("_power_scalar", "exp", scalar=1.5),
    **{op: one(op) for op in ("relu", "sigmoid", "tanh", "softsign", "abs", "negative", "erf", "square", "_copy")},
    "binary logarithm": one("log2", "exp"),
    "log and sqrt": lambda b: b.op("log", "one", b.op("sqrt", "root", b.op("exp", "exp", DATA))),
    **{f"_{kind}": one(f"_{kind}", "data", "exp") for kind in _RELATIONS},
    **{f"_{kind}_scalar": one(f"_{kind}_scalar", scalar=0.25) for kind in _RELATIONS},
    **{f"broadcast_{kind}": broadcast(f"broadcast_{kind}") for kind in _RELATIONS},
    "choice by truth": lambda b: b.op(
        "where", "one", b.op("_greater_scalar", "truth", DATA, scalar=0.5), DATA, b.op("exp", "exp", DATA)
    ),
    "largest values": one("topk", k=3, ret_typ="value"),
    "order": one("argsort"),
    "order along an axis, the largest first": one("argsort", axis=1, is_ascend=False),
    "numbers along an axis": lambda b: b.op(
        "broadcast_mul", "one", DATA, b.op("_contrib_arange_like", "numbers", DATA, axis=3)
    ),
    "places of the largest": one("topk", k=3, axis=1),
    "largest and their places": largest_of_both,
    "values by index": by_index,
    "values by order": by_order,
    "stack": one("stack", "data", "exp", num_args=2, axis=2),
    "rows of all images": rows_of_all,
    "numbers of a size": by_size(reshaped=False),
    "numbers of a size in another shape": by_size(reshaped=True),
    "images in one row": in_one_row,
    "numbers": rows_of_numbers,
    "constants cut to size": cut_like,
    **{
        f"length of each {mode}": one("L2Normalization", mode=mode, eps=0.5)
        for mode in ("channel", "spatial", "instance")
    },
    "length of each image by default": one("L2Normalization"),
    "repeated values": one("repeat", repeats=3, axis=2),
    "repeated values along the last axis": one("repeat", repeats=2, axis=-1),
    "repetition": repeated(1, 2, 1, 3),
    "repetition along the last axes": repeated(2, 3),
    "repetition along an axis more": repeated(2, 1, 1, 1, 1),
    "boxes from centres": decoded(format="center"),
    "boxes from what is taken for centres": decoded(),
    "boxes from corners": decoded(format="corner", clip=0.1),
    "suppression by class": suppressed(),
    "suppression across classes": suppressed(force_suppress=True),
    "suppression without classes": suppressed(id_index=-1),
    "suppression of the best": suppressed(topk=20),
    "suppression with a background": suppressed("signed"),
    "suppression with a background among the classes": suppressed(background_id=1),
    "suppression across classes with a background": suppressed("signed", force_suppress=True, background_id=0),
    "suppression by parts of numbers": suppressed("fractions"),
    "suppression of none": suppressed(overlap_thresh=2.0),
    "suppression in several lists": suppressed(lists=3),
    "suppression of the best of each list": suppressed(lists=3, topk=15, id_index=-1),
    "flatten": one("Flatten"),
    **{
        f"reshape {codes}": one("Reshape", shape=codes)
        for codes in ((0, -1), (-1, 756), (0, 0, -3), (0, -4, 2, -1, -2), (0, 2, 3, 9, 14), (-2, 1))
    },
    "concat": one("Concat", "data", "exp", num_args=2, dim=2),
    "concat by default": one("Concat", "data", "exp", num_args=2),
    "transpose": one("transpose", axes=(0, 2, 3, 1)),
    "swapped axes": one("SwapAxis", dim1=1, dim2=3),
    "one more axis": one("expand_dims", axis=2),
    "one axis less": lambda b: b.op("squeeze", "one", b.op("expand_dims", "more", DATA, axis=-1), axis=-1),
    "slice": one("slice_axis", axis=2, begin=2, end=-1),
    "slice to the end": one("slice_axis", axis=-1, begin=3, end=None),
    "split": split(False),
    "split and squeezed": split(True),
    "mean": one("mean", axis=(2, 3)),
    "mean of the others": one("mean", axis=(0, 1), exclude=True, keepdims=True),
    "sum": one("sum", axis=1),
    "largest": one("max", axis=-1, keepdims=True),
    "smallest": one("min", axis=(1, 2)),
    "softmax": one("softmax"),
    "softmax of channels": one("softmax", axis=1),
    "log softmax": one("log_softmax", axis=1),
    "softmax activation": one("SoftmaxActivation", mode="channel"),
    "padding": one("Pad", mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 4), constant_value=0.5),
    "reflection": one("Pad", mode="reflect", pad_width=(0, 0, 0, 0, 1, 2, 3, 4)),
    "edge": one("Pad", mode="edge", pad_width=(0, 0, 0, 0, 1, 2, 3, 4)),
    "slice of all axes": one("slice", begin="(None, 1, 2, None)", end="(None, 5, None, 9)"),
    "slice in steps": one(
        "slice", begin="(None, None, None, None)", end="(None, None, None, None)", step="(1, 1, 2, -3)"
    ),
    "slice of nothing": one("slice", begin="(None, None)", end="(None, None)"),
    "choice": lambda b: b.op("take", "one", DATA, b.param("places", np.array([3, 0, 99, 3])), axis=2, mode="clip"),
    "spread": lambda b: b.op(
        "broadcast_axis", "one", b.op("mean", "mean", DATA, axis=(2, 3), keepdims=True), axis=(2, 3), size=(5, 7)
    ),
    "largest's place": one("argmax", axis=1),
    "largest's place, kept": one("argmax", axis=-1, keepdims=True),
    "depth to space": lambda b: b.op(
        "depth_to_space", "one", b.op("Concat", "wide", DATA, DATA, num_args=2), block_size=2
    ),
    "space to depth": lambda b: b.op(
        "space_to_depth", "one", b.op("slice_axis", "even", DATA, axis=2, begin=0, end=8), block_size=2
    ),
    "linear, corners aligned": one("_contrib_BilinearResize2D", height=13, width=20),
    "linear, smaller": one("_contrib_BilinearResize2D", height=5, width=11),
    "linear, like another": lambda b: b.op(
        "_contrib_BilinearResize2D", "one", b.op("slice_axis", "few", DATA, axis=3, begin=0, end=5), DATA,
        mode="like", align_corners=False,
    ),
    "spread like another": lambda b: b.op(
        "broadcast_like", "one", b.op("mean", "mean", DATA, axis=(2, 3), keepdims=True), DATA
    ),
    "ones": lambda b: b.op("broadcast_add", "one", DATA, b.op("ones_like", "ones", DATA)),
    "zeros": lambda b: b.op("broadcast_add", "one", b.op("zeros_like", "zeros", DATA), DATA),
    "transposed convolution": transposed(2, num_group=2, dilate=(1, 2), stride=(2, 3), pad=(1, 0), adj=(1, 2)),
    "transposed convolution without bias": transposed(5, no_bias=True),
    "instance norm": normalized("InstanceNorm", 6, eps=1e-4),
    "layer norm": normalized("LayerNorm", 14, axis=-1, eps=1e-4),
    "local response": one("LRN", nsize=3, alpha=0.2, beta=0.6, knorm=1.5),
    "hard sigmoid": one("hard_sigmoid", alpha=1 / 6, beta=0.4),
    "power of a tensor": one("broadcast_power", "exp", "data"),
    "_rpower_scalar": one("_rpower_scalar", scalar=1.5),
    **{op: one(op) for op in ("ceil", "floor", "cos", "sin")},
    "reciprocal": one("reciprocal", "exp"),
    "enlargement": one("UpSampling", scale=2, sample_type="nearest", num_args=1),
    # As far as MXNet lets attributes be left out, they are.
    "batch norm by default": batch_norm_by_default,
    "max by default": one("Pooling", kernel=(3, 2)),
    "instance norm by default": normalized("InstanceNorm", 6),
    "layer norm by default": normalized("LayerNorm", 14),
    "layer norm of the last axis by its number": normalized("LayerNorm", 14, axis=3),
    "local response by default": lambda b: b.op("LRN", "one", b.op("_mul_scalar", "large", DATA, scalar=50), nsize=5),
    "hard sigmoid by default": one("hard_sigmoid"),
    "swapped axes by default": one("SwapAxis"),
    "split by default": lambda b: b.op("SliceChannel", "one", DATA, num_outputs=2),
    "split of rows": one("SliceChannel", num_outputs=3, axis=2),
    "padding by default": one("Pad", mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 4)),
    "axes turned round, twice": lambda b: b.op("transpose", "one", b.op("transpose", "turned", DATA)),
    "choice of rows by default": chosen_row,
    "mean of all": lambda b: b.op("broadcast_sub", "one", DATA, b.op("mean", "mean", DATA, keepdims=True)),
    "mean of all, as None says": lambda b: b.op(
        "broadcast_sub", "one", DATA, b.op("mean", "mean", DATA, axis=None, keepdims=True)
    ),
    "softmax at temperature 1": one("softmax", temperature=1),
    "softmax at temperature 1.0": one("softmax", temperature=1.0),
    "softmax activation of rows": lambda b: b.op("SoftmaxActivation", "one", b.op("Flatten", "rows", DATA)),
    "convolution of volumes": volumes,
    "dense layer of rows": lambda b: b.dense("one", b.op("Flatten", "rows", DATA), 756, 5),
}  # fmt: skip
