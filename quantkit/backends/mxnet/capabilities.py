"""What the kernels of the installed release of MXNet can do."""

from __future__ import annotations

from typing import Optional

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.operators import integers


def release() -> tuple[int, int, int]:
    """The version of the installed engine: major, minor, patch."""
    major, minor, patch = (int(part) for part in load_mxnet().__version__.split(".")[:3])
    return major, minor, patch


def outlives_forks() -> bool:
    """Whether a bound network still runs after the process was forked.

    MXNet stops its threads for a fork and starts new ones afterwards, also in the parent. MKL-DNN 1.0 keeps the working
    memory of a primitive with the thread that made it: in another, the process ends with a segmentation fault.
    """
    return release() >= (1, 9, 0)


def has_integer_dense() -> bool:
    """Whether the engine's INT8 dense layer can round weights and result channel by channel, as convolutions do."""
    return release() >= (1, 9, 0)


def quantizes_all_groups() -> bool:
    """Whether INT8 convolutions in groups of several channels may read signed integers, and be of one pixel.

    MXNet 1.6 ends the former with "could not create a reorder primitive descriptor". Its result is wrong on processors
    without AVX-512 where kernel, stride and padding leave each pixel in its place.
    """
    return release() >= (1, 9, 0)


def has_3d_kernels() -> bool:
    """Whether fused convolutions, FP32 and INT8, take kernels of three axes, and INT8 pooling integers with five.

    MXNet 1.6 refuses the former, and ends the process where it meets the latter.
    """
    return release() >= (1, 9, 0)


def missing_kernel(layer: FusedLayer) -> Optional[str]:
    """Why the engine's fused operator does not take a layer whose weights fusion has folded; None if it does."""
    if layer.is_convolution and len(integers(layer.core, "kernel")) > 2 and not has_3d_kernels():
        return "the fused convolution of MXNet before 1.9 takes 2-D kernels only"
    return None
