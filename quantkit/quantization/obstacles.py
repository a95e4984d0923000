"""Why the engine's INT8 kernels cannot take a convolution or a pooling as it is; None where they can."""

from __future__ import annotations

from typing import Optional

from quantkit.backends.mxnet.capabilities import has_3d_kernels, missing_kernel, quantizes_all_groups
from quantkit.backends.mxnet.instructions import INT8_KERNEL_AXES
from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.graph import Node
from quantkit.ir.operators import flag, integers
from quantkit.quantization.arithmetic import DType
from quantkit.quantization.grouped_weights import has_groups_of_channels

_LAYOUTS = ("NCHW", "NCDHW", "None")


def convolution_obstacle(layer: FusedLayer, filters: int, dtype: DType) -> Optional[str]:
    """Of a convolution with so many filters that reads integers of a type."""
    axes, layout = len(integers(layer.core, "kernel")), layer.core.attrs.get("layout", "NCHW")
    if axes not in INT8_KERNEL_AXES:
        return "the engine's INT8 convolution takes 2-D and 3-D kernels only"
    if layout not in _LAYOUTS:
        return f"the engine's INT8 convolution does not take the layout {layout}"
    if missing := missing_kernel(layer):
        return missing
    if not has_groups_of_channels(filters, layer.groups) or quantizes_all_groups():
        return None
    if dtype == "int8":
        return "the INT8 convolution of MXNet before 1.9 takes no groups of several channels of signed input"
    if _keeps_pixels(layer.core):
        return (
            "the INT8 convolution of MXNet before 1.9 is wrong for groups of several channels with 1x1 kernels, stride "
            "1 and no padding"
        )
    return None


def _keeps_pixels(convolution: Node) -> bool:
    """Whether each pixel of the result is made of the one in the same place."""
    ones = (integers(convolution, "kernel"), integers(convolution, "stride"))
    return all(extent == 1 for extents in ones for extent in extents) and not any(integers(convolution, "pad"))


def pooling_obstacle(node: Node, shape: tuple[int, ...]) -> Optional[str]:
    """Of a pooling; ``shape`` is that of its result, of a maximum its input's will do."""
    kind, layout = node.attrs.get("pool_type", "max"), node.attrs.get("layout", "None")
    if kind not in ("max", "avg"):
        return "this kind of pooling has no INT8 kernel"
    averages = kind == "avg"
    if averages and all(size == 1 for size in shape[2:]):
        return "a mean over whole feature maps falls between 8-bit levels, and costs little"
    rounds_up = node.attrs.get("pooling_convention", "valid") != "valid"
    if averages and rounds_up and flag(node, "count_include_pad", default=True):
        return "the engine's INT8 average counts elements beyond the last row and column"
    if layout not in _LAYOUTS:
        return f"the engine's INT8 pooling does not take the layout {layout}"
    axes = len(shape) - 2
    # Lowering adds the kernel that pooling of whole images does not need.
    if axes not in (2, 3) or (len(integers(node, "kernel")) != axes and (axes == 3 or "kernel" in node.attrs)):
        return "the engine's INT8 pooling needs a kernel of two or three extents"
    if axes == 3 and not has_3d_kernels():
        return "the INT8 pooling of MXNet before 1.9 takes 2-D kernels only"
    return None
