"""Folders of images as RecordIO shards: packed, and read again by quantkit and by MXNet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quantkit.data.folder import images_folder
from quantkit.data.pack import Packing, pack
from quantkit.data.preprocess import Preprocess, apply
from quantkit.data.samples import take
from quantkit.data.sources import load_data
from quantkit.errors import DataError, SampleError, UserError

CLASSES = {"ape": 3, "bee": 4}
NUMBER = sum(CLASSES.values())


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Images of two classes, in three formats."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for name, count in CLASSES.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            ending = ("png", "jpg", "bmp")[number % 3]
            pixels = rng.integers(0, 256, (20 + number, 30, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.{ending}")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_images_come_back_with_labels_and_names(photos: Path, tmp_path: Path) -> None:
    packed = pack(photos, tmp_path / "shards", Packing(shard_size=3))
    assert (packed.images, packed.labelled, packed.shards) == (NUMBER, NUMBER, 3)
    assert packed.size == sum(path.stat().st_size for path in (tmp_path / "shards").glob("*.rec"))
    again, plain = load_data(tmp_path / "shards"), images_folder(photos)
    assert (again.name, len(again)) == ("shards", NUMBER)
    for one, other in zip(again, plain, strict=True):
        assert (one.name, one.label) == (other.name, other.label)
        if not other.name.endswith("bmp"):
            np.testing.assert_array_equal(one.image, other.image)
    some = take(again, 4)
    assert [sample.name for sample in some] == [sample.name for sample in take(plain, 4)]


def test_files_of_other_formats_become_jpeg(tmp_path: Path) -> None:
    folder = tmp_path / "gradient"
    folder.mkdir()
    pixels = np.add.outer(np.arange(40), np.arange(50))[:, :, None] * np.ones(3, np.uint8)
    # The content counts, not the name.
    for name, kind in (("a.bmp", "BMP"), ("b.jpg", "WEBP"), ("c.tiff", "PNG")):
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name, kind)
    pack(folder, tmp_path / "shards")
    content = (tmp_path / "shards" / "shard-00000.rec").read_bytes()
    assert (content.count(b"JFIF"), content.count(b"\x89PNG"), content.count(b"WEBP")) == (2, 1, 0)
    for sample in load_data(tmp_path / "shards"):
        np.testing.assert_allclose(sample.image.astype(int), pixels, atol=8)


def test_the_same_images_give_the_same_bytes(photos: Path, tmp_path: Path) -> None:
    for workers in (1, 5):
        pack(photos, tmp_path / str(workers), Packing(16, 80, 2, workers))
    assert contents(tmp_path / "1") == contents(tmp_path / "5")


def test_images_are_scaled_as_preprocessing_scales_them(tmp_path: Path) -> None:
    folder = tmp_path / "gradients"
    folder.mkdir()
    for number in range(3):
        pixels = np.add.outer(np.arange(40 + number), np.arange(50))[:, :, None] * [1, 2, 0.5]
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    pack(folder, tmp_path / "small", Packing(resize=16, quality=100))
    scale = Preprocess(resize=16)
    for one, other in zip(load_data(tmp_path / "small"), images_folder(folder), strict=True):
        assert min(one.image.shape[:2]) == 16
        # JPEG rounds colours.
        np.testing.assert_allclose(apply(scale, one.image), apply(scale, other.image), rtol=0, atol=6 / 255)


@pytest.mark.usefixtures("engine")
def test_mxnet_reads_shards(photos: Path, tmp_path: Path) -> None:
    import mxnet as mx

    pack(photos, tmp_path / "shards", Packing(shard_size=4))
    found = []
    for path in sorted((tmp_path / "shards").glob("*.rec")):
        reader = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "r")
        for key in reader.keys:
            header, image = mx.recordio.unpack(reader.read_idx(key))
            found.append((key, header.label, header.id))
            assert image
    labels = [sample.label for sample in images_folder(photos)]
    assert found == [(number, label, number) for number, label in enumerate(labels)]
    images = mx.io.ImageRecordIter(
        path_imgrec=str(tmp_path / "shards" / "shard-00000.rec"),
        path_imgidx=str(tmp_path / "shards" / "shard-00000.idx"),
        data_shape=(3, 16, 16),
        batch_size=4,
    )
    assert next(images).label[0].asnumpy().tolist() == labels[:4]


def test_images_without_labels_have_none(photos: Path, tmp_path: Path) -> None:
    packed = pack(photos / "ape", tmp_path / "shards")
    assert packed.labelled == 0
    assert [sample.label for sample in load_data(tmp_path / "shards")] == [None] * 3
    # A file for itself, too.
    assert [sample.label for sample in load_data(tmp_path / "shards" / "shard-00000.rec")] == [None] * 3


def test_a_split_is_packed(photos: Path, tmp_path: Path) -> None:
    rows = ["file,label,split", "ape/0.png,5,test", "bee/1.jpg,7,test", "bee/0.png,7,calib"]
    (photos / "labels.csv").write_text("\n".join(rows))
    pack(f"{photos}:test", tmp_path / "shards")
    found = [(sample.name, sample.label) for sample in load_data(tmp_path / "shards")]
    assert found == [("ape/0.png", 5), ("bee/1.jpg", 7)]


def test_a_damaged_image_is_named_and_nothing_is_written(photos: Path, tmp_path: Path) -> None:
    (photos / "bee" / "1.jpg").write_bytes(b"no image")
    out = tmp_path / "shards"
    with pytest.raises(DataError, match=r"cannot read image bee/1\.jpg"):
        pack(photos, out, Packing(shard_size=2))
    assert not out.exists() and sorted(path.name for path in tmp_path.iterdir()) == ["photos"]


def test_what_was_packed_is_replaced_only_by_force(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "shards"
    pack(photos, out)
    with pytest.raises(UserError, match="holds a folder of shards already"):
        pack(photos / "ape", out)
    pack(photos / "ape", out, force=True)
    assert len(load_data(out)) == 3
    with pytest.raises(UserError, match="is not empty and not a folder of shards"):
        pack(photos / "ape", photos / "bee", force=True)


def test_files_of_others_are_not_replaced(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "shards"
    pack(photos, out)
    (out / "mine.rec").touch()
    with pytest.raises(UserError, match=r"holds 'mine\.rec', which is not part of a folder of shards"):
        pack(photos, out, force=True)
    with pytest.raises(UserError, match=r"shards lies in .*photos, whose images are packed"):
        pack(photos, photos / "shards")


def test_names_are_those_of_files(photos: Path, tmp_path: Path) -> None:
    (photos / "ape" / "0.png").rename(photos / "ape" / "na\u00efve \u3000 \u732b.png")
    pack(photos, tmp_path / "shards")
    assert "ape/na\u00efve \u3000 \u732b.png" in [sample.name for sample in load_data(tmp_path / "shards")]
    (photos / "ape" / "1.jpg").rename(photos / "ape" / "two\nlines.jpg")
    with pytest.raises(DataError, match=r"two\\nlines.* rename it"):
        pack(photos, tmp_path / "others")


def test_too_many_shards_are_refused_before_the_work(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantkit.data.pack._MOST_SHARDS", 3)
    with pytest.raises(UserError, match="4 shards are more than 3; give a larger --shard-size"):
        pack(photos, tmp_path / "shards", Packing(shard_size=2))


@pytest.mark.parametrize(("label", "told"), [(2**24, "records hold labels below 16777216"), (2**24 - 1, "")])
def test_labels_that_a_record_cannot_hold(photos: Path, tmp_path: Path, label: int, told: str) -> None:
    (photos / "labels.csv").write_text(f"file,label\nape/0.png,{label}\n")
    if told:
        with pytest.raises(DataError, match=told):
            pack(photos, tmp_path / "shards")
    else:
        pack(photos, tmp_path / "shards")
        assert [sample.label for sample in load_data(tmp_path / "shards")] == [label]


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("shards.json", "{", r"cannot read .*shards\.json"),
        ("shards.json", '{"shards": [{"name": "../secret", "images": 3}]}', "is not valid at 'shards.0.name'"),
        ("shards.json", '{"shards": []}', "is not valid at 'shards'"),
        ("shards.json", '{"shards": [{"name": "shard-00000", "images": 9999}]}', r"shard-00000\.idx cannot list 9999"),
        ("shards.json", '{"shards": [{"name": "shard-00000", "images": 100000000}]}', r"valid at 'shards\.0\.images'"),
        ("shards.json", '{"shards": [{"name": "shard-00001", "images": 7}]}', r"cannot read .*shards\.json"),
        ("shard-00000.idx", "0\t0\n", r"shard-00000\.idx cannot list 7 records"),
        ("shard-00000.idx", "0\t0\n" * 8, r"lists 8 records and shard-00000\.lst 7 names, where shards\.json has 7"),
        ("shard-00000.idx", "0000\n" * 7, r"cannot read .*shard-00000\.idx"),
        ("shard-00000.idx", "0\t-8\n" * 7, r"cannot read .*shard-00000\.idx"),
        ("shard-00000.idx", "0\t999999\n" * 7, r"cannot read .*shard-00000\.rec"),
        ("shard-00000.idx", "0\t4\n" * 7, r"cannot read .*shard-00000\.rec: no record begins at byte 4"),
        ("shard-00000.rec", "short", r"cannot read .*shard-00000\.rec"),
    ],
)
def test_damage_is_told(photos: Path, tmp_path: Path, file: str, content: str, told: str) -> None:
    pack(photos, tmp_path / "shards")
    (tmp_path / "shards" / file).write_text(content)
    with pytest.raises(DataError, match=f"{told}.*; pack the images again"):
        list(load_data(tmp_path / "shards"))


def test_a_missing_shard_is_told(photos: Path, tmp_path: Path) -> None:
    pack(photos, tmp_path / "shards")
    (tmp_path / "shards" / "shard-00000.rec").unlink()
    with pytest.raises(DataError, match=r"cannot read .*shard-00000\.rec: No such file") as refused:
        list(load_data(tmp_path / "shards"))
    assert not isinstance(refused.value, SampleError)


def test_a_damaged_record_is_a_fault_of_one_sample(photos: Path, tmp_path: Path) -> None:
    pack(photos, tmp_path / "shards")
    index = tmp_path / "shards" / "shard-00000.idx"
    lines = index.read_text().splitlines()
    index.write_text("\n".join([lines[0], "1\t4", *lines[2:]]) + "\n")
    samples = load_data(tmp_path / "shards")
    (wrong,) = (sample for number, sample in enumerate(load_data(photos)) if number == 1)
    with pytest.raises(SampleError, match="no record begins at byte 4") as refused:
        list(samples)
    assert refused.value.sample == wrong.name
    assert len(list(samples.read((0, 2, 3, 4, 5, 6)))) == 6


def test_the_list_is_plain(photos: Path, tmp_path: Path) -> None:
    pack(photos, tmp_path / "shards", Packing(shard_size=5))
    document = json.loads((tmp_path / "shards" / "shards.json").read_text())
    shards = [{"name": "shard-00000", "images": 5}, {"name": "shard-00001", "images": 2}]
    assert document == {"format": "quantkit-shards", "version": 1, "shards": shards}


@pytest.mark.parametrize(
    ("name", "value"), [("resize", 0), ("quality", 0), ("quality", 101), ("shard_size", 0), ("workers", 0)]
)
def test_impossible_packings_are_refused(name: str, value: int) -> None:
    with pytest.raises(UserError, match=name):
        Packing(**{name: value})
