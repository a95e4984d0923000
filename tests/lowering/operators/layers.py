"""Layers, activations and normalizations."""

from __future__ import annotations

from typing import Any

from quantkit.ir.graph import Tensor
from tests.lowering.operators.build import Build, one
from tests.networks import DATA, Builder


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


def prelu(count: int) -> Build:
    return lambda b: b.op("LeakyReLU", "one", DATA, b.param("slope", b.random.uniform(0.1, 1, count)), act_type="prelu")


def batch_norm_by_default(b: Builder) -> Tensor:
    params = [b.param(name, b.random.uniform(0.1, 0.2, 6)) for name in ("gamma", "beta", "mean", "variance")]
    return b.op("BatchNorm", "one", DATA, *params)


def volumes(b: Builder) -> Tensor:
    weight = b.param("w", b.random.normal(size=(4, 6, 1, 3, 2)))
    data = b.op("expand_dims", "volumes", DATA, axis=2)
    attrs = {"kernel": (1, 3, 2), "num_filter": 4, "no_bias": True, "layout": "NCDHW"}
    return b.op("Convolution", "one", data, weight, **attrs)


def products(**attrs: Any) -> Build:
    """Of matrices of 6 x 126 values with themselves."""
    return lambda b: b.op("batch_dot", "one", *2 * [b.op("Reshape", "rows", DATA, shape=(0, 6, -1))], **attrs)


CASES: dict[str, Build] = {
    "products with the second transposed": products(transpose_b=True),
    "products with the first transposed": products(transpose_a=True),
    "products of several matrices": lambda b: b.op("batch_dot", "one", DATA, DATA, transpose_b=True),
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
        f"length of each {mode}": one("L2Normalization", mode=mode, eps=0.5)
        for mode in ("channel", "spatial", "instance")
    },
    "length of each image by default": one("L2Normalization"),
    "softmax": one("softmax"),
    "softmax of channels": one("softmax", axis=1),
    "log softmax": one("log_softmax", axis=1),
    "softmax activation": one("SoftmaxActivation", mode="channel"),
    "linear, corners aligned": one("_contrib_BilinearResize2D", height=13, width=20),
    "linear, smaller": one("_contrib_BilinearResize2D", height=5, width=11),
    "linear, like another": lambda b: b.op(
        "_contrib_BilinearResize2D", "one", b.op("slice_axis", "few", DATA, axis=3, begin=0, end=5), DATA,
        mode="like", align_corners=False,
    ),
    "transposed convolution": transposed(2, num_group=2, dilate=(1, 2), stride=(2, 3), pad=(1, 0), adj=(1, 2)),
    "transposed convolution without bias": transposed(5, no_bias=True),
    "instance norm": normalized("InstanceNorm", 6, eps=1e-4),
    "layer norm": normalized("LayerNorm", 14, axis=-1, eps=1e-4),
    "local response": one("LRN", nsize=3, alpha=0.2, beta=0.6, knorm=1.5),
    "hard sigmoid": one("hard_sigmoid", alpha=1 / 6, beta=0.4),
    "enlargement": one("UpSampling", scale=2, sample_type="nearest", num_args=1),
    "batch norm by default": batch_norm_by_default,
    "max by default": one("Pooling", kernel=(3, 2)),
    "instance norm by default": normalized("InstanceNorm", 6),
    "layer norm by default": normalized("LayerNorm", 14),
    "layer norm of the last axis by its number": normalized("LayerNorm", 14, axis=3),
    "local response by default": lambda b: b.op("LRN", "one", b.op("_mul_scalar", "large", DATA, scalar=50), nsize=5),
    "hard sigmoid by default": one("hard_sigmoid"),
    "softmax at temperature 1": one("softmax", temperature=1),
    "softmax at temperature 1.0": one("softmax", temperature=1.0),
    "softmax activation of rows": lambda b: b.op("SoftmaxActivation", "one", b.op("Flatten", "rows", DATA)),
    "convolution of volumes": volumes,
    "dense layer of rows": lambda b: b.dense("one", b.op("Flatten", "rows", DATA), 756, 5),
}  # fmt: skip
