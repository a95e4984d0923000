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


def has_integer_dense() -> bool:
    """Whether the engine's INT8 dense layer can round weights and result channel by channel, as convolutions do."""
    return release() >= (1, 9, 0)


def takes_all_groups() -> bool:
    """Whether INT8 convolutions in groups of several channels may read signed integers, and have a kernel of one pixel.

    MXNet 1.6 ends the former with "could not create a reorder primitive descriptor". With a kernel, a stride and a
    padding that leave each pixel in its place, it reads other pixels for it where the processor has no AVX-512.
    """
    return release() >= (1, 9, 0)


def takes_clips() -> bool:
    """Whether fused convolutions, FP32 and INT8, take kernels of three axes, and INT8 pooling integers with five.

    MXNet 1.6 refuses the former, and ends the process where it meets the latter.
    """
    return release() >= (1, 9, 0)


def missing_kernel(layer: FusedLayer) -> Optional[str]:
    """Why the engine has no fused operator for a layer; None if it has."""
    if layer.is_convolution and len(integers(layer.core, "kernel")) > 2 and not takes_clips():
        return "the fused convolution of MXNet before 1.9 takes 2-D kernels only"
    return None
