"""Preprocessing against plain arithmetic on single pixels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Any, Optional

import numpy as np
import pytest
from PIL import Image

from quantkit.data.builtin import photographs
from quantkit.data.decode import Reduced, decode, decode_reduced
from quantkit.data.preparation import network_input
from quantkit.data.preprocess import Fit, Preprocess, apply, check_input, input_pixels, needed_size, normalized
from quantkit.errors import DataError, UserError

Array = np.ndarray[Any, Any]

PLAIN = Preprocess(None, None, mean=(0.4, 0.5, 0.6), std=(0.1, 0.2, 0.3))


def image(height: int, width: int) -> Array:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def smooth(height: int, width: int) -> Array:
    """Colours that run evenly over the picture, so that scaling has a known result."""
    y, x = np.mgrid[0:height, 0:width]
    ramps = ((y + 0.5) / height, (x + 0.5) / width, (y + x + 1) / (height + width))
    return np.asarray(np.rint(255 * np.stack(ramps, axis=2)), np.uint8)


def test_each_pixel_is_normalised_by_its_channel() -> None:
    pixels = image(3, 5)
    result = apply(PLAIN, pixels)
    assert result.dtype == np.float32 and result.shape == (3, 3, 5) and result.flags.c_contiguous
    for channel in range(3):
        for row in range(3):
            for column in range(5):
                expected = (pixels[row, column, channel] / 255 - PLAIN.mean[channel]) / PLAIN.std[channel]
                assert result[channel, row, column] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_scale_comes_before_mean_and_std() -> None:
    preprocess = Preprocess(None, None, mean=(1, 1, 1), std=(1, 1, 1), scale=127.5)
    pixels = image(4, 4)
    np.testing.assert_allclose(apply(preprocess, pixels), pixels.transpose(2, 0, 1) / 127.5 - 1, atol=1e-6)


def test_rotation_reverses_both_axes_of_the_cropped_image() -> None:
    cropped = replace(PLAIN, crop=4)
    pixels = image(7, 6)
    turned = apply(replace(cropped, rotate180=True), pixels)
    np.testing.assert_array_equal(turned, apply(cropped, pixels)[:, ::-1, ::-1])


@pytest.mark.parametrize(("height", "width"), [(8, 8), (10, 8), (8, 10), (9, 13)])
def test_crop_is_central(height: int, width: int) -> None:
    pixels = image(height, width)
    top, left = (height - 8) // 2, (width - 8) // 2
    expected = apply(PLAIN, pixels)[:, top : top + 8, left : left + 8]
    np.testing.assert_array_equal(apply(replace(PLAIN, crop=8), pixels), expected)


@pytest.mark.parametrize(
    ("height", "width", "expected"), [(64, 96, (32, 48)), (96, 64, (48, 32)), (16, 21, (32, 42)), (32, 40, (32, 40))]
)
def test_resize_sets_the_short_side_and_keeps_the_proportions(
    height: int, width: int, expected: tuple[int, int]
) -> None:
    result = apply(Preprocess(32, None, (0, 0, 0), (1, 1, 1)), smooth(height, width))
    assert result.shape[1:] == expected
    wanted = smooth(*expected).transpose(2, 0, 1) / 255
    inner = (slice(None), slice(2, -2), slice(2, -2))
    np.testing.assert_allclose(result[inner], wanted[inner], atol=0.012)


def triangles(length: int, target: int) -> Array:
    """The weight of each old pixel in each new one: a triangle about its centre, wider where it shrinks."""
    step = length / target
    distance = np.arange(length) + 0.5 - (np.arange(target)[:, None] + 0.5) * step
    weights = np.maximum(0, 1 - np.abs(distance) / max(step, 1))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(("height", "width", "size"), [(64, 96, 32), (45, 61, 32), (200, 150, 32), (16, 21, 32)])
def test_resize_averages_with_triangles_over_all_that_a_pixel_covers(height: int, width: int, size: int) -> None:
    pixels = image(height, width)
    result = apply(Preprocess(size, None, (0, 0, 0), (1, 1, 1), scale=1), pixels)
    rows, columns = triangles(height, result.shape[1]), triangles(width, result.shape[2])
    # Each of the two directions is rounded to whole numbers.
    np.testing.assert_allclose(result, np.einsum("yh,hwc,xw->cyx", rows, pixels, columns), rtol=0, atol=1.01)


def test_an_image_of_the_networks_size_is_resized_and_cropped_like_any_other() -> None:
    preprocess = Preprocess(20, 16, (0, 0, 0), (1, 1, 1))
    pixels = smooth(16, 16)
    assert apply(preprocess, pixels).shape == (3, 16, 16)
    assert not np.array_equal(apply(preprocess, pixels), apply(replace(preprocess, resize=None), pixels))


@pytest.mark.parametrize(
    "wrong",
    [
        image(4, 4).astype(np.float32),
        image(4, 4)[..., 0],
        image(4, 4)[..., :1],
        image(4, 4).transpose(2, 0, 1),
        image(0, 4),
    ],
)
def test_refuses_what_is_no_image(wrong: Array) -> None:
    with pytest.raises(DataError, match=r"cat\.png is"):
        apply(PLAIN, wrong, "cat.png")


def test_refuses_an_image_smaller_than_the_crop() -> None:
    with pytest.raises(DataError, match=r"cat\.png is 10x7 where the preprocessing crops to 8x8"):
        apply(replace(PLAIN, crop=8), image(7, 10), "cat.png")


@pytest.mark.parametrize(("height", "width", "size"), [(1, 100, 10**5), (1, 20_000_000, 256), (7, 10, 2**31 - 1)])
def test_refuses_to_scale_to_more_pixels_than_an_image_may_have(height: int, width: int, size: int) -> None:
    """A thin image of some kilobytes would become one of terabytes, and any image by a stranger's card."""
    pixels = np.broadcast_to(np.uint8(0), (height, width, 3))
    wanted = rf"cat\.png is {width}x{height}, and {width * size // height}x{size} .* short side of {size}: more than 89"
    with pytest.raises(DataError, match=wanted):
        apply(replace(PLAIN, resize=size), pixels, "cat.png")


def test_the_bound_of_scaled_pixels_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_MAX_IMAGE_PIXELS", "3199")
    with pytest.raises(DataError, match=r"more than 3199 pixels; .* or set QUANTKIT_MAX_IMAGE_PIXELS"):
        apply(replace(PLAIN, resize=8), image(2, 100))
    monkeypatch.setenv("QUANTKIT_MAX_IMAGE_PIXELS", "3200")
    assert apply(replace(PLAIN, resize=8), image(2, 100)).shape == (3, 8, 400)


def test_an_image_of_another_size_is_refused_before_it_takes_memory() -> None:
    pixels = np.broadcast_to(np.uint8(0), (1_000_000, 1_000_000, 3))
    problem = r"cat\.png, preprocessed, has shape \(3, 1000000, 1000000\), but the network reads \(3, 4, 4\)"
    with pytest.raises(
        DataError,
        match=problem + r"; .* --resize and --crop, or `resize` and `crop` under \[preprocess\] in its model card",
    ):
        network_input(PLAIN, pixels, (3, 4, 4), "cat.png")


def test_what_a_network_reads() -> None:
    pixels, floats = image(4, 4), np.zeros((3, 4, 4), np.float32)
    np.testing.assert_array_equal(network_input(PLAIN, pixels, (3, 4, 4), "x"), apply(PLAIN, pixels))
    assert network_input(PLAIN, floats, (3, 4, 4), "x") is floats
    with pytest.raises(DataError, match="uint8 pixels where preprocessed float32 is needed"):
        network_input(None, pixels, (3, 4, 4), "x")


def test_check_input_accepts_what_fits() -> None:
    check_input(np.zeros((3, 4, 4), np.float32), (3, 4, 4), "x")


def spoilt(value: float) -> Array:
    array = np.zeros((3, 4, 4), np.float32)
    array[1, 2, 3] = value
    return array


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((3, 4, 4)), "float64.*astype"),
        (np.zeros((3, 4, 4), np.uint8), "uint8 pixels"),
        (np.zeros((3, 4, 4), np.int64), "int64"),
        (np.zeros((4, 4, 3), np.float32), r"shape \(4, 4, 3\).*reads \(3, 4, 4\)"),
        (np.zeros((3, 4, 5), np.float32), r"shape \(3, 4, 5\)"),
        (spoilt(np.nan), "NaN"),
        (spoilt(np.inf), "infinite"),
        (spoilt(-np.inf), "infinite"),
    ],
)
def test_check_input_refuses(wrong: Array, message: str) -> None:
    with pytest.raises(DataError, match=f"sample 7.*{message}"):
        check_input(wrong, (3, 4, 4), "sample 7")


def test_a_fit_scales_the_whole_image() -> None:
    stretched = apply(replace(PLAIN, fit="stretch"), smooth(64, 96), input_shape=(3, 32, 24))
    wanted = apply(PLAIN, smooth(32, 24))
    # The third channel depends on the proportions.
    np.testing.assert_allclose(stretched[:2, 2:-2, 2:-2], wanted[:2, 2:-2, 2:-2], atol=0.12)
    boxed = apply(replace(PLAIN, fit="letterbox"), smooth(64, 96), input_shape=(3, 40, 48))
    black = np.broadcast_to((-np.array(PLAIN.mean) / np.array(PLAIN.std))[:, None, None], (3, 4, 48))
    np.testing.assert_allclose(boxed[:, :4], black, rtol=1e-6)
    np.testing.assert_allclose(boxed[:, -4:], black, rtol=1e-6)
    np.testing.assert_array_equal(boxed[:, 4:-4], apply(replace(PLAIN, resize=32), smooth(64, 96)))


def test_a_fit_needs_the_size_of_the_input() -> None:
    with pytest.raises(UserError, match=r"fit='stretch' needs .* \(channels, height, width\), not None"):
        apply(replace(PLAIN, fit="stretch"), image(4, 4))


@pytest.mark.parametrize("other", [{"resize": 8}, {"crop": 8}])
def test_a_fit_stands_alone(other: dict[str, int]) -> None:
    with pytest.raises(UserError, match="either fit, or resize and crop"):
        Preprocess(fit="letterbox", **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("resize", "fit", "size", "expected"),
    [
        (256, None, (3024, 4032), (512, 682)),
        (256, None, (100, 80), (640, 512)),
        (None, "stretch", (3024, 4032), (448, 600)),
        (None, "letterbox", (3024, 4032), (448, 598)),
        (None, None, (3024, 4032), (3024, 4032)),
    ],
)
def test_twice_the_pixels_are_needed_that_scaling_leaves(
    resize: Optional[int], fit: Optional[Fit], size: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert needed_size(replace(PLAIN, resize=resize, fit=fit), (3, 224, 300), size) == expected


def of_reduced(preprocess: Preprocess, image: Reduced, shape: tuple[int, int, int]) -> np.ndarray:
    return normalized(preprocess, input_pixels(preprocess, image, "it", shape))


# 1151 and 1535 do not fall on whole pixels at a half or a quarter.
@pytest.mark.parametrize("short", [1024, 1151, 1535, 2050])
@pytest.mark.parametrize("preprocess", [Preprocess(256, 224, scale=1), Preprocess(fit="letterbox", scale=1)], ids=repr)
def test_an_image_decoded_at_a_fraction_is_nearly_the_same(short: int, preprocess: Preprocess) -> None:
    for sample in photographs().read(range(2)):
        file = BytesIO()
        picture = Image.fromarray(sample.image)
        factor = short / min(picture.size)
        larger = picture.resize((round(picture.width * factor) + 1, round(picture.height * factor)))
        larger.save(file, "JPEG", quality=90)
        whole = apply(preprocess, decode(file, "it"), "it", (3, 224, 224))
        reduced = decode_reduced(file, "it", partial(needed_size, preprocess, (3, 224, 224)))
        assert reduced.size == larger.size[::-1]
        assert len(reduced.pixels) <= reduced.size[0] // 2 + 1
        difference = np.abs(of_reduced(preprocess, reduced, (3, 224, 224)) - whole)
        assert difference.mean() < 1
        assert difference.max() < 16


@pytest.mark.parametrize("size", [(17, 3584), (3584, 17), (97, 3584), (3584, 97), (16, 16), (57, 64)])
@pytest.mark.parametrize("fit", ["letterbox", "stretch"])
def test_thin_images_keep_their_place(size: tuple[int, int], fit: Fit) -> None:
    preprocess, shape = Preprocess(fit=fit, scale=1), (3, 8, 8) if max(size) < 100 else (3, 224, 224)
    file = BytesIO()
    Image.fromarray(smooth(*size)).save(file, "JPEG", quality=95)
    reduced = decode_reduced(file, "it", partial(needed_size, preprocess, shape))
    whole = apply(preprocess, decode(file, "it"), "it", shape)
    difference = np.abs(of_reduced(preprocess, reduced, shape) - whole)
    assert difference.mean() < 2
