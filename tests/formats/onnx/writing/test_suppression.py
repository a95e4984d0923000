"""Non-maximum suppression in every engine, where engines differ from MXNet and from each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.backends.registry import ONNX_ENGINES
from quantkit.formats.onnx.writing.model import onnx_model
from tests.networks import DATA, Builder
from tests.requirements import package, requires

onnx = package("onnx")
pytestmark = pytest.mark.usefixtures("engine")

ENGINES = ("onnxruntime", "openvino")


def boxes(count: int = 400, classes: int = 3, side: float = 80.0) -> np.ndarray:
    """Rows of class, score and corners for two images."""
    random = np.random.default_rng(0)
    centres, sizes = random.uniform(0, side, (2, count, 2)), random.uniform(6, 40, (2, count, 2))
    ids, scores = random.integers(0, classes, (2, count, 1)), random.uniform(0, 1, (2, count, 1))
    rows = (ids, scores, centres - sizes / 2, centres + sizes / 2)
    return np.concatenate(rows, axis=2, dtype=np.float32, casting="same_kind")


def assert_same(name: str, rows: np.ndarray, **attrs: Any) -> int:
    """The same rows as in MXNet; returns how many of them are boxes."""
    requires(ONNX_ENGINES[name].package)
    b = Builder()
    given = {"id_index": 0, "overlap_thresh": 0.45, "valid_thresh": 0.01, **attrs}
    graph = b.graph(b.op("_contrib_box_nms", "nms", DATA, **given))
    content = onnx_model(graph, infer_shapes(graph, {"data": (1, *rows.shape[1:])})).SerializeToString()
    (expected,) = run(graph, {"data": rows})
    (found,) = ONNX_ENGINES[name].backend().open_session(content).run({"data": rows})
    np.testing.assert_array_equal(found, expected)
    return int((expected[..., 1] > 0).sum())


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "reference"])
def test_random_boxes(name: str) -> None:
    assert 40 < assert_same(name, boxes(60)) < 120


@pytest.mark.parametrize("name", ENGINES)
def test_a_box_that_reaches_far_does_not_blur_those_of_other_classes(name: str) -> None:
    rows = boxes(classes=2)
    rows[0, 0, 1:] = 1.0, 0, 0, 1e7, 1e7
    assert_same(name, rows)


@pytest.mark.parametrize("name", ENGINES)
def test_of_equal_scores_the_first_stays(name: str) -> None:
    rows = boxes()
    rows[..., 1] = np.ceil(rows[..., 1] * 10) / 10
    assert_same(name, rows)
    # As many of each score as are looked at.
    rows[..., 1] = np.repeat([0.9, 0.5], 200)
    assert_same(name, rows, topk=200)


@pytest.mark.parametrize("name", ENGINES)
def test_an_overlap_of_exactly_the_threshold_is_not_too_much(name: str) -> None:
    rows = np.array([[[0, 0.9, 0, 0, 10, 10], [0, 0.8, 0, 0, 10, 20], [0, 0.7, 0, 40, 10, 61]]], np.float32)
    assert assert_same(name, rows, overlap_thresh=0.5) == 3
    assert assert_same(name, rows, overlap_thresh=0.49) == 2


@pytest.mark.parametrize("name", ENGINES)
def test_with_a_threshold_of_zero_boxes_apart_stay(name: str) -> None:
    corners = [[0, 0, 10, 10], [20, 20, 30, 30], [9, 9, 19, 19]]
    rows = np.array([[[0, 0.9 - 0.1 * place, *box] for place, box in enumerate(corners)]], np.float32)
    assert assert_same(name, rows, overlap_thresh=0) == 2


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    "corners",
    [[10, 0, 0, 10], [0, 10, 10, 0], [10, 10, 0, 0], [5, 0, 5, 10], [0, 5, 10, 5], [5, 5, 5, 5]],
    ids=["left of its beginning", "above its beginning", "both", "no width", "no height", "a point"],
)
def test_boxes_without_area_suppress_none(name: str, corners: list[int]) -> None:
    rows = np.array([[[0, score, *corners] for score in (0.9, 0.8)] + [[0, 0.7, 0, 0, 10, 10]]], np.float32)
    assert assert_same(name, rows) == 3


@pytest.mark.parametrize("name", ENGINES)
def test_a_score_that_is_no_number_is_no_box(name: str) -> None:
    """MXNet finds it not above the least score; OpenVINO finds it greater than any number."""
    rows = boxes(60)
    rows[0, ::7, 1] = np.nan
    assert_same(name, rows)


@pytest.mark.parametrize("name", ENGINES)
def test_large_numbers_of_classes_are_told_apart(name: str) -> None:
    rows = np.array(
        [[[number, 0.9, 0, 0, 10, 10] for number in (20_000, 20_001, -20_000, -20_001, 20_000)]], np.float32
    )
    assert assert_same(name, rows) == 4


@pytest.mark.parametrize("name", ENGINES)
def test_values_that_are_no_classes_take_no_more_memory(name: str) -> None:
    rows = boxes(60)
    rows[0, 0, 0], rows[1, 0, 0] = 1e30, -1e30
    assert_same(name, rows)


def test_classes_are_as_many_as_occur() -> None:
    """Numbers far apart have none between them."""
    from onnx.reference import ReferenceEvaluator

    b = Builder()
    graph = b.graph(b.op("_contrib_box_nms", "nms", DATA, id_index=0))
    model = onnx_model(graph, infer_shapes(graph, {"data": (1, 60, 6)}))
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("nms_by_class"))
    rows = boxes(60)
    rows[0, 0, 0] = 9_000
    _, by_class = ReferenceEvaluator(model).run(None, {"data": rows})
    assert by_class.shape == (2, 4, 60)
