"""A layer's inputs as rows: what each of its output positions sees."""

from __future__ import annotations

import numpy as np

from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.operators import integers


def channel_sums(layer: FusedLayer, weight: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What the layer with these weights puts out for an input that has one value per channel, (channels,).

    Args:
        layer: the layer.
        weight: (channels, inputs of a group, ...).
        values: (inputs,).
    """
    groups = layer.groups
    summed = weight.reshape(groups, len(weight) // groups, weight.shape[1], -1).sum(axis=3, dtype=np.float64)
    return np.asarray(np.einsum("goi,gi->go", summed, values.reshape(groups, -1)).reshape(-1))


def layer_rows(
    layer: FusedLayer, inputs: np.ndarray, targets: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What the layer's output positions see, and what should come out there.

    Args:
        layer: the layer.
        inputs: its input, (images, channels, ...).
        targets: an array of its output's shape, (images, outputs, ...).
        chosen: which of the output positions, counted through images, rows and columns.

    Returns:
        Inputs (groups, positions, weights of a channel) and targets (groups, positions, channels of a group).
    """
    groups = layer.groups
    wanted = np.moveaxis(targets, 1, -1)[np.unravel_index(chosen, (len(targets), *targets.shape[2:]))]
    seen = _patches(layer, inputs, targets.shape[2:], chosen) if layer.is_convolution else _flat(inputs)[chosen]
    return _grouped(seen.reshape(len(chosen), -1), groups), _grouped(wanted, groups)


def _flat(inputs: np.ndarray) -> np.ndarray:
    return inputs.reshape(len(inputs), -1)


def _grouped(rows: np.ndarray, groups: int) -> np.ndarray:
    return rows.reshape(len(rows), groups, -1).swapaxes(0, 1)


def _patches(layer: FusedLayer, inputs: np.ndarray, positions: tuple[int, ...], chosen: np.ndarray) -> np.ndarray:
    image, *where = np.unravel_index(chosen, (len(inputs), *positions))
    return np.asarray(np.moveaxis(windows(layer, inputs), 1, 1 + len(where))[(image, *where)])


def windows(layer: FusedLayer, inputs: np.ndarray) -> np.ndarray:
    """What each output position of a convolution sees, as a view: (images, channels, *positions, *kernel)."""
    kernel = integers(layer.core, "kernel")
    axes = len(kernel)
    stride, pad, dilate = (
        integers(layer.core, name) or (default,) * axes for name, default in (("stride", 1), ("pad", 0), ("dilate", 1))
    )
    padded = np.pad(inputs, ((0, 0), (0, 0), *((size, size) for size in pad)))
    window = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilate))
    views = np.lib.stride_tricks.sliding_window_view(
        padded,
        window,
        tuple(range(2, 2 + axes)),  # type: ignore[call-overload]
    )
    steps = (slice(None), slice(None), *(slice(None, None, step) for step in (*stride, *dilate)))
    return np.asarray(views[steps])
