"""GluonCV's detectors of two stages as symbols: Faster, double-head and Mask R-CNN, for batches of any size.

GluonCV's own take one image at a time, and pool regions with an operator that trusts the image number of each box.
These compute the same of each image from operators that files may hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

# Of each cell of a region, along each side; GluonCV has no other number.
_POINTS = 2

# Farther from the map than a pixel: what is sampled there is 0. The map lies from -1 to 1.
_OUTSIDE = 3.0

# The side of boxes that Lin et al. 2017, "Feature Pyramid Networks" (arXiv 1612.03144), pool from level 4.
_CANONICAL_SIDE = 224.0
_FIRST_CANONICAL_LEVEL = 4
_LAST_POOLED_LEVEL = 5


def detections(block: Any, F: Any, x: Any) -> Any:  # noqa: N803 (Gluon's name)
    """Ren et al. 2015, "Faster R-CNN" (arXiv 1506.01497): ids, scores and boxes of the images ``x``."""
    ids, scores, boxes, _ = _detected(block, F, x)
    return ids, scores, boxes


def detections_and_masks(block: Any, F: Any, x: Any) -> Any:  # noqa: N803
    """He et al. 2017, "Mask R-CNN" (arXiv 1703.06870): ids, scores, boxes and the masks in them of the images ``x``."""
    ids, scores, boxes, maps = _detected(block, F, x)
    number = block._rcnn_max_dets
    order = F.argsort(F.squeeze(scores, axis=-1), axis=1, is_ascend=False)
    best = F.slice_axis(order, axis=1, begin=0, end=number)
    images = F.tile(F.expand_dims(F.contrib.arange_like(best, axis=0), axis=-1), reps=(1, number))
    where = F.stack(images, best, axis=0)
    ids, scores, boxes = (F.gather_nd(each, where) for each in (ids, scores, boxes))
    regions = _regions(block, F, maps, boxes)
    top = regions if block.top_features is None else block.top_features(regions)
    # GluonCV's own head takes all regions for those of one image.
    masks = block.mask.mask(F.relu(block.mask.deconv(top)))
    classes = F.reshape(F.clip(ids, 0, block.num_class - 1), shape=(-1,))
    own = F.gather_nd(masks, F.stack(F.contrib.arange_like(classes, axis=0), classes, axis=0))
    return ids, scores, boxes, F.sigmoid(F.reshape(own, shape=(-4, -1, number, 0, 0)))


def decoded(block: Any, F: Any, x: Any, anchors: Any) -> Any:  # noqa: N803
    """Boxes by their corners from offsets ``x`` to anchors, whose leading axes may be broadcast."""
    if block._format == "center" and not block._minimal_opset:
        clip = -1 if block._clip is None else block._clip
        return F.contrib.box_decode(x, anchors, *block._stds, clip=clip, format=block._format)
    to_center = block.corner_to_center
    centered = F.split(anchors, axis=-1, num_outputs=4) if to_center is None else to_center(anchors)
    column, row, width, height = centered
    offsets = F.split(x, axis=-1, num_outputs=4)
    across, down, wider, higher = (offset * std for offset, std in zip(offsets, block._stds))
    # GluonCV's own turns None into -1 when it first runs.
    if block._clip is not None and block._clip > 0:
        wider, higher = F.minimum(wider, block._clip), F.minimum(higher, block._clip)
    across = F.broadcast_add(F.broadcast_mul(across, width), column)
    down = F.broadcast_add(F.broadcast_mul(down, height), row)
    half_width = F.broadcast_mul(F.exp(wider), width) * 0.5
    half_height = F.broadcast_mul(F.exp(higher), height) * 0.5
    return F.concat(across - half_width, down - half_height, across + half_width, down + half_height, dim=-1)


def _detected(block: Any, F: Any, x: Any) -> tuple[Any, Any, Any, list[Any]]:  # noqa: N803
    """Ids, scores and boxes, of shapes (images, detections, 1 or 4), and the feature maps that they come from."""
    features = block.features(x)
    maps = list(features) if isinstance(features, (list, tuple)) else [features]
    _, proposals = block.rpn(F.zeros_like(x), *maps)
    regions = _regions(block, F, maps, proposals)
    top = regions if block.top_features is None else block.top_features(regions)
    for_classes, for_boxes = _heads(block, F, top)
    number, classes = block._rpn_test_post_nms, block.num_class
    logits = F.reshape(block.class_predictor(for_classes), shape=(-4, -1, number, 0))
    ids, scores = block.cls_decoder(F.softmax(logits, axis=-1))
    ids, scores = (F.expand_dims(F.transpose(each, axes=(0, 2, 1)), axis=-1) for each in (ids, scores))
    offsets = F.reshape(block.box_predictor(for_boxes), shape=(-4, -1, number, -4, classes, 4))
    boxes = block.box_decoder(F.transpose(offsets, axes=(0, 2, 1, 3)), F.expand_dims(proposals, axis=1))
    rows = F.concat(ids, scores, boxes, dim=-1)
    if block.force_nms:
        rows = F.reshape(rows, shape=(0, -3, 0))
    rows = F.contrib.box_nms(
        rows, overlap_thresh=block.nms_thresh, topk=block.nms_topk, valid_thresh=0.0001,
        id_index=0, score_index=1, coord_start=2, force_suppress=block.force_nms,
    )  # fmt: skip
    if not block.force_nms:
        rows = F.reshape(rows, shape=(0, -3, 0))
    ids, scores, boxes = (F.slice_axis(rows, axis=-1, begin=begin, end=end) for begin, end in ((0, 1), (1, 2), (2, 6)))
    return ids, scores, boxes, maps


def _heads(block: Any, F: Any, top: Any) -> tuple[Any, Any]:  # noqa: N803
    """What classes and what boxes are predicted from; see Wu et al. 2020, "Double-Head R-CNN" (arXiv 1904.06493)."""
    if block.box_features is not None:
        for_boxes = block.box_features(top)
    else:
        double = hasattr(block, "newbox_features")
        for_boxes = F.contrib.AdaptiveAvgPooling2D(block.newbox_features(top) if double else top, output_size=1)
    return (block.class_features(top) if hasattr(block, "class_features") else for_boxes), for_boxes


def _regions(block: Any, F: Any, maps: Sequence[Any], boxes: Any) -> Any:  # noqa: N803
    """Feature maps of the regions in ``boxes``, of shape (images, regions, 4); images and regions become one axis."""
    if block._roi_mode != "align":
        raise ValueError(f"roi_mode={block._roi_mode!r} pools regions of one image only; make it with roi_mode='align'")
    if block.num_stages == 1:
        return pooled(F, maps[0], boxes, block._roi_size, block._strides)
    last = block._max_stage if block._max_stage <= _LAST_POOLED_LEVEL else block._max_stage - 1
    left, top, right, bottom = F.split(boxes, axis=-1, num_outputs=4)
    side = F.sqrt((right - left + 1) * (bottom - top + 1))
    level = F.floor(F.log2(side / _CANONICAL_SIDE + 1e-6) + _FIRST_CANONICAL_LEVEL)
    level = F.clip(level, block._min_stage, last)
    levels = [
        pooled(F, each, boxes, block._roi_size, stride, level == number)
        for number, each, stride in zip(range(block._min_stage, last + 1), maps, block._strides)
    ]
    return F.add_n(*levels)


def pooled(F: Any, features: Any, boxes: Any, size: Sequence[int], stride: float, among: Any = None) -> Any:  # noqa: N803
    """RoIAlign (He et al. 2017, section 3): each cell is the mean of points that are interpolated bilinearly.

    Args:
        F: MXNet's symbols.
        features: of shape (images, channels, height, width).
        boxes: of shape (images, regions, 4), corners in pixels of the input.
        size: rows and columns of a pooled region.
        stride: pixels of the input to one of ``features``.
        among: 1 for the boxes that count, of shape (images, regions, 1); the others' regions are 0.

    Returns:
        the pooled regions, of shape (images * regions, channels, rows, columns).
    """
    rows, columns = size
    left, top, right, bottom = F.split(boxes * (1.0 / stride), axis=-1, num_outputs=4)
    downs = [_places(F, features, 2, top, bottom, rows, point, among) for point in range(_POINTS)]
    acrosses = [_places(F, features, 3, left, right, columns, point, among) for point in range(_POINTS)]
    total: Any = None
    for down, across in product(downs, acrosses):
        down, across = F.expand_dims(down, axis=3), F.expand_dims(across, axis=2)
        grid = F.stack(F.broadcast_add(across, F.zeros_like(down)), F.broadcast_add(down, F.zeros_like(across)), axis=1)
        # (images, 2, regions, rows, columns) as one map of many rows.
        sampled = F.BilinearSampler(features, F.reshape(grid, shape=(0, 0, -3, 0)))
        total = sampled if total is None else F.add_n(total, sampled)
    mean = F.reshape(total * (1.0 / _POINTS**2), shape=(0, 0, -4, -1, rows, 0))
    return F.reshape(F.transpose(mean, axes=(0, 2, 1, 3, 4)), shape=(-3, 0, 0, 0))


def _places(F: Any, features: Any, axis: int, first: Any, last: Any, cells: int, point: int, among: Any) -> Any:  # noqa: N803
    """Where along an axis of ``features`` one point of each cell lies, from -1 to 1: (images, regions, cells)."""
    extent = F.cast(F.slice_axis(F.shape_array(features), axis=0, begin=axis, end=axis + 1), dtype="float32")
    extent = F.reshape(extent, shape=(1, 1, 1))
    step = F.maximum(last - first, 1.0) / cells
    offsets = F.reshape(F.arange(cells), shape=(1, 1, cells)) + (point + 0.5) / _POINTS
    place = F.broadcast_add(F.broadcast_mul(step, offsets), first)
    inside = (place >= -1.0) * F.broadcast_lesser_equal(place, extent)
    if among is not None:
        inside = F.broadcast_mul(inside, among)
    largest = extent - 1
    nearest = F.broadcast_minimum(F.maximum(place, 0.0), largest)
    centred = F.broadcast_div(nearest * 2.0, F.maximum(largest, 1.0)) - 1.0
    return F.where(inside, centred, F.ones_like(centred) * _OUTSIDE)
