"""An analysis as a page and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any, Optional, Union

from quantkit.diagnosis.layers.analysis import Analysis
from quantkit.diagnosis.layers.figures import along, histograms, saturation, shares
from quantkit.evaluation.deviation import Deviation
from quantkit.host.placeholders import hidden
from quantkit.host.revision import described, own_revision
from quantkit.report.page.document import Block, Bullets, Document, Part, Picture, Section, Text
from quantkit.report.page.figure import Figure
from quantkit.report.page.html import page
from quantkit.report.page.table import FACTS, Table
from quantkit.report.study.words import number
from quantkit.units import counted, decibels, percent

_DEFINITIONS = (
    "SQNR is the signal-to-quantization-noise ratio, 10 log10(E[x²] / E[(x-q)²]), of FP32's values x and INT8's q.",
    "Accumulated is the error in the INT8 network; own is that of the layer alone, with FP32's inputs. Errors of "
    "layers do not simply add up: later layers pass on, shrink or enlarge those of earlier ones.",
    "Algorithms fit weights to the inputs that quantized layers compute, not to those of FP32: a layer's own error may "
    "then be larger than without algorithms, and the accumulated error smaller.",
    "Channel shift moves some signed tensors by a constant per channel, which their readers subtract again. These are "
    "compared after subtracting each channel's mean difference from FP32.",
    "Cut off is what lies beyond the largest integer by more than half a step. Integers used is the share of the 256 "
    "values of 8 bits that occur. Channels are narrow whose largest value is below 1/16 of the threshold: they have 4 "
    "of 8 bits at most.",
    "The INT8 network is computed in exact integers, as on processors with VNNI. Without VNNI, sums of unsigned input "
    "may saturate in 16 bits, and weights for signed input have half as many levels.",
)


def analysis_page(analysis: Analysis) -> str:
    """The analysis as one self-contained HTML page."""
    return page(_document(_recorded(analysis)))


def analysis_json(analysis: Analysis) -> dict[str, Any]:
    """The analysis as JSON values: ratios in dB, null if nothing deviates; shares from 0 to 1."""
    content = _plain(asdict(_recorded(analysis)))
    return {"format": "quantkit-analysis", "version": 1, "revision": asdict(own_revision()), **content}


def _recorded(analysis: Analysis) -> Analysis:
    """The analysis with placeholders in the names of images, which may be folders."""
    audit = replace(analysis.calibration, data=hidden(analysis.calibration.data))
    return replace(analysis, data=hidden(analysis.data), calibration=audit)


def json_text(analysis: Analysis) -> str:
    """The analysis as JSON."""
    return json.dumps(analysis_json(analysis), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _document(analysis: Analysis) -> Document:
    agreed, audit, noun = analysis.agreement, analysis.calibration, analysis.noun
    analysed = counted(analysis.images, noun)
    last, worst = analysis.layers[-1], analysis.worst[0]
    if agreed.top1 is None:
        verdict = f"INT8's outputs against FP32's over {analysed}: {'; '.join(agreed.texts)}."
    else:
        verdict = (
            f"INT8 and FP32 agree in the first prediction for {percent(agreed.top1)} of {analysed}; the "
            f"mean cosine of their outputs is {agreed.cosine:.4f}."
        )
    also = (
        f"The output of the last layer, {last.name}, has an SQNR of {decibels(last.accumulated.sqnr)}; most error is "
        f"added by {worst.name} ({decibels(worst.own.sqnr)})."
    )
    repeated = "not known" if audit.repeated is None else str(audit.repeated)
    facts = [
        ("network", analysis.network),
        (f"{noun}s", f"{analysis.images} of {analysis.data}"),
        ("calibrated with", f"{counted(audit.images, noun)} of {audit.data}, method {audit.method}"),
        ("commit of quantkit", described(own_revision())),
        (f"{noun}s calibrated with among those analysed", repeated),
        ("values cut off, over all tensors", f"{100 * audit.beyond:.2g} %"),
        (f"ranges from half of the {noun}s", _changes(audit.half_change)),
        (f"ranges from these {noun}s against the bundle's", _changes(audit.moved)),
        ("input, mean of each channel", ", ".join(map(number, audit.input.mean))),
        ("input, standard deviation", ", ".join(map(number, audit.input.deviation))),
    ]
    sections: list[tuple[str, list[Optional[Block]]]] = [
        ("What was analysed", [Table("Analysis", FACTS, tuple(facts))]),
        ("Layers", [_picture(along(analysis)), _picture(shares(analysis)), _layers(analysis)]),
        ("Tensors", [_picture(histograms(analysis)), _picture(saturation(analysis)), _tensors(analysis)]),
        ("Without VNNI", [_without_vnni(analysis)]),
        ("How to read this", [Bullets(_DEFINITIONS)]),
    ]
    return Document(
        f"Analysis of {analysis.network} in INT8",
        (
            Part(
                analysis.network,
                (verdict, also),
                analysis.findings,
                tuple(Section(title, tuple(block for block in blocks if block)) for title, blocks in sections),
            ),
        ),
        "Made by quantkit.",
    )


def _changes(change: tuple[float, float]) -> str:
    typical, most = change
    return f"differ by {100 * typical:.2g} % in the middle, {100 * most:.2g} % at most"


def _picture(figure: Optional[Figure]) -> Optional[Block]:
    return None if figure is None else Picture(figure, figure.name)


def _decibels(deviation: Optional[Deviation]) -> str:
    if deviation is None:
        return ""
    return decibels(deviation.sqnr).replace(" dB", "")


def _layers(analysis: Analysis) -> Table:
    rows = [
        (
            layer.name,
            str(place),
            layer.operator,
            _decibels(layer.accumulated),
            f"{layer.accumulated.cosine:.4f}",
            _decibels(layer.own),
            _decibels(layer.weights),
            _decibels(layer.tensors),
            "yes" if layer.shifted else "",
        )
        for place, layer in enumerate(analysis.layers, 1)
    ]
    columns = ("layer", "number", "operator", "accumulated", "cosine", "own", "weights only", "tensors only", "shifted")
    return Table("SQNR of all layers in dB", columns, tuple(rows), frozenset({1, 3, 4, 5, 6, 7}))


def _without_vnni(analysis: Analysis) -> Union[Table, Text]:
    hit = sorted(
        (layer for layer in analysis.layers if layer.overflow.share), key=lambda layer: layer.without_vnni.sqnr
    )
    if not hit:
        return Text(f"No sum saturates in 16 bits on these {analysis.noun}s.")
    rows = [
        (
            layer.name,
            f"{100 * layer.overflow.share:.2g} %",
            f"{100 * layer.overflow.channels:.0f} %",
            f"{100 * layer.overflow.worst:.2g} %",
            _decibels(layer.own),
            _decibels(layer.without_vnni),
        )
        for layer in hit
    ]
    columns = ("layer", "pairs", "channels", "pairs in the worst channel", "own, dB", "own without VNNI, dB")
    return Table(
        "Sums that saturate in 16 bits on processors without VNNI",
        columns,
        tuple(rows),
        frozenset(range(1, 6)),
        "There the products of two neighbouring inputs are added in 16 bits first. Pairs is the share of these sums "
        "that saturates, channels the share of output channels where any does.",
    )


def _tensors(analysis: Analysis) -> Table:
    rows = [
        (
            use.name,
            use.dtype,
            number(use.threshold),
            number(use.minimum),
            *(number(use.percentiles[percent]) for percent in (1.0, 50.0, 99.9)),
            number(use.maximum),
            f"{100 * use.saturated:.2g} %",
            f"{100 * use.levels:.0f} %",
            f"{100 * use.narrow_channels:.0f} %",
            f"{100 * use.half_change:.2g} %",
            "" if not use.calibrated else f"{100 * (use.measured / use.calibrated - 1):+.2g} %",
        )
        for use in analysis.tensors
    ]
    columns = (
        "tensor", "type", "threshold", "minimum", "1 %", "50 %", "99.9 %", "maximum", "cut off", "integers used",
        "narrow channels", f"half of the {analysis.noun}s", "against the bundle",
    )  # fmt: skip
    return Table(
        "FP32's values and the integers, all tensors",
        columns,
        tuple(rows),
        frozenset(range(2, 13)),
        "The columns 1 %, 50 % and 99.9 % are percentiles. The last two say by how much ranges change that the "
        f"calibration method chooses from half of the {analysis.noun}s, and from these {analysis.noun}s instead of the "
        "bundle's.",
    )
