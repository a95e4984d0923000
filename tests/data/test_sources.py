"""Opening sample data by name or by value."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.data.sources import load_data
from quantkit.errors import DataError
from tests.data.annotations import coco_document, coco_file

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 4, 4, 3), np.uint8)


class Engine:
    """An engine's array."""

    def asnumpy(self) -> Any:
        return PIXELS


def test_named_sets() -> None:
    assert load_data("builtin").name.startswith("built-in photographs")
    assert len(load_data("digits:train")) + len(load_data("digits:test")) == 1797


def test_folder_and_split(tmp_path: Path) -> None:
    for name in "ab":
        Image.fromarray(PIXELS[0]).save(tmp_path / f"{name}.png")
    (tmp_path / "labels.csv").write_text("file,label,split\na.png,1,calib\nb.png,2,test\n")
    assert len(load_data(tmp_path)) == len(load_data(str(tmp_path))) == 2
    assert [sample.label for sample in load_data(f"{tmp_path}:test")] == [2]
    with pytest.raises(DataError, match="no split 'train'"):
        load_data(f"{tmp_path}:train")


def test_a_folder_with_a_colon_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "photos:test"
    folder.mkdir()
    Image.fromarray(PIXELS[0]).save(folder / "a.png")
    assert len(load_data(str(folder))) == 1


def test_names_that_are_no_text_are_written_as_far_as_they_are(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"im\xffg")
    odd.mkdir()
    Image.fromarray(PIXELS[0]).save(odd / "a.png")
    np.savez(odd.with_suffix(".npz"), x=PIXELS)
    for path, name in ((odd, "im\ufffdg"), (odd.with_suffix(".npz"), "im\ufffdg.npz")):
        samples = load_data(path)
        assert samples.name == name
        assert next(iter(samples)).image.shape == (4, 4, 3)


def test_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=PIXELS)
    assert len(load_data(tmp_path / "data.npz")) == 3
    (tmp_path / "data.rec").write_bytes(b"")
    with pytest.raises(DataError, match="no records"):
        load_data(tmp_path / "data.rec")


def test_a_coco_file_gives_its_photographs(tmp_path: Path) -> None:
    document = coco_document({"z.png": ((24, 30), []), "a.png": ((5, 6), [])}, {})
    path = coco_file(tmp_path, document)
    path = path.rename(path.with_suffix(".JSON"))
    samples = load_data(path)
    assert (samples.name, len(samples), samples.independent) == ("instances_val.JSON", 2, True)
    assert [(each.name, each.image.shape, each.label) for each in samples] == [
        ("a.png", (5, 6, 3), None), ("z.png", (24, 30, 3), None),
    ]  # fmt: skip
    caption = {"id": 1, "image_id": document["images"][0]["id"], "caption": "a dog"}
    of_images = {"info": document["info"], "images": document["images"]}
    for other in (of_images, of_images | {"annotations": [caption]}):
        path.write_text(json.dumps(other))
        assert [each.name for each in load_data(path)] == ["a.png", "z.png"]
    path.write_text(json.dumps({"images": [document["images"][0]] * 2}))
    with pytest.raises(DataError, match=r"two entries of .* are image \d+; give each its own id"):
        load_data(path)
    path.write_text(json.dumps(document | {"images": []}))
    with pytest.raises(DataError, match=r"instances_val\.JSON lists no image"):
        load_data(path)
    path.write_text('{"a": 1}')
    with pytest.raises(DataError, match="is damaged at images"):
        load_data(path)


@pytest.mark.parametrize("spec", [PIXELS, (PIXELS, np.arange(3)), Engine(), [PIXELS[:2], PIXELS[2:]], iter([PIXELS])])
def test_values(spec: Any) -> None:
    samples = load_data(spec)
    assert load_data(samples) is samples
    np.testing.assert_array_equal(np.stack([sample.image for sample in samples]), PIXELS)


@pytest.mark.parametrize("spec", ["absent", "absent:test", "", "digits:all", "digits", 7, None, "labels.txt"])
def test_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_text("")
    with pytest.raises(DataError, match=r"sample data.* of VOC's form .*, a COCO file \(\.json\)|no split"):
        load_data(spec)


def test_labels_are_an_array() -> None:
    with pytest.raises(DataError, match=r"labels are of type list; give them as an array: \(samples, numpy.asarray"):
        load_data((np.zeros((2, 3, 4, 4), np.float32), [0, 1]))


def test_opening_loads_no_heavy_package() -> None:
    heavy = "PIL", "skimage", "sklearn", "scipy", "mxnet"
    program = f"import quantkit.data.sources, sys; sys.exit(', '.join({{*{heavy}}} & sys.modules.keys()) or 0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
