"""Folders of images: flat, with labels.csv, one folder a class; and image files that cannot be read."""

from __future__ import annotations

import os
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.data.decode import decode
from quantkit.data.folder import images_folder
from quantkit.data.samples import Samples
from quantkit.errors import DataError

Array = np.ndarray[Any, Any]
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 4, 3), np.uint8)


def picture(path: Path, shift: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.roll(PIXELS, shift)).save(path)


def seen(samples: Samples) -> list[tuple[str, int | None]]:
    return [(sample.name, sample.label) for sample in samples]


def test_flat(tmp_path: Path) -> None:
    for shift, name in enumerate(["b.png", "a.PNG", "c.bmp"]):
        picture(tmp_path / name, shift)
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden.png").write_text("not an image")
    samples = images_folder(tmp_path)
    assert samples.name == tmp_path.name and len(samples) == 3
    assert seen(samples) == [("a.PNG", None), ("b.png", None), ("c.bmp", None)]
    for sample, shift in zip(samples, [1, 0, 2]):
        np.testing.assert_array_equal(sample.image, np.roll(PIXELS, shift))


def test_labels_csv(tmp_path: Path) -> None:
    for name in ("b.png", "images/a.png", "extra.png"):
        picture(tmp_path / name)
    (tmp_path / "labels.csv").write_text("file,label,split\nimages/a.png,4,test\na.png,3,calib\nb.png,7,test\n")
    assert seen(images_folder(tmp_path)) == [("b.png", 7), ("images/a.png", 3), ("images/a.png", 4)]
    chosen = images_folder(tmp_path, "test")
    assert seen(chosen) == [("b.png", 7), ("images/a.png", 4)]
    assert chosen.name == f"{tmp_path.name}, split test"


def test_an_image_with_and_without_a_label(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "labels.csv").write_text("file,label\na.png,3\na.png,\na.png,1\n")
    assert seen(images_folder(tmp_path)) == [("a.png", None), ("a.png", 1), ("a.png", 3)]


def test_labels_csv_without_labels(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "labels.csv").write_bytes(b"\xef\xbb\xbffile\r\na.png\r\n")
    assert seen(images_folder(tmp_path)) == [("a.png", None)]


@pytest.mark.parametrize(
    ("text", "split", "message"),
    [
        ("name,label\na.png,1\n", None, "no column 'file'"),
        ("", None, "no column 'file'"),
        ("file,label\n", None, "holds no images"),
        ("file,label\na.png,1\nabsent.png,1\n", None, r"'absent.png' of line 3"),
        ("file,label\na.png,cat\n", None, r"label 'cat' of line 2"),
        ("file,label\na.png,-1\n", None, r"label -1 of line 2"),
        ("file,label\na.png\n,2\n", None, r"image '' of line 3"),
        ("file,label\na.png,1\n", "test", "no column 'split'"),
        ("file,label,split\na.png,1,calib\n", "test", "no split 'test'; it has calib"),
        ("file\n\xff", None, "cannot read"),
        ("file\n../a.png\n", None, r"image '../a.png' of line 2 of .* lies outside the folder"),
        ("file\nx/../../a.png\n", None, "lies outside the folder"),
        ("file\n/proc/self/environ\n", None, r"image '/proc/self/environ' of line 2 of .* lies outside the folder"),
        ("file\n" + "a" * 100_000 + "\n", None, "'a{100}' of line 2 of .* does not exist"),
        ("file\n" + "a" * 200_000 + "\n", None, "field larger than field limit"),
        ("file\na\0.png\n", None, "does not exist"),
    ],
)
def test_bad_labels_csv(tmp_path: Path, text: str, split: str | None, message: str) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "labels.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=message):
        images_folder(tmp_path, split)


def test_a_table_with_many_columns_takes_no_memory_for_those(tmp_path: Path) -> None:
    """Lines that have no cell in a column would take memory for it all the same, as dictionaries."""
    picture(tmp_path / "a.png")
    columns = ",".join(str(number) for number in range(10_000))
    (tmp_path / "labels.csv").write_text(f"file,{columns}\n" + "a.png\n" * 1_000)
    tracemalloc.start()
    assert len(images_folder(tmp_path)) == 1_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20


def test_a_table_that_is_too_long(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    with (tmp_path / "labels.csv").open("w") as file:
        file.write("file\na.png\n")
        file.truncate(2**28 + 1)
    with pytest.raises(DataError, match="more than 268435456 bytes"):
        images_folder(tmp_path)


def test_pipes_and_devices_are_no_images(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "endless.png").symlink_to("/dev/zero")
    (tmp_path / "nowhere.png").symlink_to("nothing")
    with pytest.raises(DataError, match="holds no images"):
        images_folder(tmp_path)
    picture(tmp_path / "a.png")
    assert seen(images_folder(tmp_path)) == [("a.png", None)]


def test_class_folders_by_name(tmp_path: Path) -> None:
    for name in ("dog/2.png", "dog/1.png", "cat/9.png", "10/x.png"):
        picture(tmp_path / name)
    assert seen(images_folder(tmp_path)) == [("10/x.png", 0), ("cat/9.png", 1), ("dog/1.png", 2), ("dog/2.png", 2)]


def test_class_folders_by_number(tmp_path: Path) -> None:
    for name in ("10/a.png", "9/b.png", "002/c.png"):
        picture(tmp_path / name)
    assert dict(seen(images_folder(tmp_path))) == {"10/a.png": 10, "9/b.png": 9, "002/c.png": 2}


@pytest.mark.parametrize(
    ("files", "folders", "split", "message"),
    [
        ([], [], None, "holds no images"),
        ([], ["cat", "dog"], None, "holds no images"),
        (["a.png", "cat/b.png"], [], None, "images and folders of images"),
        (["cat/b.png"], ["dog"], None, "class folder 'dog'"),
        (["1/a.png", "01/b.png"], [], None, "the same number"),
        (["a.png"], [], "test", "no labels.csv"),
    ],
)
def test_bad_folders(tmp_path: Path, files: list[str], folders: list[str], split: str | None, message: str) -> None:
    for name in files:
        picture(tmp_path / name)
    for name in folders:
        (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=message):
        images_folder(tmp_path, split)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a folder"):
        images_folder(tmp_path / "absent")


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an image",
        encoded(Image.fromarray(PIXELS))[:60],
        encoded(Image.fromarray(np.tile(PIXELS, (20, 20, 1))), "JPEG")[:800],
        encoded(Image.fromarray(PIXELS)).replace(b"IDAT", b"IDAX"),
        encoded(Image.fromarray(PIXELS.astype(np.uint16)[..., 0] * 256)),
    ],
)
def test_an_unreadable_image_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.png").write_bytes(content)
    with pytest.raises(DataError, match=r"image bad\.png"):
        list(images_folder(tmp_path))


@pytest.mark.requires("user")
def test_a_forbidden_image_is_named(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "a.png").chmod(0)
    with pytest.raises(DataError, match=r"image a\.png: Permission denied"):
        list(images_folder(tmp_path))


def test_grey_transparent_and_turned_images_become_upright_rgb() -> None:
    grey = decode(BytesIO(encoded(Image.fromarray(PIXELS[..., 0]))), "grey")
    np.testing.assert_array_equal(grey, np.repeat(PIXELS[..., :1], 3, axis=2))
    clear = decode(BytesIO(encoded(Image.fromarray(np.dstack([PIXELS, PIXELS[..., 0]])))), "clear")
    np.testing.assert_array_equal(clear, PIXELS)
    exif = Image.Exif()
    exif[0x0112] = 3
    turned = decode(BytesIO(encoded(Image.fromarray(PIXELS), exif=exif)), "turned")
    np.testing.assert_array_equal(turned, PIXELS[::-1, ::-1])
