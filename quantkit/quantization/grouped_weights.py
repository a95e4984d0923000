"""Float weights of which the engine makes the right integers although it takes the wrong scales.

The engine rounds a convolution's weights itself, with a factor for each output channel that follows from the channel's
peak, its largest magnitude: 127.5 / peak. Of a grouped convolution its kernel takes the first factors only, one for
each group: the weights of group g are rounded with the factor of channel g, the channel's reference here, and saturate,
while each channel's sums are scaled with the step of its own, peak / 127.5.

So a channel's peak sets its step, and its other weights are scaled by the peak of the reference over its own:

- Where the reference has no larger peak, nothing is lost. The largest weight stays as it is, and saturates at 127; the
  others come out in the channel's own step.
- Where the reference has a larger peak, no weight saturates, and the largest, rounded with the reference's factor, must
  stand for itself in the channel's own step. So it is raised to the geometric mean of itself and the reference's peak.
  The channel's largest integer is 127.5 times the root of the ratio between the two.
"""

from __future__ import annotations

import numpy as np

_LEVELS = np.float32(127.5)

# The peak of a channel of zeros, above what counts as 0, so that other channels can refer to it.
_LEAST_PEAK = np.float32(2.0**-99)


def has_groups_of_channels(channels: int, groups: int) -> bool:
    """Whether a convolution with so many output channels has several groups of several channels."""
    return 1 < groups < channels


def references(channels: int, groups: int) -> np.ndarray:
    """For each output channel the channel whose factor the engine rounds its weights with, (channels,)."""
    own = np.arange(channels)
    return own // (channels // groups) if has_groups_of_channels(channels, groups) else own


def engine_peaks(weight: np.ndarray, groups: int) -> np.ndarray:
    """The largest magnitude of each channel's weights in the engine, which stands for 127.5 steps of that channel.

    Args:
        weight: the weights that the engine should compute with, (channels, ...).
        groups: the number of groups of the convolution.

    Returns:
        float32, (channels,).
    """
    peaks: np.ndarray = np.abs(weight.reshape(len(weight), -1)).max(axis=1).astype(np.float32)
    np.maximum(peaks, _LEAST_PEAK, out=peaks)
    # A channel comes after its reference.
    for channel, reference in enumerate(references(len(weight), groups)):
        own, other = peaks[channel], peaks[reference]
        raised = np.sqrt(own) * np.sqrt(other)
        # Weights that become 0 all the same stay small: other channels may refer to this one.
        if other > own and raised * _LEVELS > np.float32(0.5) * other:
            peaks[channel] = raised
    return peaks


def grouped_scale(weight: np.ndarray, groups: int) -> np.ndarray:
    """The scale of each channel's integers, float32, (channels,); 1 where all weights are 0."""
    peaks = engine_peaks(weight, groups)
    return np.asarray(np.where(peaks > _LEAST_PEAK, peaks / _LEVELS, 1), np.float32)


def engine_form(weight: np.ndarray, groups: int) -> np.ndarray:
    """The weights to give the engine, for it to compute with ``weight`` rounded to integers.

    Args:
        weight: float32, (channels, ...).
        groups: the number of groups of the convolution; 1, or one for each channel, needs no other form.
    """
    if not has_groups_of_channels(len(weight), groups):
        return weight
    flat = weight.reshape(len(weight), -1).astype(np.float32)
    peaks = engine_peaks(flat, groups)
    with np.errstate(over="ignore"):
        ratio = peaks[references(len(flat), groups)] / peaks
    # Weights that become 0 stay as they are.
    ratio[(ratio > 1) & (peaks <= np.abs(flat).max(axis=1, initial=_LEAST_PEAK))] = 1
    form: np.ndarray = flat * ratio[:, None]
    largest = np.abs(flat).argmax(axis=1)[:, None]
    np.put_along_axis(form, largest, np.copysign(peaks[:, None], np.take_along_axis(flat, largest, axis=1)), axis=1)
    return form.reshape(weight.shape)


def rounding_limits(weight: np.ndarray, groups: int) -> np.ndarray:
    """For each channel the largest integer that its weights can become, float32, (channels,)."""
    peaks = engine_peaks(weight, groups)
    return np.asarray(np.floor(_LEVELS * np.minimum(1, peaks / peaks[references(len(weight), groups)])), np.float32)


def float_weights(integers: np.ndarray, scale: np.ndarray, weight: np.ndarray, groups: int) -> np.ndarray:
    """Weights of which the engine makes other integers than the nearest.

    A channel's largest weight sets its scale, so that one stays, and no other becomes larger.

    Args:
        integers: as wanted, (channels, weights).
        scale: float32, (channels,), that of ``weight``.
        weight: what they are rounded from, float32, (channels, weights).
        groups: the number of groups of the convolution.
    """
    limits = rounding_limits(weight, groups)[:, None]
    found: np.ndarray = (np.clip(integers, -limits, limits) * scale[:, None]).astype(np.float32)
    largest = np.abs(weight).argmax(axis=1)[:, None]
    np.put_along_axis(found, largest, np.take_along_axis(weight, largest, axis=1), axis=1)
    return found
