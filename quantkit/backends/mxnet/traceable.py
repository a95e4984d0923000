"""Blocks of GluonCV in a form that can be traced and run: the same results from other operators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from quantkit.backends.mxnet.regions import decoded, detections, detections_and_masks
from quantkit.backends.mxnet.siamese import correlated, tracked

_Forward = Callable[..., Any]


@contextmanager
def traceable_blocks() -> Iterator[None]:
    """Let blocks of GluonCV that do not work on symbols, or need unsafe operators, compute the same by others."""
    loaded = {kind: sys.modules[module] for module, kind in _FORWARDS if module in sys.modules}
    originals = {getattr(module, kind): getattr(module, kind).hybrid_forward for kind, module in loaded.items()}
    forwards: Mapping[str, _Forward] = {kind: forward for (_, kind), forward in _FORWARDS.items()}
    for block in originals:
        block.hybrid_forward = forwards[block.__name__]
    try:
        yield
    finally:
        for block, original in originals.items():
            block.hybrid_forward = original


def _group_norm(block: Any, F: Any, x: Any, gamma: Any, beta: Any) -> Any:  # noqa: N803 (Gluon's name)
    """Wu & He 2018, "Group Normalization" (arXiv 1803.08494). GluonCV's own asks for the size of the batch."""
    groups = F.reshape(x, shape=(0, -4, block.ngroups, -1, -2))
    centred = F.broadcast_sub(groups, F.mean(groups, axis=(2, 3, 4), keepdims=True))
    variance = F.mean(F.square(centred), axis=(2, 3, 4), keepdims=True)
    normalized = F.broadcast_div(centred, F.sqrt(variance + block._kwargs["eps"]))
    normalized = F.reshape(normalized, shape=(0, -3, -2))
    if block.scale:
        normalized = F.broadcast_mul(normalized, _per_channel(F, gamma))
    return F.broadcast_add(normalized, _per_channel(F, beta))


def _per_channel(F: Any, values: Any) -> Any:  # noqa: N803
    return F.reshape(F.expand_dims(values, axis=0), shape=(0, -1, 1, 1))


def _centers(block: Any, F: Any, x: Any, wh: Any, reg: Any) -> Any:  # noqa: N803
    """Zhou et al. 2019, "Objects as Points" (arXiv 1904.07850), section 4: boxes around the strongest peaks.

    GluonCV's own divides 64-bit integers, which ends the process where one is zero. A heatmap has fewer than 2^24
    values, so that float32 counts them.
    """
    extents = F.cast(F.shape_array(x), dtype="float32")
    height, width = (F.slice_axis(extents, axis=0, begin=axis, end=axis + 1) for axis in (2, 3))
    scores, indices = F.topk(F.reshape(x, shape=(0, -1)), k=block._topk, ret_typ="both")
    classes = F.floor(F.broadcast_div(indices, height * width))
    places = F.broadcast_sub(indices, F.broadcast_mul(classes, height * width))
    rows = F.floor(F.broadcast_div(places, width))
    columns = F.broadcast_sub(places, F.broadcast_mul(rows, width))
    shifts, sizes = (F.reshape(F.transpose(each, axes=(0, 2, 3, 1)), shape=(0, -1, 2)) for each in (reg, wh))
    images = F.expand_dims(F.slice_like(F.arange(256), shifts, axes=(0,)), axis=-1)
    images = F.tile(images, reps=(1, block._topk))

    def at_peaks(values: Any, axis: int) -> Any:
        where = F.stack(images, places, F.ones_like(places) * axis, axis=0)
        return F.gather_nd(values, where)

    left, top = columns + at_peaks(shifts, 0), rows + at_peaks(shifts, 1)
    half = [at_peaks(sizes, axis) / 2 for axis in (0, 1)]
    corners = (left - half[0], top - half[1], left + half[0], top + half[1])
    boxes = F.concat(*(F.expand_dims(each, axis=-1) for each in corners), dim=-1)
    return classes, scores, boxes * block._scale


_FORWARDS: Mapping[tuple[str, str], _Forward] = {
    ("gluoncv.nn.gn", "GroupNorm"): _group_norm,
    ("gluoncv.nn.coder", "CenterNetDecoder"): _centers,
    ("gluoncv.nn.coder", "NormalizedBoxCenterDecoder"): decoded,
    ("gluoncv.model_zoo.rcnn.faster_rcnn.faster_rcnn", "FasterRCNN"): detections,
    ("gluoncv.model_zoo.rcnn.faster_rcnn.doublehead_rcnn", "DoubleHeadRCNN"): detections,
    ("gluoncv.model_zoo.rcnn.mask_rcnn.mask_rcnn", "MaskRCNN"): detections_and_masks,
    ("gluoncv.model_zoo.siamrpn.siam_net", "SiamRPN"): tracked,
    ("gluoncv.model_zoo.siamrpn.siam_rpn", "DepthwiseXCorr"): correlated,
}
