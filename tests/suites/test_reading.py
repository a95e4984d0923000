"""How fast images are read and packed: every form is read whole."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
from PIL import Image

HOST = {"cpu": "a processor", "vnni": "no", "mxnet": "1.9.1", "python": "3.11.7", "threads": "all", "cores": "2"}


def test_all_forms_are_read_and_packed(tmp_path: Path) -> None:
    from reading import measured, page

    folder = tmp_path / "images"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(5):
        Image.fromarray(random.integers(0, 256, (40, 40, 3), np.uint8)).save(folder / f"{number}.png")
    found = list(measured(folder, tmp_path, 2))
    assert {each.round for each in found} == {1, 2} and {each.images for each in found} == {5}
    works = {each.work: each.size for each in found}
    assert len(works) == 6 and len(found) == 12
    assert works["read a folder of PNG files"] == sum(each.stat().st_size for each in folder.iterdir())
    assert works["read an .npz file of pixels"] > 5 * 40 * 40 * 3
    assert works["pack the files as they are"] < works["read shards of the same files"]
    lines = page({"command": "it", "host": HOST, "passes": [asdict(each) for each in found]}).splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[-6:]] == sorted(works)
