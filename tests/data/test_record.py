"""RecordIO files against a writer of our own and against MXNet's."""

from __future__ import annotations

import os
import struct
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.data.record import record_file
from quantkit.errors import DataError, SampleError

Array = np.ndarray[Any, Any]

MAGIC = struct.pack("<I", 0xCED7230A)
IMAGES = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), np.uint8)


def png(image: Array, **options: Any) -> bytes:
    file = BytesIO()
    Image.fromarray(image).save(file, "PNG", **options)
    return file.getvalue()


def record(content: bytes) -> bytes:
    """``content`` as a record, cut where it holds the magic number at a multiple of 4."""
    parts, start = [], 0
    for place in range(0, len(content) - 3, 4):
        if content[place : place + 4] == MAGIC:
            parts.append(content[start:place])
            start = place + 4
    parts.append(content[start:])
    flags = [0] if len(parts) == 1 else [1, *[2] * (len(parts) - 2), 3]
    return b"".join(
        MAGIC + struct.pack("<I", flag << 29 | len(part)) + part + bytes(-len(part) % 4)
        for flag, part in zip(flags, parts)
    )


def labelled(label: float, image: bytes) -> bytes:
    return record(struct.pack("<IfQQ", 0, label, 1, 0) + image)


def test_images_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "data.rec"
    path.write_bytes(b"".join(labelled(label, png(image)) for label, image in enumerate(IMAGES)))
    samples = record_file(path)
    assert samples.name == "data.rec" and len(samples) == 4
    assert [sample.label for sample in samples] == [0, 1, 2, 3]
    for sample, image in zip(samples, IMAGES):
        np.testing.assert_array_equal(sample.image, image)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_label_vectors(tmp_path: Path, count: int) -> None:
    content = struct.pack("<IfQQ", count, 6.0, 1, 0) + struct.pack(f"<{count}f", *[9.0] * count) + png(IMAGES[0])
    (tmp_path / "data.rec").write_bytes(record(content))
    (sample,) = record_file(tmp_path / "data.rec")
    assert sample.label == {0: 6, 1: 9}.get(count)
    np.testing.assert_array_equal(sample.image, IMAGES[0])


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_record_cut_at_the_magic_number(tmp_path: Path, times: int) -> None:
    # What follows the end of a PNG is not read, so the number may stand there.
    image = png(IMAGES[0])
    image += bytes(-len(image) % 4) + (MAGIC + b"more") * times
    (tmp_path / "data.rec").write_bytes(labelled(3, image) + labelled(4, png(IMAGES[1])))
    samples = list(record_file(tmp_path / "data.rec"))
    assert [sample.label for sample in samples] == [3, 4]
    np.testing.assert_array_equal(samples[0].image, IMAGES[0])


def test_the_number_inside_the_picture_is_put_back(tmp_path: Path) -> None:
    """A bitmap's pixels stand in the file as they are."""
    image = np.frombuffer(MAGIC * 12, np.uint8).reshape(4, 4, 3)
    file = BytesIO()
    Image.fromarray(image).save(file, "PPM")
    start = len(file.getvalue()) - image.size
    content = file.getvalue()[:start].replace(b"P6", b"P6" + b"\n" * (-start % 4)) + image.tobytes()
    (tmp_path / "data.rec").write_bytes(labelled(3, content))
    (sample,) = record_file(tmp_path / "data.rec")
    np.testing.assert_array_equal(sample.image, image)


def test_what_mxnet_writes(engine: None, tmp_path: Path) -> None:
    from quantkit.backends.mxnet.compat import load_mxnet

    recordio = load_mxnet().recordio
    writer = recordio.MXRecordIO(str(tmp_path / "data.rec"), "w")
    for label, image in enumerate(IMAGES):
        header = struct.pack("IfQQ", 0, float(label), label, 0)
        writer.write(header + png(image) + MAGIC * 5)
    writer.close()
    samples = list(record_file(tmp_path / "data.rec"))
    assert [sample.label for sample in samples] == [0, 1, 2, 3]
    for sample, image in zip(samples, IMAGES):
        np.testing.assert_array_equal(sample.image, image)


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.rec").write_bytes(labelled(0, png(IMAGES[0])) + labelled(1, b"no image"))
    with pytest.raises(DataError, match=r"image record 1 of data\.rec"):
        list(record_file(tmp_path / "data.rec"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no records"),
        (b"something else entirely", "damaged at byte 0"),
        (labelled(0, b"image")[:-8], "damaged at byte 0"),
        (labelled(0, b"image") + MAGIC, "damaged at byte 40"),
        (MAGIC + struct.pack("<I", 0xFFFFFFFF), "damaged at byte 0"),
        (MAGIC + struct.pack("<I", 2 << 29), "damaged at byte 0"),
        (MAGIC + struct.pack("<I", 1 << 29), "ends inside a record"),
        (MAGIC + struct.pack("<I", 1 << 29) + MAGIC + struct.pack("<I", 0), "damaged at byte 8"),
    ],
)
def test_refuses_damage(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "data.rec").write_bytes(content)
    with pytest.raises(DataError, match=message):
        record_file(tmp_path / "data.rec")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"short", "too short"),
        (struct.pack("<IfQQ", 0xFFFFFFFF, 0, 0, 0), "ends inside its 4294967295 labels"),
        (struct.pack("<IfQQ", 0, -2, 0, 0), "label -2.0 of record 0"),
        (struct.pack("<IfQQ", 0, float("nan"), 0, 0), "label nan"),
    ],
)
def test_refuses_what_is_no_image_record(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "data.rec").write_bytes(record(content))
    with pytest.raises(SampleError, match=message) as refused:
        list(record_file(tmp_path / "data.rec"))
    assert refused.value.sample == "record 0 of data.rec"


def test_many_empty_records_take_little_memory(tmp_path: Path) -> None:
    """A record of no bytes takes eight in the file."""
    (tmp_path / "data.rec").write_bytes(record(b"") * 100_000)
    tracemalloc.start()
    assert len(record_file(tmp_path / "data.rec")) == 100_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 800_000


def test_what_is_no_ordinary_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.rec")
    with pytest.raises(DataError, match="not an ordinary file"):
        record_file(tmp_path / "data.rec")
