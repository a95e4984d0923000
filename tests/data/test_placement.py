"""Where preprocessing puts pixels, against the pixels that preprocessing really moved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantkit.data.placement import Placement, placement
from quantkit.data.preprocess import Preprocess, apply
from quantkit.data.resizing import letterbox_size

# Factors are whole numbers, so that a rectangle of the image is a rectangle of the input.
EXACT = [
    (Preprocess(), (40, 60), (40, 60)),
    (Preprocess(crop=32), (40, 61), (32, 32)),
    (Preprocess(resize=80, crop=64), (40, 60), (64, 64)),
    (Preprocess(resize=80, crop=64, rotate180=True), (40, 60), (64, 64)),
    (Preprocess(fit="stretch"), (40, 60), (80, 180)),
    (Preprocess(fit="stretch", rotate180=True), (40, 60), (80, 180)),
    (Preprocess(fit="letterbox"), (40, 60), (121, 120)),
    (Preprocess(fit="letterbox", rotate180=True), (40, 60), (121, 120)),
    (Preprocess(fit="letterbox"), (60, 40), (120, 200)),
]
BOX = np.array([20.0, 14.0, 31.0, 26.0])


def rectangle(size: tuple[int, int], box: np.ndarray) -> np.ndarray:
    left, top, right, bottom = box.astype(int)
    image = np.zeros((*size, 3), np.uint8)
    image[top:bottom, left:right] = 255
    return image


@pytest.mark.parametrize(("preprocess", "size", "input_size"), EXACT)
def test_a_rectangle_lies_where_the_placement_says(
    preprocess: Preprocess, size: tuple[int, int], input_size: tuple[int, int]
) -> None:
    box = BOX[[1, 0, 3, 2]] if size[0] > size[1] else BOX
    bright = apply(preprocess, rectangle(size, box), input_shape=(3, *input_size))[0] > 0.5
    rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
    seen = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], float)
    placed = placement(preprocess, size, input_size)
    np.testing.assert_allclose(placed.boxes_in_input(box[None])[0], seen, atol=1e-9)
    np.testing.assert_allclose(placed.boxes_in_image(seen[None])[0], box, atol=1e-9)


@pytest.mark.parametrize("rotate180", [False, True])
@pytest.mark.parametrize(
    ("preprocess", "size", "input_size"),
    [
        (Preprocess(resize=37, crop=32), (50, 71), (32, 32)),
        (Preprocess(fit="stretch"), (50, 71), (64, 33)),
        (Preprocess(fit="letterbox"), (50, 71), (64, 64)),
        (Preprocess(fit="letterbox"), (71, 50), (48, 64)),
    ],
)
def test_the_centre_of_a_spot_comes_back(
    preprocess: Preprocess, size: tuple[int, int], input_size: tuple[int, int], rotate180: bool
) -> None:
    y, x = np.mgrid[0 : size[0], 0 : size[1]] + 0.5
    centre = (size[0] * 0.55, size[1] * 0.48)
    spot = np.exp(-((y - centre[0]) ** 2 + (x - centre[1]) ** 2) / (2 * 4.0**2))
    image = np.repeat(np.rint(255 * spot).astype(np.uint8)[..., None], 3, axis=2)
    turned = Preprocess(preprocess.resize, preprocess.crop, rotate180=rotate180, fit=preprocess.fit)
    seen = apply(turned, image, input_shape=(3, *input_size))[0].astype(float)
    rows, columns = np.mgrid[0 : input_size[0], 0 : input_size[1]] + 0.5
    top, left = (float((seen * each).sum() / seen.sum()) for each in (rows, columns))
    back = placement(turned, size, input_size).boxes_in_image(np.array([[left, top, left, top]]))[0]
    np.testing.assert_allclose(back[:2], centre[::-1], atol=0.1)


sides = st.integers(1, 300)


@given(
    st.tuples(sides, sides),
    st.tuples(sides, sides),
    st.sampled_from(["stretch", "letterbox"]),
    st.booleans(),
    st.lists(st.floats(-50, 350), min_size=4, max_size=4),
)
def test_boxes_come_back_from_the_input(
    size: tuple[int, int], input_size: tuple[int, int], fit: str, rotate180: bool, corners: list[float]
) -> None:
    left, right = sorted(corners[:2])
    top, bottom = sorted(corners[2:])
    box = np.array([[left, top, right, bottom]])
    placed = placement(Preprocess(fit=fit, rotate180=rotate180), size, input_size)  # type: ignore[arg-type]
    np.testing.assert_allclose(placed.boxes_in_image(placed.boxes_in_input(box)), box, atol=1e-6)
    whole = placed.boxes_in_input(np.array([[0.0, 0.0, size[1], size[0]]]))[0]
    assert whole.min() >= -1e-9 and whole[2] <= input_size[1] + 1e-9 and whole[3] <= input_size[0] + 1e-9


def test_sizes_in_proportion_are_rounded() -> None:
    assert letterbox_size((40, 61), (30, 30)) == (20, 30) and letterbox_size((61, 40), (30, 30)) == (30, 20)
    assert letterbox_size((40, 64), (30, 30)) == (19, 30) and letterbox_size((1, 300), (30, 30)) == (1, 30)


def test_without_preprocessing_nothing_moves() -> None:
    assert placement(None, (5, 7), (5, 7)) == Placement((5, 7), (5, 7), (1.0, 1.0), (0.0, 0.0))


@pytest.mark.parametrize(("preprocess", "size", "input_size"), EXACT)
def test_a_map_comes_back_onto_the_image(
    preprocess: Preprocess, size: tuple[int, int], input_size: tuple[int, int]
) -> None:
    box = BOX[[1, 0, 3, 2]] if size[0] > size[1] else BOX
    image = rectangle(size, box)
    bright = apply(preprocess, image, input_shape=(3, *input_size))[0] > 0.5
    back = placement(preprocess, size, input_size).map_in_image(bright.astype(np.int16), -1)
    assert back.shape == size
    seen = back >= 0
    np.testing.assert_array_equal(back[seen], (image[..., 0] > 0)[seen])
    if preprocess.crop is None:
        assert seen.all()


def test_what_a_crop_leaves_out_is_unseen() -> None:
    back = placement(Preprocess(crop=2), (4, 5), (2, 2)).map_in_image(np.array([[1, 2], [3, 4]], np.int16), -1)
    assert back.tolist() == [[-1] * 5, [-1, 1, 2, -1, -1], [-1, 3, 4, -1, -1], [-1] * 5]


def test_a_map_may_be_coarser_than_the_input() -> None:
    back = Placement((4, 4), (4, 4)).map_in_image(np.array([[1, 2], [3, 4]], np.int16), -1)
    assert back.tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
