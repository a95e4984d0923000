"""The figures of an analysis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

import numpy as np

from quantkit.diagnosis.layers.analysis import Analysis, LayerError
from quantkit.diagnosis.layers.tensor import TensorUse
from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style, set_log
from quantkit.report.study.words import shortened
from quantkit.units import decibels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 7.0
_ROWS = 12
_HISTOGRAMS = 6
# The start of the logarithmic axis of counts, below a single value.
_LEAST = 0.5
_NAME = 34

_ACCUMULATED, _OWN = Style("series1"), Style("series2", line="--")
_WEIGHTS, _ACTIVATIONS = Style("series3"), Style("series4", hatch="////")
_VALUES, _THRESHOLD = Style("series1"), Style("series2", line="--")


def along(analysis: Analysis) -> Figure:
    """The signal-to-noise ratio of each layer, accumulated and own, in the order of the network."""
    layers = analysis.layers
    last, worst = layers[-1], analysis.worst[0]
    text = (
        f"Signal-to-quantization-noise ratio of {len(layers)} layers in the order of the network: accumulated "
        f"{decibels(layers[0].accumulated.sqnr)} in the first, {decibels(last.accumulated.sqnr)} in the last; of a "
        f"layer alone at least {decibels(worst.own.sqnr)}, in {worst.name}."
    )
    return Figure(
        "along",
        "Error along the network",
        "Higher is better; 6 dB are one bit. Accumulated: in the INT8 network, with the errors of all layers before. "
        "Own: the layer alone, with FP32's inputs. The numbers are those of the table of layers.",
        (Entry("accumulated", _ACCUMULATED, "line"), Entry("own", _OWN, "line")),
        (Panel("", text, partial(_draw_along, layers=layers), _WIDE, 2.7),),
    )


def _draw_along(axes: Axes, layers: Sequence[LayerError]) -> None:
    numbers = range(1, len(layers) + 1)
    for style, values in (
        (_ACCUMULATED, [layer.accumulated.sqnr for layer in layers]),
        (_OWN, [layer.own.sqnr for layer in layers]),
    ):
        shown = [value if math.isfinite(value) else math.nan for value in values]
        axes.plot(numbers, shown, style.line, color=style.value, marker="o", markersize=2.6, linewidth=1.3)
    axes.set_xlim(0.5, len(layers) + 0.5)
    axes.set_xlabel("layer")
    axes.set_ylabel("SQNR, dB")


def shares(analysis: Analysis) -> Optional[Figure]:
    """The errors of weights and of tensors in the worst layers; None if no layer has weights."""
    layers = [layer for layer in analysis.worst if layer.weights is not None][:_ROWS]
    if not layers:
        return None
    text = "; ".join(
        f"{layer.name}: weights {decibels(layer.weights.sqnr)}, tensors {decibels(layer.tensors.sqnr)}"
        for layer in layers
        if layer.weights is not None
    )
    return Figure(
        "shares",
        "Weights or tensors: the layers that add most error",
        "Each layer alone, with FP32's inputs. The shorter bar is what limits the layer. Weights: only weights and "
        "biases are those of INT8. Tensors: only what the layer reads and writes is rounded to 8 bits.",
        (Entry("weights only", _WEIGHTS, "bar"), Entry("tensors only", _ACTIVATIONS, "bar")),
        (Panel("", f"SQNR by layer: {text}.", partial(_draw_shares, layers=layers), _WIDE, 0.8 + 0.33 * len(layers)),),
    )


def _draw_shares(axes: Axes, layers: Sequence[LayerError]) -> None:
    rows = np.arange(len(layers))
    weights = [layer.weights.sqnr if layer.weights is not None else math.nan for layer in layers]
    for offset, style, values in (
        (-0.2, _WEIGHTS, weights),
        (0.2, _ACTIVATIONS, [layer.tensors.sqnr for layer in layers]),
    ):
        widths = [value if math.isfinite(value) else 0.0 for value in values]
        axes.barh(rows + offset, widths, 0.38, color=style.value, hatch=style.hatch)
    _names(axes, [layer.name for layer in layers])
    axes.set_xlabel("SQNR, dB")


def histograms(analysis: Analysis) -> Optional[Figure]:
    """Histograms of the outputs of the worst layers, with their thresholds; None if no layer has integer output."""
    uses = [layer.output for layer in analysis.worst if layer.output is not None][:_HISTOGRAMS]
    if not uses:
        return None
    panels = [
        Panel(
            ending(use.name, _NAME),
            f"Histogram of {use.name}: from {use.minimum:.3g} to {use.maximum:.3g}, half of the values up to "
            f"{use.percentiles[50.0]:.3g}, threshold {use.threshold:.3g} ({use.dtype}).",
            partial(_draw_histogram, use=use),
            3.3,
            2.1,
        )
        for use in uses
    ]
    return Figure(
        "histograms",
        "Values of FP32 and their thresholds: outputs of the layers that add most error",
        "How many values there are of each size; the number is logarithmic. What lies beyond a dashed line is cut off.",
        (Entry("values", _VALUES, "bar"), Entry("threshold", _THRESHOLD, "line")),
        tuple(panels),
    )


def _draw_histogram(axes: Axes, use: TensorUse) -> None:
    counts = np.array(use.bins.counts)
    starts = use.bins.start + use.bins.width * np.arange(counts.size)
    axes.bar(starts, np.maximum(counts - _LEAST, 0), use.bins.width, align="edge", color=_VALUES.value, bottom=_LEAST)
    set_log(axes, "y", _LEAST, 2.0 * int(counts.max()))
    axes.axvline(use.threshold, color=_THRESHOLD.value, linestyle=_THRESHOLD.line, linewidth=1.3)
    if use.dtype == "int8":
        axes.axvline(-use.threshold, color=_THRESHOLD.value, linestyle=_THRESHOLD.line, linewidth=1.3)
    axes.set_ylabel("values")


def saturation(analysis: Analysis) -> Optional[Figure]:
    """The tensors with the largest share of values cut off; None if nothing is cut off."""
    tensors = sorted(analysis.tensors, key=lambda tensor: -tensor.saturated)
    cut = [tensor for tensor in tensors if tensor.saturated > 0][:_ROWS]
    if not cut:
        return None
    text = "; ".join(f"{tensor.name} {100 * tensor.saturated:.3g} %" for tensor in cut)
    return Figure(
        "saturation",
        "Saturation: the tensors of which most is cut off",
        "The share of FP32's values that lie beyond the threshold by more than half a step.",
        (Entry("cut off", _THRESHOLD, "bar"),),
        (Panel("", f"Values cut off: {text}.", partial(_draw_saturation, tensors=cut), _WIDE, 0.8 + 0.24 * len(cut)),),
    )


def _draw_saturation(axes: Axes, tensors: Sequence[TensorUse]) -> None:
    axes.barh(np.arange(len(tensors)), [100 * tensor.saturated for tensor in tensors], 0.6, color=LIGHT["series2"])
    _names(axes, [tensor.name for tensor in tensors])
    axes.set_xlabel("% of the values")


def _names(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(np.arange(len(names)), [ending(name, _NAME) for name in names])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


def ending(name: str, length: int) -> str:
    """The last characters of a long name: layers differ there."""
    return name if len(name) <= length else "…" + shortened(name[::-1], length)[: length - 1][::-1].lstrip("_")
