"""Sliding windows of convolutions and poolings over the spatial axes: sizes, padding, results.

After the ONNX operator specification (Conv, ConvTranspose, MaxPool, AveragePool).
"""

from __future__ import annotations

from dataclasses import dataclass

from quantkit.formats.onnx.reading.construction import Construction, reshaped
from quantkit.formats.onnx.reading.values import Computed, OnnxNode, Refused, Shape

# Larger strides, kernels and pads would overflow the engine's integers.
_MOST = 2**20


@dataclass(frozen=True)
class Windows:
    """One extent for each spatial axis; ``begin`` and ``end`` are the padding before and behind."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    begin: Shape
    end: Shape
    result: Shape

    @property
    def symmetric(self) -> bool:
        return self.begin == self.end

    @property
    def dilated(self) -> bool:
        return any(size > 1 and gap > 1 for size, gap in zip(self.kernel, self.dilations))


def windows_of(node: OnnxNode, extents: Shape, kernel: Shape) -> Windows:
    """The windows of an operator over an image.

    Args:
        node: a convolution or pooling.
        extents: of the image's spatial axes.
        kernel: of the window.

    Raises:
        Refused: the attributes do not fit the axes or each other, or no window fits into the image.
    """
    rank = len(extents)
    strides, dilations = listed(node, "strides", rank, 1), listed(node, "dilations", rank, 1)
    if len(kernel) != rank or min(kernel + strides + dilations, default=0) < 1:
        raise Refused(f"its window {kernel}, strides {strides} and dilations {dilations} do not fit {rank} axes")
    spans = tuple((size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations))
    if max(spans) > _MOST:
        raise Refused(f"its window of {spans} is beyond all images")
    automatic = node.text("auto_pad", "NOTSET")
    pads = listed(node, "pads", 2 * rank, 0)
    ceil = bool(node.integer("ceil_mode", 0))
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        result = tuple(-(-extent // stride) for extent, stride in zip(extents, strides))
        totals = [
            max(0, (out - 1) * stride + span - extent)
            for out, stride, span, extent in zip(result, strides, spans, extents)
        ]
        small, large = tuple(each // 2 for each in totals), tuple(each - each // 2 for each in totals)
        begin, end = (small, large) if automatic == "SAME_UPPER" else (large, small)
        return Windows(kernel, strides, dilations, begin, end, result)
    if automatic == "VALID":
        pads = (0,) * 2 * rank
    elif automatic != "NOTSET":
        raise Refused(f"its auto_pad is {automatic!r}")
    begin, end = pads[:rank], pads[rank:]
    if min(pads) < 0:
        raise Refused(f"its padding {pads} is negative")
    counts = []
    for extent, before, behind, span, stride in zip(extents, begin, end, spans, strides):
        room = extent + before + behind - span
        if room < 0:
            raise Refused(f"its window of {spans} is larger than its input of {extents} with padding {pads}")
        count = (-(-room // stride) if ceil else room // stride) + 1
        # A window that begins in the padding behind does not count.
        if ceil and (count - 1) * stride >= extent + before:
            count -= 1
        counts.append(count)
    return Windows(kernel, strides, dilations, begin, end, tuple(counts))


def listed(node: OnnxNode, name: str, count: int, default: int) -> Shape:
    """A list of ``count`` integers, or ``default`` for each."""
    values = node.integers(name) or (default,) * count
    if len(values) != count:
        raise Refused(f"its attribute {name!r} has {len(values)} values where {count} are expected")
    if max(values, default=0) > _MOST:
        raise Refused(f"its attribute {name!r} is {values}, beyond all images")
    return values


def padded(state: Construction, node: OnnxNode, data: Computed, begin: Shape, end: Shape, value: float) -> Computed:
    """The image, of one to three spatial axes, with more pixels before and behind, as an intermediate step."""
    if not any(begin + end):
        return data
    if len(begin) == 1:
        # The engine pads two or three axes.
        plane = reshaped(state, node, data, (*data.shape[:2], 1, data.shape[2]), "plane")
        wide = padded(state, node, plane, (0, *begin), (0, *end), value)
        return reshaped(state, node, wide, (*data.shape[:2], wide.shape[3]), "row")
    shape = data.shape[:2] + tuple(map(sum, zip(data.shape[2:], begin, end)))
    widths = (0, 0, 0, 0, *(width for pair in zip(begin, end) for width in pair))
    return state.step(node, "pad", "Pad", [data.tensor], shape, mode="constant", pad_width=widths, constant_value=value)
