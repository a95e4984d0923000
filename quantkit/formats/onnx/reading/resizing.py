"""Enlarging and shrinking images. After the ONNX operator specification (Resize, Upsample)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Optional

import numpy as np

from quantkit.formats.onnx.reading.construction import Attr, Construction, Converter
from quantkit.formats.onnx.reading.interpolation import Interpolation, interpolated, length_of
from quantkit.formats.onnx.reading.values import Computed, Constant, OnnxNode, Refused, Shape, axes_of, in_batch, shown
from quantkit.ir.attribute_bounds import MOST_RESIZED

# The coordinates that the engine's operator knows, and whether they align the corners.
_ENGINES = {"align_corners": True, "half_pixel": False, "pytorch_half_pixel": False}


def _resize(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    if node.op == "Upsample" or state.opset < 11:
        scales, sizes = _scales(state, node), None
        coordinates, rounding = "asymmetric", "floor"
    else:
        scales, sizes = state.constant(node, 2), state.constant(node, 3)
        coordinates = node.text("coordinate_transformation_mode", "half_pixel")
        rounding = node.text("nearest_mode", "round_prefer_floor")
    ratios, shape = _target(node, data, scales, sizes)
    if shape[:2] != data.shape[:2] or len(shape) not in (3, 4, 5):
        raise Refused(f"it makes {shown(shape)} of {shown(data.shape)}; only spatial axes can be changed")
    state.check(shape)
    mode = node.text("mode", "nearest")
    if shape == data.shape and all(ratio == 1 for ratio in ratios):
        state.alias(node, data)
    elif mode == "nearest" and not node.integer("antialias", 0):
        _nearest(state, node, data, shape, ratios[2:], coordinates, rounding)
    elif mode in ("linear", "bilinear", "cubic"):
        _between(state, node, data, shape, ratios[2:], coordinates)
    else:
        raise Refused(f"it resizes by {mode!r}; nearest, linear and cubic are known")


def _scales(state: Construction, node: OnnxNode) -> Optional[Constant]:
    """The scales of an enlargement: an attribute in opsets 7 and 8, an input since."""
    listed = node.numbers("scales")
    return state.constant(node, 1) if listed is None else Constant(node.name, np.array(listed, np.float32))


def _target(
    node: OnnxNode, data: Computed, scales: Optional[Constant], sizes: Optional[Constant]
) -> tuple[list[float], Shape]:
    """The ratio of each axis, and the shape of the result."""
    rank = len(data.shape)
    given = sizes if sizes is not None and sizes.array.size else scales
    if given is None or given.array.ndim != 1:
        raise Refused("it names neither scales nor sizes")
    axes = axes_of(node.integers("axes") or range(rank), rank)
    if len(axes) != given.array.size:
        raise Refused(f"it names {given.array.size} scales or sizes for {len(axes)} axes")
    ratios, shape = [1.0] * rank, list(data.shape)
    values = dict(zip(axes, given.array.tolist()))
    common = _common_ratio(node, data, values) if given is sizes else None
    for axis, value in values.items():
        extent = data.shape[axis]
        if in_batch(extent):
            # A file for one batch size names that size.
            if given is scales and value != 1:
                raise Refused("it makes another number of images")
            continue
        if common is not None:
            shape[axis], ratios[axis] = int(extent * common + 0.5), common
        elif given is sizes:
            shape[axis], ratios[axis] = int(value), value / extent
        else:
            if not 0 < value < 2**20:
                raise Refused(f"it scales by {value}")
            # In float32, where 10 times 0.7 is 7.
            shape[axis], ratios[axis] = int(np.floor(np.float32(extent) * np.float32(value))), value
    return ratios, tuple(shape)


def _common_ratio(node: OnnxNode, data: Computed, sizes: Mapping[int, float]) -> Optional[float]:
    """The ratio of all axes where proportions are kept; None if they are not."""
    ratios = [1.0 if in_batch(data.shape[axis]) else size / data.shape[axis] for axis, size in sizes.items()]
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return None
    if policy not in _POLICIES:
        raise Refused(f"it keeps proportions by {policy!r}")
    return _POLICIES[policy](ratios)


_POLICIES: Mapping[str, Callable[[list[float]], float]] = {"not_larger": min, "not_smaller": max}


def _nearest(
    state: Construction, node: OnnxNode, data: Computed, shape: Shape, ratios: list[float], coordinates: str,
    rounding: str
) -> None:  # fmt: skip
    """Repeat values if the result is exactly that, else pick them by index."""
    state.budget.take(16 * sum(shape[2:]))
    places = [
        _places(extent, count, ratio, coordinates, rounding)
        for extent, count, ratio in zip(data.shape[2:], shape[2:], ratios)
    ]
    times = shape[2] // data.shape[2]
    if len(shape) == 4 and all(
        count == times * extent and (place == np.arange(count) // times).all()
        for extent, count, place in zip(data.shape[2:], shape[2:], places)
    ):
        attrs: dict[str, Attr] = {"scale": times, "sample_type": "nearest", "num_args": 1}
        state.finish(node, "UpSampling", [data.tensor], shape, **attrs)
        return
    for axis, chosen in enumerate(places[:-1], 2):
        indices = state.parameter(f"{node.name}_indices{axis}", chosen)
        size = (*shape[: axis + 1], *data.shape[axis + 1 :])
        data = state.step(node, f"axis{axis}", "take", [data.tensor, indices], size, axis=axis, mode="clip")
    last = state.parameter(f"{node.name}_indices", places[-1])
    state.finish(node, "take", [data.tensor, last], shape, axis=len(shape) - 1, mode="clip")


def _places(extent: int, count: int, ratio: float, coordinates: str, rounding: str) -> np.ndarray:
    """The index in the axis of each value of the resized axis; in float32, to round ties as ONNX Runtime does."""
    target, scale = np.arange(count, dtype=np.float32), np.float32(ratio)
    if coordinates == "half_pixel" or (coordinates == "pytorch_half_pixel" and count > 1):
        origin = (target + np.float32(0.5)) / scale - np.float32(0.5)
    elif coordinates == "pytorch_half_pixel":
        origin = target * 0
    elif coordinates == "asymmetric":
        origin = target / scale
    elif coordinates == "tf_half_pixel_for_nn":
        origin = (target + np.float32(0.5)) / scale
    elif coordinates == "align_corners":
        origin = target * np.float32(extent - 1) / np.float32(count - 1) if count > 1 else target * 0
    else:
        raise Refused(f"its coordinates are {coordinates!r}")
    rounders: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
        "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    }  # fmt: skip
    if rounding not in rounders:
        raise Refused(f"its nearest_mode is {rounding!r}")
    chosen: np.ndarray = np.clip(rounders[rounding](origin), 0, extent - 1)
    return chosen


def _between(
    state: Construction, node: OnnxNode, data: Computed, shape: Shape, ratios: list[float], coordinates: str
) -> None:
    """Interpolate by the engine's operator if it has what is wanted, else by matrices."""
    mode = node.text("mode", "nearest")
    cubic = node.number("cubic_coeff_a", -0.75) if mode == "cubic" else None
    smooth, outside = bool(node.integer("antialias", 0)), not node.integer("exclude_outside", 0)
    aligned = _ENGINES.get(coordinates)
    exact = all(
        length_of(extent, count, ratio) == count for extent, count, ratio in zip(data.shape[2:], shape[2:], ratios)
    )
    # Of one value the engine makes the first, with any coordinates.
    known = exact and aligned is not None and (aligned or 1 not in shape[2:])
    if cubic is not None or smooth or not known or len(shape) != 4:
        interpolated(state, node, data, shape, ratios, Interpolation(coordinates, cubic, outside, smooth))
        return
    if max(shape[2:]) > MOST_RESIZED:
        raise Refused(f"it makes {shown(shape)}, and MXNet interpolates to sides of {MOST_RESIZED} at most")
    # Before MXNet 1.7 corners were always aligned, and the parameter did not exist.
    attrs: dict[str, Attr] = {} if aligned else {"align_corners": "False"}
    inputs = [data.tensor]
    state.finish(node, "_contrib_BilinearResize2D", inputs, shape, height=shape[2], width=shape[3], **attrs)


RESIZING: Mapping[str, Converter] = dict.fromkeys(("Resize", "Upsample"), _resize)
