"""Image files of every kind, and such as mean harm."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageFile, PngImagePlugin

from quantkit.data.decode import PIXELS_VARIABLE, decode, decode_classes, decode_reduced
from quantkit.data.resizing import Size
from quantkit.errors import DataError, SampleError, UserError

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *more: bytes, depth: int = 8, colour: int = 2, values: bytes = b"") -> bytes:
    """A PNG file that says to be of that size."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = (png_chunk(b"IHDR", header), *more, png_chunk(b"IDAT", zlib.compress(values)), png_chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_postscript_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow hands PostScript to Ghostscript, by whatever name it goes."""
    started = tmp_path / "started"
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {started}\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "cat.jpg").write_bytes(program)
    with pytest.raises(DataError, match=r"cannot read image cat\.jpg"):
        decode(tmp_path / "cat.jpg", "cat.jpg")
    assert not started.exists()


@pytest.mark.parametrize("kind", ["PCX", "TGA", "ICO", "SGI", "PDF", "EPS", "ICNS", "JPEG2000"])
def test_other_formats_are_refused(kind: str) -> None:
    with pytest.raises(DataError, match=r"^cannot read image it: it is none of BMP, GIF, JPEG, .* leave it out$"):
        decode(BytesIO(encoded(Image.fromarray(PIXELS), kind)), "it")


@pytest.mark.parametrize("kind", ["BMP", "GIF", "PNG", "PPM", "TIFF", "WEBP"])
def test_formats_without_loss(kind: str) -> None:
    image = Image.fromarray(PIXELS)
    expected = np.array(image.quantize(255).convert("RGB")) if kind == "GIF" else PIXELS
    options = {"lossless": True} if kind == "WEBP" else {}
    found = decode(BytesIO(encoded(image.quantize(255) if kind == "GIF" else image, kind, **options)), "it")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "P", "LA", "RGBA", "1", "L"])
def test_colour_spaces_become_rgb(mode: str) -> None:
    image = Image.fromarray(PIXELS).convert(mode)
    content = encoded(image, "TIFF")
    np.testing.assert_array_equal(decode(BytesIO(content), "it"), np.array(image.convert("RGB")))


def test_the_first_picture_of_an_animation() -> None:
    frames = [Image.fromarray(np.full((8, 8), value, np.uint8)) for value in (10, 200)]
    for kind in ("GIF", "PNG", "WEBP", "TIFF"):
        content = encoded(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)
        assert (decode(BytesIO(content), "it") == 10).all(), kind


def test_colours_of_16_bits_keep_the_upper_eight() -> None:
    values = np.random.default_rng(0).integers(0, 65536, (4, 5, 3)).astype(">u2")
    rows = b"".join(b"\0" + row.tobytes() for row in values)
    found = decode(BytesIO(png(5, 4, depth=16, values=rows)), "it")
    np.testing.assert_array_equal(found, values >> 8)


@pytest.mark.parametrize("mode", ["RGB", "P", "CMYK", "LA"])
def test_large_images_are_converted_in_strips(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.fromarray(PIXELS).convert(mode)
    content = encoded(image, "TIFF")
    for strip in (1, 70, 30 * 39, 30 * 40):
        monkeypatch.setattr("quantkit.data.decode._STRIP", strip)
        np.testing.assert_array_equal(decode(BytesIO(content), "it"), np.array(image.convert("RGB")))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("width", "height"), [(9500, 9500), (30_000, 30_000), (2**31 - 1, 1), (1, 2**31 - 1), (2**31 - 1, 2**31 - 1)]
)
def test_huge_images_are_refused_before_they_are_decoded(width: int, height: int) -> None:
    with pytest.raises(DataError, match=f"image it.* pixels.*leave it out, or set {PIXELS_VARIABLE}"):
        decode(BytesIO(png(width, height)), "it")


def test_the_bound_on_pixels_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encoded(Image.fromarray(PIXELS))
    monkeypatch.setenv(PIXELS_VARIABLE, "1199")
    with pytest.raises(DataError, match=f"has 30x40 pixels, more than 1199; .*{PIXELS_VARIABLE}=1200"):
        decode(BytesIO(content), "it")
    monkeypatch.setenv(PIXELS_VARIABLE, "1200")
    assert decode(BytesIO(content), "it").shape == PIXELS.shape
    for wrong in ("many", "-1", "9" * 5000):
        monkeypatch.setenv(PIXELS_VARIABLE, wrong)
        with pytest.raises(UserError, match=f"{PIXELS_VARIABLE} is '{wrong}'"):
            decode(BytesIO(content), "it")


def test_the_bound_on_pixels_can_be_raised_beyond_pillows_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    with pytest.raises(DataError, match="exceeds limit of 1000"):
        decode(BytesIO(encoded(Image.fromarray(PIXELS))), "it")
    monkeypatch.setenv(PIXELS_VARIABLE, "1200")
    assert decode(BytesIO(encoded(Image.fromarray(PIXELS))), "it").shape == PIXELS.shape


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "GIF"])
def test_what_is_cut_off_is_refused_whatever_others_told_pillow(
    kind: str, lenient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    content = encoded(Image.fromarray(PIXELS), kind)
    with pytest.raises(DataError, match="cannot read image it"):
        decode(BytesIO(content[: len(content) // 2]), "it")
    assert lenient == ImageFile.LOAD_TRUNCATED_IMAGES


def test_threads_do_not_undo_each_others_strictness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    whole = encoded(Image.fromarray(PIXELS), "JPEG")

    def refused(position: int) -> bool:
        try:
            decode(BytesIO(whole if position % 2 else whole[: len(whole) // 2]), "it")
        except DataError:
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(refused, range(400))) == [True, False] * 200
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True


@pytest.mark.parametrize(
    "chunk",
    [
        png_chunk(b"zTXt", b"key\0\0" + zlib.compress(bytes(2**27))),
        png_chunk(b"iTXt", b"key\0\1\0\0\0" + zlib.compress(bytes(2**27))),
        png_chunk(b"iCCP", b"key\0\0" + zlib.compress(bytes(2**27))),
    ],
    ids=["zTXt", "iTXt", "iCCP"],
)
def test_text_does_not_unpack_without_end(chunk: bytes) -> None:
    """An eighth of a gigabyte of text in a file of 130 kB: refused, or left out."""
    before = PngImagePlugin.MAX_TEXT_CHUNK
    try:
        found = decode(BytesIO(png(2, 1, chunk, values=b"\0" + bytes(range(6)))), "it")
    except DataError as error:
        assert "image it" in str(error)
    else:
        np.testing.assert_array_equal(found, [[[0, 1, 2], [3, 4, 5]]])
    assert before == PngImagePlugin.MAX_TEXT_CHUNK <= 2**20


def test_what_is_no_ordinary_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "endless.png").symlink_to("/dev/zero")
    for name, reason in (
        ("pipe.png", "not an ordinary file"),
        ("endless.png", "not an ordinary file"),
        (".", "directory"),
    ):
        with pytest.raises(DataError, match=reason):
            decode(tmp_path / name, name)


def test_a_link_to_an_image_is_followed(tmp_path: Path) -> None:
    """Data sets are often folders of links into a store."""
    (tmp_path / "store").write_bytes(encoded(Image.fromarray(PIXELS)))
    (tmp_path / "cat.png").symlink_to("store")
    np.testing.assert_array_equal(decode(tmp_path / "cat.png", "cat.png"), PIXELS)


def test_classes_are_read_as_they_are_stored(tmp_path: Path) -> None:
    values = np.array([[0, 1, 255], [7, 20, 3]], np.uint8)
    grey, palette = Image.fromarray(values), Image.fromarray(values)
    palette.putpalette([255 - index // 3 for index in range(768)])
    for name, image in (("grey", grey), ("palette", palette)):
        image.save(tmp_path / f"{name}.png")
        np.testing.assert_array_equal(decode_classes(tmp_path / f"{name}.png", name), values)
    Image.fromarray(np.zeros((2, 3, 3), np.uint8)).save(tmp_path / "colours.png")
    with pytest.raises(DataError, match="image colours is of mode RGB, not one value of 8 bits a pixel; save its"):
        decode_classes(tmp_path / "colours.png", "colours")


@pytest.mark.parametrize("content", [b"no image", png(9, 9, values=b"few"), png(2, 2, depth=16, colour=0), None])
def test_an_image_that_cannot_be_read_says_nothing_of_others(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(SampleError) as refused:
        decode(tmp_path / "a.png", "it")
    assert refused.value.sample == "it" and "it" in str(refused.value)


def test_a_folder_that_is_gone_is_no_fault_of_one_image(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read image it: No such file") as refused:
        decode(tmp_path / "gone" / "a.png", "it")
    assert not isinstance(refused.value, SampleError)


@pytest.mark.parametrize(
    ("error", "of_one"),
    [
        (OSError(errno.EIO, "Input/output error"), True),
        (OSError(errno.EMFILE, "Too many open files"), False),
        (OSError(errno.ESTALE, "Stale file handle"), False),
        (MemoryError(), False),
    ],
)
def test_what_this_process_lacks_is_no_fault_of_one_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, of_one: bool
) -> None:
    def fail(path: Path) -> None:
        raise error

    monkeypatch.setattr("quantkit.data.decode.open_ordinary", fail)
    with pytest.raises(DataError, match="cannot read image it") as refused:
        decode(tmp_path / "a.png", "it")
    assert isinstance(refused.value, SampleError) == of_one


@pytest.mark.parametrize(
    ("enough", "size"),
    [
        ((101, 140), (200, 300)),
        ((100, 75), (100, 150)),
        ((26, 39), (50, 75)),
        ((1, 1), (25, 38)),
        ((900, 900), (200, 300)),
    ],
)
@pytest.mark.parametrize("orientation", [1, 6])
def test_jpeg_is_decoded_at_what_is_enough(enough: Size, size: Size, orientation: int) -> None:
    photograph = smooth(200, 300)
    upright = Image.fromarray(photograph)
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose.ROTATE_90)
    file = encoded(stored, "JPEG", quality=95, exif=oriented(orientation))
    asked: list[Size] = []

    def told(of: Size) -> Size:
        asked.append(of)
        return enough

    found, own, fraction = decode_reduced(BytesIO(file), "it", told)
    assert asked == [own] == [(200, 300)]
    assert found.shape == (*size, 3)
    assert fraction == 200 // size[0]
    expected = np.asarray(upright.resize((size[1], size[0]), Image.Resampling.BOX))
    assert np.abs(found.astype(int) - expected).mean() < 2


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "GIF", "BMP"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_other_files_are_decoded_whole(kind: str, orientation: int) -> None:
    options = {"exif": oriented(orientation)} if kind in ("PNG", "WEBP", "TIFF") else {}
    file = encoded(Image.fromarray(PIXELS), kind, **options)
    found = decode_reduced(BytesIO(file), "it", lambda size: (1, 1))
    np.testing.assert_array_equal(found.pixels, decode(BytesIO(file), "it"))
    assert found.size == found.pixels.shape[:2]
    assert found.fraction == 1


def smooth(height: int, width: int) -> np.ndarray:
    """An image whose left, right, top and bottom differ."""
    down, across = np.mgrid[:height, :width]
    return np.stack([255 * down / height, 255 * across / width, 128 + 0 * down], axis=2).astype(np.uint8)


def oriented(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    return exif
