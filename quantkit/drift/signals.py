"""Signals: a few numbers for each sample, by which inputs and outputs of two times can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Literal, Optional

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.data.preparation import Preparation, reads_tokens

Signals = Mapping[str, np.ndarray]
"""The values of each signal, float64 of shape (samples,), by its name."""

AGREEMENT = "output.agreement"
"""The signal of samples that FP32 has answered, too: 1 where the best class is the same, else 0."""

# Channels of colours, and features that each have a meaning of their own.
_MOST_CHANNELS = 4
_MOST_FEATURES = 64

# Along each axis of an image, and of anything else but class scores: as many tell mean and spread well enough.
_GRID = 32
_VALUES = 4096

# Of further outputs.
_MOST_OUTPUTS = 4


@dataclass(frozen=True)
class SignalMaker:
    """Computes the signals of samples.

    The input of an image has a mean and a spread (standard deviation) over all channels, and of each channel how far
    its own are from these: a wrong order of channels hardly changes anything else. Features of a vector are signals
    themselves if they are few. A row of class scores has the largest score, the margin between the logarithms of the
    two largest probabilities and the entropy of the classes, as any output has its mean and spread.

    Attributes:
        bounds: the calibrated range of the input; the share of values beyond it is a signal. None: it is not known.
            Pixels that become integers at once have no such signal: preprocessing leaves none of them beyond it.
        reads_tokens: whether the input is token ids, which have no signals.
        class_scores: whether the first output is a row of class scores.
        final: the operator that has made scores of them, softmax or sigmoid; None: they are logits.
    """

    bounds: Optional[Range] = None
    reads_tokens: bool = False
    class_scores: bool = False
    final: Optional[Literal["softmax", "sigmoid"]] = None

    def of_input(self, batch: np.ndarray, scale: Optional[float] = None) -> dict[str, np.ndarray]:
        """The signals of a batch of the network's input.

        Args:
            batch: (samples, ...), float32, or integers where ``scale`` is given.
            scale: what one step of the integers is worth; they are within the calibrated range, so none is beyond it.
        """
        if self.reads_tokens:
            return {}
        values = _thinned(batch).astype(np.float64)
        if scale is not None:
            values *= scale
        if batch.ndim == 2 and values.shape[1] <= _MOST_FEATURES:
            found = {f"input.feature{place}": values[:, place] for place in range(values.shape[1])}
        elif values.ndim == 3:
            means, spreads = values.mean(axis=2), values.std(axis=2)
            found = {"input.mean": means.mean(axis=1), "input.spread": spreads.mean(axis=1)}
            for place in range(values.shape[1] if values.shape[1] > 1 else 0):
                found[f"input.channel{place}.mean"] = means[:, place] - found["input.mean"]
                found[f"input.channel{place}.spread"] = spreads[:, place] - found["input.spread"]
        else:
            found = {"input.mean": values.mean(axis=1), "input.spread": values.std(axis=1)}
        if self.bounds is not None and scale is None:
            rows = values.reshape(len(values), -1)
            found["input.beyond"] = ((rows < self.bounds.low) | (rows > self.bounds.high)).mean(axis=1)
        return found

    def of_outputs(self, outputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The signals of the network's outputs for a batch, each (samples, ...)."""
        found: dict[str, np.ndarray] = {}
        for place, output in enumerate(outputs[:_MOST_OUTPUTS]):
            is_scores = place == 0 and self.class_scores
            values = (_flat(output) if is_scores else _thinned_flat(output)).astype(np.float64)
            prefix = "output" if place == 0 else f"output{place}"
            if is_scores:
                found["output.largest"] = values.max(axis=1)
                if values.shape[1] > 1 and self.final != "sigmoid":
                    logarithms = log_probabilities(values, self.final == "softmax")
                    found["output.margin"] = margins(logarithms)
                    found["output.entropy"] = -(np.exp(logarithms) * logarithms).sum(axis=1)
            found[f"{prefix}.mean"], found[f"{prefix}.spread"] = values.mean(axis=1), values.std(axis=1)
        return found


def signal_maker(
    table: Optional[CalibrationTable],
    input_name: str,
    preparation: Preparation,
    class_scores: bool,
    final: Optional[Literal["softmax", "sigmoid"]],
) -> SignalMaker:
    """What computes the signals of a network, when it is quantized and when it is deployed.

    Args:
        table: its calibration; None: it has none.
        input_name: the name of its input.
        preparation: how samples become that.
        class_scores: see ``SignalMaker``.
        final: see ``SignalMaker``.
    """
    bounds = None if table is None else table.ranges.get(input_name)
    return SignalMaker(bounds, reads_tokens(preparation), class_scores, final)


def log_probabilities(rows: np.ndarray, are_probabilities: bool) -> np.ndarray:
    """The logarithms of the classes' probabilities, from logits or from probabilities; (samples, classes)."""
    if are_probabilities:
        logarithms: np.ndarray = np.log(np.maximum(rows, np.finfo(np.float32).tiny))
        return logarithms
    shifted = rows - rows.max(axis=1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logarithms


def margins(rows: np.ndarray) -> np.ndarray:
    """What the largest value of each row has over the second largest; (samples,) of (samples, at least 2 values)."""
    two = np.partition(rows, -2, axis=1)[:, -2:]
    margin: np.ndarray = two[:, 1] - two[:, 0]
    return margin


def _thinned(batch: np.ndarray) -> np.ndarray:
    """Some values of each sample: (samples, channels, values) of images of a few channels, else (samples, values)."""
    if batch.ndim == 4 and batch.shape[1] <= _MOST_CHANNELS:
        rows, columns = (ceil(size / _GRID) for size in batch.shape[2:])
        return batch[:, :, ::rows, ::columns].reshape(len(batch), batch.shape[1], -1)
    return _thinned_flat(batch)


def _thinned_flat(array: np.ndarray) -> np.ndarray:
    flat = _flat(array)
    return flat[:, :: ceil(flat.shape[1] / _VALUES)]


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(len(array), max(1, prod(array.shape[1:])))
