"""Operators in ONNX that move values or reduce over axes: shapes, slices, means, softmax, resizing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Optional

import numpy as np

from quantkit.formats.onnx.writing.conversion import END, FLOAT, Conversion, Converter, Operator, name_of, refused
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import DEQUANTIZE, flag, integer, integers, number

# From these opsets on, the axes of a reduction are an input instead of an attribute.
_AXES_AS_INPUT = {"ReduceMean": 18, "ReduceMax": 18, "ReduceMin": 18, "ReduceSum": 13}


def _flatten(conversion: Conversion, node: Node) -> None:
    conversion.finish(node, "Flatten", conversion.read(node.inputs[0]), axis=1)


def _reshape(conversion: Conversion, node: Node) -> None:
    """Of MXNet's shape codes only the first, for the batch, matters where that is first; the other extents are known.

    The regions of all images may be one axis (-3), which is split again (-4). In sequences the batch may be any axis.
    The codes 0 and -1 mean the same in ONNX. What does not depend on images, such as anchors, has no batch.
    """
    codes = integers(node, "shape")
    if node.name not in conversion.batched:
        whole = conversion.integers(node, "shape", conversion.shape(node.output))
        conversion.finish(node, "Reshape", conversion.read(node.inputs[0]), whole)
        return
    if _reads_sequences(conversion, node) and not flag(node, "reverse") and -1 <= min(codes, default=-2) <= 0:
        target = conversion.integers(node, "shape", codes)
        conversion.finish(node, "Reshape", _with_own_scales(conversion, node), target)
        return
    first = 0 if codes[:1] in ((0,), (-2,)) else -1
    if flag(node, "reverse") or (first and codes[:1] not in ((-1,), (-3,)) and codes[:2] != (-4, -1)):
        raise refused(node, f"shape={codes}, which does not keep the batch as its first axis")
    target = conversion.integers(node, "shape", (first, *conversion.shape(node.output)[1:]))
    conversion.finish(node, "Reshape", _with_own_scales(conversion, node), target)


def _reshape_like(conversion: Conversion, node: Node) -> None:
    if any(node.attrs.get(f"{side}_{end}", "None") != "None" for side in ("lhs", "rhs") for end in ("begin", "end")):
        if node.attrs.get("lhs_begin", "None") in ("None", "0") or _reads_sequences(conversion, node):
            raise refused(node, "the shape of some of the axes, and the batch may be among them")
        # The batch stays as it is, and all other extents are known.
        known = conversion.integers(node, "shape", (0, *conversion.shape(node.output)[1:]))
        conversion.finish(node, "Reshape", _with_own_scales(conversion, node), known)
        return
    target = conversion.step(node, "shape", "Shape", conversion.read(node.inputs[1]))
    conversion.finish(node, "Reshape", _with_own_scales(conversion, node), target)


def _with_own_scales(conversion: Conversion, node: Node) -> str:
    """What a reshape reads; after an INT8 dense layer as an operator's result of its own.

    OpenVINO would have the channels' scales behind the reshape, for another axis.
    """
    data, layer = conversion.read(node.inputs[0]), conversion.graph.producer(node.inputs[0])
    weight = conversion.graph.producer(layer.inputs[1]) if layer is not None and layer.op == "FullyConnected" else None
    if weight is None or weight.op != DEQUANTIZE:
        return data
    largest = conversion.floats(node, "largest", float(np.finfo(np.float32).max))
    return conversion.step(node, "scaled", "Min", data, largest)


def _reads_sequences(conversion: Conversion, node: Node) -> bool:
    """Whether the batch, one in all shapes, may be another axis than the first."""
    recurrent = any(each.op == "RNN" for each in conversion.graph.nodes)
    return recurrent or conversion.shape(node.inputs[0])[0] != 1


def _concat(conversion: Conversion, node: Node) -> None:
    conversion.finish(node, "Concat", *map(conversion.read, node.inputs), axis=integer(node, "dim", 1))


def _transpose(conversion: Conversion, node: Node) -> None:
    rank = len(conversion.shape(node.inputs[0]))
    axes = integers(node, "axes") or tuple(reversed(range(rank)))
    conversion.finish(node, "Transpose", conversion.read(node.inputs[0]), perm=axes)


def _swap_axes(conversion: Conversion, node: Node) -> None:
    axes = list(range(len(conversion.shape(node.inputs[0]))))
    one, other = integer(node, "dim1", 0), integer(node, "dim2", 0)
    axes[one], axes[other] = axes[other], axes[one]
    conversion.finish(node, "Transpose", conversion.read(node.inputs[0]), perm=axes)


def _expand_dims(conversion: Conversion, node: Node) -> None:
    axes = conversion.integers(node, "axes", integers(node, "axis"))
    conversion.finish(node, "Unsqueeze", conversion.read(node.inputs[0]), axes)


def _squeeze(conversion: Conversion, node: Node) -> None:
    if node.attrs.get("axis", "None") in ("None", "()"):
        raise refused(node, "it names no axis, so that a batch of one would lose its own")
    axes = conversion.integers(node, "axes", integers(node, "axis"))
    conversion.finish(node, "Squeeze", conversion.read(node.inputs[0]), axes)


def _slice_axis(conversion: Conversion, node: Node) -> None:
    end = node.attrs.get("end", "None")
    limits = {
        "starts": integer(node, "begin", 0),
        "ends": END if end == "None" else int(end),
        "axes": integer(node, "axis", 0),
    }
    arguments = [conversion.integers(node, what, (value,)) for what, value in limits.items()]
    conversion.finish(node, "Slice", conversion.read(node.inputs[0]), *arguments)


def _slice(conversion: Conversion, node: Node) -> None:
    """A limit of None is the end of the axis: the front or the back, depending on the step's sign."""
    steps = _listed(node, "step")
    cuts = []
    for axis, (begin, end) in enumerate(zip(_listed(node, "begin"), _listed(node, "end"))):
        step = (steps[axis] if axis < len(steps) else None) or 1
        if (begin, end, step) != (None, None, 1):
            first, last = (0, END) if step > 0 else (END, -END)
            cuts.append((first if begin is None else begin, last if end is None else end, axis, step))
    if not cuts:
        conversion.finish(node, "Identity", conversion.read(node.inputs[0]))
        return
    names = ("starts", "ends", "axes", "steps")
    arguments = [conversion.integers(node, what, values) for what, values in zip(names, zip(*cuts))]
    conversion.finish(node, "Slice", conversion.read(node.inputs[0]), *arguments)


def _listed(node: Node, name: str) -> tuple[Optional[int], ...]:
    """A tuple of integers and None."""
    return tuple(
        None if text.strip() == "None" else int(text)
        for text in node.attrs.get(name, "()").strip("()[]").split(",")
        if text.strip()
    )


def _take(conversion: Conversion, node: Node) -> None:
    data, indices = node.inputs
    if indices.node not in conversion.graph.params or node.attrs.get("mode", "clip") != "clip":
        raise refused(node, "a choice that is computed, or that wraps around")
    axis = integer(node, "axis", 0)
    last = conversion.shape(data)[axis] - 1
    places = np.clip(conversion.graph.params[indices.node], 0, last).astype(np.int64)
    conversion.finish(node, "Gather", conversion.read(data), conversion.constant(node, "indices", places), axis=axis)


def _broadcast_axis(conversion: Conversion, node: Node) -> None:
    target = [1] * len(conversion.shape(node.inputs[0]))
    for axis, size in zip(integers(node, "axis"), integers(node, "size")):
        target[axis] = size
    conversion.finish(node, "Expand", conversion.read(node.inputs[0]), conversion.integers(node, "shape", target))


def _broadcast_like(conversion: Conversion, node: Node) -> None:
    if any(node.attrs.get(axes, "None") not in ("None", "()") for axes in ("lhs_axes", "rhs_axes")):
        raise refused(node, "it takes single axes from the other tensor")
    data, other = map(conversion.read, node.inputs)
    conversion.finish(node, "Expand", data, conversion.step(node, "shape", "Shape", other))


def _filled_like(value: float, conversion: Conversion, node: Node) -> None:
    shape = conversion.step(node, "shape", "Shape", conversion.read(node.inputs[0]))
    conversion.finish(node, "Expand", conversion.floats(node, "value", value), shape)


def _arg_max(conversion: Conversion, node: Node) -> None:
    """MXNet returns indices as float32."""
    if node.attrs.get("axis", "None") == "None":
        raise refused(node, "it names no axis, so that it would search all images of a batch")
    keepdims = int(flag(node, "keepdims"))
    data = conversion.read(node.inputs[0])
    index = conversion.step(node, "index", "ArgMax", data, axis=integer(node, "axis", 0), keepdims=keepdims)
    conversion.finish(node, "Cast", index, to=FLOAT)


def _blocks(op: str, conversion: Conversion, node: Node) -> None:
    conversion.finish(node, op, conversion.read(node.inputs[0]), blocksize=integer(node, "block_size", 1))


def _split(conversion: Conversion, node: Node) -> None:
    count, axis = integer(node, "num_outputs", 1), integer(node, "axis", 1)
    squeezed = flag(node, "squeeze_axis")
    outputs = [name_of(Tensor(node.name, index)) for index in range(count)]
    parts = [conversion.names.take(f"{name}_part") for name in outputs] if squeezed else outputs
    extent = conversion.shape(node.inputs[0])[axis] // count
    sizes = conversion.integers(node, "sizes", (extent,) * count)
    data = conversion.read(node.inputs[0])
    conversion.add(Operator("Split", parts[0], (data, sizes), tuple(parts), {"axis": axis}))
    if squeezed:
        axes = conversion.integers(node, "axes", (axis,))
        for part, name in zip(parts, outputs):
            conversion.add(Operator("Squeeze", name, (part, axes), (name,), {}))


def _reduce(op: str, conversion: Conversion, node: Node) -> None:
    rank = len(conversion.shape(node.inputs[0]))
    axes = () if node.attrs.get("axis", "None") == "None" else integers(node, "axis")
    chosen = {axis % rank for axis in axes} or set(range(rank))
    if flag(node, "exclude"):
        chosen = set(range(rank)) - chosen
    data, keepdims = conversion.read(node.inputs[0]), int(flag(node, "keepdims"))
    if conversion.opset >= _AXES_AS_INPUT[op]:
        conversion.finish(node, op, data, conversion.integers(node, "axes", sorted(chosen)), keepdims=keepdims)
    else:
        conversion.finish(node, op, data, axes=sorted(chosen), keepdims=keepdims)


def _softmax(op: str, conversion: Conversion, node: Node) -> None:
    if flag(node, "use_length") or node.attrs.get("temperature", "None") not in ("None", "1", "1.0"):
        raise refused(node, "a softmax with lengths or a temperature")
    conversion.finish(node, op, conversion.read(node.inputs[0]), axis=integer(node, "axis", -1))


def _softmax_activation(conversion: Conversion, node: Node) -> None:
    if node.attrs.get("mode", "instance") != "channel" and len(conversion.shape(node.inputs[0])) != 2:
        raise refused(node, "a softmax over several axes")
    conversion.finish(node, "Softmax", conversion.read(node.inputs[0]), axis=1)


def _pad(conversion: Conversion, node: Node) -> None:
    widths = integers(node, "pad_width")
    pads = conversion.integers(node, "pads", (*widths[::2], *widths[1::2]))
    value = conversion.floats(node, "value", number(node, "constant_value", 0.0))
    mode = node.attrs.get("mode", "constant")
    conversion.finish(node, "Pad", conversion.read(node.inputs[0]), pads, value, mode=mode)


def _up_sampling(conversion: Conversion, node: Node) -> None:
    if node.attrs.get("sample_type") != "nearest" or len(node.inputs) != 1:
        raise refused(node, "an enlargement other than of one tensor by repeating its values")
    scale = integer(node, "scale", 1)
    shape = conversion.shape(node.inputs[0])
    sizes = (1, 1, *(float(scale) for _ in shape[2:]))
    scales = conversion.constant(node, "scales", np.array(sizes, np.float32))
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    conversion.finish(node, "Resize", conversion.read(node.inputs[0]), "", scales, **modes)


def _bilinear(conversion: Conversion, node: Node) -> None:
    # In the form `like` a second input has the wanted size, which is known here.
    if (node.attrs.get("mode", "size"), len(node.inputs)) not in (("size", 1), ("like", 2)):
        raise refused(node, "a size that follows from another tensor, or a scale")
    extents, wanted = (conversion.shape(tensor)[2:] for tensor in (node.inputs[0], node.output))
    scales = conversion.constant(node, "scales", np.array([1, 1, *map(_scale, extents, wanted)], np.float32))
    coordinates = "align_corners" if flag(node, "align_corners", True) else "half_pixel"
    modes = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    conversion.finish(node, "Resize", conversion.read(node.inputs[0]), "", scales, **modes)


def _scale(extent: int, wanted: int) -> np.float32:
    """The smallest float32 scale whose product, which ONNX rounds down, reaches the new extent."""
    scale = np.float32(wanted / extent)
    return scale if np.floor(np.float32(extent) * scale) >= wanted else np.nextafter(scale, np.float32(np.inf))


LAYOUT: Mapping[str, Converter] = {
    "Flatten": _flatten,
    "Reshape": _reshape,
    "reshape_like": _reshape_like,
    "Concat": _concat,
    "SwapAxis": _swap_axes,
    "SliceChannel": _split,
    "Pad": _pad,
    "sum": partial(_reduce, "ReduceSum"),
    "max": partial(_reduce, "ReduceMax"),
    "min": partial(_reduce, "ReduceMin"),
    "mean": partial(_reduce, "ReduceMean"),
    "transpose": _transpose,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "slice_axis": _slice_axis,
    "slice": _slice,
    "take": _take,
    "broadcast_axis": _broadcast_axis,
    "broadcast_like": _broadcast_like,
    "ones_like": partial(_filled_like, 1.0),
    "zeros_like": partial(_filled_like, 0.0),
    "argmax": _arg_max,
    "depth_to_space": partial(_blocks, "DepthToSpace"),
    "space_to_depth": partial(_blocks, "SpaceToDepth"),
    "_contrib_BilinearResize2D": _bilinear,
    "softmax": partial(_softmax, "Softmax"),
    "log_softmax": partial(_softmax, "LogSoftmax"),
    "SoftmaxActivation": _softmax_activation,
    "UpSampling": _up_sampling,
}
