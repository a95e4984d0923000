"""Inception with batch normalization, which GluonCV lacks.

Ioffe & Szegedy 2015, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift"
(arXiv 1502.03167), figure 5, row by row. The first convolution is an ordinary one, not a separable one.
"""

from __future__ import annotations

from typing import Any

from quantkit.backends.mxnet.compat import load_mxnet

# 1x1; 3x3 reduce, 3x3; double 3x3 reduce, double 3x3; pooling and its projection. A module without 1x1 (0) has
# stride 2, and its pooling has no projection.
_MODULES = (
    ("3a", 64, (64, 64), (64, 96), ("avg", 32)),
    ("3b", 64, (64, 96), (64, 96), ("avg", 64)),
    ("3c", 0, (128, 160), (64, 96), ("max", 0)),
    ("4a", 224, (64, 96), (96, 128), ("avg", 128)),
    ("4b", 192, (96, 128), (96, 128), ("avg", 128)),
    ("4c", 160, (128, 160), (128, 160), ("avg", 96)),
    ("4d", 96, (128, 192), (160, 192), ("avg", 96)),
    ("4e", 0, (128, 192), (192, 256), ("max", 0)),
    ("5a", 352, (192, 320), (160, 224), ("avg", 128)),
    ("5b", 352, (192, 320), (192, 224), ("max", 128)),
)


def inception_bn(classes: int = 1000) -> Any:
    """The network as a gluon ``HybridSequential`` without weights; it reads (batch, 3, 224, 224)."""
    nn = load_mxnet().gluon.nn
    network = nn.HybridSequential(prefix="inceptionbn_")
    with network.name_scope():
        network.add(_convolution(64, 7, 2, "conv1_"), nn.MaxPool2D(3, 2, 1))
        network.add(_convolution(64, 1, 1, "conv2_reduce_"), _convolution(192, 3, 1, "conv2_"), nn.MaxPool2D(3, 2, 1))
        for name, single, triple, double, pooled in _MODULES:
            network.add(_module(f"inception{name}_", single, triple, double, pooled))
        network.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(classes))
    return network


def _module(prefix: str, single: int, triple: tuple[int, int], double: tuple[int, int], pooled: tuple[str, int]) -> Any:
    mxnet = load_mxnet()
    nn = mxnet.gluon.nn
    stride = 1 if single else 2
    kind, projection = pooled
    module = mxnet.gluon.contrib.nn.HybridConcurrent(axis=1, prefix=prefix)
    with module.name_scope():
        if single:
            module.add(_convolution(single, 1, 1, "1x1_"))
        module.add(_chain(_convolution(triple[0], 1, 1, "3x3_reduce_"), _convolution(triple[1], 3, stride, "3x3_")))
        module.add(
            _chain(
                _convolution(double[0], 1, 1, "double_reduce_"),
                _convolution(double[1], 3, 1, "double1_"),
                _convolution(double[1], 3, stride, "double2_"),
            )
        )
        pooling = (nn.AvgPool2D if kind == "avg" else nn.MaxPool2D)(3, stride, 1)
        module.add(_chain(pooling, _convolution(projection, 1, 1, "projection_")) if projection else pooling)
    return module


def _convolution(filters: int, size: int, stride: int, prefix: str) -> Any:
    nn = load_mxnet().gluon.nn
    layer = nn.HybridSequential(prefix=prefix)
    with layer.name_scope():
        layer.add(nn.Conv2D(filters, size, stride, size // 2, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    return layer


def _chain(*layers: Any) -> Any:
    chain = load_mxnet().gluon.nn.HybridSequential(prefix="")
    chain.add(*layers)
    return chain
