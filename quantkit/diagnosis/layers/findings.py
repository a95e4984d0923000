"""Findings: what stands out in an analysis, in sentences that say what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from quantkit.data.sample_noun import SampleNoun
from quantkit.diagnosis.layers.analysis import LayerError
from quantkit.diagnosis.layers.calibration import Audit
from quantkit.diagnosis.layers.tensor import TensorUse

# A layer stands out if it adds this much more error than the median layer, in dB; at most so many are named.
_STANDS_OUT = 6.0
_MOST = 3

# The shares above which something is worth a sentence.
_SATURATED = 5e-3
_WIDE = 0.5
_NARROW = 0.25
_UNSETTLED = 0.05
_MOVED = 0.25

# Calibrated and seen inputs that differ by more than this factor come from another preprocessing.
_OTHER_SCALE = 1.5


def findings(
    layers: Sequence[LayerError],
    tensors: Sequence[TensorUse],
    audit: Audit,
    images: int,
    fitted: bool,
    noun: SampleNoun,
) -> tuple[str, ...]:
    """The sentences, those about the data first.

    Args:
        layers: the errors of all layers.
        tensors: how the tensors fit into their integers, the network's input first.
        audit: the calibration compared with the images.
        images: the number of analysed images.
        fitted: whether an algorithm has fitted the weights already.
        noun: what an image is called: inputs may be others.
    """
    return (
        *_input(tensors[0], audit, noun),
        *_overlap(audit, images, noun),
        *_ranges(tensors, audit, images, noun),
        *_layers(layers, fitted),
        *_overflow(layers),
    )


def _input(use: TensorUse, audit: Audit, noun: SampleNoun) -> Iterator[str]:
    statistics = audit.input
    largest = max(abs(use.minimum), abs(use.maximum))
    if use.calibrated and not use.calibrated / _OTHER_SCALE <= largest <= use.calibrated * _OTHER_SCALE:
        pixels = ", all of them whole numbers as pixels are" if statistics.whole and noun == "image" else ""
        remedy = (
            "compare the preprocessing in the bundle's card.toml with that of the data"
            if noun == "image"
            else "bring the data to the scale of those it was calibrated with"
        )
        yield (
            f"The network's input reaches {largest:.3g}{pixels}, where calibration chose {use.calibrated:.3g}: these "
            f"{noun}s are preprocessed in another way; {remedy}"
        )
    if statistics.constant:
        each = "channel" if noun == "image" else "feature"
        yield (
            f"{statistics.constant} of the {noun}s hold one value throughout each {each}; leave them out, or look "
            "whether they were read correctly"
        )


def _overlap(audit: Audit, images: int, noun: SampleNoun) -> Iterator[str]:
    if audit.repeated:
        yield (
            f"{audit.repeated} of the {images} {noun}s were calibrated with, so the network may look better here than "
            f"it is; analyse other {noun}s with --data"
        )


def _ranges(tensors: Sequence[TensorUse], audit: Audit, images: int, noun: SampleNoun) -> Iterator[str]:
    worst = max(tensors, key=lambda tensor: tensor.saturated)
    if worst.saturated > _SATURATED:
        count = sum(tensor.saturated > _SATURATED for tensor in tensors)
        yield (
            f"{100 * worst.saturated:.2g} % of the values of {worst.name} lie beyond its threshold of "
            f"{worst.threshold:.3g} and are cut off (more than {100 * _SATURATED:g} % in {count} of {len(tensors)} "
            f"tensors); calibrate with more {noun}s like these, or with --method minmax"
        )
    typical, most = audit.half_change
    if typical > _UNSETTLED:
        remedy = (
            f"analyse more (the bundle was calibrated with {audit.images})"
            if images < audit.images
            else f"calibrate with more than {images} (the bundle: {audit.images})"
        )
        yield (
            f"Half of these {images} {noun}s would give ranges that differ by {100 * typical:.2g} % in the middle and "
            f"up to {100 * most:.2g} %: so few {noun}s do not settle them; {remedy}"
        )
    typical, most = audit.moved
    if typical > _MOVED:
        yield (
            f"Calibrated on these {noun}s, ranges would differ from the bundle's by {100 * typical:.2g} % in the "
            f"middle and up to {100 * most:.2g} %: the {audit.images} {noun}s of {audit.data} were too few or of "
            f"another kind; calibrate with more {noun}s like these"
        )


def _layers(layers: Sequence[LayerError], fitted: bool) -> Iterator[str]:
    ordered = sorted(layers, key=lambda layer: layer.own.sqnr)
    usual = median(layer.own.sqnr for layer in layers)
    for layer in [layer for layer in ordered if layer.own.sqnr < usual - _STANDS_OUT][:_MOST]:
        yield _layer(layer, usual, fitted)


def _layer(layer: LayerError, usual: float, fitted: bool) -> str:
    weights = layer.weights is not None and layer.weights.sqnr < layer.tensors.sqnr
    whose = "its weights" if weights else "the tensors that it reads and writes"
    reasons = []
    use = layer.output
    if not weights and use is not None:
        if use.saturated > _SATURATED:
            reasons.append(f"{100 * use.saturated:.2g} % of its values are cut off")
        if use.levels < _WIDE:
            reasons.append(f"its values take only {100 * use.levels:.0f} % of the 256 integers")
        if use.narrow_channels > _NARROW:
            reasons.append(f"{100 * use.narrow_channels:.0f} % of its channels use at most 4 of 8 bits")
    why = f" ({', '.join(reasons)})" if reasons else ""
    if not weights:
        remedy = "another --method, or "
    else:
        remedy = "" if fitted else "a preset that fits weights (--preset balanced), or "
    return (
        f"{layer.name} adds more error than others: {layer.own.sqnr:.1f} dB, where the middle layer has {usual:.1f} "
        f"dB, mostly in {whose}{why}; try {remedy}--exclude {layer.name}"
    )


def _overflow(layers: Sequence[LayerError]) -> Iterator[str]:
    hit = [layer for layer in layers if layer.needs_vnni]
    if not hit:
        return
    ordered = sorted(hit, key=lambda layer: layer.without_vnni.sqnr)
    worst = ordered[0]
    names = ", ".join(layer.name for layer in ordered[:_MOST]) + (" and others" if len(hit) > _MOST else "")
    yield (
        f"On processors without VNNI sums saturate in 16 bits, which matters in {len(hit)} of {len(layers)} layers "
        f"({names}): {worst.name} has {worst.without_vnni.sqnr:.1f} dB there instead of {worst.own.sqnr:.1f}, of its "
        f"pairs of products {100 * worst.overflow.share:.2g} % saturate; deploy where `quantkit doctor` finds VNNI, or "
        "keep these layers in FP32 with --exclude"
    )
