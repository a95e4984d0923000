"""Networks whose answers are known: a detector that reads its detections from pixels, and one that reads colours."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.data.boxes import BoxCorners
from quantkit.data.preprocess import Preprocess
from quantkit.evaluation.network import Network
from quantkit.ir.graph import Graph
from quantkit.models.families import Task
from tests.networks import DATA, Builder

ROWS, COLUMNS = 12, 6
RAW = Preprocess(scale=1.0, fit="stretch")
"""Pixels as they are, of images that have the size of the input."""


def pixel_detector(shift: float = 0.0) -> Graph:
    """Reads a detection from each row of the red channel: class + 1, score * 200, and edges * 10, and moves it."""
    b = Builder()
    red = b.op("slice_axis", "red", DATA, axis=1, begin=0, end=1)
    rows = b.op("Reshape", "rows", red, shape=(0, -1, COLUMNS))
    ids = b.op("_minus_scalar", "ids", b.op("slice_axis", "c0", rows, axis=2, begin=0, end=1), scalar=1)
    scores = b.op("_div_scalar", "scores", b.op("slice_axis", "c1", rows, axis=2, begin=1, end=2), scalar=200)
    edges = b.op("_div_scalar", "edges", b.op("slice_axis", "c2", rows, axis=2, begin=2, end=6), scalar=10)
    return b.graph(ids, scores, b.op("_plus_scalar", "boxes", edges, scalar=shift))


def box_detector() -> Graph:
    """Reads scores and edges as ``pixel_detector`` does, for one class, and leaves suppression to its caller."""
    b = Builder()
    red = b.op("slice_axis", "red", DATA, axis=1, begin=0, end=1)
    rows = b.op("Reshape", "rows", red, shape=(0, -1, COLUMNS))
    score = b.op("_div_scalar", "score", b.op("slice_axis", "c1", rows, axis=2, begin=1, end=2), scalar=200)
    scores = b.op("Concat", "scores", b.op("_rminus_scalar", "none", score, scalar=1), score, dim=2, num_args=2)
    edges = b.op("_div_scalar", "edges", b.op("slice_axis", "c2", rows, axis=2, begin=2, end=6), scalar=10)
    sides = b.param("sides", np.array([COLUMNS, ROWS, COLUMNS, ROWS]).reshape(1, 1, 4))
    return b.graph(scores, b.op("broadcast_div", "boxes", edges, sides))


def pixels(*detections: tuple[tuple[float, float, float, float], float, int]) -> np.ndarray:
    """An image, (``ROWS``, ``COLUMNS``), in which ``pixel_detector`` sees these edges, scores and classes."""
    image = np.zeros((ROWS, COLUMNS, 3), np.uint8)
    for row, (edges, score, label) in enumerate(detections):
        image[row, :, 0] = [label + 1, round(score * 200), *(round(edge * 10) for edge in edges)]
    return image


def colour_segmenter(size: int, threshold: float = 0.5) -> Graph:
    """Class 1 where red is above a threshold, class 2 where green is, else the background; of input (3, size, size)."""
    b = Builder()
    weight = b.param("weight", np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]).reshape(3, 3, 1, 1))
    bias = b.param("bias", np.array([threshold, 0, 0]))
    return b.graph(b.op("Convolution", "scores", DATA, weight, bias, kernel=(1, 1), num_filter=3))


def network(graph: Graph, shape: tuple[int, ...], preprocess: Preprocess, labels: tuple[str, ...] = ()) -> Network:
    return Network("net", "fp32", graph, shape, preprocess, "given", labels)


def bundle(
    graph: Graph,
    shape: tuple[int, ...],
    preprocess: Preprocess,
    labels: tuple[str, ...],
    path: Path,
    task: Optional[Task] = None,
    box_corners: BoxCorners = "edges",
) -> Path:
    """The network as a bundle in FP32."""
    from quantkit.bundle import write_float_bundle
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.models.model import Model, Source

    samples = np.random.default_rng(0).integers(0, 256, (2, *shape[1:], 3), np.uint8)
    source = Source("net", "given", "made by hand", "5" * 64)
    model = Model("net", graph, shape, preprocess, source, labels, task=task, box_corners=box_corners)
    return write_float_bundle(fuse_model(model, samples), path)
